//! Real packets through both kinds of ports: what crosses a path is what a wire would carry, and arrives whole.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use paceline_cc::{Nanos, Rate, Time};
use paceline_emulator::frame::Frame;
use paceline_emulator::world::{Between, EmulatedWorld, Far, Wire};
use paceline_emulator::{EmulatorTap, Passage, Port, Tun, frame};
use paceline_fixture::without_harness;
use paceline_linux::clock::{Clock, Lateness};
use paceline_linux::interface::Interfaces;
use paceline_linux::namespace::{self, Namespace};
use paceline_linux::sockopt::{UdpGsoSegment, setsockopt};
use paceline_path::queue::{QueueBound, Threshold};
use paceline_path::{Delay, Direction, LossModel, Path, QueueSpec};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_mins(1);
const PORT: u16 = 7077;

/// Says what is wrong with packets; counts those that are right, by protocol.
#[derive(Default)]
struct Inspector {
    faults: Arc<Mutex<Vec<String>>>,
    tcp: u64,
    udp: u64,
    marked: u64,
    /// When the last packet came, and how many came at the very time of another: in one frame with it.
    last: Time,
    together: u64,
}

impl Inspector {
    fn inspect(&self, passage: &Passage<'_>) {
        if let Some(fault) = fault(passage.bytes) {
            self.faults.lock().unwrap().push(format!("{fault}: {:?}", &passage.bytes[..48.min(passage.bytes.len())]));
        }
    }
}

fn fold(words: impl Iterator<Item = u32>) -> u32 {
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    bytes.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)])))
}

/// What is wrong with a TCP or UDP packet.
fn fault(packet: &[u8]) -> Option<&'static str> {
    let (addresses, length, payload) = match packet[0] >> 4 {
        4 => (&packet[12..20], u16::from_be_bytes([packet[2], packet[3]]), &packet[usize::from(packet[0] & 15) * 4..]),
        _ => (&packet[8..40], u16::from_be_bytes([packet[4], packet[5]]) + 40, &packet[40..]),
    };
    if packet.len() > 1500 {
        return Some("longer than the wire's");
    }
    if usize::from(length) != packet.len() {
        return Some("wrong length in the header");
    }
    if packet[0] >> 4 == 4 && fold(words(&packet[..20])) != 0xffff {
        return Some("wrong checksum of the IP header");
    }
    let protocol = frame::flow_key(packet)?.protocol;
    let pseudo = [u32::from(protocol), payload.len() as u32].into_iter();
    let right = fold(words(addresses).chain(pseudo).chain(words(payload))) == 0xffff;
    (matches!(protocol, 6 | 17) && !right).then_some("wrong checksum")
}

impl EmulatorTap for Inspector {
    fn entered(&mut self, passage: &Passage<'_>) {
        match frame::flow_key(passage.bytes).map(|key| key.protocol) {
            Some(6) => self.tcp += 1,
            Some(17) => self.udp += 1,
            _ => {}
        }
        self.together += u64::from(passage.at == self.last);
        self.last = passage.at;
        self.inspect(passage);
    }

    fn left(&mut self, passage: &Passage<'_>) {
        self.marked += u64::from(passage.marked);
        self.inspect(passage);
    }
}

fn short() -> Path<Frame> {
    Path::new().delay(Delay::new(Nanos::from_millis(1)))
}

/// 200 Mbit/s, a mark for packets that find 20 waiting, one packet of a hundred lost.
fn hard() -> Path<Frame> {
    let queue = Some(QueueSpec::Step { threshold: Threshold::Packets(20), limit: QueueBound::packets(200) });
    let (rate, loss) = (Some(Rate::from_mbps(200.0)), Some(LossModel::Rate(0.01)));
    let direction = Direction { rate, queue, loss, delay: Nanos::from_millis(1), ..Direction::default() };
    direction.build::<Frame, &str>(1, Nanos::ZERO, &|_| Err("no trace")).unwrap()
}

fn world(wire: Wire, path: fn() -> Path<Frame>) -> EmulatedWorld {
    let taps: Vec<Box<dyn EmulatorTap>> = vec![Box::new(Inspector::default())];
    let between = Between { down: path(), up: path(), taps, clock: Clock::new(), bound: Lateness::BOUND };
    EmulatedWorld::build_over(wire, Far::Isolated, between).unwrap()
}

/// Both ends' addresses, of each family that the kernel has.
fn addresses(world: &EmulatedWorld) -> Vec<IpAddr> {
    let far = world.far();
    [Some(IpAddr::V4(far.ipv4)), far.ipv6.map(IpAddr::V6)].into_iter().flatten().collect()
}

/// 4 MB from near to far, and back from there.
fn echo_by_tcp(world: &EmulatedWorld, far: IpAddr) {
    let listener = world.far().namespace.enter(|| TcpListener::bind(SocketAddr::new(far, PORT))).unwrap().unwrap();
    let there = SocketAddr::new(far, PORT);
    let connect = || TcpStream::connect_timeout(&there, PATIENCE);
    let mut near = world.near().namespace.enter(connect).unwrap().unwrap();
    let (mut far, _) = listener.accept().unwrap();
    for stream in [&near, &far] {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
    }
    let sent: Vec<u8> = (0..4_u32 << 20).map(|index| (index >> 7) as u8 ^ index as u8).collect();
    let mut received = vec![0; sent.len()];
    let mut writer = near.try_clone().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            let reader = far.try_clone().unwrap();
            std::io::copy(&mut reader.take(4 << 20), &mut far).unwrap();
        });
        scope.spawn(|| writer.write_all(&sent).unwrap());
        near.read_exact(&mut received).unwrap();
    });
    assert!(sent == received);
}

