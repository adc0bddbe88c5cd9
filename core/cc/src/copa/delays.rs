//! What Copa knows of the path: one smoothed RTT and four windowed extremes.

use super::Rules;
use crate::filter::WindowedFilter;
use crate::units::{Nanos, Time};

/// Part of the swing below which the queue counts as nearly empty: a tenth (NSDI 2018, section 3.3).
const EMPTY: u64 = 10;

/// An RTT is near the smallest when it is above it by one part in this many at most (our choice: less than a packet of a queue) ...
const NEAR: u64 = 256;
/// ... and a queue that a few Copa flows make empties within 5 RTT (NSDI 2018, section 3): four times that is not chance (our
/// choice, because random loss disturbs it).
const STANDS: u64 = 20;

/// What the queue did in the last 5 RTT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    /// It was nearly empty, as it is when only a few Copa flows share it.
    Emptied,
    /// It did not empty, but most of it went: many Copa flows, or a competitor.
    Swung,
    /// It hardly went down: another flow fills it.
    Stood,
}

/// The RTT estimates.
#[derive(Clone, Debug)]
pub(super) struct Delays {
    rules: Rules,
    rtt_min_window: Nanos,
    /// The newest sample.
    pub(super) latest: Nanos,
    /// Smoothed RTT.
    pub(super) srtt: Nanos,
    min: WindowedFilter,
    standing: WindowedFilter,
    near: WindowedFilter,
    max: WindowedFilter,
    /// When the RTT was last near its smallest.
    emptied: Time,
    /// How often the smallest RTT rose because the window had dropped it: the sign of drift.
    pub(super) rises: u64,
}

impl Delays {
    pub(super) fn new(rules: Rules, rtt_min_window: Nanos) -> Self {
        Self {
            rules,
            rtt_min_window,
            latest: Nanos::ZERO,
            srtt: Nanos::ZERO,
            min: WindowedFilter::smallest(),
            standing: WindowedFilter::smallest(),
            near: WindowedFilter::smallest(),
            max: WindowedFilter::largest(),
            emptied: Time::ZERO,
            rises: 0,
        }
    }

    /// Takes an RTT sample. With `keep` the smallest RTT does not age: a drain renews it.
    #[inline]
    pub(super) fn update(&mut self, now: Time, rtt: Nanos, keep: bool) {
        self.latest = rtt;
        let gain = match self.rules {
            Rules::Paper => 8,    // RFC 6298; the paper is silent
            Rules::Release => 16, // rtt-window.cc
        };
        self.srtt =
            if self.srtt == Nanos::ZERO { rtt } else { self.srtt.mul_div(gain - 1, gain) + rtt.mul_div(1, gain) };
        let (min_window, mode_rtts) = match self.rules {
            Rules::Paper => (self.rtt_min_window, 5), // near: NSDI 2018 section 3.3; max: there 4, see the module
            Rules::Release => (self.rtt_min_window.max(self.min().mul_div(20, 1)), 4),
        };
        let before = self.min.get();
        let age = self.min.seen().filter(|_| keep).map_or(Nanos::ZERO, |seen| now.since(seen));
        self.min.update(now, rtt, min_window.max(age));
        self.standing.update(now, rtt, self.srtt.mul_div(1, 2).min(min_window));
        self.near.update(now, rtt, self.srtt.mul_div(mode_rtts, 1).min(min_window));
        self.max.update(now, rtt, self.srtt.mul_div(mode_rtts, 1).min(min_window));
        if rtt - self.min() <= self.min().mul_div(1, NEAR) {
            self.emptied = now;
        }
        if before.is_some_and(|before| self.min() > before) {
            self.rises += 1;
        }
    }

    /// Takes the smallest RTT of another flow over the same path.
    pub(super) fn learn(&mut self, now: Time, min: Nanos) {
        if self.known() && min < self.min() {
            self.min.update(now, min, self.rtt_min_window);
        }
    }

    /// The smallest RTT was last seen longer ago than it is to be remembered.
    pub(super) fn stale(&self, now: Time) -> bool {
        self.min.seen().is_some_and(|seen| now.since(seen) > self.rtt_min_window)
    }

    /// Replaces the smallest RTT by one seen in a drain.
    pub(super) fn renew(&mut self, seen: Time, rtt: Nanos) {
        self.min.clear();
        self.min.update(seen, rtt, self.rtt_min_window);
    }

    /// There has been a sample.
    pub(super) fn known(&self) -> bool {
        self.min.get().is_some()
    }

    /// Smallest RTT of the last 10 s: the path without its queue.
    #[inline]
    pub(super) fn min(&self) -> Nanos {
        self.min.get().unwrap_or(Nanos::ZERO)
    }

    /// Smallest RTT of the last half RTT: the path with its queue, without jitter.
    pub(super) fn standing(&self) -> Nanos {
        self.standing.get().unwrap_or(Nanos::ZERO)
    }

    /// Queueing delay.
    pub(super) fn queueing(&self) -> Nanos {
        self.standing() - self.min()
    }

    /// The RTT has not come near its smallest for [`STANDS`] round trips.
    pub(super) fn stands(&self, now: Time) -> bool {
        now.since(self.emptied) > self.srtt.mul_div(STANDS, 1)
    }

    /// What the queue did in the last 5 RTT. `tolerance` is how much of the smallest RTT sample counts as empty in any case,
    /// `standing` the part of the swing (one in this many) that stays in a queue that stands.
    #[inline]
    pub(super) fn queue(&self, tolerance: Nanos, standing: u64) -> Queue {
        let left = self.near.get().unwrap_or(Nanos::ZERO) - self.min();
        let swing = self.max.get().unwrap_or(Nanos::ZERO) - self.min();
        match self.rules {
            // Equal extremes, as at the first acknowledgements, are an empty queue.
            Rules::Paper if swing == Nanos::ZERO || left < swing.mul_div(1, EMPTY).max(tolerance) => Queue::Emptied,
            Rules::Paper if left < swing.mul_div(1, standing) => Queue::Swung,
            Rules::Release if left < swing.mul_div(1, EMPTY) => Queue::Emptied,
            _ => Queue::Stood,
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self { rises: self.rises, ..Self::new(self.rules, self.rtt_min_window) };
    }
}
