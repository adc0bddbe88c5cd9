//! CUBIC that spares the window when the medium lost the packets and no queue did: `cubic-l1` keeps it, `cubic-l2` takes 5 % off,
//! `cubic-l1g` keeps it or lets it grow.
//!
//! Source: Bhat, Haxhibeqiri, Moerman, Hoebeke, "Adaptive Transport Layer Protocols using In-band Network Telemetry and eBPF":
//! L1 and L2 (section VI-A, table I: the window is kept constant, or 95 % of it are). It leaves fairness to later work (section VII), and
//! a kept window fills the queue: CUBIC beside it, cut by the same losses, has half of what it has beside CUBIC at 5 %.
//! It leaves open what becomes of threshold, curve, timeouts and slow start; ours:
//!
//! | the medium lost packets | `cubic-l1` | `cubic-l2` | `cubic-l1g` |
//! |---|---|---|---|
//! | the window w | w | 0.95 w | w + d, at most the cap |
//! | W_max and the curve | unchanged | W_max = w, a new curve | unchanged |
//! | in slow start | leaves it | leaves it | stays in it |
//! | timeout: threshold | w | 0.95 w | w |
//! | timeout: window | one packet beside the flight | the same | 10 packets, if it had this many |
//!
//! d = max(1, w/4) where the tightest hop has room for d + 4 packets for each of its flows, else nothing. The *cap* is
//! 2 (delivery rate × smallest RTT + room for each flow), of L1G, which gets there by itself, 1.5 × delivery rate × smallest RTT + room for each
//! flow; at least 10 packets; a window above it loses 5 % in a round trip. Whatever
//! room a hop claims, it counts up to what a round trip brought: delivery rate × smoothed RTT. The delivery rate is the largest since the
//! losses before the last: at the end of a recovery, where the next losses are answered, it is small, since a recovery thins out the flight.
//! Growth at the loss is the point of L1G: where every round trip has a loss, the flow is always in recovery, in which no
//! acknowledgement opens a window, and L1 keeps what it had when the losses began.
//!
//! Whatever the verdict, losses are of congestion (and without fresh telemetry all are, so that each is CUBIC, bit by bit):
//! - G1: when the RTT exceeds the smallest one by more than the tightest hop's queue takes to drain when full;
//! - G2: at a second timeout in a row, which makes up for what the first was spared;
//! - G3: once after 128 spared in a row;
//! - G4: when the newest report itself has a queue with next to no room, so that it may have dropped. Without it
//!   a forged verdict leaves a CUBIC flow beside it a tenth of the link;
//! - G5: when the RTT exceeds the smallest one by more than the queues of the newest report explain, as a hop lies or does not report.
//!
//! The cap is in force while losses are spared and not otherwise: beside a flow that fills the queue, the room for each
//! flow is nothing and the RTT is long, and a cap in force at all times would leave the link to the other flow.

use crate::controller::{Ack, Cause, Controller, Ecn, Env, Telemetry};
use crate::cubic::{Cubic, PARAMS, START, Settings, params_with};
use crate::doubt::{UNEXPLAINED, is_unexplained};
use crate::entry::{Entry, Home, Kind, ON_OFF, Param, Params};
use crate::path_report::{PathReport, USUAL_DRAIN};
use crate::path_rtt::PathRtt;
use crate::start_ups::start_up;
use crate::units::{Nanos, Rate, Time};
use crate::window::{Answer, INITIAL_WINDOW, Lapse, MINIMUM_WINDOW, Policy, Signal, Window, WindowController};

/// G3: this many in a row are spared (our choice: with a loss in each round trip of 20 ms the next comes after 2.6 to 5 s, by when
/// CUBIC's curve has passed the maximum of 25 to 150 packets from which it was cut. With 32 it has not, and the window never grows).
const SPARED_IN_A_ROW: u32 = 128;
/// Losses are in a row that come within this many round trips (our choice: an episode takes one or two).
const IN_A_ROW: u64 = 4;
/// L1G grows by this share of the window at a loss (our choice: a quarter in a round trip, half of slow start's half).
const GROWTH: f64 = 0.25;
/// L1G's cap, in what the path holds (our choice: with twice that and twice the room it loses 4 % more than the medium where that takes a fifth,
/// and keeps the queue so long that plain CUBIC beside it is slow).
const GROWN: f64 = 1.5;
/// Packets of room for each flow beyond what is taken (our choice, because the report is a round trip old).
const MARGIN: f64 = 4.0;
/// L1G grows while less of the queue than one in this many stands (our choice: two such steps, of which the second leaves before the first
/// is seen, do not fill it).
const GROWS_BELOW: u64 = 4;
/// What a window above its cap keeps in a round trip (our choice, the paper's factor of L2).
const GLIDE: f64 = 0.95;

