//! Checks units of an object, in whatever order they come.
//!
//! An index unit has a head of 8 bytes (its level, and the first data unit below it, 56 bits) and the hashes of the units one
//! level below, [`HASH_BYTES`] each; what is left is zero. The manifest has the hash of the topmost unit.

use std::collections::BTreeMap;

use crate::UNIT;
use crate::hash::{Tag, UnitHash, hash_of_unit};
use crate::layout::{HASH_BYTES, Layout, UnitPlace};
use crate::manifest::{Manifest, name_of};
use crate::name::{Name, NameKind};

/// Bytes of an index unit's head.
pub(crate) const HEAD: usize = 8;

/// Index units that a verifier holds at most, if not said otherwise: 5.7 MB, the hashes of 330 MB in whatever order (our choice).
pub const HELD: usize = 4096;

/// The least that a verifier can work with: one index unit of each level on the way to one data unit.
const LEAST: usize = 11;

/// Head of an index unit.
pub(crate) const fn head(level: u32, first: u64) -> [u8; HEAD] {
    ((level as u64) << 56 | first & ((1 << 56) - 1)).to_be_bytes()
}

/// The index unit of a level above data unit `first`, of the hashes of the units one level below.
pub fn index_unit(level: u32, first: u64, hashes: impl Iterator<Item = [u8; 32]>) -> Box<[u8; UNIT]> {
    let mut bytes = Box::new([0; UNIT]);
    bytes[..HEAD].copy_from_slice(&head(level, first));
    for (place, hash) in bytes[HEAD..].chunks_exact_mut(HASH_BYTES).zip(hashes) {
        place.copy_from_slice(&hash[..HASH_BYTES]);
    }
    bytes
}

/// What a verifier says of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitVerdict {
    /// It belongs to the object, and came for the first time.
    Genuine,
    /// A unit of this number was found genuine before; these bytes were not looked at. Drop them.
    Known,
    /// Its bytes are not those of the object.
    Corrupt,
    /// The unit that holds its hash ([`Verifier::missing_for`]) is not there, or there is no room for it: hold it, and check it
    /// again when more has come.
    Early,
    /// Past the end of the object.
    Foreign,
}

/// Knows of an object what is needed to check the units that are still to come: it forgets the hashes of a subtree all of whose
/// units it has seen. Units in order take one index unit for each level of the tree.
#[derive(Debug)]
pub struct Verifier {
    name: Name,
    object: Option<(Manifest, Layout)>,
    /// Index units that have been checked, while units below them are to come, by their numbers.
    held: BTreeMap<u64, Held>,
    limit: usize,
    hash: UnitHash,
    /// Everything below the manifest was checked.
    done: bool,
}

#[derive(Debug)]
struct Held {
    hashes: Box<[u8; UNIT]>,
    children: u32,
    /// By hash: the unit, and everything below it, was checked.
    done: u64,
}

impl Held {
    fn hash(&self, slot: usize) -> &[u8] {
        &self.hashes[HEAD + slot * HASH_BYTES..][..HASH_BYTES]
    }
}

/// What is known of a unit's place.
enum Standing {
    /// The hash that it must have: all of it, or its beginning.
    Expected([u8; 32], usize),
    Known,
    /// This index unit comes first.
    Behind(u64),
}

impl Verifier {
    /// For the object of this name. A signed name names no object, and everything is [`UnitVerdict::Corrupt`] for it: ask the
    /// [`crate::SignedRecord`] for its target.
    pub fn new(name: &Name) -> Self {
        Self::with_limit(name, HELD)
    }

    /// With at most `limit` index units of 1.4 kB held, at least 11. Where more are needed, the index unit furthest behind in the
    /// object is forgotten: it has to come again before more units below it can be checked, and those that were checked are
    /// [`UnitVerdict::Genuine`] again when they come again.
    pub fn with_limit(name: &Name, limit: usize) -> Self {
        Self {
            name: *name,
            object: None,
            held: BTreeMap::new(),
            limit: limit.max(LEAST),
            hash: hash_of_unit,
            done: false,
        }
    }

    /// Hashes of index and data units come from here.
    pub fn hash_with(&mut self, hash: UnitHash) {
        self.hash = hash;
    }

    /// The manifest, when it has come.
    pub fn manifest(&self) -> Option<&Manifest> {
        self.object.as_ref().map(|(manifest, _)| manifest)
    }

    /// Where the units stand, when the manifest has come.
    pub fn layout(&self) -> Option<&Layout> {
        self.object.as_ref().map(|(_, layout)| layout)
    }

    /// Index units that are held.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Whether all units were checked.
    pub const fn is_done(&self) -> bool {
        self.done
    }

    /// Whether [`Verifier::check`] can say more of `unit` than [`UnitVerdict::Early`].
    pub fn knows_parent_of(&self, unit: u64) -> bool {
        unit == 0 || self.object.is_some() && self.missing_for(unit).is_none()
    }

    /// The unit that has to come next before `unit` can be checked: the topmost missing one above it. `None` where `unit` can be
    /// checked, was checked, or is past the end.
    pub fn missing_for(&self, unit: u64) -> Option<u64> {
        let Some((manifest, layout)) = &self.object else { return (unit > 0).then_some(0) };
        match self.standing(manifest, layout, unit, layout.place(unit)?) {
            Standing::Behind(missing) => Some(missing),
            Standing::Expected(..) | Standing::Known => None,
        }
    }

