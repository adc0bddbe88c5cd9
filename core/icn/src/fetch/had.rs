//! Units that are on disk from an earlier run.

use std::ops::Range;

use crate::layout::{FANOUT, Layout, UnitPlace};

/// Data units that are on disk.
#[derive(Debug, Default)]
pub(super) struct Had {
    /// As the user said it: units of the stored form.
    units: Vec<Range<u64>>,
    /// As data units, in order; once the layout is known.
    data: Vec<Range<u64>>,
}

impl Had {
    pub(super) fn note(&mut self, unit: u64) {
        extend(&mut self.units, unit);
    }

    /// Whether it is there, or all that it is needed for is.
    pub(super) fn has(&self, layout: &Layout, unit: u64) -> bool {
        if self.data.is_empty() {
            return false;
        }
        match layout.place(unit) {
            Some(UnitPlace::Data { index }) => self.covers(index..index + 1),
            Some(UnitPlace::Index { level, first }) => {
                let span = FANOUT.saturating_pow(level);
                self.covers(first..first.saturating_add(span).min(layout.data_units()))
            }
            Some(UnitPlace::Manifest) | None => false,
        }
    }

    fn covers(&self, data: Range<u64>) -> bool {
        let next = self.data.partition_point(|run| run.start <= data.start);
        next > 0 && self.data[next - 1].end >= data.end
    }

    pub(super) fn resolve(&mut self, layout: &Layout) {
        let mut data: Vec<Range<u64>> = Vec::new();
        self.units.sort_unstable_by_key(|run| run.start);
        for unit in self.units.drain(..).flatten() {
            match layout.place(unit) {
                Some(UnitPlace::Data { index }) => extend(&mut data, index),
                Some(UnitPlace::Manifest | UnitPlace::Index { .. }) => {}
                None => break,
            }
        }
        self.data = data;
    }
}

fn extend(runs: &mut Vec<Range<u64>>, next: u64) {
    match runs.last_mut().filter(|run| run.contains(&next) || run.end == next) {
        Some(run) => run.end = run.end.max(next.saturating_add(1)),
        None => runs.push(next..next.saturating_add(1)),
    }
}
