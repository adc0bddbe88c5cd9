//! Units that are kept: a file is read once for many requests.
//!
//! A block of sixteen units is read whole when it is asked for a second time while its place is kept: by requests for few units each, of
//! one receiver that reads on or of several, or for the same units by longer ones. What is asked for here and there is never read ahead.
//! Places are given up in the order in which they were taken.
//!
//! Few units are copied from there. Longer runs leave from where they stand: their heads are written before them, so a block is lent to one
//! message at a time.

use std::collections::BTreeMap;
use std::ops::Range;

use paceline_icn::Units;
use paceline_icn::wire::DATA_HEAD;

use super::socket::SEGMENT;

/// Units of a block (our choice: a call of the kernel costs as much as copying ten).
const BLOCK: u64 = 16;

/// Its bytes: units with room for their heads.
const BYTES: usize = BLOCK as usize * SEGMENT;

/// Longer runs cost few calls by themselves: a block is not read for the part of one that reads on (our choice).
const SHORT: u32 = 8;

/// Blocks that have a place: 2.9 MB if all are read (our choice: for as many receivers at once).
const PLACES: usize = 128;

/// An object that was opened once, and a block of it.
type Key = (u64, u64);

struct Place {
    key: Key,
    /// Its units that were asked for, a bit each.
    asked: u16,
    /// Bytes that were read; none where it was asked for once.
    read: usize,
    /// To a message that has not left.
    lent: bool,
}

/// Where units stand.
pub(super) enum Standing {
    /// In the messages, this many bytes.
    There(usize),
    /// In these parts of [`Blocks::bytes`], which belong to them until [`Blocks::take_back`].
    Lent(Vec<Range<usize>>),
}

pub(super) struct Blocks {
    at: BTreeMap<Key, usize>,
    places: Vec<Place>,
    pub(super) bytes: Box<[u8]>,
    lent: Vec<usize>,
    /// The place that is given up next.
    next: usize,
}

impl Blocks {
    pub(super) fn new() -> Self {
        let bytes = vec![0; PLACES * BYTES].into_boxed_slice();
        Self { at: BTreeMap::new(), places: Vec::with_capacity(PLACES), bytes, lent: Vec::new(), next: 0 }
    }

    /// Some units of an object: in `messages` of [`SEGMENT`] bytes, behind the places for their heads, or lent. `read` reads units in a row,
    /// of which there are `stored`, into such messages, and says how many bytes these have. `None` where the units are not kept, or cannot be read.
    pub(super) fn find(
        &mut self,
        object: u64,
        units: Units,
        stored: u64,
        mut read: impl FnMut(Units, &mut [u8]) -> Option<usize>,
        messages: &mut [u8],
    ) -> Option<Standing> {
        if units.end() > stored || !self.note(object, units) {
            return None;
        }
        if units.count > SHORT
            && let Some(lent) = self.lend(object, units, stored, &mut read)
        {
            return Some(Standing::Lent(lent));
        }
        let mut filled = 0;
        for part in parts(units) {
            let (_, kept) = self.part(object, part, stored, &mut read)?;
            for (from, to) in self.bytes[kept].chunks(SEGMENT).zip(messages[filled..].chunks_mut(SEGMENT)) {
                to[DATA_HEAD..from.len()].copy_from_slice(&from[DATA_HEAD..]);
                filled += from.len();
            }
        }
        Some(Standing::There(filled))
    }

    /// What was lent has left.
    pub(super) fn take_back(&mut self) {
        for index in self.lent.drain(..) {
            self.places[index].lent = false;
        }
    }

    /// Notes what is asked for. Says whether it is all in blocks that are kept.
    fn note(&mut self, object: u64, units: Units) -> bool {
        let mut kept = true;
        for part in parts(units) {
            let key = (object, part.first / BLOCK);
            let asked = (((1_u32 << part.count) - 1) << (part.first % BLOCK)) as u16;
            match self.at.get(&key) {
                Some(index) => {
                    let place = &mut self.places[*index];
                    kept &= place.read > 0 || units.count <= SHORT || place.asked & asked == asked;
                    place.asked |= asked;
                }
                None => {
                    self.take_place(Place { key, asked, read: 0, lent: false });
                    kept = false;
                }
            }
        }
        kept
    }

