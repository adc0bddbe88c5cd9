//! The agent and the flows that it steers, in the running kernel.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use paceline_cc::observe::{Event, Observed, Observer};
use paceline_cc::registry::{Definition, register};
use paceline_cc::{Cause, Controller, Env, Hop, Nanos, Rate, Spec, Telemetry, Time};
use paceline_emulator::Frame;
use paceline_emulator::world::{Between, EmulatedWorld, Far};
use paceline_kernel::agent::AgentLimits;
use paceline_kernel::{AGENT, KernelAgent, KernelAgentError, LoadError, SelectedFlow};
use paceline_linux::clock::{Clock, Lateness, monotonic};
use paceline_linux::connections::Diagnosis;
use paceline_linux::tcp::TcpInfo;
use paceline_path::{Direction, LossModel, Path};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

/// There is one name in the kernel: a test at a time holds it.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts an agent; where it cannot be had, says why the test is skipped.
fn start(
    test: &str,
    options: AgentLimits,
    choose: impl FnMut(&SelectedFlow) -> Option<Spec> + Send + 'static,
) -> Option<KernelAgent> {
    match KernelAgent::start_with(options, choose) {
        Ok(agent) => Some(agent),
        Err(KernelAgentError::Load(reason)) if !matches!(reason, LoadError::Refused { .. }) => {
            // Not by a macro, whose output is not shown for tests that pass.
            let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn spec(text: &str) -> Spec {
    text.parse().unwrap()
}

const DELAY: Nanos = Nanos::from_millis(10);
/// In Mbit/s. The path holds 41 packets.
const RATE: f64 = 24.0;

/// 24 Mbit/s, 10 ms each way, this share of the data lost, 100 packets of queue.
fn world(loss: f64) -> EmulatedWorld {
    let direction = |loss: Option<LossModel>, rate: Option<Rate>| -> Path<Frame> {
        let queue = rate.map(|_| "droptail:packets=100".parse().unwrap());
        let direction = Direction { rate, delay: DELAY, loss, queue, ..Direction::default() };
        direction.build(7, DELAY + DELAY, &|_| Err("no trace")).unwrap()
    };
    let down = direction((loss > 0.0).then_some(LossModel::Rate(loss)), Some(Rate::from_mbps(RATE)));
    let up = direction(None, None);
    let between = Between { down, up, taps: Vec::new(), clock: Clock::new(), bound: Lateness::BOUND };
    EmulatedWorld::build(Far::Isolated, between).unwrap()
}

/// A receiver of everything. Its list says when bytes came, and how many had come by then.
struct Sink {
    address: SocketAddr,
    thread: JoinHandle<Vec<(Instant, u64)>>,
}

/// Takes a connection at the near end and reads it out.
fn sink(world: &EmulatedWorld) -> Sink {
    let listener = world.near().namespace.enter(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))).unwrap().unwrap();
    let address = SocketAddr::from((world.near().ipv4, listener.local_addr().unwrap().port()));
    let thread = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // The path may lose the sender's last word.
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut buffer = vec![0; 1 << 16];
        let (mut arrivals, mut sum) = (vec![(Instant::now(), 0)], 0);
        while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
            sum += bytes as u64;
            arrivals.push((Instant::now(), sum));
        }
        arrivals
    });
    Sink { address, thread }
}

/// A connection from the far end that the agent may steer.
fn connect(world: &EmulatedWorld, to: SocketAddr) -> TcpStream {
    let connect = || {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).unwrap();
        socket.set_tcp_congestion(AGENT.name.as_bytes()).unwrap();
        socket.connect(&to.into()).unwrap();
        TcpStream::from(socket)
    };
    world.far().namespace.enter(connect).unwrap()
}

/// Writes for `span`, and looks at the flow every few milliseconds meanwhile.
fn send(world: &EmulatedWorld, stream: &TcpStream, span: Duration) -> Vec<(Instant, TcpInfo)> {
    let mut writer = stream.try_clone().unwrap();
    writer.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let port = stream.peer_addr().unwrap().port();
    let end = Instant::now() + span;
    let writing =
        thread::spawn(move || while Instant::now() < end && writer.write(&[0; 1 << 14]).is_ok_and(|n| n > 0) {});
    let look = || {
        let mut diagnosis = Diagnosis::open().unwrap();
        let mut infos = Vec::new();
        while Instant::now() < end {
            infos.push((Instant::now(), diagnosis.to(port).unwrap()[0].info));
            thread::sleep(Duration::from_millis(3));
        }
        infos
    };
    let infos = world.far().namespace.enter(look).unwrap();
    writing.join().unwrap();
    infos
}

