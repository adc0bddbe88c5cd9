//! Bytes that other code writes past the queue: in order while it is empty, found while it is not, and never reported where
//! there are none.
#![cfg(target_os = "linux")]

mod common;

use paceline_fixture::until;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use common::{HELD, Hasher, PATIENCE, Sum, connect, engine, fill, narrow, reader, send, writes};
use paceline_alcc::{Acks, Engine, Hooks, Options, Socket};
use rand::RngExt;
use rand_pcg::Pcg64;

const V4: &str = "127.0.0.1:0";

/// Another descriptor of the socket, as code has that knows nothing of us.
fn another_writer(socket: &Socket) -> TcpStream {
    TcpStream::from(socket.try_clone().unwrap())
}

/// How a stream ended.
#[derive(Debug, PartialEq)]
enum Ended {
    /// In order, with all of these.
    After(Vec<u8>),
    Reset,
}

/// Reads until the end or the reset.
fn read_out(peer: &mut TcpStream) -> Ended {
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut bytes = Vec::new();
    match peer.read_to_end(&mut bytes) {
        Ok(_) => Ended::After(bytes),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
            Ended::Reset
        }
    }
}

static CALLS: AtomicU32 = AtomicU32::new(0);

/// Counts the calls of the engine's hook.
const HOOKS: Hooks = Hooks {
    enter: || {},
    bypassed: || {
        CALLS.fetch_add(1, Ordering::Relaxed);
    },
};

#[test]
fn bytes_that_overtake_the_queue_reset_the_connection() {
    let mut found = 0;
    for acks in [Acks::Stamps, Acks::Info] {
        for bytes in [1, 1000] {
            // One packet at a time: the queue waits for the window, and TCP has room for others.
            let controller = "fixed:window=1".parse().unwrap();
            let options = Options { acks, controller, queue: 5 * HELD, ..Options::default() };
            let engine = Engine::start_with(options, HOOKS).unwrap();
            let (socket, mut peer) = narrow(&engine);
            fill(&socket);
            let mut other = another_writer(&socket);
            other.write_all(&vec![7; bytes]).unwrap();
            socket.close(PATIENCE);
            assert_eq!(read_out(&mut peer), Ended::Reset, "{acks} {bytes}");
            found += 1;
            until("the engine lets go", || engine.sockets().is_empty());
            assert_eq!((engine.past().bypassed, CALLS.load(Ordering::Relaxed)), (1, found));
        }
    }
}

#[test]
fn bytes_that_come_as_the_queue_empties_are_in_order_or_reset_the_connection() {
    for acks in [Acks::Stamps, Acks::Info] {
        for bytes in [1, 1000] {
            let engine = engine(|options| (options.acks, options.queue) = (acks, 5 * HELD));
            let (socket, mut peer) = narrow(&engine);
            let ours = fill(&socket);
            let mut other = another_writer(&socket);
            other.set_nonblocking(true).unwrap();
            // The kernel takes some of it when there is room: before the last of the queue, or after it.
            let overtaking = thread::spawn(move || {
                let mut left = vec![7; bytes];
                until("the kernel takes it", || match other.write(&left) {
                    Ok(taken) => {
                        left.drain(..taken);
                        left.is_empty()
                    }
                    Err(error) => error.kind() != ErrorKind::WouldBlock,
                });
            });
            socket.close(PATIENCE);
            let ended = read_out(&mut peer);
            overtaking.join().unwrap();
            if let Ended::After(stream) = ended {
                let (first, last) = stream.split_at(ours);
                let in_order = first.iter().all(|&byte| byte == 5) && last == vec![7; bytes];
                assert!(in_order, "{acks} {bytes}: others' bytes are among ours");
            }
        }
    }
}

