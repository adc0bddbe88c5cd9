//! What is run for a question: cells, each a scenario with a contestant, run with some seeds.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::sync::Arc;

use paceline_lab::contestant::Contestant;
use paceline_lab::race::{Job, Settings};
use paceline_lab::record::{FlowRecord, Run};
use paceline_lab::run::RunError;
use paceline_lab::runner::{Attempt, Task, TaskLabel};
use paceline_lab::scenario::{Options, Plan, ScenarioError, Source};
use paceline_path::{Trace, TraceError};

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
    /// About how much work it is beside others.
    pub weight: u32,
}

impl QuestionCell {
    /// One bulk flow on this path.
    pub(super) fn new(key: impl Into<String>, x: f64, contestant: &Contestant, path: String) -> Self {
        let (contestant, flows) = (contestant.clone(), String::new());
        Self { key: key.into(), x, contestant, path, flows, seconds: None, series: false, weight: 1 }
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
            runs = effort.runs,
            who = self.contestant,
            path = self.path,
            flows = self.flows
        );
        let mut source = Source::from_text(&format!("evaluate/{id}.toml"), &text, Options::default());
        for (name, trace) in traces.iter().filter(|(name, _)| text.contains(name)) {
            source = source.with_trace(name, Arc::clone(trace));
        }
        let settings = Settings { series: self.series, ..Settings::default() };
        let task = |plan| CellTask {
            question,
            cell: self.clone(),
            plan,
            settings: settings.clone(),
            weight: self.weight.saturating_mul(seconds),
        };
        Ok(source.plans()?.into_iter().map(task).collect())
    }
}

/// One run of a cell.
pub(super) struct CellTask {
    pub(super) question: usize,
    pub(super) cell: QuestionCell,
    pub(super) weight: u32,
    plan: Plan,
    settings: Settings,
}

impl Task for CellTask {
    type Output = Run;
    type Error = RunError;

    fn label(&self) -> TaskLabel {
        self.plan.label(format!("{}, {} {}", self.plan.scenario.title, self.cell.key, self.cell.x))
    }

    fn run(&self) -> Result<Attempt<Run>, RunError> {
        Job { contestant: &self.cell.contestant, plan: &self.plan, settings: &self.settings }.run()
    }
}

/// The runs of a question, by key and number.
#[derive(Debug, Default)]
pub struct Cells {
    runs: BTreeMap<(String, u64), Vec<Run>>,
}

impl Cells {
    pub(super) fn add(&mut self, cell: &QuestionCell, run: &Run) {
        // Numbers here are positive: their bits have their order.
        self.runs.entry((cell.key.clone(), cell.x.to_bits())).or_default().push(run.clone());
    }

    /// The numbers of a key, in order.
    pub(super) fn numbers(&self, key: &str) -> Vec<f64> {
        self.runs.keys().filter(|(name, _)| name == key).map(|(_, bits)| f64::from_bits(*bits)).collect()
    }

    /// Median over the runs of what is read from each.
    pub(super) fn at(&self, key: &str, x: f64, read: impl Fn(&Run) -> Option<f64>) -> Option<f64> {
        let runs = self.runs.get(&(key.to_owned(), x.to_bits()))?;
        median(runs.iter().filter_map(read).collect())
    }

    /// Over all numbers of a key.
    pub(super) fn line(&self, key: &str, read: impl Fn(&Run) -> Option<f64>) -> Vec<(f64, Option<f64>)> {
        self.numbers(key).into_iter().map(|x| (x, self.at(key, x, &read))).collect()
    }
}

/// The flows of a run that are the contestant's own.
pub(super) fn own(run: &Run) -> impl Iterator<Item = &FlowRecord> {
    run.record.flows.iter().zip(&run.own).filter(|(_, own)| **own).map(|(flow, _)| flow)
}

/// The flows beside it.
pub(super) fn others(run: &Run) -> impl Iterator<Item = &FlowRecord> {
    run.record.flows.iter().zip(&run.own).filter(|(_, own)| !**own).map(|(flow, _)| flow)
}

/// The own flows' share of what all flows got.
pub(super) fn share(run: &Run) -> Option<f64> {
    let all: f64 = run.record.flows.iter().map(|flow| flow.throughput_mbps).sum();
    (all > 0.0).then(|| own(run).map(|flow| flow.throughput_mbps).sum::<f64>() / all)
}
