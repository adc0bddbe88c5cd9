//! Qlogs in the shapes that their writers have: what is read of them, whatever the form; and what is refused, in one line.

use std::io::Cursor;
use std::path::Path;

use paceline_conform::qlog::{self, Choice};
use paceline_conform::trajectory::{FlowPhase, Trajectory};

/// The files of other writers, with their names.
fn files() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/qlogs");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "qlog" || end == "sqlog"))
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}

fn read(name: &str) -> Trajectory {
    let (_, text) = files().into_iter().find(|(file, _)| file == name).unwrap();
    qlog::read(name, &text[..]).unwrap_or_else(|error| panic!("{error}"))
}

/// Of a point: time in ms, bytes of window and in flight, round trip in ms, Mbit/s.
type Figures = (f64, f64, f64, Option<f64>, Option<f64>);

fn figures(of: &Trajectory) -> Vec<Figures> {
    let figure = |value: f64| (value * 1e6).round() / 1e6;
    let points = of.points.iter().map(|point| {
        let (window, in_flight) = (figure(point.window * of.mss), figure(point.in_flight * of.mss));
        (figure(point.t * 1e3), window, in_flight, point.rtt_ms.map(figure), point.pacing_mbps)
    });
    points.collect()
}

fn states(of: &Trajectory) -> Vec<&str> {
    of.states.iter().map(|(_, name)| name.as_str()).collect()
}

#[test]
fn each_writer_is_read() {
    let quiche = read("quiche.sqlog");
    let (start, end) = ((5.0, 13500.0, 5400.0, Some(333.0), None), (41.5, 9450.0, 0.0, Some(38.25), Some(12.0)));
    assert_eq!((figures(&quiche), quiche.mss), (vec![start, start, end, end], 1350.0));
    assert_eq!((&quiche.losses[..], states(&quiche)), (&[0.0415][..], vec!["slow_start", "recovery"]));
    assert_eq!(quiche.notes, [] as [&str; 0]);

    let go = read("quic-go.sqlog");
    let (start, end) = ((5.159479, 40960.0, 1280.0, None, None), (231.506893, 28672.0, 3840.0, Some(41.779339), None));
    assert_eq!((go.points.len(), go.mss, go.losses.len(), go.notes.len()), (34, 1280.0, 5, 0));
    assert_eq!((figures(&go)[0], figures(&go)[33]), (start, end));
    assert_eq!(states(&go), ["slow_start", "application_limited", "recovery", "application_limited"]);

    let aioquic = read("aioquic.qlog");
    let (start, most) = ((13.225342, 12000.0, 177.0, None, None), (173.467285, 25096.0, 4465.0, Some(48.36706), None));
    assert_eq!((aioquic.points.len(), aioquic.mss, aioquic.losses.len(), aioquic.notes.len()), (44, 1200.0, 1, 0));
    assert_eq!((figures(&aioquic)[0], figures(&aioquic)[37]), (start, most));
    assert_eq!(figures(&aioquic)[43], (638.431396, 2400.0, 0.0, Some(47.557289), None));

    let ngtcp2 = read("ngtcp2.sqlog");
    let (start, first) = ((0.0, 14520.0, 0.0, None, None), (50.0, 14686.0, 1034.0, Some(50.0), None));
    assert_eq!((ngtcp2.points.len(), ngtcp2.mss, ngtcp2.losses.len()), (56, 1444.0, 8));
    assert_eq!((figures(&ngtcp2)[0], figures(&ngtcp2)[4]), (start, first));
    assert_eq!(figures(&ngtcp2)[55], (194.0, 18048.0, 10327.0, Some(59.0), None));
    let cut = "Read up to where line 124 is damaged or cut off (EOF while parsing a string at line 1 column 34).";
    assert_eq!(ngtcp2.notes, [cut]);

    let neqo = read("neqo.sqlog");
    let (start, acked) = ((7.0, 12320.0, 4928.0, None, None), (29.5, 12320.0, 1232.0, Some(22.5), None));
    let (lost, end) = ((90.0, 12320.0, 1232.0, Some(22.5), None), (90.0, 8624.0, 0.0, Some(22.5), Some(3.0)));
    assert_eq!((figures(&neqo), neqo.mss), (vec![start, start, acked, lost, end], 1232.0));
    assert_eq!((neqo.losses.len(), states(&neqo), neqo.notes.len()), (1, vec!["slow_start", "recovery_start"], 0));
    assert_eq!(neqo.points.last().unwrap().phase, FlowPhase::Repairing);

    let quinn = read("quinn.sqlog");
    assert_eq!((quinn.points.len(), quinn.mss, quinn.losses.len()), (8, 1452.0, 1));
    assert_eq!(figures(&quinn)[7], (103.0, 20328.0, 0.0, Some(25.0), Some(5.808)));
    assert!(quinn.notes[0].starts_with("its round trips are in seconds"), "{:?}", quinn.notes);

    let noq = read("noq.sqlog");
    let (start, end) =
        ((0.0, 12000.0, 1200.0, Some(333.0), Some(33.276)), (396.432, 34830.0, 33396.0, Some(130.24), Some(33.276)));
    assert_eq!((noq.points.len(), noq.mss, noq.losses.len(), noq.notes.len()), (110, 1452.0, 0, 0));
    assert_eq!((figures(&noq)[0], figures(&noq)[109]), (start, end));

    let picoquic = read("picoquic.qlog");
    let (start, end) = ((0.709, 15360.0, 1252.0, None, None), (162.891, 15360.0, 0.0, Some(36.544), Some(3.521858)));
    assert_eq!((picoquic.points.len(), picoquic.mss, picoquic.losses.len()), (23, 1424.0, 1));
    assert_eq!((figures(&picoquic)[0], figures(&picoquic)[22]), (start, end));
    assert_eq!(picoquic.notes, ["Not known here, and passed over: 4 of transport:spin_bit_updated."]);
}

