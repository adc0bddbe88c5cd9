//! How well the emulator does what it is asked, measured on this machine: rates, round trips, and packets a second.
//!
//! Each measurement builds a world of its own and drives it by UDP and TCP sockets of its two ends.

use std::io::{self, IoSliceMut, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use paceline_cc::{Nanos, Rate, Time};
use paceline_experiment::{Graph, Way};
use paceline_path::queue::QueueBound;
use paceline_path::{Direction, PathError, QueueSpec};

use crate::emulator::{EmulatorError, EmulatorReport};
use crate::frame::Frame;
use crate::world::{Between, EmulatedWorld, Far, Nodes, Wire, WorldError};
use paceline_linux::clock::{Clock, Lateness, Sleeper};
use paceline_linux::messages::{ControlMessageOwned, MsgFlags, SockaddrIn, TimeSpec, cmsg_space, recvmsg};
use paceline_linux::namespace::{Namespace, NamespaceError};
use paceline_linux::sockopt::{ReceiveTimestampns, UdpGsoSegment, setsockopt};
use paceline_linux::thread::{FIRST, Scheduling, set_nice};
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};

/// Delay each way while accuracy is measured (as in the figures of other emulators).
const DELAY: Nanos = Nanos::from_millis(10);
/// Time between two pings: no multiple of a timer tick, so that pings do not always meet the same moment of it.
const PING_EVERY: Nanos = Nanos::from_micros(2_100);
/// Bytes of a ping above UDP.
const PING: usize = 64;
/// Bytes of IPv4 and UDP headers.
const HEADERS: usize = 28;
/// Bytes above UDP of a full packet.
const FULL: usize = 1500 - HEADERS;
/// Port of all measurements: theirs alone, since each has namespaces of its own.
const PORT: u16 = 7077;
/// Datagrams handed to the kernel at once: below the 64 kB of its segmentation offload.
const BURST: u64 = 32;
/// By how much a flood is ahead of the link at once, and a twentieth of the time later on, so that the link does not stand
/// idle when the sender has to wait for a processor.
const HEAD_START: Nanos = Nanos::from_millis(50);
/// Buffer for datagrams that wait for the receiver.
const RECEIVE_BUFFER: usize = 16 << 20;
/// Silence after which a receiver gives up.
const SILENCE: Duration = Duration::from_millis(500);

/// What went wrong with a measurement.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccuracyError {
    /// No world to measure in.
    #[error(transparent)]
    World(#[from] WorldError),
    /// No namespace.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// The emulator ended early.
    #[error(transparent)]
    Emulator(#[from] EmulatorError),
    /// No such path.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A socket failed.
    #[error("measuring: {0}")]
    Socket(#[from] io::Error),
    /// Nothing arrived.
    #[error("measuring: no packet came through the emulator")]
    Nothing,
}

/// Accuracy at one rate, 10 ms each way.
#[derive(Clone, Debug)]
pub struct Accuracy {
    /// The rate of the link.
    pub asked: Rate,
    /// Bytes of IP packets received a second while more is sent than the link carries.
    pub goodput: Rate,
    /// Round trips of 64-byte datagrams, one at a time on an otherwise idle link, beyond what was asked for (two delays and
    /// two transmissions), by the stamps of both kernels: what the emulator adds.
    pub rtt_error: Quantiles,
    /// The same as the programs see it, with the times they took to wake up; to be compared with [`bare`].
    pub rtt_error_seen: Quantiles,
    /// Pings without an answer.
    pub lost: u64,
    /// How late the emulator handed pings over.
    pub release_error: Quantiles,
    /// How late it handed packets over while the link was full.
    pub release_error_full: Quantiles,
    /// What the sender managed to send while the link was to be full; below `asked`, goodput says nothing of the emulator.
    pub offered: Rate,
    /// Share of a processor that the emulator used while the link was full.
    pub cpu: f64,
    /// How the emulator was scheduled.
    pub scheduling: Scheduling,
    /// Whether the emulator trusts its own run.
    pub trusted: bool,
}

impl Accuracy {
    /// Goodput over what was asked, less one.
    pub fn goodput_error(&self) -> f64 {
        self.goodput.as_mbps() / self.asked.as_mbps() - 1.0
    }
}

/// A distribution of times in brief.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantiles {
    /// Median.
    pub p50: Nanos,
    /// 99th percentile.
    pub p99: Nanos,
    /// Largest.
    pub max: Nanos,
}

impl From<&Lateness> for Quantiles {
    fn from(lateness: &Lateness) -> Self {
        Self { p50: lateness.p50(), p99: lateness.p99(), max: lateness.max() }
    }
}

/// Packets a second through a path without limit.
#[derive(Clone, Debug)]
pub struct Capacity {
    /// Packets carried a second, both ways.
    pub packets_per_s: f64,
    /// Bytes of IP packets carried a second, both ways.
    pub rate: Rate,
    /// Share of a processor that the emulator used.
    pub cpu: f64,
    /// Packets that the kernel dropped before or after the path.
    pub lost: u64,
}

/// What to measure capacity with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeLoad {
    /// TCP flows without end, this many of them, of the system's default congestion control.
    Tcp(usize),
    /// Datagrams whose IP packets have this many bytes, as fast as one thread sends.
    Udp(usize),
}

