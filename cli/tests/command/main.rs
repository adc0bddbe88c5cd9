//! The command as a script sees it: exit statuses, one-line errors, the same bytes again, whole files or none.

#[cfg(target_os = "linux")]
mod alcc;
mod blocks;
mod conform;
mod help;
#[cfg(target_os = "linux")]
mod icn;
#[cfg(target_os = "linux")]
mod inputs;
#[cfg(target_os = "linux")]
mod int;
mod json;
#[cfg(target_os = "linux")]
mod kernel;
mod lab;
mod mdi;
#[cfg(target_os = "linux")]
mod named;
#[cfg(target_os = "linux")]
mod outputs;
mod plot;
mod refusals;
mod remote;
mod reproduce;
#[cfg(target_os = "linux")]
mod route;
mod serve;
#[cfg(feature = "parquet")]
mod sweep;
mod terminal;
mod traces;
mod udp;

use std::fs;
use std::process::Command;

use serde_json::Value;

use lab::{Lab, SCENARIO, names};

#[test]
fn the_same_bytes_on_any_number_of_threads_and_twice_in_a_row() {
    let lab = Lab::new();
    let records = |threads| {
        let output = lab.run(&["race", "small.toml", "--json", "-", "--threads", threads]);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let first = records("1");
    assert_eq!(first.iter().filter(|byte| **byte == b'\n').count(), 8);
    assert_eq!(first, records("1"));
    assert_eq!(first, records("2"));
    assert_eq!(first, records("0"));
}

#[test]
fn records_hold_the_contract() {
    let lab = Lab::new();
    let output = lab.run(&["race", "small.toml", "--json", "-", "--seed", "9", "--seconds", "1.5", "--runs", "1"]);
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        for key in ["scenario", "trace", "world", "controller", "via", "seed", "run", "seconds", "throughput_mbps"] {
            assert!(record.get(key).is_some(), "{key} in {line}");
        }
        for key in ["utilization", "loss", "retransmits", "ecn_marks", "flows", "version"] {
            assert!(record.get(key).is_some(), "{key} in {line}");
        }
        for span in ["delay_ms", "queue_ms", "rtt_ms"] {
            let values: Vec<f64> =
                ["min", "p50", "p95", "p99", "max"].map(|part| record[span][part].as_f64().unwrap()).into();
            assert!(values.windows(2).all(|pair| pair[0] <= pair[1]), "{span} in {line}");
        }
        assert_eq!((record["seed"].as_u64(), record["run"].as_u64()), (Some(9), Some(1)));
        assert_eq!(record["seconds"].as_f64(), Some(1.5));
        let used = record["utilization"].as_f64().unwrap();
        assert!(used > 0.1 && used <= 1.0, "{line}");
        assert!(record.get("cpu_s").is_none());
        let drawn: f64 = record["drawn"]["down.loss"].as_str().unwrap().parse().unwrap();
        assert!((0.001..=0.01).contains(&drawn));
    }
}

