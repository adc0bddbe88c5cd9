//! What a scenario file says of one direction of a path.

use std::fmt::Display;
use std::sync::Arc;

use paceline_cc::{Bytes, Nanos, Rate, Time};
use serde::{Deserialize, Serialize};

use crate::bucket::Bucket;
use crate::change::Changeable;
use crate::changing::Changing;
use crate::delay::{Delay, VaryingDelay};
use crate::jitter::Jitter;
use crate::light::{LIGHT_BELOW, Light, starting};
use crate::link::Link;
use crate::loss::{Duplicate, LossModel, Lossy};
use crate::policer::{Policer, PolicerScope, Policing};
use crate::queue::{DropTail, Queue, QueueBound, QueueSpec, TYPICAL_PACKET};
use crate::reorder::{Holding, Reorder};
use crate::row::Path;
use crate::schedule::{Rates, Schedule};
use crate::trace::Trace;
use crate::tunnel::{TunnelEnd, TunnelMarks};
use crate::wifi::{Media, Seat, Wifi, WifiRole};

mod check;

/// One direction of a path, as in a scenario file: a link (`rate`, `schedule`, `trace`, `bucket` or `wifi`; none of them means that
/// nothing limits), what it does to packets, and how far it is.
///
/// Packets pass policer, link, loss, duplication, reordering, delay, in this order.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Direction {
    /// Constant rate of the link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// How the rate changes: `[["0s", "200 Mbit/s"], ["10s", "500 Mbit/s"]]`, or `{ markov = { ... } }`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Rates>,
    /// After this time the steps of the schedule start over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_lap: Option<Nanos>,
    /// File of a delivery trace in the Mahimahi format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Where in the trace the world begins, rounded down to an opportunity; beyond its end, laps are taken off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_start: Option<Nanos>,
    /// File of the opportunities under a light load, where [`Direction::trace`] has those under saturation ([`crate::light`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub light_trace: Option<String>,
    /// As soon as this many bytes wait the load is not light any more; [`crate::light::LIGHT_BELOW`] without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub light_below: Option<Bytes>,
    /// When nothing has waited for this long, the load is light again; as soon as nothing waits without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub light_after: Option<Nanos>,
    /// A token bucket, which lets bursts pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<Bucket>,
    /// A Wi-Fi link, whose other direction is one too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wifi: Option<Wifi>,
    /// What is dropped at once at the entrance, before the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policer: Option<Policer>,
    /// The queue in front of the link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueSpec>,
    /// In its place drop-tail queues from given times on, which are one queue whose limit changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_schedule: Option<Vec<(Nanos, QueueSpec)>>,
    /// What becomes of the ECN field on the way, as in a tunnel.
    #[serde(default, skip_serializing_if = "TunnelMarks::is_kept")]
    pub marks: TunnelMarks,
    /// Spans (from, to) in which the link stands still: `[["10s", "12s"]]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outages: Vec<(Nanos, Nanos)>,
    /// Packets lost at random behind the link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<LossModel>,
    /// In its place losses from given times on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_schedule: Option<Vec<(Nanos, LossModel)>>,
    /// Probability that a packet arrives twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<f64>,
    /// Packets held back at random, while others overtake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reorder: Option<Reorder>,
    /// Fixed delay.
    #[serde(default)]
    pub delay: Nanos,
    /// In place of the fixed delay, delays from given times on: `[["0s", "20ms"], ["10s", "60ms"]]`; the first from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_schedule: Option<Vec<(Nanos, Nanos)>>,
    /// Random delay on top.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Jitter>,
    /// In its place jitter from given times on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_schedule: Option<Vec<(Nanos, Jitter)>>,
    /// Bytes of the largest packet that will come, on the wire; 1500 when not known. No key of a file: who sends knows it.
    #[serde(skip)]
    pub largest_packet: Option<u32>,
    /// What will change while the path runs. No key of a file: who changes it knows it.
    #[serde(skip)]
    pub changing: Changeable,
}

