//! A source whose headers do not arrive, or of which no report comes: flows are as without it.
#![cfg(target_os = "linux")]

mod nodes;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use nodes::{B, Chain, has, opened, run};
use paceline_int::{FlowMaps, SinkNode, SinkOptions, SourceNode, SourceOptions};

const PORT: u16 = 5204;

fn patient(patience: Duration) -> SourceOptions {
    SourceOptions { patience: Some(patience), ..SourceOptions::default() }
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

/// A transfer while what the sink reports is told to the source.
fn transfer_with_reports(chain: &Chain, source: &SourceNode, sink: &mut SinkNode, port: u16, octets: usize) {
    transfer_while(chain, source, sink, port, octets, || ());
}

/// The same, with something to do after each look at the reports.
fn transfer_while(
    chain: &Chain,
    source: &SourceNode,
    sink: &mut SinkNode,
    port: u16,
    octets: usize,
    mut then: impl FnMut(),
) {
    thread::scope(|scope| {
        let working = scope.spawn(|| chain.transfer(port, octets));
        while !working.is_finished() {
            for report in sink.reports(Duration::from_millis(20)).unwrap() {
                source.reported(&report.tuple).unwrap();
            }
            then();
        }
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
    // Of many packets one asks, and another when a second has passed twice; no other flow to this address does, for 30 s.
    chain.transfer(PORT + 1, 10 << 20);
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
    chain.transfer(PORT, 4 << 20);
    let sent = source.counters();
    assert!(sent.inserted == 2 && sent.pauses == 2 && sent.paused > 1000, "{sent:?}");
    assert!(source.flows().flows()[0].paused_until_ns > 0);
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
    let mut drops = true;
    transfer_while(&chain, &source, &mut sink, PORT, 12 << 20, || {
        if drops && dropped(&chain) > 0 {
            run(&chain.r, "nft delete table ip6 t");
            drops = false;
        }
    });
    let sent = source.counters();
    assert!(!drops && sent.pauses == 1 && sent.inserted > 1000, "{sent:?}");
}

#[test]
fn headers_go_on_where_a_report_comes_and_begin_at_once_with_the_next_flow() {
    let test = "headers_go_on_where_a_report_comes_and_begin_at_once_with_the_next_flow";
    let Some(chain) = Chain::new(test) else { return };
    run(&chain.a, "ip link set a0 gso_max_segs 1");
    slow(&chain);
    let options = SourceOptions::default();
    let Some(source) = opened(test, chain.a.enter(|| SourceNode::open("a0", &options)).unwrap()) else { return };
    let mut sink = chain.b.enter(|| SinkNode::open("b0", &SinkOptions::default())).unwrap().unwrap();
    transfer_with_reports(&chain, &source, &mut sink, PORT, 4 << 20);
    let first = source.counters();
    assert!(first.pauses == 0 && first.packets > first.paused, "{first:?}");
    transfer_with_reports(&chain, &source, &mut sink, PORT + 1, 4 << 20);
    requests(&chain, PORT + 2, 5);
    let next = source.counters();
    assert!(next.pauses == 0 && next.paused == first.paused && next.packets > first.packets + 3000, "{next:?}");
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
    let mut stopped = None;
    thread::scope(|scope| {
        let working = scope.spawn(|| chain.transfer(PORT, 12 << 20));
        while !working.is_finished() {
            let reports = sink.reports(Duration::from_millis(20)).unwrap();
            let sent = source.counters();
            // From a thousand headers on, until the source has given up twice: 30 s would be the pause of one that was never answered.
            if sent.inserted > 1000 && sent.pauses < 2 {
                continue;
            }
            stopped = stopped.or((sent.pauses == 2).then_some(sent));
            reports.iter().for_each(|report| source.reported(&report.tuple).unwrap());
        }
    });
    let (before, after) = (stopped.expect("it gave up"), source.counters());
    assert!(after.inserted > before.inserted + 500, "{before:?} {after:?}");
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
