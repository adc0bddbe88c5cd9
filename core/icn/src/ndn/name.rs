//! Names: components in a row, and how people write them.

use std::fmt;
use std::str::FromStr;

use super::tlv::{BadNdn, Elements, integer, put, put_integer};

/// Type of a name.
pub(super) const NAME: u32 = 7;
/// Component that is the SHA-256 of the packet.
const DIGEST: u32 = 1;
/// Component that is the SHA-256 of an Interest's parameters.
const PARAMETERS: u32 = 2;
/// Component without a meaning of its own.
const GENERIC: u32 = 8;
/// Component that is a word of a protocol.
const KEYWORD: u32 = 32;
/// Number of a segment.
pub(super) const SEGMENT: u32 = 50;
/// Number of a version.
const VERSION: u32 = 54;

/// Components that are numbers (naming conventions, revision 3), and how they are written.
const NUMBERS: [(u32, &str); 5] = [(SEGMENT, "seg"), (52, "off"), (VERSION, "v"), (56, "t"), (58, "seq")];

/// Components that are digests.
const DIGESTS: [(u32, &str); 2] = [(DIGEST, "sha256digest"), (PARAMETERS, "params-sha256")];

/// Bytes of a name at most (our choice: a packet holds four times as much, and a segment's has to be longer than its object's).
const LONGEST: usize = 2048;

/// A name of NDN.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NdnName {
    /// Its components as they stand in a packet; each of them was read once.
    value: Vec<u8>,
}

/// Why a text is not a name of NDN.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not a name of NDN: {why}; write it as /example/file or /example/file/v=3")]
pub struct BadNdnName {
    /// The text.
    pub text: String,
    /// What is wrong.
    pub why: &'static str,
}

impl NdnName {
    /// Reads the value of a name element.
    pub(super) fn read(value: &[u8]) -> Result<Self, BadNdn> {
        if value.len() > LONGEST {
            return Err(BadNdn::Length { what: "name", length: value.len() });
        }
        let mut elements = Elements::of(value, "name");
        while let Some(component) = elements.next()? {
            let length = component.value.len();
            match component.kind {
                DIGEST | PARAMETERS if length != 32 => return Err(BadNdn::Length { what: "digest", length }),
                1..=0xffff => {}
                kind => return Err(BadNdn::Unexpected { kind, within: "name" }),
            }
        }
        Ok(Self { value: value.to_vec() })
    }

    /// Appends the element.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put(out, NAME, &self.value);
    }

    fn components(&self) -> impl Iterator<Item = (u32, &[u8])> {
        let mut elements = Elements::of(&self.value, "name");
        std::iter::from_fn(move || elements.next().ok().flatten().map(|component| (component.kind, component.value)))
    }

    fn last(&self) -> Option<(u32, &[u8])> {
        self.components().last()
    }

    /// Without components.
    pub fn is_empty(&self) -> bool {
        self.value.is_empty()
    }

    fn with(mut self, kind: u32, value: &[u8]) -> Self {
        put(&mut self.value, kind, value);
        self
    }

    /// The name of its metadata, whose newest version says which is the newest of the object (RDR).
    pub(super) fn metadata(&self) -> Self {
        self.clone().with(KEYWORD, b"metadata")
    }

    /// The name of one of its segments.
    pub fn segment(&self, number: u64) -> Self {
        let mut name = self.clone();
        put_integer(&mut name.value, SEGMENT, number);
        name
    }

    /// The components of `longer` behind this name; `None` where it does not begin with it.
    fn behind<'a>(&self, longer: &'a Self) -> Option<Elements<'a>> {
        let rest = longer.value.strip_prefix(self.value.as_slice())?;
        Some(Elements::of(rest, "name"))
    }

    /// It begins with `prefix`.
    pub fn starts_with(&self, prefix: &Self) -> bool {
        prefix.behind(self).is_some()
    }

    /// Which segment of this object another name is of.
    pub(super) fn segment_in(&self, other: &Self) -> Option<u64> {
        let mut behind = self.behind(other)?;
        let first = behind.next().ok().flatten()?;
        let number = integer(first.value, "segment").ok().filter(|_| first.kind == SEGMENT)?;
        matches!(behind.next(), Ok(None)).then_some(number)
    }

    /// Where this is `object`, or one of its versions: that, without the number of a segment.
    pub(super) fn object_below(&self, object: &Self) -> Option<Self> {
        let mut behind = object.behind(self)?;
        let mut found = object.clone();
        let mut next = behind.next().ok().flatten();
        if let Some(version) = next.filter(|component| component.kind == VERSION) {
            found = found.with(VERSION, version.value);
            next = behind.next().ok().flatten();
        }
        if next.is_some_and(|component| component.kind == SEGMENT) {
            next = behind.next().ok().flatten();
        }
        next.is_none().then_some(found)
    }

    /// It ends with the number of a version.
    pub fn is_versioned(&self) -> bool {
        self.last().is_some_and(|(kind, _)| kind == VERSION)
    }

    /// It names one packet: it ends with the number of a segment or the digest of a packet.
    pub fn is_of_packet(&self) -> bool {
        self.last().is_some_and(|(kind, _)| kind == SEGMENT || kind == DIGEST)
    }

    /// Whether a packet with this name and digest is the one that is named, or `or_below` it.
    pub(super) fn names(&self, packet: &Self, digest: impl FnOnce() -> [u8; 32], or_below: bool) -> bool {
        if or_below && packet.starts_with(self) || packet == self {
            return true;
        }
        match self.last() {
            Some((DIGEST, expected)) => packet.clone().with(DIGEST, expected) == *self && digest() == expected,
            _ => false,
        }
    }

    /// The last component that is a file's name, perhaps.
    pub fn file_name(&self) -> Option<String> {
        let generic = self.components().filter(|(kind, _)| *kind == GENERIC).last()?;
        String::from_utf8(generic.1.to_vec()).ok()
    }
}

