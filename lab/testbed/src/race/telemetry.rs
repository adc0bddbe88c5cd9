//! In-band telemetry of a race: what the simulator does in memory, through real headers and a bus.
//!
//! A source at each node that sends puts headers on its flows' packets, the emulator's hops write into them, a sink at each node that
//! receives takes them out and reports. The reports go over a bus to an agent at the sender's node, which gives them to controllers
//! in the kernel, to those of [`paceline_kernel::KernelAgent`], and to senders over UDP and QUIC. They are as late, and go wrong, as the scenario says.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use paceline_emulator::world::{Nodes, interface};
use paceline_experiment::{Faults, Flow, Graph, Impostor, Lie, Seed, TelemetryOutcome, lie};
use paceline_int::bus::{
    Address, AddressError, Bus, BusError, BusMessage, BusOptions, Hub, Keys, MessageBody, MessageKind, PublisherKey,
    PublisherRole, Sealed, SubjectFilter, Subscription, VariantArray,
};
use paceline_int::{SinkNode, SinkOptions, SourceNode, SourceOptions, TelemetryAgent};
use paceline_kernel::Informant;
use paceline_linux::clock::Clock;
use paceline_linux::interface::Interfaces;
use paceline_linux::namespace::NamespaceError;
use paceline_telemetry::{FlowReport, NodeReport, Tuple};
use rand::RngExt;
use rand_pcg::Pcg64;

use super::FLOW_PORT;
use super::TestbedError;
use super::tap::SharedTruth;
use crate::tcp::World;

