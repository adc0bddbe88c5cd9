//! Programs behind an emulated path, as a user sees them. What needs privileges or a program that is not here is
//! skipped, and says so.
#![cfg(target_os = "linux")]

#[expect(dead_code, reason = "shared with the tests of the shim, which need more of it")]
mod bench;
mod cleanup;
mod logs;
mod programs;
mod refusals;

use std::time::Duration;

use bench::{Bench, needs_root, paceline, skipped};
use serde_json::Value;

#[test]
fn the_exit_status_is_the_programs() {
    if needs_root("the_exit_status_is_the_programs") {
        return;
    }
    let status = |script: &str| paceline().args(["emulate", "--", "sh", "-c", script]).bounded().status.code();
    assert_eq!(status("exit 0"), Some(0));
    assert_eq!(status("exit 7"), Some(7));
    assert_eq!(status("kill -TERM $$"), Some(128 + 15));
    assert_eq!(status("kill -KILL $$"), Some(128 + 9));
}

#[test]
fn one_line_tells_of_the_emulator_and_the_program_keeps_its_output() {
    if needs_root("one_line_tells_of_the_emulator_and_the_program_keeps_its_output") {
        return;
    }
    let output = paceline().args(["emulate", "--", "sh", "-c", "echo out; echo error >&2"]).bounded();
    assert_eq!(output.stdout, b"out\n");
    let said = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!((lines.len(), lines[0]), (2, "error"), "{said}");
    // The kernel may have sent a packet of its own, as IPv6 does.
    let judged = if said.contains("down 0 packets") && said.contains("up 0 packets") {
        "nothing to judge by"
    } else {
        "trusted"
    };
    for word in ["release error p50", "p99", "max", "later than", judged] {
        assert!(lines[1].starts_with("paceline: ") && lines[1].contains(word), "{said}");
    }
}

#[test]
fn the_report_is_json() {
    if needs_root("the_report_is_json") {
        return;
    }
    let bench = Bench::new();
    let file = bench.path("report.json");
    let script = "for i in 1 2 3; do echo > /dev/udp/$PACELINE_BASE/9; done";
    let args = ["emulate", "--rate", "12Mbit/s", "--delay", "1ms", "--json", &file, "--", "bash", "-c", script];
    let output = paceline().args(args).bounded();
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    for key in ["seconds", "cpu_s", "moments", "late", "bound_us"] {
        assert!(report[key].is_number(), "{key} in {report}");
    }
    for key in ["p50", "p99", "max"] {
        assert!(report["release_error_us"][key].as_f64().is_some_and(|value| value >= 0.0), "{key} in {report}");
    }
    assert!(report["trusted"].is_boolean());
    assert!(report["up"]["packets"].is_u64() && report["down"]["dropped_packets"].is_u64(), "{report}");
}

#[test]
fn paths_of_scenarios_and_lines_while_they_run() {
    if needs_root("paths_of_scenarios_and_lines_while_they_run") {
        return;
    }
    let bench = Bench::new();
    let text =
        "name = 'p'\n[down]\nrate = '8 Mbit/s'\ndelay = '40ms'\noutages = [['50s', '51s']]\n[up]\ndelay = '20ms'\n";
    let scenario = bench.file("path.toml", text);
    let ping = "ping -c 2 -i 0.3 $PACELINE_BASE";
    let args = ["emulate", "--scenario", &scenario, "--set", "down.delay=60ms", "--interval", "0.2"];
    let output = paceline().args(args).args(["--", "sh", "-c", ping]).bounded();
    assert!(output.status.success(), "{output:?}");
    let (said, pinged) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    let least = pinged.lines().find_map(|line| line.strip_prefix("rtt min/avg/max/mdev = ")).unwrap();
    let least: f64 = least.split('/').next().unwrap().parse().unwrap();
    assert!(least >= 80.0, "{pinged}");
    assert!(said.lines().any(|line| line.starts_with("paceline: 0.0 - 0.2 s  down ")), "{said}");
    let last = said.lines().last().unwrap();
    assert!(last.contains(" Mbit/s, queue p50 ") && last.contains("; up ") && !last.contains("inside"), "{last}");
}

#[test]
fn the_line_of_an_inner_path_says_so() {
    if needs_root("the_line_of_an_inner_path_says_so") {
        return;
    }
    let exe = env!("CARGO_BIN_EXE_paceline");
    let output =
        paceline().args(["emulate", "--delay", "1ms", "--", exe, "emulate", "--jitter", "1ms", "--", "true"]).bounded();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = said.lines().collect();
    assert!(
        lines[0].starts_with("paceline: path 2, inside 1: down ") && lines[1].starts_with("paceline: down "),
        "{said}"
    );
}

