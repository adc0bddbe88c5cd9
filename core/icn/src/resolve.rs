//! Where an object is to be had: messages of the name resolution service, and its table ([`Registry`]).
//!
//! Routers announce what they have, requesters ask. Source: Liu et al. name such a service and leave it open; the messages are
//! ours. All numbers are in network byte order. Every message starts with `NR`, the version (1), its kind and a nonce of 8 bytes,
//! which the answer repeats. An answer is never longer than what it answers, so that the service cannot be used to multiply
//! traffic to a forged address.
//!
//! | kind | message | behind the nonce |
//! |--:|---|---|
//! | 1 | [`ResolverMessage::Resolve`] | name 33; zeros up to [`RESOLVE_BYTES`] |
//! | 2 | [`ResolverMessage::Found`] | count 1; for each place: address, time to live in s 4 |
//! | 3 | [`ResolverMessage::Announce`] | number 8, time to live in s 4, address, count 1, names 33 each, MAC 16 |
//! | 4 | [`ResolverMessage::Announced`] | status 1, number 8 |
//!
//! An address is its family (4 or 6) 1, the address 4 or 16, the port 2. The MAC is HMAC-SHA256 of all before it, cut to 16 bytes,
//! with the key that service and routers share. What is found needs no MAC: an object's name certifies its bytes at any source.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::hash::{self, keyed};
use crate::name::{NAME_BYTES, Name, NoName};

mod registry;

pub use registry::{Limits, PlacedObject, Registry};

/// Bytes of a question: as long as the longest answer.
pub const RESOLVE_BYTES: usize = HEAD + 1 + MOST_FOUND * (ADDRESS_BYTES + 4);

/// Places in one answer at most (our choice: more are not measured by any requester).
pub const MOST_FOUND: usize = 8;

/// Names in one announcement at most: what fits into [`crate::wire::MAX_MESSAGE`].
pub const MOST_ANNOUNCED: usize = 40;

/// Bytes of a MAC: 128 bits, as RFC 9018 and IPsec (RFC 4868) cut theirs.
pub const MAC_BYTES: usize = 16;

/// Longest time to live: a day (our choice: a router that is gone is forgotten within it).
pub const MAX_TTL_S: u32 = 86_400;

const MAGIC: [u8; 3] = [b'N', b'R', 1];
const HEAD: usize = MAGIC.len() + 1 + 8;
/// The longest address: of IPv6.
const ADDRESS_BYTES: usize = 19;

/// A message of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolverMessage {
    /// Where is this object?
    Resolve {
        /// Drawn at random, repeated in the answer.
        nonce: u64,
        /// The object.
        name: Name,
    },
    /// There; nowhere when empty.
    Found {
        /// That of the question.
        nonce: u64,
        /// Up to [`MOST_FOUND`].
        places: Vec<Found>,
    },
    /// These objects are to be had there.
    Announce(Announce),
    /// What became of an announcement.
    Announced {
        /// That of the announcement.
        nonce: u64,
        /// Whether it counts.
        status: AnnouncementStatus,
        /// The number that the next announcement has to exceed.
        number: u64,
    },
}

/// A place that has an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The router's address.
    pub address: SocketAddr,
    /// For how long that holds, in seconds.
    pub ttl_s: u32,
}

/// An announcement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announce {
    /// Drawn at random, repeated in the answer.
    pub nonce: u64,
    /// Higher than any before from this address, so that a recorded one is worth nothing: the time in microseconds will do.
    pub number: u64,
    /// For how long it holds, in seconds; 0: the objects are no longer there.
    pub ttl_s: u32,
    /// The router's address.
    pub address: SocketAddr,
    /// Up to [`MOST_ANNOUNCED`] objects.
    pub names: Vec<Name>,
}

/// What became of an announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnnouncementStatus {
    /// It counts.
    Accepted = 0,
    /// Its number is not above the last.
    Stale = 1,
    /// The table has no room.
    Full = 2,
    /// Its MAC is not of this service's key.
    WrongKey = 3,
}

