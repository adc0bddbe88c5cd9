//! What is not a message.

use crate::name::NoName;

/// A datagram that is not a message of this version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadMessage {
    /// It ends too early.
    #[error("the message ends within its {what}: {wanted} bytes wanted, {left} left")]
    Short {
        /// The part that is cut.
        what: &'static str,
        /// Bytes that this part has.
        wanted: usize,
        /// Bytes that are there.
        left: usize,
    },
    /// It has bytes behind its end, or more than any message.
    #[error("the message is {0} bytes too long")]
    Long(usize),
    /// Of another version.
    #[error("version {0} of the messages is not known, only 1; the other end is another program, or a newer paceline")]
    Version(u8),
    /// Of a kind that this version does not have, or that does not come from that side.
    #[error("kind {0} of messages is not expected here")]
    Kind(u8),
    /// With flags that this version does not have.
    #[error("flags {0:#04x} are not known")]
    Flags(u8),
    /// The name is malformed.
    #[error(transparent)]
    Name(#[from] NoName),
    /// The ranges are malformed.
    #[error("range {index} {why}")]
    Ranges {
        /// Which one, from 0.
        index: usize,
        /// What is wrong with it.
        why: BadRanges,
    },
    /// A unit's payload, or a refusal, without units.
    #[error("a message about no unit")]
    Empty,
    /// An option that must be understood and is not.
    #[error("option {0} is not known and must not be skipped")]
    Option(u8),
    /// An option of a wrong length.
    #[error("option {kind} has {length} bytes")]
    OptionLength {
        /// Its type.
        kind: u8,
        /// Its length.
        length: usize,
    },
    /// An option twice.
    #[error("option {0} stands there twice")]
    Twice(u8),
    /// Padding that is not zero.
    #[error("the padding is not zero")]
    Padding,
    /// A reason that this version does not have.
    #[error("reason {0} of refusals is not known")]
    Reason(u8),
}

/// What is wrong with a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRanges {
    /// A request has between one and [`crate::ranges::MAX_RANGES`].
    #[error("of that many: a request has 1 to 16")]
    Number,
    /// No units, or with the others more than [`crate::ranges::MAX_UNITS`].
    #[error("has no units, or with those before it more than 64")]
    Units,
    /// It touches the one before.
    #[error("touches the one before it")]
    Touches,
    /// Past the largest number.
    #[error("reaches past the largest number of a unit")]
    End,
}
