//! A program and everything that it starts, as one: asked to end together, ended for certain, with the processor time of all.
//!
//! As [`super::Command`] it runs under an `init` of ours in a process namespace of its own, and is gone when paceline is. Beyond that
//! it has a process group of its own, so that a signal reaches a shell's children; no terminal and nothing to read; and its output
//! comes through pipes to a thread, which always takes it, so that no program waits for us. When the program ends, however, `init`
//! ends what it left behind, in whatever session or group that is, collects it all, and says what became of the program and what all
//! of them used: no cgroup and no privilege is needed for either.
//!
//! `init` has a socket as its standard input: signals for the group arrive there as bytes, and what became of it all leaves. It is this
//! executable started again; a library inside another says by [`started_by`] how it is started.
//!
//! Source: pid_namespaces(7), kill(2) for -1, getrusage(2) for RUSAGE_CHILDREN.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{self, Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use paceline_cc::{Nanos, Time};
use paceline_linux::clock;
use paceline_linux::namespace::{Namespace, NamespaceError, part_processes};
use rustix::event::{PollFd, PollFlags};
use rustix::process::Signal;

use super::{OURSELVES, id_of_this};

/// First argument of the first process of a tree's namespace; then come the process that must stay alive, and the user.
pub(super) const TEND: &str = "__tend";
/// In place of a user: ours.
pub(super) const OURS: &str = "-";

/// Bytes of an output that are kept: a program that fills its output is stopped by no full disk of ours (our choice).
pub const KEPT: u64 = 16 << 20;
/// Bytes of the end of the standard error that are looked at for its last lines.
const TAIL: usize = 4 << 10;
/// Bytes taken at once: what a pipe holds.
const CHUNK: usize = 64 << 10;

/// A user and a group, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserId {
    /// The user's.
    pub user: u32,
    /// Its group's.
    pub group: u32,
}

/// A program to start as a tree.
#[derive(Debug)]
pub struct TreeSetting {
    /// It and its arguments.
    pub words: Vec<OsString>,
    /// Its whole environment.
    pub environment: Vec<(OsString, OsString)>,
    /// The folder that it starts in.
    pub folder: PathBuf,
    /// Where its standard output goes, and its standard error: of each the first [`KEPT`] bytes.
    pub outputs: [File; 2],
    /// What it says when it is ready, in either output.
    pub ready: Option<String>,
    /// As which user; ours where nothing is said.
    pub user: Option<UserId>,
}

/// What became of a tree.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TreeEnd {
    /// The program's exit status.
    pub status: Option<i32>,
    /// The signal that ended it. Neither is there when `init` itself was ended.
    pub signal: Option<i32>,
    /// When it ended, by [`clock::monotonic`].
    pub at: Time,
    /// Processor time of the program and all that it started, user and system.
    pub cpu: Nanos,
    /// Its output was longer than what is kept.
    pub cut: bool,
    /// The last lines of its standard error, at most three.
    pub last_lines: Vec<String>,
}

/// A tree that runs. Dropping it ends it.
#[derive(Debug)]
pub struct ProcessTree {
    control: UnixStream,
    said: Arc<AtomicBool>,
    ended: Receiver<TreeEnd>,
    end: Option<TreeEnd>,
}

impl ProcessTree {
    /// Starts it inside a network namespace.
    ///
    /// # Errors
    /// When the process namespace cannot be made. That there is no such program is seen by exit status 127.
    pub fn start(setting: TreeSetting, namespace: &Namespace) -> Result<Self, NamespaceError> {
        let failed = |error: io::Error| NamespaceError::system("start the command", error);
        let (control, theirs) = UnixStream::pair().map_err(failed)?;
        let reports = control.try_clone().map_err(failed)?;
        let said = Arc::new(AtomicBool::new(false));
        let (tell, told) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let (namespace, says) = (namespace.clone(), said.clone());
        // The kernel ties the life of `init` to the thread that started it: the thread waits for it.
        let body = move || match spawn(&setting, theirs.into(), &namespace) {
            Ok(child) => {
                let _ = tell.send(Ok(()));
                let _ = end.send(attend(child, reports, setting, &says));
            }
            Err(error) => drop(tell.send(Err(error))),
        };
        thread::Builder::new().name("tree".to_owned()).spawn(body).map_err(failed)?;
        told.recv().map_err(|_| failed(io::ErrorKind::BrokenPipe.into()))??;
        Ok(Self { control, said, ended, end: None })
    }

    /// Sends a signal to the program's process group. `SIGKILL` ends the whole tree instead.
    pub fn signal(&self, signal: Signal) {
        // It may just have ended.
        let _ = (&self.control).write_all(&[signal.as_raw() as u8]);
    }

