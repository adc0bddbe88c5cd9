//! The timers of a world: a heap of (time, order of setting, target).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use paceline_cc::Time;

/// What a timer wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    /// A flow begins (index of a configured flow).
    Start(u32),
    /// A flow's application stops writing (index of a configured flow).
    Stop(u32),
    /// The next flow of a family arrives (index of a configured flow).
    Arrival(u32),
    /// A sender (number of a flow).
    Sender(u32),
    /// A receiver (number of a flow).
    Receiver(u32),
    /// An application writes, or falls silent (number of a flow).
    Application(u32),
    /// Head of a flow's own delay line towards its receiver (number of a flow).
    Access(u32),
    /// Head of a flow's own delay line back to its sender (number of a flow).
    Return(u32),
    /// A source of cross traffic (index of a configured source).
    Cross(u32),
}

/// Timers in order of time, ties in the order in which they were set.
#[derive(Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Time, u64, Target)>>,
    set: u64,
}

impl Timers {
    pub(crate) fn set(&mut self, at: Time, target: Target) {
        if at < Time::NEVER {
            self.set += 1;
            self.heap.push(Reverse((at, self.set, target)));
        }
    }

    pub(crate) fn next(&self) -> Time {
        self.heap.peek().map_or(Time::NEVER, |Reverse((at, _, _))| *at)
    }

    pub(crate) fn pop(&mut self) -> Option<(Time, Target)> {
        self.heap.pop().map(|Reverse((at, _, target))| (at, target))
    }
}

/// When a timer that moves often is next in the heap. A timer that moves later stays where it is and is looked at in
/// passing, so that a retransmission timer costs nothing an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Armed(Time);

impl Default for Armed {
    fn default() -> Self {
        Self(Time::NEVER)
    }
}

impl Armed {
    /// Sees to it that `target` wakes at `at` or before.
    pub(crate) fn arm(&mut self, timers: &mut Timers, at: Time, target: Target) {
        if at < self.0 {
            self.0 = at;
            timers.set(at, target);
        }
    }

    /// The heap's entry for `at` has come: whether it is the one that counts.
    pub(crate) fn fire(&mut self, at: Time) -> bool {
        let counts = self.0 == at;
        if counts {
            self.0 = Time::NEVER;
        }
        counts
    }
}
