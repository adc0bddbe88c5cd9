//! The arithmetic that the kernel runs, compiled natively: neither root nor eBPF.
#![cfg(target_os = "linux")]

use std::io::Write;
use std::path::Path;
use std::process::Command;

#[test]
fn the_arithmetic_holds() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let out = tempfile::tempdir().unwrap();
    let program = out.path().join("arithmetic");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let mut compile = Command::new(&compiler);
    compile.args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program).arg(here.join("arithmetic.c"));
    let Ok(compiled) = compile.output() else {
        // Not by a macro, whose output is not shown for tests that pass.
        let _ = writeln!(std::io::stderr(), "skipped: the_arithmetic_holds: there is no C compiler ({compiler})");
        return;
    };
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let run = Command::new(&program).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
}
