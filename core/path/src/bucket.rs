//! A token bucket: credit that grows at a rate up to a burst, in exact integers.

use paceline_cc::{Rate, Time};

/// Nanoseconds in a second: what one byte costs of a credit that grows by a rate's bytes a second each nanosecond.
const BYTE: u128 = 1_000_000_000;

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
