use proptest::collection;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use paceline_cc::{Nanos, Time};

/// What a sink saw behind a hop in eBPF and one of Linux' own.
const CAPTURED: &str = "06070100 312a0000 80012000 c6000000 3f222222 00020003 003b0190 00000000 \
                        3f000007 00640065 deadbeef 00000000 1e0e1801 00000007 00012345 0000000a";

fn octets(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let digit = |digit: u8| char::from(digit).to_digit(16).unwrap() as u8;
    digits.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

fn edge() -> Edge {
    Edge { segs: 1, seq: 7, sent_us: 0x12345, cwnd: Some(10), ..Edge::default() }
}

fn long() -> Edge {
    Edge { long: Some(Long { flow: 0xdead_0001, ssthresh: 64, srtt_64us: 312 }), ..edge() }
}

#[test]
fn a_captured_header_is_read_first_hop_first() {
    let bytes = octets(CAPTURED);
    let (header, used) = TelemetryHeader::decode(&bytes).unwrap();
    assert_eq!((used, bytes.len()), (64, 64));
    assert_eq!((header.next_header, header.namespace, header.profile), (6, NAMESPACE, RecordProfile::Lean));
    assert_eq!((header.capacity_hops, header.overflow, header.edge, header.standard), (2, false, Some(edge()), None));
    let [linux, ours] = header.records[..] else { panic!("{header:?}") };
    assert_eq!((linux.node, linux.hop_limit, linux.ingress, linux.egress), (7, 63, Some(100), Some(101)));
    // Linux writes a constant where our words are: this one means nothing.
    assert_eq!((linux.room_packets, linux.flows, linux.queue_bytes), (Some(0xdead), Some(0xbe), Some(0)));
    assert_eq!((ours.node, ours.room_packets, ours.flows), (0x22_2222, Some(59), Some(1)));
    // 0x90 = 144: 2^18.
    assert_eq!(ours.arrival_pps, Some(262_144.0));
    assert_eq!(header.encode(), bytes);
}

#[test]
fn headers_have_the_sizes_that_are_documented() {
    let size = |profile, hops, edge, standard| {
        let header = TelemetryHeader { standard, ..TelemetryHeader::new(profile, hops, edge) };
        let bytes = header.encode();
        assert_eq!((bytes.len(), 8 * (usize::from(bytes[1]) + 1)), (header.octets(), header.octets()));
        bytes.len()
    };
    assert_eq!(size(RecordProfile::Lean, 0, edge(), None), 32);
    assert_eq!(size(RecordProfile::Lean, 2, edge(), None), 64);
    assert_eq!(size(RecordProfile::Lean, 2, edge(), Some(StandardEdge::default())), 88);
    assert_eq!(size(RecordProfile::Counted, 2, edge(), None), 72);
    assert_eq!(size(RecordProfile::Timed, 2, edge(), None), 80);
    assert_eq!(size(RecordProfile::Full, 2, edge(), None), 112);
    assert_eq!(size(RecordProfile::Full, 2, long(), None), 120);
    assert_eq!(size(RecordProfile::Word, 1, edge(), None), 40);
    assert_eq!(RecordProfile::ALL.map(RecordProfile::max_hops), [15, 10, 12, 6, 1]);
    assert_eq!(MAX_HOPS, 15);
}

fn records() -> impl Strategy<Value = NodeRecord> {
    let ids = (any::<u8>(), 0..=0x00ff_ffffu32, option::of(0..u16::MAX), option::of(0..u16::MAX));
    let times = (option::of(0..u64::MAX / 4), option::of(0..u64::MAX));
    let short = (option::of(any::<u32>()), option::of(any::<u32>()), option::of(0.0..1e12f64));
    let queue = (option::of(any::<u32>()), option::of(-1.0..2.0f64), option::of(any::<u16>()));
    let radio = (option::of(any::<u16>()), option::of(any::<u16>()), option::of(any::<i8>()));
    let rate = (option::of(any::<u8>()), option::of(any::<u32>()));
    (ids, times, short, queue, radio, rate).prop_map(|(ids, times, short, queue, radio, rate)| NodeRecord {
        hop_limit: ids.0,
        node: ids.1,
        ingress: ids.2,
        egress: ids.3,
        at: times.0.map(Time::from_nanos),
        transit: times.1.map(Nanos::from_nanos),
        room_packets: short.0,
        flows: short.1,
        arrival_pps: short.2,
        queue_bytes: queue.0,
        occupancy: queue.1,
        flow_dropped: queue.2,
        link_lost: radio.0,
        dropped: radio.1,
        rssi_dbm: radio.2,
        mcs: rate.0,
        rate_100k: rate.1,
    })
}

fn edges() -> impl Strategy<Value = Edge> {
    let long = option::of((any::<u32>(), any::<u16>(), any::<u16>()));
    let fixed = (1u8.., any::<u32>(), any::<u32>(), option::of(any::<u32>()), any::<bool>());
    (fixed, long).prop_map(|((segs, seq, sent_us, cwnd, sampled), long)| Edge {
        segs,
        seq,
        sent_us,
        cwnd,
        sampled,
        long: long.map(|(flow, ssthresh, srtt_64us)| Long { flow, ssthresh, srtt_64us }),
    })
}

fn headers() -> impl Strategy<Value = TelemetryHeader> {
    let standard = option::of((any::<u32>(), any::<u32>(), any::<u32>()));
    let profiles = select(&RecordProfile::ALL[..]);
    let parts = (any::<u8>(), profiles, 0u8..20, any::<bool>(), option::of(edges()), standard, any::<bool>());
    (parts, collection::vec(records(), 0..20)).prop_map(
        |((next_header, profile, hops, overflow, edge, standard, wide), records)| {
            let standard = standard.map(|(seq, seconds, micros)| StandardEdge { seq, seconds, micros });
            let is_word = profile == RecordProfile::Word;
            let mut word = is_word.then(|| PathWord::asking(WordSignal::of(u32::from(hops))));
            word.iter_mut().for_each(|word| records.iter().for_each(|record| word.pass(record)));
            TelemetryHeader {
                next_header,
                namespace: if wide { WIDE_NAMESPACE } else { profile.namespace() },
                profile,
                capacity_hops: if is_word { 1 } else { hops },
                overflow,
                records: if is_word { Vec::new() } else { records },
                word,
                edge,
                standard,
            }
        },
    )
}

proptest! {
    /// What is read is what was written, but for what the wire rounds; and what is read is written as it was.
    #[test]
    fn a_header_is_read_as_it_was_written(header in headers()) {
        let bytes = header.encode();
        let (read, used) = TelemetryHeader::decode(&bytes).unwrap();
        prop_assert_eq!((used, used % 8, bytes.len()), (header.octets(), 0, used));
        prop_assert_eq!(&read.encode(), &bytes);
        let kept = header.records.len().min(header.profile.max_hops());
        prop_assert_eq!((read.records.len(), read.overflow), (kept, header.overflow || kept < header.records.len()));
        prop_assert_eq!((read.edge, read.standard, read.profile), (header.edge, header.standard, header.profile));
        prop_assert_eq!((read.word, read.namespace), (header.word, header.namespace));
        for (written, read) in header.records.iter().zip(&read.records) {
            prop_assert_eq!((written.hop_limit, written.node, written.ingress, written.egress),
                (read.hop_limit, read.node, read.ingress, read.egress));
            prop_assert_eq!(written.room_packets.map(|room| room.min(0xfffe)), read.room_packets);
            prop_assert_eq!(written.flows.map(|flows| flows.clamp(1, 254)), read.flows);
            if let (Some(written), Some(read)) = (written.arrival_pps, read.arrival_pps) {
                prop_assert!(!(1.05..2e9).contains(&written) || (read / written - 1.0).abs() < 0.046, "{} {}", written, read);
            }
        }
        if header.profile == RecordProfile::Full {
            for (written, read) in header.records.iter().zip(&read.records) {
                prop_assert_eq!(written.flow_dropped.filter(|count| *count != u16::MAX), read.flow_dropped);
                prop_assert_eq!(written.occupancy.is_some(), read.occupancy.is_some());
                let near = |rate: u32| if header.namespace == NAMESPACE { rate.min(0xfffe) } else { rate };
                let off = written.rate_100k.map(near).zip(read.rate_100k).map(|(rate, read)| rate.abs_diff(read));
                prop_assert!(off.is_none_or(|off| off <= written.rate_100k.unwrap_or(0) / 2_048), "{:?}", off);
                prop_assert_eq!(written.at.map(|at| at.as_nanos() / 1000).filter(|us| us / 1_000_000 < u64::from(u32::MAX - 1)),
                    read.at.map(|at| at.as_nanos() / 1000).filter(|us| us / 1_000_000 < u64::from(u32::MAX - 1)));
            }
        }
    }

    /// Hops that write one after the other leave what would have been written at once; one too many sets the flag and nothing else.
    #[test]
    fn records_are_pushed_in_the_order_of_the_hops(header in headers()) {
        let empty = TelemetryHeader { records: Vec::new(), overflow: false, ..header.clone() };
        let mut bytes = empty.encode();
        let room = usize::from(header.capacity_hops).min(header.profile.max_hops());
        for (index, record) in header.records.iter().enumerate() {
            let before = bytes.clone();
            let pushed = push_record(&mut bytes, record);
            prop_assert_eq!(pushed, if index < room { Ok(()) } else { Err(Refused::Full) });
            if index >= room {
                let changed = (0..bytes.len()).filter(|at| bytes[*at] != before[*at]).collect::<Vec<_>>();
                prop_assert!(changed.is_empty() || changed == [10]);
            }
        }
        let records = header.records[..header.records.len().min(room)].to_vec();
        let overflow = header.records.len() > room;
        prop_assert_eq!(bytes, TelemetryHeader { records, overflow, ..header }.encode());
    }

    /// Whatever the octets: an answer or a line of text, and a push that is refused as foreign changes nothing.
    #[test]
    fn any_octets_are_read_or_refused(header in headers(), changes in collection::vec((any::<u16>(), any::<u8>()), 0..6), cut in any::<u16>()) {
        let mut bytes = header.encode();
        for (at, value) in changes {
            let length = bytes.len();
            bytes[usize::from(at) % length] = value;
        }
        bytes.truncate(usize::from(cut) % 300);
        match TelemetryHeader::decode(&bytes) {
            Ok((header, used)) => {
                prop_assert!(used <= bytes.len() && header.records.len() <= MAX_HOPS);
                let again = header.encode();
                prop_assert_eq!(TelemetryHeader::decode(&again), Ok((header, again.len())));
            }
            Err(error) => prop_assert!(!error.to_string().contains('\n')),
        }
        let before = bytes.clone();
        if let Err(Refused::Foreign(why)) = push_record(&mut bytes, &NodeRecord::default()) {
            prop_assert!(bytes == before && !why.contains('\n'));
        }
    }
}

#[test]
fn what_is_wrong_is_named() {
    let good = || TelemetryHeader::new(RecordProfile::Lean, 2, edge()).encode();
    let wrong = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good();
        change(&mut bytes);
        let error = TelemetryHeader::decode(&bytes).unwrap_err();
        // A hop writes into none of them, but for those whose fault is behind the trace.
        (error, push_record(&mut bytes, &NodeRecord::default()).is_ok())
    };
    assert!(TelemetryHeader::decode(&good()).is_ok());
    assert_eq!(wrong(&|bytes| bytes.truncate(63)), (WireError::Truncated { need: 64, have: 63 }, true));
    assert_eq!(wrong(&|bytes| bytes.truncate(1)), (WireError::Truncated { need: 8, have: 1 }, false));
    assert_eq!(wrong(&|bytes| bytes.clear()), (WireError::Truncated { need: 8, have: 0 }, false));
    assert_eq!(wrong(&|bytes| bytes[5] = 0xff), (WireError::Option { kind: TRACE_OPTION, at: 4 }, false));
    assert_eq!(wrong(&|bytes| bytes[49] = 15), (WireError::Option { kind: EDGE_OPTION, at: 48 }, true));
    assert_eq!(wrong(&|bytes| bytes[8] = 0), (WireError::Namespace(1), false));
    assert_eq!(wrong(&|bytes| bytes[12] = 0xc7), (WireError::TraceType(0xc7_0000), false));
    assert_eq!(wrong(&|bytes| bytes[10] = 5 << 3), (WireError::Length { what: "NodeLen", value: 5 }, false));
    assert_eq!(wrong(&|bytes| bytes[11] = 12), (WireError::Length { what: "RemainingLen", value: 12 }, false));
    assert_eq!(wrong(&|bytes| bytes[11] = 7), (WireError::Length { what: "RemainingLen", value: 7 }, true));
    assert_eq!(wrong(&|bytes| bytes[50] = 0x28), (WireError::Version(2), true));
    assert_eq!(wrong(&|bytes| bytes[7] = 4), (WireError::NoTrace, false));
    assert_eq!(wrong(&|bytes| bytes[4] = 0x3e), (WireError::NoTrace, false));
    let twice = |bytes: &mut Vec<u8>| {
        bytes.extend_from_within(48..);
        bytes[1] = 9;
    };
    assert_eq!(wrong(&twice), (WireError::Twice(EDGE_OPTION), true));
    let many = |bytes: &mut Vec<u8>| {
        *bytes = [&[6, 2, 5, 0], &[5, 0].repeat(10)[..]].concat();
    };
    assert_eq!(wrong(&many), (WireError::Options, false));
}

