//! Keeping a link backlogged, and recording what it delivers: how delivery traces are made.
//!
//! The sender is that of `saturatr` (Winstein, Sivaraman and Balakrishnan, "Stochastic Forecasts Achieve High Throughput and Low Delay over
//! Cellular Networks", NSDI 2013, section 4.1): a window that grows while a packet is held for less than 750 ms, so that
//! something always waits at the link, and shrinks while it is held for more than 3 s, so that the network does not drop it all.
//! There acknowledgements come over another network; here they wait behind data of the other direction, so that round trips of both are
//! one and the same, and a window by them alone lets one direction starve. So:
//!
//! - What is held is taken as the delay of data alone: the least round trip, and by how much the way of a packet was longer than the
//!   shortest way (by the clocks of both ends, whose offset cancels).
//! - The window is what the link delivers in 1.5 s and in the time that acknowledgements take to come back; it grows as there while
//!   packets are held for less than 750 ms. While no acknowledgement comes it goes on as if the link did, for up to 3 s.
//! - The rate is bounded.

use std::collections::VecDeque;

use paceline_cc::{Nanos, Rate, Time};

/// The window grows while packets are held for less (`saturatr`: `LOWER_RTT`, 0.75 s).
pub const LOWER: Nanos = Nanos::from_millis(750);
/// Without acknowledgements the sender goes on for this long: no packet is to be held for longer (`saturatr`: `UPPER_RTT`, 3 s).
pub const UPPER: Nanos = Nanos::from_secs(3);
/// What a packet is to be held for: the middle between both on a scale of ratios (our choice).
const AIM: Nanos = Nanos::from_millis(1500);
/// Least window in packets (`saturatr`: `LOWER_WINDOW`, 20).
pub const LEAST_WINDOW: u64 = 20;
/// Without an acknowledgement one packet leaves in this time (`saturatr`: one each second), so that a link that lost everything is
/// found again.
pub const PROBE: Nanos = Nanos::from_secs(1);
/// The link's rate is taken over this long by the receiver's clock (our choice: a cellular scheduler's frame is 1 to 10 ms).
const RATE_OVER: Nanos = Nanos::from_millis(500);
/// Most acknowledgements that are remembered for it, whatever a receiver says its clock is (our choice: one each millisecond, twice).
const MOST_ARRIVALS: usize = 1024;
/// And the highest of this long counts, because a link that has become faster must not run empty (our choice).
const RATE_MEMORY: Nanos = Nanos::from_secs(5);
/// Packets leave together for this long at most, where the rate bounds them (our choice: a link of 2 Mbit/s takes longer for two).
const BURST: Nanos = Nanos::from_millis(10);

/// What an acknowledgement says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaturatorSeen {
    /// One past the highest number that arrived.
    pub next: u64,
    /// When that packet left, by the sender's clock.
    pub sent_at: Time,
    /// When it arrived, by the receiver's clock.
    pub received_at: Time,
}

/// A sender that keeps a link backlogged.
#[derive(Clone, Debug)]
pub struct Saturator {
    /// Time of a packet at the highest rate.
    gap: Nanos,
    most_window: u64,
    window: u64,
    /// Number of the next packet.
    next: u64,
    /// One past the highest number that is known to have arrived.
    acked: u64,
    /// Least difference of the receiver's clock and ours, ns.
    shortest: Option<i64>,
    /// Least round trip.
    round: Nanos,
    held: Option<Nanos>,
    /// From a packet's arrival until this end knew of it, as far as that is longer than the shortest way.
    lag: Nanos,
    /// What had arrived when, by the receiver's clock: the last half second.
    arrivals: VecDeque<(Time, u64)>,
    /// Packets a second, each rate since when it is known; falling.
    rates: VecDeque<(Time, f64)>,
    /// Earliest departure that the rate allows.
    due: Time,
    /// When something was last received, and when the last packet left.
    heard: Time,
    left: Time,
}

impl Saturator {
    /// Packets of `bytes` from the IP header on, at no more than `most`.
    pub fn new(now: Time, bytes: u32, most: Rate) -> Self {
        let gap = most.time_for(u64::from(bytes)).max(Nanos::from_nanos(1));
        // What the highest rate sends while it is held for longest, there and back.
        let most_window = (2 * UPPER.as_nanos() / gap.as_nanos()).max(LEAST_WINDOW);
        Self {
            gap,
            most_window,
            window: LEAST_WINDOW,
            next: 0,
            acked: 0,
            shortest: None,
            round: Nanos::MAX,
            held: None,
            lag: Nanos::ZERO,
            arrivals: VecDeque::new(),
            rates: VecDeque::new(),
            due: now,
            heard: now,
            left: now,
        }
    }

    /// When the next packet may leave, as far as is known now.
    pub fn next(&self) -> Time {
        let in_flight = self.next - self.acked;
        if in_flight < self.window {
            return self.due;
        }
        let probe = self.left.max(self.heard) + PROBE;
        let rate = self.rate();
        let beyond = (in_flight - self.window + 1) as f64;
        let on = Nanos::from_secs_f64(if rate > 0.0 { beyond / rate } else { f64::MAX });
        let on = if on <= UPPER { self.heard + on } else { Time::NEVER };
        on.min(probe).max(self.due)
    }

