//! What passes as it came: other headers, other protocols, what does not fit. And what ends with its owner.
#![cfg(target_os = "linux")]

mod nodes;

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nodes::{A, B, Chain, ETHERNET, Frames, frame, opened, reports_of, run, telemetry};
use paceline_int::{
    NodeError, SinkNode, SinkOptions, SourceNode, SourceOptions, TransitCounters, TransitNode, TransitOptions,
};
use paceline_telemetry::{Edge, RecordProfile, TelemetryHeader};

const PORT: u16 = 5203;

fn always() -> SourceOptions {
    SourceOptions { patience: None, ..SourceOptions::default() }
}

/// A TCP segment that asks for a connection to a port where there is none, with a checksum that nothing looks at before the host.
fn segment() -> Vec<u8> {
    let mut out = vec![0; 20];
    out[..4].copy_from_slice(&[0x30, 0x39, 0x30, 0x3a]);
    out[12..14].copy_from_slice(&[0x50, 0x10]);
    out
}

/// A header of telemetry in front of a segment.
fn ours() -> Vec<u8> {
    TelemetryHeader::new(RecordProfile::Lean, 2, Edge { segs: 1, ..Edge::default() }).encode()
}

#[test]
fn foreign_headers_pass_untouched() {
    let test = "foreign_headers_pass_untouched";
    let Some(chain) = Chain::new(test) else { return };
    let Some(source) = opened(test, chain.a.enter(|| SourceNode::open("a0", &always())).unwrap()) else { return };
    let transit = chain.r.enter(|| TransitNode::open("r1", &TransitOptions::default())).unwrap().unwrap();
    let sink = chain.b.enter(|| SinkNode::open("b0", &SinkOptions::default())).unwrap().unwrap();
    let (out, wire) = (Frames::open(&chain.a, "a0"), Frames::open(&chain.b, "b0"));
    // The neighbours are known from here on.
    chain.transfer(PORT, 1000);
    wire.drain();
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut header = ours();
        change(&mut header);
        header
    };
    let padding = vec![6, 0, 1, 4, 0, 0, 0, 0];
    // Next header, its octets; what the hop counts.
    type Counted = fn(&TransitCounters) -> u64;
    let word = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut header = TelemetryHeader::new(RecordProfile::Word, 1, Edge { segs: 1, ..Edge::default() }).encode();
        change(&mut header);
        header
    };
    let cases: [(&str, u8, Vec<u8>, Counted); 11] = [
        ("another namespace", 0, changed(&|header| header[9] = 3), |hop| hop.unknown_namespace),
        ("another trace type: the word of the first namespace", 0, word(&|header| header[9] = 1), |hop| {
            hop.unknown_profile
        }),
        ("another length of the word", 0, word(&|header| header[11] = 1), |hop| hop.unknown_profile),
        ("another length: a word of no signal", 0, word(&|header| header[16] = 3), |hop| hop.unknown_profile),
        ("another trace type", 0, changed(&|header| header[12] = 0xc7), |hop| hop.unknown_profile),
        ("another length of records", 0, changed(&|header| header[10] = 5 << 3), |hop| hop.unknown_profile),
        ("more room than octets", 0, changed(&|header| header[11] = 9), |hop| hop.unknown_profile),
        ("an incremental trace", 0, changed(&|header| header[7] = 1), |hop| hop.foreign_header),
        ("padding alone", 0, padding.clone(), |hop| hop.foreign_header),
        ("a destination header", 60, padding, |_| 1),
        ("a fragment", 44, vec![6, 0, 0, 0, 0, 0, 0, 1], |_| 1),
    ];
    for (what, next_header, header, counted) in cases {
        let before = (source.counters(), sink.counters(), counted(&transit.counters()));
        let sent = frame(&chain, next_header, &[header, segment()].concat());
        out.send(&sent);
        let arrived = wire.drain();
        // Addresses of the link and the hop limit are the router's.
        let same = |frame: &Vec<u8>| {
            frame[ETHERNET..ETHERNET + 7] == sent[ETHERNET..ETHERNET + 7]
                && frame[ETHERNET + 8..] == sent[ETHERNET + 8..]
        };
        assert!(arrived.iter().any(same), "{what}: {arrived:x?}");
        let after = (source.counters(), sink.counters(), counted(&transit.counters()));
        assert_eq!(after.0.inserted, before.0.inserted, "{what}");
        // Ours by its namespace, though it cannot be read.
        let reads = what.starts_with("another trace") || what.starts_with("another length") || what.starts_with("more");
        assert_eq!(after.1.taken, before.1.taken + u64::from(reads), "{what}");
        if next_header == 0 {
            assert_eq!(after.0.foreign_header, before.0.foreign_header + 1, "{what}");
            let left = |counters: &paceline_int::SinkCounters| counters.foreign_header + counters.unknown_namespace;
            assert!(left(&after.1) == left(&before.1) + 1 || reads, "{what}: {:?}", after.1);
            assert_eq!(after.2, before.2 + 1, "{what}: {:?}", transit.counters());
        }
    }
    assert!(source.counters().fragments >= 1);
}

