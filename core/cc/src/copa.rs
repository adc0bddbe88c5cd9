//! Copa: a window that aims at the rate 1/(delta x queueing delay) (Arun and Balakrishnan, "Copa: Practical
//! Delay-Based Congestion Control for the Internet", NSDI 2018, sections 2 and 3).
//!
//! | symbol | here |
//! |---|---|
//! | delta | `mode::Aggressiveness::delta` |
//! | d_q, RTTstanding, RTTmin | `delays::Delays::queueing`, `standing`, `min` |
//! | v | `velocity::Velocity::value` |
//!
//! What differs from the paper, and why:
//! - The largest RTT of the mode test comes from 5 RTT, not 4, as the smallest does: with unequal or shorter windows a
//!   lone flow takes itself for a competitor.
//! - Between the paper's nearly empty queue (less than a tenth of its swing is left) and one that stands (a half is
//!   left; a fifth for 10 s after a loss that came in Competitive mode with 1/delta at 8 times its default) the mode
//!   stays, and 1/delta waits. The paper takes all that is not nearly empty for a competitor. Like flows empty the
//!   queue less the more there are (of 50 a quarter of the highest queue is always left), so that by the paper's test
//!   five to twenty call each other competitors and, as nothing ends it without losses, fill any buffer; beside a flow
//!   that fills the buffer the queue hardly moves within 5 RTT. What waited is made up for, at most 5 RTT of it, when
//!   the queue does stand.
//! - `tol` is a floor under the mode test: a queue of one packet counts as empty. The paper has none (`tol=0`): where
//!   a tenth of the swing is less than a packet, a lone flow takes itself for a competitor. With two packets the share
//!   beside CUBIC falls to half and less.
//! - v returns to 1 at once when the window's direction contradicts the one v was earned in; the paper waits for the
//!   RTT to end and overshoots.
//! - 1/delta is bounded, v never exceeds delta times the window (the latter as the authors' release).
//! - The window does not rise while the application limits the flow; it may fall.
//! - The paper is silent on timeouts, idle times and outages: see `Copa::on_timeout`, `STALE` below, `outage`.
//! - From 5 % of loss on the window has a [ceiling](crate::ceiling), whatever the mode and the delay, and may be less than a
//!   packet: behind a buffer too small for delay to show, or among more flows than the buffer has room for, nothing else limits
//!   it. The paper bears any loss; the release cuts at 30 %.
//!
//! Like flows may take each other for competitors when they began in a queue and know too large a smallest RTT, of
//! which the paper says nothing. Against that, where `mode=auto` (`mode::SETTLING`, `UNDOUBTED`, `AFTER_DRAIN`):
//! - In its first 10 s a flow does not compete.
//! - A flow in Competitive mode drains when it had no loss with 1/delta at 8 times its default for 30 s, and has not
//!   seen its smallest RTT for `rttmin_window`: about two round trips with the smallest window (`drain::Drain`). It
//!   then takes the smallest RTT it saw, and returns to Default mode, for at least 3 s if it loses nothing. A drain
//!   costs its flow two round trips of 10 s; a flow that sees the queue empty, or whose losses show the competitor,
//!   never drains.
//!
//! So the mean queue of 2 to 50 like flows, starts 0.3 or 1 s apart, is at most twice that of `mode=default` (12 to
//! 100 Mbit/s, 20 to 100 ms, a buffer of one BDP or endless; up to 20 flows at 1 Gbit/s). Beside one flow at 48 Mbit/s
//! with a buffer of one BDP the share is, at 20, 40 and 80 ms: CUBIC 0.50, 0.43 and 0.29, Reno 0.41, 0.40 and 0.46
//! (median of five starts of the rival).
//!
//! Limits: a flow that begins beside one that fills the buffer has little in its first 10 s (beside CUBIC at 50
//! Mbit/s, 40 ms and two BDP 1.8 Mbit/s over 10 s, 14 over a minute). Beside a flow that fills an endless buffer, and
//! makes no losses, Copa returns to Default mode every 10 s. Where a flow has 5 packets of BDP or fewer (20 flows at
//! 24 Mbit/s, 40 ms) the smallest RTT may stay wrong, in Default mode as well. Where an acknowledgement waits for many packets,
//! RTTstanding (section 2.1: the smallest of half an RTT) is of one or two samples, whose wait counts as a queue: at 20 Mbit/s,
//! 40 ms and one every 8, 16 and 32 packets, or 40 ms, a flow has 0.84, 0.54 and 0.12 of the link (the release 0.80, 0.70
//! and 0.13).
//!
//! `rules=release` follows the authors' user-space release (genericCC, markoviancc.cc) instead where the two differ:
//! no persistence before v doubles, mode windows of 4 RTT with equal extremes taken for competition, no change before
//! 19 acknowledgements, epochs of the newest RTT, any number of halvings of 1/delta an RTT, a restart after 2 s of
//! silence.

