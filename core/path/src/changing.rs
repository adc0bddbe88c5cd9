//! A value that changes at given times.

use paceline_cc::{Nanos, Time};

/// Values from given times on. It is asked with times that never decrease.
#[derive(Clone, Debug)]
pub struct Changing<T> {
    steps: Vec<(Time, T)>,
    here: usize,
}

impl<T: Copy> Changing<T> {
    /// Values from given times on: sorted, the first from 0, and one at least.
    pub fn steps(steps: &[(Nanos, T)]) -> Self {
        Self { steps: steps.iter().map(|(start, value)| (Time::ZERO + *start, *value)).collect(), here: 0 }
    }

    /// Goes on to `now`; whether another value counts than before.
    #[inline]
    pub fn advance(&mut self, now: Time) -> bool {
        let before = self.here;
        while self.steps.get(self.here + 1).is_some_and(|(start, _)| *start <= now) {
            self.here += 1;
        }
        self.here != before
    }

    /// Another value from `now` on, until a later step; answers the one that counted.
    pub fn set(&mut self, now: Time, value: T) -> T {
        self.advance(now);
        let before = self.value();
        if self.steps[self.here].0 == now {
            self.steps[self.here].1 = value;
        } else {
            self.steps.insert(self.here + 1, (now, value));
        }
        before
    }

    /// The value that counts.
    #[inline]
    pub fn value(&self) -> T {
        self.steps[self.here].1
    }

    /// All values.
    pub fn values(&self) -> impl Iterator<Item = T> + '_ {
        self.steps.iter().map(|(_, value)| *value)
    }
}

/// One that does not change.
impl<T> From<T> for Changing<T> {
    fn from(value: T) -> Self {
        Self { steps: vec![(Time::ZERO, value)], here: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_from_its_time_on() {
        let ms = Nanos::from_millis;
        let mut steps = Changing::steps(&[(ms(0), 'a'), (ms(5), 'b'), (ms(6), 'c')]);
        let mut at = |millis: u64| (steps.advance(Time::from_millis(millis)), steps.value());
        assert_eq!([0, 4, 5, 9, 10].map(&mut at), [(false, 'a'), (false, 'a'), (true, 'b'), (true, 'c'), (false, 'c')]);
        assert!(!Changing::from(7).advance(Time::NEVER));
        let mut set = Changing::steps(&[(ms(0), 'a'), (ms(9), 'b')]);
        assert_eq!((set.set(Time::from_millis(4), 'x'), set.set(Time::from_millis(4), 'y')), ('a', 'x'));
        let mut at = |millis: u64| (set.advance(Time::from_millis(millis)), set.value());
        assert_eq!([4, 8, 9].map(&mut at), [(false, 'y'), (false, 'y'), (true, 'b')]);
    }
}
