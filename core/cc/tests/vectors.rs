//! The vectors of the repository: each of its event logs, fed to a new controller, gives the recorded answers.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use paceline_cc::Spec;
use paceline_cc::event_log::{Reader, Recorded, replay};
use paceline_cc::registry::CONTROLLERS;

/// Every log, and the controller that it is of.
fn vectors() -> Vec<(PathBuf, Vec<u8>, Spec)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors");
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|kind| kind == "jsonl")).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let log = std::fs::read(&path).unwrap();
        let controller = Reader::new("vector", log.as_slice()).unwrap().header().controller.parse().unwrap();
        (path, log, controller)
    };
    paths.into_iter().map(read).collect()
}

#[test]
fn each_is_answered_as_it_was_recorded() {
    for (path, log, spec) in vectors() {
        let mut reader = Reader::new(&path.display().to_string(), log.as_slice()).unwrap();
        let env = reader.header().env;
        let events = replay(&mut reader, spec.build(&env).as_mut()).unwrap_or_else(|error| panic!("{error}"));
        assert!(events > 100, "{}: {events} events", path.display());
    }
}

#[test]
fn they_cover_every_controller_and_what_happens_to_flows() {
    let mut controllers = BTreeSet::new();
    for (path, log, spec) in vectors() {
        controllers.insert(spec.entry().name);
        let (mut events, mut marked) = (BTreeSet::new(), false);
        for line in Reader::new("vector", log.as_slice()).unwrap() {
            let event = line.unwrap().event;
            events.insert(event.name());
            marked |= matches!(event, Recorded::Acked(ack, _) if ack.ce_bytes > 0);
        }
        let path = path.display();
        for event in ["sent", "acked", "lost", "timeout", "restart", "app_limited"] {
            assert!(events.contains(event), "{path}: no {event}");
        }
        if spec.entry().name.starts_with("cubic-l") || spec.entry().name == "hops" || spec.to_string().contains("eq1") {
            assert!(events.contains("telemetry"), "{path}: no report");
        }
        let header = Reader::new("vector", log.as_slice()).unwrap().header().clone();
        assert_eq!(marked, header.constants.ecn != paceline_cc::Ecn::Off, "{path}");
        assert!(log.len() < 120_000, "{path}: {} bytes", log.len());
    }
    for entry in CONTROLLERS {
        assert!(controllers.contains(entry.name), "no vector of {}", entry.name);
    }
}

#[test]
fn another_answer_is_found() {
    let (_, log, spec) = vectors().into_iter().find(|(_, _, spec)| spec.entry().name == "cubic").unwrap();
    let other: Spec = "cubic:beta=0.8,ecn=on".parse().unwrap();
    assert_ne!(spec, other);
    let mut reader = Reader::new("vector", log.as_slice()).unwrap();
    let env = reader.header().env;
    let error = replay(&mut reader, other.build(&env).as_mut()).unwrap_err().to_string();
    assert!(error.contains("as its window, and the log says"), "{error}");
}