use crate::ceiling::{Ceiling, Signs, Verdict};
use crate::controller::{Ack, Controller, Env, Loss, Nature, Pacing, Permit, Recovery, Restart, Sent, Stamp, Timeout};
use crate::max_flight::MaxFlight;
use crate::units::{Nanos, Rate, Time};

use self::delays::Delays;
use self::drain::Drain;
use self::guard::LossGuard;
use self::mode::{Aggressiveness, Modes};
use self::outage::Outage;
use self::velocity::{Move, Velocity};

mod delays;
mod drain;
mod entry;
mod guard;
mod mode;
mod outage;
#[cfg(test)]
mod tests;
mod velocity;

pub use entry::ENTRY;

/// Initial window in packets (RFC 6928; the release's `num_probe_pkts`).
const INITIAL_CWND: f64 = 10.0;
/// Smallest window in packets (the release).
const MIN_CWND: f64 = 2.0;
/// Smallest window after heavy loss in packets (our choice: 500 flows share a path that holds 32).
const LEAST_CWND: f64 = 1.0 / 16.0;
/// What is kept of the window at heavy loss, at most, where a queue makes it (our choice: Reno's half).
const MOST_KEPT: f64 = 0.5;
/// Acknowledgements before the release's window moves (`2 * num_probe_pkts - 1`).
const RELEASE_PROBES: u64 = 19;
/// Silence after which the release starts again (ctcp.hh).
const RELEASE_SILENCE: Nanos = Nanos::from_secs(2);
/// Below this a queueing delay counts as none (our choice: a clock's resolution).
const NO_QUEUE: Nanos = Nanos::from_micros(1);
/// Silence after which the smallest RTT is stale and the window is found again (our choice: RTTmin's window).
const STALE: Nanos = Nanos::from_secs(10);

/// Whose rules to follow where the paper and its authors' release differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rules {
    Paper,
    Release,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    SlowStart,
    Steady,
}

/// What the registry's parameters set.
#[derive(Clone, Copy, Debug)]
struct Config {
    rules: Rules,
    modes: Modes,
    delta: f64,
    /// Packets of queue that count as none.
    tolerance: f64,
    rtt_min_window: Nanos,
}

/// Copa. See the [module](self).
pub struct Copa {
    config: Config,
    mss: f64,
    /// Congestion window in packets.
    cwnd: f64,
    stage: Stage,
    delays: Delays,
    aggressiveness: Aggressiveness,
    velocity: Velocity,
    drain: Option<Drain>,
    drains: u64,
    ceiling: Ceiling,
    guard: LossGuard,
    acked: u64,
    last_ack: Option<Time>,
    outage: Outage,
    max_flight: MaxFlight,
    /// The window before the last timeout or heavy loss, and maxFS, for undo.
    before: Option<(f64, f64)>,
}

impl Copa {
    fn new(env: &Env, config: Config) -> Self {
        Self {
            config,
            mss: f64::from(env.mss.max(1)),
            cwnd: INITIAL_CWND,
            stage: Stage::SlowStart,
            delays: Delays::new(config.rules, config.rtt_min_window),
            aggressiveness: Aggressiveness::new(config.rules, config.modes, config.delta),
            velocity: Velocity::new(config.rules),
            drain: None,
            drains: 0,
            ceiling: Ceiling::default(),
            guard: LossGuard::default(),
            acked: 0,
            last_ack: None,
            outage: Outage::default(),
            max_flight: MaxFlight::new(INITIAL_CWND, f64::from(env.mss.max(1))),
            before: None,
        }
    }

