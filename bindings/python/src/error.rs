//! Errors as Python sees them.

use paceline_lab::scenario;
use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

create_exception!(
    paceline,
    ScenarioError,
    PyValueError,
    "A scenario, or an option of a run, is wrong. `key` is the key, such as `down.queue`, where one is to blame."
);

/// What a scenario made of Python objects is called where a file would have its name.
pub(crate) const OBJECT: &str = "scenario";
/// The same of a sweep.
const SWEEP: &str = "sweep";

/// With the attribute `key`.
pub(crate) fn scenario_error(py: Python<'_>, key: Option<&str>, message: String) -> PyErr {
    let error = ScenarioError::new_err(message);
    match error.value(py).setattr("key", key) {
        Ok(()) => error,
        Err(other) => other,
    }
}

/// The same text as the command gives, but for lines of a text that no one wrote, and the dashes of options.
pub(crate) fn of_scenario(py: Python<'_>, error: &scenario::ScenarioError) -> PyErr {
    match error {
        scenario::ScenarioError::Field { file, field, problem, .. } if file == OBJECT || file == SWEEP => {
            let colon = if field.is_empty() { "" } else { ": " };
            scenario_error(py, Some(field), format!("{file}: {field}{colon}{problem}"))
        }
        scenario::ScenarioError::Field { field, .. } => scenario_error(py, Some(field), error.to_string()),
        scenario::ScenarioError::Option { option, problem } => {
            let option = option.trim_start_matches('-');
            let key = option.strip_prefix("set ").unwrap_or(option).split('=').next();
            scenario_error(py, key, format!("{option}: {problem}"))
        }
        other => scenario_error(py, None, other.to_string()),
    }
}
