//! The grid, and its points by number.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use paceline_experiment::seed::fnv_1a;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::axis::Axis;
use super::point::{Ground, Point};
use super::stop::Stop;
use super::{FolderProblem, SweepError};
use crate::version::named;

/// A scenario over a grid of values.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sweep {
    pub(super) ground: Ground,
    /// One line for people.
    pub title: String,
    pub(super) seed: u64,
    /// The keys with their values, the first outermost.
    pub axes: Vec<Axis>,
    /// Numbers of the axes that take their values together; each is in one of these, most alone.
    pub together: Vec<Vec<usize>>,
    /// Who runs in every cell.
    pub contestants: Vec<String>,
    /// Runs of a contestant in a cell; with a stop those at the beginning.
    pub runs: u32,
    /// When a cell has enough runs.
    pub stop: Option<Stop>,
    /// Names of the controllers that take part, rivals too.
    pub controllers: BTreeSet<String>,
    /// Of those that were written elsewhere, a digest of each.
    pub(super) digests: BTreeMap<String, String>,
}

impl Sweep {
    /// All of it as one text: with it, another machine has every point.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a sweep is JSON: its keys are texts")
    }

    /// The inverse.
    ///
    /// # Errors
    /// When the text is not a sweep, or one of another build of paceline.
    pub fn from_json(text: &str) -> Result<Self, SweepError> {
        let wrong = |source| SweepError::Json { what: "sweep", source };
        let sweep: Self = serde_json::from_str(text).map_err(wrong)?;
        sweep.ground.of_this_build("sweep")?;
        Ok(sweep)
    }

    /// The scenario as written, which the grid's values replace key by key.
    pub fn scenario(&self) -> &str {
        &self.ground.text
    }

    /// Most runs of a contestant in a cell.
    pub fn most(&self) -> u32 {
        self.stop.as_ref().map_or(self.runs, |stop| stop.most.max(self.runs))
    }

    /// With a digest of each controller that paceline does not have itself: results of another one do not mix with these.
    #[must_use]
    pub fn with_digests(mut self, digests: BTreeMap<String, String>) -> Self {
        self.digests = digests;
        self
    }

    /// How many values axes have that take them together.
    pub(super) fn steps(&self, together: &[usize]) -> usize {
        together.first().map_or(1, |axis| self.axes[*axis].values.len())
    }

    /// Cells of the grid: combinations of values.
    pub fn cells(&self) -> usize {
        self.together.iter().map(|axes| self.steps(axes)).product()
    }

    /// How many points there may be. Their numbers go by contestant, then by cell, then by run.
    pub fn points(&self) -> usize {
        self.contestants.len() * self.cells() * self.most() as usize
    }

    /// The number of a point.
    pub(super) fn index(&self, contestant: usize, cell: usize, run: u32) -> usize {
        (contestant * self.cells() + cell) * self.most() as usize + run as usize - 1
    }

    /// Contestant, cell and run of a point.
    pub(super) fn place(&self, index: usize) -> (usize, usize, u32) {
        let most = self.most() as usize;
        let cell = index / most;
        (cell / self.cells(), cell % self.cells(), (index % most) as u32 + 1)
    }

    /// For each axis the number of its value in this cell.
    pub fn values(&self, cell: usize) -> Vec<usize> {
        let mut rest = cell;
        let mut values = vec![0; self.axes.len()];
        for axes in self.together.iter().rev() {
            for axis in axes {
                values[*axis] = rest % self.steps(axes);
            }
            rest /= self.steps(axes);
        }
        values
    }

    pub(super) fn settings(&self, values: &[usize]) -> Vec<String> {
        self.axes.iter().zip(values).map(|(axis, value)| axis.setting(*value)).collect()
    }

    /// Its points one by one; see [`Sweep::shared`] for many.
    ///
    /// # Panics
    /// When there is no point of this number ([`Sweep::points`]).
    pub fn point(&self, index: usize) -> Point {
        self.shared().point(index)
    }

    /// The points, which then share what they have in common.
    pub fn shared(&self) -> Points<'_> {
        Points { sweep: self, ground: Arc::new(self.ground.clone()) }
    }

    pub(super) fn seed_of(&self, values: &[usize]) -> u64 {
        let axis = self.axes.iter().zip(values).find(|(axis, _)| axis.key == "seed");
        let seed = axis.and_then(|(axis, value)| axis.values[*value].as_integer());
        seed.and_then(|seed| u64::try_from(seed).ok()).unwrap_or(self.seed)
    }
}

/// The points of a sweep.
#[derive(Clone, Debug)]
pub struct Points<'a> {
    sweep: &'a Sweep,
    ground: Arc<Ground>,
}

impl Points<'_> {
    /// The point of this number.
    ///
    /// # Panics
    /// When there is none ([`Sweep::points`]).
    pub fn point(&self, index: usize) -> Point {
        let (contestant, cell, run) = self.sweep.place(index);
        let values = self.sweep.values(cell);
        Point {
            index,
            cell,
            contestant: self.sweep.contestants[contestant].clone(),
            run,
            seed: self.sweep.seed_of(&values),
            set: self.sweep.settings(&values),
            ground: self.ground.clone(),
        }
    }
}

impl Sweep {
    /// What the results depend on: text that is the same for the same sweep, whatever folder it stands in.
    pub fn identity(&self) -> String {
        let traces: Vec<String> = self
            .ground
            .traces
            .values()
            .map(|trace| format!("{:016x}", fnv_1a(trace.millis().iter().flat_map(|time| time.to_le_bytes()))))
            .collect();
        let keys = |axes: &Vec<usize>| axes.iter().map(|axis| self.axes[*axis].key.clone()).collect::<Vec<_>>();
        let identity = serde_json::json!({
            "version": self.ground.version,
            "commit": self.ground.commit,
            "controllers": self.digests,
            "title": self.title,
            "scenario": self.ground.text,
            "grid": self.axes,
            "linked": self.together.iter().filter(|axes| axes.len() > 1).map(keys).collect::<Vec<_>>(),
            "contestants": self.contestants,
            "runs": self.runs,
            "seed": self.ground.seed,
            "seconds": self.ground.seconds,
            "stop": self.stop,
            "traces": traces,
        });
        format!("{identity}\n")
    }

    /// What distinguishes the sweep of this identity from this one.
    pub(super) fn differs_from(&self, held: &str) -> FolderProblem {
        let read = |text: &str| serde_json::from_str::<serde_json::Map<String, Json>>(text).unwrap_or_default();
        let (held, ours) = (read(held), read(&self.identity()));
        let text =
            |of: &serde_json::Map<String, Json>, key: &str| of.get(key).and_then(Json::as_str).map(str::to_owned);
        let build = |of| named(&text(of, "version").unwrap_or_default(), text(of, "commit").as_deref());
        if text(&held, "version").is_some() && build(&held) != build(&ours) {
            return FolderProblem::OtherBuild { theirs: build(&held), ours: build(&ours) };
        }
        let differs = |(key, value): &(&String, &Json)| held.get(*key) != Some(value);
        let keys: Vec<String> = ours.iter().filter(differs).map(|(key, _)| key.clone()).collect();
        if keys == ["controllers"] {
            let old = held.get("controllers");
            let other = self.digests.iter().find(|(name, digest)| {
                old.and_then(|old| old.get(name.as_str())).and_then(Json::as_str) != Some(digest.as_str())
            });
            return FolderProblem::OtherController { name: other.map(|(name, _)| name.clone()).unwrap_or_default() };
        }
        FolderProblem::OtherSweep { keys }
    }
}
