//! Scripts: a flow written by hand, event by event, and what its controller has to answer. What packetdrill is for a TCP stack, for one
//! controller and without packets.
//!
//! The words are those of an event log, and [`paceline_transport::Driver`] makes the controller's calls of them, as in every datapath: round
//! trips, delivery rates, ticks and restarts come by themselves. The grammar stands in `docs/design/event-log.md`.
//!
//! ```
//! use paceline_conform::script::Script;
//!
//! let text = "controller reno\n0s sent window\n+100ms acked all\nexpect window = 20 packets\n";
//! let script = Script::parse("doubles.script", text, str::parse)?;
//! assert!(script.run(None, None)?.holds());
//! assert!(!script.run(Some(&"cubic:start=hystart,beta=0.8".parse()?), None)?.judged.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod events;
mod files;
mod flow;
mod grammar;
mod play;
mod said;
mod statement;
mod value;
mod words;

use paceline_cc::foreign::printable;
use paceline_cc::{Env, Spec, Time};

pub use files::{FOLDER_SUFFIX, run_files};
pub use said::{json_lines, table};
use statement::Statement;

/// Most packets that leave, events, ticks and expectations of a script, each (our choice: more than a hand writes, and less than a second).
pub const MOST_STEPS: u64 = 100_000;

/// What is wrong with a script, in one line: where, what, and what stands there instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {problem}")]
pub struct ScriptError {
    /// The file.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// What is wrong, and the fix.
    pub problem: String,
}

/// A place in a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    line: usize,
    column: usize,
}

impl Place {
    fn error(self, file: &str, problem: impl AsRef<str>) -> ScriptError {
        let problem = printable(problem.as_ref(), 300);
        ScriptError { file: file.to_owned(), line: self.line, column: self.column, problem }
    }
}

/// A script that was read.
#[derive(Clone, Debug)]
pub struct Script {
    /// The file.
    pub name: String,
    /// The controller that it names.
    pub controller: Spec,
    /// What the controller is made with.
    pub env: Env,
    statements: Vec<Statement>,
}

/// An expectation, as often as it was come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgedExpectation {
    /// Its line, from 1.
    pub line: usize,
    /// Its column, from 1.
    pub column: usize,
    /// When.
    pub at: Time,
    /// As it is written.
    pub expected: String,
    /// What the controller answered.
    pub answered: String,
    /// Whether that is what was expected.
    pub holds: bool,
}

/// What became of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptRun {
    /// The script.
    pub name: String,
    /// Who was driven.
    pub controller: String,
    /// Every expectation, in the order of time.
    pub judged: Vec<JudgedExpectation>,
}

impl ScriptRun {
    /// Whether all that was expected holds.
    pub fn holds(&self) -> bool {
        self.judged.iter().all(|one| one.holds)
    }
}

#[cfg(test)]
mod tests;
