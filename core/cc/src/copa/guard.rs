//! The release's answer to heavy loss.

use crate::units::{Nanos, Time};

/// The release's `ReduceOnLoss`: cuts the window when nearly a third of the packets is lost.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LossGuard {
    since: Time,
    packets: usize,
    lost: usize,
}

impl LossGuard {
    /// Share of losses from which to cut, the factor, and the number of packets that make a share.
    const THRESHOLD: f64 = 0.3;
    pub(super) const FACTOR: f64 = 0.7;
    const PACKETS: usize = 20;

    /// Counts packets; true when the window is to be cut.
    pub(super) fn count(&mut self, now: Time, rtt: Nanos, delivered: usize, lost: usize) -> bool {
        self.packets = self.packets.saturating_add(delivered).saturating_add(lost);
        self.lost = self.lost.saturating_add(lost);
        if now <= self.since + rtt + rtt || self.packets <= Self::PACKETS {
            return false;
        }
        let share = self.lost as f64 / self.packets as f64;
        *self = Self { since: now, packets: 0, lost: 0 };
        share > Self::THRESHOLD
    }
}
