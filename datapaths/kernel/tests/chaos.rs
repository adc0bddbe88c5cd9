//! A hundred flows whose agent is killed, comes back, has a rival and leaves while they send.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use paceline_cc::{Nanos, Rate};
use paceline_emulator::Frame;
use paceline_emulator::world::{Between, EmulatedWorld, Far};
use paceline_kernel::agent::AgentLimits;
use paceline_kernel::{AGENT, KernelAgent, KernelAgentError, LoadError};
use paceline_linux::clock::{Clock, Lateness};
use paceline_path::{Direction, Path};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

/// There is one name in the kernel: a test at a time holds it.
static TURN: Mutex<()> = Mutex::new(());

const FLOWS: usize = 100;
const SECOND: Duration = Duration::from_secs(1);
/// All flows send for this long.
const SPAN: Duration = Duration::from_secs(10);
/// From here on there is no agent any more.
const LAST: Duration = Duration::from_secs(7);

/// 200 Mbit/s, 10 ms each way: with the queue each flow has room for 13 packets.
fn world() -> EmulatedWorld {
    let direction = |rate: Option<Rate>| -> Path<Frame> {
        let queue = rate.map(|_| "droptail:packets=1000".parse().unwrap());
        let delay = Nanos::from_millis(10);
        let direction = Direction { rate, delay, queue, ..Direction::default() };
        direction.build(7, delay + delay, &|_| Err("no trace")).unwrap()
    };
    let (down, up) = (direction(Some(Rate::from_mbps(200.0))), direction(None));
    let between = Between { down, up, taps: Vec::new(), clock: Clock::new(), bound: Lateness::BOUND };
    EmulatedWorld::build(Far::Isolated, between).unwrap()
}

/// What arrived of a flow: when, and how much by then.
type Arrivals = Vec<(Instant, u64)>;

/// A flow in both directions' threads.
struct Flow {
    stream: TcpStream,
    writing: JoinHandle<()>,
    reading: JoinHandle<Arrivals>,
}

impl Flow {
    fn begin(world: &EmulatedWorld, controller: &str, over: &Arc<AtomicBool>) -> Self {
        let listener = world.near().namespace.enter(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))).unwrap().unwrap();
        let to = SocketAddr::from((world.near().ipv4, listener.local_addr().unwrap().port()));
        let reading = thread::spawn(move || read(&mut listener.accept().unwrap().0));
        let connect = || {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).unwrap();
            socket.set_tcp_congestion(controller.as_bytes()).unwrap();
            socket.connect(&to.into()).unwrap();
            TcpStream::from(socket)
        };
        let stream = world.far().namespace.enter(connect).unwrap();
        let mut writer = stream.try_clone().unwrap();
        writer.set_write_timeout(Some(Duration::from_secs(3))).unwrap();
        let over = over.clone();
        let writing =
            thread::spawn(
                move || {
                    while !over.load(Ordering::Relaxed) && writer.write(&[0; 1 << 14]).is_ok_and(|n| n > 0) {}
                },
            );
        Self { stream, writing, reading }
    }

    /// Resets it: what is in the send buffer does not matter.
    fn end(self) -> Arrivals {
        self.writing.join().unwrap();
        SockRef::from(&self.stream).set_linger(Some(Duration::ZERO)).unwrap();
        drop(self.stream);
        self.reading.join().unwrap()
    }
}

fn read(stream: &mut TcpStream) -> Arrivals {
    stream.set_read_timeout(Some(SPAN)).unwrap();
    let mut buffer = vec![0; 1 << 16];
    let (mut arrivals, mut sum) = (vec![(Instant::now(), 0)], 0);
    while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
        sum += bytes as u64;
        arrivals.push((Instant::now(), sum));
    }
    arrivals
}

/// What a hundred flows got.
struct Outcome {
    /// In Mbit/s, all of them, in the time without an agent.
    afterwards: f64,
    /// The longest time in which nothing of a flow arrived, until the flows ended.
    stall: Duration,
}

