//! What a link carries (NDNLPv2): packets, or parts of them, and what a forwarder says beside them.

use std::collections::VecDeque;

use super::MAX_PACKET;
use super::packet::{DATA, INTEREST};
use super::tlv::{BadNdn, Elements, integer, only};

const LINK: u32 = 100;
const FRAGMENT: u32 = 80;
const SEQUENCE: u32 = 81;
const INDEX: u32 = 82;
const COUNT: u32 = 83;
const NACK: u32 = 800;
const REASON: u32 = 801;
const MARK: u32 = 832;

/// Fields that say nothing to a consumer: the token of a PIT, faces, caches, acknowledgements and numbers of the link, discovery,
/// announcements.
const SAID_TO_OTHERS: [u32; 8] = [98, 816, 817, 820, 836, 840, 844, 848];

/// Parts of a packet at most (our choice: 8800 bytes over links that carry 138 at once).
const PARTS: u64 = 64;

/// Packets of which some parts came and others did not (our choice: 560 kB; what was lost before is asked for again).
const PARTIAL: usize = 64;

/// Why an Interest brings nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NackReason {
    /// The link to where it would go is full.
    Congestion,
    /// Its nonce was seen before.
    Duplicate,
    /// No way leads there.
    NoRoute,
    /// Another, by its number; 0: none was given.
    Other(u64),
}

/// A packet of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkFrame<'a> {
    /// A packet or a part of one; none where the link only kept itself alive.
    pub fragment: Option<&'a [u8]>,
    /// Its place: the number of the link's packet, which part it is, of how many.
    pub part: Option<(u64, u64, u64)>,
    /// It is an Interest that came back, and this is why.
    pub nack: Option<NackReason>,
    /// A queue on the way is long.
    pub marked: bool,
}

impl<'a> LinkFrame<'a> {
    /// Reads a packet of a link. One of the network layer is one that has nothing beside it.
    ///
    /// # Errors
    /// [`BadNdn`].
    pub fn decode(bytes: &'a [u8]) -> Result<Self, BadNdn> {
        const WITHIN: &str = "packet of a link";
        let packet = only(bytes, WITHIN)?;
        match packet.kind {
            INTEREST | DATA => return Ok(Self { fragment: Some(bytes), ..Self::default() }),
            LINK => {}
            kind => return Err(BadNdn::Unexpected { kind, within: "link" }),
        }
        let mut frame = Self::default();
        let (mut sequence, mut index, mut count) = (None, 0, 1);
        let mut fields = Elements::of(packet.value, WITHIN);
        while let Some(field) = fields.next()? {
            match field.kind {
                FRAGMENT => frame.fragment = Some(field.value).filter(|fragment| !fragment.is_empty()),
                // Eight bytes in network byte order, or an integer: links may take either.
                SEQUENCE => sequence = Some(integer(field.value, "number of a link's packet")?),
                INDEX => index = integer(field.value, "number of a part")?,
                COUNT => count = integer(field.value, "number of parts")?,
                NACK => frame.nack = Some(reason(field.value)?),
                MARK => frame.marked = integer(field.value, "congestion mark")? > 0,
                kind if SAID_TO_OTHERS.contains(&kind) || (800..960).contains(&kind) && kind % 4 == 0 => {}
                kind => return Err(BadNdn::Unexpected { kind, within: WITHIN }),
            }
        }
        if count != 1 {
            if !(2..=PARTS).contains(&count) || index >= count {
                return Err(BadNdn::Part { index, count, most: PARTS });
            }
            let sequence = sequence.ok_or(BadNdn::Missing { what: "number", within: "part of a packet" })?;
            frame.part = Some((sequence, index, count));
        }
        Ok(frame)
    }
}

fn reason(value: &[u8]) -> Result<NackReason, BadNdn> {
    let reason = Elements::of(value, "Nack").take(REASON)?;
    let number = reason.map_or(Ok(0), |reason| integer(reason.value, "reason of a Nack"))?;
    Ok(match number {
        50 => NackReason::Congestion,
        100 => NackReason::Duplicate,
        150 => NackReason::NoRoute,
        other => NackReason::Other(other),
    })
}

/// Parts of packets that wait for the others.
#[derive(Debug, Default)]
pub struct Fragments {
    partial: VecDeque<Partial>,
}

#[derive(Debug)]
struct Partial {
    /// The number of the link's packet that has the first part.
    first: u64,
    parts: Vec<Option<Vec<u8>>>,
    bytes: usize,
}

