//! Runs of a paper's scenarios: each a scenario file that the command carries, with overrides.

use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use paceline_cc::{Nanos, Rate};
use paceline_experiment::{FlowOutcome, Outcome, Series};
use paceline_path::{Trace, TraceInfo};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::watch::{Seen, Watch};
use super::{Cell, Claim, Findings, PaperSettings, ReproduceError};
use crate::claim::ClaimError;
use paceline_lab::contestant::Contestant;
use paceline_lab::input::{self, Bounds};
use paceline_lab::run::{self, Observers, RunError, World};
use paceline_lab::runner::{Attempt, Memory, Progress, Runner, Task, TaskLabel};
use paceline_lab::scenario::{Options, Plan, ScenarioError, Source};
use paceline_lab::shell::quoted;

/// A scenario file of a paper: its place in the project, and its text.
#[derive(Debug, Serialize)]
pub(super) struct File {
    pub(super) path: &'static str,
    pub(super) text: &'static str,
}

/// The scenario file of this path below `scenarios/`.
macro_rules! file {
    ($path:literal) => {
        $crate::reproduce::bench::File {
            path: concat!("scenarios/", $path),
            text: include_str!(concat!("../../../../scenarios/", $path)),
        }
    };
}
pub(super) use file;

/// What to run: a contestant in a scenario with overrides.
#[derive(Clone)]
pub(super) struct Setup {
    file: &'static File,
    contestant: String,
    set: Vec<String>,
    trace: Option<PathBuf>,
    step: Option<Nanos>,
    whole: bool,
    watched: bool,
}

impl Setup {
    pub(super) fn new(file: &'static File, contestant: &str) -> Self {
        Self {
            file,
            contestant: contestant.to_owned(),
            set: Vec::new(),
            trace: None,
            step: None,
            whole: false,
            watched: false,
        }
    }

    /// With this key set to this value.
    pub(super) fn set(mut self, key: &str, value: &str) -> Self {
        self.set.push(format!("{key}={value}"));
        self
    }

    /// With this key set, where it is wanted.
    pub(super) fn set_if(self, wanted: bool, key: &str, value: &str) -> Self {
        if wanted { self.set(key, value) } else { self }
    }

    /// Over a delivery trace instead of the scenario's link.
    pub(super) fn trace(mut self, file: &Path) -> Self {
        self.trace = Some(file.to_owned());
        self
    }

    /// With points over time, so far apart.
    pub(super) fn sampled(mut self, step: Nanos) -> Self {
        self.step = Some(step);
        self
    }

    /// In real time as long as the scenario says too, unless seconds are given: it is about what happens when.
    pub(super) fn whole(mut self) -> Self {
        self.whole = true;
        self
    }

    /// With the ends of start-ups, and what was dropped.
    pub(super) fn watched(mut self) -> Self {
        self.watched = true;
        self
    }

    /// The command that runs it alone.
    pub(super) fn command(&self) -> String {
        let mut text = format!("paceline race {} --contestants {}", self.file.path, quoted(&self.contestant));
        for setting in &self.set {
            text.push_str(&format!(" --set {}", quoted(setting)));
        }
        if let Some(trace) = &self.trace {
            text.push_str(&format!(" --trace {}", quoted(&trace.display().to_string())));
        }
        text
    }

    /// Who runs.
    pub(super) fn contestant(&self) -> &str {
        &self.contestant
    }

    /// What came of it under a condition.
    pub(super) fn cell(&self, condition: impl Into<String>, ours: impl Into<String>, holds: bool) -> Cell {
        Cell::new(condition, ours, holds, self.command())
    }

    /// A claim about whom it runs, before anything was found.
    pub(super) fn claim(&self, claim: impl Into<String>, paper: &str) -> Claim {
        Claim::new(claim, &self.contestant, paper)
    }

    /// The same with what was found under one condition.
    pub(super) fn found(
        &self,
        (claim, paper): (impl Into<String>, &str),
        condition: impl Into<String>,
        ours: impl Into<String>,
        holds: bool,
    ) -> Claim {
        let cell = self.cell(condition, ours, holds);
        self.claim(claim, paper).got(cell.ours.clone(), vec![cell])
    }

    /// Where, who runs, and what is set but for how long and how often.
    pub(super) fn name(&self) -> String {
        let stem = Path::new(self.file.path).file_stem().unwrap_or_default().to_string_lossy();
        let set = self.set.iter().filter(|set| !set.starts_with("seconds=") && !set.starts_with("runs="));
        std::iter::once(format!("{stem}: {}", self.contestant)).chain(set.cloned()).collect::<Vec<_>>().join(", ")
    }

    fn plans(&self, bench: &Bench<'_>) -> Result<Vec<Plan>, ScenarioError> {
        let options = Options {
            contestants: Some(self.contestant.clone()),
            trace: self.trace.clone(),
            runs: bench.settings.runs,
            seed: bench.settings.seed,
            seconds: if self.whole { bench.seconds } else { bench.settings.seconds },
            set: self.set.clone(),
            ..Options::default()
        };
        let mut source = Source::from_text(self.file.path, self.file.text, options);
        if let Some((path, bytes)) = self.trace.as_deref().and_then(shipped) {
            source = source.with_trace(path, Arc::new(Trace::read(path, bytes)?));
        }
        source.plans()
    }
}

