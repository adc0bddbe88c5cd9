//! A race: every contestant of a scenario, alone on the same path, run after run with the same seeds.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};
use paceline_cc::Nanos;
use paceline_experiment::{Distribution, Flow, Outcome, Series, endpoints};
use rayon::prelude::*;

use crate::contestant::Contestant;
use crate::journal::JournalError;
use crate::measure::{self, Meter};
use crate::qlog::Qlog;
use crate::real;
use crate::record::{Record, rounded};
use crate::scenario::{Plan, ScenarioError, Source};
use crate::stats::Summary;

/// A race that was run.
#[derive(Clone, Debug)]
pub struct Race {
    /// Name of the scenario.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// The scenario as written.
    pub scenario: String,
    /// The scenario as raced: options applied, every default filled in, ranges as written ([`Plan::to_toml`]).
    pub effective: String,
    /// Seed of the race.
    pub seed: u64,
    /// Version of paceline.
    pub version: String,
    /// Every run: by contestant in the scenario's order, then by number.
    pub runs: Vec<Run>,
    /// One for each contestant with a run, in the scenario's order.
    pub summaries: Vec<Summary>,
    /// Runs that failed.
    pub failures: Vec<Failure>,
    /// What the world did otherwise than the scenario says, one line each.
    pub notes: Vec<String>,
}

/// One run of one contestant.
#[derive(Clone, Debug)]
pub struct Run {
    /// Index in [`Race::summaries`].
    pub contestant: usize,
    /// Its record.
    pub record: Record,
    /// Which of its flows are the contestant's own; the others run beside them.
    pub own: Vec<bool>,
    /// Points over time: of the first run of each contestant, when asked for.
    pub series: Option<Series>,
    /// One-way delay in ms at the shares 0, 0.01, ... 1 of packets; empty when nothing arrived.
    pub delay_quantiles_ms: Vec<f64>,
    /// Queueing delay likewise.
    pub queue_quantiles_ms: Vec<f64>,
}

/// A run that did not reach its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Who ran.
    pub contestant: String,
    /// Which run.
    pub run: u32,
    /// What happened.
    pub reason: String,
}

/// Where a race is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum World {
    /// Virtual time, on all cores.
    #[default]
    Sim,
    /// Sockets and kernel flows in real time, one run after the other unless [`Settings::threads`] says otherwise.
    /// [`crate::real::acquire`] comes first.
    Real,
}

/// How a race is run; nothing of it but the world changes a figure.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Where.
    pub world: World,
    /// Runs at once; 0 for one a core, or a single one in the real world, where runs share the host.
    pub threads: usize,
    /// Keep points over time of the first run of each contestant.
    pub series: bool,
    /// Measure what each run costs.
    pub measure: bool,
    /// Show a progress bar, if standard error is a terminal.
    pub progress: bool,
    /// Write a log of each flow of the first run of each contestant into this folder.
    pub qlog: Option<PathBuf>,
}

/// Why a race could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RaceError {
    /// The scenario or an option is wrong.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The simulator cannot run it.
    #[error("{0}")]
    Sim(String),
    /// The real world cannot run it.
    #[error("{0}")]
    Real(String),
    /// The journal cannot be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// No threads.
    #[error("--threads: {0}; give a smaller number")]
    Threads(#[from] rayon::ThreadPoolBuildError),
}

/// Points of a series (our choice: about what a plot can show).
const POINTS: f64 = 600.0;

