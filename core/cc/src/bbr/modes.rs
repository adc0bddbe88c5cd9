//! The four modes: when Startup has filled the pipe, Drain emptied the queue, ProbeBW's cycle moves on, and ProbeRTT
//! looks for a smaller RTT (Linux `tcp_bbr.c`).

use rand::RngExt;

use super::{Bbr, DRAIN_GAIN, HIGH_GAIN, MIN_CWND, Mode, Step};
use crate::controller::Ack;
use crate::units::{Nanos, Time};

/// ProbeBW's pacing gains (`bbr_pacing_gain`).
pub(super) const CYCLE: [f64; 8] = [320.0 / 256.0, 192.0 / 256.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Possible first phases of the cycle: all but the one below 1 (`bbr_cycle_rand`).
const CYCLE_CHOICES: usize = 7;
/// ProbeRTT's duration (`bbr_probe_rtt_mode_ms`).
const PROBE_RTT_TIME: Nanos = Nanos::from_millis(200);
/// Growth of the bandwidth by which Startup goes on (`bbr_full_bw_thresh`).
const FULL_THRESHOLD: f64 = 1.25;
/// Rounds without such growth after which the pipe is full (`bbr_full_bw_cnt`).
const FULL_ROUNDS: u32 = 3;

impl Bbr {
    pub(super) fn update_cycle(&mut self, step: &Step<'_>) {
        if self.mode != Mode::ProbeBw {
            return;
        }
        let now = step.ack.now;
        let full_length = now - self.cycle_time > self.min_rtt;
        let in_flight = self.in_flight_at_departure(now, step.prior_in_flight);
        let bw = self.bandwidth.get();
        let next = if self.pacing_gain == 1.0 {
            full_length
        } else if self.pacing_gain > 1.0 {
            full_length && (step.losses > 0.0 || in_flight >= self.target(bw, self.pacing_gain))
        } else {
            full_length || in_flight <= self.target(bw, 1.0)
        };
        if next {
            self.next_phase(now);
        }
    }

    fn next_phase(&mut self, now: Time) {
        self.cycle = (self.cycle + 1) % CYCLE.len();
        self.cycle_time = now;
    }

    pub(super) fn enter_probe_bw(&mut self, now: Time) {
        self.mode = Mode::ProbeBw;
        self.cycle = CYCLE.len() - 1 - self.rng.random_range(0..CYCLE_CHOICES);
        self.next_phase(now);
    }

    pub(super) fn check_full(&mut self, step: &Step<'_>) {
        if self.full_reached || !self.round_start || step.app_limited {
            return;
        }
        if self.bandwidth.get() >= FULL_THRESHOLD * self.full_bandwidth {
            self.full_bandwidth = self.bandwidth.get();
            self.full_count = 0;
            return;
        }
        self.full_count += 1;
        self.full_reached = self.full_count >= FULL_ROUNDS;
    }

    pub(super) fn check_drain(&mut self, step: &Step<'_>) {
        if self.mode == Mode::Startup && self.full_reached {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain {
            let in_flight = self.in_flight_at_departure(step.ack.now, step.in_flight);
            if in_flight <= self.target(self.bandwidth.get(), 1.0) {
                self.enter_probe_bw(step.ack.now);
            }
        }
    }

    pub(super) fn update_min_rtt(&mut self, step: &Step<'_>) {
        let now = step.ack.now;
        let expired = self.min_rtt < Nanos::MAX && now > self.min_rtt_time + self.config.min_rtt_window;
        if let Some(rtt) = step.ack.rtt
            && (rtt <= self.min_rtt || (expired && !self.maybe_delayed(step.ack)))
        {
            self.min_rtt = rtt;
            self.min_rtt_time = now;
        }
        if expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.save_cwnd();
            self.mode = Mode::ProbeRtt;
            self.probe_rtt_done = None;
        }
        if self.mode == Mode::ProbeRtt {
            self.mark_limited(step.ack.in_flight);
            if self.probe_rtt_done.is_some() {
                self.probe_rtt_round_done |= self.round_start;
                if self.probe_rtt_round_done {
                    self.check_probe_rtt_done(now);
                }
            } else if step.in_flight <= self.probe_rtt_cwnd() {
                self.probe_rtt_done = Some(now + PROBE_RTT_TIME);
                self.probe_rtt_round_done = false;
                self.next_round_delivered = self.delivered;
            }
        }
        if step.sample.is_some() {
            self.idle_restart = false;
        }
    }

    /// A lone packet below full size: its receiver may have waited for a second one (`FLAG_ACK_MAYBE_DELAYED`).
    fn maybe_delayed(&self, ack: &Ack<'_>) -> bool {
        ack.packets.len() == 1 && (ack.bytes as f64) < self.mss && ack.ce_packets == 0
    }

    pub(super) fn check_probe_rtt_done(&mut self, now: Time) {
        if self.probe_rtt_done.is_none_or(|done| now <= done) {
            return;
        }
        self.min_rtt_time = now;
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        if self.full_reached {
            self.enter_probe_bw(now);
        } else {
            self.mode = Mode::Startup;
        }
    }

    /// ProbeRTT's window in packets (`bbr_probe_rtt_cwnd`).
    pub(super) fn probe_rtt_cwnd(&self) -> f64 {
        self.bdp(self.bw(), self.config.probe_rtt_gain).max(MIN_CWND)
    }

    /// Samples of packets sent until what is in flight now has been delivered do not lower the bandwidth.
    fn mark_limited(&mut self, in_flight: u64) {
        let end = (self.delivered + in_flight).max(1);
        let start = match self.limited {
            Some((start, end)) if end >= self.delivered => start,
            _ => self.delivered,
        };
        self.limited = Some((start, end));
    }

    pub(super) fn update_gains(&mut self) {
        (self.pacing_gain, self.cwnd_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBw if self.long_term.bandwidth().is_some() => (1.0, self.config.cwnd_gain),
            Mode::ProbeBw if self.cycle == 0 => (self.config.probe_gain, self.config.cwnd_gain),
            Mode::ProbeBw => (CYCLE[self.cycle], self.config.cwnd_gain),
            Mode::ProbeRtt => (1.0, 1.0),
        };
    }
}
