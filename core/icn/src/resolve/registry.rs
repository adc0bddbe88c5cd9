//! The service's table: who has what, until when.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::{
    Announce, AnnouncementStatus, BadResolve, Found, MAX_TTL_S, MOST_FOUND, ResolveKey, ResolverMessage,
    nonce_of_announcement,
};
use crate::limiter::CountedAddress;
use crate::name::Name;
use crate::shares::Shares;

/// What the table holds at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Pairs of a name and an address. 524,288, about 100 MB (our choice). The places of one host, or one /64 of IPv6, are never more than
    /// remain free: one alone announces 262,144 objects.
    pub entries: usize,
    /// Addresses whose last number is kept. 65,536 (our choice: as many sources as a router distinguishes).
    pub announcers: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { entries: 524_288, announcers: 65_536 }
    }
}

/// One object at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedObject {
    /// The object.
    pub name: Name,
    /// Where it is.
    pub address: SocketAddr,
    /// Until when, in seconds since 1970.
    pub expires_s: u64,
}

/// The table of the service. Time comes in with each call, in seconds since 1970.
///
/// A recorded announcement is worth nothing: its number is not above the last of its address. Where that is no longer known,
/// because the service was started again or the address is one of too many, the number has to exceed the floor: the highest number that
/// was forgotten. A sender that is refused for its number learns which one to exceed.
#[derive(Debug)]
pub struct Registry {
    limits: Limits,
    key: ResolveKey,
    entries: BTreeMap<(Name, SocketAddr), u64>,
    shares: Shares<CountedAddress>,
    expiry: BTreeSet<(u64, Name, SocketAddr)>,
    numbers: BTreeMap<SocketAddr, u64>,
    oldest: BTreeSet<(u64, SocketAddr)>,
    floor: u64,
}

/// The lowest address there is.
const LOWEST: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

impl Registry {
    /// An empty table. Announcements need numbers above `floor`: the time now in microseconds, unless what was announced before
    /// is restored.
    pub const fn new(limits: Limits, key: ResolveKey, floor: u64) -> Self {
        Self {
            limits,
            key,
            entries: BTreeMap::new(),
            shares: Shares::new(limits.entries),
            expiry: BTreeSet::new(),
            numbers: BTreeMap::new(),
            oldest: BTreeSet::new(),
            floor,
        }
    }

    /// Takes a datagram, and writes the answer to its sender into `reply`; empty: there is none. It is never longer than
    /// the datagram.
    ///
    /// # Errors
    /// [`BadResolve`]: the datagram is not a message for a service. One of a wrong key is answered none the less.
    pub fn on_datagram(&mut self, unix_s: u64, bytes: &[u8], reply: &mut Vec<u8>) -> Result<(), BadResolve> {
        reply.clear();
        self.expire(unix_s);
        let message = ResolverMessage::decode(bytes, Some(&self.key));
        let answer = match message {
            Ok(ResolverMessage::Resolve { nonce, name }) => {
                ResolverMessage::Found { nonce, places: self.find(&name, nonce, unix_s) }
            }
            Ok(ResolverMessage::Announce(announce)) => {
                let status = self.announce(&announce, unix_s);
                let number = self.last_of(announce.address);
                ResolverMessage::Announced { nonce: announce.nonce, status, number }
            }
            Ok(ResolverMessage::Found { .. } | ResolverMessage::Announced { .. }) => return Err(BadResolve::Foreign),
            Err(BadResolve::Mac) => {
                let nonce = nonce_of_announcement(bytes).ok_or(BadResolve::Mac)?;
                ResolverMessage::Announced { nonce, status: AnnouncementStatus::WrongKey, number: 0 }
                    .encode(None, reply);
                return Err(BadResolve::Mac);
            }
            Err(error) => return Err(error),
        };
        answer.encode(None, reply);
        Ok(())
    }

