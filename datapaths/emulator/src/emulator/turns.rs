//! When the emulator next looks at its ports and sends what is due: for each packet while there are few, for several at
//! once while there are many, since a wake-up costs as much as carrying a few small packets.
//!
//! Ours: a path that holds every packet for a while need not be informed at once that one has come, as packets are stamped on
//! arrival; so only moments at which something is due count, and these, too, are gathered once they come too often, as
//! network cards moderate their interrupts.

use paceline_cc::{Nanos, Time};

/// Turns of a busy emulator are so far apart (our choice: a turn costs 10 to 17 µs of a processor on the machine of
/// docs/results/benchmarks.md, and an opportunity of a delivery trace is a millisecond).
const SPACING: Nanos = Nanos::from_micros(200);
/// Busy means reading or sending more than one packet in this time, on average (our choice: 500 Mbit/s of full packets, or
/// half of that with acknowledgements, are fewer).
const EACH: Nanos = Nanos::from_micros(11);
/// A burst may come before that, if there was nothing to do for this long (our choice: 90 packets that come and go).
const SAVED: Nanos = Nanos::from_millis(2);
/// Longest time for which arrivals are left unread (our choice: what comes meanwhile at 1 Gbit/s is a few hundredths of what
/// a port may keep).
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
    /// Until then the packets so far would take at the rate that is not yet busy (virtual scheduling, as in ITU-T I.371).
    busy: Time,
}

impl Turns {
    /// For paths in which every packet stays at least `least`.
    pub(super) fn new(least: Nanos) -> Self {
        Self { patience: least.min(PATIENCE), busy: Time::ZERO }
    }

    /// Every packet stays at least `least` from now on.
    pub(super) fn hold_for(&mut self, least: Nanos) {
        self.patience = least.min(PATIENCE);
    }

    /// After a turn that ended at `now`, which `read` this many packets and sent those that `left`, with something due next at `due`.
    pub(super) fn rest(&mut self, now: Time, due: Time, read: usize, left: usize) -> Rest {
        let spent = EACH.mul_div((read + left) as u64, 1);
        self.busy = (self.busy.max(now - SAVED) + spent).min(now + SAVED);
        if self.busy > now {
            return Rest::Gather(due.clamp(now + SPACING, now + self.patience.max(SPACING)));
        }
        let unread = if read > 0 { now + self.patience } else { now };
        if due <= unread { Rest::Due(due) } else { Rest::Listen(unread) }
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
    fn few_packets_are_waited_for_one_by_one() {
        let mut turns = Turns::new(Nanos::ZERO);
        for turn in 1..1000 {
            let now = us(turn * 50);
            assert_eq!(turns.rest(now, now + MS, 1, 1), Rest::Listen(now));
        }
        assert_eq!(turns.rest(us(60_000), Time::NEVER, 0, 0), Rest::Listen(us(60_000)));
    }

    #[test]
    fn a_path_that_holds_packets_lets_arrivals_wait() {
        let mut turns = Turns::new(Nanos::from_micros(300));
        let now = us(7_000);
        assert_eq!(turns.rest(now, Time::NEVER, 1, 0), Rest::Listen(us(7_300)));
        assert_eq!(turns.rest(now, us(7_200), 1, 0), Rest::Due(us(7_200)));
        assert_eq!(turns.rest(now, us(7_200), 0, 1), Rest::Listen(now));
        let mut far = Turns::new(Nanos::from_secs(1));
        assert_eq!(far.rest(now, Time::NEVER, 1, 0), Rest::Listen(now + PATIENCE));
    }

    #[test]
    fn many_packets_are_gathered_and_then_no_more() {
        let mut turns = Turns::new(MS);
        let burst = (SAVED.as_nanos() / EACH.as_nanos()) as usize;
        let now = us(10_000);
        assert_eq!(turns.rest(now, now, burst, 0), Rest::Due(now));
        assert_eq!(turns.rest(now, now, 1, 0), Rest::Gather(now + SPACING));
        assert_eq!(turns.rest(now, us(10_300), 1, 0), Rest::Gather(us(10_300)));
        assert_eq!(turns.rest(now, Time::NEVER, 1, 0), Rest::Gather(now + PATIENCE));
        // However many there were, what comes a moment later is alone again.
        turns.rest(now, now, 10_000, 10_000);
        let now = now + SAVED;
        assert_eq!(turns.rest(now, now + MS, 0, 0), Rest::Listen(now));
    }
}
