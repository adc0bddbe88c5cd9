//! What terminals are shown: those that know no size, and those that take text alone.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use crate::lab::Lab;

/// The command on a terminal of 0 x 0 with this name, as script(1) has one where it is on none itself. `None` where there is no script(1).
fn on_terminal(lab: &Lab, line: &str, name: &str) -> Option<Child> {
    let line = format!("{} {line}", env!("CARGO_BIN_EXE_paceline"));
    let mut command = Command::new("timeout");
    // Only a failure waits for it.
    command.args(["60", "script", "--quiet", "--return", "--command", &line, "/dev/null"]);
    command.env("TERM", name).env_remove("NO_COLOR").current_dir(lab.folder.path());
    let there = Command::new("script").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !there.is_ok_and(|there| there.success()) {
        let _ = writeln!(std::io::stderr(), "skipped: {line}: there is no script(1)");
        return None;
    }
    Some(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap())
}

#[test]
fn a_terminal_without_a_size_is_not_left_empty() {
    let Some(mut top) = on_terminal(&Lab::new(), "top", "vt100") else { return };
    let (mut shown, mut byte) = (Vec::new(), [0]);
    let mut out = top.stdout.take().unwrap();
    while !shown.ends_with(b"q leaves") && out.read(&mut byte).unwrap() > 0 {
        shown.extend(byte);
    }
    top.stdin.as_mut().unwrap().write_all(b"q").unwrap();
    out.read_to_end(&mut Vec::new()).unwrap();
    let _ = top.wait();
    let shown = String::from_utf8_lossy(&shown);
    assert!(shown.ends_with("q leaves"), "{shown:?}");
}

#[test]
fn a_terminal_that_takes_text_alone_gets_no_escapes() {
    let lab = Lab::new();
    for (name, escapes) in [("dumb", false), ("xterm", true)] {
        let line = "race small.toml --runs 1 --seconds 1";
        let Some(race) = on_terminal(&lab, line, name) else { return };
        let shown = race.wait_with_output().unwrap().stdout;
        assert_eq!(shown.contains(&0x1b), escapes, "{name}: {}", String::from_utf8_lossy(&shown));
        assert!(String::from_utf8_lossy(&shown).contains("reno"), "{name}");
    }
}
