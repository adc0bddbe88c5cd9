//! The server's end: what a client's bytes mean, in their order.

use super::token::{Denied, Key};
use super::{Answer, Breach, HASH, Kind, MAGIC, NONCE, Request, Status, VERSION};

/// What came from the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard<'a> {
    /// It asks for this: to be answered by [`Server::answer`] before anything more is read.
    Request(Request),
    /// The next bytes of the object.
    Bytes(&'a [u8]),
    /// The object is whole; a put's hash, as the client says.
    Whole(Option<[u8; HASH]>),
}

/// One session, seen from the server.
#[derive(Debug)]
pub struct Server {
    nonce: [u8; NONCE],
    state: State,
    /// The beginning of something that is not there whole.
    held: Vec<u8>,
    /// What the request was about.
    kind: Option<Kind>,
    size: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Request,
    /// The request waits for its answer.
    Deciding,
    /// This many bytes are missing.
    Body(u64),
    Hash,
    /// The client has said all.
    Over,
}

impl Server {
    /// A session with a nonce that no other session has had: random bytes.
    pub fn new(nonce: [u8; NONCE]) -> Self {
        Self { nonce, state: State::Request, held: Vec::new(), kind: None, size: 0 }
    }

    /// Appends what the server says first.
    pub fn greet(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC);
        out.push(VERSION);
        out.extend_from_slice(&self.nonce);
    }

    /// Whether the request may be granted by `key` at `now` (seconds since 1970).
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self, key: &Key, request: &Request, now: u64) -> Result<(), Denied> {
        key.check(request, &self.nonce, now)
    }

    /// Takes what comes next off the front of `input`; `None` when it needs more, and all of `input` is taken in. Also asked
    /// without input after [`Server::answer`]: an object may have no bytes.
    ///
    /// # Errors
    /// The client broke the protocol.
    pub fn read<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Heard<'a>>, Breach> {
        match self.state {
            State::Request => self.request(input),
            State::Deciding => Ok(None),
            State::Body(0) => {
                if self.kind == Some(Kind::Put) {
                    self.state = State::Hash;
                    return self.hash(input);
                }
                self.state = State::Over;
                Ok(Some(Heard::Whole(None)))
            }
            State::Body(left) => {
                let count = left.min(input.len() as u64);
                let (bytes, rest) = input.split_at(count as usize);
                *input = rest;
                self.state = State::Body(left - count);
                Ok((count > 0).then_some(Heard::Bytes(bytes)))
            }
            State::Hash => self.hash(input),
            State::Over if input.is_empty() => Ok(None),
            State::Over => Err(Breach::Beyond),
        }
    }

    fn request<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Heard<'a>>, Breach> {
        // Byte by byte, so that nothing behind it is taken: it is short.
        while let Some(byte) = input.split_off_first() {
            self.held.push(*byte);
            if let Some((request, _)) = Request::read(&self.held)? {
                self.held.clear();
                (self.state, self.kind, self.size) = (State::Deciding, Some(request.kind), request.size);
                return Ok(Some(Heard::Request(request)));
            }
        }
        Ok(None)
    }

    fn hash<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Heard<'a>>, Breach> {
        let (bytes, rest) = input.split_at(input.len().min(HASH - self.held.len()));
        *input = rest;
        self.held.extend_from_slice(bytes);
        let Ok(hash) = <[u8; HASH]>::try_from(self.held.as_slice()) else { return Ok(None) };
        self.held.clear();
        self.state = State::Over;
        Ok(Some(Heard::Whole(Some(hash))))
    }

    /// Appends an answer: the first to a request, the one at the end, or one that breaks off.
    ///
    /// # Errors
    /// [`Breach::Text`], [`Breach::Number`]: this end would break the protocol. Nothing is appended.
    pub fn answer(&mut self, answer: &Answer, out: &mut Vec<u8>) -> Result<(), Breach> {
        let first = self.state == State::Deciding;
        let next = match (answer.status, self.kind) {
            (Status::Go, Some(Kind::Put)) if first => {
                State::Body(self.size.checked_sub(answer.number).ok_or(Breach::Number(answer.number))?)
            }
            (Status::Go, Some(Kind::Discard)) if first => State::Body(self.size),
            _ => State::Over,
        };
        answer.write(out)?;
        self.state = next;
        Ok(())
    }
}
