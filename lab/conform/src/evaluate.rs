//! RFC 9743's questions for a controller: scenarios in the simulator, their figures, and one sentence that says what they support.

mod answers;
mod cells;
mod page;
mod questions;

use std::fmt::Write as _;
use std::sync::Arc;

use paceline_lab::contestant::Contestant;
use paceline_lab::run::RunError;
use paceline_lab::runner::{Progress, Runner, RunnerError};
use paceline_lab::scenario::ScenarioError;
use serde::Serialize;

pub(crate) use cells::traces;
pub use cells::{Cells, QuestionCell};
pub use page::{PAGE, page};

/// How thorough an evaluation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Runs of each cell, each with another seed.
    pub runs: u32,
    /// Seconds of the runs of most questions.
    pub seconds: u32,
    /// Most flows at once.
    pub flows: u32,
}

impl Effort {
    /// What a page that others read is made with.
    pub const FULL: Self = Self { runs: 3, seconds: 60, flows: 1000 };
    /// A first look.
    pub const QUICK: Self = Self { runs: 1, seconds: 20, flows: 100 };
}

/// A line of a figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AnswerLine {
    /// What it shows.
    pub name: String,
    /// Points in the units of the axes: medians over the runs.
    pub points: Vec<(f64, Option<f64>)>,
}

/// A figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AnswerChart {
    /// Below it, with its unit.
    pub x: &'static str,
    /// Beside it, with its unit.
    pub y: &'static str,
    /// Equal steps for equal factors, across.
    pub log: bool,
    /// The end of the vertical axis, where it is known before.
    pub top: Option<f64>,
    /// What it shows.
    pub lines: Vec<AnswerLine>,
}

/// One of the questions, answered.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answered {
    /// Its name: `itself`.
    pub id: &'static str,
    /// What is asked.
    pub question: String,
    /// Who asks.
    pub source: &'static str,
    /// On what it was run.
    pub setup: String,
    /// One sentence of what the numbers support.
    pub answer: String,
    /// What was measured.
    pub charts: Vec<AnswerChart>,
    /// Runs that failed, one line each.
    pub failures: Vec<String>,
}

/// Why an evaluation could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvaluateError {
    /// A scenario does not take the contestant.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// Nothing could be run.
    #[error(transparent)]
    Runner(#[from] RunnerError<RunError>),
    /// A trace that comes with paceline is damaged.
    #[error(transparent)]
    Trace(#[from] paceline_path::TraceError),
    /// There is no such question.
    #[error("--only: there is no question '{0}'; name one of {names}", names = names())]
    Unknown(String),
}

fn names() -> String {
    questions::ALL.iter().map(|question| question.id).collect::<Vec<_>>().join(", ")
}

/// Asks every question of a contestant, or the one that is named.
///
/// # Errors
/// When it cannot run in the simulator, or the question does not exist. A run that fails is named with its question.
pub fn evaluate(
    contestant: &Contestant,
    effort: Effort,
    only: Option<&str>,
    threads: usize,
    progress: &dyn Progress,
) -> Result<Vec<Answered>, EvaluateError> {
    if let Some(name) = only.filter(|name| questions::ALL.iter().all(|question| question.id != *name)) {
        return Err(EvaluateError::Unknown(name.to_owned()));
    }
    let asked: Vec<&questions::Question> =
        questions::ALL.iter().filter(|question| only.is_none_or(|name| name == question.id)).collect();
    let traces = traces()?;
    let mut tasks = Vec::new();
    for (index, question) in asked.iter().enumerate() {
        for cell in (question.cells)(contestant, effort) {
            tasks.extend(cell.tasks(index, question.id, effort, &traces)?);
        }
    }
    // The longest first: none is waited for that began last.
    tasks.sort_by_key(|task| std::cmp::Reverse(task.weight));
    let ended = Runner::new(threads, progress).each(&tasks)?;
    let mut answered = Vec::new();
    for (index, question) in asked.iter().enumerate() {
        let of = tasks.iter().zip(&ended).filter(|(task, _)| task.question == index);
        let mut failures = Vec::new();
        let mut cells = Cells::default();
        for (task, result) in of {
            match result {
                Ok(run) => cells.add(&task.cell, run),
                Err(failure) => failures.push(failure.to_string()),
            }
        }
        let (answer, charts) = (question.answer)(&contestant.to_string(), &cells, effort);
        answered.push(Answered {
            id: question.id,
            question: (question.asks)(&contestant.controller.to_string()),
            source: question.source,
            setup: (question.setup)(effort),
            answer,
            charts,
            failures,
        });
    }
    Ok(answered)
}

/// The answers for a terminal.
pub fn text(answered: &[Answered]) -> String {
    let mut text = String::new();
    for one in answered {
        let _ = writeln!(text, "{}\n  {}", one.question, one.answer);
        for failure in &one.failures {
            let _ = writeln!(text, "  failed: {failure}");
        }
    }
    let _ = writeln!(text, "{}", not_asked());
    text
}

/// The clauses of RFC 9743 that no question asks, as one paragraph.
pub fn not_asked() -> String {
    let clauses: Vec<String> =
        questions::NOT_ASKED.iter().map(|(clause, about)| format!("{about} ({clause})")).collect();
    format!("Not asked, of RFC 9743's sections: {}.", clauses.join("; "))
}

/// Traces by the names under which scenarios know them.
pub(crate) type Traces = Vec<(&'static str, Arc<paceline_path::Trace>)>;
