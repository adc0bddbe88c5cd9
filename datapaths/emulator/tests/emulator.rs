//! The emulator between two ports made of memory: no privilege, and no dependence on how fast the machine is, since a
//! path's time is logical.
#![cfg(target_os = "linux")]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use paceline_cc::{Bytes, Codepoint, Nanos, Rate, Time};
use paceline_emulator::frame::{self, Frame, FrameKind, Segmentation, Virtio};
use paceline_emulator::log::LogLost;
use paceline_emulator::{
    DuplexLink, Emulator, EmulatorError, EmulatorTap, HopWriter, Passage, PathChanger, Port, Setup,
};
use paceline_experiment::MeteredHop;
use paceline_linux::clock::{Clock, Lateness};
use paceline_path::queue::{DropTail, QueueBound, Step, Threshold};
use paceline_path::{
    Delay, Direction, Link, LossModel, Packet, Path, PathChange, Policer, PolicerAction, PolicerScope, QueueSpec,
    Schedule, Wifi, build_link,
};
use paceline_telemetry::{Edge, NodeRecord, RecordProfile, TelemetryHeader};
use rustix::event::{EventfdFlags, eventfd};

type Shared<T> = Arc<Mutex<T>>;

/// Gives out its packets at the first read, collects what is written.
struct Memory {
    event: OwnedFd,
    waiting: Vec<Frame>,
    written: Shared<Vec<Vec<u8>>>,
    refuse: bool,
    broken: bool,
}

impl Memory {
    fn with(waiting: Vec<Frame>) -> Self {
        let event = eventfd(1, EventfdFlags::NONBLOCK).unwrap();
        Self { event, waiting, written: Arc::default(), refuse: false, broken: false }
    }

    fn empty() -> Self {
        Self::with(Vec::new())
    }
}

impl Port for Memory {
    fn fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    fn read(&mut self, _clock: Clock, frames: &mut Vec<Frame>) -> io::Result<bool> {
        if self.broken {
            return Err(io::Error::other("unplugged"));
        }
        let _ = rustix::io::read(&self.event, &mut [0; 8]);
        frames.append(&mut self.waiting);
        Ok(true)
    }

    fn write(&mut self, frames: &[Frame]) -> io::Result<u64> {
        self.written.lock().unwrap().extend(frames.iter().map(|frame| frame.bytes().into_owned()));
        Ok(if self.refuse { frames.len() as u64 } else { 0 })
    }

    fn overflowed(&self) -> u64 {
        0
    }
}

/// What happened to a packet.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    what: &'static str,
    link: usize,
    direction: paceline_experiment::DumbbellWay,
    id: u64,
    at: Time,
    marked: bool,
}

#[derive(Default)]
struct Notes {
    seen: Shared<Vec<Seen>>,
    finished: bool,
}

impl Notes {
    fn note(&self, what: &'static str, passage: &Passage<'_>) {
        let Passage { link, direction, id, at, marked, .. } = *passage;
        // Where a delay is at the end of a path, a packet's last microseconds are spent in being handed over.
        assert!(passage.released == Time::NEVER || passage.released + Nanos::from_micros(30) >= at);
        self.seen.lock().unwrap().push(Seen { what, link, direction, id, at, marked });
    }
}

impl EmulatorTap for Notes {
    fn entered(&mut self, passage: &Passage<'_>) {
        assert_eq!(passage.at, passage.entered);
        self.note("entered", passage);
    }
    fn left(&mut self, passage: &Passage<'_>) {
        let split = passage.delay;
        assert_eq!(passage.at, passage.entered + split.propagation + split.queue + split.transmission);
        self.note("left", passage);
    }
    fn dropped(&mut self, passage: &Passage<'_>) {
        self.note("dropped", passage);
    }
    fn finish(&mut self) -> Result<(), LogLost> {
        self.finished = true;
        Err(LogLost { name: "notes".to_owned(), problem: io::Error::other("no more paper").into() })
    }
}

