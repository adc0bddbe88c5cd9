//! A start-up that grows by the room that the hops report, the paper's equation (1): for each packet acknowledged the window
//! grows by *available queue capacity × increment / (arrival rate × flow count)* packets, and not by one.
//!
//! Source: Bhat, Haxhibeqiri, Moerman, Hoebeke, "Adaptive Transport Layer Protocols using In-band Network Telemetry and eBPF",
//! equation (1). The paper prints no units, and not which hop; what is ours:
//!
//! - Room in packets, the arrival rate in packets a round trip (of the flow's smoothed RTT): the quotient is then packets for a
//!   packet, and one flow alone with `inc` 1 uses the room in exactly one round trip.
//! - The hop is the one with the least room for each packet and flow ([`crate::path_report`]).
//! - `reserve` of each queue is not counted as room: a report is a round trip old.
//! - The quotient is one at most, so that `inc` 1 never exceeds slow start; without it an idle hop would ask for an endless window.
//! - A round grows by the flow's share of the room at its start, `inc` times at most; once only where the link is half busy,
//!   since all of a round's acknowledgements see the same room.
//! - A hop without room whose queue would take longer than a round trip does is not believed: it is as without a report then.
//! - Without a fresh report it is slow start; one that had filled the room before ends instead, where it is. Losses forget that.
//! - The start-up ends where a whole round trip had no room: what more than one flow needs then is fairness, which equal growth gives and
//!   growth by shares of the window does not.
//! - After it the window stands still while there is no room (`hold`), and CUBIC's curve with it. In each round trip without room it gives
//!   way by 5 %, up to 15 %: without losses no flow would otherwise ever leave room to one that came later (Chiu and Jain 1989).

use crate::controller::{Ack, Env, Telemetry};
use crate::doubt::is_impossible;
use crate::entry::{Kind, ON_OFF, Param, StartUpEntry};
use crate::path_report::{PathReport, Tightest};
use crate::start_ups::{THRESHOLD, threshold};
use crate::units::Nanos;
use crate::window::{Signal, StartUp, Window};

/// What a window keeps after a round trip without room (our choice, the paper's factor of L2), and after how many in a row it gives way
/// (our choice: by 15 % in all, as `hops` drains a queue: one who fills it all the same gets no more).
const KEPT: f64 = 0.95;
const GIVES_WAY: u32 = 3;
/// A link is busy from this share of its capacity on (our choice: twice as much then still fits).
const BUSY: f64 = 0.5;

/// Parameters of [`Eq1`].
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The paper's increment.
    pub inc: f64,
    /// Share of a queue that is not counted as room.
    pub reserve: f64,
    /// After the start-up the window stands still while there is no room.
    pub hold: bool,
    /// Slow-start threshold at the start in packets.
    pub threshold: f64,
}

/// Equation (1).
#[derive(Clone, Copy, Debug)]
pub struct Eq1 {
    settings: Settings,
    mss: u32,
    report: PathReport,
    /// The round ends when everything below has been delivered.
    round_end: u64,
    /// Packets by which the window may still grow in this round.
    budget: f64,
    /// No room was left in the last report.
    filled: bool,
    /// There has been none since then.
    full: Option<Full>,
}

/// Round trips without room, in a row.
#[derive(Clone, Copy, Debug)]
struct Full {
    /// The newest ends when everything below has been delivered.
    end: u64,
    /// This many before it made the window give way.
    gave_way: u32,
}

impl Eq1 {
    /// The start-up for packets of `env.mss` bytes.
    pub fn new(env: &Env, settings: Settings) -> Self {
        let report = PathReport::new(settings.reserve);
        Self { settings, mss: env.mss, report, round_end: 0, budget: 0.0, filled: false, full: None }
    }

    /// Packets that arrive at the hop in a round trip, of all flows; where the hop does not say, as many windows as it has
    /// flows.
    fn load(hop: &Tightest, srtt: Nanos, window: &Window) -> f64 {
        hop.arrival.map_or(window.cwnd * hop.flows, |rate| rate * srtt.as_secs_f64())
    }

    /// What a round that begins now may grow by.
    fn budget(&self, hop: &Tightest, load: f64, min_rtt: Nanos) -> f64 {
        let busy = match hop.capacity {
            Some(capacity) if min_rtt < Nanos::MAX => load >= BUSY * capacity * min_rtt.as_secs_f64(),
            _ => hop.queued,
        };
        let inc = if busy { self.settings.inc.min(1.0) } else { self.settings.inc };
        inc * hop.share
    }

