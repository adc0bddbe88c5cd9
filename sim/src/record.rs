//! Recording while a world runs: what packets do to the outcome.

use std::collections::BTreeMap;

use paceline_cc::{Nanos, Time};
use paceline_path::{Codepoint, Packet};
use paceline_transport::{Sender, SenderStats};

use crate::outcome::{Distribution, FlowOutcome, FlowSeries, MAX_COMPLETIONS, SplitSum};
use crate::world::Body;

/// With so many flows or fewer each has quantiles to three digits, else to two: memory stays below 200 MB for 500.
const FINE_FLOWS: usize = 32;
/// Flows beyond this many leave no series (our choice: nobody reads more curves in one figure).
pub(crate) const SERIES_FLOWS: usize = 16;

/// Records one configured flow (or a family of them).
pub(crate) struct Recorder {
    pub(crate) outcome: FlowOutcome,
    /// Data packets that entered but whose fate nobody waited for.
    pub(crate) under_way: u64,
    series: Option<FlowSeries>,
    step: Step,
}

/// What has gathered since the last point of the series.
#[derive(Default)]
struct Step {
    wire_bytes: u64,
    packets: u64,
    queue_sum: u128,
    queue_max: Nanos,
}

impl Recorder {
    pub(crate) fn new(index: usize, start: Time, flows: usize, series: bool) -> Self {
        let digits = if flows <= FINE_FLOWS { 3 } else { 2 };
        let outcome = FlowOutcome {
            index,
            start,
            end: start,
            packets_entered: 0,
            packets_arrived: 0,
            packets_dropped: 0,
            wire_bytes_arrived: 0,
            bytes_ready: 0,
            ce_packets: 0,
            delay: Distribution::new(digits),
            queue: Distribution::new(digits),
            rtt: Distribution::new(digits),
            data_split: SplitSum::default(),
            ack_split: SplitSum::default(),
            sender: SenderStats::default(),
            completions: Vec::new(),
            fct: Distribution::new(digits),
        };
        let series = (series && index < SERIES_FLOWS).then(|| FlowSeries { index, ..FlowSeries::default() });
        Self { outcome, under_way: 0, series, step: Step::default() }
    }

    pub(crate) fn data_arrived(&mut self, packet: &Packet<Body>, delay: Nanos) {
        let outcome = &mut self.outcome;
        outcome.packets_arrived += 1;
        outcome.wire_bytes_arrived += u64::from(packet.size);
        outcome.ce_packets += u64::from(packet.ecn == Codepoint::Ce);
        outcome.delay.record(delay);
        outcome.queue.record(packet.delay.queue);
        outcome.data_split.record(&packet.delay);
        self.step.wire_bytes += u64::from(packet.size);
        self.step.packets += 1;
        self.step.queue_sum += u128::from(packet.delay.queue.as_nanos());
        self.step.queue_max = self.step.queue_max.max(packet.delay.queue);
    }

    pub(crate) fn completed(&mut self, bytes: u64, took: Nanos) {
        self.outcome.fct.record(took);
        if self.outcome.completions.len() < MAX_COMPLETIONS {
            self.outcome.completions.push((bytes, took));
        }
    }

    /// The endpoints of one flow are gone: keep their counters.
    pub(crate) fn retire(&mut self, now: Time, sender: &dyn Sender, bytes_ready: u64) {
        let (sum, stats) = (&mut self.outcome.sender, sender.stats());
        sum.packets_sent += stats.packets_sent;
        sum.bytes_sent += stats.bytes_sent;
        sum.retransmits += stats.retransmits;
        sum.packets_lost += stats.packets_lost;
        sum.spurious += stats.spurious;
        sum.recoveries += stats.recoveries;
        sum.timeouts += stats.timeouts;
        sum.probes += stats.probes;
        sum.bytes_delivered += stats.bytes_delivered;
        sum.ce_packets += stats.ce_packets;
        sum.bad_feedback += stats.bad_feedback;
        sum.limited_below += stats.limited_below;
        self.outcome.bytes_ready += bytes_ready;
        self.outcome.end = self.outcome.end.max(now);
    }

    /// The outcome, and the series when there is one.
    pub(crate) fn finish(mut self) -> (FlowOutcome, Option<FlowSeries>) {
        let accounted = self.outcome.packets_arrived + self.under_way;
        self.outcome.packets_dropped = self.outcome.packets_entered.saturating_sub(accounted);
        (self.outcome, self.series)
    }

    /// Ends a step of the series; `points` is how many there were before.
    pub(crate) fn sample(&mut self, sender: Option<&dyn Sender>, mss: u32, step: Nanos, points: usize) {
        let gathered = std::mem::take(&mut self.step);
        let Some(series) = &mut self.series else { return };
        series.throughput_mbps.push(gathered.wire_bytes as f64 * 8e3 / step.as_nanos() as f64);
        let queued = gathered.packets > 0;
        series.queue_ms.push(queued.then(|| gathered.queue_sum as f64 / gathered.packets as f64 / 1e6));
        series.queue_max_ms.push(queued.then(|| gathered.queue_max.as_millis_f64()));
        let packets = |bytes: u64| bytes as f64 / f64::from(mss);
        series.window_packets.push(sender.map_or(0.0, |sender| packets(sender.window())));
        series.in_flight_packets.push(sender.map_or(0.0, |sender| packets(sender.in_flight())));
        series.srtt_ms.push(sender.and_then(Sender::srtt).map(Nanos::as_millis_f64));
        if let Some(sender) = sender {
            sender.controller().describe(&mut |name, value| {
                put(&mut series.variables, name, value, points);
            });
        }
        for values in series.variables.values_mut() {
            values.resize(points + 1, None);
        }
    }
}

fn put(variables: &mut BTreeMap<&'static str, Vec<Option<f64>>>, name: &'static str, value: f64, points: usize) {
    let values = variables.entry(name).or_default();
    values.resize(points, None);
    values.push(Some(value));
}