#[test]
fn signals_reach_the_program() {
    if needs_root("signals_reach_the_program") {
        return;
    }
    let script = "trap 'echo caught; exit 3' TERM; echo ready; while :; do sleep 0.05; done";
    let mut running = paceline().args(["emulate", "--", "sh", "-c", script]).start();
    assert_eq!(running.line(), "ready");
    running.signal("TERM");
    assert_eq!(running.line(), "caught");
    assert_eq!(running.wait().code(), Some(3));
}

#[test]
fn a_program_without_a_handler_ends_by_a_signal() {
    if needs_root("a_program_without_a_handler_ends_by_a_signal") {
        return;
    }
    let mut running = paceline().args(["emulate", "--", "sh", "-c", "echo ready; exec sleep 1000"]).start();
    assert_eq!(running.line(), "ready");
    // Not INT: who starts the tests in the background may have it ignored, and so would the program.
    running.signal("TERM");
    assert_eq!(running.wait().code(), Some(128 + 15));
}

#[test]
fn what_a_program_leaves_behind_ends_with_it() {
    if needs_root("what_a_program_leaves_behind_ends_with_it") {
        return;
    }
    let mark = bench::mark();
    let script = format!("setsid sleep {mark} & echo started");
    let output = paceline().args(["emulate", "--", "sh", "-c", &script]).bounded();
    assert_eq!(output.stdout, b"started\n");
    assert!(bench::gone(&mark, Duration::from_secs(10)), "still there: {:?}", bench::with_mark(&mark));
}

#[test]
fn an_ordinary_user_has_a_world_with_two_ends() {
    let name = "an_ordinary_user_has_a_world_with_two_ends";
    if needs_root(name) {
        return;
    }
    if !bench::has_other_users() {
        return skipped(name, "it needs another user, and this user namespace has none");
    }
    if bench::missing("curl").is_some() || bench::missing("python3").is_some() {
        return skipped(name, "it needs curl and python3");
    }
    let bench = Bench::new();
    let paceline = bench.for_everyone();
    let server = "exec python3 -m http.server 8000 --bind 0.0.0.0 --directory /usr/bin >/dev/null";
    let client =
        "id -u; curl -s --max-time 20 -o /dev/null -w '%{http_code} %{time_connect}' http://$PACELINE_BASE:8000/env";
    let output = paceline
        .args(["emulate", "--delay", "20ms", "--far", server, "--", "sh", "-c", client])
        .ordinary_user()
        .bounded();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("user namespace") && !output.status.success() {
        return skipped(name, said.trim());
    }
    let text = String::from_utf8(output.stdout).unwrap();
    let (user, rest) = text.split_once('\n').unwrap();
    let (code, connect) = rest.split_once(' ').unwrap();
    assert_eq!((user, code), ("0", "200"), "{said}");
    assert!(connect.trim().parse::<f64>().unwrap() >= 0.040, "{connect}");
}

#[test]
fn a_far_end_that_fails_is_told_before_anything_runs() {
    if needs_root("a_far_end_that_fails_is_told_before_anything_runs") {
        return;
    }
    let output = paceline().args(["emulate", "--far", "exit 3", "--", "echo", "ran"]).bounded();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(output.stdout.is_empty() && said.contains("ended with status 3"), "{said}");
}

#[test]
fn doctor_has_a_verdict_on_every_feature() {
    let output = paceline().args(["doctor", "--json"]).bounded();
    assert!(output.status.success(), "{output:?}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let features = found["features"].as_object().unwrap();
    let sockets = ["serve, send, fetch", "cubic@tcp", "bbr@tcp", "kernel store"];
    for feature in ["simulation", "emulate", "precise release"].into_iter().chain(sockets) {
        let verdict = features[feature]["verdict"].as_str().unwrap();
        assert!(["works", "falls back", "no"].contains(&verdict), "{feature}: {verdict}");
        assert!(!features[feature]["detail"].as_str().unwrap().is_empty(), "{feature}");
    }
    // What the machine could do and this build does not have is not a feature.
    let quic = if cfg!(feature = "quic") { "works" } else { "no" };
    assert_eq!(features["quic"]["verdict"], quic);
    let ebpf = if cfg!(feature = "ebpf") { "works" } else { "no" };
    assert_eq!(features["kernel: build"]["verdict"], ebpf);
    assert!(cfg!(feature = "ebpf") || features["kernel store"]["verdict"] == "no");
    for part in ["rights", "BTF", "struct_ops", "JIT", "cgroup v2"] {
        assert!(features[&format!("kernel: {part}")]["verdict"].is_string(), "{part}");
    }
    for fact in ["namespaces", "timers", "clock source", "spare CPU", "TCP congestion control", "TCP ECN", "eBPF"] {
        assert!(found["machine"][fact].as_str().is_some_and(|text| !text.is_empty()), "{fact} in {found}");
    }
}