/// Why a direction could not be built: the field, what was wrong, and how to fix it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// A field has a value that it does not take.
    #[error("{field}: {problem}; {fix}")]
    Field {
        /// The field of [`Direction`].
        field: &'static str,
        /// What was wrong.
        problem: String,
        /// What to write instead.
        fix: &'static str,
    },
    /// The trace could not be loaded.
    #[error("trace: {reason}")]
    Trace {
        /// What the loader said.
        reason: String,
    },
}

/// The queue of a link for which a scenario names none (our choice: the buffer of the cellular scenarios).
pub const DEFAULT_QUEUE: QueueSpec = QueueSpec::DropTail { limit: QueueBound::bytes(2_000_000) };

/// The queue of a Wi-Fi link for which a scenario names none: what Linux gave a wireless interface (`txqueuelen`).
pub const WIFI_QUEUE: QueueSpec = QueueSpec::DropTail { limit: QueueBound::packets(1000) };

fn field(field: &'static str, problem: impl Into<String>, fix: &'static str) -> PathError {
    PathError::Field { field, problem: problem.into(), fix }
}

impl Direction {
    /// How many links are given; one is right, or none.
    fn links_given(&self) -> usize {
        let paced = [self.rate.is_some(), self.schedule.is_some(), self.trace.is_some()];
        let kinds = paced.into_iter().chain([self.bucket.is_some(), self.wifi.is_some()]);
        kinds.filter(|given| *given).count()
    }

    /// Whether there is a link: something that limits.
    pub fn has_link(&self) -> bool {
        self.links_given() > 0
    }

    /// The delay without queues and jitter, at the start: what a round trip is made of.
    pub fn base_delay(&self) -> Nanos {
        match &self.delay_schedule {
            Some(steps) => steps.first().map_or(Nanos::ZERO, |(_, delay)| *delay),
            None => self.delay,
        }
    }

    /// The schedule of its link; `None` when it has no link. `seed` feeds a Markov chain; `load` gives the trace of a
    /// name.
    pub fn schedule<E: Display>(
        &self,
        seed: u64,
        load: &dyn Fn(&str) -> Result<Arc<Trace>, E>,
    ) -> Result<Option<Schedule>, PathError> {
        self.check()?;
        let schedule = if let Some(rate) = self.rate {
            Schedule::constant(rate)
        } else if let Some(bucket) = &self.bucket {
            Schedule::constant(bucket.rate)
        } else if let Some(wifi) = &self.wifi {
            Schedule::constant(wifi.nominal())
        } else if let Some(Rates::Markov { markov }) = &self.schedule {
            Schedule::markov(markov.clone(), seed)
        } else if let Some(Rates::Steps(steps)) = &self.schedule {
            let steps: Vec<(Time, Rate)> = steps.iter().map(|(start, rate)| (Time::ZERO + *start, *rate)).collect();
            Schedule::steps(&steps, self.schedule_lap)
        } else if let Some(name) = &self.trace {
            let load = |name: &str| {
                let trace = load(name).map_err(|error| PathError::Trace { reason: error.to_string() })?;
                Ok(starting(trace, self.trace_start))
            };
            let schedule = Schedule::from_trace(load(name)?);
            match &self.light_trace {
                Some(name) => {
                    let below = self.light_below.map_or(LIGHT_BELOW, |bytes| bytes.0);
                    let after = self.light_after.unwrap_or(Nanos::ZERO);
                    schedule.with_light(Light { trace: load(name)?, below, after })
                }
                None => schedule,
            }
        } else {
            return Ok(None);
        };
        let outages = self.outages.iter().map(|(from, to)| (Time::ZERO + *from, Time::ZERO + *to));
        Ok(Some(schedule.with_outages(outages.collect())))
    }