/// The value of a number's component.
fn shortest(number: u64) -> Vec<u8> {
    let mut element = Vec::new();
    put_integer(&mut element, SEGMENT, number);
    element.split_off(2)
}

fn hex(text: &str) -> Option<Vec<u8>> {
    data_encoding::HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()
}

/// The bytes that `%XX` and other characters stand for.
fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let value = digit(rest.next()?)? * 16 + digit(rest.next()?)?;
        bytes.push(value as u8);
    }
    Some(bytes)
}

fn component(text: &str) -> Result<(u32, Vec<u8>), &'static str> {
    let (kind, value) = match text.split_once('=') {
        None => (GENERIC, text),
        Some((prefix, digits)) => {
            if let Some((kind, _)) = DIGESTS.iter().find(|(_, known)| *known == prefix) {
                let value =
                    hex(digits).filter(|value| value.len() == 32).ok_or("a digest has 64 hexadecimal digits")?;
                return Ok((*kind, value));
            }
            if let Some((kind, _)) = NUMBERS.iter().find(|(_, known)| *known == prefix) {
                let number = digits.parse::<u64>().map_err(|_| "behind v=, seg=, off=, t= or seq= stands a number")?;
                return Ok((*kind, shortest(number)));
            }
            let kind = prefix.parse().ok().filter(|kind| (1..=0xffff).contains(kind) && !(1..=2).contains(kind));
            (kind.ok_or("the type of a component before '=' is a number from 3 to 65535")?, digits)
        }
    };
    let mut value = unescaped(value).ok_or("behind % stand two hexadecimal digits")?;
    // Three dots stand for nothing, more for those behind them.
    if value.iter().all(|byte| *byte == b'.') {
        if value.len() < 3 {
            return Err("a component is empty, '.' or '..'; an empty one is written as '...'");
        }
        value.truncate(value.len() - 3);
    }
    Ok((kind, value))
}

impl FromStr for NdnName {
    type Err = BadNdnName;

    fn from_str(text: &str) -> Result<Self, BadNdnName> {
        let bad = |why| BadNdnName { text: text.chars().take(200).collect(), why };
        let path = text.strip_prefix("ndn:").unwrap_or(text);
        let path = path.strip_prefix('/').ok_or(bad("it begins with '/'"))?;
        let path = path.strip_suffix('/').unwrap_or(path);
        let mut name = Self::default();
        if path.is_empty() {
            return Ok(name);
        }
        for part in path.split('/') {
            let (kind, value) = component(part).map_err(bad)?;
            name = name.with(kind, &value);
            if name.value.len() > LONGEST {
                return Err(bad("it is longer than 2048 bytes"));
            }
        }
        Ok(name)
    }
}

