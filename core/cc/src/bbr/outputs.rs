//! The two outputs: pacing rate and congestion window (Linux `tcp_bbr.c`).

use super::{Bbr, HIGH_GAIN, INITIAL_CWND, MIN_CWND, Mode, Step};
use crate::controller::Phase;
use crate::units::Nanos;

/// Share of the bandwidth at which to pace, to keep the queue from growing by errors (`bbr_pacing_margin_percent`).
const PACING_SHARE: f64 = 0.99;
/// Lowest pacing rate in packets per second: the smallest bandwidth that Linux's fixed point holds (2^-24 a us).
const MIN_PACKETS_PER_SECOND: f64 = 1e6 / (1u32 << 24) as f64;

impl Bbr {
    pub(super) fn pace_from_rtt(&mut self, rtt: Nanos) {
        let seconds = rtt.max(Nanos::from_micros(1)).as_secs_f64();
        self.pacing_rate = HIGH_GAIN * PACING_SHARE * self.cwnd * self.mss / seconds;
    }

    pub(super) fn set_pacing(&mut self, gain: f64) {
        let rate = (self.bw() * gain * PACING_SHARE).max(self.mss * MIN_PACKETS_PER_SECOND);
        if self.full_reached || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    pub(super) fn set_cwnd(&mut self, step: &Step<'_>) {
        if step.acked > 0.0 && !self.recover_or_restore(step) {
            let bw = self.bw();
            let mut target = self.bdp(bw, self.cwnd_gain);
            if self.full_reached && self.config.aggregation {
                target += self.aggregation.allowance(bw / self.mss);
            }
            let target = self.budget(target);
            if self.full_reached {
                self.cwnd = (self.cwnd + step.acked).min(target);
            } else if self.cwnd < target || (self.delivered as f64) < INITIAL_CWND * self.mss {
                self.cwnd += step.acked;
            }
            self.cwnd = self.cwnd.max(MIN_CWND);
        }
        if self.mode == Mode::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
    }

    /// `bbr_set_cwnd_to_recover_or_restore`: true when the window is what is in flight, for a round.
    fn recover_or_restore(&mut self, step: &Step<'_>) -> bool {
        if step.losses > 0.0 {
            self.cwnd = (self.cwnd - step.losses).max(1.0);
        }
        let phase = step.ack.phase;
        if phase == Phase::Recovery && self.prior_phase != Phase::Recovery {
            self.packet_conservation = true;
            self.next_round_delivered = self.delivered;
            self.cwnd = step.in_flight + step.acked;
        } else if repairing(self.prior_phase) && !repairing(phase) {
            self.cwnd = self.cwnd.max(self.prior_cwnd);
            self.packet_conservation = false;
        }
        self.prior_phase = phase;
        if self.packet_conservation {
            self.cwnd = self.cwnd.max(step.in_flight + step.acked);
        }
        self.packet_conservation
    }

    /// Before recovery or ProbeRTT shrink the window.
    pub(super) fn save_cwnd(&mut self) {
        self.prior_cwnd = if !repairing(self.prior_phase) && self.mode != Mode::ProbeRtt {
            self.cwnd
        } else {
            self.prior_cwnd.max(self.cwnd)
        };
    }
}

fn repairing(phase: Phase) -> bool {
    matches!(phase, Phase::Recovery | Phase::Loss)
}
