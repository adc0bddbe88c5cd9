//! BBR version 1: paces at the measured bottleneck bandwidth and keeps about two bandwidth-delay products in flight
//! (Linux `tcp_bbr.c`, mainline 5.x, with the aggregation estimator and the departure-time correction;
//! draft-cardwell-iccrg-bbr-congestion-control-00 for the prose).
//!
//! The datapath makes the delivery-rate samples; this file holds the model (bandwidth, RTT, rounds) and what drives it.
//! Beside it: the modes (`modes`), window and pacing rate (`outputs`), the maximum filter (`filter`), the aggregation
//! estimator (`aggregation`) and the policer detector (`long_term`).
//!
//! What differs from Linux, and why:
//! - Bandwidth is `f64` bytes per second and windows are `f64` packets instead of fixed point, so that packets smaller
//!   than the MSS count by their bytes. Where Linux rounds to whole packets, so does this.
//! - Times are nanoseconds, not jiffies.
//! - Linux marks its rate sampler application-limited during ProbeRTT. The sampler belongs to the datapath here, so the
//!   controller remembers the span of delivered bytes in which packets sent were limited, which is the same rule.
//! - Losses found between two acknowledgements (by a timer) count with the next one; Linux counts them only for the
//!   policer.
//! - The window before ProbeRTT is saved while the mode is still the one before; Linux has set the mode by then, so
//!   that it takes the larger of the saved one and the present one. The next acknowledgement bounds both by the target.
//! - The departure time of the next packet is reckoned from the packets sent and the rate at that time.
//!
//! What does not differ, and surprises: a flow with bursts and pauses may stay in Startup for good, and lose a fifth of its packets
//! (on for 100 ms, off for 900 ms, a queue of one BDP). The one round of a burst that the application does not limit could find the
//! pipe full, but the end of each recovery begins a round (`next_rtt_delivered`) and takes that one away. Linux does the same.

use rand::SeedableRng;
use rand_pcg::Pcg64;

use crate::controller::{
    Ack, Controller, Env, Loss, Nature, Pacing, Permit, Phase, RateSample, Recovery, Restart, Sent, Stamp, Timeout,
};
use crate::entry::{Entry, Home, Kind, Param, Params};
use crate::units::{Nanos, Rate, Time};

use self::aggregation::{Aggregation, Delivery};
use self::filter::MaxFilter;
use self::long_term::{LongTerm, Progress};

mod aggregation;
pub(crate) mod filter;
mod long_term;
mod modes;
mod outputs;
#[cfg(test)]
mod tests;

/// Startup's pacing and window gain: 2/ln 2 (`bbr_high_gain`).
const HIGH_GAIN: f64 = 739.0 / 256.0;
/// Drain's pacing gain: about the reciprocal (`bbr_drain_gain`).
const DRAIN_GAIN: f64 = 88.0 / 256.0;
/// Window of the bandwidth filter in rounds (`bbr_bw_rtts`: the cycle and 2).
const BANDWIDTH_ROUNDS: u64 = 10;
/// Smallest window in packets, and ProbeRTT's (`bbr_cwnd_min_target`).
const MIN_CWND: f64 = 4.0;
/// Initial window in packets (RFC 6928; `TCP_INIT_CWND`).
const INITIAL_CWND: f64 = 10.0;
/// RTT assumed before the first sample (`bbr_init_pacing_rate_from_rtt`).
const ASSUMED_RTT: Nanos = Nanos::from_millis(1);
/// Pacing rate below which a burst may be one packet: 1.2 Mbit/s, in bytes per second (`bbr_min_tso_rate`).
const SMALL_BURST_RATE: f64 = 1_200_000.0 / 8.0;
/// A burst is what the pacing rate sends in 2^-10 s (`sk_pacing_shift`) ...
const BURSTS_PER_SECOND: f64 = 1024.0;
/// ... but at most 64 KB (GSO) and 127 packets (`bbr_tso_segs_goal`).
const MAX_BURST_BYTES: f64 = 65535.0;
const MAX_BURST_PACKETS: f64 = 127.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

/// What the registry's parameters set.
#[derive(Clone, Copy, Debug)]
struct Config {
    long_term: bool,
    aggregation: bool,
    cwnd_gain: f64,
    probe_gain: f64,
    min_rtt_window: Nanos,
    probe_rtt_gain: f64,
}

/// One acknowledgement's contribution, in packets.
struct Step<'a> {
    ack: &'a Ack<'a>,
    sample: Option<RateSample>,
    app_limited: bool,
    acked: f64,
    losses: f64,
    in_flight: f64,
    prior_in_flight: f64,
}

