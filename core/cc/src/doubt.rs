//! Round trips, and whether they are as long as reports say that queues are.
//!
//! Reports contradict round trips that are longer than they explain, and round trips that never show half of the queue that they say is
//! always there. The first kind claims room that is taken already; the second would hold a flow back for nothing.
//!
//! Reports are of the way there. Where the receiver says when packets came, the way there alone is judged: a queue on the way back,
//! which a flow in the other direction fills, gives no reason for doubt. Elsewhere the round trip is.

use crate::controller::Ack;
use crate::units::{Nanos, Time};

/// Queueing delay beyond the reported that gives no reason for doubt: this, and as much again as is reported (our choice, because reports
/// are a round trip old, and a radio that others use too holds packets back).
pub(crate) const UNEXPLAINED: Nanos = Nanos::from_millis(10);
/// A reported queue that is no longer than this need not be seen (our choice: a burst at 12 Mbit/s).
const TOO_SHORT: Nanos = Nanos::from_millis(4);
/// Rounds in a row with more of it after which the reports are not believed (our choice: the queue of one burst is gone by then).
const DOUBTS: u32 = 8;
/// For how long they are not, at first, and after the newest contradiction; twice as long each next time, up to the second (our choices).
const DISBELIEF: Nanos = Nanos::from_secs(1);
const DISBELIEF_MOST: Nanos = Nanos::from_secs(32);
/// Reports that held the flow back are not believed for this many times as long as they were (our choice: so they cost 5 %).
const REPAID: u64 = 20;

/// Two clocks part by one in this many at most (our choice: a tenth of a thousandth, twice what crystals do).
const CLOCKS_PART: u64 = 10_000;

/// Round trips that are longer than the path by `seen` are too long for queues that are reported to be of this length, where `allowed` is
/// [`UNEXPLAINED`] or less.
pub(crate) fn is_unexplained(seen: Nanos, reported: Nanos, allowed: Nanos) -> bool {
    seen > reported + reported + allowed
}

/// Round trips are shorter than queues that are reported to be of this length, which cannot be.
pub(crate) fn is_impossible(rtt: Nanos, reported: Nanos) -> bool {
    reported > rtt + TOO_SHORT
}

/// Round trips that are longer than the path by no more than `seen` do not show queues that are reported to be of this length.
fn is_unseen(seen: Nanos, reported: Nanos) -> bool {
    reported > seen + seen + TOO_SHORT
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
    /// Smallest and largest RTT in it.
    pub(crate) min_rtt: Nanos,
    pub(crate) max_rtt: Nanos,
    /// Smallest and largest time of the way there in it, in ns, by two clocks: only differences mean anything.
    pub(crate) transit: Option<(i64, i64)>,
    /// Longest queueing delay reported in it, the sum of all, and how many they are.
    pub(crate) reported: Nanos,
    pub(crate) sum: Nanos,
    pub(crate) reports: u64,
}

impl Default for Round {
    fn default() -> Self {
        let (min_rtt, max_rtt, transit) = (Nanos::MAX, Nanos::ZERO, None);
        let (reported, sum, reports) = (Nanos::ZERO, Nanos::ZERO, 0);
        let (end, count, since, arrived, lost) = (0, 0, Time::ZERO, 0, 0);
        Self { end, count, since, arrived, lost, min_rtt, max_rtt, transit, reported, sum, reports }
    }
}

impl Round {
    /// Takes an acknowledgement in.
    pub(crate) fn take(&mut self, ack: &Ack<'_>) {
        if let Some(rtt) = ack.rtt {
            (self.min_rtt, self.max_rtt) = (self.min_rtt.min(rtt), self.max_rtt.max(rtt));
        }
        self.arrived += ack.bytes;
        let sent_once = ack.packets.iter().filter(|acked| !acked.retransmitted);
        let transits = sent_once.filter_map(|acked| {
            let (came, left) = (acked.received_at?.as_nanos(), acked.sent_at.as_nanos());
            Some(came.wrapping_sub(left) as i64)
        });
        for transit in transits {
            let (least, most) = self.transit.unwrap_or((transit, transit));
            self.transit = Some((least.min(transit), most.max(transit)));
        }
    }

    /// Whether it ends with this acknowledgement.
    pub(crate) fn is_over(&self, ack: &Ack<'_>) -> bool {
        ack.una >= self.end
    }

    /// The one after it, which begins with this acknowledgement.
    pub(crate) fn next(&self, ack: &Ack<'_>) -> Self {
        Self { end: ack.next, count: self.count.wrapping_add(1), since: ack.now, ..Self::default() }
    }

