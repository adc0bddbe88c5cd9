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
mod real;
mod records;
mod run;
mod scenario;
mod sweep;
mod table;

use paceline_report::palette;
use pyo3::prelude::*;

use controller::values;

/// The colour of a controller in reports, on a light page and on a dark one.
#[pyfunction]
fn colour(controller: &str) -> (&'static str, &'static str) {
    let palette::Colour { light, dark } = palette::colour(controller);
    (light, dark)
}

/// The module `paceline._paceline`.
#[pymodule]
fn _paceline(module: &Bound<'_, PyModule>) -> PyResult<()> {
    paceline_lab::version::built_from(paceline_commit::COMMIT);
    module.add("__version__", paceline_lab::version::VERSION)?;
    module.add("ScenarioError", module.py().get_type::<error::ScenarioError>())?;
    module.add_class::<table::Table>()?;
    module.add_class::<records::Records>()?;
    module.add_class::<run::Failed>()?;
    module.add_function(wrap_pyfunction!(records::read_records, module)?)?;
    module.add_function(wrap_pyfunction!(colour, module)?)?;
    module.add_function(wrap_pyfunction!(run::run, module)?)?;
    module.add_function(wrap_pyfunction!(judge::evaluate, module)?)?;
    module.add_function(wrap_pyfunction!(judge::conform, module)?)?;
    module.add_function(wrap_pyfunction!(judge::replay, module)?)?;
    module.add_function(wrap_pyfunction!(real::send, module)?)?;
    module.add_class::<real::Server>()?;
    module.add_function(wrap_pyfunction!(controller::define::register_controller, module)?)?;
    module.add("SCENARIO_KEYS", std::collections::BTreeMap::from(paceline_lab::scenario::keys()))?;
    module.add("METHODS", controller::define::methods())?;
    module.add("OBSERVATION", gym::OBSERVATION.to_vec())?;
    module.add("FIGURES", gym::FIGURES.to_vec())?;
    module.add_class::<gym::Batch>()?;
    module.add_class::<values::Ack>()?;
    module.add_class::<values::Acked>()?;
    module.add_class::<values::Env>()?;
    module.add_class::<values::Hop>()?;
    module.add_class::<values::Loss>()?;
    module.add_class::<values::Lost>()?;
    module.add_class::<values::RateSample>()?;
    module.add_class::<values::Restart>()?;
    module.add_class::<values::Sent>()?;
    module.add_class::<values::Telemetry>()?;
    module.add_class::<values::Timeout>()?;
    module.add_function(wrap_pyfunction!(gym::register_policy, module)?)?;
    module.add_class::<sweep::Sweep>()?;
    module.add_class::<sweep::Folder>()?;
    module.add_function(wrap_pyfunction!(scenario::read_scenario, module)?)?;
    module.add_function(wrap_pyfunction!(scenario::effective_scenario, module)?)?;
    Ok(())
}
