//! A flow's qlog lists as lost the packets that the path dropped, and no others.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use paceline_cc::observe::Observer;
use paceline_cc::{Nanos, Time};
use paceline_experiment::{Subject, Tap};
use paceline_lab::contestant::Contestant;
use paceline_lab::qlog::Qlog;
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
    let lost = events.filter(|event| event["name"] == "recovery:packet_lost");
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
