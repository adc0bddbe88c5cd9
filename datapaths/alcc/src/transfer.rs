//! Uploads and downloads over a framed connection: what client and server say to each other.
//!
//! `docs/design/transfer-wire.md` has the format field by field. Nothing here touches a socket, a file or a clock: [`Server`] and
//! [`Client`] take the bytes that frames brought and say what they mean; who drives them keeps the files and decides. Secrets are
//! in [`token`].
//!
//! Source: the upload application of Zaki et al., "ALCC: Migrating Congestion Control to the Application Layer in Cellular
//! Networks", section 6, sends files and no more. Ours: a file is resumed, appears when it is whole and its hash equal, and only
//! a client that holds a token may write it.

mod client;
mod message;
mod server;
#[cfg(test)]
mod tests;
pub mod token;

pub use client::{Client, News};
pub use message::{Answer, Kind, Request, Status, check_message};
pub use server::{Heard, Server};

/// What a server's first bytes are.
pub const MAGIC: [u8; 3] = *b"PLT";
/// The version of the protocol, which follows [`MAGIC`].
pub const VERSION: u8 = 1;
/// Bytes of a nonce and of an upload's id: enough that none comes twice (our choice: 128 bits, as UUIDs have).
pub const NONCE: usize = 16;
/// Bytes of a SHA-256 (FIPS 180-4).
pub const HASH: usize = 32;
/// Bytes of a server's first words.
pub const GREETING: usize = MAGIC.len() + 1 + NONCE;
/// Most bytes of a request (our choice: what it can need at most, rounded up).
pub const MAX_REQUEST: u64 = 1024;
/// Most bytes of a name (`NAME_MAX` of Linux).
pub const MAX_NAME: usize = 255;
/// Most bytes of a controller's name with its parameters (our choice).
pub const MAX_HALF: usize = 128;
/// Most bytes of a scope (our choice: a prefix of names, well below [`MAX_NAME`]).
pub const MAX_SCOPE: usize = 64;
/// Most bytes of a message (our choice: two lines of a terminal).
pub const MAX_MESSAGE: usize = 200;
/// A size that says: until the client ends its stream. The largest number of the wire.
pub const ENDLESS: u64 = crate::frame::LIMIT - 1;

/// The port that servers listen on (our choice: not assigned by IANA).
pub const PORT: u16 = 4436;

/// The peer broke the protocol: the connection ends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Breach {
    /// Another protocol, or another version.
    #[error(
        "the peer is not a paceline server of transfer version {VERSION}; check address and port, and that both ends use TLS or neither does"
    )]
    Greeting,
    /// A request longer than [`MAX_REQUEST`], or shorter than what it holds.
    #[error("the request says that it has {0} bytes; at most {MAX_REQUEST} are allowed, and its fields must fill them")]
    Length(u64),
    /// A kind that is not known.
    #[error("the peer asks for the unknown kind {0}; run the same version of paceline at both ends")]
    Kind(u8),
    /// A status that is not known.
    #[error("the server answered with the unknown status {0}; run the same version of paceline at both ends")]
    Status(u8),
    /// A number in more bytes than it takes.
    #[error("the peer wrote {0} in more bytes than it takes")]
    Long(&'static str),
    /// A text longer than allowed, or not UTF-8, or with control characters.
    #[error("the peer's {0} is too long, not UTF-8, or has control characters")]
    Text(&'static str),
    /// A field that its kind does not have.
    #[error("the peer's {0} has no meaning in such a request and is not empty")]
    Unused(&'static str),
    /// A number that contradicts what was asked for.
    #[error("the server answered {0}, which cannot be; run the same version of paceline at both ends")]
    Number(u64),
    /// Bytes after the end.
    #[error("the peer sent bytes after its last")]
    Beyond,
}
