//! Bad input: exit status 2, exactly one line that says where and what to write instead, and nothing left behind.

use std::fs;

use super::lab::{Lab, SCENARIO, refusal};

/// Runs each and compares the start of its line.
fn all(lab: &Lab, cases: &[(&[&str], &str)]) {
    let before = lab.names();
    for (args, expected) in cases {
        let found = refusal(&lab.run(args));
        assert!(found.starts_with(expected), "{args:?}\nfound    {found}\nexpected {expected}");
    }
    assert_eq!(lab.names(), before, "a refusal leaves nothing behind");
}

/// With traces that are wrong, each in its own way.
fn bad_traces() -> Lab {
    let lab = Lab::new();
    for (name, bytes) in [
        ("good.down", &b"1\n2\n"[..]),
        ("empty.down", b""),
        ("zero.down", b"0\n0\n"),
        ("text.down", b"1\nabc\n"),
        ("binary.down", b"1\n\xff\xfe\n"),
        ("falls.down", b"1\n5\n3\n"),
        ("negative.down", b"1\n-5\n"),
        ("large.down", b"4294967296\n"),
        ("gap.down", b"1\n\n2\n"),
    ] {
        fs::write(lab.path(name), bytes).unwrap();
    }
    lab
}

const BAD_TRACES: [(&str, &str); 8] = [
    ("empty.down", "empty.down: the trace is empty; it needs"),
    ("zero.down", "zero.down:2: the trace ends at 0 ms"),
    ("text.down", "text.down:2: 'abc' is not a whole number"),
    ("binary.down", "binary.down:2: not a text file"),
    ("falls.down", "falls.down:3: 3 ms comes after 5 ms; times must not decrease"),
    ("negative.down", "negative.down:2: '-5' is not a whole number"),
    ("large.down", "large.down:1: 4294967296 ms is too long"),
    ("gap.down", "gap.down:2: a blank line within the trace; take it out"),
];

#[test]
fn bad_traces_wherever_they_are_given() {
    let lab = bad_traces();
    for (name, expected) in BAD_TRACES {
        all(
            &lab,
            &[
                (&["trace", "info", "good.down", name], expected),
                (&["trace", "validate", "good.down", name], expected),
                (&["trace", "convert", name, "out.csv"], expected),
                (&["race", "small.toml", "--trace", name, "--json", "r.jsonl"], expected),
                (&["race", "small.toml", "--up", name], expected),
            ],
        );
        fs::write(lab.path("small.toml"), SCENARIO.replace("rate = \"5 Mbit/s\"", &format!("trace = \"{name}\"")))
            .unwrap();
        all(&lab, &[(&["race", "small.toml"], expected)]);
        fs::write(lab.path("small.toml"), SCENARIO).unwrap();
    }
}

#[test]
fn scenarios() {
    let lab = Lab::new();
    let cases = [
        ("queue", "queu", "bad.toml:9: down.queu: unknown key 'queu'; did you mean queue?"),
        ("5 Mbit", "-5 Mbit", "bad.toml:7: down.rate: '-5 Mbit/s' is not a rate"),
        ("5 Mbit", "0 Mbit", "bad.toml:7: down.rate: a link of rate 0 carries nothing; give"),
        ("60kB", "0B", "bad.toml:9: down.queue: queue 'droptail': bytes=0B is not a size above 0"),
        ("bytes=60kB", "packets=0", "bad.toml:9: down.queue: queue 'droptail': packets=0 is not a whole number"),
        ("droptail", "drptail", "bad.toml:9: down.queue: unknown queue 'drptail'; did you mean droptail"),
        ("seconds = 2", "seconds = 0", "bad.toml:3: seconds: 0 is not above 0"),
        ("copa@udp", "sprout@tcp", "bad.toml:5: contestants[2]: 'sprout@tcp': sprout needs its receiver half"),
        ("copa@udp", "copa@upd", "bad.toml:5: contestants[2]: 'copa@upd': unknown datapath 'upd'; did you mean udp"),
    ];
    for (old, new, expected) in cases {
        fs::write(lab.path("bad.toml"), SCENARIO.replacen(old, new, 1)).unwrap();
        all(&lab, &[(&["race", "bad.toml", "--report", "page", "--json", "r.jsonl"], expected)]);
    }
    fs::write(lab.path("bad.toml"), b"\xff\x00").unwrap();
    all(&lab, &[(&["race", "bad.toml"], "bad.toml: cannot be read (stream did not contain valid UTF-8); name")]);
    fs::write(lab.path("bad.toml"), "").unwrap();
    all(&lab, &[(&["race", "bad.toml"], "bad.toml:1: name: this key is missing; add it")]);
    all(&lab, &[(&["race", "none.toml"], "none.toml: cannot be read"), (&["race", "."], ".: cannot be read")]);
}

