//! The bytes between the application and TCP.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::options::FLOOR;

/// Bytes of a block: a chunk touches two at most, and an idle socket keeps none.
const BLOCK: usize = 64 * 1024;

/// What all queues of an engine may hold, besides [`FLOOR`] of each.
#[derive(Debug)]
pub(crate) struct Budget {
    left: AtomicUsize,
}

impl Budget {
    pub(crate) fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self { left: AtomicUsize::new(bytes) })
    }

    fn left(&self) -> usize {
        self.left.load(Ordering::Relaxed)
    }

    /// Takes as much of `wanted` as there is.
    fn take(&self, wanted: usize) -> usize {
        let mut left = self.left();
        loop {
            let taken = wanted.min(left);
            match self.left.compare_exchange_weak(left, left - taken, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return taken,
                Err(now) => left = now,
            }
        }
    }

    fn give_back(&self, bytes: usize) {
        self.left.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// A bounded queue of bytes, in blocks that are freed as they empty.
pub(crate) struct Queue {
    blocks: VecDeque<Vec<u8>>,
    /// Bytes of the first block that are gone.
    head: usize,
    len: usize,
    limit: usize,
    budget: Arc<Budget>,
    /// An empty block, kept while there are others.
    spare: Option<Vec<u8>>,
}

impl Queue {
    pub(crate) fn new(limit: usize, budget: Arc<Budget>) -> Self {
        Self { blocks: VecDeque::new(), head: 0, len: 0, limit, budget, spare: None }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn room(&self) -> usize {
        (self.limit - self.len).min(self.floor().saturating_sub(self.len).saturating_add(self.budget.left()))
    }

    /// A queue that was full has emptied so far that its writer should be woken: a quarter is free, of the whole or of what it
    /// has whatever the others hold. So a socket that was refused for the others' sake waits only for its own bytes to leave.
    pub(crate) fn has_fallen(&self) -> bool {
        self.room() >= self.limit / 4 || self.len <= self.floor() / 4 * 3
    }

    /// Bytes that it may hold whatever the others do.
    fn floor(&self) -> usize {
        self.limit.min(FLOOR)
    }

    /// Bytes of the budget that it has with `len` in it.
    fn share(&self, len: usize) -> usize {
        len - len.min(self.floor())
    }

    /// Takes what there is room for; says how many bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> usize {
        let wanted = bytes.len().min(self.limit - self.len);
        let more = self.share(self.len + wanted) - self.share(self.len);
        let taken = wanted - (more - self.budget.take(more));
        let mut rest = &bytes[..taken];
        while !rest.is_empty() {
            if self.blocks.back().is_none_or(|block| block.len() == BLOCK) {
                // The first block of an idle socket is as large as what it holds: most writes are small.
                let fresh = self.spare.take().unwrap_or_else(|| match self.blocks.is_empty() {
                    true => Vec::with_capacity(rest.len().min(BLOCK)),
                    false => Vec::with_capacity(BLOCK),
                });
                self.blocks.push_back(fresh);
            }
            let Some(block) = self.blocks.back_mut() else { break };
            let (now, later) = rest.split_at(rest.len().min(BLOCK - block.len()));
            block.extend_from_slice(now);
            rest = later;
        }
        self.len += taken;
        taken
    }

    /// The first `bytes`, in up to three pieces.
    pub(crate) fn front(&self, bytes: usize) -> ([IoSlice<'_>; 3], usize) {
        let mut pieces = [IoSlice::new(&[]), IoSlice::new(&[]), IoSlice::new(&[])];
        let (mut left, mut count, mut head) = (bytes, 0, self.head);
        for (piece, block) in pieces.iter_mut().zip(&self.blocks) {
            let part = &block[head..block.len().min(head + left)];
            *piece = IoSlice::new(part);
            left -= part.len();
            count += 1;
            head = 0;
            if left == 0 {
                break;
            }
        }
        (pieces, count)
    }

    /// Drops the first `bytes`.
    pub(crate) fn consume(&mut self, bytes: usize) {
        let mut left = bytes.min(self.len);
        self.budget.give_back(self.share(self.len) - self.share(self.len - left));
        self.len -= left;
        while let Some(block) = self.blocks.front() {
            let rest = block.len() - self.head;
            if left < rest {
                self.head += left;
                return;
            }
            left -= rest;
            self.head = 0;
            let mut block = self.blocks.pop_front().unwrap_or_default();
            block.clear();
            self.spare = Some(block).filter(|_| !self.blocks.is_empty());
        }
    }

    /// Drops everything.
    pub(crate) fn clear(&mut self) {
        self.consume(self.len);
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::{Budget, FLOOR, Queue};

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(2), failure_persistence: None, ..Default::default() })]

        #[test]
        fn bytes_come_out_as_they_went_in(
            moves in proptest::collection::vec((0..200_000_usize, 0..200_000_usize), 1..60),
        ) {
            let mut queue = Queue::new(1_000_000, Budget::new(usize::MAX));
            let (mut written, mut read) = (0_u64, 0_u64);
            let byte = |position: u64| (position.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8;
            for (write, take) in moves {
                let bytes: Vec<u8> = (written..written + write as u64).map(byte).collect();
                let room = queue.room();
                let taken = queue.push(&bytes);
                prop_assert_eq!(taken, write.min(room));
                written += taken as u64;
                let take = take.min(queue.len()).min(65_536);
                let (pieces, count) = queue.front(take);
                let out: Vec<u8> = pieces[..count].iter().flat_map(|piece| piece.iter().copied()).collect();
                let expected: Vec<u8> = (read..read + take as u64).map(byte).collect();
                prop_assert!(out == expected, "other bytes at {}", read);
                queue.consume(take);
                read += take as u64;
                prop_assert_eq!(queue.len() as u64, written - read);
            }
            queue.clear();
            prop_assert_eq!((queue.len(), queue.blocks.len(), queue.spare.is_none()), (0, 0, true));
        }

        #[test]
        fn together_they_hold_the_budget_and_each_its_floor(
            limit in 64_000..300_000_usize,
            memory in 0..1_000_000_usize,
            moves in proptest::collection::vec((0..4_usize, 0..200_000_usize, 0..200_000_usize), 1..100),
        ) {
            let budget = Budget::new(memory);
            let mut queues: Vec<Queue> = (0..4).map(|_| Queue::new(limit, budget.clone())).collect();
            let bytes = vec![1; 200_000];
            for (which, write, take) in moves {
                let queue = &mut queues[which];
                let (before, room) = (queue.len(), queue.room());
                let taken = queue.push(&bytes[..write]);
                prop_assert_eq!(taken, write.min(room));
                // Refused: it has its floor, and will have fallen when that is empty.
                prop_assert!(taken == write || before + taken >= limit.min(FLOOR));
                queue.consume(take);
                prop_assert!(queue.has_fallen() || queue.len() > limit.min(FLOOR) / 2);
                prop_assert!(!queue.has_fallen() || queue.room() > 0);
                let share: usize = queues.iter().map(|queue| queue.len().saturating_sub(FLOOR)).sum();
                prop_assert!(share <= memory && budget.left() == memory - share);
            }
            drop(queues);
            prop_assert_eq!(budget.left(), memory);
        }
    }
}
