//! One run of one contestant in one cell.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use paceline_path::Trace;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::SweepError;
use crate::contestant::Contestant;
use crate::race::{Job, Settings};
use crate::record::Record;
use crate::run::RunError;
use crate::runner::{self, Attempt, Task, TaskLabel};
use crate::scenario::{Options, ScenarioError, Source};
use crate::version;

/// What all points of a sweep share.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Ground {
    /// Version of paceline.
    pub(super) version: String,
    /// Commit that it was built from.
    pub(super) commit: Option<String>,
    /// What errors call the scenario.
    pub(super) file: String,
    /// Where it looks for traces; they are at hand by now, under names in this folder.
    pub(super) folder: PathBuf,
    /// The scenario's text.
    pub(super) text: String,
    pub(super) seed: Option<u64>,
    pub(super) seconds: Option<f64>,
    #[serde(serialize_with = "write_traces", deserialize_with = "read_traces")]
    pub(super) traces: BTreeMap<String, Arc<Trace>>,
}

impl Ground {
    /// The scenario with these values and one contestant.
    pub(super) fn source(&self, set: &[String], contestants: &str, runs: Option<u32>) -> Source {
        let options = Options {
            contestants: Some(contestants.to_owned()).filter(|list| !list.is_empty()),
            seed: self.seed,
            seconds: self.seconds,
            runs,
            set: set.to_vec(),
            ..Options::default()
        };
        let source = Source::from_text(&self.file, &self.text, options).in_folder(&self.folder);
        self.traces.iter().fold(source, |source, (name, trace)| source.with_trace(name, trace.clone()))
    }

    /// Refuses what another build wrote: its runs could be others.
    pub(super) fn of_this_build(&self, what: &'static str) -> Result<(), SweepError> {
        if self.version == version::VERSION && self.commit.as_deref() == version::commit() {
            return Ok(());
        }
        let theirs = version::named(&self.version, self.commit.as_deref());
        Err(SweepError::OtherBuild { what, theirs, ours: version::build() })
    }
}

/// One run of one contestant in one cell: with its JSON, another machine needs nothing else but paceline. (A model that a
/// contestant reads from a file is read there.)
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Point {
    /// Its number in the sweep.
    pub index: usize,
    /// Its cell.
    pub cell: usize,
    /// Its contestant.
    pub contestant: String,
    /// Number of its run in the cell, from 1.
    pub run: u32,
    /// Seed of its race.
    pub seed: u64,
    /// The values of its cell, as `--set` takes them.
    pub set: Vec<String>,
    #[serde(serialize_with = "write_ground", deserialize_with = "read_ground")]
    pub(super) ground: Arc<Ground>,
}

/// Why a point gave no record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PointError {
    /// Its values do not go together.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// Its run did not reach its end.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl Point {
    /// All of it as one text.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a point is JSON: its keys are texts")
    }

    /// The inverse.
    ///
    /// # Errors
    /// When the text is not a point, or one of another build of paceline.
    pub fn from_json(text: &str) -> Result<Self, SweepError> {
        let wrong = |source| SweepError::Json { what: "point", source };
        let point: Self = serde_json::from_str(text).map_err(wrong)?;
        point.ground.of_this_build("point")?;
        Ok(point)
    }

    /// Runs it. A panic is an error too, and the next point can be run.
    ///
    /// # Errors
    /// What happened.
    pub fn run(&self) -> Result<Record, PointFailure> {
        runner::single(self).map_err(|failure| PointFailure::new(failure.cause.to_string()))
    }
}

/// Why a point has no record. It travels between machines, and stands in journals and chunks, as one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(transparent)]
#[error("{line}")]
pub struct PointFailure {
    line: String,
}

impl PointFailure {
    /// What happened.
    pub fn new(line: impl Into<String>) -> Self {
        Self { line: line.into() }
    }
}

impl Task for Point {
    type Output = Record;
    type Error = PointError;

    fn label(&self) -> TaskLabel {
        TaskLabel { name: self.contestant.clone(), number: self.run, seed: self.seed }
    }

    fn run(&self) -> Result<Attempt<Record>, PointError> {
        let source = self.ground.source(&self.set, &self.contestant, Some(self.run));
        let plan = source.plan(self.run)?;
        let contestant: &Contestant = &plan.scenario.contestants[0];
        let settings = Settings::default();
        let attempt = Job { contestant, plan: &plan, settings: &settings, programs: None }.run()?;
        Ok(Attempt { output: attempt.output.record, trusted: attempt.trusted })
    }
}

fn write_ground<S: Serializer>(ground: &Arc<Ground>, to: S) -> Result<S::Ok, S::Error> {
    ground.as_ref().serialize(to)
}

fn read_ground<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<Ground>, D::Error> {
    Ground::deserialize(from).map(Arc::new)
}

fn write_traces<S: Serializer>(traces: &BTreeMap<String, Arc<Trace>>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(traces.iter().map(|(name, trace)| (name, trace.millis())))
}

fn read_traces<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, Arc<Trace>>, D::Error> {
    let times = BTreeMap::<String, Vec<u32>>::deserialize(from)?;
    let trace = |(name, times): (String, Vec<u32>)| {
        let trace = Trace::from_millis(&name, times).map_err(serde::de::Error::custom)?;
        Ok((name, Arc::new(trace)))
    };
    times.into_iter().map(trace).collect()
}

/// A folder's name as errors show it.
pub(super) fn folder_of(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new(""))
}