    /// The window at which the rate is 1/(delta d_q), in packets.
    fn target(&self) -> f64 {
        let queueing = self.delays.queueing();
        if queueing < NO_QUEUE {
            return f64::INFINITY;
        }
        self.delays.standing().as_secs_f64() / (self.aggressiveness.delta * queueing.as_secs_f64())
    }

    fn update_mode(&mut self, now: Time) {
        let packets = self.delays.standing().mul_f64(self.config.tolerance / self.cwnd);
        // Our choice: a flow of few packets must not call a quarter of the RTT an empty queue.
        let tolerance = packets.min(self.delays.min().mul_div(1, 4));
        let queue = self.delays.queue(tolerance, self.aggressiveness.standing(now));
        self.aggressiveness.on_ack(now, self.delays.latest, queue);
    }

    /// Moves the window for one delivered packet of `size` full packets.
    fn update_window(&mut self, now: Time, size: f64, cwnd_at_send: f64, may_rise: bool) {
        let target = self.target();
        let up = self.cwnd <= target;
        if self.stage == Stage::SlowStart {
            if up && may_rise {
                self.cwnd += size;
            }
            // The paper leaves at the next packet that finds the window above its target; it makes no cut.
            let exceeded = if self.config.rules == Rules::Paper { !up } else { self.cwnd >= target };
            if exceeded {
                self.stage = Stage::Steady;
                self.velocity.restart(now, self.delays.srtt);
            }
            return;
        }
        let rtt = if self.config.rules == Rules::Paper { self.delays.srtt } else { self.delays.latest };
        let delta = self.aggressiveness.delta;
        let v = self.velocity.step(&Move { now, cwnd: self.cwnd, cwnd_at_send, up, delta, rtt });
        let change = v * size / (delta * self.cwnd);
        if !up {
            self.cwnd = (self.cwnd - change).max(self.least());
        } else if may_rise {
            self.cwnd += change;
        }
    }

    /// Begins and ends drains; true while the window is held for one.
    fn drains(&mut self, now: Time) -> bool {
        if let Some(drain) = &mut self.drain {
            if !drain.update(now, self.delays.latest) {
                return true;
            }
            self.max_flight.restore(drain.max_flight);
            self.cwnd = drain.finish(&mut self.delays).max(self.least());
            self.drain = None;
            self.velocity.restart(now, self.delays.srtt);
            self.aggressiveness.relent(now);
        } else if self.stage == Stage::Steady && self.aggressiveness.doubtful(now) && self.delays.stale(now) {
            self.drain = Some(Drain::new(now, self.cwnd, self.max_flight.packets(), &self.delays));
            self.drains += 1;
            self.cwnd = self.cwnd.min(MIN_CWND);
        }
        self.drain.is_some()
    }

    /// Finds the path again from at most the initial window; mode and ceiling stay.
    fn restart(&mut self) {
        self.cwnd = self.cwnd.min(INITIAL_CWND);
        self.stage = Stage::SlowStart;
        self.velocity = Velocity::new(self.config.rules);
        self.drain = None;
        self.delays.clear();
    }

    fn silent(&self, now: Time) -> bool {
        self.config.rules == Rules::Release && self.last_ack.is_some_and(|last| now - last > RELEASE_SILENCE)
    }

    /// The release's restart: nothing stays.
    fn reinitialise(&mut self) {
        self.restart();
        self.cwnd = INITIAL_CWND;
        self.max_flight = MaxFlight::new(INITIAL_CWND, self.mss);
        self.aggressiveness = Aggressiveness::new(self.config.rules, self.config.modes, self.config.delta);
        self.acked = 0;
        self.last_ack = None;
    }

