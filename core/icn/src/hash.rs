//! Hashes of units: SHA-256 over a tag and the unit's bytes. The tag says what the unit is, so that bytes of one kind never
//! pass as bytes of another: an index unit as data, or the reverse (RFC 9162, section 2.1.1, for the same reason).

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// What is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// Bytes of the object.
    Data = 0,
    /// Hashes of units.
    Index = 1,
    /// The manifest.
    Manifest = 2,
    /// A publisher's key and a label, whose hash is a signed name.
    Record = 3,
}

/// What computes the hash of a unit: [`hash_of_unit`], or what knows it already.
pub type UnitHash = fn(Tag, &[u8]) -> [u8; 32];

/// The hash of a unit.
pub fn hash_of_unit(tag: Tag, bytes: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update([tag as u8]).chain_update(bytes).finalize().into()
}

/// HMAC-SHA-256 with a key of at most a block, 64 bytes (RFC 2104: zeros make it one).
pub(crate) fn keyed<const N: usize>(key: &[u8; N]) -> Hmac<Sha256> {
    const { assert!(N <= 64) }
    let mut block = [0; 64];
    block[..N].copy_from_slice(key);
    Hmac::new(&block.into())
}

/// The MAC of what a keyed one has seen.
pub(crate) fn mac(keyed: Hmac<Sha256>) -> [u8; 32] {
    keyed.finalize().into_bytes().into()
}

/// The number of a `purpose` from a seed that was drawn at random: who knows some of them knows neither the seed nor the others
/// (HMAC-SHA-256, of which these are the first 64 bits).
pub(crate) fn derived(seed: u64, purpose: u64) -> u64 {
    let mac = mac(keyed(&seed.to_be_bytes()).chain_update(purpose.to_be_bytes()));
    mac.first_chunk().map_or(0, |first| u64::from_be_bytes(*first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_derived_number_is_the_head_of_an_hmac() {
        // printf '\0\0\0\0\0\0\0\1' | openssl dgst -sha256 -mac hmac -macopt hexkey:0000000000000007
        assert_eq!(derived(7, 1), 0xb144_417d_cb34_93ad);
        assert_ne!(derived(7, 1), derived(7, 2));
        assert_ne!(derived(7, 1), derived(8, 1));
    }

    #[test]
    fn it_is_sha_256_of_tag_and_bytes() {
        // printf '\001abc' | sha256sum
        let hex = data_encoding::HEXLOWER.encode(&hash_of_unit(Tag::Index, b"abc"));
        assert_eq!(hex, "1e18834c426d00e57788444cb3ccd62c771b420c095bb0c4e040a8c122c4570d");
        assert_ne!(hash_of_unit(Tag::Data, b"abc"), hash_of_unit(Tag::Manifest, b"abc"));
    }
}
