//! What is run for a question: cells, each a scenario with a contestant, run with some seeds.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::sync::{Arc, Mutex, PoisonError};

use paceline_experiment::{Series, SharedTap};
use paceline_lab::contestant::Contestant;
use paceline_lab::record::{FlowRecord, Record};
use paceline_lab::run::{self, Observers, RunError, World};
use paceline_lab::runner::{Attempt, Task, TaskLabel};
use paceline_lab::scenario::{Options, Plan, ScenarioError, Source};
use paceline_path::{Trace, TraceError};

use super::watched::{Watch, Watched};
use super::{Effort, Traces};
use crate::trajectory::median;

/// The synthetic cellular traces that come with paceline.
pub(super) const TRACES: [(&str, &str); 3] = [
    ("lte-like.mahi", include_str!("../../../../scenarios/traces/lte-like.mahi")),
    ("lte-driving.mahi", include_str!("../../../../scenarios/traces/lte-driving.mahi")),
    ("3g-like.mahi", include_str!("../../../../scenarios/traces/3g-like.mahi")),
];

pub(crate) fn traces() -> Result<Traces, TraceError> {
    let read = |(name, text): &(&'static str, &'static str)| {
        Ok((*name, Arc::new(Trace::read(name, BufReader::new(text.as_bytes()))?)))
    };
    TRACES.iter().map(read).collect()
}

/// A scenario of a question.
#[derive(Clone, Debug)]
pub struct QuestionCell {
    /// What is varied: `cubic`, `alone`.
    pub key: String,
    /// The number beside it: a buffer, a share of losses.
    pub x: f64,
    /// Who runs in it as the contestant.
    pub contestant: Contestant,
    /// `[down]` and `[up]`.
    pub path: String,
    /// `[[flows]]`; empty for one flow.
    pub flows: String,
    /// Seconds; `None` for those of the effort.
    pub seconds: Option<u32>,
    /// With points over time.
    pub series: bool,
    /// With its packets over time.
    pub watched: bool,
    /// Runs, where they are fewer than those of the effort.
    pub runs: Option<u32>,
    /// About how much work it is beside others.
    pub weight: u32,
}

impl QuestionCell {
    /// One bulk flow on this path.
    pub(super) fn new(key: impl Into<String>, x: f64, contestant: &Contestant, path: String) -> Self {
        let (contestant, flows) = (contestant.clone(), String::new());
        let (seconds, series, watched, runs, weight) = (None, false, false, None, 1);
        Self { key: key.into(), x, contestant, path, flows, seconds, series, watched, runs, weight }
    }

    /// This many seconds, with its packets over time.
    pub(super) fn watched(self, seconds: u32) -> Self {
        Self { seconds: Some(seconds), watched: true, ..self }
    }

    /// With these flows.
    pub(super) fn with(mut self, flows: impl Into<String>) -> Self {
        self.flows = flows.into();
        self
    }

    pub(super) fn tasks(
        &self,
        question: usize,
        id: &str,
        effort: Effort,
        traces: &Traces,
    ) -> Result<Vec<CellTask>, ScenarioError> {
        let seconds = self.seconds.unwrap_or(effort.seconds);
        let text = format!(
            "name = \"evaluate-{id}\"\ntitle = \"{id}\"\nseconds = {seconds}\nruns = {runs}\ncontestants = [\"{who}\"]\n\n{path}\n{flows}",
            runs = self.runs.unwrap_or(effort.runs).min(effort.runs),
            who = self.contestant,
            path = self.path,
            flows = self.flows
        );
        let mut source = Source::from_text(&format!("evaluate/{id}.toml"), &text, Options::default());
        for (name, trace) in traces.iter().filter(|(name, _)| text.contains(name)) {
            source = source.with_trace(name, Arc::clone(trace));
        }
        let task = |plan| CellTask { question, cell: self.clone(), plan, weight: self.weight.saturating_mul(seconds) };
        Ok(source.plans()?.into_iter().map(task).collect())
    }
}

/// One run of a cell.
pub(super) struct CellTask {
    pub(super) question: usize,
    pub(super) cell: QuestionCell,
    pub(super) weight: u32,
    plan: Plan,
}

impl Task for CellTask {
    type Output = CellRun;
    type Error = RunError;

    fn label(&self) -> TaskLabel {
        self.plan.label(format!("{}, {} {}", self.plan.scenario.title, self.cell.key, self.cell.x))
    }

