//! Runs of a paper's scenarios: each a scenario file that the command carries, with overrides.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use indicatif::ProgressBar;
use paceline_cc::{Nanos, Rate};
use paceline_path::{Trace, TraceInfo};
use paceline_sim::{FlowOutcome, Outcome, Series};
use rayon::prelude::*;

use super::{ReproduceError, Settings};
use crate::contestant::Contestant;
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
        [$((concat!("scenarios/traces/", $name), include_bytes!(concat!("../../../scenarios/traces/", $name)))),*]
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
    if let Some((path, bytes)) = shipped(file) {
        return Ok(TraceInfo::of(&Trace::read(path, bytes)?).mean);
    }
    let name = file.display().to_string();
    let opened = std::fs::File::open(file).map_err(|error| ScenarioError::Option {
        option: "--trace".to_owned(),
        problem: format!("{name} cannot be read ({error}); name a trace file that exists"),
    })?;
    Ok(TraceInfo::of(&Trace::read(&name, std::io::BufReader::new(opened))?).mean)
}

/// For a POSIX shell.
pub(super) fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@+".contains(c);
    if !text.is_empty() && text.chars().all(plain) { text.to_owned() } else { format!("\"{text}\"") }
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

impl Bench<'_> {
    /// Runs every setup as often as its scenario says, and keeps of each run what `digest` takes: by setup, then by run.
    pub(super) fn run<T: Send>(
        &self,
        setups: &[Setup],
        digest: impl Fn(&Setup, &Finished<'_>) -> T + Sync,
    ) -> Result<Vec<Vec<T>>, ReproduceError> {
        let plans: Vec<Vec<Plan>> = setups.iter().map(|setup| setup.plans(self)).collect::<Result<_, _>>()?;
        let jobs: Vec<(usize, &Setup, &Plan)> = setups
            .iter()
            .zip(&plans)
            .enumerate()
            .flat_map(|(index, (setup, plans))| plans.iter().map(move |plan| (index, setup, plan)))
            .collect();
        self.bar.inc_length(jobs.len() as u64);
        let one = |(index, setup, plan): &(usize, &Setup, &Plan)| -> Result<(usize, T), ReproduceError> {
            let contestant: &Contestant = &plan.scenario.contestants[0];
            let (outcome, cpu) = match self.settings.world {
                World::Sim => {
                    let world = plan.world(contestant, setup.step).expect("paths of plans can be built: checked");
                    (paceline_sim::run(world, None), None)
                }
                World::Real => {
                    let ran = real::run(contestant, plan, setup.step);
                    let (_, outcome, host) =
                        ran.map_err(|problem| ReproduceError::Real(format!("{contestant}: {problem}")))?;
                    (outcome, Some(host.cpu().as_secs_f64() / plan.scenario.seconds))
                }
            };
            self.bar.inc(1);
            Ok((*index, digest(setup, &Finished { number: plan.number, outcome: &outcome, cpu })))
        };
        let digests: Vec<(usize, T)> = match self.settings.world {
            World::Sim => jobs.par_iter().map(one).collect::<Result<_, _>>()?,
            World::Real => {
                for (_, _, plan) in &jobs {
                    real::check(&plan.scenario.contestants, std::slice::from_ref(*plan))
                        .map_err(ReproduceError::Real)?;
                }
                // Whatever the machine does meanwhile, it does to all of them.
                let mut jobs = jobs;
                jobs.sort_by_key(|(index, _, plan)| (plan.number, *index));
                jobs.iter().map(one).collect::<Result<_, _>>()?
            }
        };
        let mut results: Vec<Vec<T>> = setups.iter().map(|_| Vec::new()).collect();
        for (index, one) in digests {
            results[index].push(one);
        }
        Ok(results)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
