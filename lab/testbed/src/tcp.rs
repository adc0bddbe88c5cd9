//! Flows of the kernel's own TCP: an ordinary socket with a congestion control that the kernel has, an application that
//! writes, one that reads.
//!
//! What differs from a simulated flow over TCP: acknowledgements, pacing, start-up and loss recovery are the kernel's, and
//! its parameters with them; a flow begins with a handshake, which counts for completion times only where the scenario
//! says so; RTT samples are the kernel's smoothed RTT, taken every [`PROBE`]. There is no `fq` to rely on: a congestion
//! control that paces (BBR) is paced by the socket's own timers, any other is not.

mod above;
#[cfg(feature = "ebpf")]
mod ebpf;
mod loading;
mod receiving;
mod sending;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use paceline_alcc::Options;
use paceline_cc::datapath::OPEN_WINDOW;
use paceline_cc::{Ability, Misfit, Nanos, Spec, Time};
use paceline_experiment::{DrivenBy, Flow};
use paceline_linux::tcp::controllers;

pub(crate) use above::{Engines, Served, above};
#[cfg(feature = "ebpf")]
pub(crate) use loading::Loads;
pub(crate) use loading::{LOADING, Loader, Loading, Telemetry, World};
pub(crate) use receiving::{CHUNK, Reading, Receiving};
pub(crate) use sending::Sending;

/// Time between two looks at `TCP_INFO`. 10 ms: what the series and the quantiles of the RTT need (our choice).
pub const PROBE: Nanos = Nanos::from_millis(10);

/// Payload bytes of a full packet as a socket counts them include the time-stamp option.
const TIMESTAMPS: u32 = 12;

/// Settings of both ends: the receive and send windows must never be the limit (Linux's own largest are 6 and 4 MB), and
/// packets are small ones from the start.
pub(crate) const SETTINGS: [(&str, &str); 2] =
    [("net/ipv4/tcp_rmem", "4096 1048576 67108864"), ("net/ipv4/tcp_wmem", "4096 1048576 67108864")];

/// A flow of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelFlow {
    /// The congestion control's name in the kernel.
    pub name: &'static str,
    /// Whether it uses ECN.
    pub ecn: bool,
    /// Who runs it.
    pub driven_by: DrivenBy,
}

/// What the kernel does of a flow.
#[derive(Clone, Debug)]
pub struct Below {
    /// Its own flow.
    pub kernel: KernelFlow,
    /// Options of the controller above it, where there is one.
    pub above: Option<Options>,
    /// Settings of the scenario that have no effect, one line each.
    pub notes: Vec<String>,
}

/// What of a flow the kernel cannot do.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// It lacks the congestion control.
    #[error(
        "{flow}: this kernel's TCP has no {name}, it has {}; write {instead}, or load the module tcp_{name}",
        if there.is_empty() { "none".to_owned() } else { there.join(", ") }
    )]
    Missing {
        /// The contestant, such as `bbr@tcp`.
        flow: String,
        /// The congestion control.
        name: &'static str,
        /// What the kernel has.
        there: Vec<String>,
        /// A contestant that can run.
        instead: String,
    },
    /// No one has loaded the open window.
    #[error(
        "{controller}@alcc/open: this kernel's TCP has no open window; load it by 'paceline kernel load \
         {OPEN_WINDOW}' (docs/guide/kernel.md), or write {controller}@alcc"
    )]
    OpenWindow {
        /// The controller above it.
        controller: Spec,
    },
    /// A parameter is for our own implementation.
    #[error("{flow}: the kernel's {name} takes no {param}; write {instead}")]
    Parameter {
        /// The contestant.
        flow: String,
        /// The congestion control.
        name: &'static str,
        /// As `key=value`.
        param: String,
        /// A contestant that can run.
        instead: String,
    },
    /// No module of ours is this controller.
    #[error("{flow}: no module is called {controller}; the modules are {}; write {controller}@tcp:driven_by=agent", there.join(", "))]
    NoModule {
        /// The contestant.
        flow: String,
        /// The controller.
        controller: Spec,
        /// The controllers that a module is.
        there: Vec<&'static str>,
    },
    /// This build loads nothing.
    #[error(
        "{flow}: this paceline has no eBPF; build it with 'cargo build --release -p paceline-cli --features ebpf', or write \
         {controller}@udp"
    )]
    NoEbpf {
        /// The contestant.
        flow: String,
        /// The controller.
        controller: Spec,
    },
    /// The agent cannot run the controller.
    #[error("{0}")]
    Misfit(Misfit),
    /// The agent's flows do not ask for ECN.
    #[error("{flow}: the agent's flows use no ECN; write it without ecn=on, or {instead}")]
    NoEcn {
        /// The contestant.
        flow: String,
        /// A contestant that can run.
        instead: String,
    },
    /// What a flow needs could not be loaded.
    #[error("{flow}: {problem}")]
    Load {
        /// The contestant.
        flow: String,
        /// Why not, and what to do.
        problem: String,
    },
    /// Its acknowledgements do not say when packets arrived.
    #[error("{flow}: arrivals: the kernel's TCP does not report when packets arrived; take it out")]
    Arrivals {
        /// The contestant.
        flow: String,
    },
}

