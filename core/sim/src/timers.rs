//! The timers of a world, by time and order of setting.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use paceline_cc::{Nanos, Time};

/// What a timer wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// A node (its number).
    Node(u32),
    /// A snapshot of every hop.
    Snapshot,
    /// The sink of a flow's telemetry (number of a flow).
    Sink(u32),
    /// The first report on the way to a flow's sender (number of a flow).
    Report(u32),
}

/// A timer in the heap.
struct Entry {
    at: Time,
    /// Its place among those at the same time.
    order: u64,
    target: Target,
}

impl Ord for Entry {
    /// The first is the greatest, as the heap wants it.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

/// A timer set for less than this after the one that came last is among the near ones: what hosts take, gaps of pacing. Beyond are
/// timers that wait for acknowledgements, most of which never come; there are many of them (our choice).
const NEAR: Nanos = Nanos::from_millis(1);

/// Timers in order of time, ties in the order in which they were set.
#[derive(Default)]
pub(crate) struct Timers {
    /// Two heaps, so that the timers that come and go do not sink through those that stay.
    near: BinaryHeap<Entry>,
    far: BinaryHeap<Entry>,
    /// When the last timer came.
    last: Time,
    set: u64,
}

impl Timers {
    pub(crate) fn set(&mut self, at: Time, target: Target) {
        if at < Time::NEVER {
            let order = self.order();
            self.push(Entry { at, order, target });
        }
    }

    /// The place among equals of a timer that is set now.
    fn order(&mut self) -> u64 {
        self.set += 1;
        self.set
    }

    fn push(&mut self, entry: Entry) {
        let heap = if entry.at - self.last < NEAR { &mut self.near } else { &mut self.far };
        heap.push(entry);
    }

    #[inline]
    pub(crate) fn next(&self) -> Time {
        let first = |heap: &BinaryHeap<Entry>| heap.peek().map_or(Time::NEVER, |entry| entry.at);
        first(&self.near).min(first(&self.far))
    }

    pub(crate) fn pop(&mut self) -> Option<(Time, Target)> {
        // The greater is the first of the two; nothing is less than any.
        let heap = if self.near.peek() > self.far.peek() { &mut self.near } else { &mut self.far };
        let Entry { at, target, .. } = heap.pop()?;
        self.last = at;
        Some((at, target))
    }
}

/// When a timer that moves often is next in the heap. A timer that moves later stays where it is and is looked at in
/// passing, so that a retransmission timer costs nothing an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Armed {
    at: Time,
    /// Its place among equals.
    order: u64,
    /// The earliest of its entries in the heap, and one behind that. The timer may be behind both; it enters the heap when the
    /// earliest comes.
    entry: Time,
    behind: Time,
}

impl Default for Armed {
    fn default() -> Self {
        Self { at: Time::NEVER, order: 0, entry: Time::NEVER, behind: Time::NEVER }
    }
}

impl Armed {
    /// Sees to it that `target` wakes at `at` or before.
    #[inline]
    pub(crate) fn arm(&mut self, timers: &mut Timers, at: Time, target: Target) {
        if at < self.at {
            self.at = at;
            self.order = timers.order();
            self.enter(timers, target);
        }
    }

    fn enter(&mut self, timers: &mut Timers, target: Target) {
        let Self { at, order, entry, .. } = *self;
        if at < entry {
            timers.push(Entry { at, order, target });
            (self.entry, self.behind) = (at, entry);
        }
    }

    /// The heap's entry for `at` has come: whether `target` is to wake.
    pub(crate) fn fire(&mut self, timers: &mut Timers, at: Time, target: Target) -> bool {
        if at != self.entry {
            return false;
        }
        (self.entry, self.behind) = (self.behind, Time::NEVER);
        let wakes = self.at == at;
        if wakes {
            self.at = Time::NEVER;
        } else {
            self.enter(timers, target);
        }
        wakes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Time {
        Time::ZERO + Nanos::from_micros(micros)
    }

    #[test]
    fn ties_come_in_the_order_in_which_they_were_set() {
        let mut timers = Timers::default();
        for (micros, number) in [(2, 0), (1, 1), (2, 2), (1, 3)] {
            timers.set(at(micros), Target::Sender(number));
        }
        timers.set(Time::NEVER, Target::Sender(4));
        let order: Vec<_> = std::iter::from_fn(|| timers.pop()).collect();
        assert_eq!(
            order,
            [(1, 1), (1, 3), (2, 0), (2, 2)].map(|(micros, number)| (at(micros), Target::Sender(number)))
        );
        assert_eq!(timers.next(), Time::NEVER);
    }

    #[test]
    fn a_timer_that_moves_back_and_forth_has_two_entries() {
        let (mut timers, mut armed) = (Timers::default(), Armed::default());
        let target = Target::Sender(0);
        let mut woken = Vec::new();
        // A retransmission timer 200 µs ahead, and in between one that comes within 3.
        for now in (0..1_000).step_by(10) {
            armed.arm(&mut timers, at(now + 200), target);
            armed.arm(&mut timers, at(now + 3), target);
            assert!(timers.near.len() + timers.far.len() <= 2);
            while timers.next() < at(now + 10) {
                woken.extend(wake(&mut timers, &mut armed));
            }
        }
        assert_eq!(woken, (0..1_000).step_by(10).map(|now| at(now + 3)).collect::<Vec<_>>());
        armed.arm(&mut timers, at(5_000), target);
        while timers.next() < Time::NEVER {
            woken.extend(wake(&mut timers, &mut armed));
        }
        assert_eq!(woken.split_off(100), [at(5_000)]);
    }

    /// Takes out the next entry; answers when the timer woke, if it did.
    fn wake(timers: &mut Timers, armed: &mut Armed) -> Option<Time> {
        let (due, target) = timers.pop()?;
        armed.fire(timers, due, target).then_some(due)
    }
}
