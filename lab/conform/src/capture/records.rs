//! Records of a capture file, one after the other: `pcap-parser` reads them, here is what tcpdump and Wireshark take beside.
//!
//! Sources: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng, and what libpcap does (`sf-pcap.c`, `sf-pcapng.c`): a record may be longer
//! than the header says, its length on the wire below what was kept, its fraction a second or more; the upper bits of the link type are
//! the length of a frame check sequence.

use std::io::{self, Read};

use pcap_parser::nom::{self, IResult, Needed};
use pcap_parser::{
    LegacyPcapBlock, PcapError, parse_pcap_frame, parse_pcap_frame_be, parse_pcap_frame_modified, parse_pcap_header,
};

use super::feed::Feed;
use super::sections::pcapng;

/// Longest packet that is kept in a pcap, bytes: `MAXIMUM_SNAPLEN` of libpcap (`pcap-int.h`). A longer one is a damaged length.
const MOST_KEPT: usize = 262_144;
/// Bytes of a pcap's header.
const HEADER: usize = 24;
/// The byte orders of the modified pcap of Alexey Kuznetzov, whose records have eight bytes more: interface, protocol, packet type.
const MODIFIED: [[u8; 4]; 2] = [[0xa1, 0xb2, 0xcd, 0x34], [0x34, 0xcd, 0xb2, 0xa1]];

/// What stands before the IP header, and after the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    /// Its number in the list of link types.
    pub number: u16,
    /// Bytes of the frame check sequence that each packet ends in.
    pub fcs: u32,
}

/// An end of an emulated link, by the names of interfaces that `paceline emulate --log` and `race --pcap` write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Near,
    Far,
    Dropped,
}

/// A packet as a file has it.
pub(super) struct Record<'a> {
    /// Its number, from 1.
    pub number: u64,
    /// Nanoseconds since 1970; simple packet blocks have no time.
    pub at: Option<i64>,
    pub link: Link,
    /// A number for each interface of each section.
    pub interface: u32,
    /// Which link, and where on it.
    pub end: Option<(u32, End)>,
    /// Bytes of the whole frame on the wire.
    pub wire: u32,
    /// What was kept of it.
    pub frame: &'a [u8],
}

/// Why a file ends before its end.
#[derive(Debug)]
pub(super) struct Broken {
    /// The packet after the last one that was read.
    pub number: u64,
    pub problem: String,
}

/// Why no more is read.
#[derive(Debug)]
pub(super) enum Halt<E> {
    Broken(Broken),
    /// What takes the records has had enough.
    Taker(E),
}

impl<E> Halt<E> {
    pub(super) fn at(number: u64, problem: impl Into<String>) -> Self {
        Self::Broken(Broken { number, problem: problem.into() })
    }

    pub(super) fn unreadable(number: u64, error: &io::Error) -> Self {
        Self::at(number, format!("it cannot be read on: {error}"))
    }
}

/// What is said of a record that goes on after the end of the file.
pub(super) const CUT: &str = "the file ends within a record";

/// Whether a file begins as a capture that is read here.
pub fn is_capture(head: &[u8]) -> bool {
    let Some(magic) = head.first_chunk::<4>() else { return false };
    let known = [0x0a0d_0d0a, 0xa1b2_c3d4_u32, 0xa1b2_3c4d];
    MODIFIED.contains(magic)
        || known.contains(&u32::from_be_bytes(*magic))
        || known.contains(&u32::from_le_bytes(*magic))
}

/// Gives every packet of a capture to `take`, in the order of the file.
pub(super) fn records<E>(from: impl Read, take: &mut impl FnMut(&Record<'_>) -> Result<(), E>) -> Result<(), Halt<E>> {
    let mut feed = Feed::new(from);
    let first = feed.ahead(1).map_err(|error| Halt::unreadable(0, &error))?.first();
    if first == Some(&0x0a) { pcapng(&mut feed, take) } else { pcap(&mut feed, take) }
}

type Parse = fn(&[u8]) -> IResult<&[u8], LegacyPcapBlock<'_>, PcapError<&[u8]>>;

fn pcap<E>(feed: &mut Feed<impl Read>, take: &mut impl FnMut(&Record<'_>) -> Result<(), E>) -> Result<(), Halt<E>> {
    let head = feed.ahead(HEADER).map_err(|error| Halt::unreadable(0, &error))?;
    let mut head: [u8; HEADER] = *head.first_chunk().ok_or_else(|| Halt::at(0, CUT))?;
    let modified = MODIFIED.iter().position(|magic| head.starts_with(magic));
    if modified == Some(0) {
        // The parser knows the other byte order alone.
        head[..4].copy_from_slice(&[0xa1, 0xb2, 0xc3, 0xd4]);
    }
    let Ok((_, header)) = parse_pcap_header(&head) else { return Err(Halt::at(0, "no header of a pcap")) };
    if header.version_major != 2 {
        let version = format!("pcap of version {}.{}; version 2 is read", header.version_major, header.version_minor);
        return Err(Halt::at(0, version));
    }
    let parse: Parse = match modified {
        Some(0) => parse_modified_be,
        Some(_) => parse_pcap_frame_modified,
        None if header.is_bigendian() => parse_pcap_frame_be,
        None => parse_pcap_frame,
    };
    let unit = if header.is_nanosecond_precision() { 1 } else { 1000 };
    // LINKTYPE of libpcap's pcap-common.c: the type, whether there is a length of the check sequence, and this in units of 16 bits.
    let network = header.network.0 as u32;
    let fcs = if network & 0x0400_0000 == 0 { 0 } else { (network >> 28) * 2 };
    let link = Link { number: network as u16, fcs };
    feed.pass(HEADER as u64).map_err(|error| Halt::unreadable(0, &error))?;
    let (mut number, mut wanted) = (1, 1);
    loop {
        let ahead = feed.ahead(wanted).map_err(|error| Halt::unreadable(number, &error))?;
        let length = ahead.len();
        if length == 0 {
            return Ok(());
        }
        if length < wanted {
            return Err(Halt::at(number, CUT));
        }
        let used = match parse(ahead) {
            Ok((rest, packet)) => {
                let at = i64::from(packet.ts_sec) * 1_000_000_000 + i64::from(packet.ts_usec) * unit;
                let wire = packet.origlen;
                take(&Record { number, at: Some(at), link, interface: 0, end: None, wire, frame: packet.data })
                    .map_err(Halt::Taker)?;
                length - rest.len()
            }
            Err(nom::Err::Incomplete(Needed::Size(more))) if length + more.get() <= HEADER + MOST_KEPT => {
                wanted = length + more.get();
                continue;
            }
            Err(_) => return Err(Halt::at(number, format!("it has more than {MOST_KEPT} bytes"))),
        };
        feed.pass(used as u64).map_err(|error| Halt::unreadable(number, &error))?;
        (number, wanted) = (number + 1, 1);
    }
}

/// As [`parse_pcap_frame_modified`], in the other byte order.
fn parse_modified_be(bytes: &[u8]) -> IResult<&[u8], LegacyPcapBlock<'_>, PcapError<&[u8]>> {
    let needs = |count: usize| nom::Err::Incomplete(Needed::new(count - bytes.len()));
    let (head, after) = bytes.split_at_checked(24).ok_or_else(|| needs(24))?;
    let field = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let kept = field(8) as usize;
    let (data, rest) = after.split_at_checked(kept).ok_or_else(|| needs(24 + kept))?;
    Ok((rest, LegacyPcapBlock { ts_sec: field(0), ts_usec: field(4), caplen: field(8), origlen: field(12), data }))
}
