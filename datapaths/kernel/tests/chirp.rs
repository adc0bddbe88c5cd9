//! Paced chirping from a kernel socket, in the running kernel.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use paceline_cc::{Nanos, Rate, Time};
use paceline_emulator::Frame;
use paceline_emulator::emulator::{EmulatorTap, Passage};
use paceline_emulator::frame;
use paceline_emulator::world::{Between, EmulatedWorld, Far};
use paceline_experiment::DumbbellWay as Way;
use paceline_kernel::{CHIRP, CHIRP_CUBIC, CHIRP_R, LoadError, Loaded, Module};
use paceline_linux::clock::{Clock, Lateness};
use paceline_linux::connections::Diagnosis;
use paceline_linux::tcp::TcpInfo;
use paceline_path::{Direction, LossModel, Path};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// There is one name in the kernel: a test at a time holds it.
static TURN: Mutex<()> = Mutex::new(());

struct Held {
    _module: Loaded,
    _turn: MutexGuard<'static, ()>,
}

/// Loads it; where it cannot be had, says why the test is skipped.
fn load(test: &str, module: &'static Module) -> Option<Held> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    match module.load() {
        Ok(module) => Some(Held { _module: module, _turn: turn }),
        Err(error @ LoadError::Refused { .. }) => panic!("{error}"),
        Err(reason) => {
            // Not by a macro, whose output is not shown for tests that pass.
            let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
            None
        }
    }
}

/// What enters and leaves the path to the receiver: payload bytes, and when.
#[derive(Default)]
struct Seen {
    sent: Vec<(u64, Time)>,
    arrived: Vec<(u64, Time)>,
}

struct Log(Arc<Mutex<Seen>>);

fn payload(passage: &Passage<'_>) -> u64 {
    let is_tcp = frame::flow_key(passage.bytes).is_some_and(|key| key.protocol == 6);
    if passage.direction != Way::Down || !is_tcp {
        return 0;
    }
    let ip = usize::from(passage.bytes[0] & 15) * 4;
    (passage.bytes.len() - ip - usize::from(passage.bytes[ip + 12] >> 4) * 4) as u64
}

impl EmulatorTap for Log {
    fn entered(&mut self, passage: &Passage<'_>) {
        if payload(passage) > 0 {
            self.0.lock().unwrap().sent.push((payload(passage), passage.at));
        }
    }

    fn left(&mut self, passage: &Passage<'_>) {
        if payload(passage) > 0 {
            self.0.lock().unwrap().arrived.push((payload(passage), passage.at));
        }
    }
}

/// 20 Mbit/s, 10 ms each way, a queue that marks from 5 ms on: a BDP of 35 packets.
struct Bench {
    world: EmulatedWorld,
    seen: Arc<Mutex<Seen>>,
    listener: TcpListener,
    to: SocketAddr,
}

impl Bench {
    fn new(module: &Module, loss: Option<LossModel>) -> Self {
        let delay = Nanos::from_millis(10);
        let path =
            |direction: Direction| -> Path<Frame> { direction.build(7, delay + delay, &|_| Err("no trace")).unwrap() };
        let queue = Some("step:threshold=5ms".parse().unwrap());
        let rate = Some(Rate::from_mbps(20.0));
        let seen = Arc::<Mutex<Seen>>::default();
        let between = Between {
            down: path(Direction { rate, delay, queue, loss, ..Direction::default() }),
            up: path(Direction { delay, ..Direction::default() }),
            taps: vec![Box::new(Log(seen.clone()))],
            clock: Clock::new(),
            bound: Lateness::BOUND,
        };
        let world = EmulatedWorld::build(Far::Isolated, between).unwrap();
        let listener = world.near().namespace.enter(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))).unwrap().unwrap();
        SockRef::from(&listener).set_tcp_congestion(module.name.as_bytes()).unwrap();
        let to = SocketAddr::from((world.near().ipv4, listener.local_addr().unwrap().port()));
        Self { world, seen, listener, to }
    }

    /// A connection, and its receiving end.
    fn connect(&self, module: &Module) -> (TcpStream, TcpStream) {
        let connect = || {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).unwrap();
            socket.set_tcp_congestion(module.name.as_bytes()).unwrap();
            socket.connect(&self.to.into()).unwrap();
            TcpStream::from(socket)
        };
        let stream = self.world.far().namespace.enter(connect).unwrap();
        let far = self.listener.accept().unwrap().0;
        for end in [&stream, &far] {
            end.set_read_timeout(Some(PATIENCE)).unwrap();
            end.set_write_timeout(Some(PATIENCE)).unwrap();
        }
        (stream, far)
    }

    fn info(&self) -> TcpInfo {
        let port = self.to.port();
        self.world.far().namespace.enter(|| Diagnosis::open().unwrap().to(port).unwrap()[0].info).unwrap()
    }

    fn stop(self) -> Seen {
        self.world.stop().unwrap();
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

fn controller(stream: &TcpStream) -> String {
    let name = SockRef::from(stream).tcp_congestion().unwrap();
    String::from_utf8(name).unwrap().trim_end_matches('\0').to_owned()
}

/// Reads until the end; answers how many bytes came.
fn drain(mut stream: TcpStream) -> u64 {
    let (mut buffer, mut bytes) = (vec![0; 1 << 16], 0);
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        bytes += count as u64;
    }
    bytes
}

