//! The bus of one machine: a folder with a socket for each subscriber.
//!
//! A subscriber listens at a socket of its own; a publisher looks for sockets now and then, connects to each, and sends it every
//! message. Nothing needs to be there first, and nothing is left when a process is killed but a socket that the next publisher removes.
//! The sockets keep the borders of messages (`SOCK_SEQPACKET`), and do not depend on network namespaces. The folder is its owner's
//! alone, and each side asks the kernel who the other is.

use std::collections::HashMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use paceline_files::secret;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    recv, send, socket_with, sockopt,
};

use crate::bus::Shared;
use crate::envelope::MESSAGE_MAX;
use crate::options::BusError;
use crate::subscription::Inbox;

/// How often a publisher looks for new subscribers. Our choice: a flow lasts longer.
const LOOK: Duration = Duration::from_millis(200);
/// Subscribers that a publisher serves, and publishers that a subscriber listens to. Our choice.
const PEERS: usize = 64;
/// Messages read from one publisher before the next has its turn. Our choice.
const TURN: usize = 64;
/// The most bytes of a subject in front of a message: `int.v1.` and three names.
const SUBJECT_MAX: usize = 256;
/// What a socket's name ends in once it listens.
const ENDING: &str = "socket";
const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// Makes the folder, if there is none, and sees that it is ours alone.
pub(crate) fn prepare(folder: &Path) -> Result<(), BusError> {
    let of = |error| BusError::Folder { path: folder.to_owned(), error };
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent).map_err(of)?;
    }
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(of(error)),
        _ => {}
    }
    let about = fs::symlink_metadata(folder).map_err(of)?;
    let own = about.uid() == rustix::process::geteuid().as_raw();
    if !about.is_dir() || !own || secret::is_shared(&about) {
        return Err(BusError::Open(folder.to_owned()));
    }
    Ok(())
}

fn unix_socket() -> rustix::io::Result<OwnedFd> {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, FLAGS, None)
}

/// Whether the other end is of this user, or root's.
fn is_ours(socket: &OwnedFd) -> bool {
    sockopt::socket_peercred(socket).is_ok_and(|peer| peer.uid.is_root() || peer.uid == rustix::process::geteuid())
}

/// Sends what a publisher has.
pub(crate) struct Post {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Post {
    pub(crate) fn start(folder: &Path, shared: &Arc<Shared>) -> io::Result<Self> {
        let ended = Arc::new(AtomicBool::new(false));
        let (folder, served, end) = (folder.to_owned(), shared.clone(), ended.clone());
        let thread = thread::Builder::new().name("paceline-post".to_owned());
        let thread = thread.spawn(move || deliver(&folder, &served, &end))?;
        Ok(Self { ended, thread: Some(thread) })
    }
}

impl Drop for Post {
    /// What waits is sent first, which takes no longer than [`LOOK`] where nothing does.
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn deliver(folder: &Path, shared: &Shared, ended: &AtomicBool) {
    let mut peers = HashMap::new();
    let mut looked: Option<Instant> = None;
    loop {
        let item = shared.outbox.wait(LOOK);
        if looked.is_none_or(|looked| looked.elapsed() >= LOOK) {
            look(folder, &mut peers);
            looked = Some(Instant::now());
        }
        let Some(item) = item else {
            if ended.load(Ordering::Acquire) {
                return;
            }
            continue;
        };
        if shared.is_expired(&item) {
            continue;
        }
        let message = [item.subject.as_bytes(), b"\n", &item.bytes].concat();
        peers.retain(|_, peer| match send(&*peer, &message, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(_) => {
                shared.figures().sent += 1;
                true
            }
            Err(Errno::AGAIN | Errno::NOBUFS) => {
                shared.figures().slow += 1;
                true
            }
            Err(_) => false,
        });
    }
}

/// Connects to subscribers that are new.
fn look(folder: &Path, peers: &mut HashMap<PathBuf, OwnedFd>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|ending| ending != ENDING) || peers.contains_key(&path) || peers.len() >= PEERS {
            continue;
        }
        let address = SocketAddrUnix::new(&path);
        let connected = address.and_then(|address| {
            let socket = unix_socket()?;
            connect(&socket, &address)?;
            Ok(socket)
        });
        match connected {
            Ok(socket) if is_ours(&socket) => {
                peers.insert(path, socket);
            }
            // Its process was killed.
            Err(Errno::CONNREFUSED) => {
                let _ = fs::remove_file(&path);
            }
            _ => {}
        }
    }
}

/// Receives for a subscriber.
pub(crate) struct Listener {
    path: PathBuf,
    stop: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    pub(crate) fn start(folder: &Path, inbox: &Arc<Inbox>) -> Result<Self, BusError> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let (draft, path) = (folder.join(&name), folder.join(&name).with_extension(ENDING));
        let of = |error: io::Error| BusError::Folder { path: path.clone(), error };
        let listener = listen_at(&draft).map_err(|error| of(error.into()))?;
        // Only now it can be found: a socket that does not listen yet looks like one that was left behind.
        fs::rename(&draft, &path).map_err(of)?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(io::Error::from)?;
        let stopped = rustix::io::fcntl_dupfd_cloexec(&stop, 0).map_err(io::Error::from)?;
        let inbox = inbox.clone();
        let thread = thread::Builder::new().name("paceline-inbox".to_owned());
        let thread = thread.spawn(move || receive(&listener, &stopped, &inbox))?;
        Ok(Self { path, stop, thread: Some(thread) })
    }
}

fn listen_at(path: &Path) -> rustix::io::Result<OwnedFd> {
    let socket = unix_socket()?;
    // Of an earlier process with this number.
    let _ = fs::remove_file(path);
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, PEERS as i32)?;
    Ok(socket)
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn receive(listener: &OwnedFd, stop: &OwnedFd, inbox: &Inbox) {
    let mut peers: Vec<OwnedFd> = Vec::new();
    let mut buffer = vec![0; SUBJECT_MAX + MESSAGE_MAX + 1];
    loop {
        let all = [stop.as_fd(), listener.as_fd()].into_iter().chain(peers.iter().map(AsFd::as_fd));
        let mut waits: Vec<PollFd<'_>> = all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        match poll(&mut waits, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(_) => return,
        }
        let ready: Vec<bool> = waits.iter().map(|wait| !wait.revents().is_empty()).collect();
        if ready[0] {
            return;
        }
        let mut readable = ready[2..].iter();
        peers.retain(|peer| readable.next() != Some(&true) || read(peer, &mut buffer, inbox));
        if ready[1]
            && let Ok(peer) = accept_with(listener, FLAGS)
            && is_ours(&peer)
            && peers.len() < PEERS
        {
            peers.push(peer);
        }
    }
}

/// Reads what is there, a turn's worth. Says whether the other end still is.
fn read(peer: &OwnedFd, buffer: &mut [u8], inbox: &Inbox) -> bool {
    for _ in 0..TURN {
        match recv(peer, &mut *buffer, RecvFlags::DONTWAIT) {
            Ok((0, _)) => return false,
            Ok((length, _)) => {
                let message = &buffer[..length];
                let end = message.iter().position(|byte| *byte == b'\n').unwrap_or(0);
                let subject = std::str::from_utf8(&message[..end]).unwrap_or_default();
                inbox.deliver(subject, message.get(end + 1..).unwrap_or_default());
            }
            Err(Errno::AGAIN) => return true,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    true
}
