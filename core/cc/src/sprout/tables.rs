//! What a Sprout receiver computes once: how a rate wanders in one tick, and how many packets a link that has a certain
//! rate now will have delivered after 1 to 8 ticks.
//!
//! Source: Winstein, Sivaraman, Balakrishnan, NSDI 2013, section 3, and the authors' release (`process.cc`,
//! `processforecaster.cc`). What differs from the release:
//!
//! - Gaussian masses are exact integrals; the release tabulates them in 32 768 steps.
//! - The row of the outage sums to 1 (see [`Outage`]).
//! - Enough counts are kept for the fastest rate; the release drops all beyond 29 packets a tick, which is 2 % of the
//!   mass at 1000 packets/s.

use std::sync::{Arc, Mutex, PoisonError};

/// Length of a tick in seconds (section 3.1).
pub const TICK_SECS: f64 = 0.02;
/// Ticks that a forecast looks ahead (`NUM_TICKS`).
pub const HORIZON: usize = 8;
/// Width of a bin in packets/s: 256 bins up to 1000 (section 3.1).
pub const BIN_WIDTH: f64 = 1000.0 / 256.0;
/// Brownian motion of the rate in packets/s per square root of a second (section 3.1).
const SIGMA: f64 = 200.0;
/// Rate at which an outage ends, per second (section 3.1).
const OUTAGE_ESCAPE: f64 = 1.0;
/// Standard deviations of a tick's motion that are followed (the release, `Process::evolve`).
const SPREAD: f64 = 5.0;
/// Probabilities below this are left out of sums and convolutions (our choice: far below what a 5th percentile can see).
const NEGLIGIBLE: f64 = 1e-12;

/// How an outage is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// With the escape probability, to the rates that the Brownian motion reaches; else it stays.
    Normalised,
    /// The release's row, which sums to 0.55: an outage loses half its weight against the other rates in each tick.
    Release,
}

/// The constant tables for one largest rate and one form of outage.
#[derive(Debug)]
pub struct Tables {
    bins: usize,
    outage: Outage,
    /// Packets in one tick at each rate.
    means: Vec<f64>,
    log_means: Vec<f64>,
    /// `into[j]` holds the probabilities of moving to bin j from the bins around it.
    into: Vec<Vec<f64>>,
    /// Bins on either side that one tick reaches.
    reach: usize,
    /// `totals[n - 1][c]`: for each bin, the probability of at most c packets in n ticks.
    totals: Vec<Vec<Vec<f32>>>,
}

impl Tables {
    /// The tables for rates up to `max_rate` packets/s, computed on first use and kept for the life of the process.
    pub fn shared(max_rate: f64, outage: Outage) -> Arc<Self> {
        static KNOWN: Mutex<Vec<Arc<Tables>>> = Mutex::new(Vec::new());
        let bins = bins_for(max_rate);
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tables) = known.iter().find(|tables| tables.bins == bins && tables.outage == outage) {
            return Arc::clone(tables);
        }
        let tables = Arc::new(Self::new(bins, outage));
        known.push(Arc::clone(&tables));
        tables
    }

    fn new(bins: usize, outage: Outage) -> Self {
        let means: Vec<f64> = (0..bins).map(|bin| rate_of(bin) * TICK_SECS).collect();
        let log_means = means.iter().map(|mean| libm::log(*mean)).collect();
        let sd = SIGMA * libm::sqrt(TICK_SECS);
        let reach = (SPREAD * sd / BIN_WIDTH).ceil() as usize;
        let into = transition(bins, reach, sd, outage);
        let mut tables = Self { bins, outage, means, log_means, into, reach, totals: Vec::new() };
        tables.totals = tables.forecast_totals();
        tables
    }

    /// Number of rates, the outage included.
    pub fn bins(&self) -> usize {
        self.bins
    }

    /// Packets in one tick at the rate of `bin`.
    pub fn mean(&self, bin: usize) -> f64 {
        self.means[bin]
    }

    /// Logarithm of the probability of `count` packets in one tick at the rate of `bin`, but for the term that does
    /// not depend on the bin.
    pub fn log_likelihood(&self, bin: usize, count: f64) -> f64 {
        if count == 0.0 { -self.means[bin] } else { count * self.log_means[bin] - self.means[bin] }
    }

    /// One tick of the rate's motion, from `now` to `next`.
    pub fn evolve(&self, now: &[f64], next: &mut [f64]) {
        for (bin, (row, next)) in self.into.iter().zip(next).enumerate() {
            let first = bin.saturating_sub(self.reach);
            *next = dot(row, &now[first..]);
        }
    }

    /// The smallest count that the link delivers at most in `ticks` ticks with a probability of at least `percentile`,
    /// when its rate is distributed as `weights`.
    pub fn quantile(&self, weights: &[f64], ticks: usize, percentile: f64) -> u32 {
        let rows = &self.totals[ticks - 1];
        let counts = |weight: &f64| *weight > NEGLIGIBLE;
        let first = weights.iter().position(counts).unwrap_or(0);
        let last = weights.iter().rposition(counts).unwrap_or(0);
        let weights = &weights[first..=last];
        let below = rows.partition_point(|row| dot(&row[first..], weights) < percentile);
        below.min(rows.len() - 1) as u32
    }

    fn forecast_totals(&self) -> Vec<Vec<Vec<f32>>> {
        let top = self.means[self.bins - 1];
        // Our choice: one count in a billion is lost.
        let counts = (top + 6.0 * libm::sqrt(top) + 6.0) as usize;
        // Distribution of one tick's count for each present rate, `tick` ticks from now, times `mass`.
        let mut tick: Vec<Vec<f64>> = self.means.iter().map(|mean| poisson(*mean, counts)).collect();
        let mut mass = vec![1.0; self.bins];
        let mut sums: Vec<Band> = (0..self.bins).map(|_| Band { first: 0, values: vec![1.0] }).collect();
        (1..=HORIZON)
            .map(|ticks| {
                for (sum, (tick, mass)) in sums.iter_mut().zip(tick.iter().zip(&mass)) {
                    *sum = sum.convolve(&Band::of(tick, *mass));
                }
                tick = self.expect(&tick);
                mass = self.expect_one(&mass);
                cumulate(&sums, ticks * (counts - 1) + 1)
            })
            .collect()
    }

    /// What `values` (a row for each bin) are expected to be one tick later, for each bin now.
    fn expect(&self, values: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let mut expected = vec![vec![0.0; values[0].len()]; self.bins];
        for (to, row) in self.into.iter().enumerate() {
            let first = to.saturating_sub(self.reach);
            for (expected, probability) in expected[first..].iter_mut().zip(row).filter(|(_, p)| **p > 0.0) {
                for (expected, value) in expected.iter_mut().zip(&values[to]) {
                    *expected += probability * value;
                }
            }
        }
        expected
    }

    fn expect_one(&self, values: &[f64]) -> Vec<f64> {
        let mut expected = vec![0.0; self.bins];
        for (to, row) in self.into.iter().enumerate() {
            let first = to.saturating_sub(self.reach);
            for (expected, probability) in expected[first..].iter_mut().zip(row) {
                *expected += probability * values[to];
            }
        }
        expected
    }
}

