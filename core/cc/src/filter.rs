//! The smallest or largest value of the last this many seconds, in bounded memory and without allocation.
//!
//! A monotone queue (each entry beats all later ones) answers in constant amortised time but may hold a whole window of
//! samples: 10 s at 100 000 acknowledgements/s are a million. Here a sample that does not beat the newest entry and
//! follows its opening by less than 1/32 of the window only prolongs that entry. So an extreme is never forgotten early
//! and is remembered at most 1/32 of the window too long (our choice: less than the windows' own arbitrariness).

use crate::units::{Nanos, Time};

/// Entries a full window can hold, before a window that has just grown (see [`WindowedFilter::update`]).
const SLICES: u64 = 32;
/// Ring size: twice the slices, because a window may grow while entries made for the shorter one are still held.
const CAPACITY: usize = 64;

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    value: Nanos,
    /// When the first sample of the slice came.
    opened: Time,
    /// When its last sample came: its age.
    seen: Time,
}

/// A windowed minimum or maximum of time spans.
#[derive(Clone, Debug)]
pub struct WindowedFilter {
    largest: bool,
    ring: [Entry; CAPACITY],
    head: usize,
    len: usize,
    /// The value at the front: it is read more often than it changes.
    extreme: Option<Nanos>,
}

impl WindowedFilter {
    /// Smallest of the window.
    pub fn smallest() -> Self {
        Self { largest: false, ring: [Entry::default(); CAPACITY], head: 0, len: 0, extreme: None }
    }

    /// Largest of the window.
    pub fn largest() -> Self {
        Self { largest: true, ..Self::smallest() }
    }

    /// The extreme; none before the first sample. The last sample never expires, so that there is always an answer
    /// after it.
    pub fn get(&self) -> Option<Nanos> {
        self.extreme
    }

    /// When the extreme was last seen; none before the first sample.
    pub fn seen(&self) -> Option<Time> {
        (self.len > 0).then(|| self.ring[self.head].opened)
    }

    /// Takes a sample and forgets what is older than `window`, whose length may differ from call to call.
    pub fn update(&mut self, now: Time, value: Nanos, window: Nanos) {
        while self.len > 0 && self.beats(value, self.back().value) {
            self.len -= 1;
        }
        let slice = window.mul_div(1, SLICES);
        if self.len > 0 && (now - self.back().opened < slice || self.len == CAPACITY) {
            let back = (self.head + self.len - 1) % CAPACITY;
            self.ring[back].seen = now;
        } else {
            let next = (self.head + self.len) % CAPACITY;
            self.ring[next] = Entry { value, opened: now, seen: now };
            self.len += 1;
        }
        while self.len > 1 && now - self.ring[self.head].seen > window {
            self.head = (self.head + 1) % CAPACITY;
            self.len -= 1;
        }
        self.extreme = Some(self.ring[self.head].value);
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        (self.len, self.extreme) = (0, None);
    }

    fn back(&self) -> &Entry {
        &self.ring[(self.head + self.len - 1) % CAPACITY]
    }

    /// Equal counts as beating: the newer sample lives longer.
    fn beats(&self, new: Nanos, old: Nanos) -> bool {
        if self.largest { new >= old } else { new <= old }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};

    /// The answer lies between the exact extremes of the window and of a window 1/32 longer.
    #[test]
    fn never_forgets_early_and_hardly_late() {
        let mut rng = rand_pcg::Pcg64::seed_from_u64(7);
        let window = Nanos::from_millis(320);
        let longer = window + window.mul_div(1, SLICES);
        let mut low = WindowedFilter::smallest();
        let mut high = WindowedFilter::largest();
        let mut samples: Vec<(Time, Nanos)> = Vec::new();
        let mut now = Time::ZERO;
        for _ in 0..20_000 {
            now += Nanos::from_micros(rng.random_range(1..3_000));
            let value = Nanos::from_micros(rng.random_range(1..100_000));
            samples.push((now, value));
            low.update(now, value, window);
            high.update(now, value, window);
            samples.retain(|(time, _)| now - *time <= longer);
            let exact = || samples.iter().filter(|(time, _)| now - *time <= window).map(|(_, value)| *value);
            let loose = || samples.iter().map(|(_, value)| *value);
            assert!(low.get() <= exact().min() && low.get() >= loose().min());
            assert!(high.get() >= exact().max() && high.get() <= loose().max());
        }
    }

    #[test]
    fn the_last_sample_never_expires() {
        let mut low = WindowedFilter::smallest();
        assert_eq!(low.get(), None);
        low.update(Time::from_millis(1), Nanos::from_millis(5), Nanos::from_millis(10));
        low.update(Time::from_millis(1000), Nanos::from_millis(9), Nanos::from_millis(10));
        assert_eq!(low.get(), Some(Nanos::from_millis(9)));
    }

    #[test]
    fn memory_is_bounded_when_the_window_grows() {
        let mut high = WindowedFilter::largest();
        for i in 0..100_000u64 {
            let window = Nanos::from_micros(10 + i);
            high.update(Time::from_nanos(i * 500), Nanos::from_nanos(1_000_000 - i), window);
        }
        assert!(high.get().is_some_and(|value| value >= Nanos::from_nanos(900_001)));
    }
}
