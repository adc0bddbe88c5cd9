//! The run's clock.

use std::time::{Duration, Instant, SystemTime};

use paceline_cc::{Nanos, Time};

/// Time since the run began, the same for all of its threads.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// Begins now.
    #[expect(clippy::new_without_default, reason = "a clock that begins is no default")]
    pub fn new() -> Self {
        Self { origin: Instant::now() }
    }

    /// Now.
    pub fn now(&self) -> Time {
        Time::from_nanos(self.origin.elapsed().as_nanos() as u64)
    }

    /// When a time stamp of the kernel's real-time clock was taken.
    pub fn at(&self, stamp: Duration) -> Time {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let ago = wall.saturating_sub(stamp).as_nanos() as u64;
        Time::from_nanos(self.now().as_nanos().saturating_sub(Nanos::from_nanos(ago).as_nanos()))
    }
}
