//! What queues hold together, where no one reads. One test: it asks for the memory of its process.
#![cfg(target_os = "linux")]

mod common;

use paceline_fixture::until;
use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use common::{HELD, PATIENCE, engine, fill, narrow, reader};
use paceline_alcc::options::FLOOR;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};

const STALLED: usize = 150;
const BUDGET: usize = 20_000_000;
/// What the process has for these connections beside their queues: state, and blocks that are not full.
const BESIDE: usize = 40_000_000;
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
const LATE: Timespec = Timespec { tv_sec: 120, tv_nsec: 0 };

/// Resident memory of this process.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// Reads all of them to their ends in one thread with one buffer, which takes no memory for each; how much of which.
fn read_all(mut peers: Vec<(usize, TcpStream)>) -> JoinHandle<Vec<(usize, usize)>> {
    thread::spawn(move || {
        let (mut buffer, mut counts, start) = (vec![0; 65_536], vec![0; STALLED], Instant::now());
        let mut ended = Vec::new();
        peers.iter().for_each(|(_, peer)| peer.set_nonblocking(true).unwrap());
        while !peers.is_empty() {
            assert!(start.elapsed() < PATIENCE);
            peers.retain_mut(|(at, peer)| match peer.read(&mut buffer) {
                Ok(0) => {
                    ended.push((*at, counts[*at]));
                    false
                }
                Ok(read) => {
                    counts[*at] += read;
                    true
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    true
                }
            });
            thread::sleep(Duration::from_micros(100));
        }
        ended
    })
}

#[test]
fn clients_that_do_not_read_cost_no_more_than_the_budget_and_a_floor_each() {
    let engine = engine(|options| {
        options.queue = 3 * HELD;
        options.memory = BUDGET;
    });
    let pairs: Vec<_> = (0..STALLED).map(|_| narrow(&engine)).collect();
    let before = resident();
    let mut written: Vec<usize> = pairs.iter().map(|(socket, _)| fill(socket)).collect();
    // What the kernel has taken since is filled up.
    for _ in 0..3 {
        for (written, (socket, _)) in written.iter_mut().zip(&pairs) {
            *written += fill(socket);
        }
    }
    let queued: usize = pairs.iter().map(|(socket, _)| socket.queued()).sum();
    assert!(queued <= BUDGET + STALLED * FLOOR, "{queued}");
    assert!(queued >= BUDGET, "the budget is used: {queued}");
    let grown = resident().saturating_sub(before);
    assert!(grown <= BUDGET + STALLED * FLOOR + BESIDE, "{grown}");
    // Those that were refused for the others' sake are shown room, by level and by edge, once their own bytes have left.
    let edges = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let flags = epoll::EventFlags::OUT | epoll::EventFlags::ET;
    for (at, (socket, _)) in pairs.iter().enumerate() {
        let full = socket.full().unwrap();
        // The kernel may have taken some meanwhile, so that there is room again.
        until("it has no room", || {
            written[at] += fill(socket);
            poll(&mut [PollFd::new(&full, PollFlags::OUT)], Some(&NOW)).unwrap() == 0
        });
        epoll::add(&edges, full, epoll::EventData::new_u64(at as u64), flags).unwrap();
    }
    let mut said = [false; STALLED];
    let (sockets, peers): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    // The last ones first: the others keep the budget meanwhile.
    let mut peers: Vec<_> = peers.into_iter().enumerate().collect();
    let last = peers.split_off(STALLED / 2);
    let mut readers = vec![read_all(last)];
    let mut hear = |wanted: std::ops::Range<usize>| {
        while !said[wanted.clone()].iter().all(|said| *said) {
            let mut events = Vec::with_capacity(64);
            epoll::wait(&edges, rustix::buffer::spare_capacity(&mut events), Some(&LATE)).unwrap();
            assert!(!events.is_empty(), "no edge for some of {wanted:?}");
            events.iter().for_each(|event| said[event.data.u64() as usize] = true);
        }
    };
    hear(STALLED / 2..STALLED);
    for socket in &sockets[STALLED / 2..] {
        let full = socket.full().unwrap();
        assert_eq!(poll(&mut [PollFd::new(&full, PollFlags::OUT)], Some(&LATE)).unwrap(), 1);
    }
    readers.push(read_all(peers));
    hear(0..STALLED);
    assert!(engine.drain(PATIENCE));
    drop(sockets);
    for received in readers {
        received.join().unwrap().into_iter().for_each(|(at, read)| assert_eq!(read, written[at]));
    }
    until("the engine lets go", || engine.sockets().is_empty());
    // The budget is whole again.
    let (socket, peer) = narrow(&engine);
    fill(&socket);
    assert!(socket.queued() > 2 * HELD);
    let received = reader(peer);
    drop(socket);
    received.join().unwrap();
}
