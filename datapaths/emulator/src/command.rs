//! Any program in a [`Namespace`], with everything that it starts, gone when it ends or when paceline does.
//!
//! The program runs in a process namespace of its own, under an `init` that is this executable started again
//! ([`reentered`]). The kernel kills a process namespace with its `init`, and the `init` with the thread that started
//! it (`PR_SET_PDEATHSIG`): `kill -9` of paceline leaves nothing behind. Session, process group and terminal stay
//! paceline's own, so that Ctrl-C and Ctrl-Z reach the program as if it ran alone.
//!
//! Source: pid_namespaces(7), prctl(2).

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode, ExitStatus};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use paceline_linux::namespace::{Namespace, NamespaceError, part_mounts, part_processes};
use paceline_linux::signals::{Signals, release};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, set_parent_process_death_signal, wait};

mod tending;
pub mod tree;

/// This executable, whatever became of its file.
const OURSELVES: &str = "/proc/self/exe";
/// First argument of the first process of a process namespace; the second is the process that must stay alive.
const INIT: &str = "__init";
/// First argument of the process that becomes the program.
const BECOME: &str = "__become";

/// Exit status when the program is there but cannot be run, as a shell has it.
pub const NOT_RUNNABLE: u8 = 126;
/// Exit status when there is no such program, as a shell has it.
pub const NOT_FOUND: u8 = 127;

/// The signals that reach paceline while a program runs. Those from the terminal reach the program as well, which
/// decides; others are to be passed on with [`RunningProgram::signal`].
pub const PASSED_ON: [Signal; 7] =
    [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::USR1, Signal::USR2, Signal::WINCH];

/// Why a program did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// There is no such program.
    #[error("{program}: there is no such program; give {}", instead(.program))]
    NotFound {
        /// As it was given.
        program: String,
    },
    /// It is not an executable file.
    #[error("{program}: it cannot be run ({reason}); give an executable file")]
    NotRunnable {
        /// As it was given.
        program: String,
        /// Why.
        reason: String,
    },
    /// The namespaces could not be had.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
}

impl CommandError {
    /// The exit status that a shell has for it.
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::NotFound { .. } => NOT_FOUND,
            Self::NotRunnable { .. } => NOT_RUNNABLE,
            Self::Namespace(_) => 2,
        }
    }
}

/// A program and its arguments.
#[derive(Clone, Debug)]
pub struct Command {
    words: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
}

impl Command {
    /// The program `words[0]` with the others as its arguments.
    ///
    /// # Errors
    /// When there is no such program in `PATH` or at the path given, or it cannot be run.
    pub fn new(words: impl IntoIterator<Item = impl Into<OsString>>) -> Result<Self, CommandError> {
        let words: Vec<OsString> = words.into_iter().map(Into::into).collect();
        find(words.first().map_or(OsStr::new(""), OsString::as_os_str))?;
        Ok(Self { words, environment: Vec::new() })
    }

    /// With a variable in its environment.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Starts it inside a network namespace.
    ///
    /// # Errors
    /// When the process namespace cannot be made.
    pub fn start(self, namespace: &Namespace) -> Result<RunningProgram, CommandError> {
        let (tell, told) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let namespace = namespace.clone();
        // The kernel ties the life of `init` to the thread that started it: the thread waits for it.
        let body = move || match self.spawn(&namespace) {
            Ok(mut child) => {
                let _ = tell.send(Ok(Pid::from_child(&child)));
                let _ = end.send(child.wait());
            }
            Err(error) => drop(tell.send(Err(error))),
        };
        let step = || "start the command";
        thread::Builder::new()
            .name("command".to_owned())
            .spawn(body)
            .map_err(|error| NamespaceError::system(step(), error))?;
        let id = told.recv().map_err(|_| NamespaceError::system(step(), io::ErrorKind::BrokenPipe))??;
        Ok(RunningProgram { init: id, ended, status: None })
    }

