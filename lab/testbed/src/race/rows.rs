//! Who runs the flows of each datapath in real time: the table's rows of this world.

use std::sync::Arc;

use paceline_cc::datapath::{ALCC, ICN, PROGRAM, QUIC, QUIC_NOQ, QUIC_S2N, TCP, UDP};
use paceline_experiment::Flow;

use super::tap::Glimpse;
use super::{Crew, Refused, TestbedError, Work, datagrams, kernel, programs};
use crate::numbers::Numbers;
use crate::tcp::{Below, KernelError};

/// What runs flows over a datapath.
pub(super) struct Real {
    /// Telemetry rides on its packets.
    pub(super) carries_telemetry: bool,
    /// Its flows begin with what earlier ones learnt.
    pub(super) lends_memory: bool,
    /// What of a flow it does otherwise than the simulator, one line each.
    pub(super) check: fn(&Flow) -> Result<Vec<String>, Refused>,
    /// The kernel's part of a flow; nothing for datapaths of our own.
    pub(super) below: fn(&Flow) -> Result<Option<Below>, KernelError>,
    /// A flow, ready to run.
    pub(super) work: fn(&Crew<'_>, &Place<'_>) -> Result<Work, TestbedError>,
}

/// A flow among those of its run.
pub(super) struct Place<'a> {
    pub(super) flow: &'a Flow,
    /// Its index among the configured ones.
    pub(super) index: usize,
    /// Sources of cross traffic in the run.
    pub(super) crossing: u32,
    pub(super) glimpse: &'a Glimpse,
    pub(super) numbers: &'a Arc<Numbers>,
}

/// By the name of the datapath. Where a feature is off, why nothing runs it, and what to do.
const ROWS: &[(&str, Result<Real, &str>)] = &[
    (UDP.name, Ok(datagrams::UDP)),
    (TCP.name, Ok(kernel::TCP)),
    (ALCC.name, Ok(kernel::ALCC)),
    (ICN.name, Ok(datagrams::ICN)),
    (PROGRAM.name, Ok(programs::PROGRAM)),
    #[cfg(feature = "quic")]
    (QUIC.name, Ok(super::quic::QUINN)),
    #[cfg(not(feature = "quic"))]
    (
        QUIC.name,
        Err(
            "this paceline was built without QUIC; build it with 'cargo build --release -p paceline-cli --features quic'",
        ),
    ),
    #[cfg(feature = "quic-noq")]
    (QUIC_NOQ.name, Ok(super::quic::NOQ)),
    #[cfg(not(feature = "quic-noq"))]
    (
        QUIC_NOQ.name,
        Err(
            "this paceline was built without noq; build it with 'cargo build --release -p paceline-cli --features quic-noq'",
        ),
    ),
    #[cfg(feature = "quic-s2n")]
    (QUIC_S2N.name, Ok(super::quic::S2N)),
    #[cfg(not(feature = "quic-s2n"))]
    (
        QUIC_S2N.name,
        Err(
            "this paceline was built without s2n-quic; build it with 'cargo build --release -p paceline-cli --features quic-s2n'",
        ),
    ),
];

/// What runs this flow.
///
/// # Errors
/// [`Refused::NotBuilt`] or [`Refused::NoDatapath`].
pub(super) fn of(flow: &Flow) -> Result<&'static Real, Refused> {
    let via = flow.via.row().datapath.name;
    let controller = || flow.controller.clone();
    match ROWS.iter().find(|(name, _)| *name == via) {
        Some((_, Ok(real))) => Ok(real),
        Some((_, Err(why))) => Err(Refused::NotBuilt { controller: controller(), via, why }),
        None => Err(Refused::NoDatapath { controller: controller(), via }),
    }
}

/// For a datapath of our own.
pub(super) fn nothing_below(_: &Flow) -> Result<Option<Below>, KernelError> {
    Ok(None)
}

/// For a datapath that does all as the simulator.
pub(super) fn nothing_else(_: &Flow) -> Result<Vec<String>, Refused> {
    Ok(Vec::new())
}
