//! Datagrams of UDP with telemetry, from a host through a router to another one.
#![cfg(target_os = "linux")]

mod nodes;

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt::UdpGsoSegment};
use nodes::{A, B, Chain, opened, reports_of, run};
use paceline_int::{SinkNode, SinkOptions, SourceNode, SourceOptions, TransitNode, TransitOptions};

const PORT: u16 = 5209;

fn with_udp() -> SourceOptions {
    SourceOptions { ports: vec![PORT], patience: None, full_every: 0, udp: true, ..SourceOptions::default() }
}

/// Connected sockets of a and b.
fn sockets(chain: &Chain) -> (UdpSocket, UdpSocket) {
    let bound = |namespace: &paceline_linux::namespace::Namespace, at: SocketAddr| {
        let socket = namespace.enter(|| UdpSocket::bind(at)).unwrap().unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        socket
    };
    let (near, far) = (bound(&chain.a, (A, 0).into()), bound(&chain.b, (B, PORT).into()));
    near.connect((B, PORT)).unwrap();
    (near, far)
}

/// What arrived is what was sent, in its order.
fn arrives(far: &UdpSocket, payloads: &[Vec<u8>]) {
    let mut buffer = vec![0; 1 << 16];
    for payload in payloads {
        let length = far.recv(&mut buffer).unwrap();
        assert_eq!((length, &buffer[..length]), (payload.len(), payload.as_slice()));
    }
}

fn payloads(count: u8, octets: usize) -> Vec<Vec<u8>> {
    (0..count).map(|which| vec![which; octets]).collect()
}

#[test]
fn datagrams_have_headers_where_that_is_asked_for() {
    let test = "datagrams_have_headers_where_that_is_asked_for";
    let Some(chain) = Chain::new(test) else { return };
    let Some(source) = opened(test, chain.a.enter(|| SourceNode::open("a0", &with_udp())).unwrap()) else { return };
    let options = TransitOptions { node: Some(7), ..TransitOptions::default() };
    let transit = chain.r.enter(|| TransitNode::open("r1", &options)).unwrap().unwrap();
    let options = SinkOptions { synced: true, udp: true, ..SinkOptions::default() };
    let mut sink = chain.b.enter(|| SinkNode::open("b0", &options)).unwrap().unwrap();
    let (near, far) = sockets(&chain);
    let sent = payloads(50, 1000);
    // Too short for one, and too long.
    let (short, long) = (vec![7; 4], vec![9; 1452]);
    let reports = reports_of(&mut sink, || {
        for payload in &sent {
            near.send(payload).unwrap();
        }
        arrives(&far, &sent);
        near.send(&short).unwrap();
        near.send(&long).unwrap();
        arrives(&far, &[short, long]);
    });
    let (left, passed, taken) = (source.counters(), transit.counters(), sink.counters());
    assert_eq!((left.inserted, left.packets, left.too_big, left.failed), (50, 50, 1, 0), "{left:?}");
    assert!(left.other_protocol >= 1, "{left:?}");
    assert_eq!((passed.written, passed.failed), (50, 0), "{passed:?}");
    assert_eq!((taken.taken, taken.foreign_flow, taken.failed), (50, 0, 0), "{taken:?}");
    let flow = source.flows().flows()[0];
    assert_eq!((flow.tuple.src, flow.tuple.dst, flow.tuple.dport, flow.sequence), (A, B, PORT, 50));
    assert_ne!(flow.cookie, 0);
    let expected: u32 = reports.iter().map(|report| report.exp).sum();
    assert!(reports.iter().all(|report| report.tuple == flow.tuple && report.lost() == 0), "{reports:?}");
    assert!((49..=50).contains(&expected), "{reports:?}");
    let hop = reports.last().and_then(|report| report.hops.first()).unwrap();
    assert_eq!((reports.last().unwrap().hops.len(), hop.node), (1, 7));
}

