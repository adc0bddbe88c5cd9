//! A case in each mode, compared with the same program without the library.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use crate::client::{self, End, Gate, PATIENCE, Pattern, Reader, Received};
use crate::common::{Running, folder, installed, library, shimmed, skip};

/// A way to serve, and how the clients read.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    /// How many bytes each connection gets.
    pub(crate) bytes: u64,
    pub(crate) clients: usize,
    pub(crate) reader: Reader,
    /// How a client's part ends without the library.
    pub(crate) end: End,
    /// How the program ends without the library.
    pub(crate) exit: Exit,
    /// The first client gets at least this many of the bytes, and the rest depends on how fast who is: the program ends, or a
    /// call is cancelled, in the middle of them.
    pub(crate) least: Option<u64>,
    /// Two sequences that are woven into each other.
    pub(crate) woven: bool,
    /// Clients wait until the program calls them: what it sets before holds for their connections.
    pub(crate) called: bool,
    /// `RLIMIT_NOFILE`.
    pub(crate) descriptors: Option<u64>,
    pub(crate) variables: &'static [(&'static str, &'static str)],
}

/// The usual: what fits into the kernel's buffers without the library, and a client that reads when all is written.
pub(crate) const USUAL: Case = Case {
    bytes: 400_000,
    clients: 1,
    reader: Reader::Gated,
    end: End::Fin,
    exit: Exit::Code(0),
    least: None,
    woven: false,
    called: false,
    descriptors: None,
    variables: &[],
};

/// Which library, and how it is said to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Plain,
    Inline,
    Auto,
    Queue,
}

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Code(i32),
    Signal(i32),
    Hang,
}

/// What may differ in a mode: a client gets a reset, never a clean end after other bytes than these.
pub(crate) struct Exception {
    pub(crate) case: &'static str,
    pub(crate) mode: Mode,
    /// What the library says of it, where bytes overtook others. Where nothing is said, the queue was lost or given up: the
    /// client has a beginning of the right bytes.
    pub(crate) line: Option<&'static str>,
}

/// What was seen of a run.
#[derive(Debug)]
struct Outcome {
    clients: Vec<Received>,
    exit: Exit,
    reports: Vec<String>,
    /// What the library said.
    log: String,
}

/// The program of the cases, compiled; `None` without a C compiler.
fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let compile = || {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/torture/c");
        let files = std::fs::read_dir(sources).unwrap().map(|file| file.unwrap().path());
        let files = files.filter(|file| file.extension().is_some_and(|kind| kind == "c"));
        let program = library().with_file_name("torture");
        let mut command = Command::new(installed("cc")?);
        command.args(["-O1", "-pthread", "-o"]).arg(&program).args(files).arg("-lrt");
        assert!(command.status().unwrap().success(), "the program of the cases does not compile");
        // Not everywhere: the program says so where it needs it.
        let static_program = library().with_file_name("torture-static");
        let _ = command.args(["-static", "-o"]).arg(static_program).stderr(Stdio::null()).status();
        Some(program)
    };
    PROGRAM.get_or_init(compile).as_deref()
}

