//! One end of a framed connection, for a thread that waits: with patience for a peer that moves bytes, and with none for others.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::{Duration, Instant};

use paceline_alcc::Socket;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Bytes that one read asks for (our choice: what the engine keeps is taken in some pieces).
const READ: usize = 64 * 1024;
/// Bytes that have to move in the time of patience (our choice: the slowest of cellular links, GPRS, moves twenty times as
/// many in the 30 s of the default).
const LEAST: u64 = 1024;
/// How often it is looked what moved (our choice).
const LOOK: Duration = Duration::from_millis(50);

/// Why a connection carries no more.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The peer moves too little.
    #[error("the peer was too slow: below {LEAST} bytes in {:.0} s, its timeout", limit.as_secs_f64())]
    Slow {
        /// For so long.
        limit: Duration,
    },
    /// Nothing can be written.
    #[error("the connection is lost")]
    Lost(#[source] io::Error),
    /// Nothing can be read.
    #[error("{0}")]
    Broken(#[source] io::Error),
}

/// A peer that moves too little is given up.
pub(crate) struct Patience {
    limit: Duration,
    since: Instant,
    mark: u64,
}

impl Patience {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, since: Instant::now(), mark: 0 }
    }

    /// So many bytes have moved in all.
    pub(crate) fn moved(&mut self, bytes: u64) -> Result<(), ChannelError> {
        if bytes >= self.mark + LEAST {
            (self.since, self.mark) = (Instant::now(), bytes);
        } else if self.since.elapsed() > self.limit {
            return Err(ChannelError::Slow { limit: self.limit });
        }
        Ok(())
    }
}

/// A connection, and what has come and was not looked at.
pub(crate) struct Channel {
    pub(crate) socket: Arc<Socket>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Channel {
    pub(crate) fn new(socket: Arc<Socket>) -> Self {
        Self { socket, buffer: vec![0; READ], start: 0, end: 0 }
    }

    /// What has come; empty after [`Channel::wait`] when the peer has ended.
    pub(crate) fn input(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// All but the last `left` bytes of it were looked at.
    pub(crate) fn taken(&mut self, left: usize) {
        self.start = self.end - left;
    }

    /// Waits for more when nothing is left, at most for `limit`: how many bytes came; `None` when none did.
    pub(crate) fn wait(&mut self, limit: Duration) -> Result<Option<usize>, ChannelError> {
        if self.start < self.end {
            return Ok(Some(self.end - self.start));
        }
        match self.socket.recv_within(&mut self.buffer, limit) {
            Ok(count) => {
                (self.start, self.end) = (0, count);
                Ok(Some(count))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(ChannelError::Broken(error)),
        }
    }

    /// Writes what is short.
    pub(crate) fn say(&self, bytes: &[u8]) -> Result<(), ChannelError> {
        self.socket.send(&[IoSlice::new(bytes)], false).map_err(ChannelError::Lost)?;
        self.socket.push();
        Ok(())
    }

    /// Writes what there is room for at once; waits for a moment if there is none.
    pub(crate) fn offer(&self, bytes: &[u8]) -> Result<usize, ChannelError> {
        match self.socket.send(&[IoSlice::new(bytes)], true) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let full = self.socket.full().map(|full| PollFd::from_borrowed_fd(full, PollFlags::OUT));
                let moment = Timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as i64 };
                // An interrupted wait is a short one.
                let _ = poll(&mut Vec::from_iter(full), Some(&moment));
                Ok(0)
            }
            sent => sent.map_err(ChannelError::Lost),
        }
    }

    /// Ends: what was said is delivered, unless the peer takes nothing for `limit`. What the peer still says is not read by anyone.
    pub(crate) fn close(mut self, limit: Duration) {
        self.socket.shutdown_write();
        let until = Instant::now() + limit;
        // A connection that is closed with bytes unread is reset, and the peer might not hear the last word.
        while Instant::now() < until {
            self.start = self.end;
            match self.wait(LOOK) {
                Ok(Some(0)) | Err(_) => break,
                Ok(_) => {}
            }
        }
        self.socket.close(Duration::from_secs(1));
    }
}
