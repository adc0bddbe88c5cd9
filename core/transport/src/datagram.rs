//! Datagrams: each packet is acknowledged by itself and at once, what is lost is gone.
//!
//! The sender is that of streams without retransmissions, so that native and TCP contestants differ in nothing else:
//! the same loss detection (RFC 8985), probes, timeouts and rate samples. Each acknowledgement carries the blocks most
//! recently touched, so a lost one is made good by the next.

use std::collections::VecDeque;

use paceline_cc::{Arrival, Controller, ReceiverHalf, Time};

use crate::arrivals::Arrivals;
use crate::config::SenderConfig;
use crate::endpoint::{Receiver, Sender};
use crate::feedback::Half;
use crate::ranges::Blocks;
use crate::segment::{AckSegment, MAX_SACKS, Range, Segment};
use crate::sender::{Delivery, FlowSender};

/// Ranges kept by the receiver (our choice: a datagram that comes after more holes than this counts as a duplicate).
const KEPT: usize = 256;

/// A sender of datagrams driven by `controller`.
pub fn sender(config: &SenderConfig, controller: Box<dyn Controller>) -> Box<dyn Sender> {
    sender_from(config, controller, 0)
}

/// As [`sender`], with the first byte at position `start`.
pub fn sender_from(config: &SenderConfig, controller: Box<dyn Controller>, start: u64) -> Box<dyn Sender> {
    Box::new(FlowSender::new(config, controller, Delivery::Unreliable, start))
}

/// A receiver of datagrams; `half` is the controller's receiver half, where it has one.
pub fn receiver(half: Option<Box<dyn ReceiverHalf>>) -> Box<dyn Receiver> {
    Box::new(new(half, false))
}

/// As [`receiver`], with acknowledgements that report [when packets arrived](AckSegment::arrivals).
pub fn receiver_with_arrivals(half: Option<Box<dyn ReceiverHalf>>) -> Box<dyn Receiver> {
    Box::new(new(half, true))
}

fn new(half: Option<Box<dyn ReceiverHalf>>, arrivals: bool) -> DatagramReceiver {
    DatagramReceiver {
        half: Half::new(half),
        seen: Blocks::default(),
        floor: 0,
        highest: 0,
        ready: 0,
        echo: Time::ZERO,
        received_at: Time::ZERO,
        ece: false,
        ce_bytes: 0,
        ce_packets: 0,
        due: VecDeque::new(),
        arrivals: Arrivals::new(arrivals),
    }
}

struct DatagramReceiver {
    half: Half,
    seen: Blocks,
    /// Nothing is known of what lies below.
    floor: u64,
    highest: u64,
    ready: u64,
    echo: Time,
    received_at: Time,
    ece: bool,
    ce_bytes: u64,
    ce_packets: u64,
    due: VecDeque<AckSegment>,
    arrivals: Arrivals,
}

impl DatagramReceiver {
    fn acknowledge(&mut self, duplicate: Option<Range>) -> AckSegment {
        let room = if duplicate.is_some() { MAX_SACKS - 1 } else { MAX_SACKS };
        let mut sacks = [Range::default(); MAX_SACKS];
        let sack_count = self.seen.report(&mut sacks[..room]);
        AckSegment {
            cumulative: self.highest,
            sacks,
            sack_count,
            duplicate,
            syn: false,
            echo_sent_at: self.echo,
            received_at: self.received_at,
            ece: self.ece,
            ce_bytes: self.ce_bytes,
            ce_packets: self.ce_packets,
            arrivals: self.arrivals.take(),
            feedback: None,
        }
    }
}

impl Receiver for DatagramReceiver {
    fn on_segment(&mut self, now: Time, segment: &Segment, ce: bool) {
        if segment.syn {
            self.due.push_back(AckSegment::answer(now, segment));
            return;
        }
        let bytes = u64::from(segment.bytes);
        let range = Range { start: segment.seq, end: segment.seq.saturating_add(bytes) };
        if ce {
            self.ce_bytes += bytes;
            self.ce_packets += 1;
        }
        self.ece = ce;
        self.echo = segment.sent_at;
        self.received_at = now;
        let mut arrival = Arrival::new(now, segment.seq, segment.bytes);
        arrival.note = segment.note;
        arrival.ce = ce;
        self.half.on_arrival(&arrival);
        let mut duplicate = None;
        if bytes > 0 {
            self.arrivals.note(segment.seq, now);
            let fresh = if range.start < self.floor { 0 } else { self.seen.insert(range) };
            self.ready += fresh;
            self.highest = self.highest.max(range.end);
            duplicate = (fresh == 0).then_some(range);
            while self.seen.set.len() > KEPT {
                self.floor = self.seen.set.pop_first().map_or(self.floor, |first| first.end);
            }
        }
        let ack = self.acknowledge(duplicate);
        self.due.push_back(ack);
    }

    fn poll_ack_into(&mut self, now: Time, ack: &mut AckSegment) -> bool {
        if let Some(due) = self.due.pop_front() {
            *ack = due;
            ack.feedback = self.half.feedback(now);
            return true;
        }
        let Some(feedback) = self.half.is_due(now).then(|| self.half.feedback(now)).flatten() else { return false };
        *ack = self.acknowledge(None);
        ack.feedback = Some(feedback);
        true
    }

    fn next_timeout(&self) -> Time {
        if self.due.is_empty() { self.half.next_tick() } else { Time::ZERO }
    }

    fn bytes_ready(&self) -> u64 {
        self.ready
    }
}
