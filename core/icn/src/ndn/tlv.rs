//! Elements: a type, a length, a value.

use super::MAX_FRAME;

/// Why bytes are not a packet of NDN.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadNdn {
    /// A type or a length is cut, or not written as short as it can be.
    #[error("the number of a type or a length is cut, longer than it has to be, or out of its range")]
    Number,
    /// An element ends behind what holds it.
    #[error("an element of type {kind} has {length} bytes, of which {left} are there")]
    Cut {
        /// Its type.
        kind: u32,
        /// Bytes of its value.
        length: u64,
        /// Those that there are.
        left: usize,
    },
    /// An element that is not known and may not be skipped, or in a wrong place.
    #[error("an element of type {kind} may not stand in a {within}")]
    Unexpected {
        /// Its type.
        kind: u32,
        /// What holds it.
        within: &'static str,
    },
    /// An element that has to be there.
    #[error("a {within} has to have a {what}")]
    Missing {
        /// What is missing.
        what: &'static str,
        /// From what.
        within: &'static str,
    },
    /// A value of a length that its type does not have.
    #[error("a {what} cannot have {length} bytes")]
    Length {
        /// What it is.
        what: &'static str,
        /// Bytes of its value.
        length: usize,
    },
    /// Longer than packets are.
    #[error("a packet of {0} bytes is too long")]
    Long(u64),
    /// Bytes behind the packet.
    #[error("{0} bytes stand behind the packet")]
    Behind(usize),
    /// The packet is not the one that its digest is of.
    #[error("the SHA-256 of a Data is not the one that it has as its signature")]
    Digest,
    /// The parts of a packet do not belong together.
    #[error("part {index} of {count} of a packet: there are 2 to {most} parts, counted from 0")]
    Part {
        /// Which one.
        index: u64,
        /// Of how many.
        count: u64,
        /// As many as there may be.
        most: u64,
    },
}

/// One element.
#[derive(Clone, Copy, Debug)]
pub(super) struct Element<'a> {
    pub(super) kind: u32,
    pub(super) value: &'a [u8],
}

/// Elements in a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Elements<'a> {
    rest: &'a [u8],
    within: &'static str,
}

/// A number of the format, and what stands behind it; `None` where it is cut.
fn number(bytes: &[u8]) -> Option<Result<(u64, &[u8]), BadNdn>> {
    let (first, rest) = bytes.split_first()?;
    let (value, rest, least) = match first {
        0..=252 => (u64::from(*first), rest, 0),
        253 => rest.split_first_chunk().map(|(head, rest)| (u64::from(u16::from_be_bytes(*head)), rest, 253))?,
        254 => rest.split_first_chunk().map(|(head, rest)| (u64::from(u32::from_be_bytes(*head)), rest, 1 << 16))?,
        255 => rest.split_first_chunk().map(|(head, rest)| (u64::from_be_bytes(*head), rest, 1 << 32))?,
    };
    Some(if value < least { Err(BadNdn::Number) } else { Ok((value, rest)) })
}

/// A type, a length, and what stands behind them.
struct Head<'a> {
    kind: u32,
    length: u64,
    behind: &'a [u8],
}

/// The head of an element; `None` where it is cut.
fn head(bytes: &[u8]) -> Option<Result<Head<'_>, BadNdn>> {
    let (kind, rest) = match number(bytes)? {
        Ok(found) => found,
        Err(error) => return Some(Err(error)),
    };
    let Some(kind) = u32::try_from(kind).ok().filter(|kind| *kind > 0) else { return Some(Err(BadNdn::Number)) };
    Some(number(rest)?.map(|(length, behind)| Head { kind, length, behind }))
}

/// How long the packet is that stands at the begin of a stream; `None` where too little is there to say.
///
/// # Errors
/// [`BadNdn`]: it is longer than [`MAX_FRAME`], or no number.
pub fn frame_length(bytes: &[u8]) -> Result<Option<usize>, BadNdn> {
    let Some(head) = head(bytes) else { return Ok(None) };
    let Head { length, behind, .. } = head?;
    let whole = ((bytes.len() - behind.len()) as u64).saturating_add(length);
    usize::try_from(whole).ok().filter(|whole| *whole <= MAX_FRAME).map(Some).ok_or(BadNdn::Long(whole))
}

impl<'a> Elements<'a> {
    pub(super) const fn of(rest: &'a [u8], within: &'static str) -> Self {
        Self { rest, within }
    }

    /// The next one.
    pub(super) fn next(&mut self) -> Result<Option<Element<'a>>, BadNdn> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let Head { kind, length, behind } = head(self.rest).ok_or(BadNdn::Number)??;
        let cut = BadNdn::Cut { kind, length, left: behind.len() };
        let value_length = usize::try_from(length).ok().filter(|length| *length <= behind.len()).ok_or(cut)?;
        let head_length = self.rest.len() - behind.len();
        let (whole, rest) = self.rest.split_at(head_length + value_length);
        self.rest = rest;
        Ok(Some(Element { kind, value: &whole[head_length..] }))
    }

    /// The next one if it is of this type; what is not known and may be skipped before it is skipped.
    pub(super) fn take(&mut self, kind: u32) -> Result<Option<Element<'a>>, BadNdn> {
        loop {
            let mut ahead = *self;
            let Some(element) = ahead.next()? else { return Ok(None) };
            if element.kind == kind {
                *self = ahead;
                return Ok(Some(element));
            }
            if is_critical(element.kind) {
                return Ok(None);
            }
            *self = ahead;
        }
    }

    /// As [`Elements::take`], where it has to be there.
    pub(super) fn need(&mut self, kind: u32, what: &'static str) -> Result<Element<'a>, BadNdn> {
        self.take(kind)?.ok_or(BadNdn::Missing { what, within: self.within })
    }

    /// Bytes behind what was taken.
    pub(super) const fn left(&self) -> usize {
        self.rest.len()
    }

    /// Only what may be skipped stands behind.
    pub(super) fn end(mut self) -> Result<(), BadNdn> {
        while let Some(Element { kind, .. }) = self.next()? {
            if is_critical(kind) {
                return Err(BadNdn::Unexpected { kind, within: self.within });
            }
        }
        Ok(())
    }
}

