//! A dumbbell for closed-loop tests: one bottleneck, half of the round trip behind it, half on the way back.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use paceline_cc::{Nanos, Rate, Time};
use paceline_experiment::{Config, Flow, FlowSeries, Outcome, Seed, Tap, Topology, Via};
use paceline_path::packet::Element;
use paceline_path::queue::QueueBound;
use paceline_path::{Delay, FilterVerdict, Link, Packet, Path, PathFilter, QueueSpec, Schedule};
use paceline_sim::Body;
use rand::RngExt;
use rand_pcg::Pcg64;

mod tampered;

pub(crate) use tampered::{Tampering, tampered};

/// Bytes of a full packet on the wire.
pub(crate) const WIRE: f64 = 1500.0;

/// A bulk flow that starts at 0.
pub(crate) fn bulk(controller: &str, via: Via) -> Flow {
    Flow { ack_every: 1, ..Flow::bulk(controller.parse().unwrap(), via) }
}

/// One bottleneck and the flows over it.
pub(crate) struct Dumbbell {
    pub(crate) schedule: Schedule,
    pub(crate) limit: QueueBound,
    /// In place of the drop-tail queue of that limit.
    pub(crate) queue: Option<QueueSpec>,
    pub(crate) rtt: Nanos,
    /// In front of the bottleneck.
    pub(crate) before: Option<Box<dyn PathFilter>>,
    /// On the way back.
    pub(crate) back: Option<Box<dyn PathFilter>>,
    /// In place of the delay behind the bottleneck.
    pub(crate) delay: Option<Box<dyn Element<Body>>>,
    pub(crate) flows: Vec<Flow>,
}

impl Dumbbell {
    /// A link of constant rate with a queue without limit.
    pub(crate) fn new(mbps: f64, rtt_ms: u64, flows: Vec<Flow>) -> Self {
        Self {
            schedule: Schedule::constant(Rate::from_mbps(mbps)),
            limit: QueueBound::NONE,
            queue: None,
            rtt: Nanos::from_millis(rtt_ms),
            before: None,
            back: None,
            delay: None,
            flows,
        }
    }

    /// Runs for `seconds`, with a point of the series each millisecond.
    pub(crate) fn run(self, seconds: u64) -> Outcome {
        self.watch(seconds, None)
    }

    /// As [`Dumbbell::run`], packet by packet.
    pub(crate) fn watch(self, seconds: u64, tap: Option<&mut dyn Tap>) -> Outcome {
        let half = self.rtt.mul_div(1, 2);
        let mut down = Path::new();
        if let Some(filter) = self.before {
            down = down.filter(Boxed(filter));
        }
        let rate = self.schedule.mean_rate();
        let queue = self.queue.unwrap_or(QueueSpec::DropTail { limit: self.limit }).build(rate, self.rtt, 1);
        down = down.link(Link::new(self.schedule, queue));
        down = match self.delay {
            Some(delay) => down.element(BoxedElement(delay)),
            None => down.delay(Delay::new(half)),
        };
        let mut up = Path::new();
        if let Some(filter) = self.back {
            up = up.filter(Boxed(filter));
        }
        paceline_sim::run(
            Config {
                seed: Seed(1),
                duration: Nanos::from_secs(seconds),
                topology: Topology::dumbbell(down, up.delay(Delay::new(half))),
                flows: self.flows,
                cross: Vec::new(),
                sample_every: Some(Nanos::from_millis(1)),
            },
            tap,
        )
    }
}

struct Boxed(Box<dyn PathFilter>);

impl PathFilter for Boxed {
    fn judge(&mut self, now: Time) -> FilterVerdict {
        self.0.judge(now)
    }
}

struct BoxedElement(Box<dyn Element<Body>>);

impl Element<Body> for BoxedElement {
    fn push(&mut self, now: Time, packet: Packet<Body>) {
        self.0.push(now, packet);
    }

    fn next(&self) -> Time {
        self.0.next()
    }

    fn pop(&mut self, now: Time) -> Option<Packet<Body>> {
        self.0.pop(now)
    }

    fn least(&self) -> Nanos {
        self.0.least()
    }
}

