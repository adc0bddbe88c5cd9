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
/// The same for a flow alone, which gives nothing away (our choice: more, and not so much that the queue runs dry before that is seen).
const DRAIN_ALONE: f64 = 0.25;
/// The same for what others leave, which may be theirs again (RFC 5681: a half).
const DRAIN_EXCESS: f64 = 0.5;
/// A queue that has been long for this time in spite of it is another flow's, and after as long again nothing is given up any
/// more (our choice: longer than the drain of an own queue, shorter than a sawtooth of CUBIC).
const PATIENCE: Nanos = Nanos::from_millis(500);
/// A queue with room for fewer packets, or a smaller share of its limit, is full now and then (as [`crate::path_report`] has it).
const SCARCE: (f64, f64) = (4.0, 0.1);
/// That others fill the queue is seen again after this time (our choice: some sawteeth of CUBIC).
const SEEN_AGAIN: Nanos = Nanos::from_secs(10);
/// Time constant of a hop's arrival rate (in-band telemetry's meters: an exponential weight).
const METER: Nanos = Nanos::from_millis(100);
/// Packets that wait when a link is busy (our choice: one may be the report's own).
const WAITING: f64 = 2.0;
/// A busy link has been measured after this time (our choice: a time constant of the meter).
const MEASURED: Nanos = METER;
/// A link may be slower than it reports by this share before what is measured counts (our choice: a step of the wire's arrival rate).
const TOLERANCE: f64 = 0.1;
/// Spare capacity is shared out over this time (our choice: two time constants of the meter, which must have seen the last step) ...
const SHARING: Nanos = Nanos::from_millis(200);
/// ... and given back over this, less how long the queue has been long (our choice: the queue of one who sends for a moment is gone by then, and
/// CUBIC's stays; over a second, CUBIC never gets its part of a link with a short queue).
const GIVING_BACK: Nanos = Nanos::from_millis(750);
/// Below this share of what is given away capacity is spare (our choice: of a code that stands for 4 % less than what arrives, the next one
/// is above it before the link is full).
const SPARE: f64 = 0.97;
/// A count of this many flows is at its end: there may be any number more (docs/design/telemetry-wire.md, the short word).
const COUNT_ENDS: u32 = 254;
/// Growth of an unreported capacity in the first round trip without a queue, and part of a reported one that is spare then, however much
/// arrives: of small packets, as acknowledgements are, a link takes more than of full ones. Twice that in each one after it ...
const PROBE: f64 = 0.02;
/// ... up to this (our choices: the first is lost in the noise, the last is a gain of Vegas' slow start every other round trip).
const PROBE_MOST: f64 = 0.25;
/// The same where a capacity is reported (our choice: a link that breathes is probed all the time, and a full one as soon as nothing stands).
const REPORTED_PROBE_MOST: f64 = 0.1;
/// A link breathes whose reported capacity has changed by this factor in a second, up and down together, as powers of e (our choice: what
/// is left of a radio's time changes by a tenth in each tenth of a second, and a step to twice as much counts for half a second).
const BREATHES: f64 = 0.5;
/// Nothing stands below this many packets: one may be the report's own.
const STANDING: f64 = 1.0;
/// The first step of a probe does where this share of what a link that breathes reports arrives (our choice: a round trip is several times
/// the path's where a radio waits for its turn).
const FOLLOWS: f64 = 0.25;
/// A probe goes on only when at least this share of the capacity arrives.
const FOLLOWED: f64 = 0.85;

/// What a flow knows of itself when a report comes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own {
    pub(super) srtt: Nanos,
    /// RTT without queues.
    pub(super) path: Nanos,
    /// Packets that come to the receiver at once.
    pub(super) burst: f64,
    /// Packets a second that it may send now.
    pub(super) rate: f64,
    /// Packets a second that reach the receiver.
    pub(super) delivered: f64,
    /// It sends what it may.
    pub(super) limited: bool,
}

