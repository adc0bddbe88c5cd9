//! What window controllers take from the newest report of the hops: why packets were lost, and the hop that is nearest to
//! its limit.
//!
//! A report counts while it is fresh ([`Telemetry::fresh_for`]) and not a moment longer; how many reports a verdict needs
//! before it counts is the datapath's affair.

use crate::controller::{Cause, Hop, Lost, Telemetry};
use crate::units::{Nanos, Rate, Time};

/// Bytes of the packets in which hops count: an Ethernet frame of 1500 bytes (`room_packets`, `limit_packets`; our choice,
/// because queues are set up in such frames).
pub const HOP_PACKET_BYTES: u64 = 1514;
/// Bytes of a packet on the wire beside its payload: Ethernet, IPv6, TCP with time stamps, the smallest telemetry header.
pub(crate) const OVERHEAD: f64 = 14.0 + 40.0 + 32.0 + 64.0;
/// How long a full queue takes to drain where the hop did not report enough to compute it (our choice: 64 packets at
/// 15 Mbit/s).
pub const USUAL_DRAIN: Nanos = Nanos::from_millis(50);
/// A queue may have dropped with room for fewer packets than this, or for a smaller share of its limit (our
/// choice: what the receiver's host takes for a full queue when it names a loss); half of it where the limit is below 20 packets.
const SCARCE: (f64, f64) = (4.0, 0.1);
/// Hops whose largest room is remembered (our choice: paths of a limited domain are shorter).
const REMEMBERED: usize = 8;

/// Steps of a hop's count of flows, up or down to this many times as many or few, after which reports do not count, each a second old counting
/// for 1/e (our choices: what counts a second does not go up and down several times in it; flows that come and go together make two).
const SWING: u32 = 4;
const SWINGS: f64 = 4.0;

/// The hop with the least room for each packet that arrives there and each flow that shares it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tightest {
    /// Packets that its queue still takes, the reserve left out.
    pub room: f64,
    /// The same for each flow.
    pub share: f64,
    /// Packets that arrive in a second, of all flows.
    pub arrival: Option<f64>,
    /// Flows seen lately, at least one.
    pub flows: f64,
    /// Packets that its link takes in a second.
    pub capacity: Option<f64>,
    /// Time that its queue takes to drain when full.
    pub drain: Nanos,
    /// Packets wait in its queue.
    pub queued: bool,
}

/// The newest report.
#[derive(Clone, Copy, Debug)]
pub struct PathReport {
    /// Share of each queue that is not counted as room.
    reserve: f64,
    fresh_until: Time,
    /// Whether its hops may be believed: their counts of flows do not go up and down as no count does.
    steady: bool,
    verdict: Cause,
    tightest: Option<Tightest>,
    /// A queue has so little room that it may drop.
    scarce: bool,
    /// How long the queues are together, where each hop says enough.
    queues: Option<Nanos>,
    known: [Known; REMEMBERED],
}

/// What is remembered of a hop.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    id: u32,
    /// When it reported last; `None`: the place is free.
    at: Option<Time>,
    /// The largest room so far: its limit, where it reports none.
    room: u32,
    flows: u32,
    /// Steps of its count of flows of late.
    swings: f64,
}

impl PathReport {
    /// None yet. `reserve`: the share of each queue that is not counted as room.
    pub fn new(reserve: f64) -> Self {
        let known = [Known::default(); REMEMBERED];
        let (fresh_until, verdict) = (Time::ZERO, Cause::Unknown);
        Self { reserve, fresh_until, steady: true, verdict, tightest: None, scarce: false, queues: None, known }
    }

