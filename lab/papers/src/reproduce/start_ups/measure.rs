//! What is measured of a start.

use paceline_experiment::{FlowSeries, Series};

use crate::reproduce::bench::Finished;
use crate::reproduce::prelude::*;
use crate::reproduce::reading::peak_ms;
use crate::reproduce::watch::{End, Exit};

/// Between points of a series.
pub(super) const STEP: Nanos = Nanos::from_millis(1);
/// A flow has what is free when it has this share of it.
const ENOUGH: f64 = 0.8;
/// The queue is looked at until so many round trips after the end of the start-up.
const AFTER_END: f64 = 4.0;
/// Bytes on the wire of a full packet: what windows and products are counted in.
pub(super) const PACKET: f64 = 1500.0;
/// Bytes of its payload.
pub(super) const PAYLOAD: f64 = 1448.0;

/// Where a flow starts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    /// Round trip of empty queues, seconds.
    pub(super) rtt: f64,
    /// Over how long a rate must be held, seconds: a round trip, or 20 packet times if that is longer.
    pub(super) window: f64,
    /// What is free, of what the link can carry.
    pub(super) share: f64,
    /// What the link can carry in Mbit/s, where the series does not know it.
    pub(super) mbps: Option<f64>,
}

impl Frame {
    /// Of a link of a constant rate, alone.
    pub(super) fn constant(rtt: f64, mbps: f64) -> Self {
        Self { rtt, window: rtt.max(20.0 * PACKET * 8e-6 / mbps), share: 1.0, mbps: None }
    }
}

/// How a start went.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    /// Seconds until it has, and keeps for another window, 80 % of what is free; `None`: never.
    pub(super) t80: Option<f64>,
    /// The end of the start-up, from the flow's start; `None`: it had not ended.
    pub(super) end: Option<End>,
    /// Largest queueing delay from the first packet until 4 RTT after the end, ms, of all flows.
    pub(super) peak_ms: f64,
    /// Packets that queues dropped in that time: its own, of others.
    pub(super) lost: [u64; 2],
    /// Longest silence after its first loss, seconds.
    pub(super) silence: f64,
    /// It shows the path: the emulator kept time.
    pub(super) trusted: bool,
}

impl Start {
    /// Of the flow that starts last.
    pub(super) fn of(run: &Finished<'_>, flow: usize, frame: &Frame) -> Self {
        let (series, start) = (run.series(), run.start(flow));
        let beginning = run.seen.beginnings.get(flow).copied().unwrap_or_default();
        let length = series.step.as_secs_f64() * series.capacity_mbps.len() as f64;
        let until = beginning.end.map_or(length, |end| end.at + AFTER_END * frame.rtt);
        let within = run.seen.drops.iter().filter(|drop| drop.congestion && (start..until).contains(&drop.at));
        let (own, all) = within.fold((0, 0), |(own, all), drop| (own + u64::from(drop.flow as usize == flow), all + 1));
        let t80 = series.flows.get(flow).and_then(|points| reached(series, points, start, frame));
        Self {
            t80,
            end: beginning.end.map(|end| End { at: end.at - start, ..end }),
            peak_ms: peak_ms(series, start, until),
            lost: [own, all - own],
            silence: beginning.silence,
            trusted: run.trusted,
        }
    }

    /// Whether a loss ended it, or it never ended.
    pub(super) fn by_loss(&self) -> bool {
        self.end.is_none_or(|end| end.exit == Exit::Loss)
    }

    /// The window at the end in packets; not a number where it had not ended.
    pub(super) fn window(&self) -> f64 {
        self.end.map_or(f64::NAN, |end| end.window as f64 / PAYLOAD)
    }
}

/// When 80 % of what is free was delivered over a window for the first time such that it was again over the next one.
fn reached(series: &Series, flow: &FlowSeries, from: f64, frame: &Frame) -> Option<f64> {
    let step = series.step.as_secs_f64();
    let width = ((frame.window / step).round() as usize).max(1);
    let first = (from / step).round() as usize;
    // What is missing of enough, summed up: less than nothing over a window is enough.
    let mut sum = 0.0;
    let missing = flow.throughput_mbps.iter().zip(&series.capacity_mbps).map(|(mbps, capacity)| {
        sum += ENOUGH * frame.share * frame.mbps.unwrap_or(*capacity) - mbps;
        sum
    });
    let missing: Vec<f64> = std::iter::once(0.0).chain(missing).collect();
    let enough = |at: usize| missing[at + width] <= missing[at] + 1e-6;
    let last = missing.len().checked_sub(2 * width + 1)?;
    let at = (first..=last).find(|at| enough(*at) && enough(at + width))?;
    Some((at + width) as f64 * step - from)
}

