use paceline_cc::{Controller, Ecn, Env, Spec};
use paceline_transport::{Range, SenderStats};
use serde_json::Value;

use super::*;

/// A sender that reports what a test tells it.
struct Told {
    stats: SenderStats,
    controller: Box<dyn Controller>,
}

impl Told {
    fn new() -> Self {
        let spec: Spec = "reno".parse().unwrap();
        Self { stats: SenderStats::default(), controller: spec.build(&Env::default()) }
    }
}

impl Sender for Told {
    fn write(&mut self, _: u64) {}
    fn cut(&mut self) {}
    fn poll_transmit(&mut self, _: Time) -> Option<Segment> {
        None
    }
    fn on_ack(&mut self, _: Time, _: &AckSegment) {}
    fn next_timeout(&self) -> Time {
        Time::NEVER
    }
    fn on_timeout(&mut self, _: Time) {}
    fn paced_until(&self) -> Time {
        Time::ZERO
    }
    fn is_idle(&self) -> bool {
        false
    }
    fn in_flight(&self) -> u64 {
        2896
    }
    fn window(&self) -> u64 {
        self.controller.window()
    }
    fn srtt(&self) -> Option<Nanos> {
        Some(Nanos::from_millis_f64(41.5))
    }
    fn take_rtt(&mut self) -> Option<Nanos> {
        None
    }
    fn stats(&self) -> SenderStats {
        self.stats
    }
    fn controller(&self) -> &dyn Controller {
        self.controller.as_ref()
    }
}

fn at(ms: f64) -> Time {
    Time::ZERO + Nanos::from_millis_f64(ms)
}

fn segment(packet: u64, sent_ms: f64, retransmission: bool) -> Segment {
    let (seq, bytes) = (packet * 1448, 1448);
    Segment { seq, bytes, sent_at: at(sent_ms), retransmission, syn: false, cwr: false, ecn: Ecn::Off, note: 0 }
}

fn ack(cumulative: u64, sacks: &[(u64, u64)], echo_ms: f64) -> AckSegment {
    let mut blocks = [Range::default(); paceline_transport::MAX_SACKS];
    for (block, (start, end)) in blocks.iter_mut().zip(sacks) {
        *block = Range { start: start * 1448, end: end * 1448 };
    }
    AckSegment {
        cumulative: cumulative * 1448,
        sacks: blocks,
        sack_count: sacks.len() as u8,
        duplicate: None,
        syn: false,
        echo_sent_at: at(echo_ms),
        received_at: at(echo_ms + 20.0),
        ece: false,
        ce_bytes: 0,
        ce_packets: 0,
        arrivals: None,
        feedback: None,
    }
}

/// The records of a text sequence; each must start with a record separator and end with a line feed (RFC 7464).
fn records(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut pieces = text.split('\u{1e}');
    assert_eq!(pieces.next(), Some(""));
    pieces
        .map(|piece| {
            assert!(piece.ends_with('\n'));
            serde_json::from_str(piece).unwrap_or_else(|error| panic!("{error}: {piece}"))
        })
        .collect()
}

/// An independent reading of the event's data: by the types of the `qlog` crate, which follow the later drafts; the
/// names of events moved from `transport:` and `recovery:` to `quic:` there.
fn understood(event: &Value) -> bool {
    use qlog::events::quic::{CongestionStateUpdated, PacketLost, PacketReceived, PacketSent, RecoveryMetricsUpdated};
    let data = event["data"].clone();
    match event["name"].as_str().unwrap() {
        "transport:packet_sent" => serde_json::from_value::<PacketSent>(data).is_ok(),
        "transport:packet_received" => serde_json::from_value::<PacketReceived>(data).is_ok(),
        "recovery:metrics_updated" => serde_json::from_value::<RecoveryMetricsUpdated>(data).is_ok(),
        "recovery:packet_lost" => serde_json::from_value::<PacketLost>(data).is_ok(),
        "recovery:congestion_state_updated" => serde_json::from_value::<CongestionStateUpdated>(data).is_ok(),
        _ => false,
    }
}

fn named<'a>(events: &'a [Value], name: &'a str) -> Vec<&'a Value> {
    events.iter().filter(|e| e["name"] == name).map(|e| &e["data"]).collect()
}

