//! How connections end: whole for as long as the peer takes something, and by a reset where anything is dropped.
#![cfg(target_os = "linux")]

mod common;

use paceline_fixture::until;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::{HELD, PATIENCE, connect, engine, fill, narrow, reader, send};
use rustix::net::sockopt;

const V4: &str = "127.0.0.1:0";

/// A queue beside which what the kernel holds is little.
const LARGE: usize = 5 * HELD;

/// Reads to the end: how many bytes, and whether it was one or a reset.
fn ending(stream: &mut TcpStream) -> (usize, Result<(), ErrorKind>) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut count, mut sink) = (0, vec![0; 1 << 20]);
    loop {
        match stream.read(&mut sink) {
            Ok(0) => return (count, Ok(())),
            Ok(read) => count += read,
            Err(error) => return (count, Err(error.kind())),
        }
    }
}

/// Reads `total` bytes in parts with pauses between, then to the end.
fn read_slowly(stream: &mut TcpStream, total: usize, parts: usize, pause: Duration) -> (usize, Result<(), ErrorKind>) {
    let mut part = vec![0; total / parts];
    for _ in 0..parts {
        thread::sleep(pause);
        if let Err(error) = stream.read_exact(&mut part) {
            return (0, Err(error.kind()));
        }
    }
    let (rest, end) = ending(stream);
    (total / parts * parts + rest, end)
}

#[test]
fn a_close_lingers_for_as_long_as_the_peer_takes_something() {
    let engine = engine(|options| options.queue = LARGE);
    let (socket, mut peer) = narrow(&engine);
    let written = fill(&socket);
    let (linger, start) = (Duration::from_secs(1), Instant::now());
    socket.close(linger);
    drop(socket);
    // Each part is more than what the buffers hold back, so that the peer's window opens at each.
    let (read, end) = read_slowly(&mut peer, written, 8, linger / 3);
    assert!(start.elapsed() > 2 * linger);
    assert_eq!((read, end), (written, Ok(())));
    until("the engine lets go", || engine.sockets().is_empty());
}

#[test]
fn a_drain_waits_for_as_long_as_the_peer_takes_something() {
    let engine = engine(|options| options.queue = LARGE);
    let (socket, mut peer) = narrow(&engine);
    let written = fill(&socket);
    let limit = Duration::from_secs(1);
    assert!(!socket.drain(Duration::from_millis(100)), "the peer does not read");
    thread::scope(|scope| {
        let read = scope.spawn(|| read_slowly(&mut peer, written, 8, limit / 3));
        assert!(socket.drain(limit));
        drop(socket);
        assert_eq!(read.join().unwrap(), (written, Ok(())));
    });
}

#[test]
fn the_end_of_a_program_waits_for_all_at_once_and_resets_whom_it_gives_up() {
    let engine = engine(|options| options.queue = LARGE);
    let silent: Vec<_> = (0..8).map(|_| narrow(&engine)).collect();
    for (socket, _) in &silent {
        fill(socket);
    }
    let (busy, mut slow) = narrow(&engine);
    let written = fill(&busy);
    let (limit, start) = (Duration::from_secs(1), Instant::now());
    thread::scope(|scope| {
        let read = scope.spawn(|| read_slowly(&mut slow, written, 8, limit / 3));
        assert!(!engine.drain(limit));
        assert!(start.elapsed() < PATIENCE);
        assert_eq!(busy.queued(), 0);
        drop(busy);
        assert_eq!(read.join().unwrap(), (written, Ok(())));
    });
    for (socket, mut peer) in silent {
        assert_eq!(ending(&mut peer).1, Err(ErrorKind::ConnectionReset), "the peer must not take a part for the whole");
        assert_eq!(send(&socket, b"x").unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert_eq!(send(&socket, b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
    }
}

#[test]
fn the_end_of_a_program_does_not_wait_for_what_is_written_meanwhile() {
    let engine = engine(|options| options.queue = 300_000);
    let (socket, peer) = connect(&engine, V4);
    let received = reader(peer);
    let stop = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                send(&socket, &[1; 100_000]).unwrap();
            }
        });
        until("it writes", || socket.stats().written > 1_000_000);
        assert!(engine.drain(PATIENCE));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let written = socket.stats().written;
    drop(socket);
    assert_eq!(received.join().unwrap().bytes, written);
}

