//! The sender's agent, with maps of the running kernel: what it writes is read by another process, as a controller would.
#![cfg(target_os = "linux")]

#[path = "../../bus/tests/server/mod.rs"]
mod server;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, libbpf_sys};
use paceline_bus::{Bus, BusOptions, Hub, Keys, MessageBody, MessageKind, PublisherKey, PublisherRole, flow_number};
use paceline_cc::Cause;
use paceline_int::{NodeError, SourceNode, SourceOptions, TelemetryAgent};
use paceline_linux::clock;
use paceline_linux::connections::Diagnosis;
use paceline_telemetry::{FlowReport, HopReport, Tuple};
use server::Server;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// Octets of `struct flow` of src/bpf/source.h.
const FLOW: usize = 112;
const STEP: Duration = Duration::from_millis(20);
/// Names the map that the other process is to read, and the key.
const READ: &str = "PACELINE_TEST_READ";

/// A map as a program would bring it; `None`, and a line, where it cannot be had.
fn map(test: &str, name: &str, key: u32, value: u32) -> Option<MapHandle> {
    let sz = size_of::<libbpf_sys::bpf_map_create_opts>() as _;
    let options = libbpf_sys::bpf_map_create_opts { sz, ..Default::default() };
    match MapHandle::create(MapType::Hash, Some(name), key, value, 64, &options) {
        Ok(map) => Some(map),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "skipped: {test}: no map ({error})");
            None
        }
    }
}

fn monotonic() -> u64 {
    clock::monotonic().as_nanos()
}

/// A connection of this process to itself, and its sending end.
struct Connection {
    stream: TcpStream,
    _other: TcpStream,
    tuple: Tuple,
    cookie: u64,
}

fn connection(test: &str) -> Option<Connection> {
    let Ok(listener) = TcpListener::bind("[::1]:0") else {
        let _ = writeln!(std::io::stderr(), "skipped: {test}: there is no IPv6");
        return None;
    };
    let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut other, _) = listener.accept().unwrap();
    stream.write_all(b"x").unwrap();
    other.read_exact(&mut [0]).unwrap();
    let (SocketAddr::V6(here), SocketAddr::V6(there)) = (stream.local_addr().unwrap(), stream.peer_addr().unwrap())
    else {
        unreachable!()
    };
    let tuple = Tuple { src: *here.ip(), dst: *there.ip(), sport: here.port(), dport: there.port() };
    let connections = Diagnosis::open().unwrap().to(there.port()).unwrap();
    let cookie = connections.iter().find(|one| one.local == here.into()).unwrap().cookie;
    Some(Connection { stream, _other: other, tuple, cookie })
}

/// The map of a controller, and those of a source that puts headers on nothing by itself.
struct Kernel {
    records: MapHandle,
    flows: MapHandle,
    reports: MapHandle,
    source: SourceNode,
}

