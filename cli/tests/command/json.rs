//! `--json`: what programs get from commands whose other tests look at what people get.

use std::fs;

use serde_json::{Value, json};

use crate::lab::Lab;

/// Standard output, an object a line, and the exit status.
fn objects(lab: &Lab, args: &[&str]) -> (Vec<Value>, Option<i32>) {
    let output = lab.run(args);
    let text = String::from_utf8(output.stdout).unwrap();
    let object = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{args:?}: {error}: {line}"));
    assert!(output.stderr.is_empty(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    (text.lines().map(object).collect(), output.status.code())
}

#[test]
fn traces_say_what_they_are_like() {
    let lab = Lab::new();
    // Three in the first second, none in the second, one at the end of the third.
    fs::write(lab.path("a.down"), "100\n100\n1000\n3000\n").unwrap();
    fs::write(lab.path("steps.csv"), "seconds,mbps\n0,12\n1,24\n2,0\n").unwrap();
    fs::write(lab.path("log"), "100 + 1504\n100 # 1504\n2000 # 1504\n").unwrap();
    fs::write(lab.path("bad.down"), "word\n").unwrap();
    let expected = json!({
        "file": "a.down",
        "lap_s": 3.0,
        "opportunities": 4,
        "mean_mbps": 0.016,
        "second_mbps": { "p5": 0.0, "p50": 0.012, "p95": 0.036 },
        "longest_silence_ms": 2000.0,
    });
    assert_eq!(objects(&lab, &["trace", "info", "a.down", "--json"]), (vec![expected], Some(0)));

    let (checked, status) = objects(&lab, &["trace", "validate", "a.down", "bad.down", "a.down", "--json"]);
    assert_eq!((checked.len(), status), (3, Some(2)));
    assert_eq!(checked[0], json!({ "file": "a.down", "valid": true, "problem": null }));
    assert!(checked[1]["problem"].as_str().unwrap().starts_with("bad.down:1: "), "{}", checked[1]);
    assert_eq!(checked[2]["valid"], true);

    let made = ["trace", "synth", "--seconds", "5", "--output", "synth.down", "--json"];
    for (args, file, lap) in [
        (&made[..], "synth.down", 5.0),
        (&["trace", "convert", "steps.csv", "steps.down", "--json"], "steps.down", 2.0),
        (&["trace", "convert", "steps.down", "again.csv", "--json"], "again.csv", 2.0),
        (&["trace", "import", "log", "log.down", "--json"], "log.down", 1.9),
    ] {
        let (written, status) = objects(&lab, args);
        assert_eq!((written.len(), status), (1, Some(0)), "{args:?}");
        assert_eq!((written[0]["file"].as_str(), written[0]["lap_s"].as_f64()), (Some(file), Some(lap)), "{args:?}");
        assert!(lab.path(file).exists());
    }
}

#[test]
fn models_are_valid_or_have_a_problem() {
    let lab = Lab::new();
    let train = ["mdi", "train", "--cc", "reno", "--synthetic", "1", "--seconds", "2", "--out", "mine.csv"];
    assert_eq!(lab.run(&train).status.code(), Some(0));
    fs::write(lab.path("short.csv"), "2,0,1,1,1,0,0,1\n1,0\n0.5\n").unwrap();
    let (checked, status) = objects(&lab, &["mdi", "check", "short.csv", "mine.csv", "--json"]);
    assert_eq!((checked.len(), status), (2, Some(2)));
    assert!(checked[0]["problem"].as_str().unwrap().contains("line 3, column 1"), "{}", checked[0]);
    assert_eq!(checked[1], json!({ "file": "mine.csv", "valid": true, "problem": null }));
}

#[test]
fn a_replay_is_equal_or_differs_at_a_line() {
    let lab = Lab::new();
    let race = ["race", "small.toml", "--contestants", "reno@tcp", "--runs", "1", "--events", "logs"];
    assert_eq!(lab.run(&race).status.code(), Some(0));
    let log = fs::read_dir(lab.path("logs")).unwrap().next().unwrap().unwrap().path();
    let (said, status) = objects(&lab, &["replay", log.to_str().unwrap(), "--json"]);
    assert_eq!(
        (said[0]["equal"].as_bool(), said[0]["controller"].as_str(), status),
        (Some(true), Some("reno"), Some(0))
    );
    assert!(said[0]["events"].as_u64() > Some(100), "{}", said[0]);

    // The header names who answers.
    let text = fs::read_to_string(&log).unwrap().replacen("\"reno\"", "\"fixed:window=3\"", 1);
    fs::write(lab.path("other.jsonl"), text).unwrap();
    let output = lab.run(&["replay", "other.jsonl", "--json"]);
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&said["equal"], &said["controller"], output.status.code()),
        (&false.into(), &"fixed:window=3".into(), Some(1))
    );
    assert!(said["line"].is_number() && said["recorded"] != said["replayed"], "{said}");
}