#[test]
fn options_of_race() {
    let count =
        |value, option| format!("invalid value '{value}' for '{option} <N>': it is not a whole number from 0 on");
    let (seed, runs, threads) = (count("-1", "--seed"), count("x", "--runs"), count("-2", "--threads"));
    all(
        &Lab::new(),
        &[
            (&["race", "small.toml", "--seconds", "0"], "--seconds: 0 is not above 0"),
            (&["race", "small.toml", "--seconds", "-5"], "--seconds: -5 is not above 0"),
            (&["race", "small.toml", "--seconds", "nan"], "--seconds: NaN is not above 0"),
            (
                &["race", "small.toml", "--seconds", "x"],
                "invalid value 'x' for '--seconds <S>': it is not a time; give",
            ),
            (
                &["race", "small.toml", "--secnds", "5"],
                "unexpected argument '--secnds' found; a similar argument exists: '--seconds'",
            ),
            (&["race", "small.toml", "--runs", "0"], "--runs: 0 is not between 1 and 10000; give"),
            (&["race", "small.toml", "--seed", "-1"], &seed),
            (&["race", "small.toml", "--runs", "x"], &runs),
            (&["race", "small.toml", "--threads", "-2"], &threads),
            (&["race", "small.toml", "--contestants", ""], "--contestants: there is no contestant; give at least one"),
            (
                &["race", "small.toml", "--contestants", "sprout@tcp"],
                "--contestants: 'sprout@tcp': sprout needs its receiver half",
            ),
            (
                &["race", "small.toml", "--contestants", "cubic@quic"],
                "cubic@quic: the simulator has no datapath 'quic'; add --real, or write cubic@udp",
            ),
            (
                &["race", "small.toml", "--contestants", "copa:dlta=1@udp"],
                "--contestants: controller 'copa' has no parameter 'dlta'; did you mean delta?",
            ),
            (&["race", "small.toml", "--trace", "."], "--trace: . cannot be read"),
            (&["race", "small.toml", "--up", "none.down"], "--up: none.down cannot be read"),
            (
                &["race", "small.toml", "--set", "down.rate=1 Mbit/s", "--set", "down.dealy=1ms"],
                "--set down.dealy=1ms: down.dealy: unknown key 'dealy'; did you mean delay?",
            ),
            (&["race", "small.toml", "--set", "delay"], "--set delay: there is no '=' in it; write KEY=VALUE"),
            (&["race", "small.toml", "--set", "flows.0.count=2"], "--set flows.0.count=2: flows.0: flows is not given"),
            (&["race", "small.toml", "--set", "runs=x\ny"], "--set runs=x y: runs: string"),
            (&["race"], "the following required arguments were not provided: <SCENARIO>"),
        ],
    );
}

