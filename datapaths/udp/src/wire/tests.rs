use paceline_cc::{Ecn, MAX_FEEDBACK, Time};
use paceline_transport::{AckSegment, ArrivalTime, MAX_ARRIVALS, MAX_SACKS, Range, Segment};
use proptest::prelude::*;

use super::control::{Challenge, Close, Cookie, Hello, Refuse, SessionJob, SessionVerdict, Welcome, proved};
use super::{DATA_HEADER, HEADER, LIMIT, MalformedPacket, NOTE, PacketHeader, PacketKind};
use super::{ack_flags, data_flags, read_ack, read_data, write_ack, write_data};

const KEY: [u8; 32] = [5; 32];

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..LIMIT, 0..10_000_u64, Just(LIMIT - 1)]
}

fn range() -> impl Strategy<Value = Range> {
    (0..LIMIT - 1, 1..1_000_000_u64)
        .prop_map(|(start, length)| Range { start, end: (start + length).min(LIMIT - 1) })
        .prop_filter("empty", |range| range.start < range.end)
}

fn segment() -> impl Strategy<Value = Segment> {
    let ecn = prop_oneof![Just(Ecn::Off), Just(Ecn::Classic), Just(Ecn::Exact), Just(Ecn::L4s)];
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (number(), 0..1500_u32, number(), flags, ecn, prop_oneof![Just(0), any::<u64>()]).prop_map(
        |(seq, bytes, sent_at, (retransmission, syn, cwr), ecn, note)| Segment {
            seq,
            bytes: if syn { 0 } else { bytes },
            sent_at: Time::from_nanos(sent_at),
            retransmission,
            syn,
            cwr,
            ecn,
            note,
        },
    )
}

fn ack() -> impl Strategy<Value = AckSegment> {
    let sacks = prop::collection::vec(range(), 0..=MAX_SACKS);
    let arrivals = prop::collection::vec((0..1_u64 << 31, 0..1_u64 << 32), 0..=MAX_ARRIVALS);
    let feedback = prop::collection::vec(any::<u8>(), 0..=MAX_FEEDBACK);
    let marks = prop_oneof![Just((0, 0)), (number(), 1..LIMIT)];
    let times = (1_u64 << 32..LIMIT, number());
    let rest = (any::<bool>(), any::<bool>(), marks, times);
    let options = (prop::option::of(range()), prop::option::of(arrivals), prop::option::of(feedback));
    (1_u64 << 31..LIMIT, sacks, options, rest).prop_map(
        |(cumulative, list, (duplicate, arrivals, feedback), (syn, ece, (ce_bytes, ce_packets), (at, echo)))| {
            let mut sacks = [Range::default(); MAX_SACKS];
            sacks[..list.len()].copy_from_slice(&list);
            let arrival = |(behind, ago)| ArrivalTime { seq: cumulative - behind, at: Time::from_nanos(at - ago) };
            AckSegment {
                cumulative,
                sacks,
                sack_count: list.len() as u8,
                duplicate,
                syn,
                echo_sent_at: Time::from_nanos(echo),
                received_at: Time::from_nanos(at),
                ece,
                ce_bytes,
                ce_packets,
                arrivals: arrivals.map(|list| list.into_iter().map(arrival).collect()),
                feedback: feedback.map(Vec::into_boxed_slice),
            }
        },
    )
}

fn cookie(mac: [u8; 32]) -> Cookie {
    let mut cookie = [7; size_of::<Cookie>()];
    cookie[6..].copy_from_slice(&mac);
    cookie
}

fn hello() -> impl Strategy<Value = Hello> {
    let job = prop_oneof![
        Just(SessionJob::Discard),
        Just(SessionJob::Store),
        Just(SessionJob::Fetch),
        Just(SessionJob::Generate),
        Just(SessionJob::Record)
    ];
    let numbers = (any::<u16>(), any::<bool>(), any::<u8>(), prop::option::of(0..LIMIT - 1));
    (
        any::<[u8; 16]>(),
        prop::option::of(prop::array::uniform32(any::<u8>()).prop_map(cookie)),
        job,
        numbers,
        "\\PC{0,60}",
        "\\PC{0,60}",
    )
        .prop_map(|(random, cookie, job, (mss, arrivals, ack_every, bytes), controller, name)| Hello {
            random,
            cookie,
            job,
            mss,
            arrivals,
            ack_every,
            bytes,
            controller,
            name,
        })
}

