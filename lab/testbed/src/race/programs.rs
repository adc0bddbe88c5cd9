//! Flows of programs that are not ours: each side in a namespace of its own ([`paceline_emulator::world::Nodes::stubs`]), under an
//! `init` that ends it for certain ([`paceline_emulator::command::tree`]).
//!
//! Servers start before the clock: what they sent until they were ready is counted for no flow. The other side starts with its flow.
//! At the flow's end it may end by itself for a while, then it is asked to, then it is killed, and after it the server. What a program
//! does of its own accord is held against it, what it does when asked to end is not. Both run at ordinary priority, as anywhere else.
//!
//! The order, the limits and the variables are our choice, from what users of Pantheon (Yan et al., USENIX ATC 2018) ran into: there the
//! first side has three seconds, no exit status is looked at, and a signal reaches one process group.

mod course;
mod failure;
mod leavings;
mod once;
mod surroundings;

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use paceline_cc::{Nanos, Time};
use paceline_emulator::world::{Nodes, Site};
use paceline_experiment::program::{Program, ProgramPlaces, Ready, Side};
use paceline_experiment::{Flow, Graph, Seed, Workload};
use paceline_linux::clock::span;
use paceline_linux::listening;
use paceline_linux::namespace::{Privilege, privilege};

use super::rows::{Place, Real, nothing_below};
use super::tap::StubAddresses;
use super::{Crew, FlowError, Refused, TestbedError, Work, contestant};
use crate::tcp;
use crate::workload::{end, goal};
use course::{Course, Half};
use surroundings::Surroundings;

pub use failure::{Ending, LastLines, ProgramFailure};
pub use once::{prepare, version};

/// Most flows of programs in a world: two namespaces and at least four processes each (our choice).
pub(super) const MOST_PROGRAMS: usize = 64;
/// Links that a program's packets cross beside the emulated ones: two nodes forward them to and from its hosts.
pub(super) const HOST_LINKS: usize = 2;
/// How often a server is looked after until it is ready (our choice).
const LOOK: Duration = Duration::from_millis(10);
/// How long what is killed may take to be gone: the kernel's work alone (our choice).
const KILLED: Duration = Duration::from_secs(5);

/// `program` in the table.
pub(super) const PROGRAM: Real =
    Real { carries_telemetry: false, lends_memory: false, check, below: nothing_below, work };

/// What a program decides instead of the scenario, and what it cannot have.
fn check(flow: &Flow) -> Result<Vec<String>, Refused> {
    let name = || contestant(flow);
    let Some(program) = flow.via.program() else { return Err(Refused::NoProgram { contestant: name() }) };
    if !matches!(flow.workload, Workload::Bulk | Workload::Bytes(_)) {
        return Err(Refused::ProgramWorkload { contestant: name() });
    }
    if let Some(user) = &program.user {
        if privilege() != Privilege::Root {
            return Err(Refused::ProgramUser { contestant: name(), user: user.clone() });
        }
        surroundings::user(user).ok_or_else(|| Refused::NoUser { contestant: name(), user: user.clone() })?;
    }
    let usual = Flow::bulk(flow.controller.clone(), flow.via.clone());
    let others = [
        ("mss", flow.mss != usual.mss),
        ("paced", flow.paced != usual.paced),
        ("ack_every", flow.ack_every != usual.ack_every),
        ("ack_delay", flow.ack_delay != usual.ack_delay),
        ("handshake", flow.handshake != usual.handshake),
        ("arrivals", flow.arrivals != usual.arrivals),
        ("timers", flow.timers != usual.timers),
    ];
    let set = others.into_iter().filter(|(_, is)| *is);
    Ok(set.map(|(key, _)| format!("{}: {key}: the program decides about it", name())).collect())
}

/// Flows of programs in these.
pub(super) fn count(flows: &[Flow]) -> usize {
    flows.iter().filter(|flow| flow.via.program().is_some()).count()
}

/// How long after the end of a run the slowest of its programs may still be there.
pub(super) fn after(flows: &[Flow]) -> Duration {
    let programs = flows.iter().filter_map(|flow| flow.via.program());
    programs.map(|program| span(program.linger + program.grace + program.grace)).max().unwrap_or_default()
}

/// The programs of a run with their servers, ready.
pub(super) struct Programs {
    /// By flow; nothing for those of ours.
    flows: Vec<Option<Arc<Staged>>>,
}

/// A flow of a program before it starts.
pub(super) struct Staged {
    program: Arc<Program>,
    /// The contestant.
    name: String,
    surroundings: Surroundings,
    /// Of the sender, and of the receiver.
    sites: [Site; 2],
    /// The server, until the flow takes it.
    server: Mutex<Option<Half>>,
}

impl Programs {
    /// Makes the hosts of programs behind the nodes, starts their servers, and waits until these are ready.
    ///
    /// # Errors
    /// When commands may not run, or a server does not get ready. Nothing is left running.
    pub(super) fn start(
        nodes: &mut Nodes,
        graph: &Graph,
        flows: &[Flow],
        places: Option<&ProgramPlaces>,
        (seed, until): (Seed, Time),
        abort: &AtomicBool,
    ) -> Result<Self, TestbedError> {
        let mut programs = Self { flows: Vec::new() };
        for (index, flow) in flows.iter().enumerate() {
            let Some(program) = flow.via.program() else {
                programs.flows.push(None);
                continue;
            };
            let name = contestant(flow);
            let places = places.ok_or_else(|| Refused::Commands { contestant: name.clone() })?;
            let sites = nodes.stubs(graph, flow.way, program.congestion.as_deref())?;
            let surroundings = Surroundings {
                shared: places.shared.clone(),
                folder: places.of_flow(index),
                run: places.run,
                version: places.versions.get(&program.name).cloned(),
                seed: seed.0,
                flow: index,
                length: end(flow, until).since(flow.start),
                bytes: goal(&flow.workload),
            };
            let staged = Staged { program: program.clone(), name, surroundings, sites, server: Mutex::new(None) };
            staged.set()?;
            let server = staged.begin(staged.program.server)?;
            *staged.server.lock().unwrap_or_else(PoisonError::into_inner) = Some(server);
            programs.flows.push(Some(Arc::new(staged)));
        }
        programs.flows.iter().flatten().try_for_each(|staged| staged.wait_until_ready(abort))?;
        Ok(programs)
    }

