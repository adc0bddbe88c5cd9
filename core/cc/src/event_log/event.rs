//! The events of a log: how each is written, and how one that was read is fed to a controller.

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};

use super::field::{FieldError, Fields, Reading, Writing, fields};
use super::{Constants, FORMAT, Header, VERSION, VERSION_WITH_VARIABLES, Variables};
use crate::controller::{
    Ack, Acked, BadFeedback, Controller, Hop, Loss, Lost, Restart, Sent, Stamp, Telemetry, Timeout,
};
use crate::observe::{Answers, Event, Reply};
use crate::units::{Nanos, Time};

fields!(Sent { now seq bytes in_flight retransmission app_limited unsent });
fields!(Ack<'_> {
    now bytes rtt srtt min_rtt rate prior_in_flight in_flight lost_bytes ce_bytes ce_packets echo delivered una next phase
    window_limited
} list packets);
fields!(Loss<'_> { now bytes prior_in_flight in_flight new_episode } list packets);
fields!(Timeout<'_> { now prior_in_flight in_flight count } list packets);
fields!(Restart { now idle rto });
fields!(Telemetry<'_> { now packet verdict fresh_for } list hops);
fields!(Answers { window pacing next_tick threshold holds_against_marks });
fields!(Constants { recovery ecn heartbeat });

impl Event<'_> {
    /// Its name in an event log.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sent(..) => "sent",
            Self::Acked(_) => "acked",
            Self::Lost(_) => "lost",
            Self::Timeout(_) => "timeout",
            Self::Spurious(_) => "spurious",
            Self::Cause { .. } => "cause",
            Self::Mss { .. } => "mss",
            Self::Restart(_) => "restart",
            Self::AppLimited { .. } => "app_limited",
            Self::Telemetry(_) => "telemetry",
            Self::SharedRtt { .. } => "shared_rtt",
            Self::Feedback { .. } => "feedback",
            Self::Tick(_) => "tick",
        }
    }

    pub(super) fn write(&self, to: &mut Writing<'_>) {
        to.text("event", self.name());
        match self {
            Self::Sent(sent, stamp) => {
                sent.put(to);
                to.field("stamp", stamp);
            }
            Self::Acked(ack) => {
                ack.put(to);
                to.list("packets", ack.packets);
            }
            Self::Lost(loss) => {
                loss.put(to);
                to.list("packets", loss.packets);
            }
            Self::Timeout(timeout) => {
                timeout.put(to);
                to.list("packets", timeout.packets);
            }
            Self::Spurious(now) | Self::Tick(now) => to.field("now", now),
            Self::Cause { now, packets } => {
                to.field("now", now);
                to.list("packets", packets);
            }
            Self::Mss { now, mss } => {
                to.field("now", now);
                to.field("mss", mss);
            }
            Self::Restart(restart) => restart.put(to),
            Self::AppLimited { now, in_flight } => {
                to.field("now", now);
                to.field("in_flight", in_flight);
            }
            Self::Telemetry(telemetry) => {
                telemetry.put(to);
                to.list("hops", telemetry.hops);
            }
            Self::SharedRtt { now, min } => {
                to.field("now", now);
                to.field("min", min);
            }
            Self::Feedback { now, blob, result } => {
                to.field("now", now);
                to.text("blob", &HEXLOWER.encode(blob));
                to.field("refused", &result.is_err());
            }
        }
    }
}

