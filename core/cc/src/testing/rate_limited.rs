//! Whether a window grows no further than its flow has used it: the rule of [`crate::max_flight`], held from outside. It shares nothing
//! with what keeps it, and knows limit(maxFS) of each controller a second time.
//!
//! Source: draft-ietf-ccwg-ratelimited-increase-10, section "Rate-Limited Increase". Controllers that steer by a rate are held to its
//! part on rates: what leaves in a round trip is at most a multiple of the most that left in one before (our choice: a
//! smoothed RTT).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use crate::controller::{Ack, Controller, Loss, Nature, Pacing, Permit, Restart, Sent, Stamp, Timeout};
use crate::observe::{Answers, Event, Observer};
use crate::registry::Spec;
use crate::units::{Nanos, Time};

/// Packets that a limit may be exceeded by: windows are counted in parts of them.
const TOLERANCE: f64 = 1.0;
/// Packets that count as having been in flight, and as having left in a round trip, before the first have: the initial window.
const INITIAL: f64 = 10.0;
/// Packets that may leave at once beside what a rate permits (our choice: the initial window, and as many for a pacer).
const BURST: f64 = 20.0;
/// How much more may leave in a round trip than a rate permits: the smoothed RTT by which it is counted moves (our choice).
const SLACK: f64 = 1.05;
/// What a start-up of BBR sends of what was delivered (draft-ietf-ccwg-bbr: 2.77; Cardwell et al. 2016: 2.89).
const STARTUP_GAIN: f64 = 2.89;

/// Falls that are remembered.
const KEPT: usize = 8;

/// What was seen of a flow.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Growths of a window that was not full, or round trips of a rate, that were held against the limit.
    pub judged: u64,
    /// The first growth that was not permitted, in one line.
    pub excess: Option<String>,
}

/// How far a controller may grow.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Class {
    /// By this many packets a round trip.
    Adds(f64),
    /// CUBIC's curve, with what else a loss may add as a share.
    Curve(f64),
    Bic,
    Copa,
    Ledbat,
    /// At most this many times what left in a round trip before.
    Rate(f64),
    /// It does not grow.
    Fixed,
}

impl Class {
    fn of(name: &str) -> Self {
        match name {
            "cubic" | "cubic-l1" | "cubic-l2" | "hops" | "hpcc" => Self::Curve(0.0),
            "cubic-l1g" => Self::Curve(0.25),
            "bic" => Self::Bic,
            "copa" => Self::Copa,
            "ledbat" | "ledbat++" => Self::Ledbat,
            "verus" | "sprout" | "sprout-ewma" | "mdi" => Self::Rate(2.0),
            "bbr" | "bbr3" => Self::Rate(STARTUP_GAIN),
            "fixed" => Self::Fixed,
            _ => Self::Adds(1.0),
        }
    }
}

/// A stage of congestion avoidance, as CUBIC sees it.
#[derive(Clone, Copy, Debug)]
struct Stage {
    from: Time,
    window: f64,
    /// The window before the reduction that began it; none after slow start.
    before: f64,
}

impl Stage {
    /// The highest that CUBIC's curve can be at `t` seconds: without fast convergence or with it (RFC 9438, sections 4.2 and 4.7).
    fn highest(&self, t: f64) -> f64 {
        let curve = |w_max: f64| {
            let origin = w_max.max(self.window);
            let from_plateau = t - libm::cbrt((origin - self.window) / 0.4);
            origin + 0.4 * from_plateau * from_plateau * from_plateau
        };
        // Where the window had shrunk before, the plateau lies between.
        (0..=8).map(|step| curve(self.before * (0.85 + 0.15 * f64::from(step) / 8.0))).fold(curve(0.0), f64::max)
    }
}

/// A variable of the controller.
fn said(controller: &dyn Controller, wanted: &str) -> Option<f64> {
    let mut found = None;
    controller.describe(&mut |name, value| found = found.or((name == wanted).then_some(value)));
    found
}

/// Packets that Copa adds in a round trip (section 2.2 of its paper).
fn step_of_copa(controller: &dyn Controller) -> f64 {
    said(controller, "velocity").unwrap_or(1.0).max(1.0) / said(controller, "delta").unwrap_or(0.5)
}