/// How the kernel runs this flow. The driver is the `wanted` one, else the kernel's own congestion control if there is one, then a
/// module of ours, then the agent.
///
/// # Errors
/// What the kernel does not have, and how to fix it.
pub fn kernel(flow: &Flow, wanted: Option<DrivenBy>) -> Result<Below, KernelError> {
    if flow.arrivals {
        return Err(KernelError::Arrivals { flow: itself(flow) });
    }
    let kernel = match wanted {
        Some(DrivenBy::Kernel) => native(flow),
        Some(DrivenBy::Module) => loaded(flow, |loading| loading.module),
        Some(DrivenBy::Agent) => loaded(flow, |loading| loading.agent),
        None => native(flow).or_else(|missing| match LOADING {
            Some(loading) => (loading.module)(flow).or_else(|_| (loading.agent)(flow)),
            None => Err(missing),
        }),
    };
    kernel.map(|kernel| noted(flow, kernel))
}

/// By something that is loaded.
fn loaded(
    flow: &Flow,
    by: impl FnOnce(&Loading) -> fn(&Flow) -> Result<KernelFlow, KernelError>,
) -> Result<KernelFlow, KernelError> {
    let without = || KernelError::NoEbpf { flow: itself(flow), controller: flow.controller.clone() };
    let loading = LOADING.as_ref().ok_or_else(without)?;
    by(loading)(flow)
}

/// The flow as its contestant.
fn itself(flow: &Flow) -> String {
    format!("{}@tcp", flow.controller)
}

/// By a congestion control of the kernel's own.
fn native(flow: &Flow) -> Result<KernelFlow, KernelError> {
    let spec = &flow.controller;
    let (name, there) = (spec.entry().name, controllers());
    if !there.iter().any(|known| known == name) {
        return Err(KernelError::Missing { flow: itself(flow), name, there, instead: format!("{spec}@udp") });
    }
    let mut ecn = spec.needs(Ability::ExactMarks);
    for param in given(spec) {
        if param != "ecn=on" {
            let instead = format!("{name}@tcp or {spec}@udp");
            return Err(KernelError::Parameter { flow: itself(flow), name, param, instead });
        }
        ecn = true;
    }
    Ok(KernelFlow { name, ecn, driven_by: DrivenBy::Kernel })
}

fn noted(flow: &Flow, kernel: KernelFlow) -> Below {
    let mut notes = Vec::new();
    let mut note = |key: &str, what: &str| notes.push(format!("{}: {key}: {what}", itself(flow)));
    if (flow.ack_every, flow.ack_delay) != (2, Nanos::from_millis(40)) {
        note("ack_every, ack_delay", "the kernel decides when it acknowledges");
    }
    if flow.paced && kernel.name != "bbr" {
        note("paced", "without fq the kernel paces bbr alone");
    }
    Below { kernel, above: None, notes }
}

/// Parameters that differ from their defaults, as `key=value`.
fn given(spec: &Spec) -> Vec<String> {
    let text = spec.to_string();
    text.split_once(':').map_or_else(Vec::new, |(_, rest)| rest.split(',').map(str::to_owned).collect())
}

/// Connections under way, by the sender's port: what its two ends exchange besides the bytes.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<HashMap<u16, Entry>>);

/// One connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) began: Time,
    pub(crate) goal: Option<u64>,
    pub(crate) delivered: bool,
}

impl Ledger {
    pub(crate) fn lock(&self) -> MutexGuard<'_, HashMap<u16, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_experiment::Via;

    pub(super) fn flow(controller: &str) -> Flow {
        Flow::bulk(controller.parse().unwrap(), Via::tcp(None))
    }

    #[test]
    fn what_the_kernel_cannot_honour_is_refused_or_noted() {
        // Every Linux has Reno.
        let reno = kernel(&flow("reno"), None).unwrap();
        assert_eq!(reno.kernel, KernelFlow { name: "reno", ecn: false, driven_by: DrivenBy::Kernel });
        assert!(reno.notes.is_empty() && kernel(&flow("reno:ecn=on"), None).unwrap().kernel.ecn);
        let refused = |controller: &str, what: &str| {
            let error = kernel(&flow(controller), None).unwrap_err().to_string();
            assert!(error.contains(what) && !error.contains('\n'), "{error}");
        };
        // With eBPF it has them.
        if cfg!(not(feature = "ebpf")) {
            refused("copa", "copa@tcp: this kernel's TCP has no copa");
            refused("reno:start=hystart", "takes no start=hystart");
        }
        let arrivals = kernel(&Flow { arrivals: true, ..flow("reno") }, None).unwrap_err();
        assert_eq!(arrivals, KernelError::Arrivals { flow: "reno@tcp".to_owned() });
        let Below { notes, .. } = kernel(&Flow { ack_every: 1, paced: true, ..flow("reno") }, None).unwrap();
        assert_eq!(notes.len(), 2, "{notes:?}");
    }
}
