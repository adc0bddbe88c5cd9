//! Sets of byte ranges: what arrived out of order, what was selectively acknowledged.

use std::collections::VecDeque;

use crate::segment::Range;

/// Disjoint, non-touching ranges in ascending order. Appending and dropping from below are O(1), anything else
/// O(log n) plus the move of what lies behind.
#[derive(Clone, Debug, Default)]
pub(crate) struct RangeSet {
    ranges: VecDeque<Range>,
}

impl RangeSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    pub(crate) fn first(&self) -> Option<Range> {
        self.ranges.front().copied()
    }

    pub(crate) fn last(&self) -> Option<Range> {
        self.ranges.back().copied()
    }

    pub(crate) fn pop_first(&mut self) -> Option<Range> {
        self.ranges.pop_front()
    }

    /// Adds `range`, appends the parts of it that are new to `fresh`, and returns the range that now holds it.
    pub(crate) fn insert(&mut self, range: Range, fresh: &mut Vec<Range>) -> Range {
        if range.start >= range.end {
            return range;
        }
        // The first range that touches or lies behind.
        let from = match self.ranges.back() {
            None => 0,
            Some(back) if back.end < range.start => self.ranges.len(),
            Some(back) if back.start <= range.start => self.ranges.len() - 1,
            Some(_) => self.ranges.partition_point(|r| r.end < range.start),
        };
        let mut whole = range;
        let mut cursor = range.start;
        let mut to = from;
        while let Some(&other) = self.ranges.get(to) {
            if other.start > range.end {
                break;
            }
            if other.start > cursor {
                fresh.push(Range { start: cursor, end: other.start });
            }
            cursor = cursor.max(other.end);
            whole = Range { start: whole.start.min(other.start), end: whole.end.max(other.end) };
            to += 1;
        }
        if cursor < range.end {
            fresh.push(Range { start: cursor, end: range.end });
        }
        if from == to {
            self.ranges.insert(from, whole);
        } else {
            self.ranges[from] = whole;
            if from + 1 < to {
                self.ranges.drain(from + 1..to);
            }
        }
        whole
    }

    /// The range that holds `position`.
    pub(crate) fn holding(&self, position: u64) -> Option<Range> {
        self.next(position).filter(|r| r.start <= position)
    }

    /// Forgets what lies in `range`; answers how many bytes that were.
    pub(crate) fn remove(&mut self, range: Range) -> u64 {
        let from = self.ranges.partition_point(|r| r.end <= range.start);
        let gone = || self.ranges.range(from..).take_while(|r| r.start < range.end);
        let (Some(first), Some(last)) = (gone().next().copied(), gone().last().copied()) else { return 0 };
        let (to, all) = (from + gone().count(), gone().map(|r| r.end - r.start).sum::<u64>());
        let left = Range { start: first.start, end: range.start };
        let right = Range { start: range.end, end: last.end };
        let kept = [left, right].into_iter().filter(|r| r.start < r.end);
        self.ranges.drain(from..to);
        let mut removed = all;
        for (index, part) in kept.enumerate() {
            removed -= part.end - part.start;
            self.ranges.insert(from + index, part);
        }
        removed
    }

    /// The first range that ends above `position`.
    pub(crate) fn next(&self, position: u64) -> Option<Range> {
        self.ranges.get(self.ranges.partition_point(|r| r.end <= position)).copied()
    }

    /// Ranges from the last one on downwards.
    pub(crate) fn downwards(&self) -> impl Iterator<Item = Range> {
        self.ranges.iter().rev().copied()
    }

    /// Forgets everything below `position`.
    pub(crate) fn remove_below(&mut self, position: u64) {
        while let Some(front) = self.ranges.front_mut() {
            if front.start >= position {
                return;
            }
            if front.end > position {
                front.start = position;
                return;
            }
            self.ranges.pop_front();
        }
    }
}

/// Blocks remembered for repetition: more than fit, since filled ones drop out.
const RECENT: usize = 6;

