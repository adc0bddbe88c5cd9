//! How often the round trip took how long, over all sockets of an engine, those that are closed included.

use std::sync::atomic::{AtomicU64, Ordering};

use paceline_cc::Nanos;
use serde::{Deserialize, Serialize};

/// Upper ends of the ranges. Our choice: near each other where radio links and queues are distinguished, 10 to 500 ms.
pub const BOUNDS: [Nanos; 16] = {
    let millis = [1, 2, 5, 10, 20, 30, 50, 75, 100, 150, 200, 300, 500, 1000, 2000, 5000];
    let mut bounds = [Nanos::ZERO; 16];
    let mut at = 0;
    while at < bounds.len() {
        bounds[at] = Nanos::from_millis(millis[at]);
        at += 1;
    }
    bounds
};

/// How many samples of the round-trip time lie in each range of [`BOUNDS`]; the last range has what is above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rtts {
    /// Samples of each range.
    pub counts: [u64; BOUNDS.len() + 1],
    /// All samples together, in nanoseconds.
    pub sum_ns: u64,
}

/// [`Rtts`] that many sockets count into.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    counts: [AtomicU64; BOUNDS.len() + 1],
    sum_ns: AtomicU64,
}

impl Tally {
    pub(crate) fn count(&self, rtt: Nanos) {
        let range = BOUNDS.partition_point(|bound| *bound < rtt);
        self.counts[range].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(rtt.as_nanos(), Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Rtts {
        let mut rtts = Rtts { sum_ns: self.sum_ns.load(Ordering::Relaxed), ..Rtts::default() };
        for (count, tally) in rtts.counts.iter_mut().zip(&self.counts) {
            *count = tally.load(Ordering::Relaxed);
        }
        rtts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_counts_in_the_range_that_ends_with_it() {
        let tally = Tally::default();
        for micros in [1, 1000, 1001, 5_000_000, 5_000_001, 60_000_000] {
            tally.count(Nanos::from_micros(micros));
        }
        let rtts = tally.read();
        assert_eq!((rtts.counts[0], rtts.counts[1], rtts.counts[15], rtts.counts[16]), (2, 1, 1, 2));
        assert_eq!((rtts.counts.iter().sum::<u64>(), rtts.sum_ns), (6, 70_002_003_000));
        assert!(BOUNDS.is_sorted());
    }
}
