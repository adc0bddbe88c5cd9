use paceline_fixture::until;
use std::io::{IoSlice, Read};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;

use paceline_cc::{Env, Spec};
use paceline_linux::sockopt::tcp_info;
use paceline_transport::Hold;

use super::*;
use crate::link::packet_size;
use crate::queue::{Budget, Queue};
use crate::queued;
use crate::stamps::Reader;

fn pair() -> (OwnedFd, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (ours.into(), listener.accept().unwrap().0)
}

fn flow(fd: &OwnedFd, acks: Acks, spec: &str) -> Flow {
    let info = tcp_info(fd).unwrap();
    let source = queued::choose(fd, acks, info.is_quiet()).unwrap();
    let env = Env::new(packet_size(&info));
    let controller = spec.parse::<Spec>().unwrap().build(&env);
    rustix::net::sockopt::set_tcp_nodelay(fd, true).unwrap();
    let queue = Queue::new(1_000_000, Budget::new(usize::MAX));
    Flow::queued(
        Link::new(controller, queue, &info, clock::now(), true, None, std::sync::Arc::default()),
        fd,
        source,
        false,
    )
}

/// Writes `count` small chunks and waits until the kernel has delivered them.
fn send_small(flow: &mut Flow, fd: &OwnedFd, peer: &mut TcpStream, count: usize) {
    for _ in 0..count {
        assert_eq!(flow.link.write(&[IoSlice::new(&[9; 100])], 0), 100);
        flow.pump(fd, false).unwrap();
    }
    assert_eq!(flow.link.queue.len(), 0);
    peer.read_exact(&mut vec![0; count * 100]).unwrap();
    until("the kernel reports it", || tcp_info(fd).unwrap().is_quiet());
}

#[test]
fn stamps_that_were_dropped_are_made_up_for_and_later_ones_are_exact_again() {
    let (fd, mut peer) = pair();
    let mut flow = flow(&fd, Acks::Stamps, "fixed:window=1000");
    let mut reader = Reader::new();
    send_small(&mut flow, &fd, &mut peer, 3000);
    // The error queue was not read meanwhile: it is bounded.
    flow.read_stamps(&fd, &mut reader);
    let stamped = flow.link.acked;
    assert!(stamped < 300_000, "the queue held every stamp");
    until("the kernel reports it", || {
        flow.timer(&fd, &mut reader, || true);
        flow.link.acked == 300_000
    });
    assert_eq!((flow.link.above.in_flight(), flow.next_wake()), (0, Time::NEVER));
    let lost = flow.link.counters.stamps_lost;
    assert!(lost > 0);
    for _ in 0..50 {
        send_small(&mut flow, &fd, &mut peer, 20);
        flow.read_stamps(&fd, &mut reader);
    }
    assert_eq!((flow.link.acked, flow.link.counters.stamps_lost), (400_000, lost));
}

#[test]
fn acknowledgements_come_from_the_kernels_counters_where_there_are_no_stamps() {
    let (fd, mut peer) = pair();
    let mut flow = flow(&fd, Acks::Info, "copa");
    let mut reader = Reader::new();
    for _ in 0..20 {
        send_small(&mut flow, &fd, &mut peer, 5);
        until("the kernel reports it", || {
            flow.timer(&fd, &mut reader, || true);
            flow.link.above.in_flight() == 0
        });
    }
    assert_eq!((flow.link.counters.delivered, flow.link.counters.stamps_lost), (10_000, 0));
    assert!(flow.link.rtt.is_some());
}

#[test]
fn a_full_buffer_below_is_seen_as_the_limit() {
    let (fd, mut peer) = pair();
    let mut flow = flow(&fd, Acks::Stamps, "fixed:window=100000");
    rustix::net::sockopt::set_socket_send_buffer_size(&fd, 100_000).unwrap();
    flow.link.write(&[IoSlice::new(&[1; 1_000_000])], 0);
    until("the kernel reports it", || {
        // The peer reads nothing, and its buffer is bounded.
        flow.link.write(&[IoSlice::new(&[1; 1_000_000])], 0);
        flow.pump(&fd, false).unwrap();
        flow.link.above.held_by() == Hold::Below
    });
    assert!(!flow.link.queue.is_empty());
    // What was refused counts when it is sent.
    let before = flow.link.above.limited_below();
    let mut read = vec![0; 300_000];
    until("the kernel reports it", || {
        assert!(peer.read(&mut read).unwrap() > 0);
        flow.link.blocked = false;
        flow.pump(&fd, false).unwrap();
        flow.link.above.limited_below() > before
    });
    assert!(flow.link.above.limited_below() <= flow.link.above.chunks());
}

#[test]
fn an_idle_connection_keeps_no_memory_in_its_queue() {
    let (fd, mut peer) = pair();
    let mut flow = flow(&fd, Acks::Stamps, "copa");
    send_small(&mut flow, &fd, &mut peer, 10);
    assert!(flow.link.queue.is_empty());
    // The state itself; what the controller and the chunks in flight take comes to as much again.
    assert!(size_of::<Flow>() < 2048, "{}", size_of::<Flow>());
}
