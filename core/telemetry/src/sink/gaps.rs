//! Missing numbers, with what the hops wrote on both sides of them.

use std::collections::VecDeque;
use std::ops::Range;

use paceline_cc::{Nanos, Time};

use super::{GUARD, JudgedGap, PATIENCE, REORDERED};
use crate::classify::{CountedSpan, Drops, HopAtGap, LossSplit, Policed, judge};
use crate::report::HopReport;
use crate::trail::{Egress, MAX_KNOWN, Trail, egress};
use crate::wire::NodeRecord;

/// Most gaps that wait to be counted.
const MAX_GAPS: usize = 128;
/// Most counted gaps that are kept from one report to the next.
const MAX_CLOSED: usize = 1024;
/// A hop that was silent for this long may have been started again: its counter says nothing.
const SILENT: Nanos = Nanos::from_secs(10);
/// Counters that step further than this have been started again.
const MOST_STEP: u16 = i16::MAX as u16;
/// The medium's losses at the start, and the packets over which they are smoothed (our choice).
const MEDIUM: f64 = 0.01;
const MEMORY: f64 = 256.0;

/// Consecutive missing numbers.
#[derive(Clone, Debug)]
pub(super) struct Gap {
    pub(super) first: u64,
    /// The number behind it, which came.
    pub(super) end: u64,
    at: Time,
    hops: Vec<(Egress, HopAtGap)>,
    complete: bool,
    split: LossSplit,
    changed: bool,
    /// Counted as missing so far.
    missed: u32,
}

impl Gap {
    fn missing(&self) -> u32 {
        (self.end - self.first) as u32
    }

    /// When it is to be counted, if `hi` is the highest number that has come.
    pub(super) fn mature(&self, hi: u64) -> Time {
        let awaits =
            |(_, hop): &(Egress, HopAtGap)| hop.drops == Drops::Awaited || hop.policed == Some(Policed::Awaited);
        let awaits = self.hops.iter().any(awaits);
        self.at + if !awaits && hi >= self.end + REORDERED - 1 { GUARD } else { PATIENCE }
    }

    fn judge(&mut self, missing: u32) -> LossSplit {
        let hops: Vec<HopAtGap> = self.hops.iter().map(|(_, hop)| *hop).collect();
        judge(missing, &hops, self.complete)
    }

    fn judge_again(&mut self) {
        let split = self.judge(self.missing());
        self.changed |= split != self.split;
        self.split = split;
    }
}

/// What is remembered of a hop.
#[derive(Clone, Debug)]
struct Known {
    key: Egress,
    seen: Time,
    /// Number of its newest record in the trail.
    mark: Option<u64>,
    /// Its counter of drops, as far as [`Counter`] goes.
    counter: Option<Counter>,
    /// What its node has policed, as it reports it.
    policed: Option<PolicedCount>,
    /// The queue's limit, as its node reports it.
    limit: Option<u32>,
    /// The rate of its link, as its node reports it.
    rate_100k: Option<u32>,
    /// The largest room that a packet found.
    most_room: u32,
}

/// What a node has policed by its newest report.
#[derive(Clone, Copy, Debug, Default)]
struct PolicedCount {
    count: u16,
    /// Of those dropped between its last two reports, the ones that no gap has shown yet: a packet behind a gap may still be under way
    /// when the drop is reported.
    left: u16,
}

impl Known {
    fn new(key: Egress) -> Self {
        Self {
            key,
            seen: Time::ZERO,
            mark: None,
            counter: None,
            policed: None,
            limit: None,
            rate_100k: None,
            most_room: 0,
        }
    }
}

/// A counter of drops, and whose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counter {
    Own(u16),
    All(u16),
}

impl Counter {
    fn of(record: &NodeRecord) -> Option<Self> {
        record.flow_dropped.map(Self::Own).or(record.dropped.map(Self::All))
    }

    /// What was dropped since `before`; `None`: it has started again, or is another.
    fn since(self, before: Self) -> Option<u16> {
        let step = match (before, self) {
            (Self::Own(before), Self::Own(now)) | (Self::All(before), Self::All(now)) => now.wrapping_sub(before),
            _ => return None,
        };
        (step <= MOST_STEP).then_some(step)
    }
}

/// A packet that came, beyond all before it.
pub(super) struct Came {
    pub(super) now: Time,
    /// Of this flow, and so many packets since the one before, this one included.
    pub(super) flow: u32,
    pub(super) sent: u64,
    /// Seconds between this packet's sending and that of the one before it.
    pub(super) waited: f64,
    pub(super) own_pps: f64,
    /// No hop found its header full, nor that of the packet before.
    pub(super) complete: bool,
    /// Packets in the largest buffers that the flow has sent.
    pub(super) buffer: u32,
}