    /// By which addresses the tap knows the flows.
    pub(super) fn addresses(&self) -> Vec<Option<StubAddresses>> {
        let addresses = |staged: &Arc<Staged>| {
            let (sender, receiver) =
                staged.addresses().into_iter().map(|[sender, receiver]| (sender, receiver)).unzip();
            StubAddresses { sender, receiver }
        };
        self.flows.iter().map(|staged| staged.as_ref().map(addresses)).collect()
    }

    /// The failure of a flow without a packet of data, where a program ran it.
    pub(super) fn silent(&self, index: usize) -> Option<FlowError> {
        let staged = self.flows[index].as_ref()?;
        Some(staged.failed(ProgramFailure::NoData(leavings::last_lines(&staged.surroundings.folder, Side::Sender))))
    }

    /// Waits until what a run that failed has left to its threads is gone.
    pub(super) fn stop(&self) {
        let begun = Instant::now();
        for staged in self.flows.iter().flatten() {
            drop(staged.take());
            // The flow's thread has the other.
            while Arc::strong_count(staged) > 1 && begun.elapsed() < KILLED {
                thread::sleep(LOOK);
            }
        }
    }
}

impl Staged {
    /// Those of the sender and of the receiver.
    fn addresses(&self) -> Vec<[IpAddr; 2]> {
        let [from, to] = &self.sites;
        let six = from.ipv6.zip(to.ipv6).map(|(from, to)| [from, to].map(IpAddr::V6));
        [[from.ipv4, to.ipv4].map(IpAddr::V4)].into_iter().chain(six).collect()
    }

    fn site(&self, side: Side) -> &Site {
        &self.sites[usize::from(side == Side::Receiver)]
    }

    fn take(&self) -> Option<Half> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn failed(&self, failure: ProgramFailure) -> FlowError {
        FlowError::Program { flow: self.name.clone(), failure }
    }

    /// Sets both kernels up: as for the kernel's own flows, then as the program wants it.
    fn set(&self) -> Result<(), TestbedError> {
        for site in &self.sites {
            for (setting, value) in tcp::SETTINGS {
                // A kernel without the setting does without it.
                let _ = site.set(&setting.replace('/', "."), value);
            }
            for (setting, value) in &self.program.sysctl {
                site.set(setting, value)?;
            }
        }
        Ok(())
    }

    /// Starts one side.
    fn begin(&self, side: Side) -> Result<Half, FlowError> {
        let (here, there) = match side {
            Side::Sender => (&self.sites[0], &self.sites[1]),
            Side::Receiver => (&self.sites[1], &self.sites[0]),
        };
        let setting = self.surroundings.setting(&self.program, side, [here, there]);
        let setting = setting.map_err(|source| FlowError::System { flow: self.name.clone(), source })?;
        Half::start(side, setting, here).map_err(|source| FlowError::Namespace { flow: self.name.clone(), source })
    }

    fn wait_until_ready(&self, abort: &AtomicBool) -> Result<(), TestbedError> {
        let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(server) = server.as_mut() else { return Ok(()) };
        let side = server.side;
        let namespace = |source| FlowError::Namespace { flow: self.name.clone(), source };
        loop {
            let ready = match &self.program.ready {
                Ready::Listens => {
                    let port = self.program.port;
                    self.site(side).namespace.enter(|| listening::serves(port)).map_err(namespace)?
                }
                Ready::Line(_) => server.tree.has_said(),
                Ready::After(after) => server.begun.elapsed() >= span(*after),
            };
            if ready && server.tree.wait(Duration::ZERO).is_none() {
                return Ok(());
            }
            if let Some(end) = server.tree.wait(LOOK) {
                let (how, last) = (Ending::of(end), LastLines(end.last_lines.clone()));
                return Err(self.failed(ProgramFailure::EndedBeforeReady { side, how, last }).into());
            }
            if abort.load(Ordering::Relaxed) {
                return Err(TestbedError::Aborted);
            }
            let within = self.program.ready_within;
            if server.begun.elapsed() >= span(within) && !matches!(self.program.ready, Ready::After(_)) {
                let last = server.kill();
                let failure = match &self.program.ready {
                    Ready::Line(line) => ProgramFailure::NotSaid { side, line: line.clone(), within, last },
                    _ => ProgramFailure::NotListening { side, port: self.program.port, within, last },
                };
                return Err(self.failed(failure).into());
            }
        }
    }
}

fn work(crew: &Crew<'_>, place: &Place<'_>) -> Result<Work, TestbedError> {
    let Place { flow, index, .. } = *place;
    let staged = crew.programs.flows[index].clone();
    let taken = staged.and_then(|staged| Some((staged.take()?, staged)));
    let (server, staged) = taken.ok_or_else(|| Refused::NoProgram { contestant: contestant(flow) })?;
    let (start, stop) = (flow.start, end(flow, crew.until));
    let course =
        Course { index, staged, server, active: None, clock: crew.clock, start, stop, abort: crew.abort.clone() };
    Ok(Box::new(move || course.run()))
}

/// The length of a flow in whole seconds, rounded up.
fn seconds(length: Nanos) -> u64 {
    length.as_nanos().div_ceil(1_000_000_000)
}
