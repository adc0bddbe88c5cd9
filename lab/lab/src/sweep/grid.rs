//! The grid, and its points by number.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::SweepError;
use super::axis::Axis;
use super::point::{Ground, Point};
use super::stop::Stop;

/// A scenario over a grid of values.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sweep {
    pub(super) ground: Ground,
    pub(super) title: String,
    pub(super) seed: u64,
    pub(super) axes: Vec<Axis>,
    pub(super) contestants: Vec<String>,
    pub(super) runs: u32,
    pub(super) stop: Option<Stop>,
}

impl Sweep {
    /// All of it as one text: with it, another machine has every point.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a sweep is JSON: its keys are texts")
    }

    /// The inverse.
    ///
    /// # Errors
    /// When the text is no sweep, or one of another version of paceline.
    pub fn from_json(text: &str) -> Result<Self, SweepError> {
        let wrong = |error: serde_json::Error| SweepError::Json {
            what: "sweep",
            problem: format!("{error}; pass on what to_json gave"),
        };
        let sweep: Self = serde_json::from_str(text).map_err(wrong)?;
        sweep.ground.of_this_version("sweep")?;
        Ok(sweep)
    }

    /// One line for people.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The scenario as written, which the grid's values replace key by key.
    pub fn scenario(&self) -> &str {
        &self.ground.text
    }

    /// The keys with their values, the first outermost.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// Who runs in every cell.
    pub fn contestants(&self) -> &[String] {
        &self.contestants
    }

    /// Runs of a contestant in a cell; with [`Sweep::stop`] those at the beginning.
    pub fn runs(&self) -> u32 {
        self.runs
    }

    /// When a cell has enough runs.
    pub fn stop(&self) -> Option<&Stop> {
        self.stop.as_ref()
    }

    /// Most runs of a contestant in a cell.
    pub fn most(&self) -> u32 {
        self.stop.as_ref().map_or(self.runs, |stop| stop.most.max(self.runs))
    }

    /// Cells of the grid: combinations of values.
    pub fn cells(&self) -> usize {
        self.axes.iter().map(|axis| axis.values.len()).product()
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
        let mut values: Vec<usize> = Vec::new();
        for axis in self.axes.iter().rev() {
            values.push(rest % axis.values.len());
            rest /= axis.values.len();
        }
        values.reverse();
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
    pub(super) fn identity(&self) -> String {
        let traces: Vec<String> =
            self.ground.traces.values().map(|trace| format!("{:016x}", digest(trace.millis()))).collect();
        let identity = serde_json::json!({
            "version": self.ground.version,
            "title": self.title,
            "scenario": self.ground.text,
            "grid": self.axes,
            "contestants": self.contestants,
            "runs": self.runs,
            "seed": self.ground.seed,
            "seconds": self.ground.seconds,
            "stop": self.stop,
            "traces": traces,
        });
        format!("{identity}\n")
    }
}

/// FNV-1a, 64 bits (Fowler, Noll, Vo; RFC 9923): it notices that a file was changed, and need not withstand anyone.
fn digest(times: &[u32]) -> u64 {
    times
        .iter()
        .flat_map(|time| time.to_le_bytes())
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}