/// An IPv4 packet of 1500 bytes whose last byte is `number`.
fn packet(number: u8, ecn: Codepoint) -> Vec<u8> {
    let mut bytes = vec![0; 1500];
    bytes[..20].copy_from_slice(&[0x45, 0, 5, 220, 0, 0, 0, 0, 64, 17, 0x60, 0x75, 10, 77, 0, 1, 10, 77, 0, 2]);
    frame::set_ecn(&mut bytes, ecn);
    bytes[1499] = number;
    bytes
}

/// Sum of an IPv4 header's words, which is 0xffff when its checksum is right.
fn header_sum(packet: &[u8]) -> u32 {
    let sum: u32 = packet[..20].chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    (sum & 0xffff) + (sum >> 16)
}

fn ms(millis: u64) -> Time {
    Time::from_millis(millis)
}

fn frames(arrivals: impl IntoIterator<Item = (u64, Codepoint)>) -> Vec<Frame> {
    let frame = |(number, (at, ecn))| Frame::new(packet(number, ecn), ms(at));
    (0..).zip(arrivals).map(frame).collect()
}

fn link(near: Memory, far: Memory, down: Path<Frame>, up: Path<Frame>) -> DuplexLink {
    DuplexLink { near: Box::new(near), far: Box::new(far), down, up, transit: [None, None] }
}

fn setup(near: Memory, far: Memory, down: Path<Frame>) -> Setup {
    let links = vec![link(near, far, down, Path::new())];
    Setup { links, taps: Vec::new(), clock: Clock::new(), bound: Lateness::BOUND, changer: None }
}

/// Waits until something holds; a minute is longer than any machine takes.
fn wait_for(mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_mins(1), "it never came");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Runs `arrivals` from far to near until `fates` of them have left or were dropped.
fn run(
    arrivals: Vec<Frame>,
    down: Path<Frame>,
    fates: usize,
) -> (Vec<Seen>, Vec<Vec<u8>>, paceline_emulator::DirectionReport) {
    let (near, far) = (Memory::empty(), Memory::with(arrivals));
    let written = Arc::clone(&near.written);
    let notes = Notes::default();
    let seen = Arc::clone(&notes.seen);
    let mut setup = setup(near, far, down);
    setup.taps.push(Box::new(notes));
    let emulator = Emulator::start(setup).unwrap();
    wait_for(|| seen.lock().unwrap().iter().filter(|seen| seen.what != "entered").count() == fates);
    assert!(emulator.is_running());
    let report = emulator.stop().unwrap();
    assert_eq!(report.links[0].up.entered.packets, 0);
    assert_eq!(report.lateness.count(), report.links[0].down.left.packets);
    let troubles: Vec<String> = report.troubles.iter().map(ToString::to_string).collect();
    assert_eq!(troubles, ["notes: the packet log is lost: no more paper"]);
    let tap: Box<dyn std::any::Any> = report.taps.into_iter().next().unwrap();
    assert!(tap.downcast::<Notes>().unwrap().finished);
    (seen.lock().unwrap().clone(), written.lock().unwrap().clone(), report.links[0].down.clone())
}

fn times(seen: &[Seen], what: &str) -> Vec<(u64, u64)> {
    let chosen = seen.iter().filter(|seen| seen.what == what);
    chosen.map(|seen| (seen.id, seen.at.as_nanos() / 1_000)).collect()
}

