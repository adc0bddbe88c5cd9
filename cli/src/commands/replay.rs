//! `paceline replay`: the events of a log, fed to a controller once more.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::anyhow;
use paceline_cc::Spec;
use paceline_cc::event_log::{Reader, ReplayError, Substitute, answers_json, replay};
use paceline_lab::input::{self, Bounded, Bounds};
use serde_json::json;

use crate::complaint;
use crate::exit::Exit;

/// Feed an event log, as race --events writes it, to its controller and compare all answers, or to another one.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The event log (docs/design/event-log.md).
    file: PathBuf,
    /// Feed it to this controller instead, and print what both answer after each event, as JSON Lines.
    #[arg(long, value_name = "SPEC", value_parser = input::controller)]
    controller: Option<Spec>,
    /// Whether all answers are equal, as a JSON object; with another controller its JSON Lines, as without.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut reader = open(&args.file)?;
    let header = reader.header();
    let env = header.env;
    let recorded = input::controller(&header.controller);
    match &args.controller {
        Some(other) if recorded.as_ref() != Ok(other) => side_by_side(reader, Substitute::new(other.build(&env))),
        _ => {
            let spec = recorded.map_err(|error| anyhow!("{}:1: controller: {error}", reader.name()))?;
            match replay(&mut reader, spec.build(&env).as_mut()) {
                Ok(events) if args.json => {
                    let object = json!({ "controller": spec.to_string(), "equal": true, "events": events });
                    crate::print::out(&format!("{object}\n"))?;
                    Ok(ExitCode::SUCCESS)
                }
                Ok(events) => {
                    crate::print::out(&format!("equal: {spec} answers all {events} events as it was recorded\n"))?;
                    Ok(ExitCode::SUCCESS)
                }
                Err(ReplayError::Mismatch(mismatch)) => {
                    if args.json {
                        let object = json!({
                            "controller": spec.to_string(),
                            "equal": false,
                            "line": mismatch.line,
                            "event": mismatch.event,
                            "answer": mismatch.answer,
                            "recorded": mismatch.recorded,
                            "replayed": mismatch.replayed,
                        });
                        crate::print::out(&format!("{object}\n"))?;
                    }
                    complaint::print(&mismatch.to_string());
                    Ok(Exit::Failed.into())
                }
                Err(error) => Err(error.into()),
            }
        }
    }
}

fn open(path: &Path) -> anyhow::Result<Reader<Bounded<File>>> {
    let name = path.display().to_string();
    let file = input::open(path, Bounds::EVENTS)
        .map_err(|error| anyhow!("{name}: cannot be read ({error}); name an event log that you may read"))?;
    Ok(Reader::new(&name, file)?)
}

/// One line per event: what the recorded controller answered, and what the other one does.
fn side_by_side(reader: Reader<Bounded<File>>, mut other: Substitute) -> anyhow::Result<ExitCode> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    for line in reader {
        let line = line?;
        let (event, now) = (line.event.name(), line.event.now().as_nanos());
        let replayed = answers_json(&other.feed(&line.event));
        let (number, recorded) = (line.number, answers_json(&line.answers));
        let written = writeln!(
            out,
            r#"{{"line":{number},"event":"{event}","now":{now},"recorded":{recorded},"replayed":{replayed}}}"#
        );
        match written {
            // A reader that went away is not an error: `paceline ... | head`.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
            result => result?,
        }
    }
    match out.flush() {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}
