//! What a store holds.

use std::fs;

use paceline_icn::{Manifest, Name, SignedRecord};

use super::error::{StoreError, cannot};
use super::stored::Head;
use super::{CACHE, Store};
use crate::partial::{Partial, Paths};

/// Something that a store holds.
#[derive(Clone, Debug)]
pub struct Stat {
    /// Its name.
    pub name: Name,
    /// Units that are there.
    pub held_units: u64,
    /// Units of the whole.
    pub stored_units: u64,
    /// Whether a router keeps it because it was asked for, and may drop it.
    pub cached: bool,
    /// What it is.
    pub what: What,
}

/// What something is.
#[derive(Clone, Debug)]
pub enum What {
    /// An object.
    Object {
        /// Its bytes.
        length: u64,
        /// Levels of its tree.
        height: u32,
        /// What its bytes are.
        media_type: String,
    },
    /// The record of a signed name.
    Record(SignedRecord),
}

impl Stat {
    /// Whether all units are there.
    pub const fn is_whole(&self) -> bool {
        self.held_units == self.stored_units
    }
}

impl From<&Manifest> for What {
    fn from(manifest: &Manifest) -> Self {
        let (length, height) = (manifest.length, manifest.layout().height());
        Self::Object { length, height, media_type: manifest.media_type.clone() }
    }
}

impl Store {
    /// What the store has of this name, published or in its cache.
    ///
    /// # Errors
    /// When it has nothing, or what it has is damaged.
    pub fn stat(&self, name: &Name) -> Result<Stat, StoreError> {
        if let Some(stored) = self.object(name)? {
            let units = stored.stored_units();
            let what = match stored.head() {
                Head::Object(manifest, _) => manifest.into(),
                Head::Record(record) => What::Record(record.clone()),
            };
            return Ok(Stat { name: *name, held_units: units, stored_units: units, cached: false, what });
        }
        let missing = || StoreError::Missing { store: self.folder().to_owned(), name: *name };
        let partial = self.cached(name)?.ok_or_else(missing)?;
        let (held_units, stored_units) = (partial.held_units(), partial.layout().stored_units());
        Ok(Stat { name: *name, held_units, stored_units, cached: true, what: partial.manifest().into() })
    }

    /// Names of everything that it has, published first, each once, in order.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn names(&self) -> Result<Vec<Name>, StoreError> {
        let unreadable = |error| cannot("read", self.folder(), error);
        let mut names = Vec::new();
        for entry in fs::read_dir(self.folder()).map_err(unreadable)? {
            names.extend(entry.map_err(unreadable)?.file_name().to_str().and_then(Self::is_ours));
        }
        names.sort();
        let published = names.len();
        // There may be no cache.
        for entry in fs::read_dir(self.folder().join(CACHE)).into_iter().flatten().flatten() {
            let name = entry.file_name().to_str().and_then(Self::is_ours);
            names.extend(name.filter(|name| names[..published].binary_search(name).is_err()));
        }
        names[published..].sort();
        Ok(names)
    }

    /// What the cache has of this name, for reading.
    pub(super) fn cached(&self, name: &Name) -> Result<Option<Partial>, StoreError> {
        Partial::view(&Paths::in_cache(&self.folder().join(CACHE), name), name)
    }
}
