//! What the packets of all flows to a host found at the hops, one behind the other.
//!
//! Where a hop writes no counter, the room that one flow's packets saw says little of the time between them. The host's other flows
//! passed the same queue meanwhile, and a queue that keeps the order of its packets (drop-tail) is shown by them in the order in which they arrive.
//! Our choice, because no hop has to do anything for it. A hop that gives flows queues of their own is not described by its other flows.

use std::collections::VecDeque;

use paceline_cc::{Nanos, Time};

use crate::classify::{ALONE, HopAtGap};
use crate::report::REFERENCE;
use crate::sink::RATE_SPAN;
use crate::wire::{MAX_HOPS, NodeRecord};

/// A node's egress.
pub(crate) type Egress = (u32, Option<u16>);

pub(crate) fn egress(record: &NodeRecord) -> Egress {
    (record.node, record.egress)
}

/// Hops remembered: of two paths.
pub(crate) const MAX_KNOWN: usize = 2 * MAX_HOPS;
/// Records of each that are kept (our choice: two round trips of a hundred packets).
const MAX_RECORDS: usize = 256;
/// Hops count flows of this long.
const SHARED_FOR: Nanos = Nanos::from_secs(1);

/// One hop.
#[derive(Clone, Debug)]
struct Steps {
    egress: Egress,
    /// Number of the next record.
    next: u64,
    records: VecDeque<NodeRecord>,
    seen: Time,
    /// Whose the newest is, and when one of another flow came behind one before.
    flow: u32,
    shared: Option<Time>,
    /// Packets a second, those that did not arrive included.
    pps: f64,
    /// The most that waited in its queue.
    most_bytes: u32,
}

/// The hops before a host, by what its flows' packets found there.
#[derive(Clone, Debug, Default)]
pub struct Trail {
    hops: Vec<Steps>,
}

impl Trail {
    /// A packet of `flow` came, and `sent` of them left since the one before. Answers the number of its record.
    pub(crate) fn push(&mut self, now: Time, record: &NodeRecord, flow: u32, sent: u64) -> u64 {
        let steps = self.remember(egress(record), now);
        if steps.flow != flow && steps.next > 0 {
            steps.shared = Some(now);
        }
        let waited = now.since(steps.seen).as_secs_f64();
        steps.pps = steps.pps * libm::exp(-waited / RATE_SPAN) + sent as f64 / RATE_SPAN;
        (steps.flow, steps.seen) = (flow, now);
        steps.most_bytes = steps.most_bytes.max(record.queue_bytes.unwrap_or(0));
        if steps.records.len() == MAX_RECORDS {
            steps.records.pop_front();
        }
        steps.records.push_back(*record);
        steps.next += 1;
        steps.next - 1
    }

    fn remember(&mut self, wanted: Egress, now: Time) -> &mut Steps {
        let index = self.hops.iter().position(|steps| steps.egress == wanted).unwrap_or_else(|| {
            if self.hops.len() == MAX_KNOWN {
                let oldest = (0..MAX_KNOWN).min_by_key(|index| self.hops[*index].seen).unwrap_or(0);
                self.hops.swap_remove(oldest);
            }
            self.hops.push(Steps {
                egress: wanted,
                next: 0,
                records: VecDeque::new(),
                seen: now,
                flow: 0,
                shared: None,
                pps: 0.0,
                most_bytes: 0,
            });
            self.hops.len() - 1
        });
        &mut self.hops[index]
    }

    /// The gap at a hop as all flows of the host show it: between those two of their packets where the queue is likeliest to have been full. `mark`: the
    /// number of the record before it; `missing`: packets in it.
    pub(crate) fn between(
        &self,
        wanted: Egress,
        mark: Option<u64>,
        now: Time,
        gap: HopAtGap,
        missing: u32,
    ) -> HopAtGap {
        let Some(steps) = self.hops.iter().find(|steps| steps.egress == wanted) else { return gap };
        let oldest = steps.next - steps.records.len() as u64;
        let shared = steps.shared.is_some_and(|at| now.since(at) <= SHARED_FOR);
        let mark = mark.filter(|mark| shared && *mark >= oldest);
        let others = mark.map_or(steps.records.len(), |mark| (mark + 1 - oldest) as usize);
        let others = steps.records.iter().skip(others).copied().map(Some);
        let all = [gap.before].into_iter().chain(others).chain([gap.after]);
        let all: Vec<Option<NodeRecord>> = all.map(|record| record.map(|record| steps.with_room(record))).collect();
        let known = gap.after.or(gap.before).unwrap_or_default();
        let seen = known.arrival_pps.filter(|all| *all > 0.0 && mark.is_some()).map_or(0.0, |all| steps.pps / all);
        let share = if seen >= ALONE { 1.0 } else { seen.max(gap.share) };
        let passed = gap.passed / (all.len() - 1) as f64;
        let pairs = all.windows(2).map(|pair| HopAtGap { before: pair[0], after: pair[1], share, passed, ..gap });
        let room = |hop: &HopAtGap| hop.before.and_then(|record| record.room_packets).unwrap_or(0);
        let tightest = pairs.min_by_key(|hop| (hop.reaches(missing) == Some(false), room(hop))).unwrap_or(gap);
        // A queue whose limit is not known has room for this much at least: without it nothing is known.
        if known.room_packets.is_none() && tightest.reaches(missing) != Some(false) { gap } else { tightest }
    }
}

impl Steps {
    /// Of a hop that reports what waits and not its room: there is room for what has waited there at some time.
    fn with_room(&self, record: NodeRecord) -> NodeRecord {
        let least = |bytes: u32| self.most_bytes.saturating_sub(bytes) / REFERENCE as u32;
        NodeRecord { room_packets: record.room_packets.or(record.queue_bytes.map(least)), ..record }
    }
}

#[cfg(test)]
mod tests;
