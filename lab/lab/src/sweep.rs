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
pub use chunk::ChunkError;
pub use folder::Folder;
pub use grid::{Points, Sweep};
pub use part::{NotAPart, Part};
pub use point::{Point, PointError, PointFailure};
pub use run::run;
pub use stop::Stop;

/// Why a sweep cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SweepError {
    /// The file of the sweep, or the scenario, is wrong; it names file, line and key.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A sweep or a point in JSON cannot be read.
    #[error("{what} in JSON: {source}; pass on what to_json gave")]
    Json {
        /// `sweep` or `point`.
        what: &'static str,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// A sweep or a point in JSON is of another build.
    #[error("{what} in JSON: it is of paceline {theirs}, and this is {ours}; use one build on all machines")]
    OtherBuild {
        /// `sweep` or `point`.
        what: &'static str,
        /// Version and commit of the build that wrote it.
        theirs: String,
        /// Those of this build.
        ours: String,
    },
    /// The folder of results cannot be used.
    #[error("{}: {problem}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What is wrong, and how to fix it.
        problem: FolderProblem,
    },
    /// A file in the folder of results is not a chunk.
    #[error("{}: not a chunk of this sweep ({source}); remove it, and its runs are run again", path.display())]
    Chunk {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: ChunkError,
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

/// Why a folder of results cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FolderProblem {
    /// It is at work elsewhere.
    #[error("another sweep works in it; wait for its end, or name another folder")]
    AtWork,
    /// The same part of the sweep is.
    #[error("part {0} is at work in it already; wait for its end")]
    PartAtWork(Part),
    /// Its runs are of another build.
    #[error(
        "its runs are of paceline {theirs}, and this is {ours}: runs of two builds do not mix; name another folder"
    )]
    OtherBuild {
        /// Version and commit of its runs.
        theirs: String,
        /// Those of this build.
        ours: String,
    },
    /// A controller that was written elsewhere has changed.
    #[error(
        "controller '{name}' is not the one whose runs it holds: its code, or what it uses, was changed; name another folder"
    )]
    OtherController {
        /// The controller.
        name: String,
    },
    /// It is of another sweep.
    #[error("it holds another sweep ({} differ); name another folder", keys.join(", "))]
    OtherSweep {
        /// What differs, by its key in `_sweep.json`.
        keys: Vec<String>,
    },
    /// A result is of no point of the sweep.
    #[error("there is no point {index}; the sweep has {points}")]
    NoPoint {
        /// As given.
        index: usize,
        /// How many there are.
        points: usize,
    },
}