#[test]
fn what_is_not_tcp_over_ipv6_has_no_header() {
    let test = "what_is_not_tcp_over_ipv6_has_no_header";
    let Some(chain) = Chain::new(test) else { return };
    for (namespace, line) in [
        (&chain.a, "ip addr add 10.1.0.1/24 dev a0"),
        (&chain.r, "ip addr add 10.1.0.2/24 dev r0"),
        (&chain.r, "ip addr add 10.2.0.2/24 dev r1"),
        (&chain.b, "ip addr add 10.2.0.1/24 dev b0"),
        (&chain.a, "ip route add default via 10.1.0.2"),
        (&chain.b, "ip route add default via 10.2.0.2"),
    ] {
        run(namespace, line);
    }
    let Some(source) = opened(test, chain.a.enter(|| SourceNode::open("a0", &always())).unwrap()) else { return };
    let sink = chain.b.enter(|| SinkNode::open("b0", &SinkOptions::default())).unwrap().unwrap();
    chain.transfer_to(([10, 2, 0, 1], PORT).into(), 100_000);
    let udp = || {
        let socket = std::net::UdpSocket::bind((A, 0)).unwrap();
        for _ in 0..10 {
            // The last is longer than the MTU: fragments.
            socket.send_to(&[1; 3000], (B, PORT)).unwrap();
        }
    };
    chain.a.enter(udp).unwrap();
    let sent = source.counters();
    assert!(sent.not_ipv6 > 0 && sent.fragments > 0, "{sent:?}");
    assert_eq!((sent.inserted, sink.counters().taken), (0, 0), "{sent:?}");
}

#[test]
fn what_would_not_fit_has_no_header() {
    let test = "what_would_not_fit_has_no_header";
    let Some(chain) = Chain::new(test) else { return };
    // A connection from before the source: its segments fill the MTU.
    let listener = chain.b.enter(|| TcpListener::bind((B, PORT))).unwrap().unwrap();
    let client = chain.a.enter(|| TcpStream::connect((B, PORT))).unwrap().unwrap();
    let Some(source) = opened(test, chain.a.enter(|| SourceNode::open("a0", &always())).unwrap()) else { return };
    let sink = chain.b.enter(|| SinkNode::open("b0", &SinkOptions::default())).unwrap().unwrap();
    chain.send_over(client, &listener, 500_000);
    let sent = source.counters();
    assert!(sent.too_big > 300 && sent.too_big > 10 * sent.packets, "{sent:?}");
    assert_eq!(sink.counters().packets, sent.packets);
    drop(source);
    // The least MTU of IPv6, where it leaves room: a header on everything.
    for (namespace, name) in [(&chain.a, "a0"), (&chain.r, "r0"), (&chain.r, "r1"), (&chain.b, "b0")] {
        run(namespace, &format!("ip link set {name} mtu 1280"));
    }
    let source = chain.a.enter(|| SourceNode::open("a0", &always())).unwrap().unwrap();
    chain.transfer(PORT + 1, 500_000);
    let sent = source.counters();
    assert!(sent.too_big == 0 && sent.packets > 500_000 / 1208, "{sent:?}");
    // A narrower path behind the interface: the kernel learns it, and what would be too long for it goes bare.
    run(&chain.a, "ip link set a0 mtu 1500");
    run(&chain.r, "ip link set r0 mtu 1500");
    run(&chain.b, "ip link set b0 mtu 1500");
    run(&chain.r, "ip link set r1 mtu 1400");
    chain.transfer(PORT + 2, 500_000);
    let sent = source.counters();
    assert!(sent.path_mtus == 1 && sent.too_big > 200, "{sent:?}");
    // What came of it is known to the next one.
    chain.transfer(PORT + 3, 500_000);
    assert_eq!(source.counters().path_mtus, 1);
}

