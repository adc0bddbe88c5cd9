//! A world in real time: what `paceline_sim::run` does in virtual time, done by sockets, by the kernel's own TCP and by an
//! emulator that runs the same paths against the clock. The outcome is of the same kind.
//!
//! Delays are the emulator's own, by one clock: from when a packet entered the path to when it left, as in the simulator.
//! How late the host released packets stands beside them ([`HostFigures`]) and in no figure. What differs from the simulator:
//! whatever the host's senders, receivers and timers do takes time, and what a kernel flow is, [`crate::tcp`] says.

mod capture;
mod check;
mod content;
mod cross;
mod datagrams;
mod ended;
mod error;
mod hosts;
mod kernel;
pub mod programs;
#[cfg(feature = "quic")]
mod quic;
mod requests;
mod rows;
mod tap;
#[cfg(feature = "ebpf")]
mod telemetry;

use std::any::Any;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use paceline_cc::{Ability, Nanos, Time};
use paceline_experiment::topology::back as back_route;
use paceline_experiment::{Config, Cross, DrivenBy, Flow, Graph, Hooks, HopOutcome, Outcome, Way};
use paceline_path::{Count, Path};
use paceline_telemetry::{ReportInbox, ReportInboxes, Tuple};

use crate::numbers::Numbers;
use crate::observers::Observers;
use crate::tcp::{self, Below, Engines, LOADING, Loader, Telemetry, World};
use crate::tunnel::Tunnel;
use crate::whens::Whens;
use paceline_emulator::emulator::{DirectionReport, EmulatorError, EmulatorReport, EmulatorTap};
use paceline_emulator::frame::Frame;
use paceline_emulator::world::{Network, Nodes, Site, Wire, WorldError};
use paceline_linux::clock::{Clock, Lateness};

pub use check::{check, check_tunnel};
pub use error::{FlowError, Refused, TestbedError};
#[cfg(feature = "ebpf")]
pub use telemetry::TelemetryError;
#[cfg(feature = "ebpf")]
pub(crate) use telemetry::prepare as prepare_telemetry;

use content::Routers;
use ended::Ended;
use hosts::Hosts;
use programs::Programs;
use rows::Place;
pub(crate) use tap::SharedTruth;
use tap::{Glimpse, RaceTap};

/// Data of the flow with index `i` goes to port `FLOW_PORT + i`, that of a family of fetches to [`ports`].
const FLOW_PORT: u16 = 20_000;
/// From here on Linux gives ports as they are free.
const EPHEMERAL: u16 = 32_768;
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
    pub host: HostFigures,
}

