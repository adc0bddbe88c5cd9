//! The small worlds that claims are tested on.

use std::sync::Arc;

use paceline_cc::{Nanos, Rate, Time};
use paceline_experiment::{Config, Cross, Flow, Outcome, RunFailure, Seed, Series, Topology, Way};
use paceline_path::{Direction as PathSpec, LossModel, PathError, Trace};

use super::SEED;
use paceline_lab::contestant::Contestant;
use paceline_lab::run;

/// Why a small world could not be run.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// One of its paths cannot be built.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The simulator ended the run.
    #[error(transparent)]
    Failure(#[from] RunFailure),
}

/// A dumbbell: one bottleneck downwards, a pure delay upwards, equal flows.
pub(super) struct Dumbbell {
    down: PathSpec,
    down_trace: Option<Arc<Trace>>,
    up_trace: Option<Arc<Trace>>,
    delay: Nanos,
    flows: Vec<Flow>,
    cross: Vec<Cross>,
    seconds: u64,
    seed: u64,
    step: Option<Nanos>,
}

impl Dumbbell {
    /// A link of `mbps` behind `queue`, `rtt_ms` there and back.
    pub(super) fn new(mbps: f64, rtt_ms: f64, queue: &str) -> Self {
        let down = PathSpec { rate: Some(Rate::from_mbps(mbps)), ..PathSpec::default() };
        Self::over(down, rtt_ms, queue)
    }

    /// Links that follow traces, the one upwards without a limit to its queue.
    pub(super) fn on_traces(down: Arc<Trace>, up: Arc<Trace>, rtt_ms: f64, queue: &str) -> Self {
        let spec = PathSpec { trace: Some("down".to_owned()), ..PathSpec::default() };
        Self { down_trace: Some(down), up_trace: Some(up), ..Self::over(spec, rtt_ms, queue) }
    }

    fn over(down: PathSpec, rtt_ms: f64, queue: &str) -> Self {
        let delay = Nanos::from_millis_f64(rtt_ms / 2.0);
        let queue = Some(queue.parse().expect("queues of claims parse: tested"));
        let down = PathSpec { queue, delay, ..down };
        let (flows, cross) = (Vec::new(), Vec::new());
        Self { down, down_trace: None, up_trace: None, delay, flows, cross, seconds: 60, seed: SEED, step: Some(STEP) }
    }

    /// The path down is like that besides.
    pub(super) fn harmed(mut self, harm: impl FnOnce(&mut PathSpec)) -> Self {
        harm(&mut self.down);
        self
    }

    /// Without points over time, of which hundreds of flows have many; no figure of late times can be asked for.
    pub(super) fn unsampled(mut self) -> Self {
        self.step = None;
        self
    }

    /// Random loss of data.
    pub(super) fn loss(mut self, probability: f64) -> Self {
        self.down.loss = Some(LossModel::Rate(probability));
        self
    }

    /// Poisson packets of 1500 bytes beside the flows, at a mean rate in Mbit/s.
    pub(super) fn background(mut self, mbps: f64) -> Self {
        let (way, rate) = (Way::DOWN, Rate::from_mbps(mbps));
        self.cross.push(Cross { way, rate, packet: 1500, burst: 1, poisson: true, start: Time::ZERO, stop: None });
        self
    }

    /// A bulk flow of a contestant from `start` seconds on.
    pub(super) fn flow(mut self, contestant: &Contestant, start: f64) -> Self {
        self.flows.push(Flow { start: Time::from_secs_f64(start), ack_every: 1, ..bulk(contestant) });
        self
    }

    /// As [`Dumbbell::flow`], with a round trip `times` that of the path, and an acknowledgement every second packet.
    pub(super) fn far(mut self, contestant: &Contestant, start: f64, times: f64) -> Self {
        let extra_delay = self.delay.mul_f64(times - 1.0);
        self.flows.push(Flow { start: Time::from_secs_f64(start), extra_delay, ..bulk(contestant) });
        self
    }

    /// The flow added last runs upwards as well, as another flow.
    pub(super) fn both_ways(mut self) -> Self {
        let upwards = self.flows.last().map(|flow| Flow { way: Way::UP, ..flow.clone() });
        self.flows.extend(upwards);
        self
    }

