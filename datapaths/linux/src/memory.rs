//! A folder in memory that no end of this process leaves behind.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use crate::namespace::{NamespaceError, on_a_thread};

/// Where it is mounted, which one thread sees for a moment.
const PLACE: &str = "/proc";

/// A file system in memory of its own, of half the machine's memory at most; it ends with the last file that is open in it. Like a network
/// namespace, it can be had after [`crate::namespace::acquire`].
#[derive(Debug)]
pub struct MemoryFolder {
    root: File,
}

impl MemoryFolder {
    /// An empty one.
    ///
    /// # Errors
    /// When the process lacks the privilege.
    pub fn new() -> Result<Self, NamespaceError> {
        const NOTHING: Option<&str> = None;
        let refused = |error| NamespaceError::system("make a folder in memory", error);
        on_a_thread(|| {
            unshare(CloneFlags::CLONE_NEWNS).map_err(refused)?;
            // Other mount namespaces do not see it.
            mount(NOTHING, "/", NOTHING, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NOTHING).map_err(refused)?;
            let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
            mount(Some("paceline"), PLACE, Some("tmpfs"), flags, NOTHING).map_err(refused)?;
            let root = File::open(PLACE).map_err(|error| NamespaceError::system("open a folder in memory", error))?;
            Ok(Self { root })
        })?
    }

    /// Its path in this process.
    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.root.as_raw_fd()).into()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    #[test]
    fn files_in_memory_are_seen_by_all_threads_and_gone_with_it() {
        let folder = match MemoryFolder::new() {
            Ok(folder) => folder,
            Err(error) => {
                // Not by a macro, whose output is not shown for tests that pass.
                let _ = writeln!(
                    std::io::stderr(),
                    "skipped: files_in_memory_are_seen_by_all_threads_and_gone_with_it: {error}"
                );
                return;
            }
        };
        let path = folder.path().join("file");
        fs::write(&path, "here").unwrap();
        let read = std::thread::spawn({
            let path = path.clone();
            move || fs::read_to_string(path)
        });
        assert_eq!(read.join().unwrap().unwrap(), "here");
        assert!(!std::path::Path::new("/proc/file").exists(), "this thread's namespace is as it was");
        drop(folder);
        assert!(!path.exists());
    }
}
