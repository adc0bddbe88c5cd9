//! A drain: for about two round trips the window is at its smallest, so that RTTmin can be seen again (our choice, as BBR's
//! ProbeRTT; Cardwell et al., "BBR: Congestion-Based Congestion Control", ACM Queue 2016).
//!
//! Like flows saw the queue of the one bottleneck at its lowest at the same time, so that they drain at the same time, and
//! together they empty it.

use super::delays::Delays;
use crate::units::{Nanos, Time};

/// A drain in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drain {
    until: Time,
    /// The window before it in packets, and RTTstanding.
    pub(super) cwnd: f64,
    /// maxFS before it, which comes back with the window.
    pub(super) max_flight: f64,
    standing: Nanos,
    /// When the smallest RTT of the drain was seen, and that RTT.
    seen: Time,
    lowest: Nanos,
}

impl Drain {
    /// Lasts until what was in flight has arrived, and one smallest RTT.
    pub(super) fn new(now: Time, cwnd: f64, max_flight: f64, delays: &Delays) -> Self {
        let until = now + delays.latest + delays.min();
        Self { until, cwnd, max_flight, standing: delays.standing(), seen: now, lowest: delays.latest }
    }

    /// Takes an RTT; true when the drain is over.
    pub(super) fn update(&mut self, now: Time, rtt: Nanos) -> bool {
        if rtt <= self.lowest {
            (self.seen, self.lowest) = (now, rtt);
        }
        now >= self.until
    }

    /// Renews RTTmin, and answers the window that keeps the rate from before the drain without the queue.
    pub(super) fn finish(&self, delays: &mut Delays) -> f64 {
        delays.renew(self.seen, self.lowest);
        self.cwnd * delays.min().as_secs_f64() / self.standing.as_secs_f64()
    }
}
