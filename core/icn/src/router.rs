//! The content router: it answers each request from storage and forgets it.
//!
//! A request goes through, in this order: its form; the token of its address; its source's limit; room in the queue; only then
//! storage is asked. What is there waits for its source's turn and for the rate ([`crate::scheduler`]); what is not waits for the
//! upstream router, where there is one. Who has no token gets three times as many bytes as it sent, at most (RFC 9000 section 8.1), and
//! no more than it sent where there are no units among them.
//!
//! Nothing is kept of receivers: all tables have their size from the start.

mod answer;
mod config;
mod parts;
mod shelf;

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use paceline_cc::{Nanos, Time};

use crate::hash::derived;
use crate::limiter::CountedAddress;
use crate::name::Name;
use crate::pace::Limits;
use crate::ranges::{Ranges, Units};
use crate::scheduler::{ReadyRequest, Scheduler, WIRE_UNIT};
use crate::token::{AddressProof, Secrets};
use crate::waiting::Waiting;
use crate::wire::{MAX_HOPS, MissingReason, UnitRequest};
use crate::{UNIT, wire};
use answer::Answers;
use parts::{Parts, span, split};

pub use config::{RouterConfig, RouterStats};
pub use shelf::{Burst, Found, Missing, Shelf};

/// Bytes of answers for a byte from an address that has not proved itself, at most (RFC 9000 section 8.1).
pub const AMPLIFICATION: usize = 3;

/// What a miss costs its source, in hits (our choice: an upstream fetch reads, checks, stores and sends).
const MISS_COST: u64 = 4;

/// Retry after this long, where it is not known when there will be room (our choice: a few round trips of a wireless LAN).
const RETRY: Nanos = Nanos::from_millis(20);

/// Misses that have not been taken by the caller (our choice: it takes them after each datagram).
const MOST_MISSING: usize = 256;

/// The router.
pub struct Router {
    config: RouterConfig,
    secrets: Secrets,
    limits: Arc<Limits>,
    queue: Scheduler,
    waiting: Waiting,
    missing: VecDeque<Missing>,
    message: Vec<u8>,
    stats: RouterStats,
}

/// A request on its way.
struct Asked<'a> {
    now: Time,
    from: SocketAddr,
    source: CountedAddress,
    request: &'a UnitRequest,
    /// The address has proved itself.
    proved: bool,
}

/// Whether an answer can go there: not to port 0, to all hosts of a group, or to this one.
fn is_of_one_host(from: SocketAddr) -> bool {
    let ip = from.ip().to_canonical();
    let is_group = ip.is_multicast() || ip == IpAddr::V4(Ipv4Addr::BROADCAST);
    from.port() != 0 && !is_group && !ip.is_unspecified()
}

impl Router {
    /// A router. `key` is drawn at random: whom tables put where must not be foreseen. Each table has a key of its own from it.
    pub fn new(config: RouterConfig, secrets: Secrets, key: u64) -> Self {
        Self::sharing(config, secrets, derived(key, 0), Arc::new(Limits::new(&config, derived(key, 1))))
    }

    /// One of several, each with a random `key` of its own, that have one rate and one table of sources, such as one for each thread. Their times must be of one clock. Rates
    /// are those of `limits`, whatever `config` says.
    pub fn sharing(config: RouterConfig, secrets: Secrets, key: u64, limits: Arc<Limits>) -> Self {
        Self {
            queue: Scheduler::new(config.requests, config.units, Arc::clone(&limits.pace), key),
            limits,
            waiting: Waiting::new(if config.upstream { config.waiting } else { 0 }, config.patience),
            missing: VecDeque::with_capacity(MOST_MISSING),
            message: Vec::with_capacity(wire::MAX_MESSAGE),
            stats: RouterStats::default(),
            secrets,
            config,
        }
    }

