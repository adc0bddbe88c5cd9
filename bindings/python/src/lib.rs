//! What the Python package `paceline` is made of; `docs/guide/python.md` is its guide.
//!
//! The package's Python half (`python/paceline`) has the types and the documentation that users see; this half has no names of its
//! own for anything, so that scenarios, records and controllers are called in Python what they are called everywhere.

#![expect(clippy::needless_pass_by_value, reason = "what Python calls takes its arguments by value")]

mod conduct;
mod controller;
mod error;
mod events;
mod gym;
mod judge;
mod programs;
mod real;
mod records;
mod run;
mod scenario;
mod sweep;
mod table;
mod transfer;

use paceline_report::palette;
use pyo3::prelude::*;

/// The colour of a controller in reports, on a light page and on a dark one.
#[pyfunction]
fn colour(controller: &str) -> (&'static str, &'static str) {
    let palette::Colour { light, dark } = palette::colour(controller);
    (light, dark)
}

/// The module `paceline._paceline`.
#[pymodule]
mod _paceline {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::{
        colour,
        controller::define::register_controller,
        controller::values::{Ack, Acked, Env, Hop, Loss, Lost, RateSample, Restart, Sent, Telemetry, Timeout},
        gym::{Batch, register_policy},
        judge::{conform, evaluate, replay},
        programs::tend,
        real::{Server, send},
        records::{Records, read_records},
        run::{Failed, run},
        scenario::{effective_scenario, read_scenario},
        sweep::{Folder, Sweep},
        table::Table,
        transfer::{Uploads, download, upload},
    };
    use crate::{error, gym};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        paceline_lab::version::built_from(paceline_commit::COMMIT);
        module.add("__version__", paceline_lab::version::VERSION)?;
        module.add("ScenarioError", module.py().get_type::<error::ScenarioError>())?;
        module.add("SCENARIO_KEYS", std::collections::BTreeMap::from(paceline_lab::scenario::keys()))?;
        module.add("METHODS", paceline_lab::guest::METHODS)?;
        module.add("OBSERVATION", gym::OBSERVATION)?;
        module.add("FIGURES", gym::FIGURES)
    }
}
