//! What the series and distributions of runs say: when a rate was reached, how high a queue stood, how it spread.

use paceline_experiment::{FlowSeries, Series};

use paceline_lab::stats::Median;
use paceline_report::svg::short;

/// Bytes of a full packet on the wire: what queues are counted in.
const PACKET_BITS: f64 = 1500.0 * 8.0;

/// How many seconds after `from` a flow's mean rate over the `window` seconds before reaches `mbps`; `None` when it never
/// does.
pub(super) fn reached(series: &Series, flow: &FlowSeries, from: f64, window: f64, mbps: f64) -> Option<f64> {
    let step = series.step.as_secs_f64();
    let width = ((window / step).round() as usize).max(1);
    let rates = &flow.throughput_mbps;
    let first = (from / step).round() as usize;
    // The window begins with the flow: before it there was nothing to reach.
    let last = (first..=rates.len().saturating_sub(width))
        .find(|at| rates[*at..at + width].iter().sum::<f64>() >= mbps * width as f64);
    last.map(|at| ((at + width) as f64 * step - from).max(0.0))
}

/// A flow's mean rate over `length` seconds from a time on, Mbit/s, as far as the run goes.
pub(super) fn rate(series: &Series, flow: &FlowSeries, from: f64, length: f64) -> f64 {
    let step = series.step.as_secs_f64();
    let (first, last) = ((from / step).round() as usize, ((from + length) / step).round() as usize);
    mean(flow.throughput_mbps.get(first..last.min(flow.throughput_mbps.len())).unwrap_or(&[]))
}

/// Largest queueing delay in ms of packets that arrived between two times in seconds.
pub(super) fn peak_ms(series: &Series, from: f64, to: f64) -> f64 {
    let step = series.step.as_secs_f64();
    let within = |flow: &FlowSeries| {
        let (first, last) = ((from / step) as usize, ((to / step).ceil() as usize).min(flow.queue_max_ms.len()));
        flow.queue_max_ms.get(first..last).unwrap_or(&[]).iter().flatten().copied().fold(0.0, f64::max)
    };
    series.flows.iter().map(within).fold(0.0, f64::max)
}

/// Packets of 1500 bytes that make up a delay of `ms` at `mbps`.
pub(super) fn packets(ms: f64, mbps: f64) -> f64 {
    ms * 1e3 * mbps / PACKET_BITS
}

/// When a flow's start-up ended, in seconds from the start of the run: the first point at which it neither chirps nor is
/// below its slow-start threshold. `None` when the run ended before.
pub(super) fn start_up_end(series: &Series, flow: &FlowSeries) -> Option<f64> {
    let step = series.step.as_secs_f64();
    let starting = flow.variables.get("starting")?;
    let chirping = flow.variables.get("chirping");
    let chirps = |at: usize| chirping.and_then(|values| values.get(at).copied().flatten()) == Some(1.0);
    let began = starting.iter().position(|value| *value == Some(1.0))?;
    let ended = (began..starting.len()).position(|at| starting[at] == Some(0.0) && !chirps(at))?;
    Some((began + ended + 1) as f64 * step)
}

/// Longest time in seconds for which nothing of the flow arrived although the link could carry, and nothing waited at it:
/// the sender was silent. From its second packet on (the first may be its handshake's), until a time.
pub(super) fn longest_silence(series: &Series, flow: &FlowSeries, to: f64) -> f64 {
    let step = series.step.as_secs_f64();
    let last = ((to / step) as usize).min(flow.throughput_mbps.len());
    let mut arrived = 0.0;
    let first = flow.throughput_mbps.iter().position(|mbps| {
        arrived += mbps * 1e6 * step;
        arrived > PACKET_BITS
    });
    let Some(first) = first else { return to };
    let (mut longest, mut silent) = (0_u32, 0);
    for at in first..last {
        let idle = flow.throughput_mbps[at] == 0.0 && series.queue_bytes[at] == 0 && series.capacity_mbps[at] > 0.0;
        silent = if idle { silent + 1 } else { 0 };
        longest = longest.max(silent);
    }
    f64::from(longest) * step
}

/// Jain's index of the flows' bytes between two times.
pub(super) fn jain(series: &Series, from: f64, to: f64) -> f64 {
    let step = series.step.as_secs_f64();
    let (first, last) = ((from / step).round() as usize, (to / step).round() as usize);
    let share = |flow: &FlowSeries| {
        let last = last.min(flow.throughput_mbps.len());
        flow.throughput_mbps.get(first..last).unwrap_or(&[]).iter().sum::<f64>()
    };
    paceline_lab::measure::jain(&series.flows.iter().map(share).collect::<Vec<_>>())
}

/// The median of a figure over runs, with its interval where there are enough.
pub(super) fn over<R>(runs: &[R], figure: impl Fn(&R) -> f64) -> Median {
    let values: Vec<f64> = runs.iter().map(figure).collect();
    Median::of(&values).unwrap_or(Median { median: f64::NAN, q25: f64::NAN, q75: f64::NAN, interval: None })
}

