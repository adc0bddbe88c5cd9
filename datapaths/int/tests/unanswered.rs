//! A source whose headers do not arrive, or of which no report comes: flows are as without it.
#![cfg(target_os = "linux")]

mod nodes;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nodes::{B, Chain, has, opened, run};
use paceline_fixture::until;
use paceline_int::{FlowMaps, SinkNode, SinkOptions, SourceNode, SourceOptions};

const PORT: u16 = 5204;

fn patient(patience: Duration) -> SourceOptions {
    SourceOptions { patience: Some(patience), ..SourceOptions::default() }
}

/// Longest that anything may take that is to be soon: the least that is not is 30 s.
const SOON: Duration = Duration::from_secs(25);

/// Reports come soon enough for this also where the one who passes them on has to wait.
fn relaxed() -> SourceOptions {
    patient(Duration::from_secs(10))
}

/// So that a flow lasts longer than a source waits before it asks; and its send buffer is less than the queue, so that none drops.
fn slow(chain: &Chain) {
    run(&chain.r, "tc qdisc add dev r1 root tbf rate 20mbit burst 10k limit 100000");
    chain.a.enter(|| std::fs::write("/proc/sys/net/ipv4/tcp_wmem", "4096 60000 60000")).unwrap().unwrap();
}

/// The router drops what has a Hop-by-Hop header, as many do (RFC 7872); where that cannot be had, says that the test is skipped.
fn drop_headers(test: &str, chain: &Chain) -> bool {
    let there = has(test, "nft", "--version");
    if there {
        run(&chain.r, "nft add table ip6 t");
        run(&chain.r, "nft add chain ip6 t c { type filter hook forward priority 0 ; }");
        run(&chain.r, "nft add rule ip6 t c ip6 nexthdr 0 counter drop");
    }
    there
}

/// Buffers that it has dropped.
fn dropped(chain: &Chain) -> u64 {
    let shown = run(&chain.r, "nft list chain ip6 t c");
    let count = shown.split_once("packets ").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
    count.unwrap_or_else(|| panic!("{shown}"))
}

/// This many requests of 100 octets over one connection, each answered before the next.
fn requests(chain: &Chain, port: u16, count: usize) {
    let listener = chain.b.enter(|| TcpListener::bind((B, port))).unwrap().unwrap();
    let mut client = chain.a.enter(|| TcpStream::connect((B, port))).unwrap().unwrap();
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let server = thread::spawn(move || {
        let (mut server, _) = listener.accept().unwrap();
        for _ in 0..count {
            server.read_exact(&mut [0; 100]).unwrap();
            server.write_all(b"x").unwrap();
        }
    });
    for _ in 0..count {
        client.write_all(&[1; 100]).unwrap();
        client.read_exact(&mut [0]).unwrap();
    }
    server.join().unwrap();
}

/// What the sink reports is told to the source.
fn tell(source: &SourceNode, sink: &mut SinkNode) {
    for report in sink.reports(Duration::from_millis(20)).unwrap() {
        source.reported(&report.tuple).unwrap();
    }
}

/// A transfer while what the sink reports is told to the source.
fn transfer_with_reports(chain: &Chain, source: &SourceNode, sink: &mut SinkNode, port: u16, octets: usize) {
    thread::scope(|scope| {
        let working = scope.spawn(|| chain.transfer(port, octets));
        while !working.is_finished() {
            tell(source, sink);
        }
    });
}

/// A flow from a to this port of b, which ends once it is so.
fn flow_until(chain: &Chain, port: u16, what: &str, so: impl FnMut() -> bool) {
    /// Also where it does not come to be so.
    struct Ending<'a>(&'a AtomicBool);
    impl Drop for Ending<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    let listener = chain.b.enter(|| TcpListener::bind((B, port))).unwrap().unwrap();
    let mut client = chain.a.enter(|| TcpStream::connect((B, port))).unwrap().unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let ending = Ending(&over);
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                client.write_all(&[1; 1 << 14]).unwrap();
            }
            client.shutdown(Shutdown::Write).unwrap();
        });
        scope.spawn(|| std::io::copy(&mut server, &mut std::io::sink()).unwrap());
        until(what, so);
        drop(ending);
    });
}

