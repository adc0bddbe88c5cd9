//! IP packets and TCP headers: what is known of a packet when its bytes are gone. `etherparse` reads the headers.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};

use etherparse::{IpNumber, LaxIpSlice, TcpHeaderSlice, TcpOptionElement};
use paceline_transport::seen::SeenSegment;

/// Where in a capture of emulated links (`paceline emulate --log`, `race --pcap`) a packet was seen. Hops are numbered as those of a
/// race: of link `n` down is `2 n`, up `2 n + 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapturePlace {
    /// In another capture: the only place.
    Anywhere,
    /// Where it entered this hop.
    Entered(u32),
    /// Where it left this hop.
    Left(u32),
    /// Where it was dropped on this link.
    Dropped(u32),
}

/// The SACK blocks of a segment: as many as its header has space for.
pub type Sacks = [(u32, u32); 4];

/// A captured IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapturedPacket {
    /// Its number in the file, from 1.
    pub number: u64,
    /// Nanoseconds since 1970.
    pub at: i64,
    /// Where it was seen.
    pub place: CapturePlace,
    /// A number for each interface, and for each of its directions.
    pub interface: u64,
    /// Who sent it; the port is 0 where there is none.
    pub from: SocketAddr,
    /// To whom.
    pub to: SocketAddr,
    /// Its protocol (IANA's numbers).
    pub protocol: u8,
    /// Bytes from its IP header on, on the wire.
    pub bytes: u32,
    /// The TCP segment in it, where there is one.
    pub segment: Option<SeenSegment>,
    /// Its SACK blocks (RFC 2018), as far as there are some and were kept: from where to where, equal of one that is not there.
    pub sacks: Sacks,
    /// Equal for the same packet wherever it is seen: of what a path leaves as it is, of the first 128 bytes.
    pub print: u64,
    /// It has a number of its own (IPv4), so that another packet has another `print`.
    pub numbered: bool,
}

/// The packet whose IP header begins `bytes`; `wire` is how many there were on the wire. Its time and place are still to be filled in.
pub(super) fn packet(bytes: &[u8], wire: u32) -> Option<CapturedPacket> {
    let (ip, _) = LaxIpSlice::from_slice(bytes).ok()?;
    let payload = ip.payload();
    let (length, before, first, numbered) = match &ip {
        LaxIpSlice::Ipv4(four) => {
            let header = four.header();
            let before = header.slice().len() + four.extensions().auth.map_or(0, |auth| auth.slice().len());
            // 0 where the card was to cut it into packets, and above 65535 bytes.
            let length = if header.total_len() == 0 { wire } else { header.total_len().into() };
            (length, before, header.fragments_offset().value() == 0, header.identification() != 0)
        }
        LaxIpSlice::Ipv6(six) => {
            let header = six.header();
            let options = six.extensions().slice();
            let length = match header.payload_length() {
                0 if header.next_header() == IpNumber::IPV6_HEADER_HOP_BY_HOP => {
                    jumbo(options).map_or(wire, |length| length.saturating_add(40))
                }
                0 => wire,
                length => u32::from(length) + 40,
            };
            (length, 40 + options.len(), !six.is_payload_fragmented(), false)
        }
    };
    let protocol = payload.ip_number.0;
    // A later fragment has no ports.
    let ports = payload.payload.first_chunk::<4>().filter(|_| first && matches!(protocol, 6 | 17 | 132 | 136));
    let [from, to] = ports.map_or([0, 0], |&[a, b, c, d]| [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]);
    let tcp = Some(payload.payload).filter(|_| first && protocol == 6);
    let segment = tcp.and_then(|tcp| segment(tcp, length.checked_sub(before as u32)));
    Some(CapturedPacket {
        number: 0,
        at: 0,
        place: CapturePlace::Anywhere,
        interface: 0,
        from: SocketAddr::new(ip.source_addr(), from),
        to: SocketAddr::new(ip.destination_addr(), to),
        protocol,
        bytes: length,
        segment,
        sacks: tcp.and_then(sacks).unwrap_or_default(),
        print: print(&bytes[..bytes.len().min(length as usize)], ip.source_addr()),
        numbered,
    })
}

/// The length that a Hop-by-Hop header says (RFC 2675 section 2).
fn jumbo(header: &[u8]) -> Option<u32> {
    let mut options = header.get(2..)?;
    loop {
        options = match options {
            [0, rest @ ..] => rest,
            [0xc2, 4, length @ ..] => return length.first_chunk().map(|four| u32::from_be_bytes(*four)),
            [_, length, rest @ ..] => rest.get(usize::from(*length)..)?,
            _ => return None,
        };
    }
}

/// The segment of which `kept` was kept, and which has `length` bytes.
fn segment(kept: &[u8], length: Option<u32>) -> Option<SeenSegment> {
    // Options that were not kept are not needed, the flags are.
    kept.get(13)?;
    let mut header = [0; 60];
    let count = kept.len().min(header.len());
    header[..count].copy_from_slice(&kept[..count]);
    let tcp = TcpHeaderSlice::from_slice(&header).ok()?;
    Some(SeenSegment {
        seq: tcp.sequence_number(),
        ack: tcp.ack().then(|| tcp.acknowledgment_number()),
        bytes: length?.checked_sub(u32::from(tcp.data_offset()) * 4)?,
        syn: tcp.syn(),
        control: tcp.syn() || tcp.fin() || tcp.rst(),
        window: if kept.len() >= 16 { tcp.window_size() } else { u16::MAX },
    })
}

