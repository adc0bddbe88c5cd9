//! The states and the ways between them: Startup and Drain (sections 5.3.1, 5.3.2), ProbeBW's four (5.3.3), ProbeRTT (5.3.4).

use rand::Rng;

use super::Bbr3;
use super::model::Sample;
use super::outputs::MIN_PACKETS;
use crate::controller::{Ack, Phase};
use crate::units::{Nanos, Time};

/// Lost ranges in a round of Startup from which it ends (section 5.3.1.3).
const STARTUP_LOSSES: u32 = 6;
/// Rounds after which Drain ends anyway (section 5.3.2).
const DRAIN_ROUNDS: u64 = 3;
/// Rounds after which ProbeBW probes, on paths of a smaller product than this by the packets of that product (section 5.3.3.8).
const MOST_ROUNDS: f64 = 63.0;
/// Shortest time between two probes; up to a second more is drawn.
const PROBE_WAIT: Nanos = Nanos::from_secs(2);
/// Doublings of the growth in ProbeBW's UP (section 5.3.3.9).
const MOST_DOUBLINGS: u32 = 30;
/// Time that ProbeRTT lasts at least (section 2.16.2), and its share of the bandwidth-delay product.
const PROBE_RTT_TIME: Nanos = Nanos::from_millis(200);
const PROBE_RTT_GAIN: f64 = 0.5;

/// Where the flow stands. Its number is what `describe` reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

impl State {
    pub(super) fn pacing_gain(self) -> f64 {
        match self {
            Self::Startup => 2.77,
            Self::Drain => 0.5,
            Self::Down => 0.9,
            Self::Cruise | Self::Refill | Self::ProbeRtt => 1.0,
            Self::Up => 1.25,
        }
    }

    pub(super) fn cwnd_gain(self) -> f64 {
        match self {
            Self::Up => 2.25,
            Self::ProbeRtt => PROBE_RTT_GAIN,
            _ => 2.0,
        }
    }

    pub(super) fn probes_bandwidth(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }
}

/// What the acknowledgements that come now are of (section 5.3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum AckPhase {
    #[default]
    Init,
    Refilling,
    Starting,
    Feedback,
    Stopping,
}

/// ProbeBW's cycle.
pub(super) struct Probe {
    pub(super) ack_phase: AckPhase,
    /// Losses of packets sent now say that a probe was too high.
    pub(super) is_sample: bool,
    up_rounds: u32,
    up_acked: f64,
    /// Delivered bytes by which the long-term bound grows by a packet.
    pub(super) up_per_packet: f64,
    pub(super) cycle_stamp: Time,
    pub(super) wait: Nanos,
    /// Since the last probe.
    pub(super) rounds: u64,
    /// The last probe was too high, and so the next one is a careful one.
    pub(super) too_high: bool,
    pub(super) precautionary: bool,
    drain_start: u64,
}

impl Default for Probe {
    fn default() -> Self {
        Self {
            ack_phase: AckPhase::Init,
            is_sample: false,
            up_rounds: 0,
            up_acked: 0.0,
            up_per_packet: f64::INFINITY,
            cycle_stamp: Time::ZERO,
            wait: Nanos::ZERO,
            rounds: 0,
            too_high: false,
            precautionary: false,
            drain_start: 0,
        }
    }
}

/// ProbeRTT's course.
#[derive(Default)]
pub(super) struct ProbeRtt {
    done: Option<Time>,
    round_done: bool,
    /// Its window in bytes as it began.
    cwnd: f64,
}

impl Bbr3 {
    /// Section 5.3.1: the pipe is full, or losses say so.
    pub(super) fn check_startup(&mut self, ack: &Ack<'_>, sample: &Sample, loss_round_start: bool) {
        let ranges = if loss_round_start { self.losses.end_round() } else { 0 };
        if self.state != State::Startup {
            return;
        }
        if ranges >= STARTUP_LOSSES && ack.phase != Phase::Loss && self.is_too_high(sample.lost, sample.tx_in_flight) {
            self.undo.state = Some(State::Startup);
            self.full.fill();
            self.inflight_long = self.bdp(self.bandwidth.bw, 1.0).max(self.inflight_latest);
        }
        if self.full.reached {
            self.state = State::Drain;
            self.probe.drain_start = self.rounds.count;
        }
    }

    pub(super) fn check_drain(&mut self, sample: &Sample) {
        let drained = |bbr: &Self| sample.in_flight <= bbr.inflight(bbr.bandwidth.bw);
        if self.state == State::Drain && (drained(self) || self.rounds.count > self.probe.drain_start + DRAIN_ROUNDS) {
            self.start_down();
        }
    }

    /// Sections 5.3.3.8 and 5.3.3.9.
    pub(super) fn probe_bandwidth(&mut self, sample: &Sample) {
        if self.adapt_long_term(sample) {
            return;
        }
        match self.state {
            State::Down | State::Cruise if self.is_time_to_probe() => self.start_refill(),
            State::Down => {
                if sample.in_flight <= self.room() && sample.in_flight <= self.inflight(self.bandwidth.max()) {
                    self.state = State::Cruise;
                }
            }
            State::Refill if self.rounds.started => {
                self.probe.is_sample = true;
                self.start_up(sample);
            }
            State::Up => {
                if self.is_time_to_go_down(sample) {
                    self.probe.too_high = false;
                    self.start_down();
                }
            }
            State::Cruise | State::Refill | State::Startup | State::Drain | State::ProbeRtt => {}
        }
    }

