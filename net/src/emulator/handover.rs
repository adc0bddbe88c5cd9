//! How long before a packet is due to begin to hand it over.
//!
//! The kernel takes the packet over in the middle of the call: before that, it copies the packet; after that, within the same
//! call, it carries it up to the receiver's socket. So a packet handed over when it is due is late by about half of what
//! that takes, which is tens of microseconds after a sleep. Ours: that half is learnt from the quickest of the latest
//! calls, so that a packet is early neither often nor by much; it is bounded; and only a delay at the end of a path
//! lets the emulator know a packet so early.

use paceline_cc::Nanos;

/// No packet is begun earlier than this (our choice: half of what a call took after a sleep, where it took long).
const MOST: Nanos = Nanos::from_micros(30);

/// Learns how long handing over one packet takes.
#[derive(Debug)]
pub(super) struct Handover {
    /// One call of ten takes less.
    quick: Nanos,
    most: Nanos,
}

impl Handover {
    /// For a path that tells `foresight` ahead what comes out.
    pub(super) fn new(foresight: Nanos) -> Self {
        Self { quick: Nanos::ZERO, most: foresight.min(MOST) }
    }

    /// How long before a packet is due to begin.
    pub(super) fn lead(&self) -> Nanos {
        self.quick.mul_div(1, 2).min(self.most)
    }

    /// A packet was handed over in this time, from when it was time to begin to the kernel's return.
    pub(super) fn took(&mut self, span: Nanos) {
        const STEP: Nanos = Nanos::from_nanos(200);
        self.quick = if span < self.quick { self.quick - STEP.mul_div(9, 1) } else { self.quick + STEP };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lead_is_half_of_what_quick_calls_take() {
        let mut handover = Handover::new(Nanos::from_millis(10));
        assert_eq!(handover.lead(), Nanos::ZERO);
        for round in 0..5000 {
            handover.took(Nanos::from_micros(if round % 7 == 0 { 20 } else { 60 }));
        }
        assert!((Nanos::from_micros(9)..=Nanos::from_micros(11)).contains(&handover.lead()), "{:?}", handover.lead());
        (0..5000).for_each(|_| handover.took(Nanos::from_millis(1)));
        assert_eq!(handover.lead(), MOST);
        (0..5000).for_each(|_| handover.took(Nanos::from_micros(2)));
        assert!(handover.lead() <= Nanos::from_micros(2));
    }

    #[test]
    fn what_is_not_foreseen_is_not_begun_early() {
        let mut handover = Handover::new(Nanos::ZERO);
        (0..500).for_each(|_| handover.took(Nanos::from_millis(1)));
        assert_eq!(handover.lead(), Nanos::ZERO);
    }
}