impl Kernel {
    fn new(test: &str) -> Option<Self> {
        static TURN: Mutex<()> = Mutex::new(());
        let records = map(test, "pl_telemetry", 8, 64)?;
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let nothing = SourceOptions { ports: vec![9], ..SourceOptions::default() };
        let source = match SourceNode::open("lo", &nothing) {
            Ok(source) => source,
            Err(reason @ (NodeError::NotRoot | NodeError::NoBtf)) => {
                let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        let newest = |name: &str| {
            let id = MapInfoIter::default().filter(|map| map.name == name).map(|map| map.id).max().unwrap();
            MapHandle::from_map_id(id).unwrap()
        };
        Some(Self { records, flows: newest("pl_int_flows"), reports: newest("pl_int_reports"), source })
    }

    fn key(tuple: &Tuple) -> Vec<u8> {
        let ports = [tuple.sport.to_be_bytes(), tuple.dport.to_be_bytes()].concat();
        [tuple.src.octets().as_slice(), &tuple.dst.octets(), &ports].concat()
    }

    /// The source has just put a header on this flow.
    fn sent(&self, connection: &Connection) {
        let mut value = [0; FLOW];
        value[..8].copy_from_slice(&connection.cookie.to_ne_bytes());
        value[16..24].copy_from_slice(&monotonic().to_ne_bytes());
        self.flows.update(&Self::key(&connection.tuple), &value, MapFlags::ANY).unwrap();
    }

    fn record(&self, cookie: u64) -> Option<Vec<u8>> {
        self.records.lookup(&cookie.to_ne_bytes(), MapFlags::ANY).unwrap()
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn wide(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn report(tuple: Tuple, rseq: u64) -> FlowReport {
    let hop = HopReport {
        node: 2,
        avail_pkts: Some(40),
        limit_pkts: Some(60),
        rate_pps: Some(1650),
        flows: Some(1),
        rate_100k: Some(200),
        ..HopReport::default()
    };
    FlowReport {
        tuple,
        rseq,
        exp: 10,
        rcv: 8,
        lost_m: 2,
        verdict: Cause::Medium,
        hops: vec![hop],
        bottleneck: Some(0),
        ..FlowReport::default()
    }
}

fn publish(bus: &Bus, report: FlowReport) {
    bus.publish(MessageKind::Flow(flow_number(&report.tuple)), &MessageBody::Flow(report));
}

fn options(name: &str, role: PublisherRole) -> BusOptions {
    let key = |byte, role| PublisherKey::new(&[role], &[byte; 32]);
    let keys = Keys::default().with("sta2", key(1, PublisherRole::Sink)).with("sta1", key(2, PublisherRole::Agent));
    BusOptions { name: name.to_owned(), role: Some(role), keys: Some(keys), ..BusOptions::default() }
}

/// Steps until it is so.
fn step(agent: &mut TelemetryAgent, mut so: impl FnMut(&TelemetryAgent) -> bool) {
    let began = Instant::now();
    while !so(agent) {
        assert!(began.elapsed() < PATIENCE, "it does not come to be: {:?}, {:?}", agent.figures(), agent.counts());
        agent.step(STEP).unwrap();
    }
}

/// What another process reads; run by [`as_read_elsewhere`].
#[test]
fn the_other_process() {
    let Some(what) = std::env::var_os(READ) else { return };
    let what = what.into_string().unwrap();
    let (id, cookie) = what.split_once(' ').unwrap();
    let map = MapHandle::from_map_id(id.parse().unwrap()).unwrap();
    let cookie: u64 = cookie.parse().unwrap();
    let record = map.lookup(&cookie.to_ne_bytes(), MapFlags::ANY).unwrap().unwrap();
    let words: Vec<String> = (24..56).step_by(4).map(|at| word(&record, at).to_string()).collect();
    println!("record {} {} {}", wide(&record, 0), wide(&record, 56), words.join(" "));
}

fn as_read_elsewhere(map: &MapHandle, cookie: u64) -> String {
    let id = map.info().unwrap().info.id;
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "the_other_process", "--nocapture"]).env(READ, format!("{id} {cookie}"));
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find_map(|line| line.split_once("record ").map(|(_, record)| record.to_owned()));
    line.unwrap_or_else(|| panic!("{text}"))
}

#[test]
fn a_report_becomes_a_record_that_the_kernel_can_read() {
    let test = "a_report_becomes_a_record_that_the_kernel_can_read";
    let (Some(kernel), Some(flow), Some(plain)) = (Kernel::new(test), connection(test), connection(test)) else {
        return;
    };
    let Some(other) = Kernel::new(test) else { return };
    kernel.sent(&flow);
    let hub = Hub::default();
    let sink = Bus::join(&hub, options("sta2", PublisherRole::Sink)).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let note = seen.clone();
    let observe = Box::new(move |tuple: &Tuple, telemetry: &paceline_cc::Telemetry<'_>| {
        note.lock().unwrap().push((*tuple, telemetry.verdict, telemetry.hops[0].room_packets));
    });
    let mut agent =
        TelemetryAgent::new(Bus::join(&hub, options("sta1", PublisherRole::Agent)).unwrap(), Some(observe)).unwrap();
    step(&mut agent, |agent| agent.figures().flows >= 1 && agent.figures().controllers >= 1);
    for rseq in 1..=3 {
        publish(&sink, report(flow.tuple, rseq));
        // Of a flow that has no headers: the agent has not asked for it.
        publish(&sink, report(plain.tuple, rseq));
    }
    step(&mut agent, |agent| agent.figures().taken == 3);
    // 60 packets of 1514 bytes at 20 Mbit/s take 36 ms; 2 of 10 are lost.
    assert_eq!(as_read_elsewhere(&kernel.records, flow.cookie), "3 3 1 40 60 1650 1 200000 36336 3");
    let record = kernel.record(flow.cookie).unwrap();
    assert!(wide(&record, 8) <= monotonic() && wide(&record, 8) + PATIENCE.as_nanos() as u64 > monotonic());
    assert!((50_000_000..=500_000_000).contains(&wide(&record, 16)));
    assert_eq!((kernel.record(plain.cookie), agent.figures().others), (None, 0));
    let reported = kernel.reports.lookup(&Kernel::key(&flow.tuple), MapFlags::ANY).unwrap().unwrap();
    assert_eq!(wide(&reported, 0), wide(&record, 8));
    // A source that has not seen the flow learns nothing of its address.
    assert_eq!(other.reports.lookup(&Kernel::key(&flow.tuple), MapFlags::ANY).unwrap(), None);
    // The first two are too few for a verdict.
    let expected = [Cause::Unknown, Cause::Unknown, Cause::Medium].map(|cause| (flow.tuple, cause, Some(40)));
    assert_eq!(*seen.lock().unwrap(), expected);
    // An old number changes nothing, and what cannot be is refused before.
    publish(&sink, report(flow.tuple, 2));
    publish(&sink, FlowReport { rcv: 11, ..report(flow.tuple, 9) });
    step(&mut agent, |agent| agent.figures().old == 1 && agent.counts().all_refused() == 1);
    assert_eq!(kernel.record(flow.cookie).unwrap(), record);
    // The flow ends: so does its record.
    kernel.flows.delete(&Kernel::key(&flow.tuple)).unwrap();
    step(&mut agent, |_| kernel.record(flow.cookie).is_none());
    drop(flow.stream);
}

#[test]
fn flows_that_are_over_hide_none_that_is_new() {
    let test = "flows_that_are_over_hide_none_that_is_new";
    let (Some(kernel), Some(flow)) = (Kernel::new(test), connection(test)) else { return };
    // Half of them had their last header some time ago, and half have just ended.
    let [mut silent, mut ended] = [[0; FLOW]; 2];
    silent[16..24].copy_from_slice(&monotonic().saturating_sub(3_000_000_000).to_ne_bytes());
    ended[16..24].copy_from_slice(&(monotonic() + PATIENCE.as_nanos() as u64).to_ne_bytes());
    ended[92] = 1;
    for number in 0..60_000_u32 {
        let tuple = Tuple { sport: number as u16, dport: 80 + (number >> 16) as u16, ..flow.tuple };
        let over = if number % 2 == 0 { silent } else { ended };
        kernel.flows.update(&Kernel::key(&tuple), &over, MapFlags::ANY).unwrap();
    }
    let hub = Hub::default();
    let sink = Bus::join(&hub, options("sta2", PublisherRole::Sink)).unwrap();
    let mut agent = TelemetryAgent::new(Bus::join(&hub, options("sta1", PublisherRole::Agent)).unwrap(), None)
        .unwrap()
        .hearing_all();
    step(&mut agent, |agent| agent.figures().controllers >= 1);
    // It is known by its first report, whenever the flows were looked at last.
    kernel.sent(&flow);
    for rseq in 1..=20 {
        publish(&sink, report(flow.tuple, rseq));
    }
    step(&mut agent, |agent| agent.figures().taken == 20);
    assert_eq!((agent.figures().others, agent.figures().unserved), (0, 0), "{:?}", agent.figures());
    kernel.source.sweep();
    assert_eq!(kernel.source.flows().flows(), []);
}

#[test]
fn a_source_that_has_just_begun_hears_of_the_only_report() {
    let test = "a_source_that_has_just_begun_hears_of_the_only_report";
    let Some(flow) = connection(test) else { return };
    let hub = Hub::default();
    let sink = Bus::join(&hub, options("sta2", PublisherRole::Sink)).unwrap();
    let agent = TelemetryAgent::new(Bus::join(&hub, options("sta1", PublisherRole::Agent)).unwrap(), None)
        .unwrap()
        .hearing_all();
    let heard = |kernel: &Kernel| kernel.reports.lookup(&Kernel::key(&flow.tuple), MapFlags::ANY).unwrap();
    let running = agent.spawn().unwrap();
    let Some(kernel) = Kernel::new(test) else { return };
    kernel.sent(&flow);
    // Soon after the maps were looked at for the last time without this source.
    publish(&sink, report(flow.tuple, 1));
    let began = Instant::now();
    while heard(&kernel).is_none() {
        assert!(began.elapsed() < PATIENCE, "the source does not receive it");
        std::thread::sleep(STEP);
    }
    drop(running);
}

#[test]
fn another_connection_with_the_same_ends_begins_anew() {
    let test = "another_connection_with_the_same_ends_begins_anew";
    let (Some(kernel), Some(mut flow)) = (Kernel::new(test), connection(test)) else { return };
    kernel.sent(&flow);
    let hub = Hub::default();
    let sink = Bus::join(&hub, options("sta2", PublisherRole::Sink)).unwrap();
    let mut agent = TelemetryAgent::new(Bus::join(&hub, options("sta1", PublisherRole::Agent)).unwrap(), None).unwrap();
    step(&mut agent, |agent| agent.figures().flows >= 1 && agent.figures().controllers >= 1);
    publish(&sink, report(flow.tuple, 1_000_000));
    step(&mut agent, |_| kernel.record(flow.cookie).is_some());
    let before = flow.cookie;
    flow.cookie += 1_000_000_007;
    kernel.sent(&flow);
    step(&mut agent, |_| kernel.record(before).is_none());
    publish(&sink, report(flow.tuple, 5));
    step(&mut agent, |_| kernel.record(flow.cookie).is_some_and(|record| wide(&record, 0) == 5));
    // The agent ends, and leaves nothing that could be believed.
    drop(agent);
    assert!(kernel.record(flow.cookie).is_none());
}

#[test]
fn maps_that_come_later_are_found_and_old_records_go() {
    let test = "maps_that_come_later_are_found_and_old_records_go";
    let (Some(kernel), Some(flow)) = (Kernel::new(test), connection(test)) else { return };
    // Left by an agent that was killed, and one of an agent of another namespace.
    let (dead, other) = (1_u64 << 60, 1_u64 << 61);
    let put = |cookie: u64, stamp: u64| {
        let mut value = [0; 64];
        value[8..16].copy_from_slice(&stamp.to_ne_bytes());
        kernel.records.update(&cookie.to_ne_bytes(), &value, MapFlags::ANY).unwrap();
    };
    put(dead, monotonic().saturating_sub(11_000_000_000));
    put(other, monotonic() + PATIENCE.as_nanos() as u64);
    kernel.sent(&flow);
    let hub = Hub::default();
    let sink = Bus::join(&hub, options("sta2", PublisherRole::Sink)).unwrap();
    let mut agent = TelemetryAgent::new(Bus::join(&hub, options("sta1", PublisherRole::Agent)).unwrap(), None).unwrap();
    step(&mut agent, |_| kernel.record(dead).is_none());
    assert!(kernel.record(other).is_some());
    let Some(later) = map(test, "pl_telemetry", 8, 64) else { return };
    // Of another shape: none of ours.
    let Some(odd) = map(test, "pl_telemetry", 8, 72) else { return };
    let mut rseq = 0;
    let began = Instant::now();
    while later.lookup(&flow.cookie.to_ne_bytes(), MapFlags::ANY).unwrap().is_none() {
        assert!(began.elapsed() < PATIENCE);
        rseq += 1;
        publish(&sink, report(flow.tuple, rseq));
        agent.step(STEP).unwrap();
    }
    assert!(odd.lookup(&flow.cookie.to_ne_bytes(), MapFlags::ANY).unwrap().is_none());
    // Those of programs that are gone are let go.
    let id = later.info().unwrap().info.id;
    drop(later);
    step(&mut agent, |_| !MapInfoIter::default().any(|map| map.id == id));
}

#[test]
fn a_broker_that_dies_leaves_records_that_grow_old() {
    let test = "a_broker_that_dies_leaves_records_that_grow_old";
    let (Some(kernel), Some(flow)) = (Kernel::new(test), connection(test)) else { return };
    let Some(mut broker) = Server::start(test) else { return };
    let sink = Bus::open(&broker.address(), options("sta2", PublisherRole::Sink)).unwrap();
    let mut agent =
        TelemetryAgent::new(Bus::open(&broker.address(), options("sta1", PublisherRole::Agent)).unwrap(), None)
            .unwrap();
    let fresh = || {
        kernel.sent(&flow);
        let record = kernel.record(flow.cookie);
        record.is_some_and(|record| wide(&record, 8) + wide(&record, 16) > monotonic() && word(&record, 24) == 1)
    };
    let ended = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            for rseq in 1.. {
                publish(&sink, report(flow.tuple, rseq));
                std::thread::sleep(Duration::from_millis(10));
                if ended.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..2 {
                step(&mut agent, |_| fresh());
                broker.kill();
                step(&mut agent, |_| !fresh());
                broker.restart();
            }
            step(&mut agent, |_| fresh());
        }));
        ended.store(true, Ordering::Relaxed);
        result
    });
    result.unwrap();
    assert_eq!((agent.counts().all_refused(), sink.figures().lost), (0, 2), "{:?}", agent.counts());
}