proptest! {
    #[test]
    fn headers_come_back(kind in 1..=7_u8, flags in any::<u8>(), session in any::<u32>(), number in number()) {
        let header = PacketHeader { kind: PacketKind::from_repr(kind).unwrap(), flags, session, number };
        let mut bytes = Vec::new();
        header.write(&mut bytes).unwrap();
        prop_assert_eq!(bytes.len(), HEADER);
        prop_assert_eq!(PacketHeader::read(&bytes), Ok(header));
        prop_assert_eq!(PacketHeader::read(&bytes[..HEADER - 1]), Err(MalformedPacket::Short));
    }

    #[test]
    fn data_comes_back(segment in segment()) {
        let mut bytes = Vec::new();
        write_data(&mut bytes, &segment).unwrap();
        let note = if segment.note == 0 { 0 } else { NOTE };
        prop_assert_eq!(HEADER + bytes.len(), DATA_HEADER + note);
        let from = bytes.len();
        bytes.resize(from + segment.bytes as usize, 7);
        let (read, payload) = read_data(data_flags(&segment), &bytes).unwrap();
        prop_assert_eq!(read, segment);
        prop_assert_eq!(payload, &bytes[from..]);
    }

    #[test]
    fn acknowledgements_come_back(ack in ack()) {
        let mut bytes = Vec::new();
        write_ack(&mut bytes, &ack).unwrap();
        prop_assert!(HEADER + bytes.len() < 1400, "{} bytes", bytes.len());
        prop_assert_eq!(read_ack(ack_flags(&ack), &bytes), Ok(ack.clone()));
        for cut in 0..bytes.len() {
            prop_assert!(read_ack(ack_flags(&ack), &bytes[..cut]).is_err());
        }
    }

    #[test]
    fn handshakes_come_back(hello in hello(), server in any::<[u8; 16]>(), session in any::<u32>(), why in "\\PC{0,60}") {
        let packet = hello.packet(&KEY).unwrap();
        let header = PacketHeader::read(&packet).unwrap();
        prop_assert_eq!(Hello::read(header.flags, proved(&KEY, &packet).unwrap()), Ok(hello.clone()));
        prop_assert_eq!(proved(&[6; 32], &packet), None);

        let challenge = Challenge { random: hello.random, cookie: hello.cookie.unwrap_or([0; 38]) };
        let answer = challenge.packet(&KEY);
        prop_assert!(answer.len() < packet.len(), "an answer to a stranger is shorter than the question");
        prop_assert_eq!(Challenge::read(proved(&KEY, &answer).unwrap()), Ok(challenge));

        let welcome = Welcome { random: hello.random, server, bytes: hello.bytes };
        let answer = welcome.packet(&KEY, session).unwrap();
        prop_assert_eq!(PacketHeader::read(&answer).unwrap().session, session);
        prop_assert_eq!(Welcome::read(proved(&KEY, &answer).unwrap()), Ok(welcome));

        let refuse = Refuse { random: hello.random, why };
        prop_assert_eq!(Refuse::read(proved(&KEY, &refuse.packet(&KEY)).unwrap()), Ok(refuse.clone()));
    }

    #[test]
    fn closings_come_back(verdict in 0..5_u8, bytes in number(), digest in any::<[u8; 32]>()) {
        let verdict = SessionVerdict::from_repr(verdict).unwrap();
        let close = Close { verdict, bytes, digest };
        let mut out = Vec::new();
        close.write(&mut out).unwrap();
        prop_assert_eq!(Close::read(0, &out), Ok(close));
    }

    #[test]
    fn any_bytes_are_read_or_refused_and_what_is_read_has_one_form(flags in any::<u8>(), body in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok((segment, payload)) = read_data(flags, &body) {
            let mut again = Vec::new();
            write_data(&mut again, &segment).unwrap();
            again.extend_from_slice(payload);
            prop_assert_eq!((data_flags(&segment), again), (flags, body.clone()));
        }
        if let Ok(ack) = read_ack(flags, &body) {
            let mut again = Vec::new();
            write_ack(&mut again, &ack).unwrap();
            prop_assert_eq!((ack_flags(&ack), again), (flags, body.clone()));
        }
        let _ = (Hello::read(flags, &body), Challenge::read(&body), Welcome::read(&body), Refuse::read(&body));
        let _ = (Close::read(flags, &body), PacketHeader::read(&body), proved(&KEY, &body));
    }
}

#[test]
fn a_session_that_lasts_too_long_says_so() {
    let segment = Segment {
        seq: LIMIT,
        bytes: 0,
        sent_at: Time::ZERO,
        retransmission: false,
        syn: false,
        cwr: false,
        ecn: Ecn::Off,
        note: 0,
    };
    assert!(write_data(&mut Vec::new(), &segment).is_err());
    assert!(write_data(&mut Vec::new(), &Segment { seq: 0, sent_at: Time::from_nanos(LIMIT), ..segment }).is_err());
}

#[test]
fn a_full_packet_is_1500_bytes_as_tcps_are() {
    assert_eq!(20 + 8 + DATA_HEADER + 1448, 1500);
}

#[test]
fn another_version_is_named() {
    let error = PacketHeader::read(&[0x25; HEADER]).unwrap_err();
    assert!(error.to_string().contains("version 2"), "{error}");
}
