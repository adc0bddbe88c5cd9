//! What a router's cache takes in: an object that is asked for a second time, by another request than the first.
//!
//! Most objects are asked for once; a cache that takes all of them holds little else ("cache on second hit", Maggs and Sitaraman,
//! "Algorithmic nuggets in content delivery", 2015). The table has one size and forgets what was asked for long ago.

use std::hash::{DefaultHasher, Hasher};

use crate::name::Name;

/// Objects that are remembered (our choice: 64 Ki of 16 bytes, a day of a request a second).
const PLACES: usize = 65_536;

/// A table of what was missed once.
pub struct Admission {
    /// Hashes of the name and of who asked first; zero: free.
    missed: Box<[(u64, u64)]>,
    key: u64,
}

impl Admission {
    /// An empty one. `key` is drawn at random, so that no one can choose names that displace others.
    pub fn new(key: u64) -> Self {
        Self { missed: vec![(0, 0); PLACES].into_boxed_slice(), key }
    }

    /// An object was missed by the fetch with this nonce; whether it is to be kept from now on: another fetch missed it before.
    pub fn missed(&mut self, name: &Name, nonce: u64) -> bool {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.key);
        hasher.write(&name.to_bytes());
        let object = hasher.finish() | 1;
        let place = &mut self.missed[(object >> 1) as usize % PLACES];
        if place.0 == object {
            return place.1 != nonce;
        }
        *place = (object, nonce);
        false
    }

    /// Bytes of memory of the table.
    pub fn memory(&self) -> usize {
        size_of_val::<[(u64, u64)]>(&self.missed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::NameKind;

    #[test]
    fn an_object_is_kept_when_a_second_fetch_asks_for_it() {
        let mut admission = Admission::new(3);
        let name = Name::new(NameKind::Object, [1; 32]);
        assert!(!admission.missed(&name, 10));
        assert!(!admission.missed(&name, 10), "the same fetch");
        assert!(admission.missed(&name, 11));
        assert!(admission.missed(&name, 12));
        assert!(!admission.missed(&Name::new(NameKind::Object, [2; 32]), 11));
    }

    #[test]
    fn what_is_asked_for_once_does_not_add_up() {
        let mut admission = Admission::new(3);
        for number in 0..300_000_u32 {
            let mut hash = [0; 32];
            hash[..4].copy_from_slice(&number.to_be_bytes());
            assert!(!admission.missed(&Name::new(NameKind::Object, hash), u64::from(number)));
        }
        assert_eq!(admission.memory(), 1 << 20);
    }
}
