//! A connected socket in the care of an engine.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::options::Mode;
use crate::stats::SocketStats;

/// A connected TCP socket whose sending a controller decides. See [`crate::Engine::adopt`].
///
/// Calls are those of one socket: several threads may write at once, and what each writes stays together only as far as
/// the queue takes it in one piece, as with the kernel.
pub struct Socket {
    fd: OwnedFd,
    full: OwnedFd,
}

impl Socket {
    /// Writes, as `send(2)` does. Blocking: returns when all is taken. Non-blocking: takes what there is room for. In
    /// mode [`Mode::Inline`] it writes to the kernel.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when non-blocking and the queue is full. `EPIPE` after [`Socket::shutdown_write`];
    /// `EPIPE`, `ECONNRESET`, `ETIMEDOUT` and the like once each when the connection has failed, then `EPIPE`.
    /// [`io::ErrorKind::Interrupted`] when a signal arrived before anything was taken. No signal is raised.
    pub fn send(&self, _bufs: &[IoSlice<'_>], _nonblocking: bool) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Bytes for which the queue has room.
    pub fn room(&self) -> usize {
        0
    }

    /// Bytes in the queue: written, not yet handed to TCP.
    pub fn queued(&self) -> usize {
        0
    }

    /// Waits until the queue is empty, at most `limit`; says whether it is.
    pub fn drain(&self, _limit: Duration) -> bool {
        true
    }

    /// Ends the stream once the queue is empty, and returns at once: `shutdown(SHUT_WR)`.
    pub fn shutdown_write(&self) {}

    /// Lets go of the socket once the queue is empty, at most `linger` from now, and returns at once. What is left by
    /// then is lost and the connection reset. Calls that wait return.
    pub fn close(&self, _linger: Duration) {}

    /// From now on the application writes to the kernel.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] while the queue is not empty.
    pub fn write_through(&self) -> io::Result<()> {
        Ok(())
    }

    /// An eventfd that is ready for writing (`POLLOUT`) while the queue has room: it stops when the queue is full, and
    /// is ready again when a quarter of it is free. Put it into a set in the socket's place.
    pub fn full(&self) -> BorrowedFd<'_> {
        self.full.as_fd()
    }

    /// The socket.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// How bytes reach TCP at present.
    pub fn mode(&self) -> Mode {
        Mode::Queue
    }

    /// State and counters.
    pub fn stats(&self) -> SocketStats {
        unreachable!("not started yet")
    }
}
