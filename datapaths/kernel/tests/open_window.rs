//! The open window in the running kernel.
#![cfg(target_os = "linux")]

mod native;

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use paceline_cc::{Nanos, Rate};
use paceline_emulator::Frame;
use paceline_emulator::world::{Between, EmulatedWorld, Far};
use paceline_kernel::{LoadError, Loaded, OPEN_WINDOW};
use paceline_linux::clock::{Clock, Lateness};
use paceline_linux::connections::Diagnosis;
use paceline_linux::namespace::Namespace;
use paceline_linux::tcp::TcpInfo;
use paceline_path::{Direction, LossModel, Path};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

/// 64 MiB of packets of the size that a path of 1500 bytes has.
const OPEN: u32 = (64 << 20) / 1448;

/// There is one name in the kernel: a test at a time holds it.
static TURN: Mutex<()> = Mutex::new(());

struct Held {
    _open_window: Loaded,
    _turn: MutexGuard<'static, ()>,
}

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Loads it; where it cannot be had, says why the test is skipped.
fn load(test: &str) -> Option<Held> {
    let turn = turn();
    match OPEN_WINDOW.load() {
        Ok(open_window) => Some(Held { _open_window: open_window, _turn: turn }),
        Err(error @ LoadError::Refused { .. }) => panic!("{error}"),
        Err(reason) => {
            // Not by a macro, whose output is not shown for tests that pass.
            let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
            None
        }
    }
}

/// Runs `work` on a thread that has no privilege.
fn unprivileged<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let nothing = CapabilitySet::empty();
    let sets = CapabilitySets { effective: nothing, permitted: nothing, inheritable: nothing };
    thread::scope(|scope| {
        let dropped = move || {
            set_capabilities(None, sets).unwrap();
            work()
        };
        scope.spawn(dropped).join().unwrap()
    })
}

/// A connection over the loopback interface of the calling thread's namespace.
fn loopback() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (near, listener.accept().unwrap().0)
}

/// What `TCP_INFO` says of the end whose peer is `to`.
fn info(to: SocketAddr) -> TcpInfo {
    Diagnosis::open().unwrap().to(to.port()).unwrap()[0].info
}

fn controller(stream: &TcpStream) -> String {
    let name = SockRef::from(stream).tcp_congestion().unwrap();
    String::from_utf8(name).unwrap().trim_end_matches('\0').to_owned()
}

fn select(stream: &TcpStream, name: &str) {
    SockRef::from(stream).set_tcp_congestion(name.as_bytes()).unwrap();
}

#[test]
fn it_is_there_while_it_is_held() {
    let Some(held) = load("it_is_there_while_it_is_held") else { return };
    assert!(OPEN_WINDOW.is_loaded());
    assert!(matches!(OPEN_WINDOW.load(), Err(LoadError::Loaded { .. })));
    let (near, far) = loopback();
    select(&near, OPEN_WINDOW.name);
    let Held { _open_window: open_window, _turn: turn } = held;
    drop(open_window);
    assert!(!OPEN_WINDOW.is_loaded());
    assert!(SockRef::from(&far).set_tcp_congestion(OPEN_WINDOW.name.as_bytes()).is_err());
    // A socket that has it keeps it.
    assert_eq!(controller(&near), OPEN_WINDOW.name);
    drop(turn);
}

#[test]
fn root_loads_it_and_anyone_selects_it() {
    let Some(held) = load("root_loads_it_and_anyone_selects_it") else { return };
    unprivileged(|| {
        let (near, _far) = loopback();
        select(&near, OPEN_WINDOW.name);
        assert_eq!(controller(&near), OPEN_WINDOW.name);
    });
    let Held { _open_window: open_window, _turn: turn } = held;
    drop(open_window);
    let error = unprivileged(|| OPEN_WINDOW.load()).unwrap_err();
    assert!(matches!(error, LoadError::NotRoot), "{error}");
    assert!(error.to_string().ends_with("run it as root") && !error.to_string().contains('\n'));
    drop(turn);
}

#[test]
fn as_a_default_it_gives_way_to_reno() {
    let Some(_held) = load("as_a_default_it_gives_way_to_reno") else { return };
    let setting = "/proc/sys/net/ipv4/tcp_congestion_control";
    let inside = || {
        fs::write(setting, OPEN_WINDOW.name).unwrap();
        let (mut near, mut far) = loopback();
        near.write_all(b"x").unwrap();
        far.read_exact(&mut [0]).unwrap();
        for (stream, peer) in [(&near, &far), (&far, &near)] {
            assert_eq!(controller(stream), "reno");
            let window = info(peer.local_addr().unwrap()).cwnd;
            assert!((10..20).contains(&window), "{window}");
        }
        // Elsewhere it is not the default.
        fs::write(setting, "reno").unwrap();
        let (near, _far) = loopback();
        select(&near, OPEN_WINDOW.name);
        assert_eq!(controller(&near), OPEN_WINDOW.name);
    };
    Namespace::create().unwrap().enter(inside).unwrap();
}

