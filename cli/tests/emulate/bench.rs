//! Runs of the command that cannot hang, and what they need.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use paceline_linux::namespace::{Privilege, privilege};
use tempfile::TempDir;

/// How long anything here may take; more than any takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Nobody's user and group.
pub(crate) const NOBODY: u32 = 65534;

/// Tells that a test was skipped; scripts/test counts these lines.
pub(crate) fn skipped(test: &str, reason: &str) {
    // Not by a macro, whose output is not shown for tests that pass.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
}

/// Whether the test must be skipped because it needs root.
pub(crate) fn needs_root(test: &str) -> bool {
    let missing = privilege() != Privilege::Root;
    if missing {
        skipped(test, "it needs root");
    }
    missing
}

/// Whether a process can become another user: a user namespace may have a single one.
pub(crate) fn has_other_users() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let inside = |row: &str| {
        let mut numbers = row.split_whitespace().filter_map(|number| number.parse::<u32>().ok());
        let (first, _, count) = (numbers.next()?, numbers.next()?, numbers.next()?);
        Some((first..first.saturating_add(count)).contains(&NOBODY))
    };
    map.lines().any(|row| inside(row) == Some(true))
}

/// The name of a program when it is not in PATH.
pub(crate) fn missing(program: &str) -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let there = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    (!there).then(|| program.to_owned())
}

/// A folder for one test.
pub(crate) struct Bench {
    folder: TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn file(&self, name: &str, content: &str) -> String {
        fs::write(self.path(name), content).unwrap();
        self.path(name)
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }

    /// A copy of the command where every user can run it.
    pub(crate) fn for_everyone(&self) -> Run {
        let copy = self.path("paceline");
        fs::copy(env!("CARGO_BIN_EXE_paceline"), &copy).unwrap();
        for path in [self.folder.path(), copy.as_ref()] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Run(Command::new(copy))
    }
}

/// A run of the command to be.
pub(crate) struct Run(Command);

pub(crate) fn paceline() -> Run {
    Run(Command::new(env!("CARGO_BIN_EXE_paceline")))
}

impl Run {
    pub(crate) fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.0.args(args);
        self
    }

    /// Another program than paceline.
    pub(crate) fn program(name: &str) -> Self {
        Self(Command::new(name))
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.0.env(name, value);
        self
    }

    pub(crate) fn ordinary_user(mut self) -> Self {
        self.0.uid(NOBODY).gid(NOBODY).current_dir("/");
        self
    }

    /// Runs to the end, at most [`PATIENCE`].
    pub(crate) fn bounded(self) -> Output {
        let mut running = self.start();
        drop(running.input.take());
        let status = running.wait();
        let stdout = running.lines.iter().flat_map(|line| (line + "\n").into_bytes()).collect();
        Output { status, stdout, stderr: running.errors.recv_timeout(PATIENCE).unwrap().into_bytes() }
    }

    pub(crate) fn start(mut self) -> Running {
        let command = self.0.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = loop {
            match command.spawn() {
                // A program just written is open for writing in whatever another thread is about to run, for a moment.
                Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => thread::sleep(Duration::from_millis(5)),
                spawned => break spawned.unwrap(),
            }
        };
        let (line, lines) = channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || out.lines().map_while(Result::ok).all(|text| line.send(text).is_ok()));
        let (error, errors) = channel();
        let err = child.stderr.take().unwrap();
        thread::spawn(move || error.send(std::io::read_to_string(err).unwrap_or_default()));
        let input = child.stdin.take();
        Running { child, input, lines, errors }
    }
}

/// A run of the command.
pub(crate) struct Running {
    child: Child,
    pub(crate) input: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: Receiver<String>,
}

impl Running {
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn line(&mut self) -> String {
        self.lines.recv_timeout(PATIENCE).unwrap_or_else(|_| {
            let _ = self.child.kill();
            panic!("no line came: {}", self.errors.recv().unwrap_or_default())
        })
    }

    /// The lines that are still to come until it ends.
    pub(crate) fn rest(&self) -> Vec<String> {
        self.lines.iter().collect()
    }

    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([format!("-{name}"), self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        panic!("it did not end: {}", self.errors.recv().unwrap_or_default())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A number of seconds that no other process sleeps.
pub(crate) fn mark() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("3000.{}{:03}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Command lines of the processes that have the mark.
pub(crate) fn with_mark(mark: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| fs::read_to_string(process.path().join("cmdline")).ok());
    lines.filter(|line| line.contains(mark)).map(|line| line.replace('\0', " ")).collect()
}

/// Whether all processes with the mark end within a time.
pub(crate) fn gone(mark: &str, within: Duration) -> bool {
    eventually(within, || with_mark(mark).is_empty())
}

pub(crate) fn eventually(within: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !condition() {
        if start.elapsed() > within {
            return false;
        }
        thread::sleep(Duration::from_millis(10));
    }
    true
}
