//! Files that are whole, and on the disk, or not there.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::statvfs::fstatvfs;
use tempfile::NamedTempFile;

use super::error::{StoreError, cannot, write_failed};

/// Names of drafts.
const PREFIX: &str = ".draft-";

/// A draft of this age that no process holds a lock on was left by a process that was killed (our choice: far longer than it takes from
/// making the file to locking it).
const ABANDONED: Duration = Duration::from_secs(60);

/// A file in the making, beside its place. It goes with its process, or with the next [`sweep`].
#[derive(Debug)]
pub(crate) struct Draft {
    file: NamedTempFile,
}

impl Draft {
    /// In this folder.
    pub(crate) fn create(folder: &Path) -> Result<Self, StoreError> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX).permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644));
        let file = builder.tempfile_in(folder).map_err(|error| write_failed(folder, error))?;
        // Where a file system has no locks, drafts are only swept later than they should.
        let _ = file.as_file().try_lock();
        Ok(Self { file })
    }

    /// Sees to it that there is room for so many bytes, where the file system can.
    pub(crate) fn reserve(&self, bytes: u64, of: &Path) -> Result<(), StoreError> {
        let full = || StoreError::Full { path: of.to_owned() };
        let Ok(length) = i64::try_from(bytes) else { return Err(full()) };
        // First: some file systems reserve all that there is before they refuse, and others would find the disk full meanwhile.
        let room = fstatvfs(self.file.as_file()).map(|system| system.blocks_available() * system.fragment_size());
        if room.is_ok_and(|room| room < bytes) {
            return Err(full());
        }
        match fallocate(self.file.as_file(), FallocateFlags::empty(), 0, length) {
            Err(error @ (Errno::ENOSPC | Errno::EDQUOT | Errno::EFBIG)) => Err(match error {
                Errno::EFBIG => cannot("written", of, error.into()),
                _ => full(),
            }),
            // It is not for every file system.
            _ => Ok(()),
        }
    }

    pub(crate) fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), StoreError> {
        self.file.as_file().write_all_at(bytes, offset).map_err(|error| write_failed(self.file.path(), error))
    }

    /// Puts it on the disk and in its place.
    pub(crate) fn place(self, path: &Path) -> Result<(), StoreError> {
        let failed = |error| write_failed(path, error);
        self.file.as_file().sync_all().map_err(failed)?;
        self.file.persist(path).map_err(|error| failed(error.error))?;
        sync_folder_of(path)
    }
}

/// The folder that a path is in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}

/// Puts the names of a path's folder on the disk.
pub(crate) fn sync_folder_of(path: &Path) -> Result<(), StoreError> {
    File::open(folder_of(path)).and_then(|folder| folder.sync_all()).map_err(|error| write_failed(path, error))
}

/// Removes drafts of processes that ended before they were done. What cannot be removed stays.
pub(crate) fn sweep(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let old = || {
            let modified = entry.metadata().and_then(|found| found.modified()).ok()?;
            modified.elapsed().ok().filter(|age| *age > ABANDONED)
        };
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) || old().is_none() {
            continue;
        }
        let Ok(file) = File::open(entry.path()) else { continue };
        if file.try_lock().is_ok() {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drafts_go_with_their_process_and_those_of_killed_ones_later() {
        let folder = tempfile::tempdir().expect("a folder");
        let count = || fs::read_dir(folder.path()).map(Iterator::count).unwrap_or_default();
        let draft = Draft::create(folder.path()).expect("a draft");
        draft.write_at(b"abc", 2).expect("room");
        assert_eq!(count(), 1);
        // Held, and young: it stays.
        let long_ago = std::time::SystemTime::now() - 2 * ABANDONED;
        draft.file.as_file().set_modified(long_ago).expect("ours");
        sweep(folder.path());
        assert_eq!(count(), 1);
        drop(draft);
        assert_eq!(count(), 0);
        let left = folder.path().join(".draft-of-one-that-was-killed");
        fs::write(&left, b"half").expect("room");
        sweep(folder.path());
        assert!(left.exists());
        File::options().write(true).open(&left).and_then(|file| file.set_modified(long_ago)).expect("ours");
        sweep(folder.path());
        assert!(!left.exists());
        let placed = folder.path().join("placed");
        let draft = Draft::create(folder.path()).expect("a draft");
        draft.write_at(b"abc", 0).expect("room");
        draft.place(&placed).expect("a folder");
        assert_eq!(fs::read(placed).expect("placed"), b"abc");
        assert_eq!(count(), 1);
    }
}
