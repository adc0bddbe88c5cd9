//! What is asked of a controller besides races: RFC 9743's questions, the rules of specifications, an event log once more.

use std::path::{Path, PathBuf};

use paceline_cc::event_log::{Reader, ReplayError, replay as feed};
use paceline_conform::evaluate::{self as questions, Effort, EvaluateError};
use paceline_conform::qlog::{self, Choice};
use paceline_conform::suite::{self, Score};
use paceline_conform::{capture, rules, said, watch};
use paceline_lab::contestant::Contestant;
use paceline_lab::input::{self, Bounded, Bounds};
use paceline_lab::programs::ProgramSettings;
use paceline_lab::run::World;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use serde_json::json;

use crate::conduct::Course;
use crate::error;
use crate::scenario;

/// An answer or a verdict in JSON each, all of it for a terminal, and the page.
type Said = (Vec<String>, String, String);

/// Bounds of what others wrote: each reader has its own below.
const LOGS: Bounds = Bounds { file: 4 << 30, line: 4 << 30 };

fn contestant(text: &str) -> PyResult<Contestant> {
    said::contestant(text).map_err(|problem| PyValueError::new_err(problem.to_string()))
}

/// A problem that the caller did not make.
fn broken(problem: impl ToString) -> PyErr {
    PyRuntimeError::new_err(problem.to_string())
}

/// Holds a controller against RFC 9743; see `paceline.evaluate`.
#[pyfunction]
pub(crate) fn evaluate(
    py: Python<'_>,
    name: &str,
    quick: bool,
    only: Vec<String>,
    threads: &Bound<'_, PyAny>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Said> {
    let (contestant, threads) = (contestant(name)?, scenario::whole("threads", threads, usize::MAX)?);
    let effort = if quick { Effort::QUICK } else { Effort::FULL };
    let course = Course::default();
    let ask = || questions::evaluate(&contestant, effort, &only, threads, &course);
    let found = course.conduct(py, progress, |_| Ok(()), ask)?.map_err(|problem| match problem {
        EvaluateError::Scenario(problem) => error::of_scenario(py, &problem),
        EvaluateError::Unknown(_) => PyValueError::new_err(problem.to_string().replace("--only: ", "only: ")),
        other => broken(other),
    })?;
    let call = format!("paceline.evaluate(\"{contestant}\")");
    let page = questions::page(&found, &call).map_err(broken)?;
    Ok((questions::json(&found), questions::text(&found), page))
}

/// Judges by the rules of a specification; see `paceline.conform`.
#[pyfunction]
pub(crate) fn conform(
    py: Python<'_>,
    name: Option<&str>,
    rules_of: Option<String>,
    files: Vec<(String, PathBuf)>,
    chosen: (Option<usize>, Option<String>),
    threads: &Bound<'_, PyAny>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Said> {
    let threads = scenario::whole("threads", threads, usize::MAX)?;
    let known = rules::controllers();
    let run = name.map(contestant).transpose()?;
    let own = run.as_ref().map(|run| run.controller.entry().name.to_owned());
    let rules_of = rules_of.or_else(|| own.clone().filter(|own| known.contains(&own.as_str())));
    let Some(rules_of) = rules_of.filter(|name| known.contains(&name.as_str())) else {
        let given = own.map_or_else(String::new, |own| format!("there are no rules for '{own}'; "));
        return Err(PyValueError::new_err(format!("as_: {given}give one of {}", known.join(", "))));
    };
    let mut scores = Vec::new();
    if let Some(contestant) = run {
        let course = Course::default();
        let contestants = [(contestant, rules_of.clone())];
        let judge = || suite::judge(&contestants, World::Sim, threads, &ProgramSettings::default(), &course);
        scores = course.conduct(py, progress, |_| Ok(()), judge)?.map_err(broken)?;
    }
    let choice = Choice { trace: chosen.0, flow: chosen.1.as_deref(), or_most: false };
    for (kind, path) in &files {
        scores.push(py.detach(|| of_file(&rules_of, kind, path, choice))?);
    }
    let call = format!("paceline.conform(as_=\"{rules_of}\")");
    let page = paceline_conform::page::page(&scores, &call).map_err(broken)?;
    let lines = said::json(&scores).iter().map(ToString::to_string).collect();
    Ok((lines, said::table(&scores), page))
}

fn of_file(rules_of: &str, kind: &str, path: &Path, choice: Choice<'_>) -> PyResult<Score> {
    let file = path.display().to_string();
    let from = input::open(path, LOGS)
        .map_err(|error| PyOSError::new_err(format!("{file}: cannot be read ({error}); name a file")))?;
    let wrong = |problem: String| PyValueError::new_err(problem);
    let trajectory = match kind {
        "events" => watch::read(&file, from).map_err(|problem| wrong(problem.to_string()))?,
        "qlog" => qlog::read_one(&file, from, choice).map_err(|problem| wrong(problem.to_string()))?,
        _ => capture::read(&file, from, None).map_err(|problem| wrong(problem.to_string()))?,
    };
    Ok(Score::of_one(rules_of, trajectory))
}

/// Feeds an event log to its controller, or to another one; see `paceline.replay`.
#[pyfunction]
pub(crate) fn replay(path: PathBuf, controller: Option<&str>) -> PyResult<String> {
    let file = path.display().to_string();
    let from = input::open(&path, Bounds::EVENTS)
        .map_err(|error| PyOSError::new_err(format!("{file}: cannot be read ({error}); name an event log")))?;
    let mut reader: Reader<Bounded<std::fs::File>> = Reader::new(&file, from).map_err(|problem| wrong(&problem))?;
    let (text, env) = (reader.header().controller.clone(), reader.header().env);
    let text = controller.unwrap_or(&text);
    let spec = input::controller(text)
        .map_err(|problem| PyValueError::new_err(format!("{file}:1: controller: {problem}; register it first")))?;
    let fed = crate::controller::failure::alone(|| feed(&mut reader, spec.build(&env).as_mut()));
    let controller = spec.to_string();
    let said = match fed.map_err(|fault| broken(&fault))? {
        Ok(events) => json!({ "controller": controller, "equal": true, "events": events }),
        Err(ReplayError::Mismatch(mismatch)) => json!({
            "controller": controller, "equal": false, "line": mismatch.line, "event": mismatch.event,
            "answer": mismatch.answer, "recorded": mismatch.recorded, "replayed": mismatch.replayed,
        }),
        Err(problem) => return Err(wrong(&problem)),
    };
    Ok(said.to_string())
}

fn wrong(problem: &dyn std::error::Error) -> PyErr {
    PyValueError::new_err(problem.to_string())
}
