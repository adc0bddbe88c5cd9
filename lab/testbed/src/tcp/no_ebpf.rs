//! Flows whose congestion control is loaded by eBPF, in a build without it.

use paceline_experiment::Flow;

use super::{Kernel, KernelError};
use crate::observers::Observers;

/// Whether this build loads anything.
pub(super) const BUILT: bool = false;

/// Refused, with how to build it.
pub(super) fn module(flow: &Flow) -> Result<Kernel, KernelError> {
    let controller = flow.controller.clone();
    Err(KernelError::NoEbpf { flow: super::itself(flow), controller })
}

/// Refused, with how to build it.
pub(super) fn agent(flow: &Flow) -> Result<Kernel, KernelError> {
    module(flow)
}

/// Refused: another process has to load it.
pub(super) fn open_window(_: &Flow) -> Option<Kernel> {
    None
}

/// Nothing.
pub(crate) struct Loads;

impl Loads {
    /// Nothing, whatever the flows.
    pub(crate) fn of<'a>(
        _: impl Iterator<Item = (usize, u16, &'a Flow, Kernel)>,
        _: &Observers,
    ) -> Result<Self, KernelError> {
        Ok(Self)
    }
}
