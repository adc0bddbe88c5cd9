//! What the two ends of a race between two hosts say to each other over TCP. Nothing here reads a socket or a clock.
//!
//! The server speaks first: [`RaceChallenge`]. The client answers by a [`RaceOpening`], whose proof shows that it holds the key that both
//! share. What follows are frames: the length of a message in two bytes, the message, and a tag over its number and itself, under a
//! key of this connection and direction. Numbers are big-endian, a text is a byte with its length and UTF-8 without control characters.

use ring::hmac::{self, HMAC_SHA256};

/// The version of all of this; two ends of different versions do not race.
pub const VERSION: u16 = 1;
/// Bytes of a [`RaceChallenge`].
pub const CHALLENGE: usize = MAGIC.len() + 2 + NONCE;
/// Bytes of a [`RaceOpening`].
pub const OPENING: usize = MAGIC.len() + 2 + 1 + RACE + NONCE + PROOF;
/// Most bytes of a message.
pub const LONGEST: usize = 1024;
/// Bytes of a frame beside its message.
pub const AROUND: usize = 2 + TAG;
/// Values of a distribution: its mean, and where the shares 0, 0.01, ... 1 lie.
pub const VALUES: usize = 102;

const MAGIC: [u8; 6] = *b"plrace";
const NONCE: usize = 16;
const RACE: usize = 16;
const PROOF: usize = 32;
/// Of HMAC-SHA256 the first half (RFC 2104 section 5).
const TAG: usize = 16;

/// A random number of one of the ends, and of a race.
pub type RaceNumber = [u8; NONCE];

/// Why bytes are not what the other end of a race says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RaceBreach {
    /// It speaks of something else.
    #[error("it does not speak of races; start `paceline serve --race` there")]
    Magic,
    /// It is of another version.
    #[error("it speaks version {0} of races, and this paceline version {VERSION}; use the same paceline at both ends")]
    Version(u16),
    /// A message ends early, or goes on behind its end.
    #[error("a message of another length than it has")]
    Length,
    /// A message, or a value in it, that no race has.
    #[error("a message with a wrong {0}")]
    Value(&'static str),
    /// It was not written with the key.
    #[error("a message that was not written with the key")]
    Tag,
    /// Messages come faster than a race has questions.
    #[error("more messages than a race has")]
    Flood,
}

/// The server's first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RaceChallenge {
    /// The server's random number.
    pub server: RaceNumber,
}

impl RaceChallenge {
    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        [MAGIC.as_slice(), &VERSION.to_be_bytes(), &self.server].concat()
    }

    /// Reads it.
    ///
    /// # Errors
    /// [`RaceBreach`].
    pub fn read(bytes: &[u8]) -> Result<Self, RaceBreach> {
        let mut reader = Reader::opened(bytes)?;
        let challenge = Self { server: reader.array()? };
        reader.end(challenge)
    }
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RacePurpose {
    /// It opens a race, and carries what both say.
    Control,
    /// It is the flow of the race of this number.
    Flow(RaceNumber),
}

/// The client's first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RaceOpening {
    /// What the connection is for.
    pub purpose: RacePurpose,
    /// The client's random number.
    pub client: RaceNumber,
    proof: [u8; PROOF],
}

impl RaceOpening {
    /// For this purpose, in answer to a challenge.
    pub fn new(purpose: RacePurpose, client: RaceNumber, secret: &[u8; 32], challenge: &RaceChallenge) -> Self {
        let mut opening = Self { purpose, client, proof: [0; PROOF] };
        let proof = hmac::sign(&key(secret), &opening.proved(challenge));
        opening.proof.copy_from_slice(proof.as_ref());
        opening
    }

    /// Whether who said it holds the key.
    pub fn holds(&self, secret: &[u8; 32], challenge: &RaceChallenge) -> bool {
        hmac::verify(&key(secret), &self.proved(challenge), &self.proof).is_ok()
    }

    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        [self.plain().as_slice(), &self.proof].concat()
    }

    /// Reads it.
    ///
    /// # Errors
    /// [`RaceBreach`].
    pub fn read(bytes: &[u8]) -> Result<Self, RaceBreach> {
        let mut reader = Reader::opened(bytes)?;
        let (purpose, race) = (reader.u8()?, reader.array()?);
        let purpose = match purpose {
            0 if race == [0; RACE] => RacePurpose::Control,
            1 => RacePurpose::Flow(race),
            _ => return Err(RaceBreach::Value("purpose")),
        };
        let opening = Self { purpose, client: reader.array()?, proof: reader.array()? };
        reader.end(opening)
    }

    fn plain(&self) -> Vec<u8> {
        let (purpose, race) = match self.purpose {
            RacePurpose::Control => (0, [0; RACE]),
            RacePurpose::Flow(race) => (1, race),
        };
        [MAGIC.as_slice(), &VERSION.to_be_bytes(), &[purpose], &race, &self.client].concat()
    }

    /// What the proof is over.
    fn proved(&self, challenge: &RaceChallenge) -> Vec<u8> {
        [b"paceline race opening ".as_slice(), &challenge.server, &self.plain()].concat()
    }
}

