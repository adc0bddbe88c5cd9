//! Which units are wanted, where each is, and who was asked for it.
//!
//! The wanted units have positions: the manifest and the index units above the first byte that is wanted, then all units from there to
//! the last byte. A ring has those that were handed out to sources and are not yet put out; before it all is done, behind it nothing is.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;

use super::SourceId;
use super::had::Had;
use crate::layout::Layout;

/// Where a unit is.
#[derive(Debug)]
pub(super) enum Slot {
    /// No source was asked, or the one that was is not expected to answer.
    Free,
    /// This source was.
    Asked(SourceId),
    /// This source was, after another one that was asked for it first and is expected to answer later.
    Raced(SourceId),
    /// These sources were, none of which is known to answer: any other may be asked too.
    Doubted(Sources),
    /// It came from this source, and what it is verified with did not.
    Early(Bytes, SourceId),
    /// It was verified. No bytes where they are not wanted.
    Ready(Bytes),
    /// It is on disk, or all that it is needed for is.
    Had,
}

/// Sources, by their numbers. Of more than 64, some have one place: then fewer are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sources(u64);

impl Sources {
    fn one(source: SourceId) -> Self {
        Self(Self::bit(source))
    }

    const fn bit(source: SourceId) -> u64 {
        1 << (source.0 % 64)
    }

    pub(super) const fn has(self, source: SourceId) -> bool {
        self.0 & Self::bit(source) != 0
    }

    pub(super) fn add(&mut self, source: SourceId) {
        self.0 |= Self::bit(source);
    }

    fn remove(&mut self, source: SourceId) {
        self.0 &= !Self::bit(source);
    }

    const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

#[derive(Debug)]
pub(super) struct Map {
    /// Units before the run, in order.
    head: Vec<u64>,
    /// First unit of the run.
    run: u64,
    /// Number of positions.
    pub(super) end: u64,
    layout: Option<Layout>,
    had: Had,
    /// Position of the first slot.
    pub(super) base: u64,
    pub(super) slots: VecDeque<Slot>,
    /// Positions to be asked for again, and the source that should not be.
    pub(super) returned: VecDeque<(u64, Option<SourceId>)>,
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
        units.for_each(|unit| self.had.note(unit));
    }

    /// The manifest is there before anything was asked for.
    pub(super) fn has_manifest(&mut self) {
        self.slots.push_back(Slot::Ready(Bytes::new()));
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
            self.early = self.slots.iter().filter(|slot| matches!(slot, Slot::Early(..))).count();
        }
    }

    pub(super) fn layout(&self) -> Option<&Layout> {
        self.layout.as_ref()
    }

    /// All is put out.
    pub(super) fn is_done(&self) -> bool {
        self.layout.is_some() && self.base >= self.end
    }

    pub(super) fn unit_at(&self, position: u64) -> u64 {
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
                    Slot::Asked(_) | Slot::Raced(_) | Slot::Doubted(_) | Slot::Ready(_) | Slot::Had => {}
                }
            }
        }
    }

    pub(super) fn has_early(&self) -> bool {
        self.early > 0
    }

    /// `source` was asked for `unit` and will not answer, or should not have: it is to be asked for again, of another than `avoid`. False
    /// where it is there, or another source was asked too.
    pub(super) fn give_back(&mut self, unit: u64, source: SourceId, avoid: Option<SourceId>) -> bool {
        let Some(slot) = self.slot(unit) else { return false };
        match slot {
            Slot::Asked(asked) | Slot::Raced(asked) if *asked == source => {}
            Slot::Doubted(asked) if asked.has(source) => {
                asked.remove(source);
                if !asked.is_empty() {
                    return false;
                }
            }
            _ => return false,
        }
        *slot = Slot::Free;
        if let Some(position) = self.position_of(unit) {
            self.returned.push_back((position, avoid));
        }
        true
    }

    /// `source` was asked for `unit`, and it is not known whether it answers: others may be asked as well.
    pub(super) fn doubt(&mut self, unit: u64, source: SourceId) {
        let Some(slot) = self.slot(unit) else { return };
        match slot {
            Slot::Asked(asked) | Slot::Raced(asked) if *asked == source => *slot = Slot::Doubted(Sources::one(source)),
            Slot::Doubted(asked) => asked.add(source),
            _ => return,
        }
        if let Some(position) = self.position_of(unit)
            && !self.returned.iter().any(|(other, _)| *other == position)
        {
            self.returned.push_back((position, None));
        }
    }

    /// `source` is asked for `unit` as well as `first`, which was before. False where that is not, or no longer, waited for.
    pub(super) fn race(&mut self, unit: u64, first: SourceId, source: SourceId) -> bool {
        let slot = self.slot(unit).filter(|slot| matches!(slot, Slot::Asked(asked) if *asked == first));
        slot.map(|slot| *slot = Slot::Raced(source)).is_some()
    }

    /// Whether this source and no other is asked for `unit`.
    pub(super) fn is_asked(&mut self, unit: u64, source: SourceId) -> bool {
        self.slot(unit).is_some_and(|slot| matches!(slot, Slot::Asked(asked) if *asked == source))
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
    pub(super) fn is_had(&self, unit: u64) -> bool {
        self.layout.as_ref().is_some_and(|layout| self.had.has(layout, unit))
    }
}
