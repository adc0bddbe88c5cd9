//! A race: every contestant of a scenario, alone on the same path, run after run with the same seeds.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use paceline_experiment::{DrivenBy, Live, SharedTap};

use crate::contestant::Contestant;
use crate::flow_logs::{FlowLogError, plain};
use crate::measure::Meter;
use crate::programs::{ProgramSettings, Programs, ProgramsError, permitted};
use crate::qlog::{About, Style};
use crate::record::Run;
use crate::run::{self, Observers, RunError, World};
use crate::run_logs::RunLogs;
use crate::runner::{Attempt, Failure, Progress, Runner, RunnerError, Task, TaskLabel, Unwatched};
use crate::scenario::{Plan, Scenario, ScenarioError, Source};
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
    /// How these are written.
    pub qlog_style: Style,
    /// Write an event log of each controller of these flows into this folder.
    pub events: Option<PathBuf>,
    /// With their variables.
    pub events_variables: bool,
    /// Real world: write the headers of all packets of the first run of each contestant into this folder, as `CONTESTANT.pcapng`.
    pub pcap: Option<PathBuf>,
    /// What is permitted to programs that are not ours, and kept of them.
    pub programs: ProgramSettings,
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
    /// The world cannot run it.
    #[error(transparent)]
    Refused(#[from] RunError),
    /// Its programs cannot run, or may not.
    #[error(transparent)]
    Programs(#[from] ProgramsError),
    /// No run was begun, or what was run could not be kept.
    #[error(transparent)]
    Runner(#[from] RunnerError<RunError>),
}

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
    let mut notes = first.notes.clone();
    permitted(first, settings.world, &settings.programs)?;
    notes.extend(settings.world.check(&scenario.contestants, &plans)?);
    let mut contestants = scenario.contestants.clone();
    let (programs, said) = Programs::ready(&mut contestants, first, settings.world, &settings.programs, progress)?;
    notes.extend(said);
    let ready = programs.as_ref();
    let job = |contestant, plan| Job { contestant, plan, settings, programs: ready };
    let jobs: Vec<Job<'_>> =
        contestants.iter().flat_map(|contestant| plans.iter().map(move |plan| job(contestant, plan))).collect();
    let mut runs = Vec::new();
    let mut failures = Vec::new();
    for result in Runner::new(settings.world.threads(settings.threads), progress).each(&jobs)? {
        match result {
            Ok(run) => runs.push(run),
            Err(failure) => failures.push(failure),
        }
    }
    notes.extend(programs.and_then(|programs| programs.end(!failures.is_empty())));
    notes.extend(of_programs(&runs));
    notes.extend(unseen(settings, &runs));
    notes.extend(unfired(scenario, &runs));
    let summaries = summed(&mut runs);
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

/// A summary for each contestant of these runs, which learn their places among them.
pub fn summed(runs: &mut [Run]) -> Vec<Summary> {
    let summaries = Summary::all(runs.iter().map(|run| &run.record));
    for run in runs {
        let name = run.record.contestant();
        run.contestant = summaries.iter().position(|summary| summary.contestant == name).unwrap_or_default();
    }
    summaries
}

/// What is to be known of figures of programs.
fn of_programs(runs: &[Run]) -> Vec<String> {
    let mut notes = Vec::new();
    for Run { record, .. } in runs {
        let mut flows = record.flows.iter().filter_map(|flow| Some((flow, flow.program.as_ref()?))).peekable();
        if flows.peek().is_some() {
            let what = "CPU time is that of all its processes, encryption included: not to be compared with a controller's of ours";
            notes.extend(record.cpu_s.filter(|cpu| *cpu > 0.0).map(|_| format!("NAME@program: {what}")));
        }
        let overfull =
            flows.filter(|(flow, program)| program.protocol.as_deref() == Some("tcp") && flow.retransmits.is_none());
        notes.extend(overfull.map(|(flow, _)| {
            let name = format!("{}@{}", flow.controller, flow.via);
            format!("{name}: more connections than are followed: retransmissions and goodput are not counted")
        }));
    }
    notes.sort();
    notes.dedup();
    notes
}

/// What controllers were to trigger and never did.
fn unfired(scenario: &Scenario, runs: &[Run]) -> Vec<String> {
    let whens = 0..scenario.when.len() as u32;
    let of = |Run { record, .. }: &Run| {
        let never = whens.clone().filter(|number| record.fired.iter().all(|fired| fired.when != *number));
        let note = |number| format!("{} run {}: [[when]] {number} never acted", record.contestant(), record.run);
        never.map(note).collect::<Vec<_>>()
    };
    runs.iter().flat_map(of).collect()
}

/// One line for people: the scenario's title, or its name, and what was set otherwise, since a title may speak of that value.
pub fn titled(scenario: &Scenario, set: &[String]) -> String {
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
    /// The programs of the race, where there are some.
    pub programs: Option<&'a Programs>,
}

impl Task for Job<'_> {
    type Output = Run;
    type Error = RunError;

    fn label(&self) -> TaskLabel {
        self.plan.label(self.contestant.to_string())
    }

    fn lasts(&self) -> Duration {
        self.settings.world.lasts(self.plan)
    }

    fn run(&self) -> Result<Attempt<Run>, RunError> {
        let Self { contestant, plan, settings, programs } = *self;
        let shown = plan.number == 1;
        let sample_every = (settings.series && (shown || settings.series_of_all)).then(|| run::step(plan));
        if let Some(live) = &settings.live {
            live.begin(&format!("{contestant} run {}", plan.number));
        }
        let meter = settings.measure.then(Meter::start);
        let mut logs = logs(contestant, plan, settings)?;
        let wanted = logs.tap().is_some();
        let logs = Arc::new(Mutex::new(logs));
        let tap = wanted.then(|| Arc::clone(&logs) as SharedTap);
        let pcap = settings.pcap.as_ref().filter(|_| plan.number == 1).map(|folder| capture(folder, contestant));
        let places = programs.map(|programs| programs.places(contestant, plan.number));
        let (live, pcap, programs_at) = (settings.live.clone(), pcap.transpose()?, places.clone());
        let observers = Observers { sample_every, tap, live, pcap, programs: programs_at, ..Observers::default() };
        let ended = run::run(plan, contestant, settings.world, &observers)?;
        let trusted = ended.trusted();
        std::mem::take(&mut *logs.lock().unwrap_or_else(PoisonError::into_inner)).finish()?;
        let mut run = Run::of(plan, contestant, ended)?;
        if let (Some(programs), Some(places)) = (programs, places) {
            programs.over(&places, &mut run.record);
        }
        if let Some(meter) = meter {
            meter.stop(&mut run.record);
        }
        Ok(Attempt { output: run, trusted })
    }
}

/// The capture of a contestant in this folder, which is made where it is missing.
fn capture(folder: &Path, contestant: &Contestant) -> Result<PathBuf, FlowLogError> {
    let failed = |source| FlowLogError { kind: "pcap", folder: folder.to_owned(), source };
    std::fs::create_dir_all(folder).map_err(failed)?;
    Ok(folder.join(format!("{}.pcapng", plain(&contestant.to_string()))))
}

/// The logs of a run that are asked for: those of the first of a contestant.
///
/// # Errors
/// When a folder cannot be made.
pub fn logs(contestant: &Contestant, plan: &Plan, settings: &Settings) -> Result<RunLogs, FlowLogError> {
    let wanted = |folder: &Option<PathBuf>| folder.clone().filter(|_| plan.number == 1);
    let (name, seed) = (plan.scenario.name.clone(), plan.scenario.seed);
    let about = About { text: format!("{name}, seed {seed}, run 1"), scenario: Some((name, 1, seed)) };
    let (qlog, events) = (wanted(&settings.qlog), wanted(&settings.events));
    let qlog = qlog.as_deref().map(|folder| (folder, settings.qlog_style));
    let logs = RunLogs::open(qlog, events.as_deref(), &contestant.to_string(), about)?;
    let events = logs.events.map(|events| events.with_variables(settings.events_variables));
    Ok(RunLogs { events, ..logs })
}

/// Of contestants whose controller no log can see, where logs are asked for.
fn unseen(settings: &Settings, runs: &[Run]) -> Vec<String> {
    if settings.qlog.is_none() && settings.events.is_none() {
        return Vec::new();
    }
    let inside = |run: &&Run| matches!(run.record.driven_by, Some(DrivenBy::Kernel | DrivenBy::Module));
    let note = |run: &Run| {
        let (contestant, controller) = (run.record.contestant(), &run.record.controller);
        format!("{contestant}: no log: its controller is inside the kernel; write {controller}@tcp:driven_by=agent")
    };
    runs.iter().filter(|run| run.record.run == 1).filter(inside).map(note).collect()
}
