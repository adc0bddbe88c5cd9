//! Packet logs: whole or not there.

use std::fs;

use crate::bench::{Bench, PATIENCE, Run, gone, mark, missing, needs_root, paceline, skipped, with_mark};

/// One datagram goes through, and comes back as a refusal.
const DATAGRAM: &str = "echo > /dev/udp/$PACELINE_BASE/9; sleep 0.2";

#[test]
fn logs_are_whole() {
    if needs_root("logs_are_whole") {
        return;
    }
    let bench = Bench::new();
    let (pcapng, mahimahi) = (bench.path("log.pcapng"), bench.path("log"));
    let args = ["emulate", "--rate", "12Mbit/s", "--log", &pcapng, "--mahimahi-log", &mahimahi];
    let script = "ping -c 1 -W 20 $PACELINE_BASE >/dev/null 2>&1; echo > /dev/udp/$PACELINE_BASE/9; sleep 0.1";
    let output = paceline().args(args).args(["--", "bash", "-c", script]).bounded();
    assert!(output.status.success(), "{output:?}");
    let packets = fs::read(&pcapng).unwrap();
    // Section header (draft-ietf-opsawg-pcapng §4.1).
    assert_eq!(packets[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    let up = fs::read_to_string(bench.path("log.up")).unwrap();
    assert!(up.lines().any(|line| line.contains(" + ")) && up.lines().any(|line| line.contains(" - ")), "{up}");
    let mut names = bench.names();
    names.sort();
    assert_eq!(names, ["log.down", "log.pcapng", "log.up"]);
}

#[test]
fn tcpdump_reads_what_both_ends_saw() {
    let test = "tcpdump_reads_what_both_ends_saw";
    if needs_root(test) {
        return;
    }
    if missing("tcpdump").is_some() {
        return skipped(test, "it needs tcpdump");
    }
    let (bench, port) = (Bench::new(), 9);
    let log = bench.path("log.pcapng");
    let script = format!("echo > /dev/udp/$PACELINE_BASE/{port}; echo > /dev/udp/$PACELINE_BASE6/{port}; sleep 0.2");
    let output = paceline().args(["emulate", "--delay", "2ms", "--log", &log, "--", "bash", "-c", &script]).bounded();
    assert!(output.status.success(), "{output:?}");
    let read = |filter: &[&str]| {
        let output = Run::program("tcpdump").args(["-nr", &log]).args(filter).bounded();
        let (said, error) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert!(output.status.success() && !error.contains("different"), "{error}");
        said.lines().filter(|line| line.contains(&format!(".{port}: UDP, length 1"))).map(str::to_owned).collect()
    };
    // Each once where it entered and once where it left.
    for (version, name) in [("ip", " IP "), ("ip6", " IP6 ")] {
        let lines: Vec<String> = read(&[version]);
        assert!(lines.len() == 2 && lines.iter().all(|line| line.contains(name)), "{version}: {lines:?}");
        assert_eq!(read(&["inbound", "and", version]).len(), 1, "{version}");
    }
}

#[test]
fn a_kill_leaves_no_draft_behind_the_next_start() {
    if needs_root("a_kill_leaves_no_draft_behind_the_next_start") {
        return;
    }
    let (bench, mark) = (Bench::new(), mark());
    let (pcapng, mahimahi) = (bench.path("log.pcapng"), bench.path("log"));
    let args = ["emulate", "--rate", "12Mbit/s", "--log", &pcapng, "--mahimahi-log", &mahimahi, "--", "sh", "-c"];
    let mut running = paceline().args(args).args([&format!("echo ready; exec sleep {mark}")]).start();
    assert_eq!(running.line(), "ready");
    running.signal("KILL");
    running.wait();
    assert!(gone(&mark, PATIENCE), "still there: {:?}", with_mark(&mark));
    let left = bench.names();
    assert!(!left.iter().any(|name| name.starts_with("log")), "{left:?}");
    assert!(paceline().args(args).args(["true"]).bounded().status.success());
    let mut names = bench.names();
    names.sort();
    assert_eq!(names, ["log.down", "log.pcapng", "log.up"]);
}

#[test]
fn a_full_disk_is_told_and_the_program_goes_on() {
    if needs_root("a_full_disk_is_told_and_the_program_goes_on") {
        return;
    }
    let args = ["emulate", "--log", "/dev/full", "--", "bash", "-c"];
    let run = |end: &str| paceline().args(args).args([&format!("{DATAGRAM}; {end}")]).bounded();
    let output = run("echo done");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(1), &b"done\n"[..]), "{said}");
    assert_eq!(said.lines().filter(|line| line.contains("--log /dev/full: ")).count(), 1, "{said}");
    assert_eq!(run("exit 5").status.code(), Some(5));
}

#[test]
fn a_log_that_cannot_be_is_refused_before_anything_runs() {
    if needs_root("a_log_that_cannot_be_is_refused_before_anything_runs") {
        return;
    }
    let output = paceline().args(["emulate", "--log", "/no/such/folder/log", "--", "echo", "ran"]).bounded();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(output.stdout.is_empty() && said.contains("/no/such/folder/log: cannot be written"), "{said}");
}
