//! `paceline icn route`, and fetches that are killed, over loopback.

use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use paceline_fixture::until;
use serde_json::Value;

use crate::lab::{Lab, refusal};
use crate::named::{content, published, start};
use crate::udp::Server;

/// A router forgets what it passed on and did not keep after 3 s.
const FORGOTTEN: Duration = Duration::from_secs(4);

fn fetch(lab: &Lab, name: &str, from: &str, args: &[&str]) -> Output {
    lab.run(&[&["icn", "fetch", name, "--from", from, "--out", "copy", "--json"], args].concat())
}

fn fetched(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A port that is not in use.
fn free() -> String {
    UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).unwrap().to_string()
}

fn route(lab: &Lab, cache: &str, listen: &str, upstream: &str) -> Server {
    start(lab, &["route", "--cache", cache, "--size", "100MB", "--listen", listen, "--upstream", upstream])
}

#[test]
fn what_a_router_was_asked_for_twice_it_has_when_the_others_are_gone() {
    let lab = Lab::new();
    let name = published(&lab, "film.mp4", &content());
    let origin = start(&lab, &["serve", "--store", "store", "--listen", "127.0.0.1:0"]);
    let router = route(&lab, "kept", "127.0.0.1:0", &origin.address);
    for _ in 0..2 {
        assert_eq!(fetched(&fetch(&lab, &name, &router.address, &[]))["bytes"], 2_400_000);
        assert!(fs::read(lab.path("copy")).unwrap() == content());
        std::thread::sleep(FORGOTTEN);
    }
    drop(origin);
    fetched(&fetch(&lab, &name, &router.address, &[]));
    assert!(fs::read(lab.path("copy")).unwrap() == content());
    // On the disk as well, whatever ends the router.
    let whole = || {
        let stat = lab.run(&["icn", "stat", "--store", "kept", "--json", &name]);
        serde_json::from_slice::<Value>(&stat.stdout).is_ok_and(|stat| stat["whole"] == true)
    };
    until("it is on the disk", whole);
    // Killed without a word.
    drop(router);
    let router = route(&lab, "kept", "127.0.0.1:0", &free());
    fetched(&fetch(&lab, &name, &router.address, &["--range", "1000-"]));
    assert!(fs::read(lab.path("copy")).unwrap() == content()[1000..]);
    // What it does not have it cannot get.
    let other = published(&lab, "other", b"something else");
    let output = fetch(&lab, &other, &router.address, &["--timeout", "2"]);
    let line = refusal(&output);
    assert!(line.contains(&other), "{line}");
}

#[test]
fn routers_that_ask_each_other_say_so() {
    let lab = Lab::new();
    let name = published(&lab, "film.mp4", b"a film");
    let (one, two) = (free(), free());
    let routers = [route(&lab, "one", &one, &two), route(&lab, "two", &two, &one)];
    let line = refusal(&fetch(&lab, &name, &one, &[]));
    assert!(line.contains("more than 8 routers"), "{line}");
    drop(routers);
}

#[test]
fn what_a_router_cannot_do_is_said_in_one_line() {
    let lab = Lab::new();
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    let run =
        |args: &[&str]| refusal(&lab.run(&[&["icn", "route", "--cache", "kept", "--size", "10MB"], args].concat()));
    let line = run(&["--listen", &at, "--upstream", "127.0.0.1:9"]);
    assert!(line.contains(&format!("{at}: another program listens there")), "{line}");
    let line = run(&["--listen", "127.0.0.1:0"]);
    assert!(line.contains("--upstream"), "{line}");
    let line = run(&["--listen", "192.0.2.7:9", "--upstream", "127.0.0.1:9"]);
    assert!(line.contains("this host does not have that address"), "{line}");
    let router = route(&lab, "kept", "127.0.0.1:0", "127.0.0.1:9");
    let line = run(&["--listen", "127.0.0.1:0", "--upstream", "127.0.0.1:9"]);
    assert!(line.contains("is in use by another process"), "{line}");
    drop(router);
}

/// Units that a part says are there.
fn held(lab: &Lab) -> u64 {
    let map = fs::read(lab.path("copy.paceline-part.units")).unwrap_or_default();
    map.get(4096..8192).map_or(0, |bits| bits.iter().map(|byte| u64::from(byte.count_ones())).sum())
}

/// Starts a fetch, and kills it when there are this many units.
fn killed(lab: &Lab, name: &str, from: &str, args: &[&str], enough: u64) {
    let mut fetch = Command::new(env!("CARGO_BIN_EXE_paceline"));
    fetch.args(["icn", "fetch", name, "--from", from, "--out", "copy"]).args(args);
    let mut fetch = fetch.current_dir(Path::new(lab.folder.path())).stdout(Stdio::null()).spawn().unwrap();
    while held(lab) < enough {
        assert!(fetch.try_wait().unwrap().is_none(), "it ended early");
        std::thread::sleep(Duration::from_millis(2));
    }
    // SIGKILL.
    fetch.kill().unwrap();
    fetch.wait().unwrap();
}

#[test]
fn a_fetch_that_is_killed_goes_on_with_what_is_missing() {
    let lab = Lab::new();
    let name = published(&lab, "film.mp4", &content());
    let serve = |rate: &str| start(&lab, &["serve", "--store", "store", "--listen", "127.0.0.1:0", "--rate", rate]);
    for (args, wanted) in [(&[][..], 0..2_400_000), (&["--range", "700000-1999999"][..], 700_000..2_000_000)] {
        let slow = serve("10Mbps");
        killed(&lab, &name, &slow.address, args, 100);
        let once = held(&lab);
        killed(&lab, &name, &slow.address, args, once + 100);
        drop(slow);
        let there = held(&lab);
        let router = serve("1Gbps");
        let done = fetched(&fetch(&lab, &name, &router.address, args));
        assert!(fs::read(lab.path("copy")).unwrap() == content()[wanted.clone()]);
        let resumed = done["resumed"].as_u64().unwrap();
        // One of 59 is an index unit.
        assert!(there >= 200 && resumed >= (there - there / 50 - 4) * 1400, "{there} units: {done}");
        assert_eq!(resumed + done["bytes"].as_u64().unwrap(), (wanted.end - wanted.start) as u64);
        assert!(!lab.path("copy.paceline-part").exists() && !lab.path("copy.paceline-part.units").exists());
        fs::remove_file(lab.path("copy")).unwrap();
    }
}