const HEADER: &str = r#"{"file_schema":"urn:ietf:params:qlog:file:sequential","serialization_format":"application/qlog+json-seq","trace":{"event_schemas":["urn:ietf:params:qlog:events:quic-13"],"common_fields":{"time_format":"relative_to_epoch"}}}"#;

/// Events of one flow: times in ms, with what is put before the data.
fn events(time: impl Fn(u32) -> String) -> Vec<String> {
    let mut all = Vec::new();
    for round in 0..20_u32 {
        let at = time(round * 4);
        all.push(format!(r#"{{{at},"name":"quic:packet_sent","data":{{"header":{{"packet_number":{round}}},"raw":{{"length":1400}}}}}}"#));
        let (at, window) = (time(round * 4 + 1), 14000 + 1400 * round);
        all.push(format!(
            r#"{{{at},"name":"quic:recovery_metrics_updated","data":{{"congestion_window":{window},"bytes_in_flight":1400,"latest_rtt":40,"pacing_rate":9007199254740993}}}}"#
        ));
        if round == 10 {
            let at = time(round * 4 + 2);
            all.push(format!(r#"{{{at},"name":"quic:packet_lost","data":{{"header":{{"packet_number":{round}}}}}}}"#));
            let at = time(round * 4 + 3);
            all.push(format!(r#"{{{at},"name":"quic:congestion_state_updated","data":{{"new":"recovery"}}}}"#));
        }
    }
    all
}

fn plain(ms: u32) -> String {
    format!(r#""time":{ms}"#)
}

fn sequence(header: &str, events: &[String]) -> String {
    [header.to_owned()].iter().chain(events).map(|text| format!("\u{1e}{text}\n")).collect()
}

fn of(text: &str) -> Trajectory {
    qlog::read("log", Cursor::new(text)).unwrap_or_else(|error| panic!("{error}"))
}

fn complaint(text: &str) -> String {
    qlog::read("log", Cursor::new(text)).unwrap_err().to_string()
}

/// The same curve, and what is said besides.
fn same(what: &str, one: &Trajectory, text: &str) -> Vec<String> {
    let other = of(text);
    assert_eq!(
        (&one.points, &one.losses, &one.states, one.mss),
        (&other.points, &other.losses, &other.states, other.mss),
        "{what}"
    );
    other.notes
}

#[test]
fn every_conversion_says_the_same() {
    let all = events(plain);
    let first = of(&sequence(HEADER, &all));
    assert_eq!(
        (first.points.len(), first.losses.len(), &first.states[..]),
        (21, 1, &[(0.043, "recovery".to_owned())][..])
    );
    let none: [&str; 0] = [];

    let contained = format!(
        r#"{{"serialization_format":"APPLICATION/qlog+JSON","file_schema":"urn:ietf:params:qlog:file:contained","traces":[{{"events":[{}]}}]}}"#,
        all.join(",\n")
    );
    assert_eq!(same("contained", &first, &contained), none);
    let lines: String = [HEADER.replace("application/qlog+json-seq", "NDJSON")]
        .iter()
        .chain(&all)
        .map(|text| format!("{text}\n"))
        .collect();
    assert_eq!(same("lines", &first, &lines), none);
    let quoted = sequence(HEADER, &all)
        .replace("\"congestion_window\":", "\"congestion_window\":\"")
        .replace(",\"bytes_in_flight\":1400", "\",\"bytes_in_flight\":\"1400\"");
    let quoted =
        quoted.replace("9007199254740993", "\"9007199254740993\"").replace("\"length\":1400", "\"length\":\"1400\"");
    assert_eq!(same("numbers in quotes", &first, &quoted), none);
    let shuffled: Vec<String> = all
        .iter()
        .map(|event| {
            let (time, rest) = event[1..event.len() - 1].split_once(',').unwrap();
            let (name, data) = rest.split_once(",\"data\"").unwrap();
            format!("{{\"data\"{data},{time},{name}}}")
        })
        .collect();
    assert_eq!(same("keys in another order", &first, &sequence(HEADER, &shuffled)), none);
    for format in ["delta", "relative_to_previous_event"] {
        let last = std::cell::Cell::new(0);
        let since = events(|ms| plain(ms - last.replace(ms)));
        assert_eq!(same(format, &first, &sequence(&HEADER.replace("relative_to_epoch", format), &since)), none);
        // On each event instead.
        let last = std::cell::Cell::new(0);
        let since = events(|ms| format!("{},\"time_format\":\"{format}\"", plain(ms - last.replace(ms))));
        assert_eq!(same("on each event", &first, &sequence(HEADER, &since)), none);
    }
    let absolute = events(|ms| plain(1_760_000_000 + ms));
    let header = HEADER.replace("relative_to_epoch", "absolute");
    assert_eq!(same("absolute", &first, &sequence(&header, &absolute)), none);
    let header = header.replacen(
        "\"common_fields\":{",
        "\"common_fields\":{\"reference_time\":{\"clock_type\":\"\",\"epoch\":\"\"},",
        1,
    );
    assert_eq!(same("a reference", &first, &sequence(&header, &absolute)), none);

    let legacy = [
        ("quic:recovery_", "recovery:"),
        ("quic:packet_lost", "recovery:packet_lost"),
        ("quic:congestion", "recovery:congestion"),
    ];
    let legacy = legacy.iter().fold(sequence(HEADER, &all), |text, (now, before)| text.replace(now, before));
    assert_eq!(same("names before", &first, &legacy), none);
    let spelt = sequence(HEADER, &all).replace("\"recovery\"", "\"Recovery\"");
    assert_eq!(same("a state in capitals", &first, &spelt), none);
}

#[test]
fn what_is_not_known_is_one_note() {
    let all = events(plain);
    let first = of(&sequence(HEADER, &all));
    let mut more = all.clone();
    for at in [1, 5, 9] {
        more.insert(at, format!(r#"{{{},"name":"quic:spin_bit_updated","data":5,"else":{{"a":[]}}}}"#, plain(9)));
    }
    more.insert(3, format!(r#"{{{},"name":"moq:object_sent","data":{{"time":"x"}}}}"#, plain(9)));
    let text = sequence(HEADER, &more).replace("\"header\":", "\"another\":[1],\"header\":");
    let text = text
        .replacen("\"event_schemas\":[", "\"event_schemas\":[\"https://moq.example/1.html\",", 1)
        .replacen("\"common_fields\":{", "\"common_fields\":{\"weather\":{\"rain\":0},", 1)
        .replacen("{\"file_schema\"", "{\"colour\":null,\"file_schema\"", 1);
    let note = "Not known here, and passed over: schema https://moq.example/1.html, 3 of quic:spin_bit_updated, 1 of moq:object_sent.";
    assert_eq!(same("unknown things", &first, &text), [note]);
    // What a header says of its content, and what the content is.
    let lines: String = [HEADER.to_owned()].iter().chain(&all).map(|text| format!("{text}\n")).collect();
    let note = "Its serialization_format 'application/qlog+json-seq' is JSON text sequences; its content is a JSON text in each line, and read \
                as that.";
    assert_eq!(same("a contradiction", &first, &lines), [note]);
    // A state of a controller's own keeps its name.
    let own = sequence(HEADER, &all).replace("\"recovery\"", "\"Probe BW: Cruise\"");
    assert_eq!(of(&own).states, [(0.043, "Probe BW: Cruise".to_owned())]);
}

#[test]
fn events_are_sorted_within_a_second() {
    let all = events(plain);
    let first = of(&sequence(HEADER, &all));
    let mut late = all.clone();
    late.swap(2, 3);
    late[8..20].rotate_left(4);
    let notes = same("late ones", &first, &sequence(HEADER, &late));
    assert_eq!(notes.len(), 1);
    assert!(notes[0].starts_with("Its events are not in the order of time ("), "{notes:?}");
    let mut back = events(|ms| plain(ms + 2001));
    back.push(all[0].clone());
    let line = complaint(&sequence(HEADER, &back));
    assert!(line.starts_with("log:44: the time of quic:packet_sent is 2.0"), "{line}");
    assert!(line.ends_with("s before that of an event above; put the events in the order of time"), "{line}");
}

#[test]
fn a_pace_in_bytes_is_found() {
    // 10 packets of 1400 bytes are delivered in each round trip of 40 ms: 2.8 Mbit/s.
    let log = |pace: u32| {
        let event = |ms: f64, name: &str, data: &str| format!(r#"{{"time":{ms},"name":"quic:{name}","data":{data}}}"#);
        let metrics =
            format!(r#"{{"congestion_window":28000,"bytes_in_flight":0,"latest_rtt":40,"pacing_rate":{pace}}}"#);
        let round = |round: u32| {
            let begin = f64::from(round) * 40.0;
            let sent = (0..10)
                .map(move |packet| event(begin + f64::from(packet), "packet_sent", r#"{"raw":{"length":1400}}"#));
            sent.chain([event(begin + 39.9, "recovery_metrics_updated", &metrics)]).collect::<Vec<_>>()
        };
        of(&sequence(HEADER, &(0..20).flat_map(round).collect::<Vec<_>>()))
    };
    let (bits, bytes) = (log(2_800_000), log(350_000));
    assert!(bits.notes.is_empty() && bits.points == bytes.points);
    assert_eq!(
        bytes.notes,
        ["its pacing rate is in bytes per second, by what was delivered; qlog has bits: converted"]
    );
    // A sender that paces below what it has is not one.
    assert!(log(1_400_000).notes.is_empty());
}

#[test]
fn one_of_several_connections_is_chosen() {
    let all = events(plain);
    let first = of(&sequence(HEADER, &all));
    let trace = |by: &str| format!(r#"{{"vantage_point":{{"type":"{by}"}},"events":[{}]}}"#, all.join(","));
    let failed = r#"{"error_description":"no such file","uri":"x"}"#;
    let two = format!(
        r#"{{"file_schema":"urn:ietf:params:qlog:file:contained","traces":[{},{failed},{}]}}"#,
        trace("client"),
        trace("server")
    );
    assert_eq!(
        complaint(&two),
        "log: it has several connections with a window (trace 1 (by the client), trace 3 (by the server)); choose a trace or a flow"
    );
    let chosen = |text: &str, choice: Choice<'_>| qlog::read_one("log", Cursor::new(text.to_owned()), choice);
    let third = chosen(&two, Choice { trace: Some(3), ..Choice::default() }).unwrap();
    assert_eq!(third.points, first.points);
    assert_eq!(
        third.notes,
        [
            "1 of its 3 traces could not be written by its writer ('no such file').",
            "Of its 3 traces trace 3 (by the server) is read."
        ]
    );
    assert!(chosen(&two, Choice { or_most: true, ..Choice::default() }).is_ok());
    let missing = |choice| chosen(&two, choice).unwrap_err().to_string();
    assert_eq!(
        missing(Choice { trace: Some(4), ..Choice::default() }),
        "log: it has 3 traces, and no trace 4; choose one of them"
    );
    assert!(
        missing(Choice { trace: Some(2), ..Choice::default() })
            .contains("says nothing of a window; those that do: trace 1")
    );

    // Times go on from one connection to the other.
    let last = std::cell::Cell::new(0);
    let mixed: Vec<String> = (0..20)
        .flat_map(|round: u32| {
            ["a", "b"].map(|group| {
                let ms = round * 4;
                let time = plain(ms - last.replace(ms));
                let window = if group == "a" { 14000 } else { 28000 };
                format!(
                    r#"{{{time},"group_id":"{group}","name":"quic:recovery_metrics_updated","data":{{"congestion_window":{window},"latest_rtt":40}}}}"#
                )
            })
        })
        .collect();
    let mixed = sequence(&HEADER.replace("relative_to_epoch", "delta"), &mixed);
    assert_eq!(
        complaint(&mixed),
        "log: it has several connections with a window (flow 'a', flow 'b'); choose a trace or a flow"
    );
    let second = chosen(&mixed, Choice { flow: Some("b"), ..Choice::default() }).unwrap();
    assert_eq!((second.name.as_str(), second.points.len(), second.end()), ("log b", 20, 0.076));
    assert_eq!(second.points[0].window * second.mss, 28000.0);
    let line = chosen(&mixed, Choice { flow: Some("c"), ..Choice::default() }).unwrap_err().to_string();
    assert_eq!(line, "log: the connection that is chosen says nothing of a window; those that do: flow 'a', flow 'b'");
}

#[test]
fn what_is_refused_is_one_line_with_its_place() {
    let all = events(plain);
    let text = sequence(HEADER, &all);
    let with = |value: &str| text.replacen("\"latest_rtt\":40", &format!("\"latest_rtt\":{value}"), 1);
    let fix = "; give a log as its writer made it";
    for (value, wrong) in [
        ("\"NaN\"", "latest_rtt \"NaN\" is not a number"),
        ("\"4e1\"", "latest_rtt \"4e1\" is not a number"),
        ("\"-4\"", "latest_rtt \"-4\" is not a number"),
        ("-4", "latest_rtt -4 is below 0"),
        ("[4]", "latest_rtt [4] is not a number"),
    ] {
        let expected = format!("log:3: its event is not as the version has it ({wrong}){fix}");
        assert_eq!(complaint(&with(value)), expected);
    }
    let contained = format!(
        "{{\"file_schema\":\"urn:ietf:params:qlog:file:contained\",\n\"traces\":[{{\"events\":[\n{}]}}]}}",
        all.join(",\n").replacen("\"length\":1400", "\"length\":\"x\"", 1)
    );
    assert_eq!(
        complaint(&contained),
        format!("log:3: event 0 is not as the version has it (length \"x\" is not a number){fix}")
    );
    assert_eq!(
        complaint(&text.replacen("\"time\":4,", "\"time\":1e99,", 1)),
        format!("log:4: its event is not as the version has it (time 1e99 is too large){fix}")
    );
    // Lengths stand in an object, or in a list of one; what is neither says nothing of them.
    for raw in ["[{\"length\":1400}]", "[{\"length\":1400},5]"] {
        assert_eq!(of(&text.replace("{\"length\":1400}", raw)).mss, 1400.0, "{raw}");
    }
    for raw in ["[]", "\"0a0b\"", "7", "[[]]", "null"] {
        assert_eq!(of(&text.replace("{\"length\":1400}", raw)).mss, 1200.0, "{raw}");
    }
    // What is not known here may be anything.
    assert_eq!(of(&text.replacen("\"packet_number\":0", "\"packet_number\":\"NaN\"", 1)).points.len(), 21);

    let read = "read are file_schema urn:ietf:params:qlog:file:contained and :sequential, and qlog_version 0.3, 0.4 and draft-00 to \
                draft-02";
    let both = HEADER.replacen(
        "{\"file_schema\":\"urn:ietf:params:qlog:file:sequential\"",
        "{\"qlog_version\":\"0.3\",\"file_schema\":\"urn:x:y\"",
        1,
    );
    assert_eq!(complaint(&sequence(&both, &all)), format!("log:1: it is a qlog of file_schema 'urn:x:y'; {read}"));
    let long = format!("\u{1e}{HEADER}\n\u{1e}{{\"time\":0,\"name\":\"a:b\",\"data\":\"{}\"}}\n", "x".repeat(1 << 20));
    assert_eq!(complaint(&long), "log:2: a record of it is longer than 1 MiB; give a qlog as JSON-SEQ");
    let cut = &text[..text.len() - 30];
    let cut = of(cut);
    assert_eq!(cut.points.len(), 20);
    assert!(cut.notes[0].starts_with("Read up to where line 43 is damaged or cut off (EOF"), "{:?}", cut.notes);
    assert!(complaint(&sequence(HEADER, &all[..1])).starts_with("log: it says nothing of a congestion window"));
}

/// What a program that was ended leaves behind: it is read up to there, and that is said.
#[test]
fn a_file_that_is_cut_off_is_read_up_to_there() {
    for (name, text) in files() {
        let (whole, mut points) = (read(&name), 0);
        for length in (0..text.len()).step_by(text.len() / 300 + 1) {
            let part = &text[..length];
            match qlog::read("log", part) {
                Ok(read) => {
                    assert!(read.points.len() >= points && read.end() <= whole.end(), "{name}, {length}");
                    points = read.points.len();
                    let said = read.notes.iter().any(|note| note.starts_with("Read up to where "));
                    // A sequence may end with any record.
                    let complete = || {
                        let last = part.split(|byte| *byte == 0x1e || *byte == b'\n').rfind(|last| !last.is_empty());
                        serde_json::from_slice::<serde::de::IgnoredAny>(last.unwrap()).is_ok()
                    };
                    assert!(said || complete(), "{name}, {length}: {:?}", read.notes);
                }
                Err(error) => assert!(points == 0 && !error.to_string().contains('\n'), "{name}, {length}: {error}"),
            }
        }
        assert!(points > 0, "{name}");
    }
}

/// Files of all writers with bytes changed, left out and put in, and bytes that nothing wrote: a trajectory, or one line.
#[test]
fn no_bytes_are_too_strange() {
    let mut state = 1_u64;
    let mut draw = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let pieces = [
        "\u{1e}",
        "\n",
        "\"",
        "{",
        "}",
        "[",
        "]",
        "-",
        "1e308",
        "null",
        "\"time\":",
        "\u{feff}",
        "9",
        ",",
        "\\",
        "\0",
        "\"raw\":",
        "\"data\":{",
        "\"name\":\"recovery:metrics_updated\",",
        "\"cwnd\":",
    ];
    let (mut read, mut refused) = (0, 0);
    let mut take = |bytes: &[u8]| match qlog::read_one("log", bytes, Choice { or_most: true, ..Choice::default() }) {
        Ok(trajectory) => {
            read += 1;
            assert!(trajectory.points.windows(2).all(|pair| pair[0].t <= pair[1].t));
            assert!(trajectory.points.iter().all(|point| point.t.is_finite() && point.window.is_finite()));
        }
        Err(error) => {
            refused += 1;
            let line = error.to_string();
            assert!(line.starts_with("log") && line.len() < 1500 && !line.contains(char::is_control), "{line:?}");
        }
    };
    for _ in 0..2000 {
        let mut bytes = if draw(2) == 0 { format!("\u{1e}{HEADER}\n").into_bytes() } else { Vec::new() };
        for _ in 0..draw(60) {
            match draw(3) {
                0 => bytes.push(draw(256) as u8),
                _ => bytes.extend(pieces[draw(pieces.len())].bytes()),
            }
        }
        take(&bytes);
    }
    for (_, text) in files() {
        for _ in 0..400 {
            let mut bytes = text.clone();
            for _ in 0..=draw(3) {
                let at = draw(bytes.len());
                match draw(4) {
                    0 => bytes[at] = draw(256) as u8,
                    1 => drop(bytes.drain(at..(at + draw(40)).min(text.len()).min(bytes.len()))),
                    2 => drop(bytes.splice(at..at, pieces[draw(pieces.len())].bytes())),
                    _ => bytes.truncate(at + 1),
                }
                if bytes.is_empty() {
                    bytes.push(0);
                }
            }
            take(&bytes);
        }
    }
    assert!(read > 500 && refused > 2500, "{read} read, {refused} refused");
}
