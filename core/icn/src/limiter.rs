//! How much each source may ask for: token buckets in a table whose size never changes, which threads share, and a program in the kernel may.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use paceline_cc::{Nanos, Rate, Time};
use siphasher::sip::SipHasher13;

/// Buckets of a table (section 10 of our specification).
pub const BUCKETS: usize = 65_536;

/// Shares that a whole /48 of IPv6 may use, of which there are 65,536 of /64 (our choice: a small site's worth of busy receivers).
const SITE_SHARES: u64 = 16;

/// Numbers before the first bucket: when the link's own bucket will be full ([`crate::LinkPace`]), and one for a program in the kernel.
const BEFORE: usize = 2;

/// Numbers of a table: those two, and two for each bucket.
pub const BUCKET_WORDS: usize = BEFORE + 2 * BUCKETS;

/// The memory of a table, [`BUCKET_WORDS`] numbers of 64 bits. A bucket has two: when it will be full, in nanoseconds (how far that lies ahead
/// says how empty it is), and part of the hash of the source that used it last. A source that is not in the table has a full bucket, as one
/// that was silent.
pub trait BucketMemory: Send + Sync {
    /// The number at this place, counted from 0.
    fn word(&self, place: usize) -> &AtomicU64;
}

impl BucketMemory for Box<[AtomicU64]> {
    fn word(&self, place: usize) -> &AtomicU64 {
        &self[place]
    }
}

/// Memory for this many numbers, for one process alone.
pub(crate) fn own_memory(words: usize) -> Arc<dyn BucketMemory> {
    Arc::new(std::iter::repeat_with(AtomicU64::default).take(words).collect::<Box<[AtomicU64]>>())
}

/// Who is counted as one: an address of IPv4, the /64 of one of IPv6 (the owner of one address of it has all).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CountedAddress {
    kind: u8,
    prefix: u64,
}

impl CountedAddress {
    /// All addresses that have not proved themselves: they may be anyone's, so no one else may pay for them.
    pub const UNPROVED: Self = Self { kind: 0, prefix: 0 };

    /// The one that an address belongs to.
    pub fn of(address: SocketAddr) -> Self {
        match address.ip().to_canonical() {
            IpAddr::V4(ip) => Self { kind: 4, prefix: u64::from(ip.to_bits()) },
            IpAddr::V6(ip) => Self { kind: 6, prefix: (ip.to_bits() >> 64) as u64 },
        }
    }

    /// The same, as it is charged before it has proved its address.
    pub(crate) fn unproved(self) -> Self {
        Self { kind: self.kind | 0x80, ..self }
    }

    /// The /48 that it is in.
    fn site(self) -> Option<Self> {
        (self.kind & 0x7f == 6).then_some(Self { kind: self.kind & 0x80 | 7, prefix: self.prefix >> 16 })
    }

    /// A hash that cannot be foreseen without the key.
    pub(crate) fn hash(self, key: u64) -> u64 {
        let mut message = [self.kind; 9];
        message[..8].copy_from_slice(&self.prefix.to_le_bytes());
        SipHasher13::new_with_keys(key, 0).hash(&message)
    }
}

/// A token bucket for each source, in bytes of answers.
///
/// A source finds its bucket at one of two places. Two sources whose places are both in use share one: they get less, never more.
pub struct Limiter {
    memory: Arc<dyn BucketMemory>,
    key: u64,
    rate: Rate,
    depth: u64,
}

impl Limiter {
    /// Every source gets `rate` and may save up `depth` bytes. `key` is drawn at random.
    pub fn new(rate: Rate, depth: u64, key: u64, memory: Arc<dyn BucketMemory>) -> Self {
        Self { memory, key, rate, depth: depth.max(1) }
    }

    /// What an answer of this many bytes takes out of a source's bucket and a /48's, and what these hold.
    pub(crate) fn charges(&self, bytes: u64) -> [(Nanos, Nanos); 2] {
        [1, SITE_SHARES].map(|shares| self.charge(bytes, shares))
    }

    /// The key of the places.
    pub(crate) const fn key(&self) -> u64 {
        self.key
    }

    /// Takes the cost of an answer out of its source's bucket.
    ///
    /// # Errors
    /// How long until it holds enough, if it does not; nothing is taken then.
    pub fn take(&self, now: Time, source: CountedAddress, bytes: u64) -> Result<(), Nanos> {
        let (cost, room) = self.charge(bytes, 1);
        let Some(site) = source.site() else { return self.charge_at(now, source, cost, room) };
        let (wide_cost, wide_room) = self.charge(bytes, SITE_SHARES);
        self.charge_at(now, site, wide_cost, wide_room)?;
        self.charge_at(now, source, cost, room).inspect_err(|_| {
            let back = |full_at: u64| Some(full_at.saturating_sub(wide_cost.as_nanos()));
            let _ = self.full_at(self.place(now, site)).fetch_update(Relaxed, Relaxed, back);
        })
    }