/// Ranges that arrived, and which of them to report first (RFC 2018 section 4).
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    pub(crate) set: RangeSet,
    /// A byte of each block, most recently touched first.
    recent: VecDeque<u64>,
    scratch: Vec<Range>,
}

impl Blocks {
    /// Adds `range`; answers how many of its bytes are new.
    pub(crate) fn insert(&mut self, range: Range) -> u64 {
        self.scratch.clear();
        let block = self.set.insert(range, &mut self.scratch);
        if self.recent.front().is_none_or(|&position| position < block.start || position >= block.end) {
            self.recent.retain(|&position| position < block.start || position >= block.end);
            self.recent.push_front(range.start);
            self.recent.truncate(RECENT);
        } else if self.recent.len() > 1 {
            // The first block grew, perhaps over others.
            let mut first = true;
            self.recent
                .retain(|&position| std::mem::take(&mut first) || position < block.start || position >= block.end);
        }
        self.scratch.iter().map(|part| part.end - part.start).sum()
    }

    /// Forgets the ranges that start at or below `position`; answers where the last of them ends.
    pub(crate) fn absorb(&mut self, mut position: u64) -> u64 {
        while let Some(first) = self.set.first().filter(|first| first.start <= position) {
            position = position.max(first.end);
            self.set.pop_first();
        }
        self.recent.retain(|&byte| byte >= position);
        position
    }

    /// Fills `sacks` with blocks, most recent first, as far as there are any; answers how many.
    #[inline(always)]
    pub(crate) fn report(&self, sacks: &mut [Range]) -> u8 {
        if self.recent.is_empty() { 0 } else { self.report_recent(sacks) }
    }

    fn report_recent(&self, sacks: &mut [Range]) -> u8 {
        let mut count = 0;
        let blocks = self.recent.iter().filter_map(|&position| self.set.holding(position));
        for (slot, block) in sacks.iter_mut().zip(blocks) {
            *slot = block;
            count += 1;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, end: u64) -> Range {
        Range { start, end }
    }

    #[test]
    fn merges_and_reports_only_what_is_new() {
        let mut set = RangeSet::default();
        let mut fresh = Vec::new();
        set.insert(range(10, 20), &mut fresh);
        set.insert(range(30, 40), &mut fresh);
        assert_eq!(fresh, [range(10, 20), range(30, 40)]);
        fresh.clear();
        assert_eq!(set.insert(range(5, 35), &mut fresh), range(5, 40));
        assert_eq!(fresh, [range(5, 10), range(20, 30)]);
        assert_eq!(set.len(), 1);
        fresh.clear();
        assert_eq!(set.insert(range(40, 50), &mut fresh), range(5, 50));
        assert_eq!(set.insert(range(6, 7), &mut fresh), range(5, 50));
        assert_eq!(fresh, [range(40, 50)]);
        set.remove_below(45);
        assert_eq!(set.first(), Some(range(45, 50)));
        assert_eq!(set.holding(49), Some(range(45, 50)));
        assert_eq!(set.holding(50), None);
        set.remove_below(60);
        assert!(set.is_empty());
    }

    #[test]
    fn what_is_removed_is_counted_once() {
        let mut set = RangeSet::default();
        for start in [10, 30, 50] {
            set.insert(range(start, start + 10), &mut Vec::new());
        }
        assert_eq!((set.remove(range(0, 10)), set.remove(range(20, 30)), set.remove(range(60, 99))), (0, 0, 0));
        assert_eq!(set.remove(range(12, 15)), 3);
        assert_eq!(set.downwards().collect::<Vec<_>>(), [range(50, 60), range(30, 40), range(15, 20), range(10, 12)]);
        assert_eq!(set.remove(range(18, 55)), 17);
        assert_eq!(set.downwards().collect::<Vec<_>>(), [range(55, 60), range(15, 18), range(10, 12)]);
        assert_eq!((set.remove(range(0, 99)), set.len()), (10, 0));
    }
}
