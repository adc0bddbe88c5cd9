//! One IP packet: bytes of its own, or a part of a large frame that the kernel left whole.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use paceline_cc::{Codepoint, Time};

use super::buffer::{Buffer, Content, Pool};
use super::layout::{CWR, FIN, Layout, PSH, Part, Transport, complete};
use super::virtio::{FrameKind, PartialChecksum, Virtio};
use super::{ecn, set_ecn};

/// Frames up to this many bytes are copied out of the buffer into which they were read (our choice: several packets, so that a few
/// bytes in a queue do not hold 64 kB of memory).
const COPIED: usize = 8 << 10;

/// One IP packet: the body of a [`paceline_path::Packet`] in the emulator.
///
/// The packets of a large frame share its bytes. Each has the header that it would have on a wire, but it is written only when
/// it is asked for.
#[derive(Clone, Debug)]
pub struct Frame {
    buffer: Arc<Buffer>,
    /// Which packet of the buffer it is.
    index: u16,
    /// Its ECN field as it is now.
    ecn: Codepoint,
    /// When it reached the port: the kernel's time stamp where there is one, else taken after the read.
    pub arrived: Time,
    pub(crate) entry: Entry,
}

/// How a packet entered its path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Entry {
    /// Counts the packets of a direction from 0.
    pub(crate) id: u64,
    pub(crate) entered: Time,
    pub(crate) ecn: Codepoint,
}

/// A frame that is not what its header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame that is not what its header says")]
pub struct MalformedFrame;

impl Frame {
    /// A packet that arrived at `arrived`.
    pub fn new(bytes: Vec<u8>, arrived: Time) -> Self {
        Self::of(Buffer::packet(bytes, None), arrived)
    }

    /// The first packet of a buffer.
    fn of(buffer: Buffer, arrived: Time) -> Self {
        let ecn = ecn(buffer.bytes());
        Self { buffer: Arc::new(buffer), index: 0, ecn, arrived, entry: Entry::default() }
    }

    /// The packets of a frame from its IP header on, in their order. They share its bytes, and are not written one by one.
    ///
    /// # Errors
    /// When the frame is not what `virtio` says.
    pub fn split(virtio: Virtio, bytes: Vec<u8>, arrived: Time) -> Result<impl Iterator<Item = Self>, MalformedFrame> {
        let content = content(virtio, &bytes)?;
        let range = 0..bytes.len();
        Ok(Self::all(Buffer::new(bytes, range, content, None), arrived))
    }

    /// Appends the packets of the frame that is in a `range` of a buffer from `pool`, and puts another one into its place where
    /// they keep it.
    pub(crate) fn take(
        virtio: Virtio,
        slot: &mut Vec<u8>,
        range: Range<usize>,
        pool: &Pool,
        arrived: Time,
        frames: &mut Vec<Self>,
    ) -> Result<(), MalformedFrame> {
        let bytes = slot.get(range.clone()).ok_or(MalformedFrame)?;
        let content = content(virtio, bytes)?;
        if let Content::Packet(partial) = content {
            frames.push(Self::of(Buffer::packet(bytes.to_vec(), partial), arrived));
        } else if bytes.len() <= COPIED {
            let range = 0..bytes.len();
            frames.extend(Self::all(Buffer::new(bytes.to_vec(), range, content, None), arrived));
        } else {
            let bytes = std::mem::replace(slot, pool.take());
            frames.extend(Self::all(Buffer::new(bytes, range, content, Some(pool.clone())), arrived));
        }
        Ok(())
    }

    fn all(buffer: Buffer, arrived: Time) -> impl Iterator<Item = Self> {
        let count = match buffer.content {
            Content::Packet(_) => 1,
            Content::Segments { count, .. } => count,
        };
        let first = Self::of(buffer, arrived);
        (0..count).map(move |index| Self { index, ..first.clone() })
    }

    /// Bytes on the wire, from the IP header on.
    #[expect(clippy::len_without_is_empty, reason = "an IP packet has a header")]
    pub fn len(&self) -> usize {
        match self.buffer.content {
            Content::Packet(_) => self.buffer.bytes().len(),
            Content::Segments { layout, size, .. } => layout.payload + self.payload(layout, size).len(),
        }
    }

