//! Every byte arrives, and no other: whatever the controller, the sizes of the writes and the moment of the close.
#![cfg(target_os = "linux")]

mod common;

use paceline_fixture::until;
use std::io::{IoSlice, Read, Write};
use std::thread;
use std::time::Duration;

use common::{HELD, Hasher, PATIENCE, connect, engine, narrow, pair, reader, send, try_send, writes};
use paceline_alcc::{Acks, Engine, Lower, Mode, Options};
use rustix::net::sockopt;

const V4: &str = "127.0.0.1:0";
const V6: &str = "[::1]:0";

/// Writes everything, closes at once, and compares the hashes.
fn transfer(options: Options, at: &str, total: usize, largest: usize) {
    let name = format!("{} {} {at}", options.controller, options.acks);
    let engine = Engine::start(options).unwrap();
    let (socket, peer) = connect(&engine, at);
    let received = reader(peer);
    let mut hasher = Hasher::new();
    for bytes in writes(7, total, largest) {
        assert_eq!(send(&socket, &bytes).unwrap(), bytes.len());
        hasher.update(&bytes);
    }
    socket.close(PATIENCE);
    drop(socket);
    assert_eq!(received.join().unwrap(), hasher.finish(), "{name}");
    until("the engine lets go", || engine.sockets().is_empty());
}

#[test]
fn each_controller_delivers_random_small_writes_and_a_close_right_after() {
    for controller in ["copa", "verus", "cubic", "bbr", "fixed:window=20"] {
        let options = Options { controller: controller.parse().unwrap(), queue: 300_000, ..Options::default() };
        transfer(options, V4, 8_000_000, 3000);
    }
}

#[test]
fn inline_writes_arrive_and_the_rate_is_the_controllers() {
    let options = Options { mode: Mode::Inline, controller: "fixed:window=10".parse().unwrap(), ..Options::default() };
    transfer(options.clone(), V4, 3_000_000, 100_000);
    let engine = Engine::start(options).unwrap();
    let (socket, peer) = connect(&engine, V4);
    let received = reader(peer);
    for _ in 0..20 {
        send(&socket, &[1; 50_000]).unwrap();
    }
    until("all is acknowledged", || socket.stats().delivered == 1_000_000);
    assert_eq!((socket.mode(), socket.queued()), (Mode::Inline, 0));
    // Idle: no one looks. Then a write through another descriptor, of which the engine is told.
    until("nothing is in flight", || socket.stats().in_flight == 0);
    std::net::TcpStream::from(socket.try_clone().unwrap()).write_all(&[2; 1000]).unwrap();
    socket.wrote();
    until("it is seen", || socket.stats().delivered == 1_001_000);
    drop(socket);
    assert_eq!(received.join().unwrap().bytes, 1_001_000);
}

#[test]
fn a_socket_goes_over_to_inline_when_its_queue_is_empty() {
    let engine = engine(|options| options.queue = 100_000);
    let (socket, peer) = connect(&engine, V4);
    let mut hasher = Hasher::new();
    let first: Vec<u8> = writes(5, 100_000, 100_000).flatten().collect();
    hasher.update(&first);
    send(&socket, &first).unwrap();
    assert!(socket.drain(PATIENCE));
    socket.write_through().unwrap();
    let received = reader(peer);
    for bytes in writes(6, 2_000_000, 30_000) {
        send(&socket, &bytes).unwrap();
        hasher.update(&bytes);
    }
    drop(socket);
    assert_eq!(received.join().unwrap(), hasher.finish());
}

#[test]
fn large_writes_and_both_sources_of_acknowledgements() {
    for acks in [Acks::Stamps, Acks::Info] {
        transfer(Options { acks, ..Options::default() }, V4, 60_000_000, 1_000_000);
    }
}

#[test]
fn ipv6_is_as_ipv4() {
    transfer(Options::default(), V6, 8_000_000, 20_000);
    let engine = engine(|_| {});
    let (socket, peer) = connect(&engine, V6);
    let received = reader(peer);
    send(&socket, &[1; 100_000]).unwrap();
    until("all is acknowledged", || socket.stats().delivered == 100_000);
    let stats = socket.stats();
    assert_eq!((stats.acks, stats.stamps_lost, stats.in_flight), (Acks::Stamps, 0, 0));
    assert!(stats.min_rtt.is_some() && stats.peer.unwrap().is_ipv6(), "{stats:?}");
    drop(socket);
    assert_eq!(received.join().unwrap().bytes, 100_000);
}

