//! Packets in the pcapng format, for Wireshark, tshark and tcpdump.
//!
//! Source: draft-ietf-opsawg-pcapng. Interfaces `near` and `far` are the two ends of the path: a packet is inbound where it
//! entered and outbound where it left, at its logical time in nanoseconds. Packets dropped on the way show once more on an
//! interface `dropped`, at the time of the drop.
//!
//! The link type is Linux "cooked" capture, 16 bytes before each packet
//! (<https://www.tcpdump.org/linktypes/LINKTYPE_LINUX_SLL.html>), and not raw IP: up to libpcap 1.10.3 (`sf-pcapng.c`), which
//! Debian 12 has, a reader compares an interface's type as the file has it with the first one's as libpcap numbers it.
//! For raw IP these are 101 and 12, so that a second interface ends the reading; for cooked capture both are 113.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use paceline_cc::{Nanos, Time};
use paceline_experiment::Direction;
use pcap_file::DataLink;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption, InterfaceTsResolution,
};
use pcap_file::pcapng::{PcapNgWriteError, PcapNgWriter};

use crate::emulator::{Passage, Tap};
use crate::log::Sink;
use paceline_clock::Clock;

/// Interfaces by their numbers in the file.
const INTERFACES: [&str; 3] = ["near", "far", "dropped"];
const NEAR: u32 = 0;
const FAR: u32 = 1;
const DROPPED: u32 = 2;
/// `epb_flags`: the direction of a packet.
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
    writer: PcapNgWriter<Sink>,
    clock: Clock,
    snap: usize,
    trouble: Option<String>,
    /// Packets that earlier ones may still come before, in the order of their times, then of their coming.
    kept: BTreeMap<(Time, u64), EnhancedPacketBlock<'static>>,
    count: u64,
}

/// How long a packet is kept so that packets are in the order of time (our choice: what left is known when it is handed over, which is
/// late by the release error; a host that stalls for longer breaks the order).
const ORDER: Nanos = Nanos::from_millis(50);
/// Most packets kept (our choice: about 20 MB).
const KEPT: usize = 1 << 16;

impl Pcapng {
    /// Bytes of a packet that hold its headers, whatever they are.
    pub const HEADERS: usize = 128;