/// How losses of the medium are answered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// L1: not at all.
    Keep,
    /// L1G: not at all, or by growth.
    Grow,
    /// L2: by this factor.
    Cut(f64),
}

/// What differs from CUBIC.
#[derive(Clone, Copy, Debug)]
pub struct Sparing {
    /// How losses of the medium are answered.
    pub mode: Mode,
    /// G1 to G5 are in force.
    pub guards: bool,
    /// Least window after a loss of the medium, in packets.
    pub floor: f64,
}

/// CUBIC that spares the window.
#[derive(Clone, Copy, Debug)]
pub struct CubicMedium {
    cubic: Cubic,
    sparing: Sparing,
    mss: u32,
    report: PathReport,
    srtt: Nanos,
    path: PathRtt,
    /// Newest delivery rate that the application did not limit, or the largest that it did.
    rate: Option<Rate>,
    /// The largest since the last losses, and between these and those before.
    rates: [Option<Rate>; 2],
    /// The window limited the flow at its last event.
    limited: bool,
    /// Losses spared in a row.
    spared: u32,
    last_loss: Time,
    /// The round ends when everything below has been delivered.
    round_end: u64,
}

impl CubicMedium {
    /// CUBIC with `settings` for packets of `env.mss` bytes.
    pub fn new(env: &Env, settings: Settings, sparing: Sparing) -> Self {
        Self {
            cubic: Cubic::new(env, settings),
            sparing,
            mss: env.mss,
            report: PathReport::new(0.0),
            srtt: Nanos::ZERO,
            path: PathRtt::default(),
            rate: None,
            rates: [None; 2],
            limited: false,
            spared: 0,
            last_loss: Time::ZERO,
            round_end: 0,
        }
    }

    /// The newest losses are in a row with those before them.
    fn in_a_row(&self, now: Time) -> bool {
        now - self.last_loss <= self.srtt.mul_div(IN_A_ROW, 1)
    }

    /// The losses are to be spared: the report says so, and no guard objects.
    fn spares(&mut self, lapse: &Lapse<'_>) -> bool {
        let Lapse { now, packets, .. } = *lapse;
        if !self.in_a_row(now) {
            self.spared = 0;
        }
        self.last_loss = now;
        if self.report.cause(now, packets) != Cause::Medium {
            return false;
        }
        if !self.sparing.guards {
            return true;
        }
        let drain = self.report.tightest(now).map_or(USUAL_DRAIN, |hop| hop.drain);
        let unexplained =
            self.report.queues(now).is_some_and(|queues| is_unexplained(self.longer(), queues, UNEXPLAINED));
        !self.queues(drain) && !self.report.is_scarce() && !unexplained && self.spared < SPARED_IN_A_ROW
    }

    /// By how much round trips are longer than the path.
    fn longer(&self) -> Nanos {
        self.srtt - self.path.smallest()
    }

    /// Round trips are longer than the path by more than `time`.
    fn queues(&self, time: Nanos) -> bool {
        self.longer() > time
    }

    /// The largest window in packets that spared losses may leave; endless where the flow or the path is not known.
    fn cap(&self, now: Time) -> f64 {
        let min_rtt = self.path.smallest();
        let rate = self.rate.max(self.rates[0]).max(self.rates[1]);
        let (Some(rate), true) = (rate, self.report.is_fresh(now) && min_rtt < Nanos::MAX) else {
            return f64::INFINITY;
        };
        let share = self.report.tightest(now).map_or(0.0, |hop| hop.share);
        let brought = |time| rate.bytes_in(time) as f64 / f64::from(self.mss);
        let room = share.min(brought(self.srtt));
        let cap = match self.sparing.mode {
            Mode::Grow => GROWN * brought(min_rtt) + room,
            Mode::Keep | Mode::Cut(_) => 2.0 * (brought(min_rtt) + room),
        };
        self.cubic.counted(cap).max(INITIAL_WINDOW)
    }

