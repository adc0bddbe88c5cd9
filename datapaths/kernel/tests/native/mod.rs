//! C programs that are tests themselves, or that tests ask.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// A program of `tests/native`, compiled.
pub(crate) struct Native {
    folder: TempDir,
    name: &'static str,
}

impl Native {
    /// Compiles `tests/native/NAME.c`. Where there is no compiler, says that the test is skipped.
    pub(crate) fn compile(test: &str, name: &'static str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/native").join(name).with_extension("c");
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        let mut compile = Command::new(&compiler);
        compile.args(["-std=gnu99", "-Wall", "-Wextra", "-Werror", "-o"]).arg(folder.path().join(name)).arg(source);
        let Ok(compiled) = compile.output() else {
            // Not by a macro, whose output is not shown for tests that pass.
            let _ = writeln!(std::io::stderr(), "skipped: {test}: there is no C compiler ({compiler})");
            return None;
        };
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        Some(Self { folder, name })
    }

    /// Runs it with this on its standard input; gives its standard output. It must end with 0.
    pub(crate) fn run(&self, arguments: &[&str], input: &str) -> String {
        let mut run = Command::new(self.folder.path().join(self.name));
        let mut child = run.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_owned();
        // It answers while it is asked.
        let writer = std::thread::spawn(move || {
            let _ = stdin.write_all(input.as_bytes());
        });
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        let answer = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{}: {answer}", self.name);
        answer
    }
}

/// Compiles `tests/native/NAME.c` and runs it: it ends with 0 when all holds, and says what does not.
pub(crate) fn holds(test: &str, name: &'static str) {
    if let Some(program) = Native::compile(test, name) {
        program.run(&[], "");
    }
}
