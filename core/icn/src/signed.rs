//! Names that their publisher points at another object when there is a newer one: a record, signed with Ed25519 (RFC 8032).
//!
//! The signed name is the hash of the publisher's key and a label, so that a record certifies itself as an object does. It has
//! a version, which only grows, and an expiry, so that a server of an old one is found out sooner or later.

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};

use crate::UNIT;
use crate::hash::{Tag, hash_of_unit};
use crate::manifest::piece;
use crate::name::{NAME_BYTES, Name, NameKind};

/// Bytes of a label at most (our choice, as for media types).
pub const MAX_LABEL: usize = 200;

/// What a record begins with: a mark, and the version of what follows.
const MARK: [u8; 5] = *b"icnr\x01";

/// Where the label begins, behind mark (5), its length (1), zero (2), key (32), version (8), expiry (8) and target (33).
const LABEL: usize = 89;

const SIGNATURE: usize = 64;

/// What is signed begins with this, so that a signature for another purpose does not count here.
const PURPOSE: &[u8] = b"paceline icn record\0";

/// A publisher's word: this label is that object, until then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedRecord {
    /// The publisher's public key.
    pub key: [u8; 32],
    /// Which of the publisher's names this is: printable ASCII, 1 to [`MAX_LABEL`] bytes.
    pub label: String,
    /// A larger one replaces a smaller one.
    pub version: u64,
    /// From when on it is not valid any more, in seconds of Unix time.
    pub expires: u64,
    /// The object.
    pub target: Name,
    /// The publisher's signature of all that.
    pub signature: [u8; SIGNATURE],
}

/// A record that is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRecord {
    /// Not [`UNIT`] bytes.
    #[error("the record has {0} bytes instead of 1400")]
    Size(usize),
    /// It begins otherwise.
    #[error("this is not a record of version 1; a newer version of paceline may know it")]
    Mark,
    /// The label is empty, too long, or not printable ASCII.
    #[error("a label has 1 to 200 printable ASCII characters; this one has {0} bytes")]
    Label(usize),
    /// It does not point at an object.
    #[error("the record points at something that is not an object")]
    Target,
    /// Bytes that must be zero are not.
    #[error("the record has a byte that must be zero and is not, at {0}")]
    Zero(usize),
    /// Another publisher's, or of another label.
    #[error("the record belongs to {found}, not to {wanted}")]
    Name {
        /// The signed name that it belongs to.
        found: Name,
        /// The one that was asked for.
        wanted: Name,
    },
    /// Signed by someone else, or changed since.
    #[error("the record's signature is not its publisher's")]
    Signature,
    /// Too old.
    #[error("the record expired {ago_s} s ago; its publisher has to sign it again")]
    Expired {
        /// Seconds since then.
        ago_s: u64,
    },
    /// There was a newer one already.
    #[error(
        "the record has version {version}, and version {known} was seen before; a publisher who goes back signs the older object with a larger version"
    )]
    Older {
        /// Its version.
        version: u64,
        /// The newest that was seen.
        known: u64,
    },
}

impl SignedRecord {
    /// Signs one. `expires` is in seconds of Unix time.
    ///
    /// # Errors
    /// [`BadRecord::Label`], and [`BadRecord::Target`] where the target is not an object.
    pub fn sign(key: &SigningKey, label: &str, version: u64, expires: u64, target: Name) -> Result<Self, BadRecord> {
        let (public, signature) = (key.verifying_key().to_bytes(), [0; SIGNATURE]);
        let mut record = Self { key: public, label: label.to_owned(), version, expires, target, signature };
        record.check()?;
        record.signature = key.sign(&record.signed_part()).to_bytes();
        Ok(record)
    }

    fn check(&self) -> Result<(), BadRecord> {
        let printable = self.label.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        if !printable || self.label.is_empty() || self.label.len() > MAX_LABEL {
            return Err(BadRecord::Label(self.label.len()));
        }
        if self.target.kind() == NameKind::Object { Ok(()) } else { Err(BadRecord::Target) }
    }

