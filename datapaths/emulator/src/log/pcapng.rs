//! Packets in the pcapng format, for Wireshark, tshark and tcpdump.
//!
//! Source: draft-ietf-opsawg-pcapng. Interfaces `near` and `far` are the two ends of the path: a packet is inbound where it
//! entered and outbound where it left, at its logical time in nanoseconds. Packets dropped on the way show once more on an
//! interface `dropped`, at the time of the drop. Of several links each has three, `NAME near` and so on.
//!
//! The link type is Linux "cooked" capture, 16 bytes before each packet
//! (<https://www.tcpdump.org/linktypes/LINKTYPE_LINUX_SLL.html>), and not raw IP: up to libpcap 1.10.3 (`sf-pcapng.c`), which
//! Debian 12 has, a reader compares an interface's type as the file has it with the first one's as libpcap numbers it.
//! For raw IP these are 101 and 12, so that a second interface ends the reading; for cooked capture both are 113.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};

use paceline_cc::{Nanos, Time};
use paceline_experiment::DumbbellWay;
use pcap_parser::{
    EnhancedPacketBlock, InterfaceDescriptionBlock, Linktype, OptionCode, PcapNGOption, SectionHeaderBlock, ToVec,
};

use crate::emulator::{EmulatorTap, Passage};
use crate::log::{LogLost, Sink};
use paceline_linux::clock::Clock;

/// Interfaces of a link by their numbers in the file, those of the links before it not counted.
const INTERFACES: [&str; 3] = ["near", "far", "dropped"];
const NEAR: u32 = 0;
const FAR: u32 = 1;
const DROPPED: u32 = 2;
/// `if_tsresol`: times are in nanoseconds.
const NANOSECONDS: u8 = 9;
/// `epb_flags`, and in it the direction of a packet.
const FLAGS: OptionCode = OptionCode(2);
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// Bytes of the header of Linux cooked capture.
const COOKED: usize = 16;
/// Its packet types: sent to us, and sent by us (linux/if_packet.h).
const TO_US: u16 = 0;
const FROM_US: u16 = 4;
/// Its kind of interface: one without addresses of its own (`ARPHRD_NONE` of linux/if_arp.h).
const NO_HARDWARE: u16 = 0xfffe;
/// What it carries (IEEE 802 numbers).
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

/// A packet log in the pcapng format.
pub struct Pcapng {
    name: String,
    sink: Sink,
    clock: Clock,
    snap: usize,
    trouble: Option<io::Error>,
    /// Packets that earlier ones may still come before, in the order of their times, then of their coming.
    kept: BTreeMap<(Time, u64), Packet>,
    count: u64,
}

/// A packet as it will be written.
struct Packet {
    interface: u32,
    flags: u32,
    unix_nanos: u64,
    original_len: u32,
    data: Vec<u8>,
}

/// How long a packet is kept so that packets are in the order of time (our choice: what left is known when it is handed over, which is
/// late by the release error; a host that stalls for longer breaks the order).
const ORDER: Nanos = Nanos::from_millis(50);
/// Most packets kept (our choice: about 30 MB).
const KEPT: usize = 1 << 16;

impl Pcapng {
    /// Bytes of a packet that hold its headers, whatever they are: of IPv6, telemetry (256 at most) and TCP with its options.
    pub const HEADERS: usize = 384;

    /// Begins a log that keeps the first `snap` bytes of each packet. `name` is for messages; `clock` is the emulator's;
    /// `links` are the names of its links where it has several; `place` puts the written file in its place.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn new<W: Write + Send + 'static>(
        name: &str,
        file: W,
        clock: Clock,
        snap: usize,
        links: &[&str],
        place: impl FnOnce(W) -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        let mut sink = Sink::new(file, place)?;
        put(&mut sink, &mut section())?;
        let snaplen = u32::try_from(COOKED + snap).unwrap_or(0);
        let links = if links.len() > 1 { links } else { &[""] };
        for (link, name) in links.iter().flat_map(|link| INTERFACES.map(|name| (link, name))) {
            put(&mut sink, &mut interface(format!("{link} {name}").trim_start(), snaplen))?;
        }
        Ok(Self { name: name.to_owned(), sink, clock, snap, trouble: None, kept: BTreeMap::new(), count: 0 })
    }

    fn write(&mut self, passage: &Passage<'_>, end: u32, flags: u32) {
        let interface = (passage.link * INTERFACES.len()) as u32 + end;
        let mut data = cooked(passage.bytes, flags).to_vec();
        data.extend_from_slice(&passage.bytes[..passage.bytes.len().min(self.snap)]);
        let packet = Packet {
            interface,
            flags,
            unix_nanos: self.clock.unix_nanos(passage.at),
            original_len: (COOKED + passage.bytes.len()) as u32,
            data,
        };
        self.count += 1;
        self.kept.insert((passage.at, self.count), packet);
        let newest = self.kept.last_key_value().map_or(passage.at, |((at, _), _)| *at);
        while let Some(((first, _), _)) = self.kept.first_key_value()
            && (self.kept.len() > KEPT || newest.since(*first) > ORDER)
        {
            self.put();
        }
    }

    /// Writes the first of those kept.
    fn put(&mut self) {
        let Some((_, packet)) = self.kept.pop_first() else { return };
        if let Err(error) = put(&mut self.sink, &mut enhanced(&packet)) {
            self.trouble.get_or_insert(error);
        }
    }
}

