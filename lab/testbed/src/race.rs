//! A world in real time: what `paceline_sim::run` does in virtual time, done by sockets, by the kernel's own TCP and by an
//! emulator that runs the same paths against the clock. The outcome is of the same kind.
//!
//! Delays are the emulator's own, by one clock: from when a packet entered the path to when it left, as in the simulator.
//! How late the host released packets stands beside them ([`Host`]) and in no figure. What differs from the simulator:
//! whatever the host's senders, receivers and timers do takes time, and what a kernel flow is, [`crate::tcp`] says.

mod cross;
mod datagrams;
mod hosts;
#[cfg_attr(not(feature = "quic"), path = "race/no_quic.rs")]
mod quic;
mod requests;
mod tap;
#[cfg_attr(not(feature = "ebpf"), path = "race/no_telemetry.rs")]
mod telemetry;

use std::any::Any;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use paceline_alcc::{Mode, Options};
use paceline_cc::{Ability, Distribution, Nanos, Time};
use paceline_experiment::topology::back as back_route;
use paceline_experiment::{Config, Cross, DrivenBy, Flow, Graph, Hooks, HopOutcome, Outcome, Recorder, Via, Way};
use paceline_path::{Count, Path, Schedule};
use paceline_transport::SenderStats;
use socket2::SockRef;

use crate::numbers::Numbers;
use crate::observers::Observers;
use crate::tcp::{self, Engines, Kernel, KernelError, Ledger, Receiving, Sending};
use crate::tunnel::Tunnel;
use paceline_emulator::emulator::{DirectionReport, EmulatorReport, Tap};
use paceline_emulator::frame::Frame;
use paceline_emulator::world::{Network, Nodes, Site, Wire, WorldError};
use paceline_linux::clock::{Clock, Lateness};
use paceline_linux::namespace::NamespaceError;

use datagrams::Datagrams;
use hosts::{Hosts, MOST_LINKS};
use tap::{Glimpse, RaceTap, SharedTruth, Shown};
use telemetry::Telemetry;

/// Data of the flow with index `i` goes to port `FLOW_PORT + i`.
const FLOW_PORT: u16 = 20_000;
/// Cross traffic of the source with index `i` goes to port `CROSS_PORT + i`.
const CROSS_PORT: u16 = 10_000;
/// Bytes by which a header of IPv6 is longer than one of IPv4.
const SIX: u32 = 20;
/// Most flows, and most sources of cross traffic: one port each, and two threads.
const MOST: usize = 1_000;

/// From when the ends of a world stand to the zero of its clock: time to open sockets and to start threads.
const LEAD: Nanos = Nanos::from_millis(100);
/// And this much more for each flow.
const LEAD_PER_FLOW: Nanos = Nanos::from_millis(5);
/// How long after the end everything has to have stopped.
const GRACE: Duration = Duration::from_secs(10);
/// How long after it was asked to stop: four times as long as threads take to see it (our choice).
const ABORTED: Duration = Duration::from_secs(2);

/// A race that was run.
pub struct Finished {
    /// As the simulator leaves it.
    pub outcome: Outcome,
    /// What the host had to do with it.
    pub host: Host,
}

/// The host of a run: what it cost, and whether it kept time.
#[derive(Clone, Debug)]
pub struct Host {
    /// CPU time of each flow's endpoints: of the threads that write and read, with the system calls they made. What the
    /// kernel does for a TCP flow elsewhere (acknowledgements, timers) is not in it, because it cannot be attributed.
    pub cpu: Vec<Nanos>,
    /// Who drove each flow of the kernel's TCP.
    pub driven_by: Vec<Option<DrivenBy>>,
    /// CPU time of the emulator's thread.
    pub emulator_cpu: Nanos,
    /// How late packets were released.
    pub lateness: Lateness,
    /// Whether the run shows the path rather than the host ([`EmulatorReport::trusted`]).
    pub trusted: bool,
}

