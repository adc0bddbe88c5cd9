use std::path::Path;
use std::sync::{Arc, Mutex};

use paceline_cc::event_log::{Log, Reader, replay};
use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Result<Script, ScriptError> {
    Script::parse("f", text, str::parse)
}

fn run(text: &str) -> ScriptRun {
    parse(text).and_then(|script| script.run(None, None)).unwrap_or_else(|error| panic!("{error}"))
}

/// What is wrong with a script, as it is read or as it is run.
fn refused(text: &str) -> String {
    match parse(text).and_then(|script| script.run(None, None)) {
        Ok(run) => panic!("{text:?} was taken: {run:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_shipped_scripts_hold() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/scripts");
    let runs = run_files(std::slice::from_ref(&folder), &[]).unwrap_or_else(|error| panic!("{error}"));
    assert!(runs.len() >= 5, "{}", runs.len());
    for run in &runs {
        assert!(run.judged.len() >= 2, "{}: {} expectations", run.name, run.judged.len());
    }
    assert!(runs.iter().all(ScriptRun::holds), "\n{}", table(&runs));
    // They can fail: of another controller something is not so.
    let others = run_files(&[folder.join("cubic.script"), folder.join("reno.script")], &["fixed".parse().unwrap()]);
    assert!(others.unwrap().iter().all(|run| !run.holds()));
}

#[test]
fn what_departs_is_said_with_its_place_and_its_answer() {
    let judged =
        run("controller reno\n0s sent window\n+40ms acked all\n  expect window=21packets, pacing = free\n").judged;
    assert_eq!(judged.len(), 2);
    assert_eq!((judged[0].line, judged[0].column, judged[0].holds), (4, 10, false));
    assert_eq!(judged[0].expected, "window=21packets");
    assert_eq!(judged[0].answered, "20 packets (28960 B)");
    assert_eq!((judged[1].column, judged[1].holds, judged[1].answered.as_str()), (28, true, "free"));
    let runs = [ScriptRun { name: "f".to_owned(), controller: "reno".to_owned(), judged }];
    let told = table(&runs);
    assert!(
        told.starts_with("f: reno: 1 of 2 expectations hold\nf:4:10: departs at 40ms: window=21packets; the"),
        "{told}"
    );
    assert_eq!(json_lines(&runs).lines().count(), 2);
}

#[test]
fn what_is_kept_is_compared() {
    let text = "controller cubic\nlet first = window\n0s sent window\n+40ms acked all\nexpect window = 2 * first\n\
                let before = window\nsent window\n+40ms lost 1\n\
                expect window = 0.7 * before +- 1 packet, threshold = window_after\n";
    let error = parse(text).unwrap_err();
    assert_eq!((error.line, error.column), (9, 55), "{error}");
    assert!(error.problem.contains("'window_after' is not a size"), "{error}");
    let text = text.replace("window_after", "0.7 * before +- 1 packet");
    assert!(run(&text).holds(), "{}", table(&[run(&text)]));
}

#[test]
fn repetitions_and_single_events_take_their_time() {
    let text =
        "controller reno\nrepeat 3\n  sent 2 every 5ms\n  +10ms acked all every 1ms\nend\nexpect window = 16 packets\n";
    let run = run(&text.replace("= 16", "> 1"));
    // (5 + 10 + 1) ms three times.
    assert_eq!(run.judged[0].at, Time::from_millis(48));
}

#[test]
fn a_lost_packet_leaves_again_and_ends_recovery() {
    let begin = "controller reno\n0s sent window\n+40ms lost 1\nlet half = window\nacked packets 2..10\n";
    let within = format!("{begin}expect window = half\nsent 1\n+40ms acked packet 1\nexpect window >= half");
    assert!(run(&within).holds(), "{}", table(&[run(&within)]));
    assert!(refused(&format!("{begin}acked packet 2")).starts_with("f:6:1: packet 2 has arrived already"));
    assert!(refused(&format!("{begin}lost packet 1")).starts_with("f:6:1: packet 1 is not in flight"));
    assert!(refused(&format!("{begin}sent packet 2")).starts_with("f:6:1: packet 2 is not lost"));
    assert!(refused(&format!("{begin}acked packet 12")).starts_with("f:6:1: packet 12 has not left yet; 10 have"));
    // The repair is wrong: the original arrives.
    assert!(run(&format!("{begin}spurious\nacked packet 1\nexpect window >= 10 packets")).holds());
}

#[test]
fn mistakes_are_one_line_with_line_and_column() {
    let cases = [
        ("", "f:1:1: a script begins with the controller"),
        ("sent 3", "f:1:1: a script begins with the controller"),
        ("controller cubik\nsent 1", "f:1:12: unknown controller 'cubik'; did you mean cubic?"),
        ("controller reno", "f:1:1: nothing happens in this script"),
        ("controller reno\nenv mms=3\nsent 1", "f:2:5: there is no key of env 'mms'; did you mean mss?"),
        ("controller reno\n0s send 3", "f:2:4: there is no event 'send'; did you mean end or sent?"),
        ("controller reno\n0s sent", "f:2:8: the line ends, and a number of packets"),
        ("controller reno\n0s sent 0", "f:2:9: '0' is not a number of packets"),
        ("controller reno\n0s sent 3 evry 2ms", "f:2:11: there is no key of sent 'evry'"),
        ("controller reno\n5 sent 3", "f:2:1: '5' is not a time such as"),
        ("controller reno\n+5m sent 3", "f:2:1: '+5m' is not a time such as +20ms"),
        ("controller reno\n0s sent 3\n1s acked 4", "f:3:1: 4 packets are named, and 3 are in flight"),
        ("controller reno\n1s sent 3\n0s acked 3", "f:3:1: time runs backwards: the line before ends at 1s"),
        ("controller reno\n0s sent 3\nexpect window 14", "f:3:15: there is no relation '14'; known are =, !="),
        ("controller reno\n0s sent 3\nexpect window = 14", "f:3:17: '14' is not a size such as"),
        ("controller reno\n0s sent 3\nexpect window = 2 parsecs", "f:3:17: '2' is not a size such as"),
        ("controller reno\n0s sent 3\nexpect window > 3 B +- 2 B", "f:3:21: a tolerance stands behind '=' alone"),
        ("controller reno\n0s sent 3\nexpect window = 3 B +- 2ms", "f:3:24: '2ms' is not a tolerance"),
        ("controller reno\n0s sent 3\nexpect window = 3 B 4", "f:3:21: '4' is one word too many"),
        ("controller reno\nrepeat 3\nsent 3", "f:2:1: this repetition has no end"),
        ("controller reno\nsent 3\nend", "f:3:1: there is no repetition to end"),
        ("controller reno\nrepeat 2\n1s sent 1\nend", "f:3:1: in a repetition time goes on"),
        ("controller reno\nsent 1\n1s acked 1 ce", "f:3:1: packets of this controller are not ECN-capable"),
        ("controller reno\nsent 1\ncause medum packet 1", "f:3:7: there is no cause 'medum'; did you mean medium?"),
        ("controller reno\nsent 1\nfeedback 0", "f:3:10: '0' is not an even number of hexadecimal digits"),
        ("controller reno\ntelemetry delay=1ms", "f:2:11: what a hop reports stands behind 'hop'"),
        ("controller reno\nrepeat 100000\nsent 100000\nend", "f:3:1: more than 100000 packets"),
        ("controller reno\n2h sent 1", "f:2:1: a script lasts at most an hour"),
        ("controller reno\nacked all", "f:2:1: no packet is in flight"),
    ];
    let wrong = cases.into_iter().map(|(text, expected)| (text, expected, refused(text)));
    let wrong: Vec<_> = wrong.filter(|(_, expected, error)| !error.starts_with(expected)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let unknown = run("controller cubic\nsent 1\nexpect w_max_pakets = 3");
    assert!(!unknown.holds() && unknown.judged[0].answered.contains("did you mean w_max_packets"), "{unknown:?}");
}

/// What a script makes of its lines are the events of a log: replayed, they give the same answers.
#[test]
fn events_are_those_of_a_log() {
    let text = "controller cubic:ecn=on\n0s acked handshake rtt=40ms\nsent window\n+40ms acked 8 every 1ms ce\nlost 1\n\
                sent 3 bytes=100\n+50ms acked packets 10..12\n+1s timeout\nspurious\nmss 1200\nacked all\n\
                app_limited\nshared_rtt 30ms\ncause medium packet 9\ntelemetry packet=3 hop id=1 queue_bytes=3kB\n\
                +3s sent 2\nlost all cause=policer\n";
    let script = parse(text).unwrap();
    let log = Log::new(Vec::new(), &script.controller, &script.env, "a script").unwrap();
    let log = Arc::new(Mutex::new(Some(log)));
    struct Writes(Arc<Mutex<Option<Log<Vec<u8>>>>>);
    impl paceline_cc::observe::Observer for Writes {
        fn on_event(&mut self, event: &paceline_cc::observe::Event<'_>, controller: &dyn paceline_cc::Controller) {
            if let Some(log) = self.0.lock().unwrap().as_mut() {
                log.on_event(event, controller);
            }
        }
    }
    script.run(None, Some(Box::new(Writes(Arc::clone(&log))))).unwrap();
    let written = log.lock().unwrap().take().unwrap().finish().unwrap();
    let mut reader = Reader::new("f", written.as_slice()).unwrap();
    let events = replay(&mut reader, script.controller.build(&script.env).as_mut()).unwrap();
    let text = String::from_utf8(written).unwrap();
    for event in ["lost", "timeout", "spurious", "mss", "restart", "app_limited", "cause", "telemetry", "shared_rtt"] {
        assert!(text.contains(&format!("\"event\":\"{event}\"")), "{event}:\n{text}");
    }
    assert!(events > 30, "{events}");
}

/// Texts that are nearly scripts.
fn lines() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "sent",
        "acked",
        "lost",
        "timeout",
        "spurious",
        "expect",
        "let",
        "repeat",
        "end",
        "window",
        "all",
        "packets",
        "every",
        "+10ms",
        "5ms",
        "3",
        "2..9",
        "=",
        ">=",
        "+-",
        ",",
        "*",
        "x",
        "5%",
        "10",
        "ce",
        "threshold",
        "pacing",
        "cwnd_packets",
        "\n",
        "\n",
        "\n",
        "app_limited",
        "mss",
        "packet",
        "1200",
        "free",
        "cause",
        "medium",
        "telemetry",
        "hop",
        "id",
        "1",
    ]);
    let name = prop::sample::select(vec!["reno", "cubic", "bbr", "bbr3", "copa", "prague", "sprout", "ledbat++"]);
    let all = (name, prop::collection::vec(word, 0..60));
    all.prop_map(|(name, words)| format!("controller {name}\n{}", words.join(" ")))
}

fn is_one_line(error: &ScriptError) -> bool {
    let line = error.to_string();
    line.starts_with("f:") && line.len() < 1500 && !line.contains(char::is_control)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_refused_in_one_line(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Err(error) = parse(&text) {
            prop_assert!(is_one_line(&error), "{error}");
        }
        if let Err(error) = parse(&format!("controller reno\n{text}")) {
            prop_assert!(is_one_line(&error), "{error}");
        }
    }

    #[test]
    fn any_lines_run_or_are_refused_in_one_line(text in lines()) {
        match parse(&text).and_then(|script| script.run(None, None)) {
            Ok(run) => prop_assert!(run.judged.iter().all(|one| one.line > 1)),
            Err(error) => prop_assert!(is_one_line(&error), "{error}"),
        }
    }
}
