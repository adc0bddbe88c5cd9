//! Files that are for their owner alone: keys, and whatever else gives its reader a right.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Bits of a file's mode that let others than its owner do something with it: what ssh refuses for a private key
/// (`sshkey_perm_ok` of OpenSSH).
const OTHERS: u32 = 0o077;

/// Others may read or write a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("others may read or write it (mode {mode:04o}); run: chmod 600 {}", path.display())]
pub struct Shared {
    /// Its name.
    pub path: PathBuf,
    /// Its mode.
    pub mode: u32,
}

/// Whether others than its owner may do something with the file or folder that this is about.
pub fn is_shared(about: &Metadata) -> bool {
    about.mode() & OTHERS != 0
}

/// Fails where others than its owner may do something with this file of that name.
///
/// # Errors
/// [`Shared`] inside an [`io::ErrorKind::PermissionDenied`], or the system's.
pub fn check(file: &File, path: &Path) -> io::Result<()> {
    let about = file.metadata()?;
    if !is_shared(&about) {
        return Ok(());
    }
    let mode = about.mode() & 0o7777;
    Err(io::Error::new(io::ErrorKind::PermissionDenied, Shared { path: path.to_owned(), mode }))
}

/// Writes a new file that only its owner may read; nothing is left of one that cannot be written.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`] where something has the name; else the system's.
pub fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).inspect_err(|_| _ = fs::remove_file(path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_others_may_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        create(&path, b"secret").unwrap();
        assert_eq!(create(&path, b"other").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        let file = File::open(&path).unwrap();
        check(&file, &path).unwrap();
        file.set_permissions(fs::Permissions::from_mode(0o640)).unwrap();
        let said = check(&file, Path::new("key")).unwrap_err().to_string();
        assert_eq!(said, "others may read or write it (mode 0640); run: chmod 600 key");
    }
}