    /// Packets a second that the link delivers.
    fn rate(&self) -> f64 {
        self.rates.front().map_or(0.0, |(_, rate)| *rate)
    }

    /// The number of the packet that leaves now, if one may.
    pub fn take(&mut self, now: Time) -> Option<u64> {
        if self.next() > now {
            return None;
        }
        self.left = now;
        // Nothing is made up for but a short pause.
        self.due = (self.due.max(Time::from_nanos(now.as_nanos().saturating_sub(BURST.as_nanos())))) + self.gap;
        self.next += 1;
        Some(self.next - 1)
    }

    /// An acknowledgement; one that says nothing new, or what cannot be, counts for nothing.
    pub fn on_ack(&mut self, now: Time, seen: SaturatorSeen) {
        if seen.next > self.next || seen.next <= self.acked || seen.sent_at > now {
            return;
        }
        self.heard = now;
        let (news, in_flight) = (seen.next - self.acked, self.next - self.acked);
        self.acked = seen.next;
        let way = (seen.received_at.as_nanos() as i64).wrapping_sub(seen.sent_at.as_nanos() as i64);
        let shortest = self.shortest.map_or(way, |shortest| shortest.min(way));
        self.shortest = Some(shortest);
        self.round = self.round.min(now.since(seen.sent_at));
        let held = self.round + Nanos::from_nanos(way.wrapping_sub(shortest).max(0) as u64);
        self.held = Some(held);
        let longer = Nanos::from_nanos(way.wrapping_sub(shortest).max(0) as u64);
        self.lag = now.since(seen.sent_at + longer);
        self.arrived(now, seen);
        let wanted = self.rate() * (AIM + self.lag).as_secs_f64();
        let wanted = (wanted as u64).clamp(LEAST_WINDOW, self.most_window);
        // Where the rate holds the sender back, a larger window would only fill a link that becomes slow.
        let grown = if held < LOWER && 2 * in_flight >= self.window { self.window + news } else { 0 };
        self.window = grown.max(wanted).min(self.most_window);
    }

    fn arrived(&mut self, now: Time, seen: SaturatorSeen) {
        self.arrivals.push_back((seen.received_at, seen.next));
        let old = |arrivals: &VecDeque<(Time, u64)>| {
            arrivals.get(1).is_some_and(|(at, _)| *at + RATE_OVER <= seen.received_at)
        };
        while old(&self.arrivals) || self.arrivals.len() > MOST_ARRIVALS {
            self.arrivals.pop_front();
        }
        let Some((from, before)) = self.arrivals.front().copied() else { return };
        let over = seen.received_at.since(from).max(RATE_OVER);
        let rate = (seen.next - before) as f64 / over.as_secs_f64();
        while self.rates.back().is_some_and(|(_, lower)| *lower <= rate) {
            self.rates.pop_back();
        }
        self.rates.push_back((now, rate));
        while self.rates.front().is_some_and(|(since, _)| *since + RATE_MEMORY < now) {
            self.rates.pop_front();
        }
    }

    /// For how long the packet was held that was acknowledged last.
    pub fn held(&self) -> Option<Nanos> {
        self.held
    }

    /// Packets that may be on their way.
    pub fn window(&self) -> u64 {
        self.window
    }

    /// Packets that have left.
    pub fn sent(&self) -> u64 {
        self.next
    }
}

/// What a link delivers, as opportunities of a trace.
#[derive(Clone, Debug)]
pub struct Opportunities {
    /// Bytes that one carries, from the IP header on.
    size: u64,
    lead: Nanos,
    length: Nanos,
    first: Option<Time>,
    last: Time,
    /// Bytes since the last opportunity.
    rest: u64,
    millis: Vec<u32>,
}

impl Opportunities {
    /// Opportunities of `size` bytes, which are recorded for `length` from `lead` after the first arrival on: the link is backlogged
    /// then.
    pub fn new(size: u32, lead: Nanos, length: Nanos) -> Self {
        Self { size: u64::from(size.max(1)), lead, length, first: None, last: Time::ZERO, rest: 0, millis: Vec::new() }
    }

    /// This many bytes have arrived; an arrival that is said to be before the last counts from that. Everything that the link carried counts, acknowledgements too.
    pub fn on_arrival(&mut self, now: Time, bytes: u32) {
        let now = now.max(self.last);
        self.last = now;
        let start = *self.first.get_or_insert(now) + self.lead;
        if now < start || now >= start + self.length {
            return;
        }
        self.rest += u64::from(bytes);
        let millis = now.since(start).as_nanos() / 1_000_000;
        while self.rest >= self.size {
            self.rest -= self.size;
            self.millis.push(u32::try_from(millis).unwrap_or(u32::MAX));
        }
    }

    /// When the recording ends, once something has arrived.
    pub fn end(&self) -> Option<Time> {
        self.first.map(|first| first + self.lead + self.length)
    }

    /// Milliseconds of all opportunities; the last is at the end of the recording and marks its length, as in traces that are made.
    /// Empty where nothing arrived.
    pub fn into_millis(self) -> Vec<u32> {
        let mut millis = self.millis;
        if !millis.is_empty() {
            millis.push(u32::try_from(self.length.as_nanos() / 1_000_000).unwrap_or(u32::MAX));
        }
        millis
    }
}
