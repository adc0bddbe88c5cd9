//! Hashes of units: SHA-256 over a tag and the unit's bytes. The tag says what the unit is, so that bytes of one kind never
//! pass as bytes of another: an index unit as data, or the reverse (RFC 9162, section 2.1.1, for the same reason).

use ring::digest::{Context, SHA256};

/// What is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// Bytes of the object.
    Data,
    /// Hashes of units.
    Index,
    /// The manifest.
    Manifest,
    /// A publisher's key and a label, whose hash is a signed name.
    Record,
}

impl Tag {
    const fn byte(self) -> u8 {
        match self {
            Self::Data => 0,
            Self::Index => 1,
            Self::Manifest => 2,
            Self::Record => 3,
        }
    }
}

/// The hash of a unit.
pub fn hash_of_unit(tag: Tag, bytes: &[u8]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    context.update(&[tag.byte()]);
    context.update(bytes);
    let mut hash = [0; 32];
    hash.copy_from_slice(context.finish().as_ref());
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_sha_256_of_tag_and_bytes() {
        // printf '\001abc' | sha256sum
        let hex = data_encoding::HEXLOWER.encode(&hash_of_unit(Tag::Index, b"abc"));
        assert_eq!(hex, "1e18834c426d00e57788444cb3ccd62c771b420c095bb0c4e040a8c122c4570d");
        assert_ne!(hash_of_unit(Tag::Data, b"abc"), hash_of_unit(Tag::Manifest, b"abc"));
    }
}
