//! Rounds of chirps, more in each, until they touch: `start=chirp-p` and `start=chirp-q`.
//!
//! Sources: Misund and Briscoe, "Paced Chirping" (2019), and the two modules released with it: that of 2018 behind the
//! paper's figures ([`Release::Paper`]) and its rewrite of 2019 ([`Release::Rewrite`]).
//!
//! | | 2018, `chirp-p` | 2019, `chirp-q` |
//! |---|---|---|
//! | first round | two trains of 5 without gaps, half an RTT apart | two chirps of 5 about 200 µs |
//! | their estimate | mean time between arrivals; the first replaces the average gap | as any chirp's |
//! | third round begins with the answer to | an extra packet, sent at the first answer of all | the second round's first packet |
//! | more chirps a round | every round from the fourth on | only after a round that used all its chirps |
//! | a chirp counts for the round and the exit | when acknowledgements of the round before grant it | when it begins |
//! | one estimate | unbounded | 30 µs to 10 ms |
//! | exit is tested at | every acknowledgement | the end of every chirp |
//! | window afterwards | packets in flight and one more | packets in flight |
//!
//! What differs from the modules:
//! - The sum that ends the start-up counts the gap after each chirp also in `chirp-q`, as in the module of 2018.
//!   Without it the sum stays at 94 % of the RTT at many rates and the start-up never ends.
//! - Gaps are those at which packets left, not those planned; a chirp is rejected by the rule of 2018 when they do not
//!   shrink. One is rejected also when it was reordered, holds short or repeated packets, or when more than a quarter
//!   of its packets shared acknowledgements that report no times of arrival. A rejected chirp leaves the gap as it was.
//! - A loss ends the start-up, from what is in flight; after it there is slow start. The modules went on until a
//!   timeout.
//! - A chirp of 2018 takes the average gap of when it begins, not of when it was scheduled. One of either begins only
//!   when the application has written all of it, else packets leave unpaced.
//! - What acknowledgements grant (2018) lasts for the round, so that its chirps stay spread over it; what is scheduled
//!   at the exit still leaves in chirps, as from that module's list of gaps, before the steady pace of the transition.
//! - Where no handshake has measured an RTT, the guard interval of the first chirp is one gap, and for trains, which know
//!   no gap yet, 200 µs.
//! - The transition to congestion avoidance has the window of 2019 in both; that of 2018 leaves its own unsaid.
//! - The rule of 2018 that adapts gain and geometry to the deviation of the estimates is left out: it was switched off
//!   for every reported result. The deviation is reported.
//! - Times are nanoseconds throughout. There is nothing below to fill, so the limit of 16 packets there (2019) has no
//!   part.

use std::collections::VecDeque;

use crate::controller::{Ack, Acked, Env, Pacing, Sent};
use crate::units::Nanos;
use crate::window::{INITIAL_WINDOW, MINIMUM_WINDOW, Signal, SlowStart, StartUp, Window};

use super::Settings;
use super::flight::{Departing, Flying, delays, tag, untag};
use super::geometry::{Chirp, Divisor};

/// Average gap of the first chirps (2019).
const FIRST_GAP: Nanos = Nanos::from_micros(200);
/// A longer time between arrivals says nothing of a train (2018).
const LONGEST_ARRIVAL_GAP: Nanos = Nanos::from_millis(2);
/// Chirps of the first rounds.
const FIRST_CHIRPS: u64 = 2;
/// The number grows once this many chirps have left.
const GROWTH_AFTER: u64 = 6;
/// The tag of the packet whose acknowledgement begins the third round (2018); no chirp's number comes near it.
const MARKER: u64 = u64::MAX;

/// Which of the two modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// Of 2018, behind the paper's figures.
    Paper,
    /// Of 2019.
    Rewrite,
}

impl Release {
    /// The number of chirps a round is counted in this part of one.
    fn unit(self) -> u64 {
        match self {
            Self::Paper => 128,
            Self::Rewrite => 16,
        }
    }

    /// Bounds of one estimate.
    fn bounds(self) -> (Nanos, Nanos) {
        match self {
            Self::Paper => (Nanos::ZERO, Nanos::MAX),
            Self::Rewrite => (Nanos::from_micros(30), Nanos::from_millis(10)),
        }
    }

