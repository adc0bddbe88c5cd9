//! As many runs as the interval needs.

use serde::{Deserialize, Serialize};

use crate::stats::{MIN_RUNS, Median};

/// When a cell has enough runs: the 95 % interval of the median of `metric` is narrow, or there are `most`.
///
/// The rule sees whole batches alone, in the order of their numbers, so that it decides the same for any executor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// A column of numbers of the records, such as `throughput_mbps` or `delay_ms_p95`.
    pub metric: String,
    /// Largest half width of the interval, as a share of the median.
    pub interval: f64,
    /// Most runs of a cell.
    pub most: u32,
}

impl Stop {
    /// How many runs a cell needs by what is known of it: `values` by the number of the run, `None` where there is no result
    /// yet, and inside `None` where the result has no such number. Of `first` runs to begin with, half as many are added
    /// each time (our choice: small against what is there, and still work for several cores).
    pub(super) fn needs(&self, first: u32, value: impl Fn(u32) -> Option<Option<f64>>) -> u32 {
        let mut target = first;
        let mut values = Vec::new();
        let mut seen = 0;
        while target < self.most {
            for run in seen + 1..=target {
                match value(run) {
                    None => return target,
                    Some(value) => values.extend(value),
                }
            }
            seen = target;
            // Without a number there is nothing to wait for; with too few there is no interval.
            if values.is_empty() || values.len() >= MIN_RUNS && self.met(&values) {
                return target;
            }
            target = (target + first.div_ceil(2)).min(self.most);
        }
        target
    }

    fn met(&self, values: &[f64]) -> bool {
        Median::of(values).is_some_and(|median| {
            let width = median.interval.map(|(low, high)| (high - low) / 2.0);
            width.is_some_and(|width| width <= self.interval * median.median.abs())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stop(interval: f64) -> Stop {
        Stop { metric: "throughput_mbps".to_owned(), interval, most: 20 }
    }

    #[test]
    fn what_scatters_runs_longer_and_what_is_missing_is_waited_for() {
        let same = |_| Some(Some(5.0));
        assert_eq!(stop(0.01).needs(4, same), 6, "six are the fewest that give an interval");
        let wild = |run: u32| Some(Some(f64::from(run % 7)));
        assert_eq!(stop(0.01).needs(4, wild), 20);
        assert!(stop(1.0).needs(4, wild) < 20);
        let begun = |run: u32| (run <= 7).then_some(Some(f64::from(run % 7)));
        assert_eq!(stop(0.01).needs(4, begun), 8);
        assert_eq!(stop(0.01).needs(4, |_| Some(None)), 4, "a metric that the contestant does not have");
        assert_eq!(stop(0.01).needs(30, same), 30, "the first runs are made in any case");
    }
}
