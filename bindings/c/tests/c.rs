//! The library as programs in C have it: the tests in C, the examples, what is installed.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::thread;

/// This crate's folder.
const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// Where cargo put the libraries.
fn libraries() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let folder = tests.parent().unwrap();
    assert!(folder.join("libalcc.so").exists(), "{}", folder.display());
    folder.to_owned()
}

fn compiler() -> String {
    std::env::var("CC").unwrap_or_else(|_| "cc".to_owned())
}

/// Whether the test must be skipped; says so.
fn needs(test: &str, what: &str, program: &str) -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    let runs = || Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    let found = if what == "a C compiler" { *FOUND.get_or_init(runs) } else { runs() };
    if !found {
        // Not by a macro, whose output is not shown for tests that pass.
        let _ = writeln!(std::io::stderr(), "skipped: {test}: it needs {what} ({program})");
    }
    !found
}

fn succeeded(output: &Output) {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}: {out}{err}", output.status);
}

/// Compiles a program against the shared library.
fn compile(source: &str, program: &Path) {
    let libraries = libraries();
    let mut compile = Command::new(compiler());
    compile.args(["-std=c99", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-pthread"]);
    compile.arg("-I").arg(Path::new(HERE).join("include")).arg("-o").arg(program).arg(Path::new(HERE).join(source));
    compile.arg("-L").arg(&libraries).arg("-lalcc").arg(format!("-Wl,-rpath,{}", libraries.display()));
    succeeded(&compile.output().unwrap());
    // Programs ask for the interface's number.
    let numbered = libraries.join("libalcc.so.0");
    let _ = std::os::unix::fs::symlink("libalcc.so", numbered);
}

/// Runs one of the cases of `semantics.c`.
fn holds(case: &str) {
    static PROGRAM: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    if needs(case, "a C compiler", &compiler()) {
        return;
    }
    let (_, program) = PROGRAM.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("semantics");
        compile("tests/native/semantics.c", &program);
        (folder, program)
    });
    succeeded(&Command::new(program).arg(case).output().unwrap());
}

#[test]
fn every_byte_arrives_though_the_close_comes_right_behind() {
    holds("whole");
}

#[test]
fn a_full_queue_is_told_and_room_wakes() {
    holds("full");
}

#[test]
fn a_blocking_send_ends_with_its_timeout() {
    holds("timeout");
}

#[test]
fn a_reset_connection_is_told() {
    holds("reset");
}

#[test]
fn other_descriptors_are_left_to_the_system_call() {
    holds("descriptors");
}

#[test]
fn wrong_options_open_nothing() {
    holds("options");
}

#[test]
fn a_child_serves_what_its_parent_accepted() {
    holds("child");
}

#[test]
fn what_is_queued_at_the_end_of_the_program_leaves() {
    holds("leave");
}

#[test]
fn a_shutdown_ends_the_stream_behind_the_queue() {
    holds("half");
}

#[test]
fn a_linger_of_nothing_resets() {
    holds("abandon");
}

#[test]
fn a_connect_may_take_its_time() {
    holds("connecting");
}

/// Bytes that no run of a wrong length or order repeats.
fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at ^ at >> 8 ^ at >> 16) as u8).collect()
}

/// The example server sends a file to two clients, one after the other.
fn serves(program: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let (file, content) = (folder.path().join("file"), bytes(3_000_001));
    fs::write(&file, &content).unwrap();
    let mut server = Command::new(program);
    server.arg(&file).args(["0", "2"]).env("PACELINE_CC", "copa:delta=0.1").stdout(Stdio::piped());
    let mut server = server.spawn().unwrap();
    let mut said = BufReader::new(server.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let port: u16 = line.trim().strip_prefix("port ").unwrap().parse().unwrap();
    for _ in 0..2 {
        let mut received = Vec::new();
        TcpStream::connect(("127.0.0.1", port)).unwrap().read_to_end(&mut received).unwrap();
        assert!(received == content, "{} bytes", received.len());
    }
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert!(server.wait().unwrap().success());
    assert!(rest.lines().count() == 2 && rest.contains("copa:delta=0.1: 3000001 bytes written"), "{rest}");
}

#[test]
fn the_example_server_serves() {
    let test = "the_example_server_serves";
    if needs(test, "a C compiler", &compiler()) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("server");
    compile("examples/server.c", &program);
    serves(&program);
    let refused = Command::new(&program).arg("/dev/null").env("PACELINE_CC", "copper").output().unwrap();
    let line = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && line.contains("PACELINE_CC: unknown controller 'copper'"), "{line}");
}

#[test]
fn the_example_client_uploads_and_reads() {
    let test = "the_example_client_uploads_and_reads";
    if needs(test, "a C compiler", &compiler()) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("client");
    compile("examples/client.c", &program);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // Sends back what comes, as it comes.
    let echo = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        std::io::copy(&mut &stream, &mut &stream).unwrap()
    });
    let content = bytes(2_000_003);
    let mut client = Command::new(&program);
    client.args(["127.0.0.1", &port.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut client = client.spawn().unwrap();
    let mut input = client.stdin.take().unwrap();
    let upload = content.clone();
    let writer = thread::spawn(move || input.write_all(&upload).unwrap());
    let mut answer = Vec::new();
    client.stdout.take().unwrap().read_to_end(&mut answer).unwrap();
    writer.join().unwrap();
    assert!(client.wait().unwrap().success());
    assert_eq!(echo.join().unwrap(), content.len() as u64);
    assert!(answer == content, "{} bytes", answer.len());
}

#[test]
fn what_is_installed_is_found_by_pkg_config() {
    let test = "what_is_installed_is_found_by_pkg_config";
    if needs(test, "a C compiler", &compiler()) || needs(test, "pkg-config", "pkg-config") {
        return;
    }
    let prefix = tempfile::tempdir().unwrap();
    let install = Path::new(HERE).join("../../scripts/install-c");
    succeeded(&Command::new(install).arg(libraries()).arg(prefix.path()).env_remove("DESTDIR").output().unwrap());
    let names = prefix.path().join("lib/pkgconfig");
    let found = Command::new("pkg-config").args(["--cflags", "--libs", "alcc"]).env("PKG_CONFIG_PATH", names).output();
    let found = found.unwrap();
    succeeded(&found);
    let flags = String::from_utf8(found.stdout).unwrap();
    let program = prefix.path().join("server");
    let mut compile = Command::new(compiler());
    compile.arg("-o").arg(&program).arg(Path::new(HERE).join("examples/server.c")).args(flags.split_whitespace());
    compile.arg(format!("-Wl,-rpath,{}", prefix.path().join("lib").display()));
    succeeded(&compile.output().unwrap());
    serves(&program);
    assert!(prefix.path().join("share/man/man3/alcc.3").exists());
}

#[test]
fn the_header_is_clean_in_every_language() {
    let test = "the_header_is_clean_in_every_language";
    if needs(test, "a C compiler", &compiler()) {
        return;
    }
    let header = Path::new(HERE).join("include/alcc.h");
    for (language, standard) in [("c", "c99"), ("c", "c17"), ("c++", "c++11"), ("c++", "c++20")] {
        let mut check = Command::new(compiler());
        check.args(["-x", language, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]);
        let output = check.arg(format!("-std={standard}")).arg(&header).output().unwrap();
        // A compiler may be one of C alone.
        let missing = String::from_utf8_lossy(&output.stderr).contains("cc1plus");
        if !missing {
            succeeded(&output);
        }
    }
}
