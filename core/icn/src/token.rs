//! Tokens that prove an address, without anything remembered of whom they were given to.
//!
//! A token is a time and a MAC over it and the address, as the cookies of DNS (RFC 7873, RFC 9018) and the tokens of QUIC's Retry
//! (RFC 9000 section 8.1.3) are. The MAC is SipHash-2-4, as in RFC 9018 section 4.4: a program in the kernel can compute it too. The key of
//! an hour is derived from a secret that the caller draws at start: threads, and routers behind one address, that share the secret take each
//! other's tokens. Two keys are kept, that of the hour and the one before.

use std::net::{IpAddr, SocketAddr};

use hmac::{Hmac, Mac};
use sha2::Sha256;
use siphasher::sip::SipHasher24;

use crate::hash::{self, keyed};
use crate::wire::{AddressToken, TOKEN_BYTES};

/// A token is good for this many seconds (RFC 9018 section 4.3).
pub const OLDEST: u64 = 3600;

/// A token may be from so far in the future, in seconds, where routers with one secret have clocks that differ (RFC 9018 section 4.3).
pub const AHEAD: u64 = 300;

/// A token older than this many seconds is answered with a new one (RFC 9018 section 4.3).
pub const RENEW: u64 = 1800;

/// A key is used for this many seconds (section 10 of our specification; no shorter than [`OLDEST`], since two keys are kept).
const PERIOD: u64 = 3600;

/// Version of the form: version, key, seconds, MAC, ten zeros. Version 1 had HMAC-SHA-256.
const VERSION: u8 = 2;

/// Bytes before the MAC.
const HEAD: usize = 6;

/// Where the MAC ends (one guess in 2^64 is right, as in RFC 9018).
const END: usize = HEAD + size_of::<u64>();

/// What a token proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressProof {
    /// Its address; in half an hour it has to be renewed, or now.
    Good {
        /// The requester should get a new one.
        renew: bool,
    },
    /// Nothing: it was forged, or made for another address, by another router, or too long ago.
    Bad,
}

/// The keys of a router.
pub struct Secrets {
    master: Hmac<Sha256>,
    /// The hour, and its key and the one before.
    hour: u64,
    keys: [[u8; 16]; 2],
}

impl Secrets {
    /// Of `secret`, drawn at random by the caller.
    pub fn new(secret: &[u8; 32], unix_s: u64) -> Self {
        let master = keyed(secret);
        let hour = unix_s / PERIOD;
        let keys = [derive(&master, hour), derive(&master, hour.wrapping_sub(1))];
        Self { master, hour, keys }
    }

    /// A token for an address, at a time in seconds since 1970.
    pub fn mint(&mut self, address: SocketAddr, unix_s: u64) -> AddressToken {
        self.rotate(unix_s);
        let mut token = [0; TOKEN_BYTES];
        token[0] = VERSION;
        token[1] = self.hour as u8;
        token[2..HEAD].copy_from_slice(&(unix_s as u32).to_be_bytes());
        let right = mac(&self.keys[0], &token, address);
        token[HEAD..END].copy_from_slice(&right);
        AddressToken(token)
    }

    /// What a token proves that came from `address`.
    pub fn check(&mut self, token: &AddressToken, address: SocketAddr, unix_s: u64) -> AddressProof {
        self.rotate(unix_s);
        let AddressToken(bytes) = token;
        let stamp = u32::from_be_bytes([bytes[2], bytes[3], bytes[4], bytes[5]]);
        // Within 2^31 seconds of now, on either side.
        let distance = i64::from(stamp.wrapping_sub(unix_s as u32).cast_signed());
        let minted = unix_s.saturating_add_signed(distance);
        let in_time = distance <= AHEAD as i64 && distance >= -(OLDEST as i64);
        let hour = minted / PERIOD;
        if bytes[0] != VERSION || !in_time || bytes[1] != hour as u8 {
            return AddressProof::Bad;
        }
        let good = match self.hour.wrapping_sub(hour) {
            0 => is_of(&self.keys[0], bytes, address),
            1 => is_of(&self.keys[1], bytes, address),
            // From a router whose clock has begun the next hour.
            _ => is_of(&derive(&self.master, hour), bytes, address),
        };
        if good { AddressProof::Good { renew: distance < -(RENEW as i64) } } else { AddressProof::Bad }
    }

    /// The two keys that are kept, for a program that checks tokens by itself: first that of an even hour.
    pub fn keys(&mut self, unix_s: u64) -> [[u8; 16]; 2] {
        self.rotate(unix_s);
        let [this, before] = self.keys;
        if self.hour.is_multiple_of(2) { [this, before] } else { [before, this] }
    }

    fn rotate(&mut self, unix_s: u64) {
        let hour = unix_s / PERIOD;
        if hour != self.hour {
            self.keys = [derive(&self.master, hour), derive(&self.master, hour.wrapping_sub(1))];
            self.hour = hour;
        }
    }
}