/// The blocks of a header that was kept whole.
fn sacks(kept: &[u8]) -> Option<Sacks> {
    let tcp = TcpHeaderSlice::from_slice(kept).ok()?;
    let found = tcp.options_iterator().find_map(|option| match option {
        Ok(TcpOptionElement::SelectiveAcknowledgement(first, more)) => Some((first, more)),
        _ => None,
    });
    let (first, [a, b, c]) = found?;
    Some([Some(first), a, b, c].map(Option::unwrap_or_default))
}

/// Of all but the ECN field, what is left of the packet's life, and, of IPv4, the checksum over them.
fn print(ip: &[u8], from: IpAddr) -> u64 {
    let mut head = [0; 128];
    let length = ip.len().min(head.len());
    head[..length].copy_from_slice(&ip[..length]);
    match from {
        IpAddr::V4(_) => {
            head[1] = 0;
            head[8] = 0;
            head[10] = 0;
            head[11] = 0;
        }
        IpAddr::V6(_) => {
            head[0] = 0x60;
            head[1] &= 0x0f;
            head[7] = 0;
        }
    }
    let mut hasher = DefaultHasher::new();
    head[..length].hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 packet with a TCP header of 20 bytes.
    fn four(total: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x45, 0, 0, 0, 0, 9, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        bytes[2..4].copy_from_slice(&total.to_be_bytes());
        bytes.extend([1, 187, 195, 80, 0, 0, 0, 7, 0, 0, 0, 8, 0x50, 0x10, 0, 0, 0, 0, 0, 0]);
        bytes.extend(payload);
        bytes
    }

    fn six(length: u16, next: u8, behind: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x60, 0, 0, 0, 0, 0, next, 64];
        bytes[4..6].copy_from_slice(&length.to_be_bytes());
        bytes.extend([&[0xfd; 32][..], behind].concat());
        bytes
    }

    #[test]
    fn lengths_are_those_of_the_wire() {
        let lengths =
            |bytes: &[u8], wire| packet(bytes, wire).map(|packet| (packet.bytes, packet.segment.unwrap().bytes));
        assert_eq!(lengths(&four(1500, &[0; 24]), 1514), Some((1500, 1460)));
        assert_eq!(lengths(&four(0, &[0; 24]), 60_040), Some((60_040, 60_000)));
        assert_eq!(lengths(&four(0, &[0; 24]), 200_040), Some((200_040, 200_000)));
        let tcp = &four(0, &[])[20..];
        assert_eq!(lengths(&six(1000, 6, tcp), 9), Some((1040, 980)));
        assert_eq!(lengths(&six(0, 6, tcp), 100_060), Some((100_060, 100_000)));
        // A pad, and the jumbo payload option.
        let option = [&[6, 0, 0xc2, 4, 0, 1, 0x86, 0xa0 + 28][..], tcp].concat();
        assert_eq!(lengths(&six(0, 0, &option), 0), Some((100_068, 100_000)));
        let other = [&[6, 0, 1, 4, 0, 0, 0, 0][..], tcp].concat();
        assert_eq!(lengths(&six(0, 0, &other), 100_068), Some((100_068, 100_000)));
    }

    #[test]
    fn a_header_of_which_little_was_kept_is_read() {
        let whole = four(1500, &[]);
        let seen = packet(&whole, 1500).unwrap();
        for length in 34..whole.len() {
            assert_eq!(
                packet(&whole[..length], 1500).unwrap().segment.map(|one| (one.seq, one.bytes)),
                Some((7, 1460))
            );
        }
        for length in 0..34 {
            let packet = packet(&whole[..length], 1500);
            assert_eq!(
                packet.map(|packet| (packet.to.ip(), packet.segment)),
                (length >= 20).then_some((seen.to.ip(), None))
            );
        }
        assert_eq!((seen.to.port(), seen.from.port(), seen.numbered), (50000, 443, true));
    }

    #[test]
    fn blocks_are_read_where_all_of_the_header_was_kept() {
        let mut whole = four(0, &[1, 1, 5, 18, 0, 0, 0, 9, 0, 0, 0, 12, 255, 255, 255, 255, 0, 0, 0, 3]);
        whole[32] = 0xa0;
        let sacks = |bytes: &[u8]| packet(bytes, 60).map(|packet| packet.sacks);
        assert_eq!(sacks(&whole), Some([(9, 12), (u32::MAX, 3), (0, 0), (0, 0)]));
        for length in 34..whole.len() {
            assert_eq!(sacks(&whole[..length]), Some(Sacks::default()), "{length}");
        }
        for odd in [[5, 17], [5, 2], [5, 0], [5, 40], [8, 1], [5, 10]] {
            let mut odd_one = whole.clone();
            odd_one[42..44].copy_from_slice(&odd);
            let blocks = sacks(&odd_one).unwrap();
            assert!(blocks == Sacks::default() || odd == [5, 10] && blocks[0] == (9, 12), "{odd:?}: {blocks:?}");
        }
    }

    #[test]
    fn a_path_leaves_the_print_as_it_is() {
        let whole = four(60, &[7; 20]);
        let print = |bytes: &[u8]| packet(bytes, 60).unwrap().print;
        let mut passed = whole.clone();
        (passed[1], passed[8], passed[10]) = (3, 63, 99);
        assert_eq!(print(&passed), print(&whole));
        // What a card adds behind the packet is not of it.
        passed.extend([1, 2, 3]);
        assert_eq!(print(&passed), print(&whole));
        passed[27] = 8;
        assert_ne!(print(&passed), print(&whole));
    }
}
