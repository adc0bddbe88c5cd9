//! A model made ready to draw from: an epoch looks two numbers up and walks one short list.
//!
//! Where training never saw a block, the sum of the blocks for the same two moves of the delay stands for it, whatever the
//! last move of the window was; then the sum over all states; then the window stays. The release walks to the row of another
//! state there, and ends at a window of 1.

use super::grid::Grid;
use super::model::{Model, Settings};

/// Cumulative distributions of a [`Model`] and of what stands for its empty blocks.
#[derive(Clone, Debug)]
pub struct Table {
    grid: Grid,
    settings: Settings,
    /// Moves of the window, and the sum of the weights up to and including each.
    steps: Vec<(f64, f64)>,
    /// Where the distribution of each block begins and ends in `steps`, by row, then by move of the delay.
    places: Vec<(u32, u32)>,
}

impl From<&Model> for Table {
    fn from(model: &Model) -> Self {
        let grid = model.grid();
        let (windows, delays) = (grid.windows.count(), grid.delays.count());
        let mut table = Self { grid, settings: model.settings(), steps: Vec::new(), places: Vec::new() };
        // Of all states, and of those with the same last move of the delay.
        let all: Vec<(u32, u32)> = (0..delays).map(|next| table.add(&summed(model, 0..grid.states(), next))).collect();
        let mut like = Vec::new();
        for last in 0..delays {
            for (next, all) in all.iter().enumerate() {
                let sum = summed(model, last * windows..(last + 1) * windows, next);
                like.push(if sum.iter().any(|weight| *weight > 0.0) { table.add(&sum) } else { *all });
            }
        }
        let mut weights = vec![0.0; windows];
        for row in 0..grid.states() {
            for next in 0..delays {
                let block = model.block(row, next);
                let place = if block.is_empty() {
                    like[row / windows * delays + next]
                } else {
                    weights.fill(0.0);
                    block.iter().for_each(|(window, share)| weights[usize::from(*window)] = *share);
                    table.add(&weights)
                };
                table.places.push(place);
            }
        }
        table
    }
}

/// The sum of the blocks for `next` over some rows, in their order.
fn summed(model: &Model, rows: std::ops::Range<usize>, next: usize) -> Vec<f64> {
    let mut weights = vec![0.0; model.grid().windows.count()];
    for row in rows {
        for (window, share) in model.block(row, next) {
            weights[usize::from(*window)] += share;
        }
    }
    weights
}

impl Table {
    fn add(&mut self, weights: &[f64]) -> (u32, u32) {
        let from = self.steps.len() as u32;
        let mut sum = 0.0;
        for (index, weight) in weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
            sum += weight;
            self.steps.push((self.grid.windows.value(index), sum));
        }
        (from, self.steps.len() as u32)
    }

    /// The grid.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// What the model says beside its matrix.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// The moves of the window that may follow `state` when the delay's next move is `next`, each with the sum of weights up
    /// to and including it. Empty where no state says anything about that move.
    #[inline]
    pub fn distribution(&self, state: usize, next: usize) -> &[(f64, f64)] {
        let (from, to) = self.places[state * self.grid.delays.count() + next];
        &self.steps[from as usize..to as usize]
    }

    /// The move of the window: the first whose sum of weights is above the share `u` (in [0, 1)) of all. `u` is asked for only
    /// where there is something to draw; else the window stays.
    #[inline]
    pub fn draw(&self, state: usize, next: usize, u: impl FnOnce() -> f64) -> f64 {
        let steps = self.distribution(state, next);
        let Some((last, total)) = steps.last() else { return 0.0 };
        let sought = u() * total;
        let found = steps.iter().find(|(_, sum)| *sum > sought);
        found.map_or(*last, |(window, _)| *window)
    }
}
