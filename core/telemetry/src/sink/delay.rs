//! Delay and jitter of a window's packets.

use paceline_cc::filter::WindowedFilter;
use paceline_cc::{Nanos, Time};

use crate::report::Latency;

/// Span of the smallest delay that others are measured from where the hosts' clocks differ (our choice: long enough for a queue to
/// run empty, short enough for clocks to stay together).
const BASE: Nanos = Nanos::from_secs(10);
/// Delays kept for the percentile: of a window with more packets, the first ones count.
const KEPT: usize = 256;
/// Differences of two clocks are shifted by half their range, 71.6 minutes, so that they are not negative.
const SHIFT: i64 = 1 << 31;

/// Delays of one flow.
#[derive(Clone, Debug)]
pub(super) struct Delays {
    synced: bool,
    /// Difference of the clocks as the first packet shows it; the others' are taken from it.
    first: Option<u32>,
    smallest: WindowedFilter,
    /// Of the packet before, in microseconds above `first`.
    before: Option<i64>,
    jitter: f64,
    worst: u64,
    sum: u64,
    count: u64,
    kept: Vec<u64>,
    /// The smallest difference of the window, in microseconds above `first`.
    least: Option<i64>,
}

/// A window's, in microseconds.
pub(super) struct WindowDelay {
    pub(super) latency: Option<Latency>,
    pub(super) ahead: Option<i32>,
    pub(super) jitter: u64,
    pub(super) worst: u64,
}

impl Delays {
    pub(super) fn new(synced: bool) -> Self {
        let smallest = WindowedFilter::smallest();
        let (kept, least) = (Vec::new(), None);
        Self { synced, first: None, smallest, before: None, jitter: 0.0, worst: 0, sum: 0, count: 0, kept, least }
    }

    /// The packet that was sent at `sent_us` of the sender's clock came.
    pub(super) fn arrived(&mut self, now: Time, sent_us: u32) {
        let now_us = (now.as_nanos() / 1000) as u32;
        let difference = now_us.wrapping_sub(sent_us);
        let above = i64::from(difference.wrapping_sub(*self.first.get_or_insert(difference)) as i32);
        self.least = Some(self.least.map_or(above, |least| least.min(above)));
        let shifted = (above + SHIFT) as u64;
        self.smallest.update(now, Nanos::from_micros(shifted), BASE);
        let delay = match self.smallest.get() {
            Some(smallest) if !self.synced => shifted - shifted.min(smallest.as_micros()),
            _ => (difference as i32).max(0) as u64,
        };
        if let Some(before) = self.before.replace(above) {
            let step = (above - before).unsigned_abs();
            self.jitter += (step as f64 - self.jitter) / 16.0;
            self.worst = self.worst.max(step);
        }
        self.sum += delay;
        self.count += 1;
        if self.kept.len() < KEPT {
            self.kept.push(delay);
        }
    }

    /// A new start of the source: the packet before was another's.
    pub(super) fn restart(&mut self) {
        *self = Self::new(self.synced);
    }

    /// The window ends.
    pub(super) fn take(&mut self) -> WindowDelay {
        self.kept.sort_unstable();
        let latency = self.kept.first().map(|min| {
            let p95 = self.kept[(self.kept.len() * 95).div_ceil(100) - 1];
            Latency { min: *min, avg: self.sum / self.count, p95, synced: self.synced }
        });
        let ahead = self.least.take().zip(self.first).map(|(least, first)| first.wrapping_add(least as u32) as i32);
        let worst = std::mem::take(&mut self.worst);
        (self.sum, self.count) = (0, 0);
        self.kept.clear();
        WindowDelay { latency, ahead, jitter: self.jitter as u64, worst }
    }
}