    /// Starts `init` from the calling thread, which is moved into the namespaces.
    fn spawn(self, namespace: &Namespace) -> Result<process::Child, NamespaceError> {
        namespace.join()?;
        part_processes().map_err(|error| NamespaceError::system("make a process namespace", error))?;
        process::Command::new(OURSELVES)
            .arg0("paceline")
            .arg(INIT)
            .arg(id_of_this())
            .args(&self.words)
            .envs(self.environment)
            .spawn()
            .map_err(|error| NamespaceError::system("start the command", error))
    }
}

/// A program that runs. Dropping it leaves it running; it ends with this process at the latest.
#[derive(Debug)]
pub struct RunningProgram {
    init: Pid,
    ended: Receiver<io::Result<ExitStatus>>,
    status: Option<u8>,
}

impl RunningProgram {
    /// Sends it a signal: `SIGKILL` ends it and everything that it started, others reach the program alone.
    pub fn signal(&self, signal: Signal) {
        if self.status.is_none() {
            // It may just have ended.
            let _ = kill_process(self.init, signal);
        }
    }

    /// Waits for its end, at most this long; `None` when it still runs then. The exit status is its own, or 128 and the
    /// number of the signal that ended it, as in a shell.
    pub fn wait(&mut self, longest: Duration) -> Option<u8> {
        if self.status.is_none() {
            self.status = match self.ended.recv_timeout(longest) {
                Ok(Ok(status)) => Some(shell_status(status.code(), status.signal())),
                Err(RecvTimeoutError::Timeout) => None,
                Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => Some(NOT_RUNNABLE),
            };
        }
        self.status
    }
}