impl Came {
    /// The flow's share of what came to the hop.
    fn share(&self, record: &NodeRecord) -> f64 {
        match (record.flows, record.arrival_pps) {
            (Some(1), _) => 1.0,
            (flows, Some(all)) if all > 0.0 => {
                (self.own_pps / all).clamp(0.25 / f64::from(flows.unwrap_or(8).max(1)), 1.0)
            }
            (Some(flows), _) => 1.0 / f64::from(flows.max(1)),
            _ => 0.5,
        }
    }
}

/// All gaps of a flow that have not been counted.
#[derive(Clone, Debug)]
pub(super) struct Gaps {
    open: VecDeque<Gap>,
    /// Newly judged and counted since the last tally.
    tallied: LossSplit,
    pub(super) closed: Vec<JudgedGap>,
    known: Vec<Known>,
    /// Share of packets that the medium loses.
    medium: f64,
}

impl Default for Gaps {
    fn default() -> Self {
        Self {
            open: VecDeque::new(),
            tallied: LossSplit::default(),
            closed: Vec::new(),
            known: Vec::new(),
            medium: MEDIUM,
        }
    }
}

impl Gaps {
    pub(super) fn restart(&mut self) {
        self.open.clear();
        for known in &mut self.known {
            known.counter = None;
        }
    }

    /// These numbers are missing between two packets with these records.
    pub(super) fn open(
        &mut self,
        numbers: Range<u64>,
        before: &[NodeRecord],
        after: &[NodeRecord],
        came: &Came,
        trail: &Trail,
    ) {
        let Range { start: first, end } = numbers;
        let find =
            |records: &[NodeRecord], wanted: Egress| records.iter().find(|record| egress(record) == wanted).copied();
        let gone = before.iter().filter(|record| find(after, egress(record)).is_none());
        let hops = after.iter().chain(gone).map(|record| {
            let wanted = egress(record);
            let passed = record.arrival_pps.map_or(0.0, |pps| pps * came.waited);
            let counted = self
                .known
                .iter()
                .any(|known| known.key == wanted && known.counter.is_some() && came.now.since(known.seen) <= SILENT);
            let drops = if counted { Drops::Awaited } else { Drops::Uncounted };
            let polices = |known: &Known| known.key == wanted && known.policed.is_some();
            let policed = self.known.iter().any(polices).then_some(Policed::Awaited);
            let (before, after) = (find(before, wanted), find(after, wanted));
            let share = came.share(record);
            let gap = HopAtGap { before, after, drops, policed, share, passed, buffer: came.buffer };
            let mark = self.known.iter().find(|known| known.key == wanted).and_then(|known| known.mark);
            (wanted, trail.between(wanted, mark, came.now, gap, (end - first) as u32))
        });
        let (hops, complete, split) = (hops.collect(), came.complete, LossSplit::default());
        let mut gap = Gap { first, end, at: came.now, hops, complete, split, changed: true, missed: 0 };
        gap.split = gap.judge(gap.missing());
        self.open.push_back(gap);
    }

    /// Takes the counters of a packet's records, which end the spans of gaps before it, and the rooms.
    pub(super) fn counters(&mut self, records: &[NodeRecord], came: &Came, trail: &mut Trail) {
        let now = came.now;
        for record in records {
            let wanted = egress(record);
            let known = self.remember(wanted);
            known.mark = Some(trail.push(now, record, came.flow, came.sent));
            let silent = now.since(known.seen) > SILENT;
            known.seen = now;
            known.most_room = known.most_room.max(record.room_packets.unwrap_or(0));
            let Some(counter) = Counter::of(record) else { continue };
            let drops = known.counter.replace(counter).filter(|_| !silent).and_then(|before| counter.since(before));
            let share = if matches!(counter, Counter::Own(_)) { 1.0 } else { came.share(record) };
            self.span(wanted, drops, share);
        }
    }

    /// What is known of this hop, which may be new.
    fn remember(&mut self, wanted: Egress) -> &mut Known {
        let index = self.known.iter().position(|known| known.key == wanted).unwrap_or_else(|| {
            if self.known.len() == MAX_KNOWN {
                let oldest = (0..MAX_KNOWN).min_by_key(|index| self.known[*index].seen).unwrap_or(0);
                self.known.swap_remove(oldest);
            }
            self.known.push(Known::new(wanted));
            self.known.len() - 1
        });
        &mut self.known[index]
    }

    /// A hop's span ends: what it dropped is given to the gaps that waited for it; `None`: its counter has started again.
    fn span(&mut self, wanted: Egress, drops: Option<u16>, share: f64) {
        let awaits = |gap: &Gap| gap.hops.iter().position(|(key, hop)| *key == wanted && hop.drops == Drops::Awaited);
        let waiting: Vec<(usize, usize)> =
            self.open.iter().enumerate().filter_map(|(index, gap)| Some((index, awaits(gap)?))).collect();
        if waiting.is_empty() {
            return;
        }
        let gaps: Vec<(u32, HopAtGap)> =
            waiting.iter().map(|(gap, hop)| (self.open[*gap].missing(), self.open[*gap].hops[*hop].1)).collect();
        let span = drops.map(|drops| CountedSpan { drops: u32::from(drops), share, medium: self.medium });
        let given = span.map(|span| span.allocate(&gaps));
        for (index, (gap, hop)) in waiting.into_iter().enumerate() {
            let drops = given.as_ref().map_or(Drops::Uncounted, |given| Drops::Counted(given[index]));
            self.open[gap].hops[hop].1.drops = drops;
            self.open[gap].judge_again();
        }
    }