/// Sees a flow's events, and holds its window against the limit.
pub struct RateLimited {
    class: Class,
    /// How many times as large a window is after a round trip of the start-up; one without a start-up of the registry says itself how it grows.
    starts: Option<f64>,
    mss: f64,
    window: f64,
    in_flight: f64,
    max_flight: f64,
    threshold: u64,
    /// maxFS before the last falls, for what is undone.
    falls: VecDeque<f64>,
    /// Stages of congestion avoidance, the last of them last; silences do not begin one.
    stages: VecDeque<Stage>,
    /// Drains of Copa, and maxFS before the one under way, which comes back with its window.
    drains: f64,
    drained: Option<f64>,
    /// What Copa may add in a round trip, as it was after the event before: an event may change it when the window has grown.
    step: f64,
    min_rtt: Nanos,
    srtt: Nanos,
    /// What left in the last smoothed RTT, with the sum of it.
    left: VecDeque<(Time, u32)>,
    sum: u64,
    /// The most that left in a round trip that ended a round trip ago or before, and sums that are younger.
    most: u64,
    sums: VecDeque<(Time, u64)>,
    findings: Arc<Mutex<Findings>>,
}

impl RateLimited {
    /// Of a flow of `controller`, in packets of `mss` bytes; what it finds is added to `findings`.
    pub fn new(controller: &Spec, mss: u32, findings: Arc<Mutex<Findings>>) -> Self {
        Self {
            class: Class::of(controller.entry().name),
            starts: controller.start_up().map(|start_up| match start_up.name {
                "eq1" | "rapid" => 3.0,
                _ => 2.0,
            }),
            mss: f64::from(mss.max(1)),
            window: 0.0,
            in_flight: 0.0,
            max_flight: INITIAL,
            threshold: u64::MAX,
            falls: VecDeque::new(),
            stages: VecDeque::new(),
            drains: 0.0,
            drained: None,
            step: 0.0,
            min_rtt: Nanos::MAX,
            srtt: Nanos::ZERO,
            left: VecDeque::new(),
            sum: 0,
            most: 0,
            sums: VecDeque::new(),
            findings,
        }
    }

    /// Whether it is the window of this controller that is judged; of others it is the rate at which packets leave.
    pub fn judges_window(controller: &Spec) -> bool {
        !matches!(Class::of(controller.entry().name), Class::Rate(_) | Class::Fixed)
    }

    fn flies(&mut self, bytes: u64) {
        self.in_flight = bytes as f64 / self.mss;
        let full = self.in_flight + 1.0 > self.window;
        self.max_flight = self.max_flight.max(if full { self.window } else { self.in_flight });
    }

    fn limit(&self, now: Time, starting: bool, controller: &dyn Controller) -> f64 {
        let said = |wanted| said(controller, wanted);
        let m = self.max_flight;
        if matches!(self.class, Class::Rate(_) | Class::Fixed) {
            return f64::INFINITY;
        }
        if let Some(starts) = self.starts.filter(|_| starting) {
            let measures = said("chirping").is_some_and(|chirping| chirping > 0.0)
                || matches!(controller.pacing(), Pacing::Gap(_));
            return if measures { f64::INFINITY } else { starts * m };
        }
        match self.class {
            Class::Adds(packets) => m + packets,
            Class::Bic => m + (0.05 * m).max(16.0).min(m),
            Class::Copa if said("slow_start") == Some(1.0) => 2.0 * m,
            Class::Copa => m + step_of_copa(controller).max(self.step),
            Class::Ledbat if matches!(said("phase"), Some(0.0 | 3.0)) => 2.0 * m,
            Class::Ledbat => m + 1.0,
            Class::Curve(at_a_loss) => {
                let m = m * (1.0 + at_a_loss);
                let ahead = if self.min_rtt < Nanos::MAX { self.min_rtt } else { Nanos::ZERO };
                let curve = self.stages.iter().map(|stage| stage.highest((now - stage.from + ahead).as_secs_f64()));
                (m + 1.0).max(curve.fold(0.0, f64::max).min(1.5 * m)).max(1.05 * m)
            }
            Class::Rate(_) | Class::Fixed => m,
        }
    }

    fn begins(&mut self, stage: Stage) {
        self.stages.push_back(stage);
        if self.stages.len() > KEPT {
            self.stages.pop_front();
        }
    }

    /// A packet leaves: what left in the last round trip, held against those before.
    fn rates(&mut self, now: Time, bytes: u32, times: f64) {
        self.left.push_back((now, bytes));
        self.sum += u64::from(bytes);
        while self.left.front().is_some_and(|(at, _)| now - *at > self.srtt) {
            self.sum -= self.left.pop_front().map_or(0, |(_, bytes)| u64::from(bytes));
        }
        while self.sums.front().is_some_and(|(at, _)| now - *at > self.srtt) {
            self.most = self.most.max(self.sums.pop_front().map_or(0, |(_, sum)| sum));
        }
        self.sums.push_back((now, self.sum));
        let limit = SLACK * (times * (self.most as f64 / self.mss).max(INITIAL) + BURST);
        let sent = self.sum as f64 / self.mss;
        if self.srtt > Nanos::ZERO {
            self.found(
                now,
                sent > limit + TOLERANCE,
                format_args!("{sent:.1} packets left in a round trip, limit {limit:.1}"),
            );
        }
    }

