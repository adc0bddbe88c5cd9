//! The two clocks: the one that runs evenly, and the one by which the kernel stamps.

use std::time::Duration;

use paceline_cc::{Nanos, Time};
use paceline_linux::clock::{span, unix};
use rustix::time::Timespec;

pub(crate) use paceline_linux::clock::monotonic as now;

/// A span as the kernel takes it.
pub(crate) fn timespec(nanos: Nanos) -> Timespec {
    Timespec::try_from(span(nanos)).expect("fewer than 2^64 ns")
}

/// How `CLOCK_REALTIME`, which can be set, stands to `CLOCK_MONOTONIC` at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offset {
    now: Time,
    real: Duration,
}

impl Offset {
    pub(crate) fn measure() -> Self {
        Self { now: now(), real: unix() }
    }

    /// A stamp of `CLOCK_REALTIME` on the other clock; never later than the moment of the measurement. A clock that was
    /// set in between makes it wrong by as much: the flow holds it against the times that it knows.
    pub(crate) fn map(&self, stamp: Duration) -> Time {
        self.now - Nanos::from_nanos(self.real.saturating_sub(stamp).as_nanos() as u64)
    }

    /// The clock was set between two measurements, not only slewed (by 500 ppm at most, RFC 5905).
    pub(crate) fn was_set_since(&self, earlier: &Self) -> bool {
        let even = (self.now - earlier.now).as_nanos();
        let real = self.real.saturating_sub(earlier.real).as_nanos() as u64;
        even.abs_diff(real) > 1_000_000 + even / 1_000
    }
}