#[test]
fn foreign_options_and_padding_are_skipped() {
    // Router alert (RFC 2711), Pad1 twice, then ours.
    let bytes = TelemetryHeader::new(RecordProfile::Lean, 0, edge()).encode();
    let alert: &[u8] = &[6, 4, 5, 2, 0, 0, 0, 0];
    let with = [alert, &bytes[4..], &[0, 0, 0, 0]].concat();
    let (header, used) = TelemetryHeader::decode(&with).unwrap();
    assert_eq!((header.edge, used), (Some(edge()), 40));
    // A hop writes only where it finds a trace at once.
    let mut with = with;
    assert!(matches!(push_record(&mut with, &NodeRecord::default()), Err(Refused::Foreign(_))));
}

#[test]
fn a_full_trace_gets_the_overflow_flag_and_nothing_else() {
    let mut bytes = TelemetryHeader::new(RecordProfile::Counted, 1, edge()).encode();
    let record =
        |node| NodeRecord { node, hop_limit: 60, flow_dropped: Some(3), occupancy: Some(0.5), ..NodeRecord::default() };
    push_record(&mut bytes, &record(1)).unwrap();
    assert_eq!(push_record(&mut bytes, &record(2)), Err(Refused::Full));
    let (header, _) = TelemetryHeader::decode(&bytes).unwrap();
    assert!(header.overflow);
    let [first] = header.records[..] else { panic!("{header:?}") };
    assert_eq!((first.node, first.flow_dropped, first.room_packets, first.dropped), (1, Some(3), None, None));
    assert!((first.occupancy.unwrap() - 0.5).abs() < 1e-4);
}

