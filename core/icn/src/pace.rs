//! What several queues of one router share: the rate at which units leave, and how much each source may ask for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use paceline_cc::{Nanos, Rate, Time};

use crate::limiter::{BUCKET_WORDS, BucketMemory, CountedAddress, Limiter, own_memory};
use crate::router::RouterConfig;
use crate::scheduler::{SLACK, WIRE_UNIT};

/// A token bucket for the link, which queues on several threads may share.
pub struct LinkPace {
    rate: Rate,
    memory: Arc<dyn BucketMemory>,
}

impl LinkPace {
    /// At this rate; [`Rate::INFINITY`]: as fast as it is asked.
    pub fn new(rate: Rate) -> Self {
        Self { rate, memory: own_memory(1) }
    }

    /// When it will be full, in nanoseconds.
    fn full_at(&self) -> &AtomicU64 {
        self.memory.word(0)
    }

    /// The rate.
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// When something may leave that is `slack` bytes ahead of the rate.
    pub fn next(&self, slack: u64) -> Time {
        Time::from_nanos(self.full_at().load(Ordering::Relaxed)) - self.rate.time_for(slack)
    }

    /// Takes this many bytes; false where that is too early, or where another queue was faster.
    pub fn take(&self, now: Time, bytes: u64, slack: u64) -> bool {
        let slack = self.rate.time_for(slack).as_nanos();
        let needed = self.rate.time_for(bytes).as_nanos();
        let later = |full_at: u64| {
            (full_at.saturating_sub(slack) <= now.as_nanos())
                .then(|| full_at.max(now.as_nanos()).saturating_add(needed))
        };
        self.full_at().fetch_update(Ordering::Relaxed, Ordering::Relaxed, later).is_ok()
    }
}

/// What the answer with one unit costs, for a program that charges it by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitCharges {
    /// The key of the buckets' places.
    pub places: u64,
    /// What it takes out of a source's bucket, and what that holds.
    pub source: (Nanos, Nanos),
    /// The same of a /48.
    pub site: (Nanos, Nanos),
    /// What it takes out of the link's, and how far a turn of the queue may be ahead of that.
    pub link: (Nanos, Nanos),
}

/// The limits of a router, whose queues may run on several threads: they hold for all of them together.
pub struct Limits {
    pub(crate) pace: Arc<LinkPace>,
    sources: Limiter,
}

impl Limits {
    /// As `config` says. `key` is drawn at random.
    pub fn new(config: &RouterConfig, key: u64) -> Self {
        Self::within(config, key, own_memory(BUCKET_WORDS))
    }

    /// The same in memory that others have too, and that is zero at first.
    pub fn within(config: &RouterConfig, key: u64, memory: Arc<dyn BucketMemory>) -> Self {
        Self {
            pace: Arc::new(LinkPace { rate: config.rate, memory: Arc::clone(&memory) }),
            sources: Limiter::new(config.source_rate, config.source_depth, key, memory),
        }
    }

    /// See [`Limiter::take`].
    pub(crate) fn take(&self, now: Time, source: CountedAddress, bytes: u64) -> Result<(), Nanos> {
        self.sources.take(now, source, bytes)
    }

    /// What an answer with one unit costs.
    pub fn of_one_unit(&self) -> UnitCharges {
        let [source, site] = self.sources.charges(WIRE_UNIT);
        let link = (self.pace.rate.time_for(WIRE_UNIT), self.pace.rate.time_for(SLACK));
        UnitCharges { places: self.sources.key(), source, site, link }
    }

    /// Bytes of memory of the table.
    pub(crate) const fn memory(&self) -> usize {
        BUCKET_WORDS * size_of::<u64>()
    }
}
