//! Why packets are missing: a full queue dropped them, a policer, or the medium lost them.
//!
//! What is known of a gap is what the hops wrote into the packets on its two sides. Two rules, after the rules of thumb that the
//! paper's sentence "from the loss ratio and the available queue capacity" leaves room for:
//!
//! 1. *Counters.* A hop writes its count of dropped packets before the packet is queued, so the difference of two records is
//!    what was dropped between them. None dropped: this queue dropped nothing of the gap. Where the hop counts the flow's own
//!    drops ([`NodeRecord::flow_dropped`]), some dropped are as many of the gap. Where it counts all flows', they are the flow's
//!    if it is alone, else whichever of the two reasons is likelier ([`CountedSpan::allocate`]).
//! 2. *Room.* Without counters a queue can have dropped something only if it can have become full in between: the packets that
//!    came to it after the one before the gap must be enough to take the room that this one saw, and the one behind the gap must
//!    still see a queue that is nearly full ([`HopAtGap::reaches`]). This takes the place of a fixed threshold such as "4 packets or
//!    10 % of the limit": a queue of 16 packets that is half full is far from full for one flow, and a queue of 250 with room
//!    for 8 is not for ten flows. Buffers of segmentation offload come and are dropped whole, so that a queue may have dropped one
//!    for which it had almost enough room.
//!
//! A node that polices reports how many packets it has dropped. What no queue dropped of a gap was policed if that count rose by as many
//! as are missing ([`Policed`]).
//!
//! Where neither is known of some hop, the reason is unknown, which the sender takes for congestion.

use crate::report::REFERENCE;
use crate::wire::NodeRecord;

/// Packets that may wait in a queue whose room is not known, while it counts as empty (our choice: a burst of two
/// acknowledgements' worth).
const NEARLY_EMPTY: u32 = 4 * REFERENCE as u32;
/// Rooms of queues that are limited in octets are rounded down, so that one packet more may fit (our choice).
const ROUNDING: f64 = 1.0;
/// Room that a queue may have as it drops, for bursts of a few packets that leave at once (our choice); where the flow sends larger
/// buffers, almost one of these.
const NEARLY_FULL: f64 = 3.0;
/// How much denser than on average others' packets may come within a gap (our choice: bursts of two).
const BURSTS: f64 = 2.0;
/// A flow with this share of the arrivals is taken to be alone: rates on the wire have steps of 9 %.
pub(crate) const ALONE: f64 = 0.85;

/// What is known of a queue's drops about a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Drops {
    /// The hop writes no counter.
    #[default]
    Uncounted,
    /// It does, and no packet behind the gap has carried it yet.
    Awaited,
    /// This many of the gap's packets.
    Counted(u32),
}

/// What a node that polices says of a gap, by the reports around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policed {
    /// No report has come since.
    Awaited,
    /// It dropped at least as many as are missing.
    All,
    /// It dropped some, and fewer: which they were is not known.
    Some,
    /// It dropped nothing.
    Nothing,
}

/// One hop about a gap.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct HopAtGap {
    /// What it wrote into the packet before the gap.
    pub before: Option<NodeRecord>,
    /// What it wrote into the packet behind it.
    pub after: Option<NodeRecord>,
    /// Its counter of drops.
    pub drops: Drops,
    /// Its policer; `None` where it has none.
    pub policed: Option<Policed>,
    /// The flow's share of what comes to it, above 0 to 1.
    pub share: f64,
    /// Packets that came to it from all flows between the sending of the packets on the two sides.
    pub passed: f64,
    /// Packets in the largest buffers that the flow sends, which a queue takes or drops whole.
    pub buffer: u32,
}

/// Missing packets by reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LossSplit {
    /// A full queue dropped them.
    pub queue: u32,
    /// A policer dropped them.
    pub policed: u32,
    /// The medium lost them.
    pub medium: u32,
    /// Not known.
    pub unknown: u32,
}

impl LossSplit {
    pub(crate) fn add(&mut self, other: Self) {
        self.queue = self.queue.saturating_add(other.queue);
        self.policed = self.policed.saturating_add(other.policed);
        self.medium = self.medium.saturating_add(other.medium);
        self.unknown = self.unknown.saturating_add(other.unknown);
    }
}

/// What one hop says of a gap.
enum Finding {
    Clear,
    Dropped(u32),
    Full,
    Unknown,
}

impl HopAtGap {
    /// Whether the queue can have become full while `missing` packets of the flow passed, and what came with them, and still shows
    /// it; `None`: its room is not known.
    pub fn reaches(&self, missing: u32) -> Option<bool> {
        // Since the last drop the queue has drained no more than what came in four of the mean distances of packets in the gap (our
        // choice: senders pause after a reduction), and at least the room of the packet behind it.
        let halves = (f64::from(missing) / 2.0).max(1.0);
        let nearly_full = NEARLY_FULL.max(f64::from(self.buffer.min(missing)));
        let drained = ROUNDING + nearly_full + BURSTS * (self.passed / halves).max(1.0 / self.share());
        let full = room(self.after).map(|room| room <= drained);
        match (self.fills(missing), full) {
            (None, None) => None,
            (fills, full) => Some(fills.unwrap_or(true) && full.unwrap_or(true)),
        }
    }

