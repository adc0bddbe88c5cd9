//! Runs of a paper's scenarios: each a scenario file that the command carries, with overrides.

use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use indicatif::ProgressBar;
use paceline_cc::{Nanos, Rate};
use paceline_experiment::{FlowOutcome, Outcome, Series};
use paceline_path::{Trace, TraceInfo};
use rayon::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{ReproduceError, Settings};
use crate::contestant::Contestant;
use crate::input::{self, Bounds};
use crate::race::World;
use crate::real;
use crate::scenario::{Options, Plan, ScenarioError, Source};

/// A scenario file of a paper: its place in the project, and its text.
pub(super) struct File {
    pub(super) path: &'static str,
    pub(super) text: &'static str,
}

/// What to run: a contestant in a scenario with overrides.
#[derive(Clone)]
pub(super) struct Setup {
    file: &'static File,
    contestant: String,
    set: Vec<String>,
    trace: Option<PathBuf>,
    step: Option<Nanos>,
}

impl Setup {
    pub(super) fn new(file: &'static File, contestant: &str) -> Self {
        Self { file, contestant: contestant.to_owned(), set: Vec::new(), trace: None, step: None }
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

    fn plans(&self, bench: &Bench<'_>) -> Result<Vec<Plan>, ScenarioError> {
        let options = Options {
            contestants: Some(self.contestant.clone()),
            trace: self.trace.clone(),
            runs: bench.settings.runs,
            seed: bench.settings.seed,
            seconds: bench.settings.seconds,
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

/// For a POSIX shell.
pub(super) fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@+".contains(c);
    let literal = |c: char| c == ' ' || c.is_ascii_graphic() && !"$`\\\"!".contains(c);
    match text {
        "" => "''".to_owned(),
        _ if text.chars().all(plain) => text.to_owned(),
        _ if text.chars().all(literal) => format!("\"{text}\""),
        _ => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// Where experiments run.
pub(super) struct Bench<'a> {
    pub(super) settings: &'a Settings,
    pub(super) bar: &'a ProgressBar,
}

/// A run that is over.
pub(super) struct Finished<'a> {
    /// Number of the run, from 1.
    pub(super) number: u32,
    pub(super) outcome: &'a Outcome,
    /// Real world: CPU time of the contestant's endpoints, share of one core.
    pub(super) cpu: Option<f64>,
    /// Whether it shows the path: the emulator kept time.
    pub(super) trusted: bool,
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
}

/// One run of one setup.
struct Job<'a> {
    index: usize,
    setup: &'a Setup,
    plan: &'a Plan,
}

impl Bench<'_> {
    /// Runs every setup as often as its scenario says, and keeps of each run what `digest` takes: by setup, then by run.
    pub(super) fn run<T: Send>(
        &self,
        setups: &[Setup],
        digest: impl Fn(&Setup, &Finished<'_>) -> T + Sync,
    ) -> Result<Vec<Vec<T>>, ReproduceError> {
        self.conduct(setups, |_| None, |_, _| Ok(()), digest)
    }

    /// The same for what can be written down: runs that the journal holds are not run again, and each that is over stands in it
    /// at once.
    pub(super) fn run_on<T: Send + Serialize + DeserializeOwned>(
        &self,
        setups: &[Setup],
        digest: impl Fn(&Setup, &Finished<'_>) -> T + Sync,
    ) -> Result<Vec<Vec<T>>, ReproduceError> {
        let Some(journal) = &self.settings.journal else { return self.run(setups, digest) };
        let world = if self.settings.world == World::Real { " --real" } else { "" };
        let key = |job: &Job<'_>| {
            let settings = Settings { runs: None, ..self.settings.clone() };
            format!("{}{}{world}", job.setup.command(), settings.repeated())
        };
        let recall = |job: &Job<'_>| journal.recall(&key(job), job.plan.number);
        self.conduct(setups, recall, |job, kept| Ok(journal.keep(&key(job), job.plan.number, kept)?), digest)
    }

    fn conduct<T: Send>(
        &self,
        setups: &[Setup],
        recall: impl Fn(&Job<'_>) -> Option<T>,
        keep: impl Fn(&Job<'_>, &T) -> Result<(), ReproduceError> + Sync,
        digest: impl Fn(&Setup, &Finished<'_>) -> T + Sync,
    ) -> Result<Vec<Vec<T>>, ReproduceError> {
        let plans: Vec<Vec<Plan>> = setups.iter().map(|setup| setup.plans(self)).collect::<Result<_, _>>()?;
        let all = setups.iter().zip(&plans).enumerate();
        let all = all.flat_map(|(index, (setup, plans))| plans.iter().map(move |plan| Job { index, setup, plan }));
        let (mut digests, mut jobs) = (Vec::new(), Vec::new());
        for job in all {
            match recall(&job) {
                Some(kept) => digests.push((job.index, job.plan.number, kept)),
                None => jobs.push(job),
            }
        }
        self.bar.inc_length(jobs.len() as u64);
        let one = |job: &Job<'_>| -> Result<(usize, u32, T), ReproduceError> {
            let kept = self.once(job, &digest)?;
            keep(job, &kept)?;
            self.bar.inc(1);
            Ok((job.index, job.plan.number, kept))
        };
        let ran: Result<Vec<(usize, u32, T)>, ReproduceError> = match self.settings.world {
            World::Sim => jobs.par_iter().map(one).collect(),
            World::Real => {
                for job in &jobs {
                    real::check(&job.plan.scenario.contestants, std::slice::from_ref(job.plan))
                        .map_err(ReproduceError::Real)?;
                }
                // Whatever the machine does meanwhile, it does to all of them; of two neighbours each comes first in turn.
                jobs.sort_by_key(|job| (job.plan.number, job.index / 2, (job.index + job.plan.number as usize) % 2));
                self.announce(&jobs);
                in_turn(&jobs, self.settings.threads.max(1), one)
            }
        };
        digests.extend(ran?);
        digests.sort_by_key(|(index, number, _)| (*index, *number));
        let mut results: Vec<Vec<T>> = setups.iter().map(|_| Vec::new()).collect();
        for (index, _, one) in digests {
            results[index].push(one);
        }
        Ok(results)
    }

    /// A run. In the real world one that failed, or that shows the host rather than the path, is repeated once.
    fn once<T>(&self, job: &Job<'_>, digest: impl Fn(&Setup, &Finished<'_>) -> T) -> Result<T, ReproduceError> {
        let Job { setup, plan, .. } = job;
        let contestant: &Contestant = &plan.scenario.contestants[0];
        let (outcome, cpu, trusted) = match self.settings.world {
            World::Sim => {
                let world = plan.world(contestant, setup.step).expect("paths of plans can be built: checked");
                (paceline_sim::run(world, None), None, true)
            }
            World::Real => {
                let trusted = |ran: &Result<(_, _, real::Host), String>| ran.as_ref().is_ok_and(|ran| ran.2.trusted());
                let first = real::run(contestant, plan, setup.step);
                let ran = if trusted(&first) {
                    first
                } else {
                    let second = real::run(contestant, plan, setup.step);
                    if trusted(&second) || first.is_err() { second } else { first }
                };
                let (_, outcome, host) =
                    ran.map_err(|problem| ReproduceError::Real(format!("{contestant}: {problem}")))?;
                (outcome, Some(host.cpu().as_secs_f64() / plan.scenario.seconds), host.trusted())
            }
        };
        Ok(digest(setup, &Finished { number: plan.number, outcome: &outcome, cpu, trusted }))
    }

    /// Says how long it will take, where that is more than a minute.
    fn announce(&self, jobs: &[Job<'_>]) {
        let threads = self.settings.threads.max(1);
        let seconds: f64 = jobs.iter().map(|job| job.plan.scenario.seconds + BETWEEN).sum::<f64>() / threads as f64;
        if let Some(tell) = self.settings.tell.filter(|_| seconds > 60.0) {
            let minutes = (seconds / 60.0).ceil();
            let at_once = if threads > 1 { format!(", {threads} at once") } else { String::new() };
            let line = format!("{} runs in real time{at_once}: about {minutes} min", jobs.len());
            self.bar.suspend(|| tell(&line));
        }
    }
}

/// From the end of a run in real time to the start of the next, seconds: to take a world down and build another.
const BETWEEN: f64 = 0.7;

/// Does the jobs in their order, so many at once. After a failure none is begun.
fn in_turn<J: Sync, T: Send>(
    jobs: &[J],
    threads: usize,
    one: impl Fn(&J) -> Result<T, ReproduceError> + Sync,
) -> Result<Vec<T>, ReproduceError> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            match one(job) {
                Ok(kept) => done.push(kept),
                Err(error) => {
                    next.store(jobs.len(), Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
        Ok(done)
    };
    let ended: Vec<Result<Vec<T>, ReproduceError>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.min(jobs.len())).map(|_| scope.spawn(worker)).collect();
        let joined = workers.into_iter().map(thread::ScopedJoinHandle::join);
        joined.map(|ended| ended.unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    Ok(ended.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_begun_in_their_order_and_a_failure_ends_them() {
        let begun = AtomicUsize::new(0);
        let one = |job: &usize| {
            begun.fetch_add(1, Ordering::Relaxed);
            if *job == 3 { Err(ReproduceError::Real("no".to_owned())) } else { Ok(*job) }
        };
        assert_eq!(in_turn(&[0, 1, 2], 1, one).unwrap(), [0, 1, 2]);
        let mut all = in_turn(&[0, 1, 2, 4, 5, 6, 7], 3, one).unwrap();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 4, 5, 6, 7]);
        begun.store(0, Ordering::Relaxed);
        assert!(in_turn(&[1, 3, 5, 7], 1, one).is_err());
        assert_eq!(begun.load(Ordering::Relaxed), 2, "nothing after it");
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