    /// Where `name` is. Of more places than an answer holds, other ones each time, by `turn`.
    pub fn find(&self, name: &Name, turn: u64, unix_s: u64) -> Vec<Found> {
        let places = || self.entries.range((*name, LOWEST)..).take_while(|((other, _), _)| other == name);
        let count = places().count();
        let skipped = if count > MOST_FOUND { (turn % count as u64) as usize } else { 0 };
        let found = |(key, expires): (&(Name, SocketAddr), &u64)| {
            let left = expires.saturating_sub(unix_s).min(MAX_TTL_S.into());
            Found { address: key.1, ttl_s: left as u32 }
        };
        places().skip(skipped).chain(places().take(skipped)).take(MOST_FOUND).map(found).collect()
    }

    fn announce(&mut self, announce: &Announce, unix_s: u64) -> AnnouncementStatus {
        if announce.number <= self.last_of(announce.address) {
            return AnnouncementStatus::Stale;
        }
        self.note_number(announce.address, announce.number);
        let mut status = AnnouncementStatus::Accepted;
        for name in &announce.names {
            let entry = PlacedObject {
                name: *name,
                address: announce.address,
                expires_s: unix_s.saturating_add(announce.ttl_s.min(MAX_TTL_S).into()),
            };
            self.remove(&entry.name, entry.address);
            if announce.ttl_s > 0 && !self.insert(entry) {
                status = AnnouncementStatus::Full;
            }
        }
        status
    }

    /// The number that the next announcement of `address` has to exceed.
    fn last_of(&self, address: SocketAddr) -> u64 {
        self.numbers.get(&address).copied().unwrap_or(self.floor)
    }

    fn note_number(&mut self, address: SocketAddr, number: u64) {
        if let Some(before) = self.numbers.insert(address, number) {
            self.oldest.remove(&(before, address));
        }
        self.oldest.insert((number, address));
        while self.numbers.len() > self.limits.announcers {
            let Some((forgotten, address)) = self.oldest.pop_first() else { return };
            self.numbers.remove(&address);
            self.floor = self.floor.max(forgotten);
        }
    }

    fn insert(&mut self, entry: PlacedObject) -> bool {
        if !self.shares.take(CountedAddress::of(entry.address), 1) {
            return false;
        }
        self.entries.insert((entry.name, entry.address), entry.expires_s);
        self.expiry.insert((entry.expires_s, entry.name, entry.address));
        true
    }

    fn remove(&mut self, name: &Name, address: SocketAddr) {
        if let Some(expires) = self.entries.remove(&(*name, address)) {
            self.expiry.remove(&(expires, *name, address));
            self.shares.give_back(&CountedAddress::of(address), 1);
        }
    }

    fn expire(&mut self, unix_s: u64) {
        while self.expiry.first().is_some_and(|(expires, ..)| *expires <= unix_s) {
            if let Some((_, name, address)) = self.expiry.first().copied() {
                self.remove(&name, address);
            }
        }
    }

