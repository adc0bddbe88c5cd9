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

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::OwnedFd;
    use std::thread;

    use rustix::net::{bind, listen};

    use super::*;

    /// A listener that accepts nobody, and where it is.
    fn stopped(folder: &Path) -> (OwnedFd, Place) {
        let path = folder.join("1.sock");
        let listener = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        listen(&listener, 0).unwrap();
        (listener, Place::of(path).unwrap())
    }

    #[test]
    fn who_does_not_answer_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let (listener, place) = stopped(folder.path());
        let waiting: Vec<io::Result<UnixStream>> = (0..10).map(|_| connect(&place)).collect();
        // No more may queue: nothing waits for room.
        assert!(waiting[0].is_ok());
        assert_eq!(waiting[9].as_ref().map(|_| ()).map_err(io::Error::kind), Err(io::ErrorKind::WouldBlock));
        assert!(ask(&place).is_err() && place.path.exists(), "it may go on one day");
        drop((waiting, listener));
        assert!(ask(&place).is_err() && !place.path.exists(), "nobody is left to answer");
    }

    #[test]
    fn little_at_a_time_is_not_waited_for() {
        let (stream, mut slow) = UnixStream::pair().unwrap();
        let writer = thread::spawn(move || {
            // Ends when nobody reads any more.
            while slow.write_all(b" ").is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        });
        let found = read(Patient { stream, end: Instant::now() + Duration::from_millis(200) });
        assert!(found.is_err());
        writer.join().unwrap();
    }

    #[test]
    fn no_stranger_commands_the_terminal() {
        let process = "{\"pid\":1,\"program\":\"a\\u001b[2J\",\"version\":\"\\u0007\"}\n";
        let socket = "{\"controller\":\"\\u001b]0;x\\u0007copa\",\"mode\":\"\\n\",\"limited_by\":\"\\u009b\"}\n";
        let found = read(format!("{process}{socket}").as_bytes()).unwrap();
        let line = &found.sockets[0];
        let texts = [&found.program, &found.version, &line.controller, &line.mode, &line.limited_by];
        assert_eq!(texts, ["a[2J", "", "]0;xcopa", "", ""]);
        for wrong in ["", "{}", "[", "{\"pid\":1,\"program\":\"a\",\"version\":\"0\"}\nx"] {
            assert!(read(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
