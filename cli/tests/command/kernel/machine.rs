//! What tests of modules share: the kernel's names, one at a time, and what says that they cannot be had.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use paceline_fixture::PATIENCE;
use serde_json::Value;

use crate::lab::{Lab, refusal};

/// The module that every build has.
pub(super) const OPEN: &str = "paceline_open";

/// There is one name in the kernel: a test at a time holds it.
pub(super) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn skipped(test: &str, reason: &str) {
    // Not by a macro, whose output is not shown for tests that pass.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {}", reason.trim());
}

/// Whether nothing can be loaded here; says why.
pub(super) fn needs_modules(test: &str) -> bool {
    let lab = Lab::new();
    let output = lab.run(&["kernel", "run", OPEN, "--", "true"]);
    if output.status.success() {
        return false;
    }
    let reason = refusal(&output);
    let known =
        ["run it as root", "the kernel has no BTF", "the kernel takes no", "no cgroup v2", "cannot make a cgroup"];
    assert!(known.iter().any(|known| reason.contains(known)), "{reason}");
    skipped(test, &reason);
    true
}

pub(super) fn paceline() -> Command {
    Command::new(env!("CARGO_BIN_EXE_paceline"))
}

/// A `paceline` that runs, until this is dropped. Its standard input is a pipe.
pub(super) struct Running {
    pub(super) child: Child,
    lines: BufReader<Box<dyn Read + Send>>,
}

impl Running {
    pub(super) fn start(args: &[&str]) -> Self {
        let mut child = paceline().args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let out: Box<dyn Read + Send> = Box::new(child.stdout.take().unwrap());
        Self { child, lines: BufReader::new(out) }
    }

    /// One that holds the module.
    pub(super) fn load(name: &str) -> Self {
        let mut running = Self::start(&["kernel", "load", name]);
        assert_eq!(running.line(), format!("{name} is loaded until this command ends"));
        running
    }

    /// The next line of what it prints.
    pub(super) fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.id().to_string()]).status().unwrap().success());
    }

    /// Its exit status, when it ends by itself.
    pub(super) fn ended(&mut self) -> Option<i32> {
        until("it ends", || self.child.try_wait().unwrap()).code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for what must come soon.
pub(super) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "in time: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Whether sockets can select the module.
pub(super) fn is_loaded(name: &str) -> bool {
    let available = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    available.split_whitespace().any(|known| known == name)
}

pub(super) fn until_gone(name: &str) {
    until("the module is gone", || (!is_loaded(name)).then_some(()));
}

/// The row of a module in `paceline kernel list --json`.
pub(super) fn row(name: &str) -> Value {
    let output = Lab::new().run(&["kernel", "list", "--json"]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    rows.into_iter().find(|row| row["name"] == name).unwrap()
}