    /// A datagram came. `unix_s`: the time in seconds since 1970. Refusals and tokens go out through `reply`.
    pub fn on_datagram(
        &mut self,
        now: Time,
        unix_s: u64,
        from: SocketAddr,
        bytes: &[u8],
        shelf: &mut dyn Shelf,
        reply: &mut dyn FnMut(SocketAddr, &[u8]),
    ) {
        let request = UnitRequest::decode(bytes).ok().filter(|_| is_of_one_host(from));
        let Some(request) = request else {
            self.stats.garbage += 1;
            return;
        };
        self.stats.requests += 1;
        let proof = match &request.token {
            _ if !self.config.require_tokens => Some(AddressProof::Good { renew: false }),
            Some(token) => Some(self.secrets.check(token, from, unix_s)),
            None => None,
        };
        let token = (proof != Some(AddressProof::Good { renew: false })).then(|| self.secrets.mint(from, unix_s));
        let mut message = std::mem::take(&mut self.message);
        let proved = matches!(proof, Some(AddressProof::Good { .. }));
        let room = if proved { usize::MAX } else { AMPLIFICATION * bytes.len() };
        let mut answers = Answers { to: from, nonce: request.nonce, room, message: &mut message, reply };
        if let Some(token) = token {
            self.stats.granted += u64::from(answers.grant(token));
        }
        let source = CountedAddress::of(from);
        let asked = Asked { now, from, source, request: &request, proved };
        match proof {
            Some(AddressProof::Good { .. }) => self.take(&asked, request.ranges, shelf, &mut answers),
            Some(AddressProof::Bad) => {
                self.stats.bad_tokens += 1;
                answers.refuse(span(request.ranges.as_slice()), MissingReason::NoToken, Nanos::from_micros(1));
            }
            None => {
                self.stats.no_token += 1;
                let (ranges, rest) = split(&request.ranges, answers.room_for_units());
                // A token says enough to who sent less than both have together.
                if let Some(rest) = rest
                    && bytes.len() >= Answers::TOKEN_AND_REFUSAL
                {
                    answers.refuse(rest, MissingReason::NoToken, Nanos::from_micros(1));
                }
                if let Some(ranges) = ranges {
                    answers.room -= ranges.units() as usize * (wire::DATA_HEAD + UNIT);
                    self.take(&asked, ranges, shelf, &mut answers);
                }
            }
        }
        self.message = message;
    }

    /// The limits, the lookup, the queue.
    fn take(&mut self, asked: &Asked<'_>, ranges: Ranges, shelf: &mut dyn Shelf, answers: &mut Answers<'_>) {
        let (now, request) = (asked.now, asked.request);
        let all = span(ranges.as_slice());
        if request.hops > MAX_HOPS {
            self.stats.looped += 1;
            return answers.refuse(all, MissingReason::Loop, Nanos::ZERO);
        }
        // Requests of addresses that may be false are charged to an account of their own, and share one turn.
        let (account, turn) = if asked.proved {
            (asked.source, asked.source)
        } else {
            (asked.source.unproved(), CountedAddress::UNPROVED)
        };
        if let Err(after) = self.limits.take(now, account, u64::from(ranges.units()) * WIRE_UNIT) {
            self.stats.limited += 1;
            return answers.refuse(all, MissingReason::Busy, after.max(Nanos::from_micros(1)));
        }
        if !self.queue.has_room(turn, ranges.units()) {
            self.stats.overflowed += 1;
            return answers.refuse(all, MissingReason::Busy, RETRY);
        }
        let (stored_units, whole) = match shelf.find(&request.name) {
            Found::Here { stored_units, whole } => (stored_units, whole),
            Found::Changed => {
                self.stats.changed += 1;
                return answers.refuse(all, MissingReason::Changed, Nanos::ZERO);
            }
            Found::Elsewhere => return self.miss(asked, account, &ranges, answers),
        };
        if whole && stored_units.is_some_and(|stored| ranges.as_slice().last().is_none_or(|last| last.end() <= stored))
        {
            return self.ready(asked, turn, &ranges, stored_units, answers);
        }
        let parts =
            Parts::of(&ranges, stored_units, |units| if whole { units.count } else { shelf.has(&request.name, units) });
        if let Some(past) = parts.past {
            self.stats.past_end += 1;
            answers.refuse(past, MissingReason::End, Nanos::ZERO);
        }
        for here in parts.here.iter() {
            self.ready(asked, turn, here, stored_units, answers);
        }
        for missing in parts.missing.iter() {
            self.miss(asked, account, missing, answers);
        }
    }

    /// Queues units that are here.
    fn ready(
        &mut self,
        asked: &Asked<'_>,
        turn: CountedAddress,
        ranges: &Ranges,
        stored_units: Option<u64>,
        answers: &mut Answers<'_>,
    ) {
        self.stats.hits += u64::from(ranges.units());
        let job = ReadyRequest {
            to: asked.from,
            nonce: asked.request.nonce,
            name: asked.request.name,
            ranges: *ranges,
            stored_units,
            arrived: asked.now,
            app_limited: false,
        };
        if !self.queue.push(turn, &job) {
            self.stats.overflowed += 1;
            answers.refuse(span(ranges.as_slice()), MissingReason::Busy, RETRY);
        }
    }

