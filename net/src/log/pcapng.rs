//! Packets in the pcapng format, for Wireshark, tshark and tcpdump.
//!
//! Source: draft-ietf-opsawg-pcapng. Interfaces `near` and `far` are the two ends of the path: a packet is inbound where it
//! entered and outbound where it left, at its logical time in nanoseconds. Packets dropped on the way show once more on an
//! interface `dropped`, at the time of the drop.

use std::borrow::Cow;
use std::io::{self, Write};
use std::time::Duration;

use paceline_sim::Direction;
use pcap_file::DataLink;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption, InterfaceTsResolution,
};
use pcap_file::pcapng::{PcapNgWriteError, PcapNgWriter};

use crate::clock::Clock;
use crate::emulator::{Passage, Tap};
use crate::log::Sink;

/// Interfaces by their numbers in the file.
const INTERFACES: [&str; 3] = ["near", "far", "dropped"];
const NEAR: u32 = 0;
const FAR: u32 = 1;
const DROPPED: u32 = 2;
/// `epb_flags`: the direction of a packet.
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// A packet log in the pcapng format.
pub struct Pcapng {
    name: String,
    writer: PcapNgWriter<Sink>,
    clock: Clock,
    snap: usize,
    trouble: Option<String>,
}

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
                linktype: DataLink::RAW,
                snaplen: u32::try_from(snap).unwrap_or(0),
                options: vec![
                    InterfaceDescriptionOption::IfName(Cow::Borrowed(name)),
                    InterfaceDescriptionOption::IfTsResol(InterfaceTsResolution::NANO),
                ],
            };
            writer.write_pcapng_block(interface).map_err(io::Error::other)?;
        }
        Ok(Self { name: name.to_owned(), writer, clock, snap, trouble: None })
    }

    fn write(&mut self, passage: &Passage<'_>, interface: u32, flags: u32) {
        let block = EnhancedPacketBlock {
            interface_id: interface,
            timestamp: Duration::from_nanos(self.clock.unix_nanos(passage.at)),
            original_len: passage.bytes.len() as u32,
            data: Cow::Borrowed(&passage.bytes[..passage.bytes.len().min(self.snap)]),
            options: vec![EnhancedPacketOption::Flags(flags)],
        };
        let written: Result<usize, PcapNgWriteError> = self.writer.write_pcapng_block(block);
        if let Err(error) = written {
            self.trouble.get_or_insert(error.to_string());
        }
    }
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
        let written = self.writer.get_mut().finish();
        let trouble = self.trouble.take();
        trouble.map_or(written, Err).map_err(|error| format!("{}: the packet log is lost: {error}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_cc::Time;
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
        let at = Time::from_nanos(1_000_000_007);
        let (released, delay) = (Time::NEVER, Split::default());
        let down = Passage {
            direction: Direction::Down,
            id: 0,
            bytes: &bytes,
            entered: at,
            at,
            released,
            delay,
            marked: false,
        };
        let up = Passage { direction: Direction::Up, bytes: &bytes[..20], ..down };
        log.entered(&down);
        log.left(&down);
        log.left(&up);
        log.dropped(&up);
        log.finish().unwrap();
        let file = file.lock().unwrap();
        let mut reader = PcapNgReader::new(&file[..]).unwrap();
        let (mut names, mut packets) = (Vec::new(), Vec::new());
        while let Some(block) = reader.next_block() {
            match block.unwrap().0 {
                Block::InterfaceDescription(interface) => names.extend(interface.options.iter().filter_map(|option| {
                    if let InterfaceDescriptionOption::IfName(name) = option { Some(name.to_string()) } else { None }
                })),
                Block::EnhancedPacket(packet) => {
                    assert_eq!(packet.timestamp.as_nanos(), u128::from(clock.unix_nanos(at)));
                    let [EnhancedPacketOption::Flags(flags)] = packet.options[..] else { panic!("no direction") };
                    packets.push((packet.interface_id, packet.original_len, packet.data.len(), flags));
                    assert!(bytes.starts_with(&packet.data));
                }
                _ => {}
            }
        }
        assert_eq!(names, INTERFACES);
        assert_eq!(packets, [(FAR, 60, 40, 1), (NEAR, 60, 40, 2), (FAR, 20, 20, 2), (DROPPED, 20, 20, 1)]);
    }

    #[test]
    fn a_log_that_cannot_be_written_is_one_line() {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut log = Pcapng::new("p.pcapng", full, Clock::new(), 40, |_| Ok(())).unwrap();
        let lost = "p.pcapng: the packet log is lost: No space left on device (os error 28)";
        assert_eq!(log.finish(), Err(lost.to_owned()));
    }
}
