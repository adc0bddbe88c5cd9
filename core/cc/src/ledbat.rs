//! LEDBAT and LEDBAT++: background transport, which gives way to all others by keeping the delay that it adds below a target
//! (RFC 6817; draft-irtf-iccrg-ledbat-plus-plus-06, of which the sections below are).
//!
//! The queueing delay is what a packet took less the smallest that one has taken in the last ten minutes. LEDBAT takes it one way, where
//! the receiver has a clock; LEDBAT++ takes round trips, and falls silent for two of them now and then, in which its own queue
//! empties. So a flow that begins in another one's queue does not keep it for the path. A receiver of named content runs the same on
//! its requests.
//!
//! What differs from the sources, and why:
//! - LEDBAT's window loses at most what it would gain at an empty queue: the RFC sets no bound (our choice).
//! - Its slow start, which the RFC leaves open, ends at half the target (our choice).
//! - Above the target LEDBAT++ decreases by the draft's formula, below it the window grows by the gain alone: read below the
//!   target too, the formula would grow by a window each round trip.
//! - A slowdown that measures more than before says nothing: others keep a queue, or the path is longer, which ten minutes tell apart. So
//!   do a kernel module and a model of ns-3 that follow the draft's version 01.
//! - Where the one-way delay has risen and the round trip has not, the clocks run apart: the base follows (`skew`).

use crate::controller::{
    Ack, Controller, Ecn, Env, Loss, Nature, Permit, Phase as RecoveryPhase, Restart, Sent, Stamp, Timeout,
};
use crate::entry::{CLASSIC_ECN, Entry, Home, Kind, ON_OFF, Param, Params, classic_ecn};
use crate::max_flight::MaxFlight;
use crate::units::{Nanos, Time};

use self::delays::Delays;
use self::slowdown::Slowdown;

mod delays;
mod slowdown;
#[cfg(test)]
mod tests;

/// Initial and smallest window in packets (RFC 6817 section 2.5; section 4.4 of the draft).
const LEAST: f64 = 2.0;
/// Largest share of the window that one round trip takes off for delay (section 4.3).
const MOST_DECREASE: f64 = 0.5;
/// Share of the window that a loss leaves.
const BETA: f64 = 0.5;
/// Smallest gain is one over this (section 4.2).
const MOST_DIVISOR: f64 = 16.0;
/// Share of the target at which slow start ends: LEDBAT++'s first one (section 4.1), and LEDBAT's (our choice).
const PLUS_EXIT: f64 = 0.75;
const PLAIN_EXIT: f64 = 0.5;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flavour {
    Plain,
    Plus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The first slow start, which delay ends.
    Start,
    Avoidance,
    /// At the smallest window, until the queue is gone and has been measured.
    Held,
    /// Slow start back to the window from before, whatever the delay.
    Ramp,
}

/// LEDBAT or LEDBAT++. See the [module](self).
pub struct Ledbat {
    flavour: Flavour,
    /// Seconds.
    target: f64,
    mss: f64,
    ecn: Ecn,
    delays: Delays,
    phase: Phase,
    slowdown: Slowdown,
    /// Packets.
    window: f64,
    ssthresh: f64,
    max_flight: MaxFlight,
    /// Window, threshold and maxFS before the last reduction, for undo.
    before: Option<(f64, f64, f64)>,
    /// Losses of packets that left before this were answered.
    reduced: Time,
    srtt: Nanos,
}

impl Ledbat {
    fn new(env: &Env, flavour: Flavour, params: &Params) -> Self {
        let delays = match flavour {
            Flavour::Plain => Delays::one_way(params.on("skew")),
            Flavour::Plus => Delays::round_trip(),
        };
        Self { flavour, delays, ecn: classic_ecn(params), ..Self::at_receiver(env, params.number("target")) }
    }

    /// LEDBAT++ where data goes, which adds at most `target_ms` of delay.
    pub(crate) fn at_receiver(env: &Env, target_ms: f64) -> Self {
        Self {
            flavour: Flavour::Plus,
            target: target_ms * 1e-3,
            mss: f64::from(env.mss.max(1)),
            ecn: Ecn::Off,
            delays: Delays::round_trip(),
            phase: Phase::Start,
            slowdown: Slowdown::default(),
            window: LEAST,
            ssthresh: f64::INFINITY,
            max_flight: MaxFlight::new(LEAST, f64::from(env.mss.max(1))),
            before: None,
            reduced: Time::ZERO,
            srtt: Nanos::ZERO,
        }
    }

    /// Packets that a window's worth of acknowledgements adds where the queue is empty.
    fn gain(&self) -> f64 {
        match self.flavour {
            Flavour::Plain => 1.0,
            Flavour::Plus => {
                let base = self.delays.base().unwrap_or(0.0).max(1e-9);
                1.0 / (2.0 * self.target / base).ceil().clamp(1.0, MOST_DIVISOR)
            }
        }
    }

