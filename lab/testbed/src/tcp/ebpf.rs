//! Flows whose congestion control is loaded by eBPF: a module of ours, or the agent's.

use std::collections::HashMap;
use std::sync::Arc;

use paceline_cc::datapath::TCP_AGENT;
use paceline_cc::{Ecn, Env, Spec};
use paceline_experiment::{DrivenBy, Flow, Layer};
use paceline_kernel::agent::AgentLimits as AgentOptions;
use paceline_kernel::{
    AGENT, KernelAgent, KernelAgentError, LoadError, Loaded, MODULES, Module, OPEN_WINDOW, SelectedFlow,
    module as named,
};
use paceline_linux::clock::monotonic;

use super::loading::Loading;
use super::{KernelError, KernelFlow, Loader, Telemetry, World};
use crate::observers::Observers;
use crate::race::{self, TestbedError};

/// What this build loads.
pub(super) const LOADING: Loading = Loading {
    module,
    agent,
    // A run loads it for itself.
    open_window: KernelFlow { name: OPEN_WINDOW.name, ecn: false, driven_by: DrivenBy::Module },
    load,
};

/// By a module that is this controller.
fn module(flow: &Flow) -> Result<KernelFlow, KernelError> {
    let controller = flow.controller.to_string();
    let found = MODULES.iter().find(|module| module.controller == Some(controller.as_str()));
    let module = found.ok_or_else(|| KernelError::NoModule {
        flow: super::itself(flow),
        controller: flow.controller.clone(),
        there: MODULES.iter().filter_map(|module| module.controller).collect(),
    })?;
    Ok(KernelFlow { name: module.name, ecn: module.ecn, driven_by: DrivenBy::Module })
}

/// By the agent.
fn agent(flow: &Flow) -> Result<KernelFlow, KernelError> {
    TCP_AGENT.carries(&flow.controller).map_err(KernelError::Misfit)?;
    if flow.controller.build(&Env::default()).nature().ecn != Ecn::Off {
        return Err(KernelError::NoEcn { flow: super::itself(flow), instead: format!("{}@udp", flow.controller) });
    }
    Ok(KernelFlow { name: AGENT.name, ecn: false, driven_by: DrivenBy::Agent })
}

/// What the flows of a world need in the kernel; it is there as long as this is.
struct Loads {
    _modules: Vec<Loaded>,
    agent: Option<KernelAgent>,
}

fn load(flows: &[Loader<'_>], observers: &Observers) -> Result<Box<dyn super::Loads>, KernelError> {
    let mut modules: Vec<Loaded> = Vec::new();
    let mut driven: HashMap<u16, (usize, Spec)> = HashMap::new();
    let mut first = String::new();
    for Loader { index, port, flow, kernel } in flows {
        let failed =
            |problem: &dyn ToString| KernelError::Load { flow: super::itself(flow), problem: problem.to_string() };
        match kernel.driven_by {
            DrivenBy::Kernel => {}
            DrivenBy::Agent => {
                first = super::itself(flow);
                driven.insert(*port, (*index, flow.controller.clone()));
            }
            DrivenBy::Module if modules.iter().any(|loaded| loaded.module().name == kernel.name) => {}
            DrivenBy::Module => {
                let module: &'static Module = named(kernel.name).ok_or_else(|| failed(&kernel.name))?;
                modules.push(module.load_or_share().map_err(|error: LoadError| failed(&error))?);
            }
        }
    }
    let (wanted, observers) = (!driven.is_empty(), observers.clone());
    let driven = Arc::new(driven);
    let of = Arc::clone(&driven);
    let choose = move |flow: &SelectedFlow| driven.get(&flow.remote.port()).map(|(_, spec)| spec.clone());
    let observe = move |flow: &SelectedFlow, env: &Env| {
        let (index, spec) = of.get(&flow.remote.port())?;
        observers.of(*index, Layer::Packets, spec, env, monotonic())
    };
    let agent = wanted.then(|| KernelAgent::start_observed(AgentOptions::default(), choose, observe)).transpose();
    let agent =
        agent.map_err(|error: KernelAgentError| KernelError::Load { flow: first, problem: error.to_string() })?;
    Ok(Box::new(Loads { _modules: modules, agent }))
}

impl super::Loads for Loads {
    fn telemetry(&self, world: &World<'_>) -> Result<Option<Box<dyn Telemetry>>, TestbedError> {
        race::prepare_telemetry(world, self.agent.as_ref().map(KernelAgent::informant).as_ref())
    }
}
