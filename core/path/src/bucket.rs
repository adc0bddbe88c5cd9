//! A token bucket: credit that grows at a rate up to a burst, in exact integers. A [`Bucket`] shapes a link with one.

use paceline_cc::{Bytes, Nanos, Rate, Time};
use serde::{Deserialize, Serialize};

/// Nanoseconds in a second: what one byte costs of a credit that grows by a rate's bytes a second each nanosecond.
const BYTE: u128 = 1_000_000_000;

/// A link whose packets leave by a token bucket, as behind Linux's `tc ... tbf rate R burst B peakrate P`: `bucket = { rate = "20 Mbit/s",
/// burst = "30kB", peak = "100 Mbit/s" }`. The head of the queue leaves when the bucket has its length, and no faster than `peak`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bucket {
    /// What leaves in the long run; above 0.
    pub rate: Rate,
    /// Bytes that leave at once after a silence, at least the largest packet; [`Bucket::burst`] without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<Bytes>,
    /// How fast packets go on the wire; without it in no time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak: Option<Rate>,
}

impl Bucket {
    /// Bytes that leave at once: as given, or else 10 full packets or 10 ms of the rate, the larger (our choice).
    pub fn burst(&self) -> Bytes {
        self.burst.unwrap_or_else(|| Bytes(self.rate.bytes_in(Nanos::from_millis(10)).max(15_000)))
    }
}

/// Credit in byte-nanoseconds a second, so that nothing is ever rounded. It begins full.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    rate: Rate,
    burst: u128,
    credit: u128,
    updated: Time,
}

impl TokenBucket {
    /// A bucket of `burst` bytes that fills at `rate`.
    pub fn new(rate: Rate, burst: u64) -> Self {
        let burst = u128::from(burst) * BYTE;
        Self { rate, burst, credit: burst, updated: Time::ZERO }
    }

    /// Takes `bytes` off if there is credit for all of them; otherwise takes nothing.
    pub fn take(&mut self, now: Time, bytes: u32) -> bool {
        self.fill(now);
        let rest = self.credit.checked_sub(u128::from(bytes) * BYTE);
        self.credit = rest.unwrap_or(self.credit);
        rest.is_some()
    }

    /// When there will be credit for `bytes`, `now` or later, if nothing is taken meanwhile; [`Time::NEVER`] for more than it can hold.
    pub fn ready(&mut self, now: Time, bytes: u32) -> Time {
        self.fill(now);
        let (needed, rate) = (u128::from(bytes) * BYTE, u128::from(self.rate.as_bytes_per_sec()));
        let lacks = needed.saturating_sub(self.credit);
        match u64::try_from(lacks.div_ceil(rate.max(1))) {
            Ok(span) if needed <= self.burst && (rate > 0 || lacks == 0) => now + Nanos::from_nanos(span),
            _ => Time::NEVER,
        }
    }

    /// From `now` on it fills at this rate.
    pub fn set_rate(&mut self, now: Time, rate: Rate) {
        self.fill(now);
        self.rate = rate;
    }

    fn fill(&mut self, now: Time) {
        let earned = u128::from(self.rate.as_bytes_per_sec()) * u128::from(now.since(self.updated).as_nanos());
        self.credit = (self.credit + earned).min(self.burst);
        self.updated = self.updated.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credit_is_there_to_the_nanosecond() {
        // 3 bytes a second: a byte in a third of a second.
        let mut bucket = TokenBucket::new(Rate::from_bytes_per_sec(3), 2);
        assert!(bucket.take(Time::ZERO, 2));
        assert_eq!(bucket.ready(Time::ZERO, 1), Time::from_nanos(333_333_334));
        assert!(!bucket.take(Time::from_nanos(333_333_333), 1));
        assert!(bucket.take(Time::from_nanos(333_333_334), 1));
        // What was rounded up is not lost: three bytes by 1 s.
        assert!(bucket.take(Time::from_nanos(1_000_000_000), 2));
        assert_eq!(bucket.ready(Time::from_nanos(1_000_000_000), 3), Time::NEVER);
        let now = Time::from_nanos(5_000_000_000);
        assert_eq!(bucket.ready(now, 2), now);
        bucket.set_rate(now, Rate::ZERO);
        assert!(bucket.take(now, 2) && bucket.ready(now, 1) == Time::NEVER);
    }
}
