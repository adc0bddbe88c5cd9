//! CUBIC (RFC 9438): after a reduction the window follows a cubic curve of *time* back to where it was, flat there,
//! then ever steeper; never slower than Reno would be.
//!
//! | here | RFC 9438 |
//! |---|---|
//! | `w_max` | W_max, after fast convergence |
//! | `k` | K, seconds from the start of the epoch to the plateau |
//! | `origin` | the plateau: W_max, or the window where that is already larger |
//! | `w_est` | W_est, the window Reno would have |
//! | `cwnd_prior` | cwnd_prior, the window before the last reduction |
//!
//! What differs:
//! - The reduction takes the window and not the flight (section 4.6 allows it, since the window grows only when it
//!   limits the flow; Linux does so): a flight that recovery has thinned out must not hide the window.
//! - Until the first loss the window grows by at least 5 % a round trip, as in Linux (`cnt <= 20` while there is no
//!   `last_max_cwnd`); `opening=0` is the RFC's.
//! - The curve is read one *smallest* RTT ahead (Linux `bictcp_update`, `delay_min`), not one smoothed RTT (section 4.2): where
//!   the queue holds seconds, the two are far apart.
//! - Every RTT may be the smallest; Linux leaves out those of the first second of an epoch (`cubictcp_acked`), which recovery may have
//!   thinned out, so that its smallest can be larger.
//! - A timeout clears everything, within a recovery too (Linux `bictcp_state`).
//! - The window is a real number and follows the curve at each acknowledgement; Linux counts whole packets and reads
//!   the curve at most once in 1/32 s while the window stands still: `packets=whole`, for comparisons with the kernel.

use crate::controller::{Ack, Controller, Ecn, Env};
use crate::entry::{CLASSIC_ECN, Entry, Home, Kind, ON_OFF, Param, Params, Start, classic_ecn};
use crate::start_ups::{any_start_up, start_up};
use crate::units::{Nanos, Time};
use crate::window::{Policy, Signal, Window, WindowController};

mod whole;

use whole::{Whole, floor};

/// The window may grow by half in a round trip, no more (RFC 9438 section 4.2).
const TARGET_LIMIT: f64 = 1.5;

/// CUBIC's parameters.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// C in packets/s³: how steep the curve is.
    pub c: f64,
    /// The factor of a reduction.
    pub beta: f64,
    /// Give way to newcomers: aim below the last maximum when it was below the one before (section 4.7).
    pub fast_convergence: bool,
    /// Never slower than Reno (section 4.3).
    pub reno_friendly: bool,
    /// The factor of a reduction from which Reno's slope is derived (section 4.3); `beta` but where only some losses are
    /// answered by it.
    pub slope_beta: f64,
    /// Least growth in a round trip until the first loss, as a share of the window.
    pub opening: f64,
    /// Windows are of whole packets, and grow by the counts of Linux.
    pub whole: bool,
    /// Use of ECN.
    pub ecn: Ecn,
}

impl Default for Settings {
    /// RFC 9438 sections 4.1, 4.6 and 4.7, and Linux's opening.
    fn default() -> Self {
        Self {
            c: 0.4,
            beta: 0.7,
            fast_convergence: true,
            reno_friendly: true,
            slope_beta: 0.7,
            opening: 0.05,
            whole: false,
            ecn: Ecn::Off,
        }
    }
}

/// CUBIC's growth and reduction.
#[derive(Clone, Copy, Debug)]
pub struct Cubic {
    settings: Settings,
    mss: u32,
    curve: Curve,
    /// The curve before the last reduction, for undo.
    before: Curve,
    /// Smallest RTT since the start or the last timeout (Linux `delay_min`).
    min_rtt: Nanos,
    /// When the last acknowledgement came.
    last_ack: Time,
    whole: Whole,
}

/// What a reduction changes.
#[derive(Clone, Copy, Debug, Default)]
struct Curve {
    /// Zero before the first loss and after a timeout.
    w_max: f64,
    cwnd_prior: f64,
    epoch: Option<Epoch>,
}

/// One stage of congestion avoidance.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Time,
    k: f64,
    origin: f64,
    w_est: f64,
}

impl Epoch {
    /// Section 4.2, equations 1 and 2.
    fn new(now: Time, cwnd: f64, w_max: f64, c: f64) -> Self {
        let k = libm::cbrt((w_max - cwnd).max(0.0) / c);
        Self { start: now, k, origin: w_max.max(cwnd), w_est: cwnd }
    }

    /// W_cubic(t), `t` in seconds since the start.
    fn at(&self, t: f64, c: f64) -> f64 {
        let from_plateau = t - self.k;
        self.origin + c * from_plateau * from_plateau * from_plateau
    }
}

impl Cubic {
    /// CUBIC for packets of `env.mss` bytes.
    pub fn new(env: &Env, settings: Settings) -> Self {
        let (curve, before) = (Curve::default(), Curve::default());
        Self {
            settings,
            mss: env.mss,
            curve,
            before,
            min_rtt: Nanos::MAX,
            last_ack: Time::ZERO,
            whole: Whole::default(),
        }
    }