#[test]
fn a_full_ring_is_counted_and_stops_nothing() {
    let test = "a_full_ring_is_counted_and_stops_nothing";
    let Some(chain) = Chain::new(test) else { return };
    run(&chain.a, "ip link set a0 gso_max_segs 1");
    let Some(source) = opened(test, chain.a.enter(|| SourceNode::open("a0", &always())).unwrap()) else { return };
    let options = SinkOptions { ring_bytes: 4096, ..SinkOptions::default() };
    let mut sink = chain.b.enter(|| SinkNode::open("b0", &options)).unwrap().unwrap();
    chain.transfer(PORT, 1 << 20);
    let (sent, taken) = (source.counters(), sink.counters());
    assert_eq!((taken.packets, taken.failed), (sent.packets, 0));
    assert!(taken.ring_full > 0 && taken.ring_full < taken.packets, "{taken:?}");
    // What is in it is read still.
    assert!(!reports_of(&mut sink, || ()).is_empty());
}

/// Not a test: what the next one ends.
#[test]
fn holds_a_source_for_another_test() {
    let Ok(interface) = std::env::var("PACELINE_INT_HOLD") else { return };
    let options = SourceOptions {
        hook: std::env::var("PACELINE_INT_FILTER").ok().map(|_| paceline_int::Hook::Clsact),
        ..always()
    };
    let _source = SourceNode::open(&interface, &options).unwrap();
    println!("ready");
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn nothing_is_left_of_a_source_that_is_killed() {
    let test = "nothing_is_left_of_a_source_that_is_killed";
    let Some(chain) = Chain::new(test) else { return };
    let options = always();
    let Some(source) = opened(test, chain.a.enter(|| SourceNode::open("a0", &options)).unwrap()) else { return };
    drop(source);
    let sink = chain.b.enter(|| SinkNode::open("b0", &SinkOptions::default())).unwrap().unwrap();
    for filter in [false, true] {
        let start = || {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", "holds_a_source_for_another_test", "--nocapture"]);
            command.env("PACELINE_INT_HOLD", "a0").stdout(Stdio::piped());
            if filter {
                command.env("PACELINE_INT_FILTER", "");
            }
            command.spawn().unwrap()
        };
        let mut holder = chain.a.enter(start).unwrap();
        let output = BufReader::new(holder.stdout.take().unwrap());
        assert!(output.lines().any(|line| line.unwrap().contains("ready")));
        let before = sink.counters().taken;
        chain.transfer(PORT, 10_000);
        assert!(sink.counters().taken > before, "{filter}");
        // SIGKILL.
        holder.kill().unwrap();
        holder.wait().unwrap();
        let gone = || {
            let shown = ["ingress", "egress"].map(|side| run(&chain.a, &format!("tc filter show dev a0 {side}")));
            shown.iter().all(String::is_empty) && !run(&chain.a, "tc qdisc show dev a0").contains("clsact")
        };
        let end = Instant::now() + Duration::from_secs(20);
        while !gone() {
            assert!(Instant::now() < end, "{}", run(&chain.a, "tc qdisc show dev a0"));
            std::thread::sleep(Duration::from_millis(20));
        }
        let before = sink.counters().taken;
        let wire = Frames::open(&chain.b, "b0");
        chain.transfer(PORT, 10_000);
        assert_eq!(sink.counters().taken, before, "{filter}");
        assert!(wire.drain().iter().all(|frame| telemetry(frame).is_none()));
    }
}

#[test]
fn what_cannot_be_is_said_in_a_line() {
    let none = |error: Option<NodeError>| error.unwrap().to_string();
    assert_eq!(
        none(SourceNode::open("nosuch0", &SourceOptions::default()).err()),
        "nosuch0: there is no such interface here; see ip link"
    );
    let wrong = SourceOptions { cgroup: Some("/nosuch".into()), ..SourceOptions::default() };
    let said = none(SourceNode::open("lo", &wrong).err());
    assert!(said.starts_with("cgroup: /nosuch: ") && said.lines().count() == 1, "{said}");
    let wrong = TransitOptions { node: Some(1 << 24), ..TransitOptions::default() };
    assert_eq!(
        none(TransitNode::open("lo", &wrong).err()),
        "node: 16777216 has more than 24 bits; take one below 16777216"
    );
    let wrong = SinkOptions { ring_bytes: 5000, ..SinkOptions::default() };
    assert_eq!(none(SinkNode::open("lo", &wrong).err()), "ring bytes: 5000 is not a power of two from 4096 on");
}