fn derive(master: &Hmac<Sha256>, hour: u64) -> [u8; 16] {
    let text = master.clone().chain_update(b"paceline icn tokens of the hour").chain_update(hour.to_be_bytes());
    hash::mac(text).first_chunk().copied().unwrap_or_default()
}

/// Over version, key, seconds, port and address, of which IPv4's is mapped into IPv6's: 24 bytes.
fn mac(key: &[u8; 16], token: &[u8; TOKEN_BYTES], address: SocketAddr) -> [u8; 8] {
    let mut message = [0; HEAD + 18];
    message[..HEAD].copy_from_slice(&token[..HEAD]);
    message[HEAD..HEAD + 2].copy_from_slice(&address.port().to_be_bytes());
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    message[HEAD + 2..].copy_from_slice(&ip.octets());
    SipHasher24::new_with_key(key).hash(&message).to_le_bytes()
}

/// In a time that does not depend on how many bytes are right.
fn is_of(key: &[u8; 16], token: &[u8; TOKEN_BYTES], address: SocketAddr) -> bool {
    let mut right = [0; TOKEN_BYTES - HEAD];
    right[..END - HEAD].copy_from_slice(&mac(key, token, address));
    right.iter().zip(&token[HEAD..]).fold(0, |differs, (ours, theirs)| differs | (ours ^ theirs)) == 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: u64 = 1_800_000_123;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_token_is_good_for_an_hour_and_five_minutes_early() {
        let from = address("192.0.2.1:700");
        // Whatever part of the hour it was made in.
        for minted in (NOW..NOW + 3600).step_by(97) {
            let mut secrets = Secrets::new(&[1; 32], minted);
            let token = secrets.mint(from, minted);
            let mut at = |then| secrets.check(&token, from, then);
            assert_eq!(at(minted), AddressProof::Good { renew: false });
            assert_eq!(at(minted + 1800), AddressProof::Good { renew: false });
            assert_eq!(at(minted + 1801), AddressProof::Good { renew: true });
            assert_eq!(at(minted + 3600), AddressProof::Good { renew: true });
            assert_eq!(at(minted + 3601), AddressProof::Bad);
            assert_eq!(at(minted - 300), AddressProof::Good { renew: false });
            assert_eq!(at(minted - 301), AddressProof::Bad);
        }
    }

    #[test]
    fn the_mac_is_siphash_of_version_key_seconds_port_and_address() {
        let token = Secrets::new(&[1; 32], NOW).mint(address("192.0.2.1:700"), NOW).0;
        assert_eq!(token[..HEAD], [2, 0x20, 0x6b, 0x49, 0xd2, 0x7b]);
        // openssl mac -macopt hexkey:eb5164c47b008305edefb429441ee61c -macopt size:8 SipHash, of these six bytes, 02bc and ::ffff:192.0.2.1;
        // the key is the first half of an HMAC (openssl dgst -sha256 -mac hmac) of the text and the hour, 500,000 = 0x7a120.
        assert_eq!(token[HEAD..END], [0x03, 0x6c, 0xb0, 0xf3, 0xef, 0x3f, 0x82, 0xe2]);
        assert_eq!(token[END..], [0; 10]);
    }

    #[test]
    fn it_is_good_for_its_address_and_its_secret_alone() {
        let from = address("192.0.2.1:700");
        let mut secrets = Secrets::new(&[1; 32], NOW);
        let token = secrets.mint(from, NOW);
        for other in ["192.0.2.2:700", "192.0.2.1:701", "[2001:db8::1]:700"] {
            assert_eq!(secrets.check(&token, address(other), NOW), AddressProof::Bad, "{other}");
        }
        // A socket for both families reports IPv4 in this form.
        assert_eq!(secrets.check(&token, address("[::ffff:192.0.2.1]:700"), NOW), AddressProof::Good { renew: false });
        assert_eq!(Secrets::new(&[2; 32], NOW).check(&token, from, NOW), AddressProof::Bad);
        assert_eq!(Secrets::new(&[1; 32], NOW).check(&token, from, NOW), AddressProof::Good { renew: false });
    }

    #[test]
    fn the_hours_of_two_keys_take_turns() {
        let mut secrets = Secrets::new(&[1; 32], NOW);
        let [even, odd] = secrets.keys(NOW);
        // Hour 500,000 is even.
        assert_eq!(secrets.keys(NOW + PERIOD)[0], even);
        let [later, odd_again] = secrets.keys(NOW + 2 * PERIOD);
        assert!(later != even && odd_again != odd && even != odd);
    }

    proptest! {
        #[test]
        fn no_other_bytes_are_good(at in 0..TOKEN_BYTES, flip in 1..=u8::MAX, now in any::<u64>(), then in any::<u64>()) {
            let from = address("[2001:db8::1]:9");
            let mut secrets = Secrets::new(&[3; 32], now);
            let mut token = secrets.mint(from, now);
            token.0[at] ^= flip;
            prop_assert_eq!(secrets.check(&token, from, now), AddressProof::Bad);
            prop_assert_eq!(secrets.check(&token, from, then), AddressProof::Bad);
        }
    }
}