/// Why a world could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RaceError {
    /// The world could not be built.
    #[error(transparent)]
    World(#[from] WorldError),
    /// A flow cannot run here.
    #[error("{0}")]
    Flow(String),
    /// The kernel cannot run a flow.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// It did not come to its end.
    #[error("{0} had not stopped {seconds} s after the end; the run is given up", seconds = GRACE.as_secs())]
    Stuck(String),
    /// It was asked to stop.
    #[error("it was stopped")]
    Aborted,
}

impl From<NamespaceError> for RaceError {
    fn from(error: NamespaceError) -> Self {
        Self::World(error.into())
    }
}

/// Differences from the simulator for these flows over this graph, one line each.
///
/// # Errors
/// One line: the first thing that it cannot do, and how to fix it.
pub fn check(graph: &Graph, flows: &[Flow], cross: &[Cross]) -> Result<Vec<String>, String> {
    let links = Hosts::new(graph, flows).graph.hops().len() / 2;
    if links > MOST_LINKS {
        return Err(format!(
            "--real: {links} links, with one for each extra_delay to a node, are more than {MOST_LINKS}; write fewer, or leave out --real"
        ));
    }
    let mut notes = Vec::new();
    let mut ecn = None;
    if flows.len() > MOST || cross.len() > MOST {
        return Err(format!(
            "--real: more than {MOST} flows or sources of cross traffic; run fewer, or leave out --real"
        ));
    }
    for flow in flows {
        let spec = &flow.controller;
        let mut kernel_flow = |kernel: &Kernel| {
            if flow.mss > 1448 || flow.mss < 76 {
                return Err(format!("--real: mss = {}: the kernel takes 76 to 1448 here", flow.mss));
            }
            if ecn.replace(kernel.ecn).is_some_and(|before| before != kernel.ecn) {
                return Err(format!(
                    "--real: {spec}: kernel flows with and without ECN cannot share a world; give all of them ecn=on, or none"
                ));
            }
            Ok(())
        };
        if flow.telemetry.is_some() {
            if !matches!(flow.via, Via::Tcp(_)) {
                notes.push(format!("{}: telemetry: in the real world TCP alone carries it", contestant(flow)));
            } else if !telemetry::BUILT {
                return Err(
                    "--real: telemetry: this paceline has no eBPF; build it with 'cargo build --release -p paceline-cli \
                     --features ebpf', or leave out --real"
                        .to_owned(),
                );
            }
        }
        match &flow.via {
            Via::Udp if flow.mss > largest(flow) => {
                return Err(format!(
                    "--real: mss = {}: a packet would be above 1500 bytes; write 1448 or less",
                    flow.mss
                ));
            }
            Via::Udp | Via::Icn(_) => {}
            Via::Tcp(driven_by) => {
                let (kernel, more) = tcp::kernel(flow, *driven_by).map_err(|problem| format!("--real: {problem}"))?;
                notes.extend(more);
                kernel_flow(&kernel)?;
            }
            Via::Quic => notes.extend(quic::check(flow).map_err(|problem| format!("--real: {problem}"))?),
            Via::Alcc(lower, handover) => {
                let above = tcp::above(flow, lower, *handover).map_err(|problem| format!("--real: {problem}"))?;
                notes.extend(above.2);
                kernel_flow(&above.0)?;
            }
        }
    }
    for source in cross {
        if source.packet < cross::HEADERS || source.packet > cross::LARGEST {
            let (least, most) = (cross::HEADERS, cross::LARGEST);
            return Err(format!("--real: cross: packet = {} is not between {least} and {most} bytes", source.packet));
        }
    }
    notes.sort();
    notes.dedup();
    Ok(notes)
}

/// Whether a tunnel can join the ends of these flows.
///
/// # Errors
/// One line: why not, and how to fix it.
pub fn check_tunnel(graph: &Graph, flows: &[Flow]) -> Result<(), String> {
    if *graph != Graph::dumbbell() {
        return Err(
            "tunnel: it joins two ends, and the scenario has [links]; take it out, or write [down] and [up]".to_owned()
        );
    }
    if flows.iter().any(|flow| flow.telemetry.is_some()) {
        return Err(
            "tunnel: hops do not see what is inside it, and the scenario has [telemetry]; take one of them out"
                .to_owned(),
        );
    }
    if flows.iter().any(|flow| flow.extra_delay > Nanos::ZERO) {
        return Err("tunnel: it joins two ends, and a flow with an extra_delay has another one; take one of them out"
            .to_owned());
    }
    Ok(())
}

