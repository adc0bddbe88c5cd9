//! Units read ahead: requests for one unit each read a file once for sixteen of them.
//!
//! A block is read whole when it is asked for a second time while its place is kept: one receiver that reads on asks sixteen times, and
//! what is asked for here and there is never read ahead. Places are given up in the order in which they were taken.

use std::collections::BTreeMap;

use paceline_icn::{UNIT, Units};

/// Units of a block (our choice: a call of the kernel costs as much as copying ten).
const BLOCK: u64 = 16;

/// Longer runs cost few calls by themselves (our choice).
const SHORT: u32 = 8;

/// Blocks that have a place: 2.9 MB if all are read (our choice: for as many receivers at once).
const PLACES: usize = 128;

/// An object that was opened once, and a block of it.
type Key = (u64, u64);

struct Place {
    key: Key,
    /// Bytes that were read; none where it was asked for once.
    read: usize,
}

pub(super) struct Blocks {
    at: BTreeMap<Key, usize>,
    places: Vec<Place>,
    bytes: Box<[u8]>,
    /// The place that is given up next.
    next: usize,
}

impl Blocks {
    pub(super) fn new() -> Self {
        let bytes = vec![0; PLACES * BLOCK as usize * UNIT].into_boxed_slice();
        Self { at: BTreeMap::new(), places: Vec::with_capacity(PLACES), bytes, next: 0 }
    }

    /// The bytes of some units of an object. `read` reads units in a row, of which there are `stored`, and says how many bytes that were.
    /// `None`: they are not to be read ahead, or cannot be read.
    pub(super) fn find(
        &mut self,
        object: u64,
        units: Units,
        stored: u64,
        read: impl FnOnce(Units, &mut [u8]) -> Option<usize>,
    ) -> Option<&[u8]> {
        let block = units.first / BLOCK;
        if units.count > SHORT || units.end() > stored || (units.end() - 1) / BLOCK != block {
            return None;
        }
        let key = (object, block);
        let Some(index) = self.at.get(&key).copied() else {
            self.take_place(key);
            return None;
        };
        let (place, first) = (&mut self.places[index], block * BLOCK);
        let bytes = &mut self.bytes[index * BLOCK as usize * UNIT..][..BLOCK as usize * UNIT];
        if place.read == 0 {
            let count = BLOCK.min(stored - first) as u32;
            place.read = read(Units { first, count }, bytes)?;
        }
        let from = (units.first - first) as usize * UNIT;
        let to = from + units.count as usize * UNIT;
        bytes.get(from..to.min(place.read))
    }

    fn take_place(&mut self, key: Key) {
        let place = Place { key, read: 0 };
        if self.places.len() < PLACES {
            self.at.insert(key, self.places.len());
            self.places.push(place);
            return;
        }
        let before = std::mem::replace(&mut self.places[self.next], place);
        self.at.remove(&before.key);
        self.at.insert(key, self.next);
        self.next = (self.next + 1) % PLACES;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(unit: u64) -> Units {
        Units { first: unit, count: 1 }
    }

    /// Bytes of a unit: its number. The last of 40 has 5 bytes.
    fn fill(units: Units, bytes: &mut [u8]) -> Option<usize> {
        for (unit, bytes) in units.iter().zip(bytes.chunks_mut(UNIT)) {
            bytes.fill(unit as u8);
        }
        Some(units.count as usize * UNIT - if units.end() == 40 { UNIT - 5 } else { 0 })
    }

    #[test]
    fn one_call_reads_sixteen_units_for_who_reads_on() {
        let (mut blocks, mut calls, mut alone) = (Blocks::new(), 0, 0);
        for unit in 0..40 {
            let found = blocks.find(7, one(unit), 40, |units, bytes| {
                calls += 1;
                fill(units, bytes)
            });
            let length = if unit == 39 { 5 } else { UNIT };
            match found {
                Some(found) => assert!(found == vec![unit as u8; length], "{unit}"),
                None => alone += 1,
            }
        }
        assert_eq!((calls, alone), (3, 3));
    }

    #[test]
    fn another_object_or_the_same_opened_again_has_blocks_of_its_own() {
        let mut blocks = Blocks::new();
        for object in 0..3 {
            assert!(blocks.find(object, one(3), 40, fill).is_none());
            assert!(blocks.find(object, one(3), 40, fill).is_some());
        }
    }

    #[test]
    fn what_is_asked_for_here_and_there_is_not_read_ahead() {
        let mut blocks = Blocks::new();
        let never = |_: Units, _: &mut [u8]| -> Option<usize> { panic!("it was asked for once") };
        for round in 0..3 {
            for block in 0..1000 {
                assert!(blocks.find(1, one(block * BLOCK + round), 1 << 20, never).is_none());
            }
        }
        assert_eq!((blocks.at.len(), blocks.places.len()), (PLACES, PLACES));
    }

    #[test]
    fn long_runs_and_those_of_two_blocks_are_read_by_themselves() {
        let mut blocks = Blocks::new();
        for (first, count) in [(15, 2), (0, SHORT + 1), (8, 64)] {
            for _ in 0..3 {
                assert!(blocks.find(1, Units { first, count }, 1000, fill).is_none());
            }
        }
        assert!(blocks.at.is_empty());
    }

    #[test]
    fn what_cannot_be_read_is_asked_for_again() {
        let mut blocks = Blocks::new();
        assert!(blocks.find(1, one(1), 40, fill).is_none());
        assert!(blocks.find(1, one(1), 40, |_, _| None).is_none());
        assert!(blocks.find(1, one(1), 40, fill).is_some());
    }
}
