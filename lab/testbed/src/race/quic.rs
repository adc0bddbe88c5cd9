//! Contestants over QUIC in a race: a sender and a receiver of one stack, each in a thread, over sockets at the two ends of a
//! world. What differs from a simulated flow over UDP: docs/guide/quic.md.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use paceline_cc::{Distribution, Env, Nanos, Time};
use paceline_experiment::{Flow, Layer, Workload};
use paceline_quic::{Factory, Identity, MTU, Sending, Sent, Stack};
use paceline_transport::SenderStats;

use super::rows::{Place, Real, nothing_below};
use super::{Crew, Ended, FLOW_PORT, FlowError, Refused, TestbedError, Work, port};
use crate::workload::{end, goal};
use paceline_linux::clock::{Clock, Sleeper};

/// How much longer than its sender a receiver waits: for the sender's farewell.
const FAREWELL: Duration = Duration::from_secs(1);

/// `quic` in the table.
pub(super) const QUINN: Real =
    over(|flow| check(flow, &paceline_quic::QUINN), |crew, place| work(crew, place, &paceline_quic::QUINN));

/// `quic/noq` in the table.
#[cfg(feature = "quic-noq")]
pub(super) const NOQ: Real =
    over(|flow| check(flow, &paceline_quic::noq::NOQ), |crew, place| work(crew, place, &paceline_quic::noq::NOQ));

/// `quic/s2n` in the table.
#[cfg(feature = "quic-s2n")]
pub(super) const S2N: Real =
    over(|flow| check(flow, &paceline_quic::s2n::S2N), |crew, place| work(crew, place, &paceline_quic::s2n::S2N));

/// A row of a stack.
const fn over(
    check: fn(&Flow) -> Result<Vec<String>, Refused>,
    work: fn(&Crew<'_>, &Place<'_>) -> Result<Work, TestbedError>,
) -> Real {
    Real { carries_telemetry: true, lends_memory: false, check, below: nothing_below, work }
}

/// What the stack does otherwise than the flow says, one line each.
///
/// # Errors
/// What of it the stack cannot do, and how to fix it.
fn check(flow: &Flow, stack: &Stack) -> Result<Vec<String>, Refused> {
    let (via, name) = (stack.datapath.name, stack.name);
    let spec = &flow.controller;
    factory(flow, 0, stack)?;
    if !matches!(flow.workload, Workload::Bulk | Workload::Bytes(_)) {
        return Err(Refused::QuicWorkload { controller: spec.clone(), via });
    }
    if flow.arrivals {
        return Err(Refused::QuicArrivals { controller: spec.clone(), via });
    }
    let mut notes = Vec::new();
    let mut note = |key: &str, what: &str| notes.push(format!("{spec}@{via}: {key}: {name}{what}"));
    if (flow.ack_every, flow.ack_delay) != (2, Nanos::from_millis(40)) {
        note("ack_every, ack_delay", &format!(" acknowledges {}", stack.acknowledges));
    }
    if flow.mss != 1448 {
        note("mss", "'s full packets have 1452 bytes with its headers");
    }
    Ok(notes)
}

/// What makes the flow's controllers.
fn factory(flow: &Flow, seed: u64, stack: &Stack) -> Result<Factory, Refused> {
    let refused = |misfit| Refused::Quic {
        controller: flow.controller.clone(),
        via: stack.datapath.name,
        misfit: Box::new(misfit),
    };
    let factory = stack.factory(flow.controller.clone(), seed).map_err(refused)?;
    Ok(if stack.paces || flow.paced { factory } else { factory.unpaced() })
}

fn work(crew: &Crew<'_>, place: &Place<'_>, stack: &'static Stack) -> Result<Work, TestbedError> {
    let Place { flow, index, .. } = *place;
    let (source, target) = crew.ends(flow.way);
    let (from, to) = crew.addresses(flow)?;
    let to = SocketAddr::new(to, port(FLOW_PORT, index));
    let open = |site: &paceline_emulator::world::Site, at: SocketAddr| {
        site.namespace.enter(|| UdpSocket::bind(at))?.map_err(TestbedError::Socket)
    };
    let seed = crew.seed.derive(&format!("quic {index}"));
    let (observers, spec) = (crew.observers.clone(), flow.controller.clone().over(flow.via.datapath()));
    // The clock of a connection's controller begins with it.
    let observe = move |env: &Env| observers.of(index, Layer::Packets, &spec, env, Time::ZERO);
    let name = super::contestant(flow);
    let near = open(source, SocketAddr::new(from, 0))?;
    let factory = factory(flow, seed, stack)?.observed(observe);
    let reports = super::reports_of(&crew.inboxes, near.local_addr().map_err(TestbedError::Socket)?, to);
    let header = flow.telemetry.as_ref().map_or(0, |telemetry| telemetry.trace.header_bytes());
    let transfer = Transfer {
        index,
        handshake: flow.handshake,
        goal: goal(&flow.workload),
        controller: match reports {
            Some(reports) => factory.informed(reports),
            None => factory,
        },
        mtu: MTU - header as u16,
        stack,
        identity: Identity::generate().map_err(|source| FlowError::Quic { flow: name.clone(), source })?,
        name,
        near,
        far: open(target, to)?,
        to,
        clock: crew.clock,
        start: flow.start,
        until: end(flow, crew.until),
        abort: crew.abort.clone(),
    };
    Ok(Box::new(move || transfer.run()))
}

