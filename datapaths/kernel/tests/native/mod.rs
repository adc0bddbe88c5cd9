//! C programs that are tests themselves.

use std::io::Write;
use std::path::Path;
use std::process::Command;

/// Compiles `tests/native/NAME.c` and runs it: it ends with 0 when all holds, and says what does not. Where there is no
/// compiler, says that the test is skipped.
pub(crate) fn holds(test: &str, name: &str) {
    let out = tempfile::tempdir().unwrap();
    let program = out.path().join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/native").join(name).with_extension("c");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let mut compile = Command::new(&compiler);
    compile.args(["-std=gnu99", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program).arg(source);
    let Ok(compiled) = compile.output() else {
        // Not by a macro, whose output is not shown for tests that pass.
        let _ = writeln!(std::io::stderr(), "skipped: {test}: there is no C compiler ({compiler})");
        return;
    };
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let run = Command::new(&program).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
}
