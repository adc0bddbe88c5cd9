//! Asking another process for its sockets.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

use paceline_cc::foreign::is_hidden;
use paceline_linux::sockopt;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, recv, socket_with};

use super::place::{self, Place};
use super::{Line, Process, search};
use crate::descriptors::lift;

/// Most bytes of an answer: some 10 000 sockets (our choice).
pub(super) const LONGEST: usize = 8 << 20;
/// Most sockets in an answer: a line of [`Line`]'s names and of no values to speak of takes 400 bytes.
const SOCKETS: usize = LONGEST / 400;
/// Bytes read at a time.
const PIECE: usize = 64 << 10;

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The process has ended.
    Ended,
    /// Something is there that does not answer, or is not what it should be.
    Silent,
}

/// A connection to a process whose answer is awaited.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) place: Place,
    stream: OwnedFd,
    /// The process that listens, as this one knows it; 0 for one in a namespace that cannot be seen from here.
    process: u32,
    pub(super) since: Instant,
    answer: Vec<u8>,
}

impl Ask {
    /// Connects without waiting. What a killed process of this user left behind in a folder of its own is removed.
    pub(super) fn begin(place: Place, now: Instant) -> Result<Self, Failure> {
        let socket = place.open().map_err(|_| Failure::Ended)?;
        let stream = connect(&socket).map_err(|error| refused(error, &place, &socket))?;
        let (process, user) = sockopt::peer(&stream).map_err(|_| Failure::Silent)?;
        // A child that a fork made may hold the socket beyond its process's end, and answers no request.
        if process > 0 && !is_there(process) {
            return Err(Failure::Ended);
        }
        if user != place.folder.user || !listens_there(process, &place) {
            return Err(Failure::Silent);
        }
        Ok(Self { place, stream, process, since: now, answer: Vec::new() })
    }

    pub(super) fn stream(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Bytes of the answer so far.
    pub(super) fn len(&self) -> usize {
        self.answer.len()
    }

    /// Reads what has come; the answer when it is whole.
    pub(super) fn proceed(&mut self) -> Option<Result<Process, Failure>> {
        let start = self.answer.len();
        while self.answer.len() <= LONGEST {
            let mut piece = [0; PIECE];
            match recv(&self.stream, &mut piece, RecvFlags::empty()) {
                Ok((0, _)) => return Some(self.end()),
                Ok((count, _)) => self.answer.extend_from_slice(&piece[..count]),
                Err(Errno::AGAIN | Errno::INTR) => return None,
                Err(_) => return Some(self.end()),
            }
            // The others are not to wait for one that writes on and on.
            if self.answer.len() - start > 16 * PIECE {
                return None;
            }
        }
        Some(Err(Failure::Silent))
    }

    fn end(&self) -> Result<Process, Failure> {
        if self.answer.is_empty() && self.place.open().is_err() {
            // It ended just now.
            return Err(Failure::Ended);
        }
        let mut process = read(self.answer.as_slice()).map_err(|_| Failure::Silent)?;
        if self.process > 0 {
            process.pid = self.process;
        }
        Ok(process)
    }
}

/// Removes what killed processes of this user left behind where this one listens.
pub(super) fn sweep(own: &Place) {
    let (places, _) = own.folder.sockets(search::OF_A_USER).unwrap_or_default();
    // Numbers of another namespace mean nothing here, but their processes accept.
    for place in places.into_iter().filter(|place| !place.is(own) && !place.process().is_some_and(is_there)) {
        let _ = Ask::begin(place, Instant::now());
    }
}

/// Connects to this very file. Without waiting: a program that is stopped accepts no connection, and at some time no more may
/// queue for it.
fn connect(socket: &File) -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let stream = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&stream, &SocketAddrUnix::new(place::path_of(socket))?)?;
    lift(stream).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::MFILE))
}

fn refused(error: Errno, place: &Place, socket: &File) -> Failure {
    if error == Errno::CONNREFUSED {
        if let Ok(file) = place::identity(socket) {
            place.remove(file);
        }
        return Failure::Ended;
    }
    // No connection is accepted, so only the name says which process listens. That number may be of another namespace.
    let ended = place.folder.through.is_none() && !place.process().is_some_and(is_there);
    if error == Errno::AGAIN && ended { Failure::Ended } else { Failure::Silent }
}

fn is_there(process: u32) -> bool {
    Path::new(&format!("/proc/{process}")).exists()
}

/// Whether the process that listens sees the folder where it was found, if that was through another process.
fn listens_there(process: u32, place: &Place) -> bool {
    let Some(through) = place.folder.through else { return true };
    let alike = search::mounts(process).is_some_and(|mounts| search::mounts(through) == Some(mounts));
    let seen = || place.folder.as_seen_by(process).open().and_then(|folder| place::identity(&folder));
    process > 0 && (alike || seen().is_ok_and(|folder| folder == place.identity))
}