/// Runs a case without the library and in each mode, all at once, and compares.
pub(crate) fn compare(name: &'static str, case: Case, exceptions: &[Exception]) {
    if program().is_none() {
        return skip(name, "no C compiler");
    }
    let modes = [Mode::Plain, Mode::Inline, Mode::Auto, Mode::Queue];
    let seen = thread::scope(|scope| {
        let all = modes.map(|mode| scope.spawn(move || run(name, &case, mode)));
        all.map(|one| one.join().expect("it ran"))
    });
    let [plain, others @ ..] = seen;
    let plain = match plain {
        Ok(outcome) => outcome,
        Err(reason) => return skip(name, &reason),
    };
    let mut faults = faults_without(&case, &plain);
    for (mode, seen) in modes.into_iter().skip(1).zip(others) {
        let exception = exceptions.iter().find(|exception| exception.case == name && exception.mode == mode);
        let fault = match seen {
            Ok(seen) => difference(&case, &plain, &seen, exception),
            Err(reason) => Some(format!("skipped: {reason}")),
        };
        faults.extend(fault.map(|fault| format!("{name} {mode}: {fault}")));
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[expect(unsafe_code, reason = "a limit is lowered between fork and exec")]
fn run(name: &str, case: &Case, mode: Mode) -> Result<Outcome, String> {
    let folder = folder(name);
    let log = folder.path().join("log");
    let program = program().expect("it was compiled");
    let mut command = shimmed(program, &[("PACELINE_QUEUE", "10MB")]);
    command.envs(case.variables.iter().copied());
    match mode {
        Mode::Plain => command.env_remove("LD_PRELOAD"),
        // A small window keeps in the queue what the client has not read.
        Mode::Queue => command.env("PACELINE_CC", "fixed:window=1"),
        Mode::Auto | Mode::Inline => &mut command,
    };
    command.env_remove("PACELINE_QUIET").env("PACELINE_LOG", &log).env("PACELINE_MODE", mode.to_string());
    command.arg(name).arg(case.bytes.to_string()).current_dir(folder.path());
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    if let Some(most) = case.descriptors {
        let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
        let lower = move || {
            // SAFETY: reads one value.
            match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        };
        // SAFETY: between fork and exec, it does no more than a system call.
        unsafe { command.pre_exec(lower) };
    }
    let mut server = Running(command.spawn().unwrap());
    let mut lines = BufReader::new(server.0.stdout.take().unwrap()).lines().map_while(Result::ok);
    let port = match lines.next() {
        Some(line) => line.strip_prefix("port ").map(|port| port.parse().unwrap()).ok_or(line)?,
        None => return Err(format!("the program did not begin: {:?}", server.wait())),
    };
    if case.called && lines.by_ref().find(|line| line == "come").is_none() {
        return Err(format!("the program did not call: {:?}", server.wait()));
    }
    // Without a queue the program may wait for the client before it lets it read.
    let limit = if mode == Mode::Queue { Duration::from_secs(5) } else { Duration::from_millis(500) };
    let (gate, begun) = (Gate::default(), Instant::now());
    let (clients, exit, reports) = thread::scope(|scope| {
        let clients: Vec<_> = std::iter::repeat_with(|| client::connect(port)).take(case.clients).collect();
        let gate = &gate;
        let clients: Vec<_> = clients
            .into_iter()
            .map(|stream| {
                let pattern = if case.woven { Pattern::Two(0, 0) } else { Pattern::One };
                scope.spawn(move || client::read(stream, case.reader, pattern, gate, limit, case.bytes))
            })
            .collect();
        let reports = scope.spawn(move || {
            let mut reports = Vec::new();
            for line in lines {
                if line == "go" { gate.open() } else { reports.push(line) }
            }
            // Everybody who could have said so has ended.
            gate.open();
            reports
        });
        let clients: Vec<_> = clients.into_iter().map(|client| client.join().expect("it read")).collect();
        let exit = ended(&mut server, begun);
        if exit == Exit::Hang {
            drop(server);
        }
        (clients, exit, reports.join().expect("it read"))
    });
    if let Some(reason) = reports.iter().find_map(|line| line.strip_prefix("skip ")) {
        return Err(reason.to_owned());
    }
    Ok(Outcome { clients, exit, reports, log: std::fs::read_to_string(log).unwrap_or_default() })
}

/// Waits for the end of a program, which may take little longer than its clients do.
fn ended(server: &mut Running, begun: Instant) -> Exit {
    let patience = PATIENCE.saturating_sub(begun.elapsed()).max(PATIENCE / 10);
    let begun = Instant::now();
    while begun.elapsed() < patience {
        if let Some(status) = server.0.try_wait().unwrap() {
            return status.into();
        }
        thread::sleep(Duration::from_millis(5));
    }
    Exit::Hang
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        status.code().map_or_else(|| Self::Signal(status.signal().expect("it ended")), Self::Code)
    }
}

/// The first line that is not the same.
fn unlike(plain: &[String], seen: &[String]) -> String {
    let line = |lines: &[String], number: usize| lines.get(number).cloned().unwrap_or_else(|| "nothing".to_owned());
    let number = (0..plain.len().max(seen.len())).find(|&number| plain.get(number) != seen.get(number));
    let said = |number| format!("; it said {:?}, and without {:?}", line(seen, number), line(plain, number));
    number.map(said).unwrap_or_default()
}

/// What is wrong with a case itself: the kernel alone must do what it says.
fn faults_without(case: &Case, plain: &Outcome) -> Vec<String> {
    let right = |(number, client): (usize, &Received)| {
        let enough = match case.least.filter(|_| number == 0) {
            Some(least) => client.bytes >= least,
            None => client.bytes == case.bytes || case.end == End::Reset,
        };
        enough && client.wrong.is_none() && client.end == case.end && !client.late
    };
    let failed = plain.reports.iter().any(|line| line.starts_with("failed"));
    let right = plain.clients.iter().enumerate().all(right) && plain.exit == case.exit && !failed;
    if right { Vec::new() } else { vec![format!("plain is not as the case has it: {plain} {:?}", plain.reports)] }
}

/// How a mode differs from the kernel alone, where it must not.
fn difference(case: &Case, plain: &Outcome, seen: &Outcome, exception: Option<&Exception>) -> Option<String> {
    let same = |(number, plain, seen): (usize, &Received, &Received)| {
        let enough = match case.least.filter(|_| number == 0) {
            Some(least) => seen.bytes >= least,
            // A reset comes when it comes.
            None => seen.bytes == plain.bytes || plain.end == End::Reset,
        };
        enough && seen.wrong.is_none() && seen.end == plain.end && seen.late == plain.late
    };
    let pairs =
        || plain.clients.iter().zip(&seen.clients).enumerate().map(|(number, (plain, seen))| (number, plain, seen));
    if pairs().all(same) && seen.exit == plain.exit && seen.reports == plain.reports {
        return None;
    }
    let said = format!("{seen}, and without the library {plain}{}", unlike(&plain.reports, &seen.reports));
    let Some(exception) = exception else { return Some(said) };
    // What overtook other bytes may have reached the client before it was found.
    let overtaken = exception.line.is_some();
    let cut = |pair: (usize, &Received, &Received)| {
        same(pair) || (pair.2.end == End::Reset && (overtaken || pair.2.wrong.is_none()))
    };
    let named = exception.line.is_none_or(|line| seen.log.contains(line));
    // The program may find its connection broken and end otherwise, but it ends.
    let cut = pairs().all(cut) && pairs().any(|pair| !same(pair)) && seen.exit != Exit::Hang && named;
    (!cut).then(|| format!("{said}; a reset would do, with the line {:?}", exception.line))
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::Inline => "inline",
            Self::Auto => "auto",
            Self::Queue => "queue",
        })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said: Vec<(String, usize)> = Vec::new();
        for client in &self.clients {
            let wrong = client.wrong.map(|at| format!(", wrong from {at}")).unwrap_or_default();
            let late = if client.late { ", answers late" } else { "" };
            let text = format!("{} bytes{wrong}, {:?}{late}", client.bytes, client.end);
            match said.iter_mut().find(|(known, _)| *known == text) {
                Some((_, count)) => *count += 1,
                None => said.push((text, 1)),
            }
        }
        for (text, count) in said {
            write!(f, "{count} x [{text}] ")?;
        }
        write!(f, "{:?}", self.exit)?;
        let said: Vec<&str> = self.log.lines().filter(|line| !line.contains("TCP sockets are served")).collect();
        if said.is_empty() { Ok(()) } else { write!(f, " log {said:?}") }
    }
}

