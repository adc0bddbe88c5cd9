//! Careful Resume: a flow that knows what an earlier one to the same place learnt jumps to half of that window, and falls back
//! safely where the path has changed (RFC 9959).
//!
//! | here | RFC 9959 |
//! |---|---|
//! | `Reconnaissance` | Reconnaissance Phase |
//! | `Unvalidated` | Unvalidated Phase |
//! | `Validating` | Validating Phase |
//! | `Retreat` | Safe Retreat Phase |
//! | `Normal` | Normal Phase |
//! | `pipe` | PipeSize, in bytes |
//! | [`Remembered`] | saved CC parameters |
//!
//! What differs from the RFC, and why:
//! - It jumps only while the window limits the flow: a jump that the application cannot use is not made.
//! - A spurious loss does not end the retreat: the RFC has no rule, and the jump stays unproven.
//! - The path is compared with that remembered before the jump and not after it: within one round trip its RTT hardly changes by
//!   a factor of two without a loss.
//! - No receive window limits the jump here: none of the datapaths has one that is known to the controller.
//! - After a retreat the flow remembers nothing, whatever it learns later: the next one begins as if it were the first.

use crate::controller::{Ack, Acked, Env, Pacing, Remembered, Restart, Sent};
use crate::entry::{Kind, Param, Params, StartUpEntry};
use crate::start_ups::START_UPS;
use crate::units::{Nanos, Rate, Time};
use crate::window::{INITIAL_WINDOW, MINIMUM_WINDOW, Retains, Setback, Signal, StartUp, Window};

/// Packets of the jump are told apart by this tag.
const JUMP: u64 = 1;
/// An RTT of this share of the one remembered, or less, is of another path.
const SHORTER: u64 = 2;
/// An RTT above this multiple of the one remembered is of another path.
const LONGER: u64 = 10;
/// Initial windows below which a window is not worth remembering.
const WORTH: f64 = 4.0;
/// What the pipe's size is divided by for the window of a retreat.
const RETREAT: f64 = 2.0;

/// Where it stands.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// The initial window finds out whether the path is that of before.
    Reconnaissance,
    /// The jump is being sent.
    Unvalidated(Jump),
    /// The jump is being acknowledged.
    Validating(Jump),
    /// The jump met congestion.
    Retreat {
        jump: Jump,
        /// Share of the window that the policy keeps.
        kept: f64,
    },
    /// As if nothing had been remembered.
    Normal,
}

/// A jump and what it shows of the path.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Jump {
    began: Time,
    /// One round trip later.
    over: Time,
    /// Bytes that the path is known to hold.
    pipe: u64,
    /// Position of the newest of its packets, once one has left.
    last: Option<u64>,
    pace: Rate,
}

impl Jump {
    /// All of its packets have been acknowledged, or given up.
    fn is_acknowledged(&self, ack: &Ack<'_>) -> bool {
        self.last.is_some_and(|last| ack.una > last || ack.packets.iter().any(|packet| packet.seq >= last))
    }
}

/// Bytes acknowledged in a round trip.
#[derive(Clone, Copy, Debug, Default)]
struct Learnt {
    /// What was delivered at the start of the round trip that is under way.
    from: Option<u64>,
    /// The application limited it.
    limited: bool,
    /// Of the last round trip, or a longer one where the application limited that.
    bytes: u64,
    min_rtt: Nanos,
}

impl Learnt {
    fn take(&mut self, ack: &Ack<'_>) {
        self.min_rtt = ack.min_rtt;
        self.limited |= ack.packets.last().is_some_and(|packet: &Acked| packet.app_limited);
        let Some(rate) = ack.rate else { return };
        match self.from {
            Some(from) if rate.prior_delivered < from => return,
            Some(from) => {
                let bytes = ack.delivered.saturating_sub(from);
                self.bytes = if self.limited { self.bytes.max(bytes) } else { bytes };
            }
            None => {}
        }
        (self.from, self.limited) = (Some(ack.delivered), false);
    }
}

