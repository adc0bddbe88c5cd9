//! What of a sender's bytes is on its way, by what its receiver says it has: RFC 6675, whose `pipe` Linux counts in packets
//! (`tcp_packets_in_flight`).

use crate::ranges::RangeSet;
use crate::segment::Range;

/// Acknowledgements out of order that make a loss (RFC 5681 section 3.2, RFC 6675 `DupThresh`), less one.
const REORDERED: u64 = 2;
/// Longest segment that is a packet; above are those that a card is to cut (our choice: jumbo frames).
const PACKET: u32 = 9000;
/// Bytes of a packet where none was longer (RFC 9293 section 3.7.1).
const SMALLEST: u64 = 536;
/// Most gaps that are followed (our choice: 2 MB; more than a window of the largest queues has).
const MOST_GAPS: usize = 1 << 16;

/// What is known of the bytes between the acknowledged ones and the last that was sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Flight {
    /// What arrived behind a gap.
    sacked: RangeSet,
    held: u64,
    /// The same where the receiver sends no SACK blocks: a packet for each acknowledgement that repeats the one before.
    repeated: u64,
    /// What was sent again, and has not arrived.
    again: RangeSet,
    repairing: u64,
    /// What is below and has not arrived is lost.
    lost_to: u64,
    /// Bytes of a full packet.
    full: u64,
    /// When the receiver was last heard, and the last round trip, ns.
    heard: i64,
    rtt: u64,
    scratch: Vec<Range>,
}

impl Flight {
    /// New data of this many bytes is sent.
    pub(super) fn sends(&mut self, bytes: u32) {
        self.full = self.full.max(SMALLEST).max(if bytes <= PACKET { bytes.into() } else { 0 });
    }

    /// A range is sent again.
    pub(super) fn again(&mut self, at: i64, range: Range, [una, next]: [u64; 2]) {
        let range = Range { start: range.start.max(una), ..range };
        if range.start >= range.end {
            return;
        }
        let first = range.start == una;
        let silence = at.saturating_sub(self.heard).max(0) as u64;
        let silent = silence > self.rtt && self.again.holding(una).is_some();
        let behind = self.sacked.last().is_some_and(|last| last.end > range.end);
        if first && (silent || self.sacked.is_empty() && self.repeated == 0) {
            // The timer fired: all is lost that did not arrive.
            self.lost_to = next;
            self.repairing -= self.again.remove(Range { start: 0, end: u64::MAX });
            self.repeated = 0;
        } else if behind || first && self.repeated > 0 {
            // Its sender found it lost, by whatever rule (RFC 8985 needs no third acknowledgement).
            self.lost_to = self.lost_to.max(range.end);
        }
        self.scratch.clear();
        if self.again.len() < MOST_GAPS {
            self.again.insert(range, &mut self.scratch);
        }
        self.repairing += self.scratch.iter().map(|part| part.end - part.start).sum::<u64>();
        // What had arrived is not repaired by it.
        let mut at = range.start;
        while let Some(part) = self.sacked.next(at).filter(|part| part.start < range.end) {
            self.repairing -= self.again.remove(part);
            at = part.end;
        }
    }

    /// An acknowledgement moved what is acknowledged from `before` to `una`, or `repeats` what it said; with these blocks above. Whether
    /// it says that something arrived behind a gap.
    pub(super) fn acknowledged(
        &mut self,
        at: i64,
        [before, una, next]: [u64; 3],
        blocks: impl Iterator<Item = Range>,
        repeats: bool,
    ) -> bool {
        self.heard = at;
        if una > before {
            let below = Range { start: 0, end: una };
            self.held -= self.sacked.remove(below);
            self.repairing -= self.again.remove(below);
            // The first of them was missing, those behind it are what was repeated.
            self.repeated = self.repeated.saturating_sub((una - before).saturating_sub(self.full));
        }
        let (mut news, mut any) = (0, false);
        for block in blocks {
            any = true;
            if self.sacked.len() >= MOST_GAPS {
                break;
            }
            self.scratch.clear();
            self.sacked.insert(Range { start: block.start.max(una), ..block }, &mut self.scratch);
            for part in &self.scratch {
                news += part.end - part.start;
                self.repairing -= self.again.remove(*part);
            }
        }
        self.held += news;
        if any {
            self.repeated = 0;
            let mut above = 0;
            let reordered = self.sacked.downwards().find(|part| {
                above += part.end - part.start;
                above > REORDERED * self.full
            });
            self.lost_to = self.lost_to.max(reordered.map_or(0, |part| part.start));
        } else if repeats && self.held == 0 && next > una {
            let most = (next - una).saturating_sub(self.full);
            let repeated = (self.repeated + self.full).min(most);
            news += repeated.saturating_sub(self.repeated);
            self.repeated = repeated;
            if self.repeated > REORDERED * self.full {
                self.lost_to = self.lost_to.max(una + self.full);
            }
        }
        news > 0
    }

    /// A round trip was timed, ns.
    pub(super) fn measured(&mut self, rtt: Option<u64>) {
        self.rtt = rtt.unwrap_or(self.rtt);
    }

    /// Bytes that arrived behind a gap.
    pub(super) fn held(&self) -> u64 {
        self.held.max(self.repeated)
    }

    /// Bytes on their way.
    pub(super) fn bytes(&self, una: u64, next: u64) -> u64 {
        let missing = self.lost_to.min(next).saturating_sub(una);
        let above = self.sacked.downwards().take_while(|part| part.end > self.lost_to);
        let above = above.map(|part| part.end - part.start.max(self.lost_to)).sum::<u64>();
        let lost = missing.saturating_sub(self.held.saturating_sub(above));
        (next.saturating_sub(una) + self.repairing).saturating_sub(self.held() + lost)
    }
}
