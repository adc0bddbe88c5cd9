//! When the emulator next looks at its ports and hands over what is due: for each packet while there are few, for several at
//! once while there are many, since a wake-up costs as much as carrying a few small packets.
//!
//! Ours: a path that holds every packet for a while need not hear at once that one has come, as packets are stamped on
//! arrival; so only moments at which something is due count, and these, too, are gathered once they come too often, as
//! network cards moderate their interrupts.

use paceline_cc::{Nanos, Time};

/// Turns of a busy emulator are so far apart (our choice: TODO).
const SPACING: Nanos = Nanos::from_micros(50);
/// Turns saved up while there were few, in time (our choice: a round of a window of 40 packets).
const SAVED: Nanos = SPACING.mul_div(40, 1);
/// Longest time for which arrivals are left unread (our choice: what comes meanwhile at 1 Gbit/s is a few hundredths of what a port
/// may keep).
const PATIENCE: Nanos = Nanos::from_micros(500);

/// What to do before the next turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// Sleep until then, whatever arrives: too busy for less.
    Gather(Time),
    /// Wait for this very moment, whatever arrives: something is due.
    Due(Time),
    /// Sleep until then, whatever arrives, then wait for an arrival or for what is due.
    Listen(Time),
}

/// Spaces out the turns of one emulator.
#[derive(Debug)]
pub(super) struct Turns {
    /// How long an arrival may wait to be read.
    patience: Nanos,
    /// A turn from then on is within the rate at which turns may come (virtual scheduling, as in ITU-T I.371).
    allowed: Time,
}

impl Turns {
    /// For paths in which every packet stays at least `least`.
    pub(super) fn new(least: Nanos) -> Self {
        Self { patience: least.min(PATIENCE), allowed: Time::ZERO }
    }

    /// After a turn that ended at `now`, with something due next at `due`, and in which something was `read` or not.
    pub(super) fn rest(&mut self, now: Time, due: Time, read: bool) -> Rest {
        let gather = self.allowed;
        self.allowed = gather.max(now - SAVED) + SPACING;
        let unread = if read { now + self.patience } else { now };
        if due <= gather {
            Rest::Gather(gather)
        } else if due <= unread {
            Rest::Due(due)
        } else {
            Rest::Listen(gather.max(unread))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = Nanos::from_millis(1);

    fn us(micros: u64) -> Time {
        Time::ZERO + Nanos::from_micros(micros)
    }

    #[test]
    fn few_turns_wait_for_arrivals_or_the_very_moment() {
        let mut turns = Turns::new(Nanos::ZERO);
        for turn in 1..100 {
            let now = us(turn * 1000);
            assert_eq!(turns.rest(now, now + MS, true), Rest::Listen(now));
            assert_eq!(turns.rest(now, Time::NEVER, false), Rest::Listen(now));
        }
    }

    #[test]
    fn a_path_that_holds_packets_lets_arrivals_wait() {
        let mut turns = Turns::new(Nanos::from_micros(300));
        let now = us(7_000);
        assert_eq!(turns.rest(now, Time::NEVER, true), Rest::Listen(us(7_300)));
        assert_eq!(turns.rest(now, us(7_200), true), Rest::Due(us(7_200)));
        assert_eq!(turns.rest(now, us(7_200), false), Rest::Listen(now));
        let mut far = Turns::new(Nanos::from_secs(1));
        assert_eq!(far.rest(now, Time::NEVER, true), Rest::Listen(now + PATIENCE));
    }

    #[test]
    fn many_turns_are_gathered_to_their_spacing() {
        let mut turns = Turns::new(Nanos::ZERO);
        let (mut now, mut count) = (us(10_000), 0);
        while now < us(20_000) {
            count += 1;
            now = match turns.rest(now, now, true) {
                Rest::Gather(until) => now.max(until),
                Rest::Due(at) | Rest::Listen(at) => at,
            } + Nanos::from_micros(1);
        }
        let even = (MS.mul_div(10, 1) + SAVED).as_nanos() / SPACING.as_nanos();
        assert!((even - 2..=even + 2).contains(&count), "{count}");
        // After a while with nothing to do, each is on time again.
        now += SAVED;
        assert_eq!(turns.rest(now, now + MS, true), Rest::Listen(now));
    }
}
