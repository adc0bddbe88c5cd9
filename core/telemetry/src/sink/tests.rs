use proptest::collection;
use proptest::prelude::*;

use super::*;
use crate::report::Latency;
use crate::wire::Long;

/// A packet a millisecond.
struct Flow {
    sink: FlowSink,
    trail: Trail,
    now: Time,
    seq: u32,
    reports: Vec<FlowReport>,
}

fn room(packets: u32) -> NodeRecord {
    NodeRecord { node: 7, egress: Some(2), room_packets: Some(packets), flows: Some(1), ..NodeRecord::default() }
}

impl Flow {
    fn new() -> Self {
        Self::from(0)
    }

    fn from(seq: u32) -> Self {
        let now = Time::from_millis(1000);
        let config = SinkConfig { flow: 9, synced: true, ..SinkConfig::default() };
        Self { sink: FlowSink::new(config, now), trail: Trail::default(), now, seq, reports: Vec::new() }
    }

    fn poll(&mut self) {
        self.reports.extend(self.sink.poll(self.now));
    }

    /// A millisecond passes, with the timeouts in it.
    fn wait(&mut self, millis: u64) {
        let end = self.now + Nanos::from_millis(millis);
        while self.sink.next_timeout() < end {
            self.now = self.now.max(self.sink.next_timeout());
            self.poll();
        }
        self.now = end;
    }

    /// The next packet comes, 5 ms after it left.
    fn packet(&mut self, record: NodeRecord) {
        self.header(record, false);
    }

    /// As many packets as `sent` leave without a header, of which `passed` are said to come; then one with a header.
    fn sampled(&mut self, sent: u32, passed: Option<u32>, record: NodeRecord) {
        self.lose(sent);
        if let Some(passed) = passed {
            self.sink.passed(passed);
        }
        self.header(record, true);
    }

    fn header(&mut self, record: NodeRecord, sampled: bool) {
        self.wait(1);
        let (seq, sent_us, cwnd) = (self.seq, self.sent_us(), Some(20));
        let edge = Edge { segs: 1, seq, sent_us, cwnd, sampled, ..Edge::default() };
        self.sink.arrive(self.now, &edge, 1, &[record], &mut self.trail);
        self.poll();
        self.seq = self.seq.wrapping_add(1);
    }

    fn sent_us(&self) -> u32 {
        (self.now.as_nanos() / 1000) as u32 - 5000
    }

    fn packets(&mut self, count: u32, record: NodeRecord) {
        (0..count).for_each(|_| self.packet(record));
    }

    /// Packets that do not come.
    fn lose(&mut self, count: u32) {
        self.wait(u64::from(count));
        self.seq = self.seq.wrapping_add(count);
    }

    /// Expected, received, and lost by queue, medium and unknown reasons.
    fn counted(&mut self) -> (u32, u32, LossSplit) {
        self.wait(1000);
        let mut sum = (0, 0, LossSplit::default());
        for report in &self.reports {
            assert_eq!(report.check().map_err(|error| error.to_string()), Ok(()));
            assert_eq!(report.exp, report.rcv + report.lost());
            sum.0 += report.exp;
            sum.1 += report.rcv;
            sum.2.add(LossSplit {
                queue: report.lost_q,
                policed: report.lost_p,
                medium: report.lost_m,
                unknown: report.lost_u,
            });
        }
        sum
    }

    fn verdicts(&self) -> Vec<Cause> {
        self.reports.iter().map(|report| report.verdict).filter(|verdict| *verdict != Cause::Unknown).collect()
    }
}