impl AnnouncementStatus {
    const ALL: [Self; 4] = [Self::Accepted, Self::Stale, Self::Full, Self::WrongKey];
}

/// A datagram that is not a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadResolve {
    /// It does not start like one.
    #[error("not a message of name resolution")]
    Foreign,
    /// It ends too early, or has bytes that belong to nothing.
    #[error("a message of {0} bytes does not have the length of its kind")]
    Length(usize),
    /// A kind, family, status or count that is not known.
    #[error("{what} {value} is not known")]
    Unknown {
        /// What is not known.
        what: &'static str,
        /// The byte.
        value: u8,
    },
    /// A malformed name.
    #[error(transparent)]
    Name(#[from] NoName),
    /// The MAC is another.
    #[error("the MAC is not of this key")]
    Mac,
}

/// The key that service and routers share.
#[derive(Clone, Debug)]
pub struct ResolveKey(Hmac<Sha256>);

impl ResolveKey {
    /// From 32 secret bytes.
    pub fn new(secret: &[u8; 32]) -> Self {
        Self(keyed(secret))
    }

    fn mac(&self, bytes: &[u8]) -> [u8; MAC_BYTES] {
        let mac = hash::mac(self.0.clone().chain_update(bytes));
        std::array::from_fn(|at| mac[at])
    }

    fn fits(&self, bytes: &[u8], mac: &[u8]) -> bool {
        // Every byte is looked at, whatever the first ones are.
        let differs = self.mac(bytes).iter().zip(mac).fold(0, |differs, (ours, theirs)| differs | (ours ^ theirs));
        mac.len() == MAC_BYTES && std::hint::black_box(differs) == 0
    }
}

