//! What is kept of a run.

use crate::reproduce::prelude::*;
use paceline_experiment::{NamedLosses, Series, TelemetryOutcome};

/// A run; of several flows by flow.
pub(super) struct Run {
    /// Mbit/s on the wire over the time for which the flow ran.
    pub(super) mbps: Vec<f64>,
    /// Median queueing delay of the first flow's packets, ms.
    pub(super) queue_ms: f64,
    /// Of the first flow: packets sent again.
    pub(super) retransmits: f64,
    /// Of the first flow.
    pub(super) telemetry: TelemetryOutcome,
    /// Packets that queues dropped, of all flows.
    pub(super) dropped: f64,
    /// Where it was asked for.
    pub(super) series: Series,
}

impl Run {
    pub(super) fn of(run: &Finished<'_>) -> Self {
        let first = run.flow(0);
        let full = |hop: &paceline_experiment::HopOutcome| hop.stats.full.packets + hop.stats.aqm.packets;
        Self {
            mbps: run.mbps(|flow| flow.wire_bytes_arrived),
            queue_ms: first.queue.quantile_ms(0.5).unwrap_or(0.0),
            retransmits: first.sender.retransmits as f64,
            telemetry: first.telemetry.unwrap_or_default(),
            dropped: run.outcome.hops.iter().map(full).sum::<u64>() as f64,
            series: run.series().clone(),
        }
    }

    /// The first flow's window in packets, over time.
    pub(super) fn window(&self) -> &[f64] {
        self.series.flows.first().map_or(&[], |flow| &flow.window_packets)
    }

    /// The same as a curve.
    pub(super) fn window_over_time(&self) -> impl Iterator<Item = (f64, Option<f64>)> {
        over_time(&self.series, self.window())
    }
}

/// Values of a series over time; each stands at the end of its step.
pub(super) fn over_time(series: &Series, values: &[f64]) -> impl Iterator<Item = (f64, Option<f64>)> {
    let step = series.step.as_secs_f64();
    values.iter().enumerate().map(move |(at, value)| ((at + 1) as f64 * step, Some(*value)))
}

/// Losses of several runs, by what they were called.
pub(super) fn named(runs: &[Run]) -> TelemetryOutcome {
    let mut sum = TelemetryOutcome::default();
    runs.iter().for_each(|run| sum += &run.telemetry);
    sum
}

/// Share of losses that got the right name; 1 where there were none.
pub(super) fn right(right: u64, of: &NamedLosses) -> f64 {
    if of.all() == 0 { 1.0 } else { right as f64 / of.all() as f64 }
}

/// Pearson's correlation of two samples; 0 where one of them does not vary.
pub(super) fn correlation(pairs: &[(f64, f64)]) -> f64 {
    let count = pairs.len() as f64;
    let mean = |pick: fn(&(f64, f64)) -> f64| pairs.iter().map(pick).sum::<f64>() / count;
    let (x, y) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let sum = |pick: &dyn Fn(&(f64, f64)) -> f64| pairs.iter().map(pick).sum::<f64>();
    let both = sum(&|pair| (pair.0 - x) * (pair.1 - y));
    let spread = sum(&|pair| (pair.0 - x).powi(2)) * sum(&|pair| (pair.1 - y).powi(2));
    if spread > 0.0 { both / spread.sqrt() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grows_together_correlates() {
        let line = [(0.0, 5.0), (1.0, 7.0), (2.0, 9.0)];
        assert!((correlation(&line) - 1.0).abs() < 1e-9);
        assert!((correlation(&line.map(|(x, y)| (x, -y))) + 1.0).abs() < 1e-9);
        // By hand: sums of products 1, of squares 2 and 2.
        assert!((correlation(&[(0.0, 0.0), (1.0, 2.0), (2.0, 1.0)]) - 0.5).abs() < 1e-9);
        assert_eq!(correlation(&[(1.0, 3.0), (1.0, 4.0)]), 0.0);
        assert_eq!(correlation(&[]), 0.0);
    }

    #[test]
    fn nothing_to_name_is_all_right() {
        assert_eq!(right(0, &NamedLosses::default()), 1.0);
        assert_eq!(right(3, &NamedLosses { medium: 3, overflow: 1, ..NamedLosses::default() }), 0.75);
    }
}
