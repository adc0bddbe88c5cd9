//! Flows of the kernel's TCP in a race, and those above one: a sender and a receiver, each in a thread, over sockets at the two
//! ends of a world.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;

use paceline_alcc::Mode;
use paceline_cc::Ability;
use paceline_experiment::{Application, Flow};
use socket2::SockRef;

use super::rows::{Place, Real, nothing_else};
use super::{Crew, Ended, FLOW_PORT, FlowError, TestbedError, Work, contestant, port};
use crate::tcp::{self, Below, KernelError, Ledger, Receiving, Sending};

/// `tcp` in the table.
pub(super) const TCP: Real =
    Real { carries_telemetry: true, lends_memory: false, check: nothing_else, below: itself, work };
/// `alcc` in the table.
pub(super) const ALCC: Real =
    Real { carries_telemetry: false, lends_memory: true, check: nothing_else, below: above, work };

fn itself(flow: &Flow) -> Result<Option<Below>, KernelError> {
    tcp::kernel(flow, flow.via.how.driven_by).map(Some)
}

fn above(flow: &Flow) -> Result<Option<Below>, KernelError> {
    // Without a TCP that is named the controller drives both.
    let lower = flow.via.lower().unwrap_or(&flow.controller);
    tcp::above(flow, lower, flow.via.how.handover).map(Some)
}

fn work(crew: &Crew<'_>, place: &Place<'_>) -> Result<Work, TestbedError> {
    let Place { flow, index, glimpse, .. } = *place;
    let name = contestant(flow);
    let below = crew.kernels[index].clone().ok_or_else(|| FlowError::NoKernel { flow: name.clone() })?;
    let Below { kernel, above, .. } = below;
    let (source, target) = crew.ends(flow.way);
    let to = SocketAddr::new(crew.addresses(flow)?.1, port(FLOW_PORT, index));
    let listener = target.namespace.enter(|| TcpListener::bind(to))?.map_err(TestbedError::Socket)?;
    if flow.controller.needs(Ability::ExactMarks) {
        // It echoes each packet's mark as such a receiver does (RFC 8257 section 3.2).
        let exact = SockRef::from(&listener).set_tcp_congestion(kernel.name.as_bytes());
        exact.map_err(TestbedError::Socket)?;
    }
    let ledger = Arc::new(Ledger::default());
    let framed = above.as_ref().is_some_and(|options| options.mode == Mode::Framed);
    let (flow, clock, until, abort) = (flow.clone(), crew.clock, crew.until, crew.abort.clone());
    let (seed, state, namespace) = (crew.seed, glimpse.clone(), source.namespace.clone());
    let application = Application::new(&flow.workload, flow.mss, seed, index);
    let frames = application.as_ref().and_then(Application::frames);
    let receiving = Receiving {
        flow: flow.clone(),
        listener,
        framed,
        clock,
        until,
        ledger: ledger.clone(),
        frames: frames.clone(),
        abort: abort.clone(),
    };
    let start = flow.start;
    let (engines, observers) = (crew.engines.clone(), crew.observers.clone());
    let sending = Sending {
        flow,
        kernel,
        above,
        engines,
        observers,
        index,
        seed,
        application,
        to,
        clock,
        until,
        ledger,
        state,
        abort,
    };
    Ok(Box::new(move || {
        crate::prefer();
        let receiver = thread::Builder::new()
            .name("tcp receiver".to_owned())
            .spawn(move || receiving.run())
            .map_err(|source| FlowError::Thread { flow: name.clone(), source })?;
        namespace.join().map_err(|source| FlowError::Namespace { flow: name.clone(), source })?;
        let sent = sending.run()?;
        let received = receiver.join().map_err(|_| FlowError::Panicked { flow: name, thread: "receiver" })??;
        Ok(Ended {
            index,
            stats: vec![sent.stats],
            rtt: sent.rtt,
            bytes_ready: received.bytes_ready,
            completions: received.completions,
            end: sent.cut.unwrap_or(received.completed.max(start)),
            cpu: sent.cpu + received.cpu,
            frames: frames.map_or_else(Vec::new, |frames| frames.outcome()),
            program: None,
        })
    }))
}