    /// Reno's growth that gives, with this beta, the throughput of Reno (section 4.3, equation 4).
    fn alpha(&self, w_est: f64) -> f64 {
        let beta = self.settings.slope_beta;
        if w_est >= self.curve.cwnd_prior { 1.0 } else { 3.0 * (1.0 - beta) / (1.0 + beta) }
    }

    /// How far ahead the curve is read, by default `unknown`.
    fn ahead(&self, unknown: Nanos) -> Nanos {
        if self.min_rtt < Nanos::MAX { self.min_rtt } else { unknown }
    }

    /// As windows are counted.
    pub(crate) fn counted(&self, packets: f64) -> f64 {
        if self.settings.whole { floor(packets) } else { packets }
    }

    /// Begins at a plateau of `cwnd` packets.
    pub(crate) fn begin_at(&mut self, cwnd: f64) {
        self.curve = Curve { w_max: cwnd, cwnd_prior: cwnd, epoch: None };
        self.before = self.curve;
    }

    /// Losses are not answered: there is nothing to undo.
    pub(crate) fn keep(&mut self) {
        self.before = self.curve;
    }

    /// Losses are answered by `factor`, and not taken for a sign of newcomers: gives the new threshold in packets, parts of them
    /// included. Reno's slope stays that of `slope_beta` above the window of now, as in Linux.
    pub(crate) fn cut(&mut self, window: &Window, factor: f64) -> f64 {
        self.before = self.curve;
        let cwnd = window.cwnd + self.whole.take_part();
        self.give_way(&Window { cwnd, ..*window }, factor)
    }

    /// Time in which the window could not grow does not count (section 4.2).
    fn pause(&mut self, span: Nanos) {
        if let Some(epoch) = &mut self.curve.epoch {
            epoch.start += span;
        }
    }
}

impl Policy for Cubic {
    fn observe(&mut self, ack: &Ack<'_>, _window: &Window) {
        if !ack.window_limited {
            self.pause(ack.now - self.last_ack);
        }
        self.last_ack = ack.now;
        self.min_rtt = self.min_rtt.min(ack.rtt.unwrap_or(Nanos::MAX));
    }

    fn grow(&mut self, ack: &Ack<'_>, window: &mut Window) {
        let Settings { c, opening, reno_friendly, .. } = self.settings;
        let cwnd = window.cwnd;
        let acked = ack.packets_of(self.mss);
        if self.settings.whole {
            let (ahead, acked) = (self.ahead(Nanos::ZERO), acked.round() as u32);
            window.cwnd += self.whole.grow(ack.now, ahead, acked, cwnd, &mut self.curve, &self.settings);
            return;
        }
        let w_max = self.curve.w_max;
        let mut epoch = self.curve.epoch.unwrap_or_else(|| Epoch::new(ack.now, cwnd, w_max, c));
        epoch.w_est += self.alpha(epoch.w_est) * acked / cwnd;
        self.curve.epoch = Some(epoch);

        let t = (ack.now - epoch.start).as_secs_f64();
        let grown = if reno_friendly && epoch.at(t, c) < epoch.w_est {
            epoch.w_est
        } else {
            // Repairs give no RTT: after a timeout there may be none yet.
            let ahead = self.ahead(ack.min_rtt);
            let target = epoch.at(t + ahead.as_secs_f64(), c).clamp(cwnd, TARGET_LIMIT * cwnd);
            cwnd + acked * (target - cwnd) / cwnd
        };
        let least = if w_max > 0.0 { 0.0 } else { opening };
        window.cwnd = grown.max(cwnd + acked * least);
    }

    /// The curve's time stands still while the window does not limit the flow.
    fn limit(&self, window: &Window, max_flight: f64) -> f64 {
        let Settings { c, opening, .. } = self.settings;
        let w_max = self.curve.w_max;
        let least = if w_max > 0.0 { 0.0 } else { opening };
        let least = (max_flight + 1.0).max((1.0 + least) * max_flight);
        if window.cwnd < least {
            return least;
        }
        let epoch = self.curve.epoch.unwrap_or_else(|| Epoch::new(self.last_ack, window.cwnd, w_max, c));
        let t = self.last_ack.since(epoch.start) + self.ahead(Nanos::ZERO);
        epoch.at(t.as_secs_f64(), c).clamp(max_flight, TARGET_LIMIT * max_flight).max(least)
    }

    fn hold(&mut self, span: Nanos) {
        self.pause(span);
    }

    /// A new curve up to the window of now, which is not taken for a sign of newcomers.
    fn give_way(&mut self, window: &Window, share: f64) -> f64 {
        self.curve = Curve { w_max: window.cwnd, cwnd_prior: f64::INFINITY, epoch: None };
        share * window.cwnd
    }

