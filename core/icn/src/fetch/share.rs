//! The map of units as one source's flow sees it.

use paceline_cc::{Nanos, Time};

use super::SourceId;
use super::map::{Map, Slot};
use super::saved::Shelved;
use super::source::Source;
use crate::UNIT;
use crate::flow::Supply;
use crate::ranges::Ranges;

/// The map as a supply for one source.
pub(super) struct Share<'a> {
    pub(super) map: &'a mut Map,
    /// What an earlier run left.
    pub(super) shelved: Option<Shelved<'a>>,
    pub(super) source: SourceId,
    /// It has answered.
    pub(super) heard: bool,
    /// There are other sources that may be asked.
    pub(super) others: bool,
    /// Bytes that there is room for.
    pub(super) room: u64,
    /// No unit from this one on is asked for.
    pub(super) until: u64,
    /// What may be asked of this source although another one was asked for it.
    pub(super) race: Option<Race<'a>>,
}

/// The other sources, as one sees them that has nothing else to be asked for.
pub(super) struct Race<'a> {
    pub(super) now: Time,
    /// In which time this source answers.
    pub(super) patience: Nanos,
    /// Those before it and those behind it.
    pub(super) others: [&'a [Source]; 2],
    /// The application waits for the next unit.
    pub(super) hungry: bool,
    /// When to look again.
    pub(super) again: Time,
    /// Units that it was asked for.
    pub(super) units: u64,
}

impl Race<'_> {
    /// Units that others were asked for and would bring later.
    fn take(&mut self, map: &mut Map, source: SourceId, most: u32) -> Option<Ranges> {
        let mut late = Vec::new();
        let behind = self.others[0].len() + 1;
        let others = self.others[0].iter().zip(0..).chain(self.others[1].iter().zip(behind..));
        for (other, index) in others.filter(|(other, _)| other.alive) {
            let first = SourceId(index as u32);
            let full = late.len() + most as usize;
            let again = other.flow.late(self.now, self.patience, |unit| {
                if map.is_asked(unit, first) {
                    late.push((unit, first));
                }
                late.len() < full
            });
            self.again = self.again.min(again);
        }
        late.sort_unstable_by_key(|(unit, _)| *unit);
        let mut ranges: Option<Ranges> = None;
        // The last ones would come last.
        for (unit, first) in late.split_off(late.len().saturating_sub(most as usize)) {
            let fits = match &mut ranges {
                None => {
                    ranges = Some(Ranges::one(unit));
                    true
                }
                Some(ranges) => ranges.push(unit),
            };
            if fits && map.race(unit, first, source) {
                self.units += 1;
            }
        }
        ranges
    }
}

impl Share<'_> {
    /// Positions that were given back, and those of which it is in doubt whether they come.
    fn take_returned(&mut self, most: u32) -> Option<Ranges> {
        let mut ranges: Option<Ranges> = None;
        let mut index = 0;
        while let Some(&(position, avoid)) = self.map.returned.get(index) {
            let unit = self.map.unit_at(position);
            let place = position.checked_sub(self.map.base);
            let slot = place.and_then(|place| self.map.slots.get_mut(place as usize));
            let Some(slot) = slot.filter(|slot| matches!(slot, Slot::Free | Slot::Doubted(_))) else {
                self.map.returned.remove(index);
                continue;
            };
            let asked = matches!(slot, Slot::Doubted(asked) if asked.has(self.source));
            if asked || self.others && avoid == Some(self.source) {
                index += 1;
                continue;
            }
            let full = ranges.is_some_and(|ranges| ranges.units() >= most);
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
            match slot {
                Slot::Doubted(asked) if !self.heard => {
                    asked.add(self.source);
                    index += 1;
                }
                _ => {
                    *slot = Slot::Asked(self.source);
                    self.map.returned.remove(index);
                }
            }
        }
        ranges
    }

    /// It need not be asked for.
    fn is_there(&mut self, unit: u64) -> bool {
        match &mut self.shelved {
            Some(shelved) if shelved.is_index(unit) => shelved.has(unit),
            _ => self.map.is_had(unit),
        }
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
            if ranges.is_some_and(|ranges| ranges.units() >= most) {
                return ranges;
            }
            if position >= limit {
                let Self { map, race, source, .. } = self;
                let race = race.as_mut().filter(|race| race.hungry || position >= map.end);
                return ranges.or_else(|| race?.take(map, *source, most));
            }
            let unit = self.map.unit_at(position);
            if unit >= self.until {
                return ranges;
            }
            if self.is_there(unit) {
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
