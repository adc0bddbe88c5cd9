//! Delivery-rate samples.
//!
//! Source: draft-cheng-iccrg-delivery-rate-estimation, Linux `tcp_rate.c`. What differs: bytes instead of packets.

use paceline_cc::{Nanos, RateSample, Time};

use crate::scoreboard::Packet;

/// The flow's counters behind the samples.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateSampler {
    /// Bytes delivered since the start of the flow.
    pub(crate) delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    /// Packets sent until `delivered` passes this are application-limited; zero when not limited.
    app_limited_until: u64,
}

impl RateSampler {
    pub(crate) fn new() -> Self {
        Self { delivered: 0, delivered_at: Time::ZERO, first_sent_at: Time::ZERO, app_limited_until: 0 }
    }

    /// Writes the flow's state into the record of a packet that leaves; `first` when nothing else is outstanding.
    pub(crate) fn stamp(&mut self, packet: &mut Packet, now: Time, first: bool) {
        if first {
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        packet.prior_delivered = self.delivered;
        packet.prior_delivered_at = self.delivered_at;
        packet.first_sent_at = self.first_sent_at;
        packet.app_limited = self.is_app_limited();
    }

    pub(crate) fn is_app_limited(&self) -> bool {
        self.app_limited_until != 0
    }

    /// The application ran dry with `in_flight` bytes on the way.
    pub(crate) fn mark_app_limited(&mut self, in_flight: u64) {
        self.app_limited_until = (self.delivered + in_flight).max(1);
    }

    /// `bytes` were delivered, `newest` being the last sent among them.
    pub(crate) fn deliver(&mut self, now: Time, bytes: u64, newest: &Packet, min_rtt: Nanos) -> Option<RateSample> {
        self.delivered += bytes;
        self.delivered_at = now;
        self.first_sent_at = newest.sent_at;
        if self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        let send = newest.sent_at - newest.first_sent_at;
        let interval = send.max(now - newest.prior_delivered_at);
        // Shorter than any RTT: a retransmission whose original was the one delivered.
        if interval == Nanos::ZERO || (min_rtt != Nanos::MAX && interval < min_rtt) {
            return None;
        }
        Some(RateSample {
            delivered: self.delivered - newest.prior_delivered,
            interval,
            prior_delivered: newest.prior_delivered,
            app_limited: newest.app_limited,
            retransmission: newest.retransmitted,
        })
    }
}
