//! Whether the path takes more than reports permit: now and then a flow sends more for some round trips, until a queue shows, which reports
//! that are right soon make. Where as much as the flow's share, and a quarter of the link, goes through beyond it without one, they are not.
//!
//! Without it a hop that says too many flows, or too little capacity, would hold a flow back for ever: what it says agrees with all that
//! the flow sees of it.

use crate::units::{Nanos, Time};

/// Beyond the share in the first round trip of a trial, and twice as much in each one after it (our choice: as an unreported capacity is probed).
const FIRST: f64 = 0.02;
/// The first trial of reports that begin to be believed (our choice: a flow among many that send little has what they leave by then).
const BEGINS: Nanos = Nanos::from_secs(2);
/// A trial follows a queue that shows after this time at first, after each trial twice as long, up to the second (our choices, as doubts).
const APART: Nanos = Nanos::from_secs(1);
const APART_MOST: Nanos = Nanos::from_secs(32);
/// A queue of this length shows that no more fits (our choice: as much as is left alone).
const SHOWS: Nanos = Nanos::from_millis(2);
/// A trial goes on while this much of what it sends arrives (our choice, as a probe of the capacity).
const FOLLOWED: f64 = 0.85;
/// What goes through beyond the share counts from this part of the link on, and from as much as the share (our choice: more than what a full link
/// may have left, and what reports do not know yet) ...
const COUNTS: f64 = 0.25;
/// ... and contradicts when it would have kept the link busy for so long (our choice: four times the queue that would have shown).
const CONTRADICTS: Nanos = Nanos::from_millis(8);

/// Trials since reports began to be believed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    /// Part of the share that is sent beyond it; 0 between trials.
    more: f64,
    /// How long what went through beyond the share would have kept the link busy.
    through: Nanos,
    due: Time,
    apart: Nanos,
    /// The share at which a queue was last seen.
    filled: f64,
}

impl Default for Trial {
    fn default() -> Self {
        Self { more: 0.0, through: Nanos::ZERO, due: Time::ZERO, apart: APART, filled: 0.0 }
    }
}

impl Trial {
    /// Reports are believed from now on; those that the last trial contradicted are tried at once.
    pub(super) fn begin(&mut self, now: Time) {
        let due = if self.contradicts() { now } else { now + BEGINS };
        *self = Self { due, ..Self::default() };
    }

    fn contradicts(&self) -> bool {
        self.more > 0.0 && self.through >= CONTRADICTS
    }

    /// How many times its share the flow sends.
    pub(super) fn gain(&self) -> f64 {
        1.0 + self.more
    }

    /// A queue shows, or the flow does not use what it may.
    pub(super) fn rest(&mut self, now: Time) {
        if self.more > 0.0 {
            self.more = 0.0;
            self.due = now + self.apart;
            self.apart = (self.apart + self.apart).min(APART_MOST);
        }
    }

    /// A round trip of `span` is over in which queues were of this length at least, `arrived` packets a second came, and reports permitted
    /// `share` of a link of `capacity`: whether trials contradict them by now.
    pub(super) fn end_round(
        &mut self,
        now: Time,
        (span, queue): (Nanos, Nanos),
        arrived: f64,
        (share, capacity): (f64, f64),
    ) -> bool {
        // What filled the link says nothing of far less.
        if share < self.filled / 2.0 && self.more == 0.0 {
            (self.due, self.apart, self.filled) = (now + APART, APART, share);
        }
        // What arrives was sent in the round trip before, with half as much beyond the share.
        let follows = arrived >= FOLLOWED * share * (1.0 + self.more / 2.0);
        if queue > SHOWS {
            self.filled = self.filled.max(share);
            self.rest(now);
            self.due = self.due.max(now + self.apart);
        } else if !follows {
            self.rest(now);
        } else if self.more == 0.0 {
            self.more = if now >= self.due { FIRST } else { 0.0 };
            self.through = Nanos::ZERO;
        } else if arrived - share >= share.max(COUNTS * capacity) {
            let part = (arrived - share) / capacity.max(share);
            self.through += Nanos::from_secs_f64(part * span.as_secs_f64());
        } else {
            self.more *= 2.0;
        }
        self.contradicts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Nanos = Nanos::from_millis(20);

    /// Round trips until reports of a share are contradicted, where the path takes this much, up to 40.
    fn contradicted(takes: f64, share: f64, capacity: f64) -> Option<u32> {
        let (mut trial, mut now, mut queue) = (Trial::default(), Time::ZERO, Nanos::ZERO);
        let mut sent = share;
        (1..=40).find(|_| {
            now += RTT;
            queue += Nanos::from_secs_f64((sent / takes - 1.0).max(0.0) * RTT.as_secs_f64());
            let ends = trial.end_round(now, (RTT, queue), sent.min(takes), (share, capacity));
            sent = share * trial.gain();
            ends
        })
    }

    #[test]
    fn a_share_that_is_far_too_small_is_contradicted_within_some_round_trips() {
        // A tenth of the capacity, and one of two hundred flows.
        assert!(matches!(contradicted(1_650.0, 165.0, 165.0), Some(7..=10)));
        assert!(matches!(contradicted(1_650.0, 8.25, 1_650.0), Some(12..=16)));
        // One that is right is not, nor one of ten flows beside nine others, nor one of two.
        assert_eq!(
            [(1_650.0, 1_617.0), (165.0, 161.7), (825.0, 808.5)]
                .map(|(takes, share)| contradicted(takes, share, 1_650.0)),
            [None; 3]
        );
    }

    #[test]
    fn trials_that_find_a_queue_become_rare() {
        let (mut trial, mut now) = (Trial::default(), Time::ZERO);
        let mut begun = Vec::new();
        while now < Time::from_millis(70_000) {
            now += RTT;
            let before = trial.gain();
            let queue = if before > 1.0 { Nanos::from_millis(3) } else { Nanos::ZERO };
            trial.end_round(now, (RTT, queue), 100.0, (100.0, 200.0));
            if trial.gain() > 1.0 && before == 1.0 {
                begun.push(now.as_nanos() / 1_000_000_000);
            }
        }
        assert_eq!(begun, [0, 2, 6, 14, 30, 62]);
    }
}
