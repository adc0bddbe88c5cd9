//! HPCC on reports of hops: the window that leaves the fullest link of the path at a target share of its capacity; CUBIC without reports.
//!
//! Source: Li et al., "HPCC: High Precision Congestion Control", SIGCOMM 2019, and its authors' simulator. What differs, because paths here
//! are not those of a data centre:
//!
//! - Reports carry no count of bytes that a link has sent. Its rate is its capacity while packets wait, what the hop says arrives less what
//!   the queue grew by, or else the flow's own rate for each of the flows (`link.rs`).
//! - The round trip without queues is measured, not configured, unless `base` says so.
//! - It starts as slow start until the first reports, and at most doubles in a round trip until a link has been as full as wanted: at the
//!   speed of its interface, as in a data centre, it would flood a slower link far away.
//! - Losses that are not of the medium take 30 % off once in a round trip, as marks do; a timeout leaves one packet.
//! - Where round trips are longer than the reported queues explain it is CUBIC for a while, as [`crate::hops`] is.

mod link;

use crate::controller::{
    Ack, Cause, Controller, Ecn, Env, Loss, Lost, Nature, Pacing, Permit, Recovery, Restart, Sent, Stamp, Telemetry,
    Timeout,
};
use crate::cubic::{Cubic, PARAMS as CUBIC_PARAMS, START, Settings, params_with};
use crate::doubt::{Doubt, Round, UNEXPLAINED};
use crate::entry::{Entry, Home, Kind, Param, Params};
use crate::max_flight::MaxFlight;
use crate::path_report::{OVERHEAD, PathReport};
use crate::path_rtt::PathRtt;
use crate::start_ups::start_up;
use crate::units::{Nanos, Rate, Time};
use crate::window::{INITIAL_WINDOW, MINIMUM_WINDOW, WindowController};

use link::Links;

/// What a loss or a mark leaves of the window (our choice, as CUBIC does: RFC 9438 section 4.6).
const BETA: f64 = 0.7;
/// Packets beside the window, so that pacing decides (our choice: an acknowledgement of two is on its way).
const SPARE_PACKETS: f64 = 2.0;
/// A flow that sends this share of what it may is held back by nothing else (our choice, as [`crate::hops`]).
const USED: f64 = 0.8;

/// HPCC's parameters.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// Share of the fullest link that is wanted.
    pub eta: f64,
    /// Additive steps before one that follows the utilisation.
    pub max_stage: f64,
    /// Flows among which the additive step is divided; 0: as many as the hops report.
    pub flows: f64,
    /// The window grows to this many times the reference in a round trip at most.
    pub ramp: f64,
    /// Round trip without queues; zero: measured.
    pub base: Nanos,
}

/// The controller.
pub struct Hpcc {
    cubic: WindowController<Cubic>,
    tuning: Tuning,
    mss: u32,
    report: PathReport,
    links: Links,
    fresh_until: Time,
    /// The window is HPCC's and not CUBIC's.
    steering: bool,
    /// No link has been as full as wanted yet.
    starting: bool,
    /// Smoothed utilisation of the fullest link, and the newest.
    utilisation: f64,
    newest: f64,
    /// Window and reference window in packets.
    window: f64,
    reference: f64,
    max_flight: MaxFlight,
    stage: f64,
    /// What was sent beyond this position was sent with the present reference; by the time, where a report names no packet.
    updated: u64,
    updated_at: Time,
    /// The next new byte.
    next: u64,
    srtt: Nanos,
    path: PathRtt,
    limited: bool,
    round: Round,
    doubt: Doubt,
}

impl Hpcc {
    /// A flow of packets of `env.mss` bytes, which is `cubic` without reports.
    pub fn new(env: &Env, cubic: WindowController<Cubic>, tuning: Tuning) -> Self {
        Self {
            cubic,
            tuning,
            mss: env.mss,
            report: PathReport::new(0.0),
            links: Links::default(),
            fresh_until: Time::ZERO,
            steering: false,
            starting: true,
            utilisation: 1.0,
            newest: 0.0,
            window: 0.0,
            reference: 0.0,
            max_flight: MaxFlight::new(INITIAL_WINDOW, f64::from(env.mss)),
            stage: 0.0,
            updated: 0,
            updated_at: Time::ZERO,
            next: 0,
            srtt: Nanos::ZERO,
            path: PathRtt::default(),
            limited: false,
            round: Round::default(),
            doubt: Doubt::default(),
        }
    }

    /// T of the paper: the round trip without queues.
    fn base(&self) -> Nanos {
        if self.tuning.base > Nanos::ZERO { self.tuning.base } else { self.path.smallest() }
    }

    fn packets(&self, bytes: u64) -> f64 {
        bytes as f64 / f64::from(self.mss)
    }

