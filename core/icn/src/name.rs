//! Names that certify themselves.

use std::fmt;
use std::str::FromStr;

use data_encoding::{BASE32_NOPAD, DecodeKind};
use paceline_cc::foreign::printable;

/// Bytes of a name on the wire: its kind and a hash.
pub const NAME_BYTES: usize = 33;

/// What a name is the hash of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NameKind {
    /// Of a manifest: the name of bytes that never change.
    Object = 1,
    /// Of a publisher's key and a label: the name of whatever the publisher last signed.
    Signed = 2,
}

/// The name of an object. As text it is its bytes in base 32 in lower case, 53 characters: as long as a label of DNS may be,
/// with room to spare.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name {
    kind: NameKind,
    hash: [u8; 32],
}

/// A text or a byte string that is not a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoName {
    /// Of another length.
    #[error("'{text}' is not a name: it has {length} characters, a name has 53; `paceline icn publish` prints it")]
    Length {
        /// The text, cut after 60 characters.
        text: String,
        /// How many characters it has.
        length: usize,
    },
    /// With a character that base 32 does not have.
    #[error("'{text}' is not a name: character {position} is not one of a to z and 2 to 7")]
    Character {
        /// The text.
        text: String,
        /// Where, counted from 1.
        position: usize,
    },
    /// With a last character that no name has.
    #[error("'{text}' is not a name: its last character is mistyped; no name ends with it")]
    End {
        /// The text.
        text: String,
    },
    /// Of a kind that this version does not know.
    #[error("kind {0} of names is not known; a newer version of paceline may know it")]
    Kind(u8),
}

impl Name {
    /// Of this kind, with this hash.
    pub const fn new(kind: NameKind, hash: [u8; 32]) -> Self {
        Self { kind, hash }
    }

    /// What it is the hash of.
    pub const fn kind(&self) -> NameKind {
        self.kind
    }

    /// The hash.
    pub const fn hash(&self) -> &[u8; 32] {
        &self.hash
    }

    /// As on the wire.
    pub fn to_bytes(&self) -> [u8; NAME_BYTES] {
        let mut bytes = [0; NAME_BYTES];
        bytes[0] = self.kind as u8;
        bytes[1..].copy_from_slice(&self.hash);
        bytes
    }

    /// From the wire.
    ///
    /// # Errors
    /// [`NoName::Kind`].
    pub fn from_bytes(bytes: &[u8; NAME_BYTES]) -> Result<Self, NoName> {
        let [kind, hash @ ..] = bytes;
        let kind = match kind {
            1 => NameKind::Object,
            2 => NameKind::Signed,
            other => return Err(NoName::Kind(*other)),
        };
        Ok(Self { kind, hash: *hash })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&BASE32_NOPAD.encode(&self.to_bytes()).to_ascii_lowercase())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Name({self})")
    }
}

impl FromStr for Name {
    type Err = NoName;

    fn from_str(text: &str) -> Result<Self, NoName> {
        let length = text.chars().count();
        if length != 53 {
            return Err(NoName::Length { text: printable(text, 60), length });
        }
        let wrong = |position| NoName::Character { text: printable(text, 60), position };
        let bytes = BASE32_NOPAD.decode(text.to_ascii_uppercase().as_bytes()).map_err(|error| match error.kind {
            DecodeKind::Trailing => NoName::End { text: printable(text, 60) },
            _ => wrong(error.position + 1),
        })?;
        let bytes = bytes.as_slice().try_into().map_err(|_| wrong(length))?;
        Self::from_bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_bytes_hold_the_same_name() {
        let name = Name::new(NameKind::Signed, std::array::from_fn(|index| index as u8));
        let text = name.to_string();
        assert_eq!(text.len(), 53);
        assert_eq!(text.parse(), Ok(name));
        assert_eq!(text.to_ascii_uppercase().parse(), Ok(name));
        assert_eq!(Name::from_bytes(&name.to_bytes()), Ok(name));
    }

    #[test]
    fn what_is_no_name_is_refused_with_its_place() {
        let name = Name::new(NameKind::Object, [7; 32]).to_string();
        assert_eq!("video.mp4".parse::<Name>(), Err(NoName::Length { text: "video.mp4".into(), length: 9 }));
        let wrong = format!("{}8{}", &name[..10], &name[11..]);
        assert!(matches!(wrong.parse::<Name>(), Err(NoName::Character { position: 11, .. })));
        let wrong = format!("{}b", &name[..52]);
        assert_eq!(wrong.parse::<Name>(), Err(NoName::End { text: wrong }));
        assert!("é".repeat(53).parse::<Name>().is_err());
        let mut bytes = Name::new(NameKind::Object, [7; 32]).to_bytes();
        bytes[0] = 9;
        assert_eq!(Name::from_bytes(&bytes), Err(NoName::Kind(9)));
    }
}
