//! The messages, each to and from bytes. A message has one form: what can be read is written again as it was.

use paceline_cc::foreign::is_hidden;
use strum::{FromRepr, IntoStaticStr};

use super::token::{PROOF, Proof};
use super::{Breach, MAX_HALF, MAX_MESSAGE, MAX_NAME, MAX_REQUEST, MAX_SCOPE, NONCE};
use crate::frame::varint::{self, Read};

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromRepr, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
#[repr(u8)]
pub enum Kind {
    /// To take a file.
    Put = 1,
    /// To give one.
    Get,
    /// To say how large one is.
    Stat,
    /// To take bytes that mean nothing.
    Discard,
    /// To give bytes that mean nothing.
    Generate,
}

impl Kind {
    /// It is about a file, which has a name.
    pub fn has_name(self) -> bool {
        matches!(self, Self::Put | Self::Get | Self::Stat)
    }

    /// One word for it.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// A client's request. Fields that its kind does not have are empty or zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What it asks for.
    pub kind: Kind,
    /// The file's name: at most [`MAX_NAME`] bytes. Whether a file may have it is for the server to say.
    pub name: String,
    /// Bytes of the whole object (put), to take at most ([`Kind::Discard`]), or to give ([`Kind::Generate`]).
    pub size: u64,
    /// Which upload it is, the same when it is taken up again (put).
    pub id: [u8; NONCE],
    /// From which byte on (get).
    pub offset: u64,
    /// The client's controller, where it has a receiver half that the server runs: at most [`MAX_HALF`] bytes.
    pub half: String,
    /// When the token ends, in seconds since 1970; 0 for never.
    pub expiry: u64,
    /// What names have to begin with, by the token.
    pub scope: String,
    /// That the client holds the token's secret.
    pub proof: Proof,
}

impl Request {
    /// Without token.
    pub fn new(kind: Kind, name: &str) -> Self {
        Self {
            kind,
            name: name.to_owned(),
            size: 0,
            id: [0; NONCE],
            offset: 0,
            half: String::new(),
            expiry: 0,
            scope: String::new(),
            proof: [0; PROOF],
        }
    }

    /// What a proof is about: all that is written between the length and the proof.
    pub fn signed(&self) -> Vec<u8> {
        let mut out = vec![self.kind as u8];
        text(&mut out, &self.name);
        varint::write(&mut out, self.size);
        out.extend_from_slice(&self.id);
        varint::write(&mut out, self.offset);
        text(&mut out, &self.half);
        varint::write(&mut out, self.expiry);
        text(&mut out, &self.scope);
        out
    }

    /// Appends it.
    ///
    /// # Errors
    /// [`Breach::Text`], [`Breach::Unused`]: this end would break the protocol. Nothing is appended.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), Breach> {
        self.check()?;
        let signed = self.signed();
        varint::write(out, (signed.len() + PROOF) as u64);
        out.extend_from_slice(&signed);
        out.extend_from_slice(&self.proof);
        Ok(())
    }

    /// Reads one from the front of `bytes`, and says how many it took; `None` when more are needed.
    ///
    /// # Errors
    /// [`Breach`].
    pub fn read(bytes: &[u8]) -> Result<Option<(Self, usize)>, Breach> {
        let (length, head) = match varint::read(bytes) {
            Read::Short => return Ok(None),
            Read::Long => return Err(Breach::Long("length of a request")),
            Read::Value(length, head) => (length, head),
        };
        if length > MAX_REQUEST {
            return Err(Breach::Length(length));
        }
        let end = head + length as usize;
        let Some(mut rest) = bytes.get(head..end) else { return Ok(None) };
        let short = || Breach::Length(length);
        let rest = &mut rest;
        let code = *rest.split_off_first().ok_or_else(short)?;
        let kind = Kind::from_repr(code).ok_or(Breach::Kind(code))?;
        let name = take_text(rest, "name", MAX_NAME, length)?;
        let size = take_number(rest, "size", length)?;
        let id = take(rest, length)?;
        let offset = take_number(rest, "offset", length)?;
        let half = take_text(rest, "controller", MAX_HALF, length)?;
        let expiry = take_number(rest, "expiry", length)?;
        let scope = take_text(rest, "scope", MAX_SCOPE, length)?;
        let proof = take(rest, length)?;
        if !rest.is_empty() {
            return Err(short());
        }
        let request = Self { kind, name, size, id, offset, half, expiry, scope, proof };
        request.check()?;
        Ok(Some((request, end)))
    }

    fn check(&self) -> Result<(), Breach> {
        let fits = |what, text: &str, most| if text.len() > most { Err(Breach::Text(what)) } else { Ok(()) };
        fits("name", &self.name, MAX_NAME)?;
        fits("controller", &self.half, MAX_HALF)?;
        fits("scope", &self.scope, MAX_SCOPE)?;
        let unused = [
            ("name", self.kind.has_name() || self.name.is_empty()),
            ("size", !matches!(self.kind, Kind::Get | Kind::Stat) || self.size == 0),
            ("id", self.kind == Kind::Put || self.id == [0; NONCE]),
            ("offset", self.kind == Kind::Get || self.offset == 0),
        ];
        unused.iter().find(|(_, fine)| !fine).map_or(Ok(()), |(what, _)| Err(Breach::Unused(what)))
    }
}