    /// Whether the reports say what to do at `now`. HPCC begins at CUBIC's window, and CUBIC goes on from HPCC's.
    fn steers(&mut self, now: Time) -> bool {
        let steers = now < self.fresh_until && self.doubt.is_over(now);
        if steers && !self.steering {
            self.window = self.cubic.state().cwnd;
            self.max_flight = self.cubic.max_flight();
            (self.reference, self.stage) = (self.window, 0.0);
            self.utilisation = self.tuning.eta;
            self.restart_reference(now);
        } else if !steers && self.steering {
            self.cubic.go_on(self.window.max(MINIMUM_WINDOW), self.max_flight);
            self.cubic.policy_mut().begin_at(self.window.max(MINIMUM_WINDOW));
        }
        self.steering = steers;
        steers
    }

    fn restart_reference(&mut self, now: Time) {
        (self.updated, self.updated_at) = (self.next, now);
    }

    /// Sets the window for the utilisation at present: rules 3 and 4 of the paper's algorithm 1.
    fn steer(&mut self, telemetry: &Telemetry<'_>, base: Nanos) {
        let flows = if self.tuning.flows > 0.0 { self.tuning.flows } else { self.links.flows() };
        let bytes = self.links.slowest().bytes_in(base) as f64;
        let full = bytes / (f64::from(self.mss) + OVERHEAD);
        let step = full * (1.0 - self.tuning.eta) / flows;
        let wanted = self.utilisation / self.tuning.eta;
        self.starting &= wanted < 1.0;
        let follows = wanted >= 1.0 || self.starting || self.stage >= self.tuning.max_stage;
        let to = if follows { self.reference / wanted.max(f64::MIN_POSITIVE) + step } else { self.reference + step };
        let to = to.min(self.tuning.ramp * self.reference).max(MINIMUM_WINDOW);
        let to = if self.limited { to } else { to.min(self.window) };
        let ramp = self.tuning.ramp;
        self.window = self.max_flight.bound(self.window, to, |max_flight| ramp * max_flight + step);
        let anew = match telemetry.packet {
            Some(packet) => packet.seq >= self.updated,
            None => telemetry.now >= self.updated_at + self.srtt,
        };
        if anew {
            self.reference = self.window;
            self.stage = if follows { 0.0 } else { self.stage + 1.0 };
            self.restart_reference(telemetry.now);
        }
    }

    /// This many bytes are in flight.
    fn flies(&mut self, in_flight: u64) {
        self.max_flight.update(in_flight, self.window);
    }

    /// Losses and marks that are not the medium's.
    fn reduce(&mut self) {
        let to = (self.window * BETA).max(MINIMUM_WINDOW);
        self.window = self.max_flight.bound(self.window, to, |_| 0.0);
        self.reference = (self.reference * BETA).max(MINIMUM_WINDOW);
        self.starting = false;
    }

    fn lose(&mut self, now: Time, packets: &[Lost]) {
        if self.report.cause(now, packets) != Cause::Medium {
            self.reduce();
        }
    }

    /// Measures.
    fn observe(&mut self, ack: &Ack<'_>) {
        self.srtt = ack.srtt;
        self.next = self.next.max(ack.next);
        if self.path.ack(ack, self.mss) {
            self.doubt = Doubt::default();
        }
        self.round.take(ack);
        if let Some(sample) = ack.rate {
            // Links carry headers too.
            self.links.deliver(sample.rate().mul_f64(1.0 + OVERHEAD / f64::from(self.mss)));
        }
        if !self.round.is_over(ack) {
            return;
        }
        let used = self.packets(self.round.arrived + self.round.lost) + 1.0;
        self.limited = ack.window_limited || used >= USED * self.window;
        let judged = self.steering && self.doubt.is_over(ack.now);
        self.doubt.end_round(ack.now, &self.round, self.path.smallest(), UNEXPLAINED, judged);
        self.round = self.round.next(ack);
    }
}

impl Controller for Hpcc {
    fn on_sent(&mut self, sent: &Sent) -> Stamp {
        self.next = self.next.max(sent.seq + u64::from(sent.bytes));
        if !self.steering {
            return self.cubic.on_sent(sent);
        }
        self.flies(sent.in_flight);
        Stamp::default()
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.observe(ack);
        if self.steers(ack.now) {
            self.cubic.watch(ack);
            self.flies(ack.in_flight);
            if ack.echo && self.nature().ecn != Ecn::Off {
                self.reduce();
            }
        } else {
            self.cubic.on_ack(ack);
        }
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        self.round.lost += loss.bytes;
        if !self.steers(loss.now) {
            self.cubic.on_loss(loss);
        } else if loss.new_episode {
            self.lose(loss.now, loss.packets);
        }
    }

