//! Verus: every 5 ms a target delay moves by a millisecond or two, and the delay profile says which window leads to it.
//!
//! Source: Zaki et al., "Adaptive Congestion Control for Unpredictable Cellular Networks", SIGCOMM 2015, and the
//! authors' release (`verus_server.cpp`). Names: `d_est` is D_est, `d_min` D_min, `d_max` the D_max,i of an epoch,
//! `d_max_avg` its smoothed value, `w_bar` W. What differs from the release:
//!
//! - A target above the profile extrapolates it; the release starts over with slow start. As in the release slow start
//!   begins again when fewer than `FEWEST_LEARNT` windows are learnt, but from the present window, and not where losses
//!   were the reason.
//! - The packets of an epoch are spread over it; the release sends them in one burst.
//! - The RTT average starts at the first sample; the release's starts at 0, so that its epochs are too few at first.
//! - A timeout in slow start starts over: the few delays learnt are an outage's. The release leaves the target delay at 0,
//!   which is a window of 1.
//! - A delay ends slow start only when it is at least twice the smallest: on a path of 500 ms and more the release ends it
//!   with the first acknowledgement.
//! - A loss ends slow start whatever the window; in the release it goes on up to 20 packets, and floods a path that holds
//!   fewer.
//! - A loss phase holds target and window for a round trip: it ends with the first packet sent since. In the release the
//!   target goes on moving, and any packet sent under a small window ends it.
//! - Where more than `LOSS_TOLERATED` of the packets are lost, each loss phase makes the profile forget the windows from the
//!   lost one on, and they are tried again slowly ([`Profile::forget_from`]). The release forgets them at the loss that ends
//!   slow start alone (`curveStop`). A buffer that is shorter than R times the smallest delay gives a profile that never
//!   reaches the target; without this its end would grow for ever.
//! - The window is at most `GROWTH` times what was delivered in the last round trip, or in the last epoch where that is
//!   longer: on a path below 5 ms a window leaves once an epoch.
//! - After slow start, and while no more than `LOSS_TOLERATED` of the packets are lost, a loss does not take the window below
//!   what was delivered in the last round trip: the path has just carried that.
//! - A target within `DELTA1` of the smallest delay is looked up as that: on a flat curve, noise would answer it.
//! - A loss phase for packets that were only late is undone.
//! - Which has a price: beside a flow that fills the buffer it yields less than the paper shows. CUBIC keeps 1.6 of 48 Mbit/s at one
//!   BDP, with R = 6 and drop-tail.
//! - Flight, lost packets and timeouts are the datapath's; the release's own counter drifts.
//! - Packets of an application-limited flow do not enter the profile: their delay is not the window's. Slow start does not grow
//!   by them, unless they filled the window (a burst).
//! - The target does not climb further once it is above the profile.
//! - Epochs missed by a late timer are made up for, at most `MAX_EPOCHS` at once; the release counts none of them.
//! - While nothing is in flight and nothing is to be sent, no epochs run.

mod entry;
pub mod profile;

use crate::controller::{
    Ack, Acked, Controller, Env, Loss, Nature, Pacing, Permit, Recovery, Restart, Sent, Stamp, Timeout,
};
use crate::units::{Nanos, Rate, Time};
use profile::Profile;

pub use entry::ENTRY;

