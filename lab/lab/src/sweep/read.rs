//! A sweep read from its file, and checked.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use paceline_cc::foreign::printable;
use paceline_cc::names::nearest;
use paceline_experiment::endpoints;
use serde::Deserialize;

use super::axis::Axis;
use super::point::{Ground, folder_of};
use super::stop::Stop;
use super::{Sweep, SweepError};
use crate::contestant::Contestant;
use crate::input::{self, Bounds};
use crate::record::fields::{Value, columns_of};
use crate::scenario::places::Places;
use crate::scenario::{Plan, ScenarioError};
use crate::version::{VERSION, commit};

/// Most runs that a sweep may need (our choice: about a core's month of the shortest runs).
const MOST_POINTS: usize = 10_000_000;

/// Metrics that an error proposes: those that are asked for most.
const METRICS: [&str; 5] = ["throughput_mbps", "delay_ms_p95", "queue_ms_p95", "utilization", "loss"];

/// Keys that have a place of their own beside the grid.
const OWN_KEYS: [&str; 2] = ["contestants", "runs"];

/// A sweep as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    scenario: toml::Value,
    #[serde(default)]
    contestants: Vec<String>,
    runs: Option<u32>,
    seed: Option<u64>,
    seconds: Option<f64>,
    #[serde(default)]
    linked: Vec<Vec<String>>,
    #[serde(default)]
    grid: toml::Table,
    stop: Option<Stop>,
}

impl Sweep {
    /// Reads a file.
    ///
    /// # Errors
    /// As [`Sweep::parse`], and when it cannot be read.
    pub fn read(path: &Path) -> Result<Self, SweepError> {
        let file = path.display().to_string();
        let text = input::read_text(path, Bounds::SCENARIO)
            .map_err(|source| ScenarioError::Read { file: file.clone(), source })?;
        Self::parse_as(&file, &text, folder_of(path))
    }

