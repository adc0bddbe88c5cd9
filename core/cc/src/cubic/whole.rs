//! CUBIC's growth in whole packets, as Linux counts it.
//!
//! Source: Linux `bictcp_update`, `tcp_cong_avoid_ai`. The curve, Reno's window and the bounds are those of [`Cubic`](super::Cubic); what
//! differs is how they are counted. The curve and Reno's window say for how many acknowledged packets the window grows by one, and
//! acknowledgements are counted up to that.

use super::{Curve, Epoch, Settings};
use crate::units::{Nanos, Time};

/// Where the window stands still, the curve is read again after this time (`HZ / 32`).
const READ_EVERY: Nanos = Nanos::from_micros(31_250);
/// ... and never twice in a tick, of which Linux's default has 250 in a second.
const TICK: u64 = 4_000_000;
/// The window grows by a packet for this many acknowledged at least (`max(cnt, 2)`), and where the curve is not above it, for this many
/// windows.
const FASTEST: u32 = 2;
const FLAT: u32 = 100;
/// Rounding errors below this are not of a packet.
const EXACT: f64 = 1e-9;

/// What is counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Whole {
    /// A packet of window for this many acknowledged.
    per: u32,
    /// Acknowledged towards the next.
    counted: u32,
    /// The window, and when the curve was last read.
    read: Option<(u32, Time)>,
    /// Reno's window, and what was acknowledged towards its next packet.
    reno: u32,
    of_reno: u32,
}

/// Whole packets of a window.
pub(super) fn floor(packets: f64) -> f64 {
    (packets + EXACT).floor()
}

impl Whole {
    /// The part of a packet that the window has grown by, which is counted no longer.
    pub(super) fn take_part(&mut self) -> f64 {
        let counted = std::mem::take(&mut self.counted);
        if self.per > 0 { (f64::from(counted) / f64::from(self.per)).min(1.0) } else { 0.0 }
    }

    /// Packets by which a window of `cwnd` grows when `acked` more have been acknowledged. `ahead` is the smallest RTT.
    pub(super) fn grow(
        &mut self,
        now: Time,
        ahead: Nanos,
        acked: u32,
        cwnd: f64,
        curve: &mut Curve,
        settings: &Settings,
    ) -> f64 {
        let cwnd = floor(cwnd).max(1.0) as u32;
        self.update(now, ahead, acked, cwnd, curve, settings);
        let mut steps = 0;
        if self.counted >= self.per {
            // The number has become smaller than what was counted already: that is worth one packet.
            self.counted = 0;
            steps = 1;
        }
        self.counted = self.counted.saturating_add(acked);
        steps += self.counted / self.per;
        self.counted %= self.per;
        f64::from(steps)
    }

    fn update(&mut self, now: Time, ahead: Nanos, acked: u32, cwnd: u32, curve: &mut Curve, settings: &Settings) {
        self.of_reno = self.of_reno.saturating_add(acked);
        if self.read.is_some_and(|(window, at)| window == cwnd && now - at <= READ_EVERY) && self.per > 0 {
            return;
        }
        let in_tick = |at: Time| now.as_nanos() / TICK == at.as_nanos() / TICK;
        if curve.epoch.is_none() || self.per == 0 || !self.read.is_some_and(|(_, at)| in_tick(at)) {
            self.read_curve(now, ahead, acked, cwnd, curve, settings);
        }
        if settings.reno_friendly {
            self.befriend_reno(cwnd, settings.slope_beta);
        }
        self.per = self.per.max(FASTEST);
    }

    fn read_curve(&mut self, now: Time, ahead: Nanos, acked: u32, cwnd: u32, curve: &mut Curve, settings: &Settings) {
        self.read = Some((cwnd, now));
        let epoch = curve.epoch.unwrap_or_else(|| {
            (self.of_reno, self.reno) = (acked, cwnd);
            Epoch::new(now, f64::from(cwnd), curve.w_max, settings.c)
        });
        curve.epoch = Some(epoch);
        let t = now.since(epoch.start) + ahead;
        let above = epoch.at(t.as_secs_f64(), settings.c) - epoch.origin;
        // The distance from the plateau is of whole packets too.
        let target = (epoch.origin + above.trunc()).max(0.0) as u32;
        self.per = if target > cwnd { cwnd / (target - cwnd) } else { cwnd.saturating_mul(FLAT) };
        if curve.w_max == 0.0 && settings.opening > 0.0 {
            self.per = self.per.min((1.0 / settings.opening) as u32);
        }
    }

    /// Never slower than Reno with this beta: packets acknowledged for one of Reno's window, in eighths of the window, rounded down.
    fn befriend_reno(&mut self, cwnd: u32, beta: f64) {
        let eighths = floor(8.0 * (1.0 + beta) / 3.0 / (1.0 - beta));
        let per_packet = (f64::from(cwnd) * eighths / 8.0) as u32;
        if per_packet > 0 && self.of_reno > per_packet {
            let packets = (self.of_reno - 1) / per_packet;
            self.of_reno -= packets * per_packet;
            self.reno = self.reno.saturating_add(packets);
        }
        if self.reno > cwnd {
            self.per = self.per.min(cwnd / (self.reno - cwnd));
        }
    }
}