    /// The time that an answer of this many bytes takes out of a bucket, and that a bucket holds, where it is `shares` sources'.
    fn charge(&self, bytes: u64, shares: u64) -> (Nanos, Nanos) {
        let rate = Rate::from_bytes_per_sec(self.rate.as_bytes_per_sec().saturating_mul(shares));
        // What is more than a whole bucket may go when it is full.
        (rate.time_for(bytes), rate.time_for(self.depth.saturating_mul(shares).max(bytes)))
    }

    fn charge_at(&self, now: Time, source: CountedAddress, cost: Nanos, room: Nanos) -> Result<(), Nanos> {
        // Nothing is counted where there is no limit.
        if cost == Nanos::ZERO {
            return Ok(());
        }
        let most = now.as_nanos().saturating_add(room.as_nanos());
        let after = |full_at: u64| full_at.max(now.as_nanos()).saturating_add(cost.as_nanos());
        let fits = |full_at: u64| Some(after(full_at)).filter(|after| *after <= most);
        let taken = self.full_at(self.place(now, source)).fetch_update(Relaxed, Relaxed, fits);
        taken.map(drop).map_err(|full_at| Nanos::from_nanos(after(full_at).saturating_sub(most)))
    }

    /// Where the bucket of a source is. One that is full is as good as a new one.
    fn place(&self, now: Time, source: CountedAddress) -> usize {
        let hash = source.hash(self.key);
        let places = [hash as usize % BUCKETS, (hash >> 16) as usize % BUCKETS];
        let tag = hash | 1;
        if let Some(place) = places.into_iter().find(|place| self.tag(*place).load(Relaxed) == tag) {
            return place;
        }
        let full_at = places.map(|place| self.full_at(place).load(Relaxed));
        match (0..2).find(|which| full_at[*which] <= now.as_nanos()) {
            Some(which) => {
                self.tag(places[which]).store(tag, Relaxed);
                places[which]
            }
            None => places[usize::from(full_at[0] > full_at[1])],
        }
    }

    fn full_at(&self, place: usize) -> &AtomicU64 {
        self.memory.word(BEFORE + 2 * place)
    }

    fn tag(&self, place: usize) -> &AtomicU64 {
        self.memory.word(BEFORE + 2 * place + 1)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    const RATE: Rate = Rate::from_bytes_per_sec(1_000_000);

    fn table() -> Limiter {
        Limiter::new(RATE, 10_000, 7, own_memory(BUCKET_WORDS))
    }

    fn v4(bits: u32) -> CountedAddress {
        CountedAddress::of((Ipv4Addr::from_bits(bits), 1).into())
    }

    #[test]
    fn a_source_gets_its_rate_and_what_it_saved() {
        let limiter = table();
        let now = Time::from_millis(5);
        assert_eq!(limiter.take(now, v4(1), 10_000), Ok(()));
        assert_eq!(limiter.take(now, v4(1), 1_000), Err(Nanos::from_millis(1)));
        assert_eq!(limiter.take(now + Nanos::from_millis(1), v4(1), 1_000), Ok(()));
        assert_eq!(limiter.take(now, v4(2), 10_000), Ok(()), "another source");
        assert_eq!(limiter.take(Time::from_millis(5_000), v4(1), 10_000), Ok(()));
        assert_eq!(limiter.take(Time::from_millis(9_000), v4(1), 20_000), Ok(()), "more than it holds, once");
        assert!(limiter.take(Time::from_millis(9_000), v4(1), 1).is_err());
    }

    #[test]
    fn sources_are_addresses_of_ipv4_and_networks_of_ipv6() {
        let of = |text: &str| CountedAddress::of(text.parse().unwrap());
        assert_eq!(of("192.0.2.1:5"), of("[::ffff:192.0.2.1]:6"));
        assert_ne!(of("192.0.2.1:5"), of("192.0.2.2:5"));
        assert_eq!(of("[2001:db8:1:2::1]:5"), of("[2001:db8:1:2:3::1]:5"));
        assert_ne!(of("[2001:db8:1:2::1]:5"), of("[2001:db8:1:3::1]:5"));
    }

    #[test]
    fn a_site_with_many_networks_has_an_end() {
        let limiter = table();
        let of = |network: u16| CountedAddress::of((Ipv6Addr::new(0x2001, 0xdb8, 1, network, 0, 0, 0, 1), 9).into());
        let taken = (0..1000).filter(|network| limiter.take(Time::from_millis(1), of(*network), 10_000).is_ok());
        assert_eq!(taken.count() as u64, SITE_SHARES);
    }

    #[test]
    fn collisions_only_take() {
        let limiter = table();
        let given = (0..1_000_000).filter(|bits| limiter.take(Time::ZERO, v4(*bits), 10_000).is_ok()).count();
        assert!(given <= BUCKETS && given > BUCKETS * 9 / 10, "{given}");
        // 30,000 sources at once, half of what there is room for: nearly all have a bucket of their own.
        let limiter = table();
        let given = (0..30_000).filter(|bits| limiter.take(Time::ZERO, v4(*bits), 10_000).is_ok()).count();
        assert!(given > 29_000 * 9 / 10, "{given}");
    }
}
