//! Bad input: one line and the exit status.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::bench::{Bench, Run, has_other_users, missing, needs_root, skipped};
use crate::server::{library, shim};

/// The one line and the exit status of a run.
fn refused(run: Run) -> (i32, String) {
    let output = run.bounded();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.stdout.is_empty(), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    let line = said.trim_end().strip_prefix("paceline: ").unwrap_or_else(|| panic!("{said}")).to_owned();
    (output.status.code().unwrap(), line)
}

#[test]
fn options_that_are_none() {
    let cases: [(&[&str], &str); 11] = [
        (&["--cc", "copper"], "--cc: unknown controller 'copper'; did you mean copa?"),
        (&["--cc", "copa:delta=x"], "--cc: controller 'copa': delta=x is not"),
        (&["--cc", "sprout"], "--cc: sprout needs its receiver half at the other end"),
        (&["--mode", "fast"], "--mode: 'fast' is not one of"),
        (&["--mode", "framed"], "--mode: framed needs paceline at the other end"),
        (&["--lower", "none"], "--lower: this kernel's TCP has no none, it has "),
        (&["--ports", "80,http"], "--ports: 'http' is not a port;"),
        (&["--ports", "70000"], "--ports: '70000' is not a port;"),
        (&["--peers", "10.0.0.0/40"], "--peers: '10.0.0.0/40' is not an address;"),
        (&["--metrics", "nowhere"], "--metrics: 'nowhere' is not an address;"),
        (&["--log", "/no/such/folder/file"], "--log: /no/such/folder/file: "),
    ];
    for (options, expected) in cases {
        let (status, line) = refused(shim(options).args(["--", "true"]));
        assert_eq!(status, 2, "{line}");
        assert!(line.starts_with(expected), "{line}");
    }
    let (status, line) = refused(shim(&["--cc", "copa"]));
    assert!(status == 2 && line.contains("write paceline shim --cc <CONTROLLER> -- <COMMAND>...;"), "{status} {line}");
}

#[test]
fn programs_that_are_none() {
    let bench = Bench::new();
    let (status, line) = refused(shim(&[]).args(["--", "no-such-program"]));
    assert_eq!(
        (status, line.as_str()),
        (127, "no-such-program: there is no such program; give one that is in PATH, or its path")
    );
    // An ordinary user's PATH does not lead to servers.
    if let Some(name) = ["nologin", "ldconfig"].iter().find(|name| Path::new("/usr/sbin").join(name).exists()) {
        let (status, line) = refused(shim(&[]).env("PATH", "/nowhere").args(["--", name]));
        assert_eq!((status, line), (127, format!("{name}: there is no such program; give /usr/sbin/{name}")));
    }
    let plain = bench.file("plain", "no program");
    assert_eq!(refused(shim(&[]).args(["--", &plain])).0, 126);
    assert_eq!(refused(shim(&[]).args(["--", "/"])).0, 126);
}

#[test]
fn a_library_that_is_none() {
    let bench = Bench::new();
    let missing = bench.path("missing.so");
    let text = bench.file("text.so", "no library");
    let spaced = bench.file("a b.so", "no library");
    for (place, expected) in
        [(&missing, "missing.so: "), (&text, "it is not a shared library"), (&spaced, "no path with a space")]
    {
        let (status, line) = refused(shim(&[]).env("PACELINE_SHIM", place).args(["--", "true"]));
        assert!(status == 2 && line.contains(expected) && line.contains("PACELINE_SHIM"), "{status} {line}");
        let checked = shim(&["--check", "sh"]).env("PACELINE_SHIM", place).bounded();
        assert_eq!(checked.status.code(), Some(1), "without a library nothing can be served");
    }
}

#[test]
fn a_library_of_another_architecture() {
    let Some(library) = library("a_library_of_another_architecture") else { return };
    let bench = Bench::new();
    let mut bytes = fs::read(library).unwrap();
    // e_machine: s390.
    bytes[18..20].copy_from_slice(&22u16.to_ne_bytes());
    let other = bench.path("libpaceline_shim.so");
    fs::write(&other, bytes).unwrap();
    let (status, line) = refused(shim(&[]).env("PACELINE_SHIM", &other).args(["--", "sh"]));
    assert_eq!(status, 2);
    assert!(line.contains("the library for ELF machine 22") && line.contains("build the library for"), "{line}");
}

#[test]
fn programs_that_nothing_can_be_preloaded_into() {
    let name = "programs_that_nothing_can_be_preloaded_into";
    if library(name).is_none() {
        return;
    }
    // Static wherever glibc is.
    let program = "/sbin/ldconfig";
    if !Path::new(program).exists() || !fs::read(program).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF")) {
        return skipped(name, "it needs a statically linked program");
    }
    let (status, line) = refused(shim(&["--cc", "copa"]).args(["--", program, "--version"]));
    assert_eq!((status, line.contains("statically linked")), (2, true), "{line}");
    let output = shim(&["--check", program]).bounded();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("cannot be served: it is statically linked"),
        "{output:?}"
    );
    if missing("go").is_none() {
        let (status, line) = refused(shim(&[]).args(["--", "go", "version"]));
        assert_eq!((status, line.contains("it is a Go program")), (2, true), "{line}");
    }
}