    /// The packet as a wire carries it, from its IP header on.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        let whole = self.buffer.bytes();
        match self.buffer.content {
            Content::Packet(None) if ecn(whole) == self.ecn => Cow::Borrowed(whole),
            Content::Packet(partial) => {
                let mut bytes = whole.to_vec();
                set_ecn(&mut bytes, self.ecn);
                if let Some(PartialChecksum { start, offset }) = partial {
                    complete(&mut bytes, usize::from(start), usize::from(start) + usize::from(offset));
                }
                Cow::Owned(bytes)
            }
            Content::Segments { layout, size, .. } => {
                let payload = self.payload(layout, size);
                let mut bytes = Vec::with_capacity(layout.payload + payload.len());
                layout.header(whole, self.part(layout, size), &mut bytes);
                bytes.extend_from_slice(&whole[payload]);
                complete(&mut bytes, layout.start, layout.start + layout.checksum());
                Cow::Owned(bytes)
            }
        }
    }

    /// The hop-by-hop header of an IPv6 packet and what is behind it, for a hop that writes into the header; what it shares with
    /// other packets it has for itself from then on. `None` when there is no such header.
    pub fn hop_by_hop(&mut self) -> Option<&mut [u8]> {
        let whole = self.buffer.bytes();
        if !matches!(whole, [first, _, _, _, _, _, 0, ..] if first >> 4 == 6) {
            return None;
        }
        let own = match self.buffer.content {
            Content::Segments { layout, size, .. } => {
                let mut bytes = Vec::with_capacity(self.len());
                layout.header(whole, self.part(layout, size), &mut bytes);
                bytes.extend_from_slice(&whole[self.payload(layout, size)]);
                Some(Buffer::packet(bytes, partial(layout).checksum))
            }
            Content::Packet(_) if Arc::strong_count(&self.buffer) == 1 => None,
            Content::Packet(partial) => Some(Buffer::packet(whole.to_vec(), partial)),
        };
        if let Some(own) = own {
            (self.buffer, self.index) = (Arc::new(own), 0);
        }
        Arc::get_mut(&mut self.buffer)?.bytes_mut().get_mut(40..)
    }

    /// Its ECN field.
    pub fn ecn(&self) -> Codepoint {
        self.ecn
    }

    /// Changes its ECN field.
    pub fn set_ecn(&mut self, ecn: Codepoint) {
        self.ecn = ecn;
    }

    /// What a frame of this packet alone is: what is still to be done with it, its header where that is not the one in
    /// [`Frame::stored`] (appended to `headers`), and where the rest is there.
    pub(super) fn alone(&self, headers: &mut Vec<u8>) -> (Virtio, Range<usize>) {
        let whole = self.buffer.bytes();
        match self.buffer.content {
            Content::Packet(checksum) => {
                let same = ecn(whole) == self.ecn;
                // The ECN field is in the first bytes, which are followed by IPv4's checksum.
                let changed = if same { 0 } else { whole.len().min(20) };
                let at = headers.len();
                headers.extend_from_slice(&whole[..changed]);
                set_ecn(&mut headers[at..], self.ecn);
                (Virtio { checksum, ..Virtio::default() }, changed..whole.len())
            }
            Content::Segments { layout, size, .. } => {
                layout.header(whole, self.part(layout, size), headers);
                (partial(layout), self.payload(layout, size))
            }
        }
    }

    /// The bytes that it shares with other packets.
    pub(crate) fn stored(&self) -> &[u8] {
        self.buffer.bytes()
    }

    /// Whether it has these bytes in common with another packet.
    pub(super) fn shares(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.buffer, &other.buffer)
    }

    /// What of it is compared with other packets of its flow. `None` for what is neither TCP nor UDP, and where the sender
    /// completed the checksum: no one but the receiver says whether that is right.
    pub(super) fn view(&self) -> Option<View> {
        let stored = self.buffer.bytes();
        let (layout, part, payload) = match self.buffer.content {
            Content::Segments { layout, size, .. } => (layout, self.part(layout, size), self.payload(layout, size)),
            Content::Packet(checksum) => {
                let layout = Layout::of(stored)?;
                if checksum != partial(layout).checksum || !layout.is_exact(stored) {
                    return None;
                }
                let (length, flags) = (stored.len() - layout.payload, layout.flags(stored));
                (layout, Part { index: 0, before: 0, length, flags, ecn: self.ecn }, layout.payload..stored.len())
            }
        };
        Some(View {
            layout,
            part,
            sequence: layout.sequence(stored).wrapping_add(part.before),
            id: layout.id(stored).wrapping_add(part.index),
            payload,
        })
    }

    /// Where the payload is in the buffer.
    fn payload(&self, layout: Layout, size: u16) -> Range<usize> {
        let (start, size, end) = (layout.payload, usize::from(size), self.buffer.bytes().len());
        let from = start + usize::from(self.index) * size;
        from..end.min(from + size)
    }

    /// Flags that belong to the first or the last packet alone.
    fn part(&self, layout: Layout, size: u16) -> Part {
        let whole = self.buffer.bytes();
        let payload = self.payload(layout, size);
        let mut flags = layout.flags(whole);
        if self.index > 0 {
            flags &= !CWR;
        }
        if payload.end < whole.len() {
            flags &= !(FIN | PSH);
        }
        let before = u32::from(self.index) * u32::from(size);
        Part { index: self.index, before, length: payload.len(), flags, ecn: self.ecn }
    }
}

/// What of a packet is compared with others of its flow.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) layout: Layout,
    pub(super) part: Part,
    pub(super) sequence: u32,
    pub(super) id: u16,
    /// Where its payload is in the stored bytes.
    pub(super) payload: Range<usize>,
}

/// What is to be done with a packet of this layout: its checksum.
pub(super) fn partial(layout: Layout) -> Virtio {
    let checksum = Some(PartialChecksum { start: layout.start as u16, offset: layout.checksum() as u16 });
    Virtio { checksum, split: None, header: layout.payload as u16 }
}

/// What a frame holds, as its header says.
fn content(virtio: Virtio, bytes: &[u8]) -> Result<Content, MalformedFrame> {
    if let Some(PartialChecksum { start, offset }) = virtio.checksum
        && usize::from(start) + usize::from(offset) + 2 > bytes.len()
    {
        return Err(MalformedFrame);
    }
    let Some(split) = virtio.split else { return Ok(Content::Packet(virtio.checksum)) };
    let layout = Layout::of(bytes).ok_or(MalformedFrame)?;
    let kind = match (layout.transport, layout.six) {
        (Transport::Tcp, false) => FrameKind::Tcp4,
        (Transport::Tcp, true) => FrameKind::Tcp6,
        (Transport::Udp, _) => FrameKind::Udp,
    };
    if kind != split.kind || split.size == 0 {
        return Err(MalformedFrame);
    }
    let count = (bytes.len() - layout.payload).div_ceil(usize::from(split.size)).max(1);
    let count = u16::try_from(count).map_err(|_| MalformedFrame)?;
    Ok(Content::Segments { layout, size: split.size, count })
}