#[test]
fn what_a_hop_does_not_know_is_all_ones_and_nonsense_is_not_known() {
    let mut bytes = TelemetryHeader::new(RecordProfile::Full, 1, edge()).encode();
    push_record(&mut bytes, &NodeRecord { node: 5, ..NodeRecord::default() }).unwrap();
    assert!(bytes[20..56].iter().all(|octet| *octet == 0xff), "{bytes:02x?}");
    let (header, _) = TelemetryHeader::decode(&bytes).unwrap();
    assert_eq!(header.records, [NodeRecord { node: 5, ..NodeRecord::default() }]);
    // A fraction of a second of two seconds; a signal of +5 dBm.
    bytes[24..32].copy_from_slice(&[0, 0, 0, 1, 0, 0x1e, 0x84, 0x80]);
    bytes[48] = 5;
    let (header, _) = TelemetryHeader::decode(&bytes).unwrap();
    assert_eq!((header.records[0].at, header.records[0].rssi_dbm), (None, None));
    // No flow at all, though there is a packet.
    bytes[38] = 0;
    let (header, _) = TelemetryHeader::decode(&bytes).unwrap();
    assert_eq!(header.records[0].flows, Some(1));
}

#[test]
fn arrival_rates_have_steps_of_nine_percent() {
    assert_eq!(
        [0.0, 1.0, 1.04, 1.05, 2.0, 1650.0, 2_147_483_648.0, 1e300].map(rate_code),
        [0, 0, 0, 1, 8, 86, 248, 248]
    );
    assert_eq!((rate_of(0), rate_of(8), rate_of(248), rate_of(255)), (0.0, 2.0, 2_147_483_648.0, 2_147_483_648.0));
    assert_eq!(rate_code(f64::NAN), 255);
}

