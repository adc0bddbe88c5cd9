use paceline_cc::{
    Ack, Acked, Cause, Env, Hop, Loss, Lost, Nanos, Rate, Restart, Sent, Spec, Stamp, Telemetry, Time, Timeout,
};
use paceline_experiment::Moment;
use serde_json::{Value, json};

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
        let mut sent = Sent::new(now, seq, MSS);
        sent.in_flight = self.in_flight;
        sent.retransmission = retransmission;
        sent.unsent = 0;
        self.observer.on_event(&Event::Sent(&sent, Stamp::default()), self.controller.as_ref());
    }

    fn acked(&mut self, ms: f64, una: u64, packets: &[(u64, f64)]) {
        let packets: Vec<Acked> =
            packets.iter().map(|&(packet, sent_ms)| Acked::new(packet * u64::from(MSS), MSS, at(sent_ms))).collect();
        let mut ack = Ack::new(at(ms), &packets);
        ack.rtt = Some(Nanos::from_millis(40));
        ack.srtt = Nanos::from_millis_f64(41.5);
        ack.min_rtt = Nanos::from_millis(40);
        ack.prior_in_flight = self.in_flight;
        ack.in_flight = self.in_flight;
        ack.delivered = 0;
        ack.una = una * u64::from(MSS);
        ack.next = 0;
        self.observer.on_event(&Event::Acked(&ack), self.controller.as_ref());
    }

    fn event(&mut self, event: &Event<'_>) {
        self.observer.on_event(event, self.controller.as_ref());
    }

    fn lost(&mut self, ms: f64, packet: u64, sent_ms: f64) {
        let (seq, sent_at) = (packet * u64::from(MSS), at(sent_ms));
        let packets = [Lost::new(seq, MSS, sent_at)];
        let mut loss = Loss::new(at(ms), &packets);
        loss.prior_in_flight = self.in_flight;
        loss.in_flight = self.in_flight;
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

/// An independent reading: by the crate `qlog`, which skips silently what it cannot read. Every record has to come back, those of the
/// drafts as their own types.
fn understood(path: &Path) -> usize {
    use qlog::reader::{Event, QlogSeqReader};
    let records = records(path);
    let reader = QlogSeqReader::with_file(path).unwrap();
    assert_eq!(reader.qlog.file_schema, "urn:ietf:params:qlog:file:sequential");
    let events: Vec<Event> = reader.collect();
    assert_eq!(events.len(), records.len() - 1);
    for (event, record) in events.iter().zip(&records[1..]) {
        let name = record["name"].as_str().unwrap();
        match event {
            Event::Qlog(event) => {
                assert!(name.starts_with("quic:"), "{name}");
                let again = serde_json::to_value(event).unwrap();
                assert_eq!(again["name"], name);
            }
            Event::Json(event) => {
                assert!(name.starts_with("paceline:") || name.starts_with("simulation:"), "{record}");
                assert_eq!(event.name, name);
            }
        }
    }
    events.len()
}

/// What draft-ietf-quic-qlog-main-schema-14 demands of a sequence.
fn valid(path: &Path) {
    let records = records(path);
    let (header, events) = records.split_first().unwrap();
    let text = std::fs::read_to_string(path).unwrap();
    let start = &text[1..256.min(text.len())];
    assert!(start.starts_with(
        r#"{"file_schema":"urn:ietf:params:qlog:file:sequential","serialization_format":"application/qlog+json-seq","#
    ));
    let trace = &header["trace"];
    let schemas: Vec<&str> =
        trace["event_schemas"].as_array().unwrap().iter().map(|uri| uri.as_str().unwrap()).collect();
    assert!(
        schemas.iter().all(|uri| uri.starts_with("urn:") || uri.starts_with("https://")) && schemas.contains(&SCHEMA)
    );
    let reference = &trace["common_fields"]["reference_time"];
    assert_eq!((&reference["clock_type"], &reference["epoch"]), (&json!("monotonic"), &json!("unknown")));
    assert_eq!(trace["common_fields"]["time_format"], "relative_to_epoch");
    assert_eq!(trace["vantage_point"]["type"], "server");
    assert!(events.is_sorted_by_key(|event| (event["time"].as_f64().unwrap() * 1e3) as u64));
    let namespaces = ["quic:", "simulation:", "paceline:"];
    fn lower(of: &Value) -> bool {
        match of {
            Value::Object(fields) => {
                fields.iter().all(|(name, value)| !name.chars().any(char::is_uppercase) && lower(value))
            }
            Value::Array(values) => values.iter().all(lower),
            _ => true,
        }
    }
    for event in events {
        let name = event["name"].as_str().unwrap();
        assert!(
            namespaces.iter().any(|namespace| name.starts_with(namespace)) && event["data"].is_object() && lower(event),
            "{event}"
        );
    }
}

fn named<'a>(events: &'a [Value], name: &'a str) -> Vec<&'a Value> {
    events.iter().filter(|e| e["name"] == name).map(|e| &e["data"]).collect()
}

/// A flow that loses a packet and repairs it.
fn repaired(style: Style) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let about = About { text: "one \"quoted\" line".to_owned(), scenario: Some(("steps".to_owned(), 1, u64::MAX)) };
    let mut qlog = Qlog::new(folder.path(), "reno@alcc/bbr", about).unwrap().styled(style);
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
    let path = paths[0].clone();
    (folder, path)
}