    /// Takes a new report in.
    pub fn take(&mut self, telemetry: &Telemetry<'_>) {
        let swings =
            telemetry.hops.iter().fold(0.0, |most: f64, hop| most.max(self.remember(telemetry.now, hop).swings));
        self.steady = swings < SWINGS;
        self.fresh_until = if self.steady { telemetry.now + telemetry.fresh_for } else { telemetry.now };
        self.verdict = telemetry.verdict;
        let compared = telemetry.hops.iter().filter(|hop| hop.room_packets.is_some());
        let by_arrival = compared.clone().all(|hop| hop.arrival.is_some());
        let mut least = f64::INFINITY;
        (self.tightest, self.scarce) = (None, false);
        let waits = telemetry.hops.iter().map(queue);
        self.queues = waits.reduce(|all, queue| Some(all? + queue?)).flatten();
        for hop in compared {
            let room = hop.room_packets.unwrap_or(0);
            let largest = self.known.iter().find(|known| known.id == hop.id && known.at.is_some());
            let limit = f64::from(hop.limit_packets.unwrap_or(largest.map_or(room, |known| known.room)));
            let room = f64::from(room);
            let scale = if limit < 20.0 { 0.5 } else { 1.0 };
            if room < scale * SCARCE.0.max(SCARCE.1 * limit) {
                self.scarce = true;
            }
            let left = (room - self.reserve * limit).max(0.0);
            let flows = f64::from(hop.flows.unwrap_or(1).max(1));
            let packets = |rate: Rate| rate.as_bytes_per_sec() as f64 / HOP_PACKET_BYTES as f64;
            let arrival = hop.arrival.map(packets);
            let score = left / (flows * if by_arrival { arrival.unwrap_or(1.0).max(1.0) } else { 1.0 });
            // Of several that are full, the one with the least room.
            let tighter = score < least || (score <= 0.0 && self.tightest.is_some_and(|other| left < other.room));
            if self.tightest.is_none() || tighter {
                let bytes = u64::from(hop.limit_packets.unwrap_or(0)) * HOP_PACKET_BYTES;
                let drain = hop.capacity.map_or(Nanos::ZERO, |capacity| capacity.time_for(bytes));
                let known = drain > Nanos::ZERO && drain < Nanos::MAX;
                least = score;
                self.tightest = Some(Tightest {
                    room: left,
                    share: left / flows,
                    arrival,
                    flows,
                    capacity: hop.capacity.map(packets),
                    drain: if known { drain } else { USUAL_DRAIN },
                    queued: hop.queue_bytes.map_or(room < limit, |bytes| bytes > 0),
                });
            }
        }
    }

    /// What is known of the hop, with this report; where there is no place for it, that alone.
    fn remember(&mut self, now: Time, hop: &Hop) -> Known {
        let flows = hop.flows.unwrap_or(1).max(1);
        let newest = Known { id: hop.id, at: Some(now), room: hop.room_packets.unwrap_or(0), flows, swings: 0.0 };
        let place = |known: &&mut Known| known.id == hop.id || known.at.is_none();
        let Some(known) = self.known.iter_mut().find(place) else { return newest };
        let Some(at) = known.at.filter(|_| known.id == hop.id) else {
            *known = newest;
            return newest;
        };
        let swing = flows / SWING >= known.flows || known.flows / SWING >= flows;
        let swings = known.swings * libm::exp(-(now - at).as_secs_f64()) + f64::from(u8::from(swing));
        *known = Known { room: known.room.max(newest.room), swings, ..newest };
        *known
    }

    /// The report still counts.
    pub fn is_fresh(&self, now: Time) -> bool {
        now < self.fresh_until
    }

    /// The tightest hop, while the report counts.
    pub fn tightest(&self, now: Time) -> Option<&Tightest> {
        self.tightest.as_ref().filter(|_| self.is_fresh(now))
    }

    /// The newest report has a queue with so little room that it may have dropped, whatever the verdict.
    pub fn is_scarce(&self) -> bool {
        self.scarce
    }

    /// How long the queues are together, while the report counts; `None` where some hop does not say enough.
    pub fn queues(&self, now: Time) -> Option<Nanos> {
        self.queues.filter(|_| self.is_fresh(now))
    }

    /// Why `packets` were lost: what the datapath says of them, or else the newest verdict while it counts. Several causes are
    /// none that could be spared, and hops that cannot be believed give none.
    pub fn cause(&self, now: Time, packets: &[Lost]) -> Cause {
        let mut known = packets.iter().map(|lost| lost.cause).filter(|cause| *cause != Cause::Unknown);
        match known.next() {
            _ if !self.steady => Cause::Unknown,
            Some(Cause::Medium) if known.all(|cause| cause == Cause::Medium) => Cause::Medium,
            Some(Cause::Medium) => Cause::Congestion,
            Some(cause) => cause,
            None if self.is_fresh(now) => self.verdict,
            None => Cause::Unknown,
        }
    }
}

/// How long the queue of a hop is.
fn queue(hop: &Hop) -> Option<Nanos> {
    let packets = hop.limit_packets.zip(hop.room_packets).map(|(limit, room)| limit.saturating_sub(room));
    let bytes = hop.queue_bytes.or(packets.map(|packets| u64::from(packets) * HOP_PACKET_BYTES))?;
    Some(hop.capacity.filter(|rate| *rate > Rate::ZERO)?.time_for(bytes))
}
