//! Recording while a world runs, in virtual or in real time: what packets do to the outcome.

use std::collections::BTreeMap;

use paceline_cc::{Codepoint, Distribution, Nanos, Time};
use paceline_path::{DelaySplit, Packet};
use paceline_transport::{SenderStats, Steering};

use crate::config::{Flow, Workload};
use crate::media::StreamOutcome;
use crate::outcome::{FlowOutcome, FlowSeries, HopOutcome, MAX_COMPLETIONS, Outcome, Series, SplitSum};
use crate::program::ProgramOutcome;
use crate::telemetry::TelemetryOutcome;
use crate::topology::Graph;

/// Digits of quantiles over all flows.
const FINE: u8 = 3;
/// With this many flows or fewer each has as fine quantiles, else to two digits: memory stays below 200 MB for 500.
const FINE_FLOWS: usize = 32;
/// Flows beyond this many leave no series (our choice: no one reads more curves in one figure).
const SERIES_FLOWS: usize = 16;

/// Records a world. The driver says what happens; a flow is named by its index among the configured ones.
pub struct Recorder {
    flows: Vec<FlowRecorder>,
    totals: Totals,
    /// The flows' own distributions are less fine than those of all, which are therefore kept as well.
    coarse: bool,
    series: Option<Series>,
    next_sample: Time,
}

/// Distributions over all flows.
struct Totals {
    delay: Distribution,
    queue: Distribution,
    rtt: Distribution,
}

/// The end of a flow that has its controller at one moment, for the series.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Window in bytes.
    pub window: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Smoothed RTT.
    pub srtt: Option<Nanos>,
    /// The controller's own variables.
    pub variables: Vec<(&'static str, f64)>,
}

impl Sample {
    /// Of this end, now.
    pub fn of(sender: &dyn Steering) -> Self {
        let mut variables = Vec::new();
        sender.controller().describe(&mut |name, value| variables.push((name, value)));
        Self { window: sender.window(), in_flight: sender.in_flight(), srtt: sender.srtt(), variables }
    }
}

impl Recorder {
    /// For a world with these flows; `sample_every` is the step of the series, `None` records none.
    pub fn new(flows: &[Flow], sample_every: Option<Nanos>) -> Self {
        let step = sample_every.filter(|step| *step > Nanos::ZERO);
        let recorder = |(index, flow): (usize, &Flow)| {
            let single = !matches!(flow.workload, Workload::Poisson(_));
            FlowRecorder::new(index, flow, flows.len(), step.is_some() && single)
        };
        Self {
            flows: flows.iter().enumerate().map(recorder).collect(),
            totals: Totals {
                delay: Distribution::new(FINE),
                queue: Distribution::new(FINE),
                rtt: Distribution::new(FINE),
            },
            coarse: digits(flows.len()) < FINE,
            next_sample: step.map_or(Time::NEVER, |step| Time::ZERO + step),
            series: step.map(|step| Series { step, ..Series::default() }),
        }
    }

    /// A data packet entered the path.
    #[inline]
    pub fn entered(&mut self, flow: usize) {
        self.flows[flow].outcome.packets_entered += 1;
    }

    /// A data packet reached its receiver after `delay`. Copies made on the way are in no figure.
    #[inline]
    pub fn arrived<P>(&mut self, flow: usize, packet: &Packet<P>, delay: Nanos) {
        if packet.copy {
            return;
        }
        self.flows[flow].arrived(packet, delay);
        if self.coarse {
            self.totals.delay.record_quantiles(delay);
            self.totals.queue.record_quantiles(packet.delay.queue);
        }
    }

    /// A data packet that entered was dropped by the path. Copies made on the way are in no figure.
    pub fn dropped<P>(&mut self, flow: usize, packet: &Packet<P>) {
        self.flows[flow].outcome.packets_dropped += u64::from(!packet.copy);
    }