    /// Makes the path. `seed` feeds its random elements, each by a stream of its own; `base_rtt` is the round trip
    /// without queues, for queues sized in bandwidth-delay products; `load` gives the trace of a name.
    ///
    /// # Errors
    /// The first field that is wrong. A direction of a Wi-Fi link is made by [`Direction::build_in`].
    pub fn build<P: Clone + Send + 'static, E: Display>(
        &self,
        seed: u64,
        base_rtt: Nanos,
        load: &dyn Fn(&str) -> Result<Arc<Trace>, E>,
    ) -> Result<Path<P>, PathError> {
        self.make(seed, base_rtt, load, None)
    }

    /// As [`Direction::build`], in this place on a medium if it is a direction of a Wi-Fi link.
    ///
    /// # Errors
    /// As [`Direction::build`], and where links of one channel differ in what they share.
    pub fn build_in<P: Clone + Send + 'static, E: Display>(
        &self,
        seed: u64,
        base_rtt: Nanos,
        load: &dyn Fn(&str) -> Result<Arc<Trace>, E>,
        seat: Seat<'_, P>,
    ) -> Result<Path<P>, PathError> {
        self.make(seed, base_rtt, load, Some(seat))
    }

    /// The queue of its link, `spec` unless its limit changes.
    fn make_queue<P: Send + 'static>(
        &self,
        spec: &QueueSpec,
        rate: Rate,
        base_rtt: Nanos,
        seed: u64,
    ) -> Result<Box<dyn Queue<P>>, PathError> {
        let (key, limits) = match &self.queue_schedule {
            Some(steps) => ("queue_schedule", steps.iter().map(|(start, spec)| (*start, spec.limit())).collect()),
            None => ("queue", vec![(Nanos::ZERO, spec.limit())]),
        };
        let largest = self.largest_packet.unwrap_or(TYPICAL_PACKET);
        for (_, limit) in &limits {
            if limit.bdp.is_some() && base_rtt == Nanos::ZERO {
                let fix = "give a delay, or a limit in bytes or packets";
                return Err(field(key, "bdp= needs a round-trip time above 0", fix));
            }
            let bytes = limit.bytes.unwrap_or(u64::MAX);
            if self.largest_packet.is_some() && bytes < u64::from(largest) {
                let problem = format!("it holds {bytes} bytes, and a packet has {largest}: nothing could pass");
                return Err(field(key, problem, "give room for a packet, such as 2MB, 100packets or 1bdp"));
            }
        }
        if self.queue_schedule.is_none() {
            return Ok(spec.build_for(largest, rate, base_rtt, seed));
        }
        let sized = |(start, limit): (Nanos, QueueBound)| (start, limit.resolved(rate, base_rtt, largest));
        let limits: Vec<_> = limits.into_iter().map(sized).collect();
        Ok(Box::new(DropTail::new(Changing::steps(&limits))))
    }

    fn make<P: Clone + Send + 'static, E: Display>(
        &self,
        seed: u64,
        base_rtt: Nanos,
        load: &dyn Fn(&str) -> Result<Arc<Trace>, E>,
        seat: Option<Seat<'_, P>>,
    ) -> Result<Path<P>, PathError> {
        let mut path = match self.marks {
            TunnelMarks::Keep => Path::new(),
            TunnelMarks::Bleach => Path::new().tunnel(TunnelEnd::Bleach),
            TunnelMarks::Forget => Path::new().tunnel(TunnelEnd::Enter),
        };
        let schedule = self.schedule(seed, load)?;
        let holds = |key, burst: Bytes| match self.largest_packet {
            Some(largest) if burst.0 < u64::from(largest) => {
                let problem = format!("it holds {} bytes, and a packet has {largest}: nothing could pass", burst.0);
                Err(field(key, problem, "give room for a packet, such as 125kB"))
            }
            _ => Ok(()),
        };
        if let Some(bucket) = &self.bucket {
            holds("bucket.burst", bucket.burst())?;
        }
        if let Some(policer) = self.policer {
            holds("policer.burst", policer.burst)?;
            path = path.policer(Policing::new(policer));
            if policer.per == PolicerScope::Flow {
                path = path.telling_flows_apart();
            }
        }
        if let Some(schedule) = schedule {
            let default = if self.wifi.is_some() { WIFI_QUEUE } else { DEFAULT_QUEUE };
            let spec = self.queue.unwrap_or(default);
            let queue = self.make_queue(&spec, schedule.mean_rate(), base_rtt, seed)?;
            if matches!(spec, QueueSpec::FqCoDel { .. } | QueueSpec::Fq { .. }) {
                path = path.telling_flows_apart();
            }
            path = match &self.wifi {
                None => path.link(match self.bucket {
                    Some(bucket) => Link::shaped(bucket, queue),
                    None => Link::new(schedule, queue),
                }),
                Some(wifi) => {
                    let fix = "build both directions of the link, each in its seat";
                    let seat = seat.ok_or_else(|| field("wifi", "one direction alone has no medium", fix))?;
                    let outages = self.outages.iter().map(|(from, to)| (Time::ZERO + *from, Time::ZERO + *to));
                    let fix = "write them alike in all links of the channel";
                    let radio = seat.radio(wifi, queue, outages.collect(), seed);
                    path.radio(radio.map_err(|problem| field("wifi", problem, fix))?)
                }
            };
        }
        if self.marks == TunnelMarks::Forget {
            path = path.tunnel(TunnelEnd::Leave);
        }
        if let Some(steps) = &self.loss_schedule {
            path = path.filter(Lossy::new(Changing::steps(steps), seed));
        } else if let Some(loss) = self.loss.or(self.changing.loss.then_some(LossModel::Rate(0.0))) {
            path = path.filter(Lossy::new(loss, seed));
        }
        if let Some(probability) = self.duplicate {
            path = path.filter(Duplicate::new(probability, seed));
        }
        let still = Reorder { share: 0.0, delay: Nanos::from_nanos(1) };
        if let Some(reorder) = self.reorder.or(self.changing.reorder.then_some(still)) {
            path = path.element(Holding::new(reorder, seed));
        }
        let varies = self.delay_schedule.is_some() || self.jitter.is_some() || self.jitter_schedule.is_some();
        if varies || self.changing.delay {
            let steps = self.delay_schedule.as_deref();
            let distance = steps.map_or_else(|| self.delay.into(), Changing::steps);
            let steps = self.jitter_schedule.as_deref();
            let jitter = steps.map_or_else(|| self.jitter.unwrap_or_default().into(), Changing::steps);
            path = path.element(VaryingDelay::new(distance, jitter, seed));
        } else if self.delay > Nanos::ZERO {
            path = path.delay(Delay::new(self.delay));
        }
        Ok(path)
    }
}

