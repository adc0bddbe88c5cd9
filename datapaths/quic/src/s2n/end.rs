//! An endpoint of s2n-quic in real time: a [`Machine`] over a socket, turned by one thread.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use paceline_cc::datapath::{QUIC_S2N, QUIC_S2N_PROGRAM};
use paceline_cc::{Ability, Codepoint, Misfit, Spec, Time};
use paceline_linux::clock::{Clock, Sleeper};
use quinn_udp::{EcnCodepoint, Transmit};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use s2n_quic::provider::io::Provider;
use s2n_quic_core::endpoint::Endpoint;
use s2n_quic_core::inet::SocketAddress;
use s2n_quic_core::path::Tuple;

use super::adapter::Watch;
use super::machine::{self, Machine, Outgoing};
use crate::factory::Factory;
use crate::socket::{Buffers, Datagram, Wire};
use crate::stack::MTU;

/// Datagrams that leave before what has come is looked at (our choice: 0.2 ms at 500 Mbit/s).
const BURST: usize = 8;

/// A provider of s2n-quic's, for `with_io`: one thread around the endpoint, which wakes up when a packet is due and not at the next millisecond
/// after it, and takes the kernel's time of each arrival.
///
/// ```no_run
/// use paceline_quic::s2n::Io;
/// # fn start() -> Result<(), Box<dyn std::error::Error>> {
/// let io = Io::new(std::net::UdpSocket::bind("0.0.0.0:0")?);
/// let factory = io.factory("cubic:start=chirp".parse()?, 1)?;
/// let client = s2n_quic::Client::builder().with_io(io)?.with_congestion_controller(factory)?.start()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Io {
    socket: UdpSocket,
    watch: Watch,
}

impl Io {
    /// Over a bound socket.
    pub fn new(socket: UdpSocket) -> Self {
        Self { socket, watch: Watch::default() }
    }

    /// Sees the controllers of [`Io::factory`]. One with a clock, such as `verus`, sends by it once [`Watch::connected`] was called.
    pub fn watch(&self) -> Watch {
        self.watch.clone()
    }

    /// As [`Factory::s2n`], for the same builder: of controllers and start-ups with exact gaps, too.
    ///
    /// # Errors
    /// A [`Misfit`] for what s2n-quic cannot express.
    pub fn factory(&self, spec: Spec, seed: u64) -> Result<Factory, Misfit> {
        // ECT(1) is between two ends of ours alone.
        let datapath = if spec.needs(Ability::Ect1) { &QUIC_S2N_PROGRAM } else { &QUIC_S2N };
        Ok(Factory::over(datapath, spec, seed)?.watched(&self.watch))
    }
}

impl Provider for Io {
    type PathHandle = Tuple;
    type Error = io::Error;

    fn start<E: Endpoint<PathHandle = Tuple>>(self, endpoint: E) -> io::Result<SocketAddress> {
        let Self { socket, watch } = self;
        let at = socket.local_addr()?;
        let (wire, woken) = (Wire::new(socket, true)?, Woken::new()?);
        let machine = machine::of(endpoint, watch, MTU);
        thread::Builder::new().name("s2n io".to_owned()).spawn(move || {
            let mut end = End::over(wire, at, woken, machine);
            // It ends with the endpoint; where the socket fails, nothing leaves any more, and the connections end by their timers.
            let _ = end.run(Time::NEVER, std::future::pending::<()>());
        })?;
        Ok(at.into())
    }
}

/// A machine, its socket and its clock.
pub(super) struct End {
    machine: Box<dyn Machine>,
    wire: Wire,
    at: SocketAddr,
    buffers: Buffers,
    /// Room for a datagram that leaves.
    datagram: Vec<u8>,
    woken: Arc<Woken>,
    clock: Clock,
    sleeper: Sleeper,
    /// The last moment that s2n-quic knows, which takes none before it.
    last: Time,
    /// The other end is ours: ECT(0) leaves as this, and ECT(1) comes as ECT(0).
    ours: Option<EcnCodepoint>,
    ended: bool,
}

impl End {
    /// Towards another end of ours; ECT(0) leaves as `ect`. Belongs to the calling thread.
    pub(super) fn new(socket: UdpSocket, machine: Box<dyn Machine>, ect: EcnCodepoint) -> io::Result<Self> {
        let at = socket.local_addr()?;
        Ok(Self { ours: Some(ect), ..Self::over(Wire::new(socket, true)?, at, Woken::new()?, machine) })
    }

