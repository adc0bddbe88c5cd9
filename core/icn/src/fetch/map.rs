//! Which units are wanted, where each is, and who was asked for it.
//!
//! The wanted units have positions: the manifest and the index units above the first byte that is wanted, then all units from there to
//! the last byte. A ring has those that were handed out to sources and are not yet put out; before it all is done, behind it nothing is.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;

use super::SourceId;
use crate::UNIT;
use crate::flow::Supply;
use crate::layout::{Layout, Place};
use crate::ranges::Ranges;

/// Where a unit is.
#[derive(Debug)]
pub(super) enum Slot {
    /// Nobody was asked, or whoever was is not expected to answer.
    Free,
    /// This source was.
    Asked(SourceId),
    /// It came from this source, and what it is verified with did not.
    Early(Bytes, SourceId),
    /// It was verified. No bytes where nobody wants them.
    Ready(Bytes),
    /// It is on disk, or all that it is needed for is.
    Had,
}

/// Data units that are on disk.
#[derive(Debug, Default)]
struct Had {
    /// As the user said it: units of the stored form.
    units: Vec<Range<u64>>,
    /// As data units, in order; once the layout is known.
    data: Vec<Range<u64>>,
}

impl Had {
    fn covers(&self, data: Range<u64>) -> bool {
        let next = self.data.partition_point(|run| run.start <= data.start);
        next > 0 && self.data[next - 1].end >= data.end
    }

    fn resolve(&mut self, layout: &Layout) {
        let mut data: Vec<Range<u64>> = Vec::new();
        self.units.sort_unstable_by_key(|run| run.start);
        for unit in self.units.drain(..).flatten() {
            match layout.place(unit) {
                Some(Place::Data { index }) => extend(&mut data, index),
                Some(Place::Manifest | Place::Index { .. }) => {}
                None => break,
            }
        }
        self.data = data;
    }
}

fn extend(runs: &mut Vec<Range<u64>>, next: u64) {
    match runs.last_mut().filter(|run| run.contains(&next) || run.end == next) {
        Some(run) => run.end = run.end.max(next.saturating_add(1)),
        None => runs.push(next..next.saturating_add(1)),
    }
}

#[derive(Debug)]
pub(super) struct Map {
    /// Units before the run, in order.
    head: Vec<u64>,
    /// First unit of the run.
    run: u64,
    /// Number of positions.
    end: u64,
    layout: Option<Layout>,
    had: Had,
    /// Position of the first slot.
    base: u64,
    slots: VecDeque<Slot>,
    /// Positions to be asked for again, and the source that should not be.
    returned: VecDeque<(u64, Option<SourceId>)>,
    /// Slots that are early.
    early: usize,
}

impl Map {
    /// Before anything is known but the name: the manifest is wanted, and the unit behind it where that `guess` is a good one.
    pub(super) fn new(guess: bool) -> Self {
        Self {
            head: Vec::new(),
            run: 0,
            end: if guess { 2 } else { 1 },
            layout: None,
            had: Had::default(),
            base: 0,
            slots: VecDeque::new(),
            returned: VecDeque::new(),
            early: 0,
        }
    }

    pub(super) fn have(&mut self, units: impl Iterator<Item = u64>) {
        units.for_each(|unit| extend(&mut self.had.units, unit));
    }

    /// The manifest came: these data units are wanted.
    pub(super) fn begin(&mut self, layout: Layout, data: Range<u64>) {
        self.had.resolve(&layout);
        self.layout = Some(layout);
        // The manifest's slot stays where it is. What was guessed is unit 1: the next that is wanted, or nothing is.
        if data.is_empty() {
            self.end = 1;
            self.slots.truncate(1_u64.saturating_sub(self.base) as usize);
        } else {
            let (first, last) = (layout.unit_of(data.start), layout.unit_of(data.end - 1));
            let mut above = Vec::new();
            let mut unit = first;
            while let Some((parent, _)) = layout.parent(unit) {
                above.push(parent);
                unit = parent;
            }
            above.push(0);
            above.reverse();
            self.run = first;
            self.end = above.len() as u64 + (last + 1 - first);
            self.head = above;
        }
    }

    /// There is nothing behind the manifest, a source says. Whether that is so will be seen.
    pub(super) fn guess_no_more(&mut self) {
        if self.layout.is_none() {
            self.end = 1;
            self.slots.truncate(1);
        }
    }

    pub(super) fn layout(&self) -> Option<&Layout> {
        self.layout.as_ref()
    }

    /// All is put out.
    pub(super) fn is_done(&self) -> bool {
        self.layout.is_some() && self.base >= self.end
    }

    fn unit_at(&self, position: u64) -> u64 {
        match self.head.get(position as usize) {
            Some(unit) => *unit,
            None => self.run + (position - self.head.len() as u64),
        }
    }

    fn position_of(&self, unit: u64) -> Option<u64> {
        let position = if unit >= self.run {
            (unit - self.run).checked_add(self.head.len() as u64)?
        } else {
            self.head.iter().position(|other| *other == unit)? as u64
        };
        (position < self.end).then_some(position)
    }

    /// Where a unit is that was handed out and is not put out yet.
    pub(super) fn slot(&mut self, unit: u64) -> Option<&mut Slot> {
        let place = self.position_of(unit)?.checked_sub(self.base)?;
        self.slots.get_mut(usize::try_from(place).ok()?)
    }

    /// Whether a unit was wanted and is put out already.
    pub(super) fn is_past(&self, unit: u64) -> bool {
        self.position_of(unit).is_some_and(|position| position < self.base)
    }

