//! What needs the crate `paceline-int`.

mod agent;
mod bus;
mod metrics;
mod nodes;
mod path;
mod watch;

use std::process::ExitCode;

use anyhow::Context;
use paceline_int::bus::{Keys, PublisherRole};
use serde_json::json;

use super::{Command, KeyArgs};

pub(crate) fn run(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Source(args) => nodes::source(args)?,
        Command::Transit(args) => nodes::transit(args)?,
        Command::Sink(args) => nodes::sink(args)?,
        Command::Agent(args) => agent::run(args)?,
        Command::Watch(args) => return watch::run(args),
        Command::Path(args) => path::run(args)?,
        Command::Key(args) => key(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn key(args: &KeyArgs) -> anyhow::Result<()> {
    let roles: Result<Vec<PublisherRole>, _> = args.roles.iter().map(|role| role.parse()).collect();
    let path = Keys::make(&args.keys, &args.name, &roles.context("a role that there is not")?)?;
    let path = path.display();
    Ok(crate::print::out(&if args.json {
        let object = json!({ "publisher": args.name, "roles": args.roles, "file": path.to_string() });
        format!("{object}\n")
    } else {
        format!("{path}: copy it, as it is, to the machines that read what {} publishes\n", args.name)
    })?)
}
