//! Real TCP over IPv6 from a host through a router to another one, with telemetry.
#![cfg(target_os = "linux")]

mod nodes;

use std::net::SocketAddr;

use nodes::{A, B, Chain, Frames, checksum, ipv6, opened, reports_of, run, telemetry};
use paceline_int::bus::flow_number;
use paceline_int::{
    Hook, KernelQueueLimit, SinkNode, SinkOptions, SourceNode, SourceOptions, TransitNode, TransitOptions,
};
use paceline_telemetry::{FlowReport, RecordProfile};

const PORT: u16 = 5201;

fn on(ports: &[u16]) -> SourceOptions {
    SourceOptions { ports: ports.to_vec(), patience: None, ..SourceOptions::default() }
}

fn transit(node: u32) -> TransitOptions {
    TransitOptions { node: Some(node), ..TransitOptions::default() }
}

#[test]
fn headers_are_inserted_filled_and_taken_out() {
    let test = "headers_are_inserted_filled_and_taken_out";
    let Some(chain) = Chain::new(test) else { return };
    run(&chain.r, "tc qdisc add dev r1 root tbf rate 200mbit burst 100k limit 1000000");
    let Some(source) = opened(test, chain.a.enter(|| SourceNode::open("a0", &on(&[PORT]))).unwrap()) else { return };
    let transit = chain.r.enter(|| TransitNode::open("r1", &transit(42))).unwrap().unwrap();
    assert_eq!(transit.limit(), Some(KernelQueueLimit::Bytes(1_000_000)));
    let mut sink = chain
        .b
        .enter(|| SinkNode::open("b0", &SinkOptions { synced: true, ..SinkOptions::default() }))
        .unwrap()
        .unwrap();
    assert_eq!((source.hook(), transit.hook(), sink.hook()), (Hook::Tcx, Hook::Tcx, Hook::Tcx));
    let reports = reports_of(&mut sink, || chain.transfer(PORT, 8 << 20));

    let (sent, passed, taken) = (source.counters(), transit.counters(), sink.counters());
    // The peer's announcement in its SYN-ACK.
    assert_eq!((sent.segment_sizes, sent.too_big, sent.failed), (1, 0, 0), "{sent:?}");
    assert!(sent.inserted > 0 && sent.packets > (8 << 20) / 1448, "{sent:?}");
    assert!(sent.full > 0 && sent.full < sent.packets / 2, "{sent:?}");
    assert_eq!((passed.written, passed.failed, passed.unknown_profile), (sent.packets, 0, 0), "{passed:?}");
    assert_eq!((taken.packets, taken.failed, taken.ring_full, taken.foreign_header), (sent.packets, 0, 0, 0));
    assert_eq!(sink.unreadable(), 0);
    let flows = source.flows().flows();
    assert_eq!(flows.len(), 1, "{flows:?}");
    assert_eq!(u64::from(flows[0].sequence), sent.packets);
    assert_eq!(flows[0].headers, sent.inserted);
    assert_ne!(flows[0].cookie, 0);
    let tuple = flows[0].tuple;
    assert_eq!((tuple.src, tuple.dst, tuple.dport), (A, B, PORT));
    assert!(!reports.is_empty());
    for report in &reports {
        assert_eq!((report.tuple, report.flow), (tuple, flow_number(&tuple)));
        // One router, which is the hop: nothing is silent; and one clock.
        assert_eq!((report.hl, report.hops[0].hl), (Some(63), Some(63)), "{report:?}");
        assert!(report.ahead_us.is_none_or(|ahead| (0..5_000_000).contains(&ahead)), "{report:?}");
    }
    drop(source);
    let before = sink.counters();
    reports_of(&mut sink, || chain.transfer(PORT, 1 << 16));
    assert_eq!(sink.counters(), before);
}

