//! What a build with eBPF adds: congestion controls that a run loads, and telemetry. A build without has none of it.

use std::time::Duration;

use paceline_emulator::world::{Nodes, Site};
use paceline_experiment::{Flow, Graph, Seed, TelemetryOutcome};
use paceline_linux::clock::Clock;
use paceline_telemetry::ReportInboxes;

use super::{KernelError, KernelFlow};
use crate::observers::Observers;
use crate::race::{SharedTruth, TestbedError};

/// What can be loaded, and by whom.
pub(crate) struct Loading {
    /// By a module that is the flow's controller.
    pub(super) module: fn(&Flow) -> Result<KernelFlow, KernelError>,
    /// By the agent.
    pub(super) agent: fn(&Flow) -> Result<KernelFlow, KernelError>,
    /// The open window.
    pub(super) open_window: KernelFlow,
    /// For these flows, each with its index and the port that it goes to; the observers see the controllers of the agent.
    pub(crate) load: Load,
}

/// Loads what flows need.
type Load = fn(&[Loader<'_>], &Observers) -> Result<Box<dyn Loads>, KernelError>;

/// A flow for which something may have to be loaded.
#[cfg_attr(not(feature = "ebpf"), expect(dead_code, reason = "a build with eBPF reads it"))]
pub(crate) struct Loader<'a> {
    /// Its index.
    pub(crate) index: usize,
    /// The port that it goes to.
    pub(crate) port: u16,
    pub(crate) flow: &'a Flow,
    pub(crate) kernel: KernelFlow,
}

/// Nothing in a build without eBPF.
pub(crate) const LOADING: Option<Loading> = {
    #[cfg(feature = "ebpf")]
    {
        Some(super::ebpf::LOADING)
    }
    #[cfg(not(feature = "ebpf"))]
    {
        None
    }
};

/// What the flows of a world need in the kernel; it is there as long as this is.
pub(crate) trait Loads {
    /// Telemetry of the world, loaded; nothing where no flow has any.
    ///
    /// # Errors
    /// What of it cannot be had.
    fn telemetry(&self, world: &World<'_>) -> Result<Option<Box<dyn Telemetry>>, TestbedError>;
}

/// What telemetry of a world is about.
#[cfg_attr(not(feature = "ebpf"), expect(dead_code, reason = "a build with eBPF reads it"))]
pub(crate) struct World<'a> {
    pub(crate) sites: &'a [Site],
    pub(crate) graph: &'a Graph,
    pub(crate) flows: &'a [Flow],
    pub(crate) seed: Seed,
    /// By flow, how long a report takes to its sender where the scenario does not say so.
    pub(crate) backs: &'a [Duration],
    /// By flow.
    pub(crate) truths: &'a [SharedTruth],
    /// Of flows that a thread of ours sends.
    pub(crate) inboxes: &'a ReportInboxes,
}

/// Telemetry of a world. Dropping it ends it.
pub(crate) trait Telemetry {
    /// The nodes, with hops that take part.
    fn at(&self, nodes: Nodes, graph: &Graph) -> Nodes;

    /// Begins, by the clock of the run.
    ///
    /// # Errors
    /// When a thread cannot be had.
    fn start(&mut self, clock: Clock, flows: usize) -> Result<(), TestbedError>;

    /// Ends it. What became of reports, by flow.
    ///
    /// # Errors
    /// What failed on the way.
    fn stop(self: Box<Self>) -> Result<Vec<TelemetryOutcome>, TestbedError>;
}
