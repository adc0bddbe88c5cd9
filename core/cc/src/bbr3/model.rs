//! The model of the path: rounds, bandwidth, the full pipe, the smallest RTT, and how bunched acknowledgements come.

use super::Bbr3;
use super::losses::Tag;
use super::states::State;
use crate::bbr::filter::MaxFilter;
use crate::controller::Ack;
use crate::units::{Nanos, Time};

/// Rounds that the filter of bunched acknowledgements covers (section 2.12) ...
const EXTRA_ACKED_ROUNDS: u64 = 10;
/// ... and until the pipe is full.
const EXTRA_ACKED_ROUNDS_BEFORE: u64 = 1;
/// Growth of the delivery rate by which a search goes on (section 5.3.1.2).
const FULL_GROWTH: f64 = 1.25;
/// Age at which the smallest RTT is taken anew (section 2.16.1).
const MIN_RTT_WINDOW: Nanos = Nanos::from_secs(10);

/// What one acknowledgement shows of the path. Volumes in bytes.
pub(super) struct Sample {
    /// Delivery rate in bytes per second; `None` where no valid sample could be made, so that no round can start.
    pub(super) rate: Option<f64>,
    /// Delivered over the sample's interval.
    pub(super) delivered: f64,
    /// Delivered since the flow began when the sampled packet left.
    pub(super) prior_delivered: u64,
    pub(super) app_limited: bool,
    /// In flight when the newest delivered packet left, itself included, and lost since then.
    pub(super) tx_in_flight: f64,
    pub(super) lost: f64,
    pub(super) acked: f64,
    /// In flight before and after the acknowledgement.
    pub(super) prior_in_flight: f64,
    pub(super) in_flight: f64,
}

/// Rounds of the flow: what is delivered of what left after the last one began.
#[derive(Default)]
pub(super) struct Rounds {
    pub(super) count: u64,
    /// The present acknowledgement began one.
    pub(super) started: bool,
    pub(super) next_delivered: u64,
    /// [`Rounds::next_delivered`] was set by losses of an acknowledgement at this time, whose delivery is not counted yet.
    pub(super) marked_at: Option<Time>,
    /// The window limited the flow in the present round, and in the one before.
    pub(super) cwnd_limited: bool,
    before_limited: bool,
}

impl Rounds {
    pub(super) fn was_cwnd_limited(&self) -> bool {
        self.cwnd_limited || self.before_limited
    }
}

/// The bottleneck's bandwidth in bytes per second (section 2.8).
pub(super) struct Bandwidth {
    /// The largest of the last cycle of probing and of the present one.
    pub(super) cycles: [f64; 2],
    /// The short-term bound.
    pub(super) short: f64,
    /// The largest of the present loss round.
    pub(super) latest: f64,
    /// The estimate that the last acknowledgement left.
    pub(super) bw: f64,
}

impl Default for Bandwidth {
    fn default() -> Self {
        Self { cycles: [0.0; 2], short: f64::INFINITY, latest: 0.0, bw: 0.0 }
    }
}

impl Bandwidth {
    pub(super) fn max(&self) -> f64 {
        self.cycles[0].max(self.cycles[1])
    }

    /// Section 5.5.5: a sample that the application limited counts only where it is larger.
    pub(super) fn update(&mut self, sample: &Sample) {
        if let Some(rate) = sample.rate
            && (rate >= self.max() || !sample.app_limited)
        {
            self.cycles[1] = self.cycles[1].max(rate);
        }
    }

    /// A cycle of probing has ended. One without a sample does not take the place of the one before.
    pub(super) fn advance(&mut self) {
        if self.cycles[1] > 0.0 {
            self.cycles = [self.cycles[1], 0.0];
        }
    }

    pub(super) fn bound(&mut self) {
        self.bw = self.max().min(self.short);
    }
}

/// Whether the delivery rate has stopped growing (section 5.3.1.2).
#[derive(Default)]
pub(super) struct FullPipe {
    /// The rate that the next ones are held against.
    pub(super) bw: f64,
    pub(super) count: u32,
    /// It has in the present search.
    pub(super) now: bool,
    /// It has at least once.
    pub(super) reached: bool,
}

