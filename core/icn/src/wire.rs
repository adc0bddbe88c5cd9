//! Messages over UDP. All numbers are in network byte order; `docs/design/icn-wire.md` has the layouts.

mod answer;
mod bad;
mod request;

use paceline_cc::Nanos;

use crate::name::Name;
use crate::ranges::{Ranges, Units};

pub use answer::DATA_HEAD;
pub(crate) use answer::{GRANT_BYTES, NACK_BYTES};
pub use bad::{BadMessage, BadRanges};

/// Version of the messages, the upper half of their first byte.
const VERSION: u8 = 1;

/// What a message is: the lower half of its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Request = 1,
    Data = 2,
    Nack = 3,
    Grant = 4,
}

impl Kind {
    /// The first byte of such a message.
    const fn byte(self) -> u8 {
        VERSION << 4 | self as u8
    }

    /// Of a message that begins with this byte.
    fn read(byte: u8) -> Result<Self, BadMessage> {
        if byte >> 4 != VERSION {
            return Err(BadMessage::Version(byte >> 4));
        }
        let all = [Self::Request, Self::Data, Self::Nack, Self::Grant];
        all.into_iter().find(|known| *known as u8 == byte & 0xf).ok_or(BadMessage::Kind(byte & 0xf))
    }
}

/// Takes the first `N` bytes off; `what` they are.
fn take<const N: usize>(bytes: &mut &[u8], what: &'static str) -> Result<[u8; N], BadMessage> {
    let (head, rest) = bytes.split_first_chunk().ok_or(BadMessage::Short { what, wanted: N, left: bytes.len() })?;
    *bytes = rest;
    Ok(*head)
}

/// Times travel as microseconds in 32 bits; longer ones as the longest, 71 minutes.
fn micros(time: Nanos) -> [u8; 4] {
    u32::try_from(time.as_nanos() / 1000).unwrap_or(u32::MAX).to_be_bytes()
}

/// See [`micros`].
fn from_micros(bytes: [u8; 4]) -> Nanos {
    Nanos::from_micros(u64::from(u32::from_be_bytes(bytes)))
}

/// Longest message in bytes: fits into a packet of IPv6 over Ethernet with room for tunnels.
pub const MAX_MESSAGE: usize = 1440;

/// Bytes that a first request is padded to, so that an address that has not proved itself gets two units for it.
pub const PADDED: usize = 1200;

/// A token that proves an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressToken(pub [u8; TOKEN_BYTES]);

/// Bytes of a token.
pub const TOKEN_BYTES: usize = 24;

/// A request: from requester to router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitRequest {
    /// Drawn at random for each fetch and source, and repeated in every answer.
    pub nonce: u64,
    /// The object.
    pub name: Name,
    /// The units wanted.
    pub ranges: Ranges,
    /// The last one that the router granted.
    pub token: Option<AddressToken>,
    /// Routers that it went through: each raises it, and none forwards more than [`MAX_HOPS`].
    pub hops: u8,
    /// Pad the message to this many bytes, at most [`MAX_MESSAGE`]. Zero: no padding. Where less than a padding's own head is
    /// missing, it becomes up to two bytes longer.
    pub padded: usize,
}

/// Routers that a request goes through at most (our choice: more are a loop).
pub const MAX_HOPS: u8 = 8;

/// Head of an answer that carries a unit; its bytes stand behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitHead {
    /// That of the request.
    pub nonce: u64,
    /// The unit's number.
    pub unit: u64,
    /// Units of the stored form, where the router knows them.
    pub stored_units: Option<u64>,
    /// How long the request waited at the router.
    pub waited: Nanos,
    /// The router's storage, not the network, limits it.
    pub app_limited: bool,
}

/// An answer without data, never longer than the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nack {
    /// That of the request.
    pub nonce: u64,
    /// What will not come.
    pub units: Units,
    /// Why.
    pub reason: MissingReason,
    /// Ask again after this long; zero: do not.
    pub retry_after: Nanos,
}

/// Why a unit does not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingReason {
    /// The router does not have the object and knows no other router to ask.
    NotFound = 1,
    /// Past the end of the object.
    End = 2,
    /// The router's queue or this source's share is full.
    Busy = 3,
    /// The address has to prove itself first: the token follows, or came before.
    NoToken = 4,
    /// The object changed or shrank while it was served.
    Changed = 5,
    /// The request went through too many routers.
    Loop = 6,
}

/// A token for the address that asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// That of the request.
    pub nonce: u64,
    /// The token.
    pub token: AddressToken,
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitAnswer<'a> {
    /// A unit.
    Data(UnitHead, &'a [u8]),
    /// No unit.
    Nack(Nack),
    /// A token.
    Grant(Grant),
}