/// Measures accuracy of a link of `rate`, for about twice `span`.
pub fn accuracy(wire: Wire, rate: Rate, span: Nanos) -> Result<Accuracy, AccuracyError> {
    let direction = Direction {
        rate: Some(rate),
        delay: DELAY,
        queue: Some(QueueSpec::DropTail { limit: QueueBound::NONE }),
        ..Direction::default()
    };
    let world = world(wire, &direction)?;
    let pings = pings(&world.near().namespace, &world.far().namespace, world.far().ipv4, span)?;
    let quiet = world.stop()?;
    let world = self::world(wire, &direction)?;
    let goodput = flood(&world, rate, span)?;
    let full = world.stop()?;
    let asked = DELAY + DELAY + rate.time_for((PING + HEADERS) as u64) + rate.time_for((PING + HEADERS) as u64);
    Ok(Accuracy {
        asked: rate,
        goodput,
        rtt_error: quantiles(pings.path, asked)?,
        rtt_error_seen: quantiles(pings.seen, asked)?,
        lost: pings.lost,
        release_error: Quantiles::from(&quiet.lateness),
        release_error_full: Quantiles::from(&full.lateness),
        offered: Rate::from_bytes_in(full.links[0].down.entered.bytes, span),
        cpu: share(&full),
        scheduling: full.scheduling,
        trusted: quiet.trusted() && full.trusted(),
    })
}

/// Round trips of the same pings over a bare veth pair, as the programs see them: what they and the kernel take by
/// themselves.
pub fn bare(span: Nanos) -> Result<Quantiles, AccuracyError> {
    let [near, far] = [Namespace::create()?, Namespace::create()?];
    let address = crate::world::bare_veth(&near, &far)?;
    quantiles(pings(&near, &far, address, span)?.seen, Nanos::ZERO)
}

/// What the hosts of a program's two ends add to a packet ([`crate::world::Nodes::stubs`]): half the round trips of the same pings from a
/// host through its node to another host of the same node, by the stamps of both kernels, without an emulated link. A packet of a race
/// passes one host and its node before the path, and one node and its host behind it: as many.
pub fn detour(span: Nanos) -> Result<Quantiles, AccuracyError> {
    let graph = Graph::dumbbell();
    let mut nodes = Nodes::make(Wire::preferred(), &graph)?;
    let [here, there] = nodes.stubs(&graph, Way { from: 0, to: 0 }, None)?;
    let round_trips = pings(&here.namespace, &there.namespace, there.ipv4, span)?.path;
    quantiles(round_trips.into_iter().map(|round_trip| round_trip.mul_div(1, 2)).collect(), Nanos::ZERO)
}

/// Measures how many packets the emulator carries, for `span`.
pub fn capacity(wire: Wire, load: ProbeLoad, span: Nanos) -> Result<Capacity, AccuracyError> {
    let world = world(wire, &Direction::default())?;
    match load {
        ProbeLoad::Tcp(flows) => bulk(&world, flows, span)?,
        ProbeLoad::Udp(size) => blast(&world, size, span)?,
    }
    let report = world.stop()?;
    let seconds = span.as_secs_f64();
    let left = report.directions().map(|way| way.left);
    let (packets, bytes) = left.fold((0, 0), |(packets, bytes), left| (packets + left.packets, bytes + left.bytes));
    let lost = report.directions().map(|way| way.overflowed + way.refused).sum();
    let cpu = report.cpu.as_secs_f64() / seconds;
    Ok(Capacity { packets_per_s: packets as f64 / seconds, rate: Rate::from_bytes_in(bytes, span), cpu, lost })
}

fn share(report: &EmulatorReport) -> f64 {
    report.cpu.as_secs_f64() / report.end.as_secs_f64()
}