    /// Heavy loss says what the delay does not ([`Ceiling`]): no more is kept of the window than arrived, or a quarter.
    fn count(&mut self, now: Time, delivered: usize, lost: usize) {
        let rtt = self.delays.latest;
        if self.config.rules == Rules::Release {
            if self.guard.count(now, rtt, delivered, lost) {
                self.cwnd = (LossGuard::FACTOR * self.cwnd).max(MIN_CWND);
            }
            return;
        }
        let signs = if self.stage == Stage::SlowStart {
            Signs::Starting
        } else if self.delays.stands(now) && !self.aggressiveness.proven(now) {
            Signs::Queue
        } else {
            Signs::Unclear
        };
        match self.ceiling.count(now, rtt, delivered, lost, signs) {
            Some(Verdict::Lossy(share)) => {
                self.stage = Stage::Steady;
                self.velocity.restart(now, self.delays.srtt);
                self.before = Some((self.cwnd, self.max_flight.packets()));
                let most = if signs == Signs::Unclear { 1.0 } else { MOST_KEPT };
                self.cwnd = ((1.0 - share).min(most) * self.cwnd).max(LEAST_CWND);
                self.ceiling.lower(self.cwnd);
            }
            Some(Verdict::Clean) => self.before = None,
            None => {}
        }
    }

    /// What an acknowledgement says.
    fn take(&mut self, ack: &Ack<'_>) {
        if self.silent(ack.now) {
            self.reinitialise();
        }
        self.last_ack = Some(ack.now);
        if self.config.rules == Rules::Paper {
            if self.outage.ends(ack.now, self.delays.known().then(|| self.delays.min())) {
                self.restart();
            }
            if self.outage.delayed(ack.packets) {
                return;
            }
        }
        if let Some(rtt) = ack.rtt {
            let keep = self.drain.is_some() || self.aggressiveness.doubtful(ack.now);
            self.delays.update(ack.now, rtt.max(Nanos::from_nanos(1)), keep);
        }
        if !self.delays.known() || self.drains(ack.now) {
            return;
        }
        self.update_mode(ack.now);
        let max_flight = self.max_flight.packets();
        let may_rise = ack.window_limited && (max_flight >= self.cwnd || self.limit(max_flight) > self.cwnd);
        for packet in ack.packets {
            self.acked += 1;
            if self.config.rules == Rules::Paper || self.acked > RELEASE_PROBES {
                let size = f64::from(packet.bytes) / self.mss;
                self.update_window(ack.now, size, f64::from_bits(packet.tag), may_rise);
            }
        }
        self.cwnd = self.cwnd.min(self.ceiling.packets());
        self.count(ack.now, ack.packets.len(), 0);
    }

    /// limit(maxFS): the window doubles, or moves by v/delta, in a round trip.
    fn limit(&self, max_flight: f64) -> f64 {
        match self.stage {
            Stage::SlowStart => 2.0 * max_flight,
            Stage::Steady => max_flight + self.velocity.value / self.aggressiveness.delta,
        }
    }

    /// An event is over that found the window at `before`.
    fn bound(&mut self, before: f64) {
        if self.cwnd != before {
            let mut max_flight = self.max_flight;
            self.cwnd = max_flight.bound(before, self.cwnd, |max_flight| self.limit(max_flight));
            self.max_flight = max_flight;
        }
    }

    /// This many bytes are in flight.
    fn flies(&mut self, in_flight: u64) {
        self.max_flight.update(in_flight, self.cwnd);
    }

    /// The smallest window: below [`MIN_CWND`] where the path does not carry even that.
    fn least(&self) -> f64 {
        MIN_CWND.min(self.ceiling.packets())
    }

    /// Twice the window each RTTstanding, so that pacing smooths and the window limits. Below a ceiling it is the window: a
    /// buffer that is too short loses what comes faster, and a window of less than a packet is kept by pacing alone.
    fn pace(&self) -> Pacing {
        if !self.delays.known() || (self.config.rules == Rules::Release && self.acked <= RELEASE_PROBES) {
            return Pacing::Free;
        }
        let gain = if self.ceiling.packets() < 2.0 * self.cwnd { 1.0 } else { 2.0 };
        let bytes = (gain * self.cwnd * self.mss) as u64;
        // A rate that rounds to no bytes at all would hold the flow for ever.
        Pacing::Rate(Rate::from_bytes_in(bytes, self.delays.standing()).max(Rate::from_bytes_per_sec(1)))
    }
}

