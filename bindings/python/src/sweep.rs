//! Sweeps: points that other processes run, and the folder that keeps what became of them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use paceline_lab::sweep::{self, Part, SweepError};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::controller::failure;
use crate::error;
use crate::scenario;

/// A scenario over a grid of values.
#[pyclass(frozen, module = "paceline._paceline")]
pub(crate) struct Sweep(sweep::Sweep);

/// The folder of results of one sweep.
#[pyclass(module = "paceline._paceline")]
pub(crate) struct Folder(sweep::Folder);

/// A run that failed: contestant, run, seed, values of its cell, what happened.
type Failed = (String, u32, u64, Vec<String>, String);

#[pymethods]
impl Sweep {
    /// A file, or a dictionary whose scenario and traces are looked for in `folder`.
    #[new]
    fn new(grid: &Bound<'_, PyAny>, folder: PathBuf) -> PyResult<Self> {
        let py = grid.py();
        let read = match grid.cast::<PyDict>() {
            Ok(keys) => {
                let text = scenario::text(keys)?;
                py.detach(|| sweep::Sweep::parse(&text, &folder))
            }
            Err(_) => {
                let path: PathBuf = grid.extract()?;
                py.detach(|| sweep::Sweep::read(&path))
            }
        };
        read.map(Self).map_err(|problem| wrong(py, problem))
    }

    /// All of it as one text: with it, another process can run every point.
    fn to_json(&self, py: Python<'_>) -> String {
        py.detach(|| self.0.to_json())
    }

    /// A text that is the same for sweeps with the same results.
    fn identity(&self, py: Python<'_>) -> String {
        py.detach(|| self.0.identity())
    }

    /// The inverse of `to_json`.
    #[staticmethod]
    fn from_json(py: Python<'_>, text: &str) -> PyResult<Self> {
        py.detach(|| sweep::Sweep::from_json(text)).map(Self).map_err(|problem| wrong(py, problem))
    }

    /// Names of the controllers that take part.
    fn controllers(&self) -> Vec<String> {
        self.0.controllers.iter().cloned().collect()
    }

    /// The same sweep with a digest of each controller that is not of the package.
    fn with_digests(&self, digests: BTreeMap<String, String>) -> Self {
        Self(self.0.clone().with_digests(digests))
    }

    /// Runs a point: its record in JSON, or what happened.
    fn run(&self, py: Python<'_>, index: usize) -> PyResult<(Option<String>, Option<String>)> {
        if index >= self.0.points() {
            return Err(PyValueError::new_err(format!("there is no point {index}; the sweep has {}", self.0.points())));
        }
        let ended = py.detach(|| {
            let point = self.0.point(index);
            // A controller in Python that went wrong leaves figures all the same.
            match failure::alone(|| point.run()) {
                Err(fault) => Err(sweep::PointFailure::new(fault.to_string())),
                Ok(ended) => ended.map(|record| serde_json::to_string(&record).unwrap_or_default()),
            }
        });
        Ok(match ended {
            Ok(record) => (Some(record), None),
            Err(problem) => (None, Some(problem.to_string())),
        })
    }
}

#[pymethods]
impl Folder {
    #[new]
    fn new(py: Python<'_>, path: PathBuf, sweep: &Sweep, part: Option<&str>) -> PyResult<Self> {
        let read =
            |text: &str| text.parse::<Part>().map_err(|problem| PyValueError::new_err(format!("part: {problem}")));
        let part = part.map(read).transpose()?;
        py.detach(|| sweep::Folder::open_part(&path, &sweep.0, part)).map(Self).map_err(|problem| wrong(py, problem))
    }

    /// Takes what failed for what was not run.
    fn retry(&mut self) -> usize {
        self.0.retry()
    }

    /// Points that are to be run now; when there is none, the sweep is over.
    fn missing(&self) -> Vec<usize> {
        self.0.missing()
    }

    /// How many runs have been made.
    fn made(&self) -> usize {
        self.0.made()
    }

    /// Keeps what became of points.
    fn put(&mut self, py: Python<'_>, results: Vec<(usize, Option<String>, Option<String>)>) -> PyResult<()> {
        let mut read = Vec::new();
        for (index, record, problem) in results {
            read.push((
                index,
                match record {
                    Some(record) => Ok(serde_json::from_str(&record).map_err(|problem| {
                        PyValueError::new_err(format!(
                            "point {index}: its record cannot be read ({problem}); use one version of paceline"
                        ))
                    })?),
                    None => Err(sweep::PointFailure::new(problem.unwrap_or_default())),
                },
            ));
        }
        py.detach(|| self.0.put(read)).map_err(|problem| wrong(py, problem))
    }

    /// Writes the medians of every cell.
    fn write_cells(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.write_cells(&self.0.cells())).map_err(|problem| wrong(py, problem))
    }

    /// Runs that failed.
    fn failures(&self) -> Vec<Failed> {
        let failed = |sweep::Failed { point, problem }: sweep::Failed| {
            (point.contestant, point.run, point.seed, point.set, problem)
        };
        self.0.failures().into_iter().map(failed).collect()
    }

    /// The files of results.
    fn chunks(&self) -> Vec<PathBuf> {
        self.0.chunks()
    }
}

fn wrong(py: Python<'_>, problem: SweepError) -> PyErr {
    match problem {
        SweepError::Scenario(problem) => error::of_scenario(py, &problem),
        SweepError::Io { .. } | SweepError::Folder { .. } | SweepError::Chunk { .. } => {
            PyOSError::new_err(problem.to_string())
        }
        other => PyValueError::new_err(other.to_string()),
    }
}
