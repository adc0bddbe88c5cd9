//! A sending host that is no machine of infinite speed: its timers come late, and its packets keep a distance.
//!
//! Source: measurements of one paced TCP flow on Linux 6.18 (virtual Ethernet, two processors): packets left later than
//! planned by 2 µs in the median, 20 µs in the 90th and 45 µs in the 99th percentile, and hardly any closer together than
//! 20 µs. What differs: every timer of the sender comes late, not pacing alone, since a host has one kind of timer; an
//! acknowledgement that arrives meanwhile wakes the sender as well, as it does there.

use paceline_cc::{Nanos, Pacing, Time};
use rand::RngExt;
use rand_pcg::Pcg64;

/// How late a timer comes in ns, by the share of timers that are not later: straight lines between the measured points, so
/// that nothing is claimed beyond them. From the last one the line goes on (47.8 µs), rounded up (our choice).
const LATENESS: [(f64, f64); 5] = [(0.0, 0.0), (0.5, 2_000.0), (0.9, 20_000.0), (0.99, 45_000.0), (1.0, 50_000.0)];

/// Least time between two packets that are paced by gaps.
const LEAST_GAP: Nanos = Nanos::from_micros(20);

/// The host of one sender.
pub(crate) struct Host {
    rng: Pcg64,
    /// The timer last asked for, and how late it comes.
    due: Time,
    late: Nanos,
    /// When the last packet left.
    departed: Option<Time>,
}

impl Host {
    pub(crate) fn new(rng: Pcg64) -> Self {
        Self { rng, due: Time::NEVER, late: Nanos::ZERO, departed: None }
    }

    /// A packet left.
    pub(crate) fn sent(&mut self, now: Time) {
        self.departed = Some(now);
    }

    /// From when on the next packet may leave for all that the host can do.
    pub(crate) fn ready_at(&self, pacing: Pacing) -> Time {
        match (pacing, self.departed) {
            (Pacing::Gap(_), Some(departed)) => departed + LEAST_GAP,
            _ => Time::ZERO,
        }
    }

    /// When a timer set for `due` wakes the sender.
    pub(crate) fn wakes_at(&mut self, due: Time) -> Time {
        if due == Time::NEVER {
            return due;
        }
        if due != self.due {
            self.due = due;
            self.late = lateness(&mut self.rng);
        }
        due + self.late
    }
}

fn lateness(rng: &mut Pcg64) -> Nanos {
    let share = rng.random::<f64>();
    let next = LATENESS.iter().position(|&(end, _)| share < end).unwrap_or(LATENESS.len() - 1).max(1);
    let ((from, low), (to, high)) = (LATENESS[next - 1], LATENESS[next]);
    Nanos::from_nanos((low + (share - from) / (to - from) * (high - low)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;

    #[test]
    fn lateness_has_the_measured_quantiles() {
        let mut rng = Seed(1).stream("test");
        let draws: Vec<u64> = (0..100_000).map(|_| lateness(&mut rng).as_nanos()).collect();
        for (late, want) in [(1_000, 0.25), (2_000, 0.5), (11_000, 0.7), (20_000, 0.9), (45_000, 0.99), (50_000, 1.0)] {
            let share = draws.iter().filter(|draw| **draw <= late).count() as f64 / 1e5;
            assert!((share - want).abs() < 0.005, "{share} are late by {late} ns or less, not {want}");
        }
    }

    #[test]
    fn a_timer_keeps_its_lateness_until_it_is_set_anew() {
        let mut host = Host::new(Seed(1).stream("test"));
        let due = Time::from_millis(1);
        let wakes = host.wakes_at(due);
        assert!(wakes >= due && wakes <= due + Nanos::from_micros(50));
        assert_eq!(host.wakes_at(due), wakes);
        assert_eq!(host.wakes_at(Time::NEVER), Time::NEVER);
        let all: Vec<Nanos> = (2..50).map(|ms| host.wakes_at(Time::from_millis(ms)) - Time::from_millis(ms)).collect();
        assert!(all.iter().any(|late| *late != all[0]));
    }
}
