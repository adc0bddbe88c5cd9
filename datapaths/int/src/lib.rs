//! In-band telemetry on Linux. Three roles, each of them programs on tc (eBPF) at one interface: a [`SourceNode`] puts a Hop-by-Hop header into
//! the packets of chosen flows, a [`TransitNode`] hop writes what it sees into it, a [`SinkNode`] takes it out again and makes reports of what
//! it read. What a header holds is in `paceline-telemetry`.
//!
//! Needs Linux 6.2 or newer with BTF, and root. Before 6.6 it needs the command `tc` too.
//!
//! On other systems this crate is empty.
#![cfg(target_os = "linux")]

pub mod agent;
mod attach;
mod counters;
mod error;
mod flows;
mod interface;
mod load;
mod lossy;
mod plan;
mod queue;
mod sink;
mod source;
mod table;
mod transit;

pub use agent::TelemetryAgent;
pub use error::NodeError;
pub use flows::{FlowMaps, TrackedFlow};
pub use lossy::{LossyCounters, LossyLink};
pub use plan::{COSTS, NodeCost, PlannedFlow, PlannedProfile, SourcePlan};
pub use queue::{KernelQueueLimit, QueueState, queue};
pub use sink::{SinkCounters, SinkNode, SinkOptions};
pub use source::{SourceCounters, SourceNode, SourceOptions};
pub use transit::{RadioLink, TransitCounters, TransitNode, TransitOptions};

/// How reports travel.
pub use paceline_bus as bus;

/// How a program is held at its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// By a link of its own (Linux 6.6 and newer).
    Tcx,
    /// As a filter of the clsact discipline, removed by a process that waits for the end of this one.
    Clsact,
}

/// Which clock headers have their times of. Source, hops and sink of a flow must have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum HeaderClock {
    /// Of one machine (CLOCK_MONOTONIC): delays mean something only where all are on it.
    #[default]
    Machine,
    /// International atomic time (CLOCK_TAI), for machines that are synchronised, by PTP for example.
    Tai,
}

impl HeaderClock {
    /// What it says now.
    pub(crate) fn now(self) -> paceline_cc::Time {
        match self {
            Self::Machine => paceline_linux::clock::monotonic(),
            Self::Tai => paceline_linux::clock::atomic(),
        }
    }
}
