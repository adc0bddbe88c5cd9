//! How much each source may ask for: token buckets in a table whose size never changes.

use std::hash::{DefaultHasher, Hasher};
use std::net::{IpAddr, SocketAddr};

use paceline_cc::{Nanos, Rate, Time};

/// Buckets of a table (section 10 of our specification).
pub const BUCKETS: usize = 65_536;

/// Shares that a whole /48 of IPv6 may use, of which there are 65,536 of /64 (our choice: a small site's worth of busy receivers).
const SITE_SHARES: u64 = 16;

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
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(key);
        hasher.write_u8(self.kind);
        hasher.write_u64(self.prefix);
        hasher.finish()
    }
}

/// 16 bytes. A source that is not in the table has a full bucket, as one that was silent.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// When it will be full, in nanoseconds: how far that lies ahead says how empty it is.
    full_at: u64,
    /// Part of the hash of the source that used it last.
    tag: u64,
}

/// A token bucket for each source, in bytes of answers.
///
/// A source finds its bucket at one of two places. Two sources whose places are both in use share one: they get less, never more.
pub struct Limiter {
    buckets: Box<[Bucket]>,
    key: u64,
    rate: Rate,
    depth: u64,
}

impl Limiter {
    /// Every source gets `rate` and may save up `depth` bytes. `key` is drawn at random.
    pub fn new(rate: Rate, depth: u64, key: u64) -> Self {
        Self { buckets: vec![Bucket::default(); BUCKETS].into_boxed_slice(), key, rate, depth: depth.max(1) }
    }

    /// Bytes of memory of the table, for any requests.
    pub fn memory(&self) -> usize {
        size_of_val::<[Bucket]>(&self.buckets)
    }

    /// Takes the cost of an answer out of its source's bucket.
    ///
    /// # Errors
    /// How long until it holds enough, if it does not; nothing is taken then.
    pub fn take(&mut self, now: Time, source: CountedAddress, bytes: u64) -> Result<(), Nanos> {
        let Some(site) = source.site() else {
            let place = self.place(now, source);
            return self.charge(now, place, self.rate, self.depth, bytes);
        };
        let wide = self.place(now, site);
        let (rate, depth) = (
            Rate::from_bytes_per_sec(self.rate.as_bytes_per_sec().saturating_mul(SITE_SHARES)),
            self.depth.saturating_mul(SITE_SHARES),
        );
        let before = self.buckets[wide];
        self.charge(now, wide, rate, depth, bytes)?;
        let place = self.place(now, source);
        self.charge(now, place, self.rate, self.depth, bytes).inspect_err(|_| self.buckets[wide] = before)
    }

    fn charge(&mut self, now: Time, place: usize, rate: Rate, depth: u64, bytes: u64) -> Result<(), Nanos> {
        let bucket = &mut self.buckets[place];
        let full_at = bucket.full_at.max(now.as_nanos()).saturating_add(rate.time_for(bytes).as_nanos());
        // What is more than a whole bucket may go when it is full.
        let room = rate.time_for(depth.max(bytes)).as_nanos();
        let over = full_at.saturating_sub(now.as_nanos().saturating_add(room));
        if over > 0 {
            return Err(Nanos::from_nanos(over));
        }
        bucket.full_at = full_at;
        Ok(())
    }

    /// Where the bucket of a source is. One that is full is as good as a new one.
    fn place(&mut self, now: Time, source: CountedAddress) -> usize {
        let hash = source.hash(self.key);
        let places = [hash as usize % BUCKETS, (hash >> 16) as usize % BUCKETS];
        let tag = hash | 1;
        if let Some(place) = places.into_iter().find(|place| self.buckets[*place].tag == tag) {
            return place;
        }
        match places.into_iter().find(|place| self.buckets[*place].full_at <= now.as_nanos()) {
            Some(place) => {
                self.buckets[place].tag = tag;
                place
            }
            None => places[usize::from(self.buckets[places[0]].full_at > self.buckets[places[1]].full_at)],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    const RATE: Rate = Rate::from_bytes_per_sec(1_000_000);

    fn v4(bits: u32) -> CountedAddress {
        CountedAddress::of((Ipv4Addr::from_bits(bits), 1).into())
    }

    #[test]
    fn a_source_gets_its_rate_and_what_it_saved() {
        let mut limiter = Limiter::new(RATE, 10_000, 7);
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
        let mut limiter = Limiter::new(RATE, 10_000, 7);
        let of = |network: u16| CountedAddress::of((Ipv6Addr::new(0x2001, 0xdb8, 1, network, 0, 0, 0, 1), 9).into());
        let taken = (0..1000).filter(|network| limiter.take(Time::from_millis(1), of(*network), 10_000).is_ok());
        assert_eq!(taken.count() as u64, SITE_SHARES);
    }

    #[test]
    fn memory_is_the_same_for_one_source_and_a_million_and_collisions_only_take() {
        let mut limiter = Limiter::new(RATE, 10_000, 7);
        assert_eq!(limiter.memory(), 1 << 20);
        let given = (0..1_000_000).filter(|bits| limiter.take(Time::ZERO, v4(*bits), 10_000).is_ok()).count();
        assert_eq!(limiter.memory(), 1 << 20);
        assert!(given <= BUCKETS && given > BUCKETS * 9 / 10, "{given}");
        // 30,000 sources at once, half of what there is room for: nearly all have a bucket of their own.
        let mut limiter = Limiter::new(RATE, 10_000, 7);
        let given = (0..30_000).filter(|bits| limiter.take(Time::ZERO, v4(*bits), 10_000).is_ok()).count();
        assert!(given > 29_000 * 9 / 10, "{given}");
    }
}
