//! `paceline alcc`: files over framed connections above TCP.

mod asking;
mod fetch;
mod send;
mod serve;
mod token;

use std::process::ExitCode;

use clap::Subcommand;

/// Upload and download over TCP, with any controller above it: an upload is resumed, appears when it is whole, and needs a token.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Serve(Box<serve::Args>),
    Send(Box<send::Args>),
    Fetch(Box<fetch::Args>),
    Token(token::Args),
}

impl Args {
    /// Whether it handles signals itself.
    pub(crate) fn moves(&self) -> bool {
        matches!(self.command, Command::Serve(_))
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Serve(args) => serve::run(args),
        Command::Send(args) => send::run(args),
        Command::Fetch(args) => fetch::run(args),
        Command::Token(args) => token::run(args),
    }
}