/// Length of an epoch (Verus section 5.1; `EPOCH`).
const EPOCH: Nanos = Nanos::from_millis(5);
/// The target's step down when delays grow, in ms (`delta_1`).
const DELTA1: f64 = 1.0;
/// The target's step up, and down when over the ratio, in ms (`delta_2`).
const DELTA2: f64 = 2.0;
/// Growth of delay below this counts as none, in ms (the release).
const NO_GROWTH: f64 = 0.0001;
/// Multiplicative decrease (`VERUS_M_DECREASE`).
const M: f64 = 0.7;
/// Weight of the old value in the RTT average (the release).
const OLD_RTT: f64 = 0.875;
/// Weight of the old value in the average of the epochs' largest delays (the release).
const OLD_D_MAX: f64 = 0.2;
/// How far the smallest delay grows when the target is pinned at it and nearly nothing is in flight, in ms
/// (the release).
const D_MIN_GROWTH: f64 = 10.0;
/// Flight in packets below which the smallest delay grows (the release).
const LITTLE_FLIGHT: f64 = 2.0;
/// Time between two fits of the profile (Verus section 5.1; `CURVE_TIMER`).
const FIT_EVERY: Nanos = Nanos::from_secs(1);
/// With fewer windows learnt than this there is no profile, and slow start begins again (the release).
const FEWEST_LEARNT: usize = 5;
/// The delay that ends slow start is at least this many times the smallest (our choice: 0.7 of such a window still fills
/// the path, whatever its length).
const LEAST_EXIT: f64 = 2.0;
/// Share of packets lost beyond which windows are forgotten (our choice: BBRv2 takes 2 %, draft-cardwell-iccrg-bbr-congestion-
/// control-02 BBRLossThresh; a little more, so that 1 or 2 % of random loss do not shrink the window).
const LOSS_TOLERATED: f64 = 0.03;
/// Weight of one packet in that share (our choice: the noise of random loss is then 0.3 % at 1 %, and 16 losses in a row
/// suffice).
const LOSS_GAIN: f64 = 1.0 / 512.0;
/// Largest growth of the window over what was delivered in the last round trip (our choice: that of slow start).
const GROWTH: f64 = 2.0;
/// Most epochs run by one late tick (our choice: 20 ms is a bad timer, more is a stall whose steps are stale).
const MAX_EPOCHS: u64 = 4;

/// What ends slow start, and how much delay Verus tolerates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// R: the largest ratio of delay to smallest delay.
    pub r: f64,
    /// Slow start ends when an RTT exceeds this many ms.
    pub ss_exit_ms: f64,
    /// Slow start ends when an RTT exceeds this many times the smallest; infinite for never.
    pub ss_ratio: f64,
}

/// The controller. Delays in ms, windows in packets.
#[derive(Clone, Debug)]
pub struct Verus {
    config: Config,
    mss: u32,
    slow_start: bool,
    /// From a loss until an acknowledgement of a packet sent under a window of at most `w_bar`.
    in_loss: bool,
    /// When the loss phase began.
    reduced_at: Time,
    /// Slow start ended by delay: being over the ratio says nothing until its queue has drained.
    exiting: bool,
    w_bar: f64,
    d_min: f64,
    d_est: f64,
    d_max_avg: Option<f64>,
    rtt_avg: Option<f64>,
    /// Largest RTT acknowledged in this epoch.
    epoch_max: Option<f64>,
    last_ack_at: Time,
    profile: Profile,
    /// Bytes, as the datapath last said.
    in_flight: u64,
    /// Bytes that may still leave in this epoch.
    allowance: u64,
    pacing: Pacing,
    next_epoch: Time,
    next_fit: Time,
    app_limited: bool,
    /// Packets delivered in the last round trip that the application did not limit.
    delivered: f64,
    /// Bytes delivered in this epoch.
    epoch_delivered: u64,
    /// Share of packets lost lately.
    lost_share: f64,
    /// What the last loss phase began with, for undo.
    before: Option<Before>,
    /// Window of the first packet lost in this loss phase, until the profile has forgotten it.
    lost_window: Option<u64>,
    /// Counts restarts, so that acknowledgements of packets from before one are distinguished.
    session: u32,
}

/// State before a loss phase.
#[derive(Clone, Copy, Debug)]
struct Before {
    slow_start: bool,
    w_bar: f64,
    d_est: f64,
    lost_share: f64,
}

impl Verus {
    /// Verus at the beginning of slow start.
    pub fn new(env: &Env, config: Config) -> Self {
        Self {
            config,
            mss: env.mss,
            slow_start: true,
            in_loss: false,
            reduced_at: Time::ZERO,
            exiting: false,
            w_bar: 1.0,
            d_min: f64::INFINITY,
            d_est: 0.0,
            d_max_avg: None,
            rtt_avg: None,
            epoch_max: None,
            last_ack_at: Time::ZERO,
            profile: Profile::default(),
            in_flight: 0,
            allowance: u64::from(env.mss),
            pacing: Pacing::Free,
            next_epoch: Time::NEVER,
            next_fit: Time::ZERO,
            app_limited: false,
            delivered: f64::INFINITY,
            epoch_delivered: 0,
            lost_share: 0.0,
            before: None,
            lost_window: None,
            session: 0,
        }
    }

