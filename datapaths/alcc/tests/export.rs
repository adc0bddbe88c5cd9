//! What other processes see of the sockets, with an engine that is made up.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use paceline_alcc::export::{Export, News, Settings, address, processes};
use paceline_alcc::{Acks, LimitedBy, Mode, Rtts, SocketStats, Totals};
use paceline_cc::{Nanos, Rate};

fn socket(id: u64) -> SocketStats {
    SocketStats {
        id,
        local: Some("192.0.2.1:80".parse().unwrap()),
        peer: Some(SocketAddr::from(([198, 51, 100, 7], 5000 + id as u16))),
        controller: "copa".to_owned(),
        mode: Mode::Queue,
        acks: Acks::Stamps,
        age: Nanos::from_secs(3),
        limited_by: LimitedBy::Window,
        rate: Rate::from_mbps(8.0),
        rtt: Some(Nanos::from_millis(50 + 10 * id)),
        srtt: Some(Nanos::from_millis(55)),
        min_rtt: Some(Nanos::from_millis(40)),
        below: Nanos::ZERO,
        window: 60_000,
        lower_window: 90_000,
        in_flight: 50_000,
        queued: 1_000_000,
        written: 3_000_000,
        delivered: 2_000_000,
        retransmits: 3,
        timeouts: 0,
        chunks: 1500,
        limited_below: 2,
        stamps_lost: 1,
        marked: 4,
        bypassed: false,
    }
}

/// Talks to the endpoint; all that comes back.
fn exchange(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(request).unwrap();
    let mut text = String::new();
    // A refusal may be cut short by what was not read.
    let _ = stream.read_to_string(&mut text);
    text
}