    fn slow_start(&mut self, acked: f64, limited: bool) {
        if limited {
            let growth = self.gain() * acked;
            self.window = (self.window + growth).min(self.ssthresh.max(self.window));
        }
    }

    /// `acked` packets were delivered at a queueing delay of `queued` seconds.
    fn avoid(&mut self, acked: f64, queued: f64, limited: bool) {
        let (gain, above) = (self.gain(), queued / self.target - 1.0);
        let change = match self.flavour {
            Flavour::Plain => gain * (-above).clamp(-1.0, 1.0),
            Flavour::Plus if above <= 0.0 => gain,
            Flavour::Plus => (gain - self.window * above).max(-MOST_DECREASE * self.window),
        };
        if change < 0.0 || limited {
            self.window = (self.window + change * acked / self.window).max(LEAST);
        }
    }

    fn end_start(&mut self, now: Time) {
        self.phase = Phase::Avoidance;
        self.ssthresh = self.window;
        if self.flavour == Flavour::Plus {
            self.slowdown.after_start(now, self.srtt);
        }
    }

    /// Loss or mark of a packet that left at `sent_at`: half, once a round trip.
    fn reduce(&mut self, now: Time, sent_at: Time) {
        if sent_at < self.reduced {
            return;
        }
        self.reduced = now;
        self.before = Some((self.window, self.ssthresh, self.max_flight.packets()));
        match self.phase {
            // The window to return to shrinks; the present one is as small as it gets.
            Phase::Held | Phase::Ramp => self.ssthresh = (BETA * self.ssthresh).max(LEAST),
            Phase::Start | Phase::Avoidance => {
                let first = self.phase == Phase::Start;
                self.window = (BETA * self.window).max(LEAST);
                self.ssthresh = self.window;
                if first {
                    self.end_start(now);
                }
            }
        }
        self.check_ramp(now);
    }

    fn begin_slowdown(&mut self, now: Time) {
        self.ssthresh = self.window;
        self.window = LEAST;
        self.phase = Phase::Held;
        // Losses of what left until now have their answer.
        self.reduced = now;
        self.slowdown.begin(now, self.srtt);
    }

    fn check_ramp(&mut self, now: Time) {
        if self.phase == Phase::Ramp && self.window >= self.ssthresh {
            self.phase = Phase::Avoidance;
            self.slowdown.end(now);
        }
    }

    fn packets(&self, bytes: u64) -> f64 {
        bytes as f64 / self.mss
    }

    /// limit(maxFS).
    fn limit(&self, max_flight: f64) -> f64 {
        let gain = self.gain();
        match self.phase {
            Phase::Start | Phase::Ramp => max_flight + gain * max_flight,
            Phase::Avoidance | Phase::Held => max_flight + gain,
        }
    }

    /// An event is over that found the window at `before`.
    fn bound(&mut self, before: f64) {
        if self.window != before {
            let mut max_flight = self.max_flight;
            self.window = max_flight.bound(before, self.window, |max_flight| self.limit(max_flight));
            self.max_flight = max_flight;
        }
    }

    /// This many bytes are in flight.
    fn flies(&mut self, in_flight: u64) {
        self.max_flight.update(in_flight, self.window);
    }

    /// What an acknowledgement says.
    fn take(&mut self, ack: &Ack<'_>) {
        self.srtt = ack.srtt;
        self.delays.observe(ack);
        if let Some(newest) = ack.packets.last().filter(|_| ack.echo && self.ecn != Ecn::Off) {
            self.reduce(ack.now, newest.sent_at);
            return;
        }
        let Some(queued) = self.delays.queued().filter(|_| ack.bytes > 0) else { return };
        let acked = self.packets(ack.bytes);
        let limited = ack.window_limited && !matches!(ack.phase, RecoveryPhase::Recovery | RecoveryPhase::Cwr);
        match self.phase {
            Phase::Start => {
                let exit = if self.flavour == Flavour::Plus { PLUS_EXIT } else { PLAIN_EXIT };
                if queued > exit * self.target {
                    self.end_start(ack.now);
                } else {
                    self.slow_start(acked, limited);
                }
            }
            Phase::Avoidance => {
                self.avoid(acked, queued, limited);
                if self.flavour == Flavour::Plus && self.slowdown.is_due(ack.now, queued, self.target) {
                    self.begin_slowdown(ack.now);
                }
            }
            Phase::Held if self.slowdown.is_measured(ack.now) => self.phase = Phase::Ramp,
            Phase::Held => {}
            Phase::Ramp => {
                self.slow_start(acked, limited);
                self.check_ramp(ack.now);
            }
        }
    }
}