#[test]
fn a_packet_that_was_read_late_leaves_as_if_it_had_not_been() {
    let arrivals =
        frames([(1, Codepoint::NotEct), (2, Codepoint::NotEct), (2, Codepoint::NotEct), (4, Codepoint::NotEct)]);
    let wanted: Vec<Vec<u8>> = arrivals.iter().map(|frame| frame.bytes().into_owned()).collect();
    // The stamps lie before the first read: the emulator starts when 20 ms of its clock are over.
    let setup_path = Path::new().delay(Delay::new(Nanos::from_millis(30)));
    let (near, far) = (Memory::empty(), Memory::with(arrivals));
    let written = Arc::clone(&near.written);
    let notes = Notes::default();
    let seen = Arc::clone(&notes.seen);
    let mut setup = setup(near, far, setup_path);
    setup.taps.push(Box::new(notes));
    wait_for(|| setup.clock.now() > ms(20));
    let emulator = Emulator::start(setup).unwrap();
    wait_for(|| written.lock().unwrap().len() == 4);
    let report = emulator.stop().unwrap();
    assert_eq!(*written.lock().unwrap(), wanted);
    let seen = seen.lock().unwrap();
    assert_eq!(times(&seen, "entered"), [(0, 1_000), (1, 2_000), (2, 2_000), (3, 4_000)]);
    assert_eq!(times(&seen, "left"), [(0, 31_000), (1, 32_000), (2, 32_000), (3, 34_000)]);
    assert_eq!((report.links[0].down.entered, report.links[0].down.dropped.packets), (report.links[0].down.left, 0));
}

#[test]
fn a_link_serves_and_drops_by_logical_time() {
    // 12 Mbit/s: 1500 bytes take 1 ms; one in service, two wait, seven find no room.
    let queue = Some(QueueSpec::DropTail { limit: QueueBound::packets(2) });
    let direction = Direction { rate: Some(Rate::from_mbps(12.0)), queue, ..Direction::default() };
    let path = direction.build::<Frame, &str>(1, Nanos::ZERO, &|_| Err("no trace")).unwrap();
    let (seen, written, report) = run(frames([(1, Codepoint::NotEct); 10]), path, 10);
    assert_eq!(times(&seen, "left"), [(0, 2_000), (1, 3_000), (2, 4_000)]);
    let dropped: Vec<u64> = times(&seen, "dropped").iter().map(|(id, _)| *id).collect();
    assert_eq!(dropped, [3, 4, 5, 6, 7, 8, 9]);
    assert!(seen.iter().all(|seen| seen.direction == paceline_experiment::DumbbellWay::Down));
    let numbers: Vec<u8> = written.iter().map(|packet| packet[1499]).collect();
    assert_eq!(numbers, [0, 1, 2]);
    assert_eq!((report.entered.packets, report.left.packets, report.dropped.packets), (10, 3, 7));
    assert_eq!(report.link.unwrap().full.packets, 7);
}

#[test]
fn a_policer_drops_before_the_link_and_is_counted_apart() {
    // A bucket of three packets that fills at one in 10 ms; behind it one packet takes 1 ms.
    let (per, action) = (PolicerScope::All, PolicerAction::Drop);
    let policer = Policer { rate: Rate::from_mbps(1.2), burst: Bytes(4500), per, action };
    let direction = Direction { rate: Some(Rate::from_mbps(12.0)), policer: Some(policer), ..Direction::default() };
    let path = direction.build::<Frame, &str>(1, Nanos::ZERO, &|_| Err("no trace")).unwrap();
    let (seen, _, report) = run(frames([(1, Codepoint::NotEct); 5]), path, 5);
    assert_eq!(times(&seen, "left"), [(0, 2_000), (1, 3_000), (2, 4_000)]);
    assert_eq!(times(&seen, "dropped"), [(3, 1_000), (4, 1_000)]);
    let policed = report.policed.unwrap();
    assert_eq!((policed.packets, policed.bytes, report.dropped.packets), (2, 3000, 2));
    assert_eq!(report.link.unwrap().arrived.packets, 3);
}

/// Both directions of a Wi-Fi link with losses and a competitor.
fn wifi<P: Clone + Send + 'static>() -> [Path<P>; 2] {
    let wifi = Wifi { competitors: 1, per: Some(LossModel::Rate(0.2)), ..Wifi::new("vht80-1ss-mcs9".parse().unwrap()) };
    let both = Direction { wifi: Some(wifi), ..Direction::default() };
    build_link([&both, &both], [1, 2], Nanos::ZERO, &|_: &str| Err("no trace")).unwrap()
}