#[test]
fn bytes_of_others_are_in_order_while_the_queue_is_empty() {
    for acks in [Acks::Stamps, Acks::Info] {
        let engine = engine(|options| (options.acks, options.queue) = (acks, 300_000));
        let (socket, peer) = connect(&engine, V4);
        let received = reader(peer);
        let (mut hasher, mut other, mut ours) = (Hasher::new(), another_writer(&socket), 0);
        for round in 0..200_usize {
            let bytes: Vec<u8> = writes(round as u64, 120_000, 120_000).flatten().collect();
            // A part that leaves at once, and one that waits in the queue.
            let bytes = &bytes[..if round % 2 == 0 { 900 } else { 120_000 }];
            send(&socket, bytes).unwrap();
            hasher.update(bytes);
            ours += bytes.len() as u64;
            assert!(socket.drain(PATIENCE));
            other.write_all(&bytes[..500]).unwrap();
            hasher.update(&bytes[..500]);
        }
        until("all is acknowledged", || socket.stats().in_flight == 0);
        let stats = socket.stats();
        assert_eq!((stats.bypassed, stats.delivered), (false, ours));
        drop((socket, other));
        assert_eq!(received.join().unwrap(), hasher.finish(), "{acks}");
    }
}

/// Reads at an uneven pace to the end.
fn uneven_reader(mut peer: TcpStream, seed: u64) -> thread::JoinHandle<Sum> {
    thread::spawn(move || {
        let (mut hasher, mut random, mut buffer) = (Hasher::new(), Pcg64::new(seed.into(), 3), vec![0; 200_000]);
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        loop {
            // Now and then its window closes.
            if random.random_bool(0.01) {
                thread::sleep(Duration::from_millis(random.random_range(1..30)));
            }
            let most = random.random_range(1..buffer.len());
            match peer.read(&mut buffer[..most]).unwrap() {
                0 => return hasher.finish(),
                read => hasher.update(&buffer[..read]),
            }
        }
    })
}

/// Writes of all sizes, so that the queue fills and empties all the time; no bytes but ours.
fn write_unevenly(socket: &Socket, rounds: u64, seed: u64) -> Sum {
    let (mut hasher, mut random) = (Hasher::new(), Pcg64::new(seed.into(), 2));
    for round in 0..rounds {
        let size = [1, 700, 3000, 20_000, 70_000, 200_000][random.random_range(0..6_usize)];
        let bytes: Vec<u8> = writes(seed + round, size, size).flatten().collect();
        send(socket, &bytes).unwrap();
        hasher.update(&bytes);
        match random.random_range(0..4) {
            0 => assert!(socket.drain(PATIENCE)),
            1 => thread::yield_now(),
            _ => {}
        }
    }
    hasher.finish()
}

#[test]
fn thousands_of_busy_periods_raise_no_alarm() {
    for (acks, controller) in [(Acks::Stamps, "copa"), (Acks::Info, "copa"), (Acks::Stamps, "fixed:window=4")] {
        let engine = engine(|options| {
            (options.acks, options.queue) = (acks, 100_000);
            options.controller = controller.parse().unwrap();
        });
        thread::scope(|scope| {
            for seed in 0..4 {
                let engine = &engine;
                scope.spawn(move || {
                    let (socket, peer) = if seed % 2 == 0 { narrow(engine) } else { connect(engine, V4) };
                    let received = uneven_reader(peer, seed);
                    let written = write_unevenly(&socket, 600, seed);
                    drop(socket);
                    assert_eq!(received.join().unwrap(), written, "{acks} {controller}");
                });
            }
        });
        until("the engine lets go", || engine.sockets().is_empty());
        assert_eq!(engine.past().bypassed, 0);
    }
}

#[test]
fn a_peer_that_has_ended_its_stream_raises_no_alarm() {
    let engine = engine(|options| options.queue = 5 * HELD);
    let (socket, peer) = narrow(&engine);
    peer.shutdown(std::net::Shutdown::Write).unwrap();
    let written = fill(&socket);
    let received = reader(peer);
    socket.shutdown_write();
    assert_eq!(received.join().unwrap().bytes, written as u64);
    assert!(!socket.stats().bypassed);
}