/// One test: a process has one Unix socket.
#[test]
fn a_process_tells_of_its_sockets() {
    let folder = tempfile::tempdir().unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let settings = Settings { metrics: Some(free), qlog: Some(folder.path().join("qlog")), ..Settings::default() };
    let open = Arc::new(AtomicBool::new(true));
    let source = {
        let open = Arc::clone(&open);
        let past = Totals { sockets: 5, delivered: 1_000_000, retransmits: 1, bypassed: 0 };
        move || {
            let sockets = if open.load(Ordering::Relaxed) { vec![socket(0), socket(1)] } else { Vec::new() };
            let mut rtts = Rtts::default();
            (rtts.counts[6], rtts.sum_ns) = (2, 110_000_000);
            Some(News { sockets, past, rtts })
        }
    };
    static ENTERED: AtomicBool = AtomicBool::new(false);
    let enter = || {
        std::thread::sleep(Duration::from_millis(100));
        ENTERED.store(true, Ordering::Relaxed);
    };
    let export = Export::start(&settings, enter, Box::new(source)).unwrap();
    assert!(ENTERED.load(Ordering::Relaxed), "the thread may still copy descriptors that are opened from now on");
    let pid = std::process::id();
    let own = || processes().into_iter().find(|process| process.pid == pid);

    // The Unix socket.
    let process = own().expect("it answers");
    assert_eq!(process.sockets.len(), 2);
    let line = &process.sockets[1];
    assert_eq!(line.peer.unwrap().to_string(), "198.51.100.7:5001");
    assert_eq!((line.rate_mbps, line.rtt_ms, line.limited_by.as_str()), (8.0, Some(60.0), "window"));
    assert_eq!((line.queue_bytes, line.marked_samples, line.mode.as_str()), (1_000_000, 4, "queue"));

    // Metrics, while connections that say nothing take all the room that there is.
    let silent: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(free).unwrap()).collect();
    let scrape = exchange(free, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    drop(silent);
    assert!(scrape.starts_with("HTTP/1.1 200 OK\r\n"), "{scrape}");
    let body = scrape.split_once("\r\n\r\n").unwrap().1;
    assert!(scrape.contains(&format!("Content-Length: {}\r\n", body.len())), "{scrape}");
    let program = format!("program=\"{}\",pid=\"{pid}\"", process.program);
    let labels = format!("{program},controller=\"copa\"");
    for row in [
        format!("paceline_sockets{{{labels},mode=\"queue\",limited_by=\"window\"}} 2"),
        format!("paceline_closed_sockets_total{{{program}}} 5"),
        format!("paceline_delivered_bytes_total{{{program}}} 5000000"),
        format!("paceline_retransmits_total{{{program}}} 7"),
        format!("paceline_delivery_rate_bytes_per_second{{{labels}}} 2000000.0"),
        format!("paceline_socket_rtt_seconds{{{labels},statistic=\"median\"}} 0.05"),
        format!("paceline_rtt_seconds_bucket{{le=\"0.075\",{program}}} 2"),
        format!("paceline_queueing_delay_seconds{{{labels},statistic=\"max\"}} 0.02"),
    ] {
        assert!(body.lines().any(|line| line == row), "{row} in\n{body}");
    }
    assert!(!body.contains("# EOF"), "{body}");
    let head = exchange(free, b"HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    let accept = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: application/openmetrics-text\r\n\r\n";
    assert!(exchange(free, accept).ends_with("# EOF\n"));
    assert!(exchange(free, b"GET /else HTTP/1.1\r\nHost: localhost\r\n\r\n").starts_with("HTTP/1.1 404 "));
    assert!(exchange(free, b"GET /metrics HTTP/1.1\r\nHost: rebound.example\r\n\r\n").starts_with("HTTP/1.1 403 "));
    assert!(exchange(free, b"\x16\x03\x01 garbage\r\n\r\n").starts_with("HTTP/1.1 400 "));
    assert!(exchange(free, &[b'G'; 100_000]).len() < 300);

    // Only this user's programs may look.
    let socket = format!("{}.sock", std::process::id());
    let bases = ["/run".to_owned(), "/tmp".to_owned(), std::env::var("XDG_RUNTIME_DIR").unwrap_or_default()];
    let folders = bases.iter().filter_map(|base| fs::read_dir(base).ok()).flatten().flatten().map(|entry| entry.path());
    let modes: Vec<u32> = folders
        .filter(|folder| folder.join(&socket).exists())
        .map(|folder| fs::metadata(folder).unwrap().permissions().mode() & 0o777)
        .collect();
    assert!(!modes.is_empty() && modes.iter().all(|mode| *mode == 0o700), "{modes:?}");

    // Another with the same address starts as well, and takes over one day.
    let other = Settings { qlog: None, ..settings };
    // It would have the same Unix socket as this process: nothing but its start is looked at.
    assert!(TcpListener::bind(free).is_err());
    assert_eq!(Settings::from_vars(|_| None), Ok(Settings::default()));
    assert_eq!(address(&free.to_string()), Ok(other.metrics.unwrap()));

    // Logs, complete when a socket is gone.
    open.store(false, Ordering::Relaxed);
    drop(export);
    assert!(own().is_none());
    let log = fs::read_to_string(log_of(&folder.path().join("qlog"), "-1.sqlog")).unwrap();
    let events: Vec<serde_json::Value> =
        log.lines().map(|line| serde_json::from_str(line.trim_start_matches('\u{1e}')).unwrap()).collect();
    assert!(log.starts_with("\u{1e}{\"file_schema\":\"urn:ietf:params:qlog:file:sequential\",\"serialization_format\":\"application/qlog+json-seq\","));
    let trace = &events[0]["trace"];
    let schemas = ["urn:ietf:params:qlog:events:quic-13", paceline_cc::qlog::SCHEMA];
    assert_eq!(trace["event_schemas"], serde_json::json!(schemas));
    assert_eq!(trace["common_fields"]["reference_time"]["clock_type"], "system");
    let names: Vec<&str> = events[1..].iter().map(|event| event["name"].as_str().unwrap()).collect();
    let expected =
        ["quic:connection_started", "quic:recovery_metrics_updated", "paceline:limited_by", "quic:connection_closed"];
    assert_eq!(names, expected);
    assert_eq!(events[1]["data"]["remote"]["port_v4"], 5001);
    assert_eq!(events[2]["data"]["latest_rtt"], 60.0);
    assert!(events[2]["data"]["paceline_queue_bytes"].is_u64());
    // Milliseconds since 1970, here after 2020.
    assert!(events[1..].iter().all(|event| event["time"].as_f64().unwrap() > 1.577e12));
    logs_have_the_older_form_where_that_is_asked_for();
}

fn logs_have_the_older_form_where_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let var = |name: &str| match name {
        "PACELINE_QLOG" => Some(folder.path().display().to_string()),
        "PACELINE_QLOG_FORM" => Some("0.3".to_owned()),
        _ => None,
    };
    let settings = Settings::from_vars(var).unwrap();
    let news = || Some(News { sockets: vec![socket(0)], ..News::default() });
    drop(Export::start(&settings, || {}, Box::new(news)).unwrap());
    let log = fs::read_to_string(log_of(folder.path(), "-0.sqlog")).unwrap();
    let events: Vec<serde_json::Value> =
        log.lines().map(|line| serde_json::from_str(line.trim_start_matches('\u{1e}')).unwrap()).collect();
    assert_eq!((&events[0]["qlog_version"], &events[0]["qlog_format"]), (&"0.3".into(), &"JSON-SEQ".into()));
    let names: Vec<&str> = events[1..].iter().map(|event| event["name"].as_str().unwrap()).collect();
    assert_eq!(names[..2], ["connectivity:connection_started", "recovery:metrics_updated"]);
    assert!(events[2]["data"]["queue_bytes"].is_u64() && events[2]["time"].as_f64().unwrap() < 1e7);
    let line = Settings::from_vars(|name| (name == "PACELINE_QLOG_FORM").then(|| "0.5".to_owned())).unwrap_err();
    assert_eq!(line.to_string(), "qlog-form: '0.5' is not a form of qlog; write today or 0.3");
}

