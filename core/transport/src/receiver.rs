//! The receiving end of a stream.
//!
//! Sources: RFC 5681 section 4.2 (delayed acknowledgements), 2018 and 2883 (SACK, DSACK), 7323 section 4.3 (which time
//! stamp is echoed), 3168 (ECE latched until CWR), 8257 section 3.2 (exact echo); Linux `tcp_input.c`.

use std::collections::VecDeque;

use paceline_cc::{Arrival, Ecn, Nanos, ReceiverHalf, Time};

use crate::arrivals::Arrivals;
use crate::endpoint::Receiver;
use crate::feedback::Half;
use crate::ranges::Blocks;
use crate::segment::{AckSegment, MAX_SACKS, Range, Segment};

/// When a stream receiver acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckPolicy {
    /// Packets in order that share one acknowledgement. 2: RFC 5681 section 4.2.
    pub every: u32,
    /// Longest wait for them. 40 ms: Linux `TCP_DELACK_MIN` (RFC 5681 allows 500 ms).
    pub max_delay: Nanos,
    /// First packets that are acknowledged at once. 16: Linux `TCP_MAX_QUICKACKS`.
    pub quick: u32,
    /// Each acknowledgement reports when the packets since the one before arrived. Off: TCP does not.
    pub arrivals: bool,
}

impl Default for AckPolicy {
    fn default() -> Self {
        Self { every: 2, max_delay: Nanos::from_millis(40), quick: 16, arrivals: false }
    }
}

impl AckPolicy {
    /// An acknowledgement for each packet at once.
    pub fn immediate() -> Self {
        Self { every: 1, max_delay: Nanos::ZERO, quick: 0, arrivals: false }
    }
}

/// Reassembles a stream and acknowledges it.
pub(crate) struct StreamReceiver {
    policy: AckPolicy,
    half: Half,
    start: u64,
    /// Next byte expected.
    next: u64,
    above: Blocks,
    duplicate: Option<Range>,
    /// Packets in order that no acknowledgement covers yet.
    unacked: u32,
    quick: u32,
    ack_at: Time,
    /// An acknowledgement of the state as it is must leave, after those in `due`.
    owed: bool,
    due: VecDeque<AckSegment>,
    /// `TS.Recent` and `Last.ACK.sent` of RFC 7323.
    echo: Time,
    last_ack: u64,
    received_at: Time,
    arrivals: Arrivals,
    /// ECE of the next acknowledgement: latched (classic) or the last packet's mark (exact).
    ece: bool,
    ce_bytes: u64,
    ce_packets: u64,
}

impl StreamReceiver {
    pub(crate) fn new(policy: &AckPolicy, half: Option<Box<dyn ReceiverHalf>>, start: u64) -> Self {
        Self {
            policy: *policy,
            half: Half::new(half),
            start,
            next: start,
            above: Blocks::default(),
            duplicate: None,
            unacked: 0,
            quick: policy.quick,
            ack_at: Time::NEVER,
            owed: false,
            due: VecDeque::new(),
            echo: Time::ZERO,
            last_ack: start,
            received_at: Time::ZERO,
            arrivals: Arrivals::new(policy.arrivals),
            ece: false,
            ce_bytes: 0,
            ce_packets: 0,
        }
    }

    /// Takes the payload in; says whether the acknowledgement must leave at once.
    fn reassemble(&mut self, range: Range) -> bool {
        if range.start == range.end {
            // An empty packet asks for an answer.
            return true;
        }
        if range.end <= self.next {
            self.duplicate = Some(range);
            return true;
        }
        if range.start <= self.next {
            if range.start < self.next {
                self.duplicate = Some(Range { start: range.start, end: self.next });
            }
            self.next = range.end;
            if self.above.set.is_empty() {
                return false;
            }
            self.next = self.above.absorb(self.next);
            return true;
        }
        if self.above.insert(range) == 0 {
            self.duplicate = Some(range);
        }
        true
    }

