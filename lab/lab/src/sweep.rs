//! Sweeps: a scenario over a grid of values, contestant by contestant, run by run; `docs/guide/sweeps.md`. With the
//! feature `parquet`.
//!
//! A [`Sweep`] numbers all runs that it may need. Each is a [`Point`], which runs anywhere and gives the same record. A
//! [`Folder`] knows which points are missing, and keeps results whole: what it holds does not depend on who ran what when.

use std::io;
use std::path::PathBuf;

use crate::runner::RunnerError;
use crate::scenario::ScenarioError;
use paceline_files::OutputError;

mod axis;
mod cells;
mod chunk;
mod folder;
mod grid;
mod identity;
mod journal;
mod part;
mod point;
mod read;
mod run;
mod stop;

pub use axis::Axis;
pub use cells::{Cell, Failed, cells_csv, cells_json, cells_table, failed_lines};
pub use folder::Folder;
pub use grid::{Points, Sweep};
pub use part::{NotAPart, Part};
pub use point::{Point, PointError};
pub use run::run;
pub use stop::Stop;

/// Why a sweep cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SweepError {
    /// The file of the sweep, or the scenario, is wrong; it names file, line and key.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A sweep or a point in JSON is not one of ours.
    #[error("{what} in JSON: {problem}")]
    Json {
        /// `sweep` or `point`.
        what: &'static str,
        /// What is wrong, and how to fix it.
        problem: String,
    },
    /// The folder of results cannot be used.
    #[error("{}: {problem}", path.display())]
    Folder {
        /// The folder, or the file in it.
        path: PathBuf,
        /// What is wrong, and how to fix it.
        problem: String,
    },
    /// A file in the folder of results cannot be read or written.
    #[error("{}: {source}; name a folder that you may write to, on a disk with room", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A chunk of results cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Nothing can run.
    #[error(transparent)]
    Runner(Box<RunnerError<SweepError>>),
}