impl ResolverMessage {
    /// Writes the message. Of too many names or places, the first ones are written. An announcement gets its MAC by `key`; without
    /// one it has none, and no service takes it.
    pub fn encode(&self, key: Option<&ResolveKey>, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&MAGIC);
        match self {
            Self::Resolve { nonce, name } => {
                out.push(1);
                out.extend_from_slice(&nonce.to_be_bytes());
                out.extend_from_slice(&name.to_bytes());
                out.resize(RESOLVE_BYTES, 0);
            }
            Self::Found { nonce, places } => {
                out.push(2);
                out.extend_from_slice(&nonce.to_be_bytes());
                let places = &places[..places.len().min(MOST_FOUND)];
                out.push(places.len() as u8);
                for place in places {
                    put_address(place.address, out);
                    out.extend_from_slice(&place.ttl_s.to_be_bytes());
                }
            }
            Self::Announce(announce) => {
                out.push(3);
                out.extend_from_slice(&announce.nonce.to_be_bytes());
                out.extend_from_slice(&announce.number.to_be_bytes());
                out.extend_from_slice(&announce.ttl_s.to_be_bytes());
                put_address(announce.address, out);
                let names = &announce.names[..announce.names.len().min(MOST_ANNOUNCED)];
                out.push(names.len() as u8);
                for name in names {
                    out.extend_from_slice(&name.to_bytes());
                }
                if let Some(key) = key {
                    let mac = key.mac(out);
                    out.extend_from_slice(&mac);
                }
            }
            Self::Announced { nonce, status, number } => {
                out.push(4);
                out.extend_from_slice(&nonce.to_be_bytes());
                out.push(*status as u8);
                out.extend_from_slice(&number.to_be_bytes());
            }
        }
    }

    /// Reads a message; that of an announcement only with the key that its MAC is of.
    ///
    /// # Errors
    /// [`BadResolve`].
    pub fn decode(bytes: &[u8], key: Option<&ResolveKey>) -> Result<Self, BadResolve> {
        let rest = bytes.strip_prefix(&MAGIC).ok_or(BadResolve::Foreign)?;
        let mut rest = Rest { bytes: rest, whole: bytes.len() };
        let [kind] = rest.take()?;
        let nonce = u64::from_be_bytes(rest.take()?);
        let message = match kind {
            1 => {
                let name = Name::from_bytes(&rest.take::<NAME_BYTES>()?)?;
                if bytes.len() != RESOLVE_BYTES {
                    return Err(BadResolve::Length(bytes.len()));
                }
                return Ok(Self::Resolve { nonce, name });
            }
            2 => {
                let count = rest.count(MOST_FOUND)?;
                let place = |_| {
                    let address = rest.address()?;
                    Ok(Found { address, ttl_s: u32::from_be_bytes(rest.take()?) })
                };
                let places = (0..count).map(place).collect::<Result<_, BadResolve>>()?;
                Self::Found { nonce, places }
            }
            3 => {
                let number = u64::from_be_bytes(rest.take()?);
                let ttl_s = u32::from_be_bytes(rest.take()?);
                let address = rest.address()?;
                let count = rest.count(MOST_ANNOUNCED)?;
                let name = |_| Ok(Name::from_bytes(&rest.take::<NAME_BYTES>()?)?);
                let names = (0..count).map(name).collect::<Result<_, BadResolve>>()?;
                let mac = rest.take::<MAC_BYTES>()?;
                let signed = &bytes[..bytes.len() - rest.bytes.len() - MAC_BYTES];
                if !key.is_some_and(|key| key.fits(signed, &mac)) {
                    return Err(BadResolve::Mac);
                }
                Self::Announce(Announce { nonce, number, ttl_s, address, names })
            }
            4 => {
                let [value] = rest.take()?;
                let status = AnnouncementStatus::ALL.into_iter().find(|known| *known as u8 == value);
                let status = status.ok_or(BadResolve::Unknown { what: "status", value })?;
                Self::Announced { nonce, status, number: u64::from_be_bytes(rest.take()?) }
            }
            value => return Err(BadResolve::Unknown { what: "kind", value }),
        };
        if rest.bytes.is_empty() { Ok(message) } else { Err(BadResolve::Length(bytes.len())) }
    }
}

/// The nonce of what has the head of an announcement, from any sender.
fn nonce_of_announcement(bytes: &[u8]) -> Option<u64> {
    let rest = bytes.strip_prefix(&MAGIC)?.strip_prefix(&[3])?;
    rest.first_chunk().map(|nonce| u64::from_be_bytes(*nonce))
}

fn put_address(address: SocketAddr, out: &mut Vec<u8>) {
    match address.ip() {
        IpAddr::V4(ip) => {
            out.push(4);
            out.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            out.push(6);
            out.extend_from_slice(&ip.octets());
        }
    }
    out.extend_from_slice(&address.port().to_be_bytes());
}

/// What is left of a message.
struct Rest<'a> {
    bytes: &'a [u8],
    whole: usize,
}

impl Rest<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], BadResolve> {
        let (taken, rest) = self.bytes.split_first_chunk().ok_or(BadResolve::Length(self.whole))?;
        self.bytes = rest;
        Ok(*taken)
    }

    fn count(&mut self, most: usize) -> Result<usize, BadResolve> {
        match self.take()? {
            [count] if usize::from(count) <= most => Ok(count.into()),
            [value] => Err(BadResolve::Unknown { what: "count", value }),
        }
    }

    fn address(&mut self) -> Result<SocketAddr, BadResolve> {
        let ip = match self.take()? {
            [4] => Ipv4Addr::from(self.take::<4>()?).into(),
            [6] => Ipv6Addr::from(self.take::<16>()?).into(),
            [value] => return Err(BadResolve::Unknown { what: "family of addresses", value }),
        };
        Ok(SocketAddr::new(ip, u16::from_be_bytes(self.take()?)))
    }
}

#[cfg(test)]
mod tests;