    /// A window above its cap, a round trip later.
    fn glide(&self, window: f64, cap: f64) -> f64 {
        cap.max(self.cubic.counted(GLIDE * window))
    }

    /// Losses have been answered.
    fn begin_span(&mut self) {
        self.rates = [None, self.rates[0]];
    }

    /// What L1G grows by. Reports may be late or wrong, and round trips show the queue that growth has made meanwhile.
    fn growth(&self, now: Time, window: &Window) -> f64 {
        let by = self.cubic.counted(GROWTH * window.cwnd).max(1.0);
        let fits = self
            .report
            .tightest(now)
            .is_some_and(|hop| hop.share >= by + MARGIN && !self.queues(hop.drain.mul_div(1, GROWS_BELOW)));
        if fits && self.limited { by } else { 0.0 }
    }
}

impl Policy for CubicMedium {
    fn observe(&mut self, ack: &Ack<'_>, window: &Window) {
        self.cubic.observe(ack, window);
        self.srtt = ack.srtt;
        self.path.ack(ack, self.mss);
        if ack.bytes > 0 {
            self.limited = ack.window_limited;
        }
        // Linux `tcp_rate_gen`: what the application limited counts where it was more.
        if let Some(sample) = ack.rate
            && (!sample.app_limited || self.rate.is_none_or(|rate| sample.rate() > rate))
        {
            self.rate = Some(sample.rate());
            self.rates[0] = self.rates[0].max(self.rate);
        }
    }

    fn grow(&mut self, ack: &Ack<'_>, window: &mut Window) {
        let capped = self.spared > 0 && !matches!(self.sparing.mode, Mode::Cut(_)) && self.in_a_row(ack.now);
        let cap = if capped { self.cap(ack.now) } else { f64::INFINITY };
        let before = window.cwnd;
        if before <= cap {
            self.cubic.grow(ack, window);
            window.cwnd = window.cwnd.min(cap);
        } else if ack.una >= self.round_end {
            self.round_end = ack.next;
            window.cwnd = self.glide(before, cap);
            window.ssthresh = window.ssthresh.min(window.cwnd);
        }
    }

    fn limit(&self, window: &Window, max_flight: f64) -> f64 {
        let grows = self.sparing.mode == Mode::Grow && self.spared > 0;
        let at_a_loss = if grows { (GROWTH * max_flight).max(1.0) } else { 0.0 };
        self.cubic.limit(window, max_flight + at_a_loss)
    }

    fn hold(&mut self, span: Nanos) {
        self.cubic.hold(span);
    }

    fn on_telemetry(&mut self, telemetry: &Telemetry<'_>) {
        self.report.take(telemetry);
        self.path.report(telemetry);
    }

    fn answer(&mut self, lapse: &Lapse<'_>, _window: &Window) -> Answer {
        if !self.spares(lapse) {
            self.spared = 0;
            return Answer::Reduce;
        }
        self.spared = self.spared.saturating_add(1);
        match (self.sparing.mode, lapse.signal) {
            (Mode::Grow, Signal::Loss) => Answer::Stay,
            _ => Answer::Spare,
        }
    }

    fn spare(&mut self, signal: Signal, now: Time, window: &Window) -> f64 {
        let (w, cap) = (window.cwnd, self.cap(now));
        let kept = match self.sparing.mode {
            Mode::Cut(factor) => self.cubic.cut(window, factor),
            Mode::Keep | Mode::Grow => {
                self.cubic.keep();
                if w > cap {
                    self.glide(w, cap)
                } else if self.sparing.mode == Mode::Grow && signal == Signal::Loss {
                    cap.min(w + self.growth(now, window))
                } else {
                    w
                }
            }
        };
        self.begin_span();
        kept.max(self.sparing.floor)
    }

    fn loss_window(&self) -> f64 {
        let floor = if self.sparing.floor > MINIMUM_WINDOW { self.sparing.floor } else { 1.0 };
        if self.sparing.mode == Mode::Grow { floor.max(INITIAL_WINDOW) } else { floor }
    }

    fn reduce(&mut self, signal: Signal, now: Time, window: &Window, in_flight: f64) -> f64 {
        self.begin_span();
        self.cubic.reduce(signal, now, window, in_flight)
    }