    /// Whether what came in the gap is enough to fill the queue.
    fn fills(&self, missing: u32) -> Option<bool> {
        room(self.before).map(|room| room <= self.tightness(missing) + ROUNDING)
    }

    /// Packets that can have come to the queue in the gap, with the one that shows it.
    fn tightness(&self, missing: u32) -> f64 {
        let own = f64::from(missing) + 1.0;
        own * (1.0 + BURSTS * (1.0 / self.share() - 1.0))
    }

    fn share(&self) -> f64 {
        if self.share > 0.0 { self.share.min(1.0) } else { 1.0 }
    }

    fn finding(&self, missing: u32) -> Finding {
        match (self.drops, self.reaches(missing)) {
            (Drops::Counted(0), _) => Finding::Clear,
            (Drops::Counted(drops), _) => Finding::Dropped(drops),
            (_, Some(false)) => Finding::Clear,
            (Drops::Awaited, _) => Finding::Unknown,
            (Drops::Uncounted, Some(true)) => Finding::Full,
            (Drops::Uncounted, None) => {
                let waits = |record: Option<NodeRecord>| record.and_then(|record| record.queue_bytes);
                match (waits(self.before), waits(self.after)) {
                    (Some(before), Some(after)) if before.max(after) <= NEARLY_EMPTY => Finding::Clear,
                    _ => Finding::Unknown,
                }
            }
        }
    }
}

fn room(record: Option<NodeRecord>) -> Option<f64> {
    record?.room_packets.map(f64::from)
}

/// Splits a gap of `missing` packets. `complete`: every hop of the path wrote a record.
pub fn judge(missing: u32, hops: &[HopAtGap], complete: bool) -> LossSplit {
    let (mut queue, mut full, mut known) = (0u32, false, complete && !hops.is_empty());
    let policed = hops.iter().any(|hop| hop.policed == Some(Policed::All));
    for hop in hops {
        match hop.finding(missing) {
            Finding::Clear => {}
            Finding::Dropped(drops) => queue = queue.saturating_add(drops),
            Finding::Full => full = true,
            Finding::Unknown => known = false,
        }
        known &= !matches!(hop.policed, Some(Policed::Awaited | Policed::Some));
    }
    let queue = queue.min(missing);
    let rest = missing - queue;
    let of_rest = LossSplit { queue, ..LossSplit::default() };
    match (full, known) {
        (true, _) => LossSplit { queue: missing, ..LossSplit::default() },
        _ if policed => LossSplit { policed: rest, ..of_rest },
        (false, true) => LossSplit { medium: rest, ..of_rest },
        (false, false) => LossSplit { unknown: rest, ..of_rest },
    }
}

/// The packets between two that carried a hop's counter: some gaps, and the drops of all flows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CountedSpan {
    /// Packets that the queue dropped in it.
    pub drops: u32,
    /// The flow's share of them: 1 where they are its own, else its share of what came to the queue.
    pub share: f64,
    /// Share of the flow's packets that the medium loses.
    pub medium: f64,
}

impl CountedSpan {
    /// How many packets of each gap the queue dropped. `gaps`: how many packets each misses, and its hop.
    ///
    /// A flow that is alone lost all of them, first where the queue can have become full, and there where it had least room. Among
    /// several flows a missing packet was dropped if the queue can have become full and that is likelier than that the medium lost
    /// it: of the packets that came to the full queue `drops` were dropped, and of the flow's packets `medium` are lost at any time.
    pub fn allocate(&self, gaps: &[(u32, HopAtGap)]) -> Vec<u32> {
        let mut given = vec![0; gaps.len()];
        let fills = |gap: usize| gaps[gap].1.fills(gaps[gap].0) != Some(false);
        let alone = self.share >= ALONE;
        let mut order: Vec<usize> = (0..gaps.len()).filter(|gap| alone || fills(*gap)).collect();
        let came: f64 = order.iter().map(|gap| f64::from(gaps[*gap].0) + 1.0).sum();
        let dropped = (f64::from(self.drops) * self.share / came.max(1.0)).min(1.0);
        if !alone && dropped < (1.0 - dropped) * self.medium {
            return given;
        }
        let slack = |gap: usize| {
            let (missing, hop) = &gaps[gap];
            room(hop.before).unwrap_or(0.0) + room(hop.after).unwrap_or(0.0) - hop.tightness(*missing)
        };
        order.sort_by(|a, b| fills(*b).cmp(&fills(*a)).then(slack(*a).total_cmp(&slack(*b))));
        let mut left = self.drops;
        for gap in order {
            given[gap] = gaps[gap].0.min(left);
            left -= given[gap];
        }
        given
    }
}

#[cfg(test)]
mod tests;
