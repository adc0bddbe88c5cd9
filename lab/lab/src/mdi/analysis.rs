//! What a matrix of transitions is like: where it stays, how it moves, how fast it forgets.

use std::ops::Range;

use paceline_cc::mdi::Model;

use super::counts::Counts;

/// Differences between two successive distributions that mixing times are given for (the project's `matrix_analysis.py`).
pub const MIXED: [f64; 3] = [1e-3, 1e-5, 1e-7];
/// Steps after which a matrix counts as one that never mixes (our choice: 500 s of epochs).
const MOST_STEPS: u32 = 100_000;
/// Added to each transition of a state that either side has seen, so that what one of them never did has a finite weight
/// (Krichevsky and Trofimov 1981).
const HALF: f64 = 0.5;

/// A model's chain, each row normalised: every move of the delay that training saw in a state is taken for as likely as the others
/// (a model does not say). From empty rows each state is as likely as the others.
#[derive(Clone, Debug, PartialEq)]
pub struct Analysis {
    /// Share of time in each state, in the end.
    pub stationary: Vec<f64>,
    /// Mean move of the delay in it.
    pub delay: f64,
    /// Mean move of the window in it.
    pub window: f64,
    /// Steps until two successive distributions differ by less than each of [`MIXED`]; `None`: not within 100 000.
    pub mixing: [Option<u32>; 3],
}

impl Analysis {
    /// Of this model, by power iteration from the uniform distribution.
    pub fn of(model: &Model) -> Self {
        let grid = model.grid();
        let (states, windows) = (grid.states(), grid.windows.count());
        let mut now = vec![1.0 / states as f64; states];
        let mut mixing = [None; 3];
        for step in 1..=MOST_STEPS {
            let mut next = vec![0.0; states];
            let mut anywhere = 0.0;
            for (row, share) in now.iter().enumerate() {
                let blocks = (0..grid.delays.count()).map(|delay| (delay, model.block(row, delay)));
                let filled = blocks.clone().filter(|(_, block)| !block.is_empty()).count();
                if filled == 0 {
                    anywhere += share / states as f64;
                }
                for (delay, block) in blocks {
                    for (window, chance) in block {
                        next[delay * windows + usize::from(*window)] += share * chance / filled as f64;
                    }
                }
            }
            next.iter_mut().for_each(|share| *share += anywhere);
            // Blocks may sum to a millionth more or less than 1.
            let sum: f64 = next.iter().sum();
            next.iter_mut().for_each(|share| *share /= sum);
            let moved: f64 = next.iter().zip(&now).map(|(one, other)| (one - other).abs()).sum();
            now = next;
            for (time, below) in mixing.iter_mut().zip(MIXED) {
                if moved < below {
                    time.get_or_insert(step);
                }
            }
            if mixing.iter().all(Option::is_some) {
                break;
            }
        }
        let mean = |value: &dyn Fn(usize) -> f64| -> f64 {
            now.iter().enumerate().map(|(state, share)| share * value(state)).sum()
        };
        let delay = mean(&|state| grid.delays.value(state / windows));
        let window = mean(&|state| grid.windows.value(state % windows));
        Self { stationary: now, delay, window, mixing }
    }
}

/// The mean move of the window, over all states, in the block of each move of the delay; `None` where no state has it. A model of a
/// controller that listens to delay falls along it.
pub fn answers(model: &Model) -> Vec<Option<f64>> {
    let grid = model.grid();
    let mean = |rows: Range<usize>, delay: usize| {
        let blocks = rows.map(|row| model.block(row, delay)).filter(|block| !block.is_empty());
        let (sum, count) = blocks.fold((0.0, 0_u32), |(sum, count), block| {
            let mean: f64 = block.iter().map(|(window, share)| grid.windows.value(usize::from(*window)) * share).sum();
            (sum + mean, count + 1)
        });
        (count > 0).then(|| sum / f64::from(count))
    };
    (0..grid.delays.count()).map(|delay| mean(0..grid.states(), delay)).collect()
}

/// How far the transitions of `other` are from those of `original`: the Kullback-Leibler divergence of their rows in bits, each
/// weighted by how often the original was in that state.
pub fn divergence(original: &Counts, other: &Counts) -> f64 {
    let total = original.transitions().max(1) as f64;
    (0..original.grid.states())
        .map(|row| {
            let (own, theirs) = (original.row(row), other.row(row));
            let seen = own.iter().zip(theirs).filter(|(own, theirs)| **own + **theirs > 0);
            let count = seen.clone().count() as f64;
            let sum = |counts: &[u64]| counts.iter().sum::<u64>() as f64 + HALF * count;
            let (all_own, all_theirs) = (sum(own), sum(theirs));
            let bits: f64 = seen
                .map(|(own, theirs)| {
                    let (p, q) = ((*own as f64 + HALF) / all_own, (*theirs as f64 + HALF) / all_theirs);
                    p * (p / q).log2()
                })
                .sum();
            own.iter().sum::<u64>() as f64 / total * bits
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use paceline_cc::mdi::Settings;
    use paceline_cc::mdi::grid::{Axis, Grid};

    use super::*;

    fn model(blocks: &[[f64; 2]]) -> Model {
        let grid = Grid::new(Axis::new(0, 1, 1).unwrap(), Axis::new(0, 0, 1).unwrap()).unwrap();
        let mut model = Model::new(grid, Settings::default(), Vec::new());
        blocks.iter().for_each(|block| model.push(block).unwrap());
        model
    }

    #[test]
    fn a_chain_of_two_states_by_hand() {
        // From 0 to 1 with 0.1, back with 0.3: three quarters of the time in 0.
        let found = Analysis::of(&model(&[[0.9, 0.1], [0.3, 0.7]]));
        assert!((found.stationary[0] - 0.75).abs() < 1e-6, "{found:?}");
        assert!((found.window - 0.25).abs() < 1e-6);
        // Each step leaves 0.6 of the difference, which is 0.2 after the first: 0.2 x 0.6^n < 1e-3 from n = 11 on.
        assert_eq!(found.mixing[0], Some(12));
        // An empty row leads anywhere; a chain that swaps starts mixed.
        assert_eq!(Analysis::of(&model(&[[0.0, 0.0], [0.5, 0.5]])).stationary, [0.5, 0.5]);
        assert_eq!(Analysis::of(&model(&[[0.0, 1.0], [1.0, 0.0]])).mixing, [Some(1); 3]);
        assert_eq!(answers(&model(&[[0.9, 0.1], [0.0, 0.0]])), [Some(0.1)]);
    }
}