impl Controller for Ledbat {
    fn on_sent(&mut self, sent: &Sent) -> Stamp {
        self.flies(sent.in_flight);
        Stamp::default()
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.flies(ack.in_flight);
        let before = self.window;
        self.take(ack);
        self.bound(before);
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        self.flies(loss.in_flight);
        let before = self.window;
        if let Some(newest) = loss.packets.iter().map(|packet| packet.sent_at).max() {
            self.reduce(loss.now, newest);
        }
        self.bound(before);
    }

    fn on_timeout(&mut self, timeout: &Timeout<'_>) {
        self.flies(timeout.in_flight);
        let before = self.window;
        if timeout.count == 1 {
            let window = if matches!(self.phase, Phase::Held | Phase::Ramp) { self.ssthresh } else { self.window };
            self.before = Some((self.window, self.ssthresh, self.max_flight.packets()));
            self.ssthresh = (BETA * window).max(LEAST);
            self.reduced = timeout.now;
            self.slowdown.begin(timeout.now, Nanos::ZERO);
        }
        self.phase = Phase::Ramp;
        self.window = (self.packets(timeout.in_flight) + 1.0).min(self.window.max(1.0));
        self.bound(before);
    }

    fn on_spurious(&mut self, now: Time) {
        if let Some((window, ssthresh, max_flight)) = self.before.take() {
            self.max_flight.restore(max_flight);
            self.window = self.window.max(window);
            self.ssthresh = self.ssthresh.max(ssthresh);
            self.check_ramp(now);
        }
    }

    fn on_restart(&mut self, restart: &Restart) {
        // A window that went unused for long may not fit the path any more (RFC 5681 section 4.1).
        if restart.idle > restart.rto {
            let before = self.window;
            self.window = self.window.min(LEAST);
            self.bound(before);
            self.phase = if self.ssthresh.is_finite() { Phase::Ramp } else { Phase::Start };
            self.slowdown.begin(restart.now, Nanos::ZERO);
            self.delays.idle(restart.now);
        }
    }

    fn on_mss(&mut self, _now: Time, mss: u32) {
        let mss = f64::from(mss.max(1));
        let scale = self.mss / mss;
        self.mss = mss;
        self.window = (self.window * scale).max(1.0);
        self.ssthresh *= scale;
        self.max_flight.on_mss(mss);
        self.before = self.before.map(|(window, ssthresh, flight)| (window * scale, ssthresh * scale, flight * scale));
    }

    fn nature(&self) -> Nature {
        Nature { ecn: self.ecn, ..Nature::PLAIN }
    }

    fn permit(&self) -> Permit {
        Permit {
            threshold: if self.ssthresh.is_finite() { (self.ssthresh * self.mss) as u64 } else { u64::MAX },
            outlasts_departures: true,
            ..Permit::up_to((self.window.max(1.0) * self.mss) as u64)
        }
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        report("cwnd_packets", self.window);
        if self.ssthresh.is_finite() {
            report("ssthresh_packets", self.ssthresh);
        }
        report("phase", f64::from(self.phase as u8));
        report("gain", self.gain());
        if let (Some(queued), Some(base)) = (self.delays.queued(), self.delays.base()) {
            report("queued_ms", queued * 1e3);
            report("base_ms", base * 1e3);
        }
    }
}

pub(crate) const TARGET: Param = Param {
    name: "target",
    unit: "ms of delay that it may add",
    kind: Kind::Number { min: 1.0, max: 1e4 },
    default: "100",
    source: "RFC 6817 section 2.5: at most 100",
};

/// `ledbat` in the registry.
pub const ENTRY: Entry = Entry {
    name: "ledbat",
    summary: "LEDBAT: background transport, by the one-way delay",
    source: "RFC 6817",
    statements: crate::statements::LEDBAT,
    home: Home::Udp,
    start: None,
    params: &[
        TARGET,
        Param {
            name: "skew",
            unit: "switch: the base follows clocks that run apart",
            kind: ON_OFF,
            default: "on",
            source: "libutp; our choice, because the one-way delay of two clocks drifts",
        },
        CLASSIC_ECN,
    ],
    needs: &[],
    make: &|params, env| Box::new(Ledbat::new(env, Flavour::Plain, params)),
    receiver: None,
    lower: None,
};

/// `ledbat++` in the registry.
pub const PLUS_ENTRY: Entry = Entry {
    name: "ledbat++",
    summary: "LEDBAT++: background transport, by the round trip, which it measures anew in slowdowns",
    source: "draft-irtf-iccrg-ledbat-plus-plus-06",
    statements: crate::statements::LEDBAT_PLUS,
    home: Home::Tcp,
    start: None,
    params: &[Param { default: "60", source: "draft-irtf-iccrg-ledbat-plus-plus-06 section 4", ..TARGET }, CLASSIC_ECN],
    needs: &[],
    make: &|params, env| Box::new(Ledbat::new(env, Flavour::Plus, params)),
    receiver: None,
    lower: None,
};
