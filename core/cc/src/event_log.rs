//! Event logs: everything that one controller was informed of and everything that it answered, written and read back.
//!
//! JSON Lines. The first line is a [`Header`]; each further one is an event with all its fields, and the answers that are
//! others than before it. Numbers are exact, so that a replay gives the same answers bit by bit: [`replay`]. The format is
//! specified in `docs/design/event-log.md`, since controllers in other languages are held against the same logs.
//!
//! ```
//! use paceline_cc::event_log::{Log, Reader, replay};
//! use paceline_cc::observe::{Event, Observer};
//! use paceline_cc::{Env, Spec, Time};
//!
//! let (spec, env): (Spec, Env) = ("reno".parse()?, Env::default());
//! let mut log = Log::new(Vec::new(), &spec, &env, "an example")?;
//! log.on_event(&Event::Tick(Time::from_millis(20)), spec.build(&env).as_ref());
//! let written = log.finish()?;
//!
//! let mut reader = Reader::new("example", written.as_slice())?;
//! assert_eq!(replay(&mut reader, spec.build(&env).as_mut())?, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod event;
mod field;
mod reader;
mod replay;
#[cfg(test)]
mod tests;
mod variables;

use std::io::{self, Write};

use crate::controller::{Controller, Ecn, Env, Nature, Recovery};
use crate::observe::{Answers, Event, Observer};
use crate::registry::Spec;
use crate::units::Nanos;
use field::{Fields, Writing};

pub use event::Recorded;
pub use reader::{Line, LogError, Reader};
pub use replay::{Mismatch, ReplayError, Substitute, replay};
pub use variables::{MOST_VARIABLES, Variables};

/// What the header's `format` says.
pub const FORMAT: &str = "paceline-events";
/// The version of a log without variables.
pub const VERSION: u32 = 1;
/// The version of one with the controller's own variables. Both are read.
pub const VERSION_WITH_VARIABLES: u32 = 2;
/// The longest line in bytes. 8 MiB: a timeout that loses some 80 000 packets (our choice, because a reader holds a line at once).
pub const MAX_LINE: usize = 8 << 20;

/// The first line of a log: what the controller was made of, and what it answered before any event.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// What was run, for people.
    pub about: String,
    /// The controller, as [`Spec`] writes it.
    pub controller: String,
    /// What it was made with.
    pub env: Env,
    /// What it answers once.
    pub constants: Constants,
    /// Its first answers.
    pub answers: Answers,
    /// Its variables then, in a log that has them.
    pub variables: Option<Variables>,
}

/// What a controller answers as its flow starts, and that no line of a log changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constants {
    /// [`Permit::recovery`](crate::controller::Permit::recovery).
    pub recovery: Recovery,
    /// [`Nature::ecn`].
    pub ecn: Ecn,
    /// [`Nature::heartbeat`].
    pub heartbeat: Option<Nanos>,
}

impl Constants {
    /// Of this controller.
    pub fn of(controller: &dyn Controller) -> Self {
        let Nature { ecn, heartbeat } = controller.nature();
        Self { recovery: controller.permit().recovery, ecn, heartbeat }
    }
}

impl Header {
    /// Of a controller that is made of `spec` and `env`.
    pub fn new(spec: &Spec, env: &Env, about: &str) -> Self {
        let fresh = spec.build(env);
        Self {
            about: about.to_owned(),
            controller: spec.to_string(),
            env: *env,
            constants: Constants::of(fresh.as_ref()),
            answers: Answers::of(fresh.as_ref()),
            variables: None,
        }
    }

    /// The same of a log with the controller's variables.
    pub fn with_variables(spec: &Spec, env: &Env, about: &str) -> Self {
        let variables = Some(Variables::of(spec.build(env).as_ref()));
        Self { variables, ..Self::new(spec, env, about) }
    }
}

/// All answers as one JSON object, as a header has them.
pub fn answers_json(answers: &Answers) -> String {
    let mut line = String::new();
    answers.put(&mut Writing::begin(&mut line));
    line.push('}');
    line
}

/// Writes an event log; an [`Observer`].
#[derive(Debug)]
pub struct Log<W> {
    out: W,
    line: String,
    answers: Answers,
    variables: Option<Variables>,
    failed: Option<io::Error>,
}

impl<W: Write> Log<W> {
    /// Begins a log of a controller that is made of `spec` and `env`; `about` says what is run.
    ///
    /// # Errors
    /// When the header cannot be written.
    pub fn new(out: W, spec: &Spec, env: &Env, about: &str) -> io::Result<Self> {
        Self::with_header(out, &Header::new(spec, env, about))
    }

    /// Begins a log with this header.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn with_header(out: W, header: &Header) -> io::Result<Self> {
        let (answers, variables) = (header.answers, header.variables.clone());
        let mut log = Self { out, line: String::new(), answers, variables, failed: None };
        header.write(&mut Writing::begin(&mut log.line));
        log.end_line()?;
        Ok(log)
    }

    /// Adds an event, what the controller answered to it, and in a log with variables what they are then.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(
        &mut self,
        event: &Event<'_>,
        answers: &Answers,
        variables: impl FnOnce() -> Variables,
    ) -> io::Result<()> {
        let mut line = Writing::begin(&mut self.line);
        event.write(&mut line);
        answers.write_changed(&self.answers, &mut line);
        self.answers = *answers;
        if let Some(before) = &mut self.variables {
            let now = variables();
            now.write_changed(before, &mut line);
            *before = now;
        }
        self.end_line()
    }

    /// Ends the log; its output stays open.
    ///
    /// # Errors
    /// The first failure of an event that it observed, or that of the last bytes.
    pub fn finish(mut self) -> io::Result<W> {
        match self.failed.take() {
            Some(error) => Err(error),
            None => self.out.flush().map(|()| self.out),
        }
    }

    fn end_line(&mut self) -> io::Result<()> {
        self.line.push_str("}\n");
        if self.line.len() > MAX_LINE {
            let problem = format!("an event of {} bytes is too long for an event log", self.line.len());
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        self.out.write_all(self.line.as_bytes())
    }
}

impl<W: Write + Send> Observer for Log<W> {
    fn on_event(&mut self, event: &Event<'_>, controller: &dyn Controller) {
        if self.failed.is_none() {
            self.failed = self.write(event, &Answers::of(controller), || Variables::of(controller)).err();
        }
    }
}
