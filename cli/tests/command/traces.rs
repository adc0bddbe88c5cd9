//! `paceline trace`: made, looked at, turned into a table and back; and what it refuses.

use std::fs;

use super::lab::{Lab, refusal};

#[test]
fn a_trace_is_made_from_its_seed_and_valid() {
    let lab = Lab::new();
    let synth = |seed, file| {
        let args = ["trace", "synth", "--mean", "6 Mbit/s", "--seconds", "5", "--seed", seed, "--output", file];
        let output = lab.run(&args);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stdout.is_empty() && output.stderr.is_empty());
        fs::read(lab.path(file)).unwrap()
    };
    let first = synth("7", "a.down");
    assert_eq!(synth("7", "b.down"), first);
    assert_ne!(synth("8", "c.down"), first);
    let valid = lab.run(&["trace", "validate", "a.down", "b.down", "c.down"]);
    assert_eq!(valid.status.code(), Some(0));
    assert!(valid.stdout.is_empty() && valid.stderr.is_empty());
    assert_eq!(lab.names(), ["a.down", "b.down", "c.down", "small.toml"]);

    let info = String::from_utf8(lab.run(&["trace", "info", "a.down"]).stdout).unwrap();
    assert!(info.starts_with("a.down\n  "), "{info}");
    let last = String::from_utf8(first).unwrap().lines().last().unwrap().to_owned();
    assert_eq!(last, "5000");
    assert!(info.contains(" 5.000 s\n"), "{info}");
}

#[test]
fn a_table_becomes_a_trace_and_a_table_again() {
    let lab = Lab::new();
    // 12 Mbit/s are an opportunity of 1500 bytes each millisecond.
    fs::write(lab.path("steps.csv"), "seconds,mbps\n0,12\n1,24\n2,0\n").unwrap();
    assert_eq!(lab.run(&["trace", "convert", "steps.csv", "steps.down"]).status.code(), Some(0));
    let trace = fs::read_to_string(lab.path("steps.down")).unwrap();
    assert_eq!(trace.lines().next(), Some("1"));
    assert_eq!(trace.lines().count(), 3000);
    assert_eq!(lab.run(&["trace", "convert", "steps.down", "again.csv", "--bin", "1s"]).status.code(), Some(0));
    let table = fs::read_to_string(lab.path("again.csv")).unwrap();
    let rows: Vec<&str> = table.lines().collect();
    assert_eq!(rows, ["seconds,mbps", "0,12.000000", "1,24.000000", "2,0"]);
}

#[test]
fn refusals() {
    let lab = Lab::new();
    for (name, text) in [
        ("good.down", "1\n2\n"),
        ("negative.csv", "seconds,mbps\n0,-5\n1,0\n"),
        ("bare.csv", "seconds,mbps\n"),
        ("late.csv", "seconds,mbps\n1,5\n2,0\n"),
        ("stuck.csv", "seconds,mbps\n0,5\n0,5\n"),
        ("word.csv", "seconds,mbps\n0,x\n1,0\n"),
    ] {
        fs::write(lab.path(name), text).unwrap();
    }
    let before = lab.names();
    let cases: &[(&[&str], &str)] = &[
        (&["convert", "negative.csv", "out.down"], "negative.csv:2: -5 is not a rate; give Mbit/s from 0"),
        (&["convert", "bare.csv", "out.down"], "bare.csv:1: the table has no length; give at least two lines"),
        (&["convert", "late.csv", "out.down"], "late.csv:2: the first line is not at second 0; write"),
        (&["convert", "stuck.csv", "out.down"], "stuck.csv:3: second 0 does not come after the line before; sort"),
        (&["convert", "word.csv", "out.down"], "word.csv:2: '0,x' is not a time and a rate; write"),
        (&["convert", "none.down", "out.csv"], "none.down: cannot be read"),
        (&["convert", "good.down", "out.csv", "--bin", "0s"], "--bin: a step is too short; give at least 1ms"),
        (&["convert", "good.down", "out.csv", "--bin", "5"], "invalid value '5' for '--bin <TIME>': '5' is not a time"),
        (&["convert", "good.down"], "the following required arguments were not provided: <OUTPUT>"),
        (&["info"], "the following required arguments were not provided: <FILE>"),
        (&["info", "none.down"], "none.down: cannot be read"),
        (&["validate", "."], ".: cannot be read"),
        (&["synth"], "the following required arguments were not provided: --output <FILE>"),
        (&["synth", "--output", "x.down", "--mean", "0bit/s"], "--mean: give a rate above 0"),
        (
            &["synth", "--output", "x.down", "--mean", "-5 Mbit/s"],
            "invalid value '-5 Mbit/s' for '--mean <RATE>': '-5 Mbit/s' is not a rate such as",
        ),
        (&["synth", "--output", "x.down", "--seconds", "0"], "--seconds: give from 1 second to 49 days"),
        (
            &["synth", "--output", "x.down", "--seconds", "-1"],
            "invalid value '-1' for '--seconds <S>': it is not a whole",
        ),
        (&["synth", "--output", "x.down", "--relax", "0s"], "--relax: give at least 100ms"),
        (
            &["synth", "--output", "x.down", "--outage", "1"],
            "invalid value '1' for '--outage <TIME>': '1' is not a time",
        ),
        (&["synt"], "unrecognized subcommand 'synt'; a similar subcommand exists: 'synth'"),
    ];
    for (args, expected) in cases {
        let found = refusal(&lab.run(&[&["trace"], *args].concat()));
        assert!(found.starts_with(expected), "{args:?}\nfound    {found}\nexpected {expected}");
    }
    assert_eq!(lab.names(), before, "a refusal leaves nothing behind");
}