/// Why telemetry of a race could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TelemetryError {
    /// A source, a sink, an agent or the namespace of one failed.
    #[error("telemetry: {0}")]
    Part(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The scenario's bus cannot be used.
    #[error("telemetry.bus: {address:?}: {source}")]
    Address {
        /// As the scenario has it.
        address: String,
        /// What is wrong with it.
        source: AddressError,
    },
    /// The bus cannot be joined.
    #[error("telemetry.bus: {0}")]
    Bus(#[source] BusError),
    /// The system gave nothing random.
    #[error("telemetry.bus: no key for it ({0})")]
    NoKey(#[source] io::Error),
    /// An impostor needs keys.
    #[error("telemetry.impostor: reports within one process have no keys; give bus")]
    NoKeys,
    /// The impostor cannot join the bus.
    #[error("telemetry.impostor: {0}")]
    Impostor(#[source] BusError),
    /// A thread cannot be had.
    #[error("telemetry: cannot start a thread ({0}); run fewer flows")]
    Thread(#[source] io::Error),
    /// A thread panicked.
    #[error("telemetry stopped by a mistake in it; please report it")]
    Panicked,
}

/// A part of it failed.
fn part(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> TelemetryError {
    TelemetryError::Part(error.into())
}

/// How long a thread waits before it looks whether the run is over, or a report of a hop is there (our choice: less than the
/// interval of reports).
const LOOK: Duration = Duration::from_millis(2);
const PATIENCE: Duration = Duration::from_millis(50);
/// Publisher on a bus of several machines.
const NAME: &str = "race";
/// Publisher whose key no reader has.
const STRANGER: &str = "stranger";
/// Reports that an impostor keeps, to send them again.
const KEPT: usize = 1024;

/// Telemetry of a world. Dropping it ends it.
struct Telemetry {
    _sources: Vec<SourceNode>,
    reporting: Vec<Reporting>,
    agents: Vec<TelemetryAgent>,
    hops: (Sender<NodeReport>, Option<Receiver<NodeReport>>),
    liars: Vec<(u32, Lie)>,
    relay: Option<Bus>,
    running: Running,
}

/// The threads, and what ends them.
#[derive(Default)]
struct Running {
    ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<Vec<TelemetryOutcome>, TelemetryError>>>,
}

/// Loads what flows with telemetry need; nothing when there are none. `informant` informs controllers that the agent runs.
///
/// # Errors
/// What of it cannot be had.
pub(crate) fn prepare(
    world: &World<'_>,
    informant: Option<&Informant>,
) -> Result<Option<Box<dyn crate::tcp::Telemetry>>, TestbedError> {
    let telemetry = Telemetry::prepare(world, informant)?;
    Ok(telemetry.map(|telemetry| Box::new(telemetry) as Box<dyn crate::tcp::Telemetry>))
}

impl Telemetry {
    /// Loads what flows with telemetry need; nothing when there are none.
    ///
    /// # Errors
    /// What of it cannot be had.
    fn prepare(world: &World<'_>, informant: Option<&Informant>) -> Result<Option<Self>, TelemetryError> {
        let carried = |flow: &&Flow| flow.telemetry.is_some();
        let Some(first) = world.flows.iter().find(carried) else { return Ok(None) };
        let join = Joining::new(first.telemetry.as_ref().and_then(|telemetry| telemetry.bus.as_deref()))?;
        let hops = mpsc::channel();
        let mut telemetry = Self {
            _sources: Vec::new(),
            reporting: Vec::new(),
            agents: Vec::new(),
            hops: (hops.0, Some(hops.1)),
            liars: lie::liars(world.graph, world.flows),
            relay: Some(join.end(PublisherRole::Hop)?),
            running: Running::default(),
        };
        let (mut sends, mut takes) = (Vec::new(), Vec::new());
        for flow in world.flows.iter().filter(carried) {
            let route = world.graph.route(flow.way).unwrap_or_default();
            let (Some(out), Some(into)) = (route.first(), route.last()) else { continue };
            sends.push((flow.way.from, *out));
            takes.push((flow.way.to, *into));
        }
        sends.sort_unstable();
        sends.dedup();
        takes.sort_unstable();
        takes.dedup();
        for (node, hop) in &sends {
            let (site, name) = (&world.sites[*node as usize], interface(*hop as usize / 2));
            let of_here = |(_, flow): &(usize, &Flow)| carried(flow) && flow.way.from == *node;
            let here = world.flows.iter().enumerate().filter(of_here);
            let ports = here.map(|(index, _)| super::port(FLOW_PORT, index)).collect();
            let trace = first.telemetry.as_ref().map(|telemetry| telemetry.trace).unwrap_or_default();
            let options = SourceOptions {
                ports,
                udp: true,
                profile: trace.profile,
                hops: trace.hops,
                full_every: 0,
                // All of the path is the race's own, and carries headers.
                patience: None,
                ..SourceOptions::default()
            };
            let opened = site.namespace.enter(|| {
                // The kernel would remember of a destination what its last flow ended with. One without the setting does without it.
                let _ = std::fs::write("/proc/sys/net/ipv4/tcp_no_metrics_save", "1");
                Interfaces::open()?.one_by_one(&name)?;
                Ok::<_, NamespaceError>(SourceNode::open(&name, &options))
            });
            telemetry._sources.push(opened.map_err(part)?.map_err(part)?.map_err(part)?);
        }
        let mut nodes: Vec<u32> = sends.iter().map(|(node, _)| *node).collect();
        nodes.dedup();
        for node in nodes {
            let (site, end) = (&world.sites[node as usize], join.end(PublisherRole::Agent)?);
            let observe = informant.cloned().map(observer);
            let agent = site.namespace.enter(|| TelemetryAgent::new(end, observe)).map_err(part)?;
            telemetry.agents.push(agent.map_err(part)?.hearing_all().informing(world.inboxes));
        }
        for (node, hop) in &takes {
            let (site, name) = (&world.sites[*node as usize], interface(*hop as usize / 2));
            let options = SinkOptions { synced: true, udp: true, ..SinkOptions::default() };
            let sink = site.namespace.enter(|| SinkNode::open(&name, &options)).map_err(part)?;
            let bus = join.end(PublisherRole::Sink)?;
            let hops = bus.subscribe(&[SubjectFilter::Nodes]).map_err(TelemetryError::Bus)?;
            let sink = sink.map_err(part)?;
            let ways = world.flows.iter().zip(world.backs).enumerate();
            let ways = ways.map(|(index, (flow, back))| BackWay::new(index, flow, *back, world.seed)).collect();
            let impostor = first.telemetry.as_ref().and_then(|telemetry| telemetry.faults.impostor);
            let impostor = impostor.map(|impostor| join.impostor(impostor)).transpose()?;
            telemetry.reporting.push(Reporting {
                sink,
                bus,
                impostor,
                hops,
                ways,
                waiting: VecDeque::new(),
                truths: world.truths.to_vec(),
            });
        }
        Ok(Some(telemetry))
    }
}

impl crate::tcp::Telemetry for Telemetry {
    fn at(&self, nodes: Nodes, graph: &Graph) -> Nodes {
        nodes.with_telemetry(graph, &self.hops.0, &self.liars)
    }

    fn start(&mut self, clock: Clock, flows: usize) -> Result<(), TestbedError> {
        if let (Some(bus), Some(hops)) = (self.relay.take(), self.hops.1.take()) {
            self.running.spawn(move |ended| {
                relay(&bus, &hops, ended);
                Ok(Vec::new())
            })?;
        }
        for mut reporting in self.reporting.drain(..) {
            self.running.spawn(move |ended| {
                crate::prefer();
                reporting.run(clock, ended)
            })?;
        }
        for agent in self.agents.drain(..) {
            self.running.spawn(move |ended| {
                crate::prefer();
                serve(agent, flows, ended)
            })?;
        }
        Ok(())
    }

    fn stop(mut self: Box<Self>) -> Result<Vec<TelemetryOutcome>, TestbedError> {
        Ok(self.running.end()?)
    }
}

impl Running {
    fn spawn(
        &mut self,
        body: impl FnOnce(&AtomicBool) -> Result<Vec<TelemetryOutcome>, TelemetryError> + Send + 'static,
    ) -> Result<(), TelemetryError> {
        let ended = self.ended.clone();
        let thread = thread::Builder::new().name("telemetry".to_owned()).spawn(move || body(&ended));
        self.threads.push(thread.map_err(TelemetryError::Thread)?);
        Ok(())
    }

    fn end(&mut self) -> Result<Vec<TelemetryOutcome>, TelemetryError> {
        self.ended.store(true, Ordering::Release);
        let mut sum: Vec<TelemetryOutcome> = Vec::new();
        for thread in self.threads.drain(..) {
            let told = thread.join().map_err(|_| TelemetryError::Panicked)??;
            sum.resize(sum.len().max(told.len()), TelemetryOutcome::default());
            sum.iter_mut().zip(&told).for_each(|(sum, told)| *sum += told);
        }
        Ok(sum)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Ends of the bus.
enum Joining {
    Within(Hub),
    At(Address, Keys, String),
}

impl Joining {
    fn new(bus: Option<&str>) -> Result<Self, TelemetryError> {
        let Some(address) = bus else { return Ok(Self::Within(Hub::default())) };
        let wrong = |source| TelemetryError::Address { address: address.to_owned(), source };
        let address = address.parse::<Address>().map_err(wrong)?;
        let key = key()?;
        // Races that run at the same time must not receive each other's reports.
        static RACES: AtomicU64 = AtomicU64::new(0);
        let domain = format!("race-{}-{}", std::process::id(), RACES.fetch_add(1, Ordering::Relaxed));
        Ok(Self::At(address, Keys::default().with(NAME, key), domain))
    }

    fn end(&self, role: PublisherRole) -> Result<Bus, TelemetryError> {
        self.open(BusOptions { name: NAME.to_owned(), role: Some(role), ..BusOptions::default() })
    }

    /// The end of someone who is not the sink.
    fn impostor(&self, kind: Impostor) -> Result<Intruder, TelemetryError> {
        let Self::At(address, keys, domain) = self else {
            return Err(TelemetryError::NoKeys);
        };
        let (name, keys) = match kind {
            Impostor::Stranger => (STRANGER, Keys::default().with(STRANGER, key()?)),
            Impostor::WrongKey => (NAME, Keys::default().with(NAME, key()?)),
            Impostor::Replay => (NAME, keys.clone()),
        };
        let options = BusOptions {
            name: name.to_owned(),
            role: Some(PublisherRole::Sink),
            domain: domain.clone(),
            keys: Some(keys),
            // It sends what is old as well.
            max_age: Duration::MAX,
            ..BusOptions::default()
        };
        let bus = Bus::open(address, options);
        let bus = bus.map_err(TelemetryError::Impostor)?;
        Ok(Intruder { kind, bus, kept: VecDeque::new() })
    }

    fn open(&self, options: BusOptions) -> Result<Bus, TelemetryError> {
        let end = match self {
            Self::Within(hub) => Bus::join(hub, options),
            Self::At(address, keys, domain) => {
                Bus::open(address, BusOptions { domain: domain.clone(), keys: Some(keys.clone()), ..options })
            }
        };
        end.map_err(TelemetryError::Bus)
    }
}

/// A key that only this process knows.
fn key() -> Result<PublisherKey, TelemetryError> {
    let mut secret = [0; 32];
    let random = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut secret));
    random.map_err(TelemetryError::NoKey)?;
    Ok(PublisherKey::new(PublisherRole::VARIANTS, &secret))
}

/// Who sends reports where the sink no longer does.
struct Intruder {
    kind: Impostor,
    bus: Bus,
    /// What the sink has sent, newest first.
    kept: VecDeque<Sealed>,
}

impl Intruder {
    fn heard(&mut self, sealed: &Sealed) {
        if self.kind == Impostor::Replay {
            self.kept.truncate(KEPT - 1);
            self.kept.push_front(sealed.clone());
        }
    }

    /// Sends this report as its own, or, who only repeats, another one.
    fn send(&mut self, report: &FlowReport) {
        if self.kind != Impostor::Replay {
            return self.bus.publish(MessageKind::Flow(report.flow), &MessageBody::Flow(report.clone()));
        }
        if let Some(oldest) = self.kept.pop_back() {
            self.bus.send(oldest.clone());
            self.kept.push_front(oldest);
        }
    }
}

/// How a flow's reports get to its sender.
struct BackWay {
    delay: Duration,
    faults: Faults,
    losses: Pcg64,
}

impl BackWay {
    fn new(index: usize, flow: &Flow, back: Duration, seed: Seed) -> Option<Self> {
        let telemetry = flow.telemetry.as_ref()?;
        let span = |span: paceline_cc::Nanos| Duration::from_nanos(span.as_nanos());
        let delay = telemetry.delay.map_or(back, span) + span(telemetry.faults.late);
        Some(Self { delay, faults: telemetry.faults.clone(), losses: seed.stream(&format!("reports {index}")) })
    }
}

/// A sink and the reports on their way.
struct Reporting {
    sink: SinkNode,
    bus: Bus,
    impostor: Option<Intruder>,
    hops: Subscription,
    ways: Vec<Option<BackWay>>,
    waiting: VecDeque<(Instant, Sealed)>,
    /// By flow.
    truths: Vec<SharedTruth>,
}

impl Reporting {
    fn run(&mut self, clock: Clock, ended: &AtomicBool) -> Result<Vec<TelemetryOutcome>, TelemetryError> {
        while !ended.load(Ordering::Acquire) {
            while let Some(BusMessage { body: MessageBody::Node(report), .. }) = self.hops.next(Duration::ZERO) {
                self.sink.node(&report);
            }
            let next = self.waiting.iter().map(|(at, _)| *at).min();
            let rest = next.map_or(LOOK, |at| at.saturating_duration_since(Instant::now()).min(LOOK));
            let reports = self.sink.reports(rest).map_err(part)?;
            reports.into_iter().for_each(|report| self.made(report, clock));
            for (tuple, judged) in self.sink.judged() {
                if let Some(truth) = flow_of(&tuple).and_then(|flow| self.truths.get(flow)) {
                    truth.lock().unwrap_or_else(PoisonError::into_inner).judged(&judged);
                }
            }
            let now = Instant::now();
            let (due, waiting) = std::mem::take(&mut self.waiting).into_iter().partition(|(at, _)| *at <= now);
            self.waiting = waiting;
            for (_, sealed) in due {
                if let Some(impostor) = &mut self.impostor {
                    impostor.heard(&sealed);
                }
                self.bus.send(sealed);
            }
        }
        Ok(Vec::new())
    }

    fn made(&mut self, mut report: FlowReport, clock: Clock) {
        let Some(Some(way)) = flow_of(&report.tuple).and_then(|flow| self.ways.get_mut(flow)) else { return };
        if let Some(cause) = way.faults.forge {
            report.verdict = cause;
        }
        report.flow = paceline_int::bus::flow_number(&report.tuple);
        let lost = way.losses.random::<f64>() < way.faults.drop;
        if !way.faults.passes(clock.now()) {
            if let Some(impostor) = &mut self.impostor {
                impostor.send(&report);
            }
        } else if !lost && let Some(sealed) = self.bus.seal(MessageKind::Flow(report.flow), &MessageBody::Flow(report))
        {
            self.waiting.push_back((Instant::now() + way.delay, sealed));
        }
    }
}

/// The index of a flow of the race.
fn flow_of(tuple: &Tuple) -> Option<usize> {
    tuple.dport.checked_sub(FLOW_PORT).map(usize::from)
}

/// Publishes what hops say.
fn relay(bus: &Bus, hops: &Receiver<NodeReport>, ended: &AtomicBool) {
    while !ended.load(Ordering::Acquire) {
        match hops.recv_timeout(PATIENCE) {
            Ok(report) => bus.publish(MessageKind::Node(report.node), &MessageBody::Node(report)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Runs the agent of a sender's node.
fn serve(mut agent: TelemetryAgent, flows: usize, ended: &AtomicBool) -> Result<Vec<TelemetryOutcome>, TelemetryError> {
    let mut outcomes = vec![TelemetryOutcome::default(); flows];
    while !ended.load(Ordering::Acquire) {
        let before = agent.figures();
        let report = agent.step(PATIENCE).map_err(part)?;
        let Some(outcome) = report.and_then(|report| outcomes.get_mut(flow_of(&report.tuple)?)) else { continue };
        let after = agent.figures();
        outcome.reports += after.taken + after.old - before.taken - before.old;
        outcome.refused += after.old - before.old;
    }
    Ok(outcomes)
}

/// Passes reports on to controllers that an agent in user space runs.
fn observer(informant: Informant) -> paceline_int::agent::TelemetryObserver {
    Box::new(move |tuple, telemetry| {
        let end = |address, port| SocketAddr::new(std::net::IpAddr::V6(address), port);
        informant.telemetry(end(tuple.src, tuple.sport), end(tuple.dst, tuple.dport), telemetry);
    })
}