#[test]
fn packets_on_the_wire_are_whole_and_fit() {
    let test = "packets_on_the_wire_are_whole_and_fit";
    let Some(chain) = Chain::new(test) else { return };
    // So that the wire has checksums, and packets rather than buffers.
    chain.a.enter(|| paceline_emulator::port::packet::without_offloads("a0")).unwrap().unwrap();
    let Some(_source) = opened(test, chain.a.enter(|| SourceNode::open("a0", &on(&[PORT]))).unwrap()) else { return };
    let _transit = chain.r.enter(|| TransitNode::open("r1", &transit(7))).unwrap().unwrap();
    let wire = Frames::open(&chain.b, "b0");
    chain.transfer(PORT, 200_000);
    let frames = wire.drain();
    let mut numbers = Vec::new();
    for frame in &frames {
        assert!(frame.len() <= nodes::ETHERNET + 1500, "{}", frame.len());
        let Some((header, segment)) = telemetry(frame) else { continue };
        let (length, _, hop_limit) = ipv6(frame).unwrap();
        assert_eq!(length + 40 + nodes::ETHERNET, frame.len());
        assert_eq!(checksum(A, B, segment), 0xffff);
        let edge = header.edge.unwrap();
        numbers.push((edge.seq, edge.segs));
        assert!(edge.cwnd.is_some_and(|cwnd| (2..100_000).contains(&cwnd)), "{edge:?}");
        assert_eq!((header.records.len(), header.capacity_hops), (1, 2));
        let record = header.records[0];
        assert_eq!((record.node, record.hop_limit, record.flows), (7, hop_limit, Some(1)));
        assert_eq!(hop_limit, 63);
        if header.profile == RecordProfile::Full {
            let long = edge.long.unwrap();
            let tcp = |at: usize| u16::from_be_bytes([segment[at], segment[at + 1]]);
            let tuple = paceline_telemetry::Tuple { src: A, dst: B, sport: tcp(0), dport: tcp(2) };
            assert_eq!(long.flow, flow_number(&tuple));
            assert!((1..0xffff).contains(&long.srtt_64us), "{long:?}");
            assert_eq!((record.dropped, record.flow_dropped, record.link_lost), (Some(0), Some(0), None));
            assert_eq!((record.rssi_dbm, record.mcs, record.rate_100k), (None, None, None));
        } else {
            assert_eq!(header.profile, RecordProfile::Lean);
        }
    }
    // Every packet with data has a number; the segments of a buffer share one.
    assert!(numbers.len() >= 200_000 / 1380);
    // A retransmission, or another processor, may pass a buffer that is being cut.
    numbers.sort_unstable();
    let mut expected = 0;
    for pair in numbers.chunk_by(|a, b| a.0 == b.0) {
        assert_eq!((pair[0].0, pair.len()), (expected, usize::from(pair[0].1)), "{numbers:?}");
        expected += pair.len() as u32;
    }
}

#[test]
fn a_hop_writes_behind_a_source_at_the_same_interface_whichever_began_first() {
    let test = "a_hop_writes_behind_a_source_at_the_same_interface_whichever_began_first";
    let Some(chain) = Chain::new(test) else { return };
    for hook in [Hook::Tcx, Hook::Clsact] {
        for hop_first in [true, false] {
            let hop = || {
                let options = TransitOptions { hook: Some(hook), ..transit(42) };
                chain.a.enter(|| TransitNode::open("a0", &options)).unwrap()
            };
            let early = if hop_first { Some(hop()) } else { None };
            let options = SourceOptions { hook: Some(hook), ..on(&[PORT]) };
            let Some(source) = opened(test, chain.a.enter(|| SourceNode::open("a0", &options)).unwrap()) else {
                return;
            };
            let hop = early.unwrap_or_else(hop).unwrap();
            chain.transfer(PORT, 100_000);
            let (sent, passed) = (source.counters(), hop.counters());
            assert!(sent.packets > 0 && passed.written == sent.packets, "{hook:?} {hop_first}: {sent:?} {passed:?}");
        }
    }
}

