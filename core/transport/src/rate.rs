//! Delivery-rate samples.
//!
//! Source: draft-cheng-iccrg-delivery-rate-estimation, Linux `tcp_rate.c`. What differs: bytes instead of packets.

use paceline_cc::{Nanos, RateSample, Time};

/// The flow's counters behind the samples.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RateSampler {
    /// Bytes delivered since the start of the flow.
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    /// Packets sent until `delivered` passes this are application-limited; zero when not limited.
    app_limited_until: u64,
}

/// A packet's departure and what the sampler knew then; it comes back with the packet's delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Departure {
    /// When it left.
    pub(crate) sent_at: Time,
    /// Bytes delivered by then.
    pub(crate) prior_delivered: u64,
    /// When they were.
    pub(crate) prior_delivered_at: Time,
    /// When the packet left whose delivery was the newest then.
    pub(crate) first_sent_at: Time,
    /// The application limited the flow.
    pub(crate) app_limited: bool,
    /// The payload had been sent before.
    pub(crate) retransmission: bool,
}

impl RateSampler {
    /// A flow that has sent nothing.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// A packet is about to leave while nothing else is outstanding.
    pub(crate) fn restart(&mut self, now: Time) {
        self.first_sent_at = now;
        self.delivered_at = now;
    }

    /// A packet leaves; a `retransmission` when its payload was sent before.
    pub(crate) fn stamp(&self, now: Time, retransmission: bool) -> Departure {
        Departure {
            sent_at: now,
            prior_delivered: self.delivered,
            prior_delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            app_limited: self.is_app_limited(),
            retransmission,
        }
    }

    /// Bytes delivered since the start of the flow.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// The application limits the flow, or did when something on the way was sent.
    pub(crate) fn is_app_limited(&self) -> bool {
        self.app_limited_until != 0
    }

    /// The application ran dry with `in_flight` bytes on the way.
    pub(crate) fn mark_app_limited(&mut self, in_flight: u64) {
        self.app_limited_until = self.delivered.saturating_add(in_flight).max(1);
    }

    /// `total` bytes have been delivered since the start of the flow; fewer than before are no news.
    pub(crate) fn count(&mut self, now: Time, total: u64) {
        if total > self.delivered {
            self.delivered = total;
            self.delivered_at = now;
        }
        if self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
    }

    /// `newest` was delivered, the last sent of those that an acknowledgement names, after all that is
    /// [counted](RateSampler::count). No sample where the interval is zero, or shorter than `min_rtt` ([`Nanos::MAX`]
    /// while unknown), or nothing was counted in it.
    pub(crate) fn sample(&mut self, now: Time, newest: &Departure, min_rtt: Nanos) -> Option<RateSample> {
        self.first_sent_at = newest.sent_at;
        let send = newest.sent_at - newest.first_sent_at;
        let interval = send.max(now - newest.prior_delivered_at);
        // Shorter than any RTT: a retransmission whose original was the one delivered.
        if interval == Nanos::ZERO || (min_rtt != Nanos::MAX && interval < min_rtt) {
            return None;
        }
        let delivered = self.delivered - newest.prior_delivered;
        (delivered > 0).then(|| {
            let mut sample = RateSample::new(delivered, interval);
            sample.prior_delivered = newest.prior_delivered;
            sample.app_limited = newest.app_limited;
            sample.retransmission = newest.retransmission;
            sample
        })
    }
}