fn put(sink: &mut Sink, block: &mut impl ToVec) -> io::Result<()> {
    sink.write_all(&block.to_vec().map_err(|error| io::Error::other(format!("{error:?}")))?)
}

fn option(code: OptionCode, value: &[u8]) -> PcapNGOption<'_> {
    PcapNGOption { code, len: value.len() as u16, value: Cow::Borrowed(value) }
}

/// Lengths and types of blocks are filled in as they are written.
fn section() -> SectionHeaderBlock<'static> {
    SectionHeaderBlock {
        block_type: 0,
        block_len1: 0,
        bom: 0,
        major_version: 1,
        minor_version: 0,
        // Not known before the end.
        section_len: -1,
        options: Vec::new(),
        block_len2: 0,
    }
}

fn interface(name: &str, snaplen: u32) -> InterfaceDescriptionBlock<'_> {
    InterfaceDescriptionBlock {
        block_type: 0,
        block_len1: 0,
        linktype: Linktype::LINUX_SLL,
        reserved: 0,
        snaplen,
        options: vec![option(OptionCode::IfName, name.as_bytes())],
        block_len2: 0,
        if_tsresol: NANOSECONDS,
        if_tsoffset: 0,
    }
}

fn enhanced(packet: &Packet) -> EnhancedPacketBlock<'_> {
    let flags = PcapNGOption { code: FLAGS, len: 4, value: Cow::Owned(packet.flags.to_le_bytes().to_vec()) };
    EnhancedPacketBlock {
        block_type: 0,
        block_len1: 0,
        if_id: packet.interface,
        ts_high: (packet.unix_nanos >> 32) as u32,
        ts_low: packet.unix_nanos as u32,
        caplen: packet.data.len() as u32,
        origlen: packet.original_len,
        data: &packet.data,
        options: vec![flags],
        block_len2: 0,
    }
}

/// The header before a packet.
fn cooked(packet: &[u8], flags: u32) -> [u8; COOKED] {
    let version = packet.first().map_or(0, |first| first >> 4);
    let mut header = [0; COOKED];
    let mut put = |at: usize, value: u16| header[at..at + 2].copy_from_slice(&value.to_be_bytes());
    put(0, if flags == OUTBOUND { FROM_US } else { TO_US });
    put(2, NO_HARDWARE);
    // No address: its length and its eight bytes stay zero.
    put(14, if version == 6 { IPV6 } else { IPV4 });
    header
}

impl EmulatorTap for Pcapng {
    fn entered(&mut self, passage: &Passage<'_>) {
        let end = if passage.direction == DumbbellWay::Down { FAR } else { NEAR };
        self.write(passage, end, INBOUND);
    }

    fn left(&mut self, passage: &Passage<'_>) {
        let end = if passage.direction == DumbbellWay::Down { NEAR } else { FAR };
        self.write(passage, end, OUTBOUND);
    }

    fn dropped(&mut self, passage: &Passage<'_>) {
        self.write(passage, DROPPED, INBOUND);
    }

