//! `_sweep.json`: what a folder's results depend on, and who works in it.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use super::{FolderProblem, Part, Sweep, SweepError};

/// How long a part waits for another that has just begun the folder: 500 times 10 ms, longer than a busy machine needs to write
/// a page (our choice).
const TRIES: u32 = 500;
const PAUSE: Duration = Duration::from_millis(10);

/// Opens the file, written where it is missing; it stays locked as long as it is open. One sweep works in a folder, or any number
/// of its parts.
///
/// # Errors
/// When it is of another sweep or another build, or another process works in the folder.
pub(super) fn claim(folder: &Path, sweep: &Sweep, part: Option<Part>) -> Result<File, SweepError> {
    let name = folder.join("_sweep.json");
    let io = |source| SweepError::Io { path: name.clone(), source };
    let wrong = |problem| SweepError::Folder { path: folder.to_owned(), problem };
    let mut file = File::options().read(true).write(true).create(true).truncate(false).open(&name).map_err(io)?;
    let identity = sweep.identity();
    let mut tries = 0;
    loop {
        // Where a file system has no locks, nothing is known of others.
        let alone = !matches!(file.try_lock(), Err(TryLockError::WouldBlock));
        let beside = !alone && part.is_some() && !matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
        let mut held = String::new();
        file.rewind().and_then(|()| file.read_to_string(&mut held)).map_err(io)?;
        let begun = held.is_empty() || !held.ends_with('\n') && identity.starts_with(&held);
        if !(alone || beside && !begun) {
            tries += 1;
            if part.is_none() || tries == TRIES {
                return Err(wrong(FolderProblem::AtWork));
            }
            let _ = file.unlock();
            sleep(PAUSE);
            continue;
        }
        if begun {
            // The same bytes from any writer.
            file.rewind().and_then(|()| file.write_all(identity.as_bytes())).map_err(io)?;
        } else if held != identity {
            return Err(wrong(sweep.differs_from(&held)));
        }
        if alone && part.is_some() {
            // Others of its parts may come.
            let _ = file.unlock().and_then(|()| file.lock_shared());
        }
        return Ok(file);
    }
}