/// BBRv1. See the [module](self).
pub struct Bbr {
    config: Config,
    mss: f64,
    rng: Pcg64,

    mode: Mode,
    bandwidth: MaxFilter,
    min_rtt: Nanos,
    min_rtt_time: Time,
    rounds: u64,
    next_round_delivered: u64,
    round_start: bool,

    full_bandwidth: f64,
    full_count: u32,
    full_reached: bool,

    cycle: usize,
    cycle_time: Time,

    probe_rtt_done: Option<Time>,
    probe_rtt_round_done: bool,

    prior_cwnd: f64,
    packet_conservation: bool,
    prior_phase: Phase,
    idle_restart: bool,
    seen_rtt: bool,

    aggregation: Aggregation,
    long_term: LongTerm,

    cwnd: f64,
    /// Bytes per second.
    pacing_rate: f64,
    pacing_gain: f64,
    cwnd_gain: f64,

    /// When pacing lets the next packet leave.
    departure: Time,
    last_ack: Time,
    delivered: u64,
    lost: u64,
    /// Bytes lost since the last acknowledgement.
    new_losses: u64,
    /// Packets sent while this many bytes (both included) had been delivered left in ProbeRTT.
    limited: Option<(u64, u64)>,
    /// The application, not the window or pacing, limits the flow now.
    sent_limited: bool,
}

impl Bbr {
    fn new(env: &Env, config: Config) -> Self {
        let mut bbr = Self {
            config,
            mss: f64::from(env.mss.max(1)),
            rng: Pcg64::seed_from_u64(env.seed),
            mode: Mode::Startup,
            bandwidth: MaxFilter::new(BANDWIDTH_ROUNDS),
            min_rtt: Nanos::MAX,
            min_rtt_time: Time::ZERO,
            rounds: 0,
            next_round_delivered: 0,
            round_start: false,
            full_bandwidth: 0.0,
            full_count: 0,
            full_reached: false,
            cycle: 0,
            cycle_time: Time::ZERO,
            probe_rtt_done: None,
            probe_rtt_round_done: false,
            prior_cwnd: 0.0,
            packet_conservation: false,
            prior_phase: Phase::Open,
            idle_restart: false,
            seen_rtt: false,
            aggregation: Aggregation::default(),
            long_term: LongTerm::default(),
            cwnd: INITIAL_CWND,
            pacing_rate: 0.0,
            pacing_gain: HIGH_GAIN,
            cwnd_gain: HIGH_GAIN,
            departure: Time::ZERO,
            last_ack: Time::ZERO,
            delivered: 0,
            lost: 0,
            new_losses: 0,
            limited: None,
            sent_limited: false,
        };
        bbr.pace_from_rtt(ASSUMED_RTT);
        bbr
    }

    /// Bytes per second: the policed rate while one is believed in, else the filter's maximum.
    fn bw(&self) -> f64 {
        self.long_term.bandwidth().unwrap_or_else(|| self.bandwidth.get())
    }

    /// Packets in flight that keep a path of bandwidth `bw` busy at `gain` (`bbr_bdp`).
    fn bdp(&self, bw: f64, gain: f64) -> f64 {
        if self.min_rtt == Nanos::MAX {
            return INITIAL_CWND;
        }
        (bw * self.min_rtt.as_secs_f64() * gain / self.mss).ceil()
    }

    /// Room for the ends' bursts on top (`bbr_quantization_budget`).
    fn budget(&self, packets: f64) -> f64 {
        let even = 2.0 * ((packets + 3.0 * self.burst()) / 2.0).ceil();
        if self.mode == Mode::ProbeBw && self.cycle == 0 { even + 2.0 } else { even }
    }

    /// `bbr_inflight`.
    fn target(&self, bw: f64, gain: f64) -> f64 {
        self.budget(self.bdp(bw, gain))
    }

    /// Packets sent at once (`bbr_tso_segs_goal`).
    fn burst(&self) -> f64 {
        let bytes = (self.pacing_rate / BURSTS_PER_SECOND).min(MAX_BURST_BYTES);
        let least = if self.pacing_rate < SMALL_BURST_RATE { 1.0 } else { 2.0 };
        (bytes / self.mss).floor().max(least).min(MAX_BURST_PACKETS)
    }

    /// What will be in flight when the next packet leaves (`bbr_packets_in_net_at_edt`).
    fn in_flight_at_departure(&self, now: Time, in_flight: f64) -> f64 {
        let delivered = self.bw() / self.mss * (self.departure - now).as_secs_f64();
        let leaving = if self.pacing_gain > 1.0 { self.burst() } else { 0.0 };
        (in_flight + leaving - delivered.floor()).max(0.0)
    }

