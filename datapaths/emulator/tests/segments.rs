//! Large frames and the packets in them: what a path sees is what a wire would carry, and joining is undone by splitting.
#![cfg(target_os = "linux")]

use paceline_cc::{Codepoint, Time};
use paceline_emulator::frame::{self, Frame, FrameKind, Joiner, PartialChecksum, Segmentation, Virtio};
use proptest::prelude::*;

const FIN: u8 = 1;
const SYN: u8 = 2;
const PSH: u8 = 8;
const ACK: u8 = 16;
const ECE: u8 = 64;
const CWR: u8 = 128;

/// A packet by its fields.
#[derive(Clone, Debug)]
struct Fields {
    six: bool,
    tcp: bool,
    /// Options of IPv4 and of TCP, in units of 4 bytes; of IPv6 the hop-by-hop header, in units of 8 bytes.
    options: (u8, u8),
    /// The class with its ECN field.
    class: u8,
    id: u16,
    port: u16,
    sequence: u32,
    flags: u8,
    payload: Vec<u8>,
}

fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn sum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    u32::from(fold(words.sum()))
}

impl Fields {
    /// Where the transport's header begins.
    fn start(&self) -> usize {
        let options = usize::from(self.options.0);
        if self.six { 40 + options * 8 } else { 20 + options * 4 }
    }

    fn header(&self) -> usize {
        self.start() + if self.tcp { 20 + usize::from(self.options.1) * 4 } else { 8 }
    }

    fn checksum(&self) -> usize {
        if self.tcp { 16 } else { 6 }
    }