/// The cellular link of experiments that want one.
pub(super) const SHIPPED_TRACE: &str = "scenarios/traces/lte-like.mahi";

macro_rules! traces {
    ($($name:literal),*) => {
        [$((concat!("scenarios/traces/", $name), include_bytes!(concat!("../../../../scenarios/traces/", $name)))),*]
    };
}

/// The shipped traces, which the command carries: each with its path.
pub(super) static SHIPPED_TRACES: [(&str, &[u8]); 3] = traces!("lte-like.mahi", "3g-like.mahi", "lte-driving.mahi");

/// The shipped trace of this path.
fn shipped(file: &Path) -> Option<(&'static str, &'static [u8])> {
    SHIPPED_TRACES.iter().find(|(path, _)| file == Path::new(path)).copied()
}

/// Mean rate of a trace, the shipped one or a file.
pub(super) fn mean_rate(file: &Path) -> Result<Rate, ScenarioError> {
    Ok(TraceInfo::of(&read(file)?).mean)
}

/// The shipped trace, or that of a file.
pub(super) fn read(file: &Path) -> Result<Trace, ScenarioError> {
    if let Some((path, bytes)) = shipped(file) {
        return Ok(Trace::read(path, bytes)?);
    }
    let name = file.display().to_string();
    let opened = input::open(file, Bounds::TRACE).map_err(|error| ScenarioError::Option {
        option: "--trace".to_owned(),
        problem: format!("{name} cannot be read ({error}); name a trace file that exists"),
    })?;
    Ok(Trace::read(&name, opened)?)
}

/// Where experiments run.
pub(super) struct Bench<'a> {
    /// The figure, or experiment, whose claims are tried.
    pub(super) figure: &'static str,
    pub(super) settings: &'a PaperSettings,
    /// Seconds of a run, where they were asked for.
    pub(super) seconds: Option<f64>,
    pub(super) progress: &'a dyn Progress,
}

/// A run that is over.
pub(super) struct Finished<'a> {
    /// Which of the setups it is of, from 0.
    pub(super) setup: usize,
    /// Number of the run, from 1.
    pub(super) number: u32,
    pub(super) outcome: &'a Outcome,
    /// Real world: CPU time of the contestant's endpoints, share of one core.
    pub(super) cpu: Option<f64>,
    /// Whether it shows the path: the emulator kept time.
    pub(super) trusted: bool,
    /// How its flows began; empty when the setup did not ask for it.
    pub(super) seen: Seen,
}

impl Finished<'_> {
    /// Points over time; empty when the setup asked for none.
    pub(super) fn series(&self) -> &Series {
        static NONE: Series =
            Series { step: Nanos::ZERO, capacity_mbps: Vec::new(), queue_bytes: Vec::new(), flows: Vec::new() };
        self.outcome.series.as_ref().unwrap_or(&NONE)
    }

    /// When a flow starts, seconds.
    pub(super) fn start(&self, flow: usize) -> f64 {
        self.outcome.flows[flow].start.as_secs_f64()
    }

    pub(super) fn flow(&self, flow: usize) -> &FlowOutcome {
        &self.outcome.flows[flow]
    }

    /// Mbit/s of each flow over the time for which it ran, by what is counted of it.
    pub(super) fn mbps(&self, bytes: fn(&FlowOutcome) -> u64) -> Vec<f64> {
        let rate = |flow: &FlowOutcome| {
            let seconds = flow.end.since(flow.start).as_secs_f64();
            if seconds > 0.0 { bytes(flow) as f64 * 8e-6 / seconds } else { 0.0 }
        };
        self.outcome.flows.iter().map(rate).collect()
    }
}

/// One run of one setup, of which `digest` takes what is wanted.
struct Job<'a, D> {
    index: usize,
    setup: &'a Setup,
    plan: &'a Plan,
    settings: &'a PaperSettings,
    digest: &'a D,
}

impl<D> Job<'_, D> {
    fn contestant(&self) -> &Contestant {
        &self.plan.scenario.contestants[0]
    }
}

