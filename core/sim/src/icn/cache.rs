//! A router's cache in memory: parts of objects, of a bounded total size. What was not used for longest makes room, as on the disk.

use std::collections::BTreeMap;

use bytes::Bytes;
use paceline_icn::{Layout, Manifest, Name, Units};

/// A cache of a bounded size.
#[derive(Debug)]
pub struct MemoryCache {
    limit: u64,
    bytes: u64,
    objects: BTreeMap<Name, Part>,
    uses: u64,
}

/// What is there of an object.
#[derive(Debug)]
struct Part {
    layout: Layout,
    units: BTreeMap<u64, Bytes>,
    bytes: u64,
    used: u64,
}

impl MemoryCache {
    /// An empty one, of at most `limit` bytes of units.
    pub const fn new(limit: u64) -> Self {
        Self { limit, bytes: 0, objects: BTreeMap::new(), uses: 0 }
    }

    fn used(&mut self, name: &Name) -> Option<&mut Part> {
        let part = self.objects.get_mut(name)?;
        self.uses += 1;
        part.used = self.uses;
        Some(part)
    }

    /// The layout of an object of which there is something, and whether all of it is there. It counts as a use.
    pub fn find(&mut self, name: &Name) -> Option<(Layout, bool)> {
        let part = self.used(name)?;
        Some((part.layout, part.units.len() as u64 == part.layout.stored_units()))
    }

    /// How many of these units are there, counted from the first until one is not.
    pub fn run(&mut self, name: &Name, units: Units) -> u32 {
        let part = self.used(name);
        part.map_or(0, |part| units.iter().take_while(|unit| part.units.contains_key(unit)).count() as u32)
    }

    /// The units that are there.
    pub fn units(&self, name: &Name) -> Vec<u64> {
        self.objects.get(name).map_or_else(Vec::new, |part| part.units.keys().copied().collect())
    }

    /// A unit.
    pub fn unit(&mut self, name: &Name, unit: u64) -> Option<Bytes> {
        self.used(name)?.units.get(&unit).cloned()
    }

    /// Takes a verified unit of an object with this manifest, for which others make room; false where all of the cache is too small for the
    /// object.
    pub fn keep(&mut self, name: &Name, manifest: &[u8], unit: u64, bytes: &Bytes) -> bool {
        if self.used(name).is_none() {
            let Ok(layout) = Manifest::decode(manifest).map(|manifest| manifest.layout()) else { return false };
            if layout.stored_bytes() > self.limit {
                return false;
            }
            self.uses += 1;
            let part = Part { layout, units: BTreeMap::new(), bytes: 0, used: self.uses };
            self.objects.insert(*name, part);
        }
        while self.bytes + bytes.len() as u64 > self.limit && self.evict(name) {}
        let Some(part) = self.objects.get_mut(name) else { return false };
        if part.units.insert(unit, bytes.clone()).is_none() {
            part.bytes += bytes.len() as u64;
            self.bytes += bytes.len() as u64;
        }
        true
    }

    /// Drops the object that was not used for longest, but for one.
    fn evict(&mut self, but: &Name) -> bool {
        let others = self.objects.iter().filter(|(name, _)| *name != but);
        let Some(oldest) = others.min_by_key(|(_, part)| part.used).map(|(name, _)| *name) else { return false };
        self.bytes -= self.objects.remove(&oldest).map_or(0, |part| part.bytes);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_experiment::Seed;
    use paceline_experiment::icn::SyntheticObject;

    #[test]
    fn what_was_not_used_for_longest_makes_room() {
        let objects = [1, 2, 3].map(|seed| SyntheticObject::new(4_000, Seed(seed)));
        let stored = objects[0].layout().stored_bytes();
        let mut cache = MemoryCache::new(2 * stored);
        let keep = |cache: &mut MemoryCache, object: &SyntheticObject| {
            let manifest = object.unit(0).unwrap();
            let units = 0..object.layout().stored_units();
            units.for_each(|unit| assert!(cache.keep(object.name(), &manifest, unit, &object.unit(unit).unwrap())));
        };
        keep(&mut cache, &objects[0]);
        keep(&mut cache, &objects[1]);
        assert_eq!(cache.find(objects[0].name()), Some((*objects[0].layout(), true)), "it is used");
        keep(&mut cache, &objects[2]);
        assert_eq!(objects.each_ref().map(|object| cache.find(object.name()).is_some()), [true, false, true]);
        assert_eq!(cache.unit(objects[2].name(), 1), objects[2].unit(1));
        let large = SyntheticObject::new(20_000, Seed(4));
        assert!(!cache.keep(large.name(), &large.unit(0).unwrap(), 0, &large.unit(0).unwrap()), "it has no room");
        assert!(cache.find(objects[2].name()).is_some());
    }
}
