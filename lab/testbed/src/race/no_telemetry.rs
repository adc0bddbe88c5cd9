//! In-band telemetry of a race, in a build without eBPF: there is none.

use std::time::Duration;

use paceline_emulator::world::{Nodes, Site};
use paceline_experiment::{Flow, Graph, Seed, TelemetryOutcome};
use paceline_linux::clock::Clock;

use super::tap::SharedTruth;
use crate::tcp::Loads;

/// Of no failure: there is nothing that could fail.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TelemetryError {}

/// Whether this build has it.
pub(super) const BUILT: bool = false;

/// What telemetry of a world is about.
#[expect(dead_code, reason = "only a build with eBPF reads it")]
pub(super) struct World<'a> {
    pub(super) sites: &'a [Site],
    pub(super) graph: &'a Graph,
    pub(super) flows: &'a [Flow],
    pub(super) seed: Seed,
    pub(super) backs: &'a [Duration],
    pub(super) truths: &'a [SharedTruth],
}

/// Of no world.
pub(super) enum Telemetry {}

impl Telemetry {
    /// Nothing: flows with telemetry were refused.
    pub(super) fn prepare(_: &World<'_>, _: &Loads) -> Result<Option<Self>, TelemetryError> {
        Ok(None)
    }

    pub(super) fn at(&self, _: Nodes, _: &Graph) -> Nodes {
        match *self {}
    }

    pub(super) fn start(&mut self, _: Clock, _: usize) -> Result<(), TelemetryError> {
        match *self {}
    }

    pub(super) fn stop(self) -> Result<Vec<TelemetryOutcome>, TelemetryError> {
        match self {}
    }
}