    /// Largest gap in the transition to congestion avoidance.
    fn transition_gap_max(self) -> Nanos {
        match self {
            Self::Paper => Nanos::MAX,
            Self::Rewrite => Nanos::from_millis(5),
        }
    }

    /// The chirp of this number is a train without gaps.
    fn is_train(self, number: u64) -> bool {
        self == Self::Paper && number < FIRST_CHIRPS
    }
}

/// Packets of a chirp by its number, where a full one has `full`.
fn size(number: u64, full: usize) -> usize {
    match number {
        0 | 1 => full.min(5),
        2 | 3 => full.min(8),
        _ => full,
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Chirping,
    /// Paced at the gap found, until this many packets more have been acknowledged.
    Transition {
        gap: Nanos,
        target: u64,
        left: u64,
    },
    /// Given up: slow start.
    Over,
}

/// Where the extra packet of the first round is (2018).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Marker {
    /// Not due, or on its way.
    None,
    /// To leave as soon as no chirp does.
    Due,
    /// The packet that left last.
    JustLeft,
}

/// Paced chirping in rounds.
#[derive(Clone, Debug)]
pub struct Rounds {
    release: Release,
    mss: u32,
    settings: Settings,
    slow: SlowStart,
    stage: Stage,
    /// Average of the estimates; nothing before the first train has come back.
    gap: Option<Nanos>,
    /// Average deviation of an estimate from the average before it.
    deviation: Nanos,
    srtt: Nanos,
    /// In packets.
    in_flight: f64,
    /// Chirps allowed in a round, in parts of [`Release::unit`].
    allowed: u64,
    /// Chirps that acknowledgements have granted and that have not been scheduled, and those that have and have not
    /// begun (2018).
    granted: u64,
    scheduled: u64,
    marker: Marker,
    /// Number of the first chirp of this round.
    round_start: u64,
    /// Chirps of this round so far, and the time they take.
    round_chirps: u64,
    round_length: Nanos,
    /// Number of the next chirp.
    next: u64,
    departing: Departing,
    flying: VecDeque<Flying>,
}

impl Rounds {
    /// Chirps of packets of `env.mss` bytes.
    pub fn new(env: &Env, release: Release, settings: &Settings) -> Self {
        let mut rounds = Self {
            release,
            mss: env.mss,
            settings: *settings,
            slow: SlowStart::new(env),
            stage: Stage::Chirping,
            gap: (release == Release::Rewrite).then_some(FIRST_GAP),
            deviation: Nanos::ZERO,
            srtt: Nanos::ZERO,
            in_flight: 0.0,
            allowed: FIRST_CHIRPS * release.unit(),
            granted: 0,
            scheduled: 0,
            marker: Marker::None,
            round_start: 0,
            round_chirps: 0,
            round_length: Nanos::ZERO,
            next: 0,
            departing: Departing::new(env.mss),
            flying: VecDeque::new(),
        };
        rounds.schedule_first();
        rounds
    }

    fn gap(&self) -> Nanos {
        self.gap.unwrap_or(FIRST_GAP)
    }

    /// Whole chirps allowed in a round.
    fn chirps_allowed(&self) -> u64 {
        self.allowed / self.release.unit()
    }

    /// Another chirp may begin. With none in flight there is nothing to wait for.
    fn may_begin(&self) -> bool {
        let room = self.release == Release::Rewrite && self.round_chirps < self.chirps_allowed();
        room || self.scheduled > 0 || self.flying.is_empty()
    }

    fn plan(&self, number: u64) -> Chirp {
        let Settings { packets, geometry, .. } = self.settings;
        let gap = if self.release.is_train(number) { Nanos::ZERO } else { self.gap() };
        Chirp::new(size(number, packets), gap, geometry, Divisor::Packets)
    }

    /// Number of the next chirp to be scheduled.
    fn unscheduled(&self) -> u64 {
        self.next + self.scheduled
    }

    /// Another chirp of this round.
    fn count(&mut self, chirp: &Chirp) {
        self.round_chirps += 1;
        self.round_length += chirp.length() + self.gap();
    }

    fn schedule(&mut self) {
        self.count(&self.plan(self.unscheduled()));
        self.scheduled += 1;
    }

    /// The first three rounds are scheduled whole (2018).
    fn schedule_first(&mut self) {
        if self.release == Release::Paper && self.unscheduled() < GROWTH_AFTER {
            (0..FIRST_CHIRPS).for_each(|_| self.schedule());
        }
    }