impl fmt::Display for NdnName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("/");
        }
        for (kind, value) in self.components() {
            f.write_str("/")?;
            if let Some((_, prefix)) = DIGESTS.iter().find(|(known, _)| *known == kind) {
                write!(f, "{prefix}={}", data_encoding::HEXLOWER.encode(value))?;
                continue;
            }
            // One that is written longer than it has to be is another component.
            let number = integer(value, "number").ok().filter(|number| shortest(*number) == value);
            if let Some(((_, prefix), number)) = NUMBERS.iter().find(|(known, _)| *known == kind).zip(number) {
                write!(f, "{prefix}={number}")?;
                continue;
            }
            if kind != GENERIC {
                write!(f, "{kind}=")?;
            }
            if value.iter().all(|byte| *byte == b'.') {
                f.write_str("...")?;
            }
            for byte in value {
                match byte {
                    b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                        write!(f, "{}", char::from(*byte))?;
                    }
                    _ => write!(f, "%{byte:02X}")?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> NdnName {
        text.parse().unwrap()
    }

    #[test]
    fn names_are_written_as_they_are_read() {
        for text in
            ["/", "/a", "/a/b%20c/v=3/seg=70000", "/.../....", "/32=metadata", "/a/v=0/t=1/seq=2/off=3", "/60000=x"]
        {
            assert_eq!(name(text).to_string(), text);
        }
        assert_eq!(name("/a/").to_string(), "/a");
        assert_eq!(name("ndn:/a").to_string(), "/a");
        let digest = format!("/a/sha256digest={}", "0f".repeat(32));
        assert_eq!(name(&digest).to_string(), digest);
        // ndn-cxx: `Name("/a/v=300").wireEncode()`.
        let mut wire = Vec::new();
        name("/a/v=300").put(&mut wire);
        assert_eq!(wire, [7, 7, 8, 1, b'a', 54, 2, 1, 44]);
        assert_eq!(NdnName::read(&wire[2..]).unwrap(), name("/a/v=300"));
    }

    #[test]
    fn what_is_not_a_name_is_refused_with_a_reason() {
        for (text, why) in [
            ("", "begins with '/'"),
            ("a", "begins with '/'"),
            ("/a//b", "is empty"),
            ("/a/../b", "'..'"),
            ("/a/%2", "two hexadecimal digits"),
            ("/a/v=x", "stands a number"),
            ("/a/seg=99999999999999999999", "stands a number"),
            ("/a/0=x", "from 3 to 65535"),
            ("/a/70000=x", "from 3 to 65535"),
            ("/a/sha256digest=00", "64 hexadecimal digits"),
            (&format!("/{}", "a".repeat(2048)), "2048 bytes"),
        ] {
            let error = text.parse::<NdnName>().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        assert!(NdnName::read(&[1, 2, 0, 0]).is_err() && NdnName::read(&[254, 0, 1, 0, 0, 0]).is_err());
    }

    #[test]
    fn names_of_segments_and_versions_are_told_apart() {
        let object = name("/a/v=1");
        assert_eq!(object.segment_in(&name("/a/v=1/seg=7")), Some(7));
        for other in ["/a/v=1", "/a/v=1/seg=7/b", "/a/v=1/v=7", "/a/v=2/seg=7", "/a/seg=7"] {
            assert_eq!(object.segment_in(&name(other)), None, "{other}");
        }
        let asked = name("/a");
        for (found, expected) in [
            ("/a", Some("/a")),
            ("/a/seg=0", Some("/a")),
            ("/a/v=2", Some("/a/v=2")),
            ("/a/v=2/seg=9", Some("/a/v=2")),
            ("/a/b", None),
            ("/a/v=2/seg=9/b", None),
            ("/b", None),
        ] {
            assert_eq!(name(found).object_below(&asked).map(|name| name.to_string()).as_deref(), expected, "{found}");
        }
        let digest = format!("/a/sha256digest={}", "00".repeat(32));
        assert!(name(&digest).names(&name("/a"), || [0; 32], false));
        assert!(!name(&digest).names(&name("/a"), || [1; 32], false));
        assert!(!name(&digest).names(&name("/b"), || [0; 32], false));
        assert!(!name("/a").names(&name("/a/b"), || [0; 32], false));
        assert!(name("/a").names(&name("/a/b"), || [0; 32], true));
    }
}
