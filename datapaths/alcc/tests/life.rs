//! Room, readiness, ends: what an event loop and a program's end need.
#![cfg(target_os = "linux")]

mod common;

use paceline_fixture::until;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use common::{HELD, PATIENCE, connect, engine, fill, narrow, pair, reader, send, try_send};
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};

const V4: &str = "127.0.0.1:0";
const SOON: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
const LATE: Timespec = Timespec { tv_sec: 120, tv_nsec: 0 };

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// A queue beside which what the kernel holds is less than a quarter.
const LARGE: usize = 5 * HELD;

#[test]
fn readiness_to_write_means_room_in_the_queue() {
    let engine = engine(|options| options.queue = LARGE);
    let (socket, peer) = narrow(&engine);
    let full = socket.full().unwrap();
    let mut ready = [PollFd::new(&full, PollFlags::OUT)];
    let level = |ready: &mut [PollFd<'_>; 1], limit: &Timespec| poll(ready, Some(limit)).unwrap() == 1;
    assert!(level(&mut ready, &SOON), "a new socket has room");
    let edges = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let flags = epoll::EventFlags::OUT | epoll::EventFlags::ET;
    epoll::add(&edges, socket.full().unwrap(), epoll::EventData::new_u64(1), flags).unwrap();
    let edge = |limit: &Timespec| {
        let mut events = Vec::with_capacity(4);
        epoll::wait(&edges, rustix::buffer::spare_capacity(&mut events), Some(limit)).unwrap();
        events.iter().map(|event| event.flags).filter(|flags| flags.contains(epoll::EventFlags::OUT)).count()
    };
    assert_eq!(edge(&SOON), 1, "the first edge is that there is room");
    assert_eq!(edge(&SOON), 0);
    fill(&socket);
    assert!(!level(&mut ready, &SOON), "a full queue is not ready");
    assert_eq!(edge(&SOON), 0);
    let received = reader(peer);
    assert!(level(&mut ready, &LATE));
    assert!(socket.room() >= LARGE / 4, "a quarter is free: {}", socket.room());
    assert_eq!(edge(&LATE), 1, "and an edge-triggered set receives it");
    drop(socket);
    received.join().unwrap();
}

#[test]
fn a_blocked_writer_wakes_when_the_peer_dies_and_the_error_is_told_once() {
    let engine = engine(|options| options.queue = 100_000);
    let (socket, peer) = connect(&engine, V4);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            loop {
                if let Err(error) = send(&socket, &[1; 50_000]) {
                    return error;
                }
            }
        });
        until("the queue is full", || socket.room() == 0);
        reset(peer);
        let error = writer.join().unwrap();
        // As the kernel tells it.
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    });
    assert_eq!(send(&socket, b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
    assert!(socket.drain(PATIENCE), "nothing is left to wait for");
}

/// Closes so that the other end sees a reset.
fn reset(peer: TcpStream) {
    rustix::net::sockopt::set_socket_linger(&peer, Some(Duration::ZERO)).unwrap();
    drop(peer);
}

#[test]
fn a_thousand_connections_opened_and_killed_leave_nothing_behind() {
    let engine = engine(|options| options.queue = 64_000);
    let (socket, peer) = connect(&engine, V4);
    let received = reader(peer);
    let before = descriptors();
    for round in 0..20 {
        let pairs: Vec<_> = (0..50).map(|_| connect(&engine, V4)).collect();
        for (n, (socket, peer)) in pairs.into_iter().enumerate() {
            let _ = try_send(&socket, &[2; 90_000]);
            reset(peer);
            if (n + round) % 2 == 0 {
                socket.close(PATIENCE);
            }
        }
    }
    until("all are gone", || engine.sockets().len() == 1);
    until("the descriptors return", || descriptors() <= before);
    // The engine is well: the first one still works.
    send(&socket, b"still here").unwrap();
    drop(socket);
    assert_eq!(received.join().unwrap().bytes, 10);
}

#[test]
fn a_close_that_lingers_too_long_resets_and_one_of_zero_does_at_once() {
    for wait in [Duration::from_millis(50), Duration::ZERO] {
        let engine = engine(|options| options.queue = LARGE);
        let (socket, peer) = narrow(&engine);
        fill(&socket);
        socket.close(wait);
        until("the engine lets go", || engine.sockets().is_empty());
        drop(socket);
        assert_eq!(engine.descriptors().len(), 3);
        let mut stream = peer;
        let mut sink = vec![0; 1 << 20];
        let end = loop {
            match std::io::Read::read(&mut stream, &mut sink) {
                Ok(0) => break None,
                Ok(_) => {}
                Err(error) => break Some(error.kind()),
            }
        };
        assert_eq!(end, Some(ErrorKind::ConnectionReset), "the peer must not take a part for the whole");
    }
}

#[test]
fn an_engine_that_is_dropped_finishes_what_was_written() {
    let engine = engine(|options| options.queue = 4_000_000);
    let (socket, peer) = connect(&engine, V4);
    send(&socket, &[7; 3_000_000]).unwrap();
    drop(engine);
    drop(socket);
    assert_eq!(reader(peer).join().unwrap().bytes, 3_000_000);
}

#[test]
fn the_end_of_a_program_waits_for_every_queue() {
    let engine = engine(|_| {});
    let pairs: Vec<_> = (0..5).map(|_| connect(&engine, V4)).collect();
    let mut readers = Vec::new();
    for (socket, peer) in pairs {
        send(&socket, &[7; 1_000_000]).unwrap();
        readers.push((reader(peer), socket));
    }
    assert!(engine.drain(PATIENCE));
    for (received, socket) in readers {
        assert_eq!(socket.queued(), 0);
        drop(socket);
        assert_eq!(received.join().unwrap().bytes, 1_000_000);
    }
}

#[test]
fn idle_sockets_wake_no_thread() {
    let engine = engine(|options| options.controller = "verus".parse().unwrap());
    let mut pairs: Vec<_> = (0..100).map(|_| connect(&engine, V4)).collect();
    for (socket, _) in &pairs {
        send(socket, &[3; 10_000]).unwrap();
    }
    for (_, peer) in &mut pairs {
        std::io::Read::read_exact(peer, &mut [0; 10_000]).unwrap();
    }
    until("all is acknowledged", || engine.sockets().iter().all(|socket| socket.in_flight == 0));
    let (before, start) = (engine.wake_ups(), std::time::Instant::now());
    thread::sleep(Duration::from_millis(300));
    let woken = engine.wake_ups() - before;
    // Verus alone would ask for 20 000 calls in this time.
    assert!(woken <= 200, "{woken} wake-ups in {:?}", start.elapsed());
    drop(pairs.pop());
    let _ = pair(V4);
}
