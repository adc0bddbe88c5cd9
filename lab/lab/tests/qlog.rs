//! A flow's qlog lists as lost the packets that the path dropped, and no others.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use paceline_cc::observe::Observer;
use paceline_cc::{Nanos, Time};
use paceline_experiment::{Subject, Tap};
use paceline_lab::contestant::Contestant;
use paceline_lab::qlog::{Qlog, Style, Variables};
use paceline_lab::scenario::{Options, Source};
use paceline_path::DelaySplit;
use paceline_transport::{AckSegment, Segment, Sender};
use serde_json::Value;

const LOSSY: &str = r#"
name = "lossy"
seconds = 20
runs = 1
contestants = ["reno@tcp"]
[down]
rate = "20 Mbit/s"
delay = "10ms"
loss = 0.01
queue = "infinite"
[up]
delay = "10ms"
"#;

/// What was sent before the last second and has not arrived was dropped.
struct Drops {
    qlog: Qlog,
    sent: Vec<Time>,
    numbers: BTreeMap<(u64, Time), u64>,
    dropped: BTreeSet<u64>,
}

impl Tap for Drops {
    fn observer(&mut self, of: &Subject<'_>) -> Option<Box<dyn Observer>> {
        self.qlog.observer(of)
    }

    fn on_sent(&mut self, now: Time, _flow: u32, segment: &Segment) {
        let number = self.sent.len() as u64;
        self.sent.push(now);
        self.numbers.insert((segment.seq, segment.sent_at), number);
        self.dropped.insert(number);
    }

    fn on_arrival(&mut self, _now: Time, _flow: u32, segment: &Segment, _ce: bool, _delay: &DelaySplit) {
        let number = self.numbers[&(segment.seq, segment.sent_at)];
        assert!(self.dropped.remove(&number), "packet {number} arrived twice");
    }

    fn on_ack(&mut self, _now: Time, _flow: u32, _ack: &AckSegment, _sender: &dyn Sender) {}
}

/// Numbers of the packets that a log declares lost.
fn lost(path: &Path) -> Vec<u64> {
    let text = std::fs::read_to_string(path).unwrap();
    let events = text.split('\u{1e}').skip(2).map(|event| serde_json::from_str::<Value>(event).unwrap());
    let lost = events.filter(|event| event["name"] == "quic:packet_lost");
    lost.map(|event| event["data"]["header"]["packet_number"].as_u64().unwrap()).collect()
}

#[test]
fn lost_packets_are_those_that_the_path_dropped() {
    for name in ["reno@tcp", "cubic@tcp", "bbr@tcp", "copa@udp", "copa@alcc", "verus@alcc/reno"] {
        let contestant: Contestant = name.parse().unwrap();
        let plan = Source::from_text("lossy.toml", LOSSY, Options::default()).plans().unwrap().remove(0);
        let folder = tempfile::tempdir().unwrap();
        let qlog = Qlog::new(folder.path(), "flow", "").unwrap();
        let mut drops = Drops { qlog, sent: Vec::new(), numbers: BTreeMap::new(), dropped: BTreeSet::new() };
        paceline_sim::run(plan.world(&contestant, None).unwrap(), Some(&mut drops));
        let Drops { qlog, sent, dropped, .. } = drops;

        let settled = Time::ZERO + Nanos::from_secs(19);
        let before = |number: &u64| sent[*number as usize] < settled;
        let dropped: Vec<u64> = dropped.into_iter().filter(before).collect();
        let mut lost: Vec<u64> = lost(&qlog.finish().unwrap()[0]).into_iter().filter(before).collect();
        lost.sort_unstable();
        assert!(dropped.len() > 20, "{name}: {} of {} packets dropped", dropped.len(), sent.len());
        assert_eq!(lost, dropped, "{name}");
    }
}

fn events(of: &str, style: Style) -> Vec<Value> {
    logged(of, LOSSY, style)
}

fn logged(of: &str, scenario: &str, style: Style) -> Vec<Value> {
    let contestant: Contestant = of.parse().unwrap();
    let plan = Source::from_text("lossy.toml", scenario, Options::default()).plans().unwrap().remove(0);
    let folder = tempfile::tempdir().unwrap();
    let mut qlog = Qlog::new(folder.path(), "flow", "").unwrap().styled(style);
    paceline_sim::run(plan.world(&contestant, None).unwrap(), Some(&mut qlog));
    let text = std::fs::read_to_string(&qlog.finish().unwrap()[0]).unwrap();
    text.split('\u{1e}').skip(2).map(|event| serde_json::from_str::<Value>(event).unwrap()).collect()
}

