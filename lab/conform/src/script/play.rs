//! A script, run: its events in their order, and each expectation judged where it stands.

use std::collections::BTreeMap;

use paceline_cc::observe::{Observed, Observer};
use paceline_cc::{Nanos, Spec, Time};

use super::flow::{Flow, FlowError};
use super::statement::{Expectation, Expected, Statement, Tolerance, What, When, Which};
use super::value::{Unit, Value, Written};
use super::{JudgedExpectation, MOST_STEPS, Place, Script, ScriptError, ScriptRun};

/// Longest time that a script may describe (our choice).
const LONGEST: Time = Time::from_nanos(3_600_000_000_000);

impl Script {
    /// Runs it with the controller that it names, or with `instead`. `observer` sees every event, as that of a datapath does.
    ///
    /// # Errors
    /// The first event that cannot happen: an acknowledgement of what is not in flight, time that runs backwards, feedback that the
    /// controller cannot read.
    pub fn run(&self, instead: Option<&Spec>, observer: Option<Box<dyn Observer>>) -> Result<ScriptRun, ScriptError> {
        let spec = instead.unwrap_or(&self.controller);
        let flow = Flow::new(self.env.mss, Observed::wrap(spec.build(&self.env), observer));
        let mut play = Play { script: self, flow, kept: BTreeMap::new(), steps: 0, judged: Vec::new() };
        play.all(&self.statements)?;
        Ok(ScriptRun { name: self.name.clone(), controller: spec.to_string(), judged: play.judged })
    }
}

struct Play<'a> {
    script: &'a Script,
    flow: Flow,
    kept: BTreeMap<&'a str, Option<Value>>,
    steps: u64,
    judged: Vec<JudgedExpectation>,
}

impl<'a> Play<'a> {
    fn all(&mut self, statements: &'a [Statement]) -> Result<(), ScriptError> {
        for statement in statements {
            self.step(statement.place)?;
            if let Some(when) = statement.when {
                self.go_on(statement.place, when)?;
            }
            self.happen(statement)?;
        }
        Ok(())
    }

    fn step(&mut self, place: Place) -> Result<(), ScriptError> {
        self.steps += 1;
        if self.steps > MOST_STEPS {
            return Err(self.error(place, &FlowError::TooMuch("events and expectations")));
        }
        Ok(())
    }

    fn error(&self, place: Place, problem: &FlowError) -> ScriptError {
        place.error(&self.script.name, problem.to_string())
    }

    fn go_on(&mut self, place: Place, when: When) -> Result<(), ScriptError> {
        let at = match when {
            When::At(at) => at,
            When::After(span) => self.flow.now + span,
        };
        let wrong = |problem: String| Err(place.error(&self.script.name, problem));
        if at < self.flow.now {
            let now = Written(Value::Number(self.flow.now.as_nanos() as f64, Unit::Span), 1);
            return wrong(format!("time runs backwards: the line before ends at {now}"));
        }
        if at > LONGEST {
            return wrong("a script lasts at most an hour".to_owned());
        }
        self.flow.advance(at).map_err(|problem| self.error(place, &problem))
    }

    fn happen(&mut self, statement: &'a Statement) -> Result<(), ScriptError> {
        let place = statement.place;
        let done = match &statement.what {
            What::Repeat { times, body } => {
                for _ in 0..*times {
                    self.step(place)?;
                    self.all(body)?;
                }
                return Ok(());
            }
            What::Expect(all) => {
                for expectation in all {
                    self.step(place)?;
                    self.judge(expectation);
                }
                return Ok(());
            }
            What::Let { name, asked } => {
                self.kept.insert(name, asked.of(self.flow.controller()).ok());
                return Ok(());
            }
            What::Sent { which, every, bytes, unsent } => return self.sent(place, which, *every, *bytes, *unsent),
            What::Acked { which, every, marked, received_at } => {
                return self.each(place, which, *every, |flow, some| flow.acknowledge(some, *marked, *received_at));
            }
            What::Lost { which, every, cause } => {
                return self.each(place, which, *every, |flow, some| flow.lose(some, *cause));
            }
            What::Handshake { rtt } => {
                self.flow.connect(*rtt);
                Ok(())
            }
            What::Timeout { which } => self.flow.of_flight(which).and_then(|some| self.flow.time_out(&some)),
            What::Spurious => {
                self.flow.spurious();
                Ok(())
            }
            What::Cause { cause, which } => self.flow.named(which).map(|some| self.flow.explain(&some, *cause)),
            What::Mss { mss } => {
                self.flow.set_mss(*mss);
                Ok(())
            }
            What::AppLimited => {
                self.flow.run_dry();
                Ok(())
            }
            What::Telemetry { packet, verdict, fresh_for, hops } => {
                self.flow.report(*packet, *verdict, *fresh_for, hops)
            }
            What::SharedRtt { min } => {
                self.flow.shared_rtt(*min);
                Ok(())
            }
            What::Feedback { blob, refused } => self.flow.feedback(blob, *refused),
        };
        done.map_err(|problem| self.error(place, &problem))
    }

