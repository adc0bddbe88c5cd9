//! What is made of records.

use paceline_lab::race::{summed, titled};
use paceline_lab::record::{Record, Run, read_json, write_csv, write_digests};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::plan::source;
use crate::request::{AskError, Race};

fn records(lines: &[String]) -> Result<Vec<Record>, AskError> {
    Ok(read_json("records", lines.join("\n").as_bytes())?)
}

pub(crate) fn digest(lines: &[String]) -> Result<Value, AskError> {
    let (records, mut text) = (records(lines)?, Vec::new());
    write_digests(&records, &mut text)?;
    let one = |of: &Record| json!({ "digest": of.digest(), "contestant": of.contestant(), "run": of.run });
    let digests: Vec<Value> = records.iter().map(one).collect();
    Ok(json!({ "told": "digest", "digest": String::from_utf8_lossy(&text), "digests": digests }))
}

pub(crate) fn csv(lines: &[String]) -> Result<Value, AskError> {
    let mut text = Vec::new();
    write_csv(&records(lines)?, &mut text)?;
    Ok(json!({ "told": "csv", "csv": String::from_utf8_lossy(&text) }))
}

/// What the report of a race is made of.
#[derive(Deserialize)]
pub(crate) struct Raced {
    #[serde(flatten)]
    race: Race,
    /// What each run told as `kept`, in the order of the records.
    kept: Vec<String>,
    /// The command that gives the same report.
    #[serde(default)]
    command: String,
}

pub(crate) fn report(of: &Raced) -> Result<Value, AskError> {
    let source = source(&of.race)?;
    let plan = source.plan(1)?;
    let mut runs: Vec<Run> = of.kept.iter().map(|run| serde_json::from_str(run)).collect::<Result<_, _>>()?;
    summed(&mut runs);
    let title = titled(&plan.scenario, source.set());
    let (written, effective, command) = (source.text(), &plan.to_toml(), of.command.as_str());
    let raced = paceline_report::Raced { title: &title, written, effective, command, runs: &runs };
    Ok(json!({ "told": "report", "html": paceline_report::page(raced)? }))
}