/// Makes both directions of a link by itself, the first sent by the access point if it is a Wi-Fi link; otherwise as
/// [`Direction::build`].
///
/// # Errors
/// As [`Direction::build`]; for a Wi-Fi link also when only one of its directions is one.
pub fn build_link<P: Clone + Send + 'static, E: Display>(
    directions: [&Direction; 2],
    seeds: [u64; 2],
    base_rtt: Nanos,
    load: &dyn Fn(&str) -> Result<Arc<Trace>, E>,
) -> Result<[Path<P>; 2], PathError> {
    check_link(directions)?;
    let mut media = Media::default();
    let mut make = |node: u32, role| {
        let seat = Seat { media: &mut media, link: "", node, role };
        directions[node as usize].build_in(seeds[node as usize], base_rtt, load, seat)
    };
    Ok([make(0, WifiRole::AccessPoint)?, make(1, WifiRole::Station)?])
}

/// Whether both directions of a link are Wi-Fi on the same channel, or neither is.
///
/// # Errors
/// A field of the second that does not fit the first.
pub fn check_link(directions: [&Direction; 2]) -> Result<(), PathError> {
    match directions.map(|direction| direction.wifi.as_ref()) {
        [None, None] => Ok(()),
        [Some(there), Some(back)] if there.channel != back.channel => {
            Err(field("wifi.channel", "it is not the channel of the other direction", "write the same in both"))
        }
        [Some(_), Some(_)] => Ok(()),
        _ => {
            Err(field("wifi", "one direction of the link has it and the other has not", "give it to both, or to none"))
        }
    }
}

#[cfg(test)]
mod tests;
