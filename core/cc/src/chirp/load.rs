//! Chirps without rounds, closer together until the load they make meets what they find (`start=chirp-r`).
//!
//! Source: the newest kernel branch of the authors of Misund and Briscoe, "Paced Chirping" (2019): a library of chirps
//! used by TCP Prague, DCTCP and CUBIC.
//!
//! Two gaps: the *average gap* is what chirps find, the *load gap* sets the mean rate, guard intervals included. Each
//! chirp moves the first towards the path and the second towards the first; where they meet, the start-up ends. A chirp
//! begins when fewer packets are in flight than an RTT holds at the load gap.
//!
//! | exit | window | slow start afterwards |
//! |---|---|---|
//! | the gaps have met, or the RTT has grown by 30 ms | what is in flight, at most what the average gap holds | no |
//! | 200 chirps, or a load gap below 40 µs | the same | yes |
//! | loss | the same, which the policy then reduces | no |
//!
//! What differs from the branch:
//! - A chirp that cannot be believed counts as the average gap; there the flag that says so is never cleared. The rule
//!   is that of the module of 2018 ([`super::analysis::Shrinking`]), and reordered, repeated and short packets and
//!   shared acknowledgements without times of arrival spoil a chirp as in [`super::rounds`].
//! - A loss leaves the reduction to the policy (the branch halves for all of them; CUBIC here takes 0.7).
//! - 40 µs is the branch's limit of internal pacing; it has 20 µs with the fq queue.
//! - A chirp begins only when the application has written all of it, else packets leave unpaced.
//! - Weights of the averages of bursts and of times between acknowledgements are ours, 1/8; the branch's are not
//!   published in the paper.
//! - `chirp_gain` has no part. `chirp_packets` is the least size of a full chirp, `chirp_geometry` the largest
//!   geometry.

use std::collections::VecDeque;

use crate::controller::{Ack, Acked, Env, Pacing, Sent};
use crate::units::{Nanos, Time};
use crate::window::{INITIAL_WINDOW, MINIMUM_WINDOW, Signal, SlowStart, StartUp, Window};

use super::Settings;
use super::analysis::Online;
use super::flight::{Departing, delays, tag, untag};
use super::geometry::{Chirp, Divisor, LONGEST};

/// The gaps at the start, as parts of an RTT that is known.
const GAP_PART: u64 = 64;
const LOAD_PART: u64 = 16;
/// The first is at most this.
const GAP_MAX: Nanos = Nanos::from_millis(1);
/// The gaps at the start when no RTT is known.
const GAP_BLIND: Nanos = Nanos::from_micros(120);
const LOAD_BLIND: Nanos = Nanos::from_micros(2_400);
/// An estimate above this is not used.
const ESTIMATE_MAX: Nanos = Nanos::from_millis(100);
/// The least step of a chirp: the smallest unit of the branch's gaps.
const STEP_MIN: Nanos = Nanos::from_nanos(1_024);
/// Chirps before the start-up gives up.
const CHIRPS_MAX: u64 = 200;
/// This much more than the smallest RTT is too much.
const OVERLOAD: Nanos = Nanos::from_millis(30);
/// Timers keep no shorter load gap.
const TIMER_LIMIT: Nanos = Nanos::from_micros(40);
/// A link with more packets than this in a burst is bursty.
const BURSTY: f64 = 2.0;
/// Largest geometry on a bursty link.
const BURSTY_GEOMETRY: f64 = 1.5;
/// On a bursty link a queue stands from this long on.
const BURSTY_QUEUE: Nanos = Nanos::from_millis(10);
/// Packets of a chirp for each packet of a burst.
const CHIRP_OF_BURST: f64 = 4.0;
/// Weight of a new value in the averages of bursts and of times between acknowledgements, as a shift and as a number.
const WEIGHT_SHIFT: u32 = 3;
const WEIGHT: f64 = 0.125;

/// `average` moved to `sample` by 2^-`shift` of the way, in the branch's integers.
fn averaged(average: Nanos, sample: Nanos, shift: u32) -> Nanos {
    let part = |value: Nanos| Nanos::from_nanos(value.as_nanos().checked_shr(shift).unwrap_or(0));
    average - part(average) + part(sample)
}