/// Loses each packet with a probability.
pub(crate) struct RandomLoss {
    pub(crate) probability: f64,
    pub(crate) rng: Pcg64,
}

impl PathFilter for RandomLoss {
    fn judge(&mut self, _now: Time) -> FilterVerdict {
        if self.rng.random_bool(self.probability) { FilterVerdict::Lose } else { FilterVerdict::Pass }
    }
}

/// Loses every n-th packet.
pub(crate) struct PeriodicLoss {
    pub(crate) period: u64,
    pub(crate) passed: u64,
}

impl PathFilter for PeriodicLoss {
    fn judge(&mut self, _now: Time) -> FilterVerdict {
        self.passed += 1;
        if self.passed.is_multiple_of(self.period) { FilterVerdict::Lose } else { FilterVerdict::Pass }
    }
}

/// A token-bucket policer for full packets: what finds no token is lost.
pub(crate) struct Policer {
    pub(crate) rate: Rate,
    pub(crate) bucket: f64,
    pub(crate) tokens: f64,
    pub(crate) last: Time,
    /// Time and fate of every packet.
    pub(crate) log: Arc<Mutex<Vec<(Time, FilterVerdict)>>>,
}

impl PathFilter for Policer {
    fn judge(&mut self, now: Time) -> FilterVerdict {
        let earned = self.rate.as_bytes_per_sec() as f64 * now.since(self.last).as_secs_f64();
        self.last = now;
        self.tokens = (self.tokens + earned).min(self.bucket);
        let verdict = if self.tokens < WIRE { FilterVerdict::Lose } else { FilterVerdict::Pass };
        if verdict == FilterVerdict::Pass {
            self.tokens -= WIRE;
        }
        self.log.lock().unwrap().push((now, verdict));
        verdict
    }
}

/// A delay that changes once.
pub(crate) struct StepDelay {
    pub(crate) before: Nanos,
    pub(crate) after: Nanos,
    pub(crate) at: Time,
    pub(crate) line: VecDeque<(Time, Packet<Body>)>,
}

impl Element<Body> for StepDelay {
    fn push(&mut self, now: Time, mut packet: Packet<Body>) {
        let delay = if now < self.at { self.before } else { self.after };
        packet.entered = now;
        packet.delay.propagation += delay;
        self.line.push_back((now + delay, packet));
    }

    fn next(&self) -> Time {
        self.line.front().map_or(Time::NEVER, |(due, _)| *due)
    }

    fn pop(&mut self, now: Time) -> Option<Packet<Body>> {
        if self.next() > now {
            return None;
        }
        self.line.pop_front().map(|(_, packet)| packet)
    }

    fn least(&self) -> Nanos {
        self.before.min(self.after)
    }
}

/// The points of a series from one millisecond up to another.
pub(crate) fn span<T: Clone>(values: &[T], from_ms: usize, to_ms: usize) -> Vec<T> {
    values[from_ms..to_ms].to_vec()
}

/// A variable of the controller over time; zero before it first reports it.
pub(crate) fn variable(flow: &FlowSeries, name: &str) -> Vec<f64> {
    flow.variables[name].iter().map(|value| value.unwrap_or(0.0)).collect()
}

/// The arithmetic mean.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Jain's fairness index.
pub(crate) fn jain(values: &[f64]) -> f64 {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|value| value * value).sum();
    sum * sum / squares / values.len() as f64
}

/// Mean throughput of a flow in a span over the capacity then, counting headers.
pub(crate) fn share(outcome: &Outcome, flow: usize, from_ms: usize, to_ms: usize) -> f64 {
    let series = outcome.series.as_ref().unwrap();
    let got: f64 = series.flows[flow].throughput_mbps[from_ms..to_ms].iter().sum();
    got / series.capacity_mbps[from_ms..to_ms].iter().sum::<f64>()
}

/// Mean packets waiting at the bottleneck in a span, without the one in transmission.
pub(crate) fn waiting(outcome: &Outcome, from_ms: usize, to_ms: usize) -> f64 {
    let bytes = &outcome.series.as_ref().unwrap().queue_bytes[from_ms..to_ms];
    bytes.iter().map(|bytes| *bytes as f64).sum::<f64>() / bytes.len() as f64 / WIRE
}
