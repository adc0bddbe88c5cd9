//! A race: every contestant of a scenario, alone on the same path, run after run with the same seeds.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use paceline_cc::{Nanos, Time};
use paceline_experiment::endpoints::{self, NotSimulated};
use paceline_experiment::{Config, Cross, Distribution, Excess, Flow, Hooks, Live, Outcome, Series, SharedTap};

use crate::contestant::Contestant;
use crate::flow_logs::FlowLogError;
use crate::measure::{self, Meter};
use crate::real::{self, Host, RealError};
use crate::record::{Run, rounded};
use crate::run_logs::RunLogs;
use crate::runner::{Attempt, Failure, Progress, Runner, RunnerError, Task, Unwatched};
use crate::scenario::{KeyError, Plan, Scenario, ScenarioError, Source};
use crate::stats::Summary;
use crate::version;

/// A race that was run.
#[derive(Debug)]
pub struct Race {
    /// Name of the scenario.
    pub name: String,
    /// One line for people: the scenario's title, or its name, and what was set otherwise.
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
    /// Runs that failed, each by its contestant and number.
    pub failures: Vec<Failure<RunError>>,
    /// What the world did otherwise than the scenario says, one line each.
    pub notes: Vec<String>,
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

impl World {
    /// How many runs at once, 0 for one per core: in the real world a single one where nothing else is asked for.
    pub fn threads(self, wanted: usize) -> usize {
        match self {
            Self::Sim => wanted,
            Self::Real => wanted.max(1),
        }
    }

