//! Requests whose units a router does not have yet: they wait for the upstream router, not for long, and not many of them.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use paceline_cc::{Nanos, Time};

use crate::limiter::CountedAddress;
use crate::name::Name;
use crate::ranges::Ranges;
use crate::shares::Shares;

/// Who waits for a unit.
type Key = (Name, u64, SocketAddr, u64);

/// A request, or a part of one, that waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub(crate) to: SocketAddr,
    pub(crate) nonce: u64,
    pub(crate) arrived: Time,
    pub(crate) ranges: Ranges,
}

/// Units that are waited for.
pub(crate) struct Waiting {
    units: BTreeMap<Key, Time>,
    /// In the order in which they came. Those that are not among `units` with this time are gone.
    order: VecDeque<(Time, Key)>,
    /// Places of `order`, by who waits.
    shares: Shares<CountedAddress>,
    patience: Nanos,
}

impl Waiting {
    /// Room for `most` units, each of which waits for `patience` at most.
    pub(crate) fn new(most: usize, patience: Nanos) -> Self {
        Self { units: BTreeMap::new(), order: VecDeque::with_capacity(most), shares: Shares::new(most), patience }
    }

    pub(crate) fn len(&self) -> usize {
        self.units.len()
    }

    /// Bytes of memory that are taken at the start.
    pub(crate) fn memory(&self) -> usize {
        self.order.capacity() * size_of::<(Time, Key)>()
    }

    /// Whether this many units more of `who` may wait.
    pub(crate) fn has_room(&mut self, now: Time, who: CountedAddress, units: usize) -> bool {
        while let Some((arrived, key)) = self.order.front() {
            if self.units.get(key) == Some(arrived) {
                if now.since(*arrived) < self.patience {
                    break;
                }
                self.units.remove(key);
            }
            self.shares.give_back(&CountedAddress::of(key.2), 1);
            self.order.pop_front();
        }
        self.shares.has_room(&who, units)
    }

    /// A unit that is asked for again by the same request waits since the first time.
    pub(crate) fn add(&mut self, now: Time, name: Name, unit: u64, to: SocketAddr, nonce: u64) {
        let key = (name, unit, to, nonce);
        if !self.units.contains_key(&key) && self.shares.take(CountedAddress::of(to), 1) {
            self.units.insert(key, now);
            self.order.push_back((now, key));
        }
    }

    /// Takes those out that wait for units of an object, by who waits.
    pub(crate) fn take(&mut self, name: &Name, units: std::ops::Range<u64>) -> Vec<Waiter> {
        let least = SocketAddr::from(([0, 0, 0, 0], 0));
        let found = self.units.range((*name, units.start, least, 0)..(*name, units.end, least, 0));
        let mut found: Vec<(Key, Time)> = found.map(|(key, arrived)| (*key, *arrived)).collect();
        for (key, _) in &found {
            self.units.remove(key);
        }
        found.sort_by_key(|((_, unit, to, nonce), _)| (*to, *nonce, *unit));
        let mut waiters: Vec<Waiter> = Vec::new();
        for ((_, unit, to, nonce), arrived) in found {
            let last = waiters.last_mut().filter(|last| (last.to, last.nonce) == (to, nonce));
            if !last.is_some_and(|last| last.ranges.push(unit)) {
                waiters.push(Waiter { to, nonce, arrived, ranges: Ranges::one(unit) });
            }
        }
        waiters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::NameKind;

    fn name(byte: u8) -> Name {
        Name::new(NameKind::Object, [byte; 32])
    }

    #[test]
    fn who_waits_gets_its_units_once_and_in_one_piece() {
        let mut waiting = Waiting::new(100, Nanos::from_secs(1));
        let (a, b) = (SocketAddr::from(([192, 0, 2, 1], 1)), "[2001:db8::1]:2".parse().unwrap());
        for unit in [5, 6, 7, 9] {
            waiting.add(Time::ZERO, name(1), unit, a, 1);
            waiting.add(Time::from_millis(1), name(1), unit, a, 1);
        }
        waiting.add(Time::ZERO, name(1), 6, b, 2);
        waiting.add(Time::ZERO, name(2), 6, b, 3);
        assert_eq!(waiting.len(), 6);
        let taken = waiting.take(&name(1), 6..10);
        let units: Vec<Vec<u64>> = taken.iter().map(|waiter| waiter.ranges.iter().collect()).collect();
        assert_eq!(units, [vec![6, 7, 9], vec![6]]);
        assert!(waiting.take(&name(1), 6..10).is_empty());
        assert_eq!(waiting.len(), 2);
    }

    #[test]
    fn there_is_an_end_to_waiting_and_to_how_many_wait() {
        let mut waiting = Waiting::new(10, Nanos::from_secs(1));
        let a = SocketAddr::from(([192, 0, 2, 1], 1));
        let (who, other) = (CountedAddress::of(a), CountedAddress::of(SocketAddr::from(([192, 0, 2, 2], 1))));
        for unit in 0..20 {
            waiting.add(Time::ZERO, name(1), unit, a, 1);
        }
        assert_eq!(waiting.len(), 5, "half for one who is alone");
        let at = Time::from_millis(999);
        assert!(!waiting.has_room(at, who, 1) && waiting.has_room(at, other, 5) && !waiting.has_room(at, other, 6));
        waiting.take(&name(1), 0..4);
        assert!(waiting.has_room(at, who, 8) && !waiting.has_room(at, who, 9));
        assert!(waiting.has_room(Time::from_millis(1000), who, 10));
        assert_eq!(waiting.len(), 0);
        // What waits again after it was served counts from then on.
        waiting.add(Time::from_millis(1000), name(1), 1, a, 1);
        waiting.take(&name(1), 0..4);
        waiting.add(Time::from_millis(1900), name(1), 1, a, 1);
        assert!(waiting.has_room(Time::from_millis(2100), who, 1));
        assert_eq!(waiting.len(), 1);
    }
}
