//! How a session begins and ends.
//!
//! Packets of the handshake end with a tag of 32 bytes: HMAC-SHA256 under the shared key over everything before it
//! (without a key: under 32 zero bytes, a checksum). [`Close`] is sealed as data is.

use strum::FromRepr;

use super::codec::{Reader, put_u48};
use super::{Beyond, LIMIT, MalformedPacket, PacketHeader, PacketKind};
use crate::seal::{self, RANDOM, Random};

/// Bytes of the tag behind a packet of the handshake.
pub const PROOF: usize = seal::MAC;

/// What proves an address: an instant of the server's and a MAC over it, the address and the client's random number.
pub type Cookie = [u8; 6 + seal::MAC];

/// Longest text in a packet, in bytes.
pub const MOST_TEXT: usize = 255;

/// Which way the payload goes, and what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromRepr)]
#[repr(u8)]
pub enum SessionJob {
    /// The client sends bytes that the server drops.
    Discard = 0,
    /// The client sends a file that the server keeps.
    Store = 1,
    /// The client fetches a file of the server's.
    Fetch = 2,
    /// The client fetches bytes that mean nothing.
    Generate = 3,
    /// Both send and record what arrives; the name has the terms ([`crate::record::Terms`]).
    Record = 4,
}

/// A client asks for a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The client's random number: one for each session.
    pub random: Random,
    /// The server's challenge, once it is known.
    pub cookie: Option<Cookie>,
    /// What it is about.
    pub job: SessionJob,
    /// Payload bytes of a full packet.
    pub mss: u16,
    /// Acknowledgements report when each packet arrived.
    pub arrivals: bool,
    /// Packets for one acknowledgement.
    pub ack_every: u8,
    /// How many bytes; `None` when only time ends it.
    pub bytes: Option<u64>,
    /// The sender's controller, as [`paceline_cc::Spec`] reads it.
    pub controller: String,
    /// The file's name; empty where there is none.
    pub name: String,
}

/// The server asks for a proof of the client's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// [`Hello::random`].
    pub random: Random,
    /// To be sent back.
    pub cookie: Cookie,
}

/// The server takes a session on. Its number is in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// [`Hello::random`].
    pub random: Random,
    /// The server's.
    pub server: Random,
    /// How many bytes will come, where the server sends and knows.
    pub bytes: Option<u64>,
}

/// The server does not take a session on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refuse {
    /// [`Hello::random`].
    pub random: Random,
    /// Why.
    pub why: String,
}

/// How a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromRepr)]
#[repr(u8)]
pub enum SessionVerdict {
    /// The sender: everything has been delivered.
    Done = 0,
    /// The receiver: everything has arrived and is what was sent.
    Received = 1,
    /// The receiver: what arrived is not what was sent.
    Differs = 2,
    /// Either: the program was stopped, or its disk failed.
    Failed = 3,
    /// The receiver: everything has arrived, and its name was taken meanwhile.
    Taken = 4,
}

/// The end of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close {
    /// How it ends.
    pub verdict: SessionVerdict,
    /// Bytes of the whole content.
    pub bytes: u64,
    /// Its SHA-256; zeros where the content means nothing.
    pub digest: [u8; 32],
}

const NO_BYTES: u64 = LIMIT - 1;
const NO_COOKIE: Cookie = [0; size_of::<Cookie>()];

mod flags {
    pub(super) const COOKIE: u8 = 1;
    pub(super) const ARRIVALS: u8 = 2;
}

impl Hello {
    /// The packet.
    ///
    /// # Errors
    /// [`Beyond`] for 256 TiB or more.
    pub fn packet(&self, key: &[u8; 32]) -> Result<Vec<u8>, Beyond> {
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let flags = flag(self.cookie.is_some(), flags::COOKIE) | flag(self.arrivals, flags::ARRIVALS);
        packet(key, PacketHeader { kind: PacketKind::Hello, flags, session: 0, number: 0 }, |out| {
            out.extend_from_slice(&self.random);
            // Zeros keep the place: the first is as long as the second, and longer than any answer.
            out.extend_from_slice(&self.cookie.unwrap_or(NO_COOKIE));
            out.push(self.job as u8);
            out.extend_from_slice(&self.mss.to_be_bytes());
            out.push(self.ack_every);
            put_u48(out, self.bytes.unwrap_or(NO_BYTES))?;
            put_text(out, &self.controller);
            put_text(out, &self.name);
            Ok(())
        })
    }

    /// Reads what is between header and tag.
    ///
    /// # Errors
    /// [`MalformedPacket`] when the packet is.
    pub fn read(flags: u8, body: &[u8]) -> Result<Self, MalformedPacket> {
        if flags & !(flags::COOKIE | flags::ARRIVALS) != 0 {
            return Err(MalformedPacket::Flags(flags));
        }
        let mut reader = Reader::new(body);
        let random = reader.array()?;
        let cookie: Cookie = reader.array()?;
        if flags & flags::COOKIE == 0 && cookie != NO_COOKIE {
            return Err(MalformedPacket::Value("the place of the cookie"));
        }
        let job = SessionJob::from_repr(reader.u8()?).ok_or(MalformedPacket::Value("the job"))?;
        let hello = Self {
            random,
            cookie: (flags & flags::COOKIE != 0).then_some(cookie),
            job,
            mss: reader.u16()?,
            arrivals: flags & flags::ARRIVALS != 0,
            ack_every: reader.u8()?,
            bytes: Some(reader.u48()?).filter(|&bytes| bytes != NO_BYTES),
            controller: text(&mut reader)?,
            name: text(&mut reader)?,
        };
        reader.end()?;
        Ok(hello)
    }
}

