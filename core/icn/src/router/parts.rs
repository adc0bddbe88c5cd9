//! A request taken apart: what is here, what is missing, what is past the end.

use crate::ranges::{Ranges, Units};

/// From the first to the last.
pub(super) fn span(ranges: &[Units]) -> Units {
    let (first, end) = (ranges.first().map_or(0, |range| range.first), ranges.last().map_or(0, Units::end));
    Units { first, count: u32::try_from(end.saturating_sub(first)).unwrap_or(u32::MAX) }
}

/// The first units, and from the first to the last of the others.
pub(super) fn split(ranges: &Ranges, most: usize) -> (Option<Ranges>, Option<Units>) {
    if most >= ranges.units() as usize {
        return (Some(*ranges), None);
    }
    let mut part = Growing::default();
    part.extend(ranges.iter().take(most));
    let first = ranges.iter().nth(most).unwrap_or(0);
    let count = u32::try_from(span(ranges.as_slice()).end().saturating_sub(first)).unwrap_or(u32::MAX);
    (part.first, Some(Units { first, count }))
}

/// Units put together again. What one request asks for may become more ranges than one holds.
#[derive(Default)]
pub(super) struct Growing {
    first: Option<Ranges>,
    more: Vec<Ranges>,
}

impl Growing {
    /// Adds units behind all others.
    fn extend(&mut self, units: impl Iterator<Item = u64>) {
        for unit in units {
            let last = self.more.last_mut().or(self.first.as_mut());
            match last.map(|last| last.push(unit)) {
                Some(true) => {}
                Some(false) => self.more.push(Ranges::one(unit)),
                None => self.first = Some(Ranges::one(unit)),
            }
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Ranges> {
        self.first.iter().chain(&self.more)
    }
}

/// Where the units of a request are.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) here: Growing,
    pub(super) missing: Growing,
    /// From the first to the last unit past the end.
    pub(super) past: Option<Units>,
}

impl Parts {
    /// `has` says how many units are here, from the first on until one is not.
    pub(super) fn of(ranges: &Ranges, stored_units: Option<u64>, mut has: impl FnMut(Units) -> u32) -> Self {
        let mut parts = Self::default();
        let stored = stored_units.unwrap_or(u64::MAX);
        for range in ranges.as_slice() {
            let end = range.end().min(stored).max(range.first);
            let mut rest = Units { first: range.first, count: (end - range.first) as u32 };
            if rest.count < range.count {
                let first = parts.past.map_or(end, |past| past.first);
                parts.past = Some(span(&[Units { first, count: 0 }, *range]));
            }
            while rest.count > 0 {
                let here = has(rest).min(rest.count);
                let gone = rest.first + u64::from(here);
                parts.here.extend(rest.first..gone);
                let missing = u64::from(here < rest.count);
                parts.missing.extend(gone..gone + missing);
                rest = Units { first: gone + missing, count: rest.count - here - missing as u32 };
            }
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_where_they_are() {
        let mut ranges = Ranges::new(Units { first: 10, count: 40 }).unwrap();
        assert!(ranges.push(100) && ranges.push(102));
        // Even numbers are here.
        let parts = Parts::of(&ranges, Some(45), |units| u32::from(units.first % 2 == 0));
        let all = |units: &Growing| units.iter().flat_map(Ranges::iter).collect::<Vec<_>>();
        assert_eq!(all(&parts.here), (10..45).step_by(2).collect::<Vec<_>>());
        assert_eq!(all(&parts.missing), (11..45).step_by(2).collect::<Vec<_>>());
        assert_eq!(parts.past, Some(Units { first: 45, count: 58 }));
        let parts = Parts::of(&ranges, None, |units| units.count);
        assert_eq!((all(&parts.here).len(), parts.past), (42, None));
    }

    #[test]
    fn a_request_is_split_after_so_many_units() {
        let mut ranges = Ranges::new(Units { first: 10, count: 3 }).unwrap();
        assert!(ranges.push(20));
        assert_eq!(split(&ranges, 4), (Some(ranges), None));
        assert_eq!(
            split(&ranges, 2),
            (Ranges::new(Units { first: 10, count: 2 }), Some(Units { first: 12, count: 9 }))
        );
        assert_eq!(split(&ranges, 0), (None, Some(Units { first: 10, count: 11 })));
    }
}