/// Reads what a process answers to who connects to its Unix socket. Control characters are left out: a terminal would obey
/// those of a stranger.
///
/// # Errors
/// The reader's, or that this is not such an answer.
pub fn read(from: impl Read) -> io::Result<Process> {
    let mut lines = BufReader::new(from.take(LONGEST as u64)).lines();
    let first = lines.next().ok_or(io::ErrorKind::UnexpectedEof)??;
    let mut process: Process = serde_json::from_str(&first)?;
    for line in lines {
        if process.sockets.len() == SOCKETS {
            return Err(io::ErrorKind::InvalidData.into());
        }
        process.sockets.push(serde_json::from_str(&line?)?);
    }
    let Process { program, version, sockets, .. } = &mut process;
    let of_sockets = sockets.iter_mut().flat_map(|line| {
        let Line { controller, mode, acks, limited_by, .. } = line;
        [controller, mode, acks, limited_by]
    });
    for text in [program, version].into_iter().chain(of_sockets) {
        text.retain(|c| !is_hidden(c));
    }
    Ok(process)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;
    use std::{fs, io::Write};

    use rustix::net::{bind, listen};
    use rustix::process::getuid;

    use super::*;
    use crate::export::place::Folder;

    /// A listener that accepts no connection, and where it is.
    fn stopped(folder: &Path, process: u32) -> (OwnedFd, Place) {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).unwrap();
        let path = folder.join(format!("{process}.sock"));
        let listener = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        listen(&listener, 0).unwrap();
        let folder = Arc::new(Folder::here(folder, getuid().as_raw()));
        (listener, folder.sockets(9).unwrap().0.remove(0))
    }

    fn begin(place: &Place) -> Result<Ask, Failure> {
        Ask::begin(place.clone(), Instant::now())
    }

    #[test]
    fn nothing_is_removed_that_may_answer() {
        let folder = tempfile::tempdir().unwrap();
        let (listener, place) = stopped(folder.path(), std::process::id());
        let waiting: Vec<Result<Ask, Failure>> = (0..10).map(|_| begin(&place)).collect();
        // No more may queue: nothing waits for room.
        assert!(waiting[0].is_ok());
        assert_eq!(waiting[9].as_ref().err(), Some(&Failure::Silent));
        assert!(place.open().is_ok(), "it may go on one day");
        drop((waiting, listener));
        assert_eq!(begin(&place).err(), Some(Failure::Ended));
        assert!(place.open().is_err(), "no process is left to answer");
    }

    #[test]
    fn a_socket_that_a_child_holds_is_of_a_process_that_ended() {
        let folder = tempfile::tempdir().unwrap();
        // No process has this number (Linux Documentation/admin-guide/sysctl/kernel.rst: pid_max is at most 2^22).
        let (_listener, place) = stopped(folder.path(), 1 << 22);
        let waiting: Vec<Result<Ask, Failure>> = (0..10).map(|_| begin(&place)).collect();
        assert_eq!(waiting[9].as_ref().err(), Some(&Failure::Ended));
        assert!(place.open().is_ok());
    }

    #[test]
    fn a_socket_is_asked_only_where_its_process_sees_it() {
        let folder = tempfile::tempdir().unwrap();
        let (_listener, place) = stopped(folder.path(), std::process::id());
        let seen_by = |process| {
            let found = Arc::new(place.folder.as_seen_by(process)).sockets(9).map(|(places, _)| places);
            found.ok().and_then(|mut places| places.pop()).map(|place| begin(&place).is_ok())
        };
        assert_eq!(seen_by(std::process::id()), Some(true));
        assert!(!listens_there(0, &Place { folder: Arc::new(place.folder.as_seen_by(1)), ..place.clone() }));
        assert!(listens_there(0, &place), "of another namespace, in a folder of this one");
    }

    #[test]
    fn an_answer_is_read_as_it_comes() {
        let folder = tempfile::tempdir().unwrap();
        let (listener, place) = stopped(folder.path(), std::process::id());
        let mut ask = begin(&place).unwrap();
        let mut other = std::os::unix::net::UnixListener::from(listener).accept().unwrap().0;
        assert!(ask.proceed().is_none());
        other.write_all(b"{\"pid\":1,\"program\":\"a\",\"vers").unwrap();
        assert!(ask.proceed().is_none() && ask.len() > 0);
        other.write_all(b"ion\":\"0\"}\n{\"id\":7}\n").unwrap();
        assert!(ask.proceed().is_none());
        drop(other);
        let found = ask.proceed().unwrap().unwrap();
        assert_eq!((found.pid, found.sockets[0].id), (std::process::id(), 7), "the kernel's word for the number");
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
        let head = "{\"pid\":1,\"program\":\"a\",\"version\":\"0\"}\n";
        assert!(read((head.to_owned() + &"{}\n".repeat(SOCKETS)).as_bytes()).is_ok());
        assert!(
            read((head.to_owned() + &"{}\n".repeat(SOCKETS + 1)).as_bytes()).is_err(),
            "millions fit into a few bytes"
        );
    }
}
