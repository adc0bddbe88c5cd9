//! Scenarios: files, or Python dictionaries with the same keys.

use std::fmt::Display;
use std::path::PathBuf;

use paceline_cc::foreign::printable;
use paceline_cc::{Nanos, Time};
use paceline_lab::scenario::{Options, Plan, Source};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use toml::{Table, Value};

use crate::error::{self, OBJECT};

/// Tables in tables in a scenario. 16: no key of a scenario is deeper than five (our choice).
const DEEPEST: usize = 16;

/// What is given beside a scenario.
#[derive(FromPyObject)]
pub(crate) struct Given<'py> {
    #[pyo3(item)]
    contestants: Option<Bound<'py, PyAny>>,
    #[pyo3(item)]
    runs: Option<Bound<'py, PyAny>>,
    #[pyo3(item)]
    seed: Option<Bound<'py, PyAny>>,
    #[pyo3(item)]
    seconds: Option<Bound<'py, PyAny>>,
    #[pyo3(item)]
    set: Bound<'py, PyDict>,
}

impl Given<'_> {
    pub(crate) fn options(&self) -> PyResult<Options> {
        let mut set = Vec::new();
        for (key, given) in self.set.iter() {
            let text =
                |_| error::scenario_error(key.py(), Some("set"), format!("set: the key {} is not a text", shown(&key)));
            let key: String = key.extract().map_err(text)?;
            let text = match value(&given, &key, 0)? {
                // As behind --set: a number in quotes is a number.
                Some(Value::String(text)) => text,
                Some(value) => value.to_string(),
                None => String::new(),
            };
            set.push(format!("{key}={text}"));
        }
        let names = |given: &Bound<'_, PyAny>| -> PyResult<String> {
            let names: Vec<String> = given.extract().map_err(|_| {
                let text = shown(given);
                let what = format!("contestants: {text} is not a list of texts; write contestants=[\"copa@udp\"]");
                error::scenario_error(given.py(), Some("contestants"), what)
            })?;
            Ok(names.join(","))
        };
        let seconds = |given: &Bound<'_, PyAny>| {
            let span = span("seconds", given)?;
            Ok::<_, PyErr>(given.extract().unwrap_or_else(|_| span.as_secs_f64()))
        };
        Ok(Options {
            contestants: self.contestants.as_ref().map(names).transpose()?,
            seed: self.seed.as_ref().map(|given| whole("seed", given, u64::MAX)).transpose()?,
            seconds: self.seconds.as_ref().map(seconds).transpose()?,
            runs: self.runs.as_ref().map(|given| whole("runs", given, u32::MAX)).transpose()?,
            set,
            ..Options::default()
        })
    }
}

/// A whole number from 0 to `most`.
pub(crate) fn whole<T: TryFrom<u64> + Display>(what: &str, given: &Bound<'_, PyAny>, most: T) -> PyResult<T> {
    // A bool is an int to Python.
    let number = (!given.is_instance_of::<PyBool>()).then(|| given.extract::<u64>().ok()).flatten();
    number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| {
        let text = format!("{what}: {} is not a whole number from 0 to {most}", shown(given));
        error::scenario_error(given.py(), Some(what), text)
    })
}

/// As Python writes it, in one line.
pub(crate) fn shown(given: &Bound<'_, PyAny>) -> String {
    let text = given.repr().map_or_else(|_| "it".to_owned(), |text| text.to_string());
    printable(&text, 80)
}

/// A file, or a dictionary; `folder` is where a dictionary's traces are looked for.
pub(crate) fn source(scenario: &Bound<'_, PyAny>, folder: Option<PathBuf>, options: Options) -> PyResult<Source> {
    if let Ok(keys) = scenario.cast::<PyDict>() {
        let text = text(keys)?;
        let source = Source::from_text(OBJECT, &text, options);
        return Ok(match folder {
            Some(folder) => source.in_folder(&folder),
            None => source,
        });
    }
    let path: PathBuf = scenario.extract().map_err(|_| {
        let kind = scenario.get_type().name().map_or_else(|_| "this".to_owned(), |name| name.to_string());
        PyTypeError::new_err(format!("a scenario is a path, a dict or a paceline.Scenario, not {kind}"))
    })?;
    Source::read(&path, options).map_err(|problem| error::of_scenario(scenario.py(), &problem))
}

/// A dictionary as the text of a file.
pub(crate) fn text(keys: &Bound<'_, PyDict>) -> PyResult<String> {
    toml::to_string(&table(keys, "", 0)?).map_err(|problem| {
        error::scenario_error(keys.py(), None, format!("{OBJECT}: it cannot be written as TOML ({problem})"))
    })
}

