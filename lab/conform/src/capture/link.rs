//! From a captured frame to its IP packet, or to the name of what it holds instead.
//!
//! Sources: the list of link types (<https://www.tcpdump.org/linktypes.html>), IEEE 802's list of `EtherType`s. `etherparse` reads VLAN and
//! MACsec tags.

use std::fmt;

use etherparse::{EtherType, LaxMacsecSlice, SingleVlanSlice};

use super::records::Link;

/// An IP packet within a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Internet<'a> {
    /// From its IP header on, as far as it was kept.
    pub bytes: &'a [u8],
    /// The kernel's number of the interface, where the frame says it (Linux "cooked" version 2).
    pub interface: Option<u32>,
    /// Whether this host sent it, where the frame says so.
    pub sent: Option<bool>,
}

/// What a frame holds that is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unread {
    /// A link type.
    Link(u16),
    /// A protocol in an Ethernet frame or behind a header of its kind.
    Ether(u16),
    /// A protocol of PPP.
    Ppp(u16),
    /// IEEE 802.2, which carries no IP as a rule.
    Llc,
    /// Too few bytes of it were kept.
    Short,
    /// Neither version 4 nor version 6 where an IP header should begin.
    Version,
}

impl Unread {
    /// Ordinary neighbours of IP packets: no reason for a note.
    pub(super) fn is_usual(self) -> bool {
        // ARP, LLDP, PPPoE discovery, EAPOL, pause frames, LACP, time.
        matches!(
            self,
            Self::Llc | Self::Ether(0x0806 | 0x88cc | 0x8863 | 0x888e | 0x8808 | 0x8809 | 0x88f7) | Self::Ppp(0x8000..)
        )
    }
}

/// `EtherType`s by their names.
const ETHER: [(u16, &str); 17] = [
    (0x0806, "ARP"),
    (0x22f3, "TRILL"),
    (0x6558, "bridged Ethernet"),
    (0x8808, "pause frames"),
    (0x8809, "LACP"),
    (0x880b, "PPP"),
    (0x8847, "MPLS without IP"),
    (0x8848, "MPLS without IP"),
    (0x8863, "PPPoE discovery"),
    (0x8864, "PPPoE"),
    (0x888e, "802.1X"),
    (0x88cc, "LLDP"),
    (0x88e5, "MACsec, encrypted"),
    (0x88e7, "802.1ah"),
    (0x88f7, "PTP"),
    (0x8906, "FCoE"),
    (0x894f, "NSH"),
];

/// Link types that are met, by their names without `LINKTYPE_`.
const LINKS: [(u16, &str); 47] = [
    (3, "AX25"),
    (6, "IEEE802_5, Token Ring"),
    (7, "ARCNET_BSD"),
    (8, "SLIP"),
    (10, "FDDI"),
    (11, "ATM_RFC1483"),
    (105, "IEEE802_11, Wi-Fi"),
    (107, "FRELAY, Frame Relay"),
    (109, "ENC, IPsec of OpenBSD"),
    (117, "PFLOG"),
    (119, "IEEE802_11_PRISM, Wi-Fi"),
    (122, "IP_OVER_FC"),
    (123, "SUNATM"),
    (127, "IEEE802_11_RADIOTAP, Wi-Fi"),
    (138, "APPLE_IP_OVER_IEEE1394"),
    (140, "MTP2"),
    (141, "MTP3"),
    (143, "DOCSIS"),
    (144, "LINUX_IRDA"),
    (147, "USER0"),
    (163, "IEEE802_11_AVS, Wi-Fi"),
    (187, "BLUETOOTH_HCI_H4"),
    (189, "USB_LINUX"),
    (192, "PPI, Wi-Fi"),
    (195, "IEEE802_15_4_WITHFCS"),
    (197, "ERF"),
    (201, "BLUETOOTH_HCI_H4_WITH_PHDR"),
    (209, "I2C_LINUX"),
    (215, "IEEE802_15_4_NONASK_PHY"),
    (220, "USB_LINUX_MMAPPED"),
    (224, "FC_2, Fibre Channel"),
    (227, "CAN_SOCKETCAN"),
    (230, "IEEE802_15_4_NOFCS"),
    (231, "DBUS"),
    (239, "NFLOG"),
    (240, "NETANALYZER"),
    (242, "IPOIB"),
    (243, "MPEG_2_TS"),
    (247, "INFINIBAND"),
    (248, "SCTP"),
    (249, "USBPCAP"),
    (251, "BLUETOOTH_LE_LL"),
    (252, "WIRESHARK_UPPER_PDU"),
    (253, "NETLINK"),
    (271, "VSOCK"),
    (274, "ETHERNET_MPACKET"),
    (285, "DSA_TAG_DSA"),
];

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |list: &[(u16, &'static str)], number: u16| {
            list.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
        };
        match self {
            Self::Link(number) => match named(&LINKS, *number) {
                Some(name) => write!(f, "link type {number} ({name})"),
                None => write!(f, "link type {number}"),
            },
            Self::Ether(number) => match named(&ETHER, *number) {
                Some(name) => write!(f, "{name} (EtherType {number:#06x})"),
                None => write!(f, "EtherType {number:#06x}"),
            },
            Self::Ppp(number) => write!(f, "protocol {number:#06x} of PPP"),
            Self::Llc => f.write_str("IEEE 802.2 (LLC)"),
            Self::Short => f.write_str("frames of which too few bytes were kept"),
            Self::Version => f.write_str("frames without an IP header where their link type has it"),
        }
    }
}