    /// True where it changed the state.
    fn adapt_long_term(&mut self, sample: &Sample) -> bool {
        if self.rounds.started {
            match self.probe.ack_phase {
                AckPhase::Starting => self.probe.ack_phase = AckPhase::Feedback,
                AckPhase::Stopping => {
                    self.probe.is_sample = false;
                    self.probe.ack_phase = AckPhase::Init;
                    if self.state.probes_bandwidth() {
                        if !sample.app_limited {
                            self.bandwidth.advance();
                        }
                        if self.probe.precautionary && !self.probe.too_high {
                            self.start_refill();
                            return true;
                        }
                    }
                }
                AckPhase::Init | AckPhase::Refilling | AckPhase::Feedback => {}
            }
        }
        if self.is_too_high(sample.lost, sample.tx_in_flight) || self.inflight_long.is_infinite() {
            return false;
        }
        self.inflight_long = self.inflight_long.max(sample.tx_in_flight);
        if self.state == State::Up {
            self.raise_long_term(sample);
        }
        false
    }

    /// The long-term bound grows by 1, 2, 4, ... packets a round while it, and not the application, limits the flow.
    fn raise_long_term(&mut self, sample: &Sample) {
        if !self.rounds.was_cwnd_limited() || self.cwnd < self.inflight_long {
            return;
        }
        let probe = &mut self.probe;
        probe.up_acked += sample.acked;
        let packets = (probe.up_acked / probe.up_per_packet).floor();
        if packets > 0.0 {
            probe.up_acked -= packets * probe.up_per_packet;
            self.inflight_long += packets * self.mss;
        }
        if self.rounds.started {
            self.raise_slope();
        }
    }

    pub(super) fn raise_slope(&mut self) {
        self.probe.up_per_packet = (self.cwnd / (1u64 << self.probe.up_rounds) as f64).max(self.mss);
        self.probe.up_rounds = (self.probe.up_rounds + 1).min(MOST_DOUBLINGS);
    }

    fn is_time_to_probe(&self) -> bool {
        self.now() > self.probe.cycle_stamp + self.probe.wait
            || self.probe.rounds as f64 >= (self.target_inflight() / self.mss).min(MOST_ROUNDS)
    }

    fn is_time_to_go_down(&mut self, sample: &Sample) -> bool {
        if self.constants.precaution && self.probe.too_high && sample.prior_in_flight + self.mss > self.inflight_long {
            self.probe.precautionary = true;
            return true;
        }
        if self.rounds.was_cwnd_limited() && self.cwnd >= self.inflight_long {
            self.full.reset(sample.rate.unwrap_or(0.0));
            return false;
        }
        self.full.now
    }

    pub(super) fn start_down(&mut self) {
        self.reset_signals();
        self.probe.up_per_packet = f64::INFINITY;
        self.probe.rounds = self.rng.next_u64() >> 63;
        let share = (self.rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        self.probe.wait = PROBE_WAIT + Nanos::from_secs_f64(share);
        self.probe.cycle_stamp = self.now();
        self.probe.ack_phase = AckPhase::Stopping;
        self.start_round();
        self.state = State::Down;
    }

    pub(super) fn start_refill(&mut self) {
        self.reset_short_term();
        self.probe.up_rounds = 0;
        self.probe.up_acked = 0.0;
        self.probe.precautionary = false;
        self.probe.ack_phase = AckPhase::Refilling;
        self.start_round();
        self.state = State::Refill;
    }

    fn start_up(&mut self, sample: &Sample) {
        self.probe.ack_phase = AckPhase::Starting;
        self.start_round();
        self.full.reset(sample.rate.unwrap_or(0.0));
        self.raise_slope();
        self.state = State::Up;
    }

    /// Section 5.3.4.3.
    pub(super) fn check_probe_rtt(&mut self, ack: &Ack<'_>, sample: &Sample) {
        if self.state != State::ProbeRtt && self.min_rtt.expired && !self.idle_restart {
            self.state = State::ProbeRtt;
            self.save_cwnd();
            let cwnd = self.bdp_over(self.min_rtt.before, self.bandwidth.bw, PROBE_RTT_GAIN);
            self.probe_rtt = ProbeRtt { done: None, round_done: false, cwnd };
            self.probe.ack_phase = AckPhase::Stopping;
            self.start_round();
        }
        if self.state == State::ProbeRtt {
            self.mark_app_limited(ack.in_flight);
            if self.probe_rtt.done.is_some() {
                self.probe_rtt.round_done |= self.rounds.started;
                if self.probe_rtt.round_done {
                    self.exit_probe_rtt_if_done();
                }
            } else if sample.in_flight <= self.probe_rtt_cwnd() {
                self.probe_rtt.done = Some(self.now() + PROBE_RTT_TIME);
                self.probe_rtt.round_done = false;
                self.start_round();
            }
        }
        if sample.delivered > 0.0 {
            self.idle_restart = false;
        }
    }

    /// ProbeRTT's window in bytes: it may fall below what it was as ProbeRTT began, and not rise.
    pub(super) fn probe_rtt_cwnd(&self) -> f64 {
        self.probe_rtt.cwnd.min(self.bdp(self.bandwidth.bw, PROBE_RTT_GAIN)).max(MIN_PACKETS * self.mss)
    }

    pub(super) fn exit_probe_rtt_if_done(&mut self) {
        if self.probe_rtt.done.is_none_or(|done| self.now() <= done) {
            return;
        }
        self.min_rtt.probed_stamp = self.now();
        self.restore_cwnd();
        self.reset_short_term();
        if self.full.reached {
            self.start_down();
            self.state = State::Cruise;
        } else {
            self.state = State::Startup;
        }
    }
}
