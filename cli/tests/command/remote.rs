//! `paceline serve --race` and `paceline race --remote`: over loopback, and between two namespaces joined by a slow link.
#![cfg(target_os = "linux")]

use std::fs;
use std::process::{Child, Command, Output, Stdio};

use paceline_fixture::{c::lacks, until};
use paceline_linux::namespace::needs_root;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::lab::{Lab, refusal};
use crate::udp::Server;

/// The client's end of a race, to its end.
fn race(lab: &Lab, server: &str, args: &[&str]) -> Output {
    lab.run(&[&["race", "--remote", server, "--pause", "0"], args].concat())
}

fn records(lab: &Lab, file: &str) -> Vec<Value> {
    let text = fs::read_to_string(lab.path(file)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn text(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_race_over_loopback_leaves_records_a_table_a_page_and_what_is_not_known() {
    let lab = Lab::new();
    let mut server = Server::new(&lab, &["--race", "--once", "--most-mbps", "100"]);
    assert_eq!(server.line(), "races of at most 60 s a run and 100 Mbit/s, one at a time\n");
    let names = ["reno@tcp", "copa@udp", "copa@alcc/reno"];
    let output = race(
        &lab,
        &server.address,
        &["--contestants", &names.join(","), "--seconds", "0.4", "--runs", "2", "--json", "r.jsonl", "--report", "out"],
    );
    let (out, err) = text(&output);
    assert_eq!(output.status.code(), Some(0), "{err}");
    let records = records(&lab, "r.jsonl");
    let raced: Vec<String> = records
        .iter()
        .map(|r| format!("{}@{}", r["controller"].as_str().unwrap(), r["via"].as_str().unwrap()))
        .collect();
    assert_eq!(raced, names.iter().flat_map(|name| [*name; 2]).collect::<Vec<_>>(), "in the order that was given");
    for record in &records {
        assert_eq!(
            (&record["clock"], &record["world"], &record["scenario"]),
            (&"none".into(), &"real".into(), &"remote".into())
        );
        for unknown in ["delay_ms", "utilization"] {
            assert_eq!(record[unknown], Value::Null, "{record}");
        }
        assert_eq!(record["split"]["down"], Value::Null);
        assert!(record["throughput_mbps"].as_f64().unwrap() > 0.0 && record["rtt_ms"]["p50"].as_f64().unwrap() > 0.0);
        assert!(record["queue_ms"]["p95"].as_f64().unwrap() < record["rtt_ms"]["p95"].as_f64().unwrap());
        assert_eq!(record["flows"][0]["direction"], "down");
    }
    assert_eq!(err.matches("clock: none: ").count(), 1, "the reason, once: {err}");
    assert!(out.contains("rtt p95") && !out.contains("delay p95") && !out.contains("trusted"), "{out}");
    let page = fs::read_to_string(lab.path("out/report.html")).unwrap();
    assert!(page.contains("95th percentile of round trip") && page.contains("no clock in common"));
    let line = server.line();
    assert!(
        line.contains(": 6 runs, 0 failed, in ") && line.trim_end().ends_with("copa@alcc/reno, copa@udp, reno@tcp"),
        "{line}"
    );
    assert!(server.child.wait().unwrap().success());
}

#[test]
fn what_a_remote_race_cannot_have_is_refused_in_a_line() {
    let lab = Lab::new();
    let refused = |args: &[&str], what: &str| {
        let line =
            refusal(&lab.run(&[&["race", "--remote", "127.0.0.1:9", "--contestants", "reno@udp"], args].concat()));
        assert!(line.contains(what), "{line}");
    };
    refused(&["small.toml"], "[SCENARIO]");
    refused(&["--set", "down.rate=1"], "--set");
    refused(&["--trace", "x"], "--trace");
    refused(&["--qlog", "logs"], "--qlog");
    refused(&["--pause", "-1"], "--pause -1: give seconds up to 600");
    refused(&[], "no connection to 127.0.0.1:9");
    let line = refusal(&lab.run(&["race", "--remote", "192.0.2.1", "--contestants", "reno@udp"]));
    assert!(line.contains("192.0.2.1:4870 is not loopback: give both ends the same key with --key FILE"), "{line}");
    let line = refusal(&lab.run(&["race", "--remote", "127.0.0.1:9", "--contestants", "bbr@icn"]));
    assert!(line.contains("races between hosts go over udp, tcp and alcc; write bbr@udp"), "{line}");
    let line = refusal(&lab.run(&["serve", "--race", "--listen", "0.0.0.0:0"]));
    assert!(line.contains("is not loopback"), "{line}");
}

#[test]
fn a_server_that_is_told_to_end_ends_and_says_what_was() {
    let lab = Lab::new();
    let mut server = Server::new(&lab, &["--race"]);
    server.line();
    let sockets = || {
        let open = fs::read_dir(format!("/proc/{}/fd", server.child.id())).unwrap().flatten();
        let leads = open.filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
        leads.filter(|path| path.to_string_lossy().starts_with("socket:")).count()
    };
    let idle = sockets();
    let args = ["race", "--remote", &server.address, "--contestants", "copa@udp", "--seconds", "30", "--runs", "2"];
    let mut client = Command::new(env!("CARGO_BIN_EXE_paceline"))
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It holds three descriptors of the connection by which it is run.
    until("the race runs", || sockets() >= idle + 3);
    let busy = refusal(&race(&lab, &server.address, &["--contestants", "reno@udp"]));
    assert!(busy.contains("busy: another race runs"), "{busy}");
    kill_process(Pid::from_child(&server.child), Signal::TERM).unwrap();
    assert!(server.child.wait().unwrap().success());
    let line = server.line();
    assert!(line.contains("broken off: this end was stopped"), "{line}");
    assert_eq!(client.wait().unwrap().code(), Some(1));
    let mut said = String::new();
    std::io::Read::read_to_string(&mut client.stderr.take().unwrap(), &mut said).unwrap();
    assert!(said.contains("copa@udp failed in run 2: ") && said.lines().count() == 2, "a line a run: {said}");
}

/// Two namespaces, and a link between them of this many Mbit/s each way.
struct Hosts([Child; 2]);

impl Hosts {
    fn joined(mbps: u32) -> Self {
        let hold = || Command::new("unshare").args(["-n", "sleep", "600"]).spawn().unwrap();
        let hosts = Self([hold(), hold()]);
        let own = fs::read_link("/proc/self/ns/net").unwrap();
        for host in &hosts.0 {
            let other = || fs::read_link(format!("/proc/{}/ns/net", host.id())).is_ok_and(|theirs| theirs != own);
            until("a host has its namespace", other);
        }
        let [near, far] = [hosts.0[0].id(), hosts.0[1].id()].map(|id| id.to_string());
        done(
            Command::new("nsenter")
                .args(["-t", &near, "-n", "ip", "link", "add", "race0", "type", "veth"])
                .args(["peer", "name", "race0", "netns", &far]),
        );
        let rate = format!("{mbps}mbit");
        for (index, address) in ["10.77.0.1/24", "10.77.0.2/24"].into_iter().enumerate() {
            done(hosts.at(index, "ip").args(["address", "add", address, "dev", "race0"]));
            done(hosts.at(index, "ip").args(["link", "set", "race0", "up"]));
            // Super packets would be larger than the bucket.
            done(hosts.at(index, "ip").args(["link", "set", "race0", "gso_max_segs", "1"]));
            let bucket = ["rate", &rate, "burst", "16kb", "limit", "100kb"];
            done(hosts.at(index, "tc").args(["qdisc", "add", "dev", "race0", "root", "tbf"]).args(bucket));
        }
        hosts
    }

    /// A command at one of them.
    fn at(&self, index: usize, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.0[index].id().to_string(), "-n", program]);
        command
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in &mut self.0 {
            let _ = host.kill();
            let _ = host.wait();
        }
    }
}

fn done(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn two_hosts_get_what_the_link_between_them_carries() {
    let test = "two_hosts_get_what_the_link_between_them_carries";
    let programs = [("nsenter", "util-linux"), ("unshare", "util-linux")];
    if needs_root(test) || programs.iter().any(|(program, what)| lacks(test, what, program)) {
        return;
    }
    if !["ip", "tc"].iter().all(|program| Command::new(program).arg("-V").output().is_ok_and(|o| o.status.success())) {
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            format!("skipped: {test}: it needs iproute2\n").as_bytes(),
        );
        return;
    }
    const MBPS: f64 = 20.0;
    let (lab, hosts) = (Lab::new(), Hosts::joined(MBPS as u32));
    lab.write_private("key", &"5a".repeat(32));
    let paceline = env!("CARGO_BIN_EXE_paceline");
    let mut serve = hosts.at(1, paceline);
    serve.args(["serve", "--race", "--listen", "10.77.0.2:4870", "--key", "key"]);
    let mut server = Server::start(&mut serve, &lab);
    server.line();
    for direction in ["down", "up"] {
        let contestants = "reno@tcp,cubic:start=hystart@udp,copa@udp,copa@alcc/reno";
        let race = ["race", "--remote", "10.77.0.2", "--key", "key", "--contestants", contestants];
        let more = ["--seconds", "4", "--runs", "1", "--pause", "0", "--json", "r.jsonl", "--direction", direction];
        let mut command = hosts.at(0, paceline);
        let output = command.args(race).args(more).current_dir(lab.folder.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output).1);
        let records = records(&lab, "r.jsonl");
        assert_eq!(records.len(), 4);
        for record in records {
            let (throughput, rtt) = (record["throughput_mbps"].as_f64().unwrap(), &record["rtt_ms"]);
            // What fills the queue takes all of the link; what does not may leave some of it.
            let least = if record["controller"] == "copa" { 0.3 } else { 0.75 };
            // The bucket is full at the beginning.
            assert!(throughput > least * MBPS && throughput < 1.05 * MBPS, "{direction}: {record}");
            // 100 kB at 20 Mbit/s are 40 ms.
            let (least, most) = (rtt["min"].as_f64().unwrap(), rtt["p95"].as_f64().unwrap());
            assert!(least < 30.0 && most < 1000.0, "{direction}: {record}");
            assert_eq!(record["flows"][0]["direction"], direction);
        }
    }
    let wrong = lab.run(&["race", "--remote", "10.77.0.2", "--contestants", "reno@udp"]);
    assert!(refusal(&wrong).contains("is not loopback"));
}
