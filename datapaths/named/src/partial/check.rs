//! What an earlier run left is looked at again.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use paceline_icn::{Layout, Saved, UNIT, UnitPlace, UnitVerdict, Verifier};

use super::{Form, Partial};
use crate::store::StoreError;

/// Index units that a check holds before it starts with them afresh (our choice: 1.4 MB).
const MOST_HELD: usize = 1000;

/// The manifest and the index units of a part, for a fetch that goes on with it. They are verified by their reader.
#[derive(Debug)]
pub struct SavedIndex {
    file: Arc<File>,
    layout: Layout,
    form: Form,
    /// Where the index units begin, of [`Form::Content`].
    end: u64,
    first: [u8; UNIT],
}

impl Saved for SavedIndex {
    fn read(&mut self, unit: u64, buffer: &mut [u8; UNIT]) -> bool {
        let offset = match (self.form, self.layout.place(unit)) {
            (_, Some(UnitPlace::Manifest)) => {
                *buffer = self.first;
                return true;
            }
            (_, Some(UnitPlace::Data { .. }) | None) => return false,
            (Form::Stored, _) => unit * UNIT as u64,
            (Form::Content, Some(place)) => self.end + Layout::indexes_before(unit, place) * UNIT as u64,
        };
        self.file.read_exact_at(buffer, offset).is_ok()
    }
}

impl Partial {
    /// Its manifest and index units, to be read by another thread.
    pub fn saved_index(&self) -> SavedIndex {
        let file = match self.paths.form {
            Form::Stored => &self.data,
            Form::Content => &self.map,
        };
        let (file, layout, form, end) = (Arc::clone(file), self.layout, self.paths.form, self.bits.end());
        SavedIndex { file, layout, form, end, first: self.manifest.encode() }
    }

    /// Data units that are there, of those that hold bytes of the object in `range`.
    pub fn data_units(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let data = range.start / UNIT as u64..range.end.min(self.layout.length()).div_ceil(UNIT as u64);
        let index = |unit| match self.layout.place(unit) {
            Some(UnitPlace::Data { index }) => Some(index),
            _ => None,
        };
        runs(self.units().filter_map(index).filter(|index| data.contains(index)))
    }

    /// Reads data units (numbers among the data units, in order) and drops those that are not the object's, or cannot be verified. Says
    /// how many. Takes as long as the disk and the hashes: it is for after a fetch, and in memory that does not depend on their number.
    ///
    /// # Errors
    /// When the files cannot be written.
    pub fn check(&mut self, data: &[Range<u64>]) -> Result<u64, StoreError> {
        let mut verifier = Verifier::new(&self.name);
        let mut saved = self.saved_index();
        let mut buffer = [0; UNIT];
        verifier.check(0, &saved.first);
        let (layout, mut dropped) = (self.layout, 0);
        for unit in data.iter().cloned().flatten().map(|index| layout.unit_of(index)) {
            // Hashes of units that are not there are never done with.
            if verifier.held() > MOST_HELD {
                verifier = Verifier::new(&self.name);
                verifier.check(0, &saved.first);
            }
            let mut above = Vec::new();
            let mut at = unit;
            // The topmost that is missing first.
            while !verifier.knows_parent_of(at) {
                let Some((parent, _)) = self.layout.parent(at) else { break };
                above.push(parent);
                at = parent;
            }
            for index in above.into_iter().rev() {
                if saved.read(index, &mut buffer) {
                    verifier.check(index, &buffer);
                }
            }
            let bytes = self.read(unit, &mut buffer).unwrap_or(0);
            if !matches!(verifier.check(unit, &buffer[..bytes]), UnitVerdict::Genuine | UnitVerdict::Known) {
                self.forget(unit);
                dropped += 1;
            }
        }
        self.mark()?;
        Ok(dropped)
    }
}

/// Numbers in ascending order as runs.
pub(crate) fn runs(numbers: impl Iterator<Item = u64>) -> Vec<Range<u64>> {
    numbers.fold(Vec::new(), |mut runs: Vec<Range<u64>>, number| {
        match runs.last_mut().filter(|run| run.end == number) {
            Some(run) => run.end += 1,
            None => runs.push(number..number + 1),
        }
        runs
    })
}
