//! One hop as its reports show it: what its link takes, and what of that is this flow's.

use crate::controller::Hop;
use crate::path_report::HOP_PACKET_BYTES;
use crate::units::{Nanos, Rate, Time};

/// Share of a link that is given away (our choice, between HPCC's 0.95 and all of it: the queue is measured as well).
const UTILISATION: f64 = 0.98;
/// Queueing delay that is left alone (our choice: two packets at 12 Mbit/s; below a timer's step nothing is to be had).
const TARGET: Nanos = Nanos::from_millis(2);
/// Queueing delay at which a queue is drained as fast as may be (our choice, so that 10 ms are not exceeded for long).
const LONG: Nanos = Nanos::from_millis(8);
/// Share that is given up to drain a queue, where others have a part in it (our choice: beside one who fills the queue, 42 % of the link
/// are left, and a full queue of twice the path drains within some round trips).
const DRAIN: f64 = 0.15;
/// The same for a flow alone, which gives nothing away (RFC 5681: a half).
const DRAIN_ALONE: f64 = 0.5;
/// A queue that has been long for this time in spite of it is another flow's, and after as long again nothing is given up any
/// more (our choice: longer than the drain of an own queue, shorter than a sawtooth of CUBIC).
const PATIENCE: Nanos = Nanos::from_millis(500);
/// Time constant of a hop's arrival rate (in-band telemetry's meters: an exponential weight).
const METER: Nanos = Nanos::from_millis(100);
/// Packets that wait when a link is busy (our choice: one may be the report's own).
const WAITING: f64 = 2.0;
/// A busy link has been measured after this time (our choice: a time constant of the meter).
const MEASURED: Nanos = METER;
/// A link may be slower than it reports by this share before what is measured counts (our choice: a step of the wire's arrival rate).
const TOLERANCE: f64 = 0.1;
/// Spare capacity is shared out over this time (our choice: two time constants of the meter, which must have seen the last step).
const SHARING: Nanos = Nanos::from_millis(200);
/// Below this share of what is given away capacity is spare (our choice: half a step of the wire's arrival rate).
const SPARE: f64 = 0.95;
/// Growth of an unreported capacity in the first round trip without a queue; twice that in each one after it ...
const PROBE: f64 = 0.02;
/// ... up to this (our choices: the first is lost in the noise, the last is a gain of Vegas' slow start every other round trip).
const PROBE_MOST: f64 = 0.25;
/// A probe goes on only when at least this share of the capacity arrives.
const FOLLOWED: f64 = 0.85;

/// What a flow knows of itself when a report comes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own {
    pub(super) srtt: Nanos,
    /// Packets a second that it may send now.
    pub(super) rate: f64,
    /// Packets a second that reach the receiver.
    pub(super) delivered: f64,
    /// It sends what it may.
    pub(super) limited: bool,
}

/// A hop that reports enough to share its link: arrivals, flows and a queue. Packets are of [`HOP_PACKET_BYTES`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Link {
    pub(super) id: u32,
    /// The newest report had it.
    pub(super) current: bool,
    at: Time,
    /// Packets a second that it takes; `None`: it was never seen busy and does not say.
    pub(super) capacity: Option<f64>,
    reported: Option<f64>,
    arrival: f64,
    pub(super) flows: f64,
    /// Packets that wait.
    queue: f64,
    /// Growth of the queue in packets a second, weighted as the hop weights arrivals.
    growth: f64,
    /// Departures when it was last idle, and since when it has been busy.
    idle_departures: f64,
    busy_since: Option<Time>,
    /// The flow's part of spare capacity, in packets a second.
    pub(super) excess: f64,
    /// Growth of the capacity in a round trip.
    probe: f64,
    /// How long the queue has been long.
    strained: Nanos,
    /// The most room it has reported.
    roomiest: u32,
}

fn packets(rate: Rate) -> f64 {
    rate.as_bytes_per_sec() as f64 / HOP_PACKET_BYTES as f64
}

impl Link {
    /// Takes a report in; false where it does not suffice.
    pub(super) fn take(&mut self, now: Time, hop: &Hop, own: &Own) -> bool {
        self.roomiest = self.roomiest.max(hop.room_packets.unwrap_or(0));
        let waits = |bytes: u64| bytes as f64 / HOP_PACKET_BYTES as f64;
        let limit = hop.limit_packets.unwrap_or(self.roomiest);
        let queue = hop.queue_bytes.map(waits).or(hop.room_packets.map(|room| f64::from(limit.saturating_sub(room))));
        let (Some(queue), Some(arrival), Some(flows)) = (queue, hop.arrival, hop.flows) else { return false };
        let first = self.id != hop.id || self.at == Time::ZERO;
        if first {
            let (roomiest, idle_departures) = (self.roomiest, packets(arrival));
            *self = Self { id: hop.id, queue, probe: PROBE, roomiest, idle_departures, ..Self::default() };
        }
        let span = if first { Nanos::ZERO } else { (now - self.at).min(SHARING) };
        let passed = span.as_secs_f64();
        let fade = libm::exp(-passed / METER.as_secs_f64());
        self.growth = self.growth * fade + (queue - self.queue) / METER.as_secs_f64();
        let flows = f64::from(flows.max(1));
        if flows < self.flows {
            self.strained = Nanos::ZERO;
        }
        (self.at, self.current) = (now, true);
        (self.queue, self.arrival, self.flows) = (queue, packets(arrival), flows);
        // What a full queue drops has arrived and does not depart.
        let full = hop.room_packets.is_some_and(|room| f64::from(room) < WAITING);
        self.measure(now, hop.capacity.map(packets).filter(|rate| *rate > 0.0), full, own, passed);
        self.share_out(span, own);
        true
    }