impl Fragments {
    /// Takes a part; answers the packet where that was the last that it lacked. Where too many packets lack some, the oldest is forgotten.
    ///
    /// # Errors
    /// [`BadNdn`]: the parts are longer than a packet, or do not belong together. The packet is forgotten.
    pub fn join(&mut self, (sequence, index, count): (u64, u64, u64), part: &[u8]) -> Result<Option<Vec<u8>>, BadNdn> {
        let first = sequence.wrapping_sub(index);
        let known = self.partial.iter().position(|partial| partial.first == first);
        let mut partial = known.and_then(|place| self.partial.remove(place)).unwrap_or_else(|| Partial {
            first,
            parts: vec![None; usize::try_from(count.min(PARTS)).unwrap_or(1)],
            bytes: 0,
        });
        let most = partial.parts.len() as u64;
        let bad = BadNdn::Part { index, count, most };
        let place = usize::try_from(index).ok().and_then(|index| partial.parts.get_mut(index)).ok_or(bad.clone())?;
        if most != count {
            return Err(bad);
        }
        if place.is_none() {
            partial.bytes += part.len();
            if partial.bytes > MAX_PACKET {
                return Err(BadNdn::Long(partial.bytes as u64));
            }
            *place = Some(part.to_vec());
        }
        if partial.parts.iter().all(Option::is_some) {
            return Ok(Some(partial.parts.into_iter().flatten().flatten().collect()));
        }
        if self.partial.len() == PARTIAL {
            self.partial.pop_front();
        }
        self.partial.push_back(partial);
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_link_are_read_or_skipped_or_refused() {
        let bare = [6, 0];
        assert_eq!(LinkFrame::decode(&bare).unwrap().fragment, Some(&bare[..]));
        let nack = [100, 13, 253, 3, 32, 5, 253, 3, 33, 1, 150, 80, 2, 5, 0];
        let frame = LinkFrame::decode(&nack).unwrap();
        assert_eq!((frame.nack, frame.fragment), (Some(NackReason::NoRoute), Some(&[5, 0][..])));
        let marked = [100, 9, 253, 3, 64, 1, 1, 80, 2, 6, 0];
        assert!(LinkFrame::decode(&marked).unwrap().marked);
        // One that is not known: 856 may be skipped, 857 may not.
        assert!(LinkFrame::decode(&[100, 4, 253, 3, 88, 0]).is_ok());
        let refused = LinkFrame::decode(&[100, 4, 253, 3, 89, 0]).unwrap_err();
        assert_eq!(refused, BadNdn::Unexpected { kind: 857, within: "packet of a link" });
        assert_eq!(LinkFrame::decode(&[100, 0]).unwrap(), LinkFrame::default());
        let part = |index, count| {
            let frame = [100, 13, 81, 1, 9, 82, 1, index, 83, 1, count, 80, 2, 6, 0];
            LinkFrame::decode(&frame).map(|frame| frame.part)
        };
        assert_eq!(part(2, 3), Ok(Some((9, 2, 3))));
        assert!(part(3, 3).is_err() && part(0, 0).is_err() && part(0, 65).is_err());
        assert_eq!(part(0, 1), Ok(None));
    }

    #[test]
    fn parts_make_a_packet_in_any_order_and_twice() {
        let mut fragments = Fragments::default();
        assert_eq!(fragments.join((11, 1, 3), b"b"), Ok(None));
        assert_eq!(fragments.join((12, 2, 3), b"c"), Ok(None));
        assert_eq!(fragments.join((12, 2, 3), b"c"), Ok(None));
        assert_eq!(fragments.join((10, 0, 3), b"a"), Ok(Some(b"abc".to_vec())));
        assert_eq!(fragments.join((10, 0, 3), b"a"), Ok(None));
        // Those of another number of parts are another packet's.
        assert!(fragments.join((11, 1, 2), b"x").is_err());
        assert!(fragments.join((20, 0, 2), &[0; MAX_PACKET]).is_ok());
        assert_eq!(fragments.join((21, 1, 2), b"x"), Err(BadNdn::Long(MAX_PACKET as u64 + 1)));
        for first in 0..1000 {
            assert_eq!(fragments.join((first * 2, 0, 2), b"x"), Ok(None));
        }
        assert_eq!(fragments.partial.len(), PARTIAL);
        assert!(fragments.join((u64::MAX, 70, 71), b"x").is_err());
    }
}