    fn reduce(&mut self, _signal: Signal, _now: Time, window: &Window, _in_flight: f64) -> f64 {
        let Settings { beta, fast_convergence, .. } = self.settings;
        let cwnd = self.counted(window.cwnd);
        self.before = self.curve;
        self.whole.take_part();
        let shrinking = fast_convergence && cwnd < self.curve.w_max;
        let w_max = if shrinking { self.counted(cwnd * (1.0 + beta) / 2.0) } else { cwnd };
        self.curve = Curve { w_max, cwnd_prior: cwnd, epoch: None };
        self.counted(beta * cwnd)
    }

    /// The window before the reduction overshot what the path holds: the plateau lies at that.
    fn on_start_end(&mut self, _now: Time, _window: &Window, product: Option<f64>) {
        if let Some(product) = product {
            self.curve = Curve { w_max: product, cwnd_prior: product, epoch: None };
        }
    }

    fn on_timeout(&mut self) {
        self.curve.w_max = 0.0;
        self.curve.epoch = None;
        self.min_rtt = Nanos::MAX;
        self.whole = Whole::default();
    }

    fn undo(&mut self) {
        self.curve = self.before;
    }

    fn on_restart(&mut self, now: Time, idle: Nanos) {
        self.pause(idle);
        self.last_ack = now;
    }

    /// The stage begins anew: its curve was drawn in packets of the old size.
    fn on_mss(&mut self, mss: u32, scale: f64) {
        self.mss = mss;
        for curve in [&mut self.curve, &mut self.before] {
            curve.w_max *= scale;
            curve.cwnd_prior *= scale;
            curve.epoch = None;
        }
    }

    fn ecn(&self) -> Ecn {
        self.settings.ecn
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        report("w_max_packets", self.curve.w_max);
        if let Some(epoch) = self.curve.epoch {
            report("k_s", epoch.k);
            report("w_est_packets", epoch.w_est);
        }
    }
}

impl Settings {
    /// Those that the parameters of [`ENTRY`] name.
    pub(crate) fn of(params: &Params) -> Self {
        Self {
            c: params.number("c"),
            beta: params.number("beta"),
            fast_convergence: params.on("fast_convergence"),
            reno_friendly: params.on("reno_friendly"),
            slope_beta: params.number("beta"),
            opening: params.number("opening") / 100.0,
            whole: params.word("packets") == "whole",
            ecn: classic_ecn(params),
        }
    }
}

fn make(params: &Params, env: &Env) -> Box<dyn Controller> {
    Box::new(WindowController::new(env, start_up(params, env), Cubic::new(env, Settings::of(params))))
}

/// The start-ups of CUBIC.
pub(crate) const START: Start = any_start_up("hystart", "Linux tcp_cubic.c: hystart=1");

/// The parameters of CUBIC, which what is built on it has too.
pub(crate) const PARAMS: [Param; 7] = [
    Param {
        name: "c",
        unit: "packets/s^3",
        kind: Kind::Number { min: 0.001, max: 100.0 },
        default: "0.4",
        source: "RFC 9438 section 5.1",
    },
    Param {
        name: "beta",
        unit: "share kept on a reduction",
        kind: Kind::Number { min: 0.1, max: 0.95 },
        default: "0.7",
        source: "RFC 9438 section 4.6",
    },
    Param { name: "fast_convergence", unit: "switch", kind: ON_OFF, default: "on", source: "RFC 9438 section 4.7" },
    Param { name: "reno_friendly", unit: "switch", kind: ON_OFF, default: "on", source: "RFC 9438 section 4.3" },
    Param {
        name: "opening",
        unit: "% a round trip, at least, until the first loss",
        kind: Kind::Number { min: 0.0, max: 50.0 },
        default: "5",
        source: "Linux tcp_cubic.c: cnt <= 20; RFC 9438 has 0",
    },
    Param {
        name: "packets",
        unit: "how windows are counted",
        kind: Kind::Choice(&["parts", "whole"]),
        default: "parts",
        source: "RFC 9438 has parts; whole as Linux tcp_cubic.c, for comparisons with the kernel",
    },
    CLASSIC_ECN,
];

/// CUBIC's parameters and `more`, `N` in all.
pub(crate) const fn params_with<const N: usize>(more: &[Param]) -> [Param; N] {
    let mut all = [PARAMS[0]; N];
    let mut index = 0;
    while index < N {
        all[index] = if index < PARAMS.len() { PARAMS[index] } else { more[index - PARAMS.len()] };
        index += 1;
    }
    all
}

/// `cubic` in the registry.
pub const ENTRY: Entry = Entry {
    name: "cubic",
    summary: "CUBIC: back to the last maximum along a cubic curve of time; the default of Linux",
    source: "RFC 9438, Linux tcp_cubic.c",
    statements: crate::statements::CUBIC,
    home: Home::Tcp,
    start: Some(START),
    params: &PARAMS,
    needs: &[],
    make: &make,
    receiver: None,
    lower: None,
};

#[cfg(test)]
mod tests;
