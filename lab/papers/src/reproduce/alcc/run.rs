//! What is kept of a run, and how two are compared.

use crate::reproduce::prelude::*;
use paceline_experiment::{FlowSeries, Series};
use serde::{Deserialize, Serialize};

/// Time between two points.
pub(super) const STEP: Nanos = Nanos::from_millis(100);
/// Two delays that are closer agree, ms: an opportunity of a delivery trace comes in whole milliseconds.
pub(super) const CLOSE_MS: f64 = 1.0;

/// The start-up, s: it is reported separately from the rest of a run (our choice).
pub(super) const START_UP: f64 = 5.0;

/// A run of one contestant, whose own flow is the first.
#[derive(Serialize, Deserialize)]
pub(super) struct Run {
    /// Mbit/s over the time for which the flow ran.
    pub(super) mbps: f64,
    /// One-way delay in ms below which 0, 1, ... 100 % of packets are.
    pub(super) delays: Vec<f64>,
    /// Share of what was passed to TCP, or refused, while TCP was the limit.
    pub(super) limited: f64,
    /// Real world: CPU time, share of one core.
    pub(super) cpu: Option<f64>,
    /// Whether the emulator kept time.
    pub(super) trusted: bool,
    /// 95th percentile of queueing delay in ms without the start-up: of packets by the means of their 100 ms.
    pub(super) later: f64,
    #[serde(skip)]
    pub(super) series: Series,
}

impl Run {
    pub(super) fn of(run: &Finished<'_>) -> Self {
        let flow = run.flow(0);
        Self {
            mbps: run.mbps(|flow| flow.wire_bytes_arrived)[0],
            delays: (0..=100).filter_map(|percent| flow.delay.quantile_ms(f64::from(percent) / 100.0)).collect(),
            limited: flow.sender.limited_share(),
            cpu: run.cpu,
            trusted: run.trusted,
            later: later(run.series(), flow.start.as_secs_f64() + START_UP),
            series: run.series().clone(),
        }
    }

    /// One-way delay below which this many percent of packets are, ms; 0 when none arrived.
    pub(super) fn delay(&self, percent: usize) -> f64 {
        self.delays.get(percent).copied().unwrap_or(0.0)
    }

    /// Of the contestant's own flow.
    pub(super) fn flow(&self) -> &FlowSeries {
        static NONE: std::sync::OnceLock<FlowSeries> = std::sync::OnceLock::new();
        self.series.flows.first().unwrap_or_else(|| NONE.get_or_init(FlowSeries::default))
    }

    /// Mean rate of each whole second, Mbit/s.
    pub(super) fn each_second(&self) -> Vec<f64> {
        let size = (1.0 / STEP.as_secs_f64()).round() as usize;
        self.flow().throughput_mbps.chunks_exact(size).map(|chunk| chunk.iter().sum::<f64>() / size as f64).collect()
    }

    /// Mean rate between two times in seconds, Mbit/s.
    pub(super) fn rate(&self, flow: usize, from: f64, to: f64) -> f64 {
        let Some(flow) = self.series.flows.get(flow) else { return 0.0 };
        super::super::reading::rate(&self.series, flow, from, to - from)
    }
}

/// 95th percentile over packets of the first flow's queueing delay from a time on, ms; each packet has the mean of its step.
fn later(series: &Series, from: f64) -> f64 {
    let Some(flow) = series.flows.first() else { return 0.0 };
    let first = (from / series.step.as_secs_f64()).ceil() as usize;
    let steps = flow.queue_ms.iter().zip(&flow.throughput_mbps).skip(first);
    let mut steps: Vec<(f64, f64)> = steps.filter_map(|(queue, mbps)| queue.map(|queue| (queue, *mbps))).collect();
    steps.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut left = 0.95 * steps.iter().map(|(_, mbps)| mbps).sum::<f64>();
    let within = |(_, mbps): &&(f64, f64)| {
        left -= mbps;
        left <= 1e-9
    };
    steps.iter().find(within).map_or(0.0, |(queue, _)| *queue)
}

