//! Logs of others: what they say is judged as a run is, and what is wrong with them is one line with place and fix.

use std::io::Cursor;

use paceline_cc::event_log::{Reader, replay};
use paceline_conform::ride::Ride;
use paceline_conform::rig::Rig;
use paceline_conform::suite::Score;
use paceline_conform::trajectory::{Origin, Trajectory, TrajectoryPoint, median};
use paceline_conform::{capture, qlog, rules, watch};
use paceline_lab::contestant::Contestant;
use paceline_lab::events::EventLogs;
use paceline_lab::qlog::{Qlog, QlogForm, Style};
use paceline_lab::run::World;

/// A qlog of a run of ours.
fn logged(contestant: &str, rig: Rig, form: QlogForm) -> String {
    let contestant: Contestant = contestant.parse().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut log = Qlog::new(folder.path(), "run", "a test").unwrap().styled(Style { form, ..Style::default() });
    let plan = rig.plan(&contestant).unwrap();
    paceline_sim::run(plan.world(&contestant, None).unwrap(), Some(&mut log));
    std::fs::read_to_string(&log.finish().unwrap()[0]).unwrap()
}

#[test]
fn a_qlog_shows_what_the_run_did() {
    let text = logged("cubic@tcp", Rig::Long, QlogForm::Today);
    let trajectory = qlog::read("run.sqlog", Cursor::new(text.as_bytes())).unwrap();
    assert_eq!((trajectory.origin, trajectory.mss), (Origin::Qlog, 1448.0));
    let score = Score::of_one("cubic", trajectory);
    let holds: Vec<(&str, &str)> = score.judged.iter().map(|one| (one.rule.id, one.verdict.word())).collect();
    let expected = [
        ("cubic-beta", "holds"),
        ("cubic-curve", "holds"),
        ("cubic-fast-convergence", "not seen"),
        ("cubic-reno-friendly", "not seen"),
        ("cubic-slow-start-exit", "holds"),
        ("cubic-once", "holds"),
        ("cubic-rate-limited", "not seen"),
    ];
    assert_eq!(holds, expected, "{:?}", score.judged.iter().map(|one| &one.verdict).collect::<Vec<_>>());
    // The same as one JSON text.
    let mut records = text.split('\u{1e}').skip(2);
    let events = records.by_ref().collect::<Vec<_>>().join(",");
    let one = format!(r#"{{"qlog_version":"0.3","traces":[{{"events":[{events}]}}]}}"#);
    let contained = Score::of_one("cubic", qlog::read("run.sqlog", Cursor::new(one)).unwrap());
    assert_eq!(contained.trajectories, score.trajectories);
}

/// Words of the verdicts by the rules of a path, but for those of the pace: a qlog does not say what the application had to send.
fn verdicts(rules_of: &str, rig: Rig, trajectory: Trajectory) -> Vec<(&'static str, &'static str)> {
    let score = Score::of_one(rules_of, trajectory);
    let of_path = score.judged.iter().filter(|one| one.rule.rig == rig && !one.rule.id.contains("-pace"));
    of_path.map(|one| (one.rule.id, one.verdict.word())).collect()
}

#[test]
fn both_forms_say_what_was_watched() {
    for (controller, rig) in [("reno", Rig::Short), ("cubic", Rig::Long), ("bbr", Rig::Lossy), ("bbr3", Rig::Deep)] {
        let name = format!("{controller}@tcp");
        let contestant: Contestant = name.parse().unwrap();
        let plan = rig.plan(&contestant).unwrap();
        let mut seen = watch::FlowWatch::new("run", 0, Origin::Simulated);
        paceline_sim::run(plan.world(&contestant, None).unwrap(), Some(&mut seen));
        let seen = seen.trajectory();
        let read = |form| qlog::read("run", Cursor::new(logged(&name, rig, form))).unwrap();
        let (today, before) = (read(QlogForm::Today), read(QlogForm::V03));
        assert_eq!(
            (&today.points, &today.losses, &today.states),
            (&before.points, &before.losses, &before.states),
            "{name}"
        );
        assert_eq!((&today.notes, &before.notes), (&vec![], &vec![]));
        assert_eq!((today.mss, before.mss, seen.mss), (1448.0, 1448.0, 1448.0));
        assert!(!today.states.is_empty());
        assert!((today.bandwidth().unwrap() / seen.bandwidth().unwrap() - 1.0).abs() < 0.01, "{name}");
        // Where nothing changes, time goes on; where much does, there are more points here.
        let windows = |of: &Trajectory| median(of.points.iter().map(|point| point.window).collect()).unwrap();
        assert!(rig == Rig::Lossy || (windows(&today) / windows(&seen) - 1.0).abs() < 0.05, "{name}");
        // Loss events that were watched are episodes of packets here.
        assert!(seen.losses.len() <= today.losses.len());
        // Times have a thousandth of a millisecond; a point that was watched is one of those of its instant, or, at a loss, the one before.
        for watched in seen.points.iter().filter(|point| point.rtt_ms.is_some()) {
            let (from, to) = (today.index(watched.t - 1e-6), today.index(watched.t + 1e-6).unwrap());
            let at = today.points[from.unwrap_or(0)..=to].iter();
            let same = |point: &TrajectoryPoint| {
                (point.window - watched.window).abs() < 1e-6
                    // At a tick what left since the last acknowledgement counts here, and not there.
                    && point.in_flight >= watched.in_flight - 1e-6
                    && watched.pacing_mbps.is_none_or(|rate| (point.pacing_mbps.unwrap() - rate).abs() < 2e-6)
                    && (point.rtt_ms.unwrap() - watched.rtt_ms.unwrap()).abs() < 1e-3
            };
            assert!(at.clone().any(same), "{name}: {watched:?} {:?}", at.collect::<Vec<_>>());
        }
        assert_eq!(verdicts(controller, rig, today), verdicts(controller, rig, seen), "{name} on {}", rig.name());
    }
}

#[test]
fn an_event_log_is_what_was_watched() {
    let contestant: Contestant = "cubic@tcp".parse().unwrap();
    let plan = Rig::Short.plan(&contestant).unwrap();
    let mut seen = watch::FlowWatch::new("run", 0, Origin::Simulated);
    paceline_sim::run(plan.world(&contestant, None).unwrap(), Some(&mut seen));
    let folder = tempfile::tempdir().unwrap();
    let mut logs = EventLogs::new(folder.path(), "run", "a test").unwrap();
    paceline_sim::run(plan.world(&contestant, None).unwrap(), Some(&mut logs));
    let text = std::fs::read_to_string(&logs.finish().unwrap()[0]).unwrap();
    let (seen, read) = (seen.trajectory(), watch::read("run", Cursor::new(text.as_bytes())).unwrap());
    assert!(read.points.len() > 1000 && read.origin == Origin::Events);
    assert_eq!((read.points, read.losses, read.mss), (seen.points, seen.losses, seen.mss));
    let cut = &text[..text.len() / 2];
    assert!(watch::read("log", Cursor::new(cut)).unwrap_err().to_string().starts_with("log:"));
    assert!(watch::read("log", Cursor::new("{}")).is_err() && watch::read("log", Cursor::new("")).is_err());
}

#[test]
fn an_event_log_with_variables_shows_what_rules_need() {
    let contestant: Contestant = "bbr3@tcp".parse().unwrap();
    let plan = Rig::Short.plan(&contestant).unwrap();
    let wanted = rules::all().flat_map(|rule| rule.needs).copied().collect();
    let mut seen = watch::FlowWatch::new("run", 0, Origin::Simulated).with_variables(wanted);
    paceline_sim::run(plan.world(&contestant, None).unwrap(), Some(&mut seen));
    let folder = tempfile::tempdir().unwrap();
    let mut logs = EventLogs::new(folder.path(), "run", "a test").unwrap().with_variables(true);
    paceline_sim::run(plan.world(&contestant, None).unwrap(), Some(&mut logs));
    let text = std::fs::read_to_string(&logs.finish().unwrap()[0]).unwrap();
    let (seen, read) = (seen.trajectory(), watch::read("run", Cursor::new(text.as_bytes())).unwrap());
    assert!(read.spells("state").len() > 3, "{:?}", read.spells("state"));
    assert_eq!((read.variables, read.points), (seen.variables, seen.points));
    let again = |text: &str| {
        let mut reader = Reader::new("run", text.as_bytes()).unwrap();
        let env = reader.header().env;
        replay(&mut reader, contestant.controller.build(&env).as_mut())
    };
    assert!(again(&text).is_ok_and(|events| events > 1000));
    let other = again(&text.replacen("\"state\":", "\"state\":7", 1)).unwrap_err().to_string();
    assert!(
        other.starts_with("run:1: after 'start' the controller answers")
            && other.contains("as its variable state, and"),
        "{other}"
    );
}

/// A log of one window a round trip of 40 ms: a form of events, and the RTT as it writes it.
fn synthetic(sent: impl Fn(u32) -> String, rtt: &str) -> String {
    let mut text = String::from("\u{1e}{\"qlog_version\":\"0.3\",\"qlog_format\":\"JSON-SEQ\",\"trace\":{}}\n");
    let mut number = 0;
    for round in 0..30_u32 {
        let (t, window) = (f64::from(round) * 40.0, 10 + round);
        for packet in 0..window {
            let (at, data) = (t + f64::from(packet) * 0.1, sent(number));
            text += &format!("\u{1e}{{\"time\":{at},\"name\":\"transport:packet_sent\",\"data\":{data}}}\n");
            number += 1;
        }
        let metrics = |in_flight: u32| {
            format!(r#"{{"latest_rtt":{rtt},"congestion_window":{},"bytes_in_flight":{in_flight}}}"#, window * 1400)
        };
        for (at, in_flight) in [(t + 5.0, window * 1400), (t + 39.9, 0)] {
            let data = metrics(in_flight);
            text += &format!("\u{1e}{{\"time\":{at},\"name\":\"recovery:metrics_updated\",\"data\":{data}}}\n");
        }
    }
    text
}

#[test]
fn lengths_and_units_are_found_in_each_form() {
    let ours = |number| format!(r#"{{"header":{{"packet_number":{number}}},"raw":{{"length":1400}}}}"#);
    let quinn = |number| format!(r#"{{"header":{{"packet_type":"1RTT","packet_number":{number},"length":1400}}}}"#);
    let older = |number| format!(r#"{{"header":{{"packet_number":{number},"packet_size":1400}}}}"#);
    let oldest = |_| r#"{"packet_size":1400}"#.to_owned();
    let logs = [
        (synthetic(ours, "39.5"), 0),
        (synthetic(quinn, "0.0395"), 1),
        (synthetic(older, "39.5"), 0),
        (synthetic(oldest, "39.5"), 0),
    ];
    let read = |text: &str| qlog::read("log", Cursor::new(text.as_bytes())).unwrap();
    let first = read(&logs[0].0);
    for (text, notes) in &logs {
        let trajectory = read(text);
        assert_eq!((trajectory.mss, trajectory.notes.len()), (1400.0, *notes));
        assert_eq!(trajectory.points.len(), 60);
        for (one, other) in trajectory.points.iter().zip(&first.points) {
            assert!((one.rtt_ms.unwrap() - 39.5).abs() < 1e-6);
            assert_eq!((one.window, one.in_flight, one.delivered), (other.window, other.in_flight, other.delivered));
        }
    }
    let score = Score::of_one("cubic", read(&logs[1].0));
    assert!(paceline_conform::page::page(&[score], "conform").unwrap().contains("its round trips are in seconds"));
    // Acknowledgements that come late are not a unit.
    let short = synthetic(ours, "5.0");
    assert!(read(&short).notes.is_empty());
}

/// The same log in the form of draft-00: arrays, microseconds, names of its own.
fn in_arrays(text: &str) -> String {
    let mut events = Vec::new();
    for record in text.split('\u{1e}').skip(2) {
        let event: serde_json::Value = serde_json::from_str(record).unwrap();
        let (category, name) = event["name"].as_str().unwrap().split_once(':').unwrap();
        let mut data = event["data"].clone();
        if let Some(fields) = data.as_object_mut() {
            if let Some(window) = fields.remove("congestion_window") {
                fields.insert("cwnd".to_owned(), window);
            }
            if let Some(rtt) = fields.get_mut("latest_rtt") {
                *rtt = (rtt.as_f64().unwrap() * 1e3).into();
            }
        }
        let micros = (event["time"].as_f64().unwrap() * 1e3).round();
        events.push(format!(r#"[{micros}, "{category}", "{name}", {data}]"#));
    }
    format!(
        r#"{{"qlog_version":"draft-00","traces":[{{"event_fields":["relative_time","category","event","data"],
        "configuration":{{"time_units":"us"}},"events":[{}]}}]}}"#,
        events.join(",\n")
    )
}

#[test]
fn draft_00_says_the_same() {
    let sent = |number| format!(r#"{{"header":{{"packet_number":{number},"packet_size":1400}}}}"#);
    let text = synthetic(sent, "39.5");
    let read = |text: &str| qlog::read("log", Cursor::new(text.as_bytes())).unwrap();
    let (objects, arrays) = (read(&text), read(&in_arrays(&text)));
    assert_eq!((arrays.mss, arrays.notes.len(), arrays.points.len()), (1400.0, 0, 60));
    for (one, other) in arrays.points.iter().zip(&objects.points) {
        assert!((one.t - other.t).abs() < 1e-6 && (one.rtt_ms.unwrap() - 39.5).abs() < 1e-6);
        assert_eq!((one.window, one.in_flight, one.delivered), (other.window, other.in_flight, other.delivered));
    }
    let nameless = in_arrays(&text).replace("\"event_fields\"", "\"fields\"");
    assert!(complaint("p.qlog", nameless.as_bytes()).starts_with("p.qlog:2: event 0 is not as the version has it ("));
    let timeless = in_arrays(&text).replace("\"relative_time\"", "\"when\"");
    assert_eq!(
        complaint("p.qlog", timeless.as_bytes()),
        "p.qlog:1: its event_fields lack a time, category, event or data; give a log as its writer made it"
    );
    let short = in_arrays(&text).replacen("[0, \"transport\", ", "[", 1);
    assert!(complaint("p.qlog", short.as_bytes()).starts_with("p.qlog:2: event 0 is not as the version has it ("));
}

/// A sequence with another header, and other names of its events.
fn renamed(text: &str, header: &str, names: &[(&str, &str)], separator: &str) -> String {
    let mut records = vec![header.to_owned()];
    records.extend(text.split('\u{1e}').skip(2).map(|record| record.trim().to_owned()));
    let text: String = records.iter().map(|record| format!("{separator}{record}\n")).collect();
    names.iter().fold(text, |text, (before, now)| text.replace(before, now))
}

#[test]
fn every_form_since_draft_01_says_the_same() {
    let sent = |number| format!(r#"{{"header":{{"packet_number":{number},"packet_size":1400}}}}"#);
    let text = synthetic(sent, "39.5");
    let read = |text: &str| qlog::read("log", Cursor::new(text.as_bytes())).unwrap();
    let first = read(&text);
    let today = [
        ("transport:packet_sent", "quic:packet_sent"),
        ("recovery:metrics_updated", "quic:recovery_metrics_updated"),
        ("recovery:congestion_state_updated", "quic:congestion_state_updated"),
        ("recovery:packet_lost", "quic:packet_lost"),
    ];
    let sequential = r#"{"file_schema":"urn:ietf:params:qlog:file:sequential","serialization_format":"application/qlog+json-seq",
        "trace":{"vantage_point":{"type":"client"},"event_schemas":["urn:ietf:params:qlog:events:quic-13"],"common_fields":
        {"time_format":"relative_to_epoch","reference_time":{"clock_type":"monotonic","epoch":"unknown"}}}}"#;
    let sequential = sequential.replace('\n', " ");
    let both = sequential.replacen('{', r#"{"qlog_version":"0.3","qlog_format":"JSON-SEQ","#, 1);
    let draft_02 =
        r#"{"qlog_version":"draft-02","qlog_format":"NDJSON","trace":{"common_fields":{"reference_time":1.6e9}}}"#;
    let events: Vec<&str> = text.split('\u{1e}').skip(2).collect();
    let contained = format!(
        r#"{{"file_schema":"urn:ietf:params:qlog:file:contained","serialization_format":"application/qlog+json",
        "traces":[{{"events":[{}]}}]}}"#,
        events.join(",")
    );
    let forms = [
        ("today", renamed(&text, &sequential, &today, "\u{1e}")),
        ("today, a text in each line", renamed(&text, &sequential, &today, "")),
        ("the schema beside a version", renamed(&text, &both, &[], "\u{1e}")),
        ("contained", today.iter().fold(contained, |text, (before, now)| text.replace(before, now))),
        ("draft-02", renamed(&text, draft_02, &[], "")),
        ("draft-02 of a commit", renamed(&text, &draft_02.replace("draft-02", "draft-02-wip"), &[], "")),
        ("draft-01", in_arrays(&text).replace("draft-00", "draft-01")),
    ];
    for (form, text) in &forms {
        let trajectory = read(text);
        assert_eq!((trajectory.mss, trajectory.points.len()), (1400.0, first.points.len()), "{form}");
        for (one, other) in trajectory.points.iter().zip(&first.points) {
            assert!((one.t - other.t).abs() < 1e-6, "{form}");
            assert_eq!((one.window, one.in_flight, one.delivered), (other.window, other.in_flight, other.delivered));
        }
    }
}

#[test]
fn times_since_the_event_before_add_up() {
    let header = r#"{"file_schema":"urn:ietf:params:qlog:file:sequential","trace":{"common_fields":
        {"time_format":"relative_to_previous_event"}}}"#;
    let metrics = |time: f64, more: &str| {
        format!(
            r#"{{"time":{time},{more}"name":"quic:recovery_metrics_updated","data":{{"congestion_window":14000,"latest_rtt":20}}}}"#
        )
    };
    let absolute = r#""time_format":"relative_to_epoch","#;
    let events = [metrics(5.0, ""), metrics(10.0, ""), metrics(10.0, ""), metrics(45.0, absolute)];
    let text: String =
        [header.replace('\n', " ")].iter().chain(&events).map(|text| format!("\u{1e}{text}\n")).collect();
    let trajectory = qlog::read("log", Cursor::new(text.as_bytes())).unwrap();
    let times: Vec<f64> = trajectory.points.iter().map(|point| (point.t * 1e3).round()).collect();
    assert_eq!(times, [0.0, 10.0, 20.0, 40.0]);
}