    fn begin(&mut self) {
        let chirp = self.plan(self.next);
        if self.scheduled > 0 {
            self.scheduled -= 1;
        } else {
            self.count(&chirp);
        }
        self.departing.begin(chirp);
        self.next += 1;
    }

    /// In transition what was scheduled still leaves in chirps (2018).
    fn drain(&mut self, sent: &Sent) {
        if !self.departing.in_chirp() {
            if self.scheduled == 0 {
                return;
            }
            self.begin();
        }
        self.departing.on_sent(sent);
    }

    /// The silence after a chirp: the round's chirps are spread over a round trip.
    fn guard(&self, chirp: &Chirp) -> Nanos {
        (self.srtt.mul_div(1, self.chirps_allowed()) - chirp.length()).max(self.gap())
    }

    fn start_round(&mut self) {
        let used = self.release == Release::Paper || self.round_chirps >= self.chirps_allowed();
        if self.unscheduled() >= GROWTH_AFTER && used {
            self.allowed = (self.allowed as f64 * self.settings.gain).min(u32::MAX.into()) as u64;
        }
        self.round_start = self.unscheduled();
        self.round_chirps = 0;
        self.round_length = Nanos::ZERO;
        self.granted = 0;
        self.schedule_first();
    }

    /// Takes one packet; true when its chirp is complete.
    fn on_acked(&mut self, packet: &Acked, delay: i64, coarse: bool) -> bool {
        if packet.tag == MARKER {
            // Unless the second round's first chirp was faster.
            if self.round_start == FIRST_CHIRPS {
                self.start_round();
            }
            return false;
        }
        let Some((number, index)) = untag(packet.tag) else { return false };
        // The second round waits for all of the first chirp, later ones for the first packet of the round before.
        if self.round_start > 0 && number >= self.round_start {
            self.start_round();
        }
        let Some(at) = self.flying.iter().position(|chirp| chirp.number == number) else { return false };
        if self.granted > 0 && self.round_chirps < self.chirps_allowed() && !self.touching() {
            self.granted -= 1;
            self.schedule();
        }
        let chirp = &mut self.flying[at];
        if self.release == Release::Paper && chirp.acked == 0 {
            self.granted = self.granted.saturating_add(libm::ceil(self.settings.gain) as u64);
            if number == 0 {
                self.marker = Marker::Due;
            }
        }
        chirp.on_acked(index, packet, delay, coarse);
        if chirp.acked < chirp.packets {
            return false;
        }
        let train = self.release.is_train(number);
        if let Some(estimate) = if train { chirp.arrival_gap(LONGEST_ARRIVAL_GAP) } else { chirp.estimate() } {
            self.learn(estimate);
        }
        self.flying.remove(at);
        if number == 0 {
            self.start_round();
        }
        true
    }

    fn learn(&mut self, estimate: Nanos) {
        let (min, max) = self.release.bounds();
        let estimate = estimate.clamp(min, max);
        let before = self.gap.unwrap_or(estimate);
        let deviation = estimate.max(before) - estimate.min(before);
        self.deviation = (self.deviation + deviation).mul_div(1, 2);
        self.gap = Some((before + estimate).mul_div(1, 2));
    }

    /// The chirps of this round fill a round trip.
    fn touching(&self) -> bool {
        self.srtt > Nanos::ZERO && self.srtt <= self.round_length
    }

    fn chirp_on_ack(&mut self, ack: &Ack<'_>, window: &mut Window) {
        let mut complete = false;
        for (packet, delay, coarse) in delays(ack) {
            complete |= self.on_acked(packet, delay, coarse);
        }
        let due = complete || self.release == Release::Paper;
        if due && self.touching() {
            let gap = self.gap().min(self.release.transition_gap_max());
            let target = self.gap().times_in(ack.min_rtt);
            self.stage = Stage::Transition { gap, target, left: target };
            window.cwnd = (2.0 * target as f64).max(INITIAL_WINDOW);
            self.flying = VecDeque::new();
        }
    }

    fn finish(&mut self, window: &mut Window) {
        self.stage = Stage::Over;
        let more = if self.release == Release::Paper { 1.0 } else { 0.0 };
        window.cwnd = (self.in_flight + more).max(MINIMUM_WINDOW);
        window.ssthresh = window.cwnd;
    }
}