/// Several starts under one condition.
#[derive(Clone, Debug)]
pub(super) struct Starts {
    pub(super) runs: Vec<Start>,
    /// Round trip in seconds, bandwidth times it in packets.
    pub(super) rtt: f64,
    pub(super) bdp: f64,
}

impl Starts {
    /// The median of t80 in seconds; infinite where it is never.
    pub(super) fn t80(&self) -> f64 {
        median_reached(&self.runs.iter().map(|run| run.t80).collect::<Vec<_>>()).unwrap_or(f64::INFINITY)
    }

    /// The median of the largest queues, ms.
    pub(super) fn peak_ms(&self) -> f64 {
        typical(&self.runs, |run| run.peak_ms)
    }

    /// The mean of its own losses and of others', packets.
    pub(super) fn lost(&self) -> [f64; 2] {
        [0, 1].map(|whose| mean(&self.runs.iter().map(|run| run.lost[whose] as f64).collect::<Vec<_>>()))
    }

    /// The share of runs that a loss ended.
    pub(super) fn by_loss(&self) -> f64 {
        self.runs.iter().filter(|run| run.by_loss()).count() as f64 / self.runs.len().max(1) as f64
    }

    /// The median of the windows that start-ups left, in products; of those that ended.
    pub(super) fn window(&self) -> f64 {
        let ended: Vec<f64> = self.runs.iter().map(Start::window).filter(|window| window.is_finite()).collect();
        if ended.is_empty() { f64::NAN } else { median(&ended) / self.bdp }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(rates: &[f64]) -> Series {
        let flow = FlowSeries { throughput_mbps: rates.to_vec(), ..FlowSeries::default() };
        Series {
            step: Nanos::from_millis(10),
            capacity_mbps: vec![10.0; rates.len()],
            queue_bytes: vec![0; rates.len()],
            flows: vec![flow],
        }
    }

    fn frame(window: f64, share: f64) -> Frame {
        Frame { rtt: window, window, share, mbps: None }
    }

    #[test]
    fn what_is_free_must_be_had_twice() {
        let reached = |rates: &[f64], from, frame: Frame| {
            let series = series(rates);
            reached(&series, &series.flows[0], from, &frame)
        };
        let near = |a: Option<f64>, b: f64| a.is_some_and(|a| (a - b).abs() < 1e-9);
        let rates = [0.0, 8.0, 8.0, 2.0, 2.0, 8.0, 8.0, 8.0, 8.0];
        assert!(near(reached(&rates, 0.0, frame(0.02, 1.0)), 0.07));
        assert!(near(reached(&rates, 0.02, frame(0.01, 0.2)), 0.01), "a fifth of it is there at once");
        assert_eq!(reached(&rates, 0.0, frame(0.03, 1.0)), None, "the run is over before");
        let known = Frame { mbps: Some(2.0), ..frame(0.02, 1.0) };
        assert!(near(reached(&rates, 0.0, known), 0.02));
        assert_eq!(reached(&[], 0.0, frame(0.02, 1.0)), None);
    }

    #[test]
    fn starts_that_never_arrive_are_the_longest() {
        let start = |t80, exit: Option<Exit>, lost| Start {
            t80,
            end: exit.map(|exit| End { at: 1.0, window: 14_480, exit }),
            peak_ms: 2.0,
            lost: [lost, 0],
            silence: 0.0,
            trusted: true,
        };
        let runs =
            vec![start(None, None, 4), start(Some(1.0), Some(Exit::Decision), 0), start(None, Some(Exit::Loss), 2)];
        let starts = Starts { runs, rtt: 0.1, bdp: 20.0 };
        assert_eq!((starts.t80(), starts.lost()[0], starts.window()), (f64::INFINITY, 2.0, 0.5));
        assert!((starts.by_loss() - 2.0 / 3.0).abs() < 1e-9);
    }
}