fn log_of(folder: &Path, end: &str) -> std::path::PathBuf {
    let mut files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.find(|path| path.to_string_lossy().ends_with(end)).expect("a log of the socket")
}

#[test]
fn an_address_may_be_a_port_of_the_loopback_address() {
    for (text, meant) in [("9464", "127.0.0.1:9464"), (":9464", "127.0.0.1:9464"), ("0.0.0.0:80", "0.0.0.0:80")] {
        assert_eq!(address(text).unwrap().to_string(), meant);
    }
    for text in ["", "0", "host", "host:80", "127.0.0.1", "65536", "127.0.0.1:0"] {
        assert!(address(text).is_err(), "{text}");
    }
    let (metrics, qlog) = (Some(address("9464").unwrap()), Some("/tmp/logs".into()));
    let settings = Settings { metrics, qlog, qlog_form: paceline_cc::qlog::QlogForm::V03 };
    let vars = settings.to_env();
    let read = Settings::from_vars(|name| vars.iter().find(|(known, _)| *known == name).map(|(_, v)| v.clone()));
    assert_eq!(read, Ok(settings));
}

#[test]
fn the_folder_of_qlogs_may_be_that_of_every_program() {
    let of = |given: &[(&str, &str)]| {
        let var = |name: &str| given.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        Settings::from_vars(var).unwrap().qlog
    };
    assert_eq!(of(&[("QLOGDIR", "/tmp/all")]), Some("/tmp/all".into()));
    assert_eq!(of(&[("QLOGDIR", "/tmp/all"), ("PACELINE_QLOG", "/tmp/ours")]), Some("/tmp/ours".into()));
    assert_eq!(of(&[("QLOGDIR", "/tmp/all"), ("PACELINE_QLOG", "")]), Some("/tmp/all".into()));
    assert_eq!((of(&[("QLOGDIR", "")]), of(&[])), (None, None));
}