impl StartUp for Rounds {
    fn on_sent(&mut self, sent: &Sent, window: &mut Window) -> u64 {
        self.in_flight = sent.in_flight as f64 / f64::from(self.mss);
        if matches!(self.stage, Stage::Transition { .. }) && self.release == Release::Paper {
            self.drain(sent);
        }
        if self.stage != Stage::Chirping || sent.bytes == 0 {
            return 0;
        }
        let marker = std::mem::replace(&mut self.marker, Marker::None);
        if !self.departing.in_chirp() {
            if marker == Marker::Due {
                self.marker = Marker::JustLeft;
                self.departing.on_loose(sent);
                return MARKER;
            }
            if !self.may_begin() || !self.departing.suffices(sent, size(self.next, self.settings.packets)) {
                self.departing.on_loose(sent);
                return 0;
            }
            self.flying.push_back(Flying::new(self.next, size(self.next, self.settings.packets)));
            self.begin();
        } else {
            self.marker = marker;
        }
        let Some(flying) = self.flying.back_mut() else { return 0 };
        // Gaps and rounds hold the flow back, the window does not: there is room for another chirp.
        window.cwnd = (self.in_flight + flying.packets as f64).max(INITIAL_WINDOW);
        let index = self.departing.on_sent(sent);
        flying.sent[index] = sent.now;
        flying.spoilt |= sent.bytes != self.mss || sent.retransmission;
        tag(flying.number, index)
    }

    fn on_mss(&mut self, mss: u32) {
        self.mss = mss;
        self.departing.set_mss(mss);
    }

    fn on_ack(&mut self, ack: &Ack<'_>, window: &mut Window) {
        self.srtt = ack.srtt;
        self.in_flight = ack.in_flight as f64 / f64::from(self.mss);
        match self.stage {
            Stage::Over => self.slow.on_ack(ack, window),
            Stage::Chirping => self.chirp_on_ack(ack, window),
            Stage::Transition { gap, target, left } => {
                let acked = ack.packets.len() as u64;
                let full = self.release == Release::Paper && self.in_flight + 2.0 >= target as f64;
                if acked > left || full {
                    self.finish(window);
                } else {
                    self.stage = Stage::Transition { gap, target, left: left - acked };
                }
            }
        }
    }

    fn on_congestion(&mut self, _signal: Signal, window: &mut Window) {
        if self.stage != Stage::Over {
            window.cwnd = self.in_flight.clamp(MINIMUM_WINDOW, window.cwnd.max(MINIMUM_WINDOW));
        }
        self.stage = Stage::Over;
        self.flying = VecDeque::new();
    }

    /// Gaps that were measured vouch for the window, not flights (Misund and Briscoe 2019).
    fn limit(&self, window: &Window, max_flight: f64) -> f64 {
        if self.stage == Stage::Over { self.slow.limit(window, max_flight) } else { f64::INFINITY }
    }

    fn holds_against_marks(&self) -> bool {
        self.stage != Stage::Over
    }

    fn pacing(&self) -> Option<Pacing> {
        match self.stage {
            Stage::Over => None,
            Stage::Transition { gap, .. } => {
                let draining = self.departing.gap().filter(|_| self.release == Release::Paper);
                let next = || self.departing.chirp().filter(|_| self.scheduled > 0).map(|chirp| self.guard(&chirp));
                Some(Pacing::Gap(draining.or_else(next).unwrap_or(gap)))
            }
            Stage::Chirping => {
                let chirp = self.departing.chirp()?;
                let gap = match self.departing.gap() {
                    Some(gap) => gap,
                    None if self.marker == Marker::Due => Nanos::ZERO,
                    None if self.departing.too_little(size(self.next, self.settings.packets)) => return None,
                    None if !self.may_begin() => Nanos::MAX,
                    None if self.marker == Marker::JustLeft => self.gap(),
                    None => self.guard(&chirp),
                };
                Some(Pacing::Gap(gap))
            }
        }
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        report("chirping", f64::from(u8::from(self.stage == Stage::Chirping)));
        report("chirp_gap_us", self.gap().as_nanos() as f64 / 1e3);
        if self.release == Release::Paper {
            report("chirp_deviation_us", self.deviation.as_nanos() as f64 / 1e3);
        }
        report("chirps", self.next as f64);
        report("chirps_a_round", self.chirps_allowed() as f64);
    }
}

#[cfg(test)]
mod tests;
