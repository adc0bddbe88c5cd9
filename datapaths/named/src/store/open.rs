//! Files are opened as what they must be: a pipe without a writer would hold up the one that opens it, and everyone who waits for that one.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::OFlag;

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
    let mut flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    flags.set(OFlag::O_NOFOLLOW, links == Links::Refused);
    let unreadable = |error| cannot("read", path, error);
    let file = match File::options().read(true).custom_flags(flags.bits()).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        // O_NOFOLLOW at a link; ENXIO: a socket.
        Err(error) if matches!(error.raw_os_error(), Some(nix::libc::ELOOP | nix::libc::ENXIO)) => {
            return Err(StoreError::NotAFile { path: path.to_owned() });
        }
        Err(error) => return Err(unreadable(error)),
    };
    let found = file.metadata().map_err(unreadable)?;
    if found.is_file() { Ok(Some((file, found))) } else { Err(StoreError::NotAFile { path: path.to_owned() }) }
}

/// Whether `file` still stands at `path`: it was not removed, and nothing else took its name.
pub(crate) fn is_in_place(file: &File, path: &Path) -> bool {
    let identity = |found: Metadata| (found.dev(), found.ino());
    let there = path.symlink_metadata().map(identity);
    file.metadata().map(identity).is_ok_and(|open| there.is_ok_and(|there| open == there))
}
