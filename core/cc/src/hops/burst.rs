//! How many packets a link delivers at once: an aggregate of a radio, what a cell grants at a time.

use crate::controller::Ack;
use crate::units::{Nanos, Time};

/// What comes closer together came at once (our choice: less than a frame of a radio takes).
const AT_ONCE: Nanos = Nanos::from_micros(200);
/// Part of the newest in the mean (RFC 6298 smooths so).
const NEWEST: f64 = 0.125;

/// Packets that came at once.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Burst {
    /// When the newest of them came.
    at: Time,
    packets: f64,
    mean: f64,
}

impl Burst {
    /// Takes in an acknowledgement of this many packets: by the receiver's clock, where it says when they came.
    pub(super) fn take(&mut self, ack: &Ack<'_>, packets: f64) {
        let at = ack.packets.iter().rev().find_map(|acked| acked.received_at).unwrap_or(ack.now);
        if at - self.at < AT_ONCE {
            self.packets += packets;
        } else {
            self.mean += NEWEST * (self.packets - self.mean);
            self.packets = packets;
        }
        self.at = at;
    }

    /// This many in the mean, at least one.
    pub(super) fn mean(&self) -> f64 {
        self.mean.max(1.0)
    }
}