/// Who writes with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaceEnd {
    /// Who opened the connection.
    Client,
    /// Who took it.
    Server,
}

/// The key of what one end says over one connection, and the number of its next message.
#[derive(Debug)]
pub struct RaceKey {
    key: hmac::Key,
    number: u64,
}

impl RaceKey {
    /// Of what this end says over the connection that began so.
    pub fn new(secret: &[u8; 32], end: RaceEnd, challenge: &RaceChallenge, opening: &RaceOpening) -> Self {
        let label: &[u8] = match end {
            RaceEnd::Client => b"paceline race client ",
            RaceEnd::Server => b"paceline race server ",
        };
        let derived = hmac::sign(&key(secret), &[label, &challenge.server, &opening.plain()].concat());
        Self { key: hmac::Key::new(HMAC_SHA256, derived.as_ref()), number: 0 }
    }

    /// The frame of the next message.
    pub fn frame(&mut self, message: &RaceMessage) -> Vec<u8> {
        let body = message.bytes();
        let length = u16::try_from(body.len()).unwrap_or(u16::MAX);
        let tag = self.tag(&body);
        [length.to_be_bytes().as_slice(), &body, &tag.as_ref()[..TAG]].concat()
    }

    /// The next message from its frame, without the length in front.
    ///
    /// # Errors
    /// [`RaceBreach`].
    pub fn open(&mut self, framed: &[u8]) -> Result<RaceMessage, RaceBreach> {
        let at = framed.len().checked_sub(TAG).ok_or(RaceBreach::Length)?;
        let (body, tag) = framed.split_at(at);
        let expected = self.tag(body);
        // In constant time: half a tag has no comparison of its own.
        let different = expected.as_ref().iter().zip(tag).fold(0, |all, (one, other)| all | (one ^ other));
        if different != 0 {
            return Err(RaceBreach::Tag);
        }
        RaceMessage::read(body)
    }

    /// Of the next message, whose number is used up by that.
    fn tag(&mut self, body: &[u8]) -> hmac::Tag {
        let number = self.number;
        self.number += 1;
        hmac::sign(&self.key, &[number.to_be_bytes().as_slice(), body].concat())
    }
}

fn key(secret: &[u8; 32]) -> hmac::Key {
    hmac::Key::new(HMAC_SHA256, secret)
}

/// How many bytes follow the length of a frame.
///
/// # Errors
/// [`RaceBreach::Length`] beyond [`LONGEST`].
pub fn behind(length: [u8; 2]) -> Result<usize, RaceBreach> {
    let length = usize::from(u16::from_be_bytes(length));
    if (1..=LONGEST).contains(&length) { Ok(length + TAG) } else { Err(RaceBreach::Length) }
}

/// What a run is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaceTerms {
    /// Data goes from the client to the server.
    pub up: bool,
    /// How long, in milliseconds.
    pub millis: u32,
    /// Largest packet of the path, IP header included, for datagrams.
    pub mtu: u16,
    /// Of the controller.
    pub seed: u64,
    /// `CONTROLLER@VIA`.
    pub contestant: String,
}

/// What an end of a flow counted; what is not its part is zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndFigures {
    /// Sender: packets sent. Receiver: packets that arrived, over TCP as many as its bytes make.
    pub packets: u64,
    /// Receiver: bytes that arrived, from the IP header on.
    pub wire_bytes: u64,
    /// Receiver: payload bytes that the application got.
    pub bytes: u64,
    /// Sender: packets declared lost.
    pub lost: u64,
    /// Sender: packets sent again.
    pub retransmits: u64,
    /// Sender: timeouts.
    pub timeouts: u64,
    /// Sender: packets whose acknowledgement reported a CE mark.
    pub marks: u64,
    /// CPU time, nanoseconds.
    pub cpu_ns: u64,
    /// Sender: share of chunks above TCP for which TCP was the limit, in millionths; `u32::MAX` where nothing is above TCP.
    pub limited_below: u32,
    /// Sender: it offered no more than the server permits, and all of that was sent.
    pub capped: bool,
    /// Sender: round trips in microseconds, [`VALUES`] of them; empty without samples.
    pub rtt_us: Vec<u32>,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RaceMessage {
    /// It is still there.
    Alive,
    /// The server takes the race on, or the flow of one.
    Welcome {
        /// The number of the race.
        race: RaceNumber,
        /// Longest run, in milliseconds.
        most_millis: u32,
        /// Most that an end may offer, Mbit/s.
        most_mbps: u32,
    },
    /// The server takes the race not on.
    Refuse(String),
    /// The client wants a run.
    Begin(RaceTerms),
    /// The server waits for its flow.
    Ready,
    /// The run cannot go on at this end.
    Failed(String),
    /// The server's end of the run is over.
    Ended(EndFigures),
}