#[test]
fn while_packets_come_there_is_a_report_every_ten_milliseconds_and_none_afterwards() {
    let mut flow = Flow::new();
    flow.packets(100, room(50));
    assert_eq!(flow.reports.len(), 9);
    flow.wait(100);
    assert_eq!((flow.reports.len(), flow.sink.next_timeout()), (10, Time::NEVER));
    let report = &flow.reports[4];
    assert_eq!(
        (report.flow, report.exp, report.rcv, report.cwnd_echo, report.verdict),
        (9, 11, 11, Some(20), Cause::Unknown)
    );
    let latency = Latency { min: 5000, avg: 5000, p95: 5000, synced: true };
    assert_eq!((report.lat_us, report.jit_us, report.jit_max_us), (Some(latency), 0, 0));
    assert_eq!((report.ahead_us, report.hl), (Some(5000), None));
    // Numbered from the microseconds of its clock on, one by one.
    let numbers: Vec<u64> = flow.reports.iter().map(|report| report.rseq).collect();
    assert_eq!(numbers, (1_000_001..1_000_011).collect::<Vec<_>>());
    assert_eq!(flow.counted(), (100, 100, LossSplit::default()));
}

#[test]
fn a_gap_is_reported_at_once_and_counted_when_it_is_old_enough() {
    let mut flow = Flow::new();
    flow.packets(25, room(50));
    flow.lose(2);
    let before = flow.reports.len();
    flow.packet(room(50));
    assert_eq!(flow.reports.len(), before + 1);
    let at_once = flow.reports.last().unwrap();
    assert_eq!((at_once.verdict, at_once.lost()), (Cause::Medium, 0));
    flow.packets(20, room(50));
    assert_eq!(flow.counted(), (48, 46, LossSplit { medium: 2, ..LossSplit::default() }));
    assert_eq!(flow.verdicts(), [Cause::Medium]);
}

#[test]
fn where_one_packet_of_some_has_a_header_the_others_are_counted() {
    let mut flow = Flow::new();
    for _ in 0..20 {
        flow.sampled(7, Some(7), room(50));
    }
    flow.sampled(7, Some(5), room(50));
    for _ in 0..5 {
        flow.sampled(7, Some(7), room(50));
    }
    // One comes behind the header that was sent after it.
    flow.sampled(7, Some(6), room(50));
    flow.sampled(7, Some(8), room(50));
    for _ in 0..5 {
        flow.sampled(7, Some(7), room(50));
    }
    // Numbers begin with the first header.
    assert_eq!(flow.counted(), (33 * 8 - 7, 33 * 8 - 9, LossSplit { medium: 2, ..LossSplit::default() }));
    // More than a sink remembers, and then where they are not counted.
    let mut flow = Flow::new();
    flow.sampled(0, Some(0), room(50));
    flow.sampled(5000, Some(4990), room(50));
    flow.sampled(3000, None, room(50));
    flow.sampled(7, None, room(50));
    assert_eq!(flow.counted(), (8011, 8001, LossSplit { medium: 10, ..LossSplit::default() }));
}

#[test]
fn a_queue_that_can_have_become_full_is_congestion_and_the_mediums_losses_are_not_believed_for_a_round_trip() {
    let mut flow = Flow::new();
    flow.packets(25, room(50));
    flow.packet(room(1));
    flow.lose(1);
    flow.packet(room(1));
    flow.packets(10, room(30));
    flow.lose(1);
    flow.packets(60, room(30));
    flow.lose(1);
    flow.packets(20, room(30));
    let split = LossSplit { queue: 1, medium: 2, ..LossSplit::default() };
    assert_eq!(flow.counted(), (120, 117, split));
    assert_eq!(flow.verdicts(), [Cause::Congestion, Cause::Medium]);
}

#[test]
fn a_counter_says_it_whatever_the_room() {
    let counted = |packets, drops| NodeRecord { flow_dropped: Some(drops), ..room(packets) };
    let mut flow = Flow::new();
    flow.packets(20, counted(1, 0xfffe));
    // It stands at what means unknown for a moment, and wraps.
    flow.lose(1);
    flow.packets(3, counted(1, 0xfffe));
    flow.lose(2);
    flow.packets(20, counted(30, 1));
    // Started again: rooms have to do.
    flow.lose(1);
    flow.packets(20, counted(30, 0xc000));
    assert_eq!(flow.counted(), (67, 63, LossSplit { queue: 2, medium: 2, ..LossSplit::default() }));
}