/// The IP packet in a frame.
pub(super) fn internet(link: Link, frame: &[u8]) -> Result<Internet<'_>, Unread> {
    let plain = |bytes| Ok(Internet { bytes, interface: None, sent: None });
    match link.number {
        1 => plain(ethernet(frame)?),
        // PPP alone, in frames like HDLC's, over Ethernet, as pppd logs it, and with a byte for the direction.
        9 => plain(ppp(frame)?),
        50 => match frame {
            [0x0f | 0x8f, 0, ..] => plain(ether(u16_at(frame, 2)?, rest(frame, 4)?)?),
            _ => plain(ppp(frame)?),
        },
        51 => plain(ether(0x8864, frame)?),
        166 | 204 => plain(ppp(rest(frame, 1)?)?),
        // Raw IP, by the numbers of BSD and Linux as well.
        12 | 14 | 101 | 228 | 229 => plain(versioned(frame)?),
        0 | 108 => plain(loopback(frame)?),
        // HDLC of Cisco.
        104 => plain(ether(u16_at(frame, 2)?, rest(frame, 4)?)?),
        113 => {
            let bytes = ether(u16_at(frame, 14)?, rest(frame, 16)?)?;
            Ok(Internet { bytes, interface: None, sent: Some(u16_at(frame, 0)? == 4) })
        }
        276 => {
            let interface = u32::from(u16_at(frame, 4)?) << 16 | u32::from(u16_at(frame, 6)?);
            let bytes = ether(u16_at(frame, 0)?, rest(frame, 20)?)?;
            Ok(Internet { bytes, interface: Some(interface), sent: Some(frame[10] == 4) })
        }
        // PKTAP of macOS: a header that says its length and the link type behind it, both in the host's order.
        149 | 258 => {
            let field = |at: usize| Some(u32::from_le_bytes(*frame.get(at..)?.first_chunk()?));
            let (length, within) = field(0).zip(field(8)).ok_or(Unread::Short)?;
            let number = u16::try_from(within).unwrap_or(u16::MAX);
            if matches!(number, 149 | 258) {
                return Err(Unread::Link(number));
            }
            internet(Link { number, ..link }, rest(frame, length as usize)?)
        }
        number => Err(Unread::Link(number)),
    }
}