/// An event that was read from a log. Lists lie beside the structures that [`Recorded::with`] joins them with.
#[derive(Clone, Debug)]
pub enum Recorded {
    /// [`Event::Sent`].
    Sent(Sent, Stamp),
    /// [`Event::Acked`].
    Acked(Ack<'static>, Vec<Acked>),
    /// [`Event::Lost`].
    Lost(Loss<'static>, Vec<Lost>),
    /// [`Event::Timeout`].
    Timeout(Timeout<'static>, Vec<Lost>),
    /// [`Event::Spurious`].
    Spurious(Time),
    /// [`Event::Cause`].
    Cause(Time, Vec<Lost>),
    /// [`Event::Mss`].
    Mss(Time, u32),
    /// [`Event::Restart`].
    Restart(Restart),
    /// [`Event::AppLimited`].
    AppLimited {
        /// Now.
        now: Time,
        /// Bytes in flight.
        in_flight: u64,
    },
    /// [`Event::Telemetry`].
    Telemetry(Telemetry<'static>, Vec<Hop>),
    /// [`Event::SharedRtt`].
    SharedRtt(Time, Nanos),
    /// [`Event::Feedback`].
    Feedback {
        /// Now.
        now: Time,
        /// The blob.
        blob: Vec<u8>,
        /// The controller could not read it.
        refused: bool,
    },
    /// [`Event::Tick`].
    Tick(Time),
}

impl Recorded {
    /// Shows the event as a controller's observer saw it. Of feedback that was refused the reason is not known.
    pub fn with<T>(&self, see: impl FnOnce(&Event<'_>) -> T) -> T {
        match self {
            Self::Sent(sent, stamp) => see(&Event::Sent(sent, *stamp)),
            Self::Acked(ack, packets) => see(&Event::Acked(&Ack { packets, ..*ack })),
            Self::Lost(loss, packets) => see(&Event::Lost(&Loss { packets, ..*loss })),
            Self::Timeout(timeout, packets) => see(&Event::Timeout(&Timeout { packets, ..*timeout })),
            Self::Spurious(now) => see(&Event::Spurious(*now)),
            Self::Cause(now, packets) => see(&Event::Cause { now: *now, packets }),
            Self::Mss(now, mss) => see(&Event::Mss { now: *now, mss: *mss }),
            Self::Restart(restart) => see(&Event::Restart(restart)),
            Self::AppLimited { now, in_flight } => see(&Event::AppLimited { now: *now, in_flight: *in_flight }),
            Self::Telemetry(telemetry, hops) => see(&Event::Telemetry(&Telemetry { hops, ..*telemetry })),
            Self::SharedRtt(now, min) => see(&Event::SharedRtt { now: *now, min: *min }),
            Self::Feedback { now, blob, refused } => {
                let bad = BadFeedback { len: blob.len(), what: "it was refused when it was recorded" };
                let result = if *refused { Err(bad) } else { Ok(()) };
                see(&Event::Feedback { now: *now, blob, result })
            }
            Self::Tick(now) => see(&Event::Tick(*now)),
        }
    }

    /// When it happened.
    #[expect(clippy::redundant_closure_for_method_calls, reason = "the method is not general in the event's lifetime")]
    pub fn now(&self) -> Time {
        self.with(|event| event.now())
    }

    /// Its name in an event log.
    #[expect(clippy::redundant_closure_for_method_calls, reason = "the method is not general in the event's lifetime")]
    pub fn name(&self) -> &'static str {
        self.with(|event| event.name())
    }

    /// What the recorded controller answered to it.
    pub(super) fn reply(&self) -> Reply {
        match self {
            Self::Sent(_, stamp) => Reply::Stamp(*stamp),
            Self::Feedback { refused, .. } => Reply::Refused(*refused),
            _ => Reply::Nothing,
        }
    }

    /// Informs `controller` of it.
    pub(super) fn feed(&self, controller: &mut dyn Controller) -> Reply {
        self.with(|event| event.feed(controller))
    }

    pub(super) fn read(from: &mut Reading) -> Result<Self, FieldError> {
        let name = from.text("event")?.ok_or_else(|| FieldError::new("event", "it is missing; add it"))?;
        let read = match name.as_str() {
            "sent" => Self::Sent(Sent::take(from)?, from.field("stamp")?),
            "acked" => Self::Acked(Ack::take(from)?, from.field("packets")?).checked()?,
            "lost" => Self::Lost(Loss::take(from)?, from.field("packets")?).checked()?,
            "timeout" => Self::Timeout(Timeout::take(from)?, from.field("packets")?),
            "spurious" => Self::Spurious(from.field("now")?),
            "cause" => Self::Cause(from.field("now")?, from.field("packets")?),
            "mss" => Self::Mss(from.field("now")?, from.field("mss")?).checked()?,
            "restart" => Self::Restart(Restart::take(from)?),
            "app_limited" => Self::AppLimited { now: from.field("now")?, in_flight: from.field("in_flight")? },
            "telemetry" => Self::Telemetry(Telemetry::take(from)?, from.field("hops")?),
            "shared_rtt" => Self::SharedRtt(from.field("now")?, from.field("min")?),
            "feedback" => {
                let text = from.text("blob")?.unwrap_or_default();
                let blob = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).map_err(|_| {
                    FieldError::new("blob", "it is not an even number of hexadecimal digits; write two a byte")
                })?;
                Self::Feedback { now: from.field("now")?, blob, refused: from.field("refused")? }
            }
            "tick" => Self::Tick(from.field("now")?),
            other => {
                const ALL: &str = "sent, acked, lost, timeout, spurious, cause, mss, restart, app_limited, telemetry, \
                                   shared_rtt, feedback, tick";
                let other = crate::foreign::clipped(other);
                return Err(FieldError::new("event", format!("there is no event '{other}'; write one of {ALL}")));
            }
        };
        Ok(read)
    }

    /// What every datapath promises of single fields.
    fn checked(self) -> Result<Self, FieldError> {
        let wrong = |path: &str, problem: &str| Err(FieldError::new(path, problem));
        match &self {
            Self::Acked(ack, _) if ack.rate.is_some_and(|rate| rate.interval == Nanos::ZERO) => {
                wrong("rate.interval", "an interval is never 0; leave the sample out")
            }
            Self::Lost(_, packets) if packets.is_empty() => {
                wrong("packets", "a loss names its packets; list them, or take the line out")
            }
            Self::Mss(_, 0) => wrong("mss", "full packets have at least 1 byte; write their size"),
            _ => Ok(self),
        }
    }
}

impl Answers {
    /// Those that differ from the ones before.
    pub(super) fn write_changed(&self, before: &Self, to: &mut Writing<'_>) {
        if self == before {
            return;
        }
        let Self { window, pacing, next_tick, threshold, holds_against_marks } = self;
        to.object("answers", |to| {
            to.changed("window", window, &before.window);
            to.changed("pacing", pacing, &before.pacing);
            to.changed("next_tick", next_tick, &before.next_tick);
            to.changed("threshold", threshold, &before.threshold);
            to.changed("holds_against_marks", holds_against_marks, &before.holds_against_marks);
        });
    }

    /// Takes in those that a line has.
    pub(super) fn update(&mut self, from: &mut Reading) -> Result<(), FieldError> {
        from.update("window", &mut self.window)?;
        from.update("pacing", &mut self.pacing)?;
        from.update("next_tick", &mut self.next_tick)?;
        from.update("threshold", &mut self.threshold)?;
        from.update("holds_against_marks", &mut self.holds_against_marks)
    }
}

impl Header {
    pub(super) fn write(&self, to: &mut Writing<'_>) {
        to.text("format", FORMAT);
        to.field("version", if self.variables.is_some() { &VERSION_WITH_VARIABLES } else { &VERSION });
        to.text("about", &self.about);
        to.text("controller", &self.controller);
        to.field("env", &self.env);
        to.object("constants", |to| self.constants.put(to));
        to.object("answers", |to| self.answers.put(to));
        if let Some(variables) = &self.variables {
            variables.write(to);
        }
    }

    pub(super) fn read(from: &mut Reading) -> Result<Self, FieldError> {
        if from.text("format")?.as_deref() != Some(FORMAT) {
            let problem = format!("it is not \"{FORMAT}\"; give an event log, as race --events writes");
            return Err(FieldError::new("format", problem));
        }
        let version: u32 = from.required("version")?;
        if ![VERSION, VERSION_WITH_VARIABLES].contains(&version) {
            let problem = format!(
                "{version} is unknown, {VERSION} and {VERSION_WITH_VARIABLES} are read; use the paceline that wrote the log"
            );
            return Err(FieldError::new("version", problem));
        }
        let missing = |name| FieldError::new(name, "it is missing; add it");
        let mut variables = (version == VERSION_WITH_VARIABLES).then(Variables::default);
        if let Some(variables) = &mut variables
            && !variables.update(from)?
        {
            return Err(missing("variables"));
        }
        let header = Self {
            about: from.text("about")?.unwrap_or_default(),
            controller: from.text("controller")?.ok_or_else(|| missing("controller"))?,
            env: from.required("env")?,
            constants: from.object("constants", Constants::take)?.ok_or_else(|| missing("constants"))?,
            answers: from.object("answers", Answers::take)?.ok_or_else(|| missing("answers"))?,
            variables,
        };
        if header.env.mss == 0 {
            return Err(FieldError::new("env.mss", "full packets have at least 1 byte; write their size"));
        }
        Ok(header)
    }
}
