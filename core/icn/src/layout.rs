//! Where the units of an object stand in its stored form.
//!
//! The stored form is a sequence of units: the manifest, then a tree of hashes in pre-order, so that every index unit stands
//! before the units whose hashes it holds. A receiver that takes the units in order can check each as it comes, and a router serves
//! them by their numbers without knowing what they are. All units have [`UNIT`] bytes but the last, which is the object's end.

use crate::UNIT;

/// Hashes in an index unit: as many of [`HASH_BYTES`] as fit beside its head.
pub const FANOUT: u64 = 58;

/// Bytes of a hash in an index unit. A forger of a unit of a given object must find a second preimage (2^192 tries); a publisher
/// who makes two objects with one name, a collision (2^96). Longer ones cost more: 32 bytes 2.3 % of the object instead of 1.7 %.
pub const HASH_BYTES: usize = 24;

/// Levels of a tree at most: 58^11 units are more than 2^64 bytes.
const MAX_HEIGHT: usize = 11;

/// The places of an object's units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    length: u64,
    data_units: u64,
    height: u32,
}

/// What a unit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitPlace {
    /// The manifest.
    Manifest,
    /// Hashes of the units one level below.
    Index {
        /// Its level; the hashes of level 1 are those of data.
        level: u32,
        /// The first data unit below it.
        first: u64,
    },
    /// The object's bytes from `index` times [`UNIT`] on.
    Data {
        /// Its number among the data units.
        index: u64,
    },
}

/// Units of a whole tree of this height.
const fn units(height: usize) -> u64 {
    TREE[height]
}

/// Data units below a whole tree of this height.
const fn span(height: usize) -> u64 {
    FANOUT.saturating_pow(height as u32)
}

const TREE: [u64; MAX_HEIGHT + 1] = {
    let mut trees = [1; MAX_HEIGHT + 1];
    let mut height = 1;
    while height <= MAX_HEIGHT {
        trees[height] = FANOUT.saturating_mul(trees[height - 1]).saturating_add(1);
        height += 1;
    }
    trees
};

impl Layout {
    /// Of an object of `length` bytes.
    pub fn new(length: u64) -> Self {
        let data_units = length.div_ceil(UNIT as u64);
        let height = (0..MAX_HEIGHT).find(|height| span(*height) >= data_units).unwrap_or(MAX_HEIGHT);
        Self { length, data_units, height: height as u32 }
    }

    /// Bytes of the object.
    pub const fn length(&self) -> u64 {
        self.length
    }

    /// Units that hold bytes of the object.
    pub const fn data_units(&self) -> u64 {
        self.data_units
    }

    /// Levels of index units.
    pub const fn height(&self) -> u32 {
        self.height
    }

    /// Units of the stored form.
    pub fn stored_units(&self) -> u64 {
        self.data_units.checked_sub(1).map_or(1, |last| self.unit_of(last) + 1)
    }

    /// Bytes of the stored form.
    pub fn stored_bytes(&self) -> u64 {
        let units = self.stored_units();
        (units - 1) * UNIT as u64 + self.bytes_of(units - 1) as u64
    }

    /// Number of the unit that holds data unit `index`.
    pub fn unit_of(&self, index: u64) -> u64 {
        self.index_of(index, 0)
    }

    /// Number of the index unit of `level` above data unit `index`; at level 0 the data unit itself.
    pub fn index_of(&self, index: u64, level: u32) -> u64 {
        let (mut unit, mut rest) = (1, index);
        for height in (level as usize + 1..=self.height as usize).rev() {
            unit += 1 + rest / span(height - 1) * units(height - 1);
            rest %= span(height - 1);
        }
        unit
    }

    /// What `unit` is; `None` past the end.
    pub fn place(&self, unit: u64) -> Option<UnitPlace> {
        let Some(mut rest) = unit.checked_sub(1) else { return Some(UnitPlace::Manifest) };
        let mut first = 0_u64;
        let mut level = self.height as usize;
        while level > 0 && rest > 0 {
            let (slot, below) = ((rest - 1) / units(level - 1), (rest - 1) % units(level - 1));
            if slot >= FANOUT {
                return None;
            }
            level -= 1;
            first = first.checked_add(slot.checked_mul(span(level))?)?;
            rest = below;
        }
        if rest > 0 || first >= self.data_units {
            return None;
        }
        Some(match level {
            0 => UnitPlace::Data { index: first },
            level => UnitPlace::Index { level: level as u32, first },
        })
    }

    /// The unit that holds the hash of `unit`, and which of its hashes that is. `None` for the manifest, which the name is the hash
    /// of, for the unit below it, whose hash the manifest holds, and past the end.
    pub fn parent(&self, unit: u64) -> Option<(u64, usize)> {
        self.above(self.place(unit)?).map(|(parent, _, slot)| (parent, slot))
    }