/// What failed, with the flow's name.
fn failed(flow: &Flow, error: &dyn std::fmt::Display) -> String {
    format!("{}: {error}", contestant(flow))
}

/// A note to the receiver half takes space in the packet.
fn largest(flow: &Flow) -> u32 {
    let note = if flow.controller.needs(Ability::ReceiverHalf) { paceline_udp::wire::NOTE as u32 } else { 0 };
    1448 + note
}

/// The flow as it can run: with space in its packets for the note to a receiver half; with telemetry, which TCP over IPv6 alone
/// carries, for the longer header.
fn fitted(flow: &Flow) -> Flow {
    let note = largest(flow) - 1448;
    let telemetry = flow.telemetry.clone().filter(|_| matches!(flow.via, Via::Tcp(_)));
    let six = if telemetry.is_some() { SIX } else { 0 };
    Flow { mss: flow.mss.min(1448 - note).saturating_sub(six), telemetry, ..flow.clone() }
}

/// Runs a world in real time. [`check`] and [`paceline_linux::namespace::acquire`] come first.
///
/// # Errors
/// When the machine refuses, or an endpoint fails. Nothing is left behind.
pub fn run(config: Config<Frame>) -> Result<Finished, RaceError> {
    run_with(config, None, Hooks::default())
}

/// The same with `hooks`; with a `tunnel`, flows and cross traffic travel inside a TCP connection of this congestion control, and
/// figures are of what they see there. What the tunnel's entry drops is not counted for any flow.
///
/// Threads look at [`Hooks::abort`] every half second. Of [`Hooks::tap`] only observers are asked for, for controllers in this
/// process: not for those of the kernel itself, nor for modules.
///
/// # Errors
/// As [`run`], and [`RaceError::Aborted`] when it was aborted. A flow's thread that does not end within two seconds then is left behind.
pub fn run_with(config: Config<Frame>, tunnel: Option<&str>, hooks: Hooks) -> Result<Finished, RaceError> {
    let Hooks { abort, live, tap: observing } = hooks;
    let Config { seed, duration, topology, flows, cross, sample_every } = config;
    let shown = topology.shown();
    let (graph, mut paths) = topology.into_parts();
    let flows: Vec<Flow> = flows.iter().map(fitted).collect();
    let hosts = Hosts::new(&graph, &flows);
    paths.extend(hosts.paths());
    let flows = &hosts.flows;
    let observers = Observers::new(observing, flows);
    // Nothing is loaded while the threads of a run are at work.
    let kernels = flows.iter().map(below).collect::<Result<Vec<_>, _>>()?;
    let loads = tcp::Loads::of(
        flows.iter().zip(&kernels).enumerate().filter_map(|(index, (flow, kernel))| {
            Some((index, port(FLOW_PORT, index), flow, kernel.as_ref()?.0.clone()))
        }),
        &observers,
    )?;
    let nodes = Nodes::make(Wire::preferred(), &hosts.graph)?;
    let backs: Vec<Duration> = flows.iter().map(|flow| back(&hosts.graph, &paths, flow)).collect();
    let truths: Vec<SharedTruth> = flows.iter().map(|_| Arc::default()).collect();
    let about =
        telemetry::World { sites: nodes.sites(), graph: &hosts.graph, flows, seed, backs: &backs, truths: &truths };
    let mut telemetry = Telemetry::prepare(&about, &loads).map_err(RaceError::Flow)?;
    let nodes = match &telemetry {
        Some(telemetry) => telemetry.at(nodes, &hosts.graph),
        None => nodes,
    };
    let clock = Clock::ahead(LEAD + LEAD_PER_FLOW.mul_div(flows.len() as u64, 1));
    observers.begin(clock);
    if let Some(telemetry) = &mut telemetry {
        telemetry.start(clock, flows.len()).map_err(RaceError::Flow)?;
    }
    let until = Time::ZERO + duration;
    let schedules: Vec<Option<Schedule>> = paths.iter().map(schedule).collect();
    let glimpses: Vec<Glimpse> = flows.iter().map(|_| Arc::default()).collect();
    let shown = Shown { hop: shown, schedule: schedules[shown as usize].clone() };
    let tap =
        RaceTap::new(&hosts.graph, flows, &glimpses, shown, sample_every, until).witness(flows, &truths).shown_by(live);
    let mut tap: Option<Box<dyn Tap>> = Some(Box::new(tap));
    let taps = if tunnel.is_some() { Vec::new() } else { tap.take().into_iter().collect() };
    let base = [paths[0].least(), paths[1].least()];
    let network = nodes.join(paths, taps, clock, Lateness::BOUND)?;
    let tunnel = match (tunnel, tap, network.sites()) {
        (Some(congestion), Some(tap), [far, near, ..]) => {
            Some(Tunnel::build([near, far], congestion, clock, base, tap)?)
        }
        _ => None,
    };
    let inside = tunnel.as_ref().map(|tunnel| [tunnel.far().clone(), tunnel.near().clone()]);
    let sites = inside.as_ref().map_or(network.sites(), |inside| inside);
    let engines = Arc::default();
    let kernels = kernels.as_slice();
    let crew = Crew {
        network: &network,
        sites,
        seed,
        clock,
        until,
        sample_every,
        engines,
        kernels,
        observers,
        abort: abort.clone(),
    };
    let ended = crew.race(flows, &cross, &glimpses);
    abort.store(true, Ordering::Relaxed);
    let told = telemetry.map(Telemetry::stop).transpose();
    let inside = tunnel.map(Tunnel::stop).transpose();
    let report = network.stop().map_err(WorldError::from);
    // The emulator's failure is the cause of whatever else went wrong.
    let (mut report, ended) = (report?, ended?);
    let inside = inside.map_err(|error| RaceError::Flow(format!("the tunnel broke ({error})")))?;
    report.taps.extend(inside.flatten());
    let (mut tap, host) = (take_tap(&mut report)?, host(&report, &ended, driven_by(flows, kernels)));
    let hop = |(way, schedule): (&mut DirectionReport, Option<Schedule>)| {
        let stats = way.link.take().unwrap_or_default();
        let lost = |dropped: u64, full: u64, aqm: u64| dropped.saturating_sub(full + aqm);
        HopOutcome {
            capacity_bytes: schedule.map(|schedule| schedule.capacity(Time::ZERO, until)),
            lost: Count {
                packets: lost(way.dropped.packets, stats.full.packets, stats.aqm.packets),
                bytes: lost(way.dropped.bytes, stats.full.bytes, stats.aqm.bytes),
            },
            stats,
            air: way.air,
        }
    };
    let ways = report.links.iter_mut().flat_map(|link| [&mut link.down, &mut link.up]);
    // Without those to hosts.
    let hops: Vec<HopOutcome> = ways.zip(schedules).take(graph.hops().len()).map(hop).collect();
    for flow in &ended {
        flow.record(&mut tap.recorder);
    }
    let told = told.map_err(RaceError::Flow)?.unwrap_or_default();
    tap.told(&told);
    Ok(Finished { outcome: tap.finish(graph, hops), host })
}

