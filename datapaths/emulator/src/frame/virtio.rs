//! The header that the kernel puts before a frame of a TUN device or a packet socket: what of the work of a network card
//! is still to be done.
//!
//! Source: `struct virtio_net_hdr` of linux/virtio_net.h, in the machine's byte order (the virtio specification's legacy header, which
//! `IFF_VNET_HDR` and `PACKET_VNET_HDR` have).

/// The checksum is still to be computed (`VIRTIO_NET_HDR_F_NEEDS_CSUM`).
const NEEDS_CSUM: u8 = 1;
/// `VIRTIO_NET_HDR_GSO_*`. The last is a bit beside the others: the first packet has CWR.
const TCP4: u8 = 1;
const TCP6: u8 = 4;
const UDP: u8 = 5;
const ECN: u8 = 0x80;

/// What is still to be done with a frame before it is on a wire. Positions are counted from the frame's first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Virtio {
    /// Where a checksum is to be computed.
    pub checksum: Option<PartialChecksum>,
    /// How the frame is to be split.
    pub split: Option<Segmentation>,
    /// Bytes of all headers; 0: not said.
    pub header: u16,
}

/// A checksum that is not complete: its field has the sum of the pseudo-header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialChecksum {
    /// The first byte that it covers; it covers the rest of the packet.
    pub start: u16,
    /// Where its field is, from `start`.
    pub offset: u16,
}

/// What a frame is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segmentation {
    /// Which packets.
    pub kind: FrameKind,
    /// The first of them has the flag CWR.
    pub cwr: bool,
    /// Payload bytes of each packet but the last, which may have fewer.
    pub size: u16,
}

/// Which packets a frame is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// TCP over IPv4.
    Tcp4,
    /// TCP over IPv6.
    Tcp6,
    /// UDP over either.
    Udp,
    /// Something else, by its number.
    Other(u8),
}

impl Virtio {
    /// Its bytes.
    pub const BYTES: usize = 10;

    /// Reads one.
    pub fn read(bytes: [u8; Self::BYTES]) -> Self {
        let [flags, gso, h0, h1, s0, s1, c0, c1, o0, o1] = bytes;
        let kind = match gso & !ECN {
            0 => None,
            TCP4 => Some(FrameKind::Tcp4),
            TCP6 => Some(FrameKind::Tcp6),
            UDP => Some(FrameKind::Udp),
            other => Some(FrameKind::Other(other)),
        };
        let size = u16::from_ne_bytes([s0, s1]);
        let partial = PartialChecksum { start: u16::from_ne_bytes([c0, c1]), offset: u16::from_ne_bytes([o0, o1]) };
        Self {
            checksum: (flags & NEEDS_CSUM != 0).then_some(partial),
            split: kind.map(|kind| Segmentation { kind, cwr: gso & ECN != 0, size }),
            header: u16::from_ne_bytes([h0, h1]),
        }
    }

    /// Its bytes, for a frame that follows `before` bytes of a link-layer header.
    pub fn write(&self, before: u16) -> [u8; Self::BYTES] {
        let (flags, partial) = match self.checksum {
            Some(PartialChecksum { start, offset }) => (NEEDS_CSUM, PartialChecksum { start: start + before, offset }),
            None => (0, PartialChecksum { start: 0, offset: 0 }),
        };
        let (gso, size) = self.split.map_or((0, 0), |split| {
            let kind = match split.kind {
                FrameKind::Tcp4 => TCP4,
                FrameKind::Tcp6 => TCP6,
                FrameKind::Udp => UDP,
                FrameKind::Other(other) => other,
            };
            (kind | if split.cwr { ECN } else { 0 }, split.size)
        });
        let header = if self.header == 0 { 0 } else { self.header + before };
        let [h0, h1] = header.to_ne_bytes();
        let [s0, s1] = size.to_ne_bytes();
        let ([c0, c1], [o0, o1]) = (partial.start.to_ne_bytes(), partial.offset.to_ne_bytes());
        [flags, gso, h0, h1, s0, s1, c0, c1, o0, o1]
    }

    /// As it is without the first `bytes` bytes of the frame; `None` when the checksum covers some of them.
    pub fn without(mut self, bytes: u16) -> Option<Self> {
        if let Some(partial) = &mut self.checksum {
            partial.start = partial.start.checked_sub(bytes)?;
        }
        self.header = self.header.saturating_sub(bytes);
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_they_are_written() {
        let checksum = Some(PartialChecksum { start: 20, offset: 16 });
        let split = |kind, cwr| Some(Segmentation { kind, cwr, size: 1448 });
        let splits = [
            None,
            split(FrameKind::Tcp4, true),
            split(FrameKind::Tcp6, false),
            split(FrameKind::Udp, false),
            split(FrameKind::Other(3), false),
        ];
        for split in splits {
            for checksum in [None, checksum] {
                let virtio = Virtio { checksum, split, header: 52 };
                assert_eq!(Virtio::read(virtio.write(0)), virtio);
                assert_eq!(Virtio::read(virtio.write(14)).without(14), Some(virtio));
            }
        }
        assert_eq!(Virtio { checksum, split: None, header: 0 }.without(21), None);
    }

    #[test]
    fn the_fields_stand_where_the_kernel_has_them() {
        let split = Some(Segmentation { kind: FrameKind::Tcp4, cwr: true, size: 0x1234 });
        let virtio = Virtio { checksum: Some(PartialChecksum { start: 20, offset: 16 }), split, header: 40 };
        let words = |bytes: [u8; Virtio::BYTES]| {
            let word = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
            (bytes[0], bytes[1], word(2), word(4), word(6), word(8))
        };
        assert_eq!(words(virtio.write(0)), (1, 0x81, 40, 0x1234, 20, 16));
        assert_eq!(words(virtio.write(14)), (1, 0x81, 54, 0x1234, 34, 16));
        assert_eq!(words(Virtio::default().write(14)), (0, 0, 0, 0, 0, 0));
    }
}