    /// How long a plan takes on the wall's clock, where that is known.
    pub fn lasts(self, plan: &Plan) -> Duration {
        match self {
            Self::Sim => Duration::ZERO,
            Self::Real => real::lasts(plan),
        }
    }
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
    /// Keep them of every run.
    pub series_of_all: bool,
    /// Measure what each run costs.
    pub measure: bool,
    /// Write a qlog of each flow of the first run of each contestant into this folder.
    pub qlog: Option<PathBuf>,
    /// Write an event log of each controller of these flows into this folder.
    pub events: Option<PathBuf>,
    /// What a run in the real world adds to as it goes on, for someone who watches; of several at once it is their sum.
    pub live: Option<Arc<Live>>,
}

/// Why a race could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RaceError {
    /// The scenario or an option is wrong.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The simulator cannot run it.
    #[error(transparent)]
    Sim(#[from] NotSimulated),
    /// The real world cannot run it.
    #[error(transparent)]
    Real(#[from] RealError),
    /// No run was begun, or what was run could not be kept.
    #[error(transparent)]
    Runner(#[from] RunnerError<RunError>),
}

/// Why a run did not reach its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// Its world cannot be built.
    #[error(transparent)]
    Plan(#[from] KeyError),
    /// Its logs cannot be written.
    #[error(transparent)]
    Log(#[from] FlowLogError),
    /// A window is in the wrong unit.
    #[error(transparent)]
    Excess(#[from] Excess),
    /// The real world ended it.
    #[error(transparent)]
    Real(#[from] RealError),
}

/// Points of a series (our choice: about what a plot can show).
const POINTS: f64 = 600.0;

/// Runs every contestant of the scenario as often as it says.
///
/// # Errors
/// When scenario, options or traces are wrong; before anything is run.
pub fn race(source: &Source, settings: &Settings) -> Result<Race, RaceError> {
    race_watched(source, settings, &Unwatched)
}

/// As [`race`], with someone who watches.
///
/// # Errors
/// As [`race`].
pub fn race_watched(source: &Source, settings: &Settings, progress: &dyn Progress) -> Result<Race, RaceError> {
    let plans = source.plans()?;
    let Some(first) = plans.first() else { unreachable!("a scenario has at least one run: checked") };
    let scenario = &first.scenario;
    let job = |contestant, plan| Job { contestant, plan, settings };
    let jobs: Vec<Job<'_>> = scenario
        .contestants
        .iter()
        .flat_map(|contestant| plans.iter().map(move |plan| job(contestant, plan)))
        .collect();
    let mut notes = first.notes.clone();
    notes.extend(match settings.world {
        World::Sim => {
            let mut flows = scenario.contestants.iter().flat_map(|contestant| first.flows(contestant));
            flows.try_for_each(|flow| endpoints::check(&flow))?;
            Vec::new()
        }
        World::Real => real::check(&scenario.contestants, &plans)?,
    });
    let mut runs = Vec::new();
    let mut failures = Vec::new();
    for result in Runner::new(settings.world.threads(settings.threads), progress).each(&jobs)? {
        match result {
            Ok(run) => runs.push(run),
            Err(failure) => failures.push(failure),
        }
    }
    notes.extend(unseen(settings, &runs));
    let summaries = Summary::all(runs.iter().map(|run| &run.record));
    for run in &mut runs {
        let name = run.record.contestant();
        run.contestant = summaries.iter().position(|summary| summary.contestant == name).unwrap_or_default();
    }
    Ok(Race {
        name: scenario.name.clone(),
        title: titled(scenario, source.set()),
        scenario: source.text().to_owned(),
        effective: first.to_toml(),
        seed: scenario.seed,
        version: version::VERSION.to_owned(),
        runs,
        summaries,
        failures,
        notes,
    })
}

/// A title may speak of a value that was set otherwise.
fn titled(scenario: &Scenario, set: &[String]) -> String {
    let title = if scenario.title.is_empty() { &scenario.name } else { &scenario.title };
    if set.is_empty() { title.clone() } else { format!("{title}; but {}", set.join(", ")) }
}

/// One run of one contestant.
pub struct Job<'a> {
    /// Who runs.
    pub contestant: &'a Contestant,
    /// On what.
    pub plan: &'a Plan,
    /// How.
    pub settings: &'a Settings,
}

impl Task for Job<'_> {
    type Output = Run;
    type Error = RunError;

    fn name(&self) -> String {
        self.contestant.to_string()
    }

    fn number(&self) -> u32 {
        self.plan.number
    }

    fn seed(&self) -> u64 {
        self.plan.scenario.seed
    }

    fn lasts(&self) -> Duration {
        self.settings.world.lasts(self.plan)
    }

    fn run(&self) -> Result<Attempt<Run>, RunError> {
        let run = run(self.contestant, self.plan, self.settings)?;
        Ok(Attempt { trusted: run.record.trusted != Some(false), output: run })
    }
}

fn run(contestant: &Contestant, plan: &Plan, settings: &Settings) -> Result<Run, RunError> {
    let shown = plan.number == 1;
    let step = Nanos::from_millis((plan.scenario.seconds * 1e3 / POINTS).ceil().max(1.0) as u64);
    let sample_every = (settings.series && (shown || settings.series_of_all)).then_some(step);
    let meter = settings.measure.then(Meter::start);
    let (flows, outcome, host) = match settings.world {
        World::Sim => {
            let (flows, outcome) = simulate(contestant, plan, sample_every, settings)?;
            (flows, outcome, None)
        }
        World::Real => {
            let (flows, outcome, host) = race_real(contestant, plan, sample_every, settings)?;
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
        completion_quantiles_ms: measure::completions(&flows, &outcome).as_ref().map(quantiles).unwrap_or_default(),
        cross_mbps: outcome
            .series
            .as_ref()
            .map(|series| cross_mbps(plan, contestant, series))
            .transpose()?
            .unwrap_or_default(),
        series: outcome.series,
    })
}

/// What traffic without a controller offers to the link that the series shows, on average in each step; empty where there is none.
fn cross_mbps(plan: &Plan, contestant: &Contestant, series: &Series) -> Result<Vec<f64>, RunError> {
    let world: Config<()> = plan.world(contestant, None)?;
    let (graph, shown) = (world.topology.graph(), world.topology.shown());
    let over = |cross: &&Cross| graph.route(cross.way).is_some_and(|route| route.contains(&shown));
    let sources: Vec<&Cross> = world.cross.iter().filter(over).collect();
    if sources.is_empty() {
        return Ok(Vec::new());
    }
    let step = series.step.as_secs_f64();
    let offered = |index: usize| {
        let (from, to) = (step * index as f64, step * (index + 1) as f64);
        let of = |cross: &&Cross| {
            let since = from.max((cross.start - Time::ZERO).as_secs_f64());
            let until = cross.stop.map_or(to, |stop| to.min((stop - Time::ZERO).as_secs_f64()));
            cross.rate.as_mbps() * ((until - since) / step).clamp(0.0, 1.0)
        };
        sources.iter().map(of).sum()
    };
    Ok((0..series.capacity_mbps.len()).map(offered).collect())
}

/// The logs of a run that are asked for: those of the first of a contestant.
///
/// # Errors
/// When a folder cannot be made.
pub fn logs(contestant: &Contestant, plan: &Plan, settings: &Settings) -> Result<RunLogs, FlowLogError> {
    let wanted = |folder: &Option<PathBuf>| folder.clone().filter(|_| plan.number == 1);
    let about = format!("{}, seed {}, run 1", plan.scenario.name, plan.scenario.seed);
    let (qlog, events) = (wanted(&settings.qlog), wanted(&settings.events));
    RunLogs::open(qlog.as_deref(), events.as_deref(), &contestant.to_string(), &about)
}

/// A run in virtual time: its flows, and what it left.
fn simulate(
    contestant: &Contestant,
    plan: &Plan,
    sample_every: Option<Nanos>,
    settings: &Settings,
) -> Result<(Vec<Flow>, Outcome), RunError> {
    let world = plan.world(contestant, sample_every)?;
    let flows = world.flows.clone();
    let mut logs = logs(contestant, plan, settings)?;
    let mut outcome = paceline_sim::run(world, logs.tap());
    logs.finish()?;
    outcome.excess.take().map_or(Ok((flows, outcome)), |excess| Err(excess.into()))
}

/// A run in real time.
fn race_real(
    contestant: &Contestant,
    plan: &Plan,
    sample_every: Option<Nanos>,
    settings: &Settings,
) -> Result<(Vec<Flow>, Outcome, Host), RunError> {
    if let Some(live) = &settings.live {
        live.begin(&format!("{contestant} run {}", plan.number));
    }
    let mut logs = logs(contestant, plan, settings)?;
    let wanted = logs.tap().is_some();
    let logs = Arc::new(Mutex::new(logs));
    let tap = wanted.then(|| Arc::clone(&logs) as SharedTap);
    let hooks = Hooks { live: settings.live.clone(), tap, ..Hooks::default() };
    let ended = real::run_with(contestant, plan, sample_every, hooks)?;
    std::mem::take(&mut *logs.lock().unwrap_or_else(PoisonError::into_inner)).finish()?;
    Ok(ended)
}

/// Of contestants whose controller no log can see, where logs are asked for.
fn unseen(settings: &Settings, runs: &[Run]) -> Vec<String> {
    if settings.qlog.is_none() && settings.events.is_none() {
        return Vec::new();
    }
    let inside = |run: &&Run| matches!(run.record.driven_by.as_deref(), Some("kernel" | "module"));
    let note = |run: &Run| {
        let (contestant, controller) = (run.record.contestant(), &run.record.controller);
        format!("{contestant}: no log: its controller is inside the kernel; write {controller}@tcp:driven_by=agent")
    };
    runs.iter().filter(|run| run.record.run == 1).filter(inside).map(note).collect()
}

fn quantiles(distribution: &Distribution) -> Vec<f64> {
    (0..=100).filter_map(|percent| distribution.quantile_ms(f64::from(percent) / 100.0).map(rounded)).collect()
}