    fn over(wire: Wire, at: SocketAddr, woken: Arc<Woken>, machine: Box<dyn Machine>) -> Self {
        let clock = Clock::new();
        let (buffers, datagram, sleeper) = (Buffers::new(), vec![0; usize::from(MTU)], Sleeper::new(clock));
        let (last, ours, ended) = (Time::ZERO, None, false);
        Self { machine, wire, at, buffers, datagram, woken, clock, sleeper, last, ours, ended }
    }

    /// The time now.
    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Turns until the future is ready and answers what it says; nothing where `until` came or the endpoint ended before.
    pub(super) fn run<T>(&mut self, until: Time, future: impl Future<Output = T>) -> io::Result<Option<T>> {
        let mut future = pin!(future);
        let waker = Waker::from(self.woken.clone());
        let mut context = Context::from_waker(&waker);
        waker.wake_by_ref();
        loop {
            if self.woken.take()
                && let Poll::Ready(said) = future.as_mut().poll(&mut context)
            {
                return Ok(Some(said));
            }
            let busy = self.turn(&mut context)?;
            if self.ended || self.clock.now() >= until {
                return Ok(None);
            }
            if !busy && !self.woken.waits() {
                self.wait(until)?;
            }
        }
    }

    /// Takes in what the application wants, what has come and what is due; says whether there may be more.
    fn turn(&mut self, context: &mut Context<'_>) -> io::Result<bool> {
        let Self { machine, wire, buffers, clock, last, ours, at, .. } = self;
        let came = buffers.receive(wire, |datagram| {
            let Datagram { from, to, ecn, stamp, bytes } = datagram;
            // s2n-quic's time does not run backwards: what came while it was busy came after that.
            *last = stamp.map_or_else(|| clock.now(), |stamp| clock.of_kernel(stamp)).max(*last);
            let to = SocketAddr::new(to.unwrap_or(at.ip()), at.port());
            machine.receive(*last, from, to, heard(ecn, ours.is_some()), bytes);
            Ok(())
        })?;
        let now = self.advance();
        self.ended = !self.machine.wake(now, context);
        for _ in 0..BURST {
            let now = self.advance();
            let Some(outgoing) = self.machine.transmit(now, &mut self.datagram) else { return Ok(came) };
            self.launch(&outgoing)?;
        }
        Ok(true)
    }

    /// Time goes on.
    fn advance(&mut self) -> Time {
        self.last = self.last.max(self.clock.now());
        self.last
    }

    fn launch(&self, outgoing: &Outgoing) -> io::Result<()> {
        let ecn = match outgoing.ecn {
            Codepoint::NotEct => None,
            Codepoint::Ect0 => Some(self.ours.unwrap_or(EcnCodepoint::Ect0)),
            Codepoint::Ect1 => Some(EcnCodepoint::Ect1),
            Codepoint::Ce => Some(EcnCodepoint::Ce),
        };
        self.wire.launch(&Transmit {
            destination: outgoing.to,
            ecn,
            contents: &self.datagram[..outgoing.length],
            segment_size: None,
            src_ip: outgoing.from.filter(|from| is_same_family(*from, outgoing.to)),
        })
    }

    /// Waits until something comes, is due or is wanted, or for `until`.
    fn wait(&mut self, until: Time) -> io::Result<()> {
        let next = self.machine.due().map_or(until, |due| due.min(until));
        let fds = &mut [PollFd::new(&self.wire, PollFlags::IN), PollFd::new(&self.woken.event, PollFlags::IN)];
        self.sleeper.wait(next, fds)?;
        self.woken.quiet();
        Ok(())
    }
}

fn is_same_family(from: IpAddr, to: SocketAddr) -> bool {
    from.is_ipv4() == to.is_ipv4()
}

fn heard(ecn: Option<EcnCodepoint>, ours: bool) -> Codepoint {
    match ecn {
        None => Codepoint::NotEct,
        Some(EcnCodepoint::Ce) => Codepoint::Ce,
        Some(EcnCodepoint::Ect1) if !ours => Codepoint::Ect1,
        Some(EcnCodepoint::Ect0 | EcnCodepoint::Ect1) => Codepoint::Ect0,
    }
}

/// Whether something is wanted of the thread, which may be asleep.
struct Woken {
    waits: AtomicBool,
    event: OwnedFd,
}

impl Woken {
    fn new() -> io::Result<Arc<Self>> {
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Arc::new(Self { waits: AtomicBool::new(false), event }))
    }

    fn waits(&self) -> bool {
        self.waits.load(Ordering::Acquire)
    }

    fn take(&self) -> bool {
        self.waits.swap(false, Ordering::AcqRel)
    }

    /// The next sleep is not ended by what ended one before.
    fn quiet(&self) {
        let _ = rustix::io::read(&self.event, &mut [0; 8]);
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.waits.swap(true, Ordering::AcqRel) {
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }
}
