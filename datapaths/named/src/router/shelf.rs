//! What a thread of the router knows of the store: files that it has open.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::IoSliceMut;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::uio::preadv;
use paceline_icn::wire::DATA_HEAD;
use paceline_icn::{Found, Name, UNIT, Units};

use super::socket::SEGMENT;

/// Objects that are open at once (our choice: a quarter of the 1024 descriptors that a process may have unless it asks for more).
const OPEN: usize = 256;

/// An object is looked at again after so long: it may have been published, removed or changed since (our choice).
const FRESH: Duration = Duration::from_millis(500);

/// Units cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// The file is another one than it was.
    Changed,
    /// It is gone.
    Gone,
}

struct Entry {
    file: File,
    bytes: u64,
    mark: (u64, i64, i64),
    checked: Instant,
    used: u64,
}

pub(super) struct Shelf {
    folder: PathBuf,
    open: BTreeMap<Name, Entry>,
    uses: u64,
}

fn mark(file: &File) -> Option<(u64, i64, i64)> {
    let found = file.metadata().ok()?;
    Some((found.len(), found.mtime(), found.mtime_nsec()))
}

impl Shelf {
    pub(super) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), open: BTreeMap::new(), uses: 0 }
    }

    fn entry(&mut self, name: &Name) -> Option<&mut Entry> {
        self.uses += 1;
        if !self.open.contains_key(name) {
            let file = File::open(self.folder.join(name.to_string())).ok()?;
            let mark = mark(&file).filter(|mark| mark.0 > 0)?;
            if self.open.len() == OPEN
                && let Some(oldest) = self.open.iter().min_by_key(|(_, entry)| entry.used).map(|(name, _)| *name)
            {
                self.open.remove(&oldest);
            }
            let entry = Entry { file, bytes: mark.0, mark, checked: Instant::now(), used: self.uses };
            self.open.insert(*name, entry);
        }
        let uses = self.uses;
        let entry = self.open.get_mut(name)?;
        entry.used = uses;
        Some(entry)
    }

    /// Reads units into messages of [`SEGMENT`] bytes, behind the place for their heads; says how many bytes the last unit has.
    pub(super) fn read(&mut self, name: &Name, units: Units, messages: &mut [u8]) -> Result<usize, Unread> {
        let entry = self.entry(name).ok_or(Unread::Gone)?;
        let start = units.first * UNIT as u64;
        let bytes = (u64::from(units.count) * UNIT as u64).min(entry.bytes.saturating_sub(start)) as usize;
        let mut buffers: Vec<IoSliceMut<'_>> =
            messages.chunks_mut(SEGMENT).map(|message| IoSliceMut::new(&mut message[DATA_HEAD..])).collect();
        let read = preadv(&entry.file, &mut buffers, start as i64).unwrap_or(0);
        let last = (units.count as usize - 1) * UNIT;
        if read != bytes || read <= last {
            self.open.remove(name);
            return Err(Unread::Changed);
        }
        Ok(read - last)
    }
}

impl paceline_icn::Shelf for Shelf {
    fn find(&mut self, name: &Name) -> Found {
        let now = Instant::now();
        let Some(entry) = self.entry(name) else { return Found::Elsewhere };
        if now.duration_since(entry.checked) > FRESH {
            entry.checked = now;
            if mark(&entry.file) != Some(entry.mark) {
                self.open.remove(name);
                return Found::Changed;
            }
        }
        Found::Here { stored_units: Some(entry.bytes.div_ceil(UNIT as u64)), whole: true }
    }

    fn has(&mut self, _: &Name, units: Units) -> u32 {
        units.count
    }
}