#[test]
fn buffers_stay_whole_on_the_way() {
    let test = "buffers_stay_whole_on_the_way";
    let Some(chain) = Chain::new(test) else { return };
    let Some(source) = opened(test, chain.a.enter(|| SourceNode::open("a0", &on(&[PORT]))).unwrap()) else { return };
    let mut sink = chain.b.enter(|| SinkNode::open("b0", &SinkOptions::default())).unwrap().unwrap();
    let wire = Frames::open(&chain.b, "b0");
    reports_of(&mut sink, || chain.transfer(PORT, 16 << 20));
    let (sent, taken) = (source.counters(), sink.counters());
    assert!(sent.packets > 3 * sent.inserted, "{sent:?}");
    assert_eq!((taken.packets, taken.taken), (sent.packets, sent.inserted));
    let longest = wire.drain().iter().filter(|frame| telemetry(frame).is_some()).map(Vec::len).max();
    assert!(longest > Some(10_000), "{longest:?}");
}

#[test]
fn a_filter_does_what_a_link_does_and_is_removed() {
    let test = "a_filter_does_what_a_link_does_and_is_removed";
    let Some(chain) = Chain::new(test) else { return };
    let hook = Some(Hook::Clsact);
    let options = SourceOptions { hook, ..on(&[PORT]) };
    let Some(source) = opened(test, chain.a.enter(|| SourceNode::open("a0", &options)).unwrap()) else { return };
    let transit = TransitOptions { hook, ..transit(9) };
    let transit = chain.r.enter(|| TransitNode::open("r1", &transit)).unwrap().unwrap();
    let mut sink =
        chain.b.enter(|| SinkNode::open("b0", &SinkOptions { hook, ..SinkOptions::default() })).unwrap().unwrap();
    assert_eq!((source.hook(), transit.hook(), sink.hook()), (Hook::Clsact, Hook::Clsact, Hook::Clsact));
    reports_of(&mut sink, || chain.transfer(PORT, 1 << 20));
    let (sent, passed, taken) = (source.counters(), transit.counters(), sink.counters());
    assert!(sent.packets > 700 && sent.segment_sizes == 1, "{sent:?}");
    assert_eq!((passed.written, taken.packets), (sent.packets, sent.packets));
    drop((source, transit, sink));
    for (namespace, name) in [(&chain.a, "a0"), (&chain.r, "r1"), (&chain.b, "b0")] {
        for side in ["ingress", "egress"] {
            assert_eq!(run(namespace, &format!("tc filter show dev {name} {side}")), "", "{name} {side}");
        }
        assert!(!run(namespace, &format!("tc qdisc show dev {name}")).contains("clsact"), "{name}");
    }
}

#[test]
fn linux_and_a_hop_of_ours_write_one_after_the_other() {
    let test = "linux_and_a_hop_of_ours_write_one_after_the_other";
    let Some(chain) = Chain::new(test) else { return };
    let set = |line: &str| run(&chain.r, &format!("sysctl -q -w net.ipv6.{line}"));
    for line in ["ioam6_id=7", "conf.r0.ioam6_id=100", "conf.r1.ioam6_id=101", "conf.r0.ioam6_enabled=1"] {
        set(line);
    }
    run(&chain.r, "ip ioam namespace add 0x8001 data 0x00640302");
    let Some(_source) = opened(test, chain.a.enter(|| SourceNode::open("a0", &on(&[PORT]))).unwrap()) else { return };
    let transit = TransitOptions { egress: Some(3), ..transit(0x22_2222) };
    let transit = chain.r.enter(|| TransitNode::open("r1", &transit)).unwrap().unwrap();
    let mut sink = chain.b.enter(|| SinkNode::open("b0", &SinkOptions::default())).unwrap().unwrap();
    let wire = Frames::open(&chain.b, "b0");
    let reports = reports_of(&mut sink, || chain.transfer(PORT, 1 << 20));
    assert_eq!(transit.counters().overflow, 0);
    let headers: Vec<_> = wire.drain().iter().filter_map(|frame| Some(telemetry(frame)?.0)).collect();
    assert!(!headers.is_empty());
    for header in headers {
        let [linux, ours] = header.records[..] else { panic!("{header:?}") };
        // Linux writes as the packet comes in: it has not lowered the hop limit yet, and its word is the namespace's.
        assert_eq!((linux.node, linux.ingress, linux.egress), (7, Some(100), Some(101)));
        assert_eq!((linux.room_packets, linux.flows), (Some(100), Some(3)));
        assert_eq!((ours.node, ours.egress, ours.hop_limit), (0x22_2222, Some(3), 63));
    }
    let whole = |report: &&FlowReport| report.hops.len() == 2;
    assert!(reports.iter().filter(whole).all(|report| report.hops[0].node == 7 && report.hops[1].node == 0x22_2222));
    assert_eq!(sink.unreadable(), 0);
}