/// Sends `bytes` by `write` and answers how many came.
fn transfer(
    bench: &Bench,
    module: &Module,
    read: impl FnOnce(TcpStream) -> u64 + Send + 'static,
    write: impl FnOnce(&mut TcpStream),
) -> u64 {
    let (mut near, far) = bench.connect(module);
    let reader = thread::spawn(move || read(far));
    write(&mut near);
    drop(near);
    reader.join().unwrap()
}

/// Writes until the start-up has ended; answers what the flow looks like then.
fn write_until_over(bench: &Bench, stream: &mut TcpStream, over: impl Fn(&TcpStream, &TcpInfo) -> bool) -> TcpInfo {
    let begun = Instant::now();
    loop {
        stream.write_all(&[0; 1 << 14]).unwrap();
        let info = bench.info();
        if over(stream, &info) {
            return info;
        }
        assert!(begun.elapsed() < PATIENCE, "the start-up does not end: {info:?}");
    }
}

#[test]
fn a_flow_gets_up_to_speed_and_hands_over() {
    for module in [CHIRP, CHIRP_R] {
        let Some(_held) = load("a_flow_gets_up_to_speed_and_hands_over", module) else { return };
        let bench = Bench::new(module, None);
        let mut last = TcpInfo::default();
        let got = transfer(&bench, module, drain, |stream| {
            last = write_until_over(&bench, stream, |_, info| info.threshold().is_some());
            stream.write_all(&vec![0; 1 << 20]).unwrap();
        });
        assert!(got > 1 << 20, "{}: {got} bytes", module.name);
        assert!(last.threshold().is_some_and(|packets| (2..200).contains(&packets)), "{}: {last:?}", module.name);
        let seen = bench.stop();
        assert!(seen.arrived.len() > 700, "{}", module.name);
    }
}

#[test]
fn cubic_takes_over() {
    let Some(_held) = load("cubic_takes_over", CHIRP_CUBIC) else { return };
    let bench = Bench::new(CHIRP_CUBIC, None);
    let got = transfer(&bench, CHIRP_CUBIC, drain, |stream| {
        assert_eq!(controller(stream), CHIRP_CUBIC.name);
        write_until_over(&bench, stream, |stream, _| controller(stream) == "cubic");
        stream.write_all(&vec![0; 1 << 20]).unwrap();
    });
    assert!(got > 1 << 20, "{got} bytes");
}

#[test]
fn the_first_ten_packets_leave_by_two_bursts_and_chirps_follow() {
    let test = "the_first_ten_packets_leave_by_two_bursts_and_chirps_follow";
    let Some(_held) = load(test, CHIRP) else { return };
    let bench = Bench::new(CHIRP, None);
    transfer(&bench, CHIRP, drain, |stream| {
        let _ = write_until_over(&bench, stream, |_, info| info.delivered > 60);
    });
    let seen = bench.stop();
    let first = seen.arrived[0].1 + Nanos::from_millis(10);
    // The sixth waits for the answer to the first; so does none of the five.
    assert!(seen.sent[5].1 >= first, "{:?} and {first:?}", &seen.sent[..6]);
    assert!(seen.sent[4].1 < first, "{:?} and {first:?}", &seen.sent[..6]);
    // The packets of the first chirp leave one at a time.
    let gaps: Vec<u64> = seen.sent[10..15].windows(2).map(|pair| pair[1].1.since(pair[0].1).as_nanos()).collect();
    assert!(gaps.iter().all(|gap| *gap > 5_000), "{gaps:?}");
}

