//! Lines on the standard error: one at the start, and one for the first of each kind of thing that cannot be served.

use std::fmt;
use std::fs::OpenOptions;
use std::io;
use std::mem;
use std::os::fd::AsRawFd;
use std::path::Path;

use crate::next;

/// What cannot be served, or not as was asked.
#[derive(Debug)]
pub(crate) enum Notice {
    /// The engine refused a socket, or could not start.
    Refused(io::Error),
    /// The application reads stamps itself.
    Timestamps,
    /// `MSG_ZEROCOPY` reports on the error queue.
    ZeroCopy,
    /// The application reads errors of the network from the error queue.
    ErrorQueue,
    /// Bytes may go through `io_uring`, past the C library.
    Ring,
    /// Bytes go through the C library's streams.
    Stream,
    /// The program forbids itself system calls.
    Filter,
    /// A filter that was there before the program ends it at calls of this library.
    Sandbox,
    /// The program changes what its threads may do, or leaves the descriptors that ours have.
    Rights,
    /// Bytes got to the kernel past a queue that held earlier ones.
    Bypassed,
    /// The metrics or the socket for `paceline top` could not be had.
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

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => write!(f, "a socket is left to the kernel: {error}"),
            Self::Timestamps => {
                f.write_str("a socket is left to the kernel: the program asks for its timestamps itself")
            }
            Self::ZeroCopy => f.write_str("a socket is left to the kernel: the program sends with MSG_ZEROCOPY"),
            Self::ErrorQueue => {
                f.write_str("a socket is left to the kernel: the program reads its error queue (IP_RECVERR)")
            }
            Self::Ring => f.write_str("io_uring passes by this library: what the program writes so is not controlled"),
            Self::Stream => f.write_str("a socket written through the C library's streams is served inline"),
            Self::Filter => f.write_str(
                "the program forbids itself system calls (seccomp): its sockets are left to the kernel from here on",
            ),
            Self::Sandbox => f.write_str(
                "a filter of system calls (seccomp) that was there before the program ends it at calls of this library: its sockets are left to the kernel",
            ),
            Self::Rights => f.write_str(
                "the program changes its own rights, namespaces or table of descriptors: its open connections are left to the kernel, later ones are served",
            ),
            Self::Bypassed => f.write_str(
                "the program wrote past the queue of a connection, which is reset: run it with --mode inline",
            ),
            Self::Export(error) => write!(f, "no figures for others to see: {error}"),
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