/// 30 datagrams in one call.
fn burst_by_udp(world: &EmulatedWorld, far: IpAddr) {
    let bind = |address: IpAddr, port| move || UdpSocket::bind(SocketAddr::new(address, port));
    let receiver = world.far().namespace.enter(bind(far, PORT)).unwrap().unwrap();
    receiver.set_read_timeout(Some(PATIENCE)).unwrap();
    let any: IpAddr = if far.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
    let sender = world.near().namespace.enter(bind(any, 0)).unwrap().unwrap();
    sender.connect(SocketAddr::new(far, PORT)).unwrap();
    let payload: Vec<u8> = (0..30).flat_map(|number| [number; 1000]).collect();
    setsockopt(&sender, UdpGsoSegment, &1000).unwrap();
    sender.send(&payload).unwrap();
    let mut buffer = [0; 2000];
    for number in 0..30 {
        assert_eq!(receiver.recv(&mut buffer).unwrap(), 1000);
        assert!(buffer[..1000].iter().all(|byte| *byte == number));
    }
}

fn check(wire: Wire) {
    let world = world(wire, short);
    for far in addresses(&world) {
        echo_by_tcp(&world, far);
        burst_by_udp(&world, far);
    }
    let report = world.stop().unwrap();
    let (down, up) = (&report.links[0].down, &report.links[0].up);
    assert_eq!([down.refused, up.refused], [0; 2]);
    if wire == Wire::preferred() {
        assert_eq!([down.overflowed, up.overflowed], [0; 2]);
    }
    let tap: Box<dyn std::any::Any> = report.taps.into_iter().next().unwrap();
    let inspector = tap.downcast::<Inspector>().unwrap();
    assert_eq!(*inspector.faults.lock().unwrap(), [""; 0]);
    // 8 MB in 1448 bytes a packet.
    assert!(inspector.tcp >= 5_793, "{}", inspector.tcp);
    assert!(inspector.udp >= 30, "{}", inspector.udp);
    // Frames come whole; each packet was seen all the same.
    assert!(inspector.together >= 1_000, "{}", inspector.together);
}

/// Losses and marks hit single packets of large frames, and TCP makes the best of it.
fn check_with_loss(wire: Wire) {
    let world = world(wire, hard);
    for site in [world.near(), world.far()] {
        site.namespace.enter(|| std::fs::write("/proc/sys/net/ipv4/tcp_ecn", "1")).unwrap().unwrap();
    }
    for far in addresses(&world) {
        echo_by_tcp(&world, far);
    }
    let report = world.stop().unwrap();
    let tap: Box<dyn std::any::Any> = report.taps.into_iter().next().unwrap();
    let inspector = tap.downcast::<Inspector>().unwrap();
    assert_eq!(*inspector.faults.lock().unwrap(), [""; 0]);
    for way in [&report.links[0].down, &report.links[0].up] {
        let link = way.link.as_ref().unwrap();
        assert!(way.dropped.packets >= 10, "{way:?}");
        assert!(way.left.packets + way.dropped.packets <= way.entered.packets, "{way:?}");
        assert!(link.queued_packet_ns <= 200 * u128::from(report.end.as_nanos()), "{link:?}");
    }
    assert!(inspector.marked > 0);
}

fn packets_through_tun_devices_are_those_of_a_wire() {
    check(Wire::Tun);
}

fn packets_through_packet_sockets_are_those_of_a_wire() {
    check(Wire::Veth);
}

fn losses_and_marks_hit_single_packets_behind_tun_devices() {
    check_with_loss(Wire::Tun);
}

fn losses_and_marks_hit_single_packets_behind_packet_sockets() {
    check_with_loss(Wire::Veth);
}

/// A namespace whose packets no one reads is flooded; the port knows how many were lost.
fn a_port_counts_what_came_faster_than_it_was_read() {
    let inside = Namespace::create().unwrap();
    let mut port = inside.enter(|| {
        let port = Tun::create("near").unwrap();
        let interfaces = Interfaces::open().unwrap();
        interfaces.backlog("near", 100).unwrap();
        interfaces.add_address("near", "10.77.0.2".parse().unwrap(), 24).unwrap();
        interfaces.up("near").unwrap();
        Interfaces::wait_until_running("near").unwrap();
        let socket = UdpSocket::bind("10.77.0.2:0").unwrap();
        for _ in 0..1000 {
            // Refused or lost: both are drops of the interface.
            let _ = socket.send_to(&[0; 100], "10.77.0.1:9");
        }
        port
    });
    let port = port.as_mut().unwrap();
    let mut frames = Vec::new();
    while !port.read(Clock::new(), &mut frames).unwrap() {}
    let datagrams = frames.iter().filter(|frame| frame.len() == 128).count() as u64;
    assert!((100..1000).contains(&datagrams), "{datagrams}");
    assert!(port.overflowed() >= 1000 - datagrams, "{datagrams} {}", port.overflowed());
}

/// By name, as the test harness would have them.
const TESTS: [(&str, fn()); 5] = [
    ("packets_through_tun_devices_are_those_of_a_wire", packets_through_tun_devices_are_those_of_a_wire),
    ("packets_through_packet_sockets_are_those_of_a_wire", packets_through_packet_sockets_are_those_of_a_wire),
    ("losses_and_marks_hit_single_packets_behind_tun_devices", losses_and_marks_hit_single_packets_behind_tun_devices),
    (
        "losses_and_marks_hit_single_packets_behind_packet_sockets",
        losses_and_marks_hit_single_packets_behind_packet_sockets,
    ),
    ("a_port_counts_what_came_faster_than_it_was_read", a_port_counts_what_came_faster_than_it_was_read),
];

fn main() -> ExitCode {
    let refused = namespace::acquire().err().map(|reason| reason.to_string());
    without_harness(&TESTS, refused.as_deref())
}
