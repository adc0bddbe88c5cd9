//! What several queues of one router share: the rate at which units leave, and how much each source may ask for.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use paceline_cc::{Nanos, Rate, Time};

use crate::limiter::{CountedAddress, Limiter};
use crate::router::RouterConfig;

/// A token bucket for the link, which queues on several threads may share.
#[derive(Debug)]
pub struct LinkPace {
    rate: Rate,
    /// When it will be full, in nanoseconds.
    full_at: AtomicU64,
}

impl LinkPace {
    /// At this rate; [`Rate::INFINITY`]: as fast as it is asked.
    pub const fn new(rate: Rate) -> Self {
        Self { rate, full_at: AtomicU64::new(0) }
    }

    /// The rate.
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// When something may leave that is `slack` bytes ahead of the rate.
    pub fn next(&self, slack: u64) -> Time {
        Time::from_nanos(self.full_at.load(Ordering::Relaxed)) - self.rate.time_for(slack)
    }

    /// Takes this many bytes; false where that is too early, or where another queue was faster.
    pub fn take(&self, now: Time, bytes: u64, slack: u64) -> bool {
        let slack = self.rate.time_for(slack).as_nanos();
        let needed = self.rate.time_for(bytes).as_nanos();
        let later = |full_at: u64| {
            (full_at.saturating_sub(slack) <= now.as_nanos())
                .then(|| full_at.max(now.as_nanos()).saturating_add(needed))
        };
        self.full_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later).is_ok()
    }
}

/// The limits of a router, whose queues may run on several threads: they hold for all of them together.
pub struct Limits {
    pub(crate) pace: Arc<LinkPace>,
    sources: Mutex<Limiter>,
}

impl Limits {
    /// As `config` says. `key` is drawn at random.
    pub fn new(config: &RouterConfig, key: u64) -> Self {
        Self {
            pace: Arc::new(LinkPace::new(config.rate)),
            sources: Mutex::new(Limiter::new(config.source_rate, config.source_depth, key)),
        }
    }

    /// See [`Limiter::take`].
    pub(crate) fn take(&self, now: Time, source: CountedAddress, bytes: u64) -> Result<(), Nanos> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner).take(now, source, bytes)
    }

    /// Bytes of memory of the table.
    pub(crate) fn memory(&self) -> usize {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner).memory()
    }
}