/// The host of a run: what it cost, and whether it kept time.
#[derive(Clone, Debug)]
pub struct HostFigures {
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

/// A note to the receiver half takes space in the packet.
fn largest(flow: &Flow) -> u32 {
    let note = if flow.controller.needs(Ability::ReceiverHalf) { paceline_udp::wire::NOTE as u32 } else { 0 };
    1448 + note
}

/// The flow as it can run: with space in its packets for the note to a receiver half; with telemetry, which is over IPv6, for the
/// longer header.
fn fitted(flow: &Flow) -> Flow {
    let note = largest(flow) - 1448;
    let telemetry = flow.telemetry.clone().filter(|_| rows::of(flow).is_ok_and(|real| real.carries_telemetry));
    let six = if telemetry.is_some() { SIX } else { 0 };
    Flow { mss: flow.mss.min(1448 - note).saturating_sub(six), telemetry, ..flow.clone() }
}

/// Runs a world in real time. [`check`] and [`paceline_linux::namespace::acquire`] come first.
///
/// # Errors
/// When the machine refuses, or an endpoint fails. Nothing is left behind.
pub fn run(config: Config<Frame>) -> Result<Finished, TestbedError> {
    run_with(config, None, Hooks::default())
}

/// The same with `hooks`; with a `tunnel`, flows and cross traffic travel inside a TCP connection of this congestion control, and
/// figures are of what they see there. What the tunnel's entry drops is not counted for any flow.
///
/// Threads look at [`Hooks::abort`] every half second. [`Hooks::tap`] is told of drops and asked for observers, for controllers in this
/// process: not for those of the kernel itself, nor for modules.
///
/// # Errors
/// As [`run`], and [`TestbedError::Aborted`] when it was aborted. A flow's thread that does not end within two seconds then is left behind.
/// When [`Hooks::pcap`] cannot be written.
pub fn run_with(config: Config<Frame>, tunnel: Option<&str>, hooks: Hooks) -> Result<Finished, TestbedError> {
    let Hooks { abort, live, tap: observing, pcap, programs: places } = hooks;
    let Config { seed, duration, topology, flows, cross, sample_every } = config;
    let (shown, routers) = (topology.shown(), topology.routers().to_vec());
    let (graph, mut paths) = topology.into_parts();
    let flows: Vec<Flow> = flows.iter().map(fitted).collect();
    let hosts = Hosts::new(&graph, &flows);
    paths.extend(hosts.paths());
    let flows = &hosts.flows;
    let whens = Whens::new(flows).map_err(|error| WorldError::from(EmulatorError::Start(error)))?;
    let observers = Observers::new(observing.clone(), whens.clone(), flows);
    // Nothing is loaded while the threads of a run are at work.
    let kernels =
        flows.iter().map(|flow| Ok((rows::of(flow)?.below)(flow)?)).collect::<Result<Vec<_>, TestbedError>>()?;
    let loaders: Vec<Loader<'_>> = flows
        .iter()
        .zip(&kernels)
        .enumerate()
        .filter_map(|(index, (flow, below))| {
            let kernel = below.as_ref()?.kernel.clone();
            Some(Loader { index, port: port(FLOW_PORT, index), flow, kernel })
        })
        .collect();
    let loads = LOADING.map(|loading| (loading.load)(&loaders, &observers)).transpose()?;
    let nodes = Nodes::make(Wire::preferred(), &hosts.graph)?;
    let backs: Vec<Duration> = flows.iter().map(|flow| back(&hosts.graph, &paths, flow)).collect();
    let truths: Vec<SharedTruth> = flows.iter().map(|_| Arc::default()).collect();
    let inboxes = ReportInboxes::default();
    let about = World {
        sites: nodes.sites(),
        graph: &hosts.graph,
        flows,
        seed,
        backs: &backs,
        truths: &truths,
        inboxes: &inboxes,
    };
    let mut telemetry = loads.as_ref().map(|loads| loads.telemetry(&about)).transpose()?.flatten();
    let mut nodes = match &telemetry {
        Some(telemetry) => telemetry.at(nodes, &hosts.graph),
        None => nodes,
    };
    let until = Time::ZERO + duration;
    let programs = Programs::start(&mut nodes, &hosts.graph, flows, places.as_ref(), (seed, until), &abort)?;
    let routers = Routers::start(&routers, nodes.sites(), flows, seed, until)?;
    let clock = Clock::ahead(LEAD + LEAD_PER_FLOW.mul_div(flows.len() as u64, 1));
    observers.begin(clock);
    if let Some(telemetry) = &mut telemetry {
        telemetry.start(clock, flows.len())?;
    }
    let glimpses: Vec<Glimpse> = flows.iter().map(|_| Arc::default()).collect();
    let tap =
        RaceTap::new(&hosts.graph, flows, &glimpses, shown, sample_every, until).witness(flows, &truths).shown_by(live);
    let tap = tap.fetching(&hosts.graph, flows, &routers.fetches).programs(&programs.addresses());
    let changing = observing.clone();
    let tap = tap.telling(observing, &hosts.graph, flows);
    let mut tap: Option<Box<dyn EmulatorTap>> = Some(Box::new(tap));
    let mut taps =
        pcap.map(|file| capture::begin(&file, clock, &hosts.graph)).transpose()?.into_iter().collect::<Vec<_>>();
    taps.extend(tap.take_if(|_| tunnel.is_none()));
    let base = [paths[0].least(), paths[1].least()];
    let changer = whens.as_ref().map(|whens| whens.changer(changing));
    let network = nodes.changed_by(changer).join(paths, taps, clock, Lateness::BOUND)?;
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
        routers: &routers,
        programs: &programs,
        observers,
        inboxes,
        abort: abort.clone(),
    };
    let ended = crew.race(flows, &cross, &glimpses);
    abort.store(true, Ordering::Relaxed);
    programs.stop();
    let told = telemetry.map(Telemetry::stop).transpose();
    let routers = routers.stop();
    let inside = tunnel.map(Tunnel::stop).transpose();
    let report = network.stop().map_err(WorldError::from);
    // The emulator's failure is the cause of whatever else went wrong.
    let (mut report, ended) = (report?, ended?);
    let inside = inside.map_err(TestbedError::Tunnel)?;
    report.troubles.pop().map_or(Ok(()), Err)?;
    report.taps.extend(inside.flatten());
    let (mut tap, host) = (take_tap(&mut report)?, host(&report, &ended, driven_by(kernels)));
    let capacity =
        |hop: u32, from, to| Some(report.directions().nth(hop as usize)?.schedule.as_ref()?.capacity(from, to));
    let hop = |(number, way): (u32, &DirectionReport)| {
        let stats = way.link.clone().unwrap_or_default();
        let policed = way.policed.unwrap_or_default();
        let lost = |dropped: u64, full: u64, aqm: u64| dropped.saturating_sub(full + aqm);
        HopOutcome {
            capacity_bytes: capacity(number, Time::ZERO, until),
            lost: Count {
                packets: lost(way.dropped.packets - policed.packets, stats.full.packets, stats.aqm.packets),
                bytes: lost(way.dropped.bytes - policed.bytes, stats.full.bytes, stats.aqm.bytes),
            },
            policed: way.policed,
            stats,
            air: way.air,
        }
    };
    // Without those to hosts.
    let hops: Vec<HopOutcome> = (0..).zip(report.directions()).take(graph.hops().len()).map(hop).collect();
    for flow in &ended {
        flow.record(&mut tap.recorder);
        if let Some(outcome) = &flow.program {
            tap.program(flow.index, outcome.clone());
        }
    }
    let told = told?.unwrap_or_default();
    tap.told(&told);
    let fired = whens.map_or_else(Vec::new, |whens| whens.fired());
    let mut outcome = Outcome { routers: routers?, fired, ..tap.finish(graph, hops) };
    outcome.note_capacities(flows, capacity);
    outcome.show_capacity(|from, to| capacity(shown, from, to));
    if let Some(error) =
        outcome.flows.iter().filter(|flow| flow.packets_arrived == 0).find_map(|flow| programs.silent(flow.index))
    {
        return Err(error.into());
    }
    Ok(Finished { outcome, host })
}

