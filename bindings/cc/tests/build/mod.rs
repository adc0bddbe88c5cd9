//! Programs in C over the library, as cargo built it.
#![allow(dead_code, reason = "each test program uses a part")]

use std::path::{Path, PathBuf};
use std::process::Command;

use paceline_fixture::c::{compiler, succeeded};

/// This crate's folder.
const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// A file of this crate.
pub(crate) fn here(place: &str) -> PathBuf {
    Path::new(HERE).join(place)
}

/// Where cargo put the libraries.
pub(crate) fn built() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let folder = tests.parent().unwrap();
    assert!(folder.join("libpaceline_cc_c.so").exists(), "{}", folder.display());
    folder.to_owned()
}

/// Puts the shared library into a folder, under the names that it is installed by.
pub(crate) fn linked(folder: &Path) {
    for name in ["libpaceline_cc.so", "libpaceline_cc.so.0"].map(|name| folder.join(name)) {
        if !name.exists() {
            std::os::unix::fs::symlink(built().join("libpaceline_cc_c.so"), name).unwrap();
        }
    }
}

/// Compiles a program against the shared library and a header.
pub(crate) fn compile(source: &str, include: &Path, folder: &Path) -> PathBuf {
    linked(folder);
    let program = folder.join("program");
    let mut compile = Command::new(compiler());
    compile.args(["-std=c99", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1"]);
    compile.arg("-I").arg(include).arg("-o").arg(&program).arg(here(source)).arg("-L").arg(folder).arg("-lpaceline_cc");
    succeeded(&compile.arg(format!("-Wl,-rpath,{}", folder.display())).output().unwrap());
    program
}