    fn finish(&mut self) -> Result<(), LogLost> {
        while !self.kept.is_empty() {
            self.put();
        }
        let written = self.sink.finish();
        let trouble = self.trouble.take();
        let written = trouble.map_or(written, |error| Err(error.into()));
        written.map_err(|problem| LogLost { name: self.name.clone(), problem })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_path::DelaySplit;
    use pcap_parser::traits::PcapNGPacketBlock;
    use pcap_parser::{Block, parse_pcapng};
    use std::sync::{Arc, Mutex};

    #[test]
    fn a_reader_finds_what_was_written() {
        let file = Arc::new(Mutex::new(Vec::new()));
        let placed = Arc::clone(&file);
        let place = move |written| {
            *placed.lock().unwrap() = written;
            Ok(())
        };
        let clock = Clock::new();
        let mut log = Pcapng::new("p.pcapng", Vec::new(), clock, 40, &[], place).unwrap();
        let bytes: Vec<u8> = (0x45..0x45 + 60).collect();
        let six: Vec<u8> = (0x60..0x60 + 40).collect();
        let at = Time::from_nanos(1_000_000_007);
        let (released, delay) = (Time::NEVER, DelaySplit::default());
        let down = Passage {
            link: 0,
            direction: DumbbellWay::Down,
            id: 0,
            bytes: &bytes,
            entered: at,
            at,
            released,
            delay,
            marked: false,
            reason: None,
        };
        let up = Passage { direction: DumbbellWay::Up, bytes: &bytes[..20], ..down };
        log.entered(&down);
        log.left(&down);
        log.left(&up);
        log.dropped(&up);
        log.dropped(&Passage { bytes: &six, ..up });
        // Comes late, and has its place by its time.
        log.left(&Passage { at: at - Nanos::from_millis(1), bytes: &six, ..down });
        log.finish().unwrap();
        let file = file.lock().unwrap();
        let (rest, capture) = parse_pcapng(&file).unwrap();
        assert!(rest.is_empty(), "{} bytes are left", rest.len());
        let (mut names, mut packets) = (Vec::new(), Vec::new());
        for block in capture.sections.iter().flat_map(|section| &section.blocks) {
            match block {
                Block::InterfaceDescription(interface) => {
                    assert_eq!((interface.linktype, interface.snaplen), (Linktype::LINUX_SLL, 56));
                    assert_eq!((interface.if_tsresol, interface.if_tsoffset), (NANOSECONDS, 0));
                    let name = interface.options.iter().find(|option| option.code == OptionCode::IfName).unwrap();
                    names.push(name.as_str().unwrap());
                }
                Block::EnhancedPacket(packet) => {
                    let wanted = if packets.is_empty() { at - Nanos::from_millis(1) } else { at };
                    let written = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                    assert_eq!(written, clock.unix_nanos(wanted));
                    let flags = packet.options.iter().find(|option| option.code == FLAGS);
                    let flags = u32::from_le_bytes(flags.expect("a direction").value[..4].try_into().unwrap());
                    let (header, data) = packet.packet_data().split_at(COOKED);
                    let (way, protocol) = (header[1], u16::from_be_bytes([header[14], header[15]]));
                    assert_eq!((header[0], &header[2..14]), (0, &[0xff, 0xfe, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..]));
                    packets.push((packet.if_id, packet.origlen, data.len(), flags, way, protocol));
                    assert!(bytes.starts_with(data) || six.starts_with(data));
                }
                _ => {}
            }
        }
        assert_eq!(names, INTERFACES);
        let expected = [
            (NEAR, 56, 40, 2, 4, IPV6),
            (FAR, 76, 40, 1, 0, IPV4),
            (NEAR, 76, 40, 2, 4, IPV4),
            (FAR, 36, 20, 2, 4, IPV4),
            (DROPPED, 36, 20, 1, 0, IPV4),
            (DROPPED, 56, 40, 1, 0, IPV6),
        ];
        assert_eq!(packets, expected);
    }

    #[test]
    fn each_of_several_links_has_interfaces_of_its_own() {
        let file = Arc::new(Mutex::new(Vec::new()));
        let placed = Arc::clone(&file);
        let place = move |written| {
            *placed.lock().unwrap() = written;
            Ok(())
        };
        let mut log = Pcapng::new("p.pcapng", Vec::new(), Clock::new(), 40, &["first", "second"], place).unwrap();
        let (bytes, at, delay) = ([0x45; 60], Time::from_millis(1), DelaySplit::default());
        let (direction, marked, reason) = (DumbbellWay::Up, false, None);
        for link in [0, 1] {
            let bytes = &bytes;
            let passage =
                Passage { link, direction, id: 0, bytes, entered: at, at, released: at, delay, marked, reason };
            log.entered(&passage);
            log.dropped(&passage);
        }
        log.finish().unwrap();
        let file = file.lock().unwrap();
        let (_, capture) = parse_pcapng(&file).unwrap();
        let (mut names, mut interfaces) = (Vec::new(), Vec::new());
        for block in capture.sections.iter().flat_map(|section| &section.blocks) {
            match block {
                Block::InterfaceDescription(interface) => {
                    names.push(interface.options[0].as_str().unwrap().to_owned());
                }
                Block::EnhancedPacket(packet) => interfaces.push(packet.if_id),
                _ => {}
            }
        }
        let expected = ["first near", "first far", "first dropped", "second near", "second far", "second dropped"];
        assert_eq!((names, interfaces), (expected.map(str::to_owned).to_vec(), vec![0, 2, 3, 5]));
    }

    #[test]
    fn a_log_that_cannot_be_written_is_one_line() {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut log = Pcapng::new("p.pcapng", full, Clock::new(), 40, &[], |_| Ok(())).unwrap();
        let lost = "p.pcapng: the packet log is lost: No space left on device (os error 28)";
        assert_eq!(log.finish().unwrap_err().to_string(), lost);
    }
}