/// Careful Resume. See the [module](self).
pub struct Resume {
    mss: u32,
    /// Share of the window remembered to which it jumps.
    share: f64,
    /// The start-up of every flow that does not jump.
    normal: Box<dyn StartUp>,
    phase: Phase,
    /// The jump that congestion has just ended.
    interrupted: Option<Jump>,
    /// What the flow was given, as long as it stands.
    remembered: Option<Remembered>,
    /// Nothing may be remembered of this flow.
    retreated: bool,
    /// When the flow was given it: its first event.
    since: Option<Time>,
    lifetime: Nanos,
    /// Bytes acknowledged in reconnaissance.
    acked: u64,
    learnt: Learnt,
    product: Option<f64>,
}

impl Resume {
    fn new(env: &Env, share: f64, lifetime: Nanos, normal: Box<dyn StartUp>) -> Self {
        let remembered = env.remembered.filter(|remembered| remembered.age <= lifetime);
        Self {
            mss: env.mss,
            share,
            normal,
            phase: if remembered.is_some() { Phase::Reconnaissance } else { Phase::Normal },
            interrupted: None,
            remembered,
            retreated: false,
            since: None,
            lifetime,
            acked: 0,
            learnt: Learnt { min_rtt: Nanos::MAX, ..Learnt::default() },
            product: None,
        }
    }

    fn bytes(&self, packets: f64) -> u64 {
        (packets * f64::from(self.mss)) as u64
    }

    fn packets(&self, bytes: u64) -> f64 {
        bytes as f64 / f64::from(self.mss)
    }

    /// In reconnaissance: jumps, or gives up, once all of the initial window is acknowledged.
    fn decide(&mut self, ack: &Ack<'_>, window: &mut Window) {
        self.acked += ack.bytes;
        let (Some(rtt), Some(remembered)) = (ack.rtt, self.remembered) else { return };
        let known = remembered.min_rtt;
        if ack.min_rtt <= known.mul_div(1, SHORTER) || rtt > known.mul_div(LONGER, 1) {
            self.phase = Phase::Normal;
            return;
        }
        let jump = self.packets(remembered.window) * self.share;
        if self.acked < self.bytes(INITIAL_WINDOW) || !ack.window_limited {
            return;
        }
        if jump <= window.cwnd {
            self.phase = Phase::Normal;
            return;
        }
        window.cwnd = jump;
        let pace = Rate::from_bytes_in(self.bytes(jump), ack.srtt).max(Rate::from_bytes_per_sec(1));
        let (began, pipe) = (ack.now, ack.in_flight);
        self.phase = Phase::Unvalidated(Jump { began, over: began + ack.srtt, pipe, last: None, pace });
    }

    /// The jump has been sent, as far as the application had something to send: what is in flight is the window.
    fn settle(&mut self, jump: Jump, in_flight: u64, window: &mut Window) {
        if in_flight < self.bytes(INITIAL_WINDOW) || in_flight <= jump.pipe || jump.last.is_none() {
            window.cwnd = self.packets(jump.pipe).max(INITIAL_WINDOW).min(window.cwnd);
            self.phase = Phase::Normal;
        } else {
            window.cwnd = self.packets(in_flight).min(window.cwnd);
            self.phase = Phase::Validating(jump);
        }
    }

    fn age(&self, now: Time) -> Option<Remembered> {
        let remembered = self.remembered?;
        let age = remembered.age + self.since.map_or(Nanos::ZERO, |since| now - since);
        Some(Remembered { age, ..remembered }).filter(|remembered| remembered.age <= self.lifetime)
    }
}

impl StartUp for Resume {
    fn initial(&self) -> f64 {
        self.normal.initial()
    }

