//! How many units a request asks for.

use paceline_cc::{Nanos, Rate, Time};

use crate::UNIT;
use crate::ranges::MAX_UNITS;

/// Equation 8: what arrives in a millisecond, at least one unit and at most [`MAX_UNITS`]. The paper does not say how it rounds; down
/// is our reading.
pub fn units_per_request(rate: Rate) -> u32 {
    let units = rate.as_bytes_per_sec() / (UNIT as u64 * 1000);
    (units.min(MAX_UNITS.into()) as u32).max(1)
}

/// Inequality 9: the mean RTT over the smallest exceeds 1.25 times the smallest, both in milliseconds. It has no dimensions that fit: a
/// path of 20 ms never meets it, one of less than 0.8 ms always does.
pub fn channel_is_contended(mean: Nanos, min: Nanos) -> bool {
    let (mean, min) = (mean.as_millis_f64(), min.as_millis_f64());
    min > 0.0 && mean / min > 1.25 * min
}

/// Slots of the mean, each as long as the smallest RTT: the paper averages over ten of them.
const SLOTS: usize = 10;

/// The mean RTT over the last ten smallest RTTs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MeanRtt {
    /// Sum in nanoseconds and number of the samples of each slot.
    slots: [(u64, u64); SLOTS],
    /// How long a slot is, and which one is filled.
    length: Nanos,
    current: u64,
}

impl MeanRtt {
    /// A sample; `min` is the smallest so far.
    pub(crate) fn sample(&mut self, now: Time, rtt: Nanos, min: Nanos) {
        let length = min.max(Nanos::from_nanos(1));
        let slot = now.as_nanos() / length.as_nanos();
        if length != self.length {
            *self = Self { length, current: slot, ..Self::default() };
        }
        for passed in (self.current + 1..=slot).take(SLOTS) {
            self.slots[(passed % SLOTS as u64) as usize] = (0, 0);
        }
        if slot - self.current.min(slot) >= SLOTS as u64 {
            self.slots = [(0, 0); SLOTS];
        }
        self.current = slot;
        let (sum, count) = &mut self.slots[(slot % SLOTS as u64) as usize];
        *sum = sum.saturating_add(rtt.as_nanos());
        *count += 1;
    }

    /// The mean; `None` before the first sample.
    pub(crate) fn get(&self) -> Option<Nanos> {
        let (sum, count) =
            self.slots.iter().fold((0_u64, 0), |all, slot| (all.0.saturating_add(slot.0), all.1 + slot.1));
        sum.checked_div(count).map(Nanos::from_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_of_equation_8() {
        let vectors = [(1.0, 1), (60.0, 5), (200.0, 17), (500.0, 44), (716.8, 64), (1000.0, 64)];
        for (mbps, units) in vectors {
            assert_eq!(units_per_request(Rate::from_mbps(mbps)), units, "{mbps} Mbit/s");
        }
        assert_eq!(units_per_request(Rate::from_bytes_per_sec(0)), 1);
    }

    #[test]
    fn vectors_of_inequality_9() {
        let fires = |mean, min| channel_is_contended(Nanos::from_millis_f64(mean), Nanos::from_millis_f64(min));
        for (min, edge) in [(2.0, 5.0), (1.0, 1.25), (7.0, 61.25), (20.0, 500.0)] {
            assert!(!fires(edge, min) && fires(edge + 0.01, min), "{min} ms");
        }
        assert!(fires(0.8001, 0.8) && !fires(1.0, 0.0));
    }

    #[test]
    fn the_mean_forgets_after_ten_smallest_rtts() {
        let mut mean = MeanRtt::default();
        let min = Nanos::from_millis(2);
        assert_eq!(mean.get(), None);
        mean.sample(Time::from_millis(0), Nanos::from_millis(10), min);
        mean.sample(Time::from_millis(19), Nanos::from_millis(2), min);
        assert_eq!(mean.get(), Some(Nanos::from_millis(6)));
        mean.sample(Time::from_millis(21), Nanos::from_millis(4), min);
        assert_eq!(mean.get(), Some(Nanos::from_millis(3)));
        mean.sample(Time::from_millis(1000), Nanos::from_millis(8), min);
        assert_eq!(mean.get(), Some(Nanos::from_millis(8)));
    }
}