    /// Begins a log that keeps the first `snap` bytes of each packet. `name` is for messages; `clock` is the emulator's;
    /// `place` puts the written file in its place, or says in one line why it could not.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn new<W: Write + Send + 'static>(
        name: &str,
        file: W,
        clock: Clock,
        snap: usize,
        place: impl FnOnce(W) -> Result<(), String> + Send + 'static,
    ) -> io::Result<Self> {
        let mut writer = PcapNgWriter::new(Sink::new(file, place)?).map_err(io::Error::other)?;
        for name in INTERFACES {
            let interface = InterfaceDescriptionBlock {
                linktype: DataLink::LINUX_SLL,
                snaplen: u32::try_from(COOKED + snap).unwrap_or(0),
                options: vec![
                    InterfaceDescriptionOption::IfName(Cow::Borrowed(name)),
                    InterfaceDescriptionOption::IfTsResol(InterfaceTsResolution::NANO),
                ],
            };
            writer.write_pcapng_block(interface).map_err(io::Error::other)?;
        }
        Ok(Self { name: name.to_owned(), writer, clock, snap, trouble: None, kept: BTreeMap::new(), count: 0 })
    }

    fn write(&mut self, passage: &Passage<'_>, interface: u32, flags: u32) {
        let mut data = cooked(passage.bytes, flags).to_vec();
        data.extend_from_slice(&passage.bytes[..passage.bytes.len().min(self.snap)]);
        let block = EnhancedPacketBlock {
            interface_id: interface,
            timestamp: Duration::from_nanos(self.clock.unix_nanos(passage.at)),
            original_len: (COOKED + passage.bytes.len()) as u32,
            data: Cow::Owned(data),
            options: vec![EnhancedPacketOption::Flags(flags)],
        };
        self.count += 1;
        self.kept.insert((passage.at, self.count), block);
        let newest = self.kept.last_key_value().map_or(passage.at, |((at, _), _)| *at);
        while let Some(((first, _), _)) = self.kept.first_key_value()
            && (self.kept.len() > KEPT || newest.since(*first) > ORDER)
        {
            self.put();
        }
    }

    /// Writes the first of those kept.
    fn put(&mut self) {
        let Some((_, block)) = self.kept.pop_first() else { return };
        let written: Result<usize, PcapNgWriteError> = self.writer.write_pcapng_block(block);
        if let Err(error) = written {
            self.trouble.get_or_insert(error.to_string());
        }
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

impl Tap for Pcapng {
    fn entered(&mut self, passage: &Passage<'_>) {
        let interface = if passage.direction == Direction::Down { FAR } else { NEAR };
        self.write(passage, interface, INBOUND);
    }

    fn left(&mut self, passage: &Passage<'_>) {
        let interface = if passage.direction == Direction::Down { NEAR } else { FAR };
        self.write(passage, interface, OUTBOUND);
    }

    fn dropped(&mut self, passage: &Passage<'_>) {
        self.write(passage, DROPPED, INBOUND);
    }

    fn finish(&mut self) -> Result<(), String> {
        while !self.kept.is_empty() {
            self.put();
        }
        let written = self.writer.get_mut().finish();
        let trouble = self.trouble.take();
        trouble.map_or(written, Err).map_err(|error| format!("{}: the packet log is lost: {error}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_path::Split;
    use pcap_file::pcapng::{Block, PcapNgReader};
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
        let mut log = Pcapng::new("p.pcapng", Vec::new(), clock, 40, place).unwrap();
        let bytes: Vec<u8> = (0x45..0x45 + 60).collect();
        let six: Vec<u8> = (0x60..0x60 + 40).collect();
        let at = Time::from_nanos(1_000_000_007);
        let (released, delay) = (Time::NEVER, Split::default());
        let down = Passage {
            link: 0,
            direction: Direction::Down,
            id: 0,
            bytes: &bytes,
            entered: at,
            at,
            released,
            delay,
            marked: false,
            reason: None,
        };
        let up = Passage { direction: Direction::Up, bytes: &bytes[..20], ..down };
        log.entered(&down);
        log.left(&down);
        log.left(&up);
        log.dropped(&up);
        log.dropped(&Passage { bytes: &six, ..up });
        // Comes late, and has its place by its time.
        log.left(&Passage { at: at - Nanos::from_millis(1), bytes: &six, ..down });
        log.finish().unwrap();
        let file = file.lock().unwrap();
        let mut reader = PcapNgReader::new(&file[..]).unwrap();
        let (mut names, mut packets) = (Vec::new(), Vec::new());
        while let Some(block) = reader.next_block() {
            match block.unwrap().0 {
                Block::InterfaceDescription(interface) => {
                    assert_eq!((interface.linktype, interface.snaplen), (DataLink::LINUX_SLL, 56));
                    names.extend(interface.options.iter().filter_map(|option| {
                        if let InterfaceDescriptionOption::IfName(name) = option {
                            Some(name.to_string())
                        } else {
                            None
                        }
                    }));
                }
                Block::EnhancedPacket(packet) => {
                    let wanted = if packets.is_empty() { at - Nanos::from_millis(1) } else { at };
                    assert_eq!(packet.timestamp.as_nanos(), u128::from(clock.unix_nanos(wanted)));
                    let [EnhancedPacketOption::Flags(flags)] = packet.options[..] else { panic!("no direction") };
                    let (header, data) = packet.data.split_at(COOKED);
                    let (way, protocol) = (header[1], u16::from_be_bytes([header[14], header[15]]));
                    assert_eq!((header[0], &header[2..14]), (0, &[0xff, 0xfe, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..]));
                    packets.push((packet.interface_id, packet.original_len, data.len(), flags, way, protocol));
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
    fn a_log_that_cannot_be_written_is_one_line() {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut log = Pcapng::new("p.pcapng", full, Clock::new(), 40, |_| Ok(())).unwrap();
        let lost = "p.pcapng: the packet log is lost: No space left on device (os error 28)";
        assert_eq!(log.finish(), Err(lost.to_owned()));
    }
}