/// Ends the connection; what is in the send buffer does not matter.
fn reset(stream: TcpStream) {
    SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    drop(stream);
}

/// Bytes that arrived between two moments, as Mbit/s.
fn throughput(arrivals: &[(Instant, u64)], from: Instant, to: Instant) -> f64 {
    let by = |at: Instant| arrivals.iter().take_while(|(arrived, _)| *arrived <= at).last().map_or(0, |(_, sum)| *sum);
    (by(to) - by(from)) as f64 * 8e-6 / (to - from).as_secs_f64()
}

/// The longest time in which nothing arrived.
fn longest_gap(arrivals: &[(Instant, u64)]) -> Duration {
    arrivals.windows(2).map(|pair| pair[1].0 - pair[0].0).max().unwrap_or_default()
}

/// Windows of the looks between two moments.
fn windows(infos: &[(Instant, TcpInfo)], from: Instant, to: Instant) -> Vec<u32> {
    infos.iter().filter(|(at, _)| (from..to).contains(at)).map(|(_, info)| info.cwnd).collect()
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_fixed_window_is_what_is_in_flight() {
    let _turn = turn();
    let test = "a_fixed_window_is_what_is_in_flight";
    let (seen, flows) = channel();
    let choose = move |flow: &SelectedFlow| {
        seen.send(*flow).unwrap();
        Some(spec("fixed:window=7"))
    };
    let Some(agent) = start(test, AgentLimits::default(), choose) else { return };
    let before = agent.figures();
    let world = world(0.0);
    let sink = sink(&world);
    let stream = connect(&world, sink.address);
    let infos = send(&world, &stream, 2 * SECOND);
    let flow = flows.recv().unwrap();
    assert_eq!((flow.local, flow.remote), (stream.local_addr().unwrap(), sink.address));
    let figures = agent.figures();
    reset(stream);
    sink.thread.join().unwrap();
    let _ = writeln!(std::io::stderr(), "{figures:?}");
    assert_eq!((figures.steered, figures.no_room), (1, before.no_room), "{figures:?}");
    // What the initial window let out is gone after a round trip.
    let steered = &infos[infos.len() / 4..];
    assert!(steered.iter().all(|(_, info)| info.in_flight() <= 7 && info.cwnd == 7), "{steered:?}");
    assert!(steered.iter().any(|(_, info)| info.in_flight() == 7), "{steered:?}");
    world.stop().unwrap();
}

#[test]
fn transfers_under_copa_bbr_and_verus_finish() {
    let _turn = turn();
    const BYTES: usize = 4_000_000;
    for controller in ["copa", "bbr", "verus", "cubic"] {
        let test = "transfers_under_copa_bbr_and_verus_finish";
        let Some(agent) = start(test, AgentLimits::default(), move |_| Some(spec(controller))) else { return };
        let world = world(0.005);
        let sink = sink(&world);
        let mut stream = connect(&world, sink.address);
        let begin = Instant::now();
        stream.write_all(&vec![0; BYTES]).unwrap();
        let figures = agent.figures();
        drop(stream);
        let arrivals = sink.thread.join().unwrap();
        let took = begin.elapsed();
        let rate = throughput(&arrivals, begin, begin + took);
        let _ = writeln!(std::io::stderr(), "{controller}: {rate:.1} Mbit/s; {figures:?}");
        assert_eq!(arrivals.last().unwrap().1, BYTES as u64);
        assert!(figures.steered == 1 && figures.reports > 10, "{controller}: {figures:?}");
        // The end of the flow is reported.
        let deadline = Instant::now() + 5 * SECOND;
        while agent.figures().steered > 0 && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(agent.figures().steered, 0);
        world.stop().unwrap();
    }
}

#[test]
fn a_silent_agents_flow_is_cubic_until_it_is_back() {
    let _turn = turn();
    let (resume, wait) = channel::<()>();
    let mut first = true;
    let choose = move |_: &SelectedFlow| {
        // The second flow holds up the agent's thread.
        if !std::mem::take(&mut first) {
            let _ = wait.recv();
        }
        Some(spec("fixed:window=7"))
    };
    let Some(agent) = start("a_silent_agents_flow_is_cubic_until_it_is_back", AgentLimits::default(), choose) else {
        return;
    };
    // Where the test fails, the agent's thread must not wait for it.
    let resume = resume;
    let before = agent.figures();
    let world = world(0.0);
    let sinks = [sink(&world), sink(&world)];
    let stream = connect(&world, sinks[0].address);
    let begin = Instant::now();
    let (looked, silenced) = thread::scope(|scope| {
        let looking = scope.spawn(|| send(&world, &stream, 6 * SECOND));
        thread::sleep(SECOND);
        let silenced = connect(&world, sinks[1].address);
        thread::sleep(3 * SECOND);
        resume.send(()).unwrap();
        (looking.join().unwrap(), silenced)
    });
    let figures = agent.figures();
    reset(stream);
    reset(silenced);
    let [arrivals, _] = sinks.map(|sink| sink.thread.join().unwrap());
    let of = |from: u32, to: u32| windows(&looked, begin + SECOND * from / 2, begin + SECOND * to / 2);
    assert!(of(1, 2).iter().all(|window| *window == 7), "{:?}", of(1, 2));
    // 1.5 to 3 s after it fell silent: CUBIC has grown from 7 packets.
    assert!(of(5, 8).iter().any(|window| *window > 14), "{:?}", of(5, 8));
    assert!(of(11, 12).iter().all(|window| *window == 7), "{:?}", of(11, 12));
    assert!(figures.lapses > before.lapses, "{figures:?}");
    assert!(longest_gap(&arrivals) < SECOND, "{:?}", longest_gap(&arrivals));
    world.stop().unwrap();
}

/// Keeps the reports of hops that a controller was given: the verdict, and the first hop.
#[derive(Clone, Default)]
struct Informed(Arc<Mutex<Vec<(Cause, u32)>>>);

impl Observer for Informed {
    fn on_event(&mut self, event: &Event<'_>, _: &dyn Controller) {
        if let Event::Telemetry(telemetry) = event {
            self.0.lock().unwrap().push((telemetry.verdict, telemetry.hops[0].id));
        }
    }
}

#[test]
fn a_flows_controller_hears_of_the_hops_of_its_path() {
    let _turn = turn();
    let informed = Informed::default();
    let noting = informed.clone();
    register(Definition::new("informed", move |_, env: &Env| {
        Observed::wrap(spec("fixed:window=7").build(env), Some(Box::new(noting.clone())))
    }))
    .unwrap();
    let test = "a_flows_controller_hears_of_the_hops_of_its_path";
    let Some(agent) = start(test, AgentLimits::default(), |_| Some(spec("informed"))) else { return };
    let world = world(0.0);
    let sink = sink(&world);
    let mut stream = connect(&world, sink.address);
    stream.write_all(&[0; 1000]).unwrap();
    let ends = (stream.local_addr().unwrap(), sink.address);
    let informant = agent.informant();
    let report = |id: u32, local: SocketAddr| {
        let hops = [Hop::new(id)];
        let now = monotonic();
        let (verdict, fresh_for) = (Cause::Medium, Nanos::from_secs(60));
        informant.telemetry(local, ends.1, &Telemetry::new(now, verdict, fresh_for, &hops));
    };
    // The flow becomes known to the agent a little later.
    let deadline = Instant::now() + 10 * SECOND;
    while informed.0.lock().unwrap().is_empty() && Instant::now() < deadline {
        report(1, ends.0);
        thread::sleep(Duration::from_millis(10));
    }
    // Of no flow of the agent's.
    report(8, ends.1);
    report(9, ends.0);
    let last = || informed.0.lock().unwrap().last().copied();
    while last() != Some((Cause::Medium, 9)) && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(last(), Some((Cause::Medium, 9)));
    let figures = agent.figures();
    assert_eq!(figures.telemetry as usize, informed.0.lock().unwrap().len());
    assert!(informed.0.lock().unwrap().iter().all(|(_, hop)| [1, 9].contains(hop)));
    drop(agent);
    // The informant need not know that it has ended.
    informant.telemetry(ends.0, ends.1, &Telemetry::new(Time::ZERO, Cause::Medium, Nanos::ZERO, &[]));
    reset(stream);
    sink.thread.join().unwrap();
    world.stop().unwrap();
}

#[test]
fn without_a_slot_a_flow_is_cubic_and_is_counted() {
    let _turn = turn();
    let options = AgentLimits { slots: 1, ..AgentLimits::default() };
    let choose = |_: &SelectedFlow| Some(spec("fixed:window=7"));
    let Some(agent) = start("without_a_slot_a_flow_is_cubic_and_is_counted", options, choose) else { return };
    let before = agent.figures().no_slot;
    let world = world(0.0);
    let sinks = [sink(&world), sink(&world), sink(&world)];
    let [steered, left] = [connect(&world, sinks[0].address), connect(&world, sinks[1].address)];
    let infos = send(&world, &left, 2 * SECOND);
    assert!(infos.iter().any(|(_, info)| info.cwnd > 10), "{infos:?}");
    let figures = agent.figures();
    assert_eq!((figures.steered, figures.no_slot - before), (1, 1), "{figures:?}");
    // A slot that is given back is given again.
    reset(left);
    reset(steered);
    let again = connect(&world, sinks[2].address);
    let infos = send(&world, &again, SECOND);
    assert_eq!(infos.last().unwrap().1.cwnd, 7);
    assert_eq!(agent.figures().no_slot - before, 1);
    reset(again);
    for sink in sinks {
        sink.thread.join().unwrap();
    }
    world.stop().unwrap();
}

/// A connection of another user than root to one who listens and takes nothing.
fn connect_as(user: u32, to: SocketAddr) -> TcpStream {
    thread::spawn(move || {
        use rustix::process::Uid;
        let act_as = |uid| rustix::thread::set_thread_res_uid(None::<Uid>, Some(Uid::from_raw(uid)), None::<Uid>);
        // What a socket may do is its maker's when it does it; whose it is was decided when it was made.
        act_as(user).unwrap();
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).unwrap();
        act_as(0).unwrap();
        socket.set_tcp_congestion(AGENT.name.as_bytes()).unwrap();
        socket.connect(&to.into()).unwrap();
        TcpStream::from(socket)
    })
    .join()
    .unwrap()
}