    /// The tightest hop; not one without room because of queues that cannot be.
    fn hop(&self, ack: &Ack<'_>) -> Option<&Tightest> {
        let impossible = self.report.queues(ack.now).is_some_and(|queues| is_impossible(ack.srtt, queues));
        self.report.tightest(ack.now).filter(|hop| hop.room > 0.0 || !impossible)
    }

    /// There is no room: whether there was none for a whole round trip.
    fn is_full(&mut self, ack: &Ack<'_>) -> bool {
        let end = ack.next;
        let over = self.full.is_some_and(|full| ack.una >= full.end);
        if over || self.full.is_none() {
            self.full = Some(Full { end, gave_way: self.full.map_or(0, |full| full.gave_way) });
        }
        over
    }
}

impl StartUp for Eq1 {
    fn on_telemetry(&mut self, telemetry: &Telemetry<'_>) {
        self.report.take(telemetry);
    }

    fn on_ack(&mut self, ack: &Ack<'_>, window: &mut Window) {
        let acked = ack.packets_of(self.mss);
        let Some(hop) = self.hop(ack).copied() else {
            (self.round_end, self.budget, self.full) = (0, 0.0, None);
            if std::mem::take(&mut self.filled) {
                window.ssthresh = window.cwnd;
            } else if ack.window_limited {
                window.open(acked);
            }
            return;
        };
        self.filled = hop.room <= 0.0;
        if !self.filled {
            self.full = None;
        } else if self.settings.hold && self.is_full(ack) {
            window.ssthresh = window.cwnd;
            return;
        }
        let load = Self::load(&hop, ack.srtt, window);
        if ack.una >= self.round_end {
            self.round_end = ack.next;
            self.budget = self.budget(&hop, load, ack.min_rtt);
        }
        if ack.window_limited {
            let gain = self.settings.inc * (hop.room / (load.max(1.0) * hop.flows)).min(1.0);
            let grown = (gain * acked).min(self.budget);
            self.budget -= grown;
            window.open(grown);
        }
    }

    fn limit(&self, _window: &Window, max_flight: f64) -> f64 {
        // Without telemetry it is slow start.
        let inc = if self.round_end > 0 { self.settings.inc.max(1.0) } else { 1.0 };
        (1.0 + inc) * max_flight
    }

    /// What filled the room is lost, or has been reduced.
    fn on_congestion(&mut self, _signal: Signal, _window: &mut Window) {
        (self.filled, self.full) = (false, None);
    }

    fn threshold(&self) -> f64 {
        self.settings.threshold
    }

    fn holds(&mut self, ack: &Ack<'_>) -> Option<f64> {
        if !self.settings.hold || self.hop(ack).is_none_or(|hop| hop.room > 0.0) {
            self.full = None;
            return None;
        }
        let over = self.is_full(ack);
        match &mut self.full {
            Some(full) if over && full.gave_way < GIVES_WAY => {
                full.gave_way += 1;
                Some(KEPT)
            }
            _ => Some(1.0),
        }
    }

    fn on_mss(&mut self, mss: u32) {
        self.mss = mss;
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        report("round_budget_packets", self.budget);
    }
}

/// `start=eq1` in the registry, which `eq1=2` stands for too.
pub const ENTRY: StartUpEntry = StartUpEntry {
    name: "eq1",
    summary: "equation (1): grows by the room that the hops report; slow start where they report nothing",
    source: "Bhat et al., Adaptive Transport Layer Protocols using In-band Network Telemetry and eBPF",
    params: &[
        Param {
            name: "eq1",
            unit: "increment: packets for a packet at most",
            kind: Kind::Number { min: 0.25, max: 8.0 },
            default: "2",
            source: "Bhat et al.: 1, 2 and 3 are run, the latter two preferred",
        },
        Param {
            name: "reserve",
            unit: "% of a queue not counted as room",
            kind: Kind::Number { min: 0.0, max: 90.0 },
            default: "20",
            source: "our choice: a report is a round trip old",
        },
        Param {
            name: "hold",
            unit: "switch",
            kind: ON_OFF,
            default: "on",
            source: "our choice: without room growth ends in a loss, and giving way leaves room to who comes later; off is the paper's",
        },
        THRESHOLD,
    ],
    needs: &[],
    holds_against_marks: false,
    make: |params, env| {
        let settings = Settings {
            inc: params.number("eq1"),
            reserve: params.number("reserve") / 100.0,
            hold: params.on("hold"),
            threshold: threshold(params),
        };
        Box::new(Eq1::new(env, settings))
    },
};

#[cfg(test)]
mod tests;
