//! A folder of objects in their stored form, one file each, named after it.
//!
//! A file appears under its name when it is whole and on the disk, and is never changed after that: a server or
//! a reader of it needs no lock. Files are read at positions into buffers that the reader keeps. A map of a file would save a
//! copy, but a file that shrinks while it is mapped ends the process, and mapping one takes unsafe code.

mod check;
mod collection;
mod error;
mod keys;
mod list;
mod media;
mod open;
mod publish;
mod stored;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ed25519_dalek::SigningKey;
use paceline_files::Draft;
use paceline_icn::name::NameKind;
use paceline_icn::{Name, SignedRecord};

pub use check::Checked;
pub use collection::{COLLECTION, Collection};
pub use error::StoreError;
pub(crate) use error::{cannot, write_failed};
pub use keys::{create_key, read_key};
pub use list::{Stat, What};
pub use media::media_type_of;
pub(crate) use open::{Links, is_in_place, open_file};
pub use publish::{Progress, Published};
pub(crate) use stored::read_vectored;
pub use stored::{ReadError, Stored};

/// The folder of a store where a router keeps what it was asked for: see [`crate::Cache`].
pub const CACHE: &str = "cache";

/// A store.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// The store in this folder.
    ///
    /// # Errors
    /// When there is no such folder, or it is not a folder.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        match fs::metadata(folder) {
            Ok(found) if found.is_dir() => Ok(Self { folder: folder.to_owned() }),
            Ok(_) => Err(StoreError::NotAFolder { path: folder.to_owned() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(StoreError::NoStore { path: folder.to_owned() })
            }
            Err(error) => Err(cannot("opened", folder, error)),
        }
    }

    /// The store in this folder, which is made where there is none.
    ///
    /// # Errors
    /// When it is not a folder, or cannot be made.
    pub fn create(folder: &Path) -> Result<Self, StoreError> {
        if !folder.exists() {
            fs::create_dir_all(folder).map_err(|error| write_failed(folder, error))?;
        }
        Self::open(folder)
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file that holds what this names, or would.
    pub fn path_of(&self, name: &Name) -> PathBuf {
        self.folder.join(name.to_string())
    }

    /// An object, or the record of a signed name. `None` where the store does not have it.
    ///
    /// # Errors
    /// When the file cannot be read, or is not what its name says: its length and first unit are checked.
    pub fn object(&self, name: &Name) -> Result<Option<Stored>, StoreError> {
        Stored::open(&self.path_of(name), name)
    }

    /// The record of a signed name, whether or not it has expired. `None` where the store does not have it.
    ///
    /// # Errors
    /// As [`Store::object`].
    pub fn record(&self, name: &Name) -> Result<Option<SignedRecord>, StoreError> {
        Ok(self.object(name)?.and_then(|stored| stored.record().cloned()))
    }

    /// Signs a record that says that `target` is what this key's owner calls `label`, and stores it under its name.
    /// `expires` is in seconds of Unix time.
    ///
    /// # Errors
    /// When the record cannot be, the store has one of this or a later version, or it cannot be written.
    pub fn sign(
        &self,
        key: &SigningKey,
        label: &str,
        version: u64,
        expires: u64,
        target: Name,
    ) -> Result<Name, StoreError> {
        let record = SignedRecord::sign(key, label, version, expires, target).map_err(StoreError::Record)?;
        let name = record.name();
        if let Some(known) = self.record(&name)?
            && known.version >= version
        {
            return Err(StoreError::Version { label: label.to_owned(), version, known: known.version });
        }
        self.keep(&record)?;
        Ok(name)
    }

    /// Stores a record that came from elsewhere and was verified. One that the store has is replaced.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep(&self, record: &SignedRecord) -> Result<(), StoreError> {
        let mut draft = Draft::within(&self.folder)?;
        draft.write_all(&record.encode()).map_err(|error| write_failed(&self.folder, error))?;
        Ok(draft.place(&self.path_of(&record.name()))?)
    }

    /// Whether this could be the name of an object or record, for the names of files.
    pub(crate) fn is_ours(file: &str) -> Option<Name> {
        let name: Name = file.parse().ok()?;
        (name.to_string() == file && matches!(name.kind(), NameKind::Object | NameKind::Signed)).then_some(name)
    }
}