#[test]
fn several_buffers_are_one_write_and_the_end_of_the_stream_comes_last() {
    let engine = engine(|options| options.queue = 64_000);
    let (socket, peer) = connect(&engine, V4);
    let received = reader(peer);
    let parts: Vec<Vec<u8>> = writes(3, 500_000, 9000).collect();
    let bufs: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
    assert_eq!(socket.send(&bufs, false).unwrap(), 500_000);
    socket.shutdown_write();
    assert_eq!(send(&socket, b"late").unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
    let mut hasher = Hasher::new();
    parts.iter().for_each(|part| hasher.update(part));
    assert_eq!(received.join().unwrap(), hasher.finish());
}

#[test]
fn a_stalled_peer_stops_the_application_and_loses_nothing() {
    let engine = engine(|options| options.queue = 5 * HELD);
    let (socket, mut peer) = narrow(&engine);
    let mut hasher = Hasher::new();
    // The peer reads nothing: the kernel's buffers fill, then the queue.
    let mut refused = 0;
    for bytes in writes(11, 60_000_000, 5000) {
        match try_send(&socket, &bytes) {
            Ok(taken) => hasher.update(&bytes[..taken]),
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
                refused += 1;
                if refused > 50 {
                    break;
                }
                thread::sleep(Duration::from_millis(5));
            }
        }
    }
    assert!(refused > 50, "the peer took everything without reading");
    assert!(socket.room() <= HELD, "{}", socket.room());
    assert!(!socket.drain(Duration::from_millis(20)));
    let received = reader(peer.try_clone().unwrap());
    assert!(socket.drain(PATIENCE));
    // The other direction is the application's own.
    peer.write_all(b"hello").unwrap();
    let mut back = [0; 5];
    std::net::TcpStream::from(socket.try_clone().unwrap()).read_exact(&mut back).unwrap();
    assert_eq!(&back, b"hello");
    drop(socket);
    drop(peer);
    assert_eq!(received.join().unwrap(), hasher.finish());
}

#[test]
fn writers_in_several_threads_lose_nothing() {
    let engine = engine(|options| options.queue = 100_000);
    let (socket, peer) = connect(&engine, V4);
    let received = reader(peer);
    thread::scope(|scope| {
        for n in 0..4 {
            let socket = &socket;
            scope.spawn(move || {
                for bytes in writes(n, 1_000_000, 4000) {
                    assert_eq!(send(socket, &bytes).unwrap(), bytes.len());
                }
            });
        }
    });
    drop(socket);
    assert_eq!(received.join().unwrap().bytes, 4_000_000);
}

#[test]
fn what_is_no_connected_tcp_socket_is_refused() {
    let engine = engine(|_| {});
    let udp = std::net::UdpSocket::bind(V4).unwrap();
    assert!(engine.adopt(udp.into()).is_err());
    let listener = std::net::TcpListener::bind(V4).unwrap();
    assert_eq!(engine.adopt(listener.into()).err().unwrap().kind(), std::io::ErrorKind::NotConnected);
    let sprout = Engine::start(Options { controller: "sprout".parse().unwrap(), ..Options::default() }).unwrap();
    let error = sprout.adopt(pair(V4).0.into()).err().unwrap();
    assert!(error.to_string().contains("receiver half"), "{error}");
    let nothing = Engine::start(Options { lower: Lower::Named("nonsense".to_owned()), ..Options::default() }).unwrap();
    let error = nothing.adopt(pair(V4).0.into()).err().unwrap();
    assert!(error.to_string().contains("'nonsense'"), "{error}");
}

#[test]
fn verus_runs_above_reno_unless_the_program_keeps_its_own() {
    let below = |lower: Lower, mode: Mode| {
        let controller = "verus".parse().unwrap();
        let engine = Engine::start(Options { controller, lower, mode, ..Options::default() }).unwrap();
        let (ours, _peer) = pair(V4);
        let (socket, own) = (ours.try_clone().unwrap(), sockopt::tcp_congestion(&ours).unwrap());
        let _adopted = engine.adopt(ours.into()).unwrap();
        (sockopt::tcp_congestion(&socket).unwrap(), own)
    };
    assert_eq!(below(Lower::Auto, Mode::Queue).0, "reno");
    for (lower, mode) in [(Lower::Keep, Mode::Queue), (Lower::Auto, Mode::Inline)] {
        let (now, own) = below(lower, mode);
        assert_eq!(now, own);
    }
}