#[test]
fn a_loss_and_its_repair() {
    let folder = tempfile::tempdir().unwrap();
    let mut qlog = Qlog::new(folder.path(), "reno@alcc/bbr", "one \"quoted\" line").unwrap();
    let mut sender = Told::new();
    for packet in 0..5 {
        qlog.on_sent(at(packet as f64), 0, &segment(packet, packet as f64, false));
    }
    qlog.on_ack(at(40.0), 0, &ack(1, &[], 0.0), &sender);
    qlog.on_ack(at(42.0), 0, &ack(1, &[(2, 3)], 2.0), &sender);
    sender.stats = SenderStats { packets_lost: 1, recoveries: 1, ..SenderStats::default() };
    qlog.on_ack(at(44.0), 0, &ack(1, &[(2, 5)], 4.0), &sender);
    qlog.on_sent(at(44.0), 0, &segment(1, 44.0, true));
    qlog.on_ack(at(84.0), 0, &ack(5, &[], 44.0), &sender);
    let paths = qlog.finish().unwrap();
    assert_eq!(paths, [folder.path().join("reno@alcc-bbr-1.sqlog")]);

    let records = records(&paths[0]);
    let (header, events) = records.split_first().unwrap();
    assert_eq!(header["qlog_version"], "0.3");
    assert_eq!(header["qlog_format"], "JSON-SEQ");
    assert_eq!(header["trace"]["common_fields"]["time_format"], "relative");
    assert_eq!(header["trace"]["description"], "one \"quoted\" line");
    assert!(events.iter().all(understood), "{events:#?}");
    assert!(events.is_sorted_by_key(|e| (e["time"].as_f64().unwrap() * 1e3) as u64));

    let sent: Vec<_> =
        named(events, "transport:packet_sent").iter().map(|d| d["header"]["packet_number"].as_u64()).collect();
    assert_eq!(sent, (0..6).map(Some).collect::<Vec<_>>());
    let lost: Vec<_> =
        named(events, "recovery:packet_lost").iter().map(|d| d["header"]["packet_number"].as_u64()).collect();
    assert_eq!(lost, [Some(1)]);
    let acked: Vec<String> =
        named(events, "transport:packet_received").iter().map(|d| d["frames"][0]["acked_ranges"].to_string()).collect();
    assert_eq!(acked, ["[[0,0]]", "[[2,2]]", "[[3,4]]", "[[5,5]]"]);
    let states: Vec<_> =
        named(events, "recovery:congestion_state_updated").iter().map(|d| d["new"].to_string()).collect();
    assert_eq!(states, ["\"slow_start\"", "\"recovery\"", "\"slow_start\""]);
    let metrics = named(events, "recovery:metrics_updated");
    assert_eq!(metrics[0]["congestion_window"], 14_480);
    assert_eq!(metrics[0]["latest_rtt"], 40.0);
    assert_eq!(metrics[0]["smoothed_rtt"], 41.5);
    assert!(metrics.len() == 1, "nothing changed after the first acknowledgement: {metrics:#?}");
}

#[test]
fn datagrams_acknowledge_one_by_one_and_forget_the_lost() {
    let folder = tempfile::tempdir().unwrap();
    let mut qlog = Qlog::new(folder.path(), "sprout@udp", "").unwrap();
    let mut sender = Told::new();
    let mut lost = 0;
    for packet in 0..1000 {
        qlog.on_sent(at(packet as f64), 0, &segment(packet, packet as f64, false));
        if packet % 10 == 3 {
            continue;
        }
        if packet % 10 == 7 {
            lost += 1;
        }
        sender.stats.packets_lost = lost;
        qlog.on_ack(at(packet as f64 + 0.5), 0, &ack(packet + 1, &[(packet, packet + 1)], packet as f64), &sender);
    }
    assert_eq!((qlog.flows[0].by_position.len(), qlog.flows[0].by_number.len()), (0, 0));
    let path = qlog.finish().unwrap().remove(0);
    let events = &records(&path)[1..];
    let lost: Vec<_> =
        named(events, "recovery:packet_lost").iter().map(|d| d["header"]["packet_number"].as_u64()).collect();
    assert_eq!(lost, (0..100).map(|i| Some(i * 10 + 3)).collect::<Vec<_>>());
}

#[test]
fn nothing_is_left_without_finish_and_a_bad_folder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut qlog = Qlog::new(folder.path(), "reno@tcp", "").unwrap();
    qlog.on_sent(at(0.0), 0, &segment(0, 0.0, false));
    drop(qlog);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = Qlog::new(&file.join("logs"), "reno@tcp", "").unwrap_err().to_string();
    assert!(error.starts_with("qlog folder ") && error.contains("file/logs"), "{error}");
}