    fn update_model(&mut self, step: &Step<'_>) {
        self.update_bandwidth(step);
        self.update_aggregation(step);
        self.update_cycle(step);
        self.check_full(step);
        self.check_drain(step);
        self.update_min_rtt(step);
        self.update_gains();
    }

    fn update_bandwidth(&mut self, step: &Step<'_>) {
        self.round_start = false;
        let Some(sample) = step.sample else { return };
        if sample.prior_delivered >= self.next_round_delivered {
            self.next_round_delivered = step.ack.delivered;
            self.rounds += 1;
            self.round_start = true;
            self.packet_conservation = false;
        }
        self.sample_long_term(step.ack.now, step.losses > 0.0, step.app_limited);
        let rate = sample.delivered as f64 / sample.interval.as_secs_f64();
        if !step.app_limited || rate >= self.bandwidth.get() {
            self.bandwidth.update(self.rounds, rate);
        }
    }

    fn progress(&self, now: Time, losses: bool, app_limited: bool) -> Progress {
        Progress {
            now,
            delivered: self.delivered,
            lost: self.lost,
            losses,
            app_limited,
            round_start: self.round_start,
            probing_bandwidth: self.mode == Mode::ProbeBw,
        }
    }

    fn sample_long_term(&mut self, now: Time, losses: bool, app_limited: bool) {
        if self.config.long_term && self.long_term.update(&self.progress(now, losses, app_limited)) {
            self.enter_probe_bw(now);
        }
    }

    fn update_aggregation(&mut self, step: &Step<'_>) {
        if !self.config.aggregation || step.acked <= 0.0 || step.sample.is_none() {
            return;
        }
        self.aggregation.update(&Delivery {
            now: step.ack.now,
            round_start: self.round_start,
            acked: step.acked,
            bandwidth: self.bw() / self.mss,
            cwnd: self.cwnd,
        });
    }

    fn packets(&self, bytes: u64) -> f64 {
        bytes as f64 / self.mss
    }
}

impl Controller for Bbr {
    fn on_sent(&mut self, sent: &Sent) -> Stamp {
        self.sent_limited = sent.app_limited;
        let gap = Rate::from_bytes_per_sec(self.pacing_rate as u64).time_for(u64::from(sent.bytes));
        self.departure = self.departure.max(sent.now) + gap;
        Stamp::default()
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.delivered = ack.delivered;
        self.last_ack = ack.now;
        let limited = |sample: RateSample| {
            let mark = self.limited.is_some_and(|(start, end)| (start..=end).contains(&sample.prior_delivered));
            sample.app_limited || mark
        };
        let step = Step {
            ack,
            sample: ack.rate.filter(|sample| sample.delivered > 0 && sample.interval > Nanos::ZERO),
            app_limited: ack.rate.is_some_and(limited),
            acked: self.packets(ack.bytes),
            losses: self.packets(self.new_losses),
            in_flight: self.packets(ack.in_flight),
            prior_in_flight: self.packets(ack.prior_in_flight),
        };
        self.new_losses = 0;
        self.update_model(&step);
        if !self.seen_rtt && ack.srtt > Nanos::ZERO {
            self.seen_rtt = true;
            self.pace_from_rtt(ack.srtt);
        }
        self.set_pacing(self.pacing_gain);
        self.set_cwnd(&step);
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        self.lost += loss.bytes;
        self.new_losses += loss.bytes;
        if loss.new_episode {
            self.save_cwnd();
        }
    }

    fn on_timeout(&mut self, timeout: &Timeout<'_>) {
        // What is still in flight is counted when it is found lost (RACK).
        self.lost += timeout.prior_in_flight.saturating_sub(timeout.in_flight);
        if timeout.count == 1 {
            self.save_cwnd();
        }
        self.prior_phase = Phase::Loss;
        self.full_bandwidth = 0.0;
        self.round_start = true;
        self.sample_long_term(self.last_ack, true, false);
        // Linux `tcp_enter_loss`: one packet beside what is still in flight.
        self.cwnd = self.packets(timeout.in_flight) + 1.0;
    }

    fn on_spurious(&mut self, now: Time) {
        self.full_bandwidth = 0.0;
        self.full_count = 0;
        let progress = self.progress(now, false, false);
        self.long_term.reset(&progress);
    }

    /// `CA_EVENT_TX_START`: only where the application, not a slow pacing rate, left nothing in flight.
    fn on_restart(&mut self, restart: &Restart) {
        let now = restart.now;
        if !self.sent_limited {
            return;
        }
        self.idle_restart = true;
        self.aggregation.restart(now);
        match self.mode {
            Mode::ProbeBw => self.set_pacing(1.0),
            Mode::ProbeRtt => self.check_probe_rtt_done(now),
            Mode::Startup | Mode::Drain => {}
        }
    }