#[test]
fn places_that_cannot_be_written() {
    let lab = Lab::new();
    all(
        &lab,
        &[
            (
                &["race", "small.toml", "--json", "no/such/file"],
                "no/such/file: cannot be written (No such file or directory (os error 2)); name",
            ),
            (
                &["race", "small.toml", "--csv", "small.toml/r.csv"],
                "small.toml/r.csv: cannot be written (Not a directory (os error 20))",
            ),
            (&["race", "small.toml", "--json", "r", "--report", "small.toml"], "small.toml: cannot be written"),
            (
                &["race", "small.toml", "--report", "small.toml/page"],
                "small.toml/page: cannot be written (Not a directory (os error 20))",
            ),
            (
                &["race", "small.toml", "--qlog", "small.toml/logs"],
                "small.toml/logs: cannot be written (Not a directory (os error 20))",
            ),
            (
                &["race", "small.toml", "--events", "small.toml/logs"],
                "small.toml/logs: cannot be written (Not a directory (os error 20))",
            ),
            (&["race", "small.toml", "--json", "-", "--csv", "-"], "--csv: - is the place of --json too"),
            (
                &["trace", "synth", "--output", "small.toml/x.down"],
                "small.toml/x.down: cannot be written (Not a directory (os error 20))",
            ),
            (
                &["validate", "--out", "no/page.md"],
                "--out: no/page.md: cannot be written (No such file or directory (os error 2)); name",
            ),
            (
                &["validate", "--json", "small.toml/v"],
                "--json: small.toml/v: cannot be written (Not a directory (os error 20)); a file stands where",
            ),
        ],
    );
    assert_eq!(fs::read_to_string(lab.path("small.toml")).unwrap(), SCENARIO);
}

#[test]
fn what_people_write_by_mistake() {
    all(
        &Lab::new(),
        &[
            (&["race", "smal.toml"], "smal.toml: cannot be read (there is no such file; did you mean small.toml?)"),
            (&["race", "."], ".: cannot be read (it is a folder); name a scenario file"),
            (
                &["race", "--scenario", "small.toml"],
                "race has no --scenario: the file stands alone: write paceline race",
            ),
            (&["controllers", "copa@udp"], "'copa@udp' is a contestant; give its controller alone: copa"),
            #[cfg(target_os = "linux")]
            (&["emulate", "ls"], "a program stands behind --: write paceline emulate [OPTIONS] -- ls; see"),
            #[cfg(target_os = "linux")]
            (
                &["emulate", "--queue", "droptail:2mb", "--", "true"],
                "invalid value 'droptail:2mb' for '--queue <QUEUE>': queue 'droptail': limit=2mb is not a number with a unit",
            ),
            #[cfg(target_os = "linux")]
            (
                &["emulate", "--queue", "droptail:100p", "--", "true"],
                "invalid value 'droptail:100p' for '--queue <QUEUE>': queue 'droptail': limit=100p is not a number with a unit",
            ),
            #[cfg(target_os = "linux")]
            (&["send", "small.toml"], "there is no address to send small.toml to; give FILE ADDR"),
            #[cfg(target_os = "linux")]
            (&["send", "small.toml", "127.0.0.1:99999"], "'127.0.0.1:99999': a port is a number up to 65535"),
            #[cfg(target_os = "linux")]
            (&["fetch", "--seconds", "1", "127.0.0.1"], "fetch has no --seconds: the server knows no end of it; give"),
            #[cfg(feature = "parquet")]
            (
                &["sweep", "small.toml"],
                "small.toml:1: this is a scenario; write a file with scenario = \"small.toml\" and a [grid]",
            ),
        ],
    );
}

#[test]
fn what_others_call_output() {
    let expected = "race has no --output: the report goes to --report DIR, records to --json,";
    all(&Lab::new(), &[(&["race", "small.toml", "--output", "x"], expected)]);
    let expected = "reproduce has no --out; it has --report DIR, --json FILE; see paceline reproduce --help";
    all(&Lab::new(), &[(&["reproduce", "paced-chirping", "--figure", "fig6", "--out", "x"], expected)]);
    let expected = "trace synth has no --out; it has --output FILE, --json; see paceline trace synth --help";
    all(&Lab::new(), &[(&["trace", "synth", "--out", "x"], expected)]);
    let expected = "the argument '--json' cannot be used multiple times";
    all(&Lab::new(), &[(&["controllers", "--json", "--json"], expected)]);
    let expected = "unexpected argument '--colour' found; see paceline reproduce --help";
    all(&Lab::new(), &[(&["reproduce", "--figure", "fig6", "--colour"], expected)]);
    let expected = "--contestants: 'reno@tcp cubic@tcp': unknown datapath 'tcp cubic@tcp'; put a comma between";
    all(&Lab::new(), &[(&["race", "small.toml", "--contestants", "reno@tcp cubic@tcp"], expected)]);
    let expected = "--set down.queue=cake: down.queue: unknown queue 'cake'; fq_codel shares a link among flows";
    all(&Lab::new(), &[(&["race", "small.toml", "--set", "down.queue=cake"], expected)]);
    let expected = "the following required arguments were not provided: --real";
    all(&Lab::new(), &[(&["race", "small.toml", "--interval", "1"], expected)]);
    all(&Lab::new(), &[(&["race", "small.toml", "--pcap", "captures"], expected)]);
}

