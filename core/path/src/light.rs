//! A trace link that carries less under a light load.
//!
//! A saturator records what a cellular network gives to someone who always has something waiting. Who sends a little at a time
//! gets less: grants follow what is waiting. Sentosa et al., "CellReplay: Towards accurate record-and-replay for cellular
//! networks" (NSDI 2025) therefore records and replays two traces, one under saturation and one under short trains of packets.
//! The rule that chooses between them is ours, and simpler: what waits decides. Once `below` bytes wait, grants have caught up,
//! and the link serves by the full trace until nothing has waited for the time `after`; then it begins with the light trace again.
//! CellReplay lets a number of packets pass by the light trace, however many wait, and has a timer in the place of `after`.

use std::sync::Arc;

use paceline_cc::{Nanos, Time};

use crate::schedule::Schedule;
use crate::trace::{Cursor, OPPORTUNITY, Trace};

/// Backlog from which a link serves by its full trace: ten full packets (our choice: a first flight of a connection, RFC 6928,
/// is the longest that is still a light load).
pub const LIGHT_BELOW: u64 = 10 * OPPORTUNITY as u64;

/// What a link offers under a light load.
#[derive(Clone, Debug)]
pub struct Light {
    /// Its opportunities. A lap as long as the full trace's keeps both in step.
    pub trace: Arc<Trace>,
    /// As soon as this many bytes wait, the packet in service included, the link serves by the full trace.
    pub below: u64,
    /// When nothing has waited for this long, the load is light again.
    pub after: Nanos,
}

/// Where a link is in its traces.
#[derive(Debug, Default)]
pub(crate) struct Opportunities {
    full: Cursor,
    light: Cursor,
    /// Whether the full trace serves.
    saturated: bool,
    /// Since when nothing waits, where nothing does.
    emptied: Time,
}

impl Opportunities {
    /// Notes that nothing waits from now on.
    pub(crate) fn emptied(&mut self, now: Time) {
        self.emptied = now;
    }

    /// Notes that something waits again.
    pub(crate) fn begin(&mut self, schedule: &Schedule, now: Time) {
        self.saturated &= schedule.light().is_some_and(|light| now.since(self.emptied) < light.after);
    }

    /// Notes how many bytes wait; whether the full trace serves from now on, and did not before.
    pub(crate) fn waiting(&mut self, schedule: &Schedule, bytes: u64) -> bool {
        let began = !self.saturated && schedule.light().is_some_and(|light| bytes >= light.below);
        self.saturated |= began;
        began
    }

    /// The first opportunity after `now`.
    pub(crate) fn after(&mut self, schedule: &Schedule, now: Time) -> Time {
        match schedule.light() {
            Some(light) if !self.saturated => schedule.opportunity_after_of(&light.trace, &mut self.light, now),
            _ => schedule.opportunity_after(&mut self.full, now),
        }
    }

    /// The opportunity behind the one at `now`, with `bytes` that wait. Those of one moment belong to one trace.
    pub(crate) fn next(&mut self, schedule: &Schedule, now: Time, bytes: u64) -> Time {
        let next = match schedule.light() {
            Some(light) if !self.saturated => schedule.opportunity_of(&light.trace, &mut self.light),
            _ => schedule.opportunity(&mut self.full),
        };
        if next > now && self.waiting(schedule, bytes) { self.after(schedule, now) } else { next }
    }
}

/// The other trace of a link from the same place on as the full one.
pub(crate) fn starting(trace: Arc<Trace>, start: Option<Nanos>) -> Arc<Trace> {
    match start {
        None | Some(Nanos::ZERO) => trace,
        Some(start) => Arc::new(trace.starting(start)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Link;
    use crate::packet::Packet;
    use crate::queue::{DropTail, QueueBound};
    use crate::row::Path;
    use paceline_cc::Codepoint;

    /// Every millisecond under saturation, every tenth under a light load; three packets are not a light load.
    fn path(after: Nanos) -> Path<u32> {
        let trace =
            |step: u32| Arc::new(Trace::from_millis("t", (1..=100 / step).map(|n| n * step).collect()).unwrap());
        let schedule = Schedule::from_trace(trace(1)).with_light(Light { trace: trace(10), below: 4500, after });
        Path::new().link(Link::new(schedule, Box::new(DropTail::new(QueueBound::NONE))))
    }

    fn push(path: &mut Path<u32>, millis: u64, packets: u32) {
        for body in 0..packets {
            path.push(Time::from_millis(millis), Packet::new(0, 1500, Codepoint::NotEct, body));
        }
    }

    fn leave(path: &mut Path<u32>, until: u64) -> Vec<u64> {
        let packets = std::iter::from_fn(|| path.pop(Time::from_millis(until)));
        packets.map(|packet| packet.entered.as_nanos() / 1_000_000).collect()
    }

    #[test]
    fn a_backlog_brings_grants_until_nothing_waits() {
        let mut path = path(Nanos::ZERO);
        push(&mut path, 0, 2);
        assert_eq!(leave(&mut path, 30), [10, 20], "two packets are a light load");
        push(&mut path, 31, 3);
        assert_eq!(leave(&mut path, 40), [32, 33, 34], "three are not, down to the last");
        push(&mut path, 41, 1);
        assert_eq!(leave(&mut path, 60), [50], "the next busy period begins lightly");
    }

    #[test]
    fn what_comes_meanwhile_brings_the_next_opportunity_nearer() {
        let mut path = path(Nanos::ZERO);
        push(&mut path, 0, 2);
        push(&mut path, 5, 1);
        assert_eq!(path.next(), Time::from_millis(6));
        assert_eq!(leave(&mut path, 30), [6, 7, 8]);
        // At the very time of an opportunity: it is used by what waited.
        push(&mut path, 31, 2);
        push(&mut path, 40, 1);
        assert_eq!(leave(&mut path, 60), [40, 50, 60]);
    }
    #[test]
    fn grants_outlast_a_pause_shorter_than_after() {
        let mut path = path(Nanos::from_millis(5));
        push(&mut path, 0, 3);
        assert_eq!(leave(&mut path, 3), [1, 2, 3]);
        push(&mut path, 7, 1);
        assert_eq!(leave(&mut path, 8), [8], "four milliseconds later");
        push(&mut path, 13, 1);
        assert_eq!(leave(&mut path, 30), [20], "five");
    }
}
