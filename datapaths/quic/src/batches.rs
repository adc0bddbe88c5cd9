//! Which packets quinn speaks of.
//!
//! quinn reports departures a batch at a time, one moment for the whole batch, and an acknowledged packet by that moment
//! and its size. Bytes of a batch are settled in their order, so that a packet lost inside a batch is taken for the last
//! of it.

use std::collections::VecDeque;
use std::ops::Range;

use paceline_cc::Time;

/// Most batches remembered (our choice: more than 1 Gbit/s and 1.5 s). The end that only acknowledges has its packets reported as
/// sent and never as acknowledged.
const MOST: usize = 1 << 17;

/// Batches in the order of their departures.
#[derive(Debug, Default)]
pub(crate) struct Batches {
    batches: VecDeque<Batch>,
}

/// Packets that left at one moment, numbered one after another.
#[derive(Clone, Copy, Debug)]
struct Batch {
    sent_at: Time,
    /// Its first packet that has no end, and where its bytes begin.
    first: u64,
    begin: u64,
    /// One past the last number.
    end: u64,
    /// Bytes of a packet; the last has what is left.
    size: u64,
    /// Bytes of all packets.
    bytes: u64,
    /// Of these, settled.
    settled: u64,
}

impl Batch {
    /// The next `bytes` have ended: so have the packets of which they cover at least half. Answers how many bytes they were.
    fn settle(&mut self, bytes: u64, each: &mut impl FnMut(u64)) -> u64 {
        let part = bytes.min(self.bytes - self.settled);
        self.settled += part;
        while self.first < self.end {
            let packet = self.size.min(self.bytes - self.begin);
            if self.settled.saturating_sub(self.begin) * 2 < packet {
                break;
            }
            each(self.first);
            self.first += 1;
            self.begin += packet;
        }
        part
    }
}

impl Batches {
    /// Packets of these numbers left, of `size` bytes each but for the last, and of `bytes` together.
    pub(crate) fn push(&mut self, sent_at: Time, numbers: Range<u64>, size: u64, bytes: u64) {
        if self.batches.len() == MOST {
            self.batches.pop_front();
        }
        let Range { start: first, end } = numbers;
        self.batches.push_back(Batch { sent_at, first, begin: 0, end, size, bytes, settled: 0 });
    }

    /// Settles the next `bytes` of what left at `sent_at`; nothing of what is not known (an MTU probe).
    pub(crate) fn acked(&mut self, sent_at: Time, bytes: u64, mut each: impl FnMut(u64)) {
        let from = self.batches.partition_point(|batch| batch.sent_at < sent_at);
        let mut left = bytes;
        for batch in self.batches.range_mut(from..).take_while(|batch| batch.sent_at == sent_at) {
            left -= batch.settle(left, &mut each);
        }
        self.trim();
    }

    /// Settles the oldest `bytes` of what left up to `sent_at`.
    pub(crate) fn lost(&mut self, sent_at: Time, bytes: u64, mut each: impl FnMut(u64)) {
        let mut left = bytes;
        for batch in self.batches.iter_mut().take_while(|batch| batch.sent_at <= sent_at) {
            left -= batch.settle(left, &mut each);
        }
        self.trim();
    }

    /// Forgets what is older than packet `oldest`; all, where there is none.
    pub(crate) fn forget(&mut self, oldest: Option<u64>) {
        while self.batches.front().is_some_and(|batch| oldest.is_none_or(|oldest| batch.end <= oldest)) {
            self.batches.pop_front();
        }
    }

    fn trim(&mut self) {
        while self.batches.front().is_some_and(|batch| batch.first == batch.end) {
            self.batches.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_are_not_those_of_the_batch_end_its_packets_all_the_same() {
        let mut batches = Batches::default();
        let at = Time::from_millis;
        batches.push(at(1), 1..4, 1452, 3000);
        batches.push(at(2), 4..6, 1452, 2904);
        let mut acked = |sent, bytes| {
            let mut numbers = Vec::new();
            batches.acked(at(sent), bytes, |number| numbers.push(number));
            numbers
        };
        assert_eq!(acked(1, 1000), [1]);
        assert_eq!(acked(3, 1000), [0_u64; 0]);
        assert_eq!(acked(1, 1000), [0_u64; 0]);
        assert_eq!(acked(1, 1000), [2, 3]);
        assert_eq!(acked(1, 1000), [0_u64; 0]);
        let mut lost = Vec::new();
        batches.lost(at(2), 1400, |number| lost.push(number));
        batches.lost(at(2), u64::MAX, |number| lost.push(number));
        assert_eq!(lost, [4, 5]);
    }

    #[test]
    fn what_the_flow_has_forgotten_is_forgotten() {
        let mut batches = Batches::default();
        for first in [1, 3] {
            batches.push(Time::ZERO, first..first + 2, 10, 20);
        }
        batches.forget(Some(2));
        assert_eq!(batches.batches.len(), 2);
        batches.forget(Some(4));
        assert_eq!(batches.batches.len(), 1);
        batches.forget(None);
        assert!(batches.batches.is_empty());
    }
}