#[test]
fn a_loss_and_its_repair() {
    let (_folder, path) = repaired(Style::default());
    valid(&path);
    assert_eq!(understood(&path), records(&path).len() - 1);
    let records = records(&path);
    let (header, events) = records.split_first().unwrap();
    assert_eq!(header["description"], "one \"quoted\" line");
    assert_eq!(header["trace"]["common_fields"]["group_id"], "1");
    let scenario = json!({ "name": "steps", "details": { "contestant": "reno@alcc/bbr", "run": 1, "seed": u64::MAX.to_string() } });
    assert_eq!(named(events, "simulation:scenario"), [&scenario]);
    let parameters = json!({ "timer_granularity": 1, "initial_congestion_window": 14480, "max_datagram_size": 1448 });
    assert_eq!(named(events, "quic:recovery_parameters_set"), [&parameters]);

    let sent = named(events, "quic:packet_sent");
    assert_eq!(numbers(events, "quic:packet_sent"), (0..6).map(Some).collect::<Vec<_>>());
    assert_eq!(sent[0]["raw"], json!({ "length": 1500, "payload_length": 1448 }));
    assert_eq!(
        sent[1]["frames"],
        json!([{ "frame_type": "stream", "stream_id": 0, "offset": 1448, "raw": { "length": 1448 } }])
    );
    assert_eq!((&sent[4]["trigger"], &sent[5]["trigger"]), (&Value::Null, &json!("retransmit_reordered")));
    assert_eq!(numbers(events, "quic:packet_lost"), [Some(1)]);
    assert_eq!(named(events, "quic:packet_lost")[0]["trigger"], "reordering_threshold");
    let acked: Vec<String> =
        named(events, "quic:packet_received").iter().map(|d| d["frames"][0]["acked_ranges"].to_string()).collect();
    assert_eq!(acked, ["[[0]]", "[[2]]", "[[3,4]]", "[[5]]"]);
    let states = named(events, "quic:congestion_state_updated");
    let names: Vec<_> = states.iter().map(|d| d["new"].as_str().unwrap()).collect();
    assert_eq!(names, ["slow_start", "recovery", "slow_start"]);
    assert_eq!(states[1], &json!({ "old": "slow_start", "new": "recovery", "paceline_trigger": "loss" }));
    let metrics = named(events, "quic:recovery_metrics_updated");
    assert_eq!(metrics[0]["congestion_window"], 14_480);
    assert_eq!(metrics[0]["latest_rtt"], 40.0);
    assert_eq!(metrics[0]["smoothed_rtt"], 41.5);
    assert_eq!(metrics[0]["ssthresh"], Value::Null);
    assert!(metrics.len() == 1, "nothing changed after the first acknowledgement: {metrics:#?}");
    let variables = named(events, "paceline:variables");
    assert_eq!(variables[0]["cwnd_packets"], 10);
    assert!(variables.iter().skip(1).all(|one| one.as_object().unwrap().len() < 4), "{variables:#?}");
}

/// What qvis 72c8c4b asks of a sequence: a version of its list, the format beside it, names of before, lengths of packets.
#[test]
fn the_form_before_is_what_qvis_reads() {
    let (_folder, path) = repaired(Style { form: QlogForm::V03, ..Style::default() });
    let records = records(&path);
    let (header, events) = records.split_first().unwrap();
    let versions = ["draft-00", "draft-01", "draft-02-wip", "draft-02", "draft-02-RC1", "qlog-03-WIP", "0.3", "0.1"];
    assert!(versions.contains(&header["qlog_version"].as_str().unwrap()));
    assert_eq!((&header["qlog_format"], header["trace"].is_object()), (&json!("JSON-SEQ"), true));
    assert!(path.extension().is_some_and(|suffix| suffix == "sqlog"));
    assert_eq!(header["trace"]["common_fields"]["time_format"], "relative");
    let before = |name: &str| ["transport:", "recovery:"].iter().any(|namespace| name.starts_with(namespace));
    assert!(events.iter().all(|event| before(event["name"].as_str().unwrap())), "{events:#?}");
    let lengths: Vec<_> = ["transport:packet_sent", "transport:packet_received"]
        .iter()
        .flat_map(|name| named(events, name))
        .map(|data| data["raw"]["length"].as_u64())
        .collect();
    assert_eq!(lengths, [vec![Some(1500); 6], vec![Some(52); 4]].concat());
    assert_eq!(named(events, "transport:packet_sent")[0]["frames"][0]["length"], 1448);
    let acked: Vec<String> =
        named(events, "transport:packet_received").iter().map(|d| d["frames"][0]["acked_ranges"].to_string()).collect();
    assert_eq!(acked, ["[[0,0]]", "[[2,2]]", "[[3,4]]", "[[5,5]]"]);
    assert_eq!(numbers(events, "recovery:packet_lost"), [Some(1)]);
    let state = json!({ "old": "slow_start", "new": "recovery" });
    assert_eq!(named(events, "recovery:congestion_state_updated")[1], &state);
    assert_eq!(named(events, "recovery:metrics_updated")[0]["congestion_window"], 14_480);
    assert_eq!(named(events, "recovery:parameters_set")[0]["max_datagram_size"], 1448);
}