#[test]
fn one_user_leaves_slots_to_others() {
    let _turn = turn();
    let options = AgentLimits { slots: 8, ..AgentLimits::default() };
    let Some(agent) = start("one_user_leaves_slots_to_others", options, |_| Some(spec("cubic"))) else { return };
    let before = agent.figures().no_slot;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let to = listener.local_addr().unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    let comes_to = |steered: u64, left: u64| {
        let mut figures = agent.figures();
        while (figures.steered, figures.no_slot - before) != (steered, left) {
            assert!(Instant::now() < end, "{steered} {left}: {figures:?}");
            thread::sleep(Duration::from_millis(5));
            figures = agent.figures();
        }
    };
    let mut greedy: Vec<TcpStream> = (0..8).map(|_| connect_as(65534, to)).collect();
    comes_to(6, 2);
    let other = connect_as(65533, to);
    comes_to(7, 2);
    // What is given back is theirs again.
    reset(greedy.remove(0));
    comes_to(6, 2);
    greedy.push(connect_as(65534, to));
    comes_to(7, 2);
    greedy.into_iter().chain([other]).for_each(reset);
    comes_to(0, 2);
}

#[test]
fn without_room_in_the_ring_a_flow_is_cubic_and_it_is_counted() {
    let _turn = turn();
    // A page: 34 reports.
    let options = AgentLimits { ring: 4096, ..AgentLimits::default() };
    let (resume, wait) = channel::<()>();
    let choose = move |_: &SelectedFlow| {
        let _ = wait.recv();
        Some(spec("fixed:window=7"))
    };
    let Some(agent) = start("without_room_in_the_ring_a_flow_is_cubic_and_it_is_counted", options, choose) else {
        return;
    };
    // Where the test fails, the agent's thread must not wait for it.
    let resume = resume;
    let before = agent.figures().no_room;
    let world = world(0.0);
    let sink = sink(&world);
    let stream = connect(&world, sink.address);
    let infos = send(&world, &stream, 2 * SECOND);
    assert!(agent.figures().no_room > before, "{:?}", agent.figures());
    assert!(infos.iter().any(|(_, info)| info.cwnd > 10), "{infos:?}");
    resume.send(()).unwrap();
    let infos = send(&world, &stream, 2 * SECOND);
    assert_eq!(infos.last().unwrap().1.cwnd, 7, "{:?}", agent.figures());
    reset(stream);
    sink.thread.join().unwrap();
    world.stop().unwrap();
}