    /// Packets leave, at once or `every` so often.
    fn sent(
        &mut self,
        place: Place,
        which: &Which,
        every: Option<Nanos>,
        bytes: Option<u32>,
        unsent: u64,
    ) -> Result<(), ScriptError> {
        let again = match which {
            Which::Numbers(_) => self.flow.named(which).map_err(|problem| self.error(place, &problem))?,
            Which::Count(_) | Which::All => Vec::new(),
        };
        let count = match which {
            Which::Numbers(_) => again.len() as u64,
            Which::Count(count) => *count,
            Which::All => self.flow.room().min(MOST_STEPS + 1),
        };
        for index in 0..count {
            if let Some(span) = every.filter(|_| index > 0) {
                self.go_on(place, When::After(span))?;
            }
            let sent = match again.get(index as usize) {
                Some(packet) => self.flow.send_again(*packet, unsent),
                None => self.flow.send(bytes.unwrap_or_else(|| self.flow.mss()), unsent),
            };
            sent.map_err(|problem| self.error(place, &problem))?;
        }
        self.flow.stop();
        Ok(())
    }

    /// One event for all of these packets, or one for each, `every` so often.
    fn each(
        &mut self,
        place: Place,
        which: &Which,
        every: Option<Nanos>,
        mut act: impl FnMut(&mut Flow, &[usize]) -> Result<(), FlowError>,
    ) -> Result<(), ScriptError> {
        let packets = self.flow.of_flight(which).map_err(|problem| self.error(place, &problem))?;
        if packets.is_empty() {
            return Err(self.error(place, &FlowError::Idle));
        }
        let size = if every.is_some() { 1 } else { packets.len() };
        for (index, some) in packets.chunks(size).enumerate() {
            self.step(place)?;
            if let Some(span) = every.filter(|_| index > 0) {
                self.go_on(place, When::After(span))?;
            }
            act(&mut self.flow, some).map_err(|problem| self.error(place, &problem))?;
        }
        Ok(())
    }

    fn judge(&mut self, expectation: &Expectation) {
        let mss = self.flow.mss();
        let (answered, holds) = match expectation.asked.of(self.flow.controller()) {
            Err(unreported) => (unreported.to_string(), false),
            Ok(answered) => match self.expected(&expectation.expected, mss) {
                None => (format!("{}; what it is held against had no value", Written(answered, mss)), false),
                Some(expected) => {
                    let slack = slack(expectation.tolerance, expected, mss);
                    let holds = slack.is_some_and(|slack| expectation.relation.holds(answered, expected, slack));
                    (Written(answered, mss).to_string(), holds)
                }
            },
        };
        self.judged.push(JudgedExpectation {
            line: expectation.place.line,
            column: expectation.place.column,
            at: self.flow.now,
            expected: expectation.text.clone(),
            answered,
            holds,
        });
    }

    fn expected(&self, expected: &Expected, mss: u32) -> Option<Value> {
        match expected {
            Expected::Value(value) => Some(value.with_mss(mss)),
            Expected::Kept { factor, name } => match (*self.kept.get(name.as_str())?)? {
                Value::Number(value, unit) => Some(Value::Number(factor * value, unit)),
                word @ Value::Word(_) => Some(word),
            },
        }
    }
}

/// What an equal number may be off by; `None` where the tolerance is in another unit.
fn slack(tolerance: Tolerance, expected: Value, mss: u32) -> Option<f64> {
    match (tolerance, expected) {
        (Tolerance::Exact, _) => Some(0.0),
        (Tolerance::Share(share), Value::Number(value, _)) => Some(share * value.abs()),
        (Tolerance::Value(slack), Value::Number(_, unit)) => match slack.with_mss(mss) {
            Value::Number(slack, of) if of == unit => Some(slack),
            _ => None,
        },
        (_, Value::Word(_)) => Some(0.0),
    }
}
