//! Host a, router r and host b in namespaces of their own, and what they send each other.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::io::{Read, Write};
use std::net::{Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use paceline_int::{NodeError, SinkNode};
use paceline_linux::clock::wait;
use paceline_linux::interface::Interfaces;
use paceline_linux::link::{link, packets};
use paceline_linux::namespace::Namespace;
use paceline_linux::namespace::{Privilege, privilege};
use paceline_telemetry::{FlowReport, TelemetryHeader};
use rustix::event::{PollFd, PollFlags};
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt::set_socket_recv_buffer_size_force};

/// Longest that anything here may take.
const PATIENCE: Duration = Duration::from_secs(20);
pub(crate) const A: Ipv6Addr = Ipv6Addr::new(0xfd77, 1, 0, 0, 0, 0, 0, 1);
pub(crate) const B: Ipv6Addr = Ipv6Addr::new(0xfd77, 2, 0, 0, 0, 0, 0, 1);
/// Octets of an Ethernet header.
pub(crate) const ETHERNET: usize = 14;

/// The hosts, and the turn of the test that has them.
pub(crate) struct Chain {
    pub(crate) a: Namespace,
    pub(crate) r: Namespace,
    pub(crate) b: Namespace,
    _turn: MutexGuard<'static, ()>,
}

fn skip(test: &str, reason: impl std::fmt::Display) {
    // Not by a macro, whose output is not shown for tests that pass.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
}