fn shell_status(code: Option<i32>, signal: Option<i32>) -> u8 {
    let number = code.or_else(|| signal.map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(number).unwrap_or(u8::MAX)
}

/// Where a program is: at its path, or in one of the folders of `PATH`.
///
/// # Errors
/// When there is none, or none that is an executable file.
pub fn find(program: &OsStr) -> Result<PathBuf, CommandError> {
    let name = program.to_string_lossy().into_owned();
    let not_found = || CommandError::NotFound { program: name.clone() };
    if program.is_empty() {
        return Err(not_found());
    }
    let places: Vec<PathBuf> = if program.as_encoded_bytes().contains(&b'/') {
        vec![PathBuf::from(program)]
    } else {
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        std::env::split_paths(&path).map(|folder| folder.join(program)).collect()
    };
    let present: Vec<&PathBuf> = places.iter().filter(|place| place.exists()).collect();
    if let Some(place) = present.iter().find(|place| is_executable(place)) {
        return Ok((*place).clone());
    }
    let place = present.first().ok_or_else(not_found)?;
    let reason = if place.is_dir() { "it is a folder" } else { "it is not executable" };
    Err(CommandError::NotRunnable { program: name, reason: reason.to_owned() })
}

/// Where an ordinary user's `PATH` does not lead, and servers are.
const ELSEWHERE: [&str; 2] = ["/usr/local/sbin", "/usr/sbin"];

/// What to give instead of a program that is not in `PATH`.
fn instead(program: &str) -> String {
    let places = ELSEWHERE.map(|folder| Path::new(folder).join(program));
    match places.iter().find(|place| !program.contains('/') && is_executable(place)) {
        Some(place) => place.display().to_string(),
        None => "one that is in PATH, or its path".to_owned(),
    }
}

fn is_executable(place: &Path) -> bool {
    fs::metadata(place).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// A program with its arguments, for a process that has taken [`PASSED_ON`]: what it starts would begin with them blocked, and
/// this does not.
///
/// # Errors
/// When there is no such program, or it cannot be run.
pub fn unblocked(words: &[OsString]) -> Result<process::Command, CommandError> {
    find(words.first().map_or(OsStr::new(""), OsString::as_os_str))?;
    let mut command = process::Command::new(OURSELVES);
    command.arg0("paceline").arg(BECOME).args(words);
    Ok(command)
}

/// Whether this process was started by [`Command::start`] or [`tree::ProcessTree::start`]: then it does its part and answers the exit
/// status. To be called first in `main`.
pub fn reentered() -> Option<ExitCode> {
    started_with(std::env::args_os().skip(1)).map(ExitCode::from)
}

/// As [`reentered`], of a process whose arguments these are behind those of [`tree::started_by`].
pub fn started_with(mut arguments: impl Iterator<Item = OsString>) -> Option<u8> {
    match arguments.next()?.to_str()? {
        INIT => {
            let parent = arguments.next()?;
            Some(init(&parent, &arguments.collect::<Vec<_>>()))
        }
        tree::TEND => {
            let (parent, user) = (arguments.next()?, arguments.next()?);
            let ended = tending::tend(&parent, &user, &arguments.collect::<Vec<_>>());
            Some(u8::from(ended.is_err()))
        }
        BECOME => Some(become_program(&arguments.collect::<Vec<_>>())),
        _ => None,
    }
}

/// The first process of a process namespace: starts the program, passes signals on, collects what died.
fn init(parent: &OsStr, words: &[OsString]) -> u8 {
    if !tied_to(parent) {
        return 1;
    }
    own_proc();
    let Ok(signals) = Signals::take(&of_init()) else { return 1 };
    let program = match process::Command::new(OURSELVES).arg0("paceline").arg(BECOME).args(words).spawn() {
        Ok(child) => Pid::from_child(&child),
        Err(error) => return not_started(words, &error),
    };
    loop {
        if let Some(status) = collect(program) {
            return status;
        }
        if let Ok(taken) = signals.wait()
            && taken.by_process
            && taken.signal != Signal::CHILD
        {
            let _ = kill_process(program, taken.signal);
        }
    }
}

/// Ties the life of this process to that of its parent; false where the parent died before that.
fn tied_to(parent: &OsStr) -> bool {
    set_parent_process_death_signal(Some(Signal::KILL)).is_ok() && parent_of_this().as_deref() == parent.to_str()
}

/// What the first process takes.
fn of_init() -> Vec<Signal> {
    PASSED_ON.into_iter().chain([Signal::CHILD]).collect()
}

/// Collects the children that died; the exit status of the program when it is among them.
fn collect(program: Pid) -> Option<u8> {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == program => {
                return Some(shell_status(status.exit_status(), status.terminating_signal()));
            }
            Ok(Some(_)) => {}
            Ok(None) => return None,
            Err(_) => return Some(1),
        }
    }
}

/// This process's id as the process namespace to which /proc belongs has it, which need not be its own.
fn id_of_this() -> OsString {
    let link = fs::read_link("/proc/self");
    link.map_or_else(|_| process::id().to_string().into(), PathBuf::into_os_string)
}

/// The parent's id as [`id_of_this`] of the parent: /proc is still the same.
fn parent_of_this() -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:")).map(|id| id.trim().to_owned())
}

/// Mounts a /proc that shows this process namespace. Where it may not be (a container hides parts of /proc), the outer
/// one stays: programs run, `ps` shows others' processes.
fn own_proc() {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    let hidden = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    if part_mounts().is_ok() && mount_change("/", private).is_ok() {
        let _ = mount("proc", "/proc", "proc", hidden, None);
    }
}

/// Becomes the program. Signals that arrived meanwhile wait until here.
fn become_program(words: &[OsString]) -> u8 {
    release(&of_init());
    let Some((program, arguments)) = words.split_first() else { return 1 };
    not_started(words, &process::Command::new(program).args(arguments).exec())
}

/// Says why the program was not started; the exit status for it.
fn not_started(words: &[OsString], error: &io::Error) -> u8 {
    let program = words.first().map_or_else(String::new, |word| word.to_string_lossy().into_owned());
    let _ = writeln!(io::stderr(), "paceline: {program}: it cannot be run ({error})");
    if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_RUNNABLE }
}