#[test]
fn who_leaves_it_keeps_no_open_window() {
    let Some(_held) = load("who_leaves_it_keeps_no_open_window") else { return };
    let (near, far) = loopback();
    let to = far.local_addr().unwrap();
    select(&near, OPEN_WINDOW.name);
    let open = info(to);
    assert_eq!(open.cwnd, (64 << 20) / open.mss);
    select(&near, "reno");
    assert_eq!(info(to).cwnd, 10);
}

#[test]
fn the_pacing_rate_is_what_the_socket_allows() {
    let test = "the_pacing_rate_is_what_the_socket_allows";
    if let Some(_held) = load(test) {
        native::holds(test, "pacing");
    }
}

/// What became of a flow.
struct Outcome {
    received: u64,
    /// Windows in packets, looked at every 2 ms, without those of the first second.
    windows: Vec<u32>,
    last: TcpInfo,
}

/// One flow for `SPAN` through 24 Mbit/s, 20 ms each way and 1 % of random loss on its data. The application lets 150 kB be in
/// flight, which is one and a quarter of what the path holds.
fn transfer(controller: &str) -> Outcome {
    const SPAN: Duration = Duration::from_secs(5);
    const DELAY: Nanos = Nanos::from_millis(20);
    const FLIGHT: u64 = 150_000;
    let direction = |loss| -> Path<Frame> {
        let direction = Direction { rate: Some(Rate::from_mbps(24.0)), delay: DELAY, loss, ..Direction::default() };
        direction.build(7, DELAY + DELAY, &|_| Err("no trace")).unwrap()
    };
    let (down, up) = (direction(Some(LossModel::Rate(0.01))), direction(None));
    let between = Between { down, up, taps: Vec::new(), clock: Clock::new(), bound: Lateness::BOUND };
    let world = EmulatedWorld::build(Far::Isolated, between).unwrap();
    let listener = world.near().namespace.enter(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))).unwrap().unwrap();
    let to = SocketAddr::from((world.near().ipv4, listener.local_addr().unwrap().port()));
    let receiver = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = vec![0; 1 << 16];
        let mut received = 0;
        while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
            received += bytes as u64;
        }
        received
    });
    let sender = || {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).unwrap();
        socket.set_tcp_congestion(controller.as_bytes()).unwrap();
        socket.connect(&to.into()).unwrap();
        let mut stream = TcpStream::from(socket);
        stream.set_write_timeout(Some(SPAN)).unwrap();
        let mut diagnosis = Diagnosis::open().unwrap();
        let start = Instant::now();
        let (mut windows, mut written, mut last) = (Vec::new(), 0, TcpInfo::default());
        while start.elapsed() < SPAN {
            last = diagnosis.to(to.port()).unwrap()[0].info;
            // What is acknowledged selectively has arrived as well.
            while written < u64::from(last.delivered) * 1448 + FLIGHT {
                stream.write_all(&[0; 1448]).unwrap();
                written += 1448;
            }
            if start.elapsed() > Duration::from_secs(1) {
                windows.push(last.cwnd);
            }
            thread::sleep(Duration::from_millis(2));
        }
        // What is in the send buffer does not matter.
        SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
        (windows, last)
    };
    let (windows, last) = world.far().namespace.enter(sender).unwrap();
    let received = receiver.join().unwrap();
    world.stop().unwrap();
    Outcome { received, windows, last }
}

#[test]
fn loss_costs_it_no_window() {
    let Some(_held) = load("loss_costs_it_no_window") else { return };
    let (open, cubic) = (transfer(OPEN_WINDOW.name), transfer("cubic"));
    let median = |outcome: &Outcome| {
        let mut windows = outcome.windows.clone();
        windows.sort_unstable();
        windows[windows.len() / 2]
    };
    let _ = writeln!(
        std::io::stderr(),
        "received in 5 s: {} kB over {}, {} kB over CUBIC; windows: {} and {} packets; resent: {} and {}",
        open.received / 1000,
        OPEN_WINDOW.name,
        cubic.received / 1000,
        median(&open),
        median(&cubic),
        open.last.retransmits,
        cubic.last.retransmits,
    );
    // 1 % of the packets, and hardly one of them twice.
    let share = f64::from(open.last.retransmits) / f64::from(open.last.segments_sent);
    assert!((0.005..0.03).contains(&share), "{share}");
    assert!(open.windows.iter().all(|window| *window == OPEN), "{:?}", open.windows);
    // 24 Mbit/s times 40 ms are 83 packets; at 1 % of loss Reno has 12 on average, and CUBIC here hardly more.
    assert!(median(&cubic) < 35, "{:?}", cubic.windows);
    assert!(open.received > 2 * cubic.received, "{} against {}", open.received, cubic.received);
}
