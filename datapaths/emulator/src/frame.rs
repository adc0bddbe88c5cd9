//! IP packets: the little of their headers that an emulator reads and writes, and the large frames of which they are part.
//!
//! The kernel sends up to 64 kB of a flow as one frame with one header (segmentation offload). A path is made of packets, so a
//! frame becomes its packets as it arrives ([`Frame::split`]), which share its bytes; those that leave together and
//! follow each other become a frame again ([`Joiner`]). Neither copies payload.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use paceline_cc::Codepoint;

mod buffer;
mod checksum;
mod join;
mod layout;
mod packet;
mod virtio;

pub(crate) use buffer::Pool;
pub use join::{Joined, Joiner};
pub(crate) use packet::Entry;
pub use packet::{Frame, MalformedFrame};
pub use virtio::{FrameKind, PartialChecksum, Segmentation, Virtio};

/// Largest IP packet.
pub const MAX_PACKET: usize = 65_535;

/// What identifies a flow. Ports are 0 where the protocol has none, or in a fragment that is not the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowKey {
    /// IP protocol number (IPv6: of the header after the extensions).
    pub protocol: u8,
    /// Who sent it.
    pub source: SocketAddr,
    /// Whom it is for.
    pub destination: SocketAddr,
}

/// The ECN field of an IP packet; not ECN-capable when it is not an IP packet.
pub fn ecn(packet: &[u8]) -> Codepoint {
    let bits = match packet {
        [first, class, ..] if first >> 4 == 4 => class & 3,
        [first, class, ..] if first >> 4 == 6 => class >> 4 & 3,
        _ => 0,
    };
    match bits {
        0 => Codepoint::NotEct,
        1 => Codepoint::Ect1,
        2 => Codepoint::Ect0,
        _ => Codepoint::Ce,
    }
}

/// Writes the ECN field of an IP packet and updates the header's checksum (RFC 1624). Leaves alone what is not an IP packet.
pub fn set_ecn(packet: &mut [u8], ecn: Codepoint) {
    let bits = match ecn {
        Codepoint::NotEct => 0,
        Codepoint::Ect1 => 1,
        Codepoint::Ect0 => 2,
        Codepoint::Ce => 3,
    };
    match packet {
        [first, class, ..] if *first >> 4 == 6 => *class = *class & !0x30 | bits << 4,
        [first, class, _, _, _, _, _, _, _, _, high, low, ..] if *first >> 4 == 4 => {
            let (old, new) = (*class, *class & !3 | bits);
            *class = new;
            // The word that the class shares with the version, eq. 3.
            let word = |class: u8| u32::from(u16::from_be_bytes([*first, class]));
            let sum = u32::from(!u16::from_be_bytes([*high, *low])) + (0xffff - word(old)) + word(new);
            let sum = (sum & 0xffff) + (sum >> 16);
            let sum = (sum & 0xffff) + (sum >> 16);
            [*high, *low] = (!(sum as u16)).to_be_bytes();
        }
        _ => {}
    }
}

/// What is above IP in a packet: its protocol number (IPv6: of the header after the extensions) and its bytes, none when it is a
/// fragment that is not the first, or cut short. `None` when it is not an IP packet or its IP header is cut short.
pub fn upper(packet: &[u8]) -> Option<(u8, Option<&[u8]>)> {
    match packet.first()? >> 4 {
        4 => {
            let header = packet.first_chunk::<20>()?;
            let length = usize::from(header[0] & 15) * 4;
            if length < header.len() {
                return None;
            }
            let later = u16::from_be_bytes([header[6], header[7]]) & 0x1fff != 0;
            Some((header[9], if later { None } else { packet.get(length..) }))
        }
        6 => packet.first_chunk::<40>().map(|_| after_extensions(packet)),
        _ => None,
    }
}