    /// Whether it has said that it is ready.
    pub fn has_said(&self) -> bool {
        self.said.load(Ordering::Acquire)
    }

    /// Waits for its end, at most this long; `None` when it still runs then.
    pub fn wait(&mut self, longest: Duration) -> Option<&TreeEnd> {
        if self.end.is_none() {
            self.end = match self.ended.recv_timeout(longest) {
                Ok(end) => Some(end),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some(TreeEnd::default()),
            };
        }
        self.end.as_ref()
    }
}

impl Drop for ProcessTree {
    fn drop(&mut self) {
        if self.end.is_none() {
            // Without an owner `init` ends, and with it all.
            let _ = self.control.shutdown(Shutdown::Write);
        }
    }
}

/// What starts `init`.
static STARTED_BY: OnceLock<Vec<OsString>> = OnceLock::new();

/// Starts `init` by this program with its arguments from now on, where this executable does not call [`super::reentered`]. What follows these
/// arguments is for [`super::started_with`]. The first to say so is obeyed.
pub fn started_by(words: Vec<OsString>) {
    STARTED_BY.get_or_init(|| words);
}

/// The command that becomes `init` with [`TEND`] and so on behind it.
fn again() -> process::Command {
    match STARTED_BY.get().and_then(|words| words.split_first()) {
        Some((program, arguments)) => {
            let mut command = process::Command::new(program);
            command.args(arguments);
            command
        }
        None => {
            let mut command = process::Command::new(OURSELVES);
            command.arg0("paceline");
            command
        }
    }
}

/// Starts `init` from the calling thread, which is moved into the namespaces.
fn spawn(setting: &TreeSetting, control: OwnedFd, namespace: &Namespace) -> Result<Child, NamespaceError> {
    namespace.join()?;
    part_processes().map_err(|error| NamespaceError::system("make a process namespace", error))?;
    let user = setting.user.map_or_else(|| OURS.to_owned(), |UserId { user, group }| format!("{user}:{group}"));
    again()
        .arg(TEND)
        .arg(id_of_this())
        .arg(user)
        .args(&setting.words)
        .env_clear()
        .envs(setting.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(&setting.folder)
        .stdin(control)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| NamespaceError::system("start the command", error))
}

/// Takes what comes out of a tree until all of it is gone.
fn attend(mut child: Child, control: UnixStream, setting: TreeSetting, said: &AtomicBool) -> TreeEnd {
    let [out, err] = setting.outputs;
    let ready = setting.ready.unwrap_or_default();
    let source = |pipe: Option<OwnedFd>| pipe.map(File::from);
    let mut outputs = [
        Output::new(source(child.stdout.take().map(OwnedFd::from)), Some(out), &ready),
        Output::new(source(child.stderr.take().map(OwnedFd::from)), Some(err), &ready),
        Output::new(Some(File::from(OwnedFd::from(control))), None, ""),
    ];
    let mut chunk = vec![0; CHUNK];
    while outputs.iter().any(|output| output.source.is_some()) {
        let mut open: Vec<&mut Output> = outputs.iter_mut().filter(|output| output.source.is_some()).collect();
        let mut fds: Vec<PollFd<'_>> =
            open.iter().flat_map(|output| &output.source).map(|source| PollFd::new(source, PollFlags::IN)).collect();
        if clock::wait(&mut fds, None).is_err() {
            break;
        }
        let came: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        for (output, _) in open.iter_mut().zip(came).filter(|(_, came)| *came) {
            if output.take(&mut chunk) {
                said.store(true, Ordering::Release);
            }
        }
    }
    let _ = child.wait();
    let [out, mut err, mut control] = outputs;
    TreeEnd {
        cut: out.cut || err.cut,
        last_lines: last_lines(err.tail.make_contiguous()),
        ..read_report(control.tail.make_contiguous())
    }
}

/// One of the streams of a tree.
struct Output {
    /// Nothing when it has ended.
    source: Option<File>,
    kept: Option<File>,
    room: u64,
    cut: bool,
    ready: Vec<u8>,
    /// The last bytes that came.
    tail: VecDeque<u8>,
}

impl Output {
    fn new(source: Option<File>, kept: Option<File>, ready: &str) -> Self {
        Self { source, kept, room: KEPT, cut: false, ready: ready.as_bytes().to_vec(), tail: VecDeque::new() }
    }