    fn flight(&self) -> f64 {
        self.in_flight as f64 / f64::from(self.mss)
    }

    fn allow(&mut self, packets: f64) {
        self.allowance = packets.max(0.0) as u64 * u64::from(self.mss);
    }

    /// The window under which a packet with this tag was sent; none if that was before the last restart.
    fn window_of(&self, tag: u64) -> Option<u64> {
        let window = tag & u64::from(u32::MAX);
        (tag >> 32 == u64::from(self.session) && window > 0).then_some(window)
    }

    fn on_packet(&mut self, now: Time, packet: &Acked, limited: bool) {
        let Some(w_sent) = self.window_of(packet.tag) else { return };
        self.lost_share -= LOSS_GAIN * self.lost_share;
        let left_loss = self.in_loss && packet.sent_at > self.reduced_at;
        if !packet.retransmitted {
            let rtt = now.since(packet.sent_at).as_millis_f64();
            if left_loss {
                // Earlier delays of this epoch belong to the old window.
                self.epoch_max = None;
            }
            self.d_min = self.d_min.min(rtt);
            self.epoch_max = Some(self.epoch_max.map_or(rtt, |max| max.max(rtt)));
            self.rtt_avg = Some(self.rtt_avg.map_or(rtt, |avg| OLD_RTT * avg + (1.0 - OLD_RTT) * rtt));
            if self.slow_start && rtt > self.slow_start_exit() {
                self.end_slow_start(now, M * w_sent as f64);
                self.exiting = true;
                return;
            }
        }
        if left_loss {
            self.in_loss = false;
            self.exiting = false;
        }
        if self.in_loss {
            self.w_bar += 1.0 / self.w_bar;
            if self.profile.fitted() {
                self.d_est = self.d_est.min(self.profile.delay_of(self.w_bar, self.d_min)).max(self.d_min);
            }
        } else if !packet.app_limited && !packet.retransmitted {
            self.profile.learn(w_sent, now.since(packet.sent_at).as_millis_f64(), now);
        }
        if self.slow_start && (limited || !packet.app_limited) {
            self.w_bar += 1.0;
        }
    }

    /// The delay in ms beyond which slow start ends.
    fn slow_start_exit(&self) -> f64 {
        self.config.ss_exit_ms.min(self.config.ss_ratio * self.d_min).max(LEAST_EXIT * self.d_min)
    }

    /// Remembers the state that packets which were only late bring back.
    fn note(&mut self) {
        let Self { slow_start, w_bar, d_est, lost_share, .. } = *self;
        self.before = Some(Before { slow_start, w_bar, d_est, lost_share });
    }

    /// Enters a loss phase under a smaller window.
    fn reduce(&mut self, now: Time, w_bar: f64) {
        self.in_loss = true;
        self.reduced_at = now;
        self.w_bar = w_bar.max(1.0);
        if self.d_min.is_finite() {
            self.d_est = self.profile.delay_of(self.w_bar, self.d_min);
        }
    }

    /// The window after a packet sent under `lost` was lost.
    fn decreased(&self, lost: u64) -> f64 {
        let few = self.lost_share <= LOSS_TOLERATED && self.delivered.is_finite();
        let least = if few && !self.slow_start { self.delivered } else { 0.0 };
        self.w_bar.min(least.max(M * lost as f64))
    }

    fn end_slow_start(&mut self, now: Time, w_bar: f64) {
        self.reduce(now, w_bar);
        self.slow_start = false;
        self.allowance = 0;
        self.next_epoch = now + EPOCH;
        self.next_fit = now;
    }

    /// Slow start goes on from the present window.
    fn begin_slow_start(&mut self) {
        self.slow_start = true;
        self.d_max_avg = None;
        self.pacing = Pacing::Free;
        self.allow(self.w_bar - self.flight());
    }