    fn run(&self) -> Result<Attempt<CellRun>, RunError> {
        let Self { cell, plan, .. } = self;
        let (own, contestant) = (plan.own(), &cell.contestant);
        let watch = cell.watched.then(|| Arc::new(Mutex::new(Watch::new(&plan.flows(contestant), &own))));
        let tap = watch.clone().map(|watch| watch as SharedTap);
        let sample_every = cell.series.then(|| run::step(plan));
        let ended = run::run(plan, contestant, World::Sim, &Observers { sample_every, tap, ..Observers::default() })?;
        let record = ended.record(plan, contestant);
        let watched = watch.map(|watch| watch.lock().unwrap_or_else(PoisonError::into_inner).take());
        let output = CellRun { record, own, series: ended.outcome.series, watched: watched.unwrap_or_default() };
        Ok(Attempt { output, trusted: true })
    }
}

/// What is kept of a run.
#[derive(Clone, Debug)]
pub(super) struct CellRun {
    pub(super) record: Record,
    /// Which of its flows are the contestant's own.
    pub(super) own: Vec<bool>,
    /// Points over time, where the cell asks for them.
    pub(super) series: Option<Series>,
    /// Packets over time, where the cell asks for them.
    pub(super) watched: Watched,
}

/// The runs of a question, by key and number.
#[derive(Debug, Default)]
pub struct Cells {
    contestant: Option<Contestant>,
    runs: BTreeMap<(String, u64), Vec<CellRun>>,
}

impl Cells {
    pub(super) fn add(&mut self, cell: &QuestionCell, run: &CellRun) {
        if cell.key == "itself" {
            self.contestant.get_or_insert_with(|| cell.contestant.clone());
        }
        // Numbers here are positive: their bits have their order.
        self.runs.entry((cell.key.clone(), cell.x.to_bits())).or_default().push(run.clone());
    }

    /// Whom the cells are of.
    pub(super) fn contestant(&self) -> Option<&Contestant> {
        self.contestant.as_ref()
    }

    /// The numbers of a key, in order.
    pub(super) fn numbers(&self, key: &str) -> Vec<f64> {
        self.runs.keys().filter(|(name, _)| name == key).map(|(_, bits)| f64::from_bits(*bits)).collect()
    }

    /// Median over the runs of what is read from each.
    pub(super) fn at(&self, key: &str, x: f64, read: impl Fn(&CellRun) -> Option<f64>) -> Option<f64> {
        let runs = self.runs.get(&(key.to_owned(), x.to_bits()))?;
        median(runs.iter().filter_map(read).collect())
    }

    /// Least and most over the runs, where there are several.
    pub(super) fn spread(&self, key: &str, x: f64, read: impl Fn(&CellRun) -> Option<f64>) -> Option<(f64, f64)> {
        let values: Vec<f64> = self.runs.get(&(key.to_owned(), x.to_bits()))?.iter().filter_map(read).collect();
        let low = values.iter().copied().reduce(f64::min)?;
        (values.len() > 1).then(|| (low, values.iter().copied().fold(low, f64::max)))
    }

    /// Over all numbers of a key.
    pub(super) fn line(&self, key: &str, read: impl Fn(&CellRun) -> Option<f64>) -> Vec<(f64, Option<f64>)> {
        self.points(key, |run, _| read(run))
    }

    /// The same for what depends on the number.
    pub(super) fn points(&self, key: &str, read: impl Fn(&CellRun, f64) -> Option<f64>) -> Vec<(f64, Option<f64>)> {
        self.numbers(key).into_iter().map(|x| (x, self.at(key, x, |run| read(run, x)))).collect()
    }
}

/// The flows of a run that are the contestant's own.
pub(super) fn own(run: &CellRun) -> impl Iterator<Item = &FlowRecord> {
    run.record.flows.iter().zip(&run.own).filter(|(_, own)| **own).map(|(flow, _)| flow)
}

/// The flows beside it.
pub(super) fn others(run: &CellRun) -> impl Iterator<Item = &FlowRecord> {
    run.record.flows.iter().zip(&run.own).filter(|(_, own)| !**own).map(|(flow, _)| flow)
}

/// The own flows' share of what all flows got.
pub(super) fn share(run: &CellRun) -> Option<f64> {
    let all: f64 = run.record.flows.iter().map(|flow| flow.throughput_mbps).sum();
    (all > 0.0).then(|| own(run).map(|flow| flow.throughput_mbps).sum::<f64>() / all)
}