    /// An acknowledgement of the state as it is must leave.
    fn acknowledge(&mut self) {
        self.owed = true;
        self.last_ack = self.next;
        self.unacked = 0;
        self.ack_at = Time::NEVER;
    }

    /// The state is about to change: an acknowledgement of the old one that has not been taken out is kept.
    #[cold]
    fn keep_owed(&mut self) {
        let mut ack = AckSegment::default();
        self.write(&mut ack);
        self.due.push_back(ack);
    }

    /// Writes the acknowledgement that is owed.
    #[inline(always)]
    fn write(&mut self, ack: &mut AckSegment) {
        self.owed = false;
        // A duplicate takes the place of one block.
        let room = if self.duplicate.is_some() { MAX_SACKS - 1 } else { MAX_SACKS };
        ack.cumulative = self.next;
        ack.sack_count = self.above.report(&mut ack.sacks[..room]);
        ack.duplicate = self.duplicate.take();
        ack.syn = false;
        ack.echo_sent_at = self.echo;
        ack.received_at = self.received_at;
        ack.ece = self.ece;
        ack.ce_bytes = self.ce_bytes;
        ack.ce_packets = self.ce_packets;
        ack.arrivals = self.arrivals.take();
        ack.feedback = None;
    }
}

impl Receiver for StreamReceiver {
    fn on_segment(&mut self, now: Time, segment: &Segment, ce: bool) {
        if self.owed {
            self.keep_owed();
        }
        if segment.syn {
            self.due.push_back(AckSegment::answer(now, segment));
            return;
        }
        let mut at_once = false;
        match segment.ecn {
            Ecn::Off => {}
            Ecn::Classic => {
                if segment.cwr {
                    self.ece = false;
                }
                if ce && !self.ece {
                    // Linux `__tcp_ecn_check_ce`: the sender may have a tiny window.
                    self.ece = true;
                    self.quick = self.quick.max(2);
                }
            }
            Ecn::Exact | Ecn::L4s => {
                if ce != self.ece {
                    if self.unacked > 0 {
                        self.acknowledge();
                        self.keep_owed();
                    }
                    self.ece = ce;
                    at_once = true;
                }
            }
        }
        if ce {
            self.ce_bytes += u64::from(segment.bytes);
            self.ce_packets += 1;
        }
        if segment.seq <= self.last_ack && segment.sent_at >= self.echo {
            self.echo = segment.sent_at;
        }
        self.received_at = now;
        let mut arrival = Arrival::new(now, segment.seq, segment.bytes);
        arrival.note = segment.note;
        arrival.ce = ce;
        self.half.on_arrival(&arrival);
        if segment.bytes > 0 {
            self.arrivals.note(segment.seq, now);
        }
        let range = Range { start: segment.seq, end: segment.seq.saturating_add(u64::from(segment.bytes)) };
        at_once |= self.reassemble(range);
        self.unacked += 1;
        if self.quick > 0 {
            self.quick -= 1;
            at_once = true;
        }
        if at_once || self.unacked >= self.policy.every {
            self.acknowledge();
        } else if self.ack_at == Time::NEVER {
            self.ack_at = now + self.policy.max_delay;
        }
    }

    fn poll_ack_into(&mut self, now: Time, ack: &mut AckSegment) -> bool {
        let mut feedback = None;
        if let Some(due) = self.due.pop_front() {
            *ack = due;
        } else {
            if !self.owed && self.ack_at > now {
                feedback = self.half.is_due(now).then(|| self.half.feedback(now)).flatten();
                if feedback.is_none() {
                    return false;
                }
            }
            self.acknowledge();
            self.write(ack);
        }
        ack.feedback = feedback.or_else(|| self.half.feedback(now));
        true
    }

    fn next_timeout(&self) -> Time {
        if self.owed || !self.due.is_empty() { Time::ZERO } else { self.ack_at.min(self.half.next_tick()) }
    }

    fn bytes_ready(&self) -> u64 {
        self.next - self.start
    }
}
