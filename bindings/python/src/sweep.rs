//! Sweeps: points that other processes run, and the folder that keeps what became of them.

use std::path::PathBuf;

use paceline_lab::sweep::{self, Point, SweepError};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

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

    /// A point, as a text with which any process can run it.
    fn points(&self, indices: Vec<usize>) -> PyResult<Vec<String>> {
        if let Some(index) = indices.iter().find(|index| **index >= self.0.points()) {
            return Err(PyValueError::new_err(format!("there is no point {index}; the sweep has {}", self.0.points())));
        }
        let points = self.0.shared();
        Ok(indices.into_iter().map(|index| points.point(index).to_json()).collect())
    }
}

/// Runs a point: its record in JSON, or what happened.
#[pyfunction]
pub(crate) fn run_point(py: Python<'_>, point: &str) -> PyResult<(Option<String>, Option<String>)> {
    let point = Point::from_json(point).map_err(|problem| wrong(py, problem))?;
    match py.detach(|| point.run()) {
        Ok(record) => Ok((Some(serde_json::to_string(&record).unwrap_or_default()), None)),
        Err(problem) => Ok((None, Some(problem))),
    }
}

#[pymethods]
impl Folder {
    #[new]
    fn new(py: Python<'_>, path: PathBuf, sweep: &Sweep) -> PyResult<Self> {
        sweep::Folder::open(&path, &sweep.0).map(Self).map_err(|problem| wrong(py, problem))
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
                    None => Err(problem.unwrap_or_default()),
                },
            ));
        }
        self.0.put(read).map_err(|problem| wrong(py, problem))
    }

    /// Runs that failed.
    fn failures(&self) -> Vec<Failed> {
        let failed = |failed: sweep::Failed| {
            let point = failed.point;
            let set = point.set().to_vec();
            (point.contestant().to_owned(), point.run_number(), point.seed(), set, failed.problem)
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
        SweepError::Io { .. } | SweepError::Folder { .. } => PyOSError::new_err(problem.to_string()),
        other => PyValueError::new_err(other.to_string()),
    }
}
