//! Which slab of the memory has what.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use paceline_icn::Name;
use paceline_icn::name::NAME_BYTES;

/// Bytes of a key of the program's map `parts`.
pub(crate) const KEY_BYTES: usize = 40;

/// What the program looks units up by: the name, and the number of the first of [`crate::PART_UNITS`] over that number.
pub(crate) type Key = [u8; KEY_BYTES];

pub(crate) fn key(name: &Name, part: u64) -> Key {
    let mut key = [0; KEY_BYTES];
    key[..NAME_BYTES].copy_from_slice(&name.to_bytes());
    key[NAME_BYTES..].copy_from_slice(&part.to_le_bytes()[..KEY_BYTES - NAME_BYTES]);
    key
}

/// All keys of a name.
fn all(name: &Name) -> RangeInclusive<Key> {
    let mut last = [u8::MAX; KEY_BYTES];
    last[..NAME_BYTES].copy_from_slice(&name.to_bytes());
    key(name, 0)..=last
}

/// Slabs that have a part of an object, and those that have none.
#[derive(Debug)]
pub(crate) struct Slabs {
    held: BTreeMap<Key, u32>,
    free: Vec<u32>,
    count: u32,
}

impl Slabs {
    pub(crate) fn new(count: u32) -> Self {
        Self { held: BTreeMap::new(), free: (0..count).rev().collect(), count }
    }

    pub(crate) fn has(&self, key: &Key) -> bool {
        self.held.contains_key(key)
    }

    pub(crate) const fn count(&self) -> u32 {
        self.count
    }

    pub(crate) fn used(&self) -> usize {
        self.held.len()
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.held.keys()
    }

    pub(crate) fn keys_of(&self, name: &Name) -> Vec<Key> {
        self.held.range(all(name)).map(|(key, _)| *key).collect()
    }

    pub(crate) fn has_any(&self, name: &Name) -> bool {
        self.held.range(all(name)).next().is_some()
    }

    /// A slab that has nothing.
    pub(crate) fn free(&self) -> Option<u32> {
        self.free.last().copied()
    }

    /// That slab has this now.
    pub(crate) fn fill(&mut self, key: Key) {
        self.held.extend(self.free.pop().map(|slab| (key, slab)));
    }

    /// Their slabs have nothing any more.
    pub(crate) fn clear(&mut self, keys: &[Key]) {
        let Self { held, free, .. } = self;
        free.extend(keys.iter().filter_map(|key| held.remove(key)));
    }
}

#[cfg(test)]
mod tests {
    use paceline_icn::name::NameKind;

    use super::*;

    #[test]
    fn slabs_are_used_again_and_are_those_of_one_name() {
        let names = [1, 2].map(|byte| Name::new(NameKind::Object, [byte; 32]));
        let mut slabs = Slabs::new(3);
        for (name, part) in [(0, 0), (1, 7), (0, 1 << 40)] {
            slabs.fill(key(&names[name], part));
        }
        assert_eq!((slabs.used(), slabs.free()), (3, None));
        let first = slabs.keys_of(&names[0]);
        assert_eq!(first, [key(&names[0], 0), key(&names[0], 1 << 40)]);
        slabs.clear(&first);
        assert!(slabs.has(&key(&names[1], 7)) && !slabs.has(&first[0]));
        slabs.fill(first[0]);
        slabs.fill(first[1]);
        assert_eq!(slabs.free(), None);
    }
}
