//! Rapid Start: three times the window each round trip while the RTT is at its floor; the first loss shows by how much that was
//! too far (draft-kazuho-ccwg-rapid-start-02).
//!
//! At the first loss or mark the window falls a little, and the flow is silent until the queue has drained by as much. Then each
//! packet of that flight lowers it, a lost one by more than an acknowledged one, so that what is left at the end is the policy's
//! share of what the path holds, whatever part of the flight was lost.
//!
//! What differs from the draft, and why:
//! - The share is what the policy that it starts for would keep of its window (the draft's beta), for a mark another than for a loss.
//! - The first recovery ends with the first acknowledgement of a packet that was sent in it (RFC 9002 section 7.3.2), over TCP too,
//!   where repairs may go on for longer.
//! - A flow that begins with a handshake, whose RTT is known, paces 20 packets over it; one without begins with 10 at once.

use crate::controller::{Ack, Acked, Env, Pacing, Restart, Sent};
use crate::entry::{Kind, Param, Params, StartUpEntry};
use crate::hystart::HyStartPlusPlus;
use crate::units::{Nanos, Rate, Time};
use crate::window::{INITIAL_WINDOW, MINIMUM_WINDOW, Retains, Setback, Signal, SlowStart, StartUp, Window};

/// What the first loss takes at once, of what the policy would take in all (section 3.3.1; 11/18 in quicly and version 00).
const K: f64 = 2.0 / 3.0;
/// Packets of the first flight where the RTT is known (section 3.1: twice the initial window).
const FIRST_FLIGHT: f64 = 2.0 * INITIAL_WINDOW;
/// How far the RTT may be above the smallest (section 3.2).
const RISE: Nanos = Nanos::from_millis(4);
/// The same as a factor, as a fraction (section 3.2, and quicly's).
const FACTOR: (u64, u64) = (11, 10);
const QUICLY_FACTOR: (u64, u64) = (35, 32);
/// The losses of drop-tail alone leave at least this share: growth was threefold (section 3.3).
const LEAST: f64 = 1.0 / 3.0;
/// Parts of a round trip whose smallest RTTs are kept (quicly).
const SLOTS: usize = 4;

/// Which of two bounds holds for the RTT at its floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bound {
    /// The smaller (the draft).
    Min,
    /// The larger (quicly).
    Max,
}

impl Bound {
    /// The largest RTT that counts as no queue.
    fn over(self, min: Nanos) -> Nanos {
        match self {
            Self::Min => (min + RISE).min(min.mul_div(FACTOR.0, FACTOR.1)),
            Self::Max => (min + RISE).max(min.mul_div(QUICLY_FACTOR.0, QUICLY_FACTOR.1)),
        }
    }
}

/// The smallest RTT of the last round trip, from four parts of it.
#[derive(Clone, Copy, Debug)]
struct Floor {
    slots: [Nanos; SLOTS],
    newest: usize,
    /// When the newest slot ends.
    end: Time,
}

impl Floor {
    const UNKNOWN: Self = Self { slots: [Nanos::MAX; SLOTS], newest: 0, end: Time::ZERO };

    fn sample(&mut self, now: Time, rtt: Nanos, min: Nanos) {
        if now >= self.end {
            let length = min.mul_div(1, SLOTS as u64).max(Nanos::from_nanos(1));
            let passed = (now - self.end).as_nanos() / length.as_nanos() + 1;
            for _ in 0..passed.min(SLOTS as u64) {
                self.newest = (self.newest + 1) % SLOTS;
                self.slots[self.newest] = Nanos::MAX;
            }
            self.end += Nanos::from_nanos(length.as_nanos().saturating_mul(passed));
        }
        self.slots[self.newest] = self.slots[self.newest].min(rtt);
    }

    /// [`Nanos::MAX`] where nothing was measured.
    fn smallest(&self) -> Nanos {
        self.slots.into_iter().fold(Nanos::MAX, Nanos::min)
    }
}

