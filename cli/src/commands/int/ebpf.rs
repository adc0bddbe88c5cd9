//! What needs the crate `paceline-int`.

mod nodes;

use std::process::ExitCode;

use super::Command;

pub(super) fn run(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Source(args) => nodes::source(args),
        Command::Transit(args) => nodes::transit(args),
        Command::Sink(args) => nodes::sink(args),
    }
}
