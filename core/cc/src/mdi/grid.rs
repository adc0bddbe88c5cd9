//! The state space: how far the delay and the window moved from one epoch to the next, on a grid.
//!
//! Source: the scripts of the project MDI (`preprocess_verus.py`, `train.py`) and its sender (`verus_server.cpp`, gmcc2).
//! What differs: values below 2 are weighted as 2. The sender's `log10` is 0 at 1, where a move says
//! nothing and its inverse multiplies without end; below 1 it turns the sign around. At 1 and from 2 on this is the same.

/// States that a grid may have. 1024: four times the largest published one, so that a matrix has a million cells at most
/// (our choice).
pub const MOST_STATES: usize = 1024;
/// Largest absolute value of a grid's bounds (our choice: moves are in percent times at most 5).
const FARTHEST: i64 = 1_000_000;
/// Values are weighted as if they were at least this (our choice: the sender takes `log10(1 + 1)` for windows of 1).
const SMALLEST: f64 = 2.0;

/// What a move from `value` is weighted by: a percent of a large value is a larger move.
fn weight(value: f64) -> f64 {
    libm::log10(value.max(SMALLEST))
}

/// The move from `last` to `now`: percent, times the decimal logarithm of `last`. Delays are in ms, windows in packets;
/// `last` is above 0.
pub fn change(last: f64, now: f64) -> f64 {
    100.0 * (now / last - 1.0) * weight(last)
}

/// The inverse of [`change`]: where `moved` leads from `last`. It may be 0 or less.
pub fn moved(last: f64, moved: f64) -> f64 {
    last * (1.0 + moved / (100.0 * weight(last)))
}

/// How a value finds its place on an [`Axis`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bins {
    /// The nearest value of the axis: as training counts.
    Nearest,
    /// The next lower one: half a step below training, as the release does.
    Release,
}

/// Equally spaced whole numbers from `min` to `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    min: i32,
    max: i32,
    step: i32,
}

/// Why an axis cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GridError {
    /// Bounds and step do not fit together.
    #[error(
        "no axis goes from {min} to {max} by {step}; give min <= max, a step of 1 or more that divides max - min, all within {FARTHEST}"
    )]
    Axis {
        /// Its first value.
        min: i64,
        /// Its last value.
        max: i64,
        /// Its step.
        step: i64,
    },
    /// More than [`MOST_STATES`].
    #[error("{delays} delay moves times {windows} window moves are more than {MOST_STATES} states; take larger steps")]
    States {
        /// Values of the axis of delays.
        delays: usize,
        /// Values of the axis of windows.
        windows: usize,
    },
}

impl Axis {
    /// From `min` to `max` by `step`.
    ///
    /// # Errors
    /// [`GridError::Axis`] when these are not the ends of such an axis.
    pub fn new(min: i64, max: i64, step: i64) -> Result<Self, GridError> {
        let fits = (-FARTHEST..=max).contains(&min) && max <= FARTHEST;
        if !fits || !(1..=2 * FARTHEST).contains(&step) || (max - min) % step != 0 {
            return Err(GridError::Axis { min, max, step });
        }
        // All of them fit: they are at most 2 million.
        Ok(Self { min: min as i32, max: max as i32, step: step as i32 })
    }

    /// The first value.
    pub const fn min(self) -> i32 {
        self.min
    }

    /// The last value.
    pub const fn max(self) -> i32 {
        self.max
    }

    /// From one value to the next.
    pub const fn step(self) -> i32 {
        self.step
    }

    /// How many values it has.
    pub const fn count(self) -> usize {
        ((self.max - self.min) / self.step) as usize + 1
    }

    /// The value of this index.
    pub fn value(self, index: usize) -> f64 {
        f64::from(self.min) + index as f64 * f64::from(self.step)
    }

    /// The index of `value`; beyond the ends, that of the end.
    #[inline]
    pub fn bin(self, value: f64, bins: Bins) -> usize {
        let half = if bins == Bins::Nearest { 0.5 } else { 0.0 };
        // What is below 0 becomes 0.
        let index = ((value - f64::from(self.min)) / f64::from(self.step) + half) as usize;
        index.min(self.count() - 1)
    }

    /// `value` is nearer to no value of the axis than half a step, below or above its ends.
    #[inline]
    pub fn side(self, value: f64) -> Side {
        let half = f64::from(self.step) / 2.0;
        if value > f64::from(self.max) + half {
            Side::Above
        } else if value < f64::from(self.min) - half {
            Side::Below
        } else {
            Side::Within
        }
    }
}

/// Where a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// More than half a step below the first value.
    Below,
    /// On the axis.
    Within,
    /// More than half a step above the last value.
    Above,
}

/// The two axes. A state is a pair of moves; its number is `delay index x windows + window index`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Moves of the window.
    pub windows: Axis,
    /// Moves of the delay.
    pub delays: Axis,
}

impl Grid {
    /// Of these axes.
    ///
    /// # Errors
    /// [`GridError::States`] for more than [`MOST_STATES`].
    pub fn new(windows: Axis, delays: Axis) -> Result<Self, GridError> {
        let states = windows.count().checked_mul(delays.count());
        if states.is_none_or(|states| states > MOST_STATES) {
            return Err(GridError::States { delays: delays.count(), windows: windows.count() });
        }
        Ok(Self { windows, delays })
    }

    /// How many states.
    pub const fn states(self) -> usize {
        self.windows.count() * self.delays.count()
    }

    /// The number of a state.
    #[inline]
    pub const fn state(self, delay: usize, window: usize) -> usize {
        delay * self.windows.count() + window
    }

    /// The state of a pair of moves; none outside the grid.
    pub fn find(self, delay: f64, window: f64) -> Option<usize> {
        let within = self.delays.side(delay) == Side::Within && self.windows.side(window) == Side::Within;
        within.then(|| self.state(self.delays.bin(delay, Bins::Nearest), self.windows.bin(window, Bins::Nearest)))
    }
}
