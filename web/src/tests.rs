use std::cell::RefCell;
use std::rc::Rc;

use paceline_lab::race::{Settings, race};
use paceline_lab::record::write_json;
use paceline_lab::scenario::{Options, Source};
use paceline_path::Trace;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::shipped::{SCENARIOS, TRACES, traces};
use crate::{Browser, Threw, ask};

/// Keeps what it is told, and has one controller: AIMD, which answers this after its hundredth acknowledgement.
#[derive(Default)]
struct Page {
    told: RefCell<Vec<Value>>,
    window: RefCell<f64>,
    acks: RefCell<u32>,
    then: Value,
}

impl Browser for Page {
    fn tell(&self, message: &str) {
        self.told.borrow_mut().push(serde_json::from_str(message).unwrap());
    }

    fn event(&self, event: &str) -> Result<String, Threw> {
        let event: Value = serde_json::from_str(event).unwrap();
        let (mut window, mut acks) = (self.window.borrow_mut(), self.acks.borrow_mut());
        match event["call"].as_str().unwrap() {
            "new" => *window = 10.0 * event["env"]["mss"].as_f64().unwrap(),
            "on_ack" => {
                *acks += 1;
                *window += 1448.0 * event["event"]["bytes"].as_f64().unwrap() / *window;
            }
            "on_loss" if event["event"]["new_episode"] == true => *window *= 0.5,
            _ => {}
        }
        if *acks > 100 && self.then == "throw" {
            return Err(Threw(r#"{"message":"TypeError: no","line":7}"#.to_owned()));
        }
        let window = if *acks > 100 && !self.then.is_null() { self.then.clone() } else { json!(*window) };
        Ok(json!({ "window": window, "calls": ["on_ack", "on_loss"] }).to_string())
    }
}

/// What a request is answered with.
fn told(request: &Value, page: Page) -> Vec<Value> {
    let page = Rc::new(page);
    ask(request.to_string().as_bytes(), Rc::clone(&page) as Rc<dyn Browser>);
    page.told.take()
}

const TEXT: &str = "name = \"t\"\nseconds = 2\nruns = 2\ncontestants = [\"copa@udp\", \"cubic@tcp\"]\n\n[down]\ntrace = \"traces/lte-like.mahi\"\n";

#[test]
fn a_run_has_the_record_of_the_race_whether_it_moves_or_not() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios");
    let source = Source::from_text("t.toml", TEXT, Options::default()).in_folder(folder.as_ref());
    let race = race(&source, &Settings { threads: 1, series: true, ..Settings::default() }).unwrap();
    let mut lines = Vec::new();
    write_json(race.runs.iter().map(|run| &run.record), &mut lines).unwrap();
    let lines: Vec<&str> = std::str::from_utf8(&lines).unwrap().lines().collect();
    let plan = told(&json!({ "ask": "plan", "scenario": TEXT }), Page::default()).remove(0);
    let mut ours = Vec::new();
    for contestant in plan["contestants"].as_array().unwrap() {
        for run in 1..=plan["runs"].as_u64().unwrap() {
            for moving in [false, true] {
                let request = json!({ "ask": "run", "scenario": TEXT, "contestant": contestant, "run": run, "moving": moving, "report": moving });
                let mut told = told(&request, Page::default());
                let record = told.pop().unwrap();
                ours.push(record["line"].as_str().unwrap().to_owned());
                assert_eq!(told.len(), if moving { 300 } else { 0 });
                assert!(told.iter().all(|points| points["flows"][0]["own"] == true));
            }
        }
    }
    assert!(ours.chunks(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(ours.iter().step_by(2).collect::<Vec<_>>(), lines);
    let digest = told(&json!({ "ask": "digest", "lines": lines }), Page::default()).remove(0);
    assert_eq!(digest["digests"][3]["digest"], race.runs[3].record.digest());
}

#[test]
fn what_a_controller_of_the_page_does_wrong_is_named() {
    let text = "name = \"t\"\nseconds = 3\nruns = 1\n\n[down]\nrate = \"12 Mbit/s\"\ndelay = \"20ms\"\n";
    let race = |name: &str, then: Value| {
        let request = json!({
            "ask": "run", "scenario": text, "contestant": format!("{name}@tcp"), "run": 1, "controllers": [{ "name": name }],
        });
        told(&request, Page { then, ..Page::default() }).remove(0)
    };
    assert_eq!(race("well", Value::Null)["told"], "record");
    for (then, message) in [
        (json!("NaN"), "window is NaN; keep it finite"),
        (json!(-1), "window is -1; make it bytes from 0 on"),
        (Value::Null, ""),
        (json!("much"), "window is \"much\"; make it a number"),
        (json!([1]), "window is [1]; make it a number"),
        (json!("throw"), "TypeError: no"),
    ] {
        let told = race("ill", then.clone());
        if then.is_null() {
            assert_eq!(told["told"], "record");
            continue;
        }
        assert_eq!([&told["told"], &told["controller"], &told["call"]], ["fault", "ill", "on_ack"], "{told}");
        assert_eq!(told["message"], message);
        assert_eq!(told["line"], if then == "throw" { json!(7) } else { Value::Null });
    }
    let taken =
        told(&json!({ "ask": "plan", "scenario": text, "controllers": [{ "name": "cubic" }] }), Page::default());
    assert_eq!(taken[0]["message"], "controller 'cubic': there is such a controller already; take another name");
}

#[test]
fn what_is_shipped_can_be_read() {
    assert!(SCENARIOS.iter().any(|(name, _)| *name == "cellular.toml"));
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
    let ours = traces(|_| true);
    for (name, _) in TRACES {
        let text = std::fs::read(folder.join(name)).unwrap();
        let trace = &ours.iter().find(|(known, _)| known == name).unwrap().1;
        assert!(**trace == Trace::read(name, &text[..]).unwrap(), "{name}");
    }
    for (name, text) in SCENARIOS.iter().filter(|(name, _)| !name.starts_with("sweeps/")) {
        let told = told(&json!({ "ask": "plan", "scenario": text, "runs": 1 }), Page::default()).remove(0);
        let real = told["message"].as_str().is_some_and(|said| said.contains("programs"));
        assert!(told["told"] == "plan" || real, "{name}: {told}");
    }
}

/// Requests that were right before something in them was changed.
fn near() -> impl Strategy<Value = Vec<u8>> {
    let requests = [
        json!({ "ask": "about" }),
        json!({ "ask": "plan", "scenario": TEXT, "sets": ["down.delay=5ms"], "traces": { "a": "1\n" }, "contestants": ["reno@tcp"], "runs": 1 }),
        json!({ "ask": "run", "scenario": TEXT, "seconds": 0.1, "contestant": "reno@tcp", "run": 1, "controllers": [{ "name": "q", "params": { "a": [1, 0, 2] } }] }),
        json!({ "ask": "digest", "lines": [include_str!("../../fuzz/seeds/records/one")] }),
        json!({ "ask": "report", "scenario": TEXT, "kept": ["{}"], "command": "c" }),
    ];
    let change = (any::<prop::sample::Index>(), any::<u8>(), any::<bool>());
    (prop::sample::select(requests.to_vec()), prop::collection::vec(change, 0..4)).prop_map(|(request, changes)| {
        let mut bytes = request.to_string().into_bytes();
        for (at, byte, cut) in changes {
            let at = at.index(bytes.len());
            if cut { bytes.truncate(at + 1) } else { bytes[at] = byte }
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_is_asked_is_answered(bytes in prop_oneof![prop::collection::vec(any::<u8>(), 0..200), near()]) {
        let page = Rc::new(Page::default());
        let done = ask(&bytes, Rc::clone(&page) as Rc<dyn Browser>);
        let told = page.told.take();
        let last = told.last().expect("an answer");
        prop_assert_eq!(!done, last["told"] == "error" || last["told"] == "fault", "{}", last);
    }
}