/// When each packet leaves, by direction, if the paths are driven in the order of time.
fn in_virtual_time(arrivals: &[(Time, usize)]) -> [Vec<Time>; 2] {
    let mut paths: [Path<()>; 2] = wifi();
    let mut left: [Vec<Time>; 2] = Default::default();
    let mut take = |paths: &mut [Path<()>; 2], until: Time| {
        while let Some(now) = paths.iter().map(Path::next).min().filter(|next| *next <= until && *next < Time::NEVER) {
            for (path, left) in paths.iter_mut().zip(&mut left) {
                left.extend(std::iter::from_fn(|| path.pop(now)).map(|packet| packet.entered));
            }
        }
    };
    for (at, way) in arrivals {
        take(&mut paths, *at);
        paths[*way].push(*at, Packet::new(0, 1500, Codepoint::NotEct, ()));
    }
    take(&mut paths, Time::NEVER);
    left
}

/// What comes to both ends is read at once, long after it came: it enters in the order in which it came.
#[test]
fn directions_that_share_a_medium_do_as_in_virtual_time() {
    let start = ms(1);
    let arrivals: Vec<(Time, usize)> =
        (0..200).map(|number| (start + Nanos::from_micros(37 * number), number as usize * 5 % 7 % 2)).collect();
    let expected = in_virtual_time(&arrivals);
    let of = |wanted: usize| {
        let mine = arrivals.iter().filter(move |(_, way)| *way == wanted);
        Memory::with(mine.map(|(at, _)| Frame::new(packet(0, Codepoint::NotEct), *at)).collect())
    };
    let (far, near) = (of(0), of(1));
    let [down, up] = wifi();
    let notes = Notes::default();
    let seen = Arc::clone(&notes.seen);
    let mut setup = setup(near, far, down);
    setup.links[0].up = up;
    setup.taps.push(Box::new(notes));
    wait_for(|| setup.clock.now() > ms(20));
    let emulator = Emulator::start(setup).unwrap();
    wait_for(|| seen.lock().unwrap().iter().filter(|seen| seen.what == "left").count() == 200);
    let report = emulator.stop().unwrap();
    let seen = seen.lock().unwrap();
    for (direction, expected) in
        [paceline_experiment::DumbbellWay::Down, paceline_experiment::DumbbellWay::Up].into_iter().zip(expected)
    {
        let left = seen.iter().filter(|seen| seen.what == "left" && seen.direction == direction);
        assert_eq!(left.map(|seen| seen.at).collect::<Vec<_>>(), expected);
    }
    let air = report.links[0].down.air.unwrap();
    assert!(air.aggregates > 2 && air.again > 5, "{air:?}");
}

/// A frame of IPv4 and UDP that stands for `count` packets of 1500 bytes, in the payload of each its number.
fn large(count: u8, ecn: Codepoint, arrived: Time) -> impl Iterator<Item = Frame> {
    let mut bytes = packet(0, ecn)[..28].to_vec();
    bytes.extend((0..count).flat_map(|number| [number; 1472]));
    let split = Some(Segmentation { kind: FrameKind::Udp, cwr: false, size: 1472 });
    Frame::split(Virtio { split, ..Virtio::default() }, bytes, arrived).unwrap()
}

#[test]
fn a_queue_holds_as_many_packets_whatever_frame_they_came_in() {
    let queue = Some(QueueSpec::DropTail { limit: QueueBound::packets(10) });
    let direction = Direction { rate: Some(Rate::from_mbps(12.0)), queue, ..Direction::default() };
    let path = direction.build::<Frame, &str>(1, Nanos::ZERO, &|_| Err("no trace")).unwrap();
    let (seen, written, report) = run(large(40, Codepoint::NotEct, ms(1)).collect(), path, 40);
    // One in service, ten wait, one a millisecond leaves.
    let left: Vec<(u64, u64)> = (0..11).map(|number| (number, 2_000 + number * 1_000)).collect();
    assert_eq!(times(&seen, "left"), left);
    assert_eq!(times(&seen, "dropped").len(), 29);
    let link = report.link.unwrap();
    assert_eq!((link.arrived.packets, link.arrived.bytes, link.full.packets), (40, 60_000, 29));
    assert_eq!((report.left.packets, report.left.bytes), (11, 16_500));
    for (number, packet) in (0_u8..).zip(&written) {
        let id = u16::from_be_bytes([packet[4], packet[5]]);
        assert_eq!((packet.len(), id, header_sum(packet)), (1500, u16::from(number), 0xffff));
        assert!(packet[28..].iter().all(|byte| *byte == number));
    }
}