/// Whether two delays, ms, differ by at most this share of the second.
pub(super) fn close_ms(own: f64, native: f64, tolerance: f64) -> bool {
    (own - native).abs() <= (tolerance * native).max(CLOSE_MS)
}

/// Whether two rates differ by at most this share of the second.
pub(super) fn close(own: f64, native: f64, tolerance: f64) -> bool {
    (own - native).abs() <= tolerance * native
}

/// `-3 %`: how far a figure is from another.
pub(super) fn apart(own: f64, native: f64) -> String {
    if native > 0.0 { format!("{:+.1} %", 100.0 * (own / native - 1.0)) } else { "nothing to compare".to_owned() }
}

/// Largest distance between two distributions (Kolmogorov): how much of one lies elsewhere than the other, 0 to 1. Each by its
/// quantiles at 0, 1, ... 100 %; values within [`CLOSE_MS`] count as equal.
pub(super) fn distance(a: &[f64], b: &[f64]) -> f64 {
    let above = |a: &[f64], b: &[f64]| {
        let share = |(index, value): (usize, &f64)| {
            let below = b.partition_point(|other| *other <= value + CLOSE_MS);
            index as f64 / (a.len() - 1).max(1) as f64 - below as f64 / b.len().max(1) as f64
        };
        a.iter().enumerate().map(share).fold(0.0, f64::max)
    };
    if a.is_empty() || b.is_empty() { 1.0 } else { above(a, b).max(above(b, a)).min(1.0) }
}

/// The quantiles of several runs, averaged share by share.
pub(super) fn quantiles(runs: &[Run]) -> Vec<f64> {
    let all: Vec<&[f64]> = runs.iter().map(|run| run.delays.as_slice()).filter(|delays| delays.len() == 101).collect();
    let mean = |at: usize| all.iter().map(|delays| delays[at]).sum::<f64>() / all.len() as f64;
    if all.is_empty() { Vec::new() } else { (0..=100).map(mean).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_that_differ_are_apart() {
        let line =
            |from: f64, to: f64| (0..=100).map(|i| from + (to - from) * f64::from(i) / 100.0).collect::<Vec<_>>();
        let (low, high, wide) = (line(10.0, 60.0), line(100.0, 150.0), line(10.0, 110.0));
        assert!(distance(&low, &low) < 1e-9 && distance(&low, &line(10.5, 60.5)) < 1e-9);
        assert!(distance(&low, &high) > 0.98 && distance(&high, &low) > 0.98);
        assert!((distance(&low, &wide) - 0.5).abs() < 0.03, "{}", distance(&low, &wide));
        assert_eq!(distance(&[], &low), 1.0);
    }

    #[test]
    fn later_delays_leave_the_start_up_out() {
        let flow = FlowSeries {
            queue_ms: vec![Some(900.0), Some(7.0), None, Some(5.0), Some(60.0)],
            throughput_mbps: vec![100.0, 9.0, 0.0, 10.0, 1.0],
            ..FlowSeries::default()
        };
        let series = |flows| Series { step: STEP, flows, ..Series::default() };
        assert_eq!(later(&series(vec![flow.clone()]), 0.1), 7.0, "95 % of 20 are 19");
        assert_eq!(later(&series(vec![flow]), 0.0), 900.0);
        assert_eq!(later(&series(Vec::new()), 0.0), 0.0);
    }

    #[test]
    fn small_delays_agree_and_others_by_their_share() {
        assert!(close_ms(10.9, 10.0, 0.05) && !close_ms(11.2, 10.0, 0.05) && close_ms(104.0, 100.0, 0.05));
        assert!(close(9.6, 10.0, 0.05) && !close(9.4, 10.0, 0.05));
        assert_eq!((apart(9.0, 10.0), apart(10.5, 10.0)), ("-10.0 %".to_owned(), "+5.0 %".to_owned()));
    }
}