    fn on_start_end(&mut self, now: Time, window: &Window, product: Option<f64>) {
        self.cubic.on_start_end(now, window, product);
    }

    fn on_timeout(&mut self) {
        self.cubic.on_timeout();
    }

    fn undo(&mut self) {
        self.cubic.undo();
    }

    fn on_mss(&mut self, mss: u32, scale: f64) {
        self.mss = mss;
        self.cubic.on_mss(mss, scale);
    }

    fn on_restart(&mut self, now: Time, idle: Nanos) {
        self.cubic.on_restart(now, idle);
    }

    fn ecn(&self) -> Ecn {
        self.cubic.ecn()
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        self.cubic.describe(report);
        report("spared_in_a_row", f64::from(self.spared));
    }
}

const GUARDS: Param = Param {
    name: "guards",
    unit: "switch",
    kind: ON_OFF,
    default: "on",
    source: "our choice: G1 to G5, without which forged reports end congestion control",
};

const FLOOR: Param = Param {
    name: "floor",
    unit: "packets, at least, after a loss of the medium",
    kind: Kind::Number { min: 2.0, max: 100.0 },
    default: "2",
    source: "RFC 5681 section 3.1; the CCP's CUBIC has 10",
};

const BETA_MEDIUM: Param = Param {
    name: "beta_medium",
    unit: "share kept after a loss of the medium",
    kind: Kind::Number { min: 0.1, max: 1.0 },
    default: "0.95",
    source: "Bhat et al.: L2",
};

const SLOPE: Param = Param {
    name: "slope",
    unit: "which beta Reno's slope is derived from",
    kind: Kind::Choice(&["kept", "derived"]),
    default: "kept",
    source: "our choice: kept is that of beta, as in Linux; with derived L2 gains nothing where Reno's window is the larger",
};

static L1_PARAMS: [Param; PARAMS.len() + 2] = params_with(&[GUARDS, FLOOR]);
static L2_PARAMS: [Param; PARAMS.len() + 4] = params_with(&[GUARDS, FLOOR, BETA_MEDIUM, SLOPE]);

fn build(mode: Mode, settings: Settings, params: &Params, env: &Env) -> Box<dyn Controller> {
    let sparing = Sparing { mode, guards: params.on("guards"), floor: params.number("floor") };
    Box::new(WindowController::new(env, start_up(params, env), CubicMedium::new(env, settings, sparing)))
}

/// `cubic-l1` in the registry.
pub const L1_ENTRY: Entry = Entry {
    name: "cubic-l1",
    summary: "CUBIC that keeps its window when telemetry says that the medium lost the packets",
    source: "Bhat et al., Adaptive Transport Layer Protocols using In-band Network Telemetry and eBPF",
    statements: crate::statements::CUBIC_MEDIUM,
    home: Home::Tcp,
    start: Some(START),
    params: &L1_PARAMS,
    needs: &[],
    make: &|params, env| build(Mode::Keep, Settings::of(params), params, env),
    receiver: None,
    lower: None,
};

/// `cubic-l1g` in the registry.
pub const L1G_ENTRY: Entry = Entry {
    name: "cubic-l1g",
    summary: "as cubic-l1, and grows at such a loss by a quarter where the hops have room",
    source: "ours, after Bhat et al.",
    make: &|params, env| build(Mode::Grow, Settings::of(params), params, env),
    statements: crate::statements::CUBIC_MEDIUM,
    home: Home::Tcp,
    start: Some(START),
    params: &L1_PARAMS,
    needs: &[],
    receiver: None,
    lower: None,
};

/// `cubic-l2` in the registry.
pub const L2_ENTRY: Entry = Entry {
    name: "cubic-l2",
    summary: "CUBIC that takes 5 % off its window when telemetry says that the medium lost the packets",
    source: "Bhat et al., Adaptive Transport Layer Protocols using In-band Network Telemetry and eBPF",
    statements: crate::statements::CUBIC_MEDIUM,
    home: Home::Tcp,
    start: Some(START),
    params: &L2_PARAMS,
    needs: &[],
    make: &|params, env| {
        let factor = params.number("beta_medium");
        let mut settings = Settings::of(params);
        if params.word("slope") == "derived" {
            settings.slope_beta = factor;
        }
        build(Mode::Cut(factor), settings, params, env)
    },
    receiver: None,
    lower: None,
};

#[cfg(test)]
mod tests;
