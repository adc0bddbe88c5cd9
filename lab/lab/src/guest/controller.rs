//! An object of another language as a controller.

use paceline_cc::{
    Ack, Controller, Ecn, Env, Loss, Lost, Nature, Pacing, Permit, Recovery, Restart, Sent, Stamp, Telemetry, Time,
    Timeout,
};

use super::{GuestAnswers, Handed, Language, Unanswerable};

/// What a method is called with.
#[derive(Clone, Copy, Debug)]
pub enum Argument<'a> {
    /// Of `on_sent`.
    Sent(&'a Sent),
    /// Of `on_ack`.
    Ack(&'a Ack<'a>),
    /// Of `on_loss`.
    Loss(&'a Loss<'a>),
    /// Of `on_timeout`.
    Timeout(&'a Timeout<'a>),
    /// Of `on_cause`.
    Lost(&'a [Lost]),
    /// Of `on_restart`.
    Restart(&'a Restart),
    /// Of `on_telemetry`.
    Telemetry(&'a Telemetry<'a>),
    /// Of `on_mss`: bytes.
    Mss(u32),
    /// Of all others: now.
    Now(Time),
}

/// An object of another language. What it does wrong it keeps for what runs the world; from then on it answers nothing.
pub trait Object: Send {
    /// The language.
    const LANGUAGE: Language;

    /// Whether its class has this method.
    fn has(&self, method: &str) -> bool;

    /// Calls a method that it has, and reads what it answers then ([`GuestAnswers::read`]), with the tag of `on_sent`. Nothing where it did
    /// something wrong.
    fn call(&mut self, method: &'static str, argument: Argument<'_>, mss: u32) -> Option<(GuestAnswers, u64)>;

    /// Sets its `window` and `ssthresh` to this many bytes, and reads what it answers then.
    fn take_over(&mut self, window: u64, mss: u32) -> Option<GuestAnswers>;

    /// It did this wrong in a method.
    fn fail(&mut self, method: &'static str, what: &Unanswerable);

    /// The method, and where it is written.
    fn place(&self, method: &str) -> String;

    /// Passes on those of its numbers that records show.
    fn describe(&self, report: &mut dyn FnMut(&'static str, f64));
}

/// A controller whose decisions an object makes. After each event its answers are read and kept, so that the datapath's questions, which
/// come more often, do not go to the other language.
#[derive(Debug)]
pub struct Guest<O> {
    object: O,
    recovery: Recovery,
    ecn: Ecn,
    mss: u32,
    answered: GuestAnswers,
    /// The method after which the window was that for the first time.
    set_by: &'static str,
}

impl<O: Object> Guest<O> {
    /// Of an object that was just made by the method `made_by`, which answers this.
    pub fn new(
        object: O,
        env: &Env,
        (recovery, ecn): (Recovery, Ecn),
        made_by: &'static str,
        answered: Option<GuestAnswers>,
    ) -> Self {
        let answered = answered.unwrap_or_else(|| GuestAnswers::first(env.mss));
        Self { object, recovery, ecn, mss: env.mss, answered, set_by: made_by }
    }

    /// Calls a method where the class has it; the tag that it answers.
    fn call(&mut self, method: &'static str, argument: Argument<'_>) -> u64 {
        if !self.object.has(method) {
            return 0;
        }
        let called = self.object.call(method, argument, self.mss);
        self.take(method, called.map(|(answered, _)| answered));
        called.map_or(0, |(_, tag)| tag)
    }

    fn take(&mut self, method: &'static str, answered: Option<GuestAnswers>) {
        let Some(answered) = answered else {
            self.answered.next_tick = Time::NEVER;
            return;
        };
        if answered.window != self.answered.window {
            self.set_by = method;
        }
        self.answered = answered;
    }
}

impl<O: Object> Handed for Guest<O> {
    fn take_over(&mut self, now: Time, window: u64) {
        let answered = self.object.take_over(window, self.mss);
        self.take(self.set_by, answered);
        self.call("on_start_end", Argument::Now(now));
    }
}

impl<O: Object> Controller for Guest<O> {
    fn on_sent(&mut self, sent: &Sent) -> Stamp {
        Stamp::new(self.call("on_sent", Argument::Sent(sent)), 0)
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.call("on_ack", Argument::Ack(ack));
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        self.call("on_loss", Argument::Loss(loss));
    }

    fn on_timeout(&mut self, timeout: &Timeout<'_>) {
        self.call("on_timeout", Argument::Timeout(timeout));
    }

    fn on_spurious(&mut self, now: Time) {
        self.call("on_spurious", Argument::Now(now));
    }

    fn on_cause(&mut self, _now: Time, packets: &[Lost]) {
        self.call("on_cause", Argument::Lost(packets));
    }

    fn on_restart(&mut self, restart: &Restart) {
        self.call("on_restart", Argument::Restart(restart));
    }

    fn on_app_limited(&mut self, now: Time, _in_flight: u64) {
        self.call("on_app_limited", Argument::Now(now));
    }

    fn on_telemetry(&mut self, telemetry: &Telemetry<'_>) {
        self.call("on_telemetry", Argument::Telemetry(telemetry));
    }

    fn on_mss(&mut self, _now: Time, mss: u32) {
        self.mss = mss.max(1);
        self.answered.window = self.answered.window.max(u64::from(self.mss));
        self.call("on_mss", Argument::Mss(mss));
    }

    fn on_tick(&mut self, now: Time) {
        let asked = self.answered.next_tick;
        self.call("on_tick", Argument::Now(now));
        if let Some(wrong) = self.answered.not_after(asked, now, O::LANGUAGE) {
            self.answered.next_tick = Time::NEVER;
            self.object.fail("on_tick", &wrong);
        }
    }

    fn nature(&self) -> Nature {
        let mut nature = Nature::PLAIN;
        nature.ecn = self.ecn;
        nature
    }

    fn permit(&self) -> Permit {
        self.answered.permit(self.recovery, self.object.has("on_sent"))
    }

    fn window_set_at(&self) -> Option<String> {
        Some(self.object.place(self.set_by))
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        report("cwnd_packets", self.answered.window as f64 / f64::from(self.mss));
        if let Pacing::Rate(rate) = self.answered.pacing {
            report("pacing_mbps", rate.as_mbps());
        }
        self.object.describe(report);
    }
}
