//! The library as programs in C have it: every event log of the repository replayed, what is exported, what is installed.

mod build;
mod lines;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use paceline_fixture::c::{compiler, functions, is_clean, lacks, lacks_compiler, succeeded};

use build::{built, compile, here};

fn header() -> String {
    fs::read_to_string(here("include/paceline_cc.h")).unwrap()
}

/// Every vector, as one file of lines.
fn vectors(folder: &Path) -> (PathBuf, usize) {
    let paths = fs::read_dir(here("../../vectors")).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|kind| kind == "jsonl")).collect();
    paths.sort();
    assert!(paths.len() >= 20, "{}", paths.len());
    let text: String = paths.iter().map(|path| lines::of(path)).collect();
    let file = folder.join("events");
    fs::write(&file, &text).unwrap();
    (file, text.lines().count())
}

/// Every answer to every vector is what was recorded, by a program compiled with this header.
fn replays(include: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let program = compile("tests/native/replay.c", include, folder.path());
    let (file, count) = vectors(folder.path());
    let output = Command::new(&program).arg(&file).output().unwrap();
    succeeded(&output);
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{count} events\n"));
    assert!(count > 8000, "{count}");

    // Another answer is found.
    let text = fs::read_to_string(&file).unwrap();
    let (before, after) = text.rsplit_once("= ").unwrap();
    fs::write(&file, format!("{before}= 1{after}")).unwrap();
    let output = Command::new(&program).arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains(&format!("line {count}: window: it is")), "{said}");
}

#[test]
fn every_vector_is_answered_as_it_was_recorded() {
    if !lacks_compiler("every_vector_is_answered") {
        replays(&here("include"));
    }
}

/// A caller whose structures have members of a later version.
#[test]
fn a_program_of_tomorrow_is_answered_the_same() {
    if lacks_compiler("a_program_of_tomorrow") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let longer = header().replace("\n};", "\n\tuint64_t tomorrow[2];\n};");
    assert!(longer.matches("tomorrow").count() >= 14);
    fs::write(folder.path().join("paceline_cc.h"), longer).unwrap();
    replays(folder.path());
}

#[test]
fn what_is_exported_is_what_the_header_declares() {
    if lacks("what_is_exported", "binutils", "nm") {
        return;
    }
    let mut nm = Command::new("nm");
    let output = nm.args(["-D", "--defined-only"]).arg(built().join("libpaceline_cc_c.so")).output().unwrap();
    succeeded(&output);
    let text = String::from_utf8(output.stdout).unwrap();
    let exported: BTreeSet<&str> = text.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    let header = header();
    let declared: BTreeSet<&str> = functions(&header).into_iter().collect();
    assert_eq!(exported, declared);
    assert!(declared.len() >= 20, "{declared:?}");
}

#[test]
fn the_header_is_clean_in_every_language() {
    if !lacks_compiler("the_header_is_clean_in_every_language") {
        is_clean(&here("include/paceline_cc.h"), &["c89", "c99", "c11", "c17", "c++98", "c++11", "c++14", "c++17"]);
    }
}

#[test]
fn the_library_has_the_name_of_its_interface() {
    if lacks("the_library_has_the_name_of_its_interface", "binutils", "readelf") {
        return;
    }
    let output = Command::new("readelf").arg("-d").arg(built().join("libpaceline_cc_c.so")).output().unwrap();
    succeeded(&output);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains(&format!("soname: [libpaceline_cc.so.{}]", paceline_cc_c::paceline_cc_abi())), "{text}");
    assert!(header().contains(&format!("#define PACELINE_CC_ABI {}\n", paceline_cc_c::paceline_cc_abi())));
}

#[test]
fn what_is_installed_is_found_by_pkg_config() {
    let test = "what_is_installed_is_found_by_pkg_config";
    if lacks_compiler(test) || lacks(test, "pkg-config", "pkg-config") {
        return;
    }
    let prefix = tempfile::tempdir().unwrap();
    let mut install = Command::new(here("../../scripts/install-c"));
    succeeded(&install.arg(built()).arg(prefix.path()).env_remove("DESTDIR").output().unwrap());
    let mut find = Command::new("pkg-config");
    find.args(["--cflags", "--libs", "paceline-cc"]).env("PKG_CONFIG_PATH", prefix.path().join("lib/pkgconfig"));
    let found = find.output().unwrap();
    succeeded(&found);
    let flags = String::from_utf8(found.stdout).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("replay");
    let mut compile = Command::new(compiler());
    compile.arg("-o").arg(&program).arg(here("tests/native/replay.c")).args(flags.split_whitespace());
    compile.arg(format!("-Wl,-rpath,{}", prefix.path().join("lib").display()));
    succeeded(&compile.output().unwrap());
    let (file, _) = vectors(folder.path());
    succeeded(&Command::new(&program).arg(file).output().unwrap());
    assert!(prefix.path().join("lib/libpaceline_cc.a").exists());

    let page = fs::read_to_string(prefix.path().join("share/man/man3/paceline_cc.3")).unwrap();
    for function in functions(&header()) {
        assert!(page.contains(&format!("{function}(")), "{function} is not in the manual page");
    }
}