    /// The same of the unit at `place`, with the place of that which holds the hash.
    pub(crate) fn above(&self, place: UnitPlace) -> Option<(u64, UnitPlace, usize)> {
        let (level, first) = match place {
            UnitPlace::Manifest => return None,
            UnitPlace::Index { level, first } => (level, first),
            UnitPlace::Data { index } => (0, index),
        };
        if level >= self.height {
            return None;
        }
        let above = UnitPlace::Index { level: level + 1, first: first - first % span(level as usize + 1) };
        let slot = first / span(level as usize) % FANOUT;
        Some((self.index_of(first, level + 1), above, slot as usize))
    }

    /// Hashes that the index unit of `level` above data unit `first` holds.
    pub fn children(&self, level: u32, first: u64) -> usize {
        let below = self.data_units.saturating_sub(first);
        let each = span((level as usize).clamp(1, MAX_HEIGHT) - 1);
        below.div_ceil(each).min(FANOUT) as usize
    }

    /// Index units, the manifest among them, that stand before `unit`, which is at `place`.
    pub fn indexes_before(unit: u64, place: UnitPlace) -> u64 {
        match place {
            UnitPlace::Manifest => 0,
            UnitPlace::Index { first, .. } => unit - first,
            UnitPlace::Data { index } => unit - index,
        }
    }

    /// Bytes of `unit`: [`UNIT`], but for the last; 0 past the end.
    pub fn bytes_of(&self, unit: u64) -> usize {
        self.place(unit).map_or(0, |place| self.bytes_at(place))
    }

    /// The same of the unit at `place`, which is before the end.
    pub(crate) fn bytes_at(&self, place: UnitPlace) -> usize {
        match place {
            UnitPlace::Data { index } => (self.length - index * UNIT as u64).min(UNIT as u64) as usize,
            UnitPlace::Manifest | UnitPlace::Index { .. } => UNIT,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn small_objects_by_hand() {
        let shape = |length| {
            let layout = Layout::new(length);
            (layout.height(), layout.stored_units(), layout.stored_bytes())
        };
        assert_eq!(shape(0), (0, 1, 1400));
        assert_eq!(shape(1), (0, 2, 1401));
        assert_eq!(shape(1400), (0, 2, 2800));
        assert_eq!(shape(1401), (1, 4, 4201));
        assert_eq!(shape(58 * 1400), (1, 60, 84_000));
        assert_eq!(shape(58 * 1400 + 1), (2, 63, 62 * 1400 + 1));
        let two = Layout::new(58 * 1400 + 1);
        assert_eq!(two.place(1), Some(UnitPlace::Index { level: 2, first: 0 }));
        assert_eq!(two.place(2), Some(UnitPlace::Index { level: 1, first: 0 }));
        assert_eq!(two.place(61), Some(UnitPlace::Index { level: 1, first: 58 }));
        assert_eq!(two.place(62), Some(UnitPlace::Data { index: 58 }));
        assert_eq!(two.parent(62), Some((61, 0)));
        assert_eq!(two.parent(61), Some((1, 1)));
        assert_eq!(two.parent(1), None);
        assert_eq!(two.place(63), None);
    }

    proptest! {
        #[test]
        fn every_unit_has_one_place_behind_its_parent(length in any::<u64>(), share in 0.0..1.0_f64) {
            let layout = Layout::new(length);
            let unit = (layout.stored_units() as f64 * share) as u64;
            let unit = unit.min(layout.stored_units() - 1);
            match layout.place(unit) {
                None => prop_assert!(false, "{unit} has no place"),
                Some(UnitPlace::Manifest) => prop_assert_eq!(unit, 0),
                Some(UnitPlace::Data { index }) => prop_assert_eq!(layout.unit_of(index), unit),
                Some(UnitPlace::Index { level, first }) => prop_assert_eq!(layout.index_of(first, level), unit),
            }
            if let Some((parent, slot)) = layout.parent(unit) {
                prop_assert!(parent < unit && slot < FANOUT as usize);
                let Some(UnitPlace::Index { level, first }) = layout.place(parent) else { panic!("{parent} holds hashes") };
                prop_assert!(slot < layout.children(level, first));
            }
            prop_assert_eq!(layout.place(layout.stored_units()), None);
        }

        #[test]
        fn the_tree_costs_less_than_two_percent(length in 10_000_000..u64::MAX / 2) {
            let layout = Layout::new(length);
            prop_assert!(layout.stored_bytes() as f64 <= length as f64 * 1.018);
        }
    }
}
