//! How controllers behave on six standard paths: a page for each, made from runs, and one that compares them.

mod page;
mod paths;
mod seen;

use paceline_cc::entry::Entry;
use paceline_lab::contestant::{Contestant, ContestantError};
use paceline_lab::race::{Job, Settings};
use paceline_lab::record::Run;
use paceline_lab::run::RunError;
use paceline_lab::runner::{Attempt, Failure, Progress, Runner, RunnerError, Task, TaskLabel};
use paceline_lab::scenario::{Options, Plan, ScenarioError, Source};

pub use page::{INDEX, pages};
pub use paths::{PATHS, StandardPath};
pub use seen::Seen;

/// A controller with what it did on each of [`PATHS`].
pub struct ControllerProfile {
    /// The controller, with its defaults, over `@udp`, which carries all of them.
    pub entry: &'static Entry,
    /// In the order of [`PATHS`]; or why the run failed.
    pub seen: Vec<Result<Seen, Box<Failure<RunError>>>>,
}

/// Why there are no profiles.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The controller cannot run over `@udp`.
    #[error(transparent)]
    Contestant(#[from] Box<ContestantError>),
    /// A standard path does not take it.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// Nothing could be run.
    #[error(transparent)]
    Runner(#[from] RunnerError<RunError>),
    /// The trace that comes with paceline is damaged.
    #[error(transparent)]
    Trace(#[from] paceline_path::TraceError),
}

/// One controller on one path.
struct Passage {
    contestant: Contestant,
    plan: Plan,
    settings: Settings,
}

impl Task for Passage {
    type Output = Run;
    type Error = RunError;

    fn label(&self) -> TaskLabel {
        self.plan.label(format!("{} on {}", self.contestant, self.plan.scenario.title))
    }

    fn run(&self) -> Result<Attempt<Run>, RunError> {
        Job { contestant: &self.contestant, plan: &self.plan, settings: &self.settings, programs: None }.run()
    }
}

/// Runs each controller on each path: in virtual time, with one seed, so that the same code gives the same profiles.
///
/// # Errors
/// When a controller cannot run in the simulator over `@udp`. A run that fails is kept with its reason.
pub fn profiles(
    entries: &[&'static Entry],
    threads: usize,
    progress: &dyn Progress,
) -> Result<Vec<ControllerProfile>, ProfileError> {
    let traces = crate::evaluate::traces()?;
    let mut tasks = Vec::new();
    for entry in entries {
        let contestant: Contestant = format!("{}@udp", entry.name).parse().map_err(Box::new)?;
        for path in &PATHS {
            let mut source = Source::from_text(path.id, &path.scenario(&contestant.to_string()), Options::default());
            for (name, trace) in &traces {
                source = source.with_trace(&format!("traces/{name}"), trace.clone());
            }
            let settings = Settings { series: true, ..Settings::default() };
            let task = |plan| Passage { contestant: contestant.clone(), plan, settings: settings.clone() };
            tasks.extend(source.plans()?.into_iter().map(task));
        }
    }
    let mut ended = Runner::new(threads, progress).each(&tasks)?.into_iter();
    let profile = |entry: &&'static Entry| {
        let ended = PATHS.iter().zip(ended.by_ref());
        let seen = ended.map(|(path, run)| Ok(Seen::of(path, &run.map_err(Box::new)?)));
        ControllerProfile { entry, seen: seen.collect() }
    };
    Ok(entries.iter().map(profile).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_cc::registry::CONTROLLERS;
    use paceline_lab::runner::Unwatched;

    #[test]
    fn the_pages_say_what_the_runs_show() {
        let entries: Vec<&'static Entry> = CONTROLLERS.iter().collect();
        let profiles = profiles(&entries, 0, &Unwatched).expect("they run");
        let on = |name: &str, id: &str| {
            let profile = profiles.iter().find(|profile| profile.entry.name == name).expect("a controller");
            let at = PATHS.iter().position(|path| path.id == id).expect("a path");
            profile.seen[at].as_ref().expect("it ran").clone()
        };
        // What everybody knows of the two: CUBIC fills the buffer, Copa does not; 1 % of losses stops CUBIC, not Copa.
        assert!(on("cubic", "deep").queue_p95_ms > 100.0 && on("copa", "deep").queue_p95_ms < 20.0);
        assert!(on("cubic", "lossy").share < 0.6 && on("copa", "lossy").share > 0.8);
        let share = on("cubic", "beside").share;
        assert!((0.3..0.7).contains(&share), "CUBIC beside itself takes {share}");
        let pages = pages(&profiles);
        assert_eq!(pages.len(), 1 + CONTROLLERS.len() * (1 + PATHS.len()), "an index, pages and pictures");
        let text = |name: &str| &pages.iter().find(|(known, _)| known == name).expect("it is there").1;
        assert!(text(INDEX).contains("[copa](copa.md)") && text("copa.md").contains("](copa-deep.svg)"));
        assert!(text("cubic.md").contains("| `beta` | 0.7 |"), "parameters with their defaults");
        assert!(text("copa-deep.svg").contains("<g class=\"c-copa d0\">"), "the colour of its name");
        for (name, text) in &pages {
            assert!(!text.contains("NaN") && text.len() < 60_000, "{name}: {} bytes", text.len());
        }
    }
}
