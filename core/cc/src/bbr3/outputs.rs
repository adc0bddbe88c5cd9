//! The two outputs: pacing rate (section 5.6.2) and congestion window (5.6.4).

use super::Bbr3;
use super::states::State;
use crate::units::Nanos;

/// Share of the bandwidth at which to pace, so that errors do not build a queue (section 2.5).
const PACING_SHARE: f64 = 0.99;
/// Initial window in packets (RFC 6928).
pub(super) const INITIAL_PACKETS: f64 = 10.0;
/// Smallest window in packets (`MinPipeCwnd`, section 2.8).
pub(super) const MIN_PACKETS: f64 = 4.0;
/// RTT assumed before the first sample (section 5.6.2).
pub(super) const ASSUMED_RTT: Nanos = Nanos::from_millis(1);
/// Lowest pacing rate in packets per second: that of version 1 in Linux, 2^-24 a us.
const MIN_PACKETS_PER_SECOND: f64 = 1e6 / (1u32 << 24) as f64;
/// What leaves at once: what the pacing rate gives in this many seconds, within these packets and bytes (section 5.6.3).
const QUANTUM_SECONDS: f64 = 1e-3;
const MIN_QUANTUM_PACKETS: f64 = 2.0;
const MAX_QUANTUM_BYTES: f64 = 65_536.0;
/// Packets more in UP, so that a probe of a small window probes at all (section 5.6.4.2).
const UP_PACKETS: f64 = 2.0;

impl Bbr3 {
    /// The first window over an RTT, at Startup's gain.
    pub(super) fn pace_first_window(&mut self, rtt: Nanos) {
        let seconds = rtt.max(Nanos::from_micros(1)).as_secs_f64();
        self.pacing_rate = State::Startup.pacing_gain() * self.cwnd / seconds;
    }

    pub(super) fn pacing_gain(&self) -> f64 {
        if self.state == State::Drain { self.constants.drain_gain } else { self.state.pacing_gain() }
    }

    pub(super) fn pace(&mut self, gain: f64) {
        let rate = (PACING_SHARE * gain * self.bandwidth.bw).max(self.mss * MIN_PACKETS_PER_SECOND);
        if self.full.reached || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    /// Bytes that leave at once.
    pub(super) fn quantum(&self) -> f64 {
        (self.pacing_rate * QUANTUM_SECONDS).min(MAX_QUANTUM_BYTES).max(MIN_QUANTUM_PACKETS * self.mss)
    }

    /// `bytes`, and at least what the datapath may hold (section 5.5.8).
    fn budgeted(&self, bytes: f64) -> f64 {
        let least = bytes.max(self.budget * self.quantum()).max(MIN_PACKETS * self.mss);
        if self.state == State::Up { least + UP_PACKETS * self.mss } else { least }
    }

    /// Bytes in flight that keep a path of bandwidth `bw` busy (`BBRInflight` with gain 1).
    pub(super) fn inflight(&self, bw: f64) -> f64 {
        self.budgeted(self.bdp(bw, 1.0))
    }

    /// The long-term bound less what is left to other flows (`BBRInflightWithHeadroom`).
    pub(super) fn room(&self) -> f64 {
        if self.inflight_long.is_infinite() {
            return f64::INFINITY;
        }
        let left = (self.constants.headroom * self.inflight_long).max(self.mss);
        (self.inflight_long - left).max(MIN_PACKETS * self.mss)
    }

    pub(super) fn target_inflight(&self) -> f64 {
        self.bdp(self.bandwidth.bw, 1.0).min(self.cwnd)
    }

    pub(super) fn set_cwnd(&mut self, acked: f64) {
        let most = self.budgeted(self.bdp(self.bandwidth.bw, self.state.cwnd_gain()) + self.aggregation.extra());
        if self.full.reached {
            self.cwnd = (self.cwnd + acked).min(most);
        } else if self.cwnd < most || (self.delivered as f64) < INITIAL_PACKETS * self.mss {
            self.cwnd += acked;
        }
        let least = MIN_PACKETS * self.mss;
        self.cwnd = self.cwnd.max(least).min(self.cap().max(least));
    }

    /// The bound of the present state on what is in flight.
    fn cap(&self) -> f64 {
        match self.state {
            State::Startup => f64::INFINITY,
            State::Drain => self.inflight_short,
            State::Down => self.inflight_long.min(self.inflight_short),
            State::Cruise => self.room().min(self.inflight_short),
            State::Refill | State::Up => self.inflight_long,
            State::ProbeRtt => self.room().min(self.inflight_short).min(self.probe_rtt_cwnd()),
        }
    }
}