    /// Takes in how long a report says that the queues of the way are.
    pub(crate) fn report(&mut self, queues: Nanos) {
        self.reported = self.reported.max(queues);
        self.sum += queues;
        self.reports += 1;
    }

    /// How long the queues were in the mean of its reports.
    fn mean(&self) -> Nanos {
        self.sum.mul_div(1, self.reports.max(1))
    }
}

/// How a round trip contradicts its reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contradiction {
    /// The path holds more than they say.
    Longer,
    /// It holds less.
    Shorter,
}

/// Whether reports are believed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Doubt {
    /// They are, since then.
    since: Option<Time>,
    /// The last ones that were not had held the flow back.
    held_back: bool,
    rounds: u32,
    until: Time,
    next: Nanos,
    /// The smallest way there so far, and when it was.
    shortest: Option<(i64, Time)>,
}

impl Default for Doubt {
    fn default() -> Self {
        Self { since: None, held_back: false, rounds: 0, until: Time::ZERO, next: DISBELIEF, shortest: None }
    }
}

impl Doubt {
    pub(crate) fn is_over(&self, now: Time) -> bool {
        now >= self.until
    }

    /// The reports that are not believed held the flow back.
    pub(crate) fn held_back(&self) -> bool {
        self.held_back
    }

    /// The newest round trips contradict the reports, and not for long enough yet.
    pub(crate) fn is_rising(&self) -> bool {
        self.rounds > 0
    }

    /// A round trip of a path of `smallest` is over; its reports were believed where it is to be `judged`. A queue that is longer than
    /// the reported by `allowed`, and as much again as is reported, gives no reason for doubt.
    pub(crate) fn end_round(&mut self, now: Time, round: &Round, smallest: Nanos, allowed: Nanos, judged: bool) {
        if let Some((transit, _)) = round.transit
            && self.shortest.is_none_or(|(shortest, _)| transit < shortest)
        {
            self.shortest = Some((transit, now));
        }
        if judged {
            self.since.get_or_insert(now);
        }
        match self.contradiction(now, round, smallest, allowed) {
            None => self.rounds = 0,
            Some(_) if !self.is_over(now) => self.begin(now),
            Some(_) if !judged => {}
            Some(found) => {
                self.rounds += 1;
                match found {
                    _ if self.rounds < DOUBTS => {}
                    Contradiction::Longer => self.begin(now),
                    Contradiction::Shorter => self.repay(now),
                }
            }
        }
    }

    fn contradiction(&self, now: Time, round: &Round, smallest: Nanos, allowed: Nanos) -> Option<Contradiction> {
        if round.reports == 0 || round.min_rtt == Nanos::MAX {
            return None;
        }
        let (least, most) = self.queues(now, round, smallest);
        if is_unexplained(least, round.reported, allowed) {
            Some(Contradiction::Longer)
        } else if is_unseen(most, round.mean()) {
            Some(Contradiction::Shorter)
        } else {
            None
        }
    }

    /// How long the queues of the way there were at least and at most, where the receiver says when packets came; else those of the round trip.
    fn queues(&self, now: Time, round: &Round, smallest: Nanos) -> (Nanos, Nanos) {
        match round.transit.zip(self.shortest) {
            Some(((least, most), (shortest, at))) => {
                let longer = |transit: i64| {
                    let longer = Nanos::from_nanos(transit.saturating_sub(shortest).unsigned_abs());
                    longer - (now - at).mul_div(1, CLOCKS_PART)
                };
                (longer(least), longer(most))
            }
            None => (round.min_rtt - smallest, round.max_rtt - smallest),
        }
    }

    /// How long the queues of the way there were at least.
    pub(crate) fn least_queues(&self, now: Time, round: &Round, smallest: Nanos) -> Nanos {
        self.queues(now, round, smallest).0
    }

    /// Reports are not believed for a while, or, where they are not already, for a second from now on.
    pub(crate) fn begin(&mut self, now: Time) {
        if !self.is_over(now) {
            self.until = self.until.max(now + DISBELIEF);
            return;
        }
        let next = (self.next + self.next).min(DISBELIEF_MOST);
        *self = Self { since: None, held_back: false, rounds: 0, until: now + self.next, next, ..*self };
    }

    /// The same for reports that held the flow back: for many times as long as they were believed.
    pub(crate) fn repay(&mut self, now: Time) {
        let held = self.since.map_or(Nanos::ZERO, |since| now - since);
        self.begin(now);
        self.held_back = true;
        self.until = self.until.max(now + held.mul_div(REPAID, 1).min(DISBELIEF_MOST));
    }
}
