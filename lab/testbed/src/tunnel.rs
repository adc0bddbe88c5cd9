//! A tunnel between two ends: a TUN device at each, and one TCP connection over the path that carries the packets of both
//! directions, as a VPN over TCP does.
//!
//! An end takes no further packet from its device while the connection has not taken the last: packets then wait in the device's
//! queue, and are dropped where that is full. Each packet follows two bytes with its length. Nothing is encrypted.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use paceline_cc::{Nanos, Time};
use paceline_experiment::DumbbellWay;
use paceline_path::DelaySplit;
use socket2::{Domain, Protocol, Socket, Type};

use paceline_emulator::emulator::{EmulatorTap, Passage};
use paceline_emulator::frame::Frame;
use paceline_emulator::port::packet::without_offloads;
use paceline_emulator::port::{Port, Tun};
use paceline_emulator::world::Site;
use paceline_linux::clock::{Clock, wait};
use paceline_linux::interface::Interfaces;
use paceline_linux::namespace::NamespaceError;
use rustix::event::{PollFd, PollFlags};

/// Name of the device at both ends.
const NAME: &str = "tunnel";
/// Addresses inside: a block of its own, apart from those of the path.
const NEAR: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 2);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);
const PREFIX: u8 = 30;
/// Port of the connection.
const PORT: u16 = 1194;
/// Packets that wait at a device (`txqueuelen` of OpenVPN's devices).
const QUEUE: u32 = 100;
/// Bytes of the connection that its kernel has not sent yet, at most: what waits, waits at the device (our choice).
const UNSENT: u32 = 16_384;
/// How long an end sleeps at most before it looks whether the tunnel is over, ms.
const SLICE: Duration = Duration::from_millis(100);

/// A running tunnel. Dropping it ends it.
pub struct Tunnel {
    near: Site,
    far: Site,
    ends: Vec<JoinHandle<io::Result<()>>>,
    shared: Arc<Shared>,
}

/// What both ends know.
struct Shared {
    over: AtomicBool,
    clock: Clock,
    /// Delay without queues, each way: down, up.
    base: [Nanos; 2],
    watch: Mutex<Watch>,
}

struct Watch {
    tap: Option<Box<dyn EmulatorTap>>,
    /// When the packets that are on their way entered, and their numbers: down, up. TCP keeps their order and loses none.
    under_way: [VecDeque<(u64, Time)>; 2],
    entered: [u64; 2],
}

impl Tunnel {
    /// Joins two ends, near and far, by a tunnel whose connection has this congestion control; `tap` sees the packets inside, `base` is
    /// what the path takes without queues, down and up.
    ///
    /// # Errors
    /// When the kernel refuses; nothing is left behind.
    pub fn build(
        [near, far]: [&Site; 2],
        congestion: &str,
        clock: Clock,
        base: [Nanos; 2],
        tap: Box<dyn EmulatorTap>,
    ) -> Result<Self, NamespaceError> {
        let (to_far, to_near) = connect(near, far, congestion)
            .map_err(|error| NamespaceError::system(format!("connect the tunnel's ends by {congestion}"), error))?;
        let (near, near_port) = device(near, NEAR)?;
        let (far, far_port) = device(far, FAR)?;
        let watch = Watch { tap: Some(tap), under_way: Default::default(), entered: [0; 2] };
        let shared = Arc::new(Shared { over: AtomicBool::new(false), clock, base, watch: Mutex::new(watch) });
        let mut tunnel = Self { near, far, ends: Vec::new(), shared: shared.clone() };
        let ends = [(near_port, to_far, DumbbellWay::Up), (far_port, to_near, DumbbellWay::Down)];
        for (port, stream, sends) in ends {
            let end =
                End { port, stream, sends, shared: shared.clone(), out: Vec::new(), written: 0, into: Vec::new() };
            let thread = thread::Builder::new().name("tunnel".to_owned()).spawn(move || end.run());
            tunnel.ends.push(thread.map_err(|error| NamespaceError::system("start a thread", error))?);
        }
        Ok(tunnel)
    }

