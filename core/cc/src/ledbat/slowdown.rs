//! When LEDBAT++ falls silent, and for how long (section 4.4 of the draft).

use crate::units::{Nanos, Time};

/// Round trips after the first slow start until the first slowdown, and round trips at the smallest window.
const ROUND_TRIPS: u64 = 2;
/// Durations of the last slowdown until the next one.
const PAUSE: u64 = 9;
/// Share of the target below which a slowdown would show nothing new (our choice).
const LITTLE: f64 = 0.1;

/// The course of slowdowns.
#[derive(Default)]
pub(super) struct Slowdown {
    began: Time,
    measured: Time,
    next: Option<Time>,
}

impl Slowdown {
    /// The first slow start ended.
    pub(super) fn after_start(&mut self, now: Time, rtt: Nanos) {
        self.next = Some(now + rtt.mul_div(ROUND_TRIPS, 1));
    }

    /// The queueing delay is `queued` seconds; where that is little, the base is as good as it gets.
    pub(super) fn is_due(&self, now: Time, queued: f64, target: f64) -> bool {
        queued >= LITTLE * target && self.next.is_some_and(|next| now >= next)
    }

    /// The window fell: one round trip for the queue to empty, one to measure it.
    pub(super) fn begin(&mut self, now: Time, rtt: Nanos) {
        self.began = now;
        self.measured = now + rtt.mul_div(ROUND_TRIPS, 1);
        self.next = None;
    }

    pub(super) fn is_measured(&self, now: Time) -> bool {
        now >= self.measured
    }

    /// The window is what it was: at most a tenth of the time is spent in slowdowns.
    pub(super) fn end(&mut self, now: Time) {
        self.next = Some(now + (now - self.began).mul_div(PAUSE, 1));
    }
}