#[test]
fn an_aqm_marks_single_packets_of_a_large_frame() {
    let queue = Step::new(Threshold::Packets(5), QueueBound::NONE);
    let link = Link::new(Schedule::constant(Rate::from_mbps(12.0)), Box::new(queue));
    let (seen, written, _) = run(large(12, Codepoint::Ect0, ms(1)).collect(), Path::new().link(link), 12);
    // One in service and six that wait are before the first that finds more than five.
    let wanted: Vec<bool> = (0..12).map(|number| number > 6).collect();
    let marked: Vec<bool> = seen.iter().filter(|seen| seen.what == "left").map(|seen| seen.marked).collect();
    let fields: Vec<bool> = written.iter().map(|packet| frame::ecn(packet) == Codepoint::Ce).collect();
    assert_eq!((&marked, &fields), (&wanted, &wanted));
    assert!(written.iter().all(|packet| header_sum(packet) == 0xffff));
}

#[test]
fn what_an_aqm_marks_arrives_marked_with_a_right_checksum() {
    let queue = Step::new(Threshold::Packets(0), QueueBound::NONE);
    let link = Link::new(Schedule::constant(Rate::from_mbps(12.0)), Box::new(queue));
    let arrivals = frames([(1, Codepoint::Ect0), (1, Codepoint::Ect0), (1, Codepoint::Ect1), (1, Codepoint::NotEct)]);
    let (seen, written, _) = run(arrivals, Path::new().link(link), 4);
    let marked: Vec<bool> = seen.iter().filter(|seen| seen.what == "left").map(|seen| seen.marked).collect();
    let fields: Vec<Codepoint> = written.iter().map(|packet| frame::ecn(packet)).collect();
    // The first goes into service at once, the second finds no one waiting.
    assert_eq!(fields[0], Codepoint::Ect0);
    assert_eq!(fields[2..], [Codepoint::Ce, Codepoint::NotEct]);
    assert_eq!(marked, [false, fields[1] == Codepoint::Ce, true, false]);
    assert!(written.iter().all(|packet| header_sum(packet) == 0xffff));
}

