//! Receivers that report other things than they saw, to be sent more.
//!
//! Sources: Savage, Cardwell, Wetherall and Anderson, "TCP Congestion Control with a Misbehaving Receiver", CCR 29(5), 1999, sections 2.1
//! (acknowledgements that are divided), 2.2 (repeated) and 2.3 (optimistic); RFC 3540 section 1 (marks that are hidden). What differs: a
//! receiver here divides and repeats by `PARTS`, and runs ahead by `AHEAD` packets; theirs went as far as the sender let them.

use std::collections::VecDeque;

use paceline_cc::Time;
use paceline_transport::{AckSegment, Range, Receiver, Segment};
use serde::{Deserialize, Serialize};

/// Acknowledgements that a receiver makes of one (our choice: a sender that counted them would begin with what slow start needs three
/// round trips for).
const PARTS: u64 = 10;

/// Full packets that are acknowledged before they come: as many as a sender has on its way from the start (RFC 6928).
const AHEAD: u64 = 10;

/// What a receiver does in place of what it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Misbehaviour {
    /// It acknowledges everything up to the newest byte, whatever is missing, and ten full packets that have not come. The application
    /// makes do with what comes.
    Optimistic,
    /// It acknowledges each advance of a stream in ten parts; datagrams are acknowledged as wholes.
    Divides,
    /// It reports no mark.
    HidesMarks,
    /// It sends each acknowledgement ten times.
    Repeats,
}

impl Misbehaviour {
    /// A receiver that does so with what `receiver` would say.
    pub fn of(self, receiver: Box<dyn Receiver>) -> Box<dyn Receiver> {
        let due = VecDeque::new();
        Box::new(Misbehaving { receiver, how: self, due, newest: 0, largest: 0, came: 0, reached: 0, marked: (0, 0) })
    }
}

struct Misbehaving {
    receiver: Box<dyn Receiver>,
    how: Misbehaviour,
    /// What is made of the last acknowledgement.
    due: VecDeque<AckSegment>,
    /// One past the newest byte that came.
    newest: u64,
    /// Payload of the largest packet that came.
    largest: u64,
    /// Payload that came.
    came: u64,
    /// How far the last acknowledgement went, and the marks that it reported.
    reached: u64,
    marked: (u64, u64),
}

impl Misbehaving {
    /// Everything up to the newest byte, and what is to come.
    fn run_ahead(&self, ack: &mut AckSegment) {
        // An acknowledgement of datagrams has what came in its blocks, one of a stream what came beyond a hole.
        let datagrams = ack.sacks().first().is_some_and(|block| block.end <= ack.cumulative);
        let end = self.newest + AHEAD * self.largest;
        ack.cumulative = end;
        ack.sacks[0] = Range { start: 0, end };
        ack.sack_count = u8::from(datagrams);
        ack.duplicate = None;
    }

    /// The advance of `ack` in parts, of which `ack` becomes the first.
    fn divide(&mut self, ack: &mut AckSegment) {
        let (from, to) = (self.reached, ack.cumulative);
        if to < from + PARTS {
            return;
        }
        for part in 1..PARTS {
            let end = from + (to - from) * part / PARTS;
            let mut early = AckSegment { arrivals: None, feedback: None, duplicate: None, ..ack.clone() };
            (early.ce_bytes, early.ce_packets) = self.marked;
            // What lies beyond a hole lies beyond `to`.
            (early.cumulative, early.sack_count) = (end, 0);
            self.due.push_back(early);
        }
        self.due.push_back(std::mem::take(ack));
        *ack = self.due.pop_front().unwrap_or_default();
    }
}

impl Receiver for Misbehaving {
    fn on_segment(&mut self, now: Time, segment: &Segment, ce: bool) {
        let bytes = u64::from(segment.bytes);
        self.newest = self.newest.max(segment.seq.saturating_add(bytes));
        self.largest = self.largest.max(bytes);
        self.came += bytes;
        self.receiver.on_segment(now, segment, ce && self.how != Misbehaviour::HidesMarks);
    }

    fn poll_ack_into(&mut self, now: Time, ack: &mut AckSegment) -> bool {
        if let Some(due) = self.due.pop_front() {
            *ack = due;
            return true;
        }
        if !self.receiver.poll_ack_into(now, ack) {
            return false;
        }
        let (reached, marked) = (ack.cumulative, (ack.ce_bytes, ack.ce_packets));
        match self.how {
            _ if ack.syn => {}
            Misbehaviour::Optimistic => self.run_ahead(ack),
            Misbehaviour::Divides => self.divide(ack),
            Misbehaviour::Repeats => {
                let again = AckSegment { arrivals: None, feedback: None, ..ack.clone() };
                self.due.extend((1..PARTS).map(|_| again.clone()));
            }
            Misbehaviour::HidesMarks => {}
        }
        (self.reached, self.marked) = (self.reached.max(reached), marked);
        true
    }