/// Who does not know an element of this type may not read the packet (NDN packet format, section 1.3).
const fn is_critical(kind: u32) -> bool {
    kind <= 31 || kind % 2 == 1
}

/// A packet that is one element and nothing behind it.
pub(super) fn only<'a>(bytes: &'a [u8], within: &'static str) -> Result<Element<'a>, BadNdn> {
    let mut elements = Elements::of(bytes, within);
    let element = elements.next()?.ok_or(BadNdn::Missing { what: "type", within })?;
    if elements.rest.is_empty() { Ok(element) } else { Err(BadNdn::Behind(elements.rest.len())) }
}

/// A non-negative integer: 1, 2, 4 or 8 bytes.
pub(super) fn integer(value: &[u8], what: &'static str) -> Result<u64, BadNdn> {
    match value.len() {
        1 | 2 | 4 | 8 => Ok(value.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))),
        length => Err(BadNdn::Length { what, length }),
    }
}

/// A non-negative integer, as short as it can be.
pub(super) fn put_integer(out: &mut Vec<u8>, kind: u32, value: u64) {
    let bytes = value.to_be_bytes();
    let skip = match value {
        0..=0xff => 7,
        0x100..=0xffff => 6,
        0x1_0000..=0xffff_ffff => 4,
        _ => 0,
    };
    put(out, kind, &bytes[skip..]);
}

/// An element.
pub(super) fn put(out: &mut Vec<u8>, kind: u32, value: &[u8]) {
    put_number(out, kind.into());
    put_number(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn put_number(out: &mut Vec<u8>, value: u64) {
    let bytes = value.to_be_bytes();
    match value {
        0..=252 => out.push(bytes[7]),
        253..=0xffff => {
            out.push(253);
            out.extend_from_slice(&bytes[6..]);
        }
        0x1_0000..=0xffff_ffff => {
            out.push(254);
            out.extend_from_slice(&bytes[4..]);
        }
        _ => {
            out.push(255);
            out.extend_from_slice(&bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_short_as_they_can_be() {
        for (value, written) in [
            (1_u64, &[1][..]),
            (252, &[252]),
            (253, &[253, 0, 253]),
            (0xffff, &[253, 0xff, 0xff]),
            (0x1_0000, &[254, 0, 1, 0, 0]),
            (1 << 32, &[255, 0, 0, 0, 1, 0, 0, 0, 0]),
        ] {
            let mut out = Vec::new();
            put_number(&mut out, value);
            assert_eq!(out, written);
            assert_eq!(number(&out).unwrap().unwrap(), (value, &[][..]));
            assert!((0..out.len()).all(|cut| number(&out[..cut]).is_none()));
        }
        for long in [&[253, 0, 252][..], &[254, 0, 0, 0xff, 0xff], &[255, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]] {
            assert_eq!(number(long), Some(Err(BadNdn::Number)));
        }
    }

    #[test]
    fn a_stream_says_how_long_its_packet_is() {
        assert_eq!(frame_length(&[]), Ok(None));
        assert_eq!(frame_length(&[6, 253, 1]), Ok(None));
        assert_eq!(frame_length(&[6, 253, 1, 0]), Ok(Some(260)));
        assert_eq!(frame_length(&[0, 1]), Err(BadNdn::Number));
        assert_eq!(frame_length(&[6, 254, 0, 1, 0, 0]), Err(BadNdn::Long(65_542)));
        let longest = [6, 255, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(frame_length(&longest), Err(BadNdn::Long(u64::MAX)));
    }

    #[test]
    fn what_is_not_known_is_skipped_where_it_may_be() {
        let bytes = [32, 0, 7, 1, 9, 34, 0];
        let mut elements = Elements::of(&bytes, "Data");
        assert_eq!(elements.need(7, "name").unwrap().value, [9]);
        assert_eq!(elements.end(), Ok(()));
        let mut elements = Elements::of(&[33, 0, 7, 0], "Data");
        assert_eq!(elements.need(7, "name").unwrap_err(), BadNdn::Missing { what: "name", within: "Data" });
        assert_eq!(elements.end(), Err(BadNdn::Unexpected { kind: 33, within: "Data" }));
        let cut = Elements::of(&[6, 9, 1], "link").next().unwrap_err();
        assert_eq!(cut, BadNdn::Cut { kind: 6, length: 9, left: 1 });
        assert_eq!(only(&[6, 0, 1], "link").unwrap_err(), BadNdn::Behind(1));
    }
}
