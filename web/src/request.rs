//! What can be asked.

use std::collections::BTreeMap;
use std::rc::Rc;

use paceline_experiment::endpoints::NotSimulated;
use paceline_lab::programs::ProgramsError;
use paceline_lab::record::ReadError;
use paceline_lab::run::RunError;
use paceline_lab::scenario::{KeyError, ScenarioError};
use paceline_path::TraceError;
use paceline_report::PageError;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::browser::{self, Browser};
use crate::controller::{Described, Fault};
use crate::{about, plan, results, run};

/// A race as every request describes it.
#[derive(Clone, Deserialize)]
pub(crate) struct Race {
    /// The scenario's text.
    pub(crate) scenario: String,
    /// What errors call it.
    #[serde(default = "file")]
    pub(crate) file: String,
    /// As `--set` takes them.
    #[serde(default)]
    pub(crate) sets: Vec<String>,
    /// Texts of traces by the names under which the scenario knows them. Those that are shipped need not be given.
    #[serde(default)]
    pub(crate) traces: BTreeMap<String, String>,
    /// Who races; without it, whom the scenario names.
    #[serde(default)]
    pub(crate) contestants: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) seed: Option<u64>,
    #[serde(default)]
    pub(crate) seconds: Option<f64>,
    #[serde(default)]
    pub(crate) runs: Option<u32>,
    /// Controllers of the page, which may race.
    #[serde(default)]
    pub(crate) controllers: Vec<Described>,
}

impl Race {
    /// Whether it could be of a file of this name.
    pub(crate) fn names(&self, file: &str) -> bool {
        std::iter::once(&self.scenario).chain(&self.sets).any(|text| text.contains(file))
    }
}

fn file() -> String {
    "scenario.toml".to_owned()
}

/// A request.
#[derive(Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
enum Request {
    About,
    Plan {
        #[serde(flatten)]
        race: Race,
    },
    Run {
        #[serde(flatten)]
        of: run::Of,
    },
    Digest {
        lines: Vec<String>,
    },
    Report {
        #[serde(flatten)]
        of: results::Raced,
    },
    Csv {
        lines: Vec<String>,
    },
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    #[error("not a request ({0}); see the head of web/src/lib.rs")]
    Request(#[from] serde_json::Error),
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    #[error(transparent)]
    Trace(#[from] TraceError),
    #[error(transparent)]
    Plan(#[from] KeyError),
    #[error(transparent)]
    NotSimulated(#[from] NotSimulated),
    #[error(transparent)]
    Programs(#[from] ProgramsError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("run {number}: the race has {runs}; ask for one from 1 to {runs}")]
    Number { number: u32, runs: u32 },
    #[error("'{0}' is not one contestant; ask for one, such as cubic@tcp")]
    One(String),
    #[error(transparent)]
    Records(#[from] ReadError),
    #[error(transparent)]
    Report(#[from] PageError),
    #[error("controller '{name}': {problem}")]
    Controller { name: String, problem: String },
    #[error("controller '{}': {}: {}", .0.controller, .0.call, .0.message)]
    Fault(Fault),
    #[error("{0}")]
    Write(#[from] std::io::Error),
}

impl AskError {
    fn told(&self) -> Value {
        let mut told = json!({ "told": "error", "message": self.to_string() });
        match self {
            Self::Fault(Fault { controller, call, message, line }) => {
                told = json!({ "told": "fault", "controller": controller, "call": call, "message": message, "line": line });
            }
            Self::Scenario(ScenarioError::Field { line, field, .. }) => {
                told["line"] = json!(line);
                told["field"] = json!(field);
            }
            Self::Scenario(ScenarioError::Option { option, .. }) => told["option"] = json!(option),
            _ => {}
        }
        told
    }
}

/// Answers a request by messages to the page; whether it was done.
pub fn ask(request: &[u8], page: Rc<dyn Browser>) -> bool {
    browser::stand(page);
    let answer = serde_json::from_slice(request).map_err(AskError::from).and_then(answer);
    match answer {
        Ok(told) => browser::tell(&told),
        Err(error) => {
            browser::tell(&error.told());
            return false;
        }
    }
    true
}

fn answer(request: Request) -> Result<Value, AskError> {
    match request {
        Request::About => Ok(about::about()),
        Request::Plan { race } => plan::plan(&race),
        Request::Run { of } => run::run(&of),
        Request::Digest { lines } => results::digest(&lines),
        Request::Report { of } => results::report(&of),
        Request::Csv { lines } => results::csv(&lines),
    }
}
