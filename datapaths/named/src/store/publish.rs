//! Files and folders become objects of a store, in memory that does not depend on their size.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use paceline_files::Draft;
use paceline_icn::layout::FANOUT;
use paceline_icn::manifest::check_media_type;
use paceline_icn::{BadSource, Builder, Name, UNIT};
use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
use rustix::io::Errno;

use super::collection::{COLLECTION, Collection};
use super::error::{StoreError, cannot, write_failed};
use super::media::media_type_of;
use super::{CACHE, Links, Store, open_file};

/// Data units that are read and written at once: as many as stand in a row in the stored form.
const GROUP: usize = FANOUT as usize * UNIT;

/// Folders in folders that are followed (our choice: paths have at most 4096 bytes in Linux).
const MAX_DEPTH: usize = 64;

/// How far publishing is.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The file that is being read.
    pub file: &'a Path,
    /// Bytes read so far, of all files.
    pub done: u64,
    /// Bytes there are to read.
    pub total: u64,
}

/// What was published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// Its name.
    pub name: Name,
    /// Bytes of the object; of a folder's files together.
    pub length: u64,
    /// Units of the object in the stored form; of a folder, those of its list of files.
    pub stored_units: u64,
    /// What its bytes are.
    pub media_type: String,
    /// Files of a folder; a file has none.
    pub files: Option<u64>,
}

/// A file to be published.
struct Source {
    path: PathBuf,
    /// Within the folder.
    inner: String,
    length: u64,
}

