//! The two clocks: the one that runs evenly, and the one by which the kernel stamps.

use paceline_cc::{Nanos, Time};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Now, by `CLOCK_MONOTONIC`.
pub(crate) fn now() -> Time {
    Time::from_nanos(nanos(clock_gettime(ClockId::Monotonic)))
}

/// Nanoseconds of a time after the clock's zero.
fn nanos(time: Timespec) -> u64 {
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// A span as the kernel takes it.
pub(crate) fn timespec(span: Nanos) -> Timespec {
    let nanos = span.as_nanos();
    Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 }
}

/// How `CLOCK_REALTIME`, which can be set, stands to `CLOCK_MONOTONIC` at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offset {
    now: Time,
    real: u64,
}

impl Offset {
    pub(crate) fn measure() -> Self {
        Self { now: now(), real: nanos(clock_gettime(ClockId::Realtime)) }
    }

    /// A stamp of `CLOCK_REALTIME` on the other clock; never later than the moment of the measurement. A clock that was
    /// set in between makes it wrong by as much: the flow holds it against the times that it knows.
    pub(crate) fn map(&self, secs: i64, nanos: i64) -> Time {
        let stamp = u64::try_from(secs).unwrap_or(0) * 1_000_000_000 + u64::try_from(nanos).unwrap_or(0);
        self.now - Nanos::from_nanos(self.real.saturating_sub(stamp))
    }

    /// The clock was set between two measurements, not only slewed (by 500 ppm at most, RFC 5905).
    pub(crate) fn was_set_since(&self, earlier: &Self) -> bool {
        let even = (self.now - earlier.now).as_nanos();
        let real = self.real.saturating_sub(earlier.real);
        even.abs_diff(real) > 1_000_000 + even / 1_000
    }
}