    fn found(&self, now: Time, exceeds: bool, what: std::fmt::Arguments<'_>) {
        let mut findings = self.findings.lock().unwrap_or_else(PoisonError::into_inner);
        findings.judged += 1;
        if exceeds && findings.excess.is_none() {
            findings.excess = Some(format!("at {now}: {what}"));
        }
    }
}

impl Observer for RateLimited {
    fn on_event(&mut self, event: &Event<'_>, controller: &dyn Controller) {
        let (now, answers) = (event.now(), Answers::of(controller));
        let window = answers.window as f64 / self.mss;
        if self.window == 0.0 {
            self.window = window;
            self.max_flight = self.max_flight.min(window);
        }
        match event {
            Event::Sent(sent, _) => {
                self.flies(sent.in_flight);
                if let Class::Rate(times) = self.class {
                    self.rates(now, sent.bytes, times);
                }
            }
            Event::Acked(ack) => {
                self.flies(ack.in_flight);
                self.srtt = ack.srtt;
                self.min_rtt = self.min_rtt.min(ack.rtt.unwrap_or(Nanos::MAX));
            }
            Event::Lost(loss) => self.flies(loss.in_flight),
            Event::Timeout(timeout) => self.flies(timeout.in_flight),
            Event::Mss { mss, .. } => {
                let scale = self.mss / f64::from((*mss).max(1));
                self.mss /= scale;
                self.max_flight *= scale;
                self.in_flight *= scale;
                self.window = answers.window as f64 / self.mss;
                self.falls.clear();
                return;
            }
            _ => {}
        }
        let starting = ((self.window * self.mss).round() as u64) < self.threshold;
        if window < self.window {
            let drains = if self.class == Class::Copa { said(controller, "drains") } else { None };
            if let Some(drains) = drains.filter(|drains| *drains > self.drains) {
                (self.drains, self.drained) = (drains, Some(self.max_flight));
            }
            self.falls.push_back(self.max_flight);
            if self.falls.len() > KEPT {
                self.falls.pop_front();
            }
            self.max_flight = 0.0;
            let before = self.window;
            self.window = window;
            self.flies((self.in_flight * self.mss) as u64);
            if !matches!(event, Event::Restart(_)) {
                self.begins(Stage { from: now, window, before });
            }
        } else if window > self.window {
            if matches!(event, Event::Spurious(_)) {
                self.max_flight = self.falls.iter().copied().fold(self.max_flight, f64::max);
            } else if self.in_flight < self.window {
                let mut limit = self.limit(now, starting, controller);
                if window > limit && self.drained.is_some() {
                    // The window is back from a drain, and so is maxFS.
                    self.max_flight = self.max_flight.max(self.drained.take().unwrap_or(0.0));
                    limit = self.limit(now, starting, controller);
                }
                let flight = self.max_flight;
                self.found(
                    now,
                    window > limit.max(self.window) + TOLERANCE,
                    format_args!(
                        "the window grew from {:.2} to {window:.2}, limit {limit:.2}, maxFS {flight:.2}",
                        self.window
                    ),
                );
            }
            self.window = window;
        }
        if starting && answers.window >= answers.threshold {
            // What slow start reached of one window, whose acknowledgements may still come.
            self.max_flight = self.max_flight.max(window.min(self.starts.unwrap_or(1.0) * self.max_flight));
            self.begins(Stage { from: now, window, before: 0.0 });
        }
        self.threshold = answers.threshold;
        if self.class == Class::Copa {
            self.step = step_of_copa(controller);
        }
    }
}

/// Around a controller: it is told that every flight fills its window, and so breaks the rule.
pub struct Blinded(pub Box<dyn Controller>);

impl Controller for Blinded {
    fn on_sent(&mut self, sent: &Sent) -> Stamp {
        self.0.on_sent(&Sent { in_flight: sent.in_flight.max(self.0.window()), ..*sent })
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.0.on_ack(&Ack { window_limited: true, ..*ack });
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        self.0.on_loss(loss);
    }

    fn on_timeout(&mut self, timeout: &Timeout<'_>) {
        self.0.on_timeout(timeout);
    }

    fn on_spurious(&mut self, now: Time) {
        self.0.on_spurious(now);
    }

    fn on_restart(&mut self, restart: &Restart) {
        self.0.on_restart(restart);
    }

    fn nature(&self) -> Nature {
        self.0.nature()
    }

    fn permit(&self) -> Permit {
        self.0.permit()
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        self.0.describe(report);
    }
}