/// Sum of products over the shorter length, in four lanes: the same order of additions everywhere, and fast.
fn dot<T: Copy + Into<f64>>(left: &[T], right: &[f64]) -> f64 {
    let len = left.len().min(right.len());
    let (left, right) = (left[..len].chunks_exact(4), right[..len].chunks_exact(4));
    let rest = left.remainder().iter().zip(right.remainder());
    let rest: f64 = rest.map(|(left, right)| (*left).into() * right).sum();
    let mut lanes = [0.0; 4];
    for (left, right) in left.zip(right) {
        for lane in 0..4 {
            lanes[lane] += left[lane].into() * right[lane];
        }
    }
    rest + lanes.iter().sum::<f64>()
}

/// The bins that rates up to `max_rate` need: the outage, and one for each width up to and including the top.
fn bins_for(max_rate: f64) -> usize {
    (max_rate / BIN_WIDTH).ceil() as usize + 1
}

/// The rate in packets/s that stands for a bin: exactly 0 for the outage, else the middle.
pub fn rate_of(bin: usize) -> f64 {
    if bin == 0 { 0.0 } else { (bin as f64 + 0.5) * BIN_WIDTH }
}

/// Mass of a normal distribution below `x` standard deviations.
fn normal_below(x: f64) -> f64 {
    0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
}

/// Probabilities of one tick's moves, a row for each destination. All mass below bin 1 goes to the outage, all beyond
/// the top to the top.
fn transition(bins: usize, reach: usize, sd: f64, outage: Outage) -> Vec<Vec<f64>> {
    let escape = 1.0 - libm::exp(-OUTAGE_ESCAPE * TICK_SECS);
    let top = bins - 1;
    let mass = |from: usize, to: usize| {
        let below = |edge: usize| normal_below((edge as f64 * BIN_WIDTH - rate_of(from)) / sd);
        let low = if to == 0 { 0.0 } else { below(to) };
        let high = if to == top { 1.0 } else { below(to + 1) };
        high - low
    };
    let stays = mass(0, 0);
    let probability = |from: usize, to: usize| match (from, to, outage) {
        (0, 0, Outage::Normalised) => 1.0 - escape,
        (0, _, Outage::Normalised) => escape * mass(0, to) / (1.0 - stays),
        (0, 0, Outage::Release) => (1.0 - escape) * stays,
        (0, _, Outage::Release) => escape * mass(0, to),
        _ => mass(from, to),
    };
    (0..bins)
        .map(|to| (to.saturating_sub(reach)..=(to + reach).min(top)).map(|from| probability(from, to)).collect())
        .collect()
}

