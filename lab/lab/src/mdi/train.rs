//! Training: a controller is watched over courses, its moves give the grid, and are counted on it.

use paceline_cc::mdi::Delays;
use paceline_cc::mdi::grid::{Axis, Grid, GridError};
use paceline_cc::{Nanos, Spec};

use super::counts::Counts;
use super::course::{Course, CourseError, Seen, Watched};
use super::watch::Move;
use crate::runner::{Progress, Runner, RunnerError};

/// Values of the axis of windows where nothing else is asked for (our choice: as in the published matrices).
pub const WINDOWS: usize = 25;
/// Values of the axis of delays where nothing else is asked for (our choice: as in the published matrices).
pub const DELAYS: usize = 9;
/// The grid leaves out this share of the moves at either end (the specification of the project MDI takes 1 and 99 %).
pub const TAIL: f64 = 0.01;

/// How a controller is watched.
#[derive(Clone, Debug)]
pub struct Training {
    /// Who.
    pub controller: Spec,
    /// Length of an epoch.
    pub epoch: Nanos,
    /// What a move of the delay is.
    pub delays: Delays,
    /// Runs at once; 0 for one a core.
    pub threads: usize,
}

impl Training {
    /// Watches the controller over each course.
    ///
    /// # Errors
    /// The first run that failed.
    pub fn watch(&self, courses: &[Course], progress: &dyn Progress) -> Result<Vec<Seen>, RunnerError<CourseError>> {
        let task = |(course, number)| Watched {
            controller: &self.controller,
            course,
            number,
            epoch: self.epoch,
            delays: self.delays,
        };
        let tasks: Vec<Watched<'_>> = courses.iter().zip(1..).map(task).collect();
        Runner::new(self.threads, progress).all(&tasks)
    }
}

/// The axis that has all moves but a share `tail` at either end, with at most `values` values: multiples of the step, which is
/// a whole number.
///
/// # Errors
/// When the moves go further than an axis may.
pub fn fitted(moves: impl Iterator<Item = f32>, tail: f64, values: usize) -> Result<Axis, GridError> {
    let mut sorted: Vec<f32> = moves.filter(|value| value.is_finite()).collect();
    sorted.sort_by(f32::total_cmp);
    let at = |share: f64| {
        let index = (share * sorted.len().saturating_sub(1) as f64).round() as usize;
        sorted.get(index).map_or(0.0, |value| f64::from(*value))
    };
    let (low, high) = (at(tail).min(0.0), at(1.0 - tail).max(0.0));
    let values = values.max(2) as i64;
    let mut step = (((high - low) / values as f64).ceil() as i64).max(1);
    loop {
        let (min, max) = ((low / step as f64).round() as i64, (high / step as f64).round() as i64);
        if max - min < values {
            return Axis::new(min * step, max * step, step);
        }
        step += 1;
    }
}

/// The grid for these moves.
///
/// # Errors
/// As [`fitted`].
pub fn grid(seen: &[Seen], tail: f64, windows: usize, delays: usize) -> Result<Grid, GridError> {
    let all = |of: fn(&Move) -> f32| seen.iter().flat_map(|seen| &seen.moves).map(of);
    Grid::new(fitted(all(|step| step.window), tail, windows)?, fitted(all(|step| step.delay), tail, delays)?)
}

/// What was seen, counted on a grid.
pub fn count(seen: &[Seen], grid: Grid, epoch: Nanos, delays: Delays) -> Counts {
    let mut counts = Counts::new(grid, epoch, delays);
    for seen in seen {
        counts.rtt = counts.rtt.max(seen.rtt);
        counts.count(&seen.moves);
    }
    counts
}