#[test]
fn a_third_hop_finds_no_room_and_says_so() {
    let test = "a_third_hop_finds_no_room_and_says_so";
    let Some(chain) = Chain::new(test) else { return };
    let options = SourceOptions { hops: 1, ..on(&[PORT]) };
    let Some(_source) = opened(test, chain.a.enter(|| SourceNode::open("a0", &options)).unwrap()) else { return };
    // Hops at one interface: each has its record, as two routers would.
    let hops = [1, 2].map(|node| chain.r.enter(|| TransitNode::open("r1", &transit(node))).unwrap().unwrap());
    let wire = Frames::open(&chain.b, "b0");
    chain.transfer(PORT, 1 << 18);
    assert!(hops[0].counters().overflow == 0 && hops[0].counters().written > 0);
    assert_eq!((hops[1].counters().overflow, hops[1].counters().written), (hops[0].counters().written, 0));
    let headers: Vec<_> = wire.drain().iter().filter_map(|frame| Some(telemetry(frame)?.0)).collect();
    assert!(!headers.is_empty() && headers.iter().all(|header| header.overflow && header.records.len() == 1));
}

#[test]
fn the_selection_decides() {
    let test = "the_selection_decides";
    let Some(chain) = Chain::new(test) else { return };
    let options = SourceOptions { addresses: vec![("fd77:2::".parse().unwrap(), 64)], ..on(&[PORT]) };
    let Some(source) = opened(test, chain.a.enter(|| SourceNode::open("a0", &options)).unwrap()) else { return };
    chain.transfer(PORT + 1, 1 << 16);
    let sent = source.counters();
    assert!(sent.inserted == 0 && sent.not_selected > 0 && sent.segment_sizes == 0, "{sent:?}");
    chain.transfer(PORT, 1 << 16);
    assert!(source.counters().inserted > 0);
    drop(source);
    let options = SourceOptions { addresses: vec![("fd78::".parse().unwrap(), 16)], ..on(&[]) };
    let source = chain.a.enter(|| SourceNode::open("a0", &options)).unwrap().unwrap();
    chain.transfer(PORT, 1 << 16);
    assert_eq!(source.counters().inserted, 0);
    source.insert(false).unwrap();
    let before = source.counters();
    chain.transfer_to(SocketAddr::from((B, PORT)), 1 << 16);
    assert_eq!(source.counters(), before);
}

