//! The controller above a TCP sender of ours: what the simulator runs as `NAME@alcc`.
//!
//! The feedback of a receiver half rides on TCP's acknowledgements (the client/server variant); the note on a segment is
//! that of the chunk in which it starts. A handshake is TCP's: nothing is handed over before, and the upper controller
//! learns the RTT of it (`TCP_INFO` after `connect`).

use paceline_cc::{Controller, Nanos, Time};

use super::{Above, Arrived, Delivered, Took};
use crate::config::Config;
use crate::endpoint::{Sender, SenderStats};
use crate::segment::{AckSegment, Segment};
use crate::sender::{Delivery, FlowSender};

/// A sender in which `upper` decides what TCP, driven by `lower`, is given to send. The receiver is that of streams.
pub fn sender(config: &Config, upper: Box<dyn Controller>, lower: Box<dyn Controller>) -> Box<dyn Sender> {
    Box::new(AboveTcp {
        above: Above::new(config, upper),
        tcp: FlowSender::new(config, lower, Delivery::Reliable, 0),
        timeouts: 0,
        lost: 0,
    })
}

struct AboveTcp {
    above: Above,
    tcp: FlowSender,
    /// Time-outs of TCP that the upper controller knows of, and losses.
    timeouts: u64,
    lost: u64,
}

impl AboveTcp {
    /// Tells the upper controller of what TCP has found lost, but by a time-out.
    fn tell_losses(&mut self, now: Time) {
        let lost = self.tcp.stats.packets_lost;
        let new = lost - std::mem::replace(&mut self.lost, lost);
        if self.tcp.stats.timeouts == self.timeouts {
            self.above.lost(now, new.min(u64::from(u32::MAX)) as u32);
        }
    }
}

impl Sender for AboveTcp {
    fn write(&mut self, bytes: u64) {
        self.above.queued(bytes);
    }

    fn cut(&mut self) {
        self.above.cut();
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Segment> {
        if self.tcp.is_connected() {
            while let Some(bytes) = self.above.poll(now) {
                self.above.handed(now, bytes, self.tcp.is_blocked());
                self.tcp.write(u64::from(bytes));
            }
        }
        if let Some(mut segment) = self.tcp.poll_transmit(now) {
            segment.note = self.above.note_at(segment.seq);
            return Some(segment);
        }
        let note = self.above.poll_empty(now)?;
        Some(self.tcp.empty_segment(now, note))
    }

    fn on_ack(&mut self, now: Time, ack: &AckSegment) {
        if let Some(blob) = &ack.feedback {
            // Counted there.
            let _ = self.above.feedback(now, blob);
        }
        let connected = self.tcp.is_connected();
        let repaired = self.tcp.board.held() > 0;
        self.tcp.take_ack(now, ack);
        if !connected
            && self.tcp.is_connected()
            && let Some(rtt) = self.tcp.core.rtt.smoothed
        {
            self.above.connected(now, rtt);
        }
        self.tell_losses(now);
        // Chunks that waited for an earlier one were told of by an acknowledgement before: their times are not known here.
        let arrived = ack.arrivals.as_deref().map_or(Arrived::Newest(ack.received_at), Arrived::Each);
        let upto = self.tcp.una;
        self.above.delivered(now, &Delivered { upto, at: now, repaired, took: Took::Told, arrived });
        if let Some(highest) = self.tcp.board.highest() {
            let bytes = u64::from(self.tcp.board.held()) * u64::from(self.tcp.core.config.mss);
            self.above.arrived_ahead(now, highest, bytes, Took::Told);
        }
    }

    fn next_timeout(&self) -> Time {
        self.tcp.next_timeout().min(self.above.next_wake())
    }

    fn on_timeout(&mut self, now: Time) {
        self.above.tick(now);
        if self.tcp.next_timeout() > now {
            return;
        }
        self.tcp.on_timeout(now);
        self.tell_losses(now);
        if self.tcp.stats.timeouts > self.timeouts {
            self.timeouts = self.tcp.stats.timeouts;
            self.above.timeout(now, self.tcp.backoff);
        }
    }

    fn paced_until(&self) -> Time {
        let below = self.tcp.paced_until();
        if self.tcp.is_blocked() { below } else { below.max(self.above.core.pacer.due()) }
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

    fn take_rtt(&mut self) -> Option<Nanos> {
        self.above.take_rtt()
    }

    fn stats(&self) -> SenderStats {
        SenderStats {
            limited_below: self.above.limited_below(),
            bad_feedback: self.above.bad_feedback(),
            ..self.tcp.stats()
        }
    }

    fn controller(&self) -> &dyn Controller {
        self.above.controller()
    }
}
