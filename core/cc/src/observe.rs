//! Watching a flow: everything that a datapath reports to a controller, as one stream of typed events, and everything that
//! the controller answers.
//!
//! [`Observed`] stands between the two and passes every call on. Where no one observes it is not there, and costs nothing.
//! [`crate::event_log`] writes both to a file and reads them back.

use std::sync::{Arc, Mutex, PoisonError};

use crate::controller::{
    Ack, BadFeedback, Controller, Loss, Lost, Nature, Pacing, Permit, Remembered, Restart, Sent, Stamp, Telemetry,
    Timeout,
};
use crate::units::{Nanos, Time};

/// What a datapath reported; the variants are the calls of [`Controller`].
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A packet left with this stamp.
    Sent(&'a Sent, Stamp),
    /// Something was delivered or marked.
    Acked(&'a Ack<'a>),
    /// Packets were declared lost.
    Lost(&'a Loss<'a>),
    /// The retransmission timer fired.
    Timeout(&'a Timeout<'a>),
    /// The last reduction answered a spurious loss.
    Spurious(Time),
    /// Why packets were lost has become known.
    Cause {
        /// Now.
        now: Time,
        /// The packets.
        packets: &'a [Lost],
    },
    /// Full packets have another size.
    Mss {
        /// Now.
        now: Time,
        /// Their payload bytes.
        mss: u32,
    },
    /// The flow sends again after a silence.
    Restart(&'a Restart),
    /// The application has nothing to send although the window is open.
    AppLimited {
        /// Now.
        now: Time,
        /// Bytes in flight.
        in_flight: u64,
    },
    /// The hops of the path reported.
    Telemetry(&'a Telemetry<'a>),
    /// Another flow over the same path measured an RTT.
    SharedRtt {
        /// Now.
        now: Time,
        /// The smallest RTT of all flows.
        min: Nanos,
    },
    /// The receiver half reported.
    Feedback {
        /// Now.
        now: Time,
        /// Its blob.
        blob: &'a [u8],
        /// Whether the controller could read it.
        result: Result<(), BadFeedback>,
    },
    /// The controller's own clock.
    Tick(Time),
}

impl Event<'_> {
    /// When it happened.
    pub fn now(&self) -> Time {
        match self {
            Self::Sent(sent, _) => sent.now,
            Self::Acked(ack) => ack.now,
            Self::Lost(loss) => loss.now,
            Self::Timeout(timeout) => timeout.now,
            Self::Restart(restart) => restart.now,
            Self::Telemetry(telemetry) => telemetry.now,
            Self::AppLimited { now, .. } | Self::SharedRtt { now, .. } | Self::Feedback { now, .. } => *now,
            Self::Cause { now, .. } | Self::Mss { now, .. } => *now,
            Self::Spurious(now) | Self::Tick(now) => *now,
        }
    }

    /// Informs `controller` of it. Its stamp, and the result of its feedback, are those of the controller that it happened to.
    pub fn feed(&self, controller: &mut dyn Controller) -> Reply {
        match self {
            Self::Sent(sent, _) => return Reply::Stamp(controller.on_sent(sent)),
            Self::Acked(ack) => controller.on_ack(ack),
            Self::Lost(loss) => controller.on_loss(loss),
            Self::Timeout(timeout) => controller.on_timeout(timeout),
            Self::Spurious(now) => controller.on_spurious(*now),
            Self::Cause { now, packets } => controller.on_cause(*now, packets),
            Self::Mss { now, mss } => controller.on_mss(*now, *mss),
            Self::Restart(restart) => controller.on_restart(restart),
            Self::AppLimited { now, in_flight } => controller.on_app_limited(*now, *in_flight),
            Self::Telemetry(telemetry) => controller.on_telemetry(telemetry),
            Self::SharedRtt { now, min } => controller.on_shared_rtt(*now, *min),
            Self::Feedback { now, blob, .. } => return Reply::Refused(controller.on_feedback(*now, blob).is_err()),
            Self::Tick(now) => controller.on_tick(*now),
        }
        Reply::Nothing
    }
}

/// What a controller answers to one event alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nothing is asked.
    Nothing,
    /// To a packet that left.
    Stamp(Stamp),
    /// To feedback: whether it could not be read.
    Refused(bool),
}

/// What a controller answers between two events, as logs hold it: the part of [`Permit`] that every event may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answers {
    /// [`Permit::window`] in bytes.
    pub window: u64,
    /// [`Permit::pacing`].
    pub pacing: Pacing,
    /// [`Permit::next_tick`].
    pub next_tick: Time,
    /// [`Permit::threshold`] in bytes.
    pub threshold: u64,
    /// [`Permit::holds_against_marks`].
    pub holds_against_marks: bool,
}

impl Answers {
    /// Of this controller, now.
    pub fn of(controller: &dyn Controller) -> Self {
        let Permit { window, pacing, next_tick, threshold, holds_against_marks, .. } = controller.permit();
        Self { window, pacing, next_tick, threshold, holds_against_marks }
    }
}