/// How a request, or a transfer, went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromRepr, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
#[repr(u8)]
pub enum Status {
    /// Go on; at the end: done.
    #[strum(serialize = "done")]
    Go,
    /// The client may not, or the request makes no sense.
    Refused,
    /// There is no such file.
    Missing,
    /// There is a file of this name with other content.
    Exists,
    /// It is too large, or the disk is full.
    #[strum(serialize = "no room")]
    NoRoom,
    /// Not now; try again later.
    Busy,
    /// What came has another hash than the client says, and was dropped.
    Mismatch,
}

impl Status {
    /// One word for it, as JSON has it.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// A server's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// How it goes.
    pub status: Status,
    /// Bytes: those held (put), of the object (get, stat), those received (at the end).
    pub number: u64,
    /// Why, in one line of at most [`MAX_MESSAGE`] bytes; empty where there is nothing to say.
    pub message: String,
}

impl Answer {
    /// Go on from, or done with, this many bytes.
    pub fn go(number: u64) -> Self {
        Self { status: Status::Go, number, message: String::new() }
    }

    /// No, because of this. What is too long for a message is cut, and control characters are left out.
    pub fn no(status: Status, number: u64, why: &str) -> Self {
        let mut message: String = why.chars().filter(|c| !is_hidden(*c)).collect();
        message.truncate(message.floor_char_boundary(MAX_MESSAGE));
        Self { status, number, message }
    }

    /// Appends it.
    ///
    /// # Errors
    /// [`Breach::Text`]: the message is malformed. Nothing is appended.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), Breach> {
        check_message(&self.message)?;
        out.push(self.status as u8);
        varint::write(out, self.number);
        text(out, &self.message);
        Ok(())
    }

    /// As [`Request::read`].
    ///
    /// # Errors
    /// [`Breach`].
    pub fn read(bytes: &[u8]) -> Result<Option<(Self, usize)>, Breach> {
        let Some((code, rest)) = bytes.split_first() else { return Ok(None) };
        let status = Status::from_repr(*code).ok_or(Breach::Status(*code))?;
        let (number, at) = match varint::read(rest) {
            Read::Short => return Ok(None),
            Read::Long => return Err(Breach::Long("number of an answer")),
            Read::Value(number, took) => (number, 1 + took),
        };
        let (length, at) = match varint::read(&bytes[at..]) {
            Read::Short => return Ok(None),
            Read::Long => return Err(Breach::Long("length of a message")),
            Read::Value(length, took) => (length, at + took),
        };
        if length > MAX_MESSAGE as u64 {
            return Err(Breach::Text("message"));
        }
        let end = at + length as usize;
        let Some(message) = bytes.get(at..end) else { return Ok(None) };
        let message = str::from_utf8(message).map_err(|_| Breach::Text("message"))?;
        check_message(message)?;
        Ok(Some((Self { status, number, message: message.to_owned() }, end)))
    }
}

/// # Errors
/// [`Breach::Text`] when it is too long for a message, or has control characters.
pub fn check_message(message: &str) -> Result<(), Breach> {
    let fits = message.len() <= MAX_MESSAGE && !message.chars().any(char::is_control);
    if fits { Ok(()) } else { Err(Breach::Text("message")) }
}

fn text(out: &mut Vec<u8>, text: &str) {
    varint::write(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

fn take<const N: usize>(rest: &mut &[u8], length: u64) -> Result<[u8; N], Breach> {
    let (bytes, after) = rest.split_first_chunk().ok_or(Breach::Length(length))?;
    *rest = after;
    Ok(*bytes)
}

fn take_number(rest: &mut &[u8], what: &'static str, length: u64) -> Result<u64, Breach> {
    match varint::read(rest) {
        Read::Short => Err(Breach::Length(length)),
        Read::Long => Err(Breach::Long(what)),
        Read::Value(value, took) => {
            *rest = &rest[took..];
            Ok(value)
        }
    }
}

fn take_text(rest: &mut &[u8], what: &'static str, most: usize, length: u64) -> Result<String, Breach> {
    let bytes = take_number(rest, what, length)?;
    if bytes > most as u64 {
        return Err(Breach::Text(what));
    }
    let (text, after) = rest.split_at_checked(bytes as usize).ok_or(Breach::Length(length))?;
    *rest = after;
    Ok(str::from_utf8(text).map_err(|_| Breach::Text(what))?.to_owned())
}