fn world(wire: Wire, direction: &Direction) -> Result<EmulatedWorld, AccuracyError> {
    let build = || direction.build::<Frame, &str>(1, DELAY + DELAY, &|_| Err("there is no trace"));
    let (down, up) = (build()?, build()?);
    let between = Between { down, up, taps: Vec::new(), clock: Clock::new(), bound: Lateness::BOUND };
    Ok(EmulatedWorld::build_over(wire, Far::Isolated, between)?)
}

/// What pings found.
#[derive(Default)]
struct Pings {
    /// From sending to the arrival of the answer in the kernel, less the time from the ping's arrival in the other kernel
    /// to the answer's sending: what the path took.
    path: Vec<Nanos>,
    /// From sending to the answer in the program's hands.
    seen: Vec<Nanos>,
    lost: u64,
}

fn quantiles(mut spans: Vec<Nanos>, asked: Nanos) -> Result<Quantiles, AccuracyError> {
    spans.sort_unstable();
    let last = spans.len().checked_sub(1).ok_or(AccuracyError::Nothing)?;
    let at = |share: f64| spans[(last as f64 * share).round() as usize] - asked;
    Ok(Quantiles { p50: at(0.5), p99: at(0.99), max: at(1.0) })
}

/// A socket that reports when datagrams arrived.
struct Stamped {
    socket: UdpSocket,
    clock: Clock,
}

impl Stamped {
    fn new(socket: UdpSocket, clock: Clock, patience: Duration) -> io::Result<Self> {
        socket.set_read_timeout(Some(patience))?;
        setsockopt(&socket, ReceiveTimestampns, &true)?;
        Ok(Self { socket, clock })
    }

    /// The next datagram's sender and when it arrived.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<(SockaddrIn, Time)> {
        let mut slices = [IoSliceMut::new(buffer)];
        let mut control = cmsg_space!(TimeSpec);
        let fd = self.socket.as_raw_fd();
        let message = recvmsg::<SockaddrIn>(fd, &mut slices, Some(&mut control), MsgFlags::empty())?;
        let stamp = message.cmsgs()?.find_map(|control| match control {
            ControlMessageOwned::ScmTimestampns(stamp) => Some(self.clock.of_kernel(stamp.into())),
            _ => None,
        });
        let from = message.address.ok_or(io::ErrorKind::InvalidData)?;
        Ok((from, stamp.unwrap_or_else(|| self.clock.now())))
    }
}

/// One ping after the other, from near to far and back.
fn pings(near: &Namespace, far: &Namespace, to: Ipv4Addr, span: Nanos) -> Result<Pings, AccuracyError> {
    let clock = Clock::new();
    let echo = far.enter(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT)))??;
    let echo = Stamped::new(echo, clock, SILENCE)?;
    let socket = near.enter(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))??;
    socket.connect((to, PORT))?;
    let socket = Stamped::new(socket, clock, SILENCE)?;
    let done = AtomicBool::new(false);
    // It measures, and is not what is measured: other work of the machine waits, as far as permitted.
    set_nice(FIRST);
    thread::scope(|scope| {
        scope.spawn(|| {
            set_nice(FIRST);
            let mut buffer = [0; PING];
            while !done.load(Ordering::Acquire) {
                if let Ok((from, arrived)) = echo.receive(&mut buffer) {
                    let stay = clock.now() - arrived;
                    buffer[8..16].copy_from_slice(&stay.as_nanos().to_le_bytes());
                    let _ = echo.socket.send_to(&buffer, SocketAddrV4::from(from));
                }
            }
        });
        let mut sleeper = Sleeper::new(clock);
        let mut pings = Pings::default();
        let (mut next, end) = (clock.now(), clock.now() + span);
        let mut number = 0_u64;
        while next < end {
            sleeper.sleep_until(next);
            number += 1;
            let mut buffer = [0; PING];
            buffer[..8].copy_from_slice(&number.to_le_bytes());
            let sent = clock.now();
            let _ = socket.socket.send(&buffer);
            let word = |buffer: &[u8; PING], at: usize| {
                u64::from_le_bytes(buffer[at..].first_chunk().copied().unwrap_or_default())
            };
            match socket.receive(&mut buffer) {
                Ok((_, arrived)) if word(&buffer, 0) == number => {
                    pings.seen.push(clock.now() - sent);
                    pings.path.push(arrived - sent - Nanos::from_nanos(word(&buffer, 8)));
                }
                _ => pings.lost += 1,
            }
            next = (next + PING_EVERY).max(clock.now());
        }
        done.store(true, Ordering::Release);
        Ok(pings)
    })
}