impl<T: Send, D: Fn(&Setup, &Finished<'_>) -> T + Sync> Task for Job<'_, D> {
    type Output = T;
    type Error = RunError;

    fn label(&self) -> TaskLabel {
        self.plan.label(self.contestant().to_string())
    }

    fn repeats(&self) -> u32 {
        self.settings.world.repeats()
    }

    fn key(&self) -> String {
        let world = if self.settings.world.is_real() { " --real" } else { "" };
        let settings = PaperSettings { runs: None, ..self.settings.clone() };
        format!("{}{}{world}", self.setup.command(), settings.repeated())
    }

    fn lasts(&self) -> Duration {
        self.settings.world.lasts(self.plan)
    }

    fn check(&self) -> Result<(), RunError> {
        self.settings.world.check(&self.plan.scenario.contestants, slice::from_ref(self.plan)).map(drop)
    }

    fn run(&self) -> Result<Attempt<T>, RunError> {
        let Self { setup, plan, .. } = self;
        let watch = setup.watched.then(Watch::shared);
        let observers =
            Observers { sample_every: setup.step, tap: watch.as_ref().map(Watch::tap), ..Observers::default() };
        let ended = run::run(plan, self.contestant(), self.settings.world, &observers)?;
        let cpu = ended.host.as_ref().map(|host| host.cpu().as_secs_f64() / plan.scenario.seconds);
        let trusted = ended.trusted();
        let seen = watch.as_deref().map(Watch::seen).unwrap_or_default();
        let (setup_at, number) = (self.index, plan.number);
        let finished = Finished { setup: setup_at, number, outcome: &ended.outcome, cpu, trusted, seen };
        Ok(Attempt { output: (self.digest)(setup, &finished), trusted })
    }
}

impl Bench<'_> {
    /// Whether it runs in real time.
    pub(super) fn is_real(&self) -> bool {
        self.settings.world.is_real()
    }

    /// Instead of an experiment in virtual time where real time is asked for.
    pub(super) fn virtual_only(&self) -> Option<Findings> {
        self.is_real().then(|| Findings::none("This runs in virtual time alone; leave --real out."))
    }

    /// The same in virtual time, to compare with.
    pub(super) fn simulated<T>(&self, run: impl FnOnce(&Bench<'_>) -> T) -> T {
        let settings = PaperSettings { world: World::Sim, threads: 0, ..self.settings.clone() };
        run(&Bench { settings: &settings, ..*self })
    }

    /// Runs every setup as often as its scenario says, and keeps of each run what `digest` takes: by setup, then by run.
    pub(super) fn run<T: Send>(
        &self,
        setups: &[Setup],
        digest: impl Fn(&Setup, &Finished<'_>) -> T + Sync,
    ) -> Result<Vec<Vec<T>>, ReproduceError> {
        self.conduct(setups, (), digest)
    }

    /// The same for what can be written down: runs that the journal holds are not run again, and each that is over stands in it
    /// at once.
    pub(super) fn run_on<T: Send + Serialize + DeserializeOwned>(
        &self,
        setups: &[Setup],
        digest: impl Fn(&Setup, &Finished<'_>) -> T + Sync,
    ) -> Result<Vec<Vec<T>>, ReproduceError> {
        self.conduct(setups, self.settings.journal.as_deref(), digest)
    }

    fn conduct<T: Send>(
        &self,
        setups: &[Setup],
        memory: impl Memory<T>,
        digest: impl Fn(&Setup, &Finished<'_>) -> T + Sync,
    ) -> Result<Vec<Vec<T>>, ReproduceError> {
        setups.iter().try_for_each(|setup| ClaimError::check(self.figure, &setup.contestant).map(drop))?;
        let plans: Vec<Vec<Plan>> = setups.iter().map(|setup| setup.plans(self)).collect::<Result<_, _>>()?;
        let (settings, digest) = (self.settings, &digest);
        let all = setups.iter().zip(&plans).enumerate();
        let all = all.flat_map(|(index, (setup, plans))| {
            plans.iter().map(move |plan| Job { index, setup, plan, settings, digest })
        });
        let mut jobs: Vec<Job<'_, _>> = all.collect();
        if settings.world.is_real() {
            // Whatever the machine does meanwhile, it does to all of them; of two neighbours each comes first in turn.
            jobs.sort_by_key(|job| (job.plan.number, job.index / 2, (job.index + job.plan.number as usize) % 2));
        }
        let runner = Runner::new(settings.world.threads(settings.threads), self.progress).remembering(memory);
        let mut digests: Vec<(&Job<'_, _>, T)> = jobs.iter().zip(runner.all(&jobs)?).collect();
        digests.sort_by_key(|(job, _)| (job.index, job.plan.number));
        let mut results: Vec<Vec<T>> = setups.iter().map(|_| Vec::new()).collect();
        for (job, digest) in digests {
            results[job.index].push(digest);
        }
        Ok(results)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setups_are_named_by_what_differs() {
        static FILE: File = File { path: "scenarios/a/w1.toml", text: "" };
        let setup = Setup::new(&FILE, "bbr@icn").set("seconds", "35").set("runs", "3").set("down.rate", "1 Mbit/s");
        assert_eq!(setup.name(), "w1: bbr@icn, down.rate=1 Mbit/s");
    }

    #[test]
    fn commands_can_be_pasted() {
        static FILE: File = File { path: "scenarios/a.toml", text: "name = \"a\"" };
        let setup =
            Setup::new(&FILE, "cubic:start=slow@tcp").set("down.rate", "10 Mbit/s").set("flows.0.ack_every", "2");
        assert_eq!(
            setup.trace(Path::new("my trace")).command(),
            "paceline race scenarios/a.toml --contestants cubic:start=slow@tcp --set \"down.rate=10 Mbit/s\" \
             --set flows.0.ack_every=2 --trace \"my trace\""
        );
    }
}
