//! Rounds of chirps, more in each, until they touch (`start=chirp-q`).
//!
//! Source: the code of 2019 released with Misund and Briscoe, "Paced Chirping" (2019).
//!
//! What differs from that code:
//! - The sum that ends the start-up counts the gap after each chirp, as the paper's own module does. Without it the sum
//!   stays at 94 % of the RTT at many rates and the start-up never ends.
//! - Gaps are those at which packets left, not those planned; a chirp is rejected as in the paper's module when they do
//!   not shrink. One is rejected also when it was reordered, holds short or repeated packets, or when more than a quarter
//!   of its packets shared acknowledgements that tell no times of arrival. A rejected chirp leaves the gap as it was.
//! - A loss ends the start-up; after it, and after a silence, there is slow start.
//! - The first guard interval is one gap: there is no RTT of a handshake to spread the first two chirps over.

use std::collections::VecDeque;

use crate::controller::{Ack, Acked, Env, Pacing, Sent};
use crate::units::Nanos;
use crate::window::{INITIAL_WINDOW, MINIMUM_WINDOW, Signal, SlowStart, StartUp, Window};

use super::Settings;
use super::flight::{Flying, between, tag, untag};
use super::geometry::{Chirp, Divisor, LONGEST};

/// Average gap of the first chirps.
const FIRST_GAP: Nanos = Nanos::from_micros(200);
/// Bounds of one estimate.
const GAP_MIN: Nanos = Nanos::from_micros(30);
const GAP_MAX: Nanos = Nanos::from_millis(10);
/// Largest gap in the transition to congestion avoidance.
const TRANSITION_GAP_MAX: Nanos = Nanos::from_millis(5);
/// Chirps of the first rounds.
const FIRST_CHIRPS: u64 = 2;
/// The number grows once so many chirps have left.
const GROWTH_AFTER: u64 = 6;

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
    /// Paced at the gap found, until so many packets more have been acknowledged.
    Transition {
        gap: Nanos,
        left: u64,
    },
    /// Given up: slow start.
    Over,
}

/// Paced chirping.
#[derive(Clone, Debug)]
pub struct Rounds {
    mss: u32,
    settings: Settings,
    slow: SlowStart,
    stage: Stage,
    /// Average of the estimates.
    gap: Nanos,
    srtt: Nanos,
    /// Chirps allowed in a round.
    allowed: f64,
    /// Number of the first chirp of this round.
    round_start: u64,
    /// Chirps of this round that have begun, and the time they take.
    round_chirps: u64,
    round_length: Nanos,
    /// Number of the next chirp.
    next: u64,
    /// The last chirp begun, and how many of its packets have left.
    plan: Option<(Chirp, usize)>,
    flying: VecDeque<Flying>,
}

impl Rounds {
    /// Chirps of packets of `env.mss` bytes.
    pub fn new(env: &Env, settings: &Settings) -> Self {
        Self {
            mss: env.mss,
            settings: *settings,
            slow: SlowStart::new(env),
            stage: Stage::Chirping,
            gap: FIRST_GAP,
            srtt: Nanos::ZERO,
            allowed: FIRST_CHIRPS as f64,
            round_start: 0,
            round_chirps: 0,
            round_length: Nanos::ZERO,
            next: 0,
            plan: None,
            flying: VecDeque::new(),
        }
    }

    /// The chirp that the next packet belongs to, and the packet's index there.
    fn place(&mut self) -> (Chirp, usize) {
        if let Some((chirp, sent)) = self.plan
            && sent < chirp.packets()
        {
            return (chirp, sent);
        }
        let Settings { packets, geometry, .. } = self.settings;
        let chirp = Chirp::new(size(self.next, packets), self.gap, geometry, Divisor::Packets);
        self.flying.push_back(Flying::new(self.next, chirp.packets()));
        self.next += 1;
        self.round_chirps += 1;
        self.round_length += chirp.length() + self.gap;
        (chirp, 0)
    }

