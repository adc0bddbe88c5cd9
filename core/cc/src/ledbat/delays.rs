//! The delay of packets, and the smallest of them: what the queues are reckoned from.

use crate::controller::Ack;
use crate::units::{Nanos, Time};

/// Minima of a minute each that are remembered (RFC 6817 section 2.5).
const MINUTES: usize = 10;
const MINUTE: Nanos = Nanos::from_secs(60);
/// Samples of which the smallest is the present delay: RFC 6817's least number, and LEDBAT++'s (section 4).
const PLAIN_SAMPLES: usize = 4;
const PLUS_SAMPLES: usize = 10;
/// Time after which an idle flow's base is forgotten (our choice: the RFC's history).
const KEPT_IDLE: Nanos = Nanos::from_secs(60 * MINUTES as u64);

/// Signed nanoseconds: a one-way delay has the difference of two clocks in it.
type Delay = i64;

/// Delays seen, and the base that their queues are reckoned from.
pub(super) struct Delays {
    /// One way where the receiver reports arrivals, else the round trip.
    one_way: bool,
    /// The base follows clocks that run apart.
    skew: bool,
    /// The smallest of each of the last minutes.
    minutes: [Option<Delay>; MINUTES],
    minute_began: Time,
    /// The smallest of `minutes`.
    least: Option<Delay>,
    last: Time,
    recent: [Delay; PLUS_SAMPLES],
    seen: usize,
    samples: usize,
}

impl Delays {
    pub(super) fn one_way(skew: bool) -> Self {
        Self { one_way: true, skew, samples: PLAIN_SAMPLES, ..Self::round_trip() }
    }

    pub(super) fn round_trip() -> Self {
        Self {
            one_way: false,
            skew: false,
            minutes: [None; MINUTES],
            minute_began: Time::ZERO,
            least: None,
            last: Time::ZERO,
            recent: [0; PLUS_SAMPLES],
            seen: 0,
            samples: PLUS_SAMPLES,
        }
    }

    /// Takes the delay of the newest packet of `ack` that left once.
    pub(super) fn observe(&mut self, ack: &Ack<'_>) {
        let Some(delay) = self.sample(ack) else { return };
        self.last = ack.now;
        self.recent[self.seen % self.samples] = delay;
        self.seen += 1;
        self.lower(ack.now, delay);
        if self.skew {
            self.follow_clocks(ack);
        }
    }

    fn sample(&self, ack: &Ack<'_>) -> Option<Delay> {
        let newest = ack.packets.iter().rev().find(|packet| !packet.retransmitted);
        let one_way = newest.filter(|_| self.one_way).and_then(|packet| {
            let arrived = packet.received_at?;
            Some(signed(arrived.as_nanos()) - signed(packet.sent_at.as_nanos()))
        });
        one_way.or_else(|| ack.rtt.map(|rtt| signed(rtt.as_nanos())))
    }

    fn lower(&mut self, now: Time, delay: Delay) {
        if now.since(self.minute_began) >= MINUTE {
            let passed = (now.since(self.minute_began).as_nanos() / MINUTE.as_nanos()) as usize;
            self.minutes.rotate_right(passed.min(MINUTES));
            self.minutes[..passed.min(MINUTES)].fill(None);
            self.minute_began = now;
            self.least = self.minutes.iter().flatten().min().copied();
        }
        self.minutes[0] = Some(self.minutes[0].map_or(delay, |least| least.min(delay)));
        self.least = Some(self.least.map_or(delay, |least| least.min(delay)));
    }

    /// A queue that the round trip does not show is a clock that runs ahead.
    fn follow_clocks(&mut self, ack: &Ack<'_>) {
        if let (Some(rtt), Some(base), Some(current)) = (ack.rtt, self.least, self.current()) {
            let risen = signed((rtt - ack.min_rtt).as_nanos());
            let apart = (current - base) - risen;
            if apart > 0 {
                self.minutes.iter_mut().flatten().for_each(|least| *least += apart);
                self.least = Some(base + apart);
            }
        }
    }

    fn current(&self) -> Option<Delay> {
        self.recent[..self.seen.min(self.samples)].iter().min().copied()
    }

    /// The smallest delay in seconds, with the difference of the clocks where it was taken one way.
    pub(super) fn base(&self) -> Option<f64> {
        self.least.map(seconds)
    }

    /// The queueing delay at present in seconds.
    pub(super) fn queued(&self) -> Option<f64> {
        Some(seconds((self.current()? - self.least?).max(0)))
    }

    /// The flow sends again at `now`.
    pub(super) fn idle(&mut self, now: Time) {
        self.seen = 0;
        if now.since(self.last) > KEPT_IDLE {
            self.minutes = [None; MINUTES];
            self.least = None;
        }
    }
}

fn signed(nanos: u64) -> i64 {
    i64::try_from(nanos).unwrap_or(i64::MAX)
}

fn seconds(delay: Delay) -> f64 {
    delay as f64 * 1e-9
}