/// The flow of an IP packet; `None` when it is not an IP packet or is cut short.
pub fn flow_key(packet: &[u8]) -> Option<FlowKey> {
    let (protocol, payload) = upper(packet)?;
    let four = |at: usize| packet[at..].first_chunk::<4>().map(|bytes| IpAddr::V4(Ipv4Addr::from(*bytes)));
    let six = |at: usize| packet[at..].first_chunk::<16>().map(|bytes| IpAddr::V6(Ipv6Addr::from(*bytes)));
    let (source, destination) = if packet[0] >> 4 == 4 { (four(12)?, four(16)?) } else { (six(8)?, six(24)?) };
    let ports = match (protocol, payload) {
        // TCP, UDP, DCCP, SCTP, UDP-Lite.
        (6 | 17 | 33 | 132 | 136, Some([a, b, c, d, ..])) => {
            (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]))
        }
        _ => (0, 0),
    };
    let (source, destination) = (SocketAddr::new(source, ports.0), SocketAddr::new(destination, ports.1));
    Some(FlowKey { protocol, source, destination })
}

/// A number below 1024 for the flow of a packet, for queues that tell flows apart: FQ-CoDel has this many.
pub fn flow_number(packet: &[u8]) -> u32 {
    let mut hasher = DefaultHasher::new();
    flow_key(packet).hash(&mut hasher);
    (hasher.finish() % 1024) as u32
}

/// What no router changes of an IP packet, as a number: neither its TTL or hop limit, nor its class with the ECN field, nor a checksum
/// of these, nor hop-by-hop options, which are for routers to write into. Packets of one connection that are under way at once
/// have different ones, as they differ in their number or in what comes first in them.
pub fn fingerprint(packet: &[u8]) -> u64 {
    /// TCP's largest header, and some bytes behind it.
    const ENOUGH: usize = 80;
    let behind = 40 + hop_by_hop(packet);
    let four = [(2, 8), (9, 10), (12, 20 + ENOUGH)];
    let six = [(2, 7), (8, 40), (behind, behind + ENOUGH)];
    let kept = match packet.first().map(|first| first >> 4) {
        Some(4) => &four[..],
        Some(6) => &six,
        _ => &[],
    };
    let mut hasher = DefaultHasher::new();
    for &(from, to) in kept {
        let part = packet.get(from..to.min(packet.len())).unwrap_or_default();
        hasher.write(part);
    }
    hasher.finish()
}

/// Bytes of the hop-by-hop header of an IPv6 packet, which comes first if there is one.
fn hop_by_hop(packet: &[u8]) -> usize {
    match (packet.get(6), packet.get(40..)) {
        (Some(0), Some([_, length, ..])) => 8 + usize::from(*length) * 8,
        _ => 0,
    }
}