    fn lend(
        &mut self,
        object: u64,
        units: Units,
        stored: u64,
        read: &mut impl FnMut(Units, &mut [u8]) -> Option<usize>,
    ) -> Option<Vec<Range<usize>>> {
        let found: Option<Vec<_>> = parts(units).map(|part| self.part(object, part, stored, read)).collect();
        let found = found.filter(|found| found.iter().all(|(index, _)| !self.places[*index].lent))?;
        for (index, _) in &found {
            self.places[*index].lent = true;
            self.lent.push(*index);
        }
        Some(found.into_iter().map(|(_, kept)| kept).collect())
    }

    /// The place of units of one block, and where they stand.
    fn part(
        &mut self,
        object: u64,
        units: Units,
        stored: u64,
        read: &mut impl FnMut(Units, &mut [u8]) -> Option<usize>,
    ) -> Option<(usize, Range<usize>)> {
        let block = units.first / BLOCK;
        // It may have made room for another of the same request.
        let index = *self.at.get(&(object, block))?;
        let (place, first, start) = (&mut self.places[index], block * BLOCK, index * BYTES);
        if place.read == 0 {
            let count = BLOCK.min(stored - first) as u32;
            place.read = read(Units { first, count }, &mut self.bytes[start..start + BYTES])?;
        }
        let from = (units.first - first) as usize * SEGMENT;
        let to = (from + units.count as usize * SEGMENT).min(place.read);
        (from < to).then(|| (index, start + from..start + to))
    }

    /// None is given up that is lent.
    fn take_place(&mut self, place: Place) {
        let key = place.key;
        if self.places.len() < PLACES {
            self.at.insert(key, self.places.len());
            self.places.push(place);
        } else if !self.places[self.next].lent {
            let before = std::mem::replace(&mut self.places[self.next], place);
            self.at.remove(&before.key);
            self.at.insert(key, self.next);
            self.next = (self.next + 1) % PLACES;
        }
    }
}

/// Units in a row, by blocks.
fn parts(units: Units) -> impl Iterator<Item = Units> {
    (units.first / BLOCK..units.end().div_ceil(BLOCK)).map(move |block| {
        let (first, end) = (units.first.max(block * BLOCK), units.end().min((block + 1) * BLOCK));
        Units { first, count: (end - first) as u32 }
    })
}

#[cfg(test)]
mod tests {
    use paceline_icn::UNIT;

    use super::*;

    const STORED: u64 = 200;

    fn run(first: u64, count: u32) -> Units {
        Units { first, count }
    }

    /// Bytes of a unit: its number. The last has 5.
    fn fill(units: Units, messages: &mut [u8]) -> Option<usize> {
        for (unit, message) in units.iter().zip(messages.chunks_mut(SEGMENT)) {
            message[DATA_HEAD..].fill(unit as u8);
        }
        Some(bytes_of(units))
    }

    fn bytes_of(units: Units) -> usize {
        units.count as usize * SEGMENT - if units.end() == STORED { UNIT - 5 } else { 0 }
    }

    /// How the units stand, where they are kept: they have to be right.
    fn find(
        blocks: &mut Blocks,
        object: u64,
        units: Units,
        read: impl FnMut(Units, &mut [u8]) -> Option<usize>,
    ) -> Option<Standing> {
        let mut messages = vec![0; units.count as usize * SEGMENT];
        let standing = blocks.find(object, units, STORED, read, &mut messages)?;
        let got: Vec<u8> = match &standing {
            Standing::There(bytes) => messages[..*bytes].to_vec(),
            Standing::Lent(pieces) => pieces.iter().flat_map(|piece| blocks.bytes[piece.clone()].to_vec()).collect(),
        };
        assert_eq!(got.len(), bytes_of(units), "{units:?}");
        for (unit, message) in units.iter().zip(got.chunks(SEGMENT)) {
            assert!(message[DATA_HEAD..].iter().all(|byte| *byte == unit as u8), "{unit} of {units:?}");
        }
        Some(standing)
    }

