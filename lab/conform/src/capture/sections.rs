//! Sections of a pcapng: interfaces, and packets in each of the three blocks that hold them.

use std::io::Read;

use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{Block, InterfaceDescriptionBlock, parse_block_be, parse_block_le};

use super::feed::Feed;
use super::records::{CUT, End, Halt, Link, Record};

/// Longest block that is looked into, bytes (`INITIAL_MAX_BLOCKSIZE` of libpcap's `sf-pcapng.c`).
const MOST_BLOCK: u32 = 16 << 20;
/// Types of blocks (draft-ietf-opsawg-pcapng section 4, and appendix A for the obsolete one).
const SECTION: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const INTERFACE: u32 = 1;
const OBSOLETE: u32 = 2;
const SIMPLE: u32 = 3;
const ENHANCED: u32 = 6;
/// Options of an interface.
const NAME: u16 = 2;
const RESOLUTION: u16 = 9;
const FCS: u16 = 13;
const OFFSET: u16 = 14;
/// Most emulated links that are told apart (our choice: more than a race has).
const MOST_LINKS: usize = 64;
/// The interfaces of an emulated link, in the order in which they are written; of several links their names stand before these.
const ENDS: [(&[u8], End); 3] = [(b"near", End::Near), (b"far", End::Far), (b"dropped", End::Dropped)];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

impl Order {
    fn u16(self, bytes: [u8; 2]) -> u16 {
        if self == Self::Little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) }
    }

    fn u32(self, bytes: [u8; 4]) -> u32 {
        if self == Self::Little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) }
    }

    fn i64(self, bytes: [u8; 8]) -> i64 {
        if self == Self::Little { i64::from_le_bytes(bytes) } else { i64::from_be_bytes(bytes) }
    }
}

struct Interface {
    link: Link,
    /// Most bytes of a packet in a simple block; 0 for all.
    snap: u32,
    /// Units of time in a second.
    units: i128,
    /// Seconds to be added.
    offset: i64,
}

impl Interface {
    fn new(block: &InterfaceDescriptionBlock<'_>, order: Order) -> Self {
        let option = |code: u16| block.options.iter().find(|option| option.code.0 == code)?.as_bytes().ok();
        let units = match option(RESOLUTION).and_then(|value| value.first()).copied().unwrap_or(6) {
            power @ 0x80.. => 1_i128.checked_shl(u32::from(power & 0x7f)).filter(|units| *units > 0),
            power => 10_i128.checked_pow(u32::from(power)),
        };
        let offset = option(OFFSET).and_then(|value| value.first_chunk::<8>());
        Self {
            link: Link {
                number: block.linktype.0 as u16,
                fcs: option(FCS).and_then(|value| value.first()).map_or(0, |bytes| u32::from(*bytes)),
            },
            snap: block.snaplen,
            units: units.unwrap_or(i128::MAX),
            offset: offset.map_or(0, |bytes| order.i64(*bytes)),
        }
    }

    /// Nanoseconds since 1970.
    fn time(&self, high: u32, low: u32) -> i64 {
        const SECOND: i128 = 1_000_000_000;
        let units = i128::from(u64::from(high) << 32 | u64::from(low));
        let nanos = units * SECOND / self.units + i128::from(self.offset) * SECOND;
        nanos.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }
}

/// What the blocks before say of those to come.
struct Section {
    order: Order,
    interfaces: Vec<Interface>,
    /// So many of the first interfaces have the names of [`ENDS`], link by link.
    named: usize,
    /// Interfaces of the sections before.
    before: u32,
    number: u64,
}

/// A packet in any of its blocks.
struct Packet<'a> {
    interface: u32,
    time: Option<(u32, u32)>,
    wire: u32,
    frame: &'a [u8],
}

