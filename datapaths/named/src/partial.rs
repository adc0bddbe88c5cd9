//! Objects of which a part is there: in a router's cache, and where a fetch goes on after a restart.
//!
//! The units are in a sparse file; which of them are there is in a second one, beside the manifest: one bit for each unit.
//!
//! **After a crash** a bit is never there without its bytes. Bits are written in [`Sync::run`] alone, which first puts the bytes
//! on the disk (`fdatasync`), then writes the bits of units that were written before that, and then puts those on the disk. A crash
//! in between loses bits, whose units are asked for again. A write that is torn leaves some words of 64 bits as they were and
//! some as they are now, and both are right. What a disk damages later, [`crate::Store::check`] finds.
//!
//! [`Partial::mark`] writes bits without waiting for the disk: after the end of the process they are there, after a crash of the
//! machine some may be there without their bytes. Its user checks what an earlier run left ([`Partial::check`]).

mod bits;
mod check;
mod open;
mod paths;
mod write;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::IoSliceMut;
use std::path::Path;
use std::sync::Arc;

use paceline_icn::{Layout, Manifest, Name, UNIT, UnitPlace, Units};

use crate::store::{ReadError, StoreError, is_in_place, write_failed};
use bits::Bits;
pub use bits::Sync;
pub use check::SavedIndex;
pub(crate) use check::runs;
pub use paths::{Form, Paths};

/// A part of an object. Its writer has verified the units.
#[derive(Debug)]
pub struct Partial {
    name: Name,
    manifest: Manifest,
    layout: Layout,
    paths: Paths,
    /// The units; of [`Form::Content`] those that are data.
    data: Arc<File>,
    /// Manifest and bits; of [`Form::Content`] the index units behind them.
    map: Arc<File>,
    bits: Bits,
    /// Words of bits that are not in the file.
    unsynced: BTreeSet<usize>,
    unsynced_bytes: u64,
}

impl Partial {
    /// Its name.
    pub const fn name(&self) -> &Name {
        &self.name
    }

    /// Its manifest.
    pub const fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Where its units stand.
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The file of its bytes.
    pub fn path(&self) -> &Path {
        &self.paths.data
    }

    /// Whether its files still stand under their names.
    pub(crate) fn is_in_place(&self) -> bool {
        is_in_place(&self.data, &self.paths.data) && is_in_place(&self.map, &self.paths.map)
    }

    /// Units that are there; the manifest always is.
    pub const fn held_units(&self) -> u64 {
        self.bits.held()
    }

    /// Whether all units are there.
    pub fn is_whole(&self) -> bool {
        self.bits.held() == self.layout.stored_units()
    }

    /// Whether this unit is there.
    pub fn has(&self, unit: u64) -> bool {
        self.bits.has(unit)
    }

    /// How many units in a row from `units.first` on are there, at most `units.count`.
    pub fn run(&self, units: Units) -> u32 {
        units.iter().take_while(|unit| self.bits.has(*unit)).count() as u32
    }

    /// The units that are there, in order.
    pub fn units(&self) -> impl Iterator<Item = u64> + '_ {
        self.bits.iter()
    }

    /// Where a unit is: in which file, and from which byte on. `None` past the end.
    fn place(&self, unit: u64) -> Option<(&File, u64)> {
        let place = self.layout.place(unit)?;
        Some(match (self.paths.form, place) {
            (Form::Stored, _) => (&self.data, unit * UNIT as u64),
            (Form::Content, UnitPlace::Data { index }) => (&self.data, index * UNIT as u64),
            (Form::Content, place) => (&self.map, self.bits.end() + Layout::indexes_before(unit, place) * UNIT as u64),
        })
    }

    /// Reads one unit into `buffer`, and says how many bytes it has.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read(&self, unit: u64, buffer: &mut [u8; UNIT]) -> Result<usize, ReadError> {
        let bytes = self.layout.bytes_of(unit);
        self.read_run(Units { first: unit, count: 1 }, &mut [IoSliceMut::new(&mut buffer[..bytes])])?;
        Ok(bytes)
    }

    /// Reads units in a row, each into a buffer of its size. In one system call in a cache.
    ///
    /// # Errors
    /// [`ReadError::Absent`] where one is not there; what is in the buffers then means nothing.
    pub fn read_run(&self, units: Units, buffers: &mut [IoSliceMut<'_>]) -> Result<(), ReadError> {
        let right =
            |(unit, buffer): (u64, &IoSliceMut<'_>)| self.has(unit) && buffer.len() == self.layout.bytes_of(unit);
        if units.count as usize != buffers.len() || !units.iter().zip(&*buffers).all(right) {
            return Err(ReadError::Absent);
        }
        let step = if self.paths.form == Form::Stored { buffers.len().max(1) } else { 1 };
        for (unit, buffers) in units.iter().step_by(step).zip(buffers.chunks_mut(step)) {
            let (file, offset) = self.place(unit).ok_or(ReadError::Absent)?;
            crate::store::read_vectored(file, buffers, offset)?;
        }
        Ok(())
    }

    /// Puts a whole object's bytes on the disk and in their place, and removes the map. [`Form::Content`]: `to` is then the object;
    /// [`Form::Stored`]: its stored form.
    ///
    /// # Errors
    /// When it is not whole ([`StoreError::Changed`]), or cannot be put there: then all stays as it was.
    pub fn finish(mut self, to: &Path) -> Result<(), StoreError> {
        if !self.is_whole() {
            return Err(StoreError::Changed { path: self.paths.data.clone() });
        }
        self.sync()?;
        let placed = paceline_files::replace(&self.paths.data, to).and_then(|()| paceline_files::sync_folder_of(to));
        placed.map_err(|error| write_failed(to, error))?;
        std::fs::remove_file(&self.paths.map).map_err(|error| write_failed(&self.paths.map, error))
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // A caller that has to know calls it before.
        let _ = self.sync();
    }
}
