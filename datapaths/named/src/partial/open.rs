//! Begins a part of an object, or finds one.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use paceline_files::{Draft, Unfit, create_own, own, regular};
use paceline_icn::manifest::name_of;
use paceline_icn::{Manifest, Name, UNIT};

use super::bits::{BITS, Bits};
use super::{Form, Partial, Paths};
use crate::store::{StoreError, cannot, write_failed};

/// What the file of bits begins with: a mark, and the version of what follows; then the [`Form`], and zeros.
const MARK: [u8; 8] = *b"icnpart\x01";

/// How much of it says that the files are ours, of whatever version.
const OURS: usize = 7;

/// Bytes of an object at most: a manifest may say anything, and the bits of this many take 200 MB of memory (our choice).
const LARGEST: u64 = 2 << 40;

/// Where the manifest is in it.
const MANIFEST: u64 = 16;

/// For what it is opened.
#[derive(Clone, Copy, PartialEq, Eq)]
enum For {
    Reading,
    Writing,
}

impl Partial {
    /// Begins an object whose first unit was verified. A part of another one that was in the way is replaced.
    ///
    /// # Errors
    /// When the unit is not a manifest, what is in the way is not ours, the files cannot be written, or another process has them.
    pub fn create(paths: Paths, first: &[u8]) -> Result<Self, StoreError> {
        let manifest = Manifest::decode(first)
            .map_err(|error| StoreError::Source { path: paths.data.clone(), source: error.into() })?;
        let layout = manifest.layout();
        let failed = |path: &Path, error| write_failed(path, error);
        let bytes = paths.form.bytes(&layout);
        if bytes > LARGEST {
            return Err(StoreError::TooLarge { path: paths.data, needed: bytes, limit: LARGEST });
        }
        let (data, _) = ours(&paths)?;
        // A map never stands beside bytes of something else, nor bytes without a map, whenever a crash comes.
        if let Some(data) = &data {
            claim(data, &paths.data)?;
            data.set_len(0).and_then(|()| data.sync_data()).map_err(|error| failed(&paths.data, error))?;
        }
        let bits = Bits::new(layout.stored_units());
        let draft = Draft::regular(&paths.map)?;
        let map = draft.file().try_clone().map_err(|error| failed(&paths.map, error))?;
        // Zeros up to where the index units begin.
        for (bytes, offset) in [(&head(paths.form)[..], 0), (first, MANIFEST), (&[0], bits.end() - 1)] {
            map.write_all_at(bytes, offset).map_err(|error| failed(&paths.map, error))?;
        }
        draft.finish()?;
        let data = match data {
            Some(data) => data,
            None => match create_own(&paths.data) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    return Err(StoreError::InUse { path: paths.data });
                }
                created => created.map_err(|error| failed(&paths.data, error))?,
            },
        };
        claim(&data, &paths.data)?;
        data.set_len(bytes).map_err(|error| failed(&paths.data, error))?;
        let name = manifest.name();
        let (unsynced, unsynced_bytes) = (BTreeSet::new(), 0);
        let (data, map) = (Arc::new(data), Arc::new(map));
        let mut partial = Self { name, manifest, layout, paths, data, map, bits, unsynced, unsynced_bytes };
        partial.write(0, first)?;
        Ok(partial)
    }

    /// Finds what there is of this object, to go on with it. `None` where there is nothing of it that is of use: another object, another
    /// version's files, or a part that someone cut off.
    ///
    /// # Errors
    /// When the files cannot be read, or another process has them.
    pub fn open(paths: &Paths, name: &Name) -> Result<Option<Self>, StoreError> {
        Self::find(paths, name, For::Writing)
    }

    /// Finds what there is of this object, to look at it while others may write.
    pub(crate) fn view(paths: &Paths, name: &Name) -> Result<Option<Self>, StoreError> {
        Self::find(paths, name, For::Reading)
    }

    fn find(paths: &Paths, name: &Name, purpose: For) -> Result<Option<Self>, StoreError> {
        let open = |path: &Path| match regular(path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(cannot("opened", path, error)),
        };
        let found = if purpose == For::Writing { ours(paths)? } else { (open(&paths.data)?, open(&paths.map)?) };
        let (Some(data), Some(map)) = found else { return Ok(None) };
        if purpose == For::Writing {
            claim(&data, &paths.data)?;
        }
        let (mut start, mut first) = ([0; MANIFEST as usize], [0; UNIT]);
        if map.read_exact_at(&mut start, 0).is_err() || map.read_exact_at(&mut first, MANIFEST).is_err() {
            return Ok(None);
        }
        let Ok(manifest) = Manifest::decode(&first) else { return Ok(None) };
        if start != head(paths.form) || name_of(&first) != *name {
            return Ok(None);
        }
        let layout = manifest.layout();
        let bytes = paths.form.bytes(&layout);
        let length = |file: &File| file.metadata().map_or(0, |found| found.len());
        let end = BITS + layout.stored_units().div_ceil(64) * 8;
        if length(&data) != bytes || length(&map) < end {
            return Ok(None);
        }
        let Ok(bits) = Bits::read(&map, layout.stored_units()) else { return Ok(None) };
        let (unsynced, unsynced_bytes) = (BTreeSet::new(), 0);
        let paths = paths.clone();
        let (data, map) = (Arc::new(data), Arc::new(map));
        let mut partial = Self { name: *name, manifest, layout, paths, data, map, bits, unsynced, unsynced_bytes };
        // It is in the head as well, wherever a crash was.
        if purpose == For::Writing && !partial.has(0) {
            partial.write(0, &first)?;
        }
        Ok(Some(partial))
    }
}

fn head(form: Form) -> [u8; MANIFEST as usize] {
    let mut bytes = [0; MANIFEST as usize];
    bytes[..8].copy_from_slice(&MARK);
    bytes[8] = form as u8;
    bytes
}

/// The files of a part that is ours, as far as they are there: beside an output only with a map that says so.
fn ours(paths: &Paths) -> Result<(Option<File>, Option<File>), StoreError> {
    let open = |path: &Path| own(path).map_err(|error| cannot("opened", path, error));
    let (data, map) = (open(&paths.data)?, open(&paths.map)?);
    let foreign = |path: &Path| Err(cannot("opened", path, Unfit::NotOurs.into()));
    let mut mark = [0; OURS];
    match (&data, &map, paths.form) {
        (Some(_), None, Form::Content) => foreign(&paths.data),
        (_, Some(map), Form::Content) if map.read_exact_at(&mut mark, 0).is_err() || mark != MARK[..OURS] => {
            foreign(&paths.map)
        }
        _ => Ok((data, map)),
    }
}

/// Keeps other processes from it as long as it is open.
fn claim(file: &File, path: &Path) -> Result<(), StoreError> {
    match file.try_lock() {
        Err(fs::TryLockError::WouldBlock) => Err(StoreError::InUse { path: path.to_owned() }),
        // A file system without locks does without.
        _ => Ok(()),
    }
}