    /// Takes what is there; whether the line of a program that is ready is in it.
    fn take(&mut self, chunk: &mut [u8]) -> bool {
        let Some(source) = &mut self.source else { return false };
        let came = match source.read(chunk) {
            Ok(0) => &chunk[..0],
            Ok(length) => &chunk[..length],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return false,
            Err(_) => &chunk[..0],
        };
        if came.is_empty() {
            self.source = None;
            return false;
        }
        if let Some(kept) = &mut self.kept {
            let (keep, rest) = came.split_at(came.len().min(self.room as usize));
            // Of a full disk the program learns nothing, and we that something is missing.
            let failed = kept.write_all(keep).is_err();
            self.cut |= failed || !rest.is_empty();
            self.room -= keep.len() as u64;
        }
        let said = !self.ready.is_empty() && {
            let before = self.tail.len().min(self.ready.len() - 1);
            let joint: Vec<u8> =
                self.tail.range(self.tail.len() - before..).copied().chain(came.iter().copied()).collect();
            joint.windows(self.ready.len()).any(|window| window == self.ready)
        };
        if said {
            self.ready.clear();
        }
        self.tail.extend(&came[came.len().saturating_sub(TAIL.max(self.ready.len()))..]);
        let over = self.tail.len().saturating_sub(TAIL.max(self.ready.len()));
        self.tail.drain(..over);
        said
    }
}

/// The last three lines of a text that are not empty, without control characters.
pub fn last_lines(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let mut lines: Vec<String> = text
        .lines()
        .rev()
        .map(|line| line.chars().map(|sign| if sign.is_control() { ' ' } else { sign }).collect::<String>())
        .map(|line| line.trim_end().to_owned())
        .filter(|line| !line.is_empty())
        .take(3)
        .collect();
    lines.reverse();
    lines
}

/// What `init` says at the end.
pub(super) fn report(end: &TreeEnd) -> String {
    let (how, number) = match (end.status, end.signal) {
        (Some(status), _) => ("exit", status),
        (None, signal) => ("signal", signal.unwrap_or(0)),
    };
    format!("{how} {number} {} {}\n", end.at.as_nanos(), end.cpu.as_nanos())
}

/// The same again; where there is none, how it ended is not known, and it ended now.
fn read_report(bytes: &[u8]) -> TreeEnd {
    let text = String::from_utf8_lossy(bytes);
    let mut words = text.split_whitespace();
    let mut read = || {
        let how = words.next()?;
        let number: i32 = words.next()?.parse().ok()?;
        let (status, signal) = match how {
            "exit" => (Some(number), None),
            "signal" => (None, Some(number)),
            _ => return None,
        };
        let mut nanos = || words.next()?.parse().ok();
        let (at, cpu) = (Time::from_nanos(nanos()?), Nanos::from_nanos(nanos()?));
        Some(TreeEnd { status, signal, at, cpu, ..TreeEnd::default() })
    };
    read().unwrap_or_else(|| TreeEnd { at: clock::monotonic(), ..TreeEnd::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_comes_back_as_it_was_and_an_odd_one_says_that_it_ended() {
        let end = TreeEnd { at: Time::from_nanos(77), cpu: Nanos::from_millis(1234), ..TreeEnd::default() };
        for end in [TreeEnd { status: Some(7), ..end.clone() }, TreeEnd { signal: Some(9), ..end }] {
            assert_eq!(read_report(report(&end).as_bytes()), end);
        }
        for odd in ["", "exit", "exit 7 5", "a 1 2 3", "exit a 2 3", "signal 9 b 3"] {
            let end = read_report(odd.as_bytes());
            assert!(end.at > Time::ZERO, "{odd}");
            assert_eq!(TreeEnd { at: Time::ZERO, ..end }, TreeEnd::default(), "{odd}");
        }
    }

    #[test]
    fn the_last_lines_are_text_without_control_characters() {
        assert_eq!(last_lines(b"one\ntwo\n\nthree \x1b[1mfour\nfive\n"), ["two", "three  [1mfour", "five"]);
        assert_eq!(last_lines(b""), Vec::<String>::new());
    }

    /// An output that these pieces come out of; whether the line was seen after each.
    fn seen(ready: &str, pieces: &[&[u8]]) -> Vec<bool> {
        let (mut from, to) = UnixStream::pair().unwrap();
        let mut output = Output::new(Some(File::from(OwnedFd::from(to))), None, ready);
        let mut chunk = vec![0; 16];
        let mut take = |piece: &&[u8]| {
            from.write_all(piece).unwrap();
            output.take(&mut chunk)
        };
        pieces.iter().map(&mut take).collect()
    }

    #[test]
    fn a_line_is_seen_across_the_pieces_that_it_comes_in() {
        assert_eq!(seen("ready", &[b"not rea", b"dy yet"]), [false, true]);
        assert_eq!(seen("ready", &[b"rea", b"d", b"y"]), [false, false, true]);
        assert_eq!(seen("ready", &[b"read", b"ity"]), [false, false]);
        assert_eq!(seen("r", &[b"a", b"r"]), [false, true]);
    }
}
