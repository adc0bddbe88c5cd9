//! Files are opened as what they must be: a pipe without a writer would hold up the one that opens it, and everyone who waits for that one.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use paceline_files::{Unfit, followed, regular};

use super::error::{StoreError, cannot};

/// What to do about a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Links {
    /// It is followed: a user named it.
    Followed,
    /// It is refused: another program made what is there.
    Refused,
}

/// A regular file, for reading. `None` where there is nothing. Waits for no one.
///
/// # Errors
/// When it is something else, or cannot be read.
pub(crate) fn open_file(path: &Path, links: Links) -> Result<Option<(File, Metadata)>, StoreError> {
    let opened = match links {
        Links::Followed => followed(path),
        Links::Refused => regular(path),
    };
    match opened.and_then(|file| Ok((file.metadata()?, file))) {
        Ok((found, file)) => Ok(Some((file, found))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if Unfit::of(&error).is_some() => Err(StoreError::NotAFile { path: path.to_owned() }),
        Err(error) => Err(cannot("read", path, error)),
    }
}

/// Whether `file` still stands at `path`: it was not removed, and nothing else took its name.
pub(crate) fn is_in_place(file: &File, path: &Path) -> bool {
    let identity = |found: Metadata| (found.dev(), found.ino());
    let there = path.symlink_metadata().map(identity);
    file.metadata().map(identity).is_ok_and(|open| there.is_ok_and(|there| open == there))
}
