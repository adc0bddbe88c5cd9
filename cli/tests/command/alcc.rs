//! Uploads and downloads over framed connections, as a person runs them: whole or not there, gone on with after a kill, and closed to
//! strangers.
#![cfg(target_os = "linux")]

mod disk;
mod raw;
mod secure;
mod strangers;

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::lab::{Lab, names, refusal};

/// A server; it ends with the test.
pub(crate) struct Server {
    pub(crate) child: Child,
    out: BufReader<ChildStdout>,
    pub(crate) address: String,
}

impl Server {
    /// At a free port, with the folder `kept`.
    pub(crate) fn new(lab: &Lab, args: &[&str]) -> Self {
        Self::start(Command::new(env!("CARGO_BIN_EXE_paceline")).args(ARGS).args(args), lab)
    }

    pub(crate) fn start(command: &mut Command, lab: &Lab) -> Self {
        let child = command.current_dir(lab.folder.path()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = child.unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let address = serde_json::from_str(&line).map_or(String::new(), |line: Value| text(&line, "listening"));
        Self { child, out, address }
    }

    /// What it says of the next session that ends.
    pub(crate) fn session(&mut self) -> Value {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("no session in '{line}'"))
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How a server of these tests is started.
pub(crate) const ARGS: [&str; 7] = ["alcc", "serve", "--json", "--dir", "kept", "--listen", "127.0.0.1:0"];

pub(crate) fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

/// Bytes that tell their position.
pub(crate) fn content(length: usize) -> Vec<u8> {
    (0..length as u32 / 4 + 1)
        .flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes())
        .take(length)
        .collect()
}

/// Runs a client that is to succeed; answers its summary.
pub(crate) fn done(lab: &Lab, args: &[&str]) -> Value {
    let output = lab.run(&[&["alcc"], args, &["--json"]].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{args:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&text).unwrap()
}

/// Runs a client that is to be refused; answers why.
pub(crate) fn refused(lab: &Lab, args: &[&str]) -> String {
    refusal(&lab.run(&[&["alcc"], args].concat()))
}

/// What is not whole at the server.
fn parts(lab: &Lab) -> Vec<String> {
    names(&lab.path("kept/.paceline-uploads"))
}

#[test]
fn files_of_any_size_come_and_go() {
    let lab = Lab::new();
    let mut server = Server::new(&lab, &[]);
    for (at, size) in [0, 1, 16_383, 16_384, 300_001, 2_000_003].into_iter().enumerate() {
        let (name, controller) = (format!("file {at}"), ["copa", "sprout", "cubic", "verus"][at % 4]);
        fs::write(lab.path(&name), content(size)).unwrap();
        let sent = done(&lab, &["send", &name, &server.address, "--controller", controller]);
        assert_eq!((sent["bytes"].as_u64(), sent["resumed_from"].as_u64()), (Some(size as u64), Some(0)), "{sent}");
        assert_eq!((text(&sent, "status"), text(&sent, "name")), ("done".to_owned(), name.clone()));
        for key in ["host", "seconds", "mbps", "controller", "losses", "timeouts"] {
            assert!(!sent[key].is_null(), "{key}: {sent}");
        }
        let rtts = ["min", "p50", "p95", "max"].map(|part| sent["rtt_ms"][part].as_f64().unwrap_or_default());
        assert!(rtts[0] > 0.0 && rtts.is_sorted(), "{sent}");
        let session = server.session();
        assert_eq!((text(&session, "kind"), session["bytes"].as_u64()), ("put".to_owned(), Some(size as u64)));
        assert!(fs::read(lab.path("kept").join(&name)).unwrap() == content(size), "{name}");

        let fetched = done(&lab, &["fetch", &name, &server.address, "--output", "back"]);
        assert_eq!(fetched["bytes"].as_u64(), Some(size as u64));
        assert!(fs::read(lab.path("back")).unwrap() == content(size), "{name}");
        assert_eq!(text(&server.session(), "status"), "done");

        // Once more, as when the last answer was lost.
        let again = done(&lab, &["send", &name, &server.address]);
        assert_eq!((again["bytes"].as_u64(), again["resumed_from"].as_u64()), (Some(0), Some(size as u64)));
        server.session();
    }
    let stat = lab.run(&["alcc", "fetch", "--stat", "file 4", &server.address]);
    assert_eq!(String::from_utf8_lossy(&stat.stdout), "file 4: 300001 bytes\n");
    assert!(refused(&lab, &["fetch", "none", &server.address]).ends_with("says: there is no such file"));
    fs::write(lab.path("file 4"), content(300_002)).unwrap();
    assert!(
        refused(&lab, &["send", "file 4", &server.address]).contains("file 4 is there already, with other content")
    );
    fs::write(lab.path("file 4"), vec![1; 300_001]).unwrap();
    assert!(
        refused(&lab, &["send", "file 4", &server.address]).contains("file 4 is there already, with other content")
    );
    assert!(fs::read(lab.path("kept/file 4")).unwrap() == content(300_001));
    assert!(parts(&lab).is_empty());
    let left: Vec<String> = lab.names().into_iter().filter(|name| name.contains("part") || name == "none").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn bytes_that_mean_nothing_for_measuring() {
    let lab = Lab::new();
    let server = Server::new(&lab, &[]);
    assert_eq!(done(&lab, &["send", "--bytes", "1000001", &server.address])["bytes"].as_u64(), Some(1_000_001));
    let sent = done(&lab, &["send", "--seconds", "0.3", &server.address, "--controller", "sprout"]);
    assert!(sent["bytes"].as_u64() > Some(0) && sent["seconds"].as_f64() >= Some(0.3), "{sent}");
    assert_eq!(done(&lab, &["fetch", "--bytes", "1000001", &server.address])["bytes"].as_u64(), Some(1_000_001));
    assert_eq!(names(&lab.path("kept")), [".paceline-uploads"]);
}

/// Waits until something of an upload is at the server.
fn wait_for_part(folder: &Path) {
    while !names(folder).iter().any(|name| folder.join(name).metadata().is_ok_and(|about| about.len() > 0)) {
        thread::sleep(Duration::from_millis(1));
    }
}

fn send(lab: &Lab, file: &str, address: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
    command.args(["alcc", "send", file, address]).current_dir(lab.folder.path());
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn a_kill_of_either_end_costs_no_byte() {
    let lab = Lab::new();
    let size = 200_000_000;
    let file = File::create(lab.path("film")).unwrap();
    file.set_len(size).unwrap();
    let folder = lab.path("kept/.paceline-uploads");
    let mut server = Server::new(&lab, &[]);
    let mut client = send(&lab, "film", &server.address);
    wait_for_part(&folder);
    client.kill().unwrap();
    client.wait().unwrap();
    let session = server.session();
    assert_eq!((text(&session, "status"), lab.path("kept/film").exists()), ("lost".to_owned(), false), "{session}");

    let before = folder.join(&parts(&lab)[0]).metadata().unwrap().len();
    let mut client = send(&lab, "film", &server.address);
    while folder.join(&parts(&lab)[0]).metadata().is_ok_and(|about| about.len() == before) {
        thread::sleep(Duration::from_millis(1));
    }
    server.kill();
    assert_eq!(client.wait().unwrap().code(), Some(2));
    assert!(!lab.path("kept/film").exists());

    let server = Server::new(&lab, &[]);
    let sent = done(&lab, &["send", "film", &server.address]);
    let resumed = sent["resumed_from"].as_u64().unwrap();
    assert!(resumed > before && resumed + sent["bytes"].as_u64().unwrap() == size, "{sent}");
    assert_eq!(lab.path("kept/film").metadata().unwrap().len(), size);
    assert!(parts(&lab).is_empty());

    // The other way: a part of this end's.
    let part = |byte: u8| {
        let note = format!("paceline part 1\nfilm of {}\n", server.address);
        fs::write(lab.path("back.paceline-part.source"), note).unwrap();
        fs::write(lab.path("back.paceline-part"), vec![byte; 1_000_000]).unwrap();
    };
    part(0);
    let fetched = done(&lab, &["fetch", "film", &server.address, "-o", "back"]);
    assert_eq!(fetched["resumed_from"].as_u64(), Some(1_000_000));
    assert_eq!((lab.path("back").metadata().unwrap().len(), lab.path("back.paceline-part").exists()), (size, false));
    // One that is of another file.
    part(1);
    assert!(refused(&lab, &["fetch", "film", &server.address, "-o", "back"]).contains("what came is not what"));
    assert!(!lab.path("back.paceline-part").exists() && !lab.path("back.paceline-part.source").exists());
}

#[test]
fn of_two_with_one_name_one_wins_whole() {
    let lab = Lab::new();
    let server = Server::new(&lab, &[]);
    for folder in ["one", "two"] {
        fs::create_dir(lab.path(folder)).unwrap();
        fs::write(lab.path(folder).join("same"), folder.repeat(1_000_000)).unwrap();
    }
    let clients = ["one/same", "two/same"].map(|file| send(&lab, file, &server.address));
    let mut codes = clients.map(|mut client| client.wait().unwrap().code());
    let winner = if codes[0] == Some(0) { "one" } else { "two" };
    codes.sort();
    assert_eq!(codes, [Some(0), Some(2)]);
    assert!(fs::read(lab.path("kept/same")).unwrap() == winner.repeat(1_000_000).as_bytes());
    assert!(parts(&lab).is_empty());
}

#[test]
fn a_signal_ends_it_and_once_is_once() {
    let lab = Lab::new();
    fs::write(lab.path("file"), content(1000)).unwrap();
    let mut server = Server::new(&lab, &[]);
    let idle = std::net::TcpStream::connect(&server.address).unwrap();
    assert!(Command::new("kill").args(["-TERM", &server.child.id().to_string()]).status().unwrap().success());
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    drop(idle);
    let mut server = Server::new(&lab, &["--once"]);
    done(&lab, &["send", "file", &server.address]);
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    let mut server = Server::new(&lab, &["--once", "--max-size", "999B"]);
    fs::write(lab.path("file 2"), content(1000)).unwrap();
    let why = refused(&lab, &["send", "file 2", &server.address]);
    assert!(why.ends_with("says: 1000 bytes are more than the 999 that it takes (--max-size)"), "{why}");
    assert_eq!(server.child.wait().unwrap().code(), Some(1));
}

#[test]
fn mistakes_are_one_line() {
    let lab = Lab::new();
    fs::write(lab.path("file"), "x").unwrap();
    lab.write_private("short", "abc");
    for (args, says) in [
        (&["send", "file", "127.0.0.1:1"][..], "127.0.0.1:1: no connection; is a paceline alcc serve there?"),
        (&["send", "none", "127.0.0.1:1"], "none: cannot be read"),
        (&["send", ".", "127.0.0.1:1"], ".: is not a regular file"),
        (&["send", "file", "127.0.0.1:1", "--token", "x"], "--token: a token is plt1.EXPIRY.SCOPE.SECRET"),
        (&["send", "file", "127.0.0.1:1", "--controller", "no"], "--controller no: "),
        (&["send", "file", "127.0.0.1:1", "--tls-ca", "file"], "--tls-ca file: holds no certificate"),
        (&["send", "127.0.0.1:1"], "nothing to send"),
        (&["fetch", "127.0.0.1:1"], "nothing to fetch"),
        (&["serve", "--controller", "sprout"], "--controller sprout: it needs its receiver half at the client"),
        (&["serve", "--key", "short"], "--key short: a key is 64 hexadecimal digits"),
        (&["token", "--key", "none"], "--key none: cannot be read"),
        (&["token", "--key", "file", "--new-key"], "--key file: cannot be made"),
    ] {
        let line = refused(&lab, args);
        assert!(line.starts_with(says), "{args:?}\nfound    {line}\nexpected {says}");
    }
    assert_eq!(lab.names(), ["file", "short", "small.toml"]);
}