impl RaceMessage {
    /// Its bytes; longer texts than fit are cut.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Alive => out.push(0),
            Self::Welcome { race, most_millis, most_mbps } => {
                out.push(1);
                out.extend_from_slice(race);
                out.extend_from_slice(&most_millis.to_be_bytes());
                out.extend_from_slice(&most_mbps.to_be_bytes());
            }
            Self::Refuse(why) => {
                out.push(2);
                put_text(&mut out, why);
            }
            Self::Begin(terms) => {
                out.extend_from_slice(&[3, terms.up.into()]);
                out.extend_from_slice(&terms.millis.to_be_bytes());
                out.extend_from_slice(&terms.mtu.to_be_bytes());
                out.extend_from_slice(&terms.seed.to_be_bytes());
                put_text(&mut out, &terms.contestant);
            }
            Self::Ready => out.push(4),
            Self::Failed(why) => {
                out.push(5);
                put_text(&mut out, why);
            }
            Self::Ended(figures) => {
                out.push(6);
                figures.write(&mut out);
            }
        }
        out
    }

    /// Reads one.
    ///
    /// # Errors
    /// [`RaceBreach`].
    pub fn read(bytes: &[u8]) -> Result<Self, RaceBreach> {
        let mut reader = Reader(bytes);
        let message = match reader.u8()? {
            0 => Self::Alive,
            1 => Self::Welcome { race: reader.array()?, most_millis: reader.u32()?, most_mbps: reader.u32()? },
            2 => Self::Refuse(reader.text()?),
            3 => Self::Begin(RaceTerms {
                up: reader.flag()?,
                millis: reader.u32()?,
                mtu: u16::from_be_bytes(reader.array()?),
                seed: reader.u64()?,
                contestant: reader.text()?,
            }),
            4 => Self::Ready,
            5 => Self::Failed(reader.text()?),
            6 => Self::Ended(EndFigures::read(&mut reader)?),
            _ => return Err(RaceBreach::Value("kind")),
        };
        reader.end(message)
    }
}

impl EndFigures {
    fn write(&self, out: &mut Vec<u8>) {
        let Self { packets, wire_bytes, bytes, lost, retransmits, timeouts, marks, cpu_ns, .. } = self;
        for count in [packets, wire_bytes, bytes, lost, retransmits, timeouts, marks, cpu_ns] {
            out.extend_from_slice(&count.to_be_bytes());
        }
        out.extend_from_slice(&self.limited_below.to_be_bytes());
        out.extend_from_slice(&[self.capped.into(), (!self.rtt_us.is_empty()).into()]);
        self.rtt_us.iter().take(VALUES).for_each(|value| out.extend_from_slice(&value.to_be_bytes()));
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, RaceBreach> {
        let mut figures = Self {
            packets: reader.u64()?,
            wire_bytes: reader.u64()?,
            bytes: reader.u64()?,
            lost: reader.u64()?,
            retransmits: reader.u64()?,
            timeouts: reader.u64()?,
            marks: reader.u64()?,
            cpu_ns: reader.u64()?,
            limited_below: reader.u32()?,
            capped: reader.flag()?,
            rtt_us: Vec::new(),
        };
        if reader.flag()? {
            figures.rtt_us = (0..VALUES).map(|_| reader.u32()).collect::<Result<_, _>>()?;
            if !figures.rtt_us[1..].is_sorted() {
                return Err(RaceBreach::Value("distribution"));
            }
        }
        Ok(figures)
    }
}

/// Cut at a character, without those that a terminal obeys.
fn put_text(out: &mut Vec<u8>, text: &str) {
    let plain: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let end = plain.floor_char_boundary(usize::from(u8::MAX));
    out.push(u8::try_from(end).unwrap_or(u8::MAX));
    out.extend_from_slice(&plain.as_bytes()[..end]);
}

/// What is left to be read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Behind the magic and our version, which come before any length that a version may have.
    fn opened(bytes: &'a [u8]) -> Result<Self, RaceBreach> {
        let mut reader = Self(bytes);
        if reader.array().ok() != Some(MAGIC) {
            return Err(RaceBreach::Magic);
        }
        match u16::from_be_bytes(reader.array()?) {
            VERSION => Ok(reader),
            other => Err(RaceBreach::Version(other)),
        }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], RaceBreach> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(RaceBreach::Length)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], RaceBreach> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn u8(&mut self) -> Result<u8, RaceBreach> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32, RaceBreach> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, RaceBreach> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    fn flag(&mut self) -> Result<bool, RaceBreach> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(RaceBreach::Value("flag")),
        }
    }

    fn text(&mut self) -> Result<String, RaceBreach> {
        let length = self.u8()?.into();
        let text = std::str::from_utf8(self.take(length)?).map_err(|_| RaceBreach::Value("text"))?;
        if text.chars().any(char::is_control) { Err(RaceBreach::Value("text")) } else { Ok(text.to_owned()) }
    }

    fn end<T>(&self, read: T) -> Result<T, RaceBreach> {
        if self.0.is_empty() { Ok(read) } else { Err(RaceBreach::Length) }
    }
}

#[cfg(test)]
mod tests;
