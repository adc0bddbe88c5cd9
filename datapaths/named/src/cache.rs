//! What a router keeps of what was asked for: parts of objects in a folder, of a bounded total size. What was not used for longest
//! makes room. Which objects are worth it is not decided here.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;

use paceline_icn::Name;
use paceline_icn::manifest::name_of;

use crate::partial::{Partial, Paths};
use crate::store::{CACHE, Store, StoreError, cannot, write_failed};

/// Objects whose files are open at once, two each (our choice: half of the 1024 files that a process usually may have open).
const OPEN: usize = 256;

/// Objects in a cache at most, so that its index has a bound too: 15 MB (our choice).
const OBJECTS: usize = 1 << 16;

/// Bytes that the manifest and the bits of a small object take on the disk: what [`Cache::bytes`] counts for each besides its units.
const MAP_BYTES: u64 = 8192;

/// A cache. One process has it at a time.
#[derive(Debug)]
pub struct Cache {
    folder: PathBuf,
    limit: u64,
    bytes: u64,
    objects: BTreeMap<Name, Entry>,
    /// By when they were used last.
    order: BTreeMap<u64, Name>,
    used: u64,
    open: BTreeMap<Name, Partial>,
    evicted: u64,
    /// Keeps others out.
    _lock: File,
}

#[derive(Debug)]
struct Entry {
    bytes: u64,
    used: u64,
}

impl Cache {
    /// The cache of a store, in its folder [`CACHE`], with at most `limit` bytes; what it has from earlier and is too much goes.
    ///
    /// # Errors
    /// When the folder cannot be made or read, or another process has it.
    pub fn open(store: &Store, limit: u64) -> Result<Self, StoreError> {
        let folder = store.folder().join(CACHE);
        fs::create_dir_all(&folder).map_err(|error| write_failed(&folder, error))?;
        let path = folder.join("lock");
        let lock = File::options().write(true).create(true).truncate(false).open(&path);
        let lock = lock.map_err(|error| write_failed(&path, error))?;
        if matches!(lock.try_lock(), Err(fs::TryLockError::WouldBlock)) {
            return Err(StoreError::InUse { path: folder });
        }
        let mut cache = Self {
            folder,
            limit,
            bytes: 0,
            objects: BTreeMap::new(),
            order: BTreeMap::new(),
            used: 0,
            open: BTreeMap::new(),
            evicted: 0,
            _lock: lock,
        };
        cache.scan()?;
        cache.make_room(0, None);
        Ok(cache)
    }

    /// Finds what there is from earlier, in the order in which it was written last.
    fn scan(&mut self) -> Result<(), StoreError> {
        let entries = fs::read_dir(&self.folder).map_err(|error| cannot("read", &self.folder, error))?;
        let mut found = Vec::new();
        for entry in entries.flatten() {
            let Some(name) = entry.file_name().to_str().and_then(Store::is_ours) else { continue };
            let paths = Paths::in_cache(&self.folder, &name);
            match Partial::view(&paths, &name) {
                Ok(Some(partial)) => {
                    let written = fs::metadata(&paths.map).and_then(|map| map.modified()).ok();
                    found.push((written, name, bytes_of(&partial)));
                }
                // It is of no use: a crash before it was begun, or someone's mistake.
                _ => remove(&paths),
            }
        }
        found.sort();
        for (_, name, bytes) in found {
            self.objects.insert(name, Entry { bytes, used: 0 });
            self.bytes += bytes;
            self.touch(&name);
        }
        Ok(())
    }

    /// Bytes that it has.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes that it may have.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Objects that it has.
    pub fn objects(&self) -> usize {
        self.objects.len()
    }

    /// Objects that made room for others.
    pub const fn evicted(&self) -> u64 {
        self.evicted
    }

    /// What there is of this object, which counts as a use of it. `None` where there is nothing, or it cannot be read now.
    pub fn find(&mut self, name: &Name) -> Option<&Partial> {
        self.writable(name).map(|partial| &*partial)
    }

    fn writable(&mut self, name: &Name) -> Option<&mut Partial> {
        if !self.objects.contains_key(name) {
            return None;
        }
        self.touch(name);
        if !self.open.contains_key(name) {
            self.close_one();
            match Partial::open(&Paths::in_cache(&self.folder, name), name) {
                Ok(Some(partial)) => _ = self.open.insert(*name, partial),
                // It is of no use.
                Ok(None) => {
                    self.remove(name);
                    return None;
                }
                // It may be of use later: no handle was left.
                Err(_) => return None,
            }
        }
        self.open.get_mut(name)
    }