#[test]
fn the_word_is_left_by_the_hop_that_has_the_least_and_the_sink_reports_it() {
    let test = "the_word_is_left_by_the_hop_that_has_the_least_and_the_sink_reports_it";
    let Some(chain) = Chain::new(test) else { return };
    chain.a.enter(|| paceline_emulator::port::packet::without_offloads("a0")).unwrap().unwrap();
    let options = SourceOptions { profile: RecordProfile::Word, ..on(&[PORT]) };
    let Some(source) = opened(test, chain.a.enter(|| SourceNode::open("a0", &options)).unwrap()) else { return };
    let hop = |place: (&paceline_linux::namespace::Namespace, &str), rate: Option<&str>| {
        let options = TransitOptions { rate: rate.map(|rate| rate.parse().unwrap()), ..transit(7) };
        place.0.enter(|| TransitNode::open(place.1, &options)).unwrap().unwrap()
    };
    // Links with room for everything, of 20 Gbit/s at the sender and ten times as much behind the router; one that does not know its own.
    let near = hop((&chain.a, "a0"), Some("20 Gbit/s"));
    let far = [hop((&chain.r, "r1"), Some("200 Gbit/s")), hop((&chain.r, "r1"), None)];
    let mut sink = chain.b.enter(|| SinkNode::open("b0", &SinkOptions::default())).unwrap().unwrap();
    let wire = Frames::open(&chain.b, "b0");
    let reports = reports_of(&mut sink, || chain.transfer(PORT, 400_000));
    let (sent, taken) = (source.counters(), sink.counters());
    assert_eq!(
        (sent.full, sent.failed, taken.packets, sink.unreadable()),
        (0, 0, sent.packets, 0),
        "{sent:?} {taken:?}"
    );
    for hop in [&near, &far[0], &far[1]] {
        assert_eq!((hop.counters().written, hop.counters().unknown_profile), (sent.packets, 0), "{:?}", hop.counters());
    }
    let mut asked = Vec::new();
    for frame in wire.drain() {
        let Some((header, segment)) = telemetry(&frame) else { continue };
        assert_eq!((header.profile, header.octets(), checksum(A, B, segment)), (RecordProfile::Word, 40, 0xffff));
        let (word, edge) = (header.word.unwrap(), header.edge.unwrap());
        // The packets of a buffer share a header.
        if asked.last().is_none_or(|(seq, _)| *seq != edge.seq) {
            asked.push((edge.seq, word.signal));
        }
        let value = word.value().unwrap();
        match word.signal {
            // What the narrower link has left, whose packets leave with the hop limit that the sender gave them.
            paceline_telemetry::WordSignal::Available => {
                assert!(word.hop_limit == 64 && (1e9..=20.1e9).contains(&value), "{word:?} {value}");
            }
            paceline_telemetry::WordSignal::AvailableShare => {
                assert!(word.hop_limit == 64 && (0.05..=1.0).contains(&value), "{word:?} {value}");
            }
            paceline_telemetry::WordSignal::Delay => assert!((0.0..1.0).contains(&value), "{word:?} {value}"),
        }
    }
    assert!(asked.len() > 6);
    let order = |pair: &[(u32, paceline_telemetry::WordSignal)]| (pair[0].1 as u8 + 1) % 3 == pair[1].1 as u8;
    assert!(asked.windows(2).all(order), "{asked:?}");
    let hops: Vec<_> = reports.iter().flat_map(|report| &report.hops).collect();
    assert!(!hops.is_empty());
    for hop in hops {
        let rate = 8.0 * hop.capacity().unwrap().as_bytes_per_sec() as f64;
        assert!(hop.node == 64 && (rate / 20e9 - 1.0).abs() < 0.01, "{hop:?}");
    }
}

#[test]
fn data_rates_beyond_those_of_radios_are_floats_of_the_second_namespace() {
    let test = "data_rates_beyond_those_of_radios_are_floats_of_the_second_namespace";
    let Some(chain) = Chain::new(test) else { return };
    for (wide, rate_100k) in [(true, 999_936), (false, 65_534)] {
        let options = SourceOptions { profile: RecordProfile::Full, wide, ..on(&[PORT]) };
        let Some(_source) = opened(test, chain.a.enter(|| SourceNode::open("a0", &options)).unwrap()) else { return };
        let options = TransitOptions { rate: Some("100 Gbit/s".parse().unwrap()), ..transit(7) };
        let mut hop = chain.r.enter(|| TransitNode::open("r1", &options)).unwrap().unwrap();
        let mut sink = chain.b.enter(|| SinkNode::open("b0", &SinkOptions::default())).unwrap().unwrap();
        let reports = reports_of(&mut sink, || chain.transfer(PORT, 100_000));
        assert_eq!(sink.unreadable(), 0);
        let said: Vec<_> = reports.iter().flat_map(|report| &report.hops).map(|hop| hop.rate_100k).collect();
        assert!(!said.is_empty() && said.iter().all(|rate| *rate == Some(rate_100k)), "{wide} {said:?}");
        assert_eq!(chain.r.enter(move || hop.report()).unwrap().unwrap().hops[0].rate_100k, Some(1_000_000));
    }
}