    /// The user's end, with its address inside.
    pub fn near(&self) -> &Site {
        &self.near
    }

    /// The network's end, with its address inside.
    pub fn far(&self) -> &Site {
        &self.far
    }

    /// Ends it, and hands the tap back.
    ///
    /// # Errors
    /// When it broke before.
    pub fn stop(mut self) -> io::Result<Option<Box<dyn EmulatorTap>>> {
        self.end()?;
        Ok(self.shared.watch.lock().unwrap_or_else(PoisonError::into_inner).tap.take())
    }

    fn end(&mut self) -> io::Result<()> {
        self.shared.over.store(true, Ordering::Relaxed);
        let mut ended = Ok(());
        for end in self.ends.drain(..) {
            let one = end.join().unwrap_or_else(|_| Err(io::Error::other("an end stopped by a mistake in it")));
            ended = ended.and(one);
        }
        ended
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Makes the device at an end.
fn device(site: &Site, address: Ipv4Addr) -> Result<(Site, Tun), NamespaceError> {
    let port = site.namespace.enter(|| {
        let tun = Tun::create(NAME).map_err(|error| NamespaceError::system("make a TUN device", error))?;
        let interfaces = Interfaces::open()?;
        interfaces.backlog(NAME, QUEUE)?;
        interfaces.quiet(NAME)?;
        // The queue counts packets, not bursts of them.
        without_offloads(NAME).map_err(|error| NamespaceError::system(format!("set up {NAME}"), error))?;
        interfaces.add_address(NAME, address.into(), PREFIX)?;
        interfaces.up(NAME)?;
        Ok::<_, NamespaceError>(tun)
    })??;
    Ok((Site { interface: NAME.to_owned(), ipv4: address, ipv6: None, ..site.clone() }, port))
}

/// The connection's two ends: the near one's and the far one's.
fn connect(near: &Site, far: &Site, congestion: &str) -> io::Result<(TcpStream, TcpStream)> {
    let to = SocketAddr::new(far.ipv4.into(), PORT);
    let listener = far.namespace.enter(|| TcpListener::bind(to)).map_err(io::Error::other)??;
    let near = near.namespace.enter(|| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
        socket.set_tcp_congestion(congestion.as_bytes())?;
        socket.connect(&to.into())?;
        Ok::<_, io::Error>(TcpStream::from(socket))
    });
    let near = near.map_err(io::Error::other)??;
    let far = Socket::from(listener.accept()?.0);
    far.set_tcp_congestion(congestion.as_bytes())?;
    let near = Socket::from(near);
    for end in [&near, &far] {
        end.set_tcp_nodelay(true)?;
        end.set_tcp_notsent_lowat(UNSENT)?;
        end.set_nonblocking(true)?;
    }
    Ok((near.into(), far.into()))
}

/// One end: its device, and its side of the connection.
struct End {
    port: Tun,
    stream: TcpStream,
    /// Which way the packets go that it takes from its device.
    sends: DumbbellWay,
    shared: Arc<Shared>,
    /// What the connection has not taken yet, from `written` on.
    out: Vec<u8>,
    written: usize,
    /// What came over the connection and is not a whole packet yet.
    into: Vec<u8>,
}

impl End {
    fn run(mut self) -> io::Result<()> {
        crate::prefer();
        let mut chunk = vec![0; 65_536];
        while !self.shared.over.load(Ordering::Relaxed) {
            let full = self.written < self.out.len();
            let stream = if full { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            let mut fds = vec![PollFd::new(&self.stream, stream)];
            if !full {
                fds.push(PollFd::from_borrowed_fd(self.port.fd(), PollFlags::IN));
            }
            wait(&mut fds, Some(SLICE))?;
            if !full {
                self.take()?;
            }
            self.send()?;
            self.receive(&mut chunk)?;
        }
        Ok(())
    }

    /// Takes what waits at the device.
    fn take(&mut self) -> io::Result<()> {
        let mut frames = Vec::new();
        self.port.read(self.shared.clock, &mut frames)?;
        self.out.clear();
        self.written = 0;
        for frame in &frames {
            let Ok(length) = u16::try_from(frame.len()) else { continue };
            self.shared.entered(self.sends, frame);
            self.out.extend_from_slice(&length.to_be_bytes());
            self.out.extend_from_slice(&frame.bytes());
        }
        Ok(())
    }

    fn send(&mut self) -> io::Result<()> {
        while self.written < self.out.len() {
            match self.stream.write(&self.out[self.written..]) {
                Ok(written) => self.written += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn receive(&mut self, chunk: &mut [u8]) -> io::Result<()> {
        match self.stream.read(chunk) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(length) => self.into.extend_from_slice(&chunk[..length]),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        let now = self.shared.clock.now();
        let mut frames = Vec::new();
        let used = packets(&self.into, |packet| frames.push(Frame::new(packet.to_vec(), now)));
        self.into.drain(..used);
        // What the device refuses is lost behind the tunnel.
        self.port.write(&frames)?;
        for frame in &frames {
            self.shared.left(self.sends, frame);
        }
        Ok(())
    }
}

/// The whole packets at the head of a stream; says how many bytes they are.
fn packets(stream: &[u8], mut each: impl FnMut(&[u8])) -> usize {
    let mut used = 0;
    while let [high, low, rest @ ..] = &stream[used..] {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let Some(packet) = rest.get(..length) else { break };
        each(packet);
        used += 2 + length;
    }
    used
}

fn index(direction: DumbbellWay) -> usize {
    match direction {
        DumbbellWay::Down => 0,
        DumbbellWay::Up => 1,
    }
}

/// A packet that the tap sees: TCP drops and marks none.
fn passage(
    direction: DumbbellWay,
    id: u64,
    bytes: &[u8],
    [entered, at, released]: [Time; 3],
    delay: DelaySplit,
) -> Passage<'_> {
    Passage { link: 0, direction, id, bytes, entered, at, released, delay, marked: false, reason: None }
}

impl Shared {
    fn entered(&self, direction: DumbbellWay, frame: &Frame) {
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        let way = index(direction);
        let id = watch.entered[way];
        watch.entered[way] += 1;
        let at = frame.arrived;
        watch.under_way[way].push_back((id, at));
        if let Some(tap) = &mut watch.tap {
            tap.entered(&passage(direction, id, &frame.bytes(), [at, at, Time::NEVER], DelaySplit::default()));
        }
    }

    /// A packet came out at the end that sends the other way.
    fn left(&self, other: DumbbellWay, frame: &Frame) {
        let direction = match other {
            DumbbellWay::Down => DumbbellWay::Up,
            DumbbellWay::Up => DumbbellWay::Down,
        };
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        let way = index(direction);
        let Some((id, entered)) = watch.under_way[way].pop_front() else { return };
        let (at, propagation) = (frame.arrived, self.base[way]);
        let queue = at.since(entered + propagation);
        let delay = DelaySplit { propagation, queue, ..DelaySplit::default() };
        if let Some(tap) = &mut watch.tap {
            tap.left(&passage(direction, id, &frame.bytes(), [entered, at, at], delay));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_found_however_the_stream_is_cut() {
        let stream = [0, 2, 7, 8, 0, 0, 0, 1, 9, 0, 3, 1];
        let mut found = Vec::new();
        let used = packets(&stream, |packet| found.push(packet.to_vec()));
        assert_eq!((found, used), (vec![vec![7, 8], vec![], vec![9]], 9), "the last has not come yet");
        assert_eq!(packets(&stream[..3], |_| ()), 0);
        assert_eq!(packets(&[], |_| ()), 0);
    }
}