#[test]
fn counters_that_come_later_correct_what_was_said_at_once() {
    let counted = |packets, drops| NodeRecord { dropped: Some(drops), ..room(packets) };
    let mut flow = Flow::new();
    flow.packet(counted(1, 5));
    flow.packets(9, room(1));
    flow.lose(1);
    flow.packets(3, room(1));
    assert!(flow.verdicts().is_empty());
    flow.packets(5, counted(1, 5));
    flow.packets(20, room(1));
    assert_eq!(flow.verdicts(), [Cause::Medium]);
    assert_eq!(flow.counted().2, LossSplit { medium: 1, ..LossSplit::default() });
}

#[test]
fn what_a_policer_dropped_is_known_when_its_count_has_risen_by_as_much() {
    let polices = |flow: &mut Flow, count: u16| {
        let hop = HopReport { node: 7, eg: Some(2), policed: Some(count), ..HopReport::default() };
        flow.sink.node(&NodeReport { node: 7, hops: vec![hop], ..NodeReport::default() });
        flow.packets(2, room(50));
    };
    let mut flow = Flow::new();
    polices(&mut flow, 0xffff);
    flow.packets(5, room(50));
    flow.lose(2);
    flow.packets(20, room(50));
    assert!(flow.verdicts().is_empty(), "the count is awaited");
    polices(&mut flow, 1);
    assert_eq!(flow.verdicts(), [Cause::Policer]);
    // One is still under way when it is reported: the next report finds no more, and the one behind it nothing at all.
    polices(&mut flow, 2);
    flow.lose(1);
    flow.packets(5, room(50));
    polices(&mut flow, 2);
    flow.lose(1);
    flow.packets(5, room(50));
    polices(&mut flow, 2);
    assert_eq!(flow.verdicts()[1..], [Cause::Policer], "the medium's comes within the round trip");
    // Fewer than are missing: not known. A queue that was full dropped what it says.
    flow.lose(2);
    flow.packets(5, room(50));
    polices(&mut flow, 3);
    flow.packets(5, NodeRecord { dropped: Some(1), ..room(1) });
    flow.lose(1);
    flow.packet(NodeRecord { dropped: Some(2), ..room(1) });
    polices(&mut flow, 4);
    let split = LossSplit { queue: 1, policed: 3, medium: 1, unknown: 2 };
    assert_eq!(flow.counted().2, split);
}

#[test]
fn a_hop_that_says_nothing_makes_the_reason_unknown() {
    let silent = NodeRecord { node: 3, egress: Some(1), ..NodeRecord::default() };
    let mut flow = Flow::new();
    flow.packets(5, silent);
    flow.lose(1);
    flow.packets(20, silent);
    // Linux' own says how much waits: a queue that is nearly empty drops nothing.
    let linux = |queue_bytes| NodeRecord { queue_bytes: Some(queue_bytes), ..silent };
    flow.packets(5, linux(1514));
    flow.lose(1);
    flow.packets(20, linux(0));
    flow.packets(5, linux(60_000));
    flow.lose(1);
    flow.packets(20, linux(50_000));
    assert_eq!(flow.counted().2, LossSplit { medium: 1, unknown: 2, ..LossSplit::default() });
}

#[test]
fn a_hop_that_found_no_room_to_write_makes_the_reason_unknown() {
    let mut flow = Flow::new();
    flow.packets(5, room(50));
    flow.lose(1);
    let edge = Edge { segs: 1, seq: flow.seq, sent_us: flow.sent_us(), ..Edge::default() };
    let mut header = TelemetryHeader::new(crate::RecordProfile::Lean, 1, edge);
    (header.overflow, header.records) = (true, vec![room(50)]);
    flow.sink.header(flow.now, &header, 1, &mut flow.trail);
    flow.seq += 1;
    flow.packets(20, room(50));
    assert_eq!(flow.counted().2, LossSplit { unknown: 1, ..LossSplit::default() });
    // Without the edge-to-edge option nothing is said.
    header.edge = None;
    flow.sink.header(flow.now, &header, 1, &mut flow.trail);
    assert_eq!(flow.sink.next_timeout(), Time::NEVER);
}