#[test]
fn what_a_kernel_flow_does_not_carry_is_refused() {
    let _turn = turn();
    let choose = |_: &SelectedFlow| Some(spec("cubic:start=chirp"));
    let Some(agent) = start("what_a_kernel_flow_does_not_carry_is_refused", AgentLimits::default(), choose) else {
        return;
    };
    let world = world(0.0);
    let sink = sink(&world);
    let stream = connect(&world, sink.address);
    let infos = send(&world, &stream, SECOND);
    assert!(infos.iter().any(|(_, info)| info.cwnd > 10), "{infos:?}");
    let figures = agent.figures();
    assert_eq!((figures.steered, figures.declined, figures.refused), (0, 1, 1), "{figures:?}");
    reset(stream);
    sink.thread.join().unwrap();
    world.stop().unwrap();
}

#[test]
fn there_is_one_agent() {
    let _turn = turn();
    let Some(agent) = start("there_is_one_agent", AgentLimits::default(), |_| None) else { return };
    let error = KernelAgent::start(|_| None).unwrap_err().to_string();
    assert!(error.contains("paceline is loaded already") && !error.contains('\n'), "{error}");
    assert!(agent.is_running());
    drop(agent);
    assert!(!AGENT.is_loaded());
}

/// The other process of the test below: holds an agent until its input ends.
#[test]
#[ignore = "it is the other process of another test"]
fn hold_for_another_test() {
    let _agent = KernelAgent::start(|_| Some(spec("fixed:window=7"))).unwrap();
    println!("held");
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn after_a_kill_nothing_stays_and_the_next_agent_goes_on() {
    let _turn = turn();
    let test = "after_a_kill_nothing_stays_and_the_next_agent_goes_on";
    // Where it cannot be had, the other process would only fail.
    let Some(agent) = start(test, AgentLimits::default(), |_| None) else { return };
    drop(agent);
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "hold_for_another_test", "--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().ends_with("held")));

    let world = world(0.0);
    let sink = sink(&world);
    let stream = connect(&world, sink.address);
    let begin = Instant::now();
    let (looked, next) = thread::scope(|scope| {
        let looking = scope.spawn(|| send(&world, &stream, 6 * SECOND));
        thread::sleep(SECOND);
        holder.kill().unwrap();
        holder.wait().unwrap();
        assert!(!AGENT.is_loaded());
        thread::sleep(3 * SECOND);
        let next = KernelAgent::start(|_| Some(spec("fixed:window=5"))).unwrap();
        (looking.join().unwrap(), next)
    });
    let figures = next.figures();
    reset(stream);
    let arrivals = sink.thread.join().unwrap();
    let of = |from: u32, to: u32| windows(&looked, begin + SECOND * from / 2, begin + SECOND * to / 2);
    assert!(of(1, 2).iter().all(|window| *window == 7), "{:?}", of(1, 2));
    assert!(of(5, 8).iter().any(|window| *window > 14), "{:?}", of(5, 8));
    // The next agent steers the sockets of the one before.
    assert!(of(11, 12).iter().all(|window| *window == 5), "{:?} {figures:?}", of(11, 12));
    assert!(longest_gap(&arrivals) < SECOND, "{:?}", longest_gap(&arrivals));
    drop(next);
    assert!(!AGENT.is_loaded());
    world.stop().unwrap();
}