fn complaint(file: &str, text: &[u8]) -> String {
    qlog::read(file, Cursor::new(text)).unwrap_err().to_string()
}

#[test]
fn a_bad_qlog_is_one_line() {
    let read = "read are file_schema urn:ietf:params:qlog:file:contained and :sequential, and qlog_version 0.3, 0.4 and draft-00 to \
                draft-02";
    let later = br#"{"qlog_version":"0.5","traces":[{"events":[["1","recovery","metrics_updated",{}]]}]}"#;
    assert_eq!(complaint("p.qlog", later), format!("p.qlog:1: it is a qlog of qlog_version '0.5'; {read}"));
    assert_eq!(complaint("p.qlog", b"{}"), format!("p.qlog:1: it has neither file_schema nor qlog_version; {read}"));
    let unknown = b"\x1e{\"file_schema\":\"urn:example:cubes\"}\n";
    assert_eq!(
        complaint("p.sqlog", unknown),
        format!("p.sqlog:1: it is a qlog of file_schema 'urn:example:cubes'; {read}")
    );
    let cut = b"\x1e{\"qlog_version\":\"0.3\"}\n\x1e{\"time\":1,\"name\":\"recovery:met";
    assert!(complaint("p.sqlog", cut).starts_with("p.sqlog:2: line 2 is damaged or cut off (EOF while parsing"));
    let half = br#"{"qlog_version":"0.3","traces":[{"events":[{"time":1.0,"#;
    assert!(complaint("p.qlog", half).starts_with("p.qlog:1: it is not a qlog, or damaged or cut off (EOF"));
    assert!(complaint("p.qlog", b"").starts_with("p.qlog:1: it is not a qlog"));
    assert!(complaint("p.qlog", b"\x1e{\"qlog_version\":\"0.3\"}").contains("says nothing of a congestion window"));
    assert!(complaint("p.qlog", br#"{"qlog_version":"0.3","traces":[]}"#).contains("it has no traces"));
}

#[test]
fn a_qlog_that_is_cut_anywhere_says_what_is_before() {
    let sent = |number| format!(r#"{{"header":{{"packet_number":{number},"packet_size":1400}}}}"#);
    let sequence = synthetic(sent, "39.5");
    let events = sequence.split('\u{1e}').skip(2).collect::<Vec<_>>().join(",");
    let contained = format!(r#"{{"qlog_version":"0.3","traces":[{{"events":[{events}]}}]}}"#);
    let lines = sequence.replace('\u{1e}', "").replacen("JSON-SEQ", "NDJSON", 1);
    for (name, text) in [
        ("sequence", sequence),
        ("contained", contained),
        ("lines", lines),
        ("arrays", in_arrays(&synthetic(sent, "39.5"))),
    ] {
        let mut points = 0;
        for length in (0..text.len()).step_by(499).chain([text.len()]) {
            match qlog::read("log", Cursor::new(&text.as_bytes()[..length])) {
                Ok(read) => {
                    assert!(read.points.len() >= points, "{name}, {length}");
                    points = read.points.len();
                    let said = read.notes.iter().any(|note| note.starts_with("Read up to where "));
                    // A sequence may end with any record.
                    assert!(said || name != "contained" || length == text.len(), "{name}, {length}: {:?}", read.notes);
                }
                Err(error) => assert!(points == 0 && !error.to_string().contains('\n'), "{name}, {length}: {error}"),
            }
        }
        assert_eq!(points, 60, "{name}");
    }
}

#[test]
fn forms_that_writers_have_are_read() {
    let sent = |number| format!(r#"{{"header":{{"packet_number":{number},"packet_size":1400}}}}"#);
    let text = synthetic(sent, "39.5");
    let read = |text: &str| qlog::read("log", Cursor::new(text.as_bytes())).unwrap_or_else(|error| panic!("{error}"));
    let plain = read(&text);
    let same = |what: &str, text: &str| {
        let other = read(text);
        assert_eq!((other.points.len(), other.mss, other.losses.len()), (60, 1400.0, plain.losses.len()), "{what}");
        for (one, other) in plain.points.iter().zip(&other.points) {
            assert!(
                (one.t - other.t).abs() < 1e-6 && (one.rtt_ms.unwrap() - other.rtt_ms.unwrap()).abs() < 1e-6,
                "{what}"
            );
            assert_eq!(
                (one.window, one.in_flight, one.delivered),
                (other.window, other.in_flight, other.delivered),
                "{what}"
            );
        }
        other.notes
    };
    assert!(same("a mark", &format!("\u{feff}{text}")).is_empty());
    let twice =
        text.replace("{\"latest_rtt\"", "{\"congestion_window\":7,\"cwnd\":9,\"bytes_in_flight\":null,\"latest_rtt\"");
    assert!(same("keys twice", &twice).is_empty());
    let quoted = text
        .replace("\"packet_size\":1400", "\"packet_size\":\"1400\",\"raw\":null")
        .replace("{\"time\":0,", "{\"time\":\"0\",");
    assert!(same("numbers in quotes", &quoted).is_empty());
    let nothing =
        text.replacen("\"trace\":{}", "\"trace\":{\"common_fields\":null,\"vantage_point\":null},\"title\":null", 1);
    assert!(same("null", &nothing).is_empty());
    let nameless = text.replacen("\u{1e}{\"time\"", "\u{1e}{\"time\":0,\"data\":null}\n\u{1e}{\"time\"", 1);
    assert!(same("without a name", &nameless).is_empty());
    let records: Vec<&str> = text.split_inclusive('\n').collect();
    let late = [&records[..1], &records[3..40], &records[1..3], &records[40..]].concat().concat();
    assert_eq!(
        same("late", &late),
        ["Its events are not in the order of time (2 stand behind a later one): they are sorted."]
    );
    // mvfst: capitals, times in quotes, names of its own.
    let arrays = in_arrays(&text);
    let capitals = arrays.replacen("\"category\",\"event\",\"data\"", "\"CATEGORY\",\"EVENT_TYPE\",\"DATA\"", 1);
    assert!(same("capitals", &capitals).is_empty());
    let own = capitals
        .replace("metrics_updated", "metric_update")
        .replace("\"cwnd\"", "\"current_cwnd\"")
        .replace("[0, ", "[\"0\", ");
    assert!(same("mvfst", &own).is_empty());
    // The other end's trace is longer, and says nothing of a window.
    let events = text.split('\u{1e}').skip(2).collect::<Vec<_>>().join(",");
    let idle = vec![r#"{"time":1,"name":"transport:packet_received","data":{}}"#; 5000].join(",");
    let (client, server) =
        (r#"{"vantage_point":{"type":"client"},"events":["#, r#"{"vantage_point":{"type":"server"},"events":["#);
    let both = format!(r#"{{"qlog_version":"0.3","traces":[{client}{idle}]}},{server}{events}]}},{client}]}},null]}}"#);
    let note = "Of its 4 traces trace 2 (by the server) is read, which alone says something of a window.";
    assert_eq!(same("several traces", &both), [note]);
    let lines = text.replace('\u{1e}', "").replacen("JSON-SEQ", "NDJSON", 1);
    let of = |version: &str| lines.replacen("\"0.3\"", &format!("\"{version}\""), 1);
    assert!(same("draft-02", &of("draft-02")).is_empty());
    assert!(
        complaint("p.qlog", of("0.5").as_bytes()).starts_with("p.qlog:1: it is a qlog of qlog_version '0.5'; read")
    );
    assert_eq!(
        complaint("p.qlog", b"\x1f\x8b\x08\0"),
        "p.qlog: it is compressed by gzip: unpack it first, gunzip FILE"
    );
}

/// A capture of a sender whose window is a sawtooth of halving: a window leaves, a round trip later it is acknowledged.
fn captured() -> Vec<u8> {
    // Nanoseconds, IPv4 alone.
    let mut file = [0xa1b2_3c4d_u32, 4 << 16 | 2, 0, 0, 65535, 228].map(u32::to_le_bytes).concat();
    let (rtt, mss) = (50_000_000, 1000_u32);
    let (mut seq, mut at, mut window) = (u32::MAX - 20_000, 1_000_000_000_u64, 60_u32);
    for _ in 0..250 {
        for packet in 0..window {
            write(&mut file, at + u64::from(packet) * 100_000, true, seq, mss);
            seq = seq.wrapping_add(mss);
        }
        write(&mut file, at + rtt, false, seq, 0);
        at += rtt + 1_000_000;
        window = if window >= 120 { 60 } else { window + 1 };
    }
    file
}

fn write(file: &mut Vec<u8>, at: u64, data: bool, number: u32, bytes: u32) {
    let mut packet = vec![0_u8; 40];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&(40 + bytes as u16).to_be_bytes());
    packet[9] = 6;
    let (from, to): ([u8; 4], [u8; 4]) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let (from, to, ports) = if data { (from, to, [443_u16, 5000]) } else { (to, from, [5000, 443]) };
    packet[12..16].copy_from_slice(&from);
    packet[16..20].copy_from_slice(&to);
    packet[20..22].copy_from_slice(&ports[0].to_be_bytes());
    packet[22..24].copy_from_slice(&ports[1].to_be_bytes());
    let at_number = if data { 24 } else { 28 };
    packet[at_number..at_number + 4].copy_from_slice(&number.to_be_bytes());
    packet[32] = 5 << 4;
    packet[33] = 0x10;
    packet[35] = 1;
    let time = [(at / 1_000_000_000) as u32, (at % 1_000_000_000) as u32];
    file.extend([time[0], time[1], 40, 40 + bytes].map(u32::to_le_bytes).concat());
    file.extend(packet);
}

#[test]
fn a_capture_shows_the_flight() {
    let bytes = captured();
    let trajectory = capture::read("c.pcap", &bytes[..], None).unwrap();
    assert_eq!((trajectory.origin, trajectory.mss), (Origin::Packets, 1000.0));
    assert!(trajectory.name.ends_with("10.0.0.1:443-10.0.0.2:5000"));
    let score = Score::of_one("reno", trajectory);
    let kept = score.judged.iter().find(|one| one.rule.id == "reno-halving").unwrap();
    assert_eq!(kept.verdict.word(), "holds", "{:?}", kept.verdict);
    let slope = score.judged.iter().find(|one| one.rule.id == "reno-increase").unwrap();
    assert_eq!(slope.verdict.word(), "holds", "{:?}", slope.verdict);
    let same = capture::read("c.pcap", &bytes[..], Some("10.0.0.1:443-10.0.0.2:5000".parse().unwrap())).unwrap();
    assert_eq!(same.points, score.trajectories[0].points);
}

#[test]
fn a_bad_capture_is_one_line() {
    let complaint = |bytes: &[u8], flow: Option<&str>| {
        let flow = flow.map(|flow| flow.parse().unwrap());
        capture::read("c.pcap", bytes, flow).unwrap_err().to_string()
    };
    let bytes = captured();
    assert_eq!(
        complaint(&bytes, Some("10.0.0.1:443-10.0.0.3:5000")),
        "c.pcap: it has no flow 10.0.0.1:443-10.0.0.3:5000; the largest of its 2 is 10.0.0.1:443-10.0.0.2:5000"
    );
    let cut = capture::read("c.pcap", &bytes[..bytes.len() - 7], None).unwrap();
    assert!(cut.notes[0].starts_with("It is damaged or cut off at packet "), "{:?}", cut.notes);
    assert_eq!(
        complaint(&bytes[..20], None),
        "c.pcap: it is damaged or cut off (the file ends within a record); give the whole file"
    );
    assert_eq!(
        complaint(b"hello", None),
        "c.pcap: it is not a capture; give a pcap or pcapng file, such as tcpdump writes"
    );
    assert!(complaint(&bytes[..24], None).contains("it has no packets"));
    assert!("10.0.0.1-10.0.0.2".parse::<capture::FourTuple>().is_err());
}

#[test]
fn a_run_is_the_same_every_time() {
    use paceline_lab::runner::Task;
    let task = Ride { contestant: "reno@tcp".parse().unwrap(), rig: Rig::Short, world: World::Sim, programs: None };
    assert_eq!(task.run().unwrap().output, task.run().unwrap().output);
}
