//! How a bounded number of places is given to those who ask: by who they are.
//!
//! Where what has a place can be made to leave it, a newcomer may have any that is free, and [`makes_room`] says who leaves. Where it
//! cannot, or should not, each may have no more than remain free ([`Shares`]).
//!
//! Source of the second: Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches" (1998), with a factor of
//! 1: who is alone may have half of the places, and the next that comes finds some. The first place of each is to be had while there is one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use paceline_cc::Nanos;

use crate::limiter::CountedAddress;

/// Places, and who has how many of them.
#[derive(Debug)]
pub struct Shares<K> {
    most: usize,
    taken: usize,
    by: BTreeMap<K, usize>,
}

impl<K: Ord> Shares<K> {
    /// `most` places, all free.
    pub const fn new(most: usize) -> Self {
        Self { most, taken: 0, by: BTreeMap::new() }
    }

    /// Places that are taken.
    pub const fn taken(&self) -> usize {
        self.taken
    }

    /// Places that `who` has.
    pub fn of(&self, who: &K) -> usize {
        self.by.get(who).copied().unwrap_or(0)
    }

    /// Whether this many places more would be given to `who`: with those that it has they are no more than are free.
    pub fn has_room(&self, who: &K, places: usize) -> bool {
        let free = self.most.saturating_sub(self.taken);
        match self.of(who) {
            0 => places <= free,
            had => had.saturating_add(places) <= free,
        }
    }

    /// Takes places, where there is room.
    pub fn take(&mut self, who: K, places: usize) -> bool {
        let fits = self.has_room(&who, places);
        if fits && places > 0 {
            self.taken += places;
            *self.by.entry(who).or_insert(0) += places;
        }
        fits
    }

    /// Gives places back.
    pub fn give_back(&mut self, who: &K, places: usize) {
        let Some(had) = self.by.get_mut(who) else { return };
        let places = places.min(*had);
        *had -= places;
        self.taken -= places;
        if *had == 0 {
            self.by.remove(who);
        }
    }
}

/// [`Shares`] of places that several threads take.
#[derive(Debug)]
pub struct Sharing<K>(Mutex<Shares<K>>);

/// One place of a [`Sharing`], until it is dropped.
#[derive(Debug)]
pub struct HeldPlace<K: Ord> {
    who: K,
    places: Arc<Sharing<K>>,
}

impl<K: Ord + Clone> Sharing<K> {
    /// `most` places, all free.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Shares::new(most))))
    }

    /// A place for `who`, where there is one.
    pub fn take(self: &Arc<Self>, who: &K) -> Option<HeldPlace<K>> {
        let taken = self.lock().take(who.clone(), 1);
        taken.then(|| HeldPlace { who: who.clone(), places: Arc::clone(self) })
    }
}

impl<K> Sharing<K> {
    fn lock(&self) -> MutexGuard<'_, Shares<K>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Ord> Drop for HeldPlace<K> {
    fn drop(&mut self) {
        self.places.lock().give_back(&self.who, 1);
    }
}

/// What has a place: for whom, and how long it has done nothing for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Who asked for it, at least one.
    pub askers: Vec<CountedAddress>,
    /// Since it was last of use.
    pub idle: Nanos,
}

/// Which one leaves for `newcomer` where there is no place left, if one does: the longest idle one of the source with most, where the newcomer
/// has two fewer; else, where it has been idle for `settled`, the longest idle one of a source that has no fewer. What several ask for
/// counts as the one's that has fewest.
pub fn makes_room(all: &[Standing], newcomer: CountedAddress, settled: Nanos) -> Option<usize> {
    let mut counts: BTreeMap<CountedAddress, usize> = BTreeMap::new();
    for source in all.iter().flat_map(|one| &one.askers) {
        *counts.entry(*source).or_insert(0) += 1;
    }
    let has = |source: &CountedAddress| counts.get(source).copied().unwrap_or(0);
    let weight = |one: &Standing| one.askers.iter().map(has).min().unwrap_or(usize::MAX);
    let mine = has(&newcomer);
    let over = all.iter().enumerate().filter(|(_, one)| weight(one) > mine + 1);
    let over = over.max_by_key(|(_, one)| (weight(one), one.idle));
    let idle = || {
        let idle = all.iter().enumerate().filter(|(_, one)| weight(one) >= mine && one.idle >= settled);
        idle.max_by_key(|(_, one)| one.idle)
    };
    over.or_else(idle).map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    #[test]
    fn one_has_half_and_each_that_comes_finds_a_place() {
        let mut shares = Shares::new(16);
        let most = |shares: &mut Shares<&str>, who| (0..99).take_while(|_| shares.take(who, 1)).count();
        assert_eq!(most(&mut shares, "a"), 8);
        assert_eq!(most(&mut shares, "b"), 4);
        assert_eq!(most(&mut shares, "c"), 2);
        assert_eq!((most(&mut shares, "d"), most(&mut shares, "e"), most(&mut shares, "f")), (1, 1, 0));
        assert_eq!(shares.taken(), 16);
        shares.give_back(&"a", 3);
        assert!(!shares.has_room(&"a", 1) && shares.has_room(&"f", 3) && !shares.has_room(&"f", 4));
        shares.give_back(&"a", 99);
        assert_eq!((shares.of(&"a"), shares.taken()), (0, 8));
        shares.give_back(&"none", 1);
        assert_eq!(shares.taken(), 8);
    }

    #[test]
    fn a_place_is_free_again_once_it_is_dropped() {
        let places = Sharing::new(2);
        let held = places.take(&"a").unwrap();
        assert!(places.take(&"a").is_none() && places.take(&"b").is_some());
        drop(held);
        assert!(places.take(&"a").is_some());
    }

    fn source(host: u8) -> CountedAddress {
        CountedAddress::of(SocketAddr::from(([192, 0, 2, host], 1)))
    }

    fn standing(askers: &[u8], idle_ms: u64) -> Standing {
        Standing { askers: askers.iter().map(|host| source(*host)).collect(), idle: Nanos::from_millis(idle_ms) }
    }

    fn leaves(all: &[Standing], newcomer: u8) -> Option<usize> {
        makes_room(all, source(newcomer), Nanos::from_millis(500))
    }

    #[test]
    fn the_longest_idle_one_of_who_has_most_makes_room() {
        let all = [standing(&[1], 10), standing(&[1], 90), standing(&[1], 40), standing(&[2], 300)];
        assert_eq!(leaves(&all, 3), Some(1));
        assert_eq!(leaves(&all, 2), Some(1));
        assert_eq!(leaves(&all, 1), None, "of its own only what is idle");
        let all = [standing(&[1], 10), standing(&[2], 400), standing(&[3], 20)];
        assert_eq!(leaves(&all, 4), None, "each has one and asks");
        let all = [standing(&[1], 10), standing(&[2], 600), standing(&[3], 900)];
        assert_eq!(leaves(&all, 4), Some(2));
        assert_eq!(leaves(&all, 1), Some(2));
        let all = [standing(&[1], 600), standing(&[1], 700), standing(&[2], 900)];
        assert_eq!(leaves(&all, 1), Some(1), "who has fewer keeps what is idle");
    }

    #[test]
    fn what_others_ask_for_as_well_is_not_taken_from_them() {
        let all = [standing(&[1, 2], 90), standing(&[1], 10), standing(&[1], 10)];
        assert_eq!(leaves(&all, 3), Some(2));
        let all = [standing(&[1, 2], 90), standing(&[1, 2], 10), standing(&[1, 2], 10)];
        assert_eq!(leaves(&all, 3), Some(0));
    }
}