    /// Finds the capacity: as reported, unless the link proves slower while packets wait; where it is not reported, what departs while
    /// packets wait, and a little more each round trip while none do.
    fn measure(&mut self, now: Time, reported: Option<f64>, full: bool, own: &Own, passed: f64) {
        let bound = reported.unwrap_or(f64::INFINITY);
        if let Some(rate) = reported
            && self.reported.is_none_or(|before| (rate - before).abs() > TOLERANCE / 2.0 * before)
        {
            (self.reported, self.capacity) = (reported, reported);
        }
        let departures = (self.arrival - self.growth).max(0.0);
        if self.queue < WAITING {
            self.busy_since = None;
            self.idle_departures = departures;
            if let Some(capacity) = &mut self.capacity {
                let round = (passed / own.srtt.as_secs_f64()).min(1.0);
                if self.arrival >= FOLLOWED * *capacity {
                    *capacity *= 1.0 + self.probe * round;
                    self.probe = (self.probe * (1.0 + round)).min(PROBE_MOST);
                }
                *capacity = capacity.max(self.arrival).min(bound);
            }
            return;
        }
        self.probe = PROBE;
        let busy = now - *self.busy_since.get_or_insert(now);
        if full {
            return;
        }
        // The first packets of a flow are a burst: a queue of less than a round trip shows no busy link.
        if self.capacity.is_none() && busy >= own.srtt {
            self.capacity = Some(departures.max(own.delivered).max(1.0));
        }
        if busy >= MEASURED {
            // The meter still remembers the time before.
            let before = libm::exp(-busy.as_secs_f64() / METER.as_secs_f64());
            let measured = ((departures - self.idle_departures * before) / (1.0 - before)).max(1.0);
            let close = bound.is_finite() && (measured - bound).abs() <= TOLERANCE * bound;
            self.capacity = Some(if close { bound } else { measured.min(bound) });
        }
    }

    /// Finds the flow's part of what others leave, and how much a queue may still cost.
    fn share_out(&mut self, span: Nanos, own: &Own) {
        let Some(capacity) = self.capacity else { return };
        let given = UTILISATION * capacity;
        let strain = self.strain(capacity);
        let steps = span.as_secs_f64() / SHARING.as_secs_f64();
        // A flow that another hop holds back takes no more here.
        let holds = self.rate(capacity) <= 1.25 * own.rate;
        if strain > 0.0 {
            self.excess *= libm::exp(-strain * steps);
        } else if own.limited && holds && self.arrival < SPARE * given {
            self.excess += (given - self.arrival) / self.flows * steps;
        }
        self.excess = self.excess.min(given - given / self.flows).max(0.0);
        self.strained = if strain >= 0.5 { self.strained + span } else { Nanos::ZERO };
    }

    /// How urgent it is to drain the queue, from 0 to 1.
    fn strain(&self, capacity: f64) -> f64 {
        let delay = self.queue / capacity;
        let (least, most) = (TARGET.as_secs_f64(), LONG.as_secs_f64());
        ((delay - least) / (most - least)).clamp(0.0, 1.0)
    }

    fn rate(&self, capacity: f64) -> f64 {
        let strain = self.strain(capacity);
        let over = (self.strained - PATIENCE).as_secs_f64() / PATIENCE.as_secs_f64();
        let drain = if self.flows > 1.0 { DRAIN } else { DRAIN_ALONE } * (1.0 - over.min(1.0));
        UTILISATION * capacity / self.flows * (1.0 - drain * strain) + self.excess * (1.0 - strain)
    }

    /// Packets a second that are this flow's; `None` where the capacity is not known.
    pub(super) fn share(&self) -> Option<f64> {
        self.capacity.map(|capacity| self.rate(capacity))
    }

    /// How long its queue is; `None` where the capacity is not known.
    pub(super) fn delay(&self) -> Option<Nanos> {
        self.capacity.map(|capacity| Nanos::from_secs_f64(self.queue / capacity))
    }
}