    fn on_timeout(&mut self, timeout: &Timeout<'_>) {
        if timeout.count > 1 {
            // The path may be gone: reports count again from the next one on.
            self.fresh_until = timeout.now;
        }
        if self.steers(timeout.now) {
            self.flies(timeout.in_flight);
            self.window = self.max_flight.bound(self.window, 1.0, |_| 0.0);
            (self.reference, self.stage) = (1.0, 0.0);
            self.starting = false;
        } else {
            self.cubic.on_timeout(timeout);
        }
    }

    fn on_spurious(&mut self, now: Time) {
        if !self.steers(now) {
            self.cubic.on_spurious(now);
        }
    }

    fn on_telemetry(&mut self, telemetry: &Telemetry<'_>) {
        let now = telemetry.now;
        self.report.take(telemetry);
        self.path.report(telemetry);
        self.cubic.on_telemetry(telemetry);
        let base = self.base();
        if self.srtt == Nanos::ZERO || base == Nanos::MAX || base == Nanos::ZERO {
            return;
        }
        let Some((newest, span)) = self.links.take(telemetry, base) else { return };
        self.newest = newest;
        self.round.report(self.links.delay());
        self.fresh_until = now + telemetry.fresh_for;
        if self.steers(now) {
            let weight = span.min(base).as_secs_f64() / base.as_secs_f64();
            self.utilisation += weight * (newest - self.utilisation);
            self.steer(telemetry, base);
        }
    }

    fn on_restart(&mut self, restart: &Restart) {
        self.steers(restart.now);
        self.cubic.on_restart(restart);
    }

    fn on_mss(&mut self, now: Time, mss: u32) {
        let mss = mss.max(1);
        let scale = f64::from(self.mss) / f64::from(mss);
        (self.window, self.reference) = (self.window * scale, self.reference * scale);
        self.max_flight.on_mss(f64::from(mss));
        self.mss = mss;
        self.cubic.on_mss(now, mss);
    }

    fn on_tick(&mut self, now: Time) {
        if !self.steers(now) && self.cubic.next_tick() <= now {
            self.cubic.on_tick(now);
        }
    }

    fn nature(&self) -> Nature {
        self.cubic.nature()
    }

    fn permit(&self) -> Permit {
        let cubic = self.cubic.permit();
        if !self.steering {
            return cubic;
        }
        let bytes = self.window.max(1.0) * f64::from(self.mss);
        let rate = Rate::from_bytes_in(bytes as u64, self.base()).max(Rate::from_bytes_per_sec(1));
        Permit {
            window: (bytes + SPARE_PACKETS * f64::from(self.mss)) as u64,
            pacing: Pacing::Rate(rate),
            next_tick: self.fresh_until,
            recovery: Recovery::Controller,
            outlasts_departures: true,
            ..cubic
        }
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        self.cubic.describe(report);
        report("steering", f64::from(u8::from(self.steering)));
        if self.steering {
            report("window_packets", self.window);
            report("reference_packets", self.reference);
            report("utilisation", self.utilisation);
            report("utilisation_newest", self.newest);
            report("stage", self.stage);
        }
    }
}

fn make(params: &Params, env: &Env) -> Box<dyn Controller> {
    let tuning = Tuning {
        eta: params.number("eta"),
        max_stage: params.number("max_stage"),
        flows: params.number("n"),
        ramp: params.number("ramp"),
        base: Nanos::from_millis_f64(params.number("base")),
    };
    let cubic = Cubic::new(env, Settings::of(params));
    Box::new(Hpcc::new(env, WindowController::new(env, start_up(params, env), cubic), tuning))
}

const PAPER: &str = "HPCC section 3.3";

const fn number(
    name: &'static str,
    unit: &'static str,
    bounds: (f64, f64),
    default: &'static str,
    source: &'static str,
) -> Param {
    Param { name, unit, kind: Kind::Number { min: bounds.0, max: bounds.1 }, default, source }
}

const OWN: [Param; 5] = [
    number("eta", "of the fullest link's capacity", (0.5, 1.0), "0.95", PAPER),
    number("max_stage", "additive steps", (0.0, 100.0), "5", PAPER),
    number("n", "flows expected; 0: those that the hops report", (0.0, 1e6), "16", "our choice"),
    number(
        "ramp",
        "times the reference in a round trip at most",
        (1.0, 100.0),
        "2",
        "our choice: slow start doubles (RFC 5681)",
    ),
    number("base", "ms of the round trip without queues; 0: measured", (0.0, 1e5), "0", "our choice"),
];

static PARAMS: [Param; CUBIC_PARAMS.len() + OWN.len()] = params_with(&OWN);

/// `hpcc` in the registry.
pub const ENTRY: Entry = Entry {
    name: "hpcc",
    summary: "HPCC: keeps the fullest link at a share of its capacity, as telemetry reports it; CUBIC without",
    source: "Li et al., SIGCOMM 2019",
    statements: crate::statements::HPCC,
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