/// A chirp of which something is in flight or still to be sent.
#[derive(Clone, Copy, Debug)]
struct Flying {
    number: u64,
    packets: usize,
    acked: usize,
    coarse: usize,
    spoilt: bool,
    online: Online,
    /// When the packet last acknowledged was sent and when it arrived, from the second packet on; the clocks may
    /// differ.
    last: Option<(Time, Time)>,
    /// Shortest wait in the queue.
    least_queue: Nanos,
    /// Packets that came close behind another, and pauses before others.
    aggregated: u64,
    jumps: u64,
}

impl Flying {
    fn new(number: u64, packets: usize) -> Self {
        Self {
            number,
            packets,
            acked: 0,
            coarse: 0,
            spoilt: false,
            online: Online::new(packets),
            last: None,
            least_queue: Nanos::MAX,
            aggregated: 0,
            jumps: 0,
        }
    }

    fn on_acked(&mut self, index: usize, packet: &Acked, delay: i64, coarse: bool, arrival: Time, average: Nanos) {
        self.spoilt |= index != self.acked || packet.retransmitted;
        self.acked += 1;
        self.coarse += usize::from(coarse);
        let (sent, received) = self
            .last
            .map_or((Nanos::ZERO, Nanos::ZERO), |(sent, received)| (packet.sent_at - sent, arrival - received));
        if self.last.is_some() {
            self.aggregated += u64::from(received < average.mul_div(1, 2));
            self.jumps += u64::from(received > sent.max(average + average));
        }
        self.last = Some((packet.sent_at, arrival));
        self.online.push(sent, delay);
    }

    fn estimate(&self) -> Option<Nanos> {
        if self.spoilt || self.coarse > self.packets / 4 {
            return None;
        }
        self.online.gap().filter(|gap| *gap <= ESTIMATE_MAX)
    }

    /// Packets of a burst of the link, where it paused at all.
    fn burst(&self) -> Option<f64> {
        (self.jumps > 0).then(|| (self.aggregated + self.jumps) as f64 / self.jumps as f64)
    }
}

/// Paced chirping by load.
#[derive(Clone, Debug)]
pub struct Load {
    mss: u32,
    settings: Settings,
    slow: SlowStart,
    chirping: bool,
    /// Average of the estimates, and the gap of the mean rate.
    gap: Nanos,
    load: Nanos,
    /// Packets that may be in flight when a chirp begins.
    load_window: f64,
    /// Packets of a burst of the link.
    burst: f64,
    srtt: Nanos,
    min_rtt: Nanos,
    /// In packets.
    in_flight: f64,
    /// When the last acknowledgement came, and the average time between them, a packet.
    last_ack: Option<Time>,
    ack_gap: Nanos,
    /// Number of the next chirp, from 1, and how many have come back.
    next: u64,
    analysed: u64,
    departing: Departing,
    flying: VecDeque<Flying>,
}

impl Load {
    /// Chirps of packets of `env.mss` bytes.
    pub fn new(env: &Env, settings: &Settings) -> Self {
        Self {
            mss: env.mss,
            settings: *settings,
            slow: SlowStart::new(env),
            chirping: true,
            gap: GAP_BLIND,
            load: LOAD_BLIND,
            load_window: INITIAL_WINDOW,
            burst: 1.0,
            srtt: Nanos::ZERO,
            min_rtt: Nanos::MAX,
            in_flight: 0.0,
            last_ack: None,
            ack_gap: Nanos::MAX,
            next: 1,
            analysed: 0,
            departing: Departing::new(env.mss),
            flying: VecDeque::new(),
        }
    }

    fn bursty(&self) -> bool {
        self.burst > BURSTY
    }

    /// Packets of the next chirp.
    fn size(&self) -> usize {
        let full = self.settings.packets;
        match self.next {
            1 | 2 => full.min(5),
            3 | 4 => full.min(8),
            _ => ((CHIRP_OF_BURST * self.burst) as usize).clamp(full, LONGEST),
        }
    }

