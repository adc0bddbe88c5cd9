//! How long before a packet is due to begin to hand it over.
//!
//! The kernel takes the packet over in the middle of the call: before that, it copies the packet; after that, within the same
//! call, it carries it up to the receiver's socket and wakes the receiver. So a packet sent when it is due is late by
//! about half of what that takes, which is tens of microseconds after a pause and a few among others. Ours: that half is
//! derived from the quickest of the latest calls of the same kind, so that a packet is early neither often nor by much; it is
//! bounded; and only a delay at the end of a path lets the emulator know a packet so early.

use paceline_cc::{Nanos, Time};

/// No packet is begun earlier than this (our choice: half of what a call took after a pause, where it took long).
const MOST: Nanos = Nanos::from_micros(60);
/// This long after another packet, caches and the receiver's processor are cold (our choice: a call took 50 to 60 µs where
/// packets came 10 ms apart, and 4 to 18 µs where a full link's came within a millisecond).
const PAUSE: Nanos = Nanos::from_millis(1);

/// Learns how long sending one packet takes.
#[derive(Debug)]
pub(super) struct Handover {
    /// After another packet, and after a pause.
    calls: [Quick; 2],
    /// When the last packet was sent.
    last: Time,
    most: Nanos,
}

impl Handover {
    /// For a path that knows `foresight` ahead what comes out.
    pub(super) fn new(foresight: Nanos) -> Self {
        Self { calls: Default::default(), last: Time::ZERO, most: foresight.min(MOST) }
    }

    /// How long before `due` to begin.
    pub(super) fn lead(&self, due: Time) -> Nanos {
        self.calls[self.kind(due)].0.map_or(Nanos::ZERO, |quick| quick.mul_div(1, 2).min(self.most))
    }

    /// Sending a packet that was due then took this time, from when it was time to begin to the kernel's return.
    pub(super) fn took(&mut self, due: Time, span: Nanos) {
        self.calls[self.kind(due)].learn(span);
    }

    /// Something was sent.
    pub(super) fn done(&mut self, now: Time) {
        self.last = now;
    }

    fn kind(&self, due: Time) -> usize {
        usize::from(due - self.last > PAUSE)
    }
}

/// A span than which one call of ten is quicker.
#[derive(Debug, Default)]
struct Quick(Option<Nanos>);

impl Quick {
    /// A quicker call moves it down by nine steps, a slower one up by one (our choice: steps of a hundredth, so that a hundred
    /// calls change all and ten little).
    fn learn(&mut self, span: Nanos) {
        let quick = self.0.unwrap_or(span);
        let step = quick.mul_div(1, 100).max(Nanos::from_nanos(10));
        self.0 = Some(if span < quick { quick - step.mul_div(9, 1) } else { quick + step });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet each two milliseconds.
    fn sparse(handover: &mut Handover, spans: impl Iterator<Item = Nanos>) -> Nanos {
        let mut due = handover.last;
        for span in spans {
            due += PAUSE + PAUSE;
            handover.took(due, span);
            handover.done(due);
        }
        handover.lead(due + PAUSE + PAUSE)
    }

    #[test]
    fn the_lead_is_half_of_what_quick_calls_take() {
        let mut handover = Handover::new(Nanos::from_millis(10));
        assert_eq!(handover.lead(Time::from_millis(5)), Nanos::ZERO);
        // The first call is believed.
        let first = sparse(&mut handover, std::iter::once(Nanos::from_micros(40)));
        assert!((Nanos::from_micros(20)..=Nanos::from_micros(21)).contains(&first), "{first}");
        let mixed =
            sparse(&mut handover, (0..500).map(|round| Nanos::from_micros(if round % 7 == 0 { 20 } else { 60 })));
        assert!((Nanos::from_micros(9)..=Nanos::from_micros(12)).contains(&mixed), "{mixed}");
        assert_eq!(sparse(&mut handover, (0..500).map(|_| Nanos::from_millis(1))), MOST);
        assert!(sparse(&mut handover, (0..500).map(|_| Nanos::from_micros(2))) <= Nanos::from_micros(2));
    }

    #[test]
    fn calls_after_a_pause_and_calls_among_others_are_learnt_apart() {
        let mut handover = Handover::new(Nanos::from_millis(10));
        sparse(&mut handover, (0..500).map(|_| Nanos::from_micros(50)));
        let after = handover.last + Nanos::from_micros(100);
        (0..500).for_each(|_| handover.took(after, Nanos::from_micros(8)));
        assert!(handover.lead(after) <= Nanos::from_micros(5));
        assert!(handover.lead(after + PAUSE) >= Nanos::from_micros(20));
    }

    #[test]
    fn what_is_not_foreseen_is_not_begun_early() {
        let mut handover = Handover::new(Nanos::ZERO);
        assert_eq!(sparse(&mut handover, (0..500).map(|_| Nanos::from_millis(1))), Nanos::ZERO);
    }
}
