//! Asking other processes for their sockets.

use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};

use super::Process;
use super::place::{self, Place};

/// Longest wait for one process (our choice: an answer takes well under a millisecond).
const PATIENCE: Duration = Duration::from_millis(500);
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
    let stream = UnixStream::connect(&place.path).inspect_err(|error| {
        if error.kind() == io::ErrorKind::ConnectionRefused {
            remove();
        }
    })?;
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
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut process = read(stream)?;
    // As this process knows it; 0 when it is in a namespace that cannot be seen from here.
    process.pid = u32::try_from(listener).ok().filter(|pid| *pid > 0).unwrap_or(process.pid);
    Ok(process)
}

fn read(from: impl Read) -> io::Result<Process> {
    let mut lines = BufReader::new(from.take(LONGEST)).lines();
    let first = lines.next().ok_or(io::ErrorKind::UnexpectedEof)??;
    let mut process: Process = serde_json::from_str(&first)?;
    process.program.retain(|c| !c.is_control());
    for line in lines {
        process.sockets.push(serde_json::from_str(&line?)?);
    }
    Ok(process)
}
