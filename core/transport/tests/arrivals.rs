//! Acknowledgements that report when each packet arrived.

use crate::common::spy::{Notes, Spy};
use crate::common::{Fate, Loop, MSS, Path};
use paceline_cc::{Ecn, Nanos, Time};
use paceline_transport::{
    AckPolicy, ArrivalTime, HEADER_BYTES, MAX_ARRIVALS, Receiver, Segment, Sender, SenderConfig, above, datagram,
    stream,
};

fn stretched(arrivals: bool) -> AckPolicy {
    AckPolicy { every: 4, quick: 0, arrivals, ..AckPolicy::default() }
}

/// A delay of its own, in ns, for each packet; less than the 1 ms between two of them unless they swap.
fn later(n: usize, swap: bool) -> Nanos {
    let jitter = Nanos::from_nanos((n as u64).wrapping_mul(7_919_777) % 900_000);
    if swap && n % 10 == 3 { jitter + Nanos::from_millis(2) } else { jitter }
}

/// A flow of 200 packets 1 ms apart: the spy's notes, and when each packet arrived.
fn run(sender: impl Fn(&Spy) -> Box<dyn Sender>, receiver: Box<dyn Receiver>, swap: bool) -> (Spy, Vec<Time>) {
    let per_ms = |_| paceline_cc::Pacing::Gap(Nanos::from_millis(1));
    let spy = Spy::new(Notes { window: 100.0, pacing: per_ms, ..Notes::default() });
    let mut world = Loop::new(Path::default(), sender(&spy), receiver);
    world.fate = Box::new(move |n, _| Fate { later: later(n, swap), ..Fate::default() });
    world.sender.write(200 * MSS);
    world.finish(Time::from_millis(10_000));
    assert_eq!(world.sent.len(), 200, "nothing was sent twice");
    let delay = Nanos::from_millis(10);
    let arrived = (0..).zip(&world.sent).map(|(n, (at, _))| *at + delay + later(n, swap)).collect();
    (spy, arrived)
}

/// How many packets the controller knows the arrival of; all of these are exact.
fn known(spy: &Spy, arrived: &[Time]) -> usize {
    let notes = spy.notes();
    let packets = notes.acks.iter().flat_map(|ack| &ack.packets);
    let known = packets.filter_map(|packet| packet.received_at.map(|at| (packet.seq / MSS, at)));
    known.inspect(|(number, at)| assert_eq!(*at, arrived[*number as usize], "packet {number}")).count()
}

#[test]
fn stretched_acknowledgements_tell_the_arrival_of_every_packet() {
    let tcp = |spy: &Spy| stream::sender(&SenderConfig::default(), spy.controller());
    for swap in [false, true] {
        let (spy, arrived) = run(tcp, stream::receiver(&stretched(true), None), swap);
        assert_eq!(known(&spy, &arrived), 200);
        if !swap {
            assert_eq!(spy.notes().acks.len(), 50);
            let (spy, arrived) = run(tcp, stream::receiver(&stretched(false), None), swap);
            assert_eq!(known(&spy, &arrived), 50, "without the option: the newest alone");
        }
    }
}

#[test]
fn the_upper_controller_and_datagrams_learn_them_too() {
    let alcc = |spy: &Spy| {
        above::sender(&SenderConfig::default(), spy.controller(), crate::common::controller("fixed:window=100"))
    };
    let (spy, arrived) = run(alcc, stream::receiver(&stretched(true), None), false);
    assert_eq!(known(&spy, &arrived), 200);
    let udp = |spy: &Spy| datagram::sender(&SenderConfig::default(), spy.controller());
    let (spy, arrived) = run(udp, datagram::receiver_with_arrivals(None), true);
    assert_eq!(known(&spy, &arrived), 200);
}

fn give(receiver: &mut dyn Receiver, number: u64) {
    let segment = Segment {
        seq: number * MSS,
        bytes: MSS as u32,
        sent_at: Time::from_millis(number),
        retransmission: false,
        syn: false,
        cwr: false,
        ecn: Ecn::Off,
        note: 0,
    };
    receiver.on_segment(Time::from_millis(1000 + number), &segment, false);
}

#[test]
fn the_list_is_bounded_and_counted() {
    let mut receiver = stream::receiver(&AckPolicy { every: 200, ..stretched(true) }, None);
    (0..200).for_each(|number| give(receiver.as_mut(), number));
    let ack = receiver.poll_ack(Time::from_millis(1200)).expect("after 200 packets");
    let list = ack.arrivals.as_deref().expect("reported");
    let newest = |number| ArrivalTime { seq: number * MSS, at: Time::from_millis(1000 + number) };
    assert_eq!(list, (200 - MAX_ARRIVALS as u64..200).map(newest).collect::<Vec<_>>());
    assert_eq!(ack.wire_bytes(), HEADER_BYTES + 2 + 8 * MAX_ARRIVALS as u32);
    // With every other option at its largest.
    assert!(HEADER_BYTES + 2 + 8 * MAX_ARRIVALS as u32 + 4 + 8 * 3 + paceline_cc::MAX_FEEDBACK as u32 <= 1500);
    // The next one starts again.
    give(receiver.as_mut(), 200);
    let ack = receiver.poll_ack(Time::from_millis(2000)).expect("after 40 ms");
    assert_eq!(ack.arrivals.as_deref(), Some(&[newest(200)][..]));
}

#[test]
fn without_the_option_nothing_is_told_and_nothing_paid() {
    let mut receiver = stream::receiver(&stretched(false), None);
    (0..4).for_each(|number| give(receiver.as_mut(), number));
    let ack = receiver.poll_ack(Time::from_millis(1004)).expect("after four packets");
    assert_eq!((ack.arrivals.as_ref(), ack.wire_bytes()), (None, HEADER_BYTES));
}