/// How long a report takes to the flow's sender: as long as a packet that finds no queue.
fn back(graph: &Graph, paths: &[Path<Frame>], flow: &Flow) -> Duration {
    let route = graph.route(flow.way).unwrap_or_default();
    let least = back_route(&route).iter().fold(Nanos::ZERO, |sum, hop| sum + paths[*hop as usize].least());
    Duration::from_nanos(least.as_nanos())
}

fn schedule(path: &Path<Frame>) -> Option<Schedule> {
    path.schedule().cloned()
}

fn take_tap(report: &mut EmulatorReport) -> Result<RaceTap, RaceError> {
    let tap = report.taps.pop().and_then(|tap| (tap as Box<dyn Any>).downcast::<RaceTap>().ok());
    tap.map(|tap| *tap).ok_or_else(|| RaceError::Flow("the emulator lost its recorder; please report it".to_owned()))
}

fn host(report: &EmulatorReport, ended: &[Ended], driven_by: Vec<Option<DrivenBy>>) -> Host {
    Host {
        cpu: ended.iter().map(|flow| flow.cpu).collect(),
        driven_by,
        emulator_cpu: report.cpu,
        lateness: report.lateness.clone(),
        trusted: report.trusted(),
    }
}

/// What one configured flow leaves behind, over either datapath.
struct Ended {
    index: usize,
    stats: Vec<SenderStats>,
    rtt: Distribution,
    bytes_ready: u64,
    completions: Vec<(u64, Nanos)>,
    end: Time,
    cpu: Nanos,
}

