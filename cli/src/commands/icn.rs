//! `paceline icn`: named content.

mod announce;
mod fetch;
mod gateway;
mod places;
mod publish;
mod resolve;
mod resolver;
mod route;
mod running;
mod serve;
mod stat;

use std::process::ExitCode;

use clap::Subcommand;

/// Named content: publish files under names that certify them, serve, find and fetch them.
///
/// A name is the hash of what it names, so that it does not matter who serves it: every unit is checked before it is used.
#[derive(Subcommand)]
pub(crate) enum Command {
    Fetch(Box<fetch::Args>),
    Gateway(gateway::Args),
    Publish(publish::Args),
    Resolve(resolve::Args),
    Resolver(resolver::Args),
    Route(route::Args),
    Serve(serve::Args),
    Stat(stat::Args),
}

impl Command {
    /// Whether it handles signals itself.
    pub(crate) fn moves(&self) -> bool {
        matches!(self, Self::Resolver(_) | Self::Route(_) | Self::Serve(_))
    }
}

pub(crate) fn run(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Fetch(args) => fetch::run(args)?,
        Command::Gateway(args) => gateway::run(args)?,
        Command::Publish(args) => publish::run(args)?,
        Command::Resolve(args) => resolve::run(args)?,
        Command::Resolver(args) => resolver::run(args)?,
        Command::Route(args) => route::run(args)?,
        Command::Serve(args) => serve::run(args)?,
        Command::Stat(args) => return stat::run(args),
    }
    Ok(ExitCode::SUCCESS)
}
