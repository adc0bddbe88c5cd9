//! The client's end: it asks once the server has said its nonce, and then knows what the server's bytes mean.

use super::token::Token;
use super::{Answer, Breach, GREETING, HASH, Kind, MAGIC, NONCE, Request, Status, VERSION};

/// What came from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News<'a> {
    /// It answered the request.
    Answer(Answer),
    /// The next bytes of the object (get, generate).
    Bytes(&'a [u8]),
    /// The object is whole; its hash, as the server says (get).
    Whole(Option<[u8; HASH]>),
    /// How the transfer ended (put, discard), perhaps before all was sent.
    End(Answer),
}

/// One session, seen from the client.
#[derive(Debug)]
pub struct Client {
    request: Request,
    token: Option<Token>,
    state: State,
    /// The beginning of something that is not there whole.
    held: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Greeting,
    Answer,
    /// This many bytes are missing.
    Body(u64),
    Hash,
    /// The last word is missing.
    End,
    Over,
}

impl Client {
    /// A session that asks for this.
    pub fn new(request: Request, token: Option<Token>) -> Self {
        Self { request, token, state: State::Greeting, held: Vec::new() }
    }

    /// Takes what comes next off the front of `input`; `None` when it needs more, and all of `input` is taken in. What is to be
    /// sent to the server is appended to `out`: the request, once the server has spoken.
    ///
    /// # Errors
    /// The server broke the protocol, or the request cannot be written.
    pub fn read<'a>(&mut self, input: &mut &'a [u8], out: &mut Vec<u8>) -> Result<Option<News<'a>>, Breach> {
        loop {
            match self.state {
                State::Greeting => {
                    let Some(greeting) = self.gather::<GREETING>(input) else { return Ok(None) };
                    self.ask(&greeting, out)?;
                }
                State::Answer => return self.answer(input),
                State::Body(0) if self.request.kind == Kind::Get => self.state = State::Hash,
                State::Body(0) => {
                    self.state = State::Over;
                    return Ok(Some(News::Whole(None)));
                }
                State::Body(left) => {
                    let count = left.min(input.len() as u64);
                    let (bytes, rest) = input.split_at(count as usize);
                    *input = rest;
                    self.state = State::Body(left - count);
                    return Ok((count > 0).then_some(News::Bytes(bytes)));
                }
                State::Hash => {
                    let Some(hash) = self.gather::<HASH>(input) else { return Ok(None) };
                    self.state = State::Over;
                    return Ok(Some(News::Whole(Some(hash))));
                }
                State::End => {
                    let Some(answer) = self.message(input)? else { return Ok(None) };
                    self.state = State::Over;
                    return Ok(Some(News::End(answer)));
                }
                State::Over if input.is_empty() => return Ok(None),
                State::Over => return Err(Breach::Beyond),
            }
        }
    }

    fn ask(&mut self, greeting: &[u8; GREETING], out: &mut Vec<u8>) -> Result<(), Breach> {
        let nonce: Option<&[u8; NONCE]> = greeting.last_chunk();
        let nonce = nonce.filter(|_| greeting.starts_with(&MAGIC) && greeting[MAGIC.len()] == VERSION);
        let nonce = nonce.ok_or(Breach::Greeting)?;
        if let Some(token) = &self.token {
            token.sign(&mut self.request, nonce);
        }
        self.request.write(out)?;
        self.state = State::Answer;
        Ok(())
    }

    fn answer<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<News<'a>>, Breach> {
        let Some(answer) = self.message(input)? else { return Ok(None) };
        let (number, wrong) = (answer.number, Breach::Number(answer.number));
        self.state = match self.request.kind {
            _ if answer.status != Status::Go => State::Over,
            Kind::Put if number > self.request.size => return Err(wrong),
            Kind::Put | Kind::Discard => State::End,
            Kind::Get => State::Body(number.checked_sub(self.request.offset).ok_or(wrong)?),
            Kind::Generate => State::Body(self.request.size),
            Kind::Stat => State::Over,
        };
        Ok(Some(News::Answer(answer)))
    }

    fn message(&mut self, input: &mut &[u8]) -> Result<Option<Answer>, Breach> {
        // Byte by byte, so that nothing behind it is taken: it is short.
        while let Some(byte) = input.split_off_first() {
            self.held.push(*byte);
            if let Some((answer, _)) = Answer::read(&self.held)? {
                self.held.clear();
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }

    fn gather<const N: usize>(&mut self, input: &mut &[u8]) -> Option<[u8; N]> {
        let (bytes, rest) = input.split_at(input.len().min(N - self.held.len()));
        *input = rest;
        self.held.extend_from_slice(bytes);
        let whole = <[u8; N]>::try_from(self.held.as_slice()).ok()?;
        self.held.clear();
        Some(whole)
    }
}