#[test]
fn a_lossy_path_does_not_stall_it() {
    let Some(_held) = load("a_lossy_path_does_not_stall_it", CHIRP) else { return };
    let bench = Bench::new(CHIRP, Some(LossModel::Rate(0.03)));
    let bytes = 1 << 20;
    let got = transfer(&bench, CHIRP, drain, |stream| {
        stream.write_all(&vec![0; bytes]).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        // The other end closes when it has all.
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    });
    assert_eq!(got, bytes as u64);
}

#[test]
fn an_application_that_writes_little_is_not_stalled() {
    let Some(_held) = load("an_application_that_writes_little_is_not_stalled", CHIRP) else { return };
    let bench = Bench::new(CHIRP, None);
    let echo = |mut stream: TcpStream| {
        let (mut buffer, mut bytes) = ([0; 1 << 14], 0);
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            bytes += count as u64;
            stream.write_all(&[1]).unwrap();
        }
        bytes
    };
    let (mut times, mut total) = (Vec::new(), 0);
    let got = transfer(&bench, CHIRP, echo, |stream| {
        // Less than a packet, some packets, the first ten and more: each waits for its answer.
        for size in [100, 1448, 3_000, 5 * 1448, 9_000, 14_480, 20_000, 1, 40_000, 2_896].into_iter().cycle().take(60) {
            let begun = Instant::now();
            stream.write_all(&vec![0; size]).unwrap();
            total += size as u64;
            let mut answers = [0; 64];
            while bench.seen.lock().unwrap().arrived.iter().map(|(bytes, _)| bytes).sum::<u64>() < total {
                assert!(begun.elapsed() < PATIENCE, "{size} bytes do not arrive");
                thread::sleep(Duration::from_millis(1));
            }
            let _ = stream.read(&mut answers).unwrap();
            times.push(begun.elapsed());
        }
    });
    assert_eq!(got, total);
    times.sort_unstable();
    // Stalls would last as long as the retransmission timer, 200 ms and a round trip of 20 ms; a busy machine delays a few.
    assert!(times[times.len() / 2] < Duration::from_millis(200), "{times:?}");
}

/// Linux alone would begin with ten packets again.
#[test]
fn a_silence_leaves_the_window_standing() {
    let Some(_held) = load("a_silence_leaves_the_window_standing", CHIRP) else { return };
    let bench = Bench::new(CHIRP, None);
    let mut windows = (0, 0);
    transfer(&bench, CHIRP, drain, |stream| {
        write_until_over(&bench, stream, |_, info| info.threshold().is_some() && info.cwnd > 25);
        let begun = Instant::now();
        while bench.info().in_flight() > 0 {
            assert!(begun.elapsed() < PATIENCE, "{:?}", bench.info());
            thread::sleep(Duration::from_millis(10));
        }
        let before = bench.info().cwnd;
        thread::sleep(Duration::from_secs(2));
        stream.write_all(&[0; 1 << 15]).unwrap();
        windows = (before, bench.info().cwnd);
    });
    let (before, after) = windows;
    assert!(before > 14, "{before} packets: nothing to keep");
    assert!(after >= before * 3 / 4, "{after} packets of {before}");
}

#[test]
fn a_slow_reader_does_not_stall_it() {
    let Some(_held) = load("a_slow_reader_does_not_stall_it", CHIRP) else { return };
    let bench = Bench::new(CHIRP, None);
    SockRef::from(&bench.listener).set_recv_buffer_size(1 << 14).unwrap();
    let slowly = |mut stream: TcpStream| {
        let (mut buffer, mut bytes) = ([0; 1 << 13], 0);
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            bytes += count as u64;
            thread::sleep(Duration::from_millis(5));
        }
        bytes
    };
    let bytes = 1 << 19;
    let got = transfer(&bench, CHIRP, slowly, |stream| stream.write_all(&vec![0; bytes]).unwrap());
    assert_eq!(got, bytes as u64);
}
