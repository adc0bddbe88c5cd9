//! What protects the stream while bytes of it wait in our queue: no other bytes may overtake them unseen, and if the
//! process dies, the peer must not take what it has for the whole.
//!
//! The kernel counts every byte that was ever written into the socket: those acknowledged (`tcpi_bytes_acked`) and those in
//! its send queue (`SIOCOUTQ`). What it has more of than we gave it, others wrote. While our queue is empty such bytes are in
//! order; otherwise they have overtaken ours, and no look at them afterwards puts that right.
//!
//! And while the queue is not empty the socket has an `SO_LINGER` of zero: whatever closes it then (a signal that kills the
//! process, `_exit`), the kernel resets the connection where it would end the stream.

use std::os::fd::OwnedFd;
use std::time::Duration;

use paceline_linux::sockopt::{UpperProtocol, getsockopt, send_queue, tcp_info};
use rustix::net::sockopt::{set_socket_linger, socket_linger};

use super::Link;

/// Looks until two of them agree that nothing was acknowledged in between (our choice: a look takes a microsecond, and
/// acknowledgements come further apart).
const LOOKS: usize = 50;

/// What protects the stream.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    /// What the kernel was given is compared: not in framed mode, where it is more than what was queued.
    counts: bool,
    /// While the queue holds bytes: the application's own `SO_LINGER`.
    linger: Option<Option<Duration>>,
    /// Bytes of others so far, all of them written while the queue was empty.
    foreign: u64,
    /// Others have written while it was not.
    bypassed: bool,
}

/// Bytes ever written into a socket.
struct Written {
    at_least: u64,
    at_most: u64,
}

impl Written {
    /// Asks the kernel; `expected` are known. Both bounds are the same unless acknowledgements come all the time.
    fn of(fd: &OwnedFd, expected: u64) -> Option<Self> {
        let acked = || tcp_info(fd).ok().map(|info| info.acked);
        // What is acknowledged between the two counts is in both: there are no more than this.
        let most = send_queue(fd).ok()? + acked()?;
        if most == expected {
            return Some(Self { at_least: most, at_most: most });
        }
        let mut written = Self { at_least: 0, at_most: most };
        let mut before = acked()?;
        for _ in 0..LOOKS {
            let waiting = send_queue(fd).ok()?;
            let after = acked()?;
            written.at_least = written.at_least.max(before + waiting);
            written.at_most = written.at_most.min(waiting + after);
            if before == after {
                break;
            }
            before = after;
        }
        Some(written)
    }
}

impl Link {
    /// Counts from what the kernel has been given so far.
    pub(crate) fn count_from_here(&mut self, fd: &OwnedFd) {
        if let Some(written) = Written::of(fd, self.info.acked).filter(|written| written.at_least == written.at_most) {
            self.base = Some(written.at_most);
            self.guard.counts = true;
        }
    }

    /// What the kernel should have been given.
    fn expected(&self) -> Option<u64> {
        self.base.filter(|_| self.guard.counts).map(|base| base + self.above.next())
    }

    /// After bytes were taken or sent: begins or ends the protection. While it is `busy`, bytes wait for TCP.
    pub(crate) fn protect(&mut self, fd: &OwnedFd, busy: bool) {
        if self.dead || busy == self.guard.linger.is_some() {
            return;
        }
        if busy {
            self.count_foreign(fd);
            self.guard.linger = Some(socket_linger(fd).ok().flatten());
            // It is a TCP socket, which takes it.
            let _ = set_socket_linger(fd, Some(Duration::ZERO));
            return;
        }
        if let Some(expected) = self.expected()
            && Written::of(fd, expected).is_some_and(|written| written.at_least > expected)
        {
            self.note_bypass(fd);
        }
        let linger = self.linger(fd);
        self.guard.linger = None;
        if !self.guard.bypassed {
            let _ = set_socket_linger(fd, linger);
        }
    }

    /// Others may have written while the queue was empty: positions of ours lie this much further on.
    fn count_foreign(&mut self, fd: &OwnedFd) {
        let Some(expected) = self.expected() else { return };
        let more = Written::of(fd, expected).map_or(0, |written| written.at_most.saturating_sub(expected));
        self.guard.foreign += more;
        self.base = self.base.map(|base| base + more);
    }

    /// Right after a look at `TCP_INFO`: have others written while the queue holds bytes?
    pub(super) fn check_order(&mut self, fd: &OwnedFd) {
        if self.guard.linger.is_none() || self.guard.bypassed || self.queue.is_empty() {
            return;
        }
        // What was acknowledged since the look is missing: there are no fewer than this.
        if let (Some(expected), Ok(waiting)) = (self.expected(), send_queue(fd))
            && self.info.acked + waiting > expected
        {
            self.note_bypass(fd);
        }
    }

    /// Others have written, unless the kernel adds bytes of its own (kernel TLS).
    fn note_bypass(&mut self, fd: &OwnedFd) {
        let adds = getsockopt(fd, UpperProtocol).is_ok_and(|name| !name.is_empty());
        if adds {
            self.base = None;
        } else {
            self.guard.bypassed = true;
        }
    }

    /// Bytes of others have overtaken ours.
    pub(crate) fn is_bypassed(&self) -> bool {
        self.guard.bypassed
    }

    /// A stamp's number, as if all bytes had been ours.
    pub(crate) fn own_number(&self, id: u32) -> u32 {
        id.wrapping_sub(self.guard.foreign as u32)
    }

    /// The application's own `SO_LINGER`. One of zero that it sets at the socket while the queue holds bytes cannot be
    /// distinguished from ours: [`Link::set_linger`] is for that.
    pub(crate) fn linger(&self, fd: &OwnedFd) -> Option<Duration> {
        let present = socket_linger(fd).ok().flatten();
        match self.guard.linger {
            Some(own) if present == Some(Duration::ZERO) => own,
            _ => present,
        }
    }

    /// Sets it, once the queue is empty.
    pub(crate) fn set_linger(&mut self, fd: &OwnedFd, linger: Option<Duration>) -> rustix::io::Result<()> {
        match &mut self.guard.linger {
            Some(own) => *own = linger,
            None => set_socket_linger(fd, linger)?,
        }
        Ok(())
    }

    /// The end of the process would reset the connection.
    pub(crate) fn is_protected(&self) -> bool {
        self.guard.linger.is_some()
    }
}
