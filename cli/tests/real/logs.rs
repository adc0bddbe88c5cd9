//! Logs of what the controllers of real races saw and answered.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::{PATH, number, records_with, run};

/// Two flows under the contestants, of which the second comes late.
fn scenario(contestants: &str) -> String {
    format!("name = 'logs'\nseconds = 2\ncontestants = [{contestants}]\n{PATH}[[flows]]\n\n[[flows]]\nstart = '1s'\n")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn names(files: &[PathBuf]) -> Vec<&str> {
    files.iter().map(|file| file.file_name().unwrap().to_str().unwrap()).collect()
}

/// The controller, fed with the same, answers the same.
fn replayed(log: &Path) {
    let output = Command::new(env!("CARGO_BIN_EXE_paceline")).arg("replay").arg(log).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}: {said}{}", log.display(), String::from_utf8_lossy(&output.stderr));
    let events: u64 = said.split_whitespace().find_map(|word| word.parse().ok()).unwrap_or_else(|| panic!("{said}"));
    assert!(events > 20, "{}: {said}", log.display());
}

/// Races with logs of both kinds; answers the records, none where this machine does not allow it.
fn logged(test: &str, contestants: &str, endings: &[&str]) -> Option<Vec<Value>> {
    let folder = tempfile::tempdir().unwrap();
    let (events, qlog) = (folder.path().join("events"), folder.path().join("qlog"));
    let options = ["--events", events.to_str().unwrap(), "--qlog", qlog.to_str().unwrap()];
    let records = records_with(test, &scenario(contestants), &options)?;
    let events = files(&events);
    assert_eq!(names(&events), endings);
    events.iter().for_each(|log| replayed(log));
    let plain = |name: &str| name.replace("-above", "").replace(".jsonl", ".sqlog");
    let qlogs = files(&qlog);
    assert_eq!(names(&qlogs), endings.iter().map(|name| plain(name)).collect::<Vec<_>>());
    for log in qlogs {
        let lines = std::fs::read_to_string(&log).unwrap();
        let time = |line: &str| serde_json::from_str::<Value>(line).unwrap()["time"].as_f64();
        let times: Vec<f64> = lines.split('\u{1e}').filter(|line| !line.is_empty()).filter_map(time).collect();
        // By the clock of the world, whatever the clock of the flow: the second one begins at 1 s, on a busy machine later.
        let begins = if log.to_str().unwrap().ends_with("-2.sqlog") { 1000.0..2000.0 } else { 0.0..1000.0 };
        let begun = times.iter().copied().fold(f64::MAX, f64::min);
        assert!(begins.contains(&begun), "{}: {begun}", log.display());
        assert!(times.iter().all(|time| *time < 3000.0), "{}", log.display());
    }
    Some(records)
}

#[test]
fn controllers_of_datagrams_and_above_tcp_leave_logs_that_replay_bit_by_bit() {
    let files = [
        "copa@alcc-1-above.jsonl",
        "copa@alcc-2-above.jsonl",
        "copa@icn-1.jsonl",
        "copa@icn-2.jsonl",
        "sprout@udp-1.jsonl",
        "sprout@udp-2.jsonl",
    ];
    let _ = logged("controllers_of_datagrams_and_above_tcp", "'copa@alcc', 'copa@icn', 'sprout@udp'", &files);
}

#[test]
fn flows_of_datagrams_begin_with_what_earlier_ones_learnt() {
    let folder = tempfile::tempdir().unwrap();
    let events = folder.path().join("events");
    let contestants = "contestants = ['cubic:start=resume@udp', 'cubic:start=resume@icn']";
    let flow = "[[flows]]\nremembered = { window = '60kB', rtt = '20ms', age = '1s' }\n";
    let scenario = format!("name = 'learnt'\nseconds = 1\n{contestants}\n{PATH}{flow}");
    let options = ["--events", events.to_str().unwrap()];
    if records_with("flows_of_datagrams_begin_with_what_earlier_ones_learnt", &scenario, &options).is_none() {
        return;
    }
    let logs = files(&events);
    assert_eq!(logs.len(), 2);
    for log in logs {
        let text = std::fs::read_to_string(&log).unwrap();
        let head: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        let remembered = &head["env"]["remembered"];
        assert_eq!(remembered["window"], 60_000, "{}: {remembered}", log.display());
        assert!(remembered["age"].as_u64().unwrap() >= 1_000_000_000, "{remembered}");
        replayed(&log);
    }
}

/// Races a controller with a rate and one with a window over a stack, beside Copa over quinn and over datagrams.
fn stack_beside_others(test: &str, stack: &str, built: bool) {
    let datapath = format!("quic/{stack}");
    if !built {
        return super::skipped(test, &format!("this paceline was built without the feature quic-{stack}"));
    }
    let contestants = format!("'bbr@{datapath}', 'copa@{datapath}', 'copa@quic', 'copa@udp'");
    let logs = |name: &str| [1, 2].map(|flow| format!("{name}-{flow}.jsonl"));
    let names = [format!("bbr@quic-{stack}"), format!("copa@quic-{stack}"), "copa@quic".into(), "copa@udp".into()];
    let mut files: Vec<String> = names.iter().flat_map(|name| logs(name)).collect();
    files.sort();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let Some(records) = logged(test, &contestants, &files) else { return };
    let ran: Vec<_> = records.iter().map(|record| (record["via"].as_str(), record["controller"].as_str())).collect();
    let via = Some(datapath.as_str());
    let (bbr, copa) = (Some("bbr"), Some("copa"));
    assert_eq!(ran, [(via, bbr), (via, copa), (Some("quic"), copa), (Some("udp"), copa)]);
    for record in &records {
        // Each flow lasted until the end, whatever the machine let it move.
        for flow in record["flows"].as_array().unwrap() {
            assert!(number(flow, "/goodput_mbps") > 0.0 && number(flow, "/end_s") >= 2.0, "{record}");
        }
        assert!(number(record, "/delay_ms/min") >= 10.0, "{record}");
    }
}

#[test]
fn noq_races_beside_others_and_its_logs_replay_bit_by_bit() {
    stack_beside_others("noq_races_beside_others", "noq", cfg!(feature = "quic-noq"));
}

#[test]
fn s2n_races_beside_others_and_its_logs_replay_bit_by_bit() {
    stack_beside_others("s2n_races_beside_others", "s2n", cfg!(feature = "quic-s2n"));
}

#[cfg(feature = "ebpf")]
#[test]
fn controllers_of_the_agent_leave_logs_that_replay_bit_by_bit() {
    let files = ["verus@tcp-driven_by=agent-1.jsonl", "verus@tcp-driven_by=agent-2.jsonl"];
    let _ = logged("controllers_of_the_agent", "'verus@tcp:driven_by=agent'", &files);
}

#[test]
fn a_controller_inside_the_kernel_leaves_no_log_and_that_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let events = folder.path().join("events");
    let output = run(&scenario("'reno@tcp'"), &["--events", events.to_str().unwrap()]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(2) {
        let test = "a_controller_inside_the_kernel_leaves_no_log";
        return super::skipped(test, &errors);
    }
    assert!(files(&events).is_empty());
    let said = "reno@tcp: no log: its controller is inside the kernel; write reno@tcp:driven_by=agent";
    assert!(errors.contains(said), "{errors}");
}
