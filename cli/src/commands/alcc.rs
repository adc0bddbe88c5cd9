//! `paceline alcc`: files over framed connections above TCP.

mod asking;
mod fetch;
mod send;
mod serve;
mod token;

use std::process::ExitCode;

use clap::Subcommand;

/// Upload and download over TCP, with any controller above it: an upload is resumed, appears when it is whole, and needs a token.
#[derive(Subcommand)]
pub(crate) enum Command {
    Serve(Box<serve::Args>),
    Send(Box<send::Args>),
    Fetch(Box<fetch::Args>),
    Token(token::Args),
}

impl Command {
    /// Whether it handles signals itself.
    pub(crate) fn moves(&self) -> bool {
        matches!(self, Self::Serve(_))
    }
}

pub(crate) fn run(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Serve(args) => return serve::run(args),
        Command::Send(args) => send::run(args)?,
        Command::Fetch(args) => fetch::run(args)?,
        Command::Token(args) => token::run(args)?,
    }
    Ok(ExitCode::SUCCESS)
}