#[test]
fn rules_are_listed() {
    let lab = Lab::new();
    let (rules, status) = objects(&lab, &["conform", "--list", "--json", "-"]);
    assert!(rules.len() > 10 && status == Some(0));
    assert!(rules.iter().all(|rule| rule["rule"].is_string() && rule["source"].is_string() && rule["low"].is_number()));
}

#[cfg(target_os = "linux")]
mod here {
    use super::*;
    use crate::named::{published, start};
    use crate::udp::Server;

    const KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n";

    #[test]
    fn a_program_can_be_served_or_not() {
        let lab = Lab::new();
        fs::write(lab.path("script"), "#!/bin/sh\n").unwrap();
        let (said, status) = objects(&lab, &["shim", "--check", "sh", "--json"]);
        // Whether the library stands beside the command is not this test's matter.
        assert_eq!(said[0]["served"], status == Some(0), "{}", said[0]);
        assert!(said[0]["program"].as_str().unwrap().ends_with("/sh"), "{}", said[0]);
        assert!(
            said[0]["verdict"].is_string()
                && (said[0]["library"].is_string() != said[0]["library_problem"].is_string())
        );
    }

    /// Their helper reads the first line, whichever form it has.
    #[test]
    fn servers_begin_with_an_object() {
        let lab = Lab::new();
        lab.write_private("key", KEY);
        let name = published(&lab, "film.mp4", b"a film");
        let router = start(&lab, &["serve", "--store", "store", "--listen", "127.0.0.1:0", "--json"]);
        let resolver = start(&lab, &["resolver", "--listen", "127.0.0.1:0", "--key", "key", "--json"]);
        let gateway = start(&lab, &["gateway", "--listen", "127.0.0.1:0", "--from", &router.address, "--json"]);
        let serve = Server::new(&lab, &["--json"]);
        for server in [&router, &resolver, &serve] {
            assert!(server.said_json && server.address.starts_with("127.0.0.1:"), "{}", server.address);
        }
        assert!(gateway.said_json && gateway.address.starts_with("http://127.0.0.1:"), "{}", gateway.address);
        let got = lab.run(&["icn", "fetch", &name, "--from", &router.address, "--out", "copy", "--json"]);
        assert_eq!(got.status.code(), Some(0), "{}", String::from_utf8_lossy(&got.stderr));
    }

    #[test]
    fn a_token_is_an_object() {
        let lab = Lab::new();
        let make = ["alcc", "token", "--key", "key", "--new-key", "--scope", "day/", "--days", "1", "--json"];
        let (said, status) = objects(&lab, &make);
        assert_eq!((said[0]["scope"].as_str(), status), (Some("day/"), Some(0)));
        assert!(said[0]["token"].is_string() && said[0]["expires_s"].as_u64() > Some(1_700_000_000), "{}", said[0]);
    }

    #[test]
    fn a_recording_is_described_at_both_ends() {
        let lab = Lab::new();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_paceline"));
        let mut server = Server::start(command.args(["trace", "record", "--listen", "127.0.0.1:0", "--json"]), &lab);
        assert!(server.said_json);
        let always = ["trace", "record", &server.address, "--seconds", "1", "--lead", "1", "--most", "2mbit"];
        let recorded = lab.run(&[&always[..], &["--down", "d", "--up", "u", "--json"]].concat());
        assert_eq!(recorded.status.code(), Some(0), "{}", String::from_utf8_lossy(&recorded.stderr));
        let said: Value = serde_json::from_slice(&recorded.stdout).unwrap();
        assert_eq!(
            (&said["down"]["file"], &said["up"]["file"], &said["seconds"]),
            (&"d".into(), &"u".into(), &1.into())
        );
        assert!(said["down"]["lap_s"] == 1.0 && said["up"]["mean_mbps"].as_f64() > Some(0.0), "{said}");
        // Two sessions, which may end in either order.
        let lines: Vec<Value> = (0..2).map(|_| serde_json::from_str(&server.line()).unwrap()).collect();
        assert!(lines.iter().any(|line| line["recorded_s"] == 1 && line["sent_packets"].is_number()), "{lines:?}");
        assert!(lines.iter().any(|line| line["fetched_bytes"].as_u64() > Some(0)), "{lines:?}");
    }
}
