//! A start-up of paceline's before a guest: `mine:start=hystart@udp`.
//!
//! While the start-up is in charge, it alone is informed, by the rules of [`WindowController`]. When it is over, the object has
//! its window as `window` and `ssthresh`, is told by `on_start_end(now)`, and decides from then on; the loss, the mark or the timeout that
//! ended the start-up is its first event. It does not give way to the start-up again.

use paceline_cc::window::{Policy, Signal, StartUp, Window, WindowController};
use paceline_cc::{
    Ack, BadFeedback, Controller, Ecn, Env, Loss, Lost, Nanos, Nature, Permit, Remembered, Restart, Sent, Stamp,
    Telemetry, Time, Timeout,
};

/// An object that a start-up can stand before.
pub trait Handed {
    /// The start-up is over at this window, bytes: the object has it, and decides from now on.
    fn take_over(&mut self, now: Time, window: u64);
}

/// A guest behind a start-up.
pub(super) struct Started<C> {
    /// Nothing once it is over.
    start: Option<WindowController<Handover>>,
    object: C,
}

/// Stands where a policy would: the answer to what ends the start-up is the object's own.
struct Handover(Ecn);

impl Policy for Handover {
    fn grow(&mut self, _ack: &Ack<'_>, _window: &mut Window) {}

    fn reduce(&mut self, _signal: Signal, _now: Time, window: &Window, _in_flight: f64) -> f64 {
        window.cwnd
    }

    fn on_mss(&mut self, _mss: u32, _scale: f64) {}

    fn ecn(&self) -> Ecn {
        self.0
    }

    fn describe(&self, _report: &mut dyn FnMut(&'static str, f64)) {}
}

impl<C: Controller + Handed> Started<C> {
    pub(super) fn new(object: C, env: &Env, ecn: Ecn, start: Box<dyn StartUp>) -> Self {
        let handover = Handover(ecn);
        Self { start: Some(WindowController::new(env, start, handover)), object }
    }

    /// Who is in charge.
    fn first_mut(&mut self) -> &mut dyn Controller {
        match &mut self.start {
            Some(start) => start,
            None => &mut self.object,
        }
    }

    fn first(&self) -> &dyn Controller {
        match &self.start {
            Some(start) => start,
            None => &self.object,
        }
    }

    /// The start-up takes an event; where that ends it, or `ends` says so, the object takes over, and true is the answer.
    fn start(&mut self, now: Time, ends: bool, event: impl FnOnce(&mut WindowController<Handover>)) -> bool {
        let Some(start) = &mut self.start else { return true };
        event(start);
        if start.state().starting() && !ends {
            return false;
        }
        // After a timeout the window is that of RFC 5681, and the threshold what the start-up has found.
        let found = Some(start.permit().threshold).filter(|threshold| ends && *threshold < u64::MAX);
        let window = found.unwrap_or_else(|| start.window());
        self.start = None;
        self.object.take_over(now, window);
        true
    }
}

impl<C: Controller + Handed> Controller for Started<C> {
    fn on_sent(&mut self, sent: &Sent) -> Stamp {
        self.first_mut().on_sent(sent)
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        let before = self.start.is_some();
        if self.start(ack.now, false, |start| start.on_ack(ack)) && (!before || ack.ce_bytes > 0 || ack.echo) {
            self.object.on_ack(ack);
        }
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        if self.start(loss.now, false, |start| start.on_loss(loss)) {
            self.object.on_loss(loss);
        }
    }

    fn on_timeout(&mut self, timeout: &Timeout<'_>) {
        if self.start(timeout.now, true, |start| start.on_timeout(timeout)) {
            self.object.on_timeout(timeout);
        }
    }

    fn on_spurious(&mut self, now: Time) {
        if self.start.is_none() {
            self.object.on_spurious(now);
        }
    }

    fn on_cause(&mut self, now: Time, packets: &[Lost]) {
        if self.start.is_none() {
            self.object.on_cause(now, packets);
        }
    }

    fn on_restart(&mut self, restart: &Restart) {
        if self.start(restart.now, false, |start| start.on_restart(restart)) {
            self.object.on_restart(restart);
        }
    }

    fn on_app_limited(&mut self, now: Time, in_flight: u64) {
        if self.start.is_none() {
            self.object.on_app_limited(now, in_flight);
        }
    }

    fn on_telemetry(&mut self, telemetry: &Telemetry<'_>) {
        self.first_mut().on_telemetry(telemetry);
    }

    fn on_shared_rtt(&mut self, now: Time, min: Nanos) {
        self.first_mut().on_shared_rtt(now, min);
    }

    fn on_feedback(&mut self, now: Time, blob: &[u8]) -> Result<(), BadFeedback> {
        self.first_mut().on_feedback(now, blob)
    }

    fn on_mss(&mut self, now: Time, mss: u32) {
        if let Some(start) = &mut self.start {
            start.on_mss(now, mss);
        }
        self.object.on_mss(now, mss);
    }

    fn on_tick(&mut self, now: Time) {
        let before = self.start.is_some();
        if self.start(now, false, |start| start.on_tick(now)) && !before {
            self.object.on_tick(now);
        }
    }

    fn nature(&self) -> Nature {
        self.object.nature()
    }

    fn permit(&self) -> Permit {
        match &self.start {
            Some(start) => {
                let mut permit = start.permit();
                permit.recovery = self.object.permit().recovery;
                permit
            }
            None => self.object.permit(),
        }
    }

    fn remember(&self, now: Time) -> Option<Remembered> {
        self.first().remember(now)
    }

    fn window_set_at(&self) -> Option<String> {
        self.first().window_set_at()
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        self.first().describe(report);
    }
}
