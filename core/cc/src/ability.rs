//! What a controller may need of a datapath. [`crate::datapath`] says which datapath offers it.

use std::fmt;

/// Something that a controller or a start-up cannot work without, and that not every datapath has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ability {
    /// Part of the controller runs at the receiver, and its feedback comes back ([`crate::ReceiverHalf`]).
    ReceiverHalf,
    /// Each packet leaves at its own instant ([`crate::Pacing::Gap`]), not at a rate on average.
    ExactGaps,
    /// What is reported of ECN marks is exact, by packet and byte. That nothing at all is reported is exact too: the
    /// controller then works as on a path that does not mark.
    ExactMarks,
    /// Packets carry ECT(1), by which a queue knows traffic that answers marks as L4S asks (RFC 9331).
    Ect1,
    /// The hops of the path report what they see ([`crate::Telemetry`]).
    Telemetry,
    /// When each packet arrived ([`crate::Acked::received_at`]).
    ArrivalTimes,
}

impl Ability {
    /// Every one.
    pub const ALL: [Self; 6] =
        [Self::ReceiverHalf, Self::ExactGaps, Self::ExactMarks, Self::Ect1, Self::Telemetry, Self::ArrivalTimes];

    /// Its name in lists and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReceiverHalf => "receiver half",
            Self::ExactGaps => "exact gaps",
            Self::ExactMarks => "exact marks",
            Self::Ect1 => "ECT(1)",
            Self::Telemetry => "telemetry",
            Self::ArrivalTimes => "arrival times",
        }
    }

    /// What is needed, in a sentence: "sprout needs its receiver half at the other end".
    pub(crate) const fn needed(self) -> &'static str {
        match self {
            Self::ReceiverHalf => "its receiver half at the other end",
            Self::ExactGaps => "an exact gap before each packet",
            Self::ExactMarks => "an exact count of ECN marks",
            Self::Ect1 => "packets with ECT(1)",
            Self::Telemetry => "reports of the path's hops",
            Self::ArrivalTimes => "the arrival time of each packet",
        }
    }
}

impl fmt::Display for Ability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
