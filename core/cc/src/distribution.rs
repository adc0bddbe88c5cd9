//! Spans of time that were measured, in bounded memory.

use crate::histogram::Histogram;
use crate::units::Nanos;

/// A distribution of spans of time: exact extremes and mean, quantiles by histogram.
///
/// Memory is bounded: values are kept in microseconds with a relative error below `10^-digits`.
#[derive(Clone, Debug)]
pub struct Distribution {
    histogram: Histogram,
    sum_nanos: u128,
    min: Nanos,
    max: Nanos,
}

impl Distribution {
    /// Empty; quantiles with a relative error below `10^-digits` (1 to 5).
    pub fn new(digits: u8) -> Self {
        Self { histogram: Histogram::new(digits.clamp(1, 5)), sum_nanos: 0, min: Nanos::MAX, max: Nanos::ZERO }
    }

    /// Adds a value.
    #[inline]
    pub fn record(&mut self, value: Nanos) {
        self.record_quantiles(value);
        self.sum_nanos += u128::from(value.as_nanos());
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds all values of another one.
    pub fn add(&mut self, other: &Self) {
        self.histogram.add(&other.histogram);
        self.add_extremes(other);
    }

    /// Adds a value to the quantiles alone.
    #[inline]
    pub fn record_quantiles(&mut self, value: Nanos) {
        self.histogram.record(value.as_nanos().saturating_add(500) / 1000);
    }

    /// Adds all values of another one to the quantiles alone.
    pub fn add_quantiles(&mut self, other: &Self) {
        self.histogram.add(&other.histogram);
    }

    /// Adds the mean and the extremes of another one, whose values are in the quantiles.
    pub fn add_extremes(&mut self, other: &Self) {
        self.sum_nanos += other.sum_nanos;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// How many values.
    pub fn count(&self) -> u64 {
        self.histogram.count()
    }

    /// Mean in milliseconds; `None` when empty.
    pub fn mean_ms(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.sum_nanos as f64 / self.count() as f64 / 1e6)
    }

    /// Smallest value in milliseconds; `None` when empty.
    pub fn min_ms(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.min.as_millis_f64())
    }

    /// Largest value in milliseconds; `None` when empty.
    pub fn max_ms(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.max.as_millis_f64())
    }

    /// The value in milliseconds below which the share `q` (0 to 1) lies; `None` when empty.
    pub fn quantile_ms(&self, q: f64) -> Option<f64> {
        if self.count() == 0 {
            return None;
        }
        let micros = self.histogram.quantile(q) as f64;
        Some((micros / 1e3).clamp(self.min.as_millis_f64(), self.max.as_millis_f64()))
    }
}