#[test]
fn what_is_under_way_at_the_end_was_not_dropped() {
    let (near, far) = (Memory::empty(), Memory::with(frames([(0, Codepoint::NotEct)])));
    let notes = Notes::default();
    let seen = Arc::clone(&notes.seen);
    let mut setup = setup(near, far, Path::new().delay(Delay::new(Nanos::from_secs(3600))));
    setup.taps.push(Box::new(notes));
    let emulator = Emulator::start(setup).unwrap();
    wait_for(|| !seen.lock().unwrap().is_empty());
    let report = emulator.stop().unwrap();
    assert_eq!(
        (report.links[0].down.entered.packets, report.links[0].down.left.packets, report.links[0].down.dropped.packets),
        (1, 0, 0)
    );
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[test]
fn a_run_in_which_the_kernel_refused_packets_is_not_trusted() {
    let (mut near, far) = (Memory::empty(), Memory::with(frames([(0, Codepoint::NotEct)])));
    near.refuse = true;
    let written = Arc::clone(&near.written);
    let emulator = Emulator::start(setup(near, far, Path::new())).unwrap();
    wait_for(|| written.lock().unwrap().len() == 1);
    let report = emulator.stop().unwrap();
    assert_eq!(report.links[0].down.refused, 1);
    assert!(!report.trusted());
}

#[test]
fn a_port_that_fails_ends_the_emulator_with_its_reason() {
    let (near, mut far) = (Memory::empty(), Memory::empty());
    far.broken = true;
    let emulator = Emulator::start(setup(near, far, Path::new())).unwrap();
    wait_for(|| !emulator.is_running());
    let Err(error) = emulator.stop() else { panic!("it had no port") };
    assert!(matches!(&error, EmulatorError::Port { side: "far", .. }));
    assert!(error.to_string().ends_with("far port: unplugged"), "{error}");
}

#[test]
fn one_emulator_carries_several_links() {
    let packets = |count: usize| frames(vec![(0, Codepoint::NotEct); count]);
    let delayed = |millis: u64| Path::new().delay(Delay::new(Nanos::from_millis(millis)));
    let (near, far) = (Memory::empty(), Memory::with(packets(2)));
    let (left, right) = (Memory::with(packets(3)), Memory::empty());
    let written = [&near, &right].map(|port| Arc::clone(&port.written));
    let links = vec![link(near, far, delayed(5), Path::new()), link(left, right, Path::new(), delayed(9))];
    let notes = Notes::default();
    let seen = Arc::clone(&notes.seen);
    let taps: Vec<Box<dyn EmulatorTap>> = vec![Box::new(notes)];
    let setup = Setup { links, taps, clock: Clock::new(), bound: Lateness::BOUND, changer: None };
    let emulator = Emulator::start(setup).unwrap();
    wait_for(|| seen.lock().unwrap().iter().filter(|seen| seen.what == "left").count() == 5);
    let report = emulator.stop().unwrap();
    assert_eq!(written.map(|written| written.lock().unwrap().len()), [2, 3]);
    let left: Vec<u64> = report.directions().map(|way| way.left.packets).collect();
    assert_eq!(left, [2, 0, 0, 3]);
    let seen = seen.lock().unwrap();
    let mut left: Vec<(usize, u64, Time)> =
        seen.iter().filter(|seen| seen.what == "left").map(|seen| (seen.link, seen.id, seen.at)).collect();
    left.sort();
    assert_eq!(left, [(0, 0, ms(5)), (0, 1, ms(5)), (1, 0, ms(9)), (1, 1, ms(9)), (1, 2, ms(9))]);
}

/// Sets the rate of the first path as soon as it is asked to.
struct Faster {
    asked: Shared<Time>,
    bell: Arc<OwnedFd>,
}

impl PathChanger for Faster {
    fn next(&self) -> Time {
        *self.asked.lock().unwrap()
    }
    fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
    fn change(&mut self, now: Time, make: &mut dyn FnMut(u32, PathChange) -> Option<PathChange>) {
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        let asked = std::mem::replace(&mut *self.asked.lock().unwrap(), Time::NEVER);
        assert!(asked <= now);
        let faster = PathChange::Rate(Rate::from_mbps(12.0));
        assert_eq!(make(0, faster), Some(PathChange::Rate(Rate::from_bytes_per_sec(1))));
        assert_eq!([make(1, faster), make(2, faster)], [None, None], "nothing serves there");
    }
}

#[test]
fn a_path_changes_at_once_when_the_bell_rings() {
    let (near, far) = (Memory::empty(), Memory::with(frames([(0, Codepoint::NotEct)])));
    let written = Arc::clone(&near.written);
    let queue = Box::new(DropTail::new(QueueBound::packets(2)));
    // 25 minutes for the packet.
    let down = Path::new().link(Link::new(Schedule::constant(Rate::from_bytes_per_sec(1)), queue));
    let (asked, bell) = (Arc::new(Mutex::new(Time::NEVER)), Arc::new(eventfd(0, EventfdFlags::NONBLOCK).unwrap()));
    let notes = Notes::default();
    let seen = Arc::clone(&notes.seen);
    let changer = Faster { asked: Arc::clone(&asked), bell: Arc::clone(&bell) };
    let links = vec![link(near, far, down, Path::new())];
    let taps: Vec<Box<dyn EmulatorTap>> = vec![Box::new(notes)];
    let clock = Clock::new();
    let setup = Setup { links, taps, clock, bound: Lateness::BOUND, changer: Some(Box::new(changer)) };
    let emulator = Emulator::start(setup).unwrap();
    wait_for(|| seen.lock().unwrap().len() == 1);
    let at = clock.now();
    *asked.lock().unwrap() = at;
    rustix::io::write(&bell, &1_u64.to_ne_bytes()).unwrap();
    wait_for(|| written.lock().unwrap().len() == 1);
    let report = emulator.stop().unwrap();
    // A millisecond at the new rate, from the change on.
    let left = seen.lock().unwrap().iter().find(|seen| seen.what == "left").unwrap().at;
    assert!(left > at && report.links[0].down.schedule.is_some());
    assert!(report.links[0].up.schedule.is_none());
}

/// A UDP packet over IPv6, with a hop-by-hop header before the UDP header.
fn six(header: &[u8]) -> Vec<u8> {
    let [high, low] = (header.len() as u16 + 8).to_be_bytes();
    let mut bytes = vec![0x60, 0, 0, 0, high, low, 0, 64];
    bytes.extend([[1; 16], [2; 16]].concat());
    bytes.extend(header);
    bytes.extend([0x9c, 0x40, 0, 80, 0, 8, 0, 0]);
    bytes
}

#[test]
fn a_link_writes_into_packets_as_a_hop_of_telemetry() {
    let (before, reports) = std::sync::mpsc::channel();
    let header = |hops| {
        let edge = Edge { segs: 1, seq: 9, sent_us: 5, cwnd: Some(10), ..Edge::default() };
        six(&TelemetryHeader { next_header: 17, ..TelemetryHeader::new(RecordProfile::Counted, hops, edge) }.encode())
    };
    let foreign = six(&[17, 0, 0x1e, 4, 1, 2, 3, 4]);
    // Four at once: one is in service, two wait, and there is no room for more.
    let packets = [header(2), header(2), header(2), header(2), header(0), foreign.clone(), header(1)];
    let arrivals = [0, 0, 0, 0, 50, 60, 70];
    let frames = packets.iter().zip(arrivals).map(|(bytes, at)| Frame::new(bytes.clone(), ms(at))).collect();
    let queue = Box::new(DropTail::new(QueueBound::packets(2)));
    let down = Path::new().link(Link::new(Schedule::constant(Rate::from_mbps(1.0)), queue));
    let (near, far) = (Memory::empty(), Memory::with(frames));
    let written = Arc::clone(&near.written);
    let mut setup = setup(near, far, down);
    setup.links[0].transit[0] = Some(HopWriter::new(MeteredHop::new(4, 6), Some(before)));
    let emulator = Emulator::start(setup).unwrap();
    wait_for(|| written.lock().unwrap().len() == 6);
    emulator.stop().unwrap();

    let written = written.lock().unwrap();
    let read = |bytes: &[u8]| TelemetryHeader::decode(&bytes[40..]).unwrap().0;
    let records = |index: usize| read(&written[index]).records;
    // The first finds the queue empty, the second one packet in service; the fourth was dropped.
    let seen: Vec<_> = (0..3).flat_map(records).map(|record| record.room_packets).collect();
    assert_eq!(seen, [Some(2), Some(2), Some(1)], "one each");
    let NodeRecord { node, egress, hop_limit, flow_dropped, flows, .. } = records(0)[0];
    assert_eq!((node, egress, hop_limit, flow_dropped, flows), (4, Some(6), 64, Some(0), Some(1)));
    assert_eq!((read(&written[3]).overflow, records(3).len()), (true, 0), "it has no room for a record");
    assert_eq!(written[4], foreign);
    assert_eq!(records(5)[0].flow_dropped, Some(1));
    let reports: Vec<_> = reports.iter().collect();
    assert_eq!(reports.len(), 1, "within 100 ms");
    assert_eq!((reports[0].node, reports[0].hops[0].limit_pkts), (4, Some(2)));
}