impl FullPipe {
    pub(super) fn reset(&mut self, bw: f64) {
        *self = Self { bw, count: 0, now: false, reached: self.reached };
    }

    /// `rounds` without growth fill it.
    pub(super) fn check(&mut self, rate: f64, rounds: u32) {
        if rate >= FULL_GROWTH * self.bw {
            self.reset(rate);
            return;
        }
        self.count += 1;
        if self.count >= rounds {
            self.fill();
        }
    }

    pub(super) fn fill(&mut self) {
        self.now = true;
        self.reached = true;
    }
}

/// The smallest RTT (section 5.3.4.3).
pub(super) struct MinRtt {
    /// [`Nanos::MAX`] before the first sample.
    pub(super) value: Nanos,
    stamp: Time,
    /// The smallest since ProbeRTT last ended, or of the last 5 s.
    pub(super) probed: Nanos,
    pub(super) probed_stamp: Time,
    /// ProbeRTT is due.
    pub(super) expired: bool,
    /// The value from before the present acknowledgement.
    pub(super) before: Nanos,
}

impl Default for MinRtt {
    fn default() -> Self {
        let stamp = Time::ZERO;
        Self { value: Nanos::MAX, stamp, probed: Nanos::MAX, probed_stamp: stamp, expired: false, before: Nanos::MAX }
    }
}

impl MinRtt {
    pub(super) fn begin(&mut self, now: Time) {
        (self.stamp, self.probed_stamp) = (now, now);
    }
}

/// How much more is acknowledged at once than the bandwidth explains (section 5.5.9).
pub(super) struct Aggregation {
    start: Time,
    acked: f64,
    extra: MaxFilter,
}

/// What one acknowledgement gives [`Aggregation`].
pub(super) struct Delivery {
    pub(super) now: Time,
    pub(super) bytes: f64,
    pub(super) bandwidth: f64,
    pub(super) cwnd: f64,
    pub(super) round: u64,
}

impl Default for Aggregation {
    fn default() -> Self {
        Self { start: Time::ZERO, acked: 0.0, extra: MaxFilter::new(EXTRA_ACKED_ROUNDS) }
    }
}

impl Aggregation {
    /// In bytes.
    pub(super) fn extra(&self) -> f64 {
        self.extra.get()
    }

    /// Bandwidth is expected from `now` on.
    pub(super) fn restart(&mut self, now: Time) {
        self.start = now;
    }

    pub(super) fn update(&mut self, delivery: &Delivery, full: bool) {
        let mut expected = delivery.bandwidth * (delivery.now - self.start).as_secs_f64();
        if self.acked <= expected {
            (self.acked, self.start, expected) = (0.0, delivery.now, 0.0);
        }
        self.acked += delivery.bytes;
        let window = if full { EXTRA_ACKED_ROUNDS } else { EXTRA_ACKED_ROUNDS_BEFORE };
        self.extra.update_within(window, delivery.round, (self.acked - expected).min(delivery.cwnd));
    }
}

impl Bbr3 {
    pub(super) fn sample(&self, ack: &Ack<'_>) -> Sample {
        let unknown = Tag { app_limited: false, in_flight: ack.prior_in_flight, lost: self.losses.lost };
        let tag = ack.packets.last().map_or(unknown, |packet| packet.tag.into());
        let rate = ack.rate.filter(|rate| rate.delivered > 0 && rate.interval > Nanos::ZERO);
        Sample {
            rate: rate.map(|rate| rate.delivered as f64 / rate.interval.as_secs_f64()),
            delivered: rate.map_or(0.0, |rate| rate.delivered as f64),
            prior_delivered: rate.map_or(0, |rate| rate.prior_delivered),
            app_limited: tag.app_limited || rate.is_some_and(|rate| rate.app_limited),
            tx_in_flight: tag.in_flight as f64,
            lost: self.losses.since(tag),
            acked: ack.bytes as f64,
            prior_in_flight: ack.prior_in_flight as f64,
            in_flight: ack.in_flight as f64,
        }
    }