/// Sends more than the link carries from far to near; what arrives a second, after the queue has filled.
fn flood(world: &EmulatedWorld, rate: Rate, span: Nanos) -> Result<Rate, AccuracyError> {
    let receiver = world.near().namespace.enter(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT)))??;
    // So that a receiver that is late loses nothing.
    set_socket_recv_buffer_size_force(&receiver, RECEIVE_BUFFER)
        .or_else(|_| set_socket_recv_buffer_size(&receiver, RECEIVE_BUFFER))
        .map_err(io::Error::from)?;
    let sender = world.far().namespace.enter(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))??;
    sender.connect((world.near().ipv4, PORT))?;
    let clock = Clock::new();
    let receiver = Stamped::new(receiver, clock, SILENCE)?;
    let end = clock.now() + span;
    // It measures, and is not what is measured: other work of the machine waits, as far as permitted.
    set_nice(FIRST);
    thread::scope(|scope| {
        scope.spawn(move || {
            set_nice(FIRST);
            let mut sleeper = Sleeper::new(clock);
            let start = clock.now();
            let mut sent = 0;
            while clock.now() < end {
                let elapsed = clock.now() - start;
                let due = rate.bytes_in(elapsed + elapsed.mul_div(1, 20) + HEAD_START) / (FULL + HEADERS) as u64;
                while sent < due {
                    let packets = (due - sent).min(BURST);
                    send_many(&sender, FULL, packets as usize);
                    sent += packets;
                }
                sleeper.sleep_until(clock.now() + Nanos::from_micros(500));
            }
        });
        // The first tenth of the time fills the queue. By the kernel's stamps, so that it does not matter when the receiver
        // gets to run.
        let begin = clock.now() + span.mul_div(1, 10);
        let mut buffer = [0; FULL];
        let (mut first, mut last, mut packets) = (None, Time::ZERO, 0);
        while let Ok((_, arrived)) = receiver.receive(&mut buffer) {
            if arrived >= end {
                break;
            }
            if arrived >= begin {
                packets += u64::from(first.is_some());
                first.get_or_insert(arrived);
                last = arrived;
            }
        }
        let first = first.filter(|first| *first < last).ok_or(AccuracyError::Nothing)?;
        Ok(Rate::from_bytes_in(packets * (FULL + HEADERS) as u64, last - first))
    })
}

/// TCP flows from far to near for `span`.
fn bulk(world: &EmulatedWorld, flows: usize, span: Nanos) -> Result<(), AccuracyError> {
    let listener = world.near().namespace.enter(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)))??;
    let to = SocketAddr::from((world.near().ipv4, PORT));
    let limit = Duration::from_nanos(span.as_nanos());
    let clock = Clock::new();
    thread::scope(|scope| {
        for _ in 0..flows {
            let mut sender = world.far().namespace.enter(|| TcpStream::connect_timeout(&to, SILENCE))??;
            let (mut receiver, _) = listener.accept()?;
            receiver.set_read_timeout(Some(SILENCE))?;
            sender.set_write_timeout(Some(SILENCE))?;
            scope.spawn(move || {
                let chunk = vec![0; 256 << 10];
                while clock.now() < Time::ZERO + span && sender.write(&chunk).is_ok() {}
            });
            scope.spawn(move || {
                let mut chunk = vec![0; 256 << 10];
                while receiver.read(&mut chunk).is_ok_and(|length| length > 0) {}
            });
        }
        thread::sleep(limit);
        Ok(())
    })
}

/// Datagrams from far to near for `span`, whether they arrive or not.
fn blast(world: &EmulatedWorld, size: usize, span: Nanos) -> Result<(), AccuracyError> {
    let receiver = world.near().namespace.enter(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT)))??;
    receiver.set_read_timeout(Some(SILENCE))?;
    let sender = world.far().namespace.enter(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))??;
    sender.connect((world.near().ipv4, PORT))?;
    let clock = Clock::new();
    let end = clock.now() + span;
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut buffer = [0; 2048];
            while clock.now() < end && receiver.recv(&mut buffer).is_ok() {}
        });
        while clock.now() < end {
            send_many(&sender, size.saturating_sub(HEADERS), BURST as usize);
        }
    });
    Ok(())
}

/// Hands datagrams of one size to the kernel in one call (UDP segmentation offload); the offload of the interface is off,
/// so that they leave as packets. What is refused is lost.
fn send_many(socket: &UdpSocket, size: usize, count: usize) {
    let _ = setsockopt(socket, UdpGsoSegment, &(size as i32)).and_then(|()| socket.send(&vec![0; size * count]));
}