    fn restart(&mut self) {
        let session = self.session.wrapping_add(1);
        let env = Env { mss: self.mss, ..Env::default() };
        *self = Self { session, ..Self::new(&env, self.config) };
    }

    /// Moves the target by the largest delay of an epoch. False: nothing may be sent in this epoch.
    fn move_target(&mut self, d_max: f64) -> bool {
        let d_max_avg = *self.d_max_avg.get_or_insert(d_max);
        self.d_max_avg = Some(OLD_D_MAX * d_max_avg + (1.0 - OLD_D_MAX) * d_max);
        if self.in_loss && !self.exiting {
            return true;
        }
        let mut may_send = true;
        if d_max_avg > self.config.r * self.d_min {
            if !self.exiting {
                self.d_est = self.d_min.max(self.d_est - DELTA2);
                if self.d_est <= self.d_min {
                    if self.flight() < LITTLE_FLIGHT {
                        self.d_min += D_MIN_GROWTH;
                        self.d_est = self.d_min;
                    } else {
                        may_send = false;
                    }
                }
            }
        } else if d_max - d_max_avg > NO_GROWTH {
            self.d_est = self.d_min.max(self.d_est - DELTA1);
        } else if self.d_est <= self.profile.end() {
            // Beyond the profile's end a larger target gives no larger window; it would only have to come down again.
            self.d_est += DELTA2;
        }
        let window = self.profile.window_for(self.d_est.max(self.d_min + DELTA1));
        let delivered = self.epoch_delivered as f64 / f64::from(self.mss);
        self.w_bar = window.min(GROWTH * self.delivered.max(delivered)).max(1.0);
        may_send
    }

    /// Packets to send in an epoch: what is missing in flight, and what returns during the epoch.
    fn share(&self) -> f64 {
        let flight = self.flight();
        let epochs = (self.rtt_avg.unwrap_or(0.0) / EPOCH.as_millis_f64()).ceil();
        let share =
            if epochs > 1.0 { self.w_bar + flight * (2.0 - epochs) / (epochs - 1.0) } else { self.w_bar - flight };
        share.max(0.0).floor()
    }

    fn run_epochs(&mut self, now: Time, count: u64) {
        if !self.d_min.is_finite() {
            return;
        }
        if now >= self.next_fit {
            self.profile.fit(now);
            self.next_fit = now + FIT_EVERY;
            if self.profile.learnt() < FEWEST_LEARNT && !self.profile.is_bounded() && !self.in_loss {
                self.begin_slow_start();
                return;
            }
        }
        let silence = now.since(self.last_ack_at).as_millis_f64();
        let d_max = self.epoch_max.take().unwrap_or_else(|| self.d_max_avg.unwrap_or(0.0).max(silence));
        let mut may_send = true;
        for _ in 0..count {
            may_send = self.move_target(d_max);
        }
        self.epoch_delivered = 0;
        let share = if may_send { self.share() } else { 0.0 };
        self.allow(share);
        self.pacing =
            if self.allowance > 0 { Pacing::Rate(Rate::from_bytes_in(self.allowance, EPOCH)) } else { Pacing::Free };
    }

    fn paused(&self) -> bool {
        self.app_limited && self.in_flight == 0
    }

    /// The clock of epochs starts again after a pause.
    fn resume(&mut self, now: Time) {
        self.last_ack_at = now;
        self.epoch_max = None;
        if !self.slow_start {
            self.next_epoch = now + EPOCH;
        }
    }

    /// When the next epoch is due, where the clock runs.
    fn epoch_ends(&self) -> Time {
        if self.slow_start || self.paused() { Time::NEVER } else { self.next_epoch }
    }
}

