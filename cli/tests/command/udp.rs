//! `paceline serve`, `send` and `fetch` over loopback.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::lab::{Lab, names, refusal};

/// A server that ends with the test.
pub(crate) struct Server {
    pub(crate) child: Child,
    out: BufReader<ChildStdout>,
    pub(crate) address: String,
    /// Whether its first line was an object.
    pub(crate) said_json: bool,
}

impl Server {
    pub(crate) fn new(lab: &Lab, args: &[&str]) -> Self {
        Self::start(
            Command::new(env!("CARGO_BIN_EXE_paceline")).args(["serve", "--listen", "127.0.0.1:0"]).args(args),
            lab,
        )
    }

    /// A server that a command starts.
    pub(crate) fn start(command: &mut Command, lab: &Lab) -> Self {
        let mut child =
            command.current_dir(lab.folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let said: Option<Value> = serde_json::from_str(&line).ok();
        let address = match said.as_ref().and_then(|said| said["listening"].as_str()) {
            Some(address) => address.to_owned(),
            None => line.strip_prefix("listening at ").unwrap_or_default().trim().to_owned(),
        };
        Self { child, out, address, said_json: said.is_some() }
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line
    }

    /// Stops it; answers what it complained of.
    pub(crate) fn stop(mut self) -> String {
        let _ = self.child.kill();
        let mut text = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        text
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn content() -> Vec<u8> {
    (0..600_000_u32).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()).take(1_000_003).collect()
}

const KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n";

#[test]
fn a_file_goes_there_and_comes_back() {
    let lab = Lab::new();
    fs::write(lab.path("movie"), content()).unwrap();
    lab.write_private("key", KEY);
    let mut server = Server::new(&lab, &["--dir", "kept", "--key", "key", "--json"]);
    let address = server.address.clone();

    let sent = lab.run(&["send", "movie", &address, "--key", "key", "--cc", "cubic", "--json"]);
    assert_eq!(sent.status.code(), Some(0), "{}", String::from_utf8_lossy(&sent.stderr));
    let said: Value = serde_json::from_slice(&sent.stdout).unwrap();
    assert_eq!((&said["bytes"], &said["verified"]), (&1_000_003.into(), &true.into()));
    let sum: u64 = said["intervals"].as_array().unwrap().iter().map(|i| i["bytes"].as_u64().unwrap()).sum();
    assert!(sum <= 1_000_003 && said["rtt_ms"]["p50"].is_number() && said["cpu_s"].is_number());
    assert!(fs::read(lab.path("kept/movie")).unwrap() == content());
    let said: Value = serde_json::from_str(&server.line()).unwrap();
    assert_eq!((&said["verb"], &said["verified"]), (&"received".into(), &true.into()));

    // What is there stays as it is.
    let again = lab.run(&["send", "movie", &address, "--key", "key"]);
    assert!(refusal(&again).contains("movie is there already"));

    // In a pipe: one line.
    let got = lab.run(&["fetch", "movie", &address, "--key", "key", "--cc", "copa:delta=0.1", "-o", "back"]);
    assert_eq!(got.status.code(), Some(0), "{}", String::from_utf8_lossy(&got.stderr));
    let text = String::from_utf8(got.stdout).unwrap();
    assert!(text.lines().count() == 1 && text.contains("SHA-256 checked") && text.contains("copa"), "{text}");
    assert!(fs::read(lab.path("back")).unwrap() == content());
    assert_eq!(names(&lab.path("kept")), ["movie"]);
    assert_eq!(server.stop(), "");
}

#[test]
fn bytes_that_mean_nothing_go_both_ways() {
    let lab = Lab::new();
    let server = Server::new(&lab, &[]);
    for args in [
        &["send", "--bytes", "100000", &server.address, "--json"][..],
        &["send", "--seconds", "0.3", &server.address, "--json", "--cc", "fixed:window=10,rate=8", "--interval", "0.1"],
        &["fetch", "--bytes", "100000", &server.address, "--json", "--cc", "sprout", "--no-offload"],
    ] {
        let output = lab.run(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(said["bytes"].as_u64().unwrap() > 0 && said["verified"] == false, "{args:?}: {said}");
        if args.contains(&"--bytes") {
            assert_eq!(said["bytes"], 100_000);
        }
    }
    assert_eq!(server.stop(), "");
}

#[test]
fn a_server_says_no_in_one_line() {
    let lab = Lab::new();
    fs::write(lab.path("movie"), content()).unwrap();
    lab.write_private("key", KEY);
    lab.write_private("other", &KEY.replace('0', "1"));
    lab.write_private("short", "0011");
    fs::write(lab.path("open"), KEY).unwrap();
    fs::set_permissions(lab.path("open"), fs::Permissions::from_mode(0o640)).unwrap();
    let server = Server::new(&lab, &["--key", "key", "--file", "movie"]);
    let address = server.address.as_str();
    for (args, says) in [
        (&["send", "movie", address, "--key", "key"][..], "it keeps no files"),
        (&["send", "movie", address], "--key FILE"),
        (&["send", "movie", address, "--key", "other"], "another key"),
        (&["send", "movie", address, "--key", "short"], "short: a key is 64 hexadecimal digits"),
        (&["send", "movie", address, "--key", "none"], "--key none: cannot be read"),
        (&["send", "movie", address, "--key", "open"], "(mode 0640); run: chmod 600 open"),
        (&["serve", "--key", "open"], "--key open: others may read or write it"),
        (&["serve", "--key", "/dev/urandom"], "--key /dev/urandom: cannot be read (it is a device)"),
        (&["serve", "--key", "movie"], "--key movie: cannot be read (it is longer than 4 KiB)"),
        (&["fetch", "--seconds", "1", address], "fetch has no --seconds: the server knows no end of it"),
        (&["fetch", "key", address, "--key", "key"], "it has no file key"),
        (&["fetch", "../movie", address, "--key", "key"], "it has no file ../movie"),
        (&["fetch", address], "nothing to fetch"),
        (&["send", address], "nothing to send"),
        (&["send", "nothing-here", address], "nothing-here: cannot be read"),
        (&["send", ".", address], "not a regular file"),
        (&["send", "movie", "192.0.2.1"], "192.0.2.1:4870 is not loopback"),
        (&["send", "movie", "no such host"], "no such host"),
        (&["send", "movie", address, "--cc", "nonesuch"], "--cc nonesuch: unknown controller"),
        (&["send", "movie", address, "--mtu", "100"], "--mtu 100"),
        (&["send", "movie", address, "--timeout", "-1"], "--timeout -1"),
        (&["send", "movie", address, "--bytes", "1"], "leave --bytes and --seconds out"),
        (&["serve", "--listen", address, "--key", "key"], "is in use"),
        (&["serve", "--listen", "0.0.0.0:0"], "is not loopback"),
        (&["serve", "--dir", "movie"], "movie: cannot be written (Not a directory (os error 20))"),
        (&["serve", "--listen", address, "--dir", "nowhere", "--key", "key"], "is in use"),
        (&["serve", "--file", "nowhere"], "--file nowhere: not a file"),
    ] {
        let line = refusal(&lab.run(args));
        assert!(line.contains(says), "{args:?}: {line}");
    }
    assert_eq!(lab.names(), ["key", "movie", "open", "other", "short", "small.toml"]);
    let got = lab.run(&["fetch", "movie", address, "--key", "key", "-o", "back"]);
    assert_eq!(got.status.code(), Some(0), "{}", String::from_utf8_lossy(&got.stderr));
}

#[test]
fn a_client_that_vanishes_leaves_nothing_behind() {
    let lab = Lab::new();
    fs::create_dir(lab.path("kept")).unwrap();
    // A hole of 20 GB: it takes longer than the test.
    fs::File::create(lab.path("endless")).unwrap().set_len(20_000_000_000).unwrap();
    let mut server = Server::new(&lab, &["--dir", "kept", "--timeout", "0.5"]);
    let mut client = Command::new(env!("CARGO_BIN_EXE_paceline"))
        .args(["send", "endless", &server.address, "--cc", "fixed:window=10,rate=8"])
        .current_dir(lab.folder.path())
        .spawn()
        .unwrap();
    let waits = std::time::Duration::from_millis(20);
    // What it receives has no name yet, where the file system can do without: it is open.
    let (open, kept) = (format!("/proc/{}/fd", server.child.id()), lab.path("kept").canonicalize().unwrap());
    let receiving = || {
        let mut open = fs::read_dir(&open).unwrap().flatten();
        open.any(|entry| fs::read_link(entry.path()).is_ok_and(|file| file.starts_with(&kept)))
    };
    for _ in 0..1000 {
        if receiving() {
            break;
        }
        std::thread::sleep(waits);
    }
    assert!(receiving(), "the server is receiving");
    client.kill().unwrap();
    client.wait().unwrap();
    let mut complaint = String::new();
    BufReader::new(server.child.stderr.as_mut().unwrap()).read_line(&mut complaint).unwrap();
    assert!(complaint.contains("silent") || complaint.contains("no program listens"), "{complaint}");
    assert!(names(&lab.path("kept")).is_empty());
    // It is there for the next one.
    let next = lab.run(&["send", "--bytes", "1000", &server.address]);
    assert_eq!(next.status.code(), Some(0), "{}", String::from_utf8_lossy(&next.stderr));
}

#[test]
fn lines_in_a_pipe_where_they_are_asked_for() {
    let lab = Lab::new();
    let server = Server::new(&lab, &[]);
    let send = ["send", "--seconds", "0.5", &server.address, "--cc", "fixed:window=10,rate=8"];
    let said = lab.run(&[&send[..], &["--interval", "0.1"]].concat());
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(said.lines().count() >= 3 && said.lines().next().unwrap().contains(" Mbit/s  rtt "), "{said}");
    assert_eq!(lab.run(&send).stdout.iter().filter(|byte| **byte == b'\n').count(), 1);
}

/// What a server says of a session when this signal ends it, with this exit status.
fn ended(signal: &str, status: i32) -> String {
    let mut server = Server::new(&Lab::new(), &[]);
    let mut running = Command::new(env!("CARGO_BIN_EXE_paceline"))
        .args(["send", "--seconds", "60", &server.address, "--cc", "fixed:window=10,rate=8", "--interval", "0.1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // It is under way when it has said something.
    let mut line = String::new();
    BufReader::new(running.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(Command::new("kill").args([signal, &server.child.id().to_string()]).status().unwrap().success());
    assert_eq!(server.child.wait().unwrap().code(), Some(status));
    running.kill().unwrap();
    running.wait().unwrap();
    server.stop()
}

#[test]
fn a_signal_ends_a_server_with_a_line_for_each_session() {
    for (signal, status) in [("-INT", 130), ("-TERM", 0)] {
        let said = ended(signal, status);
        assert!(said.starts_with("paceline: stopped; received ") && said.contains(" from 127.0.0.1:"), "{said}");
    }
}