    /// Marks set by the losses of this acknowledgement move to its own count of what was delivered.
    pub(super) fn move_marks(&mut self, ack: &Ack<'_>) {
        if self.losses.marked_at.take() == Some(ack.now) {
            self.losses.round_delivered = ack.delivered;
        }
        if self.rounds.marked_at.take() == Some(ack.now) {
            self.rounds.next_delivered = ack.delivered;
        }
    }

    /// Section 5.5.10.3. True where a loss round begins.
    pub(super) fn update_latest_signals(&mut self, sample: &Sample) -> bool {
        let Some(rate) = sample.rate else { return false };
        self.bandwidth.latest = self.bandwidth.latest.max(rate);
        self.inflight_latest = self.inflight_latest.max(sample.delivered);
        let start = sample.prior_delivered >= self.losses.round_delivered;
        if start {
            self.losses.round_delivered = self.delivered;
        }
        start
    }

    /// Section 5.5.1.
    pub(super) fn update_rounds(&mut self, sample: &Sample) {
        self.rounds.started = sample.rate.is_some() && sample.prior_delivered >= self.rounds.next_delivered;
        if self.rounds.started {
            self.start_round();
            self.rounds.count += 1;
            self.probe.rounds += 1;
            self.rounds.before_limited = std::mem::take(&mut self.rounds.cwnd_limited);
        }
    }

    pub(super) fn start_round(&mut self) {
        self.rounds.next_delivered = self.delivered;
        self.rounds.marked_at = self.losses.by_acknowledgement.then(|| self.now());
    }

    /// Section 5.5.10.3, at the end of a loss round.
    pub(super) fn adapt_lower_bounds(&mut self) {
        let probing = matches!(self.state, State::Startup | State::Refill | State::Up);
        if std::mem::take(&mut self.losses.in_round) && !probing {
            let beta = self.constants.beta;
            let cut =
                |bound: f64, unset: f64, latest: f64| latest.max(beta * if bound.is_finite() { bound } else { unset });
            self.bandwidth.short = cut(self.bandwidth.short, self.bandwidth.max(), self.bandwidth.latest);
            self.inflight_short = cut(self.inflight_short, self.cwnd, self.inflight_latest);
        }
    }

    pub(super) fn reset_short_term(&mut self) {
        self.bandwidth.short = f64::INFINITY;
        self.inflight_short = f64::INFINITY;
    }

    /// `bbr_reset_congestion_signals`.
    pub(super) fn reset_signals(&mut self) {
        self.losses.in_round = false;
        self.bandwidth.latest = 0.0;
        self.inflight_latest = 0.0;
    }

    pub(super) fn update_min_rtt(&mut self, rtt: Option<Nanos>) {
        let now = self.now();
        let min_rtt = &mut self.min_rtt;
        min_rtt.before = min_rtt.value;
        min_rtt.expired = now > min_rtt.probed_stamp + self.constants.probe_rtt_interval;
        if let Some(rtt) = rtt.filter(|&rtt| rtt < min_rtt.probed || min_rtt.expired) {
            (min_rtt.probed, min_rtt.probed_stamp) = (rtt, now);
        }
        if min_rtt.probed < min_rtt.value || now > min_rtt.stamp + MIN_RTT_WINDOW {
            (min_rtt.value, min_rtt.stamp) = (min_rtt.probed, min_rtt.probed_stamp);
        }
    }

    /// Bytes in flight that keep a path of bandwidth `bw` busy, `gain` times; the initial window while no RTT is known.
    pub(super) fn bdp(&self, bw: f64, gain: f64) -> f64 {
        self.bdp_over(self.min_rtt.value, bw, gain)
    }

    pub(super) fn bdp_over(&self, rtt: Nanos, bw: f64, gain: f64) -> f64 {
        if rtt == Nanos::MAX {
            return super::INITIAL_PACKETS * self.mss;
        }
        gain * bw * rtt.as_secs_f64()
    }
}