    /// All that is in the table.
    pub fn entries(&self) -> impl Iterator<Item = PlacedObject> + '_ {
        self.entries.iter().map(|((name, address), expires)| PlacedObject {
            name: *name,
            address: *address,
            expires_s: *expires,
        })
    }

    /// The last number of each address.
    pub fn numbers(&self) -> impl Iterator<Item = (SocketAddr, u64)> + '_ {
        self.numbers.iter().map(|(address, number)| (*address, *number))
    }

    /// What a number has to exceed where none is known of its address.
    pub const fn floor(&self) -> u64 {
        self.floor
    }

    /// Puts back what an earlier table had; false when there is no room.
    pub fn restore(&mut self, entry: PlacedObject) -> bool {
        self.remove(&entry.name, entry.address);
        self.insert(entry)
    }

    /// Puts back an address's last number.
    pub fn restore_number(&mut self, address: SocketAddr, number: u64) {
        self.note_number(address, number.max(self.numbers.get(&address).copied().unwrap_or(0)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::NameKind;

    const KEY: [u8; 32] = [3; 32];

    fn name(byte: u8) -> Name {
        Name::new(NameKind::Object, [byte; 32])
    }

    fn registry(limits: Limits) -> Registry {
        Registry::new(limits, ResolveKey::new(&KEY), 0)
    }

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn announce(
        registry: &mut Registry,
        unix_s: u64,
        number: u64,
        port: u16,
        ttl_s: u32,
        names: &[Name],
    ) -> AnnouncementStatus {
        let announce = Announce { nonce: 9, number, ttl_s, address: at(port), names: names.to_vec() };
        let mut bytes = Vec::new();
        ResolverMessage::Announce(announce).encode(Some(&ResolveKey::new(&KEY)), &mut bytes);
        let mut reply = Vec::new();
        registry.on_datagram(unix_s, &bytes, &mut reply).unwrap();
        assert!(reply.len() <= bytes.len());
        match ResolverMessage::decode(&reply, None) {
            Ok(ResolverMessage::Announced { nonce: 9, status, .. }) => status,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_was_announced_is_found_until_its_time_is_over() {
        let mut registry = registry(Limits::default());
        assert_eq!(announce(&mut registry, 100, 1, 1, 60, &[name(1), name(2)]), AnnouncementStatus::Accepted);
        assert_eq!(announce(&mut registry, 100, 1, 2, 90, &[name(1)]), AnnouncementStatus::Accepted);
        let mut bytes = Vec::new();
        ResolverMessage::Resolve { nonce: 5, name: name(1) }.encode(None, &mut bytes);
        let mut reply = Vec::new();
        registry.on_datagram(130, &bytes, &mut reply).unwrap();
        let places = vec![Found { address: at(1), ttl_s: 30 }, Found { address: at(2), ttl_s: 60 }];
        assert_eq!(ResolverMessage::decode(&reply, None), Ok(ResolverMessage::Found { nonce: 5, places }));
        registry.on_datagram(160, &bytes, &mut reply).unwrap();
        let places = vec![Found { address: at(2), ttl_s: 30 }];
        assert_eq!(ResolverMessage::decode(&reply, None), Ok(ResolverMessage::Found { nonce: 5, places }));
        assert_eq!(announce(&mut registry, 161, 2, 2, 0, &[name(1)]), AnnouncementStatus::Accepted, "taken back");
        assert!(registry.find(&name(1), 0, 161).is_empty());
        assert_eq!(registry.entries().count(), 0);
    }

    #[test]
    fn replays_and_other_keys_change_nothing() {
        let mut registry = registry(Limits::default());
        assert_eq!(announce(&mut registry, 100, 7, 1, 60, &[name(1)]), AnnouncementStatus::Accepted);
        assert_eq!(announce(&mut registry, 100, 8, 1, 0, &[name(1)]), AnnouncementStatus::Accepted);
        assert_eq!(announce(&mut registry, 101, 7, 1, 60, &[name(1)]), AnnouncementStatus::Stale);
        let forged = Announce { nonce: 1, number: 99, ttl_s: 60, address: at(6), names: vec![name(1)] };
        let (mut bytes, mut reply) = (Vec::new(), Vec::new());
        ResolverMessage::Announce(forged).encode(Some(&ResolveKey::new(&[4; 32])), &mut bytes);
        assert_eq!(registry.on_datagram(101, &bytes, &mut reply), Err(BadResolve::Mac));
        let refused = ResolverMessage::Announced { nonce: 1, status: AnnouncementStatus::WrongKey, number: 0 };
        assert_eq!(ResolverMessage::decode(&reply, None), Ok(refused));
        assert!(registry.find(&name(1), 0, 101).is_empty());
    }

    #[test]
    fn a_question_without_its_padding_has_no_answer_and_no_answer_is_longer_than_its_question() {
        let mut registry = registry(Limits::default());
        for port in 1..=40 {
            announce(&mut registry, 100, 1, port, 60, &[name(1)]);
        }
        let (mut bytes, mut reply) = (Vec::new(), Vec::new());
        let mut seen = BTreeSet::new();
        for nonce in 0..40 {
            ResolverMessage::Resolve { nonce, name: name(1) }.encode(None, &mut bytes);
            registry.on_datagram(100, &bytes, &mut reply).unwrap();
            assert!(!reply.is_empty() && reply.len() <= bytes.len());
            let Ok(ResolverMessage::Found { places, .. }) = ResolverMessage::decode(&reply, None) else {
                panic!("{reply:?}")
            };
            seen.extend(places.iter().map(|place| place.address.port()));
        }
        assert_eq!(seen.len(), 40, "all have their turn");
        assert!(registry.on_datagram(100, &bytes[..45], &mut reply).is_err() && reply.is_empty());
    }

    #[test]
    fn the_table_is_bounded_and_forgotten_numbers_are_not_accepted_again() {
        let mut registry = registry(Limits { entries: 4, announcers: 2 });
        assert_eq!(announce(&mut registry, 100, 10, 1, 60, &[name(1), name(2), name(3)]), AnnouncementStatus::Full);
        assert_eq!(registry.entries().count(), 2);
        for (number, port) in [(11, 2), (12, 3), (13, 4)] {
            announce(&mut registry, 100, number, port, 60, &[]);
        }
        assert_eq!(registry.numbers().count(), 2);
        assert_eq!(announce(&mut registry, 100, 10, 1, 60, &[name(1)]), AnnouncementStatus::Stale);
        assert_eq!(announce(&mut registry, 100, 20, 1, 60, &[name(1)]), AnnouncementStatus::Accepted);
        assert_eq!(
            announce(&mut registry, 160, 21, 1, 60, &[name(3)]),
            AnnouncementStatus::Accepted,
            "what is over makes room"
        );
    }

    #[test]
    fn one_host_leaves_places_to_others_and_has_its_own_back_in_time() {
        let mut registry = registry(Limits { entries: 8, announcers: 8 });
        let names: Vec<Name> = (1..=9).map(name).collect();
        assert_eq!(announce(&mut registry, 100, 1, 1, 60, &names), AnnouncementStatus::Full);
        assert_eq!(registry.entries().count(), 4);
        let mut announce_from = |unix_s, host, number, names: &[Name]| {
            let address = SocketAddr::from(([192, 0, 2, host], 1));
            let announce = Announce { nonce: 9, number, ttl_s: 60, address, names: names.to_vec() };
            registry.announce(&announce, unix_s)
        };
        assert_eq!(announce_from(100, 1, 1, &names[..2]), AnnouncementStatus::Accepted);
        assert_eq!(announce_from(100, 2, 1, &names[..1]), AnnouncementStatus::Accepted);
        assert_eq!(announce_from(100, 3, 1, &names[..1]), AnnouncementStatus::Accepted);
        assert_eq!(announce_from(100, 4, 1, &names[..1]), AnnouncementStatus::Full);
        registry.expire(160);
        assert_eq!((registry.entries().count(), registry.shares.taken()), (0, 0));
    }

    #[test]
    fn a_table_outlives_its_service() {
        let mut before = registry(Limits::default());
        announce(&mut before, 100, 7, 1, 60, &[name(1)]);
        let mut after = Registry::new(Limits::default(), ResolveKey::new(&KEY), before.floor());
        before.entries().for_each(|entry| assert!(after.restore(entry)));
        before.numbers().for_each(|(address, number)| after.restore_number(address, number));
        assert_eq!(after.find(&name(1), 0, 110), [Found { address: at(1), ttl_s: 50 }]);
        assert_eq!(announce(&mut after, 110, 7, 1, 0, &[name(1)]), AnnouncementStatus::Stale);
    }
}