#[test]
fn a_buffer_of_datagrams_has_headers_on_each() {
    let test = "a_buffer_of_datagrams_has_headers_on_each";
    let Some(chain) = Chain::new(test) else { return };
    let Some(source) = opened(test, chain.a.enter(|| SourceNode::open("a0", &with_udp())).unwrap()) else { return };
    let options = SinkOptions { udp: true, ..SinkOptions::default() };
    let mut sink = chain.b.enter(|| SinkNode::open("b0", &options)).unwrap().unwrap();
    let (near, far) = sockets(&chain);
    setsockopt(&near, UdpGsoSegment, &1200).unwrap();
    let sent = payloads(20, 1200);
    let reports = reports_of(&mut sink, || {
        near.send(&sent.concat()).unwrap();
        arrives(&far, &sent);
    });
    let (left, taken) = (source.counters(), sink.counters());
    assert_eq!((left.inserted, left.packets, left.failed), (1, 20, 0), "{left:?}");
    assert_eq!((taken.packets, taken.failed, taken.foreign_flow), (20, 0, 0), "{taken:?}");
    assert!(!reports.is_empty() && reports.iter().all(|report| report.lost() == 0), "{reports:?}");
}

#[test]
fn headers_of_datagrams_are_read_where_that_is_asked_for_and_a_socket_is_there() {
    let test = "headers_of_datagrams_are_read_where_that_is_asked_for_and_a_socket_is_there";
    let Some(chain) = Chain::new(test) else { return };
    let Some(_source) = opened(test, chain.a.enter(|| SourceNode::open("a0", &with_udp())).unwrap()) else { return };
    let sent = payloads(10, 600);
    for (udp, receives) in [(false, true), (true, false)] {
        let options = SinkOptions { udp, ..SinkOptions::default() };
        let mut sink = chain.b.enter(|| SinkNode::open("b0", &options)).unwrap().unwrap();
        let (near, far) = sockets(&chain);
        let far = receives.then_some(far);
        let reports = reports_of(&mut sink, || {
            for payload in &sent {
                // A closed port answers, and the next call says so.
                let _ = near.send(payload);
            }
            if let Some(far) = &far {
                arrives(far, &sent);
            }
        });
        let taken = sink.counters();
        assert!(taken.taken >= 5 && taken.foreign_flow == taken.taken, "{udp} {taken:?}");
        assert!(reports.is_empty(), "{reports:?}");
    }
}

#[test]
fn one_of_two_flows_with_the_same_ends_has_headers() {
    let test = "one_of_two_flows_with_the_same_ends_has_headers";
    let Some(chain) = Chain::new(test) else { return };
    let Some(source) = opened(test, chain.a.enter(|| SourceNode::open("a0", &with_udp())).unwrap()) else { return };
    let options = SinkOptions { udp: true, ..SinkOptions::default() };
    let _sink = chain.b.enter(|| SinkNode::open("b0", &options)).unwrap().unwrap();
    let listener = chain.b.enter(|| std::net::TcpListener::bind((B, PORT))).unwrap().unwrap();
    let client = chain.a.enter(|| std::net::TcpStream::connect((B, PORT))).unwrap().unwrap();
    let (_, far) = sockets(&chain);
    let near = chain.a.enter(|| UdpSocket::bind(client.local_addr().unwrap())).unwrap().unwrap();
    near.connect((B, PORT)).unwrap();
    let sent = payloads(10, 600);
    let send = || {
        sent.iter().for_each(|payload| assert_eq!(near.send(payload).unwrap(), 600));
        arrives(&far, &sent);
    };
    send();
    assert_eq!(source.counters().packets, 10);
    // Data of the connection, whose ends are those of the datagrams.
    chain.send_over(client, &listener, 200_000);
    let counted = source.counters();
    assert_eq!((counted.packets, source.flows().flows().len()), (10, 1), "{counted:?}");
    assert!(counted.not_selected > 0, "{counted:?}");
}

#[test]
fn a_narrower_path_loses_few_datagrams() {
    let test = "a_narrower_path_loses_few_datagrams";
    let Some(chain) = Chain::new(test) else { return };
    let Some(source) = opened(test, chain.a.enter(|| SourceNode::open("a0", &with_udp())).unwrap()) else { return };
    let options = SinkOptions { udp: true, ..SinkOptions::default() };
    let _sink = chain.b.enter(|| SinkNode::open("b0", &options)).unwrap().unwrap();
    run(&chain.r, "ip link set r1 mtu 1300");
    let (near, far) = sockets(&chain);
    // 1248 octets with its headers, and too many with telemetry.
    let sent = payloads(3, 1200);
    // What the router says comes back with an error of the socket.
    let _ = near.send(&sent[0]);
    std::thread::sleep(Duration::from_millis(100));
    for payload in &sent[1..] {
        while near.send(payload).is_err() {}
    }
    arrives(&far, &sent[1..]);
    let counted = source.counters();
    assert_eq!((counted.inserted, counted.path_mtus, counted.too_big), (1, 1, 2), "{counted:?}");
}
