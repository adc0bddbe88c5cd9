//! What flows learnt of the places that they went to, for later ones to the same place (RFC 9959): a [`PathStore`] in a file.
//!
//! A set is lent to one flow at a time: lending takes it out of the file, whichever process asks, and what the flow remembers at its
//! end is put back. So a set that proved wrong, or whose flow never ended, is gone. A place is a remote address and the local one that
//! it is reached from. Sets older than [`LONGEST`] go, and of more than [`MOST`] the oldest.
//!
//! The file is text: [`FIRST_LINE`], then a line for each place. It is read whole or not at all: what is not such a file stays as it
//! is, and the flow begins as if it were empty. It is replaced in one step, under a lock.
//!
//! On systems other than Linux this crate is empty.
#![cfg(target_os = "linux")]

mod sets;

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use paceline_cc::Remembered;
use paceline_files::{OutputError, own, secret, write_regular};
use rustix::fs::{FlockOperation, flock};

use sets::{Set, Sets};

pub use sets::{FIRST_LINE, LONGEST, MOST};

/// Longest file that is read: twice what [`MOST`] lines take (our choice).
const LARGEST: u64 = 512 << 10;
/// How often, and in all how long, another process that has the file locked is waited for (our choice: a flow is to begin).
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(10);

/// Where a flow goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    remote: IpAddr,
    local: IpAddr,
}

impl Place {
    /// The host at `remote`, reached from `local`.
    pub fn new(remote: IpAddr, local: IpAddr) -> Self {
        Self { remote: remote.to_canonical(), local: local.to_canonical() }
    }
}

/// Why a store lends and keeps nothing. The flow goes on all the same.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PathStoreError {
    /// It cannot be read.
    #[error("{}: cannot be read ({source}); nothing is remembered; name a file of your own", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is not a store.
    #[error(
        "{}:{line}: {wanted} is wanted here; the file stays as it is, and nothing is remembered; name another, or delete it",
        path.display()
    )]
    NotAStore {
        /// The file.
        path: PathBuf,
        /// The first line that does not belong there, from 1.
        line: usize,
        /// What would.
        wanted: &'static str,
    },
    /// It is too large to be a store.
    #[error("{}: has {bytes} bytes, and a store {LARGEST} at most; the file stays as it is; name another", path.display())]
    Large {
        /// The file.
        path: PathBuf,
        /// Its length.
        bytes: u64,
    },
    /// Another process does not let go of it.
    #[error("{}: another process has it locked; nothing is remembered; try again", .0.display())]
    Locked(PathBuf),
    /// It cannot be written.
    #[error(transparent)]
    Unwritten(#[from] OutputError),
}

/// What flows learnt, in a file.
#[derive(Clone, Debug)]
pub struct PathStore {
    path: PathBuf,
}

impl PathStore {
    /// The store in this file, which is made when there is something to remember, for its owner alone.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is known of `place`, for one flow that begins at `now`: it is out of the store until the flow gives something back.
    ///
    /// # Errors
    /// [`PathStoreError`]; nothing has changed.
    pub fn lend(&self, place: Place, now: SystemTime) -> Result<Option<Remembered>, PathStoreError> {
        let Some(locked) = self.lock(false)? else { return Ok(None) };
        let mut sets = self.read(&locked)?;
        let Some(set) = sets.take(place) else { return Ok(None) };
        self.write(&sets)?;
        Ok(set.at_time(millis(now)))
    }

    /// A flow to `place` that ends at `now` remembers this.
    ///
    /// # Errors
    /// [`PathStoreError`]; nothing has changed.
    pub fn keep(&self, place: Place, remembered: &Remembered, now: SystemTime) -> Result<(), PathStoreError> {
        let Some(set) = Set::new(remembered, millis(now)) else { return Ok(()) };
        let Some(locked) = self.lock(true)? else { return Ok(()) };
        let mut sets = self.read(&locked)?;
        sets.put(place, set, millis(now));
        self.write(&sets)
    }

    /// The file under a lock; `None` where there is none and none is to be made.
    fn lock(&self, make: bool) -> Result<Option<File>, PathStoreError> {
        for _ in 0..TRIES {
            let Some(file) = own(&self.path).map_err(|source| self.unreadable(source))? else {
                if !make {
                    return Ok(None);
                }
                match secret::create(&self.path, format!("{FIRST_LINE}\n").as_bytes()) {
                    Err(source) if source.kind() != ErrorKind::AlreadyExists => {
                        return Err(OutputError { path: self.path.clone(), source }.into());
                    }
                    Ok(()) | Err(_) => continue,
                }
            };
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                // Unless another process has replaced it meanwhile.
                Ok(()) if self.is_at_its_place(&file) => return Ok(Some(file)),
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => thread::sleep(PAUSE),
                Err(error) => return Err(self.unreadable(error.into())),
            }
        }
        Err(PathStoreError::Locked(self.path.clone()))
    }

    fn is_at_its_place(&self, file: &File) -> bool {
        let same = |open: fs::Metadata| {
            fs::symlink_metadata(&self.path).is_ok_and(|found| (found.dev(), found.ino()) == (open.dev(), open.ino()))
        };
        file.metadata().is_ok_and(same)
    }

    fn read(&self, file: &File) -> Result<Sets, PathStoreError> {
        let bytes = file.metadata().map_err(|source| self.unreadable(source))?.len();
        let mut text = Vec::new();
        // It may grow meanwhile.
        file.take(LARGEST + 1).read_to_end(&mut text).map_err(|source| self.unreadable(source))?;
        if bytes > LARGEST || text.len() as u64 > LARGEST {
            return Err(PathStoreError::Large { path: self.path.clone(), bytes: bytes.max(text.len() as u64) });
        }
        Sets::parse(&text).map_err(|bad| PathStoreError::NotAStore {
            path: self.path.clone(),
            line: bad.line,
            wanted: bad.wanted,
        })
    }

    fn write(&self, sets: &Sets) -> Result<(), PathStoreError> {
        Ok(write_regular(&self.path, |draft| draft.write_all(sets.to_string().as_bytes()))?)
    }

    fn unreadable(&self, source: io::Error) -> PathStoreError {
        PathStoreError::Unreadable { path: self.path.clone(), source }
    }
}

/// Since 1970, by the wall's clock.
fn millis(now: SystemTime) -> u64 {
    now.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