    /// Begins an object whose first unit was verified. One that is there stays.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`] where all of the cache is too small for it, or when it cannot be written.
    pub fn admit(&mut self, first: &[u8]) -> Result<&Partial, StoreError> {
        let name = name_of(first);
        if self.writable(&name).is_none() {
            self.close_one();
            let partial = match Partial::create(Paths::in_cache(&self.folder, &name), first) {
                // Others' bytes may fill the disk before this cache is full.
                Err(StoreError::Full { .. }) if self.evict_one(None) => {
                    Partial::create(Paths::in_cache(&self.folder, &name), first)
                }
                result => result,
            };
            let partial = partial.inspect_err(|_| remove(&Paths::in_cache(&self.folder, &name)))?;
            let needed = partial.layout().stored_bytes().saturating_add(MAP_BYTES);
            if needed > self.limit {
                drop(partial);
                remove(&Paths::in_cache(&self.folder, &name));
                return Err(StoreError::TooLarge { path: self.folder.clone(), needed, limit: self.limit });
            }
            let bytes = bytes_of(&partial);
            self.objects.insert(name, Entry { bytes, used: 0 });
            self.bytes += bytes;
            self.touch(&name);
            self.open.insert(name, partial);
            self.make_room(0, Some(&name));
        }
        self.open.get(&name).ok_or(StoreError::Missing { store: self.folder.clone(), name })
    }

    /// Takes a unit that was verified, of an object that was admitted. Others make room for it.
    ///
    /// # Errors
    /// [`StoreError::Missing`] where the object is not there (any more): admit it again. [`StoreError::Full`] where the disk is full and
    /// there is nothing left to evict, or another error of writing.
    pub fn write(&mut self, name: &Name, unit: u64, bytes: &[u8]) -> Result<(), StoreError> {
        if self.find(name).is_some_and(|partial| partial.has(unit)) {
            return Ok(());
        }
        self.make_room(bytes.len() as u64, Some(name));
        loop {
            let missing = StoreError::Missing { store: self.folder.clone(), name: *name };
            match self.writable(name).ok_or(missing)?.write(unit, bytes) {
                Err(StoreError::Full { .. }) if self.evict_one(Some(name)) => {}
                Err(error) => return Err(error),
                Ok(()) => break,
            }
        }
        self.bytes += bytes.len() as u64;
        if let Some(entry) = self.objects.get_mut(name) {
            entry.bytes += bytes.len() as u64;
        }
        Ok(())
    }

    /// What has to be done so that what is there now is there after a crash; by another thread, since it waits for the disk.
    pub fn pending(&mut self) -> Vec<crate::partial::Sync> {
        self.open.values_mut().filter_map(Partial::pending).collect()
    }

    /// Lets go of objects whose files were removed from its folder, so that they take no place on the disk for ever.
    pub fn sweep(&mut self) {
        let gone = self.open.iter().filter(|(_, partial)| !partial.is_in_place()).map(|(name, _)| *name);
        let gone: Vec<Name> = gone.collect();
        for name in gone {
            self.remove(&name);
        }
    }

    /// Drops an object.
    pub fn remove(&mut self, name: &Name) {
        if let Some(entry) = self.objects.remove(name) {
            self.bytes -= entry.bytes;
            self.order.remove(&entry.used);
        }
        let paths = Paths::in_cache(&self.folder, name);
        // First, so that closing it writes nothing any more.
        remove(&paths);
        self.open.remove(name);
    }

    fn touch(&mut self, name: &Name) {
        let Some(entry) = self.objects.get_mut(name) else { return };
        self.order.remove(&entry.used);
        self.used += 1;
        entry.used = self.used;
        self.order.insert(self.used, *name);
    }

    fn make_room(&mut self, bytes: u64, keep: Option<&Name>) {
        while self.bytes.saturating_add(bytes) > self.limit || self.objects.len() > OBJECTS {
            if !self.evict_one(keep) {
                return;
            }
        }
    }

    /// Drops what was not used for longest, but not `keep`; false where there is nothing to drop.
    fn evict_one(&mut self, keep: Option<&Name>) -> bool {
        let Some(name) = self.order.values().find(|name| Some(*name) != keep).copied() else { return false };
        self.remove(&name);
        self.evicted += 1;
        true
    }

    /// Closes the files of what was not used for longest, where too many are open.
    fn close_one(&mut self) {
        if self.open.len() < OPEN {
            return;
        }
        let oldest = self.open.keys().min_by_key(|name| self.objects.get(name).map_or(0, |entry| entry.used)).copied();
        if let Some(oldest) = oldest {
            self.open.remove(&oldest);
        }
    }
}

/// Bytes that it takes: all units are counted as long as whole ones.
fn bytes_of(partial: &Partial) -> u64 {
    let units = partial.held_units() * paceline_icn::UNIT as u64;
    units.min(partial.layout().stored_bytes()) + MAP_BYTES
}

/// Removes the files: the map first, so that no map is left without its bytes. What stays is found by the next scan.
fn remove(paths: &Paths) {
    let _ = fs::remove_file(&paths.map);
    let _ = fs::remove_file(&paths.data);
}
