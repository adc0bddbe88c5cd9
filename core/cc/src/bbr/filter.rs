//! The windowed maximum of the delivery rate (Linux `lib/win_minmax.c`, Kathleen Nichols' algorithm).
//!
//! Keeps the best, second and third best sample, each from a later part of the window, so that a good one is at hand
//! when the best grows too old. Time is counted in round trips.

#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    round: u64,
    /// Bytes per second.
    value: f64,
}

/// The largest value of the last `window` rounds, in constant space.
#[derive(Clone, Debug)]
pub(crate) struct MaxFilter {
    window: u64,
    best: [Sample; 3],
}

impl MaxFilter {
    pub(crate) fn new(window: u64) -> Self {
        Self { window, best: [Sample::default(); 3] }
    }

    /// The maximum; zero before the first sample.
    pub(crate) fn get(&self) -> f64 {
        self.best[0].value
    }

    /// As [`MaxFilter::update`], with a window that is `window` rounds from now on.
    pub(crate) fn update_within(&mut self, window: u64, round: u64, value: f64) {
        self.window = window;
        self.update(round, value);
    }

    /// Takes a sample of round `round`, which never decreases.
    pub(crate) fn update(&mut self, round: u64, value: f64) {
        let new = Sample { round, value };
        if value >= self.best[0].value || round - self.best[2].round > self.window {
            self.best = [new; 3];
            return;
        }
        if value >= self.best[1].value {
            self.best[2] = new;
            self.best[1] = new;
        } else if value >= self.best[2].value {
            self.best[2] = new;
        }
        self.expire(new);
    }

    /// `minmax_subwin_update`.
    fn expire(&mut self, new: Sample) {
        let age = new.round - self.best[0].round;
        if age > self.window {
            self.best = [self.best[1], self.best[2], new];
            if new.round - self.best[0].round > self.window {
                self.best = [self.best[1], self.best[2], new];
            }
        } else if self.best[1].round == self.best[0].round && age > self.window / 4 {
            self.best[2] = new;
            self.best[1] = new;
        } else if self.best[2].round == self.best[1].round && age > self.window / 2 {
            self.best[2] = new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_value_counts_at_once_and_lasts_a_window() {
        let mut filter = MaxFilter::new(10);
        filter.update(0, 100.0);
        for round in 1..=10 {
            filter.update(round, 50.0);
            assert_eq!(filter.get(), 100.0);
        }
        filter.update(11, 50.0);
        assert_eq!(filter.get(), 50.0);
    }

    #[test]
    fn runners_up_come_from_later_parts_of_the_window() {
        let mut filter = MaxFilter::new(10);
        filter.update(0, 100.0);
        filter.update(3, 90.0);
        filter.update(6, 80.0);
        filter.update(11, 10.0);
        assert_eq!(filter.get(), 90.0);
        filter.update(14, 10.0);
        assert_eq!(filter.get(), 80.0);
    }

    #[test]
    fn a_silence_longer_than_the_window_resets() {
        let mut filter = MaxFilter::new(10);
        filter.update(0, 100.0);
        filter.update(30, 1.0);
        assert_eq!(filter.get(), 1.0);
    }
}