    /// The next chirp: about the average gap, but not faster than the load; the nearer the two, the flatter.
    fn plan(&self) -> Chirp {
        let packets = self.size();
        let mut centre = self.gap.min(self.load);
        let mut largest = self.settings.geometry;
        if self.bursty() {
            centre = centre.mul_div(3, 4);
            largest = largest.min(BURSTY_GEOMETRY);
        }
        let gap = self.gap.as_nanos().max(1) as f64;
        let least = 1.0 + (packets - 1) as f64 * STEP_MIN.as_nanos() as f64 / gap;
        let geometry = (self.load.as_nanos() as f64 / gap).max(least).min(largest);
        Chirp::new(packets, centre, geometry, Divisor::Gaps)
    }

    /// The silence after a chirp that makes its mean rate that of the load gap.
    fn guard(&self, chirp: &Chirp) -> Nanos {
        let whole = self.load.mul_div(chirp.packets() as u64, 1);
        if whole > chirp.length() + self.load { whole - chirp.length() } else { self.gap }
    }

    /// A chirp may begin with `in_flight` packets in flight. With none there is nothing to wait for.
    fn may_begin(&self, in_flight: f64) -> bool {
        in_flight < self.load_window || in_flight <= 0.0
    }

    /// What is in flight, at most what the average gap holds.
    fn found(&self) -> f64 {
        let most =
            if self.bursty() || self.min_rtt == Nanos::MAX { f64::MAX } else { self.gap.times_in(self.min_rtt) as f64 };
        self.in_flight.min(most).max(MINIMUM_WINDOW)
    }

    fn end(&mut self) {
        self.chirping = false;
        self.flying = VecDeque::new();
    }

    /// A queue stands that this chirp never saw empty.
    fn standing_queue(&self, chirp: &Flying) -> bool {
        let queue = chirp.least_queue;
        queue > self.min_rtt.mul_div(1, 5) && (!self.bursty() || queue > BURSTY_QUEUE)
    }

    /// A chirp has come back whole.
    fn learn(&mut self, chirp: &Flying, ack: &Ack<'_>) {
        self.analysed += 1;
        if let Some(burst) = chirp.burst() {
            self.burst += WEIGHT * (burst - self.burst);
        }
        // About the chirp's share of the window.
        let log = |packets: u64| (packets + 1).ilog2();
        let mut shift = log(self.in_flight as u64).saturating_sub(log(chirp.packets as u64)).max(1);
        let mut estimate = chirp.estimate().unwrap_or(self.gap);
        if self.standing_queue(chirp) {
            let mss = u64::from(self.mss);
            let delivery = ack.rate.map_or(Nanos::MAX, |rate| rate.interval.mul_div(mss, rate.delivered));
            estimate = delivery.min(self.ack_gap).min(ESTIMATE_MAX);
            shift = 1;
        }
        self.gap = averaged(self.gap, estimate, shift);
        if self.gap < self.load {
            self.load = averaged(self.load, self.gap, shift + 1);
        }
        self.load_window = self.load.times_in(self.srtt) as f64;
    }

    fn check_exit(&mut self, window: &mut Window) {
        let met = self.load <= self.gap;
        let overload = self.srtt - self.min_rtt >= OVERLOAD;
        if met || overload || self.analysed >= CHIRPS_MAX || self.load < TIMER_LIMIT {
            window.cwnd = self.found();
            if met || overload {
                window.ssthresh = window.cwnd;
            }
            self.end();
        }
    }

    fn chirp_on_ack(&mut self, ack: &Ack<'_>, window: &mut Window) {
        for (packet, delay, coarse) in delays(ack) {
            let Some((number, index)) = untag(packet.tag) else { continue };
            let Some(at) = self.flying.iter().position(|chirp| chirp.number == number) else { continue };
            let chirp = &mut self.flying[at];
            let arrival = packet.received_at.unwrap_or(ack.now);
            chirp.on_acked(index, packet, delay, coarse, arrival, self.gap);
            chirp.least_queue = chirp.least_queue.min((ack.now - packet.sent_at) - ack.min_rtt);
            if chirp.acked < chirp.packets {
                continue;
            }
            let chirp = *chirp;
            self.flying.remove(at);
            self.learn(&chirp, ack);
            self.check_exit(window);
            if !self.chirping {
                return;
            }
        }
    }

