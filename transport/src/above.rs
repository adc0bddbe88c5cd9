//! A controller above TCP, the idea of ALCC: an application that hands over less than TCP would take controls the flow.
//!
//! Source: Zaki et al., "ALCC: Migrating Congestion Control to the Application Layer in Cellular Networks", sections 3
//! and 4. What differs: chunks are known by byte offsets of 64 bits, so partial acknowledgements never shift the
//! mapping; one acknowledgement that covers several chunks is one event with several packets.
//!
//! The upper controller sees the time from handing a chunk over to its cumulative acknowledgement. It sees no losses,
//! which TCP repairs, but TCP's time-outs. The feedback of a receiver half rides on TCP's acknowledgements (the
//! client/server variant); the note on a segment is that of the chunk in which it starts. A handshake is TCP's: nothing
//! is handed over before, and the upper controller learns the RTT of it (`TCP_INFO` after `connect`).

use std::collections::VecDeque;

use paceline_cc::{Ack, Controller, Nanos, Phase, Time, Timeout};

use crate::config::Config;
use crate::core::{Core, Received};
use crate::endpoint::{Sender, SenderStats};
use crate::scoreboard::{Packet, Scoreboard};
use crate::segment::{AckSegment, Segment};
use crate::sender::{Delivery, FlowSender};

/// A sender in which `upper` decides what TCP, driven by `lower`, is given to send. The receiver is that of streams.
pub fn sender(config: &Config, upper: Box<dyn Controller>, lower: Box<dyn Controller>) -> Box<dyn Sender> {
    Box::new(AboveTcp {
        core: Core::new(config, upper),
        chunks: Scoreboard::new(config.mss),
        notes: VecDeque::new(),
        tcp: FlowSender::new(config, lower, Delivery::Reliable, 0),
        next: 0,
        end: 0,
        timeouts: 0,
        limited: 0,
        bad_feedback: 0,
        wake_at: Time::NEVER,
    })
}

struct AboveTcp {
    core: Core,
    /// Chunks handed to TCP and not yet acknowledged.
    chunks: Scoreboard,
    /// The upper controller's word to its receiver half on each of them.
    notes: VecDeque<u64>,
    tcp: FlowSender,
    next: u64,
    end: u64,
    /// Time-outs of TCP that the upper controller knows of.
    timeouts: u64,
    limited: u64,
    bad_feedback: u64,
    wake_at: Time,
}

impl AboveTcp {
    /// Gives TCP what window and pacing of the upper controller permit.
    fn hand_over(&mut self, now: Time) {
        self.wake_at = Time::NEVER;
        if !self.tcp.is_connected() {
            return;
        }
        loop {
            let mss = u64::from(self.core.config.mss);
            let window = self.core.controller.window();
            let bytes = (self.end - self.next).min(mss);
            if bytes == 0 {
                if self.chunks.in_flight + mss <= window {
                    self.core.run_dry(now, self.chunks.in_flight);
                    self.chunks.end_burst(false);
                }
                return;
            }
            if self.chunks.in_flight + bytes > window {
                self.chunks.end_burst(true);
                return;
            }
            if self.core.pacer.due() > now {
                self.wake_at = self.core.pacer.due();
                return;
            }
            let first = self.chunks.is_empty();
            if first {
                self.core.restart(now);
            }
            // TCP still holds what it was given before it saw its last acknowledgement: it is the limit.
            self.limited += u64::from(self.tcp.is_blocked());
            let mut chunk = Packet::new(self.next, bytes as u32, now);
            let in_flight = self.chunks.in_flight + bytes;
            let note = self.core.sent(now, &mut chunk, in_flight, self.end - self.next - bytes, first);
            chunk.window_limited = in_flight.saturating_mul(2) > window;
            self.chunks.push(chunk);
            self.notes.push_back(note);
            self.next += bytes;
            self.tcp.write(bytes);
        }
    }

    fn note_of(&self, segment: &Segment) -> u64 {
        self.notes.get(self.chunks.offset_of(segment.seq)).copied().unwrap_or(0)
    }