#[test]
fn timeouts_spurious_losses_silences_and_sizes_are_events() {
    let folder = tempfile::tempdir().unwrap();
    let mut qlog = Qlog::new(folder.path(), "reno@tcp", "").unwrap();
    let mut flow = Script::new(&mut qlog);
    flow.sent(0, 0.0, false);
    flow.sent(1, 1.0, false);
    let of = |packet: u64, ms, cause| Lost::new(packet * u64::from(MSS), MSS, at(ms)).with_cause(cause);
    let packets = [of(0, 0.0, Cause::Unknown), of(1, 1.0, Cause::Medium)];
    let mut timeout = Timeout::new(at(300.0), &packets);
    timeout.count = 2;
    flow.event(&Event::Timeout(&timeout));
    flow.sent(0, 300.0, true);
    flow.event(&Event::Cause { now: at(301.0), packets: &[of(0, 0.0, Cause::Policer), of(1, 1.0, Cause::Medium)] });
    flow.event(&Event::Spurious(at(310.0)));
    flow.event(&Event::AppLimited { now: at(311.0), in_flight: 0 });
    let restart = Restart::new(at(900.0), Nanos::from_millis(580), Nanos::from_millis(200));
    flow.event(&Event::Restart(&restart));
    flow.event(&Event::Mss { now: at(901.0), mss: 1200 });
    let path = qlog.finish().unwrap().remove(0);
    valid(&path);
    understood(&path);
    let records = records(&path);
    let events = &records[1..];
    let lost = named(events, "quic:packet_lost");
    let header = |number: u64| json!({ "packet_type": "1RTT", "packet_number": number });
    assert_eq!(lost[0], &json!({ "header": header(0), "trigger": "pto_expired" }));
    assert_eq!(lost[1], &json!({ "header": header(1), "trigger": "pto_expired", "paceline_cause": "medium" }));
    assert_eq!(named(events, "quic:packet_sent")[2]["trigger"], "retransmit_timeout");
    assert_eq!(named(events, "quic:recovery_metrics_updated")[0]["pto_count"], 2);
    let causes = [json!({ "packets": [0], "cause": "policer" }), json!({ "packets": [1], "cause": "medium" })];
    assert_eq!(named(events, "paceline:cause"), causes.iter().collect::<Vec<_>>());
    assert_eq!(named(events, "paceline:spurious"), [&json!({ "packets": [0, 1] })]);
    assert_eq!(named(events, "paceline:restart"), [&json!({ "idle": 580.0, "rto": 200.0 })]);
    let sizes: Vec<_> =
        named(events, "quic:recovery_parameters_set").iter().map(|d| d["max_datagram_size"].as_u64()).collect();
    assert_eq!(sizes, [Some(1448), Some(1200)]);
    let states = named(events, "quic:congestion_state_updated");
    let states: Vec<_> = states.iter().map(|d| (d["new"].as_str().unwrap(), d["paceline_trigger"].as_str())).collect();
    assert_eq!(states[..2], [("recovery", Some("timeout")), ("slow_start", Some("spurious"))]);
    assert_eq!(states[2], ("application_limited", None));
}

#[test]
fn what_hops_reported_is_an_event() {
    let folder = tempfile::tempdir().unwrap();
    let mut qlog = Qlog::new(folder.path(), "reno@tcp", "").unwrap();
    let mut flow = Script::new(&mut qlog);
    let mut second = Hop::new(2);
    second.room_packets = Some(40);
    second.capacity = Some(Rate::from_mbps(20.0));
    let hops = [second, Hop::default()];
    let (verdict, fresh_for) = (Cause::Medium, Nanos::from_millis(90));
    let telemetry = Telemetry::new(at(7.0), verdict, fresh_for, &hops);
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
    assert!(log.lock().unwrap().is_settled());
    let path = qlog.finish().unwrap().remove(0);
    let lost = numbers(&records(&path)[1..], "quic:packet_lost");
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
