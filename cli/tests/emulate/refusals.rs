//! Bad input: one line, the exit status, and nothing left.

use std::os::unix::fs::PermissionsExt;

use crate::bench::{Bench, paceline};

/// The one line and the exit status of `paceline emulate` with these arguments.
fn refused(args: &[&str]) -> (i32, String) {
    let output = paceline().args([&["emulate"], args].concat()).bounded();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.stdout.is_empty());
    assert_eq!(said.lines().count(), 1, "{said}");
    let line = said.trim_end().strip_prefix("paceline: ").unwrap_or_else(|| panic!("{said}")).to_owned();
    (output.status.code().unwrap(), line)
}

#[test]
fn a_program_that_does_not_exist() {
    let (status, line) = refused(&["--", "no-such-program", "x"]);
    assert_eq!(status, 127);
    assert!(line.starts_with("no-such-program: there is no such program;"), "{line}");
    let (status, line) = refused(&["--", "./no-such-program"]);
    assert_eq!(status, 127);
    assert!(line.starts_with("./no-such-program: "), "{line}");
}

#[test]
fn a_file_that_is_no_program() {
    let bench = Bench::new();
    let file = bench.file("plain", "no program");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let (status, line) = refused(&["--", &file]);
    assert_eq!(status, 126);
    assert!(line.contains("not executable"), "{line}");
    assert_eq!(refused(&["--", "/"]).0, 126);
}

#[test]
fn options_that_make_no_path() {
    let bench = Bench::new();
    let trace = bench.file("trace", "1\n2\n");
    let broken = bench.file("broken", "1\nx\n");
    let missing = bench.path("missing");
    let links = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/parking-lot.toml").to_owned();
    let cases: [(&[&str], &str); 17] = [
        (&["--rate", "0Mbit/s"], "--rate"),
        (&["--rate", "fast"], "--rate"),
        (&["--delay", "-5ms"], "--delay"),
        (&["--loss", "2"], "--loss: 2 is not a probability"),
        (&["--queue", "droptail:2MB"], "--queue: there is no link for it to wait at"),
        (&["--rate", "1Mbit/s", "--queue", "droptail:much"], "--queue"),
        (&["--rate", "1Mbit/s", "--queue", "droptail:1bdp"], "--queue: bdp= needs a round-trip time above 0"),
        (&["--trace", &missing], "--trace: "),
        (&["--up", &broken], "broken"),
        (&["--trace", &trace, "--up", &trace, "--rate", "1Mbit/s"], "--rate: both directions have a trace"),
        (&["--rate", "12mbps"], "mbps is megabytes for tc and megabits for others; write 12Mbit/s"),
        (&["--reorder", "1%"], "it is not a share and a time; give them such as 1%,5ms"),
        (&["--up-queue", "codel"], "--up-queue: there is no link for it to wait at"),
        (&["--interval", "0"], "--interval 0: give seconds above 0"),
        (&["--scenario", &missing], "cannot be read"),
        (&["--scenario", &links], "it has [links], and emulate has two ends"),
        (&["--scenario", &missing, "--delay", "5ms"], "--scenario <FILE>' cannot be used with"),
    ];
    for (args, expected) in cases {
        let (status, line) = refused(&[args, &["--", "true"]].concat());
        assert_eq!(status, 2, "{line}");
        assert!(line.contains(expected), "{line}");
    }
    assert_eq!(refused(&[]).0, 2);
    assert_eq!(refused(&["--json", "/no/such/folder/file", "--", "true"]).0, 2);
}