    /// The unit is early: it came from `source`.
    pub(super) fn hold(&mut self, unit: u64, bytes: Bytes, source: SourceId) {
        if let Some(slot) = self.slot(unit) {
            *slot = Slot::Early(bytes, source);
            self.early += 1;
        }
    }

    /// Early units behind `unit`, which has come: each is taken out of its slot and put back as `check` says.
    pub(super) fn recheck(&mut self, unit: u64, below: u64, mut check: impl FnMut(u64, Bytes, SourceId) -> Slot) {
        let Some(from) = self.position_of(unit).and_then(|position| (position + 1).checked_sub(self.base)) else {
            return;
        };
        let to = from.saturating_add(below).min(self.slots.len() as u64);
        let mut left = self.early;
        for place in from..to {
            if left == 0 {
                break;
            }
            let unit = self.unit_at(self.base + place);
            let Some(slot) = self.slots.get_mut(place as usize).filter(|slot| matches!(slot, Slot::Early(..))) else {
                continue;
            };
            left -= 1;
            if let Slot::Early(bytes, source) = std::mem::replace(slot, Slot::Free) {
                self.early -= 1;
                *slot = check(unit, bytes, source);
                match slot {
                    Slot::Early(..) => self.early += 1,
                    Slot::Free => self.returned.push_back((self.base + place, Some(source))),
                    Slot::Asked(_) | Slot::Ready(_) | Slot::Had => {}
                }
            }
        }
    }

    pub(super) fn has_early(&self) -> bool {
        self.early > 0
    }

    /// `source` was asked for `unit` and will not answer, or should not have: it is to be asked for again, of another than `avoid`. False
    /// where it is there, or someone else was asked too.
    pub(super) fn give_back(&mut self, unit: u64, source: SourceId, avoid: Option<SourceId>) -> bool {
        let Some(slot) = self.slot(unit).filter(|slot| matches!(slot, Slot::Asked(asked) if *asked == source)) else {
            return false;
        };
        *slot = Slot::Free;
        if let Some(position) = self.position_of(unit) {
            self.returned.push_back((position, avoid));
        }
        true
    }

    /// One past the last unit that was handed out.
    pub(super) fn frontier_unit(&self) -> u64 {
        match self.slots.len() as u64 {
            0 => 0,
            slots => self.unit_at(self.base + slots - 1).saturating_add(1),
        }
    }

    /// Takes the next slot out of the ring that is ready to be put out, with its unit.
    pub(super) fn pop(&mut self) -> Option<(u64, Slot)> {
        let slot = self.slots.pop_front_if(|slot| matches!(slot, Slot::Ready(_) | Slot::Had))?;
        let unit = self.unit_at(self.base);
        self.base += 1;
        Some((unit, slot))
    }

    /// It is on disk, or what it is needed for is.
    fn is_had(&self, unit: u64) -> bool {
        let Some(layout) = self.layout.as_ref().filter(|_| !self.had.data.is_empty()) else { return false };
        match layout.place(unit) {
            Some(Place::Data { index }) => self.had.covers(index..index + 1),
            Some(Place::Index { level, first }) => {
                let span = crate::layout::FANOUT.saturating_pow(level);
                self.had.covers(first..first.saturating_add(span).min(layout.data_units()))
            }
            Some(Place::Manifest) | None => false,
        }
    }
}

/// The map as a supply for one source.
pub(super) struct Share<'a> {
    pub(super) map: &'a mut Map,
    pub(super) source: SourceId,
    /// There are other sources.
    pub(super) others: bool,
    /// Bytes that there is room for.
    pub(super) room: u64,
}

impl Share<'_> {
    /// Positions that were given back.
    fn take_returned(&mut self, most: u32) -> Option<Ranges> {
        let mut ranges: Option<Ranges> = None;
        let mut index = 0;
        while let Some(&(position, avoid)) = self.map.returned.get(index) {
            let place = position.checked_sub(self.map.base);
            let slot = place.and_then(|place| self.map.slots.get_mut(place as usize));
            let Some(slot) = slot.filter(|slot| matches!(slot, Slot::Free)) else {
                self.map.returned.remove(index);
                continue;
            };
            if self.others && avoid == Some(self.source) {
                index += 1;
                continue;
            }
            let source = self.source;
            let full = ranges.is_some_and(|ranges| ranges.units() >= most);
            let unit = match self.map.head.get(position as usize) {
                Some(unit) => *unit,
                None => self.map.run + (position - self.map.head.len() as u64),
            };
            let fits = match &mut ranges {
                None => {
                    ranges = Some(Ranges::one(unit));
                    true
                }
                Some(ranges) => !full && ranges.push(unit),
            };
            if !fits {
                break;
            }
            *slot = Slot::Asked(source);
            self.map.returned.remove(index);
        }
        ranges
    }
}

impl Supply for Share<'_> {
    fn take(&mut self, most: u32) -> Option<Ranges> {
        if let Some(ranges) = self.take_returned(most) {
            return Some(ranges);
        }
        let limit = self.map.base.saturating_add(self.room / UNIT as u64).min(self.map.end);
        let mut ranges: Option<Ranges> = None;
        loop {
            let position = self.map.base + self.map.slots.len() as u64;
            if position >= limit || ranges.is_some_and(|ranges| ranges.units() >= most) {
                return ranges;
            }
            let unit = self.map.unit_at(position);
            if self.map.is_had(unit) {
                self.map.slots.push_back(Slot::Had);
                continue;
            }
            match &mut ranges {
                None => ranges = Some(Ranges::one(unit)),
                Some(all) => {
                    if !all.push(unit) {
                        return ranges;
                    }
                }
            }
            self.map.slots.push_back(Slot::Asked(self.source));
        }
    }
}
