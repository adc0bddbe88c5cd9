//! Can a number be believed? Claims of theory and of the field, each run in the simulator and held against what it
//! gives. `paceline validate` writes them to `docs/results/validation.md`.

mod bench;
mod delay_based;
mod fairness;
mod loss_based;
mod native;
mod queues;
mod real;

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

use paceline_path::{PathError, Trace};
use serde::Serialize;

use crate::runner::{Attempt, Progress, Runner, RunnerError, Task};

use crate::race::RaceError;
use real::EVERYONE;
pub use real::{RealSettings, real};

/// One claim and what the simulator says to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// Heading under which it stands.
    pub section: Cow<'static, str>,
    /// What was run.
    pub setup: String,
    /// What theory or the field says, with its source.
    pub says: String,
    /// What we get.
    pub ours: String,
    /// Whether that agrees within the tolerance that `says` states; `None` where it was not run.
    pub holds: Option<bool>,
    /// Why not, or what to know; empty when there is nothing.
    pub note: String,
}

impl Check {
    fn new(section: impl Into<Cow<'static, str>>, setup: impl Into<String>, says: impl Into<String>) -> Self {
        let (section, setup, says) = (section.into(), setup.into(), says.into());
        Self { section, setup, says, ours: String::new(), holds: None, note: String::new() }
    }

    fn got(mut self, ours: impl Into<String>, holds: bool) -> Self {
        self.ours = ours.into();
        self.holds = Some(holds);
        self
    }

    fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }
}

/// A real trace that somebody has: its file name without folder, and what is in it.
pub type NamedTrace = (String, Arc<Trace>);

/// File names of the traces that native implementations were measured on.
pub fn native_traces() -> [&'static str; 4] {
    native::TRACES
}

/// Why claims were not held against runs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ValidateError {
    /// Runs failed; of those in virtual time each is a mistake in a claim.
    #[error(transparent)]
    Runner(#[from] RunnerError<PathError>),
    /// A race could not be run.
    #[error(transparent)]
    Race(#[from] RaceError),
    /// Nobody of this name races.
    #[error("--contestants: no contestant '{wanted}' runs here; the contestants are {EVERYONE}")]
    NoSuch {
        /// As given.
        wanted: String,
    },
    /// Nothing is left to run.
    #[error("--traces: no trace in this folder, so that there is nothing to run")]
    NoTrace,
}

/// Claims that the same runs answer.
type Group = Box<dyn Fn() -> Result<Vec<Check>, PathError> + Send + Sync>;

struct Claims(Group);

impl Task for Claims {
    type Output = Vec<Check>;
    type Error = PathError;

    fn name(&self) -> String {
        "claims".to_owned()
    }

    fn seed(&self) -> u64 {
        1
    }

    fn run(&self) -> Result<Attempt<Vec<Check>>, PathError> {
        self.0().map(Attempt::certain)
    }
}

/// Runs every claim, so many groups of them at once; 0 for one per core.
///
/// # Errors
/// When a claim cannot be run, which is a mistake in it.
pub fn run(traces: &[NamedTrace], threads: usize, progress: &dyn Progress) -> Result<Vec<Check>, ValidateError> {
    let mut groups: Vec<Group> = Vec::new();
    groups.extend(queues::groups());
    groups.extend(loss_based::groups());
    groups.extend(delay_based::groups());
    groups.extend(fairness::groups());
    groups.extend(native::groups(traces));
    let tasks: Vec<Claims> = groups.into_iter().map(Claims).collect();
    Ok(Runner::new(threads, progress).all(&tasks)?.into_iter().flatten().collect())
}

/// The page: a table for each section.
pub fn markdown(checks: &[Check]) -> String {
    page(HEAD, "theory or field", checks)
}

/// The page of the simulator against the real world: a table for each scenario.
pub fn real_markdown(checks: &[Check]) -> String {
    // Linux: the mean number of programs that wanted to run over the last 15 minutes.
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().nth(2).unwrap_or("unknown").to_owned();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let host =
        format!("The machine had {cores} processors and a load average of {load} when this page was written.\n\n");
    page(&format!("{REAL_HEAD}{}{host}", real::INTRO), "real world", checks)
}

fn page(head: &str, other: &str, checks: &[Check]) -> String {
    let mut page = String::from(head);
    let run: Vec<bool> = checks.iter().filter_map(|check| check.holds).collect();
    let held = run.iter().filter(|holds| **holds).count();
    let left = match checks.len() - run.len() {
        0 => String::new(),
        left => format!(" {left} were not run here."),
    };
    let _ = writeln!(page, "{held} of {} claims hold.{left}", run.len());
    let mut section = "";
    for check in checks {
        if check.section != section {
            section = &check.section;
            let _ = write!(
                page,
                "\n## {section}\n\n{}| run | {other} | ours | holds |\n|---|---|---|---|\n",
                intro(section)
            );
        }
        let holds = match check.holds {
            Some(true) => "yes",
            Some(false) => "**no**",
            None => "not run",
        };
        let ours = [check.ours.as_str(), &check.note].into_iter().filter(|text| !text.is_empty());
        let ours = ours.collect::<Vec<_>>().join(" <br> ");
        let _ = writeln!(page, "| {} | {} | {ours} | {holds} |", check.setup, check.says);
    }
    page
}

/// What to know before a section's table.
fn intro(section: &str) -> &'static str {
    if section == native::SECTION { native::INTRO } else { "" }
}

const HEAD: &str = "# Can a number be believed?\n\n\
    Generated by `make validate TRACES=DIR`; do not edit. Every row is a run of the simulator with seed 1 beside what theory\n\
    or the field says of it. Links are drop-tail unless said, packets 1500 bytes, RTT means there and back without\n\
    queues, and each packet is acknowledged unless said. A row that does not hold stays, with the reason.\n\
    Real sockets and kernels beside the simulator: [validation-real.md](validation-real.md).\n\n";

const REAL_HEAD: &str = "# Does the simulator agree with real sockets and kernels?\n\n\
    Generated by `paceline validate --real --traces DIR` (`make validate-real TRACES=DIR`), or of a part by its other options; do not \
    edit. The traces\nare not part of the project. How a real race works: [real-races.md](../guide/real-races.md). What is known of \
    the rows that differ:\n[results](real-races.md).\n\n";

/// Whether `ours` is within `share` of `theirs`.
fn near(ours: f64, theirs: f64, share: f64) -> bool {
    (ours - theirs).abs() <= share * theirs.abs()
}