/// What a role answered; where it cannot be had at all, says why the test is skipped.
pub(crate) fn opened<T>(test: &str, role: Result<T, NodeError>) -> Option<T> {
    match role {
        Ok(role) => Some(role),
        Err(reason @ (NodeError::NotRoot | NodeError::NoBtf)) => {
            skip(test, reason);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Whether there is such a program; if not, says that the test is skipped.
pub(crate) fn has(test: &str, program: &str, version: &str) -> bool {
    let there = Command::new(program).arg(version).output().is_ok();
    if !there {
        skip(test, format!("there is no {program}"));
    }
    there
}

/// Runs a command inside; it must end with 0.
pub(crate) fn run(namespace: &Namespace, line: &str) -> String {
    let mut words = line.split_whitespace();
    let output = namespace
        .enter(|| Command::new(words.next().unwrap()).args(words).output())
        .unwrap()
        .unwrap_or_else(|error| panic!("{line}: {error}"));
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn join(one: (&Namespace, &str, &str), other: (&Namespace, &str, &str)) {
    one.0.enter(|| Interfaces::open().unwrap().veth(one.1, None, other.1, other.0)).unwrap().unwrap();
    for (namespace, name, address) in [one, other] {
        let up = || {
            let interfaces = Interfaces::open()?;
            interfaces.add_address(name, address.parse().unwrap(), 64)?;
            // A router asks for its neighbours with an address of the link.
            let last = address.rsplit(':').next().unwrap();
            interfaces.add_address(name, format!("fe80::{last}").parse().unwrap(), 64)?;
            interfaces.up(name)
        };
        namespace.enter(up).unwrap().unwrap();
    }
    for (namespace, name, _) in [one, other] {
        namespace.enter(|| Interfaces::wait_until_running(name)).unwrap().unwrap();
    }
}

impl Chain {
    /// The chain; where it cannot be had, says why the test is skipped.
    pub(crate) fn new(test: &str) -> Option<Self> {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        if privilege() != Privilege::Root {
            skip(test, "it needs root");
            return None;
        }
        if !has(test, "ip", "-V") || !has(test, "tc", "-V") {
            return None;
        }
        let [a, r, b] = [(); 3].map(|()| Namespace::create().unwrap());
        join((&a, "a0", "fd77:1::1"), (&r, "r0", "fd77:1::2"));
        join((&r, "r1", "fd77:2::2"), (&b, "b0", "fd77:2::1"));
        run(&a, "ip -6 route add default via fd77:1::2");
        run(&b, "ip -6 route add default via fd77:2::2");
        Some(Self { a, r, b, _turn: turn })
    }

    /// Sends this many octets from a to port `port` of b; both ends' hashes are the same.
    pub(crate) fn transfer(&self, port: u16, octets: usize) {
        self.transfer_to(SocketAddr::from((B, port)), octets);
    }

    pub(crate) fn transfer_to(&self, to: SocketAddr, octets: usize) {
        let listener = self.b.enter(|| TcpListener::bind(to)).unwrap().unwrap();
        let client = self.a.enter(|| TcpStream::connect_timeout(&to, PATIENCE)).unwrap().unwrap();
        self.send_over(client, &listener, octets);
    }

    /// The same over a connection that is there.
    pub(crate) fn send_over(&self, mut client: TcpStream, listener: &TcpListener, octets: usize) {
        let (mut server, _) = listener.accept().unwrap();
        for end in [&client, &server] {
            end.set_read_timeout(Some(PATIENCE)).unwrap();
            end.set_write_timeout(Some(PATIENCE)).unwrap();
        }
        let received = thread::spawn(move || {
            let (mut buffer, mut count, mut hash) = (vec![0; 1 << 16], 0, HASH);
            loop {
                match server.read(&mut buffer).unwrap() {
                    0 => return (count, hash),
                    length => {
                        hash = hashed(hash, &buffer[..length]);
                        count += length;
                    }
                }
            }
        });
        let (mut state, mut left, mut hash) = (0x2545_f491_4f6c_dd1d_u64, octets, HASH);
        while left > 0 {
            let words = (0..left.min(1 << 16).div_ceil(8)).flat_map(|_| {
                // xorshift64 (Marsaglia 2003).
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state.to_ne_bytes()
            });
            let block: Vec<u8> = words.take(left).collect();
            client.write_all(&block).unwrap();
            hash = hashed(hash, &block);
            left -= block.len();
        }
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(received.join().unwrap(), (octets, hash));
    }
}

/// FNV-1a, whose result does not depend on how octets come together.
const HASH: u64 = 0xcbf2_9ce4_8422_2325;

fn hashed(hash: u64, octets: &[u8]) -> u64 {
    octets.iter().fold(hash, |hash, octet| (hash ^ u64::from(*octet)).wrapping_mul(0x100_0000_01b3))
}

/// Runs `work` while the sink reports, and a moment longer; gives all reports.
pub(crate) fn reports_of(sink: &mut SinkNode, work: impl FnOnce() + Send) -> Vec<FlowReport> {
    let mut reports = Vec::new();
    thread::scope(|scope| {
        let working = scope.spawn(work);
        while !working.is_finished() {
            reports.extend(sink.reports(Duration::from_millis(20)).unwrap());
        }
        working.join().unwrap();
        let end = Instant::now() + Duration::from_millis(300);
        while Instant::now() < end {
            reports.extend(sink.reports(Duration::from_millis(20)).unwrap());
        }
    });
    reports
}

/// A socket for whole frames of one interface.
pub(crate) struct Frames {
    socket: OwnedFd,
    pub(crate) mac: [u8; 6],
}

impl Frames {
    pub(crate) fn open(namespace: &Namespace, name: &str) -> Self {
        namespace
            .enter(|| {
                let (socket, link) = (packets(name)?, link(name)?.unwrap());
                set_socket_recv_buffer_size_force(&socket, 64 << 20)?;
                std::io::Result::Ok(Self { socket, mac: link.addr().unwrap() })
            })
            .unwrap()
            .unwrap()
    }

    pub(crate) fn send(&self, frame: &[u8]) {
        assert_eq!(send(&self.socket, frame, SendFlags::empty()).unwrap(), frame.len());
    }

    /// Frames until none comes for 0.2 s.
    pub(crate) fn drain(&self) -> Vec<Vec<u8>> {
        let mut buffer = vec![0; 1 << 17];
        std::iter::from_fn(|| {
            wait(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(Duration::from_millis(200))).unwrap();
            let (length, _) = recv(&self.socket, &mut buffer[..], RecvFlags::empty()).ok()?;
            Some(buffer[..length].to_vec())
        })
        .collect()
    }
}

/// The IPv6 header's fields of a frame: payload length, next header, hop limit.
pub(crate) fn ipv6(frame: &[u8]) -> Option<(usize, u8, u8)> {
    let ip = frame.get(ETHERNET..).filter(|_| frame[12..14] == [0x86, 0xdd])?;
    Some((usize::from(u16::from_be_bytes([ip[4], ip[5]])), ip[6], ip[7]))
}

/// The header of telemetry of a frame, if it has one, and what is behind it.
pub(crate) fn telemetry(frame: &[u8]) -> Option<(TelemetryHeader, &[u8])> {
    let (length, 0, _) = ipv6(frame)? else { return None };
    let payload = frame.get(ETHERNET + 40..ETHERNET + 40 + length)?;
    let (header, octets) = TelemetryHeader::decode(payload).ok()?;
    Some((header, &payload[octets..]))
}

/// An Ethernet frame with an IPv6 packet from a to b.
pub(crate) fn frame(chain: &Chain, next_header: u8, payload: &[u8]) -> Vec<u8> {
    let (from, to) = (Frames::open(&chain.a, "a0").mac, Frames::open(&chain.r, "r0").mac);
    let mut out = [to, from].concat();
    out.extend_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0]);
    out.extend_from_slice(&(payload.len() as u16).to_be_bytes());
    out.extend_from_slice(&[next_header, 64]);
    out.extend_from_slice(&A.octets());
    out.extend_from_slice(&B.octets());
    out.extend_from_slice(payload);
    out
}

/// The sum over a TCP segment and its pseudo-header: 0xffff where its checksum is right (RFC 8200 section 8.1, RFC 9293 section 3.1).
pub(crate) fn checksum(from: Ipv6Addr, to: Ipv6Addr, segment: &[u8]) -> u16 {
    let mut octets = [from.octets(), to.octets()].concat();
    octets.extend_from_slice(&(segment.len() as u32).to_be_bytes());
    octets.extend_from_slice(&[0, 0, 0, 6]);
    octets.extend_from_slice(segment);
    octets.resize(octets.len().next_multiple_of(2), 0);
    let sum: u32 = octets.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}