fn rest(bytes: &[u8], at: usize) -> Result<&[u8], Unread> {
    bytes.get(at..).ok_or(Unread::Short)
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16, Unread> {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map(|two| u16::from_be_bytes(*two)).ok_or(Unread::Short)
}

fn versioned(bytes: &[u8]) -> Result<&[u8], Unread> {
    match bytes.first().ok_or(Unread::Short)? >> 4 {
        4 | 6 => Ok(bytes),
        _ => Err(Unread::Version),
    }
}

fn ethernet(frame: &[u8]) -> Result<&[u8], Unread> {
    let kind = u16_at(frame, 12)?;
    // IEEE 802.3 has a length there.
    if kind < 0x0600 { llc(rest(frame, 14)?) } else { ether(kind, rest(frame, 14)?) }
}

/// SNAP without an organization, and IP's own number of IEEE 802.2.
fn llc(bytes: &[u8]) -> Result<&[u8], Unread> {
    match bytes {
        [0xaa, 0xaa, 3, 0, 0, 0, ..] => ether(u16_at(bytes, 6)?, rest(bytes, 8)?),
        [6, 6, 3, ip @ ..] => versioned(ip),
        [] => Err(Unread::Short),
        _ => Err(Unread::Llc),
    }
}

/// What stands behind an `EtherType`.
fn ether(mut kind: u16, mut bytes: &[u8]) -> Result<&[u8], Unread> {
    // Tags, one within another.
    for _ in 0..8 {
        let (EtherType(next), behind) = match kind {
            0x0800 | 0x86dd => return versioned(bytes),
            // 802.1Q, 802.1ad, and what stood for it before.
            0x8100 | 0x88a8 | 0x9100 | 0x9200 => {
                let tag = SingleVlanSlice::from_slice(bytes).map_err(|_| Unread::Short)?;
                (tag.ether_type(), tag.payload_slice())
            }
            0x88e5 => {
                let tag = LaxMacsecSlice::from_slice(bytes).map_err(|_| Unread::Short)?;
                let open = tag.ether_payload().ok_or(Unread::Ether(kind))?;
                (open.ether_type, open.payload)
            }
            // PPPoE: version, code, session, length.
            0x8864 => return ppp(rest(bytes, 6)?),
            0x880b => return ppp(bytes),
            0x8847 | 0x8848 => return mpls(bytes).map_err(|_| Unread::Ether(kind)),
            // Cooked captures have these two for 802.3 and 802.2.
            1 | 4 => return llc(bytes),
            _ => return Err(Unread::Ether(kind)),
        };
        (kind, bytes) = (next, behind);
    }
    Err(Unread::Ether(kind))
}

/// Labels up to the one that says that it is the last (RFC 3032 section 2.1). What they stand for is not said.
fn mpls(mut bytes: &[u8]) -> Result<&[u8], Unread> {
    loop {
        let (label, behind) = bytes.split_at_checked(4).ok_or(Unread::Short)?;
        if label[2] & 1 == 1 {
            return versioned(behind);
        }
        bytes = behind;
    }
}

/// A frame of PPP, whose first two bytes and whose number's first byte may be left out (RFC 1661 section 6).
fn ppp(frame: &[u8]) -> Result<&[u8], Unread> {
    let frame = frame.strip_prefix(&[0xff, 3]).unwrap_or(frame);
    let first = *frame.first().ok_or(Unread::Short)?;
    let (number, length) = if first & 1 == 1 { (first.into(), 1) } else { (u16_at(frame, 0)?, 2) };
    match number {
        0x21 | 0x57 => versioned(rest(frame, length)?),
        _ => Err(Unread::Ppp(number)),
    }
}

/// A family of addresses in the order of the host that captured, or of the network, and the packet.
fn loopback(frame: &[u8]) -> Result<&[u8], Unread> {
    let family = frame.first_chunk().map(|four| u32::from_be_bytes(*four)).ok_or(Unread::Short)?;
    match family.min(family.swap_bytes()) {
        // AF_INET; AF_INET6 of Linux, Windows, NetBSD, FreeBSD, macOS.
        2 | 10 | 23 | 24 | 28 | 30 => versioned(&frame[4..]),
        _ => Err(Unread::Version),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(number: u16, frame: &[u8]) -> Result<Vec<u8>, Unread> {
        internet(Link { number, fcs: 0 }, frame).map(|found| found.bytes.to_vec())
    }

    #[test]
    fn an_ip_packet_is_found_behind_every_link() {
        let ethernet = |rest: &[u8]| [&[2; 12], rest].concat();
        let sll = |kind: [u8; 2], rest: &[u8]| [&[0; 14][..], &kind, rest].concat();
        let sll2 = |kind: [u8; 2], rest: &[u8]| [&kind[..], &[0; 18], rest].concat();
        for ip in [&[0x45, 1, 2][..], &[0x60, 1, 2]] {
            let (kind, ppp) = if ip[0] == 0x45 { ([8, 0], 0x21) } else { ([0x86, 0xdd], 0x57) };
            let behind = |head: &[u8]| [head, &kind, ip].concat();
            let tagged = behind(&[0x81, 0, 0, 42]);
            let twice = [&[0x88, 0xa8, 0, 7][..], &tagged].concat();
            let frames = [
                (1, ethernet(&behind(&[]))),
                (1, ethernet(&tagged)),
                (1, ethernet(&twice)),
                (1, ethernet(&[&[0x91, 0, 0, 7][..], &tagged].concat())),
                (1, ethernet(&behind(&[0, 11, 0xaa, 0xaa, 3, 0, 0, 0]))),
                (1, ethernet(&[&[0x88, 0x64, 0x11, 0, 0, 9, 0, 5, 0, ppp], ip].concat())),
                (1, ethernet(&[&[0x88, 0x47, 0, 1, 0, 64, 0, 2, 1, 64], ip].concat())),
                (1, ethernet(&[&tagged[..4], &[0x88, 0x47, 0, 1, 1, 64], ip].concat())),
                (1, ethernet(&[&[0x88, 0xe5, 0, 0, 0, 0, 0, 1], &kind[..], ip].concat())),
                (9, [&[0xff, 3, 0, ppp], ip].concat()),
                (9, [&[ppp], ip].concat()),
                (50, [&[0xff, 3, 0, ppp], ip].concat()),
                (50, [&[0x0f, 0], &kind[..], ip].concat()),
                (51, [&[0x11, 0, 0, 9, 0, 5, 0, ppp], ip].concat()),
                (104, behind(&[0x0f, 0])),
                (204, [&[1, 0xff, 3, 0, ppp], ip].concat()),
                (12, ip.to_vec()),
                (14, ip.to_vec()),
                (101, ip.to_vec()),
                (228, ip.to_vec()),
                (229, ip.to_vec()),
                (0, [&[2, 0, 0, 0], ip].concat()),
                (0, [&[0, 0, 0, 30], ip].concat()),
                (108, [&[0, 0, 0, 24], ip].concat()),
                (108, [&[2, 0, 0, 0], ip].concat()),
                (113, sll(kind, ip)),
                (113, sll([0x81, 0], &tagged[2..])),
                (113, sll([0x88, 0xa8], &twice[2..])),
                (276, sll2(kind, ip)),
                (276, sll2([0x81, 0], &tagged[2..])),
                (258, [&[12, 0, 0, 0, 1, 0, 0, 0, 101, 0, 0, 0], ip].concat()),
            ];
            for (number, frame) in frames {
                assert_eq!(read(number, &frame).as_deref(), Ok(ip), "{number} {frame:x?}");
                // Any part of it is read, or named.
                for length in 0..frame.len() {
                    let _ = read(number, &frame[..length]);
                }
            }
        }
    }

    #[test]
    fn what_is_not_read_has_a_name() {
        let ethernet = |rest: &[u8]| [&[2; 12], rest, &[0; 20]].concat();
        for (number, frame, name) in [
            (127, vec![0; 60], "link type 127 (IEEE802_11_RADIOTAP, Wi-Fi)"),
            (60000, vec![0; 60], "link type 60000"),
            (1, ethernet(&[0x08, 0x06]), "ARP (EtherType 0x0806)"),
            (1, ethernet(&[0x81, 0, 0, 1, 0x88, 0xcc]), "LLDP (EtherType 0x88cc)"),
            (1, ethernet(&[0x88, 0xe5, 0x0c, 0, 0, 0, 0, 1, 8, 0]), "MACsec, encrypted (EtherType 0x88e5)"),
            (1, ethernet(&[0x88, 0x47, 0, 1, 1, 64]), "MPLS without IP (EtherType 0x8847)"),
            (1, ethernet(&[0x12, 0x34]), "EtherType 0x1234"),
            (1, ethernet(&[0, 38, 0x42, 0x42, 3]), "IEEE 802.2 (LLC)"),
            (9, vec![0xff, 3, 0xc0, 0x21], "protocol 0xc021 of PPP"),
            (101, vec![0x15], "frames without an IP header where their link type has it"),
            (1, vec![2; 12], "frames of which too few bytes were kept"),
        ] {
            assert_eq!(read(number, &frame).unwrap_err().to_string(), name);
        }
        assert!([0x0806, 0x88cc].into_iter().all(|kind| Unread::Ether(kind).is_usual()));
        assert!(![0x88e5, 0x8847].into_iter().any(|kind| Unread::Ether(kind).is_usual()));
    }
}
