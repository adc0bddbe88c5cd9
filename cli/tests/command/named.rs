//! `paceline icn serve`, `fetch`, `resolver`, `resolve` and `gateway` over loopback.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use serde_json::Value;

use crate::lab::Lab;
use crate::udp::Server;

const KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n";

pub(crate) fn start(lab: &Lab, args: &[&str]) -> Server {
    Server::start(Command::new(env!("CARGO_BIN_EXE_paceline")).arg("icn").args(args), lab)
}

pub(crate) fn published(lab: &Lab, file: &str, bytes: &[u8]) -> String {
    fs::write(lab.path(file), bytes).unwrap();
    let output = lab.run(&["icn", "publish", file, "--store", "store"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

pub(crate) fn content() -> Vec<u8> {
    (0..600_000_u32).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()).collect()
}

#[test]
fn an_object_is_published_found_and_fetched() {
    let lab = Lab::new();
    lab.write_private("key", KEY);
    let name = published(&lab, "film.mp4", &content());
    let resolver = start(&lab, &["resolver", "--listen", "127.0.0.1:0", "--key", "key"]);
    let announce = ["--announce", &resolver.address, "--announce-key", "key"];
    let router = start(&lab, &[&["serve", "--store", "store", "--listen", "127.0.0.1:0"], &announce[..]].concat());
    let resolve = || lab.run(&["icn", "resolve", &name, "--resolver", &resolver.address, "--json"]);
    let mut found = resolve();
    while found.status.code() != Some(0) {
        std::thread::sleep(std::time::Duration::from_millis(20));
        found = resolve();
    }
    let place: Value = serde_json::from_slice(&found.stdout).unwrap();
    assert_eq!((place["address"].as_str(), &place["has"]), (Some(router.address.as_str()), &true.into()), "{place}");

    let fetch = |args: &[&str]| lab.run(&[&["icn", "fetch", &name], args].concat());
    let done = fetch(&["--resolver", &resolver.address, "--out", "copy", "--json", "--qlog", "logs"]);
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
    let said: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!((&said["bytes"], &said["media_type"]), (&2_400_000.into(), &"video/mp4".into()), "{said}");
    assert!(fs::read(lab.path("copy")).unwrap() == content());
    let log = fs::read_to_string(lab.path(said["qlog"][0].as_str().unwrap())).unwrap();
    assert!(log.contains("quic:recovery_metrics_updated"), "{} bytes", log.len());

    let part = fetch(&["--from", &router.address, "--range", "1000-1999", "--out", "-"]);
    assert!(part.stdout == content()[1000..2000], "{}", String::from_utf8_lossy(&part.stderr));
    let part = fetch(&["--from", &router.address, "--range", "2399999-", "--out", "tail", "--cc", "cubic"]);
    assert_eq!(part.status.code(), Some(0), "{}", String::from_utf8_lossy(&part.stderr));
    assert!(fs::read(lab.path("tail")).unwrap() == content()[2_399_999..]);

    let gateway = start(&lab, &["gateway", "--listen", "127.0.0.1:0", "--from", &router.address]);
    let at = gateway.address.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(at).unwrap();
    write!(stream, "HEAD /{name} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("content-length: 2400000"), "{answer}");
}

#[test]
fn what_cannot_be_fetched_is_said_in_one_line_and_leaves_nothing() {
    let lab = Lab::new();
    let name = published(&lab, "film.mp4", b"a film");
    let router = start(&lab, &["serve", "--store", "store", "--listen", "127.0.0.1:0"]);
    let other = if &name[10..11] == "a" { "b" } else { "a" };
    let unknown = format!("{}{other}{}", &name[..10], &name[11..]);
    let from: &[&str] = &["--from", &router.address, "--out", "copy"];
    for (name, args, says) in [
        ("film", from, "is not a name"),
        (&unknown, from, "no source has the object"),
        (&name, &[from, &["--range", "6-"]].concat(), "begins at byte 6"),
        (&name, &[from, &["--range", "5-4"]].concat(), "first and the last byte"),
        (&name, &[from, &["--cc", "verus:x=1"]].concat(), "--cc"),
        (&name, &["--from", "nowhere.invalid", "--out", "copy"], "no such host"),
        (&name, &["--out", "copy"], "--from"),
        (&name, &["--from", &router.address, "--out", "-", "--json"], "--json"),
    ] {
        let output = lab.run(&[&["icn", "fetch", name], args].concat());
        let line = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(line.contains(says) && line.lines().count() == 1, "{args:?}: {line}");
        assert!(!lab.path("copy").exists() && !lab.path("copy.paceline-part").exists());
    }
    let output = lab.run(&["icn", "resolver", "--listen", "127.0.0.1:0", "--key", "film.mp4"]);
    assert_eq!(output.status.code(), Some(2));
    let output = lab.run(&["icn", "gateway", "--listen", "10.255.255.1:1", "--from", &router.address]);
    let line = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && line.contains("--listen 10.255.255.1:1"), "{line}");
}