#[test]
fn logs_and_tables_of_others_become_traces() {
    let lab = Lab::new();
    fs::write(lab.path("link.log"), "# base timestamp: 7\n100 # 1504\n102 # 1504\n102 + 1500\n104 # 1504\n").unwrap();
    fs::write(lab.path("cell.csv"), "ts,down\n1000,12000\n1002,12000\n1004,0\n").unwrap();
    assert_eq!(lab.run(&["trace", "import", "link.log", "link.down"]).status.code(), Some(0));
    assert_eq!(fs::read_to_string(lab.path("link.down")).unwrap(), "0\n2\n4\n");
    let table = ["trace", "import", "cell.csv", "cell.down", "--time", "ts", "--time-unit", "ms", "--rate", "down"];
    let output = lab.run(&[table.as_slice(), &["--rate-unit", "kbit/s"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::read_to_string(lab.path("cell.down")).unwrap(), "1\n2\n3\n4\n6\n");
    let refused = refusal(&lab.run(&["trace", "import", "cell.csv", "x.down"]));
    assert!(refused.starts_with("cell.csv:1: no column 'time' among ts,down; name columns"), "{refused}");
    fs::write(lab.path("broken.log"), "100 # 1504\n101 % 3\n").unwrap();
    let refused = refusal(&lab.run(&["trace", "import", "broken.log", "x.down"]));
    assert!(refused.starts_with("broken.log:2: '%' is not a kind of event; "), "{refused}");
    assert!(!lab.path("x.down").exists());
}

/// Both ends of a recording.
#[cfg(target_os = "linux")]
mod record {
    use std::fs;
    use std::process::Command;

    use super::{Lab, refusal};
    use crate::udp::Server;

    const KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n";

    fn server(lab: &Lab, args: &[&str]) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
        Server::start(command.args(["trace", "record", "--listen", "127.0.0.1:0"]).args(args), lab)
    }

    #[test]
    fn both_directions_over_loopback() {
        let lab = Lab::new();
        lab.write_private("key", KEY);
        let server = server(&lab, &["--key", "key", "--most", "20mbit"]);
        let address = server.address.clone();
        let ask = |more: &[&str]| {
            let always = ["trace", "record", &address, "--key", "key", "--seconds", "1", "--lead", "1"];
            lab.run(&[always.as_slice(), more].concat())
        };
        let recorded = ask(&["--down", "d", "--up", "u", "--most", "2mbit"]);
        let (out, err) = (String::from_utf8_lossy(&recorded.stdout), String::from_utf8_lossy(&recorded.stderr));
        assert_eq!(recorded.status.code(), Some(0), "{err}");
        // Loopback carries more than was sent, so the recording is of --most, and says so.
        assert!(out.starts_with("d\n") && out.contains("\nu\n") && out.contains(" 1.000 s\n"), "{out}");
        assert_eq!(err.matches("the link may carry more; give a higher one").count(), 2, "{err}");
        for file in ["d", "u"] {
            let lines = fs::read_to_string(lab.path(file)).unwrap().lines().count();
            assert!((60..=200).contains(&lines), "{file}: {lines}");
        }
        assert_eq!(lab.run(&["trace", "validate", "d", "u"]).status.code(), Some(0));

        // One direction alone, and what the other end refuses.
        let down = ask(&["--down", "alone", "--most", "2mbit"]);
        assert_eq!(down.status.code(), Some(0), "{}", String::from_utf8_lossy(&down.stderr));
        assert!(lab.path("alone").exists());
        let fast = refusal(&ask(&["--down", "fast", "--most", "50mbit"]));
        assert!(fast.contains("it sends at most 20 Mbit/s; give --most 20mbit"), "{fast}");
        assert!(!lab.path("fast").exists());
        let stranger = lab.run(&["trace", "record", &address, "--seconds", "1", "--down", "x"]);
        assert!(refusal(&stranger).contains("it has a key; give --key FILE"));
        let file = lab.run(&["send", "--bytes", "1", &address, "--key", "key"]);
        assert!(refusal(&file).contains("it records traces alone"));
        server.stop();
    }

    #[test]
    fn refusals_of_recordings() {
        let lab = Lab::new();
        for (args, problem) in [
            (&["192.0.2.1:9", "--seconds", "1", "--up", "u"][..], "is not loopback: give both ends the same key"),
            (&["127.0.0.1:9", "--up", "u"], "--seconds: say how long"),
            (&["127.0.0.1:9", "--seconds", "1"], "nothing to record: give --down FILE, --up FILE or both"),
            (&["127.0.0.1:9", "--seconds", "1", "--up", "u", "--down", "u"], "u is the place of --down too"),
            (&["127.0.0.1:9", "--seconds", "4000", "--up", "u"], "4000 s is not between 1 and 3600 s"),
            (&["127.0.0.1:9", "--seconds", "1", "--lead", "61", "--up", "u"], "a lead of 61 s is longer than 60 s"),
            (&["--listen", "192.0.2.1:9"], "is not loopback: give both ends the same key"),
        ] {
            let said = refusal(&lab.run(&[&["trace", "record"], args].concat()));
            assert!(said.contains(problem), "{args:?}: {said}");
            assert!(!lab.path("u").exists());
        }
    }

    #[test]
    fn a_recording_ends_when_the_other_end_is_gone() {
        let lab = Lab::new();
        let server = server(&lab, &["--timeout", "1"]);
        let child = Command::new(env!("CARGO_BIN_EXE_paceline"))
            .args([
                "trace",
                "record",
                &server.address,
                "--seconds",
                "60",
                "--down",
                "d",
                "--timeout",
                "1",
                "--most",
                "1mbit",
            ])
            .current_dir(lab.folder.path())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(500));
        server.stop();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && (said.contains("silent") || said.contains("no program listens")), "{said}");
        assert!(!lab.path("d").exists());
    }
}
