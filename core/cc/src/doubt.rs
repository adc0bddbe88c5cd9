//! Round trips, and whether reports explain how long they are.
//!
//! Reports are of the way there. Where the receiver says when packets came, the way there alone is judged: a queue on the way back,
//! which a flow in the other direction fills, gives no reason for doubt. Elsewhere the round trip is.

use crate::controller::Ack;
use crate::units::{Nanos, Time};

/// Queueing delay beyond the reported that gives no reason for doubt: this, and as much again as is reported (our choice, because reports
/// are a round trip old).
const UNEXPLAINED: Nanos = Nanos::from_millis(10);
/// A queue takes no longer than a round trip, and this (our choice: reports and smoothed round trips are of different moments).
const TOO_LONG: Nanos = Nanos::from_millis(4);
/// Rounds in a row with more of it after which the reports are not believed (our choice: the queue of one burst is gone by then).
const DOUBTS: u32 = 8;
/// For how long they are not, at first; twice as long each next time, up to the second (our choices).
const DISBELIEF: Nanos = Nanos::from_secs(1);
const DISBELIEF_MOST: Nanos = Nanos::from_secs(32);

/// Two clocks part by one in this many at most (our choice: a tenth of a thousandth, twice what crystals do).
const CLOCKS_PART: u64 = 10_000;

/// Round trips that are longer than the path by `seen` are too long for queues that are reported to be of this length.
pub(crate) fn is_unexplained(seen: Nanos, reported: Nanos) -> bool {
    seen > reported + reported + UNEXPLAINED
}

/// Round trips are shorter than queues that are reported to be of this length, which cannot be.
pub(crate) fn is_impossible(rtt: Nanos, reported: Nanos) -> bool {
    reported > rtt + TOO_LONG
}

/// A round trip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    /// It ends when everything below has been delivered.
    pub(crate) end: u64,
    pub(crate) count: u32,
    pub(crate) since: Time,
    /// Bytes that have arrived in it, and that were found lost.
    pub(crate) arrived: u64,
    pub(crate) lost: u64,
    /// Smallest RTT in it.
    pub(crate) min_rtt: Nanos,
    /// Smallest time of the way there in it, in ns, by two clocks: only differences mean anything.
    pub(crate) transit: Option<i64>,
    /// Longest queueing delay reported in it.
    pub(crate) reported: Nanos,
}

impl Default for Round {
    fn default() -> Self {
        let (min_rtt, reported) = (Nanos::MAX, Nanos::ZERO);
        Self { end: 0, count: 0, since: Time::ZERO, arrived: 0, lost: 0, min_rtt, transit: None, reported }
    }
}

impl Round {
    /// Takes an acknowledgement in.
    pub(crate) fn take(&mut self, ack: &Ack<'_>) {
        self.min_rtt = self.min_rtt.min(ack.rtt.unwrap_or(Nanos::MAX));
        self.arrived += ack.bytes;
        let sent_once = ack.packets.iter().filter(|acked| !acked.retransmitted);
        let transits = sent_once.filter_map(|acked| {
            let (came, left) = (acked.received_at?.as_nanos(), acked.sent_at.as_nanos());
            Some(came.wrapping_sub(left) as i64)
        });
        self.transit = self.transit.into_iter().chain(transits).min();
    }
}

/// Whether reports are believed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Doubt {
    rounds: u32,
    until: Time,
    next: Nanos,
    /// The smallest way there so far, and when it was.
    shortest: Option<(i64, Time)>,
}

impl Default for Doubt {
    fn default() -> Self {
        Self { rounds: 0, until: Time::ZERO, next: DISBELIEF, shortest: None }
    }
}

impl Doubt {
    pub(crate) fn is_over(&self, now: Time) -> bool {
        now >= self.until
    }

    /// A round trip of a path of `smallest` is over; its reports were believed where it is to be `judged`.
    pub(crate) fn end_round(&mut self, now: Time, round: &Round, smallest: Nanos, judged: bool) {
        if let Some(transit) = round.transit
            && self.shortest.is_none_or(|(shortest, _)| transit < shortest)
        {
            self.shortest = Some((transit, now));
        }
        if !judged || round.min_rtt == Nanos::MAX {
            return;
        }
        let queues = match round.transit.zip(self.shortest) {
            Some((transit, (shortest, at))) => {
                let longer = Nanos::from_nanos(transit.saturating_sub(shortest).unsigned_abs());
                longer - (now - at).mul_div(1, CLOCKS_PART)
            }
            None => round.min_rtt - smallest,
        };
        if !is_unexplained(queues, round.reported) {
            self.rounds = 0;
            return;
        }
        self.rounds += 1;
        if self.rounds >= DOUBTS {
            self.begin(now);
        }
    }

    pub(crate) fn begin(&mut self, now: Time) {
        let next = (self.next + self.next).min(DISBELIEF_MOST);
        *self = Self { rounds: 0, until: now + self.next, next, ..*self };
    }
}