impl Challenge {
    /// The packet.
    pub fn packet(&self, key: &[u8; 32]) -> Vec<u8> {
        infallible(key, PacketHeader { kind: PacketKind::Challenge, flags: 0, session: 0, number: 0 }, |out| {
            out.extend_from_slice(&self.random);
            out.extend_from_slice(&self.cookie);
        })
    }

    /// Reads what is between header and tag.
    ///
    /// # Errors
    /// [`MalformedPacket`] when the packet is.
    pub fn read(body: &[u8]) -> Result<Self, MalformedPacket> {
        let mut reader = Reader::new(body);
        let challenge = Self { random: reader.array()?, cookie: reader.array()? };
        reader.end()?;
        Ok(challenge)
    }
}

impl Welcome {
    /// The packet; `session` is the new session's number.
    ///
    /// # Errors
    /// [`Beyond`] for 256 TiB or more.
    pub fn packet(&self, key: &[u8; 32], session: u32) -> Result<Vec<u8>, Beyond> {
        packet(key, PacketHeader { kind: PacketKind::Welcome, flags: 0, session, number: 0 }, |out| {
            out.extend_from_slice(&self.random);
            out.extend_from_slice(&self.server);
            put_u48(out, self.bytes.unwrap_or(NO_BYTES))
        })
    }

    /// Reads what is between header and tag.
    ///
    /// # Errors
    /// [`MalformedPacket`] when the packet is.
    pub fn read(body: &[u8]) -> Result<Self, MalformedPacket> {
        let mut reader = Reader::new(body);
        let (random, server) = (reader.array()?, reader.array()?);
        let bytes = Some(reader.u48()?).filter(|&bytes| bytes != NO_BYTES);
        reader.end()?;
        Ok(Self { random, server, bytes })
    }
}

impl Refuse {
    /// The packet.
    pub fn packet(&self, key: &[u8; 32]) -> Vec<u8> {
        infallible(key, PacketHeader { kind: PacketKind::Refuse, flags: 0, session: 0, number: 0 }, |out| {
            out.extend_from_slice(&self.random);
            put_text(out, &self.why);
        })
    }

    /// Reads what is between header and tag.
    ///
    /// # Errors
    /// [`MalformedPacket`] when the packet is.
    pub fn read(body: &[u8]) -> Result<Self, MalformedPacket> {
        let mut reader = Reader::new(body);
        let refuse = Self { random: reader.array()?, why: text(&mut reader)? };
        reader.end()?;
        Ok(refuse)
    }
}

impl Close {
    /// Appends it.
    ///
    /// # Errors
    /// [`Beyond`] for 256 TiB or more.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), Beyond> {
        out.push(self.verdict as u8);
        put_u48(out, self.bytes)?;
        out.extend_from_slice(&self.digest);
        Ok(())
    }

    /// Reads what is behind the header.
    ///
    /// # Errors
    /// [`MalformedPacket`] when the packet is.
    pub fn read(flags: u8, body: &[u8]) -> Result<Self, MalformedPacket> {
        if flags != 0 {
            return Err(MalformedPacket::Flags(flags));
        }
        let mut reader = Reader::new(body);
        let verdict = SessionVerdict::from_repr(reader.u8()?).ok_or(MalformedPacket::Value("the verdict"))?;
        let close = Self { verdict, bytes: reader.u48()?, digest: reader.array()? };
        reader.end()?;
        Ok(close)
    }
}

/// Whether a packet of the handshake has the tag that `key` makes; the answer is what is between header and tag.
pub fn proved<'a>(key: &[u8; 32], bytes: &'a [u8]) -> Option<&'a [u8]> {
    let (signed, tag) = bytes.split_at_checked(bytes.len().checked_sub(PROOF)?)?;
    seal::mac_holds(key, signed, tag).then(|| signed.get(super::HEADER..))?
}

fn packet(
    key: &[u8; 32],
    header: PacketHeader,
    body: impl FnOnce(&mut Vec<u8>) -> Result<(), Beyond>,
) -> Result<Vec<u8>, Beyond> {
    let mut out = Vec::with_capacity(super::HEADER + 2 * RANDOM + 2 * MOST_TEXT + PROOF);
    header.write(&mut out)?;
    body(&mut out)?;
    let tag = seal::mac(key, &out);
    out.extend_from_slice(tag.as_ref());
    Ok(out)
}

fn infallible(key: &[u8; 32], header: PacketHeader, body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let written = packet(key, header, |out| {
        body(out);
        Ok(())
    });
    // Nothing in it is counted in 48 bits but a packet number of zero.
    written.unwrap_or_default()
}

/// A text, cut to what fits.
fn put_text(out: &mut Vec<u8>, text: &str) {
    let text = &text[..text.floor_char_boundary(MOST_TEXT)];
    out.push(text.len() as u8);
    out.extend_from_slice(text.as_bytes());
}

fn text(reader: &mut Reader<'_>) -> Result<String, MalformedPacket> {
    let length = usize::from(reader.u8()?);
    let bytes = reader.bytes(length)?;
    str::from_utf8(bytes).map(str::to_owned).map_err(|_| MalformedPacket::Value("a text"))
}
