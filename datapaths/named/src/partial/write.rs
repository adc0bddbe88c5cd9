//! Units go into the files, and what says that they are there.

use std::fs::File;
use std::io::IoSlice;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use rustix::io::{Errno, pwritev};

#[cfg(doc)]
use super::Form;
use super::Partial;
use super::bits::{BITS, Sync};
use crate::store::{StoreError, cannot, write_failed};

/// Pieces that are written in one call at most (Linux `UIO_MAXIOV` is 1024; our choice: a third of a megabyte).
const PIECES: usize = 256;

/// Bytes that are copied at once (our choice: they stay in the processor's second cache).
const COPIED: usize = 1 << 18;

impl Partial {
    /// Takes a unit that was verified. Written again, it stays as it was.
    ///
    /// # Errors
    /// [`StoreError::Full`], or when it cannot be written: then it is not there. [`StoreError::Damaged`] where the unit has not the
    /// size that its place has.
    pub fn write(&mut self, unit: u64, bytes: &[u8]) -> Result<(), StoreError> {
        let (file, offset) = self.place(unit).ok_or_else(|| self.misfit(unit))?;
        if bytes.len() != self.layout.bytes_of(unit) {
            return Err(self.misfit(unit));
        }
        if self.bits.has(unit) {
            return Ok(());
        }
        file.write_all_at(bytes, offset).map_err(|error| write_failed(&self.paths.data, error))?;
        self.unsynced.insert(self.bits.set(unit));
        self.unsynced_bytes += bytes.len() as u64;
        Ok(())
    }

    /// A unit is not there any more, as it was found to be damaged.
    pub fn forget(&mut self, unit: u64) {
        if self.bits.has(unit) {
            self.unsynced.insert(self.bits.clear(unit));
        }
    }

    /// As [`Partial::write`] for several units; those that stand in a row leave in one call.
    ///
    /// # Errors
    /// As of [`Partial::write`]; some of the units may be there then.
    pub fn write_all(&mut self, units: &[(u64, Bytes)]) -> Result<(), StoreError> {
        let mut rest = units;
        while let Some((first, bytes)) = rest.first() {
            let row = self.row(rest);
            if row < 2 {
                self.write(*first, bytes)?;
                rest = &rest[1..];
                continue;
            }
            let (row, behind) = rest.split_at(row);
            let (file, offset) = self.place(*first).ok_or_else(|| self.misfit(*first))?;
            let mut slices: Vec<IoSlice<'_>> = row.iter().map(|(_, bytes)| IoSlice::new(bytes)).collect();
            write_vectored(file, &mut slices, offset).map_err(|error| write_failed(&self.paths.data, error))?;
            for (unit, bytes) in row {
                self.unsynced.insert(self.bits.set(*unit));
                self.unsynced_bytes += bytes.len() as u64;
            }
            rest = behind;
        }
        Ok(())
    }

    /// How many of these units from the first on stand one behind the other in one file, have the right size, and are not there.
    fn row(&self, units: &[(u64, Bytes)]) -> usize {
        let mut next = None;
        let fits = |(unit, bytes): &&(u64, Bytes)| {
            let Some((file, offset)) = self.place(*unit) else { return false };
            let fits = next.is_none_or(|next| next == (std::ptr::from_ref(file), offset))
                && bytes.len() == self.layout.bytes_of(*unit)
                && !self.bits.has(*unit);
            next = Some((std::ptr::from_ref(file), offset + bytes.len() as u64));
            fits
        };
        units.iter().take(PIECES).take_while(fits).count()
    }

    fn misfit(&self, unit: u64) -> StoreError {
        StoreError::Damaged {
            path: self.paths.data.clone(),
            unit,
            units: self.layout.stored_units(),
            why: "has another size than its place",
        }
    }

    /// Says on the disk which units are there, without waiting for it: what was written is there when this process ends, however that
    /// happens. See [the module](super) for a crash of the machine.
    ///
    /// # Errors
    /// When it cannot be written: it is tried again with the next.
    pub fn mark(&mut self) -> Result<(), StoreError> {
        for word in &self.unsynced {
            let written = self.map.write_all_at(&self.bits.word(*word).to_le_bytes(), BITS + *word as u64 * 8);
            written.map_err(|error| write_failed(&self.paths.map, error))?;
        }
        self.unsynced.clear();
        Ok(())
    }

    /// What there is to be done so that the units that are there now are there after a crash. It can be done by another thread,
    /// while this one goes on. `None` where nothing was written.
    pub fn pending(&mut self) -> Option<Sync> {
        if self.unsynced.is_empty() && self.unsynced_bytes == 0 {
            return None;
        }
        let words = self.unsynced.iter().map(|word| (*word, self.bits.word(*word))).collect();
        self.unsynced.clear();
        self.unsynced_bytes = 0;
        Some(Sync { data: Arc::clone(&self.data), map: Arc::clone(&self.map), path: self.paths.map.clone(), words })
    }

    /// Puts everything on the disk; it waits for the disk. Done when the object is dropped as well, as far as that goes.
    ///
    /// # Errors
    /// When it cannot be written; what was on the disk before is right.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        self.pending().map_or(Ok(()), Sync::run)
    }

    /// Gives `put` the object's bytes in `range`, and where each piece of them stands in it, from [`Form::Content`]. All must be there.
    ///
    /// # Errors
    /// When they cannot be read, and those of `put`.
    pub fn copy(
        &self,
        range: Range<u64>,
        put: &mut impl FnMut(&[u8], u64) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut buffer = vec![0; COPIED];
        let mut at = range.start;
        while at < range.end {
            let part = (range.end - at).min(COPIED as u64) as usize;
            let read = self.data.read_exact_at(&mut buffer[..part], at);
            read.map_err(|error| cannot("read", &self.paths.data, error))?;
            put(&buffer[..part], at - range.start)?;
            at += part as u64;
        }
        Ok(())
    }

    /// Removes its files.
    pub fn remove(self) {
        // The map last, for it says that the bytes beside it are ours.
        let _ = std::fs::remove_file(&self.paths.data);
        let _ = std::fs::remove_file(&self.paths.map);
    }
}

fn write_vectored(file: &File, slices: &mut [IoSlice<'_>], offset: u64) -> std::io::Result<()> {
    let (mut rest, mut at) = (slices, offset);
    while !rest.is_empty() {
        match pwritev(file, rest, at) {
            Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                at += written as u64;
                IoSlice::advance_slices(&mut rest, written);
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}
