//! Paced chirping past the paper (`start=chirp`): what each generation got right, and what they left open.
//!
//! Source: Misund and Briscoe, "Paced Chirping" (2019); the choices below are ours, each decided by an
//! experiment (`docs/results/paced-chirping.md`).
//!
//! - **Bursts first** (2018): two bursts of five without gaps, half a round trip apart, show the bottleneck's own gap at
//!   any rate. A flow that fits the initial window sends it at once, in two parts.
//! - **No rounds** (newest branch): a *load* says how many packets may be in flight. Each chirp that returns moves it.
//! - **Calm and busy.** A chirp that finds the bottleneck's own gap and no mark met no other flow: the load grows by the gain,
//!   and towards the end by a third of what is missing. Any other chirp met traffic that has to yield first: the load
//!   grows by a few packets a round trip, more the longer no mark came.
//! - **Marks count** one by one: each takes about a third of a packet off the load. The window is not cut (the policy's alpha
//!   sees the marks all the same).
//! - **The gap of a chirp** is read between the last gap that did not queue and the first that did; a chirp that queued
//!   from its first packet is read by how far apart it arrived.
//! - **It ends** when the load comes near what the gap found would fill, after twenty round trips without calm growth,
//!   when a queue of 30 ms stands, on loss, or when chirps cannot be read (slow start goes on from there where the host
//!   could not keep the gaps). So it always ends.
//! - **It hands over once**: capacity that becomes free later is the policy's to find. After a spurious loss it goes on. With
//!   `chirp_again=on` it looks whether capacity has become free when a path that marks has marked nothing for two round trips more than
//!   twice the time between marks in a steady state, and takes what is.
//! - **A silence** leaves standing what was in use before, for five minutes (RFC 7661): the load while it chirps, the window
//!   after it has handed over, which then leaves over a round trip. A flow that has less to send than its load is not waiting.

use std::collections::VecDeque;

use crate::controller::{Ack, Acked, Env, Pacing, Restart, Sent};
use crate::hystart::HyStartPlusPlus;
use crate::units::{Nanos, Time};
use crate::window::{INITIAL_WINDOW, MINIMUM_WINDOW, Signal, StartUp, Window};

use super::Settings;
use super::flight::{tag, untag};
use super::geometry::{Chirp, Divisor, LONGEST};
use super::train::{Arrival, FEWEST, Train, Unread};

/// Packets of each opening burst: half the initial window (the module of 2018).
const BURST_PACKETS: u64 = 5;
/// Opening bursts.
const BURSTS: u64 = 2;
/// Time between them where no RTT is known: a third of the paper's shortest RTT (our choice).
const BURST_GUARD: Nanos = Nanos::from_millis(5);
/// The two parts of a flow that fits the initial window are this much of an RTT apart (our choice: five packets at 100
/// Mbit/s take 0.6 ms, a sixteenth of 15 ms is 0.9 ms).
const SHORT_GUARDS_PER_RTT: u64 = 16;
/// Average gap of the first chirps when the bursts measured nothing: this part of an RTT (newest branch), or 200 us (2019).
const UNKNOWN_GAPS_PER_RTT: u64 = 64;
const UNKNOWN_GAP: Nanos = Nanos::from_micros(200);
/// Fewest packets of a chirp: pathChirp's shortest excursion.
const SHORTEST_CHIRP: usize = 5;
/// Chirps under way when the load is used up: while one returns, another is on its way and a third leaves.
const CHIRPS_UNDER_WAY: f64 = 3.0;
/// Chirps leave at no less than this share of the capacity found, and wait then, so that short flows end early.
const LEAST_PACE_SHARE: f64 = 0.5;
/// A gap this many times that of the bursts means that there is other traffic.
const BUSY_GAP_RATIO: f64 = 1.125;
/// Calm growth a round trip is at most this share of what is missing...
const APPROACH_SHARE: f64 = 1.0 / 3.0;
/// ...above this share of what the gap found would fill; below, the gain alone counts.
const FREE_SHARE: f64 = 0.2;
/// Busy growth in packets a round trip, and what each round trip without a mark adds to it.
const BUSY_STEP: f64 = 4.0;
const BUSY_STEP_GROWTH: f64 = 2.0;
/// What a mark takes off the load, in packets: less than the half of a scalable control, which grows by one a round trip.
const LOAD_OFF_PER_MARK: f64 = 0.35;
/// The load stays at one shortest chirp.
const LEAST_LOAD: f64 = SHORTEST_CHIRP as f64;
/// Near enough to what the gap found would fill, and what is handed over then.
const NEAR_SHARE: f64 = 0.8;
const HAND_OVER_SHARE: f64 = 0.95;
/// Round trips without calm growth, in total, that end it.
const LONGEST_WAIT: f64 = 20.0;
/// The same while it looks whether capacity has become free: it takes what is free, and displaces no other flow.
const LONGEST_LOOK: f64 = 2.0;
/// A standing queue this long ends it (newest branch): the capacity has fallen, or another flow fills the queue.
const LONGEST_QUEUE: Nanos = Nanos::from_millis(30);
/// Trains in a row that could not be read and end it.
const MOST_UNREADABLE: u32 = 8;
/// Lone acknowledgements in a row that end what shared ones began (our choice: as many as the shortest chirp has packets).
const LONE: usize = SHORTEST_CHIRP;
/// Short packets in a row that no chirp begins with: a probe timeout sends two (RFC 9002 section 6.2.4), and a stack of QUIC keeps them small.
const MOST_PROBES: u32 = 2;
/// Deviations of the estimates, as shares of the gap, below which they count as repeating, above which as scattered.
const REPEATING_BELOW: f64 = 0.125;
const SCATTERED_ABOVE: f64 = 0.25;
/// A silence of this long halves what was in use before it (RFC 7661 section 4.4.3).
const SILENCE_THAT_HALVES: Nanos = Nanos::from_secs(300);
/// Round trips without a mark, beyond twice those between marks in a steady state, that mean that capacity has become free
/// (Paced Chirping section V has two; twice is ours, because one steady flow's intervals scatter).
const VANISHED_AFTER: f64 = 2.0;

