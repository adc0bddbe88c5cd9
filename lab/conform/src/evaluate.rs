//! RFC 9743, clause by clause, for a controller: questions run in the simulator, their figures held against bounds, one sentence that says
//! what they support, and what the controller's registry says in words.

mod answers;
mod cells;
mod clauses;
mod page;
mod questions;
mod text;
mod verdict;
mod watched;

use std::sync::Arc;

use paceline_cc::statements::Statements;
use paceline_lab::contestant::Contestant;
use paceline_lab::run::RunError;
use paceline_lab::runner::{Progress, Runner, RunnerError};
use paceline_lab::scenario::ScenarioError;
use serde::Serialize;

pub use answers::Check;
pub(crate) use cells::traces;
pub use cells::{Cells, QuestionCell};
use clauses::CLAUSES;
pub use clauses::{ClauseRow, form};
pub use page::{PAGE, page};
use questions::Question;
pub use text::{json, text};
pub use verdict::ClauseVerdict;

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

    /// In a sentence.
    fn about(self) -> String {
        let Self { runs, seconds, .. } = self;
        if runs == 1 {
            format!("Points are of single runs, most of {seconds} s.")
        } else {
            format!("Points are medians of {runs} runs with seeds of their own, most of {seconds} s.")
        }
    }
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
    /// Below it, with its unit; empty where the places have names.
    pub x: &'static str,
    /// Beside it, with its unit.
    pub y: &'static str,
    /// Equal steps for equal factors, across.
    pub log: bool,
    /// The end of the axis of values, where it is known before.
    pub top: Option<f64>,
    /// Names of the places 1, 2, ..., where they are conditions and not numbers.
    pub names: Vec<&'static str>,
    /// Mbit/s, ms of round trip and BDP of buffer of the places 1, 2, ..., where they make a map.
    pub places: Vec<[f64; 3]>,
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
    /// Who asks: the clauses by their sections.
    pub source: String,
    /// On what it was run.
    pub setup: String,
    /// What of its clauses is not asked in this version; empty where all is.
    pub unasked: &'static str,
    /// One sentence of what the numbers support.
    pub answer: String,
    /// What was measured.
    pub charts: Vec<AnswerChart>,
    /// Runs that failed, one line each.
    pub failures: Vec<String>,
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// The contestant.
    pub name: String,
    /// How thoroughly, in a sentence.
    pub effort: String,
    /// A row for every clause of RFC 9743, in order.
    pub clauses: Vec<ClauseRow>,
    /// The questions that were asked.
    pub answers: Vec<Answered>,
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
    #[error("--only: there is no question or section '{0}'; name some of {names}, or a section such as 7.9", names = names())]
    Unknown(String),
}

fn names() -> String {
    questions::all().map(|question| question.id).collect::<Vec<_>>().join(", ")
}

/// Asks every question of a contestant, or those that are named, by themselves or by a section of RFC 9743.
///
/// # Errors
/// When it cannot run in the simulator, or a question does not exist. A run that fails is named with its question.
pub fn evaluate(
    contestant: &Contestant,
    effort: Effort,
    only: &[String],
    threads: usize,
    progress: &dyn Progress,
) -> Result<Evaluation, EvaluateError> {
    let asked = wanted(only)?;
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
    let (mut answers, mut checks): (Vec<Answered>, Vec<Vec<Check>>) = (Vec::new(), Vec::new());
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
        let answer = (question.answer)(&contestant.to_string(), &cells, effort);
        checks.push(answer.checks.into_iter().map(|check| Check { question: question.id, ..check }).collect());
        answers.push(Answered {
            id: question.id,
            question: (question.asks)(&contestant.controller.to_string()),
            source: question.source(),
            setup: (question.setup)(effort),
            unasked: question.unasked,
            answer: answer.text,
            charts: answer.charts,
            failures,
        });
    }
    let heard = |id: &str| asked.iter().position(|question| question.id == id).map(|index| checks[index].as_slice());
    let said: &Statements = &contestant.controller.entry().statements;
    let clauses = clauses::rows(said, only.is_empty(), heard);
    Ok(Evaluation { name: contestant.to_string(), effort: effort.about(), clauses, answers })
}

/// The questions that are named, each once and in their order; all without a name.
fn wanted(only: &[String]) -> Result<Vec<&'static Question>, EvaluateError> {
    let of = |name: &str, question: &Question| {
        let clause = |id: &&'static str| CLAUSES.iter().any(|clause| clause.id == *id && clause.is_within(name));
        question.id == name || question.clauses.iter().any(clause)
    };
    let known = |name: &str| questions::all().any(|one| of(name, one)) || CLAUSES.iter().any(|one| one.is_within(name));
    if let Some(name) = only.iter().find(|name| !known(name)) {
        return Err(EvaluateError::Unknown(name.clone()));
    }
    let named = |question: &&Question| only.is_empty() || only.iter().any(|name| of(name, question));
    Ok(questions::all().filter(named).collect())
}

/// Traces by the names under which scenarios know them.
pub(crate) type Traces = Vec<(&'static str, Arc<paceline_path::Trace>)>;

#[cfg(test)]
mod tests;
