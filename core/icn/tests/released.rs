//! The format of the authors' release (IP protocol 153), here only to hold ours against it: what it cannot say, and what its two ends
//! understand differently.

use paceline_cc::Nanos;
use paceline_icn::name::{Name, NameKind};
use paceline_icn::wire::{DATA_HEAD, UnitHead, UnitRequest};
use paceline_icn::{Ranges, UNIT, Units};

/// Bytes of its header, behind that of IPv4.
const HEADER: usize = 64;
const IPV4: usize = 20;

/// The fields that either end sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Released {
    /// Bytes from `offset` on are wanted.
    Request { source_port: u16, destination_port: u16, length: u32, offset: u32 },
    /// The payload ends before `end`.
    Data { source_port: u16, destination_port: u16, end: u32 },
}

/// Flags of a request, and those of data, whose own bit (the lowest) is not set.
const REQUEST: u8 = 0x02;
const DATA: u8 = 0xe0;

impl Released {
    fn encode(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        let (ports, flags, length, offset) = match self {
            Self::Request { source_port, destination_port, length, offset } => {
                ([source_port, destination_port], REQUEST, length, offset)
            }
            Self::Data { source_port, destination_port, end } => {
                bytes[0] = 17;
                bytes[1] = 44;
                bytes[4..24].fill(0xff);
                bytes[24..44].copy_from_slice(&std::array::from_fn::<u8, 20, _>(|index| index as u8 + 1));
                ([source_port, destination_port], DATA, 0, end)
            }
        };
        bytes[44..46].copy_from_slice(&ports[0].to_be_bytes());
        bytes[46..48].copy_from_slice(&ports[1].to_be_bytes());
        bytes[48] = flags;
        bytes[52..56].copy_from_slice(&length.to_be_bytes());
        bytes[56..60].copy_from_slice(&offset.to_be_bytes());
        bytes
    }

    /// As its receiver reads it: ports and offset count, nothing else is looked at.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let header: &[u8; HEADER] = bytes.first_chunk()?;
        let short = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let long = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let (source_port, destination_port) = (short(44), short(46));
        Some(if header[48] & REQUEST != 0 {
            Self::Request { source_port, destination_port, length: long(52), offset: long(56) }
        } else {
            Self::Data { source_port, destination_port, end: long(56) }
        })
    }
}

/// What its server answers: a packet for each whole unit, however many.
fn answers(request: Released) -> Vec<Released> {
    let Released::Request { source_port, destination_port, length, offset } = request else { return Vec::new() };
    (1..=length / UNIT as u32)
        .map(|count| Released::Data {
            source_port: destination_port,
            destination_port: source_port,
            end: offset.wrapping_add(count * UNIT as u32),
        })
        .collect()
}

#[test]
fn its_data_names_the_end_of_the_payload_and_ours_the_unit() {
    let request = Released::Request { source_port: 7, destination_port: 9, length: 3 * UNIT as u32, offset: 2800 };
    assert_eq!(Released::decode(&request.encode()), Some(request));
    let ends: Vec<_> = answers(request).into_iter().filter_map(|data| Released::decode(&data.encode())).collect();
    let data = |end| Released::Data { source_port: 9, destination_port: 7, end };
    assert_eq!(ends, [data(4200), data(5600), data(7000)]);
    // In ours the first of them is unit 2 of the stored form, by its number.
    let ours =
        UnitHead { nonce: 1, unit: 2, stored_units: None, waited: Nanos::ZERO, app_limited: false }.encode_head();
    assert_eq!(ours[10..18], 2_u64.to_be_bytes());
}

#[test]
fn the_vectors_of_its_header() {
    let data = Released::Data { source_port: 0x1234, destination_port: 0x5678, end: 0x0102_0304 }.encode();
    assert_eq!((data[0], data[1], data[48]), (17, 44, 0xe0));
    assert_eq!(data[24..28], [1, 2, 3, 4]);
    assert_eq!(data[44..48], [0x12, 0x34, 0x56, 0x78]);
    assert_eq!(data[56..60], [1, 2, 3, 4]);
    assert_eq!(data[60..64], [0; 4], "neither a sequence number nor a checksum");
    assert_eq!(Released::decode(&data[..63]), None);
}

#[test]
fn anyone_can_inject_its_data_and_not_ours() {
    // A guess of a port and an offset suffices: the name, the address and the checksum are not looked at.
    let mut forged = Released::Data { source_port: 1, destination_port: 7, end: 4200 }.encode();
    forged[4..44].fill(0);
    forged[62] = 0xff;
    assert_eq!(Released::decode(&forged), Some(Released::Data { source_port: 1, destination_port: 7, end: 4200 }));
    // Ours has 64 bits drawn at random in each answer (`fetch::strangers_are_not_listened_to`).
}

#[test]
fn what_a_packet_costs_and_how_much_one_request_can_ask_for() {
    assert_eq!((IPV4 + HEADER, IPV4 + HEADER + UNIT), (84, 1484));
    // Ours over UDP.
    assert_eq!(IPV4 + 8 + DATA_HEAD + UNIT, 1458);
    let mut bytes = Vec::new();
    let ranges = Ranges::new(Units { first: 1 << 40, count: 64 }).expect("a request holds 64");
    let name = Name::new(NameKind::Object, [9; 32]);
    UnitRequest { nonce: 1, name, ranges, token: None, hops: 0, padded: 0 }.encode(&mut bytes);
    assert_eq!(IPV4 + 8 + bytes.len(), 82);
    assert!(Ranges::new(Units { first: 0, count: 65 }).is_none());
    // Its server knows no limit: one packet asks for 4.5 GB, and an object ends at 4 GiB.
    let all = Released::Request { source_port: 1, destination_port: 2, length: u32::MAX, offset: 0 };
    let Some(Released::Request { length, .. }) = Released::decode(&all.encode()) else { unreachable!("a request") };
    assert_eq!(length / UNIT as u32, 3_067_833);
    // And a length that is not a multiple of 1400 loses its tail.
    let odd = Released::Request { source_port: 1, destination_port: 2, length: 1399, offset: 0 };
    assert!(answers(odd).is_empty());
}
