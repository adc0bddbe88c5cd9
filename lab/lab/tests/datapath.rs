//! A new datapath is one file and one row: this one, a TCP whose receiver acknowledges each packet at once.

use paceline_cc::Datapath;
use paceline_cc::datapath::TCP;
use paceline_experiment::Layer;
use paceline_experiment::endpoints::{FlowEnds, Making};
use paceline_experiment::via::{DatapathRow, register};
use paceline_lab::contestant::Contestant;
use paceline_lab::race::{Settings, race};
use paceline_lab::run::World;
use paceline_lab::scenario::{Options, Source};
use paceline_transport::{AckPolicy, HEADER_BYTES, stream};

static PROMPT: Datapath = Datapath {
    name: "prompt",
    summary: "a TCP flow that is acknowledged at once",
    lives: "a test",
    simulated: true,
    offers: TCP.offers,
    lacks: TCP.lacks,
    defaults: TCP.defaults,
};

fn ends(mut making: Making<'_>) -> FlowEnds {
    let controller = making.controller(&making.flow.controller, Layer::Packets);
    let receiver = stream::receiver(&AckPolicy::immediate(), making.half());
    FlowEnds::Push(stream::sender(&making.config, controller), receiver)
}

static ROW: DatapathRow = DatapathRow {
    datapath: &PROMPT,
    way: |_| None,
    takes: None,
    read: |_, _, _| None,
    write: |_| Vec::new(),
    above: false,
    payload: None,
    headers: HEADER_BYTES,
    ends: Some(ends),
};

fn scenario(contestant: &str, ack_every: u32) -> Source {
    let text = format!(
        "name = \"s\"\ncontestants = [\"{contestant}\"]\nseconds = 3\nruns = 1\n[down]\nrate = \"8 Mbit/s\"\ndelay = \"10ms\"\n\
         [[flows]]\nack_every = {ack_every}\n"
    );
    Source::from_text("s.toml", &text, Options::default())
}

fn record(contestant: &str, ack_every: u32) -> serde_json::Value {
    let mut race = race(&scenario(contestant, ack_every), &Settings::default()).unwrap();
    serde_json::to_value(race.runs.remove(0).record).unwrap()
}

#[test]
fn a_datapath_that_is_a_row_races_as_the_others_do() {
    register(&ROW);
    let new = record("reno@prompt", 2);
    assert_eq!(new["via"], "prompt");
    assert!(new["throughput_mbps"].as_f64().unwrap() > 6.0, "{new}");
    let known = record("reno@tcp", 1).to_string();
    assert_eq!(new.to_string().replace("prompt", "tcp"), known);
    assert_ne!(record("reno@tcp", 2).to_string(), known);

    let error = "sprout@prompt".parse::<Contestant>().unwrap_err().to_string();
    assert!(error.starts_with("'sprout@prompt': sprout needs its receiver half at the other end, and TCP"), "{error}");
    let error = "reno@promt".parse::<Contestant>().unwrap_err().to_string();
    assert_eq!(error, "'reno@promt': unknown datapath 'promt'; did you mean prompt?");
    let real = Settings { world: World::Real, ..Settings::default() };
    assert_eq!(
        race(&scenario("reno@prompt", 2), &real).unwrap_err().to_string(),
        "--real: reno@prompt: the real world has no datapath 'prompt'; leave out --real, or write reno@udp"
    );
}