    fn miss(&mut self, asked: &Asked<'_>, account: CountedAddress, ranges: &Ranges, answers: &mut Answers<'_>) {
        let (now, request, all) = (asked.now, asked.request, span(ranges.as_slice()));
        self.stats.misses += u64::from(ranges.units());
        if !self.config.upstream {
            self.stats.not_found += 1;
            return answers.refuse(all, MissingReason::NotFound, Nanos::ZERO);
        }
        if !asked.proved {
            return answers.refuse(all, MissingReason::NoToken, Nanos::from_micros(1));
        }
        if request.hops >= MAX_HOPS {
            self.stats.looped += 1;
            return answers.refuse(all, MissingReason::Loop, Nanos::ZERO);
        }
        let cost = u64::from(ranges.units()) * WIRE_UNIT * (MISS_COST - 1);
        if let Err(after) = self.limits.take(now, account, cost) {
            self.stats.limited += 1;
            return answers.refuse(all, MissingReason::Busy, after.max(Nanos::from_micros(1)));
        }
        if self.missing.len() == MOST_MISSING || !self.waiting.has_room(now, asked.source, ranges.units() as usize) {
            self.stats.overflowed += 1;
            return answers.refuse(all, MissingReason::Busy, RETRY);
        }
        for unit in ranges.iter() {
            self.waiting.add(now, request.name, unit, asked.from, request.nonce);
        }
        let (from, nonce, hops) = (asked.from, request.nonce, request.hops);
        self.missing.push_back(Missing { name: request.name, ranges: *ranges, from, nonce, hops });
    }

    /// Units that are to be fetched from upstream. What came of it is reported with [`Self::stored`] or [`Self::failed`].
    pub fn missing(&mut self) -> Option<Missing> {
        self.missing.pop_front()
    }

    /// Units of an object have come from upstream, and storage has them.
    pub fn stored(
        &mut self,
        name: &Name,
        units: Units,
        stored_units: Option<u64>,
        reply: &mut dyn FnMut(SocketAddr, &[u8]),
    ) {
        for waiter in self.waiting.take(name, units.iter()) {
            let (to, nonce) = (waiter.to, waiter.nonce);
            let (ranges, arrived) = (waiter.ranges, waiter.arrived);
            let job = ReadyRequest { to, nonce, name: *name, ranges, stored_units, arrived, app_limited: true };
            if !self.queue.push(CountedAddress::of(to), &job) {
                self.stats.overflowed += 1;
                let mut answers = Answers { to, nonce, room: usize::MAX, message: &mut self.message, reply };
                answers.refuse(span(ranges.as_slice()), MissingReason::Busy, RETRY);
            }
        }
    }

    /// Units of an object will not come from upstream: `u64::MAX` as the end means all the others.
    pub fn failed(
        &mut self,
        name: &Name,
        units: std::ops::Range<u64>,
        reason: MissingReason,
        reply: &mut dyn FnMut(SocketAddr, &[u8]),
    ) {
        let again = if reason == MissingReason::Busy { RETRY } else { Nanos::ZERO };
        for waiter in self.waiting.take(name, units) {
            self.stats.not_found += 1;
            let (to, nonce) = (waiter.to, waiter.nonce);
            let mut answers = Answers { to, nonce, room: usize::MAX, message: &mut self.message, reply };
            answers.refuse(span(waiter.ranges.as_slice()), reason, again);
        }
    }

    /// What leaves now, if anything does.
    pub fn poll(&mut self, now: Time) -> Option<Burst> {
        let turn = self.queue.poll(now)?;
        let (job, units) = (turn.job, turn.units);
        let waited = now.since(job.arrived);
        self.stats.sent_units += u64::from(units.count);
        self.stats.longest_wait = self.stats.longest_wait.max(waited);
        Some(Burst {
            to: job.to,
            nonce: job.nonce,
            name: job.name,
            units,
            waited,
            stored_units: job.stored_units,
            app_limited: job.app_limited,
        })
    }

    /// When [`Self::poll`] has something; [`Time::NEVER`] if nothing waits.
    pub fn next_timeout(&self) -> Time {
        self.queue.next_timeout()
    }

    /// Units that wait to leave.
    pub const fn queued(&self) -> u64 {
        self.queue.units()
    }

    /// Units that wait for the upstream router.
    pub fn awaited(&self) -> usize {
        self.waiting.len()
    }

    /// Bytes of its tables, those that it shares included, the same for any requests; units that wait for the upstream router come on top, up to 200 bytes each.
    pub fn memory(&self) -> usize {
        self.limits.memory() + self.queue.memory() + self.waiting.memory()
    }

    /// What it has done.
    pub const fn stats(&self) -> &RouterStats {
        &self.stats
    }
}