/// Sees the events of one flow.
pub trait Observer: Send {
    /// `event` happened. The controller has taken it in: it answers for what comes next ([`Answers::of`]) and describes
    /// itself.
    fn on_event(&mut self, event: &Event<'_>, controller: &dyn Controller);
}

/// One that its owner looks into later, and of which several controllers may have a part.
impl<T: Observer> Observer for Arc<Mutex<T>> {
    fn on_event(&mut self, event: &Event<'_>, controller: &dyn Controller) {
        self.lock().unwrap_or_else(PoisonError::into_inner).on_event(event, controller);
    }
}

/// Several, in their order.
impl Observer for Vec<Box<dyn Observer>> {
    fn on_event(&mut self, event: &Event<'_>, controller: &dyn Controller) {
        for observer in self {
            observer.on_event(event, controller);
        }
    }
}

/// One observer of both, where there are two.
pub fn both(one: Option<Box<dyn Observer>>, other: Option<Box<dyn Observer>>) -> Option<Box<dyn Observer>> {
    match (one, other) {
        (Some(one), Some(other)) => Some(Box::new(vec![one, other])),
        (one, other) => one.or(other),
    }
}

/// A controller that is observed.
pub struct Observed {
    controller: Box<dyn Controller>,
    observer: Box<dyn Observer>,
}

impl Observed {
    /// `controller`, seen by `observer` where there is one.
    pub fn wrap(controller: Box<dyn Controller>, observer: Option<Box<dyn Observer>>) -> Box<dyn Controller> {
        match observer {
            Some(observer) => Box::new(Self { controller, observer }),
            None => controller,
        }
    }

    fn report(&mut self, event: &Event<'_>) {
        self.observer.on_event(event, self.controller.as_ref());
    }
}

impl Controller for Observed {
    fn on_sent(&mut self, sent: &Sent) -> Stamp {
        let stamp = self.controller.on_sent(sent);
        self.report(&Event::Sent(sent, stamp));
        stamp
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.controller.on_ack(ack);
        self.report(&Event::Acked(ack));
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        self.controller.on_loss(loss);
        self.report(&Event::Lost(loss));
    }

    fn on_timeout(&mut self, timeout: &Timeout<'_>) {
        self.controller.on_timeout(timeout);
        self.report(&Event::Timeout(timeout));
    }

    fn on_spurious(&mut self, now: Time) {
        self.controller.on_spurious(now);
        self.report(&Event::Spurious(now));
    }

    fn on_cause(&mut self, now: Time, packets: &[Lost]) {
        self.controller.on_cause(now, packets);
        self.report(&Event::Cause { now, packets });
    }

    fn on_mss(&mut self, now: Time, mss: u32) {
        self.controller.on_mss(now, mss);
        self.report(&Event::Mss { now, mss });
    }

    fn on_restart(&mut self, restart: &Restart) {
        self.controller.on_restart(restart);
        self.report(&Event::Restart(restart));
    }

    fn on_app_limited(&mut self, now: Time, in_flight: u64) {
        self.controller.on_app_limited(now, in_flight);
        self.report(&Event::AppLimited { now, in_flight });
    }

    fn on_telemetry(&mut self, telemetry: &Telemetry<'_>) {
        self.controller.on_telemetry(telemetry);
        self.report(&Event::Telemetry(telemetry));
    }

    fn on_shared_rtt(&mut self, now: Time, min: Nanos) {
        self.controller.on_shared_rtt(now, min);
        self.report(&Event::SharedRtt { now, min });
    }

    fn on_feedback(&mut self, now: Time, blob: &[u8]) -> Result<(), BadFeedback> {
        let result = self.controller.on_feedback(now, blob);
        self.report(&Event::Feedback { now, blob, result });
        result
    }

    fn on_tick(&mut self, now: Time) {
        self.controller.on_tick(now);
        self.report(&Event::Tick(now));
    }

    fn nature(&self) -> Nature {
        self.controller.nature()
    }

    fn permit(&self) -> Permit {
        self.controller.permit()
    }

    fn remember(&self, now: Time) -> Option<Remembered> {
        self.controller.remember(now)
    }

    fn window_set_at(&self) -> Option<String> {
        self.controller.window_set_at()
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        self.controller.describe(report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::assert_passes_on;

    /// Names of events.
    struct Names(Arc<Mutex<Vec<&'static str>>>);

    impl Observer for Names {
        fn on_event(&mut self, event: &Event<'_>, _controller: &dyn Controller) {
            self.0.lock().unwrap().push(event.name());
        }
    }

    #[test]
    fn an_observed_controller_hears_and_answers_as_if_alone() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let observer = Box::new(Names(seen.clone()));
        assert_passes_on(|inside| Observed::wrap(inside, Some(observer)), |permit| permit);
        let mut seen = seen.lock().unwrap().clone();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 13, "{seen:?}");
    }
}
