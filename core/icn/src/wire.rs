//! Messages over UDP. All numbers are in network byte order.

use paceline_cc::Nanos;

use crate::name::Name;
use crate::ranges::{Ranges, Units};

/// Longest message in bytes: fits into a packet of IPv6 over Ethernet with room for tunnels.
pub const MAX_MESSAGE: usize = 1440;

/// Bytes that a first request is padded to, so that an address that has not proved itself gets two units for it.
pub const PADDED: usize = 1200;

/// A token that proves an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token(pub [u8; TOKEN_BYTES]);

/// Bytes of a token.
pub const TOKEN_BYTES: usize = 24;

/// A request: from requester to router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Drawn at random for each fetch and source, and repeated in every answer.
    pub nonce: u64,
    /// The object.
    pub name: Name,
    /// The units wanted.
    pub ranges: Ranges,
    /// The last one that the router granted.
    pub token: Option<Token>,
    /// Routers that it went through: each raises it, and none forwards more than [`MAX_HOPS`].
    pub hops: u8,
    /// Pad the message to this many bytes.
    pub padded: usize,
}

/// Routers that a request goes through at most (our choice: more are a loop).
pub const MAX_HOPS: u8 = 8;

/// Head of an answer that carries a unit; its bytes stand behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
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
    pub reason: Reason,
    /// Ask again after so long; zero: do not.
    pub retry_after: Nanos,
}

/// Why a unit does not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The router does not have the object and knows nobody to ask.
    NotFound,
    /// Past the end of the object.
    End,
    /// The router's queue or this source's share is full.
    Busy,
    /// The address has to prove itself first: the token follows, or came before.
    NoToken,
    /// The object changed or shrank while it was served.
    Changed,
    /// The request went through too many routers.
    Loop,
}

/// A token for the address that asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// That of the request.
    pub nonce: u64,
    /// The token.
    pub token: Token,
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// A unit.
    Data(Data, &'a [u8]),
    /// No unit.
    Nack(Nack),
    /// A token.
    Grant(Grant),
}
