//! Where programs work when nothing of it is to be kept: a folder that is gone with the race, or with the next one.
//!
//! A race that is killed removes nothing. So each holds a lock on a file of its folder, which the kernel gives back however the race
//! ends, and a new race removes the folders of those that hold theirs no more. What is kept has no such file.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// How names of these folders begin.
const PREFIX: &str = "paceline-programs-";
/// The file, once its lock is held.
const LOCK: &str = "lock";

/// The folder of a race.
#[derive(Debug)]
pub(super) struct Temporary {
    folder: TempDir,
    _lock: File,
}

impl Temporary {
    /// One in this folder, from which those of races that were killed are removed.
    pub(super) fn new(within: &Path) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        remove_left(within);
        let folder = TempDir::with_prefix_in(PREFIX, within)?;
        let new = folder.path().join("lock.new");
        let lock = File::create_new(&new)?;
        lock.try_lock()?;
        // Not before it is held: another race would remove the folder.
        fs::rename(new, folder.path().join(LOCK))?;
        Ok(Self { folder, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Lets every user through it to what is theirs.
    pub(super) fn open_to_users(&self) -> io::Result<()> {
        #[cfg(unix)]
        fs::set_permissions(self.path(), std::os::unix::fs::PermissionsExt::from_mode(0o711))?;
        Ok(())
    }

    /// It stays.
    pub(super) fn keep(self) -> PathBuf {
        // Where this fails it stays until the next race.
        let _ = fs::remove_file(self.path().join(LOCK));
        self.folder.keep()
    }
}

/// Removes what races have left that were killed.
#[cfg(target_os = "linux")]
fn remove_left(within: &Path) {
    for entry in fs::read_dir(within).into_iter().flatten().flatten() {
        let named = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        // A link with such a name may lead anywhere.
        if !named || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        // What another user made stays, and so may be anything: a FIFO that waits, a link.
        let Ok(Some(lock)) = paceline_files::own(&entry.path().join(LOCK)) else { continue };
        if lock.try_lock().is_ok() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_race_removes_what_others_left_that_were_killed_and_nothing_else() {
        let within = tempfile::tempdir().unwrap();
        let place = |name: &str| within.path().join(name);
        let killed = place("paceline-programs-killed");
        for folder in [&killed, &place("paceline-programs-kept"), &place("other")] {
            fs::create_dir_all(folder.join("deep/er")).unwrap();
        }
        for file in [killed.join(LOCK), killed.join("deep/er/file"), place("other").join(LOCK)] {
            fs::write(file, "").unwrap();
        }
        symlink(place("other"), place("paceline-programs-link")).unwrap();
        for folder in ["paceline-programs-linked", "paceline-programs-waits"] {
            fs::create_dir(place(folder)).unwrap();
        }
        symlink(place("other").join(LOCK), place("paceline-programs-linked").join(LOCK)).unwrap();
        let fifo = place("paceline-programs-waits").join(LOCK);
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let running = Temporary::new(within.path()).unwrap();
        assert!(!killed.exists());
        let next = Temporary::new(within.path()).unwrap();
        assert!(running.path().exists(), "it has its lock");
        let path = next.path().to_owned();
        drop(next);
        assert!(!path.exists());
        let kept = running.keep();
        drop(Temporary::new(within.path()).unwrap());
        let linked = place("paceline-programs-linked").join(LOCK);
        for folder in [kept, place("paceline-programs-kept").join("deep"), place("other").join(LOCK), linked, fifo] {
            assert!(folder.exists(), "{}", folder.display());
        }
        drop(Temporary::new(&place("nowhere")).unwrap_err());
    }
}
