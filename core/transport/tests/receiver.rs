//! What receivers say, and when.

use crate::common::MSS;
use paceline_cc::{Arrival, Ecn, Nanos, ReceiverHalf, Time};
use paceline_transport::{AckPolicy, AckSegment, Range, Receiver, Segment, datagram, stream};

fn segment(number: u64, ecn: Ecn) -> Segment {
    Segment {
        seq: number * MSS,
        bytes: MSS as u32,
        sent_at: Time::from_millis(number),
        retransmission: false,
        syn: false,
        cwr: false,
        ecn,
        note: 7,
    }
}

fn slow_policy() -> AckPolicy {
    AckPolicy { quick: 0, ..AckPolicy::default() }
}

fn at(millis: u64) -> Time {
    Time::from_millis(millis)
}

fn packets(start: u64, end: u64) -> Range {
    Range { start: start * MSS, end: end * MSS }
}

/// Gives packet `number` and returns the acknowledgements.
fn give(receiver: &mut dyn Receiver, millis: u64, number: u64, ecn: Ecn, ce: bool) -> Vec<AckSegment> {
    receiver.on_segment(at(millis), &segment(number, ecn), ce);
    std::iter::from_fn(|| receiver.poll_ack(at(millis))).collect()
}

#[test]
fn every_second_packet_or_forty_milliseconds() {
    let mut receiver = stream::receiver(&slow_policy(), None);
    assert!(give(receiver.as_mut(), 0, 0, Ecn::Off, false).is_empty());
    let acks = give(receiver.as_mut(), 1, 1, Ecn::Off, false);
    assert_eq!(acks.len(), 1);
    assert_eq!((acks[0].cumulative, acks[0].sack_count), (2 * MSS, 0));
    assert!(give(receiver.as_mut(), 2, 2, Ecn::Off, false).is_empty());
    assert_eq!(receiver.next_timeout(), at(42));
    assert_eq!(receiver.poll_ack(at(41)), None);
    assert_eq!(receiver.poll_ack(at(42)).map(|ack| ack.cumulative), Some(3 * MSS));
    assert_eq!(receiver.poll_ack(at(42)), None);
    assert_eq!(receiver.next_timeout(), Time::NEVER);
}

#[test]
fn the_first_packets_are_acknowledged_at_once() {
    let mut receiver = stream::receiver(&AckPolicy::default(), None);
    let acks: usize = (0..20).map(|n| give(receiver.as_mut(), n, n, Ecn::Off, false).len()).sum();
    assert_eq!(acks, 16 + 2);
}

#[test]
fn blocks_come_most_recent_first_and_duplicates_are_named() {
    let mut receiver = stream::receiver(&slow_policy(), None);
    give(receiver.as_mut(), 0, 0, Ecn::Off, false);
    for (number, blocks) in [
        (2, vec![packets(2, 3)]),
        (4, vec![packets(4, 5), packets(2, 3)]),
        (6, vec![packets(6, 7), packets(4, 5), packets(2, 3)]),
        (8, vec![packets(8, 9), packets(6, 7), packets(4, 5)]),
        (3, vec![packets(2, 5), packets(8, 9), packets(6, 7)]),
    ] {
        let acks = give(receiver.as_mut(), number, number, Ecn::Off, false);
        assert_eq!(acks.len(), 1, "out of order: at once");
        assert_eq!(acks[0].sacks(), blocks, "after packet {number}");
        assert_eq!((acks[0].cumulative, acks[0].duplicate), (MSS, None));
    }
    // RFC 2883: a duplicate above and one below the left edge.
    let acks = give(receiver.as_mut(), 20, 8, Ecn::Off, false);
    assert_eq!(acks[0].duplicate, Some(packets(8, 9)));
    assert_eq!(acks[0].sacks()[0], packets(8, 9));
    let acks = give(receiver.as_mut(), 21, 0, Ecn::Off, false);
    assert_eq!(acks[0].duplicate, Some(packets(0, 1)));
    // A hole filled: at once.
    let acks = give(receiver.as_mut(), 22, 1, Ecn::Off, false);
    assert_eq!(acks[0].cumulative, 5 * MSS);
    assert_eq!(acks[0].sacks(), [packets(8, 9), packets(6, 7)]);
    assert_eq!(receiver.bytes_ready(), 5 * MSS);
}

#[test]
fn the_echoed_time_is_that_of_rfc_7323() {
    let mut receiver = stream::receiver(&slow_policy(), None);
    // A delayed acknowledgement echoes the first packet it covers.
    give(receiver.as_mut(), 50, 0, Ecn::Off, false);
    assert_eq!(give(receiver.as_mut(), 51, 1, Ecn::Off, false)[0].echo_sent_at, at(0));
    // Out of order: the last one that advanced the left edge.
    give(receiver.as_mut(), 52, 2, Ecn::Off, false);
    assert_eq!(give(receiver.as_mut(), 53, 4, Ecn::Off, false)[0].echo_sent_at, at(2));
    // A hole filled: the packet that fills it.
    assert_eq!(give(receiver.as_mut(), 54, 3, Ecn::Off, false)[0].echo_sent_at, at(3));
}