struct Transfer {
    name: String,
    index: usize,
    handshake: bool,
    goal: Option<u64>,
    controller: Factory,
    mtu: u16,
    stack: &'static Stack,
    identity: Identity,
    /// The sender's socket and the receiver's.
    near: UdpSocket,
    far: UdpSocket,
    to: SocketAddr,
    clock: Clock,
    start: Time,
    until: Time,
    abort: Arc<AtomicBool>,
}

impl Transfer {
    fn run(self) -> Result<Ended, FlowError> {
        let Self { name, index, handshake, goal, controller, mtu, stack, identity, .. } = self;
        let Self { near, far, to, clock, start, until, abort, .. } = self;
        let mut source = Source { left: goal.unwrap_or(u64::MAX), begun: None, clock, abort: abort.clone() };
        let mut sink = Sink { bytes: 0, goal, done: None, clock, until, abort };
        let certificate = identity.certificate().to_vec();
        let receiver = thread::Builder::new()
            .name("quic receiver".to_owned())
            .spawn(move || {
                let lasting = until_then(clock, until) + FAREWELL;
                let received = unless_no_peer(stack.serve(far, &identity, &mut sink, lasting));
                received.map(|received| (received, sink))
            })
            .map_err(|source| FlowError::Thread { flow: name.clone(), source })?;
        clock.wait_for_zero();
        Sleeper::new(clock).sleep_until(start);
        let lasting = until_then(clock, until);
        let sending =
            Sending { to, certificate: &certificate, controller: &controller, mtu, one_by_one: mtu < MTU, lasting };
        let over = Instant::now() + lasting;
        let sent = unless_no_peer(stack.send(near, &sending, &mut source));
        let received = receiver.join().map_err(|_| FlowError::Panicked { flow: name.clone(), thread: "receiver" })?;
        let failed = |source| FlowError::Quic { flow: name.clone(), source };
        let (sent, (received, sink)) = (sent.map_err(failed)?, received.map_err(failed)?);

        let mut rtt = Distribution::new(3);
        for sample in sent.iter().flat_map(|sent| &sent.rtt).filter(|sample| sample.at <= over) {
            rtt.record(nanos(sample.rtt));
        }
        let begun = if handshake { Some(start) } else { source.begun };
        let took = sink.done.zip(begun).map(|(done, begun)| done.since(begun));
        let cpu = [sent.as_ref().and_then(|sent| sent.cpu), received.as_ref().and_then(|received| received.cpu)];
        Ok(Ended {
            index,
            stats: sent.iter().map(|sent| stats(sent, sink.bytes)).collect(),
            rtt,
            bytes_ready: sink.bytes,
            completions: goal.zip(took).into_iter().collect(),
            end: sink.done.unwrap_or(until),
            cpu: cpu.into_iter().flatten().map(nanos).fold(Nanos::ZERO, |sum, cpu| sum + cpu),
            frames: Vec::new(),
            program: None,
        })
    }
}

/// A path that carries nothing is not a failure: the flow moved no bytes.
fn unless_no_peer<T>(end: Result<T, paceline_quic::Error>) -> Result<Option<T>, paceline_quic::Error> {
    match end {
        Ok(end) => Ok(Some(end)),
        Err(paceline_quic::Error::NoPeer { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What the stack counts; what it does not stays zero. The content of a lost packet is sent again in another.
fn stats(sent: &Sent, delivered: u64) -> SenderStats {
    SenderStats {
        packets_sent: sent.packets_sent,
        bytes_sent: delivered.saturating_add(sent.bytes_lost),
        retransmits: sent.packets_lost,
        packets_lost: sent.packets_lost,
        bytes_delivered: delivered,
        ..SenderStats::default()
    }
}

fn until_then(clock: Clock, at: Time) -> Duration {
    Duration::from_nanos((clock.until_zero() + at.since(clock.now())).as_nanos())
}

fn nanos(duration: Duration) -> Nanos {
    Nanos::from_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// Zeros to send.
struct Source {
    left: u64,
    /// When the first were asked for: the handshake is over.
    begun: Option<Time>,
    clock: Clock,
    abort: Arc<AtomicBool>,
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        go_on(&self.abort)?;
        self.begun.get_or_insert_with(|| self.clock.now());
        let read = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        // Bulk never runs out.
        if self.left != u64::MAX {
            self.left -= read as u64;
        }
        buffer[..read].fill(0);
        Ok(read)
    }
}

/// Counts what comes before the end.
struct Sink {
    bytes: u64,
    goal: Option<u64>,
    /// When the last of the goal came.
    done: Option<Time>,
    clock: Clock,
    until: Time,
    abort: Arc<AtomicBool>,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        go_on(&self.abort)?;
        let now = self.clock.now();
        if now <= self.until {
            self.bytes += bytes.len() as u64;
            if self.goal.is_some_and(|goal| self.bytes >= goal) {
                self.done.get_or_insert(now);
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether the run has not failed elsewhere.
fn go_on(abort: &AtomicBool) -> io::Result<()> {
    if abort.load(Ordering::Relaxed) { Err(io::Error::other("the run was given up")) } else { Ok(()) }
}