impl Controller for Copa {
    /// The tag is the window, against which the direction is judged when the packet is acknowledged.
    fn on_sent(&mut self, sent: &Sent) -> Stamp {
        self.outage.on_sent(sent);
        self.flies(sent.in_flight);
        Stamp { tag: self.cwnd.to_bits(), note: 0 }
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.flies(ack.in_flight);
        let before = self.cwnd;
        self.take(ack);
        self.bound(before);
    }

    fn on_shared_rtt(&mut self, now: Time, min: Nanos) {
        self.delays.learn(now, min);
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        self.flies(loss.in_flight);
        let before = self.cwnd;
        self.aggressiveness.on_loss(loss.now, self.delays.latest);
        self.count(loss.now, 0, self.outage.lost_since(loss.packets));
        self.bound(before);
    }

    /// The paper is silent. Here the window falls to its smallest, and a second timeout in a row, which says that
    /// nothing in flight arrived, starts slow start. The release knows only its 2 s of silence.
    fn on_timeout(&mut self, timeout: &Timeout<'_>) {
        if self.config.rules == Rules::Release {
            if self.silent(timeout.now) {
                self.reinitialise();
            }
            return;
        }
        self.flies(timeout.in_flight);
        let before = self.cwnd;
        // One packet: where windows are that small, losses are found by timeouts alone. Of several in a row the first: a path that is
        // dark says nothing of how much it holds.
        if timeout.count == 1 {
            self.count(timeout.now, 0, 1);
        }
        let cwnd = self.drain.take().map_or(self.cwnd, |drain| drain.cwnd);
        if timeout.count == 1 {
            self.before = Some((cwnd, self.max_flight.packets()));
        } else {
            self.stage = Stage::SlowStart;
        }
        self.cwnd = cwnd.min(MIN_CWND);
        self.velocity.restart(timeout.now, self.delays.srtt);
        self.bound(before);
    }

    fn on_spurious(&mut self, _now: Time) {
        self.ceiling.forgive();
        if let Some((cwnd, max_flight)) = self.before.take() {
            self.cwnd = self.cwnd.max(cwnd);
            self.max_flight.restore(max_flight);
        }
    }

    fn on_restart(&mut self, restart: &Restart) {
        if restart.idle > STALE {
            let before = self.cwnd;
            self.ceiling = Ceiling::default();
            self.restart();
            self.bound(before);
        }
    }

    fn on_mss(&mut self, _now: Time, mss: u32) {
        let mss = f64::from(mss.max(1));
        let scale = self.mss / mss;
        self.mss = mss;
        self.cwnd = (self.cwnd * scale).max(LEAST_CWND);
        self.ceiling.scale(scale);
        self.max_flight.on_mss(mss);
        self.before = self.before.map(|(cwnd, max_flight)| (cwnd * scale, max_flight * scale));
    }

    fn nature(&self) -> Nature {
        Nature::PLAIN
    }

    fn permit(&self) -> Permit {
        Permit {
            pacing: self.pace(),
            recovery: Recovery::Controller,
            outlasts_departures: true,
            ..Permit::up_to((self.cwnd.max(1.0) * self.mss) as u64)
        }
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        report("cwnd_packets", self.cwnd);
        report("delta", self.aggressiveness.delta);
        report("velocity", self.velocity.value);
        report("competitive", f64::from(u8::from(self.aggressiveness.competitive)));
        report("slow_start", f64::from(u8::from(self.stage == Stage::SlowStart)));
        if self.delays.known() {
            report("rtt_min_ms", self.delays.min().as_millis_f64());
            report("rtt_standing_ms", self.delays.standing().as_millis_f64());
            report("queueing_ms", self.delays.queueing().as_millis_f64());
        }
        report("drains", self.drains as f64);
        report("rtt_min_rises", self.delays.rises as f64);
    }
}