#[cfg(not(feature = "parquet"))]
#[test]
fn parquet_is_not_in_every_build() {
    let expected = "--parquet: this paceline was built without Parquet; build it with 'cargo build";
    all(&Lab::new(), &[(&["race", "small.toml", "--parquet", "r.parquet"], expected)]);
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_is_a_file() {
    let lab = Lab::new();
    all(
        &lab,
        &[(&["race", "small.toml", "--parquet", "-"], "--parquet: - is for text, and Parquet is not text; name")],
    );
    let output = lab.run(&["race", "small.toml", "--seconds", "1", "--parquet", "r.parquet"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(fs::read(lab.path("r.parquet")).unwrap().starts_with(b"PAR1"));
}

#[test]
fn other_commands() {
    let lab = Lab::new();
    fs::write(lab.path("text.jsonl"), "{}\n").unwrap();
    fs::write(lab.path("empty.jsonl"), "").unwrap();
    fs::write(lab.path("binary.jsonl"), b"\xff\x00").unwrap();
    let header = r#"{"format":"paceline-events","version":1,"controller":"cubc","env":{"mss":1448},"constants":{"recovery":"prr","ecn":"off"},"answers":{"pacing":"free","next_tick":0}}"#;
    fs::write(lab.path("unknown.jsonl"), header).unwrap();
    fs::File::create(lab.path("hole.jsonl")).unwrap().set_len(100 << 20).unwrap();
    all(
        &lab,
        &[
            (&[], "no command is given"),
            (&["controlers"], "unrecognized subcommand 'controlers'; a similar subcommand exists: 'controllers'"),
            (&["version"], "version is an option; write paceline --version"),
            (&["controllers", "cubc"], "unknown controller 'cubc'; did you mean cubic?"),
            (
                &["controllers", "cubic", "--jsn"],
                "unexpected argument '--jsn' found; a similar argument exists: '--json'",
            ),
            (&["report", "text.jsonl", "--out", "page"], "text.jsonl:1: not a record (missing field"),
            (&["report", "empty.jsonl", "--out", "page"], "empty.jsonl: no record in it"),
            (&["report", "binary.jsonl", "--out", "page"], "binary.jsonl: cannot be read"),
            (&["report", "none.jsonl", "--out", "page"], "none.jsonl: cannot be read"),
            (
                &["report", "hole.jsonl", "--out", "page"],
                "hole.jsonl: cannot be read (a line of it is longer than 64 MiB)",
            ),
            (
                &["report", "text.jsonl", "--out", "small.toml/page"],
                "small.toml/page: cannot be written (Not a directory (os error 20))",
            ),
            (&["report", "text.jsonl"], "the following required arguments were not provided: --out <DIR>"),
            (&["replay", "none.jsonl"], "none.jsonl: cannot be read ("),
            (&["replay", "empty.jsonl"], "empty.jsonl: it is empty; an event log begins with a header"),
            (&["replay", "text.jsonl"], "text.jsonl:1: format: it is not \"paceline-events\"; give an event log"),
            (&["replay", "binary.jsonl"], "binary.jsonl:1: not a JSON object (expected value at line 1 column 1)"),
            (&["replay", "hole.jsonl"], "hole.jsonl:1: the line is longer than 8 MiB; give an event log"),
            (&["replay", "unknown.jsonl"], "unknown.jsonl:1: controller: unknown controller 'cubc'; did you mean"),
            (
                &["replay", "text.jsonl", "--controller", "cubc"],
                "invalid value 'cubc' for '--controller <SPEC>': unknown controller 'cubc'; did you mean",
            ),
            (&["validate", "--traces", "none"], "--traces none: cannot be read; name a folder"),
            (&["validate", "--traces", "small.toml"], "--traces small.toml: cannot be read; name a folder"),
            (
                &["validate", "--trace", "x"],
                "unexpected argument '--trace' found; a similar argument exists: '--traces'",
            ),
        ],
    );
}

#[cfg(unix)]
#[test]
fn what_never_ends_is_not_read() {
    let lab = Lab::new();
    fs::write(lab.path("zero.toml"), SCENARIO.replace("rate = \"5 Mbit/s\"", "trace = \"/dev/zero\"")).unwrap();
    fs::File::create(lab.path("long.toml")).unwrap().set_len(5 << 20).unwrap();
    fs::File::create(lab.path("long.csv")).unwrap().set_len(1 << 20).unwrap();
    std::os::unix::fs::symlink("/dev/zero", lab.path("zero.csv")).unwrap();
    all(
        &lab,
        &[
            (&["race", "/dev/zero"], "/dev/zero: cannot be read (it is a device)"),
            (&["race", "/dev/urandom"], "/dev/urandom: cannot be read (it is a device)"),
            (&["race", "long.toml"], "long.toml: cannot be read (it is longer than 4 MiB)"),
            (&["race", "zero.toml"], "zero.toml:7: down.trace: /dev/zero cannot be read (it is a device)"),
            (&["race", "small.toml", "--trace", "/dev/zero"], "--trace: /dev/zero cannot be read (it is a device)"),
            (&["race", "small.toml", "--up", "/dev/urandom"], "--up: /dev/urandom cannot be read (it is a device)"),
            (&["report", "/dev/zero", "--out", "page"], "/dev/zero: cannot be read (it is a device)"),
            (&["replay", "/dev/zero"], "/dev/zero: cannot be read (it is a device)"),
            (&["report", "/dev/urandom", "--out", "page"], "/dev/urandom: cannot be read (it is a device)"),
            (&["trace", "info", "/dev/zero"], "/dev/zero: cannot be read (it is a device)"),
            (&["trace", "convert", "zero.csv", "x.down"], "zero.csv: cannot be read (it is a device)"),
            (&["trace", "convert", "long.csv", "x.down"], "long.csv: a line of it is longer than 64 KiB"),
        ],
    );
}

#[cfg(unix)]
#[test]
fn a_pipe_is_read_to_its_end_or_its_bound() {
    let lab = Lab::new();
    let run = |command: &str| {
        let (paceline, folder) = (env!("CARGO_BIN_EXE_paceline"), lab.folder.path());
        let command = command.replace("paceline", paceline);
        std::process::Command::new("sh").args(["-c", &command]).current_dir(folder).output().unwrap()
    };
    let read = run("cat small.toml | paceline race --effective /dev/stdin");
    assert_eq!(read.status.code(), Some(0), "{}", String::from_utf8_lossy(&read.stderr));
    let line = refusal(&run("tr '\\0' x < /dev/zero | paceline report /dev/stdin --out page"));
    assert!(line.starts_with("/dev/stdin: cannot be read (a line of it is longer than 64 MiB)"), "{line}");
    let line = refusal(&run("yes '#' | paceline race /dev/stdin"));
    assert!(line.starts_with("/dev/stdin: cannot be read (it is longer than 4 MiB)"), "{line}");
}

#[test]
fn nothing_in_a_scenario_moves_the_cursor() {
    let lab = Lab::new();
    let text = SCENARIO
        .replace("name = \"small\"", "name = \"sm\\u001b[2Jall\"\ntitle = \"\\u001b[31mRED\\u009b31m\\nand more\"")
        .replace("= 2", "= 1");
    fs::write(lab.path("small.toml"), text).unwrap();
    for args in
        [&["race", "small.toml"][..], &["race", "small.toml", "--effective"], &["race", "small.toml", "--json", "-"]]
    {
        let output = lab.run(args);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("RED 31m and more") || text.contains("sm [2Jall"), "{text}");
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{args:?}: {text:?}");
    }
}
