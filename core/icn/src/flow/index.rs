//! From a unit's number to its record, in constant time.

/// No record.
const NONE: u64 = u64::MAX;

/// Slots of an empty table: twice as many as a first window needs (our choice).
const FIRST_SLOTS: usize = 64;

/// Open addressing with linear probing; what is taken out leaves no trace. The numbers come from our own requests, never from a
/// stranger, so they cannot be chosen to collide. It grows to twice the most records that there ever were, and then allocates
/// no more.
#[derive(Debug)]
pub(crate) struct Index {
    /// Unit and record.
    slots: Vec<(u64, u64)>,
    used: usize,
}

impl Index {
    pub(crate) fn new() -> Self {
        Self { slots: vec![(0, NONE); FIRST_SLOTS], used: 0 }
    }

    /// Where `unit` would stand: multiplicative hashing (Knuth, volume 3, section 6.4), so that units in a row lie apart.
    fn home(&self, unit: u64) -> usize {
        (unit.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - self.slots.len().trailing_zeros())) as usize
    }

    fn next(&self, slot: usize) -> usize {
        (slot + 1) & (self.slots.len() - 1)
    }

    fn find(&self, unit: u64) -> Option<usize> {
        let mut slot = self.home(unit);
        while self.slots[slot].1 != NONE {
            if self.slots[slot].0 == unit {
                return Some(slot);
            }
            slot = self.next(slot);
        }
        None
    }

    pub(crate) fn get(&self, unit: u64) -> Option<u64> {
        self.find(unit).map(|slot| self.slots[slot].1)
    }

    /// `unit`, which is not there yet, has this record.
    pub(crate) fn insert(&mut self, unit: u64, record: u64) {
        if 2 * (self.used + 1) > self.slots.len() {
            self.grow();
        }
        let mut slot = self.home(unit);
        while self.slots[slot].1 != NONE {
            slot = self.next(slot);
        }
        self.slots[slot] = (unit, record);
        self.used += 1;
    }

    fn grow(&mut self) {
        let larger = vec![(0, NONE); 2 * self.slots.len()];
        let old = std::mem::replace(&mut self.slots, larger);
        self.used = 0;
        for (unit, record) in old {
            if record != NONE {
                self.insert(unit, record);
            }
        }
    }

    pub(crate) fn remove(&mut self, unit: u64) {
        let Some(mut hole) = self.find(unit) else { return };
        let mut slot = self.next(hole);
        while self.slots[slot].1 != NONE {
            // It may move back if its home does not lie behind the hole.
            let mask = self.slots.len() - 1;
            let home = self.home(self.slots[slot].0);
            if slot.wrapping_sub(home) & mask >= slot.wrapping_sub(hole) & mask {
                self.slots[hole] = self.slots[slot];
                hole = slot;
            }
            slot = self.next(slot);
        }
        self.slots[hole].1 = NONE;
        self.used -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::collections::btree_map::Entry;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn does_what_a_map_does(steps in prop::collection::vec((0..300_u64, any::<bool>()), 0..2000)) {
            let (mut index, mut map) = (Index::new(), BTreeMap::new());
            for (number, (unit, add)) in steps.into_iter().enumerate() {
                let unit = if unit % 3 == 0 { unit << 50 } else { unit };
                if !add {
                    index.remove(unit);
                    map.remove(&unit);
                } else if let Entry::Vacant(entry) = map.entry(unit) {
                    index.insert(unit, number as u64);
                    entry.insert(number as u64);
                }
                prop_assert_eq!(index.used, map.len());
                prop_assert_eq!(index.get(unit), map.get(&unit).copied());
            }
            for (unit, number) in map {
                prop_assert_eq!(index.get(unit), Some(number));
            }
        }
    }
}
