//! Files in the making that outlive their process: what has come so far is gone on with after a restart.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::TempPath;

use super::folder_of;

/// A file in the making. It has a place of its own, and is there after a crash; under its final name it appears by
/// [`Kept::place`], and never otherwise. While it is held no other process takes it.
#[derive(Debug)]
pub struct Kept {
    path: PathBuf,
    file: File,
}

/// A kept file could not be put in its place.
#[derive(Debug)]
pub struct Unplaced {
    /// The file, as it was.
    pub kept: Kept,
    /// Why.
    pub source: io::Error,
}

impl Kept {
    /// Begins it, or goes on with what is there.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] while someone else holds it; else the system's.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = loop {
            let file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::WouldBlock.into()),
                // Not every file system has locks.
                Ok(()) | Err(TryLockError::Error(_)) => {}
            }
            // Tidied away before it was locked: once more.
            if path.exists() {
                break file;
            }
        };
        if !file.metadata()?.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(Self { path: path.to_owned(), file })
    }

    /// What has come so far. Every write into it counts from the beginning.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Bytes that are there.
    ///
    /// # Errors
    /// The system's.
    pub fn held(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Where it is until it is placed.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Puts it on the disk and under this name of the same file system, which must be free unless it `replaces`.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] when there is something of this name, or the system's. Then it is still here.
    pub fn place(self, to: &Path, replaces: bool) -> Result<(), Unplaced> {
        let place = || {
            self.file.sync_all()?;
            let from = TempPath::try_from_path(&self.path)?;
            let placed = if replaces { from.persist(to) } else { from.persist_noclobber(to) };
            placed.map_err(|mut failed| {
                failed.path.disable_cleanup(true);
                failed.error
            })
        };
        match place() {
            Ok(()) => {}
            Err(source) => return Err(Unplaced { kept: self, source }),
        }
        // It is there; only after a crash it might not be.
        let _ = File::open(folder_of(to)).and_then(|folder| folder.sync_all());
        Ok(())
    }

    /// Removes it.
    pub fn remove(self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Makes a folder for files in the making, which only their owner may look into, and removes those that are older than `oldest`, and
/// the oldest ones beyond `most`. Those that someone holds stay. Says how many are left.
///
/// # Errors
/// The system's, when there can be no such folder.
pub fn tidy(folder: &Path, most: usize, oldest: Duration) -> io::Result<usize> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)?;
    let mut found: Vec<(SystemTime, PathBuf)> = fs::read_dir(folder)?
        .flatten()
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    found.sort();
    let mut left = found.len();
    for (modified, path) in found {
        let old = modified.elapsed().is_ok_and(|age| age > oldest);
        let free = || File::open(&path).is_ok_and(|file| file.try_lock().is_ok());
        if (old || left > most) && free() && fs::remove_file(&path).is_ok() {
            left -= 1;
        }
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn what_has_come_is_gone_on_with_and_placed_once() {
        let folder = tempfile::tempdir().unwrap();
        let (path, place) = (folder.path().join("part"), folder.path().join("whole"));
        let kept = Kept::open(&path).unwrap();
        assert_eq!(Kept::open(&path).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        kept.file().write_all(b"abc").unwrap();
        drop(kept);
        let kept = Kept::open(&path).unwrap();
        assert_eq!(kept.held().unwrap(), 3);
        fs::write(&place, "other").unwrap();
        let unplaced = kept.place(&place, false).unwrap_err();
        assert_eq!(unplaced.source.kind(), io::ErrorKind::AlreadyExists);
        assert!(path.exists());
        unplaced.kept.place(&place, true).unwrap();
        assert_eq!(fs::read(&place).unwrap(), b"abc");
        assert!(!path.exists());
    }

    #[test]
    fn the_oldest_go_first_but_those_that_are_held() {
        let folder = tempfile::tempdir().unwrap();
        let parts = folder.path().join("parts");
        let day = Duration::from_hours(24);
        assert_eq!(tidy(&parts, 2, day).unwrap(), 0);
        let ages = [5, 4, 3, 2, 0];
        let held: Vec<Kept> = ages
            .iter()
            .map(|age| {
                let kept = Kept::open(&parts.join(age.to_string())).unwrap();
                kept.file().set_modified(SystemTime::now() - day / 4 * *age).unwrap();
                kept
            })
            .collect();
        assert_eq!(tidy(&parts, 2, day).unwrap(), 5);
        let mut held = held.into_iter();
        let oldest = held.next().unwrap();
        held.for_each(drop);
        // The one of 5 is held, those of 4 and 3 are too many or too old.
        assert_eq!(tidy(&parts, 3, day).unwrap(), 3);
        assert!(oldest.path().exists() && parts.join("2").exists() && !parts.join("3").exists());
        oldest.remove();
        assert_eq!(tidy(&parts, 2, day).unwrap(), 2);
    }
}