    /// The packet, its checksum the sum of the pseudo-header alone.
    fn partial(&self) -> Vec<u8> {
        let above = self.header() - self.start() + self.payload.len();
        let protocol = if self.tcp { 6 } else { 17 };
        let mut bytes;
        if self.six {
            let [high, low] = ((above + self.start() - 40) as u16).to_be_bytes();
            let (next, units) = if self.options.0 == 0 { (protocol, 0) } else { (0, self.options.0) };
            bytes = vec![0x60 | self.class >> 4, self.class << 4 | 5, 6, 7, high, low, next, 63];
            bytes.extend((0..32).map(|byte| byte * 7));
            let options: Vec<u8> = (0..units * 8).map(|byte| byte ^ self.options.1).collect();
            bytes.extend(options);
            if let [first, length, ..] = &mut bytes[40..] {
                (*first, *length) = (protocol, units - 1);
            }
        } else {
            let ([high, low], [id, id_low]) = (((above + self.start()) as u16).to_be_bytes(), self.id.to_be_bytes());
            bytes = vec![0x45 + self.options.0, self.class, high, low, id, id_low, 0x40, 0, 63, protocol, 0, 0];
            bytes.extend([10, 77, 0, 1, 10, 77, 0, 2]);
            bytes.extend(vec![1; usize::from(self.options.0) * 4]);
            let checksum = !(sum(&bytes) as u16);
            bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
        let addresses = if self.six { sum(&bytes[8..40]) } else { sum(&bytes[12..20]) };
        let pseudo = fold(addresses + u32::from(protocol) + above as u32).to_be_bytes();
        bytes.extend([self.port.to_be_bytes(), 80_u16.to_be_bytes()].concat());
        if self.tcp {
            bytes.extend(self.sequence.to_be_bytes());
            bytes.extend([9, 8, 7, 6, (5 + self.options.1) << 4, self.flags, 1, 0, pseudo[0], pseudo[1], 0, 0]);
            bytes.extend(vec![1; usize::from(self.options.1) * 4]);
        } else {
            bytes.extend([(above as u16).to_be_bytes(), pseudo].concat());
        }
        bytes.extend(&self.payload);
        bytes
    }

    /// The packet as a wire carries it.
    fn complete(&self) -> Vec<u8> {
        let mut bytes = self.partial();
        let field = self.start() + self.checksum();
        let checksum = match !(sum(&bytes[self.start()..]) as u16) {
            0 => 0xffff,
            other => other,
        };
        bytes[field..field + 2].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    fn virtio(&self, size: Option<u16>) -> Virtio {
        let checksum = Some(PartialChecksum { start: self.start() as u16, offset: self.checksum() as u16 });
        let kind = match (self.tcp, self.six) {
            (false, _) => FrameKind::Udp,
            (true, false) => FrameKind::Tcp4,
            (true, true) => FrameKind::Tcp6,
        };
        let split = size.map(|size| Segmentation { kind, cwr: self.tcp && self.flags & CWR != 0, size });
        Virtio { checksum, split, header: self.header() as u16 }
    }

    /// The packets of a frame with these headers, as Linux splits it.
    fn packets(&self, size: u16) -> Vec<Self> {
        let count = self.payload.len().div_ceil(usize::from(size));
        let packet = |(index, payload): (usize, &[u8])| {
            let (first, last) = (index == 0, index + 1 == count);
            let mut flags = self.flags;
            flags &= if first { 0xff } else { !CWR };
            flags &= if last { 0xff } else { !(FIN | PSH) };
            Self {
                id: self.id.wrapping_add(index as u16),
                sequence: self.sequence.wrapping_add((index * usize::from(size)) as u32),
                flags,
                payload: payload.to_vec(),
                ..self.clone()
            }
        };
        self.payload.chunks(usize::from(size)).enumerate().map(packet).collect()
    }

    fn split(&self, size: u16) -> Vec<Frame> {
        Frame::split(self.virtio(Some(size)), self.partial(), Time::ZERO).unwrap().collect()
    }

    /// A packet that was sent alone, its checksum left to others.
    fn alone(&self) -> Frame {
        Frame::split(self.virtio(None), self.partial(), Time::ZERO).unwrap().next().unwrap()
    }
}

fn fields() -> impl Strategy<Value = (Fields, u16)> {
    let kinds = (any::<bool>(), any::<bool>(), 0..=10_u8, 0..=10_u8, any::<u8>());
    let numbers = (any::<u16>(), any::<u32>(), any::<[bool; 4]>());
    let sizes = (1..=3000_usize, 1..=1460_u16, any::<u8>());
    (kinds, numbers, sizes).prop_map(|((six, tcp, ip, options, class), (id, sequence, set), (length, size, seed))| {
        let flags: u8 = [FIN, PSH, CWR, ECE].iter().zip(set).filter(|(_, set)| *set).map(|(flag, _)| *flag).sum();
        let payload = (0..length).map(|index| (index * 31 + (index >> 8)) as u8 ^ seed).collect();
        let fields =
            Fields { six, tcp, options: (ip, options), class, id, port: 5000, sequence, flags: flags | ACK, payload };
        // No more packets than the time that a test may take.
        let least = (length / 40) as u16 + 1;
        (fields, size.max(least))
    })
}

/// Frames as they would be written.
fn joined(frames: &[Frame]) -> Vec<(Virtio, Vec<u8>, u64)> {
    let mut joiner = Joiner::default();
    let all = joiner.join(frames, true);
    all.map(|joined| (joined.virtio(), joined.pieces().flatten().copied().collect(), joined.packets())).collect()
}

/// The packets that a receiver gets from frames.
fn received(frames: &[Frame]) -> Vec<Vec<u8>> {
    let packets = |(virtio, bytes, count): (Virtio, Vec<u8>, u64)| {
        let packets: Vec<_> = Frame::split(virtio, bytes, Time::ZERO).unwrap().collect();
        assert_eq!(packets.len() as u64, count);
        packets
    };
    joined(frames).into_iter().flat_map(packets).map(|packet| packet.bytes().into_owned()).collect()
}

fn bytes(frames: &[Frame]) -> Vec<Vec<u8>> {
    frames.iter().map(|frame| frame.bytes().into_owned()).collect()
}

proptest! {
    #[test]
    fn a_frame_becomes_the_packets_of_a_wire_and_these_the_same_frame((fields, size) in fields()) {
        let wanted: Vec<_> = fields.packets(size).iter().map(Fields::complete).collect();
        let frames = fields.split(size);
        prop_assert_eq!(frames.iter().map(Frame::len).collect::<Vec<_>>(), wanted.iter().map(Vec::len).collect::<Vec<_>>());
        prop_assert!(frames.iter().all(|packet| packet.ecn() == frame::ecn(&fields.partial())));
        prop_assert_eq!(bytes(&frames), wanted);
        let whole = joined(&frames);
        let one = frames.len() == 1;
        let virtio = fields.virtio((!one).then(|| size.min(fields.payload.len() as u16)));
        prop_assert_eq!(whole, vec![(virtio, fields.partial(), frames.len() as u64)]);
    }

    #[test]
    fn what_a_path_lets_through_arrives_to_the_byte(
        (fields, size) in fields(),
        fates in prop::collection::vec((0..10_u8, any::<u8>()), 200),
        second in any::<bool>(),
    ) {
        // The packets of two frames of one flow, some lost, some marked, some twice, some in the wrong place; of another flow
        // between them; all in frames of their own as well as in large ones.
        let count = fields.packets(size).len() as u16;
        let next = Fields {
            sequence: fields.sequence.wrapping_add(fields.payload.len() as u32),
            id: fields.id.wrapping_add(count),
            flags: fields.flags & !CWR,
            ..fields.clone()
        };
        let first = Fields { flags: fields.flags & !(FIN | PSH), ..fields.clone() };
        let other = Fields { port: 6000, tcp: !second || fields.tcp, ..fields.clone() };
        let alone: Vec<_> = next.packets(size).iter().map(Fields::alone).collect();
        let mut frames = Vec::new();
        let (mut ones, mut others) = (first.split(size).into_iter().chain(alone), other.split(size).into_iter());
        for (fate, turn) in fates {
            let packet = if turn % 4 == 0 { others.next() } else { ones.next() };
            let Some(mut packet) = packet else { continue };
            match fate {
                0 => continue,
                1 => packet.set_ecn(Codepoint::Ce),
                2 => frames.push(packet.clone()),
                3 if !frames.is_empty() => {
                    let at = frames.len() - 1;
                    frames.insert(at, packet.clone());
                    continue;
                }
                _ => {}
            }
            frames.push(packet);
        }
        let port = |packet: &Vec<u8>| {
            let start = fields.start();
            u16::from_be_bytes([packet[start], packet[start + 1]])
        };
        for flow in [5000, 6000] {
            let of = |packets: Vec<Vec<u8>>| packets.into_iter().filter(|packet| port(packet) == flow).collect::<Vec<_>>();
            prop_assert_eq!(of(received(&frames)), of(bytes(&frames)));
        }
    }

    #[test]
    fn what_a_hop_writes_into_one_packet_is_in_that_packet_alone((fields, size) in fields(), chosen in any::<u16>()) {
        let (mut frames, twin) = (fields.split(size), fields.split(size));
        let mut wanted = bytes(&frames);
        let chosen = usize::from(chosen) % frames.len();
        let copy = frames[chosen].clone();
        let header = frames[chosen].hop_by_hop();
        prop_assert_eq!(header.is_some(), fields.six && fields.options.0 > 0);
        if let Some(header) = header {
            header[7] ^= 1;
            wanted[chosen][47] ^= 1;
        }
        prop_assert_eq!(received(&frames), wanted);
        prop_assert_eq!(copy.bytes(), twin[chosen].bytes());
    }

    #[test]
    fn what_is_not_a_frame_does_no_harm(
        header in any::<[u8; Virtio::BYTES]>(),
        junk in prop::collection::vec(any::<u8>(), 0..200),
        (fields, size) in fields(),
        cut in any::<prop::sample::Index>(),
        flip in any::<(prop::sample::Index, u8)>(),
    ) {
        let mut broken = fields.partial();
        let at = flip.0.index(broken.len().min(80));
        broken[at] ^= flip.1;
        broken.truncate(cut.index(broken.len() + 1));
        for (virtio, bytes) in [
            (Virtio::read(header), junk),
            (Virtio::read(header), broken.clone()),
            (fields.virtio(Some(size)), broken.clone()),
            (fields.virtio(None), broken),
        ] {
            let Ok(packets) = Frame::split(virtio, bytes, Time::ZERO) else { continue };
            let mut frames: Vec<_> = packets.take(300).collect();
            frames.iter_mut().step_by(3).for_each(|frame| frame.set_ecn(Codepoint::Ce));
            for header in frames.iter_mut().step_by(5).filter_map(Frame::hop_by_hop) {
                header.fill(7);
            }
            prop_assert!(frames.iter().all(|frame| frame.bytes().len() == frame.len()));
            joined(&frames);
        }
    }
}

fn tcp(sequence: u32, id: u16, flags: u8, length: usize) -> Fields {
    let payload = vec![sequence as u8; length];
    Fields { six: false, tcp: true, options: (0, 3), class: 2, id, port: 5000, sequence, flags, payload }
}

/// How many packets each frame has.
fn counts(packets: &[Fields]) -> Vec<u64> {
    let frames: Vec<_> = packets.iter().map(Fields::alone).collect();
    assert_eq!(received(&frames), bytes(&frames));
    joined(&frames).iter().map(|(_, _, count)| *count).collect()
}

#[test]
fn only_what_splitting_restores_is_joined() {
    let one = tcp(1000, 7, ACK, 100);
    let second = tcp(1100, 8, ACK, 100);
    assert_eq!(counts(&[one.clone(), second.clone()]), [2]);
    assert_eq!(counts(&[one.clone(), tcp(1100, 8, ACK, 60), tcp(1160, 9, ACK, 60)]), [2, 1], "a short one is the last");
    assert_eq!(counts(&[one.clone(), tcp(1100, 8, ACK | PSH, 100), tcp(1200, 9, ACK, 100)]), [2, 1]);
    let different = [
        Fields { sequence: 1101, ..second.clone() },
        Fields { id: 9, ..second.clone() },
        Fields { class: 3, ..second.clone() },
        Fields { class: 6, ..second.clone() },
        Fields { port: 5001, ..second.clone() },
        Fields { options: (0, 2), ..second.clone() },
        Fields { options: (1, 3), ..second.clone() },
        Fields { flags: ACK | ECE, ..second.clone() },
        Fields { flags: ACK | CWR, ..second.clone() },
        Fields { flags: ACK | SYN, ..second.clone() },
        Fields { payload: vec![0; 101], ..second.clone() },
        Fields { payload: Vec::new(), ..second.clone() },
    ];
    for other in different {
        assert_eq!(counts(&[one.clone(), other.clone()]), [1, 1], "{other:?}");
    }
    // A sender's own checksum, right or wrong, is not for others to compute.
    let frames = [&one, &second].map(|packet| Frame::new(packet.complete(), Time::ZERO));
    assert_eq!(joined(&frames).len(), 2);
    assert_eq!(received(&frames), bytes(&frames));
}

#[test]
fn flows_take_turns_and_each_has_its_frame() {
    let mut packets = Vec::new();
    for number in 0..10_u16 {
        for port in 0..4 {
            packets.push(Fields { port, ..tcp(u32::from(number) * 100, number, ACK, 100) });
        }
    }
    let frames: Vec<_> = packets.iter().map(Fields::alone).collect();
    let found: Vec<_> = joined(&frames).iter().map(|(_, bytes, count)| (bytes[21], *count)).collect();
    assert_eq!(found, [(0, 10), (1, 10), (2, 10), (3, 10)]);
}

#[test]
fn a_frame_stays_below_64_kilobytes() {
    let packets: Vec<_> = (0..100_u16).map(|number| tcp(u32::from(number) * 1448, number, ACK, 1448)).collect();
    assert_eq!(counts(&packets), [45, 45, 10]);
}

#[test]
fn a_datagram_without_a_checksum_keeps_none() {
    let datagram = Fields { tcp: false, ..tcp(0, 1, 0, 50) };
    let mut bytes = datagram.partial();
    bytes[datagram.start() + 6..datagram.start() + 8].fill(0);
    let frames = [Frame::new(bytes.clone(), Time::ZERO), Frame::new(bytes.clone(), Time::ZERO)];
    assert_eq!(received(&frames), [bytes.clone(), bytes]);
}
