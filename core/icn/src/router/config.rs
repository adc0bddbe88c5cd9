//! What a router is given, and what it has done.

use paceline_cc::{Nanos, Rate};

use crate::scheduler::WIRE_UNIT;

/// How a router works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterConfig {
    /// All answers together; [`Rate::INFINITY`]: as fast as it is asked.
    pub rate: Rate,
    /// Requests in the queue at most.
    pub requests: usize,
    /// Units in the queue, about: each source may have one request in it all the same.
    pub units: u64,
    /// What one source may ask for.
    pub source_rate: Rate,
    /// What one source may save up, in bytes.
    pub source_depth: u64,
    /// Addresses have to prove themselves. False only where no address can be false, as in the simulator.
    pub require_tokens: bool,
    /// There is another router to ask for what is not here.
    pub upstream: bool,
    /// Units that may wait for it.
    pub waiting: usize,
    /// How long they wait.
    pub patience: Nanos,
}

impl RouterConfig {
    /// Of a router that sends at this rate. The queue holds 50 ms of it, 512 units at least and 65,536 at most (our choice: a round
    /// trip within a continent); a source may use all of the rate, and save up half a second of it.
    pub fn new(rate: Rate) -> Self {
        let units = (rate.bytes_in(Nanos::from_millis(50)) / WIRE_UNIT).clamp(512, 65_536);
        Self {
            rate,
            requests: 4096,
            units,
            source_rate: rate,
            source_depth: rate.bytes_in(Nanos::from_millis(500)).max(64 * WIRE_UNIT),
            require_tokens: true,
            upstream: false,
            waiting: 65_536,
            patience: Nanos::from_secs(2),
        }
    }

    /// Of one of `count` routers that share the rate and the sources' table ([`crate::Router::sharing`]): the queue is divided, so that
    /// all of them together hold as much as one would. Each holds 8 requests of the largest at least (our choice).
    #[must_use]
    pub fn divided(self, count: usize) -> Self {
        let count = count.max(1);
        Self { requests: (self.requests / count).max(64), units: (self.units / count as u64).max(512), ..self }
    }
}

/// What a router has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouterStats {
    /// Requests that were well formed.
    pub requests: u64,
    /// Datagrams that were not requests, or come from where no answer can go.
    pub garbage: u64,
    /// Requests without a token.
    pub no_token: u64,
    /// Requests with a token that proved nothing.
    pub bad_tokens: u64,
    /// Tokens that were given out.
    pub granted: u64,
    /// Requests that were refused because their source had used up its share.
    pub limited: u64,
    /// Requests that were refused because the queue was full.
    pub overflowed: u64,
    /// Requests for what is not here and cannot be fetched.
    pub not_found: u64,
    /// Requests that reached past an object's end.
    pub past_end: u64,
    /// Requests for what has changed on the disk.
    pub changed: u64,
    /// Requests that went through too many routers.
    pub looped: u64,
    /// Units that were asked for and are here.
    pub hits: u64,
    /// Units that were asked for and are not here.
    pub misses: u64,
    /// Units that left.
    pub sent_units: u64,
    /// The longest time that a request waited for its turn.
    pub longest_wait: Nanos,
}

impl RouterStats {
    /// Adds what another router has done.
    pub fn add(&mut self, other: &Self) {
        for (ours, theirs) in [
            (&mut self.requests, other.requests),
            (&mut self.garbage, other.garbage),
            (&mut self.no_token, other.no_token),
            (&mut self.bad_tokens, other.bad_tokens),
            (&mut self.granted, other.granted),
            (&mut self.limited, other.limited),
            (&mut self.overflowed, other.overflowed),
            (&mut self.not_found, other.not_found),
            (&mut self.past_end, other.past_end),
            (&mut self.changed, other.changed),
            (&mut self.looped, other.looped),
            (&mut self.hits, other.hits),
            (&mut self.misses, other.misses),
            (&mut self.sent_units, other.sent_units),
        ] {
            *ours += theirs;
        }
        self.longest_wait = self.longest_wait.max(other.longest_wait);
    }
}
