//! Ranges of units, as one request asks for them.

/// Ranges that a request has at most.
pub const MAX_RANGES: usize = 16;

/// Units that a request asks for at most (the paper's L): as many as the block acknowledgement of one A-MPDU covers.
pub const MAX_UNITS: u32 = 64;

/// Units in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Units {
    /// The first one's number.
    pub first: u64,
    /// How many.
    pub count: u32,
}

impl Units {
    /// One past the last one's number.
    pub const fn end(&self) -> u64 {
        self.first.saturating_add(self.count as u64)
    }

    /// Their numbers.
    pub fn iter(&self) -> std::ops::Range<u64> {
        self.first..self.end()
    }
}

/// What a request asks for: up to [`MAX_RANGES`] ranges in ascending order that do not touch, [`MAX_UNITS`] units in all, at
/// least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranges {
    ranges: [Units; MAX_RANGES],
    used: usize,
    units: u32,
}

impl Ranges {
    /// One unit.
    pub const fn one(unit: u64) -> Self {
        let mut ranges = [Units { first: 0, count: 0 }; MAX_RANGES];
        ranges[0] = Units { first: unit, count: 1 };
        Self { ranges, used: 1, units: 1 }
    }

    /// Units in a row; `None` where they are 0, more than [`MAX_UNITS`], or reach past the largest number.
    pub fn new(units: Units) -> Option<Self> {
        let fits = (1..=MAX_UNITS).contains(&units.count) && units.first.checked_add(units.count.into()).is_some();
        let mut all = Self::one(units.first);
        all.ranges[0] = units;
        all.units = units.count;
        fits.then_some(all)
    }

    /// Adds a unit behind all others; false and nothing where there is no room, `unit` is not behind, or the gap before it is longer
    /// than a request can write (2^32 units).
    pub fn push(&mut self, unit: u64) -> bool {
        self.push_units(Units { first: unit, count: 1 })
    }

    /// As [`Ranges::push`], with units in a row: all or none.
    pub fn push_units(&mut self, units: Units) -> bool {
        let last = &mut self.ranges[self.used - 1];
        let Some(gap) = units.first.checked_sub(last.end()) else { return false };
        let room = (1..=MAX_UNITS - self.units).contains(&units.count);
        if !room || gap > u64::from(u32::MAX) || units.first.checked_add(units.count.into()).is_none() {
            return false;
        }
        if gap == 0 {
            last.count += units.count;
        } else if self.used == MAX_RANGES {
            return false;
        } else {
            self.ranges[self.used] = units;
            self.used += 1;
        }
        self.units += units.count;
        true
    }

    /// The ranges.
    pub fn as_slice(&self) -> &[Units] {
        &self.ranges[..self.used]
    }

    /// How many units there are.
    pub const fn units(&self) -> u32 {
        self.units
    }

    /// The numbers of the units.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.as_slice().iter().flat_map(Units::iter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_in_a_row_are_one_range_and_there_is_an_end_to_both() {
        let mut ranges = Ranges::one(5);
        assert!(ranges.push(6) && ranges.push(9));
        assert!(!ranges.push(9) && !ranges.push(2));
        assert_eq!(ranges.as_slice(), [Units { first: 5, count: 2 }, Units { first: 9, count: 1 }]);
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [5, 6, 9]);
        let full = (0..100).fold(Ranges::one(0), |mut all, unit| {
            all.push(unit);
            all
        });
        assert_eq!(full.units(), MAX_UNITS);
        let gaps = (0..100).fold(Ranges::one(0), |mut all, unit| {
            all.push(2 * unit);
            all
        });
        assert_eq!(gaps.as_slice().len(), MAX_RANGES);
        let mut far = Ranges::one(0);
        assert!(!far.push(2 + u64::from(u32::MAX)) && far.push(1 + u64::from(u32::MAX)));
        assert!(!far.push(u64::MAX) && !far.push_units(Units { first: 1 << 33, count: 0 }));
        assert_eq!(Ranges::new(Units { first: u64::MAX, count: 1 }), None);
        assert_eq!(Ranges::new(Units { first: 7, count: MAX_UNITS + 1 }), None);
        assert_eq!(Ranges::new(Units { first: 7, count: 3 }).map(|all| all.units()), Some(3));
    }
}