impl Controller for Verus {
    fn on_sent(&mut self, sent: &Sent) -> Stamp {
        if self.paused() {
            self.resume(sent.now);
        }
        self.app_limited = sent.app_limited;
        self.in_flight = sent.in_flight;
        self.allowance = self.allowance.saturating_sub(u64::from(sent.bytes));
        let window = (self.w_bar as u64).clamp(1, u64::from(u32::MAX));
        Stamp { tag: u64::from(self.session) << 32 | window, note: 0 }
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        for packet in ack.packets {
            self.on_packet(ack.now, packet, ack.window_limited);
        }
        self.in_flight = ack.in_flight;
        self.epoch_delivered += ack.bytes;
        if !ack.packets.is_empty() {
            self.last_ack_at = ack.now;
        }
        if let Some(rate) = ack.rate {
            let delivered = rate.delivered as f64 / f64::from(self.mss);
            if !rate.app_limited || delivered > self.delivered {
                self.delivered = delivered;
            }
        }
        if self.slow_start {
            self.allow(self.w_bar - self.flight());
        }
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        self.in_flight = loss.in_flight;
        let first = loss.packets.iter().find_map(|packet| self.window_of(packet.tag));
        if let Some(first) = first.filter(|_| !self.in_loss) {
            self.lost_window = Some(first);
            self.note();
            let w_bar = self.decreased(first);
            if self.slow_start {
                self.end_slow_start(loss.now, w_bar);
            } else {
                self.reduce(loss.now, w_bar);
            }
        }
        for _ in loss.packets {
            self.lost_share += LOSS_GAIN * (1.0 - self.lost_share);
        }
        if let Some(window) = self.lost_window.take_if(|_| self.lost_share > LOSS_TOLERATED) {
            self.profile.forget_from(window);
        }
    }

    fn on_timeout(&mut self, timeout: &Timeout<'_>) {
        self.in_flight = 0;
        if self.slow_start || !self.d_min.is_finite() {
            self.restart();
        } else {
            self.note();
            self.in_loss = true;
            self.reduced_at = timeout.now;
            self.d_est = self.d_min;
            self.w_bar = self.profile.window_for(self.d_min);
            self.allowance = 0;
        }
    }

    fn on_spurious(&mut self, _now: Time) {
        let Some(before) = self.before.take() else { return };
        self.in_loss = false;
        self.lost_window = None;
        self.lost_share = before.lost_share;
        self.w_bar = self.w_bar.max(before.w_bar);
        self.d_est = self.d_est.max(before.d_est);
        if before.slow_start {
            self.begin_slow_start();
        }
    }

    fn on_shared_rtt(&mut self, _now: Time, min: Nanos) {
        if self.d_min.is_finite() {
            self.d_min = self.d_min.min(min.as_millis_f64());
        }
    }

    fn on_restart(&mut self, restart: &Restart) {
        self.resume(restart.now);
    }

    fn on_app_limited(&mut self, _now: Time, in_flight: u64) {
        self.app_limited = true;
        self.in_flight = in_flight;
    }

    fn on_tick(&mut self, now: Time) {
        if now < self.epoch_ends() {
            return;
        }
        let due = 1 + EPOCH.times_in(now.since(self.next_epoch));
        self.run_epochs(now, due.min(MAX_EPOCHS));
        self.next_epoch += Nanos::from_nanos(EPOCH.as_nanos().saturating_mul(due));
    }

    /// The profile keeps its delays, though a window of as many packets has other bytes now: they are learnt again within
    /// round trips.
    fn on_mss(&mut self, _now: Time, mss: u32) {
        let mss = mss.max(1);
        let scale = f64::from(self.mss) / f64::from(mss);
        self.mss = mss;
        self.w_bar = (self.w_bar * scale).max(1.0);
        self.delivered *= scale;
    }

    fn nature(&self) -> Nature {
        Nature::PLAIN
    }

    fn permit(&self) -> Permit {
        Permit {
            pacing: self.pacing,
            next_tick: self.epoch_ends(),
            recovery: Recovery::Controller,
            is_budget: !self.slow_start,
            ..Permit::up_to(self.in_flight.saturating_add(self.allowance).max(u64::from(self.mss)))
        }
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        report("cwnd_packets", self.w_bar);
        report("slow_start", f64::from(u8::from(self.slow_start)));
        report("loss_phase", f64::from(u8::from(self.in_loss)));
        report("d_est_ms", self.d_est);
        if self.d_min.is_finite() {
            report("d_min_ms", self.d_min);
        }
        if let Some(d_max_avg) = self.d_max_avg {
            report("d_max_ms", d_max_avg);
        }
        report("profile_packets", self.profile.max_window() as f64);
    }
}

#[cfg(test)]
mod tests;