    /// Whether `unit` was found genuine before.
    pub fn knows(&self, unit: u64) -> bool {
        let Some((manifest, layout)) = &self.object else { return false };
        let known = |place| matches!(self.standing(manifest, layout, unit, place), Standing::Known);
        unit == 0 || layout.place(unit).is_some_and(known)
    }

    /// Checks a unit.
    pub fn check(&mut self, unit: u64, bytes: &[u8]) -> UnitVerdict {
        let Some((manifest, layout)) = &self.object else {
            return if unit > 0 { UnitVerdict::Early } else { self.begin(bytes) };
        };
        let layout = *layout;
        let Some(place) = layout.place(unit) else { return UnitVerdict::Foreign };
        let tag = match place {
            UnitPlace::Manifest => return UnitVerdict::Known,
            UnitPlace::Index { .. } => Tag::Index,
            UnitPlace::Data { .. } => Tag::Data,
        };
        let (hash, compared) = match self.standing(manifest, &layout, unit, place) {
            Standing::Known => return UnitVerdict::Known,
            Standing::Behind(_) => return UnitVerdict::Early,
            Standing::Expected(hash, compared) => (hash, compared),
        };
        if bytes.len() != layout.bytes_at(place) || (self.hash)(tag, bytes)[..compared] != hash[..compared] {
            return UnitVerdict::Corrupt;
        }
        match place {
            UnitPlace::Index { level, first } => self.hold(&layout, unit, level, first, bytes),
            _ => {
                self.complete(&layout, place);
                UnitVerdict::Genuine
            }
        }
    }

    /// Takes a data unit as checked that was found genuine in an earlier run, so that the hashes beside it can be forgotten; false
    /// where its hash is not held. Index units have to be checked again: their hashes are needed.
    pub fn have(&mut self, unit: u64) -> bool {
        let Some((manifest, layout)) = &self.object else { return false };
        let layout = *layout;
        let Some(place @ UnitPlace::Data { .. }) = layout.place(unit) else { return false };
        match self.standing(manifest, &layout, unit, place) {
            Standing::Known => true,
            Standing::Behind(_) => false,
            Standing::Expected(..) => {
                self.complete(&layout, place);
                true
            }
        }
    }

    fn begin(&mut self, bytes: &[u8]) -> UnitVerdict {
        if self.name.kind() != NameKind::Object || bytes.len() != UNIT || name_of(bytes) != self.name {
            return UnitVerdict::Corrupt;
        }
        let Ok(manifest) = Manifest::decode(bytes) else { return UnitVerdict::Corrupt };
        let layout = manifest.layout();
        self.done = layout.stored_units() == 1;
        self.object = Some((manifest, layout));
        UnitVerdict::Genuine
    }

    /// Where `unit`, which is at `place` and not the manifest, stands.
    fn standing(&self, manifest: &Manifest, layout: &Layout, unit: u64, place: UnitPlace) -> Standing {
        if self.done || self.held.contains_key(&unit) {
            return Standing::Known;
        }
        let Some((parent, above, slot)) = layout.above(place) else {
            return Standing::Expected(manifest.root, 32);
        };
        if let Some(held) = self.held.get(&parent) {
            if held.done & 1 << slot != 0 {
                return Standing::Known;
            }
            let mut hash = [0; 32];
            hash[..HASH_BYTES].copy_from_slice(held.hash(slot));
            return Standing::Expected(hash, HASH_BYTES);
        }
        // The parent is not there because it did not come yet, or because nothing below it is missing any more.
        match self.standing(manifest, layout, parent, above) {
            Standing::Expected(..) => Standing::Behind(parent),
            other => other,
        }
    }

    fn hold(&mut self, layout: &Layout, unit: u64, level: u32, first: u64, bytes: &[u8]) -> UnitVerdict {
        let children = layout.children(level, first);
        let Ok(hashes) = <Box<[u8; UNIT]>>::try_from(Box::<[u8]>::from(bytes)) else { return UnitVerdict::Corrupt };
        let rest = &hashes[HEAD + children * HASH_BYTES..];
        // Its hash is right, so it is its publisher who made it wrong.
        if hashes[..HEAD] != head(level, first) || rest.iter().any(|byte| *byte != 0) {
            return UnitVerdict::Corrupt;
        }
        if self.held.len() >= self.limit {
            match self.held.last_key_value() {
                // What is above a unit stands before it, so that nothing that is needed for a unit goes for its sake.
                Some((last, _)) if *last > unit => self.held.pop_last(),
                _ => return UnitVerdict::Early,
            };
        }
        self.held.insert(unit, Held { hashes, children: children as u32, done: 0 });
        UnitVerdict::Genuine
    }

    /// The unit at `place` and everything below it was checked.
    fn complete(&mut self, layout: &Layout, mut place: UnitPlace) {
        loop {
            let Some((parent, above, slot)) = layout.above(place) else {
                self.done = true;
                return;
            };
            let Some(held) = self.held.get_mut(&parent) else { return };
            held.done |= 1 << slot;
            if held.done.count_ones() < held.children {
                return;
            }
            self.held.remove(&parent);
            place = above;
        }
    }
}
