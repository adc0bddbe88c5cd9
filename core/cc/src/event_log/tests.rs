use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::RngSeed;

use super::*;
use crate::controller::{
    Ack, Acked, BadFeedback, Carrier, Cause, Hop, Loss, Lost, Pacing, Phase, RateSample, Restart, Sent, Stamp,
    Telemetry, Timeout,
};
use crate::units::{Rate, Time};

const MSS: u64 = 1448;

fn spec(text: &str) -> Spec {
    text.parse().unwrap()
}

fn ms(millis: u64) -> Time {
    Time::from_millis(millis)
}

/// Shows every kind of event, all of its fields with values of their own, to `see`.
fn each_event(mut see: impl FnMut(&Event<'_>)) {
    let acked = Acked {
        seq: u64::MAX,
        bytes: 1448,
        sent_at: ms(1),
        tag: 7,
        retransmitted: true,
        app_limited: true,
        ce: true,
        received_at: Some(Time::ZERO),
    };
    let lost = Lost { seq: 2896, bytes: 100, sent_at: ms(2), tag: 8, cause: Cause::Medium };
    let rate = RateSample {
        delivered: 11,
        interval: Nanos::from_nanos(12),
        prior_delivered: 13,
        app_limited: true,
        retransmission: true,
    };
    let ack = Ack {
        now: ms(20),
        packets: &[acked, Acked { tag: 0, received_at: None, ..acked }],
        bytes: 14,
        rtt: Some(Nanos::ZERO),
        srtt: Nanos::from_nanos(15),
        min_rtt: Nanos::MAX,
        rate: Some(rate),
        prior_in_flight: 16,
        in_flight: 17,
        lost_bytes: 18,
        ce_bytes: 19,
        ce_packets: 20,
        echo: true,
        delivered: 21,
        una: 22,
        next: 23,
        phase: Phase::Recovery,
        window_limited: true,
    };
    let sent = Sent {
        now: ms(10),
        seq: 1,
        bytes: 2,
        in_flight: 3,
        retransmission: true,
        app_limited: true,
        unsent: u64::MAX - 4,
    };
    let packets = [lost, Lost { cause: Cause::Unknown, ..lost }];
    let loss =
        Loss { now: ms(30), packets: &packets, bytes: 200, prior_in_flight: 31, in_flight: 32, new_episode: true };
    let hop = Hop {
        id: 1,
        arrived_at: Some(ms(3)),
        delay: Some(Nanos::ZERO),
        queue_bytes: Some(0),
        room_packets: Some(4),
        limit_packets: Some(40),
        capacity: Some(Rate::INFINITY),
        arrival: Some(Rate::ZERO),
        flows: Some(5),
        drops: Some(u32::MAX),
        signal_dbm: Some(-61.3),
        radio_retry_share: Some(0.1),
    };
    let packet = Carrier { seq: 1, sent_at: ms(10), tag: 9 };
    let timeout = Timeout { now: ms(40), packets: &packets, prior_in_flight: 41, in_flight: 42, count: 43 };
    see(&Event::Sent(&sent, Stamp { tag: 5, note: 6 }));
    see(&Event::Acked(&ack));
    see(&Event::Acked(&Ack { packets: &[], rtt: None, rate: None, ..ack }));
    see(&Event::Lost(&loss));
    see(&Event::Timeout(&timeout));
    see(&Event::Timeout(&Timeout { packets: &[], ..timeout }));
    see(&Event::Spurious(ms(50)));
    see(&Event::Cause { now: ms(60), packets: &packets });
    see(&Event::Mss { now: ms(70), mss: 1200 });
    see(&Event::Restart(&Restart { now: ms(80), idle: Nanos::from_nanos(81), rto: Nanos::from_nanos(82) }));
    see(&Event::AppLimited { now: ms(90), in_flight: 91 });
    let hops = [hop, Hop::default()];
    let (verdict, fresh_for) = (Cause::Medium, Nanos::from_millis(150));
    see(&Event::Telemetry(&Telemetry { now: ms(100), packet: Some(packet), verdict, fresh_for, hops: &hops }));
    see(&Event::SharedRtt { now: ms(110), min: Nanos::from_nanos(111) });
    see(&Event::Feedback { now: ms(120), blob: &[0, 0xff, 0x1a], result: Ok(()) });
    see(&Event::Feedback { now: ms(130), blob: &[], result: Err(BadFeedback { len: 0, what: "empty" }) });
    see(&Event::Tick(ms(140)));
}

#[test]
fn every_field_of_every_event_is_read_as_it_was_written() {
    let mut written = Log::new(Vec::new(), &spec("reno"), &Env::default(), "each").unwrap();
    let mut events = Vec::new();
    let mut answers = Answers::of(spec("reno").build(&Env::default()).as_ref());
    each_event(|event| {
        // Each answer changes at some time and stays at another.
        answers.window += MSS;
        answers.pacing = match answers.pacing {
            Pacing::Free => Pacing::Rate(Rate::INFINITY),
            Pacing::Rate(_) => Pacing::Gap(Nanos::ZERO),
            Pacing::Gap(_) => Pacing::Free,
        };
        answers.next_tick = if events.len() % 3 == 0 { event.now() } else { answers.next_tick };
        answers.threshold = if events.len() % 4 == 0 { 0 } else { u64::MAX };
        answers.holds_against_marks = events.len() % 5 == 0;
        written.write(event, &answers, Variables::default).unwrap();
        events.push((format!("{event:?}"), answers));
    });
    let written = written.finish().unwrap();
    let reader = Reader::new("each", written.as_slice()).unwrap();
    let mut again = Log::with_header(Vec::new(), reader.header()).unwrap();
    let mut lines = 0;
    for (line, (event, answers)) in reader.zip(&events) {
        let line = line.unwrap();
        // The reason of a refusal is not written.
        let shown = line.event.with(|event| format!("{event:?}"));
        assert_eq!(shown.replace("it was refused when it was recorded", "empty"), *event);
        assert_eq!(line.answers, *answers, "{event}");
        line.event.with(|event| again.write(event, &line.answers, Variables::default)).unwrap();
        lines += 1;
    }
    assert_eq!(lines, events.len());
    assert_eq!(String::from_utf8(again.finish().unwrap()), String::from_utf8(written));
}

#[test]
fn a_log_by_hand() {
    let env = Env { mss: 1448, seed: u64::MAX, paced: true, remembered: None };
    let mut log = Log::new(Vec::new(), &spec("fixed:window=2,rate=1"), &env, "a \"quoted\" name").unwrap();
    let sent = Sent {
        now: Time::ZERO,
        seq: 0,
        bytes: 1448,
        in_flight: MSS,
        retransmission: false,
        app_limited: false,
        unsent: 3,
    };
    let mut answers = Answers::of(spec("fixed:window=2,rate=1").build(&env).as_ref());
    log.write(&Event::Sent(&sent, Stamp::default()), &answers, Variables::default).unwrap();
    answers.window = 0;
    answers.next_tick = ms(1);
    log.write(&Event::Tick(ms(1)), &answers, Variables::default).unwrap();
    let written = String::from_utf8(log.finish().unwrap()).unwrap();
    let expected = r#"{"format":"paceline-events","version":1,"about":"a \"quoted\" name","controller":"fixed:window=2,rate=1","env":{"mss":1448,"seed":18446744073709551615,"paced":true},"constants":{"recovery":"controller","ecn":"off"},"answers":{"window":2896,"pacing":{"rate":125000},"next_tick":18446744073709551615,"threshold":18446744073709551615}}
{"event":"sent","now":0,"bytes":1448,"in_flight":1448,"unsent":3}
{"event":"tick","now":1000000,"answers":{"window":0,"next_tick":1000000}}
"#;
    assert_eq!(written, expected);
}

#[test]
fn what_is_not_finite_is_not_reported() {
    let mut log = Log::new(Vec::new(), &spec("reno"), &Env::default(), "").unwrap();
    let answers = log.answers;
    let hops = [Hop { signal_dbm: Some(f32::NAN), radio_retry_share: Some(f32::INFINITY), ..Hop::default() }];
    let (verdict, fresh_for) = (Cause::Unknown, Nanos::ZERO);
    let telemetry = Telemetry { now: Time::ZERO, packet: None, verdict, fresh_for, hops: &hops };
    log.write(&Event::Telemetry(&telemetry), &answers, Variables::default).unwrap();
    let written = String::from_utf8(log.finish().unwrap()).unwrap();
    assert!(written.ends_with("\"hops\":[{}]}\n"), "{written}");
}

/// A controller that describes these variables, `None` as a number that is not finite.
#[derive(Default)]
struct Describes(Vec<(&'static str, Option<f64>)>);

impl Controller for Describes {
    fn on_sent(&mut self, _: &Sent) -> Stamp {
        Stamp::default()
    }

    fn on_ack(&mut self, _: &Ack<'_>) {}

    fn on_loss(&mut self, _: &Loss<'_>) {}

    fn on_timeout(&mut self, _: &Timeout<'_>) {}

    fn nature(&self) -> Nature {
        spec("reno").build(&Env::default()).nature()
    }

    fn permit(&self) -> crate::controller::Permit {
        spec("reno").build(&Env::default()).permit()
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        self.0.iter().for_each(|(name, value)| report(name, value.unwrap_or(f64::NAN)));
    }
}

/// A log of ticks, with what is described after each.
fn described(all: &[&[(&'static str, Option<f64>)]]) -> Vec<u8> {
    let header = Header { variables: Some(Variables::default()), ..Header::new(&spec("reno"), &Env::default(), "") };
    let mut log = Log::with_header(Vec::new(), &header).unwrap();
    for (index, one) in (1..).zip(all) {
        log.on_event(&Event::Tick(ms(index)), &Describes(one.to_vec()));
    }
    log.finish().unwrap()
}

#[test]
fn variables_are_written_as_they_change_and_read_exactly() {
    let third = 1.0 / 3.0;
    let all: [&[_]; 4] = [
        &[("b", Some(third)), ("a \"x\"", Some(-0.0)), ("c", None)],
        &[("b", Some(third)), ("a \"x\"", Some(f64::MAX))],
        &[("b", Some(third)), ("a \"x\"", Some(f64::MAX))],
        &[("b", Some(5e-324))],
    ];
    let written = described(&all);
    let text = String::from_utf8(written.clone()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains("\"version\":2,") && lines[0].ends_with("\"variables\":{}}"), "{text}");
    let third = r#"{"event":"tick","now":1000000,"variables":{"a \"x\"":-0.0,"b":0.3333333333333333}}"#;
    assert_eq!(lines[1], third);
    assert_eq!(lines[3], r#"{"event":"tick","now":3000000}"#);
    assert!(lines[4].ends_with(r#""variables":{"b":5e-324,"a \"x\"":null}}"#), "{}", lines[4]);
    let reader = Reader::new("x", written.as_slice()).unwrap();
    for (line, one) in reader.zip(all) {
        let variables = line.unwrap().variables.unwrap();
        assert_eq!(variables, Variables::of(&Describes(one.to_vec())));
    }
}

/// What can be read of `bytes`, written again; what cannot is refused in one line.
fn again(bytes: &[u8]) -> Option<Vec<u8>> {
    let complain = |error: LogError| assert!(!error.to_string().contains(char::is_control), "{error}");
    let reader = Reader::new("x", bytes).map_err(complain).ok()?;
    let mut log = Log::with_header(Vec::new(), reader.header()).unwrap();
    for line in reader {
        match line {
            Ok(line) => {
                let variables = || line.variables.clone().unwrap_or_default();
                line.event.with(|event| log.write(event, &line.answers, variables)).unwrap();
            }
            Err(error) => complain(error),
        }
    }
    Some(log.finish().unwrap())
}

/// Bytes that change what a log says.
const TELLING: &[u8] = b"09-.e\"{}[]:,ntf \n\x00\xff";

proptest! {
    #![proptest_config(ProptestConfig {
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_bytes_panic_and_what_is_read_is_written_the_same(
        changes in prop::collection::vec((any::<Index>(), prop::sample::select(TELLING)), 0..4),
        cut in prop::option::of(any::<Index>()),
        described in any::<bool>(),
    ) {
        let (copa, env) = (spec("copa"), Env::default());
        let header = if described { Header::with_variables } else { Header::new };
        let mut log = Log::with_header(Vec::new(), &header(&copa, &env, "each")).unwrap();
        let (answers, mut controller) = (log.answers, copa.build(&env));
        each_event(|event| {
            event.feed(controller.as_mut());
            log.write(event, &answers, || Variables::of(controller.as_ref())).unwrap();
        });
        let mut bytes = log.finish().unwrap();
        for (place, byte) in &changes {
            let place = place.index(bytes.len());
            bytes[place] = *byte;
        }
        bytes.truncate(cut.map_or(bytes.len(), |cut| cut.index(bytes.len())));
        if let Some(written) = again(&bytes) {
            prop_assert_eq!(again(&written), Some(written));
        }
    }
}

const HEADER: &str = r#"{"format":"paceline-events","version":1,"controller":"reno","env":{"mss":1448},"constants":{"recovery":"prr","ecn":"off"},"answers":{"window":14480,"pacing":"free","next_tick":18446744073709551615}}"#;

/// What reading says of `text`.
fn complaint(text: &str) -> String {
    let error = match Reader::new("x", text.as_bytes()) {
        Err(error) => error,
        Ok(reader) => reader.last().expect("a line").expect_err(text),
    };
    let error = error.to_string();
    assert!(!error.contains(char::is_control), "{error}");
    error
}

#[test]
fn errors_name_the_line_the_field_and_the_fix() {
    let of = |line: &str| complaint(&format!("{HEADER}\n{{\"event\":\"tick\",\"now\":5}}\n{line}\n"));
    let expect = |line: &str, error: &str| assert_eq!(of(line), format!("x:3: {error}"));
    let whole = "is not a whole number from 0 to 18446744073709551615; write one";
    expect(r#"{"event":"tick"}"#, "now: it is missing; add it");
    expect(r#"{"event":"tick","now":-1}"#, &format!("now: -1 {whole}"));
    expect(r#"{"event":"tick","now":1.5}"#, &format!("now: 1.5 {whole}"));
    expect(r#"{"event":"tick","now":"20ms"}"#, &format!("now: \"20ms\" {whole}"));
    expect(r#"{"event":"tick","now":4}"#, "now: 4 comes after 5; time does not run backwards, sort the lines");
    assert!(of(r#"{"event":"tock","now":6}"#).starts_with("x:3: event: there is no event 'tock'; write one of sent,"));
    assert!(of(r#"{"now":6}"#).ends_with("event: it is missing; add it"));
    let unknown = of(r#"{"event":"restart","now":6,"idel":1}"#);
    assert_eq!(unknown, "x:3: idel: there is no such field here; take it out, or correct it (did you mean idle?)");
    expect(
        r#"{"event":"lost","now":6,"packets":[{"sent_at":1},{"sent_at":1,"bytes":4294967296}]}"#,
        "packets[1].bytes: 4294967296 is not a whole number from 0 to 4294967295; write one",
    );
    expect(r#"{"event":"lost","now":6}"#, "packets: a loss names its packets; list them, or take the line out");
    expect(
        r#"{"event":"acked","now":6,"rate":{"delivered":1}}"#,
        "rate.interval: an interval is never 0; leave the sample out",
    );
    expect(
        r#"{"event":"acked","now":6,"phase":"slow"}"#,
        "phase: \"slow\" is not one of open cwr recovery loss; write one",
    );
    expect(
        r#"{"event":"tick","now":6,"answers":{"pacing":{"rate":1,"gap":2}}}"#,
        "answers.pacing: it is not \"free\", an object with a rate, or one with a gap; write one",
    );
    expect(
        r#"{"event":"feedback","now":6,"blob":"abc"}"#,
        "blob: it is not an even number of hexadecimal digits; write two a byte",
    );
    assert!(of("").starts_with("x:3: not a JSON object ("));
    assert!(of("[1]").starts_with("x:3: not a JSON object ("));
    assert!(of(&"[".repeat(100_000)).starts_with("x:3: not a JSON object ("));
    assert!(of(&" ".repeat(MAX_LINE + 1)).starts_with("x:3: the line is longer than 8 MiB"));
}

#[test]
fn errors_of_headers() {
    assert_eq!(complaint(""), "x: it is empty; an event log begins with a header, as race --events writes it");
    assert!(complaint("{}").starts_with("x:1: format: it is not \"paceline-events\""));
    let with = |from: &str, to: &str| complaint(&HEADER.replace(from, to));
    assert!(with("\"version\":1", "\"version\":3").starts_with("x:1: version: 3 is unknown, 1 and 2 are read"));
    let second = |variables: &str| with("\"version\":1", &format!("\"version\":2{variables}"));
    assert_eq!(second(""), "x:1: variables: it is missing; add it");
    assert_eq!(second(",\"variables\":[1]"), "x:1: variables: [1] is not an object; write one");
    let wrong = second(",\"variables\":{\"x\\n\":\"1\"}");
    assert_eq!(wrong, "x:1: variables.x : \"1\" is not a number, or null; write one");
    let many: Vec<String> = (0..=MOST_VARIABLES).map(|number| format!("\"v{number}\":1")).collect();
    let many = second(&format!(",\"variables\":{{{}}}", many.join(",")));
    assert_eq!(many, "x:1: variables: more than 256 variables; a controller describes fewer, take some out");
    let first = with("\"version\":1", "\"version\":1,\"variables\":{}");
    assert!(first.starts_with("x:1: variables: there is no such field here"), "{first}");
    assert!(with("\"mss\":1448", "\"mss\":0").starts_with("x:1: env.mss: full packets have at least 1 byte"));
    assert!(with("\"window\":14480,", "\"windwo\":1,").starts_with("x:1: answers.windwo: there is no such field"));
    assert!(with("\"pacing\":\"free\",", "").starts_with("x:1: answers.pacing: it is missing"));
}

#[test]
fn a_mismatch_names_its_line_and_its_answer() {
    let mut reader = Reader::new("x", HEADER.as_bytes()).unwrap();
    let mismatch = replay(&mut reader, spec("reno").build(&Env::default()).as_mut()).unwrap_err().to_string();
    assert!(mismatch.starts_with("x:1: after 'start' the controller answers"), "{mismatch}");
    let header = HEADER.replace("615}}", "615,\"threshold\":18446744073709551615}}");
    let log = format!("{header}\n{{\"event\":\"tick\",\"now\":5,\"answers\":{{\"window\":14481}}}}\n");
    let mut reader = Reader::new("x", log.as_bytes()).unwrap();
    let mismatch = replay(&mut reader, spec("reno").build(&Env::default()).as_mut()).unwrap_err().to_string();
    assert_eq!(mismatch, "x:2: after 'tick' the controller answers 14480 as its window, and the log says 14481");
}

#[test]
fn a_substitute_gets_its_own_tags() {
    // Verus stamps the window at sending on each packet and looks it up when the packet is lost.
    let env = Env::default();
    let (reno, verus) = (spec("reno"), spec("verus"));
    let mut log = Log::new(Vec::new(), &reno, &env, "").unwrap();
    let answers = log.answers;
    let sent =
        Sent { now: ms(1), seq: 0, bytes: 1448, in_flight: MSS, retransmission: false, app_limited: false, unsent: 0 };
    log.write(&Event::Sent(&sent, Stamp::default()), &answers, Variables::default).unwrap();
    let packets = [Lost { seq: 0, bytes: 1448, sent_at: ms(1), tag: 0, cause: Cause::Unknown }];
    let loss =
        Loss { now: ms(2), packets: &packets, bytes: MSS, prior_in_flight: MSS, in_flight: 0, new_episode: true };
    log.write(&Event::Lost(&loss), &answers, Variables::default).unwrap();
    let written = log.finish().unwrap();

    let mut native = verus.build(&env);
    let stamp = native.on_sent(&sent);
    assert_ne!(stamp, Stamp::default());
    let tagged = [Lost { tag: stamp.tag, ..packets[0] }];
    native.on_loss(&Loss { packets: &tagged, ..loss });

    let mut substitute = Substitute::new(verus.build(&env));
    for line in Reader::new("x", written.as_slice()).unwrap() {
        substitute.feed(&line.unwrap().event);
    }
    assert_eq!(substitute.answers(), Answers::of(native.as_ref()));
}
