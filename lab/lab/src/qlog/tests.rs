use paceline_cc::{Acked, Cause, Env, Loss, Phase, Spec, Stamp};
use serde_json::Value;

use super::*;

const MSS: u32 = 1448;

fn at(ms: f64) -> Time {
    Time::ZERO + Nanos::from_millis_f64(ms)
}

/// A flow of Reno whose events a test makes up.
struct Script {
    observer: Box<dyn Observer>,
    controller: Box<dyn Controller>,
    in_flight: u64,
}

impl Script {
    fn new(qlog: &mut Qlog) -> Self {
        let spec: Spec = "reno".parse().unwrap();
        let env = Env::default();
        let observer = qlog
            .observer(&Subject { flow: 0, layer: Layer::Packets, spec: &spec, env: &env, moment: Moment::default() })
            .unwrap();
        Self { observer, controller: spec.build(&Env::default()), in_flight: 2896 }
    }

    fn sent(&mut self, packet: u64, ms: f64, retransmission: bool) {
        let (seq, now) = (packet * u64::from(MSS), at(ms));
        let sent =
            Sent { now, seq, bytes: MSS, in_flight: self.in_flight, retransmission, app_limited: false, unsent: 0 };
        self.observer.on_event(&Event::Sent(&sent, Stamp::default()), self.controller.as_ref());
    }

    fn acked(&mut self, ms: f64, una: u64, packets: &[(u64, f64)]) {
        let packets: Vec<Acked> = packets
            .iter()
            .map(|&(packet, sent_ms)| Acked {
                seq: packet * u64::from(MSS),
                bytes: MSS,
                sent_at: at(sent_ms),
                tag: 0,
                retransmitted: false,
                app_limited: false,
                ce: false,
                received_at: None,
            })
            .collect();
        let ack = Ack {
            now: at(ms),
            packets: &packets,
            bytes: u64::from(MSS) * packets.len() as u64,
            rtt: Some(Nanos::from_millis(40)),
            srtt: Nanos::from_millis_f64(41.5),
            min_rtt: Nanos::from_millis(40),
            rate: None,
            prior_in_flight: self.in_flight,
            in_flight: self.in_flight,
            lost_bytes: 0,
            ce_bytes: 0,
            ce_packets: 0,
            echo: false,
            delivered: 0,
            una: una * u64::from(MSS),
            next: 0,
            phase: Phase::Open,
            window_limited: true,
        };
        self.observer.on_event(&Event::Acked(&ack), self.controller.as_ref());
    }

    fn lost(&mut self, ms: f64, packet: u64, sent_ms: f64) {
        let (seq, sent_at) = (packet * u64::from(MSS), at(sent_ms));
        let loss = Loss {
            now: at(ms),
            packets: &[Lost { seq, bytes: MSS, sent_at, tag: 0, cause: Cause::Unknown }],
            bytes: u64::from(MSS),
            prior_in_flight: self.in_flight,
            in_flight: self.in_flight,
            new_episode: true,
        };
        self.observer.on_event(&Event::Lost(&loss), self.controller.as_ref());
    }
}

fn numbers(events: &[Value], name: &str) -> Vec<Option<u64>> {
    named(events, name).iter().map(|data| data["header"]["packet_number"].as_u64()).collect()
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
    let mut flow = Script::new(&mut qlog);
    for packet in 0..5 {
        flow.sent(packet, packet as f64, false);
    }
    flow.acked(40.0, 1, &[(0, 0.0)]);
    flow.acked(42.0, 1, &[(2, 2.0)]);
    flow.lost(44.0, 1, 1.0);
    flow.acked(44.0, 1, &[(3, 3.0), (4, 4.0)]);
    flow.sent(1, 44.0, true);
    flow.acked(84.0, 5, &[(1, 44.0)]);
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

    assert_eq!(numbers(events, "transport:packet_sent"), (0..6).map(Some).collect::<Vec<_>>());
    assert_eq!(numbers(events, "recovery:packet_lost"), [Some(1)]);
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
fn what_hops_reported_is_an_event() {
    let folder = tempfile::tempdir().unwrap();
    let mut qlog = Qlog::new(folder.path(), "reno@tcp", "").unwrap();
    let mut flow = Script::new(&mut qlog);
    let hops = [
        Hop { id: 2, room_packets: Some(40), capacity: Some(Rate::from_mbps(20.0)), ..Hop::default() },
        Hop::default(),
    ];
    let (verdict, fresh_for) = (Cause::Medium, Nanos::from_millis(90));
    let telemetry = Telemetry { now: at(7.0), packet: None, verdict, fresh_for, hops: &hops };
    flow.observer.on_event(&Event::Telemetry(&telemetry), flow.controller.as_ref());
    let records = records(&qlog.finish().unwrap()[0]);
    let event = records.iter().find(|record| record["name"] == "paceline:telemetry").unwrap();
    let hops = json!([{ "id": 2, "room_packets": 40, "capacity": 20_000_000 }, { "id": 0 }]);
    assert_eq!(event["data"], json!({ "verdict": "medium", "fresh_for": 90.0, "hops": hops }));
    assert_eq!(event["time"], 7.0);
}

#[test]
fn datagrams_that_were_lost_are_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let mut qlog = Qlog::new(folder.path(), "sprout@udp", "").unwrap();
    let mut flow = Script::new(&mut qlog);
    for packet in 0..1000 {
        let ms = packet as f64;
        flow.sent(packet, ms, false);
        match packet % 10 {
            3 => continue,
            7 => flow.lost(ms, packet - 4, ms - 4.0),
            _ => {}
        }
        // A hole holds the settled position until it is declared lost.
        let settled = if (4..7).contains(&(packet % 10)) { packet / 10 * 10 + 3 } else { packet + 1 };
        flow.acked(ms + 0.5, settled, &[(packet, ms)]);
    }
    let log = qlog.logs.log(0, 0, "", |_, _| panic!("the flow has a log")).unwrap();
    assert!(log.lock().unwrap().numbers.is_empty());
    let path = qlog.finish().unwrap().remove(0);
    let lost = numbers(&records(&path)[1..], "recovery:packet_lost");
    assert_eq!(lost, (0..100).map(|i| Some(i * 10 + 3)).collect::<Vec<_>>());
}

#[test]
fn nothing_is_left_without_finish_and_a_bad_folder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut qlog = Qlog::new(folder.path(), "reno@tcp", "").unwrap();
    Script::new(&mut qlog).sent(0, 0.0, false);
    drop(qlog);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = Qlog::new(&file.join("logs"), "reno@tcp", "").unwrap_err().to_string();
    assert!(error.starts_with("qlog folder ") && error.contains("file/logs"), "{error}");
}