/// The plans of all runs.
pub(crate) fn plans(py: Python<'_>, source: &Source) -> PyResult<Vec<Plan>> {
    py.detach(|| source.plans()).map_err(|problem| error::of_scenario(py, &problem))
}

/// A file in JSON, not checked but for being TOML.
#[pyfunction]
pub(crate) fn read_scenario(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    let source = Source::read(&path, Options::default()).map_err(|problem| error::of_scenario(py, &problem))?;
    let table: Table = toml::from_str(source.text()).map_err(|problem| {
        let what = problem.message().replace('\n', " ");
        error::scenario_error(py, None, format!("{}: {what}", path.display()))
    })?;
    Ok(serde_json::to_string(&table).unwrap_or_default())
}

/// The scenario with every default filled in, as the text of a file; everything in it has been checked.
#[pyfunction]
pub(crate) fn effective_scenario(
    scenario: &Bound<'_, PyAny>,
    folder: Option<PathBuf>,
    given: Given<'_>,
) -> PyResult<String> {
    let plans = plans(scenario.py(), &source(scenario, folder, given.options()?)?)?;
    Ok(plans.first().map(Plan::to_toml).unwrap_or_default())
}

/// A span of time as scenarios write it (`"20ms"`), or seconds.
pub(crate) fn span(what: &str, given: &Bound<'_, PyAny>) -> PyResult<Nanos> {
    let wrong = || {
        let text = format!("{what}: {} is not a span above 0; write a text such as \"20ms\", or seconds", shown(given));
        error::scenario_error(given.py(), Some(what), text)
    };
    if given.is_instance_of::<PyBool>() {
        return Err(wrong());
    }
    let nanos = match given.extract::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds.is_finite() => Nanos::from_secs_f64(seconds),
        Ok(_) => return Err(wrong()),
        Err(_) => Value::String(given.extract::<String>().map_err(|_| wrong())?).try_into().map_err(|_| wrong())?,
    };
    if nanos == Nanos::ZERO { Err(wrong()) } else { Ok(nanos) }
}

/// The end of a plan's world.
pub(crate) fn end(plan: &Plan) -> Time {
    Time::ZERO + Nanos::from_secs_f64(plan.scenario.seconds)
}

fn table(keys: &Bound<'_, PyDict>, path: &str, depth: usize) -> PyResult<Table> {
    let mut table = Table::new();
    for (name, given) in keys.iter() {
        let Ok(name) = name.extract::<String>() else {
            return Err(error::scenario_error(
                keys.py(),
                Some(path),
                format!("{OBJECT}: {path}: the key {} is not a text", shown(&name)),
            ));
        };
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        if let Some(value) = value(&given, &path, depth + 1)? {
            table.insert(name, value);
        }
    }
    Ok(table)
}

/// In TOML; nothing for `None`, which is a key that is not given.
fn value(given: &Bound<'_, PyAny>, path: &str, depth: usize) -> PyResult<Option<Value>> {
    let wrong =
        |problem: String| Err(error::scenario_error(given.py(), Some(path), format!("{OBJECT}: {path}: {problem}")));
    if depth > DEEPEST {
        return wrong("it holds itself, or is too deep".to_owned());
    }
    if given.is_none() {
        return Ok(None);
    }
    // A bool is an int to Python.
    if given.is_instance_of::<PyBool>() {
        return Ok(Some(Value::Boolean(given.extract()?)));
    }
    if given.is_instance_of::<PyInt>() {
        return match given.extract::<i64>() {
            Ok(number) => Ok(Some(Value::Integer(number))),
            Err(_) => wrong("the number is too large".to_owned()),
        };
    }
    if given.is_instance_of::<PyFloat>() {
        return Ok(Some(Value::Float(given.extract()?)));
    }
    if given.is_instance_of::<PyString>() {
        return Ok(Some(Value::String(given.extract()?)));
    }
    if let Ok(keys) = given.cast::<PyDict>() {
        return Ok(Some(Value::Table(table(keys, path, depth)?)));
    }
    if given.is_instance_of::<PyList>() || given.is_instance_of::<PyTuple>() {
        let mut values = Vec::new();
        for (index, element) in given.try_iter()?.enumerate() {
            values.extend(value(&element?, &format!("{path}[{index}]"), depth + 1)?);
        }
        return Ok(Some(Value::Array(values)));
    }
    if let Ok(path) = given.extract::<PathBuf>() {
        return Ok(Some(Value::String(path.display().to_string())));
    }
    // Numbers of other libraries.
    if let Ok(number) = given.extract::<f64>() {
        return Ok(Some(Value::Float(number)));
    }
    let kind = given.get_type().name()?.to_string();
    wrong(format!("a {kind} is not a value of a scenario; write a text, a number, a bool, a list or a dict"))
}