#[test]
fn an_abort_resets_though_others_hold_the_socket() {
    let engine = engine(|options| options.queue = LARGE);
    let (socket, mut peer) = narrow(&engine);
    let mut held = TcpStream::from(socket.try_clone().unwrap());
    fill(&socket);
    socket.abort();
    assert_eq!(ending(&mut peer).1, Err(ErrorKind::ConnectionReset));
    assert_eq!(socket.queued(), 0);
    assert_eq!(send(&socket, b"x").unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert!(held.write(b"x").is_err());
    socket.close(PATIENCE);
    until("the engine lets go", || engine.sockets().is_empty());
}

#[test]
fn an_empty_queue_ends_the_stream_and_the_applications_linger_comes_back() {
    let engine = engine(|options| options.queue = LARGE);
    let own = Some(Duration::from_secs(7));
    let (socket, mut peer) = narrow(&engine);
    sockopt::set_socket_linger(socket.try_clone().unwrap(), own).unwrap();
    let written = fill(&socket);
    let at = |socket: &paceline_alcc::Socket| sockopt::socket_linger(socket.try_clone().unwrap()).unwrap();
    assert_eq!(at(&socket), Some(Duration::ZERO), "the end of the process must reset");
    // What the kernel holds may differ from one time to the next.
    let mut bytes = vec![0; written + HELD];
    peer.read_exact(&mut bytes[..written]).unwrap();
    assert!(socket.drain(PATIENCE));
    assert_eq!(at(&socket), own);
    // Set while the queue holds bytes, at the socket or by us.
    for through in [true, false] {
        let written = fill(&socket);
        let own = Some(Duration::from_secs(if through { 8 } else { 9 }));
        if through {
            socket.set_linger(own).unwrap();
            assert_eq!(at(&socket), Some(Duration::ZERO));
        } else {
            sockopt::set_socket_linger(socket.try_clone().unwrap(), own).unwrap();
        }
        peer.read_exact(&mut bytes[..written]).unwrap();
        assert!(socket.drain(PATIENCE));
        assert_eq!(at(&socket), own);
    }
    // Of zero: what is queued is dropped.
    fill(&socket);
    socket.set_linger(Some(Duration::ZERO)).unwrap();
    socket.close(PATIENCE);
    drop(socket);
    assert_eq!(ending(&mut peer).1, Err(ErrorKind::ConnectionReset));
    // And with an empty queue it is an end like any other.
    let (socket, mut peer) = connect(&engine, V4);
    send(&socket, b"whole").unwrap();
    drop(socket);
    assert_eq!(ending(&mut peer), (5, Ok(())));
}

/// Where the process below finds its server.
const AT: &str = "PACELINE_TEST_AT";

/// The process that `a_killed_process_resets_what_it_had_queued` kills.
#[test]
#[ignore = "a part of another test"]
fn writes_and_waits() {
    let engine = engine(|options| options.queue = LARGE);
    let stream = TcpStream::connect(std::env::var(AT).unwrap()).unwrap();
    sockopt::set_socket_send_buffer_size(&stream, HELD / 4).unwrap();
    // As an application has it: a descriptor of its own.
    let own = stream.try_clone().unwrap();
    let socket = engine.adopt(stream.into()).unwrap();
    fill(&socket);
    println!("full");
    thread::sleep(PATIENCE);
    drop(own);
}

#[test]
fn a_killed_process_resets_what_it_had_queued() {
    let listener = TcpListener::bind(V4).unwrap();
    sockopt::set_socket_recv_buffer_size(&listener, HELD / 4).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "writes_and_waits", "--nocapture"])
        .env(AT, listener.local_addr().unwrap().to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut peer = listener.accept().unwrap().0;
    let mut said = Vec::new();
    let mut stdout = child.stdout.take().unwrap();
    while !String::from_utf8_lossy(&said).contains("full") {
        let mut byte = [0];
        stdout.read_exact(&mut byte).unwrap();
        said.push(byte[0]);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(ending(&mut peer).1, Err(ErrorKind::ConnectionReset), "the peer must not take a part for the whole");
}