#[test]
fn what_may_be_cut() {
    const LINE: &str = "wrote past the queue";
    let seen = |bytes, wrong, end, log: &str| Outcome {
        clients: vec![Received { bytes, wrong, end, late: false }],
        exit: Exit::Code(0),
        reports: Vec::new(),
        log: log.to_owned(),
    };
    let plain = seen(USUAL.bytes, None, End::Fin, "");
    let (none, lost) = (None, Some(Exception { case: "", mode: Mode::Queue, line: None }));
    let overtaken = Some(Exception { case: "", mode: Mode::Queue, line: Some(LINE) });
    let right =
        |seen: &Outcome, exception: &Option<Exception>| difference(&USUAL, &plain, seen, exception.as_ref()).is_none();
    for exception in [&none, &lost, &overtaken] {
        assert!(right(&plain, exception));
        assert!(!right(&seen(7, None, End::Fin, LINE), exception), "a part is not the whole");
        assert!(!right(&seen(USUAL.bytes, Some(3), End::Fin, LINE), exception), "wrong bytes, unnoticed");
        assert!(!right(&seen(7, None, End::Timeout, LINE), exception), "no end");
    }
    let reset = seen(7, None, End::Reset, "");
    assert!(right(&reset, &lost) && !right(&reset, &none));
    assert!(!right(&reset, &overtaken), "a line says why");
    let late = seen(7, Some(3), End::Reset, LINE);
    assert!(right(&late, &overtaken) && !right(&late, &lost) && !right(&late, &none));
}