    /// Reads a text, which looks for its scenario and traces in `folder`.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line, its key and how to fix it: every value of every key is tried, beside the
    /// first values of the others.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, SweepError> {
        Self::parse_as("sweep", text, folder)
    }

    fn parse_as(file: &str, text: &str, folder: &Path) -> Result<Self, SweepError> {
        let places = Places::of(file, text)?;
        let given = |key: &str| places.iter().any(|place| place.path == key);
        if ["down", "links"].into_iter().any(given) && !given("scenario") {
            let problem = format!("this is a scenario; write a file with scenario = \"{file}\" and a [grid]");
            return Err(places.at("", problem).into());
        }
        let File { scenario, contestants, runs, seed, seconds, linked, grid, stop } = places.read()?;
        let mut ground = ground(&places, file, folder, &scenario)?;
        (ground.seed, ground.seconds) = (seed, seconds);
        for (index, text) in contestants.iter().enumerate() {
            let at = |problem: String| places.at(&format!("contestants[{index}]"), problem);
            text.parse::<Contestant>().map_err(|error| at(error.to_string()))?;
            if contestants[..index].contains(text) {
                return Err(at(format!("{} races twice; take one out", printable(text, 60))).into());
            }
        }
        let mut axes = Vec::new();
        flatten(&places, "", &grid, &mut axes)?;
        let together = link(&places, &linked, &axes)?;
        if runs.is_some_and(|runs| runs == 0) {
            return Err(places.at("runs", "there is no run; give at least 1").into());
        }
        check_stop(&places, stop.as_ref())?;
        let mut sweep = Self {
            ground,
            title: String::new(),
            seed: 0,
            axes,
            together,
            contestants,
            runs: runs.unwrap_or(1),
            stop,
            controllers: BTreeSet::new(),
            digests: BTreeMap::new(),
        };
        sweep.try_values(&places, &scenario, runs)?;
        let most = sweep.most() as usize;
        let points = sweep.together.iter().try_fold(most * sweep.contestants.len(), |points, axes| {
            points.checked_mul(sweep.steps(axes)).filter(|points| *points <= MOST_POINTS)
        });
        if points.is_none() {
            return Err(places.at("grid", format!("more than {MOST_POINTS} runs; take values out")).into());
        }
        Ok(sweep)
    }

    /// Plans one run for each value of each key, with those that are linked to it, and takes from them what the file leaves to
    /// the scenario, the traces, and who takes part.
    fn try_values(&mut self, places: &Places<'_>, scenario: &toml::Value, runs: Option<u32>) -> Result<(), SweepError> {
        let first = vec![0; self.axes.len()];
        let list = self.contestants.join(",");
        let base = self.try_cell(places, scenario, &first, None, &list, runs)?;
        for (index, contestant) in base.scenario.contestants.iter().enumerate() {
            let mut flows = base.flows(contestant).into_iter();
            flows
                .try_for_each(|flow| endpoints::check(&flow))
                .map_err(|error| places.at(&format!("contestants[{index}]"), error.to_string()))?;
        }
        self.contestants = base.scenario.contestants.iter().map(ToString::to_string).collect();
        self.runs = base.scenario.runs;
        self.seed = base.scenario.seed;
        let title = if base.scenario.title.is_empty() { &base.scenario.name } else { &base.scenario.title };
        self.title.clone_from(title);
        self.take(&base);
        let list = self.contestants.join(",");
        for axes in self.together.clone() {
            for value in 1..self.steps(&axes) {
                let mut cell = first.clone();
                axes.iter().for_each(|axis| cell[*axis] = value);
                let plan = self.try_cell(places, scenario, &cell, axes.first().copied(), &list, Some(self.runs))?;
                self.take(&plan);
            }
        }
        Ok(())
    }

    /// Traces and controllers of a plan.
    fn take(&mut self, plan: &Plan) {
        self.ground.traces.extend(plan.traces().clone());
        for flow in plan.scenario.contestants.iter().flat_map(|contestant| plan.flows(contestant)) {
            self.controllers.insert(flow.controller.entry().name.to_owned());
            if let Some(lower) = flow.via.lower() {
                self.controllers.insert(lower.entry().name.to_owned());
            }
        }
    }

    /// The first run of a cell; `varied` is an axis whose value distinguishes it from the first one.
    fn try_cell(
        &self,
        places: &Places<'_>,
        scenario: &toml::Value,
        cell: &[usize],
        varied: Option<usize>,
        contestants: &str,
        runs: Option<u32>,
    ) -> Result<Plan, ScenarioError> {
        let set = self.settings(cell);
        self.ground.source(&set, contestants, runs).plan(1).map_err(|error| match error {
            // Which of the keys: the one that is named, or the one that was varied.
            ScenarioError::Option { option, problem } => {
                let of_axis = |axis: &&Axis| option.starts_with(&format!("--set {}=", axis.key));
                let named = self.axes.iter().find(of_axis).map(|axis| axis.key.as_str());
                let varied = varied.map(|axis| self.axes[axis].key.as_str());
                match named.or(varied) {
                    Some(key) => {
                        let value = varied_value(&self.axes, key, cell);
                        let place = format!("grid.{}", printable(key, 60));
                        places.at(&place, format!("{value}{problem}"))
                    }
                    None => {
                        let key = option.trim_start_matches("--").to_owned();
                        places.at(&key, problem)
                    }
                }
            }
            ScenarioError::Field { field, .. } if field == "contestants" && contestants.is_empty() => {
                let problem = "neither the sweep nor the scenario names anyone; write contestants = [\"cubic@tcp\"]";
                places.at("contestants", problem)
            }
            // Of a scenario inside of the sweep the lines are the sweep's.
            ScenarioError::Field { field, problem, .. } if scenario.is_table() => {
                places.at(&format!("scenario.{field}"), problem)
            }
            other => other,
        })
    }
}

/// The scenario: a file, or a table in the sweep.
fn ground(places: &Places<'_>, file: &str, folder: &Path, scenario: &toml::Value) -> Result<Ground, ScenarioError> {
    let (file, folder, text) = match scenario {
        toml::Value::String(name) => {
            let path = folder.join(name);
            let unreadable = |error: std::io::Error| {
                let shown = printable(&path.display().to_string(), 200);
                places.at("scenario", format!("{shown} cannot be read ({error}); name a scenario file that exists"))
            };
            let text = input::read_text(&path, Bounds::SCENARIO).map_err(unreadable)?;
            (path.display().to_string(), folder_of(&path).to_owned(), text)
        }
        toml::Value::Table(table) => {
            let text = toml::to_string(table).map_err(|error| places.at("scenario", error.to_string()))?;
            (file.to_owned(), folder.to_owned(), text)
        }
        _ => {
            return Err(
                places.at("scenario", "it is neither a file's name nor a table; write scenario = \"FILE.toml\"")
            );
        }
    };
    let (version, commit) = (VERSION.to_owned(), commit().map(str::to_owned));
    Ok(Ground { version, commit, file, folder, text, seed: None, seconds: None, traces: BTreeMap::new() })
}

