//! *maxFS*, the largest flight since the window last fell, and the bound that it puts on a window's growth: no window grows
//! beyond what the path has been shown to carry.
//!
//! Source: draft-ietf-ccwg-ratelimited-increase-10, section "Rate-Limited Increase". limit(maxFS) is the controller's own: the
//! largest window that it reaches when one window of maxFS, sent whole, is acknowledged; 2 maxFS in slow start, one packet
//! more than maxFS in Reno's congestion avoidance. What the draft leaves open:
//!
//! - Read literally, a window would be cut to limit(0) as it falls. The bound acts on growth alone.
//! - The first flight after a fall is what is in flight at that moment.
//! - A flight counts as the window where no further packet fits into the window, so that windows may be counted in parts of
//!   packets, and where it is larger, as while the datapath glides down to a window that has just fallen.
//! - In flight is what is neither delivered nor taken for lost: RFC 5681's FlightSize is larger while losses are repaired.
//! - An undone reduction brings back the flight from before it.

/// The largest flight since the window last fell. Windows and flights in packets but for what is in flight, which is in bytes.
#[derive(Clone, Copy, Debug)]
pub struct MaxFlight {
    largest: f64,
    mss: f64,
    present: u64,
    /// The largest flight that was counted under this window, so that smaller ones need not be.
    peak: u64,
    under: f64,
}

impl MaxFlight {
    /// At the start of a flow of packets of `mss` bytes whose initial window is `window`.
    pub fn new(window: f64, mss: f64) -> Self {
        Self { largest: window, mss, present: 0, peak: 0, under: 0.0 }
    }

    /// maxFS.
    pub fn packets(&self) -> f64 {
        self.largest
    }

    /// `in_flight` bytes are in flight now under this window.
    #[inline]
    pub fn update(&mut self, in_flight: u64, window: f64) {
        self.present = in_flight;
        if in_flight > self.peak || window != self.under {
            (self.peak, self.under) = (in_flight, window);
            self.largest = larger(self.counted(window), self.largest);
        }
    }

    /// The window that an event leaves which found it at `before` and asks for `window`; `limit` makes limit(maxFS) of maxFS, where that is
    /// asked for.
    #[inline]
    #[must_use]
    pub fn bound(&mut self, before: f64, window: f64, limit: impl FnOnce(f64) -> f64) -> f64 {
        if window > before {
            let most = larger(limit(self.largest), before);
            return if window < most { window } else { most };
        }
        if window < before {
            self.largest = self.counted(window);
            self.peak = 0;
        }
        window
    }

    /// The window is back where it was when maxFS was `before`.
    pub fn restore(&mut self, before: f64) {
        self.largest = self.largest.max(before);
    }

    /// Packets have `mss` bytes from now on.
    pub fn on_mss(&mut self, mss: f64) {
        self.largest *= self.mss / mss;
        self.mss = mss;
        self.peak = 0;
    }

    /// What the present flight counts under a window.
    #[inline]
    fn counted(&self, window: f64) -> f64 {
        let in_flight = self.present as f64 / self.mss;
        if in_flight + 1.0 > window { window } else { in_flight }
    }
}

/// As [`f64::max`] of what is a number.
#[inline]
fn larger(one: f64, other: f64) -> f64 {
    if one > other { one } else { other }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};

    use super::*;

    #[test]
    fn growth_ends_at_the_limit_and_a_fall_begins_anew() {
        let mut max = MaxFlight::new(10.0, 1.0);
        assert_eq!(max.bound(10.0, 14.0, |_| 20.0), 14.0);
        max.update(4, 14.0);
        assert_eq!(max.packets(), 10.0);
        assert_eq!(max.bound(14.0, 24.0, |m| 2.0 * m), 20.0);
        max.update(15, 20.0);
        assert_eq!(max.packets(), 15.0);
        // Nothing is cut, and what is in flight counts.
        max.update(6, 20.0);
        assert_eq!(max.bound(20.0, 16.0, |_| unreachable!("it falls")), 16.0);
        assert_eq!(max.packets(), 6.0);
        assert_eq!(max.bound(16.0, 17.0, |m| 2.0 * m), 16.0);
        // The window from before the fall, and a smaller flight than then.
        assert_eq!(max.bound(16.0, 20.0, |_| 20.0), 20.0);
        max.update(12, 20.0);
        assert_eq!(max.packets(), 12.0);
        max.restore(15.0);
        assert_eq!(max.bound(20.0, 40.0, |m| 2.0 * m), 30.0);
    }

    /// Windows and flights by chance: what is asked for is never cut, and maxFS is a flight that was, or the initial window.
    #[test]
    fn nothing_is_cut_and_no_flight_made_up() {
        let mut rng = rand_pcg::Pcg64::seed_from_u64(3);
        let (mut max, mut window, mut most) = (MaxFlight::new(10.0, 1.0), 10.0, 10.0_f64);
        for _ in 0..100_000 {
            let in_flight = rng.random_range(0..60);
            max.update(in_flight, window);
            most = most.max(in_flight as f64);
            let asked = rng.random_range(1.0..60.0);
            let after = max.bound(window, asked, |m| 2.0 * m);
            assert!(after <= asked.max(window) && after >= asked.min(window), "{window}, {asked}: {after}");
            assert!(max.packets() <= most + 1.0, "{} of {most}", max.packets());
            window = after;
        }
    }

    #[test]
    fn a_flight_counts_as_the_window_where_no_packet_fits_or_where_it_is_larger() {
        for (in_flight, window, counts) in [(39, 40.0, 39.0), (39, 39.9, 39.9), (40, 40.0, 40.0), (55, 40.0, 40.0)] {
            let mut max = MaxFlight::new(1.0, 10.0);
            max.update(10 * in_flight, window);
            assert_eq!(max.packets(), counts, "{in_flight} of {window}");
            max.on_mss(20.0);
            assert_eq!(max.packets(), counts / 2.0, "{in_flight} of {window}");
        }
    }
}