    /// Tells the upper controller what TCP has got through.
    fn unroll(&mut self, now: Time, ack: &AckSegment) {
        let prior_in_flight = self.chunks.in_flight;
        self.chunks.fresh.clear();
        self.chunks.deliver_below(self.tcp.una);
        if self.chunks.fresh.is_empty() {
            return;
        }
        self.notes.drain(..self.chunks.fresh.len());
        // Chunks that waited for an earlier one were told of by an acknowledgement before: their times are not known here.
        let received = ack.arrivals.as_deref().map_or(Received::Newest(ack.received_at), Received::Each);
        let delivery = self.core.digest(now, &mut self.chunks.fresh, false, &received);
        if let Some(sample) = delivery.rtt {
            self.core.rtt.sample(sample);
        }
        if let Some(newest) = delivery.newest {
            // Nothing is ever lost here: this only drops the transmissions that are over.
            self.chunks.advance(newest.serial, now - newest.sent_at);
            self.chunks.detect(now, Nanos::MAX, &mut self.core.lost);
        }
        self.core.controller.on_ack(&Ack {
            now,
            packets: &self.core.acked,
            bytes: delivery.bytes,
            rtt: delivery.rtt,
            srtt: self.core.rtt.smoothed.unwrap_or(Nanos::ZERO),
            min_rtt: self.core.rtt.min,
            rate: delivery.rate,
            prior_in_flight,
            in_flight: self.chunks.in_flight,
            lost_bytes: 0,
            ce_bytes: 0,
            ce_packets: 0,
            echo: false,
            delivered: self.core.rate.delivered,
            una: self.chunks.start().unwrap_or(self.next),
            next: self.next,
            phase: Phase::Open,
            window_limited: delivery.window_limited,
        });
        self.core.refresh();
    }
}

impl Sender for AboveTcp {
    fn write(&mut self, bytes: u64) {
        self.end = self.end.saturating_add(bytes);
        self.core.refresh();
    }

    fn cut(&mut self) {
        self.end = self.next;
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Segment> {
        self.hand_over(now);
        if let Some(mut segment) = self.tcp.poll_transmit(now) {
            segment.note = self.note_of(&segment);
            return Some(segment);
        }
        if self.core.heartbeat_at > now {
            return None;
        }
        let note = self.core.sent_empty(now, self.next, self.chunks.in_flight, self.end - self.next);
        Some(self.tcp.empty_segment(now, note))
    }

    fn on_ack(&mut self, now: Time, ack: &AckSegment) {
        if let Some(blob) = &ack.feedback {
            self.bad_feedback += u64::from(self.core.controller.on_feedback(now, blob).is_err());
            self.core.refresh();
        }
        let connected = self.tcp.is_connected();
        self.tcp.take_ack(now, ack);
        if !connected
            && self.tcp.is_connected()
            && let Some(rtt) = self.tcp.core.rtt.smoothed
        {
            self.core.connected(now, rtt, self.next);
        }
        self.unroll(now, ack);
    }

    fn next_timeout(&self) -> Time {
        self.tcp.next_timeout().min(self.wake_at).min(self.core.tick_at).min(self.core.heartbeat_at)
    }

    fn on_timeout(&mut self, now: Time) {
        self.core.tick(now);
        if self.tcp.next_timeout() > now {
            return;
        }
        self.tcp.on_timeout(now);
        if self.tcp.stats.timeouts > self.timeouts {
            self.timeouts = self.tcp.stats.timeouts;
            // To TCP's upper side nothing is ever lost: what was handed over will arrive.
            let in_flight = self.chunks.in_flight;
            let timeout = Timeout { now, prior_in_flight: in_flight, in_flight, count: self.tcp.backoff };
            self.core.controller.on_timeout(&timeout);
            self.core.refresh();
        }
    }

    fn is_idle(&self) -> bool {
        self.next == self.end && self.chunks.is_empty()
    }

    fn in_flight(&self) -> u64 {
        self.chunks.in_flight
    }

    fn window(&self) -> u64 {
        self.core.controller.window()
    }

    fn srtt(&self) -> Option<Nanos> {
        self.core.rtt.smoothed
    }

    fn take_rtt(&mut self) -> Option<Nanos> {
        self.core.rtt.latest.take()
    }

    fn stats(&self) -> SenderStats {
        SenderStats { limited_below: self.limited, bad_feedback: self.bad_feedback, ..self.tcp.stats() }
    }

    fn controller(&self) -> &dyn Controller {
        self.core.controller.as_ref()
    }
}
