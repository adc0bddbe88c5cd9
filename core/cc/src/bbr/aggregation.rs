//! How much more than the estimated bandwidth explains may be acknowledged at once (Linux `tcp_bbr.c`,
//! `bbr_update_ack_aggregation`): the window needs that much more for the pipe to stay full between bursts of
//! acknowledgements.

use crate::units::Time;

/// Rounds that one of the two slots covers (`bbr_extra_acked_win_rtts`).
const SLOT_ROUNDS: u32 = 5;
/// Packets after which an epoch ends anyway (`bbr_ack_epoch_acked_reset_thresh`).
const EPOCH_PACKETS: f64 = (1u32 << 20) as f64;
/// Longest time whose worth of data is added to the window in seconds (`bbr_extra_acked_max_us`).
const MAX_SECONDS: f64 = 0.1;

/// The windowed maximum of excess packets, over the last 5 to 10 rounds.
#[derive(Clone, Debug, Default)]
pub(super) struct Aggregation {
    epoch_start: Time,
    epoch_acked: f64,
    extra: [f64; 2],
    slot: usize,
    slot_rounds: u32,
}

/// What one acknowledgement gives the estimator.
pub(super) struct Delivery {
    pub(super) now: Time,
    /// It starts a round.
    pub(super) round_start: bool,
    /// Packets newly delivered, more than zero.
    pub(super) acked: f64,
    /// Bandwidth estimate in packets per second.
    pub(super) bandwidth: f64,
    /// Congestion window in packets: the limit of an excess.
    pub(super) cwnd: f64,
}

impl Aggregation {
    pub(super) fn update(&mut self, delivery: &Delivery) {
        if delivery.round_start {
            self.slot_rounds += 1;
            if self.slot_rounds >= SLOT_ROUNDS {
                self.slot_rounds = 0;
                self.slot = 1 - self.slot;
                self.extra[self.slot] = 0.0;
            }
        }
        let elapsed = (delivery.now - self.epoch_start).as_secs_f64();
        let mut expected = (delivery.bandwidth * elapsed).floor();
        if self.epoch_acked <= expected || self.epoch_acked + delivery.acked >= EPOCH_PACKETS {
            self.restart(delivery.now);
            expected = 0.0;
        }
        self.epoch_acked += delivery.acked;
        let extra = (self.epoch_acked - expected).min(delivery.cwnd);
        self.extra[self.slot] = self.extra[self.slot].max(extra);
    }

    /// Starts a new epoch.
    pub(super) fn restart(&mut self, now: Time) {
        self.epoch_start = now;
        self.epoch_acked = 0.0;
    }

    /// Packets to add to the window at a bandwidth estimate of `bandwidth` packets per second.
    pub(super) fn allowance(&self, bandwidth: f64) -> f64 {
        self.extra[0].max(self.extra[1]).min((bandwidth * MAX_SECONDS).floor()).floor()
    }
}