#[test]
fn what_comes_late_is_not_lost_and_what_comes_too_late_is_said() {
    let mut flow = Flow::new();
    flow.packets(20, room(50));
    flow.lose(3);
    flow.packets(2, room(50));
    let late = |flow: &mut Flow, seq: u32| {
        let edge = Edge { segs: 1, seq, sent_us: flow.sent_us(), ..Edge::default() };
        flow.sink.arrive(flow.now, &edge, 1, &[room(50)], &mut flow.trail);
    };
    late(&mut flow, 21);
    flow.packets(40, room(50));
    late(&mut flow, 20);
    late(&mut flow, 61);
    let (expected, received, split) = flow.counted();
    assert_eq!((expected, received, split.medium), (65, 63, 2));
    assert_eq!(flow.reports.iter().map(|report| report.late).sum::<u32>(), 2);
}

#[test]
fn numbers_of_a_buffer_are_those_of_its_segments() {
    let mut flow = Flow::new();
    let mut seq = 0xffff_ffe0;
    for came in [10, 10, 8, 10, 10, 10] {
        flow.wait(1);
        let edge = Edge { segs: 10, seq, sent_us: flow.sent_us(), ..Edge::default() };
        // In two pieces, as a receiving host may join them.
        flow.sink.arrive(flow.now, &edge, 3, &[room(50)], &mut flow.trail);
        flow.sink.arrive(flow.now, &edge, came - 3, &[room(50)], &mut flow.trail);
        flow.poll();
        seq = seq.wrapping_add(10);
    }
    assert_eq!(flow.counted(), (60, 58, LossSplit { medium: 2, ..LossSplit::default() }));
    assert_eq!(flow.reports.last().unwrap().hi, 0xffff_ffe0u32.wrapping_add(59));
}

#[test]
fn a_gap_that_nothing_follows_is_counted_after_a_while() {
    let mut flow = Flow::new();
    flow.packets(20, room(50));
    flow.lose(1);
    flow.packet(room(50));
    let before = flow.reports.len();
    flow.wait(90);
    assert!(flow.reports[before..].iter().all(|report| report.lost() == 0));
    flow.wait(20);
    assert_eq!(flow.reports.last().unwrap().lost_m, 1);
    assert_eq!(flow.sink.next_timeout(), Time::NEVER);
}

#[test]
fn a_source_that_starts_again_loses_nothing() {
    let mut flow = Flow::from(5000);
    flow.packets(50, room(50));
    // From zero: the first seem to be old ones.
    flow.seq = 0;
    flow.packets(100, room(50));
    flow.seq = 1 << 20;
    flow.packets(100, room(50));
    let (expected, received, split) = flow.counted();
    assert_eq!((expected - received, split), (0, LossSplit::default()));
    assert!(received > 220, "{received}");
}

#[test]
fn a_long_silence_of_the_medium_is_counted_whole() {
    let mut flow = Flow::new();
    flow.packets(20, room(400));
    flow.lose(3000);
    flow.packets(20, room(400));
    let (expected, received, split) = flow.counted();
    assert_eq!((expected, received, split.queue + split.medium), (3040, 40, 3000));
}

#[test]
fn reports_are_bounded_whatever_comes() {
    let mut flow = Flow::new();
    for _ in 0..20_000 {
        flow.now += Nanos::from_micros(50);
        let edge = Edge { segs: 1, seq: flow.seq, sent_us: flow.sent_us(), ..Edge::default() };
        flow.sink.arrive(flow.now, &edge, 1, &[room(50)], &mut flow.trail);
        flow.poll();
        flow.seq += 2;
    }
    // A second, and ten at once.
    assert!((200..=211).contains(&flow.reports.len()), "{}", flow.reports.len());
    assert!(flow.sink.gaps.front().is_none_or(|gap| gap.first > 0));
}