fn named<'a>(events: &'a [Value], name: &'a str) -> impl Iterator<Item = &'a Value> {
    events.iter().filter(move |event| event["name"] == name)
}

#[test]
fn states_of_a_controller_have_its_names_and_variables_follow_them() {
    let some = events("bbr3@tcp", Style::default());
    let states: Vec<&str> =
        named(&some, "quic:congestion_state_updated").map(|event| event["data"]["new"].as_str().unwrap()).collect();
    // DOWN ended with the acknowledgement that began it.
    assert_eq!(states[..4], ["Startup", "Drain", "CRUISE", "REFILL"], "{states:?}");
    let variables: Vec<&Value> = named(&some, "paceline:variables").collect();
    // Each change of state has its variables at that time, in order with it.
    let change = some.iter().position(|event| event["data"]["new"] == "Drain").unwrap();
    let after = some[change..].iter().find(|event| event["name"] == "paceline:variables").unwrap();
    assert_eq!((&after["time"], &after["data"]["state"]), (&some[change]["time"], &1.into()));
    let times: Vec<f64> = variables.iter().map(|event| event["time"].as_f64().unwrap()).collect();
    let close = times.windows(2).filter(|pair| pair[1] - pair[0] < 0.999).count();
    assert!(close <= states.len(), "{close} of {} within a millisecond, {} states", times.len(), states.len());
    let all = events("bbr3@tcp", Style { variables: Variables::All, ..Style::default() });
    assert!(named(&all, "paceline:variables").count() > variables.len());
    // Nothing else depends on it.
    let rest = |events: &[Value]| {
        events.iter().filter(|event| event["name"] != "paceline:variables").cloned().collect::<Vec<_>>()
    };
    assert_eq!(rest(&all), rest(&some));
}

#[test]
fn chirps_of_a_start_up_are_events() {
    let events = events("reno:start=chirp@tcp", Style::default());
    let sent: Vec<f64> = named(&events, "quic:packet_sent").map(|event| event["time"].as_f64().unwrap()).collect();
    let chirps: Vec<&Value> = named(&events, "paceline:chirp").map(|event| &event["data"]).collect();
    assert!(chirps.len() > 3, "{chirps:?}");
    assert!(chirps.windows(2).all(|pair| pair[0]["number"].as_u64() < pair[1]["number"].as_u64()));
    for chirp in &chirps {
        let (first, packets) =
            (chirp["first_packet_number"].as_u64().unwrap() as usize, chirp["packets"].as_u64().unwrap() as usize);
        let gaps: Vec<f64> = chirp["gaps_us"].as_array().unwrap().iter().map(|gap| gap.as_f64().unwrap()).collect();
        assert_eq!(gaps.len(), packets - 1);
        for (index, gap) in gaps.iter().enumerate() {
            let between = (sent[first + index + 1] - sent[first + index]) * 1e3;
            assert!((between - gap).abs() <= 1.01, "{chirp}: {between}");
        }
        assert!(["complete", "lost", "cut"].contains(&chirp["ended"].as_str().unwrap()));
    }
    assert!(
        chirps.iter().any(|chirp| chirp["ended"] == "complete" && chirp["packets"].as_u64() > Some(4)),
        "{chirps:?}"
    );
}

#[test]
fn what_a_controller_triggers_is_marked() {
    let lossy = LOSSY.replace("reno@tcp", "bbr3@tcp");
    let text =
        format!("{lossy}\n[[when]]\nis = {{ state = \"UP\" }}\ntimes = 2\nset = {{ \"down.delay\" = \"12ms\" }}\n");
    let events = logged("bbr3@tcp", &text, Style::default());
    let marks: Vec<&Value> = named(&events, "simulation:marker").collect();
    let marked = serde_json::json!({ "type": "when", "message": "0 by state" });
    assert_eq!(marks.iter().map(|mark| &mark["data"]).collect::<Vec<_>>(), [&marked, &marked]);
    let ups: Vec<&Value> = events.iter().filter(|event| event["data"]["new"] == "UP").collect();
    assert_eq!((&marks[0]["time"], &marks[1]["time"]), (&ups[0]["time"], &ups[1]["time"]));
}