    /// Receivers of TCP acknowledge every second packet, at the latest after 40 ms, as Linux does after the first ones.
    pub(super) fn delayed_acks(mut self) -> Self {
        for flow in &mut self.flows {
            flow.ack_every = 2;
        }
        self
    }

    /// Another seed than 1.
    pub(super) fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// How long; 60 s unless said.
    pub(super) fn seconds(mut self, seconds: u64) -> Self {
        self.seconds = seconds;
        self
    }

    /// Runs it.
    ///
    /// # Errors
    /// When a path of a claim cannot be built, or a window is in the wrong unit.
    pub(super) fn run(&self) -> Result<Finished, BenchError> {
        let seed = Seed(self.seed);
        let mut up = PathSpec { delay: self.delay, ..PathSpec::default() };
        if self.up_trace.is_some() {
            up.trace = Some("up".to_owned());
            up.queue = Some("infinite".parse().expect("a queue's name"));
        }
        let load = |name: &str| {
            let trace = if name == "down" { &self.down_trace } else { &self.up_trace };
            trace.clone().ok_or("no trace")
        };
        let rtt = self.delay + self.delay;
        let build = |spec: &PathSpec, name: &str| spec.build(seed.derive(name), rtt, &load);
        let config = Config {
            seed,
            duration: Nanos::from_secs(self.seconds),
            topology: Topology::dumbbell(build(&self.down, "down")?, build(&up, "up")?),
            flows: self.flows.clone(),
            cross: self.cross.clone(),
            sample_every: self.step,
        };
        Ok(Finished { outcome: run::simulated(config, None)?, seconds: self.seconds as f64 })
    }
}

fn bulk(contestant: &Contestant) -> Flow {
    Flow::bulk(contestant.controller.clone(), contestant.via.clone())
}

/// Time between two points of the series.
const STEP: Nanos = Nanos::from_millis(10);

/// A dumbbell that has run.
pub(super) struct Finished {
    pub(super) outcome: Outcome,
    pub(super) seconds: f64,
}

impl Finished {
    /// Share of the link that was used, start-up included.
    pub(super) fn utilization(&self) -> f64 {
        let capacity = self.outcome.hops[0].capacity_bytes.unwrap_or(1);
        self.outcome.hops[0].stats.delivered.bytes as f64 / capacity as f64
    }

    /// Rate of all flows in Mbit/s, headers included, start-up included.
    pub(super) fn mbps(&self) -> f64 {
        let bytes: u64 = self.outcome.flows.iter().map(|flow| flow.wire_bytes_arrived).sum();
        bytes as f64 * 8e-6 / self.seconds
    }

    /// The points after the first third of the run: steady state.
    fn late<'a, T>(&self, points: &'a [T]) -> &'a [T] {
        &points[points.len() / 3..]
    }

    fn series(&self) -> &Series {
        self.outcome.series.as_ref().expect("every dumbbell asks for its series")
    }

    /// Share of the link used in steady state.
    pub(super) fn late_utilization(&self) -> f64 {
        let used: f64 = self.series().flows.iter().flat_map(|flow| self.late(&flow.throughput_mbps)).sum();
        used / self.late(&self.series().capacity_mbps).iter().sum::<f64>()
    }

    /// Mean rate of a flow in steady state, Mbit/s.
    pub(super) fn late_mbps(&self, flow: usize) -> f64 {
        let points = self.late(&self.series().flows[flow].throughput_mbps);
        points.iter().sum::<f64>() / points.len() as f64
    }

    /// Mean packets of 1500 bytes waiting in steady state, the one in transmission not counted.
    pub(super) fn late_queue_packets(&self) -> f64 {
        let points = self.late(&self.series().queue_bytes);
        points.iter().sum::<u64>() as f64 / points.len() as f64 / 1500.0
    }

    /// Largest queueing delay of a packet in steady state, ms.
    pub(super) fn late_queue_max_ms(&self) -> f64 {
        let flows = self.series().flows.iter();
        flows.flat_map(|flow| self.late(&flow.queue_max_ms)).flatten().copied().fold(0.0, f64::max)
    }

    /// The first flow's window in packets, in steady state.
    pub(super) fn late_window(&self) -> &[f64] {
        self.series().flows.first().map_or(&[], |flow| self.late(&flow.window_packets))
    }
}
