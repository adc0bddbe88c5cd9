//! The library as programs in C have it.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use paceline_named::router::{Server, ServerConfig};
use paceline_named::store::Store;

/// This crate's folder.
const HERE: &str = env!("CARGO_MANIFEST_DIR");

fn compiler() -> String {
    std::env::var("CC").unwrap_or_else(|_| "cc".to_owned())
}

/// Whether the test must be skipped; says so.
fn lacks(test: &str, what: &str, program: &str) -> bool {
    let runs = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !runs {
        // Not by a macro, whose output is not shown for tests that pass.
        let _ = writeln!(std::io::stderr(), "skipped: {test}: it needs {what} ({program})");
    }
    !runs
}

fn lacks_compiler(test: &str) -> bool {
    lacks(test, "a C compiler", &compiler())
}

fn succeeded(output: &Output) {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}: {out}{err}", output.status);
}

/// Compiles the example against the shared library.
fn example(folder: &Path) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let libraries = tests.parent().unwrap();
    assert!(libraries.join("libpacelineicn.so").exists(), "{}", libraries.display());
    let program = folder.join("cat");
    let mut compile = Command::new(compiler());
    compile.args(["-std=c99", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"]);
    compile.arg("-I").arg(Path::new(HERE).join("include")).arg("-o").arg(&program);
    compile.arg(Path::new(HERE).join("examples/cat.c")).arg("-L").arg(libraries).arg("-lpacelineicn");
    compile.arg(format!("-Wl,-rpath,{}", libraries.display()));
    succeeded(&compile.output().unwrap());
    // Programs ask for the interface's number.
    let _ = std::os::unix::fs::symlink("libpacelineicn.so", libraries.join("libpacelineicn.so.0"));
    program
}

#[test]
fn the_example_reads_an_object_a_range_and_says_what_is_wrong() {
    if lacks_compiler("the_example_reads_an_object") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = example(folder.path());
    reads(&folder, &program);
}

#[test]
fn what_is_installed_is_found_by_pkg_config() {
    let test = "what_is_installed_is_found_by_pkg_config";
    if lacks_compiler(test) || lacks(test, "pkg-config", "pkg-config") {
        return;
    }
    let prefix = tempfile::tempdir().unwrap();
    let tests = std::env::current_exe().unwrap();
    let install = Path::new(HERE).join("../../scripts/install-c");
    let mut install = Command::new(install);
    succeeded(&install.arg(tests.parent().unwrap()).arg(prefix.path()).env_remove("DESTDIR").output().unwrap());
    let mut find = Command::new("pkg-config");
    find.args(["--cflags", "--libs", "pacelineicn"]).env("PKG_CONFIG_PATH", prefix.path().join("lib/pkgconfig"));
    let found = find.output().unwrap();
    succeeded(&found);
    let flags = String::from_utf8(found.stdout).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("cat");
    let mut compile = Command::new(compiler());
    compile.arg("-o").arg(&program).arg(Path::new(HERE).join("examples/cat.c")).args(flags.split_whitespace());
    compile.arg(format!("-Wl,-rpath,{}", prefix.path().join("lib").display()));
    succeeded(&compile.output().unwrap());
    reads(&folder, &program);
    let page = prefix.path().join("share/man/man3/paceline_icn.3");
    let page = fs::read_to_string(page).unwrap();
    let header = fs::read_to_string(prefix.path().join("include/paceline_icn.h")).unwrap();
    let functions = header.lines().filter_map(|line| line.split_once("paceline_icn_")?.1.split_once('('));
    let mut count = 0;
    for (function, _) in functions.filter(|(name, _)| name.chars().all(|char| char.is_ascii_lowercase())) {
        assert!(page.contains(&format!(".BR paceline_icn_{function} ()")), "{function} is not in the manual page");
        count += 1;
    }
    assert!(count >= 5, "{count}");
}

/// The example reads what is served, and says what is wrong.
fn reads(folder: &tempfile::TempDir, program: &Path) {
    let bytes: Vec<u8> = (0..3_000_001_u32).map(|at| (at ^ at >> 8 ^ at >> 16) as u8).collect();
    let file = folder.path().join("film.mp4");
    fs::write(&file, &bytes).unwrap();
    let store = Store::create(&folder.path().join("store")).unwrap();
    let name = store.publish(&file, None, &mut |_| ()).unwrap().name.to_string();
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Server::start(&ServerConfig::new(store.folder().to_owned(), listen)).unwrap();
    let at = server.address().to_string();
    let run = |args: &[&str]| Command::new(program).args(args).output().unwrap();

    let all = run(&[&name, &at]);
    succeeded(&all);
    assert!(all.stdout == bytes, "{} bytes", all.stdout.len());
    assert!(String::from_utf8_lossy(&all.stderr).contains(&format!("{name}: 3000001 bytes, video/mp4")));
    let part = run(&[&name, &at, "1000", "1999"]);
    succeeded(&part);
    assert!(part.stdout == bytes[1000..2000]);

    let other = if &name[10..11] == "a" { "b" } else { "a" };
    let unknown = format!("{}{other}{}", &name[..10], &name[11..]);
    for (args, says) in [
        (vec!["film", &at], "Invalid argument\n'film' is not a name"),
        (vec![&name, "nowhere.invalid:1"], "no such host"),
        (vec![&unknown, &at], "No such file or directory"),
        (vec![&name, &at, "3000001"], "Invalid argument"),
        (vec![&name, &at, "5", "4"], "no bytes"),
    ] {
        let output = run(&args);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && text.contains(says), "{args:?}: {text}");
    }
}

#[test]
fn the_header_is_clean_in_every_language() {
    if lacks_compiler("the_header_is_clean_in_every_language") {
        return;
    }
    let header = Path::new(HERE).join("include/paceline_icn.h");
    for (language, standard) in [("c", "c99"), ("c", "c17"), ("c++", "c++11"), ("c++", "c++20")] {
        let mut check = Command::new(compiler());
        check.args(["-x", language, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]);
        let output = check.arg(format!("-std={standard}")).arg(&header).output().unwrap();
        // A compiler may be one of C alone.
        if !String::from_utf8_lossy(&output.stderr).contains("cc1plus") {
            succeeded(&output);
        }
    }
}
