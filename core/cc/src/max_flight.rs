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

/// The largest flight since the window last fell. Everything in packets.
#[derive(Clone, Copy, Debug)]
pub struct MaxFlight {
    largest: f64,
    present: f64,
}

impl MaxFlight {
    /// At the start of a flow whose initial window is `window`.
    pub fn new(window: f64) -> Self {
        Self { largest: window, present: 0.0 }
    }

    /// maxFS.
    pub fn packets(&self) -> f64 {
        self.largest
    }

    /// `in_flight` is in flight now under this window.
    #[inline]
    pub fn update(&mut self, in_flight: f64, window: f64) {
        self.present = in_flight;
        self.largest = self.largest.max(counted(in_flight, window));
    }

    /// The window that an event leaves which found it at `before` and asks for `window`; `limit` is limit(maxFS).
    #[inline]
    #[must_use]
    pub fn bound(&mut self, before: f64, window: f64, limit: f64) -> f64 {
        if window > before {
            return window.min(limit.max(before));
        }
        if window < before {
            self.largest = counted(self.present, window);
        }
        window
    }

    /// The window is back where it was when maxFS was `before`.
    pub fn restore(&mut self, before: f64) {
        self.largest = self.largest.max(before);
    }

    /// Packets have another size: `scale` of them are what one was.
    pub fn scale(&mut self, scale: f64) {
        self.largest *= scale;
        self.present *= scale;
    }
}

fn counted(in_flight: f64, window: f64) -> f64 {
    if in_flight + 1.0 > window { window } else { in_flight }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_ends_at_the_limit_and_a_fall_begins_anew() {
        let mut max = MaxFlight::new(10.0);
        assert_eq!(max.bound(10.0, 14.0, 20.0), 14.0);
        max.update(4.0, 14.0);
        assert_eq!(max.packets(), 10.0);
        assert_eq!(max.bound(14.0, 24.0, 20.0), 20.0);
        max.update(15.0, 20.0);
        assert_eq!(max.packets(), 15.0);
        // Nothing is cut, and what is in flight counts.
        max.update(6.0, 20.0);
        assert_eq!(max.bound(20.0, 16.0, 30.0), 16.0);
        assert_eq!(max.packets(), 6.0);
        assert_eq!(max.bound(16.0, 17.0, 12.0), 16.0);
        max.restore(15.0);
        assert_eq!(max.bound(16.0, 40.0, 30.0), 30.0);
    }

    #[test]
    fn a_flight_counts_as_the_window_where_no_packet_fits_or_where_it_is_larger() {
        for (in_flight, window, counts) in
            [(39.0, 40.0, 39.0), (39.0, 39.9, 39.9), (40.0, 40.0, 40.0), (55.0, 40.0, 40.0)]
        {
            let mut max = MaxFlight::new(1.0);
            max.update(in_flight, window);
            assert_eq!(max.packets(), counts, "{in_flight} of {window}");
        }
    }
}
