//! What a script says, line by line.

use std::ops::RangeInclusive;

use paceline_cc::{Cause, Hop, Nanos, Time};

use super::Place;
use super::value::{Asked, Relation, Value};

/// A line.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    pub(super) place: Place,
    /// When; without it at the time of the line before.
    pub(super) when: Option<When>,
    pub(super) what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    At(Time),
    After(Nanos),
}

#[derive(Clone, Debug)]
pub(super) enum What {
    Sent { which: Which, every: Option<Nanos>, bytes: Option<u32>, unsent: u64 },
    Acked { which: Which, every: Option<Nanos>, marked: bool, received_at: Option<Time> },
    Handshake { rtt: Nanos },
    Lost { which: Which, every: Option<Nanos>, cause: Cause },
    Timeout { which: Which },
    Spurious,
    Cause { cause: Cause, which: Which },
    Mss { mss: u32 },
    AppLimited,
    Telemetry { packet: Option<u64>, verdict: Cause, fresh_for: Nanos, hops: Vec<Hop> },
    SharedRtt { min: Nanos },
    Feedback { blob: Vec<u8>, refused: bool },
    Expect(Vec<Expectation>),
    Let { name: String, asked: Asked },
    Repeat { times: u64, body: Vec<Statement> },
}

/// Which packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// So many: of what leaves the next, of what is in flight those that left first.
    Count(u64),
    /// All that are in flight; of what leaves, as many as the window lets.
    All,
    /// By their numbers, from 1 in the order in which they first left.
    Numbers(Vec<RangeInclusive<u64>>),
}

#[derive(Clone, Debug)]
pub(super) struct Expectation {
    pub(super) place: Place,
    /// As it is written.
    pub(super) text: String,
    pub(super) asked: Asked,
    pub(super) relation: Relation,
    pub(super) expected: Expected,
    pub(super) tolerance: Tolerance,
}

/// What an answer is held against.
#[derive(Clone, Debug)]
pub(super) enum Expected {
    Value(Value),
    /// `factor` times what was kept by this name.
    Kept {
        factor: f64,
        name: String,
    },
}

/// How far off an equal number may be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tolerance {
    Exact,
    /// Of what is expected.
    Share(f64),
    Value(Value),
}