impl Ended {
    fn record(&self, recorder: &mut Recorder) {
        recorder.rtts(self.index, &self.rtt);
        for (bytes, took) in &self.completions {
            recorder.completed(self.index, *bytes, *took);
        }
        for (number, stats) in self.stats.iter().enumerate() {
            let ready = if number == 0 { self.bytes_ready } else { 0 };
            recorder.retired(self.index, self.end, stats, ready);
        }
    }
}

/// Those who run the flows of a world.
struct Crew<'a> {
    network: &'a Network,
    /// The nodes as the flows see them.
    sites: &'a [Site],
    seed: paceline_experiment::Seed,
    clock: Clock,
    until: Time,
    sample_every: Option<Nanos>,
    engines: Arc<Engines>,
    /// The kernel's part of each flow.
    kernels: &'a [Option<Below>],
    observers: Observers,
    abort: Arc<AtomicBool>,
}

type Work = Box<dyn FnOnce() -> Result<Ended, String> + Send>;

impl Crew<'_> {
    /// Runs everything to the end.
    fn race(&self, flows: &[Flow], cross: &[Cross], glimpses: &[Glimpse]) -> Result<Vec<Ended>, RaceError> {
        self.settings()?;
        // Keeps the ports of cross traffic open: a closed one would answer.
        let _sinks = self.cross(cross)?;
        let numbers = Arc::new(Numbers::new(flows));
        let (tell, told) = mpsc::channel();
        for (index, flow) in flows.iter().enumerate() {
            let work = match flow.via {
                Via::Tcp(_) | Via::Alcc(..) => self.kernel_flow(index, flow, &glimpses[index])?,
                Via::Quic => quic::work(self, index, flow)?,
                Via::Udp | Via::Icn(_) => self.datagrams(index, flow, cross.len() as u32, &glimpses[index], &numbers),
            };
            let tell = tell.clone();
            let body = move || tell.send((index, work())).unwrap_or_default();
            thread::Builder::new().name(format!("flow {index}")).spawn(body).map_err(|error| thread_error(&error))?;
        }
        drop(tell);
        let mut ended: Vec<Option<Ended>> = flows.iter().map(|_| None).collect();
        let deadline =
            Duration::from_nanos((self.clock.until_zero() + self.until.since(Time::ZERO)).as_nanos()) + GRACE;
        let begun = std::time::Instant::now();
        let mut aborted = None;
        for _ in flows {
            let (index, result) = loop {
                let heard = told.recv_timeout(Duration::from_millis(100));
                if self.abort.load(Ordering::Relaxed)
                    && aborted.get_or_insert_with(std::time::Instant::now).elapsed() > ABORTED
                {
                    return Err(RaceError::Aborted);
                }
                match heard {
                    Ok(told) => break told,
                    Err(RecvTimeoutError::Timeout) if !self.network.is_running() => {
                        return Err(RaceError::Flow("the emulator stopped".to_owned()));
                    }
                    Err(RecvTimeoutError::Timeout) if begun.elapsed() < deadline => {}
                    Err(RecvTimeoutError::Timeout) => {
                        let left = ended
                            .iter()
                            .position(Option::is_none)
                            .map_or_else(String::new, |at| contestant(&flows[at]));
                        return Err(RaceError::Stuck(left));
                    }
                    Err(RecvTimeoutError::Disconnected) => {
                        return Err(RaceError::Flow("a flow stopped by a mistake in it; please report it".to_owned()));
                    }
                }
            };
            ended[index] = Some(result.map_err(RaceError::Flow)?);
        }
        if self.abort.load(Ordering::Relaxed) {
            return Err(RaceError::Aborted);
        }
        Ok(ended.into_iter().flatten().collect())
    }

    /// Sets the nodes up for the kernel's flows.
    fn settings(&self) -> Result<(), RaceError> {
        let Some((Kernel { ecn, .. }, _)) = self.kernels.iter().flatten().next() else { return Ok(()) };
        for site in self.network.sites() {
            site.namespace.enter(|| {
                for (setting, value) in
                    tcp::SETTINGS.into_iter().chain([("net/ipv4/tcp_ecn", if *ecn { "1" } else { "2" })])
                {
                    // A kernel without the setting does without it.
                    let _ = std::fs::write(std::path::Path::new("/proc/sys").join(setting), value);
                }
            })?;
        }
        Ok(())
    }

    /// Where data of this way comes from, and where it goes.
    fn ends(&self, way: Way) -> (&Site, &Site) {
        (&self.sites[way.from as usize], &self.sites[way.to as usize])
    }

    fn datagrams(&self, index: usize, flow: &Flow, crossing: u32, glimpse: &Glimpse, numbers: &Arc<Numbers>) -> Work {
        let (source, target) = self.ends(flow.way);
        let flow = Datagrams {
            flow: flow.clone(),
            index,
            seed: self.seed,
            crossing,
            numbers: numbers.clone(),
            source: (source.namespace.clone(), SocketAddr::new(IpAddr::V4(source.ipv4), 0)),
            target: (target.namespace.clone(), SocketAddr::new(IpAddr::V4(target.ipv4), port(FLOW_PORT, index))),
            clock: self.clock,
            until: self.until,
            sample_every: self.sample_every,
            glimpse: glimpse.clone(),
            observers: self.observers.clone(),
            abort: self.abort.clone(),
        };
        Box::new(move || {
            let done = flow.run()?;
            let datagrams::DatagramsOutcome { stats, rtt, bytes_ready, completions, end, cpu, .. } = done;
            Ok(Ended { index, stats, rtt, bytes_ready, completions, end, cpu })
        })
    }

    fn kernel_flow(&self, index: usize, flow: &Flow, glimpse: &Glimpse) -> Result<Work, RaceError> {
        let (kernel, above) = self.kernels[index]
            .clone()
            .ok_or_else(|| RaceError::Flow(format!("{}: no flow of the kernel; please report it", contestant(flow))))?;
        let (source, target) = self.ends(flow.way);
        let address = match (&flow.telemetry, target.ipv6) {
            (None, _) => IpAddr::V4(target.ipv4),
            (Some(_), Some(six)) => IpAddr::V6(six),
            (Some(_), None) => return Err(RaceError::Flow("telemetry: this kernel has no IPv6".to_owned())),
        };
        let to = SocketAddr::new(address, port(FLOW_PORT, index));
        let listener = target.namespace.enter(|| TcpListener::bind(to))?.map_err(|error| listen_error(&error))?;
        if flow.controller.needs(Ability::ExactMarks) {
            // It echoes each packet's mark as such a receiver does (RFC 8257 section 3.2).
            let exact = SockRef::from(&listener).set_tcp_congestion(kernel.name.as_bytes());
            exact.map_err(|error| listen_error(&error))?;
        }
        let ledger = Arc::new(Ledger::default());
        let framed = above.as_ref().is_some_and(|options| options.mode == Mode::Framed);
        let (flow, clock, until, abort) = (flow.clone(), self.clock, self.until, self.abort.clone());
        let receiving = Receiving {
            flow: flow.clone(),
            listener,
            framed,
            clock,
            until,
            ledger: ledger.clone(),
            abort: abort.clone(),
        };
        let start = flow.start;
        let (seed, state, namespace) = (self.seed, glimpse.clone(), source.namespace.clone());
        let (engines, observers) = (self.engines.clone(), self.observers.clone());
        let sending =
            Sending { flow, kernel, above, engines, observers, index, seed, to, clock, until, ledger, state, abort };
        Ok(Box::new(move || {
            crate::prefer();
            let receiver = thread::Builder::new()
                .name("tcp receiver".to_owned())
                .spawn(move || receiving.run())
                .map_err(|error| error.to_string())?;
            namespace.join().map_err(|error| error.to_string())?;
            let sent = sending.run()?;
            let received = receiver.join().map_err(|_| "a receiver stopped by a mistake in it".to_owned())??;
            Ok(Ended {
                index,
                stats: vec![sent.stats],
                rtt: sent.rtt,
                bytes_ready: received.bytes_ready,
                completions: received.completions,
                end: sent.cut.unwrap_or(received.completed.max(start)),
                cpu: sent.cpu + received.cpu,
            })
        }))
    }

    /// Starts the sources of cross traffic; the answer keeps their targets open.
    fn cross(&self, cross: &[Cross]) -> Result<Vec<UdpSocket>, RaceError> {
        let mut sinks = Vec::new();
        for (index, cross) in cross.iter().enumerate() {
            let (source, target) = self.ends(cross.way);
            let to = SocketAddr::new(IpAddr::V4(target.ipv4), port(CROSS_PORT, index));
            sinks.push(target.namespace.enter(|| UdpSocket::bind(to))?.map_err(|error| listen_error(&error))?);
            let socket = source.namespace.enter(|| {
                let socket = UdpSocket::bind((source.ipv4, 0))?;
                socket.connect(to)?;
                Ok(socket)
            })?;
            let socket = socket.map_err(|error: io::Error| listen_error(&error))?;
            let (cross, seed, clock, until) = (cross.clone(), self.seed, self.clock, self.until);
            let source = cross::Source { cross, index, seed, socket, clock, until, abort: self.abort.clone() };
            let body = move || source.run();
            thread::Builder::new().name("cross".to_owned()).spawn(body).map_err(|error| thread_error(&error))?;
        }
        Ok(sinks)
    }
}

