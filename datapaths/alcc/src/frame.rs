//! The client/server variant: what both ends write into one TCP connection, so that the receiver acknowledges chunks itself.
//!
//! Source: Zaki et al., "ALCC: Migrating Congestion Control to the Application Layer in Cellular Networks", section 4 (the
//! variant without kernel help, which Sprout needs). `docs/design/alcc-wire.md` has the format field by field. What differs from
//! the paper and its release, which has one header for each ported controller, fixed numbers and no bounds:
//!
//! - One format for every controller: what its halves exchange travels as a note (on data) and a blob (on
//!   acknowledgements).
//! - Chunks are known by byte positions of 62 bits, so they may have any size.
//! - Acknowledgements are coalesced: one for all that a read brought, at most one each [`ACK_EVERY`] unless it covers two frames
//!   and there is no receiver half, and each says how long it waited, so that waiting is not taken for the network's delay.
//! - A version leads, lengths are capped, and whatever breaks a rule ends the connection with one reason ([`Violation`]).
//!
//! Nothing here touches a socket or a clock. Each direction of a connection begins with [`VERSION`]; then frames follow,
//! data and acknowledgements of the other direction's data mixed. A frame has one form: what can be read is written again
//! byte by byte as it was.

mod connection;
mod decoder;
mod reader;
#[cfg(test)]
mod tests;
pub(crate) mod varint;

pub use connection::{Connection, News};
pub use decoder::{Decoder, Item};
pub use reader::Reader;

use paceline_cc::{MAX_FEEDBACK, Nanos};

/// The version of the format: the first byte of each direction.
pub const VERSION: u8 = 1;
/// Largest payload of a data frame in bytes. 16 KiB: a dozen packets, so that nothing waits long behind one (our choice).
pub const MAX_PAYLOAD: u32 = 16 * 1024;
/// Least time between two acknowledgements of one direction. 5 ms: the paper's logic thread looks as often (section 4.1).
pub const ACK_EVERY: Nanos = Nanos::from_millis(5);
/// Longest wait that an acknowledgement states. An hour: no RTT needs more (our choice).
pub const MAX_DELAY: Nanos = Nanos::from_secs(3600);
/// Most bytes in front of a payload: kind, position, note, length.
pub const MAX_HEADER: usize = 1 + 8 + 8 + 4;
/// Positions on the wire are below this (RFC 9000 section 16).
pub const LIMIT: u64 = 1 << 62;

/// The first byte of a frame.
mod kind {
    pub(super) const DATA: u8 = 1;
    pub(super) const DATA_WITH_NOTE: u8 = 2;
    pub(super) const ACK: u8 = 3;
    pub(super) const ACK_WITH_FEEDBACK: u8 = 4;
}

/// Why a connection ends: the peer broke the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// Another version, or a peer that does not speak this at all.
    #[error(
        "the peer begins with byte {0:#04x} instead of framing version {VERSION}; run the same paceline, framed, at both ends"
    )]
    Version(u8),
    /// No known kind.
    #[error("the peer sent a frame of unknown kind {0}; run the same paceline at both ends")]
    Kind(u8),
    /// A number in more bytes than it takes.
    #[error("the peer wrote {0} in more bytes than it takes")]
    Long(&'static str),
    /// A payload above [`MAX_PAYLOAD`].
    #[error("the peer announced a payload of {0} bytes; {MAX_PAYLOAD} are allowed")]
    Payload(u64),
    /// A blob above [`MAX_FEEDBACK`], or an empty one.
    #[error("the peer announced a feedback of {0} bytes; 1 to {MAX_FEEDBACK} are allowed")]
    Feedback(u64),
    /// An acknowledgement that waited longer than [`MAX_DELAY`].
    #[error("the peer says that an acknowledgement waited {0} us; an hour is allowed")]
    Delay(u64),
    /// A note of zero, which stands for none.
    #[error("the peer announced a note and sent none")]
    Note,
    /// Data that does not continue what came before.
    #[error("the peer's data is at position {found} instead of {expected}")]
    Position {
        /// Where it says it is.
        found: u64,
        /// Where it has to be.
        expected: u64,
    },
    /// A stream above 4 EiB.
    #[error("the peer sent more than {LIMIT} bytes")]
    Beyond,
    /// An acknowledgement of something that was never sent.
    #[error("the peer acknowledged up to {found} although {sent} bytes were sent")]
    Unsent {
        /// What it acknowledges.
        found: u64,
        /// What was sent.
        sent: u64,
    },
    /// An acknowledgement of less than one before.
    #[error("the peer acknowledged up to {found} after {before}")]
    Backwards {
        /// What it acknowledges.
        found: u64,
        /// What it acknowledged before.
        before: u64,
    },
    /// The connection ended within a frame.
    #[error("the peer ended the connection within a frame")]
    Short,
    /// What stands below the frames ([`crate::Layer`]) was broken.
    #[error("the peer broke the encryption below the frames, or a host on the way did")]
    Layer,
}

/// A data frame without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    /// Position of the first payload byte in the stream.
    pub position: u64,
    /// Payload bytes, at most [`MAX_PAYLOAD`]; zero for a heartbeat.
    pub bytes: u32,
    /// The controller's word to its receiver half ([`paceline_cc::Stamp::note`]); zero where it has none.
    pub note: u64,
}

impl Data {
    /// One past the last payload byte.
    pub fn end(&self) -> u64 {
        self.position + u64::from(self.bytes)
    }

    /// Appends everything but the payload, which follows it.
    pub fn write(&self, out: &mut Vec<u8>) {
        let has_note = self.note != 0;
        out.push(if has_note { kind::DATA_WITH_NOTE } else { kind::DATA });
        varint::write(out, self.position);
        if has_note {
            out.extend_from_slice(&self.note.to_be_bytes());
        }
        varint::write(out, u64::from(self.bytes));
    }
}

/// An acknowledgement frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack {
    /// One past the last byte of the newest data frame that has come: everything below is there.
    pub position: u64,
    /// How long that frame waited for this acknowledgement at the receiver; whole microseconds,
    /// at most [`MAX_DELAY`].
    pub delay: Nanos,
    /// The receiver half's blob, 1 to [`MAX_FEEDBACK`] bytes.
    pub feedback: Option<Box<[u8]>>,
}

impl Ack {
    /// Appends it. A blob that is too long is left out (no receiver half writes one), a delay that is becomes the longest.
    pub fn write(&self, out: &mut Vec<u8>) {
        let feedback = self.feedback.as_deref().filter(|blob| (1..=MAX_FEEDBACK).contains(&blob.len()));
        out.push(if feedback.is_some() { kind::ACK_WITH_FEEDBACK } else { kind::ACK });
        varint::write(out, self.position);
        varint::write(out, self.delay.min(MAX_DELAY).as_nanos() / 1000);
        if let Some(blob) = feedback {
            varint::write(out, blob.len() as u64);
            out.extend_from_slice(blob);
        }
    }
}