/// How long a report takes to the flow's sender: as long as a packet that finds no queue.
fn back(graph: &Graph, paths: &[Path<Frame>], flow: &Flow) -> Duration {
    let route = graph.route(flow.way).unwrap_or_default();
    let least = back_route(&route).iter().fold(Nanos::ZERO, |sum, hop| sum + paths[*hop as usize].least());
    Duration::from_nanos(least.as_nanos())
}

fn take_tap(report: &mut EmulatorReport) -> Result<RaceTap, TestbedError> {
    let tap = report.taps.pop().and_then(|tap| (tap as Box<dyn Any>).downcast::<RaceTap>().ok());
    tap.map(|tap| *tap).ok_or(TestbedError::NoRecorder)
}

fn host(report: &EmulatorReport, ended: &[Ended], driven_by: Vec<Option<DrivenBy>>) -> HostFigures {
    HostFigures {
        cpu: ended.iter().map(|flow| flow.cpu).collect(),
        driven_by,
        emulator_cpu: report.cpu,
        lateness: report.lateness.clone(),
        trusted: report.trusted(),
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
    routers: &'a Routers,
    programs: &'a Programs,
    observers: Observers,
    /// Of reports, where flows carry telemetry.
    inboxes: ReportInboxes,
    abort: Arc<AtomicBool>,
}

/// The reports of a flow between these ends; of one over IPv4 there are none.
fn reports_of(inboxes: &ReportInboxes, from: SocketAddr, to: SocketAddr) -> Option<ReportInbox> {
    let (SocketAddr::V6(from), SocketAddr::V6(to)) = (from, to) else { return None };
    Some(inboxes.open(Tuple { src: *from.ip(), dst: *to.ip(), sport: from.port(), dport: to.port() }))
}

type Work = Box<dyn FnOnce() -> Result<Ended, FlowError> + Send>;

impl Crew<'_> {
    /// Runs everything to the end.
    fn race(&self, flows: &[Flow], cross: &[Cross], glimpses: &[Glimpse]) -> Result<Vec<Ended>, TestbedError> {
        self.settings()?;
        // Keeps the ports of cross traffic open: a closed one would answer.
        let _sinks = self.cross(cross)?;
        let numbers = Arc::new(Numbers::new(flows));
        let (tell, told) = mpsc::channel();
        for (index, flow) in flows.iter().enumerate() {
            let (glimpse, crossing) = (&glimpses[index], cross.len() as u32);
            let place = Place { flow, index, crossing, glimpse, numbers: &numbers };
            let work = (rows::of(flow)?.work)(self, &place)?;
            let tell = tell.clone();
            let body = move || tell.send((index, work())).unwrap_or_default();
            thread::Builder::new().name(format!("flow {index}")).spawn(body).map_err(TestbedError::Thread)?;
        }
        drop(tell);
        let mut ended: Vec<Option<Ended>> = flows.iter().map(|_| None).collect();
        let deadline = Duration::from_nanos((self.clock.until_zero() + self.until.since(Time::ZERO)).as_nanos())
            + GRACE
            + programs::after(flows);
        let begun = std::time::Instant::now();
        let first = |ended: &[Option<Ended>]| {
            ended.iter().position(Option::is_none).map_or_else(String::new, |at| contestant(&flows[at]))
        };
        let mut aborted = None;
        for _ in flows {
            let (index, result) = loop {
                let heard = told.recv_timeout(Duration::from_millis(100));
                if self.abort.load(Ordering::Relaxed)
                    && aborted.get_or_insert_with(std::time::Instant::now).elapsed() > ABORTED
                {
                    return Err(TestbedError::Aborted);
                }
                match heard {
                    Ok(told) => break told,
                    Err(RecvTimeoutError::Timeout) if !self.network.is_running() => {
                        return Err(TestbedError::EmulatorStopped);
                    }
                    Err(RecvTimeoutError::Timeout) if begun.elapsed() < deadline => {}
                    Err(RecvTimeoutError::Timeout) => {
                        return Err(TestbedError::Stuck { flow: first(&ended) });
                    }
                    Err(RecvTimeoutError::Disconnected) => {
                        return Err(FlowError::Panicked { flow: first(&ended), thread: "sender" }.into());
                    }
                }
            };
            ended[index] = Some(result?);
        }
        if self.abort.load(Ordering::Relaxed) {
            return Err(TestbedError::Aborted);
        }
        Ok(ended.into_iter().flatten().collect())
    }

    /// Sets the nodes up for the kernel's flows.
    fn settings(&self) -> Result<(), TestbedError> {
        let Some(Below { kernel, .. }) = self.kernels.iter().flatten().next() else { return Ok(()) };
        for site in self.network.sites() {
            site.namespace.enter(|| {
                for (setting, value) in
                    tcp::SETTINGS.into_iter().chain([("net/ipv4/tcp_ecn", if kernel.ecn { "1" } else { "2" })])
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

    /// The addresses of the ends of a flow: of IPv6 where it carries telemetry.
    ///
    /// # Errors
    /// [`TestbedError::NoIpv6`].
    fn addresses(&self, flow: &Flow) -> Result<(IpAddr, IpAddr), TestbedError> {
        let (source, target) = self.ends(flow.way);
        let of = |site: &Site| match (&flow.telemetry, site.ipv6) {
            (None, _) => Ok(IpAddr::V4(site.ipv4)),
            (Some(_), Some(six)) => Ok(IpAddr::V6(six)),
            (Some(_), None) => Err(TestbedError::NoIpv6),
        };
        Ok((of(source)?, of(target)?))
    }

    /// Starts the sources of cross traffic; the answer keeps their targets open.
    fn cross(&self, cross: &[Cross]) -> Result<Vec<UdpSocket>, TestbedError> {
        let mut sinks = Vec::new();
        for (index, cross) in cross.iter().enumerate() {
            let (source, target) = self.ends(cross.way);
            let to = SocketAddr::new(IpAddr::V4(target.ipv4), port(CROSS_PORT, index));
            sinks.push(target.namespace.enter(|| UdpSocket::bind(to))?.map_err(TestbedError::Socket)?);
            let socket = source.namespace.enter(|| {
                let socket = UdpSocket::bind((source.ipv4, 0))?;
                socket.connect(to)?;
                Ok::<_, io::Error>(socket)
            })?;
            let socket = socket.map_err(TestbedError::Socket)?;
            let (cross, seed, clock, until) = (cross.clone(), self.seed, self.clock, self.until);
            let source = cross::Source { cross, index, seed, socket, clock, until, abort: self.abort.clone() };
            let body = move || source.run();
            thread::Builder::new().name("cross".to_owned()).spawn(body).map_err(TestbedError::Thread)?;
        }
        Ok(sinks)
    }
}

/// Who drives each flow that is one of the kernel's TCP.
fn driven_by(kernels: &[Option<Below>]) -> Vec<Option<DrivenBy>> {
    // Of a flow above TCP the controller is the one above.
    let driven_by = |below: &Below| below.above.is_none().then_some(below.kernel.driven_by);
    kernels.iter().map(|below| below.as_ref().and_then(driven_by)).collect()
}

fn port(base: u16, index: usize) -> u16 {
    // At most MOST above the base: checked.
    base.saturating_add(u16::try_from(index).unwrap_or(u16::MAX))
}

/// The ports to which data of a configured flow may go, where several of its family are there at once.
fn ports(index: usize, configured: usize) -> impl Iterator<Item = u16> {
    (FLOW_PORT..EPHEMERAL).skip(index).step_by(configured)
}

/// The flow as its contestant, such as `copa@udp`.
pub(crate) fn contestant(flow: &Flow) -> String {
    format!("{}@{}", flow.controller, flow.via.datapath().name)
}