#[test]
fn programs_of_go_without_build_information() {
    let name = "programs_of_go_without_build_information";
    if library(name).is_none() {
        return;
    }
    if let Some(reason) = missing("objcopy") {
        return skipped(name, &format!("it needs {reason}"));
    }
    let bench = Bench::new();
    let table = bench.file("table", "what Go's linker writes");
    for section in [".gopclntab", ".note.go.buildid"] {
        let program = bench.path("program");
        let add = format!("{section}={table}");
        let made = Command::new("objcopy").args(["--add-section", &add, "/bin/true", &program]).status().unwrap();
        assert!(made.success());
        let output = shim(&["--check", &program]).bounded();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.code() == Some(1) && said.contains("it is a Go program"), "{section}: {said}");
    }
}

#[test]
fn programs_with_address_sanitizer() {
    let name = "programs_with_address_sanitizer";
    if library(name).is_none() {
        return;
    }
    let bench = Bench::new();
    let (source, program) = (bench.file("program.c", "int main(void) { return 7; }\n"), bench.path("program"));
    let compiled = Command::new("cc").args(["-fsanitize=address", "-o", &program, &source]).output();
    if !compiled.is_ok_and(|output| output.status.success()) {
        return skipped(name, "no C compiler, or none with AddressSanitizer");
    }
    let output = shim(&["--check", &program]).bounded();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("works: dynamically linked") && said.contains("AddressSanitizer"), "{said}");
    let output = shim(&[]).args(["--", &program]).env("PACELINE_QUIET", "1").bounded();
    assert_eq!((output.status.code(), output.stderr.is_empty()), (Some(7), true), "{output:?}");
}

#[test]
fn masters_that_clean_the_environment() {
    let name = "masters_that_clean_the_environment";
    if library(name).is_none() {
        return;
    }
    let bench = Bench::new();
    let program = bench.path("dovecot");
    fs::copy("/bin/true", &program).unwrap();
    let output = shim(&["--check", &program]).bounded();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("works in part") && said.contains("import_environment"), "{said}");
}

#[test]
fn a_program_that_gains_rights() {
    let name = "a_program_that_gains_rights";
    let Some(library) = library(name) else { return };
    if needs_root(name) {
        return;
    }
    if !has_other_users() {
        return skipped(name, "it needs another user, and this user namespace has none");
    }
    let bench = Bench::new();
    let (copy, place) = (bench.path("sh"), bench.path("libpaceline_shim.so"));
    fs::copy("/bin/sh", &copy).unwrap();
    fs::copy(library, &place).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o4755)).unwrap();
    let run = bench.for_everyone().env("PACELINE_SHIM", &place).args(["shim", "--", &copy, "-c", "exit 0"]);
    let (status, line) = refused(run.ordinary_user());
    assert_eq!((status, line.contains("it is set-user-ID")), (2, true), "{line}");
    // Root gains nothing, so nothing is in the way.
    let run = bench.for_everyone().env("PACELINE_SHIM", &place).args(["shim", "--", &copy, "-c", "exit 3"]);
    assert_eq!(run.bounded().status.code(), Some(3));
}

#[test]
fn scripts_are_followed() {
    let name = "scripts_are_followed";
    if library(name).is_none() {
        return;
    }
    let bench = Bench::new();
    let script = |name: &str, line: &str| {
        let path = bench.file(name, &format!("{line}\nexit 0\n"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    let inner = script("inner", "#!/usr/bin/env sh");
    let outer = script("outer", &format!("#!{inner}"));
    let output = shim(&["--check", &outer]).bounded();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains(&format!("run by {inner}, run by ")) && said.contains("sh): works"), "{said}");
    let (status, line) = refused(shim(&[]).args(["--", &script("lost", "#!/no/such/interpreter")]));
    assert_eq!(
        (status, line.contains("lost: its interpreter: /no/such/interpreter: there is no")),
        (127, true),
        "{line}"
    );
    let (status, line) = refused(shim(&[]).args(["--", &script("of_windows", "#!/bin/sh\r")]));
    assert_eq!(status, 127, "{line}");
    assert!(line.contains("of_windows: its interpreter: /bin/sh\\r: there is no such program;"), "{line}");
    assert!(line.contains("CR LF") && line.contains("sed -i"), "{line}");
    let (status, line) = refused(shim(&[]).args(["--", &script("bare", "#!/usr/bin/env -i sh")]));
    assert_eq!((status, line.contains("clears the environment")), (2, true), "{line}");
}