    fn next_timeout(&self) -> Time {
        if self.due.is_empty() { self.receiver.next_timeout() } else { Time::ZERO }
    }

    fn bytes_ready(&self) -> u64 {
        match self.how {
            Misbehaviour::Optimistic => self.came,
            _ => self.receiver.bytes_ready(),
        }
    }
}

#[cfg(test)]
mod tests {
    use paceline_cc::Ecn;
    use paceline_transport::{AckPolicy, datagram, stream};

    use super::*;

    const MSS: u64 = 1000;

    fn segment(seq: u64) -> Segment {
        let (bytes, sent_at, ecn) = (MSS as u32, Time::from_millis(seq), Ecn::Exact);
        Segment { seq, bytes, sent_at, retransmission: false, syn: false, cwr: false, ecn, note: 0 }
    }

    /// What two receivers, of a stream and of datagrams, say of these packets, the second of them marked.
    fn said(how: Misbehaviour, packets: &[u64]) -> [Vec<AckSegment>; 2] {
        [stream::receiver(&AckPolicy::immediate(), None), datagram::receiver(None)].map(|receiver| {
            let mut receiver = how.of(receiver);
            let mut acks = Vec::new();
            for (index, number) in packets.iter().enumerate() {
                let now = Time::from_millis(10 + number);
                receiver.on_segment(now, &segment(number * MSS), index == 1);
                while let Some(ack) = receiver.poll_ack(now) {
                    acks.push(ack);
                }
                assert!(receiver.next_timeout() > now, "nothing is due");
            }
            acks
        })
    }

    #[test]
    fn an_optimistic_receiver_sees_no_hole_and_runs_ahead() {
        // The second packet is missing.
        let [stream, datagrams] = said(Misbehaviour::Optimistic, &[0, 2]);
        let ends = |acks: &[AckSegment]| acks.iter().map(|ack| ack.cumulative / MSS).collect::<Vec<_>>();
        assert_eq!((ends(&stream), ends(&datagrams)), (vec![11, 13], vec![11, 13]));
        assert!(stream.iter().all(|ack| ack.sack_count == 0 && ack.duplicate.is_none()));
        assert_eq!(datagrams[1].sacks(), [Range { start: 0, end: 13 * MSS }]);
    }

    #[test]
    fn a_divided_acknowledgement_advances_in_parts_and_ends_where_it_should() {
        let [acks, _] = said(Misbehaviour::Divides, &[0, 1, 3]);
        let ends: Vec<u64> = acks.iter().map(|ack| ack.cumulative).collect();
        let parts = (1..=20).map(|part| part * 100);
        assert_eq!(ends, parts.chain([2000]).collect::<Vec<_>>());
        // The mark is told with the packet that has it.
        assert_eq!(acks.iter().map(|ack| ack.ce_packets).collect::<Vec<_>>(), [[0; 19].as_slice(), &[1, 1]].concat());
        let [.., last] = acks.as_slice() else { panic!("{acks:?}") };
        assert_eq!((acks[18].sack_count, last.sacks()), (0, [Range { start: 3000, end: 4000 }].as_slice()));
    }

    #[test]
    fn acknowledgements_are_repeated_as_they_are() {
        for acks in said(Misbehaviour::Repeats, &[0, 2]) {
            assert_eq!(acks.len(), 20);
            assert!(acks.chunks(10).all(|alike| alike.iter().all(|ack| *ack == alike[0])), "{acks:?}");
        }
    }

    #[test]
    fn marks_are_hidden_and_nothing_else() {
        let hidden = said(Misbehaviour::HidesMarks, &[0, 1, 3]);
        assert!(hidden.iter().flatten().all(|ack| !ack.ece && ack.ce_packets == 0 && ack.ce_bytes == 0));
        let honest = |receiver: Box<dyn Receiver>| {
            let mut receiver = receiver;
            receiver.on_segment(Time::ZERO, &segment(0), true);
            receiver.poll_ack(Time::ZERO).map(|ack| (ack.ece, ack.ce_packets))
        };
        assert_eq!(honest(datagram::receiver(None)), Some((true, 1)));
        assert_eq!(honest(Misbehaviour::HidesMarks.of(datagram::receiver(None))), Some((false, 0)));
    }
}