/// A hundred flows send while `meanwhile` happens.
fn run(controller: &str, meanwhile: impl FnOnce(Instant)) -> Outcome {
    let world = world();
    let over = Arc::<AtomicBool>::default();
    let flows: Vec<_> = (0..FLOWS).map(|_| Flow::begin(&world, controller, &over)).collect();
    let begin = Instant::now();
    let end = begin + SPAN;
    meanwhile(begin);
    sleep_until(end);
    over.store(true, Ordering::Relaxed);
    let arrivals: Vec<_> = flows.into_iter().map(Flow::end).collect();
    world.stop().unwrap();
    let by = |arrivals: &Arrivals, at: Instant| {
        arrivals.iter().take_while(|(arrived, _)| *arrived <= at).last().map_or(0, |(_, sum)| *sum)
    };
    let bytes: u64 = arrivals.iter().map(|flow| by(flow, end) - by(flow, begin + LAST)).sum();
    let stalls = arrivals.iter().map(|flow| {
        let until = flow.iter().map(|(at, _)| *at).filter(|at| *at < end).chain([end]);
        flow.iter().zip(until.skip(1)).map(|((before, _), after)| after.saturating_duration_since(*before)).max()
    });
    let stall = stalls.max().flatten().unwrap_or_default();
    Outcome { afterwards: bytes as f64 * 8e-6 / (SPAN - LAST).as_secs_f64(), stall }
}

/// What they get by CUBIC alone.
static CUBIC: LazyLock<Outcome> = LazyLock::new(|| run("cubic", |_| ()));

fn sleep_until(at: Instant) {
    thread::sleep(at.saturating_duration_since(Instant::now()));
}

fn start(options: AgentLimits, controller: &'static str) -> KernelAgent {
    KernelAgent::start_with(options, move |_| Some(controller.parse().unwrap())).unwrap()
}

/// An agent in another process, to be killed.
fn holder(role: &str) -> Child {
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", role, "--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().ends_with("held")));
    holder
}

fn hold(options: AgentLimits, controller: &'static str) {
    let _agent = start(options, controller);
    println!("held");
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
#[ignore = "it is the other process of another test"]
fn hold_with_room() {
    hold(AgentLimits::default(), ROOMY);
}

/// What steers all flows.
const ROOMY: &str = "copa";
/// What steers those that find room: flows of Copa would starve the others, CUBIC's, in a full queue of which each has 13 packets.
const SHARING: &str = "cubic";

/// Two thirds of the flows find a slot; 34 reports fill the ring.
const NARROW: AgentLimits = AgentLimits { slots: 64, ring: 4096 };

#[test]
#[ignore = "it is the other process of another test"]
fn hold_without_room() {
    hold(NARROW, SHARING);
}

/// Whether an agent can be had here; where not, says why the test is skipped.
fn possible(test: &str) -> bool {
    match KernelAgent::start(|_| None) {
        Ok(_) => true,
        Err(KernelAgentError::Load(reason)) if !matches!(reason, LoadError::Refused { .. }) => {
            let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

fn chaos(test: &str, role: &str, options: AgentLimits, controller: &'static str) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if !possible(test) {
        return;
    }
    let cubic = &*CUBIC;
    let mut first = holder(role);
    let shaken = run(AGENT.name, |begin| {
        sleep_until(begin + 2 * SECOND);
        first.kill().unwrap();
        first.wait().unwrap();
        assert!(!AGENT.is_loaded());
        sleep_until(begin + 4 * SECOND);
        let next = start(options, controller);
        sleep_until(begin + 5 * SECOND);
        let error = KernelAgent::start(|_| None).unwrap_err().to_string();
        assert!(error.contains("paceline is loaded already"), "{error}");
        let figures = next.figures();
        // A greeting that found no room in the ring is sent again.
        assert!(figures.steered > 0 && figures.steered <= u64::from(options.slots), "{figures:?}");
        sleep_until(begin + LAST);
        drop(next);
        assert!(!AGENT.is_loaded());
    });
    let Outcome { afterwards, stall } = shaken;
    let _ = writeln!(
        std::io::stderr(),
        "{test}: {afterwards:.1} Mbit/s after the agent, {:.1} by CUBIC alone; longest stall {stall:?} and {:?}",
        cubic.afterwards,
        cubic.stall
    );
    assert!((0.9..1.1).contains(&(afterwards / cubic.afterwards)));
    // CUBIC's own timeouts are not a fault of an agent's.
    assert!(stall < SECOND.max(cubic.stall), "{stall:?}");
}

#[test]
fn a_hundred_flows_outlive_their_agents() {
    chaos("a_hundred_flows_outlive_their_agents", "hold_with_room", AgentLimits::default(), ROOMY);
}

#[test]
fn so_they_do_where_slots_and_reports_find_no_room() {
    chaos("so_they_do_where_slots_and_reports_find_no_room", "hold_without_room", NARROW, SHARING);
}