    #[test]
    fn one_call_reads_sixteen_units_for_who_reads_on() {
        for step in [1, 2, 3, 8] {
            let (mut blocks, mut calls, mut alone) = (Blocks::new(), 0, 0);
            for first in (0..STORED).step_by(step as usize) {
                let units = run(first, step.min((STORED - first) as u32));
                let found = find(&mut blocks, 7, units, |units, messages| {
                    calls += 1;
                    fill(units, messages)
                });
                assert!(!matches!(found, Some(Standing::Lent(_))));
                alone += u32::from(found.is_none());
            }
            // Eight are asked for from the last block, which are all that it has.
            assert_eq!((calls, alone), (13 - u32::from(step == 8), 13), "{step} units each");
        }
    }

    #[test]
    fn long_runs_are_lent_when_they_are_asked_for_again() {
        let (mut blocks, mut calls) = (Blocks::new(), 0);
        let mut count = |units: Units, messages: &mut [u8]| {
            calls += 1;
            fill(units, messages)
        };
        // One receiver reads on, and two behind it.
        for receiver in 0..3 {
            for first in (0..176).step_by(44) {
                let found = find(&mut blocks, 1, run(first, 44), &mut count);
                assert_eq!(matches!(found, Some(Standing::Lent(_))), receiver > 0, "{first} of {receiver}");
                blocks.take_back();
            }
        }
        assert_eq!(calls, 11, "each block once");
        // The end, of which the last block is not kept yet.
        assert!(find(&mut blocks, 1, run(176, 24), fill).is_none());
        assert!(find(&mut blocks, 1, run(176, 24), fill).is_some());
    }

    #[test]
    fn a_block_is_lent_to_one_message_and_keeps_its_place_meanwhile() {
        let mut blocks = Blocks::new();
        let ask = |blocks: &mut Blocks, object| find(blocks, object, run(0, 20), fill);
        assert!(ask(&mut blocks, 0).is_none());
        assert!(matches!(ask(&mut blocks, 0), Some(Standing::Lent(_))));
        assert!(matches!(ask(&mut blocks, 0), Some(Standing::There(_))));
        for object in 1..1000 {
            assert!(ask(&mut blocks, object).is_none());
        }
        assert!(matches!(ask(&mut blocks, 0), Some(Standing::There(_))));
        blocks.take_back();
        assert!(matches!(ask(&mut blocks, 0), Some(Standing::Lent(_))));
        blocks.take_back();
        for object in 1000..2000 {
            assert!(ask(&mut blocks, object).is_none());
        }
        assert!(ask(&mut blocks, 0).is_none());
    }

    #[test]
    fn another_object_or_the_same_opened_again_has_blocks_of_its_own() {
        let mut blocks = Blocks::new();
        for object in 0..3 {
            assert!(find(&mut blocks, object, run(3, 1), fill).is_none());
            assert!(find(&mut blocks, object, run(3, 1), fill).is_some());
        }
    }

    #[test]
    fn what_is_asked_for_here_and_there_is_not_read_ahead() {
        let mut blocks = Blocks::new();
        let never = |_: Units, _: &mut [u8]| -> Option<usize> { panic!("it was asked for once") };
        for round in 0..3 {
            for object in 0..1000 {
                assert!(find(&mut blocks, object, run(round, 1), never).is_none());
                assert!(find(&mut blocks, object, run(20, 44), never).is_none());
            }
        }
        assert_eq!((blocks.at.len(), blocks.places.len()), (PLACES, PLACES));
    }

    #[test]
    fn what_is_past_the_end_or_cannot_be_read_is_not_kept() {
        let mut blocks = Blocks::new();
        for _ in 0..2 {
            assert!(find(&mut blocks, 1, run(190, 11), fill).is_none());
        }
        assert!(find(&mut blocks, 1, run(1, 1), fill).is_none());
        assert!(find(&mut blocks, 1, run(1, 1), |_, _| None).is_none());
        assert!(find(&mut blocks, 1, run(1, 1), fill).is_some());
    }
}
