//! IP packets and TCP headers in captured frames.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use pcap_file::DataLink;

/// What is needed of a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Who sent it.
    pub from: SocketAddr,
    /// To whom.
    pub to: SocketAddr,
    /// Number of its first byte.
    pub seq: u32,
    /// The next byte that its sender waits for.
    pub ack: u32,
    /// Payload bytes, by the IP header: a capture may hold less.
    pub bytes: u32,
    /// Whether it opens the connection.
    pub syn: bool,
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The segment in a frame, where it holds one.
pub fn segment(link: DataLink, frame: &[u8]) -> Option<Segment> {
    internet(packet(link, frame)?)
}

/// The frame from its IP header on, where it may have one.
pub fn packet(link: DataLink, frame: &[u8]) -> Option<&[u8]> {
    let skip = match link {
        DataLink::ETHERNET => {
            let mut at = 12;
            // 802.1Q and 802.1ad tags.
            while matches!(u16_at(frame, at)?, 0x8100 | 0x88a8) && at < 24 {
                at += 4;
            }
            at + 2
        }
        DataLink::LINUX_SLL => 16,
        DataLink::LINUX_SLL2 => 20,
        DataLink::NULL | DataLink::LOOP => 4,
        _ => 0,
    };
    frame.get(skip..)
}

/// The segment in an IP packet, where it holds one.
pub fn internet(packet: &[u8]) -> Option<Segment> {
    match packet.first()? >> 4 {
        4 => {
            let header = usize::from(packet[0] & 15) * 4;
            let total = u32::from(u16_at(packet, 2)?);
            // The first fragment has the header.
            if *packet.get(9)? != 6 || u16_at(packet, 6)? & 0x1fff != 0 || header < 20 {
                return None;
            }
            let address = |at| Some(IpAddr::V4(Ipv4Addr::from(u32_at(packet, at)?)));
            tcp(packet.get(header..)?, address(12)?, address(16)?, total.checked_sub(header as u32)?)
        }
        6 => {
            let address = |at: usize| {
                let bytes: [u8; 16] = packet.get(at..at + 16)?.try_into().ok()?;
                Some(IpAddr::V6(Ipv6Addr::from(bytes)))
            };
            let (mut next, mut at) = (*packet.get(6)?, 40_usize);
            let end = 40 + u32::from(u16_at(packet, 4)?);
            // Hop-by-Hop, routing and destination options.
            while matches!(next, 0 | 43 | 60) {
                next = *packet.get(at)?;
                at += 8 + 8 * usize::from(*packet.get(at + 1)?);
            }
            if next != 6 {
                return None;
            }
            tcp(packet.get(at..)?, address(8)?, address(24)?, end.checked_sub(at as u32)?)
        }
        _ => None,
    }
}

fn tcp(header: &[u8], from: IpAddr, to: IpAddr, length: u32) -> Option<Segment> {
    let offset = u32::from(*header.get(12)? >> 4) * 4;
    let flags = *header.get(13)?;
    Some(Segment {
        from: SocketAddr::new(from, u16_at(header, 0)?),
        to: SocketAddr::new(to, u16_at(header, 2)?),
        seq: u32_at(header, 4)?,
        ack: u32_at(header, 8)?,
        bytes: length.checked_sub(offset)?,
        syn: flags & 2 != 0,
    })
}
