//! What needs the crate `paceline-kernel`.

mod hold;
mod list;
mod restore;
mod run;
mod watch;

use std::process::ExitCode;

use anyhow::bail;
use paceline_cc::names::nearest;
use paceline_kernel::{MODULES, Module};

use super::Command;

pub(super) use restore::reentered as reentered_as_guard;

pub(super) fn run(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::List(args) => list::run(args),
        Command::Load(args) => hold::load(args),
        Command::Unload(args) => hold::unload(args),
        Command::Run(args) => run::run(args),
        Command::Watch(args) => watch::run(args),
        Command::Doctor(args) => super::doctor::run(args),
    }
}

/// The module of that name.
fn module(name: &str) -> anyhow::Result<&'static Module> {
    if let Some(module) = paceline_kernel::module(name) {
        return Ok(module);
    }
    // Linux include/net/tcp.h, TCP_CA_NAME_MAX: 16 bytes with the zero at the end.
    let length = name.len();
    if length > 15 {
        let text: String = name.chars().take(40).collect();
        bail!(
            "'{text}' has {length} characters, and TCP congestion controls have at most 15; see paceline kernel list"
        );
    }
    bail!("unknown module '{name}'; {}", nearest(name, MODULES.iter().map(|module| module.name)))
}
