//! Programs under `paceline shim`, as a user sees them. What needs privileges, a program or the preloaded library that is
//! not here is skipped, and says so.
#![cfg(target_os = "linux")]

mod applications;
#[expect(dead_code, reason = "shared with the tests of the emulator, which need more of it")]
#[path = "../emulate/bench.rs"]
mod bench;
mod refusals;
mod server;
mod top;
mod transfers;

use server::{library, shim};

#[test]
fn the_exit_status_and_the_output_are_the_programs() {
    if library("the_exit_status_and_the_output_are_the_programs").is_none() {
        return;
    }
    let output = shim(&["--cc", "copa"]).args(["--", "sh", "-c", "echo out; exit 7"]).bounded();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(7), b"out\n".as_slice()), "{output:?}");
}

#[test]
fn options_travel_in_the_environment_and_others_stay() {
    let Some(library) = library("options_travel_in_the_environment_and_others_stay") else { return };
    let script =
        "echo $PACELINE_CC $PACELINE_MODE $PACELINE_PORTS $PACELINE_PEERS $PACELINE_QLOG; echo $LD_PRELOAD; echo $0 $@";
    let options = ["--cc", "copa:delta=0.1", "--mode", "queue", "--ports", "80,8000-8001", "--peers", "10.0.0.0/8"];
    let folder = tempfile::tempdir().unwrap();
    let qlog = folder.path().join("logs").display().to_string();
    let other = "libm.so.6";
    let output = shim(&options)
        .args(["--qlog", &qlog, "--", "sh", "-c", script, "name", "one two"])
        .env("LD_PRELOAD", &format!("{} {other}", library.display()))
        .bounded();
    let said = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], format!("copa:delta=0.1 queue 80,8000-8001 10.0.0.0/8 {qlog}"));
    assert_eq!(lines[1], format!("{}:{other}", library.display()), "once, and first");
    assert_eq!(lines[2], "name one two");
    assert!(std::path::Path::new(&qlog).is_dir());
}

#[test]
fn a_program_says_whether_it_can_be_served() {
    let Some(library) = library("a_program_says_whether_it_can_be_served") else { return };
    let output = shim(&["--check", "sh"]).bounded();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.starts_with("sh: works: dynamically linked"), "{said}");
    assert!(said.contains("io_uring") && said.contains(&format!("library: {}", library.display())), "{said}");
}