    /// The name that it belongs to.
    pub fn name(&self) -> Name {
        signed_name(&self.key, &self.label)
    }

    fn body(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(UNIT);
        let kept = self.label.len().min(MAX_LABEL + 1);
        bytes.extend_from_slice(&MARK);
        bytes.extend_from_slice(&[kept as u8, 0, 0]);
        bytes.extend_from_slice(&self.key);
        bytes.extend_from_slice(&self.version.to_be_bytes());
        bytes.extend_from_slice(&self.expires.to_be_bytes());
        bytes.extend_from_slice(&self.target.to_bytes());
        bytes.extend_from_slice(&self.label.as_bytes()[..kept]);
        bytes
    }

    fn signed_part(&self) -> Vec<u8> {
        [PURPOSE, &self.body()].concat()
    }

    /// As one unit: what a signed name's unit 0 is.
    pub fn encode(&self) -> [u8; UNIT] {
        let mut bytes = [0; UNIT];
        let body = self.body();
        bytes[..body.len()].copy_from_slice(&body);
        bytes[body.len()..body.len() + SIGNATURE].copy_from_slice(&self.signature);
        bytes
    }

    /// From one unit. The signature is not looked at: see [`SignedRecord::verify`].
    ///
    /// # Errors
    /// [`BadRecord`]: there is exactly one encoding of each record, and everything else is refused.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadRecord> {
        let bytes: &[u8; UNIT] = bytes.try_into().map_err(|_| BadRecord::Size(bytes.len()))?;
        if bytes[..5] != MARK {
            return Err(BadRecord::Mark);
        }
        let label_bytes = usize::from(bytes[5]);
        let end = LABEL + label_bytes;
        let label = str::from_utf8(&bytes[LABEL..end]).map_err(|_| BadRecord::Label(label_bytes))?.to_owned();
        let target = Name::from_bytes(&piece::<NAME_BYTES>(bytes, 56)).map_err(|_| BadRecord::Target)?;
        let record = Self {
            key: piece(bytes, 8),
            label,
            version: u64::from_be_bytes(piece(bytes, 40)),
            expires: u64::from_be_bytes(piece(bytes, 48)),
            target,
            signature: piece(bytes, end),
        };
        record.check()?;
        match (6..8).chain(end + SIGNATURE..UNIT).find(|at| bytes[*at] != 0) {
            Some(at) => Err(BadRecord::Zero(at)),
            None => Ok(record),
        }
    }

    /// What `name` names by this record, at `now`, in seconds of Unix time.
    ///
    /// # Errors
    /// [`BadRecord::Name`], [`BadRecord::Signature`], [`BadRecord::Expired`].
    pub fn verify(&self, name: &Name, now: u64) -> Result<Name, BadRecord> {
        let found = self.name();
        if found != *name {
            return Err(BadRecord::Name { found, wanted: *name });
        }
        self.check()?;
        let signature = Signature::from_bytes(&self.signature);
        VerifyingKey::from_bytes(&self.key)
            .and_then(|key| key.verify_strict(&self.signed_part(), &signature))
            .map_err(|_| BadRecord::Signature)?;
        if now >= self.expires {
            return Err(BadRecord::Expired { ago_s: now - self.expires });
        }
        Ok(self.target)
    }

    /// [`SignedRecord::verify`] for a caller that has seen version `known` before.
    ///
    /// # Errors
    /// Those of [`SignedRecord::verify`], and [`BadRecord::Older`].
    pub fn verify_since(&self, name: &Name, now: u64, known: u64) -> Result<Name, BadRecord> {
        let target = self.verify(name, now)?;
        if self.version < known {
            return Err(BadRecord::Older { version: self.version, known });
        }
        Ok(target)
    }
}