/// Whether others fill the queue whatever the flow gives up.
#[derive(Clone, Copy, Debug, Default)]
struct Contest {
    /// Since when they do.
    since: Option<Time>,
    /// The queue has been full since it became long.
    full: bool,
    /// Fewest flows since then: one that is gone may have been who filled it.
    flows: f64,
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
    /// How much the reported capacity changed in the last second, in powers of e.
    breath: f64,
    /// Packets in flight that a link that breathes takes beyond what it reports: a radio without load leaves its time to others, and
    /// reports the rest.
    found: f64,
    arrival: f64,
    pub(super) flows: f64,
    /// An equal part of it, as the excess knows it.
    equal: f64,
    /// Packets that wait.
    queue: f64,
    /// Fewest that waited since this time, which was a round trip ago at most, and in the round trip before.
    fewest: [f64; 2],
    fewest_since: Time,
    /// Growth of the queue in packets a second, weighted as the hop weights arrivals.
    growth: f64,
    /// Departures when it was last idle, and since when it has been busy.
    idle_departures: f64,
    busy_since: Option<Time>,
    /// The flow's part of spare capacity, in packets a second.
    pub(super) excess: f64,
    /// Its part of what arrived in the last second.
    brings: f64,
    /// Growth of the capacity, or what is spare of it, in a round trip.
    probe: f64,
    /// How long the queue has been long.
    strained: Nanos,
    contest: Contest,
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
        // The share is not known where flows are more than are counted.
        let flows = hop.flows.filter(|flows| *flows < COUNT_ENDS);
        let (Some(queue), Some(arrival), Some(flows)) = (queue, hop.arrival, flows) else { return false };
        let first = self.id != hop.id || self.at == Time::ZERO;
        if first {
            let (roomiest, idle_departures) = (self.roomiest, packets(arrival));
            let (fewest, fewest_since) = ([queue, 0.0], now);
            *self = Self {
                id: hop.id,
                queue,
                fewest,
                fewest_since,
                probe: PROBE,
                roomiest,
                idle_departures,
                equal: f64::from(flows.max(1)).recip(),
                ..Self::default()
            };
        }
        let span = if first { Nanos::ZERO } else { (now - self.at).min(SHARING) };
        let passed = span.as_secs_f64();
        let fade = libm::exp(-passed / METER.as_secs_f64());
        self.growth = self.growth * fade + (queue - self.queue) / METER.as_secs_f64();
        let flows = f64::from(flows.max(1));
        (self.at, self.current) = (now, true);
        (self.queue, self.arrival, self.flows) = (queue, packets(arrival), flows);
        self.stand(now, own.srtt);
        // What a full queue drops has arrived and does not depart.
        let full = hop.room_packets.is_some_and(|room| f64::from(room) < WAITING);
        self.measure(now, hop.capacity.map(packets).filter(|rate| *rate > 0.0), full, own, passed);
        self.share_out(span, own);
        let scarce = hop.room_packets.is_some_and(|room| f64::from(room) < SCARCE.0.max(SCARCE.1 * f64::from(limit)));
        self.contend(now, scarce);
        true
    }

    /// Follows the queue that stays when bursts have left: of arrivals that come together, and of links that take several packets at once.
    fn stand(&mut self, now: Time, srtt: Nanos) {
        if now - self.fewest_since < srtt {
            self.fewest[0] = self.fewest[0].min(self.queue);
        } else {
            (self.fewest, self.fewest_since) = ([self.queue, self.fewest[0]], now);
        }
    }

    /// Finds the capacity: as reported, unless the link proves slower while packets wait; where it is not reported, what departs while
    /// packets wait, and a little more each round trip while none do.
    fn measure(&mut self, now: Time, reported: Option<f64>, full: bool, own: &Own, passed: f64) {
        self.breath *= libm::exp(-passed);
        if let Some((rate, before)) = reported.zip(self.reported) {
            self.breath += libm::log(rate / before).abs();
        }
        if self.breathes() {
            self.reported = reported.or(self.reported);
            self.breathe(own, passed);
            return;
        }
        self.found = 0.0;
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

    /// The reported capacity changes all the time: it is that of some time ago, of a radio that was partly idle. More is probed while no queue
    /// stands, and given up by the queue that does.
    fn breathe(&mut self, own: &Own, passed: f64) {
        let (reported, srtt) = (self.reported.unwrap_or(1.0), own.srtt.as_secs_f64());
        let (round, standing) = ((passed / srtt).min(1.0), self.standing());
        if standing > own.burst {
            // Half of it at most: others of a radio hold a whole window back for a moment.
            self.found -= (standing - own.burst).min(0.5 * self.found) * round;
            self.probe = (0.5 * self.probe).max(PROBE);
        } else if own.limited && self.holds(own) && self.arrival >= FOLLOWS * reported {
            self.found += self.probe * own.rate * srtt * round;
            let follows = self.arrival >= FOLLOWED * reported;
            self.probe = if follows { (self.probe * (1.0 + round)).min(REPORTED_PROBE_MOST) } else { PROBE };
        }
        // What fits into the path of a flow alone, and what stands between two bursts of the link; others would fill it.
        let path = if self.flows > 1.0 { srtt } else { own.path.min(own.srtt).as_secs_f64() };
        self.capacity = Some((reported * path + self.found) / srtt);
        self.busy_since = None;
    }

    pub(super) fn breathes(&self) -> bool {
        self.breath > BREATHES
    }

    /// The flow is alone on a link that breathes: what may wait there is a matter of the window, and the link takes it at its own pace.
    pub(super) fn is_own_radio(&self) -> bool {
        self.breathes() && self.flows <= 1.0
    }

    /// Packets that stand in front of it.
    fn standing(&self) -> f64 {
        self.fewest[0].min(self.fewest[1])
    }

    /// Finds the flow's part of what others leave, and how much a queue may still cost.
    fn share_out(&mut self, span: Nanos, own: &Own) {
        let Some(capacity) = self.capacity else { return };
        let given = UTILISATION * capacity;
        let strain = self.strain(capacity);
        let steps = span.as_secs_f64() / SHARING.as_secs_f64();
        let equal = self.flows.recip();
        // Another count alone changes no rate: flows that come bring little at first, and one that comes for a moment is counted for long.
        self.excess += given * (self.equal - equal);
        self.equal = equal;
        let brings = (own.rate / self.arrival.max(1.0)).min(1.0);
        self.brings += (brings - self.brings) * (1.0 - libm::exp(-span.as_secs_f64()));
        let brings = self.brings.max(equal);
        if strain > 0.0 {
            // A queue that stays is of flows that want their part, and one of a moment's burst leaves what was spare.
            let over = (GIVING_BACK - self.strained).max(SHARING);
            self.excess *= libm::exp(-strain * span.as_secs_f64() / over.as_secs_f64());
        } else if own.limited && self.holds(own) && (self.arrival < SPARE * given || self.standing() < STANDING) {
            let spare = (given - self.arrival).max(self.probe.min(REPORTED_PROBE_MOST) * given);
            self.excess += spare * brings * steps;
        }
        self.excess = self.excess.min(given - given / self.flows).max(0.0);
        self.strained = if strain >= 0.5 { self.strained + span } else { Nanos::ZERO };
    }

    /// The flow's rate is what this hop permits: one that another holds back, or what arrives, takes no more here.
    fn holds(&self, own: &Own) -> bool {
        self.share().is_none_or(|share| share <= 1.25 * own.rate)
    }

    /// Whether the queue is others' who fill it: long for all the patience, and full. It is not any more when the queue is short, or one of
    /// them is gone, and has to be seen again from time to time: flows that only answer each other give way together then.
    fn contend(&mut self, now: Time, scarce: bool) {
        let Some(capacity) = self.capacity else { return };
        let (strain, contest) = (self.strain(capacity), &mut self.contest);
        if self.strained == Nanos::ZERO {
            contest.flows = self.flows;
        }
        let over = contest.since.is_some_and(|since| now - since >= SEEN_AGAIN);
        if self.flows < contest.flows || over {
            (*contest, self.strained) = (Contest { flows: self.flows, ..Contest::default() }, Nanos::ZERO);
        }
        contest.full = strain > 0.0 && (contest.full || scarce);
        if strain == 0.0 {
            contest.since = None;
        } else if contest.full && self.strained >= PATIENCE && self.flows > 1.0 {
            contest.since.get_or_insert(now);
        }
    }

    /// Others fill the queue whatever the flow gives up.
    pub(super) fn is_contended(&self) -> bool {
        self.contest.since.is_some()
    }

    /// Several flows have filled its queue, and it has not become short since.
    pub(super) fn is_full(&self) -> bool {
        self.flows > 1.0 && self.contest.full
    }

    /// What the flow had beyond its share in a contest is its own part of what others leave.
    pub(super) fn keep(&mut self, rate: f64) {
        if let Some(capacity) = self.capacity {
            self.excess = self.excess.max(rate - UTILISATION * capacity / self.flows);
        }
    }

    /// How urgent it is to drain the queue, from 0 to 1.
    fn strain(&self, capacity: f64) -> f64 {
        let delay = self.standing() / capacity;
        let (least, most) = (TARGET.as_secs_f64(), LONG.as_secs_f64());
        ((delay - least) / (most - least)).clamp(0.0, 1.0)
    }

    fn rate(&self, capacity: f64) -> f64 {
        if self.is_own_radio() {
            return capacity;
        }
        let strain = self.strain(capacity);
        let over = (self.strained - PATIENCE).as_secs_f64() / PATIENCE.as_secs_f64();
        let drain = if self.flows > 1.0 { DRAIN } else { DRAIN_ALONE } * (1.0 - over.min(1.0));
        UTILISATION * capacity / self.flows * (1.0 - drain * strain) + self.excess * (1.0 - DRAIN_EXCESS * strain)
    }

    /// Packets a second that are this flow's; `None` where the capacity is not known.
    pub(super) fn share(&self) -> Option<f64> {
        self.capacity.map(|capacity| self.rate(capacity))
    }

    /// How long its queue is; `None` where the capacity is not known. Of a link that breathes what is found is a matter of the path.
    pub(super) fn delay(&self) -> Option<Nanos> {
        let least = self.reported.filter(|_| self.breathes()).unwrap_or(0.0);
        self.capacity.map(|capacity| Nanos::from_secs_f64(self.queue / capacity.max(least)))
    }
}
