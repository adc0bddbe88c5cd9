//! Bytes over a slow path from servers under the shim: exact, and with little delay.

use paceline_fixture::free_port;
use std::thread;
use std::time::Duration;

use crate::bench::{Run, Running, eventually, missing, needs_root, paceline, skipped};
use crate::server::{Server, library, scrape, shim, top};

/// 12 Mbit/s, 20 ms each way, and a queue that takes 1.3 s to empty.
const PATH: [&str; 6] = ["--rate", "12Mbit/s", "--delay", "20ms", "--queue", "droptail:2MB"];
/// Bytes that take twelve seconds over it: CUBIC leaves slow start early here, and takes its time to fill the queue.
const LONG: usize = 18_000_000;
/// Bytes that take four seconds.
const SHORT: usize = 6_000_000;

fn lacks(test: &str, programs: &[&str]) -> bool {
    if needs_root(test) || library(test).is_none() {
        return true;
    }
    let lacking: Vec<String> = programs.iter().filter_map(|program| missing(program)).collect();
    if !lacking.is_empty() {
        skipped(test, &format!("it needs {}", lacking.join(", ")));
    }
    !lacking.is_empty()
}

/// A client behind the path: fetches the file, pings meanwhile, prints the sum of what came.
fn fetch(port: u16, pings: usize) -> Running {
    let script = format!(
        "curl -s --max-time 50 http://$PACELINE_BASE:{port}/data | sha256sum & \
         ping -n -c {pings} -i 0.4 -W 20 $PACELINE_BASE; wait"
    );
    paceline().args(["emulate"]).args(PATH).args(["--", "sh", "-c", &script]).start()
}

/// What a client found: the sum, and the median of the last six round trips, in ms.
fn found(mut client: Running) -> (String, f64) {
    let status = client.wait();
    let lines: Vec<String> = client.rest();
    assert!(status.success(), "{lines:?}");
    let sum = lines.iter().find(|line| line.ends_with("  -")).unwrap_or_else(|| panic!("{lines:?}"));
    let time = |line: &String| line.split_once("time=")?.1.split_whitespace().next()?.parse().ok();
    let mut times: Vec<f64> = lines.iter().rev().filter_map(time).take(6).collect();
    assert_eq!(times.len(), 6, "{lines:?}");
    times.sort_by(f64::total_cmp);
    (sum.split_whitespace().next().unwrap_or_default().to_owned(), times[3])
}

/// A connection of the server's as `paceline top` shows it in mid-transfer. On a busy machine the path may deliver in bursts,
/// and the newest rate be one of them: then it is looked at again.
fn seen(port: u16) -> serde_json::Value {
    let busy = |line: &serde_json::Value| {
        let rate = line["rate_mbps"].as_f64();
        line["delivered_bytes"].as_u64().is_some_and(|bytes| bytes > 500_000) && rate.is_some_and(|rate| rate < 14.0)
    };
    let mut found = None;
    eventually(Duration::from_secs(30), || {
        found = top(port).into_iter().find(busy);
        found.is_some()
    });
    found.expect("a connection in paceline top")
}

#[test]
fn python_serves_with_little_delay_and_can_be_watched() {
    if lacks("python_serves_with_little_delay_and_can_be_watched", &["curl", "ping", "python3", "sha256sum"]) {
        return;
    }
    let metrics = free_port();
    let server = Server::python(LONG, shim(&["--cc", "copa", "--metrics", &metrics.to_string()]));
    let client = fetch(server.port, 29);
    let line = seen(server.port);
    assert!(line["program"].as_str().unwrap().starts_with("python"), "{line}");
    assert_eq!((line["controller"].as_str(), line["mode"].as_str()), (Some("copa"), Some("inline")), "{line}");
    assert!(line["min_rtt_ms"].as_f64().unwrap() >= 40.0, "{line}");
    assert!(line["window_bytes"].as_u64().unwrap() > 0 && !line["limited_by"].as_str().unwrap().is_empty(), "{line}");
    let text = scrape(metrics);
    for metric in ["paceline_sockets{", "paceline_delivered_bytes_total{", "paceline_rtt_seconds_count{"] {
        assert!(text.lines().any(|row| row.starts_with(metric) && row.contains("program=\"python")), "{text}");
    }
    let (sum, shimmed) = found(client);
    assert_eq!(sum, server.sum());
    drop(server);

    let server = Server::python(LONG, Run::program("env"));
    let (sum, cubic) = found(fetch(server.port, 29));
    assert_eq!(sum, server.sum());
    assert!(shimmed < cubic / 2.0 && shimmed < 300.0, "{shimmed} ms under the shim, {cubic} ms without");
}

#[test]
fn nginx_serves_with_and_without_sendfile() {
    if lacks("nginx_serves_with_and_without_sendfile", &["curl", "ping", "nginx", "sha256sum"]) {
        return;
    }
    for (sendfile, asked, mode) in [(true, "auto", "inline"), (false, "auto", "inline"), (false, "queue", "queue")] {
        let server = Server::nginx(SHORT, sendfile, shim(&["--cc", "copa", "--mode", asked]));
        let client = fetch(server.port, 9);
        let line = seen(server.port);
        assert_eq!((line["program"].as_str(), line["mode"].as_str()), (Some("nginx"), Some(mode)), "{line}");
        let (sum, delay) = found(client);
        assert_eq!(sum, server.sum(), "sendfile {sendfile}");
        assert!(delay < 300.0, "sendfile {sendfile}: {delay} ms");
    }
}

#[test]
fn without_time_stamps_tcp_info_is_asked() {
    let name = "without_time_stamps_tcp_info_is_asked";
    if lacks(name, &["curl", "ping", "python3", "sha256sum"]) {
        return;
    }
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        return skipped(name, "it does not know the number of setsockopt on this architecture");
    }
    let server = Server::python(SHORT, shim(&["--cc", "copa", "--mode", "queue"]).env("REFUSE_STAMPS", "1"));
    let client = fetch(server.port, 9);
    let line = seen(server.port);
    assert_eq!((line["mode"].as_str(), line["acks"].as_str()), (Some("queue"), Some("info")), "{line}");
    assert_eq!(found(client).0, server.sum());
}

#[test]
fn only_the_ports_that_are_listed() {
    if lacks("only_the_ports_that_are_listed", &["curl", "python3"]) {
        return;
    }
    let server = Server::python(2_000_000, shim(&["--cc", "copa", "--ports", "1-2"]));
    let script =
        format!("curl -s --max-time 40 -o /dev/null -w '%{{size_download}}' http://127.0.0.1:{}/data", server.port);
    let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(output.stdout, b"2000000");
    thread::sleep(Duration::from_millis(50));
    assert!(top(server.port).is_empty());
}