#[test]
fn what_it_cost_is_there_when_asked_for() {
    let lab = Lab::new();
    let output = lab.run(&["race", "small.toml", "--json", "-", "--runs", "1", "--measure"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let record: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert!(record["wall_s"].as_f64().unwrap() > 0.0);
}

#[test]
fn files_are_whole_and_alone() {
    let lab = Lab::new();
    let args = ["race", "small.toml", "--json", "r.jsonl", "--csv", "r.csv", "--report", "out/page", "--qlog", "logs"];
    let output = lab.run(&args);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty());
    assert_eq!(lab.names(), ["logs", "out", "r.csv", "r.jsonl", "small.toml"]);
    assert_eq!(names(&lab.path("logs")).len(), 4);
    let table = String::from_utf8(output.stdout).unwrap();
    let rows = table.lines().skip(2).take_while(|line| !line.is_empty());
    assert!(rows.clone().count() == 6 && rows.clone().all(|line| line.chars().count() <= 100), "{table}");
    assert!(!table.contains('\x1b'));
    assert!(table.lines().any(|line| line.starts_with("fixed:window=20@alcc")), "{table}");
    let rows = fs::read_to_string(lab.path("r.csv")).unwrap();
    assert_eq!(rows.lines().count(), 9);
    let widths: Vec<usize> = rows.lines().map(|row| row.split(',').count()).collect();
    assert!(widths.iter().all(|width| *width == widths[0]));

    let again = lab.run(&["report", "r.jsonl", "--out", "again"]);
    assert_eq!(again.status.code(), Some(0), "{}", String::from_utf8_lossy(&again.stderr));
    assert_eq!(names(&lab.path("again")), names(&lab.path("out/page")));
    let twice = lab.run(&["report", "r.jsonl", "r.jsonl", "--out", "twice"]);
    let said = String::from_utf8_lossy(&twice.stderr).into_owned();
    assert!(said.contains("8 of 16 records were given before, and count once"), "{said}");
    let page = |folder: &str| fs::read_to_string(lab.path(folder).join("report.html")).unwrap();
    assert_eq!(page("twice"), page("again"));
}

#[test]
fn an_event_log_is_replayed() {
    let lab = Lab::new();
    let args = ["race", "small.toml", "--json", "with.jsonl", "--events", "events", "--qlog", "logs"];
    let output = lab.run(&args);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    // Who watches changes nothing.
    assert_eq!(lab.run(&["race", "small.toml", "--json", "-"]).stdout, fs::read(lab.path("with.jsonl")).unwrap());
    let logs = names(&lab.path("events"));
    let above = ["fixed-window=20@alcc-1-above.jsonl", "fixed-window=20@alcc-1.jsonl"];
    assert_eq!(logs, [&["copa@udp-1.jsonl", "cubic@tcp-1.jsonl"], &above[..], &["reno@tcp-1.jsonl"]].concat());
    for log in &logs {
        let output = lab.run(&["replay", &format!("events/{log}")]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(text.starts_with("equal: ") && text.ends_with(" events as it was recorded\n"), "{text}");
    }
    let lower = fs::read_to_string(lab.path("events/fixed-window=20@alcc-1.jsonl")).unwrap();
    assert!(lower.lines().next().unwrap().contains(r#""controller":"cubic""#), "TCP's own controller");

    let log = fs::read_to_string(lab.path("events/cubic@tcp-1.jsonl")).unwrap();
    let same = lab.run(&["replay", "events/cubic@tcp-1.jsonl", "--controller", "cubic"]);
    assert!(String::from_utf8(same.stdout).unwrap().starts_with("equal: cubic"));
    let other = lab.run(&["replay", "events/cubic@tcp-1.jsonl", "--controller", "fixed:window=3"]);
    assert_eq!(other.status.code(), Some(0), "{}", String::from_utf8_lossy(&other.stderr));
    let lines: Vec<Value> =
        String::from_utf8(other.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len() + 1, log.lines().count());
    assert!(lines.iter().all(|line| line["replayed"]["window"] == 3 * 1448));
    let windows: std::collections::BTreeSet<u64> =
        lines.iter().map(|line| line["recorded"]["window"].as_u64().unwrap()).collect();
    assert!(windows.len() > 10, "{windows:?}");

    let window = r#""answers":{"window":"#;
    let (before, after) = log.rsplit_once(window).unwrap();
    let after = after.trim_start_matches(|c: char| c.is_ascii_digit());
    fs::write(lab.path("wrong.jsonl"), format!("{before}{window}1{after}")).unwrap();
    let wrong = lab.run(&["replay", "wrong.jsonl"]);
    let complaint = String::from_utf8(wrong.stderr).unwrap();
    assert_eq!((wrong.status.code(), wrong.stdout.len()), (Some(1), 0), "{complaint}");
    assert!(complaint.starts_with("paceline: wrong.jsonl:") && complaint.lines().count() == 1, "{complaint}");
    assert!(complaint.contains(" as its window, and the log says 1\n"), "{complaint}");
}

#[test]
fn controllers_tell_their_parameters() {
    let lab = Lab::new();
    let text = String::from_utf8(lab.run(&["controllers"]).stdout).unwrap();
    for name in ["reno", "cubic", "bic", "dctcp", "bbr", "copa", "verus", "sprout", "sprout-ewma"] {
        assert!(text.lines().any(|line| line.starts_with(&format!("{name}  "))), "{name}");
    }
    let json = |args: &[&str]| -> Vec<Value> {
        let text = String::from_utf8(lab.run(args).stdout).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let copa = json(&["controllers", "copa", "--json"]);
    assert!(copa[0]["params"].as_array().unwrap().iter().any(|param| param["name"] == "delta"));
    let sprout = json(&["controllers", "sprout", "--json"]);
    assert_eq!((&sprout[0]["needs"][0], &sprout[0]["vias"]), (&"receiver half".into(), &["udp", "alcc"][..].into()));
    let start_ups = json(&["controllers", "--start-ups", "--json"]);
    assert_eq!(start_ups.len(), 12);
    let chirp = json(&["controllers", "chirp", "--json"]);
    assert!(start_ups.contains(&chirp[0]) && chirp[0]["vias"] == Value::from(&["udp", "tcp", "alcc", "quic/s2n"][..]));
    let datapaths = String::from_utf8(lab.run(&["controllers", "--datapaths"]).stdout).unwrap();
    for line in [
        "quic  QUIC",
        "  no exact marks: quinn reports only",
        "  carries: reno, cubic, cubic-l1, cubic-l1g, cubic-l2, hops, hpcc, bic, vegas, bbr, bbr3, copa, ledbat, ledbat++, verus, mdi, fixed",
    ] {
        assert!(datapaths.lines().any(|text| text.starts_with(line)), "{line}: {datapaths}");
    }
}

#[test]
fn the_effective_scenario_runs_to_the_same_records() {
    let lab = Lab::new();
    let text = SCENARIO.replace("loss = \"0.001..0.01\"", "loss = 0.01");
    fs::write(lab.path("small.toml"), text).unwrap();
    let effective = lab.run(&["race", "small.toml", "--seconds", "1", "--effective"]).stdout;
    fs::write(lab.path("effective.toml"), effective).unwrap();
    let first = lab.run(&["race", "small.toml", "--seconds", "1", "--json", "-"]).stdout;
    assert!(!first.is_empty());
    assert_eq!(lab.run(&["race", "effective.toml", "--json", "-"]).stdout, first);
}

#[test]
fn keys_are_set_as_if_the_file_said_so() {
    let lab = Lab::new();
    let set = ["--set", "down.delay=25ms", "--set", "down.loss=0", "--set", "runs=1", "--set", "seconds=1"];
    let run = |more: &[&str]| lab.run(&[&["race", "small.toml"], &set[..], more].concat());
    let effective = String::from_utf8(run(&["--effective"]).stdout).unwrap();
    assert!(effective.contains("delay = \"25ms\"") && effective.contains("seconds = 1.0"), "{effective}");
    let records = run(&["--json", "-", "--report", "page"]).stdout;
    let text = SCENARIO.replacen("\"10ms\"", "\"25ms\"", 1).replace("\"0.001..0.01\"", "0").replace("= 2", "= 1");
    fs::write(lab.path("written.toml"), text).unwrap();
    assert_eq!(lab.run(&["race", "written.toml", "--json", "-"]).stdout, records);
    let page = fs::read_to_string(lab.path("page/report.html")).unwrap();
    assert!(page.contains("--set down.delay=25ms --set down.loss=0"));
}

#[cfg(unix)]
#[test]
fn an_interrupt_leaves_nothing_behind() {
    let lab = Lab::new();
    let mut child = Command::new(env!("CARGO_BIN_EXE_paceline"))
        .args(["race", "small.toml", "--seconds", "100000", "--json", "r.jsonl", "--qlog", "logs"])
        .current_dir(lab.folder.path())
        .spawn()
        .unwrap();
    // Until it writes: the logs' folder is there. It would run for much longer than this test waits.
    while !lab.path("logs").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it was interrupted");
        std::thread::yield_now();
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(lab.names(), ["logs", "small.toml"]);
    assert_eq!(names(&lab.path("logs")), Vec::<String>::new());
}
