//! Proportional rate reduction.

use paceline_cc::{Controller, Recovery};

/// Proportional rate reduction in bytes.
///
/// Source: RFC 6937 with the conservative bound as in Linux `tcp_cwnd_reduction`: beyond packet conservation one
/// packet, and only for acknowledgements that advance without showing new losses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Prr {
    /// `RecoverFS`: bytes sent and not cumulatively acknowledged at the start. Not the bytes in flight, of which losses
    /// may have left few: the share of deliveries that is sent again would exceed one.
    flight: u64,
    /// `ssthresh`: where the window goes.
    target: u64,
    /// `prr_delivered`.
    delivered: u64,
    /// `prr_out`.
    out: u64,
    /// The window in force, in bytes.
    pub window: u64,
}

impl Prr {
    /// Begins a reduction of `flight` bytes sent and not cumulatively acknowledged to a window of `target` bytes.
    pub fn start(flight: u64, target: u64) -> Self {
        Self { flight: flight.max(target).max(1), target, delivered: 0, out: 0, window: target }
    }

    /// A packet of `bytes` left.
    pub fn on_sent(&mut self, bytes: u32) {
        self.out += u64::from(bytes);
    }

    /// `delivered` bytes arrived and `pipe` are in flight; `good` when the acknowledgement advanced and showed no new
    /// loss.
    pub fn on_ack(&mut self, delivered: u64, pipe: u64, good: bool, mss: u32) {
        let mss = u64::from(mss);
        self.delivered += delivered;
        let mut send = if pipe > self.target {
            let share = u128::from(self.delivered) * u128::from(self.target);
            let share = share.div_ceil(u128::from(self.flight)) as u64;
            share.saturating_sub(self.out)
        } else {
            let limit = self.delivered.saturating_sub(self.out).max(delivered) + if good { mss } else { 0 };
            limit.min(self.target - pipe)
        };
        // The fast retransmit itself; and with nothing in flight no acknowledgement would come to send more.
        if self.out == 0 || pipe == 0 {
            send = send.max(mss);
        }
        self.window = pipe + send;
    }
}

/// Whether the datapath shapes recovery for this controller.
pub(crate) fn glides(controller: &dyn Controller) -> bool {
    controller.permit().recovery == Recovery::Prr
}