    /// The silence after a chirp: the round's chirps are spread over a round trip.
    fn guard(&self, chirp: &Chirp) -> Nanos {
        (self.srtt.mul_div(1, self.allowed as u64) - chirp.length()).max(self.gap)
    }

    fn start_round(&mut self) {
        if self.next >= GROWTH_AFTER && self.round_chirps >= self.allowed as u64 {
            self.allowed = (self.allowed * self.settings.gain).min(u32::MAX.into());
        }
        self.round_start = self.next;
        self.round_chirps = 0;
        self.round_length = Nanos::ZERO;
    }

    fn on_acked(&mut self, packet: &Acked, delay: i64, coarse: bool) {
        let Some((number, index)) = untag(packet.tag) else { return };
        // The second round waits for all of the first chirp, later ones for the first packet of the round before.
        if self.round_start > 0 && number >= self.round_start {
            self.start_round();
        }
        let Some(at) = self.flying.iter().position(|chirp| chirp.number == number) else { return };
        let chirp = &mut self.flying[at];
        chirp.on_acked(index, packet, delay, coarse);
        if chirp.acked < chirp.packets {
            return;
        }
        if let Some(estimate) = chirp.estimate() {
            self.gap = (self.gap + estimate.clamp(GAP_MIN, GAP_MAX)).mul_div(1, 2);
        }
        self.flying.remove(at);
        if number == 0 {
            self.start_round();
        }
    }

    /// The chirps of this round fill a round trip.
    fn touching(&self) -> bool {
        self.srtt > Nanos::ZERO && self.srtt <= self.round_length
    }
}

impl StartUp for Rounds {
    fn on_sent(&mut self, sent: &Sent, window: &mut Window) -> u64 {
        if self.stage != Stage::Chirping || sent.bytes == 0 {
            return 0;
        }
        let (chirp, index) = self.place();
        self.plan = Some((chirp, index + 1));
        // Gaps and rounds hold the flow back, the window does not: there is room for the longest chirp.
        let in_flight = sent.in_flight as f64 / f64::from(self.mss);
        window.cwnd = window.cwnd.max(in_flight + LONGEST as f64);
        let Some(flying) = self.flying.back_mut() else { return 0 };
        flying.sent[index] = sent.now;
        flying.spoilt |= sent.bytes != self.mss || sent.retransmission;
        tag(flying.number, index)
    }

    fn on_ack(&mut self, ack: &Ack<'_>, window: &mut Window) {
        self.srtt = ack.srtt;
        match self.stage {
            Stage::Over => self.slow.on_ack(ack, window),
            Stage::Transition { gap, left } => {
                let acked = ack.packets.len() as u64;
                if acked <= left {
                    self.stage = Stage::Transition { gap, left: left - acked };
                    return;
                }
                self.stage = Stage::Over;
                window.cwnd = (ack.in_flight as f64 / f64::from(self.mss)).max(MINIMUM_WINDOW);
                window.ssthresh = window.cwnd;
            }
            Stage::Chirping => {
                let shared = ack.packets.len() > 1;
                // Without times of arrival all packets count as delayed as the newest, which did not wait for another.
                let newest = ack.packets.last().map_or(ack.now, |packet| packet.sent_at);
                for packet in ack.packets {
                    let delay = match packet.received_at {
                        Some(arrival) => between(packet.sent_at, arrival),
                        None => between(newest, ack.now),
                    };
                    let before = self.flying.len();
                    self.on_acked(packet, delay, shared && packet.received_at.is_none());
                    let analysed = self.flying.len() < before;
                    if analysed && self.touching() {
                        let gap = self.gap.min(TRANSITION_GAP_MAX);
                        let target = self.gap.times_in(ack.min_rtt);
                        self.stage = Stage::Transition { gap, left: target };
                        window.cwnd = (2.0 * target as f64).max(INITIAL_WINDOW);
                        self.flying = VecDeque::new();
                        return;
                    }
                }
            }
        }
    }