/// Keys of the grid, whether in quotes or as tables within tables.
fn flatten(places: &Places<'_>, above: &str, table: &toml::Table, axes: &mut Vec<Axis>) -> Result<(), ScenarioError> {
    for (name, value) in table {
        let key = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
        let at = |problem: String| places.at(&format!("grid.{}", printable(&key, 60)), problem);
        match value {
            toml::Value::Table(below) => flatten(places, &key, below, axes)?,
            toml::Value::Array(values) => {
                if OWN_KEYS.contains(&key.as_str()) {
                    return Err(at(format!("the grid does not hold it; write {key} = ... above [grid]")));
                }
                if values.is_empty() {
                    return Err(at("it has no value; give at least one".to_owned()));
                }
                if axes.iter().any(|axis| axis.key == key) {
                    return Err(at("this key is there twice; take one out".to_owned()));
                }
                axes.push(Axis { key, values: values.clone() });
            }
            _ => {
                return Err(at(format!(
                    "one value is not a list; write {name} = [{}, ...]",
                    printable(&value.to_string(), 40)
                )));
            }
        }
    }
    Ok(())
}

/// Which axes take their values together, in the order of the first of them.
fn link(places: &Places<'_>, linked: &[Vec<String>], axes: &[Axis]) -> Result<Vec<Vec<usize>>, ScenarioError> {
    let mut together: Vec<Vec<usize>> = (0..axes.len()).map(|axis| vec![axis]).collect();
    for (group, keys) in linked.iter().enumerate() {
        if keys.len() < 2 {
            let problem =
                "one key is not linked to another; write at least two, such as [\"up.delay\", \"down.delay\"]";
            return Err(places.at(&format!("linked[{group}]"), problem));
        }
        let mut numbers = Vec::new();
        for (number, key) in keys.iter().enumerate() {
            let at = |problem: String| places.at(&format!("linked[{group}][{number}]"), problem);
            let shown = printable(key, 60);
            let Some(axis) = axes.iter().position(|axis| axis.key == *key) else {
                let hint = nearest(key, axes.iter().map(|axis| axis.key.as_str()));
                return Err(at(format!("'{shown}' is not a key of the grid; {hint}")));
            };
            if together[axis] != [axis] || numbers.contains(&axis) {
                return Err(at(format!("'{shown}' is linked already; name each key once")));
            }
            let (first, values) = (&axes[numbers.first().copied().unwrap_or(axis)], axes[axis].values.len());
            if values != first.values.len() {
                let (other, count) = (printable(&first.key, 60), first.values.len());
                return Err(at(format!("'{shown}' has {values} values, and '{other}' has {count}; give them as many")));
            }
            numbers.push(axis);
        }
        for axis in &numbers {
            together[*axis].clone_from(&numbers);
        }
    }
    let mut seen = BTreeSet::new();
    together.retain(|axes| seen.insert(axes.iter().min().copied()));
    // Of linked keys each may hold a value twice, but not all of them at the same place.
    for axes_of_step in &together {
        let step = |index: usize| axes_of_step.iter().map(|axis| &axes[*axis].values[index]).collect::<Vec<_>>();
        let first = &axes[axes_of_step[0]];
        for index in 0..first.values.len() {
            if (0..index).any(|earlier| step(earlier) == step(index)) {
                let shown: Vec<String> = axes_of_step.iter().map(|axis| axes[*axis].shown(index)).collect();
                let place = format!("grid.{}", printable(&first.key, 60));
                return Err(places.at(&place, format!("{} is there twice; take one out", shown.join(" with "))));
            }
        }
    }
    Ok(together)
}

fn check_stop(places: &Places<'_>, stop: Option<&Stop>) -> Result<(), ScenarioError> {
    let Some(stop) = stop else { return Ok(()) };
    let columns = columns_of(&serde_json::Value::Null);
    let numbers: Vec<&str> = columns
        .iter()
        .filter(|(name, value)| {
            !matches!(value, Value::Text(_) | Value::Flag(_)) && !matches!(name.as_str(), "seed" | "run" | "seconds")
        })
        .map(|(name, _)| name.as_str())
        .collect();
    if !numbers.contains(&stop.metric.as_str()) {
        let shown = printable(&stop.metric, 40);
        // More names than a line holds.
        let starts = numbers.iter().filter(|name| name.starts_with(&stop.metric)).copied();
        let hint = nearest(&stop.metric, starts.chain(METRICS));
        return Err(places.at("stop.metric", format!("'{shown}' is not a column of numbers in records; {hint}")));
    }
    if !(stop.interval > 0.0 && stop.interval <= 10.0) {
        let problem =
            format!("{} is not above 0 and at most 10; give a share of the median, such as 0.05", stop.interval);
        return Err(places.at("stop.interval", problem));
    }
    if !(1..=10_000).contains(&stop.most) {
        return Err(places.at("stop.most", format!("{} is not between 1 and 10000; give e.g. 50", stop.most)));
    }
    Ok(())
}

/// The value of a key in a cell, for an error about it.
fn varied_value(axes: &[Axis], key: &str, cell: &[usize]) -> String {
    let value = axes.iter().zip(cell).find(|(axis, _)| axis.key == key).map(|(axis, value)| axis.text(*value));
    value.map_or_else(String::new, |value| format!("with {}: ", printable(&value, 60)))
}
