//! What can go wrong with a store.

use std::io;
use std::path::{Path, PathBuf};

use paceline_files::{OutputError, Unfit, is_full};
use paceline_icn::{BadRecord, BadSource, Name};

/// A store, or a file that is to go into one, is not as it must be.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system refused something.
    #[error("{}: cannot be {action} ({source}){}", path.display(), advice(source))]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What was tried, as a participle.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The disk has no room left. Nothing half-written stays.
    #[error("{}: the disk is full; nothing was kept; make room, or give a folder on another disk", path.display())]
    Full {
        /// What was to be written.
        path: PathBuf,
    },
    /// A file where a store should be.
    #[error("{}: is not a folder, and a store is one; give a folder", path.display())]
    NotAFolder {
        /// The file.
        path: PathBuf,
    },
    /// A pipe, a device, a folder or a link where a file should be.
    #[error("{}: is not a regular file; remove it, and publish or fetch the object again", path.display())]
    NotAFile {
        /// What is there.
        path: PathBuf,
    },
    /// There is no store.
    #[error("{}: there is no such store; paceline icn publish makes one", path.display())]
    NoStore {
        /// Where it should be.
        path: PathBuf,
    },
    /// The store has no such object.
    #[error("{}: has no {name}; paceline icn stat --store {} lists what it has", store.display(), store.display())]
    Missing {
        /// The store.
        store: PathBuf,
        /// What it does not have.
        name: Name,
    },
    /// Neither a file nor a folder, or a link to a folder, or nothing at all.
    #[error("{}: {what}; only files and folders of files can be published", path.display())]
    Odd {
        /// What it is.
        path: PathBuf,
        /// Why it cannot be published.
        what: &'static str,
    },
    /// The bytes are not as long as they were, or cannot be an object.
    #[error("{}: {source}", path.display())]
    Source {
        /// The file.
        path: PathBuf,
        /// Why.
        source: BadSource,
    },
    /// A file of the store is not what its name says.
    #[error("{}: is damaged: unit {unit} of {units} {why}; remove the file and publish it again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The first unit that is not as it should be.
        unit: u64,
        /// How many there should be; 0 where that is not known.
        units: u64,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The file was changed while it was served.
    #[error("{}: was changed while it was read; publish it again", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// A record cannot be made.
    #[error(transparent)]
    Record(BadRecord),
    /// There is a record of this or a later version.
    #[error("version {version} of '{label}': the store has version {known}; give --version {} or more", known.saturating_add(1))]
    Version {
        /// What it is a record of.
        label: String,
        /// The version that was to be stored.
        version: u64,
        /// The one that is there.
        known: u64,
    },
    /// A key file without a key.
    #[error("{}: is not an Ed25519 key in PKCS#8; paceline icn publish --new-key makes one", path.display())]
    Key {
        /// The file.
        path: PathBuf,
    },
    /// Another process has it.
    #[error("{}: is in use by another process; wait for it, or use another folder", path.display())]
    InUse {
        /// The file or folder.
        path: PathBuf,
    },
    /// An object is larger than the cache, or than what can be gone on with.
    #[error("{}: {needed} bytes are more than the {limit} bytes that there may be", path.display())]
    TooLarge {
        /// Where it was to go.
        path: PathBuf,
        /// Bytes that it would need.
        needed: u64,
        /// Bytes that there may be.
        limit: u64,
    },
    /// A malformed collection.
    #[error("the collection cannot be read ({0}); publish the folder again")]
    Collection(String),
}

impl From<OutputError> for StoreError {
    fn from(OutputError { path, source }: OutputError) -> Self {
        write_failed(&path, source)
    }
}

fn advice(source: &io::Error) -> &'static str {
    // What is not the system's says what to do itself, but for what is in the way.
    if let Some(own) = source.get_ref() {
        return if own.is::<Unfit>() { "; move it away, or give another" } else { "" };
    }
    match source.kind() {
        io::ErrorKind::NotFound => "; check the path",
        io::ErrorKind::PermissionDenied => "; it takes the right to read and write there",
        io::ErrorKind::ReadOnlyFilesystem => "; give a folder that can be written to",
        _ => "",
    }
}

/// What the system said of this path.
pub(crate) fn cannot(action: &'static str, path: &Path, source: io::Error) -> StoreError {
    StoreError::File { path: path.to_owned(), action, source }
}

/// What it said when this path was to be written.
pub(crate) fn write_failed(path: &Path, source: io::Error) -> StoreError {
    if is_full(&source) { StoreError::Full { path: path.to_owned() } } else { cannot("written", path, source) }
}
