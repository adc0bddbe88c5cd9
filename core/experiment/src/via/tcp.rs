//! `@tcp`: a TCP flow that the controller drives.

use paceline_cc::Datapath;
use paceline_cc::datapath::{TCP, TCP_AGENT};
use paceline_transport::{HEADER_BYTES, stream};
use serde::{Deserialize, Serialize};

use super::{DatapathRow, How};
use crate::endpoints::{FlowEnds, Making};
use crate::tap::Layer;

/// Who runs the controller of a kernel TCP flow. The simulator's sender drives its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DrivenBy {
    /// The kernel: a congestion control of its own.
    Kernel,
    /// A module of ours, loaded by eBPF.
    Module,
    /// A program beside the kernel, to which a module reports.
    Agent,
}

impl DrivenBy {
    /// Every one, in the order in which they are tried.
    pub const ALL: [Self; 3] = [Self::Kernel, Self::Module, Self::Agent];

    /// Its name in contestants and records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Module => "module",
            Self::Agent => "agent",
        }
    }
}

fn way(how: &How) -> Option<&'static Datapath> {
    (how.driven_by == Some(DrivenBy::Agent)).then_some(&TCP_AGENT)
}

fn read(how: &mut How, key: &str, word: &str) -> Option<()> {
    let driven_by = DrivenBy::ALL.into_iter().find(|by| key == "driven_by" && word == by.name())?;
    how.driven_by = Some(driven_by);
    Some(())
}

fn write(how: &How) -> Vec<String> {
    how.driven_by.iter().map(|by| format!("driven_by={}", by.name())).collect()
}

fn ends(mut making: Making<'_>) -> FlowEnds {
    let controller = making.controller(&making.flow.controller, Layer::Packets);
    FlowEnds::Push(stream::sender(&making.config, controller), stream::receiver(&making.policy, making.half()))
}

/// `tcp` in the table.
pub(super) static ROW: DatapathRow = DatapathRow {
    datapath: &TCP,
    way,
    takes: Some("driven_by=kernel, module or agent"),
    read,
    write,
    above: false,
    payload: None,
    headers: HEADER_BYTES,
    ends: Some(ends),
};