    fn on_sent(&mut self, sent: &Sent, window: &mut Window) -> u64 {
        self.since.get_or_insert(sent.now);
        let Phase::Unvalidated(jump) = &mut self.phase else { return self.normal.on_sent(sent, window) };
        if sent.retransmission || sent.bytes == 0 {
            return 0;
        }
        jump.last = Some(sent.seq);
        let jump = *jump;
        if sent.in_flight + u64::from(self.mss) > self.bytes(window.cwnd) || sent.now > jump.over {
            self.settle(jump, sent.in_flight, window);
        }
        JUMP
    }

    fn observe(&mut self, ack: &Ack<'_>) {
        self.since.get_or_insert(ack.now);
        self.normal.observe(ack);
        if !self.retreated {
            self.learnt.take(ack);
        }
    }

    fn on_ack(&mut self, ack: &Ack<'_>, window: &mut Window) {
        match &mut self.phase {
            Phase::Normal | Phase::Retreat { .. } => self.normal.on_ack(ack, window),
            Phase::Reconnaissance => {
                self.normal.on_ack(ack, window);
                if window.starting() {
                    self.decide(ack, window);
                } else {
                    self.phase = Phase::Normal;
                }
            }
            Phase::Unvalidated(jump) => {
                jump.pipe += ack.bytes;
                let jump = *jump;
                if ack.now >= jump.over || ack.packets.iter().any(|packet| packet.tag == JUMP) {
                    self.settle(jump, ack.in_flight, window);
                }
            }
            Phase::Validating(jump) => {
                jump.pipe += ack.bytes;
                let over = jump.is_acknowledged(ack);
                self.normal.on_ack(ack, window);
                if over || !window.starting() {
                    self.phase = Phase::Normal;
                    window.ssthresh = window.ssthresh.min(window.cwnd);
                }
            }
        }
    }

    /// It is over, unless [`StartUp::retains`] is asked next: not after a timeout, nor where the policy spares the losses.
    fn on_congestion(&mut self, signal: Signal, window: &mut Window) {
        self.interrupted = match std::mem::replace(&mut self.phase, Phase::Normal) {
            Phase::Unvalidated(jump) | Phase::Validating(jump) => Some(jump),
            Phase::Normal | Phase::Reconnaissance | Phase::Retreat { .. } => None,
        };
        if self.interrupted.is_some() && signal == Signal::Timeout {
            (self.retreated, self.remembered) = (true, None);
        }
        self.normal.on_congestion(signal, window);
    }

    fn retains(&mut self, setback: &Setback, window: &mut Window) -> Retains {
        let Some(jump) = self.interrupted.take() else { return self.normal.retains(setback, window) };
        (self.retreated, self.remembered) = (true, None);
        self.phase = Phase::Retreat { jump: Jump { began: setback.now, ..jump }, kept: setback.kept };
        window.cwnd = (self.packets(jump.pipe) / RETREAT).max(MINIMUM_WINDOW).min(window.cwnd);
        Retains::Firmly
    }

    fn loses(&mut self, packets: f64, window: &mut Window) {
        if !matches!(self.phase, Phase::Retreat { .. }) {
            self.normal.loses(packets, window);
        }
    }

    fn repairs(&mut self, ack: &Ack<'_>, window: &mut Window) -> bool {
        let Phase::Retreat { jump, kept } = &mut self.phase else { return self.normal.repairs(ack, window) };
        let flight = ack.packets.iter().filter(|packet| packet.sent_at <= jump.began);
        jump.pipe += flight.map(|packet| u64::from(packet.bytes)).sum::<u64>();
        let (jump, kept) = (*jump, *kept);
        if !jump.is_acknowledged(ack) && jump.last.is_some() {
            return true;
        }
        let product = self.packets(jump.pipe);
        window.ssthresh = (product * kept).max(window.cwnd);
        self.product = Some(product);
        self.phase = Phase::Normal;
        false
    }

    fn product(&self) -> Option<f64> {
        self.product.or_else(|| self.normal.product())
    }

