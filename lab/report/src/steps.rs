//! Points over time, in steps that are long enough to say something.

use paceline_cc::Nanos;
use paceline_experiment::{FlowSeries, Series};
use paceline_lab::record::{Record, Run};

use super::data::Contestant;

/// A step has at least this many packets of a typical flow: with fewer, single packets make it jump (our choice).
const PACKETS: f64 = 20.0;
/// Bits of a full packet on the wire.
const PACKET_BITS: f64 = 1500.0 * 8.0;
/// A round trip counts for at most this many times that of the empty path (our choice: a huge queue must not blur its own rise).
const FULL: f64 = 3.0;
/// This many points are left whatever else (our choice: fewer are not a curve).
const LEAST_POINTS: usize = 60;

/// One run of a contestant, over time.
#[derive(Debug)]
pub(crate) struct Shown<'a> {
    pub(crate) record: &'a Record,
    pub(crate) series: Series,
    /// What traffic without a controller sends over the link that is shown, Mbit/s, on average; empty where there is none.
    pub(crate) cross_mbps: Vec<f64>,
}

impl<'a> Shown<'a> {
    /// Of a run that has points.
    pub(crate) fn of(run: &'a Run) -> Option<Self> {
        let series = run.series.clone().filter(|series| !series.capacity_mbps.is_empty())?;
        Some(Self { record: &run.record, series, cross_mbps: run.cross_mbps.clone() })
    }

    /// Length in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.series.step.as_secs_f64() * self.series.capacity_mbps.len() as f64
    }
}

/// Joins steps until each is as long as a round trip and has [`PACKETS`] packets: the same for all contestants, so that panels
/// can be compared.
pub(crate) fn fold(contestants: &mut [Contestant<'_>]) {
    let all = || contestants.iter().flat_map(|c| &c.shown);
    let Some(first) = all().next() else { return };
    let (step, points) = (first.series.step.as_secs_f64(), first.series.capacity_mbps.len());
    let mut spans: Vec<f64> = all().filter_map(|shown| need_s(shown.record)).collect();
    spans.sort_unstable_by(f64::total_cmp);
    // The median: one starved contestant must not blur the others.
    let Some(span) = spans.get(spans.len() / 2) else { return };
    let join = ((span / step).ceil() as usize).clamp(1, (points / LEAST_POINTS).max(1));
    if join > 1 {
        for shown in contestants.iter_mut().flat_map(|c| &mut c.shown) {
            shown.series = joined(&shown.series, join);
            shown.cross_mbps = means(&shown.cross_mbps, join);
        }
    }
}

/// A round trip, and [`PACKETS`] packets of a flow.
fn need_s(record: &Record) -> Option<f64> {
    let flows = record.flows.iter().filter(|flow| flow.completions.is_none()).count().max(1) as f64;
    let packets = PACKETS * PACKET_BITS * flows / (record.throughput_mbps.max(1e-3) * 1e6);
    let rtt = record.rtt_ms?;
    Some(packets.max(rtt.p50.min(FULL * rtt.min) / 1e3))
}

/// The steps in which a flow had a window: neither before its start nor after its end.
pub(crate) fn lived(flow: &FlowSeries) -> impl Iterator<Item = usize> {
    flow.window_packets.iter().enumerate().filter(|(_, window)| **window > 0.0).map(|(step, _)| step)
}

fn joined(series: &Series, join: usize) -> Series {
    let flow = |flow: &FlowSeries| FlowSeries {
        index: flow.index,
        throughput_mbps: means(&flow.throughput_mbps, join),
        queue_ms: known_means(&flow.queue_ms, join),
        queue_max_ms: chunks(&flow.queue_max_ms, join, |values| values.iter().flatten().copied().reduce(f64::max)),
        window_packets: means(&flow.window_packets, join),
        in_flight_packets: means(&flow.in_flight_packets, join),
        srtt_ms: known_means(&flow.srtt_ms, join),
        // States must not be averaged: each step has its last value.
        variables: flow
            .variables
            .iter()
            .map(|(name, values)| (*name, chunks(values, join, |values| values.last().copied().flatten())))
            .collect(),
    };
    Series {
        step: Nanos::from_nanos(series.step.as_nanos().saturating_mul(join as u64)),
        capacity_mbps: means(&series.capacity_mbps, join),
        queue_bytes: chunks(&series.queue_bytes, join, |values| values.last().copied().unwrap_or(0)),
        flows: series.flows.iter().map(flow).collect(),
    }
}

fn chunks<T, U>(values: &[T], join: usize, of: impl Fn(&[T]) -> U) -> Vec<U> {
    values.chunks(join).map(of).collect()
}

fn means(values: &[f64], join: usize) -> Vec<f64> {
    chunks(values, join, |values| values.iter().sum::<f64>() / values.len() as f64)
}

fn known_means(values: &[Option<f64>], join: usize) -> Vec<Option<f64>> {
    chunks(values, join, |values| {
        let known: Vec<f64> = values.iter().flatten().copied().collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_steps_are_means_of_what_is_known() {
        let flow = FlowSeries {
            throughput_mbps: vec![0.0, 4.0, 8.0],
            queue_ms: vec![None, Some(3.0), None],
            ..FlowSeries::default()
        };
        let series = Series {
            step: Nanos::from_millis(10),
            capacity_mbps: vec![8.0; 3],
            queue_bytes: vec![1, 2, 3],
            flows: vec![flow],
        };
        let series = joined(&series, 2);
        assert_eq!(series.step, Nanos::from_millis(20));
        assert_eq!(
            (series.flows[0].throughput_mbps.as_slice(), &series.queue_bytes),
            ([2.0, 8.0].as_slice(), &vec![2, 3])
        );
        assert_eq!(series.flows[0].queue_ms, [Some(3.0), None]);
    }
}