impl Store {
    /// Publishes a file, or a folder: each of its files, and a [`Collection`] of them. `media_type` is that of a file; by the ending
    /// of its name if not given. A file of the same bytes and media type has the same name from any publisher, and is stored once.
    ///
    /// # Errors
    /// When something cannot be read, is neither file nor folder, changes meanwhile, or the store cannot be written. No object is
    /// ever half there; of a folder, files that were done before the error stay.
    pub fn publish(
        &self,
        source: &Path,
        media_type: Option<&str>,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Published, StoreError> {
        let found = fs::metadata(source).map_err(|error| cannot("read", source, error))?;
        if found.is_file() {
            let media_type = media_type.unwrap_or_else(|| media_type_of(source));
            let total = found.len();
            return self.publish_file(source, media_type, &mut |done| progress(Progress { file: source, done, total }));
        }
        if !found.is_dir() {
            return Err(StoreError::Odd { path: source.to_owned(), what: "is neither a file nor a folder" });
        }
        if media_type.is_some() {
            let what = "is a folder, whose media type is given; leave --media-type out";
            return Err(StoreError::Odd { path: source.to_owned(), what });
        }
        self.publish_folder(source, progress)
    }

    fn publish_file(
        &self,
        path: &Path,
        media_type: &str,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Published, StoreError> {
        let unreadable = |error| cannot("read", path, error);
        let opened = open_file(path, Links::Followed)?;
        let (mut file, found) = opened.ok_or_else(|| unreadable(io::ErrorKind::NotFound.into()))?;
        let published = self.put(path, found.len(), media_type, &mut file, progress)?;
        Ok(published)
    }

    fn publish_folder(&self, folder: &Path, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Published, StoreError> {
        let mut sources = Vec::new();
        self.walk(folder, "", MAX_DEPTH, &mut sources)?;
        if sources.is_empty() {
            return Err(StoreError::Odd { path: folder.to_owned(), what: "holds no file" });
        }
        let total: u64 = sources.iter().map(|source| source.length).sum();
        let (mut length, mut files) = (0, BTreeMap::new());
        for source in sources {
            let file = source.path.as_path();
            let published = self.publish_file(file, media_type_of(file), &mut |done| {
                progress(Progress { file, done: length + done, total });
            })?;
            length += published.length;
            files.insert(source.inner, published.name);
        }
        let collection = Collection::from(files);
        let json = collection.to_json();
        let list = self.put(folder, json.len() as u64, COLLECTION, &mut json.as_slice(), &mut |_| ())?;
        Ok(Published { length, files: Some(collection.len() as u64), ..list })
    }

    /// Collects the files below `folder` in the order of their paths.
    fn walk(&self, folder: &Path, inner: &str, depth: usize, sources: &mut Vec<Source>) -> Result<(), StoreError> {
        let odd = |path: &Path, what| Err(StoreError::Odd { path: path.to_owned(), what });
        if is_same(folder, self.folder()) {
            return odd(folder, "is the store itself, inside the folder");
        }
        let unreadable = |error| cannot("read", folder, error);
        let entries = fs::read_dir(folder).map_err(unreadable)?;
        let mut entries = entries.collect::<io::Result<Vec<_>>>().map_err(unreadable)?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            let Ok(name) = entry.file_name().into_string() else {
                return odd(&path, "has a name that is not UTF-8");
            };
            let inner = if inner.is_empty() { name } else { format!("{inner}/{name}") };
            let link = entry.file_type().map_err(|error| cannot("read", &path, error))?.is_symlink();
            let found = fs::metadata(&path).map_err(|error| cannot("read", &path, error))?;
            if found.is_file() {
                sources.push(Source { path, inner, length: found.len() });
            } else if !found.is_dir() {
                return odd(&path, "is neither a file nor a folder");
            } else if link {
                return odd(&path, "is a link to a folder");
            } else if depth == 0 {
                return odd(&path, "is inside too many folders");
            } else {
                self.walk(&path, &inner, depth - 1, sources)?;
            }
        }
        Ok(())
    }

    /// Stores `length` bytes that come from `path`.
    fn put(
        &self,
        path: &Path,
        length: u64,
        media_type: &str,
        from: &mut dyn Read,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Published, StoreError> {
        let refused = |source: BadSource| StoreError::Source { path: path.to_owned(), source };
        check_media_type(media_type).map_err(|error| refused(error.into()))?;
        if length > paceline_icn::manifest::MAX_LENGTH {
            return Err(refused(BadSource::Manifest(paceline_icn::BadManifest::Length(length))));
        }
        let mut builder = Builder::new(length, media_type);
        let layout = *builder.layout();
        let draft = Draft::within(self.folder())?;
        reserve(draft.file(), layout.stored_bytes(), self.folder())?;
        let write_at = |bytes: &[u8], offset: u64| {
            draft.file().write_all_at(bytes, offset).map_err(|error| write_failed(self.folder(), error))
        };
        let mut written = Ok(());
        let mut index = |unit: u64, bytes: &[u8; UNIT]| {
            if written.is_ok() {
                written = write_at(bytes, unit * UNIT as u64);
            }
        };
        let mut group = Vec::with_capacity(GROUP);
        for first in (0..layout.data_units()).step_by(FANOUT as usize) {
            let offset = first * UNIT as u64;
            group.clear();
            let wanted = (length - offset).min(GROUP as u64);
            let read =
                (&mut *from).take(wanted).read_to_end(&mut group).map_err(|error| cannot("read", path, error))? as u64;
            if read < wanted {
                return Err(refused(BadSource::Short { missing: length - offset - read, length }));
            }
            write_at(&group, layout.unit_of(first) * UNIT as u64)?;
            group.chunks(UNIT).for_each(|data| builder.push(data, &mut index));
            progress(offset + read);
        }
        // A file that grows meanwhile is still being written.
        if (&mut *from).take(1).read_to_end(&mut group).map_err(|error| cannot("read", path, error))? > 0 {
            return Err(StoreError::Changed { path: path.to_owned() });
        }
        let manifest = builder.finish(&mut index).map_err(refused)?;
        written?;
        let name = manifest.name();
        draft.place(&self.path_of(&name))?;
        Ok(Published {
            name,
            length,
            stored_units: layout.stored_units(),
            media_type: manifest.media_type,
            files: None,
        })
    }
}

/// Sees to it that there is room for this many bytes, where the file system can.
fn reserve(file: &File, bytes: u64, of: &Path) -> Result<(), StoreError> {
    let full = || StoreError::Full { path: of.to_owned() };
    // First: some file systems reserve all that there is before they refuse, and others would find the disk full meanwhile.
    let room = fstatvfs(file).map(|system| system.f_bavail * system.f_frsize);
    if room.is_ok_and(|room| room < bytes) {
        return Err(full());
    }
    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => Err(match error {
            Errno::FBIG => cannot("written", of, error.into()),
            _ => full(),
        }),
        // It is not for every file system.
        _ => Ok(()),
    }
}

/// Whether both are the same folder.
fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(path).ok();
    let (one, other) = (real(one), real(other));
    one.is_some() && (one == other || one == other.map(|store| store.join(CACHE)))
}