    /// What has been newly judged since the last call.
    pub(super) fn tally(&mut self) -> LossSplit {
        let mut tally = std::mem::take(&mut self.tallied);
        for gap in self.open.iter_mut().filter(|gap| gap.changed) {
            gap.changed = false;
            tally.add(gap.split);
        }
        tally
    }

    /// A number of the oldest gap is counted, and has not come.
    pub(super) fn missed(&mut self) {
        if let Some(gap) = self.open.front_mut() {
            gap.missed += 1;
        }
    }

    /// Takes the oldest gap out when all before `counted` has been counted: why its packets were lost.
    pub(super) fn close(&mut self, counted: u64) -> Option<LossSplit> {
        let mut gap = self.open.pop_front_if(|gap| gap.end <= counted)?;
        for (_, hop) in &mut gap.hops {
            if hop.drops == Drops::Awaited {
                hop.drops = Drops::Uncounted;
            }
        }
        let split = gap.judge(gap.missed);
        if gap.changed {
            self.tallied.add(split);
        }
        if self.closed.len() < MAX_CLOSED {
            self.closed.push(JudgedGap { first: gap.first as u32, numbers: gap.missing(), split });
        }
        Some(split)
    }

    /// `received` packets came and `medium` were lost by the medium.
    pub(super) fn learn(&mut self, received: u32, medium: u32) {
        let all = f64::from(received) + f64::from(medium);
        if all > 0.0 {
            let weight = (all / MEMORY).min(1.0);
            self.medium += weight * (f64::from(medium) / all - self.medium);
        }
    }

    pub(super) fn front(&self) -> Option<&Gap> {
        self.open.front()
    }

    pub(super) fn too_many(&self) -> bool {
        self.open.len() > MAX_GAPS
    }

    /// What a node reports of a hop: the limit of its queue and the rate of its link, where a hop of the flow has them, and how many
    /// packets it has policed.
    pub(super) fn reported(&mut self, node: u32, hop: &HopReport) {
        if let Some(count) = hop.policed {
            self.policed((node, hop.eg), count);
        }
        if let Some(known) = self.known.iter_mut().find(|known| known.key == (node, hop.eg)) {
            (known.limit, known.rate_100k) = (hop.limit_pkts, hop.rate_100k);
        }
    }

    /// A node has policed `count` packets: its drops are those of the gaps that wait for it if they are enough for all of them.
    fn policed(&mut self, wanted: Egress, count: u16) {
        let known = self.remember(wanted);
        let Some(before) = known.policed else {
            known.policed = Some(PolicedCount { count, left: 0 });
            return;
        };
        // A count that steps further has been started again.
        let rise = Some(count.wrapping_sub(before.count)).filter(|rise| *rise <= MOST_STEP);
        let dropped = rise.map(|rise| u32::from(rise) + u32::from(before.left));
        let waits = |(key, hop): &(Egress, HopAtGap)| *key == wanted && hop.policed == Some(Policed::Awaited);
        let waiting: Vec<(usize, usize)> =
            (0..).zip(&self.open).filter_map(|(index, gap)| Some((index, gap.hops.iter().position(waits)?))).collect();
        let missing: u32 = waiting.iter().map(|(gap, _)| self.open[*gap].missing() - self.open[*gap].split.queue).sum();
        let verdict = match dropped {
            Some(0) => Policed::Nothing,
            Some(dropped) if dropped >= missing => Policed::All,
            _ => Policed::Some,
        };
        for (gap, hop) in waiting {
            self.open[gap].hops[hop].1.policed = Some(verdict);
            self.open[gap].judge_again();
        }
        let left = dropped.unwrap_or(0).saturating_sub(missing).min(u32::from(rise.unwrap_or(0))) as u16;
        self.remember(wanted).policed = Some(PolicedCount { count, left });
    }

    /// What is known of the hop that wrote `record`.
    pub(super) fn hop(&self, record: &NodeRecord) -> HopReport {
        let known = self.known.iter().find(|known| known.key == egress(record));
        let shown = known.map(|known| known.most_room).filter(|room| *room > 0);
        let of_packet = HopReport::of(record);
        let limit_pkts = known.and_then(|known| known.limit).or(shown);
        let rate_100k = of_packet.rate_100k.or(known.and_then(|known| known.rate_100k));
        HopReport { limit_pkts, rate_100k, ..of_packet }
    }
}