    fn on_congestion(&mut self, _signal: Signal, _window: &mut Window) {
        self.stage = Stage::Over;
        self.flying = VecDeque::new();
    }

    fn holds_against_marks(&self) -> bool {
        self.stage != Stage::Over
    }

    fn pacing(&self) -> Option<Pacing> {
        match (self.stage, &self.plan) {
            (Stage::Over, _) | (Stage::Chirping, None) => None,
            (Stage::Transition { gap, .. }, _) => Some(Pacing::Gap(gap)),
            (Stage::Chirping, Some((chirp, sent))) if *sent < chirp.packets() => Some(Pacing::Gap(chirp.gap(sent - 1))),
            (Stage::Chirping, Some(_)) if self.round_chirps >= self.allowed as u64 => Some(Pacing::Gap(Nanos::MAX)),
            (Stage::Chirping, Some((chirp, _))) => Some(Pacing::Gap(self.guard(chirp))),
        }
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        report("chirping", f64::from(u8::from(self.stage == Stage::Chirping)));
        report("chirp_gap_us", self.gap.as_nanos() as f64 / 1e3);
        report("chirps", self.next as f64);
        report("chirps_a_round", self.allowed.floor());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::Controller;
    use crate::dctcp::Dctcp;
    use crate::testing::ack;
    use crate::units::Time;
    use crate::window::WindowController;

    const MSS: u32 = 1448;

    #[test]
    fn marks_change_alpha_and_not_the_window() {
        let env = Env::default();
        let start = Box::new(Rounds::new(&env, &Settings::default()));
        let mut flow = WindowController::new(&env, start, Dctcp::new(&env, 0.0, 1.0 / 16.0));
        let before = flow.state();
        let mut marked = ack(Time::from_millis(15), Nanos::from_millis(15), 1);
        (marked.ce_bytes, marked.echo) = (marked.bytes, true);
        flow.on_ack(&marked);
        assert_eq!(flow.state(), before);
        let mut alpha = 0.0;
        flow.describe(&mut |name, value| alpha = if name == "alpha" { value } else { alpha });
        assert_eq!(alpha, 1.0 / 16.0);
    }

    #[test]
    fn a_round_waits_for_the_one_before() {
        let mut start = Rounds::new(&Env::default(), &Settings::default());
        let mut window = Window { cwnd: INITIAL_WINDOW, ssthresh: f64::INFINITY };
        let mut now = Time::ZERO;
        let mut gaps = Vec::new();
        for packet in 0..10u64 {
            let seq = packet * u64::from(MSS);
            let in_flight = seq + u64::from(MSS);
            start.on_sent(
                &Sent { now, seq, bytes: MSS, in_flight, retransmission: false, app_limited: false, unsent: 0 },
                &mut window,
            );
            let Some(Pacing::Gap(gap)) = start.pacing() else { panic!("no gap") };
            gaps.push(gap);
            now += gap;
        }
        // 200 µs, twice that at first, 80 µs less from packet to packet, one gap after the chirp; then silence.
        assert_eq!(gaps[..6], [400, 320, 240, 160, 200, 400].map(Nanos::from_micros));
        assert_eq!(gaps[9], Nanos::MAX);
        assert!(window.cwnd >= 10.0 + LONGEST as f64);
    }

    #[test]
    fn congestion_ends_it() {
        let mut start = Rounds::new(&Env::default(), &Settings::default());
        let mut window = Window { cwnd: 10.0, ssthresh: f64::INFINITY };
        start.on_congestion(Signal::Loss, &mut window);
        start.on_ack(&ack(Time::ZERO, Nanos::from_millis(15), 4), &mut window);
        assert_eq!((start.pacing(), window.cwnd), (None, 14.0), "slow start");
    }
}
