//! Lines on the standard error: one at the start, and one for the first of each kind of thing that cannot be served.

use std::ffi::c_int;
use std::fmt;
use std::io;
use std::mem;

use crate::next;

/// Variable: `1` keeps all lines but errors to ourselves.
pub(crate) const QUIET: &str = "PACELINE_QUIET";
/// Variable, set by the first program of a tree of programs: the line at the start has been written.
pub(crate) const SAID: &str = "PACELINE_SAID";

/// Why a socket is left to the kernel, or served otherwise than was asked.
#[derive(Debug)]
pub(crate) enum Notice {
    /// The engine refused it, or could not start.
    Refused(io::Error),
    /// The application reads the error queue itself.
    Timestamps,
    /// `MSG_ZEROCOPY` reports on the error queue.
    ZeroCopy,
    /// The application reads errors of the network from the error queue.
    ErrorQueue,
    /// Bytes may go through `io_uring`, past the C library.
    Ring,
    /// Bytes go through the C library's streams.
    Stream,
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
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => write!(f, "a socket is left to the kernel: {error}"),
            Self::Timestamps => f.write_str("a socket is left to the kernel: the program asked for its timestamps itself"),
            Self::ZeroCopy => f.write_str("a socket is left to the kernel: the program sends with MSG_ZEROCOPY"),
            Self::ErrorQueue => f.write_str("a socket is left to the kernel: the program reads its error queue (IP_RECVERR)"),
            Self::Ring => f.write_str(
                "the program uses io_uring, which passes by this library; what it writes so is not controlled, the rest inline",
            ),
            Self::Stream => f.write_str("a socket written through stdio is served inline"),
        }
    }
}

/// Writes a line, unless the standard error is a connection: its peer expects other bytes.
pub(crate) fn say(text: &str) {
    // SAFETY: all zeros are a value; the call only writes to it.
    let mut status: libc::stat = unsafe { mem::zeroed() };
    // SAFETY: room for one value.
    let known = unsafe { libc::fstat(libc::STDERR_FILENO, &mut status) } == 0;
    if known && status.st_mode & libc::S_IFMT != libc::S_IFSOCK {
        let line = format!("paceline: {text}\n");
        next::write(libc::STDERR_FILENO as c_int, line.as_ptr().cast(), line.len());
    }
}