/// The protocol above IPv6 and its bytes; none when it is a fragment that is not the first, or cut short.
fn after_extensions(packet: &[u8]) -> (u8, Option<&[u8]>) {
    let (mut protocol, mut at) = (packet[6], 40);
    loop {
        let Some(rest) = packet.get(at..) else { return (protocol, None) };
        match (protocol, rest) {
            // Hop-by-hop, routing, destination options (RFC 8200 §4): next header, length in units of 8 bytes after the
            // first.
            (0 | 43 | 60, [next, length, ..]) => (protocol, at) = (*next, at + 8 + usize::from(*length) * 8),
            (44, [next, _, high, low, ..]) => {
                if u16::from_be_bytes([*high, *low]) & !7 != 0 {
                    return (*next, None);
                }
                (protocol, at) = (*next, at + 8);
            }
            _ => return (protocol, Some(rest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: [Codepoint; 4] = [Codepoint::NotEct, Codepoint::Ect0, Codepoint::Ect1, Codepoint::Ce];

    /// An IPv4 header with a right checksum (the example of Wikipedia's article on it), and two ports.
    const V4: [u8; 24] = [
        0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0x00, 0x01, 0xc0, 0xa8,
        0x00, 0xc7, 0x04, 0xd2, 0x16, 0x2e,
    ];

    fn v6(next: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, 0, next, 64];
        packet.extend([[0; 15], [1; 15]].concat());
        packet.extend([7, 8]);
        packet.extend(payload);
        packet
    }

    fn sum(packet: &[u8]) -> u32 {
        let sum: u32 = packet[..20].chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
        (sum & 0xffff) + (sum >> 16)
    }

    #[test]
    fn ecn_is_written_and_read_back() {
        let mut packet = V4.to_vec();
        packet[1] = 0xb8;
        packet[10..12].copy_from_slice(&(0xb861_u16 - 0xb8).to_be_bytes());
        assert_eq!(sum(&packet), 0xffff);
        for (from, to) in FIELDS.iter().flat_map(|from| FIELDS.map(|to| (from, to))) {
            set_ecn(&mut packet, *from);
            set_ecn(&mut packet, to);
            assert_eq!((ecn(&packet), sum(&packet), packet[1] & !3), (to, 0xffff, 0xb8));
        }
        let mut packet = v6(17, &[0; 8]);
        (packet[0], packet[1]) = (0x6b, 0x8f);
        for to in FIELDS {
            set_ecn(&mut packet, to);
            assert_eq!((ecn(&packet), packet[0], packet[1] & !0x30), (to, 0x6b, 0x8f & !0x30));
        }
    }

    #[test]
    fn a_packet_is_known_again_behind_a_router_and_apart_from_another() {
        let mut far = V4;
        (far[8], far[10], far[11]) = (V4[8] - 1, !V4[10], 3);
        set_ecn(&mut far, Codepoint::Ce);
        assert_eq!(fingerprint(&far), fingerprint(&V4));
        for at in [4, 12, 19, 23] {
            let mut other = V4;
            other[at] ^= 1;
            assert_ne!(fingerprint(&other), fingerprint(&V4), "{at}");
        }
        let near = v6(17, &[7; 60]);
        let mut far = near.clone();
        far[7] -= 1;
        set_ecn(&mut far, Codepoint::Ce);
        assert_eq!(fingerprint(&far), fingerprint(&near));
        far[99] ^= 1;
        assert_ne!(fingerprint(&far), fingerprint(&near));
        // Options that a router writes into are as long behind it.
        let near = v6(0, &[&[6, 1][..], &[0; 14], &[7; 20]].concat());
        let mut far = near.clone();
        far[55] = 1;
        assert_eq!(fingerprint(&far), fingerprint(&near));
        far[56] ^= 1;
        assert_ne!(fingerprint(&far), fingerprint(&near));
    }

    #[test]
    fn flows_have_keys() {
        let key =
            |packet: &[u8]| flow_key(packet).map(|key| format!("{} {} {}", key.protocol, key.source, key.destination));
        assert_eq!(key(&V4).as_deref(), Some("17 192.168.0.1:1234 192.168.0.199:5678"));
        let mut later = V4;
        later[7] = 1;
        assert_eq!(key(&later).as_deref(), Some("17 192.168.0.1:0 192.168.0.199:0"));
        let (hop, fragment) = ([44, 0, 0, 0, 0, 0, 0, 0], [6, 0, 0, 1, 0, 0, 0, 0]);
        let ports = [0, 80, 1, 0];
        let packet = v6(0, &[&hop[..], &fragment, &ports].concat());
        let addresses = flow_key(&packet).expect("a packet");
        assert_eq!((addresses.protocol, addresses.source.port(), addresses.destination.port()), (6, 80, 256));
        let mut second = packet.clone();
        second[40 + 8 + 3] = 8;
        let second = flow_key(&second).expect("a packet");
        assert_eq!((second.protocol, second.source.port(), second.source.ip()), (6, 0, addresses.source.ip()));
    }

    #[test]
    fn what_is_cut_short_or_not_an_ip_packet_does_no_harm() {
        for packet in [V4.to_vec(), v6(0, &[60, 0, 0, 0, 0, 0, 0, 0, 43, 255, 0, 0]), vec![0x12; 60], vec![0xff; 60]] {
            for length in 0..packet.len() {
                let mut packet = packet[..length].to_vec();
                let _ = (flow_key(&packet), ecn(&packet), fingerprint(&packet));
                set_ecn(&mut packet, Codepoint::Ce);
            }
        }
        assert_eq!(flow_key(&[]), None);
        assert_eq!(flow_key(&[0x12; 60]), None);
        assert_eq!(flow_key(&[0x40; 60]), None, "a header that ends before its addresses");
    }
}
