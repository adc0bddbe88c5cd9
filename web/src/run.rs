//! One run of one contestant.

use paceline_lab::record::{Run, write_json};
use paceline_lab::run::{self, Observers, World};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::controller;
use crate::moving;
use crate::plan::{check, source};
use crate::request::{AskError, Race};

/// Which.
#[derive(Deserialize)]
pub(crate) struct Of {
    #[serde(flatten)]
    race: Race,
    contestant: String,
    /// Its number, from 1.
    run: u32,
    /// Tell what it does while it runs.
    #[serde(default)]
    moving: bool,
    /// Tell what a report draws beside the record, too.
    #[serde(default)]
    report: bool,
}

pub(crate) fn run(of: &Of) -> Result<Value, AskError> {
    let race = Race { contestants: Some(vec![of.contestant.clone()]), ..of.race.clone() };
    let source = source(&race)?;
    let number = of.run;
    let plan = source.plan(number)?;
    let runs = plan.scenario.runs;
    if !(1..=runs).contains(&number) {
        return Err(AskError::Number { number, runs });
    }
    check(std::slice::from_ref(&plan))?;
    let [contestant] = &plan.scenario.contestants[..] else { return Err(AskError::One(of.contestant.clone())) };
    let tap = of.moving.then(|| moving::tap(&plan, contestant));
    // As `race --report` has it.
    let sample_every = (of.report && number == 1).then(|| run::step(&plan));
    let observers = Observers { tap, sample_every, ends: Some(&controller::is_faulty), ..Observers::default() };
    let ended = run::run(&plan, contestant, World::Sim, &observers);
    if let Some(fault) = controller::take_fault() {
        return Err(AskError::Fault(fault));
    }
    let run = Run::of(&plan, contestant, ended?)?;
    let mut line = Vec::new();
    write_json([&run.record], &mut line)?;
    let line = String::from_utf8_lossy(&line);
    let kept = of.report.then(|| serde_json::to_string(&run)).transpose()?;
    Ok(json!({
        "told": "record",
        "contestant": contestant.to_string(),
        "run": number,
        "line": line.trim_end(),
        "kept": kept,
    }))
}