#[test]
fn a_link_of_a_hundred_gigabits_is_one_in_the_second_namespace() {
    let told = |namespace, rate| {
        let full = TelemetryHeader { namespace, ..TelemetryHeader::new(RecordProfile::Full, 1, edge()) };
        let mut bytes = full.encode();
        push_record(&mut bytes, &NodeRecord { rate_100k: Some(rate), ..NodeRecord::default() }).unwrap();
        TelemetryHeader::decode(&bytes).unwrap().0.records[0].rate_100k
    };
    // 100 Gbit/s in 0.1 Mbit/s, 0.0064 % less; and what fits into 16 bits is as it was.
    assert_eq!([NAMESPACE, WIDE_NAMESPACE].map(|space| told(space, 1_000_000)), [Some(0xfffe), Some(999_936)]);
    assert_eq!([NAMESPACE, WIDE_NAMESPACE].map(|space| told(space, 200)), [Some(200); 2]);
}

#[test]
fn each_hop_compares_its_word_and_replaces_it() {
    let hop = |hop_limit, rate: u32, queue: u32| NodeRecord {
        hop_limit,
        rate_100k: Some(rate),
        arrival_pps: Some(1_000.0),
        queue_bytes: Some(queue),
        ..NodeRecord::default()
    };
    let through = |seq, hops: &[NodeRecord]| {
        let mut bytes = TelemetryHeader::new(RecordProfile::Word, 1, Edge { seq, ..edge() }).encode();
        for hop in hops {
            push_record(&mut bytes, hop).unwrap();
        }
        assert_eq!(bytes.len(), 40);
        let (header, _) = TelemetryHeader::decode(&bytes).unwrap();
        assert!(header.records.is_empty() && !header.overflow);
        let word = header.word.unwrap();
        (word.signal, word.hop_limit, word.value())
    };
    let hops = [hop(63, 1_000, 60_560), hop(62, 200, 3_028), hop(61, 10_000, 0)];
    // 20 Mbit/s less 12.112 of a thousand full packets, and 60560 octets at 100 Mbit/s.
    assert_eq!(through(0, &hops), (WordSignal::Available, 62, Some(7.9e6)));
    let (signal, place, share) = through(1, &hops);
    assert!((share.unwrap() - 0.3944).abs() < 1e-4 && (signal, place) == (WordSignal::AvailableShare, 62), "{share:?}");
    let (signal, place, delay) = through(2, &hops);
    assert!((delay.unwrap() - 0.004_844_8).abs() < 5e-6 && (signal, place) == (WordSignal::Delay, 63), "{delay:?}");
    assert_eq!(through(3, &[]), (WordSignal::Available, 0, None));
    // A word of no signal, and one in a namespace that has none.
    let mut bytes = TelemetryHeader::new(RecordProfile::Word, 1, edge()).encode();
    bytes[16] = 3;
    assert_eq!(TelemetryHeader::decode(&bytes), Err(WireError::Signal(3)));
    assert!(matches!(push_record(&mut bytes, &hops[0]), Err(Refused::Foreign(_))));
    (bytes[9], bytes[16]) = (1, 0);
    assert_eq!(TelemetryHeader::decode(&bytes), Err(WireError::TraceType(0x00_1000)));
}

#[test]
fn headers_are_as_long_as_the_format_says() {
    let of_two = [64, 80, 72, 120, 40];
    assert_eq!(RecordProfile::ALL.map(|profile| profile.header_octets(2)), of_two);
    assert_eq!(RecordProfile::Counted.header_octets(1), 56);
    for profile in RecordProfile::ALL {
        for hops in 1..=6 {
            let long = Long { flow: 1, ssthresh: 2, srtt_64us: 3 };
            let long = (profile == RecordProfile::Full).then_some(long);
            let edge = Edge { segs: 1, long, ..Default::default() };
            let header = TelemetryHeader::new(profile, hops, edge);
            assert_eq!(header.octets(), profile.header_octets(hops), "{profile:?} {hops}");
        }
    }
}