    fn remember(&self, window: &Window, now: Time) -> Option<Remembered> {
        if self.retreated {
            return None;
        }
        // A window that still grew is twice what was delivered for it.
        let share = if window.starting() { 2 } else { 1 };
        let window = self.learnt.bytes / share;
        if self.packets(window) < WORTH * INITIAL_WINDOW {
            return self.age(now);
        }
        Some(Remembered { window, min_rtt: self.learnt.min_rtt, age: Nanos::ZERO })
    }

    fn on_spurious(&mut self) {
        self.normal.on_spurious();
    }

    fn on_restart(&mut self, restart: &Restart, window: &mut Window) -> bool {
        if let Phase::Unvalidated(jump) = self.phase {
            window.cwnd = self.packets(jump.pipe).max(INITIAL_WINDOW).min(window.cwnd);
        }
        if !matches!(self.phase, Phase::Retreat { .. }) {
            self.phase = Phase::Normal;
        }
        self.normal.on_restart(restart, window)
    }

    /// The jump is to what an earlier flow learnt (RFC 9959 section 3.2), from a window that limits the flow.
    fn limit(&self, window: &Window, max_flight: f64) -> f64 {
        if matches!(self.phase, Phase::Unvalidated(_)) { f64::INFINITY } else { self.normal.limit(window, max_flight) }
    }

    fn resumes(&mut self, ack: &Ack<'_>, window: &mut Window) -> bool {
        self.normal.resumes(ack, window)
    }

    fn threshold(&self) -> f64 {
        self.normal.threshold()
    }

    fn on_mss(&mut self, mss: u32) {
        self.mss = mss;
        self.normal.on_mss(mss);
    }

    fn pacing(&self) -> Option<Pacing> {
        match self.phase {
            Phase::Unvalidated(jump) => Some(Pacing::Rate(jump.pace)),
            _ => self.normal.pacing(),
        }
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        let (phase, jump) = match self.phase {
            Phase::Normal => (0.0, None),
            Phase::Reconnaissance => (1.0, None),
            Phase::Unvalidated(jump) => (2.0, Some(jump)),
            Phase::Validating(jump) => (3.0, Some(jump)),
            Phase::Retreat { jump, .. } => (4.0, Some(jump)),
        };
        report("resume_phase", phase);
        report("pipe_packets", jump.map_or(0.0, |jump| self.packets(jump.pipe)));
        self.normal.describe(report);
    }
}

/// The start-ups that may follow, by name.
const THEN: &[&str] = &["slow", "hystart", "hystart++", "search"];

fn make(params: &Params, env: &Env) -> Box<dyn StartUp> {
    let then = params.word("resume_then");
    let normal = START_UPS.iter().find(|entry| entry.name == then).expect("each of THEN is a start-up");
    let lifetime = Nanos::from_secs_f64(params.number("resume_lifetime"));
    Box::new(Resume::new(env, params.number("resume_jump"), lifetime, (normal.make)(params, env)))
}

/// `start=resume` in the registry.
pub const ENTRY: StartUpEntry = StartUpEntry {
    name: "resume",
    summary: "Careful Resume: jumps to half of the window that an earlier flow to the same place had, where the path is still that",
    source: "RFC 9959",
    params: &[
        Param {
            name: "resume_then",
            unit: "start-up of a flow that does not jump",
            kind: Kind::Choice(THEN),
            default: "slow",
            source: "RFC 9959 section 3.1: as usual",
        },
        Param {
            name: "resume_jump",
            unit: "share of the window remembered",
            kind: Kind::Number { min: 0.01, max: 1.0 },
            default: "0.5",
            source: "RFC 9959 section 3.2",
        },
        Param {
            name: "resume_lifetime",
            unit: "s for which what was learnt may be used",
            kind: Kind::Number { min: 1.0, max: 86_400.0 },
            default: "300",
            source: "RFC 7661 section 4: five minutes; RFC 9959: minutes on paths that vary, hours on stable ones",
        },
    ],
    needs: &[],
    holds_against_marks: false,
    make,
};

#[cfg(test)]
mod tests;
