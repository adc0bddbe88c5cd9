//! When the router's thread leaves requests to gather: each time that it wakes costs as much as ten units.
//!
//! A request that comes after a silence is answered at once. While they come one behind the other, the thread sleeps until about half as
//! many as one call takes have come, or for the longest pause.

use paceline_cc::{Nanos, Time};

use super::socket::RECEIVED;

/// Requests that a pause is to bring: half of what one call takes, so that few calls are full and none is nearly empty (our choice).
const WANTED: u64 = RECEIVED as u64 / 2;

/// What the thread does before it takes requests again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Waits until one is there.
    Wait,
    /// Sleeps this long, whatever comes.
    Pause(Nanos),
    /// Takes more: the last call was full.
    Take,
}

pub(super) struct Gathering {
    longest: Nanos,
    /// When a call was last not full.
    since: Time,
    /// Requests of full calls since then.
    gathered: u64,
}

impl Gathering {
    /// No request waits longer than this for others; zero: none waits.
    pub(super) const fn new(longest: Nanos) -> Self {
        Self { longest, since: Time::ZERO, gathered: 0 }
    }

    /// A call took this many requests; it can take [`RECEIVED`].
    pub(super) fn after(&mut self, now: Time, count: usize) -> Next {
        if count == 0 {
            return Next::Wait;
        }
        self.gathered += count as u64;
        if count >= RECEIVED {
            return Next::Take;
        }
        let took = now.since(self.since);
        let gathered = std::mem::take(&mut self.gathered);
        self.since = now;
        // A pause that brings one request spares nothing.
        if took.mul_div(2, gathered) > self.longest {
            return Next::Wait;
        }
        Next::Pause(took.mul_div(WANTED, gathered).min(self.longest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Nanos = Nanos::from_micros(500);

    /// Requests come this far apart for 100 ms to a thread whose work takes no time. Says how often it woke, and the longest that one waited.
    fn run(gap: Nanos, longest: Nanos) -> (u64, Nanos) {
        let mut gathering = Gathering::new(longest);
        let (mut now, mut next) = (Time::from_millis(1000), Next::Wait);
        let (mut due, end) = (now + gap, now + Nanos::from_millis(100));
        let (mut woke, mut waited) = (0, Nanos::ZERO);
        while due < end {
            now = match next {
                Next::Wait => now.max(due),
                Next::Pause(pause) => now + pause,
                Next::Take => now,
            };
            woke += u64::from(next != Next::Take);
            let mut count = 0;
            while due <= now && count < RECEIVED {
                waited = waited.max(now.since(due));
                due += gap;
                count += 1;
            }
            next = gathering.after(now, count);
        }
        (woke, waited)
    }

    #[test]
    fn a_lone_request_is_answered_at_once() {
        // One each millisecond.
        assert_eq!(run(Nanos::from_millis(1), LONGEST), (99, Nanos::ZERO));
        // And the first after any rush.
        let mut gathering = Gathering::new(LONGEST);
        let mut now = Time::from_millis(1000);
        for _ in 0..100 {
            now += Nanos::from_micros(300);
            gathering.after(now, 20);
        }
        assert!(matches!(gathering.after(now + Nanos::from_micros(300), 20), Next::Pause(_)));
        assert_eq!(gathering.after(now + LONGEST, 0), Next::Wait);
        assert_eq!(gathering.after(now + Nanos::from_millis(5), 1), Next::Wait);
    }

    #[test]
    fn what_comes_fast_is_gathered_and_waits_no_longer_than_it_may() {
        for (per_second, most) in [(11_160, 250), (44_640, 250), (150_000, 600), (1_000_000, 4000)] {
            let (woke, waited) = run(Nanos::from_nanos(1_000_000_000 / per_second), LONGEST);
            let requests = per_second / 10;
            assert!(woke <= most && requests / woke >= 4, "{per_second} a second: woke {woke} times");
            assert!(waited <= LONGEST, "{per_second} a second: {waited}");
        }
    }

    #[test]
    fn full_calls_are_followed_by_no_pause() {
        let mut gathering = Gathering::new(LONGEST);
        let now = Time::from_millis(1000);
        gathering.after(now, 1);
        assert_eq!(gathering.after(now + Nanos::from_micros(320), RECEIVED), Next::Take);
        // 128 in 640 us: 32 in 160.
        assert_eq!(gathering.after(now + Nanos::from_micros(640), RECEIVED), Next::Take);
        let Next::Pause(pause) = gathering.after(now + Nanos::from_micros(650), 2) else { panic!("a pause") };
        assert_eq!(pause, Nanos::from_micros(650).mul_div(32, 130));
    }

    #[test]
    fn without_a_pause_each_is_answered_at_once() {
        assert_eq!(run(Nanos::from_micros(10), Nanos::ZERO).1, Nanos::ZERO);
    }
}