#[test]
fn a_path_that_drops_headers_loses_two_packets_and_no_request() {
    let test = "a_path_that_drops_headers_loses_two_packets_and_no_request";
    let Some(chain) = Chain::new(test) else { return };
    run(&chain.a, "ip link set a0 gso_max_segs 1");
    slow(&chain);
    if !drop_headers(test, &chain) {
        return;
    }
    let Some(source) = opened(test, chain.a.enter(|| SourceNode::open("a0", &SourceOptions::default())).unwrap())
    else {
        return;
    };
    // What is alone on its way has no header.
    requests(&chain, PORT, 20);
    assert_eq!((dropped(&chain), source.counters().paused), (0, 20));
    // Of many packets one asks, and another when a second has passed twice; no other flow to this address does, for 30 s. One that
    // ends before leaves the rest to the next.
    until("the source has given up twice", || {
        chain.transfer(PORT + 1, 4 << 20);
        source.counters().pauses == 2
    });
    chain.transfer(PORT + 2, 2 << 20);
    requests(&chain, PORT + 3, 20);
    assert_eq!((dropped(&chain), source.counters().packets), (2, 2), "{:?}", source.counters());
}

#[test]
fn a_path_that_begins_to_drop_headers_carries_what_is_sent_again() {
    let test = "a_path_that_begins_to_drop_headers_carries_what_is_sent_again";
    let Some(chain) = Chain::new(test) else { return };
    slow(&chain);
    let options = patient(Duration::from_millis(400));
    let Some(source) = opened(test, chain.a.enter(|| SourceNode::open("a0", &options)).unwrap()) else { return };
    let mut sink = chain.b.enter(|| SinkNode::open("b0", &SinkOptions::default())).unwrap().unwrap();
    transfer_with_reports(&chain, &source, &mut sink, PORT, 4 << 20);
    if !drop_headers(test, &chain) {
        return;
    }
    let before = source.counters();
    // The address is known to get headers: the first packets have one, and are lost.
    requests(&chain, PORT + 1, 50);
    chain.transfer(PORT + 2, 1 << 20);
    let after = source.counters();
    assert!(dropped(&chain) > 0 && after.inserted - before.inserted < 20, "{before:?} {after:?}");
}

#[test]
fn headers_stop_where_no_report_comes() {
    let test = "headers_stop_where_no_report_comes";
    let Some(chain) = Chain::new(test) else { return };
    slow(&chain);
    let options = patient(Duration::from_millis(200));
    let Some(source) = opened(test, chain.a.enter(|| SourceNode::open("a0", &options)).unwrap()) else { return };
    // A flow that ends before leaves the rest to the next.
    until("the source has given up twice", || {
        chain.transfer(PORT, 4 << 20);
        source.counters().pauses == 2
    });
    let sent = source.counters();
    assert!(sent.inserted == 2 && sent.paused > 1000, "{sent:?}");
    assert!(source.flows().flows().iter().any(|flow| flow.paused_until_ns > 0));
    // Another process would find the maps by their names.
    let tuple = source.flows().flows()[0].tuple;
    assert!(FlowMaps::find().iter().any(|maps| maps.flow(&tuple).is_some()));
    // Whichever flow it is.
    chain.transfer(PORT + 1, 2 << 20);
    assert_eq!(source.counters().inserted, 2);
}

#[test]
fn a_first_header_that_a_queue_drops_is_followed_by_another() {
    let test = "a_first_header_that_a_queue_drops_is_followed_by_another";
    let Some(chain) = Chain::new(test) else { return };
    run(&chain.a, "ip link set a0 gso_max_segs 1");
    slow(&chain);
    if !drop_headers(test, &chain) {
        return;
    }
    let Some(source) = opened(test, chain.a.enter(|| SourceNode::open("a0", &SourceOptions::default())).unwrap())
    else {
        return;
    };
    let mut sink = chain.b.enter(|| SinkNode::open("b0", &SinkOptions::default())).unwrap().unwrap();
    let mut emptied = None;
    flow_until(&chain, PORT, "headers come after the queue drops no more", || {
        tell(&source, &mut sink);
        if emptied.is_none() && dropped(&chain) > 0 {
            run(&chain.r, "nft delete table ip6 t");
            emptied = Some(Instant::now());
        }
        source.counters().inserted > 1000
    });
    // It asks again after twice a second, and not after the 30 s of a path of which that is known.
    assert!(emptied.unwrap().elapsed() < SOON, "{:?}", source.counters());
}

