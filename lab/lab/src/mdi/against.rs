//! A model held against the controller that it was trained on, over traces that training did not see.

use std::fmt;
use std::sync::Arc;

use paceline_cc::mdi::{Model, models};
use paceline_cc::{Nanos, Spec};

use super::analysis::divergence;
use super::course::{Course, CourseError, Seen, synthetic};
use super::train::{Training, count};
use crate::runner::{Progress, RunnerError};

/// The seed of unseen traces where none is given (our choice: training begins at 1).
pub const UNSEEN: u64 = 1000;

/// How far the median of the ratios of throughput may be from 1 (the goal that was set for a model of Verus).
const THROUGHPUT: f64 = 0.15;
/// How far the median of the ratios of median delay may be from 1 (as before).
const DELAY: f64 = 0.3;
/// Least part of the original's throughput over any trace (our choice: below it a model is stuck, whatever the median).
const LEAST: f64 = 0.5;

/// This many synthetic courses.
pub fn courses(seed: u64, many: u32, delay: Nanos, length: Nanos) -> Vec<Course> {
    let course =
        |number| Course { trace: Arc::new(synthetic(seed, number, length)), delay, length, seed: number.into() };
    (1..=many).map(course).collect()
}

/// Throughput and delay of both over one trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// Mean rate of the link in Mbit/s.
    pub link_mbps: f64,
    /// Of the original: Mbit/s, and median delay in ms.
    pub original: (f64, f64),
    /// Of the model.
    pub model: (f64, f64),
}

/// Both, over all traces.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// In the order of the courses.
    pub pairs: Vec<Pair>,
    /// Median of the ratios of throughput, model over original.
    pub throughput: f64,
    /// Median of the ratios of median delay.
    pub delay: f64,
    /// [`divergence`] in bits.
    pub divergence: f64,
}

/// A model is not what it was trained on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parted {
    /// Median of the ratios of throughput, model over original.
    pub throughput: f64,
    /// The smallest of them.
    pub least: f64,
    /// Median of the ratios of median delay.
    pub delay: f64,
}

impl fmt::Display for Parted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { throughput, least, delay } = self;
        write!(
            f,
            "{throughput:.2} times its throughput in the median and {least:.2} at worst, {delay:.2} times its median delay, where \
             {:.2} to {:.2}, {LEAST:.2} and {:.2} to {:.2} are wanted",
            1.0 - THROUGHPUT,
            1.0 + THROUGHPUT,
            1.0 - DELAY,
            1.0 + DELAY
        )
    }
}

impl Comparison {
    /// Whether the model does what its original does, as far as the goals go.
    ///
    /// # Errors
    /// How far it is from them.
    pub fn near(&self) -> Result<(), Parted> {
        let ratios = self.pairs.iter().map(|pair| pair.model.0 / pair.original.0.max(1e-9));
        let parted =
            Parted { throughput: self.throughput, least: ratios.fold(f64::INFINITY, f64::min), delay: self.delay };
        let near = (parted.throughput - 1.0).abs() <= THROUGHPUT
            && (parted.delay - 1.0).abs() <= DELAY
            && parted.least >= LEAST;
        if near { Ok(()) } else { Err(parted) }
    }
}

/// Why they could not be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgainstError {
    /// A run failed.
    #[error(transparent)]
    Run(#[from] RunnerError<CourseError>),
    /// The model cannot be used.
    #[error(transparent)]
    Model(#[from] models::TooMany),
}

/// Runs both over the courses.
///
/// # Errors
/// When a run fails.
pub fn compare(
    model: &Model,
    original: &Spec,
    courses: &[Course],
    threads: usize,
    progress: &dyn Progress,
) -> Result<Comparison, AgainstError> {
    let settings = model.settings();
    // A name that no controller's text needs to hold.
    models::give("compared", model.clone())?;
    let named: Spec = "mdi:model=compared".parse().expect("it was just given");
    let watch = |controller: &Spec| {
        let (controller, epoch, delays) = (controller.clone(), settings.epoch, settings.delays);
        Training { controller, epoch, delays, threads }.watch(courses, progress)
    };
    let (theirs, ours) = (watch(original)?, watch(&named)?);
    let figures = |seen: &Seen| (seen.mbps, seen.delay_ms);
    let pair = |((course, original), model): ((&Course, &Seen), &Seen)| Pair {
        link_mbps: course.trace.mean_rate().as_mbps(),
        original: figures(original),
        model: figures(model),
    };
    let pairs: Vec<Pair> = courses.iter().zip(&theirs).zip(&ours).map(pair).collect();
    let counted = |seen: &[Seen]| count(seen, model.grid(), settings.epoch, settings.delays);
    let ratio =
        |of: fn((f64, f64)) -> f64| median(pairs.iter().map(|pair| of(pair.model) / of(pair.original).max(1e-9)));
    Ok(Comparison {
        throughput: ratio(|figures| figures.0),
        delay: ratio(|figures| figures.1),
        divergence: divergence(&counted(&theirs), &counted(&ours)),
        pairs,
    })
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        count if count % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}
