//! A model: for each state and each next move of the delay, how likely each next move of the window is.

use std::ops::Range;

use super::grid::Grid;
use crate::units::Nanos;

/// What the sum of a block may differ from 1 (our choice: sums of numbers with six digits).
pub const TOLERANCE: f64 = 1e-6;

/// A trained model. Its text is written and read by [`Model::read`] and [`Model::text`].
///
/// A *block* is one state's row for one next move of the delay: a distribution of the next move of the window, or nothing
/// where training never saw it.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    pub(super) grid: Grid,
    pub(super) settings: Settings,
    /// Lines about where it comes from, without `#`.
    pub(super) provenance: Vec<String>,
    /// Where each block ends in `entries`, by row, then by move of the delay.
    ends: Vec<u32>,
    /// Window index and probability, above 0, in order of the index.
    entries: Vec<(u16, f64)>,
}

/// What a model says beside its matrix. The published format has no place for it: there these are the defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Length of an epoch.
    pub epoch: Nanos,
    /// Round trip of training without a queue, the longest of several. On a longer one everything takes as much longer.
    pub rtt: Nanos,
    /// What a move of the delay is.
    pub delays: Delays,
    /// Packets added to the window when the delay falls by more than the grid has.
    pub up: f64,
    /// What the window is multiplied by when the delay rises by more than the grid has.
    pub down: f64,
}

/// What a move of the delay is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delays {
    /// From one epoch's delay to the next one's: the published models. They know nothing of how long the queue is.
    Change,
    /// From the smallest delay of the flow to the epoch's: how long the queue is (our choice; docs/results/mdi.md has the
    /// comparison).
    Level,
}

impl Default for Settings {
    /// Those of the release: 5 ms (`EPOCH`), 40 ms (it trained behind `mm-delay 20`), changes, 21 packets and 0.975 (literals of
    /// its epoch loop).
    fn default() -> Self {
        let [epoch, rtt] = [5, 40].map(Nanos::from_millis);
        Self { epoch, rtt, delays: Delays::Change, up: 21.0, down: 0.975 }
    }
}

impl Model {
    /// A model without blocks: give it `states x delay moves` of them by [`Model::push`].
    pub fn new(grid: Grid, settings: Settings, provenance: Vec<String>) -> Self {
        Self { grid, settings, provenance, ends: Vec::new(), entries: Vec::new() }
    }

    /// The next block, one probability for each move of the window; all 0 for one that was never seen.
    ///
    /// # Errors
    /// The sum, when it is neither 0 nor within [`TOLERANCE`] of 1. The block is empty then.
    pub fn push(&mut self, block: &[f64]) -> Result<(), f64> {
        let sum: f64 = block.iter().sum();
        let fits = sum == 0.0 || (sum - 1.0).abs() <= TOLERANCE;
        if fits {
            let seen = block.iter().enumerate().filter(|(_, share)| **share > 0.0);
            self.entries.extend(seen.map(|(index, share)| (index as u16, *share)));
        }
        self.ends.push(self.entries.len() as u32);
        if fits { Ok(()) } else { Err(sum) }
    }

    /// Its grid.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// What it says beside its matrix.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// Lines about where it comes from.
    pub fn provenance(&self) -> &[String] {
        &self.provenance
    }

    /// The block of `row` for the next move of the delay: window index and probability, where that is above 0.
    pub fn block(&self, row: usize, delay: usize) -> &[(u16, f64)] {
        &self.entries[self.range(row * self.grid.delays.count() + delay)]
    }

    fn range(&self, block: usize) -> Range<usize> {
        let from = if block == 0 { 0 } else { self.ends[block - 1] };
        from as usize..self.ends[block] as usize
    }

    /// Blocks that training saw.
    pub fn filled(&self) -> usize {
        (0..self.ends.len()).filter(|block| !self.range(*block).is_empty()).count()
    }

    /// Blocks of the whole matrix.
    pub fn blocks(&self) -> usize {
        self.grid.states() * self.grid.delays.count()
    }

    /// Rows without any block: states that training never left.
    pub fn empty_states(&self) -> usize {
        let delays = self.grid.delays.count();
        (0..self.grid.states()).filter(|row| (0..delays).all(|delay| self.block(*row, delay).is_empty())).count()
    }
}