#[test]
fn limits_come_from_the_nodes_and_the_bottleneck_fills_first() {
    let mut flow = Flow::new();
    let (wide, narrow) = (
        NodeRecord { node: 1, room_packets: Some(900), arrival_pps: Some(500.0), ..room(900) },
        NodeRecord { node: 2, room_packets: Some(40), arrival_pps: Some(500.0), ..room(40) },
    );
    for seq in 0..12 {
        flow.wait(1);
        let edge = Edge { segs: 1, seq, sent_us: flow.sent_us(), ..Edge::default() };
        flow.sink.arrive(flow.now, &edge, 1, &[wide, narrow], &mut flow.trail);
        flow.poll();
        let hop = HopReport { node: 2, eg: Some(2), limit_pkts: Some(60), ..HopReport::default() };
        flow.sink.node(&NodeReport { node: 2, hops: vec![hop], ..NodeReport::default() });
    }
    let report = flow.reports.last().unwrap();
    assert_eq!(report.bottleneck, Some(1));
    assert_eq!(report.bottleneck().unwrap().limit_pkts, Some(60));
    // No node said it: the most that a packet found.
    assert_eq!(report.hops[0].limit_pkts, Some(900));
}

#[test]
fn clocks_that_differ_give_delays_above_the_smallest() {
    let (mut sink, mut trail) = (FlowSink::new(SinkConfig::default(), Time::ZERO), Trail::default());
    let mut report = None;
    for seq in 0..10u32 {
        // Sent each millisecond by a clock that is an hour ahead; each second packet takes 3 ms more.
        let late = 3000 * (seq % 2);
        let now = Time::from_nanos(u64::from(seq * 10_000 + late) * 1000);
        let edge = Edge { segs: 1, seq, sent_us: 3_600_000_000u32.wrapping_add(seq * 10_000), ..Edge::default() };
        sink.arrive(now, &edge, 1, &[], &mut trail);
        report = sink.poll(now).or(report);
    }
    let report = report.unwrap();
    assert_eq!(report.lat_us.map(|latency| (latency.p95, latency.synced)), Some((3000, false)));
    // An hour behind, modulo 2^32 microseconds.
    assert_eq!(report.ahead_us, Some(694_967_296));
    assert_eq!(report.jit_max_us, 3000);
    assert!(report.jit_us > 0 && report.jit_us < 3000);
}

#[test]
fn the_long_form_says_how_long_congestion_counts() {
    let mut flow = Flow::new();
    let long = Some(Long { srtt_64us: 10_000, ..Long::default() });
    flow.packets(20, room(1));
    let edge = Edge { segs: 1, seq: flow.seq, sent_us: flow.sent_us(), long, ..Edge::default() };
    flow.sink.arrive(flow.now, &edge, 1, &[room(1)], &mut flow.trail);
    flow.seq += 1;
    flow.lose(1);
    flow.packet(room(1));
    flow.packets(100, room(50));
    flow.lose(1);
    flow.packets(100, room(50));
    assert_eq!(flow.verdicts(), [Cause::Congestion], "640 ms are not over");
}

proptest! {
    /// Whatever comes: nothing panics, what is counted adds up, lists are bounded.
    #[test]
    fn any_packets(packets in collection::vec((any::<u32>(), any::<u8>(), any::<u8>(), 0u64..200, 0u32..300, any::<u16>(), 0usize..4), 1..400), near in any::<bool>()) {
        let (mut sink, mut trail) = (FlowSink::new(SinkConfig::default(), Time::ZERO), Trail::default());
        let (mut now, mut last) = (Time::ZERO, 0);
        for (seq, segs, wire, millis, packets, dropped, hops) in packets {
            now += Nanos::from_millis(millis / 20);
            let seq = if near { last + seq % 50 } else { seq };
            last = last.wrapping_add(seq % 7);
            let record = NodeRecord { node: u32::from(dropped) % 5, flow_dropped: Some(dropped), ..room(packets) };
            if segs % 3 == 0 {
                sink.passed(packets);
            }
            let edge = Edge { segs, seq, sent_us: seq, sampled: wire % 2 == 0, ..Edge::default() };
            sink.arrive(now, &edge, wire, &vec![record; 6 * hops], &mut trail);
            if let Some(report) = sink.poll(now) {
                prop_assert!(report.check().is_ok());
                prop_assert!(report.to_json().len() < crate::report::MAX_OCTETS);
                prop_assert_eq!(report.exp, report.rcv + report.lost());
            }
            prop_assert!(sink.judged().len() <= 1024 && sink.next_timeout() != Time::ZERO);
        }
    }
}