/// Probabilities of 0, 1, ... packets for a Poisson distribution of this mean.
fn poisson(mean: f64, counts: usize) -> Vec<f64> {
    let log_mean = libm::log(mean);
    let log_pmf = |count: usize| match (count, mean == 0.0) {
        (0, _) => -mean,
        (_, true) => f64::NEG_INFINITY,
        _ => count as f64 * log_mean - mean - libm::lgamma(count as f64 + 1.0),
    };
    (0..counts).map(|count| libm::exp(log_pmf(count))).collect()
}

/// A distribution of counts without its negligible tails.
struct Band {
    first: usize,
    values: Vec<f64>,
}

impl Band {
    fn of(values: &[f64], mass: f64) -> Self {
        let counts = |value: &f64| *value > NEGLIGIBLE * mass;
        let first = values.iter().position(counts).unwrap_or(0);
        let end = values.iter().rposition(counts).map_or(first, |last| last + 1);
        Self { first, values: values[first..end].iter().map(|value| value / mass).collect() }
    }

    fn convolve(&self, other: &Self) -> Self {
        let mut values = vec![0.0; (self.values.len() + other.values.len()).saturating_sub(1)];
        for (offset, left) in self.values.iter().enumerate() {
            for (sum, right) in values[offset..].iter_mut().zip(&other.values) {
                *sum += left * right;
            }
        }
        let first = self.first + other.first;
        let trimmed = Self::of(&values, 1.0);
        Self { first: first + trimmed.first, values: trimmed.values }
    }
}

/// Rows of cumulative probabilities: for each count up to `counts`, one value for each bin.
fn cumulate(bands: &[Band], counts: usize) -> Vec<Vec<f32>> {
    let mut totals = vec![0.0; bands.len()];
    (0..counts)
        .map(|count| {
            for (total, band) in totals.iter_mut().zip(bands) {
                let value = count.checked_sub(band.first).and_then(|offset| band.values.get(offset));
                *total += value.copied().unwrap_or(0.0);
            }
            totals.iter().map(|total| *total as f32).collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row_sum(tables: &Tables, from: usize) -> f64 {
        let reached =
            |to: usize| from.checked_sub(to.saturating_sub(tables.reach)).and_then(|i| tables.into[to].get(i));
        (0..tables.bins).filter_map(reached).sum()
    }

    #[test]
    fn rows_sum_to_one_but_for_the_release_outage() {
        let tables = Tables::shared(1000.0, Outage::Normalised);
        assert_eq!(tables.bins(), 257);
        for bin in 0..tables.bins() {
            assert!((row_sum(&tables, bin) - 1.0).abs() < 1e-6, "bin {bin}");
        }
        assert!((row_sum(&Tables::shared(1000.0, Outage::Release), 0) - 0.5527).abs() < 1e-4);
    }

    #[test]
    fn golden_forecasts_of_a_certain_rate() {
        let golden = [
            (0, [0; 8]),
            (100, [0, 1, 2, 3, 5, 6, 7, 9]),
            (200, [1, 4, 6, 9, 13, 16, 19, 22]),
            (500, [5, 13, 21, 30, 39, 47, 56, 65]),
            (1000, [13, 30, 47, 65, 82, 100, 118, 136]),
        ];
        let tables = Tables::shared(1000.0, Outage::Release);
        for (rate, want) in golden {
            let mut weights = vec![0.0; tables.bins()];
            weights[(f64::from(rate) / BIN_WIDTH) as usize] = 1.0;
            let got: Vec<u32> = (1..=HORIZON).map(|ticks| tables.quantile(&weights, ticks, 0.05)).collect();
            for (got, want) in got.iter().zip(want) {
                assert!(got.abs_diff(want) <= 1, "{rate}/s: {got} is not {want}");
            }
        }
    }

    #[test]
    fn a_higher_ceiling_forecasts_the_same_below_it() {
        let low = Tables::shared(1000.0, Outage::Normalised);
        let high = Tables::shared(2000.0, Outage::Normalised);
        for rate in [50.0, 400.0, 700.0] {
            let forecast = |tables: &Tables| -> Vec<u32> {
                let mut weights = vec![0.0; tables.bins()];
                weights[(rate / BIN_WIDTH) as usize] = 1.0;
                (1..=HORIZON).map(|ticks| tables.quantile(&weights, ticks, 0.05)).collect()
            };
            assert_eq!(forecast(&low), forecast(&high), "{rate}/s");
        }
    }

    #[test]
    fn tables_are_computed_once() {
        assert!(Arc::ptr_eq(&Tables::shared(1000.0, Outage::Release), &Tables::shared(1000.0, Outage::Release)));
        assert!(!Arc::ptr_eq(&Tables::shared(1000.0, Outage::Release), &Tables::shared(1000.0, Outage::Normalised)));
    }
}