/// See [`below`].
type Below = (Kernel, Option<Options>);

/// The kernel's part of a flow, and the options of the controller above it where there is one; nothing for datapaths of our
/// own.
fn below(flow: &Flow) -> Result<Option<Below>, KernelError> {
    match &flow.via {
        Via::Tcp(driven_by) => tcp::kernel(flow, *driven_by).map(|(kernel, _)| Some((kernel, None))),
        Via::Alcc(lower, handover) => {
            tcp::above(flow, lower, *handover).map(|(kernel, options, _)| Some((kernel, Some(options))))
        }
        Via::Udp | Via::Icn(_) | Via::Quic => Ok(None),
    }
}

/// Who drives each flow that is one of the kernel's TCP.
fn driven_by(flows: &[Flow], kernels: &[Option<Below>]) -> Vec<Option<DrivenBy>> {
    let driven_by = |(flow, below): (&Flow, &Option<Below>)| {
        below.as_ref().filter(|_| matches!(flow.via, Via::Tcp(_))).map(|(kernel, _)| kernel.driven_by)
    };
    flows.iter().zip(kernels).map(driven_by).collect()
}

fn port(base: u16, index: usize) -> u16 {
    // At most MOST above the base: checked.
    base.saturating_add(u16::try_from(index).unwrap_or(u16::MAX))
}

fn contestant(flow: &Flow) -> String {
    format!("{}@{}", flow.controller, flow.via.datapath().name)
}

fn thread_error(error: &io::Error) -> RaceError {
    RaceError::Flow(format!("cannot start a thread ({error}); run fewer flows"))
}

fn listen_error(error: &io::Error) -> RaceError {
    RaceError::Flow(format!("cannot open a socket at an end of the path ({error})"))
}
