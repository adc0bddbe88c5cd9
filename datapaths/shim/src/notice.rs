//! Lines on the standard error: one at the start, and one for the first of each kind of thing that cannot be served.

use std::fs::OpenOptions;
use std::io;
use std::mem;
use std::os::fd::AsRawFd;
use std::path::Path;

use crate::next;

/// What cannot be served, or not as was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Notice {
    /// The engine refused a socket, or could not start.
    #[error("a socket is left to the kernel: {0}")]
    Refused(io::Error),
    /// The application reads stamps itself.
    #[error("a socket is left to the kernel: the program asks for its timestamps itself")]
    Timestamps,
    /// `MSG_ZEROCOPY` reports on the error queue.
    #[error("a socket is left to the kernel: the program sends with MSG_ZEROCOPY")]
    ZeroCopy,
    /// The application reads errors of the network from the error queue.
    #[error("a socket is left to the kernel: the program reads its error queue (IP_RECVERR)")]
    ErrorQueue,
    /// Bytes may go through `io_uring`, past the C library.
    #[error("io_uring passes by this library: what the program writes so is not controlled")]
    Ring,
    /// Bytes go through the C library's streams.
    #[error("a socket written through the C library's streams is served inline")]
    Stream,
    /// The program forbids itself system calls.
    #[error("the program forbids itself system calls (seccomp): its sockets are left to the kernel from here on")]
    Filter,
    /// A filter that was there before the program ends it at calls of this library.
    #[error(
        "a filter of system calls (seccomp) that was there before the program ends it at calls of this library: its sockets are left to the kernel"
    )]
    Sandbox,
    /// The program changes what its threads may do, or leaves the descriptors that ours have.
    #[error(
        "the program changes its own rights, namespaces or table of descriptors: its open connections are left to the kernel, later ones are served"
    )]
    Rights,
    /// Bytes got to the kernel past a queue that held earlier ones.
    #[error("the program wrote past the queue of a connection, which is reset: run it with --mode inline")]
    Bypassed,
    /// The metrics or the socket for `paceline top` could not be had.
    #[error("no figures for others to see: {0}")]
    Export(io::Error),
}

impl Notice {
    /// One bit for each kind.
    pub(crate) fn bit(&self) -> u32 {
        1 << match self {
            Self::Refused(_) => 0,
            Self::Timestamps => 1,
            Self::ZeroCopy => 2,
            Self::ErrorQueue => 3,
            Self::Ring => 4,
            Self::Stream => 5,
            Self::Export(_) => 6,
            Self::Filter => 7,
            Self::Bypassed => 8,
            Self::Rights => 9,
            Self::Sandbox => 10,
        }
    }
}

/// Writes a line to the log, or to the standard error unless that is a connection, whose peer expects other bytes.
pub(crate) fn say(text: &str, log: Option<&Path>) {
    let line = format!("paceline: {text}\n");
    let put = |fd| next::write(fd, line.as_ptr().cast(), line.len());
    match log {
        Some(file) => {
            if let Ok(file) = OpenOptions::new().append(true).create(true).open(file) {
                put(file.as_raw_fd());
            }
        }
        None if !is_socket(libc::STDERR_FILENO) => {
            put(libc::STDERR_FILENO);
        }
        None => {}
    }
}

fn is_socket(fd: i32) -> bool {
    // SAFETY: all zeros are a value; the call only writes to it.
    let mut status: libc::stat = unsafe { mem::zeroed() };
    // SAFETY: room for one value.
    let known = unsafe { libc::fstat(fd, &mut status) } == 0;
    known && status.st_mode & libc::S_IFMT == libc::S_IFSOCK
}