#[test]
fn headers_go_on_where_a_report_comes_and_begin_at_once_with_the_next_flow() {
    let test = "headers_go_on_where_a_report_comes_and_begin_at_once_with_the_next_flow";
    let Some(chain) = Chain::new(test) else { return };
    run(&chain.a, "ip link set a0 gso_max_segs 1");
    slow(&chain);
    let Some(source) = opened(test, chain.a.enter(|| SourceNode::open("a0", &relaxed())).unwrap()) else { return };
    let mut sink = chain.b.enter(|| SinkNode::open("b0", &SinkOptions::default())).unwrap().unwrap();
    transfer_with_reports(&chain, &source, &mut sink, PORT, 4 << 20);
    let first = source.counters();
    assert!(first.pauses == 0 && first.packets > first.paused, "{first:?}");
    transfer_with_reports(&chain, &source, &mut sink, PORT + 1, 4 << 20);
    requests(&chain, PORT + 2, 5);
    let next = source.counters();
    // What is sent again on a busy machine, where the last report is older than that, has none; the first flow had none for 0.3 s.
    let without = next.paused - first.paused;
    assert!(next.pauses == 0 && 4 * without < first.paused, "{first:?} {next:?}");
    assert!(next.packets - first.packets > 2500, "{first:?} {next:?}");
}

#[test]
fn reports_that_stop_for_some_time_are_asked_for_soon() {
    let test = "reports_that_stop_for_some_time_are_asked_for_soon";
    let Some(chain) = Chain::new(test) else { return };
    run(&chain.a, "ip link set a0 gso_max_segs 1");
    slow(&chain);
    let options = patient(Duration::from_millis(200));
    let Some(source) = opened(test, chain.a.enter(|| SourceNode::open("a0", &options)).unwrap()) else { return };
    let mut sink = chain.b.enter(|| SinkNode::open("b0", &SinkOptions::default())).unwrap().unwrap();
    // From a thousand headers on nothing is told, until the source has given up twice more.
    let (mut silent, mut stopped) = (None, None);
    flow_until(&chain, PORT, "headers come again", || {
        let sent = source.counters();
        if silent.is_none() && sent.inserted > 1000 {
            silent = Some(sent.pauses);
        }
        match (silent, &stopped) {
            (Some(before), None) if sent.pauses < before + 2 => {
                sink.reports(Duration::from_millis(20)).unwrap();
            }
            (Some(_), None) => stopped = Some((sent, Instant::now())),
            _ => tell(&source, &mut sink),
        }
        stopped.as_ref().is_some_and(|(before, _)| sent.inserted > before.inserted + 500)
    });
    // 30 s would be the pause of one that was never answered.
    let (before, since) = stopped.unwrap();
    assert!(since.elapsed() < SOON, "{before:?} {:?}", source.counters());
}

#[test]
fn flows_that_are_over_are_forgotten() {
    let test = "flows_that_are_over_are_forgotten";
    let Some(chain) = Chain::new(test) else { return };
    let Some(source) = opened(test, chain.a.enter(|| SourceNode::open("a0", &SourceOptions::default())).unwrap())
    else {
        return;
    };
    // One that is reset goes at once.
    let listener = chain.b.enter(|| TcpListener::bind((B, PORT))).unwrap().unwrap();
    let mut client = chain.a.enter(|| TcpStream::connect((B, PORT))).unwrap().unwrap();
    client.write_all(b"x").unwrap();
    assert_eq!(source.flows().flows().len(), 1);
    let (mut server, _) = listener.accept().unwrap();
    server.write_all(b"x").unwrap();
    // What has come is not read: the end is a reset.
    while client.peek(&mut [0]).unwrap() == 0 {}
    drop(client);
    assert_eq!(source.flows().flows(), []);
    // One that ended stays a while, for what may be sent again.
    chain.transfer(PORT + 1, 10_000);
    source.sweep();
    assert_eq!(source.flows().flows().len(), 1);
}
