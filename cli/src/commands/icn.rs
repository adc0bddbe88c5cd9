//! `paceline icn`: named content.

mod publish;
mod route;
mod running;
mod serve;
mod stat;

use std::process::ExitCode;

use clap::Subcommand;

/// Named content: publish files under names that certify them, and look at what a store holds.
///
/// A name is the hash of what it names, so that it does not matter who serves it: every unit is checked before it is used.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Publish(publish::Args),
    Route(route::Args),
    Serve(serve::Args),
    Stat(stat::Args),
}

impl Args {
    /// Whether it handles signals itself.
    pub(crate) fn moves(&self) -> bool {
        matches!(self.command, Command::Route(_) | Command::Serve(_))
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Publish(args) => publish::run(args),
        Command::Route(args) => route::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Stat(args) => stat::run(args),
    }
}