/// One train of packets.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    /// Without gaps.
    Burst(usize),
    Chirp(Chirp),
    /// What is left of the data, at the gap found.
    Rest(usize),
}

impl Shape {
    fn packets(&self) -> usize {
        match self {
            Self::Burst(packets) | Self::Rest(packets) => *packets,
            Self::Chirp(chirp) => chirp.packets(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Chirping,
    /// Paced at this gap, until this many packets more have been acknowledged.
    Transition {
        gap: Nanos,
        left: u64,
    },
    /// The host cannot keep the gaps: slow start, which looks at the delay at least (RFC 9406).
    Slow,
    /// The policy is in charge; after a timeout slow start.
    Over,
    /// As over, but paced at this gap after a silence, until this many packets more have been acknowledged.
    Resuming {
        gap: Nanos,
        left: u64,
    },
}

/// A train in flight.
#[derive(Clone, Copy, Debug)]
struct Flying {
    train: Train,
    shape: Shape,
    marked: u64,
}

/// Paced chirping, our version.
#[derive(Clone, Debug)]
pub struct Adaptive {
    mss: u32,
    settings: Settings,
    slow: HyStartPlusPlus,
    stage: Stage,
    /// The stage that the last congestion ended.
    ended: Stage,
    /// Average of the estimates.
    gap: Option<Nanos>,
    /// Smallest gap that a burst found: the bottleneck's own.
    capacity: Option<Nanos>,
    /// Average deviation of the estimates as a share of the gap.
    scatter: f64,
    srtt: Nanos,
    min_rtt: Nanos,
    /// Packets that may be in flight, and that are.
    load: f64,
    in_flight: f64,
    /// Round trips since a mark, and those without calm growth.
    unmarked: f64,
    waiting: f64,
    /// It has taken charge again to see whether capacity has become free.
    looking: bool,
    /// Trains in a row that could not be read, and those of them that left ragged.
    unreadable: u32,
    ragged: u32,
    /// Packets acknowledged since the load has been near its end.
    near: f64,
    /// Opening bursts still to be sent, and whether they hold the whole flow.
    bursts: u64,
    short: bool,
    /// Number of the next train.
    next: u64,
    /// The last train begun, and how many of its packets have left.
    plan: Option<(Shape, usize)>,
    flying: VecDeque<Flying>,
    /// Most packets that shared an acknowledgement, while some do: a lone one may have waited then.
    shared: usize,
    /// Acknowledgements of one packet in a row since.
    lone: usize,
    /// Short packets in a row that left before a chirp.
    probes: u32,
    /// When the last mark came; `None` on a path that has marked nothing.
    marked_at: Option<Time>,
}

impl Adaptive {
    /// Chirps of packets of `env.mss` bytes.
    pub fn new(env: &Env, settings: &Settings) -> Self {
        Self {
            mss: env.mss,
            settings: *settings,
            slow: HyStartPlusPlus::new(env),
            stage: Stage::Chirping,
            ended: Stage::Over,
            gap: None,
            capacity: None,
            scatter: SCATTERED_ABOVE,
            srtt: Nanos::ZERO,
            min_rtt: Nanos::MAX,
            load: INITIAL_WINDOW,
            in_flight: 0.0,
            unmarked: 0.0,
            waiting: 0.0,
            looking: false,
            unreadable: 0,
            ragged: 0,
            near: 0.0,
            bursts: BURSTS,
            short: false,
            next: 0,
            plan: None,
            flying: VecDeque::new(),
            shared: 1,
            lone: 0,
            probes: 0,
            marked_at: None,
        }
    }

    fn packets(&self, bytes: u64) -> f64 {
        bytes as f64 / f64::from(self.mss)
    }

    /// The gap found.
    fn found(&self) -> Nanos {
        let unknown = if self.srtt > Nanos::ZERO { self.srtt.mul_div(1, UNKNOWN_GAPS_PER_RTT) } else { UNKNOWN_GAP };
        self.gap.unwrap_or(unknown)
    }

    /// The gap about which chirps are sent: no wider than the load's own.
    fn centre(&self) -> Nanos {
        let gap = self.found();
        if self.srtt > Nanos::ZERO { gap.min(self.srtt.mul_f64(1.0 / self.load)) } else { gap }
    }

    /// Packets that fill a round trip when they are `gap` apart.
    fn filling(&self, gap: Nanos) -> f64 {
        self.srtt.as_nanos() as f64 / gap.as_nanos().max(1) as f64
    }

    /// Packets of the next chirp: its part of the load, and enough for acknowledgements that are shared.
    fn size(&self) -> usize {
        let shared = if self.shared > 1 { FEWEST * self.shared } else { 0 };
        ((self.load / CHIRPS_UNDER_WAY) as usize).max(SHORTEST_CHIRP).min(self.settings.packets).max(shared)
    }

    /// The train that the next packet belongs to, and the packet's index there.
    fn place(&mut self, sent: &Sent) -> (Shape, usize) {
        if let Some((shape, gone)) = self.plan
            && gone < shape.packets()
        {
            return (shape, gone);
        }
        let left = 1 + sent.unsent.div_ceil(u64::from(self.mss));
        let size = self.size();
        let shape = if self.bursts > 0 {
            self.short |= self.next == 0 && left as f64 <= INITIAL_WINDOW;
            self.bursts -= 1;
            Shape::Burst(left.min(BURST_PACKETS) as usize)
        } else if left < size as u64 {
            Shape::Rest(left as usize)
        } else {
            Shape::Chirp(Chirp::new(size, self.centre(), self.settings.geometry, Divisor::Gaps))
        };
        self.flying.push_back(Flying { train: Train::new(self.next, shape.packets()), shape, marked: 0 });
        self.next += 1;
        (shape, 0)
    }

    /// A chirp would begin with this packet, and could not be read because the packet is short.
    fn is_probe(&mut self, sent: &Sent) -> bool {
        let under_way = self.plan.is_some_and(|(shape, gone)| gone < shape.packets());
        let whole = self.size() as u64 * u64::from(self.mss);
        let probe = sent.bytes < self.mss && !under_way && self.bursts == 0 && sent.unsent >= whole;
        self.probes = if probe && self.probes < MOST_PROBES { self.probes + 1 } else { 0 };
        self.probes > 0
    }

    /// An acknowledgement delivers this many packets. A row of lone ones shows that the receiver delays none, and that those before only met on
    /// the way.
    fn count_shared(&mut self, packets: usize) {
        if packets > 1 {
            self.shared = self.shared.max(packets.min(LONGEST / FEWEST));
            self.lone = 0;
        } else if packets == 1 && self.shared > 1 {
            self.lone += 1;
            if self.lone >= LONE {
                self.shared = 1;
            }
        }
    }

    /// The silence after a train, so that the queue is empty before the next and the mean rate is the load's.
    fn guard(&self, shape: &Shape) -> Nanos {
        let part =
            |of: u64| if self.srtt > Nanos::ZERO { self.srtt.mul_div(1, of) } else { BURST_GUARD.mul_div(2, of) };
        match shape {
            Shape::Burst(_) if self.short => part(SHORT_GUARDS_PER_RTT),
            Shape::Burst(_) if self.bursts > 0 => part(2),
            Shape::Burst(_) | Shape::Rest(_) => self.centre(),
            Shape::Chirp(chirp) => {
                let share = (self.load / self.filling(self.found()).max(1.0)).clamp(LEAST_PACE_SHARE, 1.0);
                let whole = self.centre().mul_f64(chirp.packets() as f64 / share);
                (whole - chirp.length()).max(self.centre())
            }
        }
    }

    fn on_acked(&mut self, packet: &Acked, arrival: Arrival) {
        if packet.ce {
            self.load = (self.load - LOAD_OFF_PER_MARK).max(LEAST_LOAD);
        }
        let Some((number, index)) = untag(packet.tag) else { return };
        let Some(at) = self.flying.iter().position(|flying| flying.train.number == number) else { return };
        let flying = &mut self.flying[at];
        flying.marked += u64::from(packet.ce);
        flying.train.on_acked(index, packet, arrival);
        if !flying.train.is_back() {
            return;
        }
        let Flying { train, shape, marked } = *flying;
        // Trains before this one that are not back by now have lost their order.
        self.flying.drain(..=at);
        let packets = shape.packets() as f64;
        self.unmarked = if marked > 0 { 0.0 } else { self.unmarked + packets / self.load };
        let reading = match shape {
            Shape::Burst(_) => train.read_burst(),
            Shape::Chirp(_) => train.read_chirp(),
            Shape::Rest(_) => return,
        };
        self.waiting += packets / self.load;
        let reading = match reading {
            Ok(reading) => reading,
            Err(why) => {
                self.unreadable += 1;
                self.ragged += u32::from(why == Unread::Ragged);
                return;
            }
        };
        (self.unreadable, self.ragged) = (0, 0);
        if let Shape::Burst(_) = shape {
            self.capacity = Some(self.capacity.map_or(reading, |capacity| capacity.min(reading)));
        }
        self.average(reading);
        self.grow(packets, reading, marked as f64 / packets);
    }

    fn average(&mut self, reading: Nanos) {
        let Some(gap) = self.gap else {
            self.gap = Some(reading);
            return;
        };
        let off = if reading > gap { reading - gap } else { gap - reading };
        let deviation = off.as_nanos() as f64 / gap.as_nanos().max(1) as f64;
        self.scatter = 0.5 * (self.scatter + deviation);
        self.gap = Some((gap + reading).mul_div(1, 2).max(Nanos::from_nanos(1)));
    }

    /// Growth of the load from one round trip to the next while no other flow is there.
    fn gain(&self) -> f64 {
        let gain = self.settings.gain;
        if self.scatter < REPEATING_BELOW {
            gain + 1.0
        } else if self.scatter <= SCATTERED_ABOVE {
            gain
        } else {
            1.0 + (gain - 1.0) / 2.0
        }
    }

    /// A train of `packets` found `reading`, and `marked` of it, as a share, was marked.
    fn grow(&mut self, packets: f64, reading: Nanos, marked: f64) {
        let target = self.filling(self.found());
        // The train's part of a round trip.
        let part = packets / self.load;
        let room = (target.min(self.filling(reading)) - self.load).max(0.0);
        let met = self.capacity.is_some_and(|capacity| reading > capacity.mul_f64(BUSY_GAP_RATIO));
        let busy = marked > 0.0 || met;
        // Marks say when it is too much; where none ever came, the delay has to.
        let pushing = busy && self.marked_at.is_some();
        if busy {
            let step = (BUSY_STEP + BUSY_STEP_GROWTH * self.unmarked) * part * (1.0 - marked);
            self.load += match (self.looking, pushing) {
                (true, _) => 0.0,
                (false, true) => step,
                (false, false) => step.min(room),
            };
        } else {
            let most = if self.load < FREE_SHARE * target {
                f64::INFINITY
            } else {
                APPROACH_SHARE * (target - self.load).max(0.0)
            };
            let step = ((self.gain() - 1.0) * packets).min(most * part).min(room);
            if step > 0.0 {
                self.waiting -= part;
            }
            self.load += step;
        }
        self.near = if !pushing && self.load >= NEAR_SHARE * target { self.near + packets } else { 0.0 };
    }

    /// Where the start-up ends: the window that is handed over.
    fn end(&self) -> Option<f64> {
        // Half a round trip of chirps confirms it.
        if self.near > 0.0 && self.near >= self.load / 2.0 {
            return Some(self.load.max(HAND_OVER_SHARE * self.filling(self.found())));
        }
        if self.srtt >= self.min_rtt + LONGEST_QUEUE {
            return Some(self.load * self.min_rtt.as_nanos() as f64 / self.srtt.as_nanos() as f64);
        }
        let patience = if self.looking { LONGEST_LOOK } else { LONGEST_WAIT };
        (self.waiting > patience || self.unreadable >= MOST_UNREADABLE).then_some(self.load)
    }

    /// Trains under way will not be read.
    fn forget_trains(&mut self) {
        self.plan = None;
        self.flying.clear();
    }
}

impl StartUp for Adaptive {
    fn on_sent(&mut self, sent: &Sent, window: &mut Window) -> u64 {
        if self.stage != Stage::Chirping || sent.bytes == 0 || sent.retransmission {
            return 0;
        }
        self.in_flight = self.packets(sent.in_flight);
        if self.is_probe(sent) {
            return 0;
        }
        let (shape, index) = self.place(sent);
        self.plan = Some((shape, index + 1));
        // The load and the gaps hold the flow back, the window does not: there is room for the longest chirp.
        window.cwnd = window.cwnd.max(self.in_flight + LONGEST as f64);
        let Some(flying) = self.flying.back_mut() else { return 0 };
        if sent.bytes != self.mss {
            flying.train.spoil();
        }
        tag(flying.train.number, index)
    }

    fn observe(&mut self, ack: &Ack<'_>) {
        self.srtt = ack.srtt;
        self.min_rtt = ack.min_rtt;
        self.in_flight = self.packets(ack.in_flight);
        if ack.ce_bytes > 0 {
            self.marked_at = Some(ack.now);
        }
        if let Stage::Resuming { gap, left } = self.stage {
            let left = left.saturating_sub(ack.packets.len() as u64);
            self.stage = if left > 0 { Stage::Resuming { gap, left } } else { Stage::Over };
        }
    }

    /// What is lost is not in flight: were all of it lost, nothing would come that ends the wait for it.
    fn loses(&mut self, packets: f64, _window: &mut Window) {
        self.in_flight = (self.in_flight - packets).max(0.0);
    }

    fn on_mss(&mut self, mss: u32) {
        self.mss = mss;
    }

    fn on_ack(&mut self, ack: &Ack<'_>, window: &mut Window) {
        match self.stage {
            Stage::Slow | Stage::Over | Stage::Resuming { .. } => self.slow.on_ack(ack, window),
            Stage::Transition { gap, left } => {
                let acked = ack.packets.len() as u64;
                if acked <= left {
                    self.stage = Stage::Transition { gap, left: left - acked };
                    return;
                }
                self.stage = Stage::Over;
                // What is in flight without what waits; where the application had less, what may be.
                let packets = if ack.window_limited { self.in_flight } else { window.cwnd };
                let rtt = ack.rtt.unwrap_or(ack.srtt).as_nanos().max(1);
                let waiting_less = ack.min_rtt.as_nanos() as f64 / rtt as f64;
                window.cwnd = (packets * waiting_less.min(1.0)).max(MINIMUM_WINDOW);
                window.ssthresh = window.cwnd;
            }
            Stage::Chirping => {
                self.count_shared(ack.packets.len());
                for (place, packet) in ack.packets.iter().enumerate() {
                    let newest = place + 1 == ack.packets.len();
                    let arrival = match packet.received_at {
                        None if self.shared > 1 && ack.packets.len() == 1 => Arrival::Unknown,
                        Some(at) => Arrival::Receiver(at),
                        None if newest => Arrival::Sender(ack.now),
                        None => Arrival::Unknown,
                    };
                    self.on_acked(packet, arrival);
                }
                if self.ragged >= MOST_UNREADABLE {
                    self.stage = Stage::Slow;
                    window.cwnd = self.load;
                    self.forget_trains();
                } else if let Some(found) = self.end() {
                    let found = found.max(MINIMUM_WINDOW);
                    self.stage = Stage::Transition { gap: self.srtt.mul_f64(1.0 / found), left: found as u64 };
                    window.cwnd = found;
                    self.forget_trains();
                }
            }
        }
    }

    /// The window handed to the policy is what the load and the gap vouch for.
    fn on_congestion(&mut self, _signal: Signal, window: &mut Window) {
        match self.stage {
            Stage::Over | Stage::Resuming { .. } => return,
            Stage::Chirping => window.cwnd = window.cwnd.min(self.load),
            Stage::Transition { .. } | Stage::Slow => {}
        }
        self.ended = std::mem::replace(&mut self.stage, Stage::Over);
        self.forget_trains();
    }

    fn on_spurious(&mut self) {
        if self.gap.is_some() {
            self.stage = self.ended;
        }
    }

    fn on_restart(&mut self, restart: &Restart, window: &mut Window) -> bool {
        if restart.idle < restart.rto || self.srtt == Nanos::ZERO || self.stage == Stage::Slow {
            return false;
        }
        let halvings = SILENCE_THAT_HALVES.times_in(restart.idle).min(32);
        let standing = |packets: f64| (packets / (1u64 << halvings) as f64).max(INITIAL_WINDOW.min(packets));
        match self.stage {
            Stage::Chirping => {
                self.load = standing(self.load);
                self.unmarked = 0.0;
                self.forget_trains();
            }
            Stage::Over | Stage::Resuming { .. } => {
                if halvings > 0 {
                    window.ssthresh = window.ssthresh.max(0.75 * window.cwnd);
                }
                window.cwnd = standing(window.cwnd);
                self.stage = Stage::Resuming { gap: self.srtt.mul_f64(1.0 / window.cwnd), left: window.cwnd as u64 };
            }
            Stage::Transition { .. } | Stage::Slow => {}
        }
        true
    }

    fn resumes(&mut self, ack: &Ack<'_>, window: &mut Window) -> bool {
        let Some(marked_at) = self.marked_at.filter(|_| self.settings.again) else { return false };
        // Over a step, sqrt(2 W)/2 round trips from mark to mark (Alizadeh et al., "Analysis of DCTCP", 2011).
        let twice_usual = libm::sqrt(2.0 * window.cwnd);
        if !ack.window_limited || ack.now - marked_at < self.srtt.mul_f64(VANISHED_AFTER + twice_usual) {
            return false;
        }
        self.marked_at = Some(ack.now);
        self.looking = true;
        self.stage = Stage::Chirping;
        self.gap = Some(self.min_rtt.mul_f64(1.0 / window.cwnd.max(MINIMUM_WINDOW)));
        self.scatter = SCATTERED_ABOVE;
        self.load = window.cwnd.max(LEAST_LOAD);
        (self.unmarked, self.waiting, self.near) = (0.0, 0.0, 0.0);
        (self.unreadable, self.ragged, self.bursts) = (0, 0, 0);
        self.forget_trains();
        *window = Window { cwnd: self.load, ssthresh: f64::INFINITY };
        true
    }

    /// Gaps that were measured vouch for the window, not flights (Misund and Briscoe 2019).
    fn limit(&self, window: &Window, max_flight: f64) -> f64 {
        match self.stage {
            Stage::Chirping | Stage::Transition { .. } => f64::INFINITY,
            Stage::Slow | Stage::Over | Stage::Resuming { .. } => self.slow.limit(window, max_flight),
        }
    }

    fn holds_against_marks(&self) -> bool {
        matches!(self.stage, Stage::Chirping | Stage::Transition { .. })
    }

    fn pacing(&self) -> Option<Pacing> {
        match (self.stage, &self.plan) {
            (Stage::Slow | Stage::Over, _) | (Stage::Chirping, None) => None,
            (Stage::Transition { gap, .. } | Stage::Resuming { gap, .. }, _) => Some(Pacing::Gap(gap)),
            (Stage::Chirping, Some((shape, gone))) if *gone < shape.packets() => Some(Pacing::Gap(match shape {
                Shape::Burst(_) => Nanos::ZERO,
                Shape::Chirp(chirp) => chirp.gap(gone - 1),
                Shape::Rest(_) => self.centre(),
            })),
            (Stage::Chirping, Some((shape, _))) => {
                let held = self.bursts == 0 && self.in_flight >= 1.0 && self.in_flight + self.size() as f64 > self.load;
                Some(Pacing::Gap(if held { Nanos::MAX } else { self.guard(shape) }))
            }
        }
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        report("chirping", f64::from(u8::from(self.stage == Stage::Chirping)));
        report("chirp_gap_us", self.found().as_nanos() as f64 / 1e3);
        report("chirps", self.next as f64);
        report("chirp_load_packets", self.load);
        report("chirp_scatter", self.scatter);
    }
}

#[cfg(test)]
mod tests;