#[test]
fn exact_echo_shows_the_sequence_of_marks() {
    // RFC 8257 section 3.2 on the packets N N C C N.
    let mut receiver = stream::receiver(&slow_policy(), None);
    let mut said = Vec::new();
    for (number, ce) in [false, false, true, true, false].into_iter().enumerate() {
        let acks = give(receiver.as_mut(), number as u64, number as u64, Ecn::Exact, ce);
        said.push(acks.iter().map(|ack| (ack.cumulative / MSS, ack.ece)).collect::<Vec<_>>());
    }
    assert_eq!(said, [vec![], vec![(2, false)], vec![(3, true)], vec![], vec![(4, true), (5, false)]]);
}

#[test]
fn alternating_marks_are_each_acknowledged() {
    let mut receiver = stream::receiver(&slow_policy(), None);
    for number in 0..10 {
        let acks = give(receiver.as_mut(), number, number, Ecn::L4s, number % 2 == 0);
        assert_eq!(acks.len(), 1);
        assert_eq!((acks[0].ece, acks[0].ce_packets), (number % 2 == 0, number / 2 + 1));
        assert_eq!(acks[0].ce_bytes, (number / 2 + 1) * MSS);
    }
}

#[test]
fn classic_echo_is_latched_until_cwr() {
    let mut receiver = stream::receiver(&AckPolicy::immediate(), None);
    let mut ece = |number, ce, cwr| {
        receiver.on_segment(at(number), &Segment { cwr, ..segment(number, Ecn::Classic) }, ce);
        receiver.poll_ack(at(number)).expect("immediate").ece
    };
    assert_eq!([ece(0, false, false), ece(1, true, false), ece(2, false, false)], [false, true, true]);
    assert_eq!([ece(3, false, true), ece(4, false, false)], [false, false]);
    // A mark on the packet with CWR latches again.
    assert_eq!([ece(5, true, false), ece(6, true, true), ece(7, false, false)], [true, true, true]);
}

#[test]
fn datagrams_are_acknowledged_one_by_one_with_what_came_before() {
    let mut receiver = datagram::receiver(None);
    for (number, blocks) in [
        (0, vec![packets(0, 1)]),
        (1, vec![packets(0, 2)]),
        (3, vec![packets(3, 4), packets(0, 2)]),
        (2, vec![packets(0, 4)]),
    ] {
        let acks = give(receiver.as_mut(), 100 + number, number, Ecn::Off, false);
        assert_eq!(acks.len(), 1);
        assert_eq!(acks[0].sacks(), blocks);
        assert_eq!(acks[0].echo_sent_at, at(number));
    }
    let acks = give(receiver.as_mut(), 200, 2, Ecn::Off, false);
    assert_eq!((acks[0].duplicate, acks[0].cumulative), (Some(packets(2, 3)), 4 * MSS));
    assert_eq!(receiver.bytes_ready(), 4 * MSS);
}

/// Counts arrivals, reports the count with each fourth, and every 10 ms until 30 ms.
struct Counter {
    arrivals: u8,
    tick: Time,
}

impl ReceiverHalf for Counter {
    fn on_arrival(&mut self, arrival: &Arrival) {
        assert_eq!(arrival.note, 7);
        self.arrivals += 1;
    }

    fn feedback(&mut self, now: Time, blob: &mut Vec<u8>) -> bool {
        let due = self.tick <= now;
        if due {
            self.tick = if now < at(30) { self.tick + Nanos::from_millis(10) } else { Time::NEVER };
        }
        blob.push(self.arrivals);
        due || self.arrivals.is_multiple_of(4)
    }

    fn next_tick(&self) -> Time {
        self.tick
    }

    fn describe(&self, _report: &mut dyn FnMut(&'static str, f64)) {}
}

#[test]
fn a_receiver_half_speaks_with_acknowledgements_and_by_its_clock() {
    let half = || Some(Box::new(Counter { arrivals: 0, tick: at(10) }) as Box<dyn ReceiverHalf>);
    for mut receiver in [datagram::receiver(half()), stream::receiver(&AckPolicy::immediate(), half())] {
        for number in 0..5 {
            let acks = give(receiver.as_mut(), number, number, Ecn::Off, false);
            let expected = (number == 3).then_some(vec![4]);
            assert_eq!(acks[0].feedback.as_ref().map(|blob| blob.to_vec()), expected);
        }
        for millis in [10, 20, 30] {
            assert_eq!(receiver.next_timeout(), at(millis));
            let ack = receiver.poll_ack(at(millis)).expect("the half's clock");
            assert_eq!((ack.feedback.as_deref(), ack.cumulative), (Some(&[5][..]), 5 * MSS));
            assert_eq!(receiver.poll_ack(at(millis)), None);
        }
        assert_eq!(receiver.next_timeout(), Time::NEVER);
    }
}