/// The first recovery.
#[derive(Clone, Copy, Debug)]
struct Repair {
    began: Time,
    /// Share that the policy keeps.
    kept: f64,
    /// The window is not lowered below.
    lowest: f64,
}

impl Repair {
    /// The window falls by this for an acknowledged packet.
    fn for_acked(&self) -> f64 {
        K * (1.0 - self.kept)
    }

    /// The same for a lost one; and what the window is multiplied by as the recovery begins.
    fn for_lost(&self) -> f64 {
        self.kept + self.for_acked()
    }

    fn lower(&self, packets: f64, window: &mut Window) {
        window.cwnd = (window.cwnd - packets).max(self.lowest).min(window.cwnd);
    }

    fn is_before(&self, packet: &Acked) -> bool {
        packet.sent_at <= self.began
    }
}

/// Rapid Start. See the [module](self).
pub struct Rapid {
    env: Env,
    bound: Bound,
    /// Growth by one packet for a packet, and the exit without a loss.
    slow: Box<dyn StartUp>,
    floor: Floor,
    /// Bytes of the first flight that have not left.
    first: u64,
    /// Smoothed RTT; zero before the first sample.
    srtt: Nanos,
    trebles: bool,
    pace: Option<Rate>,
    repair: Option<Repair>,
    product: Option<f64>,
}

impl Rapid {
    fn new(env: &Env, bound: Bound, slow: Box<dyn StartUp>) -> Self {
        Self {
            env: *env,
            bound,
            slow,
            floor: Floor::UNKNOWN,
            first: (FIRST_FLIGHT * f64::from(env.mss)) as u64,
            srtt: Nanos::ZERO,
            trebles: false,
            pace: None,
            repair: None,
            product: None,
        }
    }

    fn packets(&self, bytes: u64) -> f64 {
        bytes as f64 / f64::from(self.env.mss)
    }

    fn rate(&self, packets: f64) -> Option<Rate> {
        let bytes = (packets * f64::from(self.env.mss)) as u64;
        // An RTT of minutes must not hold the flow.
        (self.srtt > Nanos::ZERO).then(|| Rate::from_bytes_in(bytes, self.srtt).max(Rate::from_bytes_per_sec(1)))
    }
}

impl StartUp for Rapid {
    fn initial(&self) -> f64 {
        FIRST_FLIGHT
    }

    fn on_sent(&mut self, sent: &Sent, window: &mut Window) -> u64 {
        if self.first > 0 && self.srtt == Nanos::ZERO {
            // No RTT to pace by.
            self.first = 0;
            window.cwnd = window.cwnd.min(INITIAL_WINDOW);
        }
        self.first = self.first.saturating_sub(u64::from(sent.bytes));
        0
    }

    fn on_ack(&mut self, ack: &Ack<'_>, window: &mut Window) {
        self.srtt = ack.srtt;
        if let Some(rtt) = ack.rtt {
            self.floor.sample(ack.now, rtt, ack.min_rtt);
        }
        let before = window.cwnd;
        self.slow.on_ack(ack, window);
        self.trebles = window.ssthresh.is_infinite() && self.floor.smallest() <= self.bound.over(ack.min_rtt);
        if self.trebles {
            window.open(window.cwnd - before);
        }
        let gain = if self.trebles { 3.0 } else { 2.0 };
        self.pace = (self.env.paced && window.starting()).then(|| self.rate(gain * window.cwnd)).flatten();
        if !window.starting() {
            self.first = 0;
        }
    }

    fn on_congestion(&mut self, signal: Signal, window: &mut Window) {
        (self.first, self.pace, self.repair) = (0, None, None);
        self.slow.on_congestion(signal, window);
    }

