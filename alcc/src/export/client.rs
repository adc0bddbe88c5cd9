//! Asking other processes for their sockets.

use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};

use super::place::{self, Place};
use super::{Line, Process};

/// Longest wait for the whole answer of one process (our choice: it takes well under a millisecond).
const PATIENCE: Duration = Duration::from_secs(1);
/// Most bytes of an answer: some 10 000 sockets (our choice).
const LONGEST: u64 = 8 << 20;

/// Every process of this user that has sockets above TCP, by number; for root those of all users, in containers too. What
/// a killed process left behind is removed.
pub fn processes() -> Vec<Process> {
    processes_but(None)
}

/// As [`processes`], without one.
pub(super) fn processes_but(own: Option<&Place>) -> Vec<Process> {
    let places = place::all();
    let places = places.iter().filter(|place| own.is_none_or(|own| !own.is(place)));
    let mut found: Vec<Process> = places.filter_map(|place| ask(place).ok()).collect();
    found.sort_by_key(|process| process.pid);
    found
}

/// Removes what killed processes of this user left behind in a folder.
pub(super) fn sweep(folder: &Path) {
    for place in place::inside(folder) {
        // Numbers of another namespace mean nothing here, but their processes answer.
        let alive = place.path.file_stem().is_some_and(|pid| Path::new("/proc").join(pid).exists());
        if !alive {
            let _ = connect(&place);
        }
    }
}

fn connect(place: &Place) -> io::Result<UnixStream> {
    let remove = || {
        if place.own {
            let _ = std::fs::remove_file(&place.path);
        }
    };
    // Without waiting: a program that is stopped accepts nobody, and at some time no more may queue for it.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let stream = UnixStream::from(socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?);
    rustix::net::connect(&stream, &SocketAddrUnix::new(&place.path)?).inspect_err(|error| {
        if *error == rustix::io::Errno::CONNREFUSED {
            remove();
        }
    })?;
    stream.set_nonblocking(false)?;
    // Who listened first: a child that a fork made may hold the socket beyond its end, and answers nobody.
    let listener = getsockopt(&stream, PeerCredentials)?.pid();
    if listener > 0 && !Path::new(&format!("/proc/{listener}")).exists() {
        remove();
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    Ok(stream)
}

fn ask(place: &Place) -> io::Result<Process> {
    let stream = connect(place)?;
    let listener = getsockopt(&stream, PeerCredentials)?.pid();
    let mut process = read(Patient { stream, end: Instant::now() + PATIENCE })?;
    // As this process knows it; 0 when it is in a namespace that cannot be seen from here.
    process.pid = u32::try_from(listener).ok().filter(|pid| *pid > 0).unwrap_or(process.pid);
    Ok(process)
}

/// A stream that is read until some moment, however little comes at a time.
struct Patient {
    stream: UnixStream,
    end: Instant,
}

impl Read for Patient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(buffer)
    }
}

/// Reads what a process answers to who connects to its Unix socket. Control characters are left out: a terminal would obey
/// those of a stranger.
///
/// # Errors
/// The reader's, or that it is no such answer.
pub fn read(from: impl Read) -> io::Result<Process> {
    let mut lines = BufReader::new(from.take(LONGEST)).lines();
    let first = lines.next().ok_or(io::ErrorKind::UnexpectedEof)??;
    let mut process: Process = serde_json::from_str(&first)?;
    for line in lines {
        process.sockets.push(serde_json::from_str(&line?)?);
    }
    let Process { program, version, sockets, .. } = &mut process;
    let of_sockets = sockets.iter_mut().flat_map(|line| {
        let Line { controller, mode, acks, limited_by, .. } = line;
        [controller, mode, acks, limited_by]
    });
    for text in [program, version].into_iter().chain(of_sockets) {
        text.retain(|c| !c.is_control());
    }
    Ok(process)
}
