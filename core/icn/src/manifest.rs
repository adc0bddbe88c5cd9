//! The first unit of an object: how long it is, what it is, and the hash of everything else.

use crate::UNIT;
use crate::hash::{Tag, hash_of_unit};
use crate::layout::Layout;
use crate::name::{Name, NameKind};

/// Bytes of an object at most: the stored form, which is 1.8 % longer, still has offsets that files have (below 2^63).
pub const MAX_LENGTH: u64 = 1 << 62;

/// Bytes of a media type at most (our choice: RFC 6838, section 4.2, allows 127 each for type and subtype, and none that is
/// registered has more than 100).
pub const MAX_MEDIA_TYPE: usize = 200;

/// What a manifest begins with: a mark, and the version of what follows.
const MARK: [u8; 5] = *b"icnm\x01";

/// Where the media type begins, behind mark (5), its length (1), zero (2), length of the object (8) and root (32).
const MEDIA_TYPE: usize = 48;

/// What an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Bytes of the object, at most [`MAX_LENGTH`].
    pub length: u64,
    /// Hash of the topmost unit of the tree; zeros where the object is empty.
    pub root: [u8; 32],
    /// What its bytes are, such as `video/mp4`: printable ASCII, at most [`MAX_MEDIA_TYPE`]; may be empty.
    pub media_type: String,
}

/// Bytes that are not a manifest, or a manifest that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadManifest {
    /// Not [`UNIT`] bytes.
    #[error("the manifest has {0} bytes instead of 1400")]
    Size(usize),
    /// It begins otherwise.
    #[error("the first unit is not a manifest of version 1; a newer version of paceline may know it")]
    Mark,
    /// The object is longer than any may be.
    #[error("the manifest says {0} bytes; an object has at most 2^62")]
    Length(u64),
    /// The media type is too long, or not printable ASCII.
    #[error("the media type has {0} bytes or a character that is not printable ASCII; give one such as video/mp4")]
    MediaType(usize),
    /// An empty object has a root, or bytes that must be zero are not.
    #[error("the manifest has a byte that must be zero and is not, at {0}")]
    Zero(usize),
}

impl Manifest {
    /// Whether it can be encoded.
    ///
    /// # Errors
    /// [`BadManifest::Length`], [`BadManifest::MediaType`], [`BadManifest::Zero`].
    pub fn check(&self) -> Result<(), BadManifest> {
        if self.length > MAX_LENGTH {
            return Err(BadManifest::Length(self.length));
        }
        if self.length == 0 && self.root != [0; 32] {
            return Err(BadManifest::Zero(16));
        }
        check_media_type(&self.media_type)
    }

    /// As the first unit. What [`Manifest::check`] refuses is encoded so that [`Manifest::decode`] refuses it.
    pub fn encode(&self) -> [u8; UNIT] {
        let mut bytes = [0; UNIT];
        let kept = self.media_type.len().min(MAX_MEDIA_TYPE + 1);
        bytes[..5].copy_from_slice(&MARK);
        bytes[5] = kept as u8;
        bytes[8..16].copy_from_slice(&self.length.to_be_bytes());
        bytes[16..48].copy_from_slice(&self.root);
        bytes[MEDIA_TYPE..MEDIA_TYPE + kept].copy_from_slice(&self.media_type.as_bytes()[..kept]);
        bytes
    }

    /// From the first unit.
    ///
    /// # Errors
    /// [`BadManifest`]: there is exactly one encoding of each manifest, and everything else is refused.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadManifest> {
        let bytes: &[u8; UNIT] = bytes.try_into().map_err(|_| BadManifest::Size(bytes.len()))?;
        if bytes[..5] != MARK {
            return Err(BadManifest::Mark);
        }
        let kept = usize::from(bytes[5]);
        let media_type = bytes.get(MEDIA_TYPE..MEDIA_TYPE + kept).and_then(|text| str::from_utf8(text).ok());
        let media_type = media_type.ok_or(BadManifest::MediaType(kept))?.to_owned();
        let zero = (6..8).chain(MEDIA_TYPE + kept..UNIT).find(|at| bytes[*at] != 0);
        if let Some(at) = zero {
            return Err(BadManifest::Zero(at));
        }
        let manifest = Self { length: u64::from_be_bytes(piece(bytes, 8)), root: piece(bytes, 16), media_type };
        manifest.check()?;
        Ok(manifest)
    }

    /// The object's name.
    pub fn name(&self) -> Name {
        name_of(&self.encode())
    }

    /// Where its units stand.
    pub fn layout(&self) -> Layout {
        Layout::new(self.length)
    }
}

/// The name of the object whose first unit this is.
pub fn name_of(first: &[u8]) -> Name {
    Name::new(NameKind::Object, hash_of_unit(Tag::Manifest, first))
}

/// Whether a manifest can hold this media type.
///
/// # Errors
/// [`BadManifest::MediaType`].
pub fn check_media_type(text: &str) -> Result<(), BadManifest> {
    let printable = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if printable && text.len() <= MAX_MEDIA_TYPE { Ok(()) } else { Err(BadManifest::MediaType(text.len())) }
}

/// Bytes from `at` on, which the caller knows to be there.
pub(crate) fn piece<const N: usize>(bytes: &[u8; UNIT], at: usize) -> [u8; N] {
    std::array::from_fn(|index| bytes[at + index])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn manifest() -> Manifest {
        Manifest { length: 5, root: [7; 32], media_type: "text/plain".into() }
    }

    #[test]
    fn what_is_none_is_refused() {
        let good = manifest().encode();
        assert_eq!(Manifest::decode(&good), Ok(manifest()));
        assert_eq!(Manifest::decode(&good[1..]), Err(BadManifest::Size(1399)));
        let with = |at: usize, byte| {
            let mut bytes = good;
            bytes[at] = byte;
            Manifest::decode(&bytes)
        };
        assert_eq!(with(0, b'x'), Err(BadManifest::Mark));
        assert_eq!(with(4, 2), Err(BadManifest::Mark));
        assert_eq!(with(8, 0xff), Err(BadManifest::Length(0xff00_0000_0000_0005)));
        assert_eq!(with(15, 0), Err(BadManifest::Zero(16)));
        assert_eq!(with(1399, 1), Err(BadManifest::Zero(1399)));
        assert_eq!(with(50, b'\n'), Err(BadManifest::MediaType(10)));
        let long = Manifest { media_type: "x".repeat(300), ..manifest() };
        assert_eq!(long.check(), Err(BadManifest::MediaType(300)));
        assert!(Manifest::decode(&long.encode()).is_err());
    }

    proptest! {
        #[test]
        fn there_is_one_encoding_of_each(length in 1..=MAX_LENGTH, root in any::<[u8; 32]>(), media_type in "[ -~]{0,200}") {
            let manifest = Manifest { length, root, media_type };
            let bytes = manifest.encode();
            prop_assert_eq!(Manifest::decode(&bytes), Ok(manifest.clone()));
            prop_assert_eq!(name_of(&bytes), manifest.name());
        }

        #[test]
        fn bytes_that_decode_encode_to_themselves(mut bytes in prop::collection::vec(any::<u8>(), UNIT), zeros in 48..UNIT) {
            bytes[..5].copy_from_slice(&MARK);
            bytes[6..8].fill(0);
            bytes[8] &= 0x3f;
            bytes[zeros..].fill(0);
            if let Ok(manifest) = Manifest::decode(&bytes) {
                prop_assert_eq!(manifest.encode().to_vec(), bytes);
            }
        }
    }
}