    /// An acknowledgement reached its sender, delayed like this.
    #[inline]
    pub fn acknowledged(&mut self, flow: usize, delay: &DelaySplit) {
        self.flows[flow].outcome.ack_split.record(delay);
    }

    /// The sender took an RTT sample.
    #[inline(always)]
    pub fn rtt(&mut self, flow: usize, rtt: Nanos) {
        self.flows[flow].outcome.rtt.record(rtt);
        if self.coarse {
            self.totals.rtt.record_quantiles(rtt);
        }
    }

    /// All RTT samples of a sender that kept them itself.
    pub fn rtts(&mut self, flow: usize, rtts: &Distribution) {
        self.flows[flow].outcome.rtt.add(rtts);
        if self.coarse {
            self.totals.rtt.add_quantiles(rtts);
        }
    }

    /// All of a flow's bytes were delivered, this long after it began.
    pub fn completed(&mut self, flow: usize, bytes: u64, took: Nanos) {
        self.flows[flow].completed(bytes, took);
    }

    /// The endpoints of a flow are gone: keeps their counters. A family's flows add up.
    pub fn retired(&mut self, flow: usize, now: Time, stats: &SenderStats, bytes_ready: u64) {
        self.flows[flow].retired(now, stats, bytes_ready);
    }

    /// What telemetry did for one of the flow's family.
    pub fn telemetry(&mut self, flow: usize, outcome: &TelemetryOutcome) {
        *self.flows[flow].outcome.telemetry.get_or_insert_default() += outcome;
    }

    /// What the program of a flow left.
    pub fn program(&mut self, flow: usize, outcome: ProgramOutcome) {
        self.flows[flow].outcome.program = Some(outcome);
    }

    /// What became of a flow's frames.
    pub fn frames(&mut self, flow: usize, streams: Vec<StreamOutcome>) {
        self.flows[flow].outcome.frames = streams;
    }

    /// When the next point of the series is due; [`Time::NEVER`] without a series.
    pub fn next_sample(&self) -> Time {
        self.next_sample
    }

    /// Ends a step of the series. `capacity` is what the link that is shown could have carried in it, `queued` the bytes
    /// waiting there now, `of` gives the state of a flow that is alive.
    pub fn sample(&mut self, capacity: Option<u64>, queued: u64, mut of: impl FnMut(usize) -> Option<Sample>) {
        let Some(series) = &mut self.series else { return };
        let points = series.capacity_mbps.len();
        series.capacity_mbps.push(capacity.map_or(0.0, |bytes| mbps(bytes, series.step)));
        series.queue_bytes.push(queued);
        for recorder in &mut self.flows {
            recorder.sample(series.step, points, &mut of);
        }
        self.next_sample += series.step;
    }

    /// The outcome; `hops` are what those of the graph did, `events` is a measure of work.
    pub fn finish(self, graph: Graph, hops: Vec<HopOutcome>, events: u64) -> Outcome {
        let Self { flows: recorders, totals, coarse, mut series, .. } = self;
        let Totals { mut delay, mut queue, mut rtt } = totals;
        let mut flows = Vec::with_capacity(recorders.len());
        for recorder in recorders {
            let (outcome, points) = recorder.finish();
            for (total, part) in [(&mut delay, &outcome.delay), (&mut queue, &outcome.queue), (&mut rtt, &outcome.rtt)]
            {
                if coarse {
                    total.add_extremes(part);
                } else {
                    total.add(part);
                }
            }
            flows.push(outcome);
            if let (Some(series), Some(points)) = (&mut series, points) {
                series.flows.push(points);
            }
        }
        let routers = Vec::new();
        Outcome { flows, delay, queue, rtt, graph, hops, routers, series, fired: Vec::new(), events, failure: None }
    }
}

