//! One end of a framed connection, for a thread that waits: with patience for a peer that moves bytes, and with none for others.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use paceline_alcc::Socket;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Bytes that one read asks for (our choice: what the engine keeps is taken in some pieces).
const READ: usize = 64 * 1024;
/// Bytes that have to move in the time of patience (our choice: the slowest of cellular links, GPRS, moves twenty times as
/// many in the 30 s of the default).
const LEAST: u64 = 1024;
/// How often it is looked what moved (our choice).
const LOOK: Duration = Duration::from_millis(50);

/// Who moves too little is given up.
pub(super) struct Patience {
    limit: Duration,
    since: Instant,
    mark: u64,
}

impl Patience {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, since: Instant::now(), mark: 0 }
    }

    /// So many bytes have moved in all.
    pub(super) fn moved(&mut self, bytes: u64) -> anyhow::Result<()> {
        if bytes >= self.mark + LEAST {
            (self.since, self.mark) = (Instant::now(), bytes);
        } else if self.since.elapsed() > self.limit {
            bail!("the peer was too slow: below {LEAST} bytes in {:.0} s (--timeout)", self.limit.as_secs_f64());
        }
        Ok(())
    }
}

/// A connection, and what has come and was not looked at.
pub(super) struct Channel {
    pub(super) socket: Arc<Socket>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Channel {
    pub(super) fn new(socket: Arc<Socket>) -> Self {
        Self { socket, buffer: vec![0; READ], start: 0, end: 0 }
    }

    /// What has come; empty after [`Channel::wait`] when the peer has ended.
    pub(super) fn input(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// All but the last `left` bytes of it were looked at.
    pub(super) fn taken(&mut self, left: usize) {
        self.start = self.end - left;
    }

    /// Waits for more when nothing is left, at most for `limit`: how many bytes came; `None` when none did.
    pub(super) fn wait(&mut self, limit: Duration) -> anyhow::Result<Option<usize>> {
        if self.start < self.end {
            return Ok(Some(self.end - self.start));
        }
        match self.socket.recv_within(&mut self.buffer, limit) {
            Ok(count) => {
                (self.start, self.end) = (0, count);
                Ok(Some(count))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes what is short.
    pub(super) fn say(&self, bytes: &[u8]) -> anyhow::Result<()> {
        self.socket.send(&[IoSlice::new(bytes)], false).context("the connection is lost")?;
        self.socket.push();
        Ok(())
    }

    /// Writes what there is room for at once; waits for a moment if there is none.
    pub(super) fn offer(&self, bytes: &[u8]) -> anyhow::Result<usize> {
        match self.socket.send(&[IoSlice::new(bytes)], true) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let full = self.socket.full().map(|full| PollFd::from_borrowed_fd(full, PollFlags::OUT));
                let moment = Timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as i64 };
                // An interrupted wait is a short one.
                let _ = poll(&mut Vec::from_iter(full), Some(&moment));
                Ok(0)
            }
            sent => sent.context("the connection is lost"),
        }
    }

    /// Ends: what was said is delivered, unless the peer takes nothing for `limit`. What the peer still says is not read by anyone.
    pub(super) fn close(mut self, limit: Duration) {
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