    fn retains(&mut self, setback: &Setback, window: &mut Window) -> Retains {
        if window.ssthresh.is_finite() || setback.kept >= 1.0 {
            return Retains::Nothing;
        }
        let lowest = (LEAST * setback.kept * window.cwnd).max(MINIMUM_WINDOW);
        let repair = Repair { began: setback.now, kept: setback.kept, lowest };
        repair.lower((1.0 - repair.for_lost()) * window.cwnd, window);
        self.repair = Some(repair);
        Retains::Undoably
    }

    fn loses(&mut self, packets: f64, window: &mut Window) {
        if let Some(repair) = self.repair {
            repair.lower(repair.for_lost() * packets, window);
        }
    }

    fn repairs(&mut self, ack: &Ack<'_>, window: &mut Window) -> bool {
        let Some(repair) = self.repair else { return false };
        let flight = ack.packets.iter().filter(|packet| repair.is_before(packet));
        let acked = self.packets(flight.map(|packet| u64::from(packet.bytes)).sum());
        repair.lower(repair.for_acked() * acked, window);
        if ack.packets.iter().all(|packet| repair.is_before(packet)) {
            return true;
        }
        self.repair = None;
        self.product = (repair.kept > 0.0).then(|| window.cwnd / repair.kept);
        window.ssthresh = window.cwnd;
        false
    }

    fn limit(&self, window: &Window, max_flight: f64) -> f64 {
        if self.trebles { 3.0 * max_flight } else { self.slow.limit(window, max_flight) }
    }

    fn product(&self) -> Option<f64> {
        self.product
    }

    fn on_spurious(&mut self) {
        self.repair = None;
        self.slow.on_spurious();
    }

    /// What the RTT was at before the silence says nothing of now.
    fn on_restart(&mut self, restart: &Restart, window: &mut Window) -> bool {
        self.floor = Floor::UNKNOWN;
        self.slow.on_restart(restart, window)
    }

    fn on_mss(&mut self, mss: u32) {
        let scale = f64::from(self.env.mss) / f64::from(mss);
        self.env.mss = mss;
        if let Some(repair) = &mut self.repair {
            repair.lowest = (repair.lowest * scale).max(MINIMUM_WINDOW);
        }
        self.slow.on_mss(mss);
    }

    fn pacing(&self) -> Option<Pacing> {
        let first = if self.first > 0 { self.rate(FIRST_FLIGHT) } else { None };
        first.or(self.pace).map(Pacing::Rate)
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        report("trebles", f64::from(u8::from(self.trebles)));
        report("repairs", f64::from(u8::from(self.repair.is_some())));
        self.slow.describe(report);
    }
}

fn make(params: &Params, env: &Env) -> Box<dyn StartUp> {
    let bound = if params.word("rapid_floor") == "max" { Bound::Max } else { Bound::Min };
    let slow: Box<dyn StartUp> = match params.word("rapid_exit") {
        "hystart++" => Box::new(HyStartPlusPlus::new(env)),
        _ => Box::new(SlowStart::new(env)),
    };
    Box::new(Rapid::new(env, bound, slow))
}

/// `start=rapid` in the registry.
pub const ENTRY: StartUpEntry = StartUpEntry {
    name: "rapid",
    summary: "Rapid Start: three times the window each round trip while nothing waits, and a measured answer to the first loss",
    source: "draft-kazuho-ccwg-rapid-start-02",
    params: &[
        Param {
            name: "rapid_floor",
            unit: "which of two bounds the RTT must be below: 1.1 of the smallest, or 4 ms more",
            kind: Kind::Choice(&["min", "max"]),
            default: "min",
            source: "draft-kazuho-ccwg-rapid-start-02 section 3.2; max of 35/32 and 4 ms in quicly",
        },
        Param {
            name: "rapid_exit",
            unit: "what ends it",
            kind: Kind::Choice(&["loss", "hystart++"]),
            default: "loss",
            source: "draft-kazuho-ccwg-rapid-start-02 section 3.2: HyStart++ may be used as well",
        },
    ],
    needs: &[],
    holds_against_marks: false,
    make,
};

#[cfg(test)]
mod tests;