/// Records one configured flow (or a family of them).
struct FlowRecorder {
    outcome: FlowOutcome,
    mss: u32,
    series: Option<FlowSeries>,
    /// Its window is seen: not that of a program.
    inside: bool,
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

impl FlowRecorder {
    fn new(index: usize, flow: &Flow, flows: usize, series: bool) -> Self {
        let digits = digits(flows);
        let outcome = FlowOutcome {
            index,
            start: flow.start,
            end: flow.start,
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
            telemetry: flow.telemetry.as_ref().map(|_| TelemetryOutcome::default()),
            program: None,
            frames: Vec::new(),
            capacity_bytes: None,
        };
        let series = (series && index < SERIES_FLOWS).then(|| FlowSeries { index, ..FlowSeries::default() });
        let inside = flow.via.program().is_none();
        Self { outcome, mss: flow.mss, series, inside, step: Step::default() }
    }

    #[inline]
    fn arrived<P>(&mut self, packet: &Packet<P>, delay: Nanos) {
        let outcome = &mut self.outcome;
        outcome.packets_arrived += 1;
        outcome.wire_bytes_arrived += u64::from(packet.size);
        outcome.ce_packets += u64::from(packet.ecn == Codepoint::Ce);
        outcome.delay.record(delay);
        outcome.queue.record(packet.delay.queue);
        outcome.data_split.record(&packet.delay);
        if self.series.is_some() {
            self.step.wire_bytes += u64::from(packet.size);
            self.step.packets += 1;
            self.step.queue_sum += u128::from(packet.delay.queue.as_nanos());
            self.step.queue_max = self.step.queue_max.max(packet.delay.queue);
        }
    }

    fn completed(&mut self, bytes: u64, took: Nanos) {
        self.outcome.fct.record(took);
        if self.outcome.completions.len() < MAX_COMPLETIONS {
            self.outcome.completions.push((bytes, took));
        }
    }

    fn retired(&mut self, now: Time, stats: &SenderStats, bytes_ready: u64) {
        self.outcome.sender += stats;
        self.outcome.bytes_ready += bytes_ready;
        self.outcome.end = self.outcome.end.max(now);
    }

    /// The outcome, and the series when there is one.
    fn finish(self) -> (FlowOutcome, Option<FlowSeries>) {
        (self.outcome, self.series)
    }

    /// Ends a step of the series; `points` is how many there were before.
    fn sample(&mut self, step: Nanos, points: usize, of: &mut impl FnMut(usize) -> Option<Sample>) {
        let gathered = std::mem::take(&mut self.step);
        let Some(series) = &mut self.series else { return };
        series.throughput_mbps.push(mbps(gathered.wire_bytes, step));
        let queued = gathered.packets > 0;
        series.queue_ms.push(queued.then(|| gathered.queue_sum as f64 / gathered.packets as f64 / 1e6));
        series.queue_max_ms.push(queued.then(|| gathered.queue_max.as_millis_f64()));
        if !self.inside {
            return series.srtt_ms.push(None);
        }
        let packets = |bytes: u64| bytes as f64 / f64::from(self.mss);
        let sample = of(series.index).unwrap_or_default();
        series.window_packets.push(packets(sample.window));
        series.in_flight_packets.push(packets(sample.in_flight));
        series.srtt_ms.push(sample.srtt.map(Nanos::as_millis_f64));
        for (name, value) in sample.variables {
            put(&mut series.variables, name, value, points);
        }
        for values in series.variables.values_mut() {
            values.resize(points + 1, None);
        }
    }
}

/// Digits of each flow's quantiles.
fn digits(flows: usize) -> u8 {
    if flows <= FINE_FLOWS { FINE } else { 2 }
}

pub(crate) fn mbps(bytes: u64, step: Nanos) -> f64 {
    bytes as f64 * 8e3 / step.as_nanos() as f64
}

fn put(variables: &mut BTreeMap<&'static str, Vec<Option<f64>>>, name: &'static str, value: f64, points: usize) {
    let values = variables.entry(name).or_default();
    values.resize(points, None);
    values.push(Some(value));
}