pub(super) fn pcapng<E>(
    feed: &mut Feed<impl Read>,
    take: &mut impl FnMut(&Record<'_>) -> Result<(), E>,
) -> Result<(), Halt<E>> {
    let mut section = Section { order: Order::Little, interfaces: Vec::new(), named: 0, before: 0, number: 1 };
    loop {
        let number = section.number;
        let head = feed.ahead(12).map_err(|error| Halt::unreadable(number, &error))?;
        if head.is_empty() {
            return Ok(());
        }
        let Some(&[kind @ .., l0, l1, l2, l3, o0, o1, o2, o3]) = head.first_chunk::<12>() else {
            return Err(Halt::at(number, CUT));
        };
        if kind == SECTION {
            section.order = match [o0, o1, o2, o3] {
                [0x4d, 0x3c, 0x2b, 0x1a] => Order::Little,
                [0x1a, 0x2b, 0x3c, 0x4d] => Order::Big,
                _ => return Err(Halt::at(number, "a section without a byte order")),
            };
            section.before += section.interfaces.len() as u32;
            section.interfaces.clear();
            section.named = 0;
        }
        let length = section.order.u32([l0, l1, l2, l3]);
        if length < 12 {
            return Err(Halt::at(number, format!("a block of {length} bytes")));
        }
        let kind = section.order.u32(kind);
        if matches!(kind, INTERFACE | OBSOLETE | SIMPLE | ENHANCED) {
            if length > MOST_BLOCK {
                return Err(Halt::at(number, format!("a block of {length} bytes")));
            }
            let block = feed.ahead(length as usize).map_err(|error| Halt::unreadable(number, &error))?;
            let block = block.get(..length as usize).ok_or_else(|| Halt::at(number, CUT))?;
            section.take(block, take)?;
        }
        if !feed.pass(length.into()).map_err(|error| Halt::unreadable(number, &error))? {
            return Err(Halt::at(section.number, CUT));
        }
    }
}

impl Section {
    fn take<E>(&mut self, bytes: &[u8], take: &mut impl FnMut(&Record<'_>) -> Result<(), E>) -> Result<(), Halt<E>> {
        let parse = if self.order == Order::Little { parse_block_le } else { parse_block_be };
        let damaged = || Halt::at(self.number, "a block whose lengths do not fit each other");
        let (_, block) = parse(bytes).map_err(|_| damaged())?;
        let packet = match &block {
            Block::InterfaceDescription(interface) => {
                self.describe(interface);
                return Ok(());
            }
            Block::EnhancedPacket(packet) => Packet {
                interface: packet.if_id,
                time: Some((packet.ts_high, packet.ts_low)),
                wire: packet.origlen,
                frame: packet.packet_data(),
            },
            Block::SimplePacket(packet) => {
                let snap = self.interfaces.first().map_or(0, |interface| interface.snap as usize);
                let frame = packet.packet_data();
                let kept = if snap == 0 { frame.len() } else { frame.len().min(snap) };
                Packet { interface: 0, time: None, wire: packet.origlen, frame: &frame[..kept] }
            }
            Block::Unknown(block) => self.obsolete(block.data).ok_or_else(damaged)?,
            _ => return Ok(()),
        };
        let Some(interface) = self.interfaces.get(packet.interface as usize) else {
            return Err(Halt::at(self.number, format!("its interface {} is not described", packet.interface)));
        };
        let record = Record {
            number: self.number,
            at: packet.time.map(|(high, low)| interface.time(high, low)),
            link: interface.link,
            interface: self.before + packet.interface,
            end: self.end(packet.interface),
            wire: packet.wire,
            frame: packet.frame,
        };
        take(&record).map_err(Halt::Taker)?;
        self.number += 1;
        Ok(())
    }

    fn describe(&mut self, block: &InterfaceDescriptionBlock<'_>) {
        let name = block.options.iter().find(|option| option.code.0 == NAME);
        let name = name.and_then(|option| option.as_bytes().ok()).map(|name| name.split(|byte| *byte == 0).next());
        let (place, name) = (self.interfaces.len(), name.flatten().unwrap_or_default());
        let (end, _) = ENDS[place % ENDS.len()];
        let of_link = || name.strip_suffix(end).is_some_and(|link| link.ends_with(b" "));
        if place == self.named && place < MOST_LINKS * ENDS.len() && (name == end || of_link()) {
            self.named += 1;
        }
        self.interfaces.push(Interface::new(block, self.order));
    }

    /// Which link an interface is of, and where on it.
    fn end(&self, interface: u32) -> Option<(u32, End)> {
        let (ends, place) = (ENDS.len(), interface as usize);
        (place < self.named / ends * ends).then(|| ((place / ends) as u32, ENDS[place % ends].1))
    }

    /// Interface, drops, time in two halves, kept and whole length, and the packet.
    fn obsolete<'a>(&self, block: &'a [u8]) -> Option<Packet<'a>> {
        let (head, frame) = block.split_at_checked(20)?;
        let field = |at: usize| Some(self.order.u32(*head.get(at..)?.first_chunk()?));
        Some(Packet {
            interface: self.order.u16(*head.first_chunk()?).into(),
            time: Some((field(4)?, field(8)?)),
            wire: field(16)?,
            frame: frame.get(..field(12)? as usize)?,
        })
    }
}
