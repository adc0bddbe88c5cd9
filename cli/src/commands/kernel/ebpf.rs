//! What needs the crate `paceline-kernel`.

mod hold;
mod list;
mod restore;
mod run;
mod watch;

use std::process::ExitCode;

use anyhow::{Context, anyhow};
use paceline_cc::Spec;
use paceline_cc::datapath::TCP_AGENT;
use paceline_cc::names::nearest;
use paceline_cc::registry::{self, controllers};
use paceline_kernel::{AGENT, Agent, Loaded, MODULES, Module};

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

/// What a name stands for.
enum Named {
    /// A module, which decides in the kernel.
    Module(&'static Module),
    /// A controller, which an agent in this process runs for the flows of the module [`AGENT`].
    Controller(Spec),
}

/// What keeps it there: a value that takes it out when it is dropped.
enum Held {
    Module { _loaded: Loaded },
    Agent(Agent),
}

impl Named {
    /// # Errors
    /// When it is neither, or a controller that a kernel flow cannot carry.
    fn parse(name: &str) -> anyhow::Result<Self> {
        if let Some(module) = paceline_kernel::module(name) {
            return Ok(Self::Module(module));
        }
        if registry::find(name.split(':').next().unwrap_or(name)).is_none() {
            return Err(unknown(name));
        }
        let spec: Spec = name.parse()?;
        TCP_AGENT.carries(&spec).with_context(|| format!("{name} cannot steer a flow of the kernel"))?;
        Ok(Self::Controller(spec))
    }

    /// What sockets select.
    const fn module(&self) -> &'static Module {
        match self {
            Self::Module(module) => module,
            Self::Controller(_) => AGENT,
        }
    }

    /// Loads it.
    fn load(&self) -> anyhow::Result<Held> {
        Ok(match self {
            Self::Module(module) => Held::Module { _loaded: module.load()? },
            Self::Controller(spec) => Held::Agent(start(spec)?),
        })
    }

    /// Loads it, or shares what another process has loaded; an agent is one process's alone.
    fn load_or_share(&self) -> anyhow::Result<Held> {
        Ok(match self {
            Self::Module(module) => Held::Module { _loaded: module.load_or_share()? },
            Self::Controller(spec) => Held::Agent(start(spec)?),
        })
    }
}

fn start(spec: &Spec) -> anyhow::Result<Agent> {
    let spec = spec.clone();
    Ok(Agent::start(move |_| Some(spec.clone()))?)
}

fn unknown(name: &str) -> anyhow::Error {
    // Linux include/net/tcp.h, TCP_CA_NAME_MAX: 16 bytes with the zero at the end.
    let length = name.len();
    if length > 15 && !name.contains(':') {
        let text: String = name.chars().take(40).collect();
        return anyhow!(
            "'{text}' has {length} characters, and TCP congestion controls have at most 15; see paceline kernel list"
        );
    }
    let controllers = controllers();
    let names = MODULES.iter().map(|module| module.name).chain(controllers.iter().map(|entry| entry.name));
    anyhow!("unknown module or controller '{name}'; {}", nearest(name, names))
}
