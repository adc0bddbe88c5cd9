//! Where the headers of a TCP or UDP packet are, and how they change from one packet of a large frame to the next.
//!
//! Source: what the kernel does when it splits a frame itself (`inet_gso_segment`, `tcp_gso_segment` and
//! `__udp_gso_segment` of Linux).

use paceline_cc::Codepoint;

use super::checksum::{fold, sum};
use super::set_ecn;

/// Flags of a TCP header.
pub(super) const FIN: u8 = 1;
pub(super) const SYN: u8 = 2;
pub(super) const RST: u8 = 4;
pub(super) const PSH: u8 = 8;
pub(super) const URG: u8 = 32;
pub(super) const CWR: u8 = 128;

/// What carries the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Tcp,
    Udp,
}

/// Where the headers of a packet are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) transport: Transport,
    pub(super) six: bool,
    /// Where the transport's header begins.
    pub(super) start: usize,
    /// Where the payload begins.
    pub(super) payload: usize,
}

/// One packet of a frame, or several in a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// Packets, and bytes of payload, before it in the frame.
    pub(super) index: u16,
    pub(super) before: u32,
    /// Its bytes of payload.
    pub(super) length: usize,
    /// Its TCP flags.
    pub(super) flags: u8,
    pub(super) ecn: Codepoint,
}

impl Layout {
    /// That of a packet of TCP or UDP whose headers are whole; `None` for everything else, fragments too.
    pub(super) fn of(packet: &[u8]) -> Option<Self> {
        let (six, protocol, start) = match packet.first()? >> 4 {
            4 => {
                let header = packet.first_chunk::<20>()?;
                let (length, fragment) = (usize::from(header[0] & 15) * 4, [header[6] & 0x3f, header[7]]);
                if length < header.len() || fragment != [0, 0] {
                    return None;
                }
                (false, header[9], length)
            }
            6 => {
                let (mut protocol, mut at) = (packet.first_chunk::<40>()?[6], 40);
                // Hop-by-hop and destination options. A routing header changes what the checksum covers.
                while let (0 | 60, [next, length, ..]) = (protocol, packet.get(at..)?) {
                    (protocol, at) = (*next, at + 8 + usize::from(*length) * 8);
                }
                (true, protocol, at)
            }
            _ => return None,
        };
        let header = packet.get(start..)?;
        let (transport, length) = match protocol {
            6 => (Transport::Tcp, usize::from(header.get(12)? >> 4) * 4),
            17 => (Transport::Udp, 8),
            _ => return None,
        };
        let least = if transport == Transport::Tcp { 20 } else { 8 };
        (length >= least && header.len() >= length).then_some(Self { transport, six, start, payload: start + length })
    }

    /// Where the checksum's field is in the transport's header.
    pub(super) fn checksum(&self) -> usize {
        if self.transport == Transport::Tcp { 16 } else { 6 }
    }

    /// Whether the lengths in the headers are those of the packet.
    pub(super) fn is_exact(&self, packet: &[u8]) -> bool {
        let word = |at: usize| {
            packet.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u16::from_be_bytes(*word))
        };
        let length = if self.six { usize::from(word(4)) + 40 } else { usize::from(word(2)) };
        let datagram =
            self.transport == Transport::Tcp || usize::from(word(self.start + 4)) == packet.len() - self.start;
        length == packet.len() && datagram
    }

    /// The sequence number in a header; 0 for UDP.
    pub(super) fn sequence(&self, header: &[u8]) -> u32 {
        let bytes = header.get(self.start + 4..).and_then(|rest| rest.first_chunk());
        if self.transport == Transport::Tcp { bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes)) } else { 0 }
    }

    /// The identification in an IPv4 header; 0 for IPv6.
    pub(super) fn id(&self, header: &[u8]) -> u16 {
        if self.six { 0 } else { u16::from_be_bytes([header[4], header[5]]) }
    }

    /// The TCP flags in a header; 0 for UDP.
    pub(super) fn flags(&self, header: &[u8]) -> u8 {
        if self.transport == Transport::Tcp { header[self.start + 13] } else { 0 }
    }

    /// Whether two headers with this layout differ in nothing but what differs between packets of one frame: lengths,
    /// checksums, identification, ECN, sequence number, and the TCP flags `FIN`, `PSH` and `CWR`.
    pub(super) fn agree(&self, one: &[u8], other: &[u8]) -> bool {
        let same = |range: std::ops::Range<usize>| one[range.clone()] == other[range];
        let masked = |at: usize, mask: u8| (one[at] ^ other[at]) & mask == 0;
        let start = self.start;
        let network = if self.six {
            same(0..1) && masked(1, !0x30) && same(2..4) && same(6..start)
        } else {
            same(0..1) && masked(1, !3) && same(6..10) && same(12..start)
        };
        network
            && same(start..start + 4)
            && match self.transport {
                Transport::Tcp => {
                    same(start + 8..start + 13)
                        && masked(start + 13, !(FIN | PSH | CWR))
                        && same(start + 14..start + 16)
                        && same(start + 18..self.payload)
                }
                Transport::Udp => true,
            }
    }

    /// Appends to `out` the headers of a part of the frame whose headers are `frame`. The transport's checksum is partial: the sum of
    /// the pseudo-header.
    pub(super) fn header(&self, frame: &[u8], part: Part, out: &mut Vec<u8>) {
        let at = out.len();
        out.extend_from_slice(&frame[..self.payload]);
        let header = &mut out[at..];
        let mut put = |at: usize, value: u16| header[at..at + 2].copy_from_slice(&value.to_be_bytes());
        let total = self.payload + part.length;
        let above = (total - self.start) as u16;
        if self.six {
            put(4, (total - 40) as u16);
        } else {
            put(2, total as u16);
            put(4, self.id(frame).wrapping_add(part.index));
        }
        match self.transport {
            Transport::Tcp => {
                let [a, b, c, d] = self.sequence(frame).wrapping_add(part.before).to_be_bytes();
                put(self.start + 4, u16::from_be_bytes([a, b]));
                put(self.start + 6, u16::from_be_bytes([c, d]));
                header[self.start + 13] = part.flags;
            }
            Transport::Udp => put(self.start + 4, above),
        }
        set_ecn(header, part.ecn);
        if !self.six {
            header[10..12].fill(0);
            let checksum = !(sum(&header[..self.start]) as u16);
            header[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
        let addresses = if self.six { sum(&header[8..40]) } else { sum(&header[12..20]) };
        let protocol = if self.transport == Transport::Tcp { 6 } else { 17 };
        let pseudo = fold(addresses + protocol + u32::from(above));
        let field = self.start + self.checksum();
        header[field..field + 2].copy_from_slice(&pseudo.to_be_bytes());
    }
}

/// Completes a checksum that covers the packet from `start` on, with its field at `field`. UDP's is never 0, which would mean that
/// there is none (RFC 768).
pub(super) fn complete(packet: &mut [u8], start: usize, field: usize) {
    let checksum = match !(sum(&packet[start..]) as u16) {
        0 => 0xffff,
        checksum => checksum,
    };
    packet[field..field + 2].copy_from_slice(&checksum.to_be_bytes());
}
