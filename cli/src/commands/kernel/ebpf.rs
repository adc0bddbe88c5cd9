//! What needs the crate `paceline-kernel`.

mod hold;
mod list;
mod run;
mod slots;
mod watch;

use std::process::ExitCode;

use anyhow::{Context, anyhow};
use paceline_cc::Spec;
use paceline_cc::datapath::TCP_AGENT;
use paceline_cc::foreign::clipped;
use paceline_cc::names::nearest;
use paceline_cc::registry::{self, controllers};
use paceline_int::agent::{RunningAgent, TelemetryObserver};
use paceline_int::bus::{Address, PublisherRole};
use paceline_kernel::{AGENT, Informant, KernelAgent, Loaded, MODULES, Module};

use super::{Command, ReportsArgs};

/// Whether this process was started to restore a default: then it does that. To be called first in `main`.
pub(crate) use paceline_kernel::default::reentered;

pub(crate) fn run(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::List { json } => list::run(*json)?,
        Command::Load(args) => hold::load(args)?,
        Command::Unload { of, json } => hold::unload(&of.name, *json)?,
        Command::Run(args) => return run::run(args),
        Command::Watch(args) => return watch::run(args),
        Command::Doctor { json } => return super::doctor::run(*json),
    }
    Ok(ExitCode::SUCCESS)
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
    Module { _loaded: Loaded, _reports: Option<RunningAgent> },
    Agent { agent: KernelAgent, _reports: Option<RunningAgent> },
}

impl Held {
    /// The agent, where it is one.
    const fn agent(&self) -> Option<&KernelAgent> {
        match self {
            Self::Module { .. } => None,
            Self::Agent { agent, .. } => Some(agent),
        }
    }
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
        let spec = paceline_lab::input::controller(name)?;
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

    /// The controller that an agent runs, where there is one.
    fn controller(&self) -> Option<String> {
        match self {
            Self::Module(_) => None,
            Self::Controller(spec) => Some(spec.to_string()),
        }
    }

    /// Loads it.
    fn load(&self, reports: &ReportsArgs) -> anyhow::Result<Held> {
        match self {
            Self::Module(module) => held(module.load()?, reports),
            Self::Controller(spec) => start(spec, reports),
        }
    }

    /// Loads it, or shares what another process has loaded; an agent is one process's alone.
    fn load_or_share(&self, reports: &ReportsArgs) -> anyhow::Result<Held> {
        match self {
            Self::Module(module) => held(module.load_or_share()?, reports),
            Self::Controller(spec) => start(spec, reports),
        }
    }
}

fn held(loaded: Loaded, reports: &ReportsArgs) -> anyhow::Result<Held> {
    Ok(Held::Module { _loaded: loaded, _reports: reports.take(None)? })
}

fn start(spec: &Spec, reports: &ReportsArgs) -> anyhow::Result<Held> {
    let spec = spec.clone();
    let agent = KernelAgent::start(move |_| Some(spec.clone()))?;
    let reports = reports.take(Some(agent.informant()))?;
    Ok(Held::Agent { agent, _reports: reports })
}

impl ReportsArgs {
    /// Takes them in, where that is wanted; controllers of this process receive them too.
    fn take(&self, informant: Option<Informant>) -> anyhow::Result<Option<RunningAgent>> {
        if !self.telemetry {
            return Ok(None);
        }
        let inform = |informant: Informant| -> TelemetryObserver {
            Box::new(move |flow, telemetry| {
                let (local, remote) = ((flow.src, flow.sport), (flow.dst, flow.dport));
                informant.telemetry(local.into(), remote.into(), telemetry);
            })
        };
        let bus = self.bus.open_quietly(PublisherRole::Agent)?;
        let local = matches!(bus.address(), Some(Address::Local(_)));
        let agent = paceline_int::TelemetryAgent::new(bus, informant.map(inform))?;
        // A bus of this machine carries hardly any reports but ours: the first of a flow is received as well.
        Ok(Some(if local { agent.hearing_all() } else { agent }.spawn()?))
    }
}

fn unknown(name: &str) -> anyhow::Error {
    // Linux include/net/tcp.h, TCP_CA_NAME_MAX: 16 bytes with the zero at the end.
    let length = name.len();
    if length > 15 && !name.contains(':') {
        let text = clipped(name);
        return anyhow!(
            "'{text}' has {length} characters, and TCP congestion controls have at most 15; see paceline kernel list"
        );
    }
    let controllers = controllers();
    let names = MODULES.iter().map(|module| module.name).chain(controllers.iter().map(|entry| entry.name));
    anyhow!("unknown module or controller '{}'; {}", clipped(name), nearest(name, names))
}