/// Runs every contestant of the scenario as often as it says.
///
/// # Errors
/// When scenario, options or traces are wrong; before anything is run.
pub fn race(source: &Source, settings: &Settings) -> Result<Race, RaceError> {
    let plans = source.plans()?;
    let Some(first) = plans.first() else { unreachable!("a scenario has at least one run: checked") };
    let scenario = &first.scenario;
    let jobs: Vec<(&Contestant, &Plan)> =
        scenario.contestants.iter().flat_map(|contestant| plans.iter().map(move |plan| (contestant, plan))).collect();
    let notes = match settings.world {
        World::Sim => {
            let mut flows = scenario.contestants.iter().flat_map(|contestant| first.flows(contestant));
            flows.try_for_each(|flow| endpoints::check(&flow)).map_err(RaceError::Sim)?;
            Vec::new()
        }
        World::Real => real::check(&scenario.contestants, &plans).map_err(RaceError::Real)?,
    };
    let threads = match settings.world {
        World::Sim => settings.threads,
        World::Real => settings.threads.max(1),
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.min(jobs.len())).build()?;
    let bar = progress_bar(jobs.len(), settings.progress);
    let run = |(contestant, plan): &(&Contestant, &Plan)| {
        let result = attempt(contestant, plan, settings);
        bar.inc(1);
        result
    };
    // Runs differ in length: a free thread takes the next one.
    let results: Vec<Result<Run, Failure>> = pool.install(|| jobs.par_iter().with_max_len(1).map(run).collect());
    bar.finish_and_clear();
    let mut runs = Vec::new();
    let mut failures = Vec::new();
    for result in results {
        match result {
            Ok(run) => runs.push(run),
            Err(failure) => failures.push(failure),
        }
    }
    let summaries = Summary::all(runs.iter().map(|run| &run.record));
    for run in &mut runs {
        let name = run.record.contestant();
        run.contestant = summaries.iter().position(|summary| summary.contestant == name).unwrap_or_default();
    }
    Ok(Race {
        name: scenario.name.clone(),
        title: scenario.title.clone(),
        scenario: source.text().to_owned(),
        effective: first.to_toml(),
        seed: scenario.seed,
        version: measure::VERSION.to_owned(),
        runs,
        summaries,
        failures,
        notes,
    })
}

/// A bar on standard error: nothing where that is no terminal.
fn progress_bar(jobs: usize, wanted: bool) -> ProgressBar {
    if !wanted {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} runs, {eta} left");
    ProgressBar::new(jobs as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// A run; a panic in it fails this run alone.
fn attempt(contestant: &Contestant, plan: &Plan, settings: &Settings) -> Result<Run, Failure> {
    let failure = |reason: String| Failure { contestant: contestant.to_string(), run: plan.number, reason };
    match catch_unwind(AssertUnwindSafe(|| run(contestant, plan, settings))) {
        Ok(result) => result.map_err(failure),
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().copied().map(str::to_owned);
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            Err(failure(text.unwrap_or_else(|| "it panicked".to_owned())))
        }
    }
}

fn run(contestant: &Contestant, plan: &Plan, settings: &Settings) -> Result<Run, String> {
    let shown = plan.number == 1;
    let step = Nanos::from_millis((plan.scenario.seconds * 1e3 / POINTS).ceil().max(1.0) as u64);
    let sample_every = (shown && settings.series).then_some(step);
    let meter = settings.measure.then(Meter::start);
    let (flows, outcome, host) = match settings.world {
        World::Sim => {
            let (flows, outcome) = simulate(contestant, plan, sample_every, settings.qlog.as_deref())?;
            (flows, outcome, None)
        }
        World::Real => {
            let (flows, outcome, host) = real::run(contestant, plan, sample_every)?;
            (flows, outcome, Some(host))
        }
    };
    let mut record = measure::record(plan, contestant, &flows, &outcome);
    if let Some(meter) = meter {
        meter.stop(&mut record);
    }
    if let Some(host) = host {
        host.add_to(&mut record);
    }
    Ok(Run {
        contestant: 0,
        record,
        own: plan.own(),
        delay_quantiles_ms: quantiles(&outcome.delay),
        queue_quantiles_ms: quantiles(&outcome.queue),
        series: outcome.series,
    })
}

/// A run in virtual time: its flows, and what it left. The first run of a contestant leaves logs in the folder `qlog`.
fn simulate(
    contestant: &Contestant,
    plan: &Plan,
    sample_every: Option<Nanos>,
    qlog: Option<&Path>,
) -> Result<(Vec<Flow>, Outcome), String> {
    let world = plan.world(contestant, sample_every).map_err(|(key, problem)| format!("{key}: {problem}"))?;
    let flows = world.flows.clone();
    let outcome = match qlog {
        Some(folder) if plan.number == 1 => {
            let name = contestant.to_string();
            let about = format!("{}, seed {}, run 1", plan.scenario.name, plan.scenario.seed);
            let mut log = Qlog::new(folder, &name, &about).map_err(|error| error.to_string())?;
            let outcome = paceline_sim::run(world, Some(&mut log));
            log.finish().map_err(|error| error.to_string())?;
            outcome
        }
        _ => paceline_sim::run(world, None),
    };
    Ok((flows, outcome))
}

fn quantiles(distribution: &Distribution) -> Vec<f64> {
    (0..=100).filter_map(|percent| distribution.quantile_ms(f64::from(percent) / 100.0).map(rounded)).collect()
}