/// The same without its spread.
pub(super) fn typical<R>(runs: &[R], figure: impl Fn(&R) -> f64) -> f64 {
    over(runs, figure).median
}

/// `9.81 [9.7, 9.9]`: the interval where there is one.
pub(super) fn stated(median: &Median) -> String {
    match median.interval {
        Some((low, high)) => format!("{} [{}, {}]", short(median.median), short(low), short(high)),
        None => short(median.median),
    }
}

/// `1 run`, `2 runs`.
pub(super) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// The median, 0 of an empty sample.
pub(super) fn median(values: &[f64]) -> f64 {
    Median::of(values).map_or(0.0, |median| median.median)
}

pub(super) fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

pub(super) fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

pub(super) fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

/// Times some of which were never reached: their median, `None` when that is among those.
pub(super) fn median_reached(times: &[Option<f64>]) -> Option<f64> {
    let mut sorted: Vec<f64> = times.iter().map(|time| time.unwrap_or(f64::INFINITY)).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.get(sorted.len() / 2).copied()?;
    middle.is_finite().then_some(middle)
}

#[cfg(test)]
mod tests {
    use paceline_cc::Nanos;

    use super::*;

    /// Points of 10 ms.
    fn series(rates: &[f64], queues: &[Option<f64>], variables: &[(&'static str, &[f64])]) -> Series {
        let flow = FlowSeries {
            throughput_mbps: rates.to_vec(),
            queue_max_ms: queues.to_vec(),
            variables: variables.iter().map(|(name, v)| (*name, v.iter().map(|v| Some(*v)).collect())).collect(),
            ..FlowSeries::default()
        };
        Series {
            step: Nanos::from_millis(10),
            capacity_mbps: vec![10.0; rates.len()],
            queue_bytes: vec![0; rates.len()],
            flows: vec![flow],
        }
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn a_rate_is_reached_at_the_end_of_its_window() {
        let run = series(&[9.0, 0.0, 2.0, 4.0, 6.0, 6.0], &[], &[]);
        assert!(near(reached(&run, &run.flows[0], 0.01, 0.02, 5.0).unwrap(), 0.04));
        assert!(near(reached(&run, &run.flows[0], 0.01, 0.01, 2.0).unwrap(), 0.02));
        assert_eq!(reached(&run, &run.flows[0], 0.01, 0.02, 7.0), None);
        assert_eq!(reached(&run, &run.flows[0], 1.0, 0.02, 1.0), None);
        assert!(near(rate(&run, &run.flows[0], 0.02, 0.02), 3.0) && near(rate(&run, &run.flows[0], 0.05, 1.0), 6.0));
    }

    #[test]
    fn peaks_are_those_between() {
        let run = series(&[1.0; 4], &[Some(9.0), Some(1.0), None, Some(2.0)], &[]);
        assert_eq!(peak_ms(&run, 0.01, 0.03), 1.0);
        assert_eq!(peak_ms(&run, 0.01, 9.0), 2.0);
        assert_eq!(packets(1.2, 100.0), 10.0);
    }

    #[test]
    fn a_start_up_chirps_or_starts() {
        let both: [(&str, &[f64]); 2] = [("chirping", &[1.0, 1.0, 1.0, 0.0]), ("starting", &[1.0, 1.0, 0.0, 0.0])];
        let run = series(&[1.0; 4], &[], &both);
        assert!(near(start_up_end(&run, &run.flows[0]).unwrap(), 0.04));
        let run = series(&[1.0; 4], &[], &both[1..]);
        assert!(near(start_up_end(&run, &run.flows[0]).unwrap(), 0.03));
        let run = series(&[1.0; 2], &[], &[("starting", &[1.0, 1.0])]);
        assert_eq!(start_up_end(&run, &run.flows[0]), None);
    }

    #[test]
    fn silence_is_the_senders() {
        let mut run = series(&[0.1, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 2.0], &[], &[]);
        assert!(near(longest_silence(&run, &run.flows[0], 1.0), 0.03));
        run.queue_bytes[5] = 1500;
        assert!(near(longest_silence(&run, &run.flows[0], 1.0), 0.01));
        let run = series(&[0.0; 5], &[], &[]);
        assert_eq!(longest_silence(&run, &run.flows[0], 1.0), 1.0, "it never began");
    }

    #[test]
    fn one_is_not_many() {
        assert_eq!([0, 1, 2].map(|count| counted(count, "run")), ["0 runs", "1 run", "2 runs"]);
    }

    #[test]
    fn what_was_never_reached_is_last() {
        assert_eq!(median_reached(&[Some(1.0), None, Some(3.0)]), Some(3.0));
        assert_eq!(median_reached(&[Some(1.0), None, None]), None);
        assert_eq!(median_reached(&[]), None);
    }
}