    /// Before the first chirp: the gaps follow from the RTT, where one is known.
    fn open(&mut self) {
        if self.srtt > Nanos::ZERO {
            self.gap = self.srtt.mul_div(1, GAP_PART).min(GAP_MAX);
            self.load = self.srtt.mul_div(1, LOAD_PART);
        }
    }
}

impl StartUp for Load {
    fn on_sent(&mut self, sent: &Sent, window: &mut Window) -> u64 {
        if !self.chirping || sent.bytes == 0 {
            return 0;
        }
        let before = sent.in_flight.saturating_sub(u64::from(sent.bytes)) as f64 / f64::from(self.mss);
        self.in_flight = sent.in_flight as f64 / f64::from(self.mss);
        if !self.departing.in_chirp() {
            let chirp = self.plan();
            if !self.may_begin(before) || !self.departing.suffices(sent, chirp.packets()) {
                self.departing.on_loose(sent);
                return 0;
            }
            self.departing.begin(chirp);
            self.flying.push_back(Flying::new(self.next, chirp.packets()));
            self.next += 1;
            window.cwnd = before + 2.0 * chirp.packets() as f64;
        }
        let Some(flying) = self.flying.back_mut() else { return 0 };
        flying.spoilt |= sent.bytes != self.mss || sent.retransmission;
        tag(flying.number, self.departing.on_sent(sent))
    }

    fn on_mss(&mut self, mss: u32) {
        self.mss = mss;
        self.departing.set_mss(mss);
    }

    fn on_ack(&mut self, ack: &Ack<'_>, window: &mut Window) {
        if !self.chirping {
            self.slow.on_ack(ack, window);
            return;
        }
        (self.srtt, self.min_rtt) = (ack.srtt, ack.min_rtt);
        self.in_flight = ack.in_flight as f64 / f64::from(self.mss);
        if self.next == 1 {
            self.open();
        }
        if !ack.packets.is_empty() {
            if let Some(last) = self.last_ack {
                let gap = (ack.now - last).mul_div(1, ack.packets.len() as u64);
                self.ack_gap = if self.ack_gap == Nanos::MAX { gap } else { averaged(self.ack_gap, gap, WEIGHT_SHIFT) };
            }
            self.last_ack = Some(ack.now);
        }
        self.chirp_on_ack(ack, window);
    }

    fn on_congestion(&mut self, _signal: Signal, window: &mut Window) {
        if self.chirping {
            window.cwnd = self.found();
        }
        self.end();
    }

    /// Gaps that were measured vouch for the window, not flights (Misund and Briscoe 2019).
    fn limit(&self, window: &Window, max_flight: f64) -> f64 {
        if self.chirping { f64::INFINITY } else { self.slow.limit(window, max_flight) }
    }

    fn holds_against_marks(&self) -> bool {
        self.chirping
    }

    fn pacing(&self) -> Option<Pacing> {
        if !self.chirping {
            return None;
        }
        let chirp = self.departing.chirp()?;
        let gap = match self.departing.gap() {
            Some(gap) => gap,
            None if self.departing.too_little(self.size()) => return None,
            None if !self.may_begin(self.in_flight) => Nanos::MAX,
            None => self.guard(&chirp),
        };
        Some(Pacing::Gap(gap))
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        report("chirping", f64::from(u8::from(self.chirping)));
        report("chirp_gap_us", self.gap.as_nanos() as f64 / 1e3);
        report("chirp_load_us", self.load.as_nanos() as f64 / 1e3);
        report("chirp_burst_packets", self.burst);
        report("chirps", (self.next - 1) as f64);
        report("chirps_analysed", self.analysed as f64);
    }
}

#[cfg(test)]
mod tests;
