//! Verifies what a store holds.

use std::io::IoSliceMut;

use paceline_icn::{Name, UNIT, UnitVerdict, Units, Verifier};

use super::error::StoreError;
use super::{ReadError, Store, Stored, cannot};
use crate::partial::Partial;

/// Units that are read at once (our choice: 350 kB).
const RUN: u64 = 256;

/// What was verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Units that are genuine.
    pub genuine: u64,
    /// Units whose hashes are not there, so that they cannot be verified: of part of an object.
    pub unknown: u64,
}

impl Store {
    /// Verifies every unit of what the store has of this name. `progress` is informed how many units of how many are done.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] with the first bad unit, or when it cannot be read, or there is nothing.
    pub fn check(&self, name: &Name, progress: &mut dyn FnMut(u64, u64)) -> Result<Checked, StoreError> {
        let missing = || StoreError::Missing { store: self.folder().to_owned(), name: *name };
        match self.object(name)? {
            // Its signature was verified when it was opened.
            Some(stored) if stored.record().is_some() => Ok(Checked { genuine: 1, unknown: 0 }),
            Some(stored) => check_stored(&stored, progress),
            None => check_partial(&self.cached(name)?.ok_or_else(missing)?, progress),
        }
    }
}

fn check_stored(stored: &Stored, progress: &mut dyn FnMut(u64, u64)) -> Result<Checked, StoreError> {
    let units = stored.stored_units();
    let mut verifier = Verifier::new(stored.name());
    let mut buffer = vec![0; RUN as usize * UNIT];
    for first in (0..units).step_by(RUN as usize) {
        let run = Units { first, count: RUN.min(units - first) as u32 };
        let bytes = (run.count as usize - 1) * UNIT + stored.bytes_of(run.end() - 1);
        let read = &mut buffer[..bytes];
        stored.read_run(run, &mut [IoSliceMut::new(read)]).map_err(|error| match error {
            ReadError::Io(source) => cannot("read", stored.path(), source),
            ReadError::Changed | ReadError::Absent => StoreError::Changed { path: stored.path().to_owned() },
        })?;
        for (unit, bytes) in run.iter().zip(read.chunks(UNIT)) {
            if verifier.check(unit, bytes) != UnitVerdict::Genuine {
                return Err(damaged(stored.path(), unit, units));
            }
        }
        progress(run.end(), units);
    }
    Ok(Checked { genuine: units, unknown: 0 })
}

fn check_partial(partial: &Partial, progress: &mut dyn FnMut(u64, u64)) -> Result<Checked, StoreError> {
    let units = partial.layout().stored_units();
    let mut verifier = Verifier::new(partial.name());
    let (mut buffer, mut checked) = ([0; UNIT], Checked { genuine: 0, unknown: 0 });
    for unit in partial.units() {
        let bytes = partial.read(unit, &mut buffer).map_err(|error| match error {
            ReadError::Io(source) => cannot("read", partial.path(), source),
            ReadError::Changed | ReadError::Absent => damaged(partial.path(), unit, units),
        })?;
        match verifier.check(unit, &buffer[..bytes]) {
            UnitVerdict::Genuine | UnitVerdict::Known => checked.genuine += 1,
            UnitVerdict::Early => checked.unknown += 1,
            UnitVerdict::Corrupt | UnitVerdict::Foreign => return Err(damaged(partial.path(), unit, units)),
        }
        progress(checked.genuine + checked.unknown, partial.held_units());
    }
    Ok(checked)
}

fn damaged(path: &std::path::Path, unit: u64, units: u64) -> StoreError {
    StoreError::Damaged { path: path.to_owned(), unit, units, why: "is not what the name says" }
}
