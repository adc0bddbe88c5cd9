//! A TCP flow from captured packets: what is in flight at its sender, as an estimate of its window.
//!
//! Packets must have been captured at the sender. The window is the largest flight of the last round trip: what the flow does not use
//! of its window is not seen. A loss is seen by its repair.

mod flow;
pub mod packet;

use std::io::{Cursor, Read};
use std::net::SocketAddr;
use std::str::FromStr;

use pcap_file::DataLink;
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::{Block, PcapNgReader};

use crate::read::ReadError;
use crate::trajectory::Trajectory;
use flow::Flows;
pub use flow::unwrap;

/// Longest capture, bytes (our choice: it is in memory as a whole).
const MOST_BYTES: u64 = 1 << 30;

/// Whose packets: from where to where its data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FourTuple {
    /// Its sender.
    pub from: SocketAddr,
    /// Its receiver.
    pub to: SocketAddr,
}

impl FromStr for FourTuple {
    type Err = String;

    /// `10.0.0.1:443-10.0.0.2:50000`, `[fd00::1]:443-[fd00::2]:50000`.
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || "write SENDER:PORT-RECEIVER:PORT, such as 10.0.0.1:443-10.0.0.2:50000".to_owned();
        let (from, to) = text.split_once('-').ok_or_else(bad)?;
        Ok(Self { from: from.parse().map_err(|_| bad())?, to: to.parse().map_err(|_| bad())? })
    }
}

impl std::fmt::Display for FourTuple {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.from, self.to)
    }
}

/// Reads a capture (pcap or pcapng; Ethernet, raw IP, Linux "cooked", loopback): the flow that is wanted, else the one that sent most.
///
/// # Errors
/// [`ReadError`] when it is no capture, is damaged, has not the flow, or no TCP at all.
pub fn read(file: &str, from: impl Read, wanted: Option<FourTuple>) -> Result<Trajectory, ReadError> {
    let mut bytes = Vec::new();
    let read = from.take(MOST_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| ReadError::new(file, 0, format!("cannot be read ({error}); name a capture")))?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(ReadError::new(
            file,
            0,
            "it is longer than 1 GiB; capture headers only (tcpdump -s 128), or less of them",
        ));
    }
    let mut flows = Flows::default();
    match bytes.get(..4) {
        Some([0x0a, 0x0d, 0x0d, 0x0a]) => pcapng(file, &bytes, &mut flows)?,
        Some(
            [0xa1, 0xb2, 0xc3, 0xd4] | [0xd4, 0xc3, 0xb2, 0xa1] | [0xa1, 0xb2, 0x3c, 0x4d] | [0x4d, 0x3c, 0xb2, 0xa1],
        ) => pcap(file, &bytes, &mut flows)?,
        _ => {
            return Err(ReadError::new(
                file,
                0,
                "it is no capture; give a pcap or pcapng file, such as tcpdump writes",
            ));
        }
    }
    flows.trajectory(file, wanted)
}

fn cut(file: &str, number: u64, error: &dyn std::fmt::Display) -> ReadError {
    let problem = format!("packet {number} is damaged or cut off ({error}); give the whole file");
    ReadError::new(file, number, problem)
}

fn pcap(file: &str, bytes: &[u8], flows: &mut Flows) -> Result<(), ReadError> {
    let mut reader = PcapReader::new(Cursor::new(bytes)).map_err(|error| cut(file, 0, &error))?;
    let link = reader.header().datalink;
    let mut number = 0;
    while let Some(packet) = reader.next_packet() {
        number += 1;
        let packet = packet.map_err(|error| cut(file, number, &error))?;
        flows.take(file, number, packet.timestamp(), link, packet.data())?;
    }
    Ok(())
}

fn pcapng(file: &str, bytes: &[u8], flows: &mut Flows) -> Result<(), ReadError> {
    let mut reader = PcapNgReader::new(Cursor::new(bytes)).map_err(|error| cut(file, 0, &error))?;
    let mut links: Vec<DataLink> = Vec::new();
    let mut number = 0;
    while let Some(block) = reader.next_block() {
        number += 1;
        let (block, _) = block.map_err(|error| cut(file, number, &error))?;
        match block {
            Block::SectionHeader(_) => links.clear(),
            Block::InterfaceDescription(interface) => links.push(interface.linktype),
            Block::EnhancedPacket(packet) => {
                if let Some(link) = links.get(packet.interface_id as usize) {
                    flows.take(file, number, packet.timestamp, *link, &packet.data)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}