    fn on_app_limited(&mut self, _now: Time, _in_flight: u64) {
        self.sent_limited = true;
    }

    fn on_mss(&mut self, _now: Time, mss: u32) {
        let mss = f64::from(mss.max(1));
        let scale = self.mss / mss;
        self.mss = mss;
        self.cwnd = (self.cwnd * scale).max(1.0);
        self.prior_cwnd *= scale;
    }

    fn nature(&self) -> Nature {
        Nature::PLAIN
    }

    fn permit(&self) -> Permit {
        Permit {
            pacing: Pacing::Rate(Rate::from_bytes_per_sec(self.pacing_rate as u64)),
            recovery: Recovery::Controller,
            cruises: self.mode == Mode::ProbeBw,
            outlasts_departures: true,
            ..Permit::up_to((self.cwnd.max(1.0) * self.mss) as u64)
        }
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        report("cwnd_packets", self.cwnd);
        report("pacing_mbps", self.pacing_rate * 8e-6);
        report("bandwidth_mbps", self.bw() * 8e-6);
        if self.min_rtt < Nanos::MAX {
            report("min_rtt_ms", self.min_rtt.as_millis_f64());
        }
        report("mode", f64::from(self.mode as u8));
        report("pacing_gain", self.pacing_gain);
        report("rounds", self.rounds as f64);
        report("full_reached", f64::from(u8::from(self.full_reached)));
        report("policed", f64::from(u8::from(self.long_term.bandwidth().is_some())));
        report("extra_acked_packets", self.aggregation.allowance(f64::INFINITY));
    }
}

fn make(params: &Params, env: &Env) -> Box<dyn Controller> {
    let config = Config {
        long_term: params.word("long_term") == "on",
        aggregation: params.word("aggregation") == "on",
        cwnd_gain: params.number("cwnd_gain"),
        probe_gain: params.number("probe_gain"),
        min_rtt_window: Nanos::from_secs_f64(params.number("probe_rtt")),
        probe_rtt_gain: params.number("probe_rtt_gain"),
    };
    Box::new(Bbr::new(env, config))
}

/// `bbr` in the registry.
pub const ENTRY: Entry = Entry {
    name: "bbr",
    summary: "BBR version 1: paces at the measured bottleneck bandwidth, about two BDP in flight",
    source: "Linux tcp_bbr.c; draft-cardwell-iccrg-bbr-congestion-control-00",
    statements: crate::statements::BBR,
    home: Home::Tcp,
    start: None,
    params: &[
        Param {
            name: "cwnd_gain",
            unit: "BDP; over @icn 1.5 unless it is given",
            kind: Kind::Number { min: 1.0, max: 100.0 },
            default: "2",
            source: "Linux tcp_bbr.c, bbr_cwnd_gain: room for delayed and stretched acknowledgements",
        },
        Param {
            name: "probe_gain",
            unit: "of the bandwidth in the phase that probes for more",
            kind: Kind::Number { min: 1.0, max: 2.885 },
            default: "1.25",
            source: "Linux tcp_bbr.c, bbr_pacing_gain; 1.5 and 2 are BBRp with bbrp_pace 6 and 8 (Grazia, Klapez and Casoni, IEEE Access 2020)",
        },
        Param {
            name: "probe_rtt",
            unit: "s without a smaller RTT until ProbeRTT; over @icn 5 unless it is given",
            kind: Kind::Number { min: 0.1, max: 1e6 },
            default: "10",
            source: "Linux tcp_bbr.c, bbr_min_rtt_win_sec; BBRv2 and BBRv3 have 5",
        },
        Param {
            name: "probe_rtt_gain",
            unit: "BDP in flight in ProbeRTT, at least 4 packets; over @icn 0.5 unless it is given",
            kind: Kind::Number { min: 0.0, max: 1.0 },
            default: "0",
            source: "Linux tcp_bbr.c, bbr_probe_rtt_cwnd; BBRv2 and BBRv3 have 0.5 (draft-ietf-ccwg-bbr-06 section 2.16.2)",
        },
        Param {
            name: "long_term",
            unit: "policer detection",
            kind: Kind::Choice(&["on", "off"]),
            default: "on",
            source: "Linux tcp_bbr.c, bbr_lt_bw_sampling",
        },
        Param {
            name: "aggregation",
            unit: "window for bursts of acknowledgements",
            kind: Kind::Choice(&["on", "off"]),
            default: "on",
            source: "Linux tcp_bbr.c, bbr_update_ack_aggregation",
        },
    ],
    needs: &[],
    make: &make,
    receiver: None,
    lower: None,
};
