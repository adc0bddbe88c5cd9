//! The controller above a TCP sender of ours: what the simulator runs as `NAME@alcc`.
//!
//! The feedback of a receiver half rides on TCP's acknowledgements (the client/server variant); the note on a segment is
//! that of the chunk in which it starts. A handshake is TCP's: nothing is handed over before, and the upper controller
//! learns the RTT of it (`TCP_INFO` after `connect`).
//!
//! TCP reports when a chunk left, and takes no more than [`NOT_SENT`] of what it cannot send yet, as a socket does under our
//! engine. If the time in TCP's buffer counted, a controller would take a window of TCP's that is small after a silence for
//! a queue of the path, and give TCP too little to ever grow it.

use paceline_cc::{Controller, Nanos, Time};

use super::{Above, Ahead, Delivered, NOT_SENT, Took};
use crate::config::SenderConfig;
use crate::driver::ArrivalClock;
use crate::endpoint::{Sender, SenderStats, Steering};
use crate::segment::{AckSegment, Segment};
use crate::sender::{Delivery, Digest, Fired, FlowSender};

/// A sender in which `upper` decides what TCP, driven by `lower`, is given to send. The receiver is that of streams.
pub fn sender(config: &SenderConfig, upper: Box<dyn Controller>, lower: Box<dyn Controller>) -> Box<dyn Sender> {
    Box::new(AboveTcp { above: Above::new(config, upper), tcp: FlowSender::new(config, lower, Delivery::Reliable, 0) })
}

struct AboveTcp {
    above: Above,
    tcp: FlowSender,
}

impl Steering for AboveTcp {
    fn write(&mut self, bytes: u64) {
        self.above.queued(bytes);
    }

    fn cut(&mut self) -> u64 {
        self.above.cut()
    }

    fn next_timeout(&self) -> Time {
        self.tcp.next_timeout().min(self.above.next_wake())
    }

    fn on_timeout(&mut self, now: Time) {
        self.above.tick(now);
        if self.tcp.next_timeout() > now {
            return;
        }
        match self.tcp.fire(now) {
            Fired::Nothing => {}
            Fired::Losses(lost) => self.above.lost(now, lost),
            Fired::Timeout => self.above.timeout(now, self.tcp.backoff),
        }
    }

    fn paced_until(&self) -> Time {
        let below = self.tcp.paced_until();
        if self.tcp.is_blocked() { below } else { below.max(self.above.driver.due()) }
    }

    fn is_idle(&self) -> bool {
        self.above.is_idle()
    }

    fn in_flight(&self) -> u64 {
        self.above.in_flight()
    }

    fn window(&self) -> u64 {
        self.above.controller().window()
    }

    fn srtt(&self) -> Option<Nanos> {
        self.above.rtt().smoothed()
    }

    fn stats(&self) -> SenderStats {
        SenderStats {
            chunks: self.above.chunks(),
            limited_below: self.above.limited_below(),
            bad_feedback: self.above.bad_feedback(),
            ..self.tcp.stats()
        }
    }

    fn controller(&self) -> &dyn Controller {
        self.above.controller()
    }
}

impl Sender for AboveTcp {
    fn poll_transmit(&mut self, now: Time) -> Option<Segment> {
        if self.tcp.is_connected() {
            while let Some(bytes) = self.above.poll(now) {
                if self.tcp.unsent() >= u64::from(NOT_SENT) {
                    self.above.blocked(now);
                    break;
                }
                self.above.handed(now, bytes, self.tcp.is_blocked());
                self.tcp.write(u64::from(bytes));
            }
        }
        if let Some(mut segment) = self.tcp.poll_transmit(now) {
            self.above.left(segment.seq + u64::from(segment.bytes), now);
            segment.note = self.above.note_at(segment.seq);
            return Some(segment);
        }
        let note = self.above.poll_empty(now)?;
        Some(self.tcp.empty_segment(now, note))
    }

    fn on_ack(&mut self, now: Time, ack: &AckSegment) -> Option<Nanos> {
        if let Some(blob) = &ack.feedback {
            // Counted there.
            let _ = self.above.feedback(now, blob);
        }
        let connected = self.tcp.is_connected();
        let repaired = self.tcp.board.held() > 0;
        let Digest { lost, undone, .. } = self.tcp.take_ack(now, ack);
        if !connected
            && self.tcp.is_connected()
            && let Some(rtt) = self.tcp.driver.rtt.smoothed
        {
            self.above.connected(now, rtt);
        }
        if undone {
            self.above.spurious(now);
        }
        self.above.lost(now, lost);
        // Chunks that waited for an earlier one were reported by an acknowledgement before: their times are not known here.
        let arrived = ack.arrivals.as_deref().map_or(ArrivalClock::Newest(ack.received_at), ArrivalClock::Each);
        let (una, took) = (self.tcp.una, Took::Reported);
        let acked = self.above.delivered(now, &Delivered { upto: una, at: now, repaired, took, arrived });
        let ahead = self.tcp.board.highest().and_then(|upto| {
            let bytes = self.tcp.driver.bytes_delivered().saturating_sub(una);
            self.above.arrived_ahead(now, &Ahead { una, upto, bytes, took })
        });
        ahead.and_then(|news| news.rtt).or(acked.and_then(|news| news.rtt))
    }
}