/// The name of what this publisher calls `label`.
pub fn signed_name(key: &[u8; 32], label: &str) -> Name {
    Name::new(NameKind::Signed, hash_of_unit(Tag::Record, &[key, label.as_bytes()].concat()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(seed: u8) -> SigningKey {
        SigningKey::from_bytes(&[seed; 32])
    }

    fn target() -> Name {
        Name::new(NameKind::Object, [9; 32])
    }

    fn record(seed: u8) -> SignedRecord {
        SignedRecord::sign(&key(seed), "news", 4, 1000, target()).expect("a good label")
    }

    #[test]
    fn a_record_is_believed_until_it_expires() {
        let record = SignedRecord::decode(&record(1).encode()).expect("it was encoded");
        let name = record.name();
        assert_eq!(name.kind(), NameKind::Signed);
        assert_eq!(record.verify(&name, 999), Ok(target()));
        assert_eq!(record.verify(&name, 1000), Err(BadRecord::Expired { ago_s: 0 }));
        assert_eq!(record.verify(&name, 1060), Err(BadRecord::Expired { ago_s: 60 }));
        assert_eq!(record.verify_since(&name, 0, 4), Ok(target()));
        assert_eq!(record.verify_since(&name, 0, 5), Err(BadRecord::Older { version: 4, known: 5 }));
    }

    #[test]
    fn someone_elses_is_refused() {
        let (mine, other) = (record(1), record(2));
        let wanted = mine.name();
        assert_eq!(other.verify(&wanted, 0), Err(BadRecord::Name { found: other.name(), wanted }));
        // Who claims another's key has no signature by it.
        let forged = SignedRecord { key: mine.key, ..other };
        assert_eq!(forged.verify(&wanted, 0), Err(BadRecord::Signature));
        let relabelled = SignedRecord::sign(&key(1), "olds", 4, 1000, target()).expect("a good label");
        assert!(matches!(relabelled.verify(&wanted, 0), Err(BadRecord::Name { .. })));
    }

    /// The neutral point, of which a signature by anybody fits every text where checking is not strict (RFC 8032 leaves that open).
    #[test]
    fn a_key_of_small_order_proves_nothing() {
        let mut neutral = [0; 32];
        neutral[0] = 1;
        let mut signature = [0; SIGNATURE];
        signature[..32].copy_from_slice(&neutral);
        let forged = SignedRecord { key: neutral, signature, ..record(1) };
        assert_eq!(forged.verify(&forged.name(), 0), Err(BadRecord::Signature));
    }

    #[test]
    fn what_cannot_be_a_record_is_not_signed() {
        let sign = |label: &str, target| SignedRecord::sign(&key(1), label, 1, 1, target).map(|_| ());
        assert_eq!(sign("", target()), Err(BadRecord::Label(0)));
        assert_eq!(sign(&"x".repeat(201), target()), Err(BadRecord::Label(201)));
        assert_eq!(sign("a\nb", target()), Err(BadRecord::Label(3)));
        assert_eq!(sign("a", Name::new(NameKind::Signed, [1; 32])), Err(BadRecord::Target));
        assert_eq!(sign(&"x".repeat(200), target()), Ok(()));
    }

    proptest! {
        #[test]
        fn one_flipped_bit_anywhere_is_refused(at in 0..UNIT, bit in 0..8) {
            let good = record(1);
            let mut bytes = good.encode();
            bytes[at] ^= 1_u8 << bit;
            let read = SignedRecord::decode(&bytes).and_then(|record| record.verify(&good.name(), 0));
            prop_assert!(read.is_err());
        }

        #[test]
        fn there_is_one_encoding_of_each(
            mut bytes in prop::collection::vec(any::<u8>(), UNIT), label in "[ -~]{1,200}",
        ) {
            bytes[..5].copy_from_slice(&MARK);
            bytes[5] = label.len() as u8;
            bytes[6..8].fill(0);
            bytes[56] = 1;
            bytes[LABEL..LABEL + label.len()].copy_from_slice(label.as_bytes());
            bytes[LABEL + label.len() + SIGNATURE..].fill(0);
            let record = SignedRecord::decode(&bytes);
            prop_assert!(record.is_ok());
            prop_assert_eq!(record.map(|record| record.encode().to_vec()), Ok(bytes));
        }
    }
}
