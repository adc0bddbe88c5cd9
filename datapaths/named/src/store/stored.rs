//! A file of the store, as it is served.

use std::fs::{File, Metadata};
use std::io::{self, IoSliceMut};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use paceline_icn::manifest::name_of;
use paceline_icn::name::NameKind;
use paceline_icn::{Layout, Manifest, Name, SignedRecord, UNIT, Units};
use rustix::io::{Errno, preadv};

use super::error::{StoreError, cannot};
use super::{Links, is_in_place, open_file};

/// An object in its stored form, or a record, open for reading. Any number of threads may read at once.
#[derive(Debug)]
pub struct Stored {
    file: File,
    path: PathBuf,
    name: Name,
    head: Head,
    mark: Mark,
}

/// What its first unit says.
#[derive(Debug)]
pub(super) enum Head {
    Object(Manifest, Layout),
    Record(SignedRecord),
}

/// Buffers that one system call takes (`UIO_MAXIOV` of Linux).
const MOST_BUFFERS: usize = 1024;

/// What changes when a file does. Its name may change: the bytes stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    bytes: u64,
    modified: (i64, i64),
}

impl Mark {
    fn of(found: &Metadata) -> Self {
        Self { bytes: found.len(), modified: (found.mtime(), found.mtime_nsec()) }
    }
}

/// A unit cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file was changed or cut off since it was opened. A server says so and opens it again.
    #[error("the object was changed while it was served")]
    Changed,
    /// Past the end, or not there yet, or the buffers do not have the units' sizes.
    #[error("not all of these units are there")]
    Absent,
    /// The system cannot read it.
    #[error("the object cannot be read ({0})")]
    Io(#[from] io::Error),
}

impl Stored {
    pub(super) fn open(path: &Path, name: &Name) -> Result<Option<Self>, StoreError> {
        let Some((file, found)) = open_file(path, Links::Refused)? else { return Ok(None) };
        let damaged = |units, why| StoreError::Damaged { path: path.to_owned(), unit: 0, units, why };
        let mut first = [0; UNIT];
        match file.read_exact_at(&mut first, 0) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(damaged(0, "is cut off")),
            read => read.map_err(|error| cannot("read", path, error))?,
        }
        let head = match name.kind() {
            NameKind::Object => {
                let manifest = Manifest::decode(&first).ok().filter(|_| name_of(&first) == *name);
                let manifest = manifest.ok_or_else(|| damaged(0, "is not the one of this name"))?;
                let layout = manifest.layout();
                Head::Object(manifest, layout)
            }
            NameKind::Signed => {
                // Whether it has expired is for its receiver to judge.
                let record = SignedRecord::decode(&first).ok().filter(|record| record.verify(name, 0).is_ok());
                Head::Record(record.ok_or_else(|| damaged(1, "is not the one of this name"))?)
            }
        };
        let stored = Self { file, path: path.to_owned(), name: *name, head, mark: Mark::of(&found) };
        let bytes = stored.layout().map_or(UNIT as u64, Layout::stored_bytes);
        if stored.mark.bytes != bytes {
            let (units, unit) = (bytes.div_ceil(UNIT as u64), stored.mark.bytes / UNIT as u64);
            let why = if unit >= units { "has bytes behind it" } else { "is cut off" };
            return Err(StoreError::Damaged { path: stored.path, unit: unit.min(units - 1), units, why });
        }
        Ok(Some(stored))
    }

    /// Its name.
    pub const fn name(&self) -> &Name {
        &self.name
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) const fn head(&self) -> &Head {
        &self.head
    }

    /// Where its units stand; a record has one unit and no layout.
    pub const fn layout(&self) -> Option<&Layout> {
        match &self.head {
            Head::Object(_, layout) => Some(layout),
            Head::Record(_) => None,
        }
    }

    /// The record, where it is one.
    pub const fn record(&self) -> Option<&SignedRecord> {
        match &self.head {
            Head::Object(..) => None,
            Head::Record(record) => Some(record),
        }
    }

    /// Units that it has.
    pub const fn stored_units(&self) -> u64 {
        self.mark.bytes.div_ceil(UNIT as u64)
    }

    /// Bytes that it has.
    pub const fn stored_bytes(&self) -> u64 {
        self.mark.bytes
    }

    /// Bytes of a unit: [`UNIT`], but for an object's last; 0 past the end.
    pub fn bytes_of(&self, unit: u64) -> usize {
        self.mark.bytes.saturating_sub(unit.saturating_mul(UNIT as u64)).min(UNIT as u64) as usize
    }

    /// Whether the file was changed since it was opened: one system call.
    pub fn is_changed(&self) -> bool {
        self.file.metadata().map_or(true, |found| Mark::of(&found) != self.mark)
    }

    /// Whether the file still stands under its name. One that was removed, or replaced by another of the same bytes, can be read as long as
    /// it is open; a server lets go of it.
    pub fn is_in_place(&self) -> bool {
        is_in_place(&self.file, &self.path)
    }

    /// Reads one unit into `buffer`, and says how many bytes it has.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read(&self, unit: u64, buffer: &mut [u8; UNIT]) -> Result<usize, ReadError> {
        let bytes = self.bytes_of(unit);
        self.read_run(Units { first: unit, count: 1 }, &mut [IoSliceMut::new(&mut buffer[..bytes])])?;
        Ok(bytes)
    }

    /// Reads units in a row, each into a buffer of its size ([`Stored::bytes_of`]) or all into one, with two system calls: the
    /// file is looked at behind the bytes, so that bytes of a changed file are not served.
    ///
    /// # Errors
    /// [`ReadError`]; what is in the buffers then means nothing.
    pub fn read_run(&self, units: Units, buffers: &mut [IoSliceMut<'_>]) -> Result<(), ReadError> {
        self.read_blindly(units, buffers)?;
        if self.is_changed() { Err(ReadError::Changed) } else { Ok(()) }
    }

    /// The same with one system call, for who asks [`Stored::is_changed`] behind several of these, before any of it is served.
    ///
    /// # Errors
    /// As [`Stored::read_run`].
    pub(crate) fn read_blindly(&self, units: Units, buffers: &mut [IoSliceMut<'_>]) -> Result<(), ReadError> {
        let wanted: u64 = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        if units.count == 0 || units.end() > self.stored_units() || wanted != self.bytes_of_run(units) {
            return Err(ReadError::Absent);
        }
        read_vectored(&self.file, buffers, units.first * UNIT as u64)
    }

    fn bytes_of_run(&self, units: Units) -> u64 {
        // All before the last are whole.
        (u64::from(units.count) - 1) * UNIT as u64 + self.bytes_of(units.end() - 1) as u64
    }
}

/// Fills all buffers from this offset on.
pub(crate) fn read_vectored(file: &File, buffers: &mut [IoSliceMut<'_>], offset: u64) -> Result<(), ReadError> {
    let mut rest = buffers;
    let mut at = offset;
    IoSliceMut::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        let together = rest.len().min(MOST_BUFFERS);
        match preadv(file, &mut rest[..together], at) {
            // The file became shorter.
            Ok(0) => return Err(ReadError::Changed),
            Ok(read) => {
                at += read as u64;
                IoSliceMut::advance_slices(&mut rest, read);
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(ReadError::Io(error.into())),
        }
    }
    Ok(())
}
