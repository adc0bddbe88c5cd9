//! Can a number be believed? Claims of theory and of the field, each run in the simulator and held against what it
//! gives. `paceline validate` writes them to `docs/results/validation.md`.

mod bench;
mod delay_based;
mod edges;
mod fairness;
mod loss_based;
mod native;
mod queues;
mod real;
mod wifi;

use std::sync::Arc;

use paceline_path::Trace;

use crate::claim::{Claim, ClaimError, markdown as claims};
use paceline_lab::contestant::Contestant;
use paceline_lab::runner::{Attempt, Progress, Runner, RunnerError, Task, TaskLabel};

use paceline_lab::race::RaceError;
use real::EVERYONE;
pub use real::{RealSettings, real};

/// A real trace: its file name without folder, and what is in it.
pub type NamedTrace = (String, Arc<Trace>);

/// File names of the traces that native implementations were measured on.
pub fn native_traces() -> [&'static str; 4] {
    native::TRACES
}

pub use bench::BenchError;

/// Why claims were not held against runs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ValidateError {
    /// A claim is about an unknown contestant.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// Runs failed; of those in virtual time each is a mistake in a claim.
    #[error(transparent)]
    Runner(#[from] RunnerError<BenchError>),
    /// A race could not be run.
    #[error(transparent)]
    Race(#[from] RaceError),
    /// No one of this name races.
    #[error("--contestants: no contestant '{wanted}' runs here; the contestants are {EVERYONE}")]
    NoSuch {
        /// As given.
        wanted: String,
    },
    /// No claims have this in their name.
    #[error("--only: no group of claims has '{wanted}' in its name; the groups are {known}")]
    NoGroup {
        /// As given.
        wanted: String,
        /// The names.
        known: String,
    },
    /// Nothing is left to run.
    #[error("--traces: no trace in this folder, so that there is nothing to run")]
    NoTrace,
}

/// Claims that the same runs answer.
struct Group {
    /// What failures call it.
    name: String,
    /// Whose runs they are.
    contestants: String,
    answer: Box<dyn Fn() -> Result<Vec<Claim>, BenchError> + Send + Sync>,
}

impl Group {
    /// Claims about these contestants, which `answer` is given.
    fn new(
        name: impl Into<String>,
        contestants: &[&str],
        answer: impl Fn(&[Contestant]) -> Result<Vec<Claim>, BenchError> + Send + Sync + 'static,
    ) -> Result<Self, ClaimError> {
        let name = name.into();
        let known: Vec<Contestant> =
            contestants.iter().map(|text| ClaimError::check(&name, text)).collect::<Result<_, _>>()?;
        Ok(Self { name, contestants: contestants.join(", "), answer: Box::new(move || answer(&known)) })
    }
}

impl Task for Group {
    type Output = Vec<Claim>;
    type Error = BenchError;

    fn label(&self) -> TaskLabel {
        TaskLabel { name: self.name.clone(), number: 1, seed: SEED }
    }

    fn run(&self) -> Result<Attempt<Vec<Claim>>, BenchError> {
        let mut claims = (self.answer)()?;
        for claim in claims.iter_mut().filter(|claim| claim.contestant.is_empty()) {
            claim.contestant.clone_from(&self.contestants);
        }
        Ok(Attempt::certain(claims))
    }
}

/// Seed of every run, where a claim is not about several.
const SEED: u64 = 1;

/// Every claim, in the order of the page.
fn groups(traces: &[NamedTrace]) -> Result<Vec<Group>, ClaimError> {
    let mut groups = queues::groups()?;
    groups.extend(wifi::groups()?);
    groups.extend(loss_based::groups()?);
    groups.extend(delay_based::groups()?);
    groups.extend(fairness::groups()?);
    groups.extend(edges::groups()?);
    groups.extend(native::groups(traces)?);
    Ok(groups)
}

/// Runs every claim, or those of the groups with `only` in their name, this many groups of them at once; 0 for one per core.
///
/// # Errors
/// When there is no such group, or a claim cannot be run, which is a mistake in it.
pub fn run(
    traces: &[NamedTrace],
    only: Option<&str>,
    threads: usize,
    progress: &dyn Progress,
) -> Result<Vec<Claim>, ValidateError> {
    let mut groups = groups(traces)?;
    if let Some(wanted) = only {
        let known: Vec<String> = groups.iter().map(|group| group.name.clone()).collect();
        groups.retain(|group| group.name.contains(wanted));
        if groups.is_empty() {
            return Err(ValidateError::NoGroup { wanted: wanted.to_owned(), known: known.join(", ") });
        }
    }
    let claims = Runner::new(threads, progress).all(&groups)?;
    Ok(claims.into_iter().flatten().collect())
}

/// The page: a table for each section.
pub fn markdown(claims: &[Claim]) -> String {
    claims::page(HEAD, "theory or field", section, claims)
}

/// The page of the simulator against the real world: a table for each scenario.
pub fn real_markdown(claims: &[Claim]) -> String {
    // Linux: the mean number of programs that wanted to run over the last 15 minutes.
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().nth(2).unwrap_or("unknown").to_owned();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let host =
        format!("The machine had {cores} processors and a load average of {load} when this page was written.\n\n");
    claims::page(&format!("{REAL_HEAD}{}{host}", real::INTRO), "real world", section, claims)
}

/// What stands around a section's table.
fn section(heading: &str) -> claims::Section {
    let (intro, reasons) = match heading {
        native::SECTION => (native::INTRO, native::REASONS),
        edges::SECTION => (edges::INTRO, edges::REASONS),
        wifi::SECTION => (wifi::INTRO, wifi::REASONS),
        fairness::SECTION => (fairness::INTRO, &[][..]),
        fairness::UNLIKE_SECTION => (fairness::UNLIKE_INTRO, fairness::REASONS),
        _ => ("", &[][..]),
    };
    claims::Section { intro, reasons }
}

const HEAD: &str = "\
    # Can a number be believed?\n\
    \n\
    Generated by `make validate TRACES=DIR`; do not edit. Runs of the simulator with seed 1 beside theory or the field. For each kind of\n\
    claim: how many hold, and for these the largest difference from the expected figure, or the range of ours. What misses has a row with the\n\
    reason. `paceline validate --traces DIR --json -` prints every claim with its figures ([fields](../guide/reproduce.md)), `--only TEXT` runs\n\
    some. Unless said: drop-tail, packets of 1500 bytes, each acknowledged, an RTT without queues. Real sockets and kernels:\n\
    [validation-real.md](validation-real.md).\n\
    \n";

const REAL_HEAD: &str = "\
    # Does the simulator agree with real sockets and kernels?\n\
    \n\
    Generated by `make validate-real TRACES=DIR`; do not edit. `paceline validate --real --json FILE` writes every claim with its figures\n\
    ([fields](../guide/reproduce.md)). How a real race works: [real-races.md](../guide/real-races.md). More figures, and what is known of\n\
    differences: [results](real-races.md).\n\
    \n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_claim_names_contestants_that_exist() {
        let groups = groups(&[]).unwrap();
        assert!(groups.iter().any(|group| group.contestants == "bbr@tcp"), "and there are some");
    }

    #[test]
    fn a_claim_about_an_unknown_contestant_is_refused_by_its_name() {
        let group = |text| Group::new("Reno's law", &[text], |_| Ok(Vec::new())).err().unwrap().to_string();
        assert_eq!(group("rno@tcp"), "claim 'Reno's law': unknown controller 'rno'; did you mean reno?");
        assert!(group("reno@tpc").starts_with("claim 'Reno's law': 'reno@tpc': unknown datapath 'tpc'"));
        assert!(group("sprout@tcp").starts_with("claim 'Reno's law': 'sprout@tcp': sprout needs its receiver half"));
    }

    #[test]
    fn what_was_not_run_is_claimed_all_the_same() {
        let group = native::groups(&[]).unwrap().remove(0);
        let claims = group.run().unwrap().output;
        assert_eq!((claims.len(), &*claims[0].contestant, claims[0].holds()), (1, "copa@udp", false));
        assert!(markdown(&claims).contains("0 of 0 claims hold. 1 was not run here."));
    }
}
