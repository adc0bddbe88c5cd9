//! Real programs behind a path.

use std::io::{Read, Write};
use std::net::{Ipv6Addr, TcpListener};
use std::thread;
use std::time::Instant;

use serde_json::Value;

use crate::bench::{Bench, missing, needs_root, paceline, skipped};

/// Bytes of the page that is served.
const PAGE: usize = 100_000;
/// A delivery trace of one packet a millisecond: 12 Mbit/s.
const TRACE: &str = "1\n";

/// Whether the test must be skipped because something is not here.
fn lacks(test: &str, programs: &[&str]) -> bool {
    if needs_root(test) {
        return true;
    }
    let lacking: Vec<String> = programs.iter().filter_map(|program| missing(program)).collect();
    if !lacking.is_empty() {
        skipped(test, &format!("it needs {}", lacking.join(", ")));
    }
    !lacking.is_empty()
}

/// Serves one page per connection for as long as the test runs; the port.
fn web_server() -> u16 {
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut request = [0; 4096];
                let _ = stream.read(&mut request);
                let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {PAGE}\r\n\r\n");
                let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&vec![b'x'; PAGE]));
            });
        }
    });
    port
}

/// Sends back what comes; the port.
fn echo_server() -> u16 {
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut copy = stream.try_clone().unwrap();
                let _ = std::io::copy(&mut stream, &mut copy);
            });
        }
    });
    port
}

/// Fetches the page behind a path: status, bytes, seconds until connected and in all.
fn curl(path: &[&str], url: &str) -> [f64; 4] {
    let script = format!(
        "curl -s -g --max-time 40 -o /dev/null -w '%{{http_code}} %{{size_download}} %{{time_connect}} %{{time_total}}' {url}"
    );
    let output = paceline().args(["emulate"]).args(path).args(["--", "sh", "-c", &script]).bounded();
    let text = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let figures: Vec<f64> = text.split_whitespace().map(|figure| figure.parse().unwrap()).collect();
    assert_eq!(figures.len(), 4, "{text}{said}");
    assert_eq!(figures[..2], [200.0, PAGE as f64], "{said}");
    figures.try_into().unwrap()
}

#[test]
fn curl_fetches_over_both_families() {
    if lacks("curl_fetches_over_both_families", &["curl"]) {
        return;
    }
    let port = web_server();
    for host in ["$PACELINE_BASE", "[$PACELINE_BASE6]", "$MAHIMAHI_BASE"] {
        let [_, _, connect, total] = curl(&["--delay", "20ms"], &format!("http://{host}:{port}/"));
        assert!(connect >= 0.040 && total >= 0.080, "{host}: {connect} {total}");
    }
}

#[test]
fn a_rate_takes_its_time() {
    if lacks("a_rate_takes_its_time", &["curl"]) {
        return;
    }
    let port = web_server();
    let [_, _, _, total] =
        curl(&["--rate", "2Mbit/s", "--queue", "droptail:2MB"], &format!("http://$PACELINE_BASE:{port}/"));
    assert!(total >= PAGE as f64 * 8.0 / 2e6, "{total}");
}

#[test]
fn a_trace_for_one_direction_is_enough() {
    if lacks("a_trace_for_one_direction_is_enough", &["curl"]) {
        return;
    }
    let (port, bench) = (web_server(), Bench::new());
    let trace = bench.file("trace", TRACE);
    let url = format!("http://$PACELINE_BASE:{port}/");
    let [_, _, _, down] = curl(&["--trace", &trace], &url);
    assert!(down >= PAGE as f64 / 1500.0 / 1000.0, "{down}");
    curl(&["--up", &trace], &url);
    curl(&["--trace", &trace, "--rate", "1Mbit/s"], &url);
}

#[test]
fn a_path_inside_a_path_adds_up() {
    if lacks("a_path_inside_a_path_adds_up", &["curl"]) {
        return;
    }
    let port = web_server();
    let paceline = env!("CARGO_BIN_EXE_paceline");
    let inner = [paceline, "emulate", "--delay", "15ms", "--", paceline, "emulate", "--delay", "25ms"];
    let path = [&["--delay", "10ms", "--"], &inner[..]].concat();
    for host in ["$MAHIMAHI_BASE", "[$PACELINE_BASE6]"] {
        let [_, _, connect, total] = curl(&path, &format!("http://{host}:{port}/"));
        assert!(connect >= 0.100 && total >= 0.200, "{host}: {connect} {total}");
    }
}

#[test]
fn an_interactive_session_answers_line_by_line() {
    if lacks("an_interactive_session_answers_line_by_line", &["curl"]) {
        return;
    }
    let port = echo_server();
    let script = format!("exec curl -s -N telnet://$PACELINE_BASE:{port}");
    let mut running = paceline().args(["emulate", "--delay", "10ms", "--", "sh", "-c", &script]).start();
    let mut input = running.input.take().unwrap();
    for key in 0..10 {
        let start = Instant::now();
        writeln!(input, "key {key}").unwrap();
        assert_eq!(running.line(), format!("key {key}"));
        assert!(start.elapsed().as_secs_f64() >= 0.020);
    }
    drop(input);
}

#[test]
fn ping_goes_over_ipv6() {
    if lacks("ping_goes_over_ipv6", &["ping"]) {
        return;
    }
    let script = "ping -6 -n -c 3 -i 0.2 -W 20 $PACELINE_BASE6";
    let output = paceline().args(["emulate", "--delay", "20ms", "--", "sh", "-c", script]).bounded();
    let text = String::from_utf8(output.stdout).unwrap();
    let times: Vec<f64> =
        text.lines().filter_map(|line| line.split_once("time=")?.1.split_whitespace().next()?.parse().ok()).collect();
    assert!(times.len() == 3 && times.iter().all(|millis| *millis >= 40.0), "{text}");
}

#[test]
fn iperf3_sees_the_rate() {
    if lacks("iperf3_sees_the_rate", &["iperf3"]) {
        return;
    }
    let client = "iperf3 --client $PACELINE_BASE --time 2 --json --reverse";
    let path = ["--rate", "12Mbit/s", "--delay", "5ms", "--queue", "droptail:100packets"];
    let far = ["--far", "exec iperf3 --server --one-off >/dev/null"];
    let output = paceline().args(["emulate"]).args(path).args(far).args(["--", "sh", "-c", client]).bounded();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rate = report["end"]["sum_received"]["bits_per_second"].as_f64().unwrap_or_else(|| panic!("{report}"));
    assert!(rate > 1e6 && rate < 12.1e6, "{rate}");
}
