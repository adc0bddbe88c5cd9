//! How the application's bytes go into a connection.

use std::ffi::c_int;
use std::io::{self, IoSlice};
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Conn, Via};
use crate::inside::Inside;
use crate::{ask, end, next, state};

impl Conn {
    /// The application is about to write to the kernel.
    pub(crate) fn writes(&self) {
        if let Some(socket) = self.socket()
            && !socket.is_watched()
            && !state::any().is_some_and(|state| state.ending.load(Ordering::Relaxed))
        {
            let _inside = Inside::enter();
            socket.wrote();
        }
    }

    /// Lets the application write to the kernel by `call`; the engine looks how it goes on. It was informed before as well, since
    /// the call may block.
    pub(crate) fn written_by<T>(&self, call: impl FnOnce() -> T) -> T {
        let answer = match self.socket() {
            Some(socket) => socket.written_by(call),
            None => call(),
        };
        self.writes();
        answer
    }

    /// Lets the application write to the kernel from now on, if our queue is empty or becomes so within `limit`; says
    /// whether it may.
    pub(crate) fn write_through(&self, limit: Duration) -> bool {
        let Some(care) = self.care.get() else { return true };
        if self.via() != Via::Queue {
            return true;
        }
        if !limit.is_zero() {
            care.socket.drain(limit);
        }
        let places = self.places();
        if care.socket.write_through().is_err() {
            return false;
        }
        self.go(Via::Inline);
        if let Some(&fd) = self.names().iter().find(|&&fd| self.is(fd)) {
            self.give_back(fd);
        }
        for place in places.iter() {
            if let Some(set) = place.set.upgrade() {
                set.renew(place.fd);
            }
        }
        true
    }

    /// As [`Self::write_through`], and if it is adopted later, then inline.
    pub(crate) fn go_through(&self, limit: Duration) -> bool {
        let through = self.write_through(limit);
        if through {
            self.go_direct();
        }
        through
    }

    /// Writes what `load` answers into the queue, as `sendmsg(2)` would into the socket's buffer, in a call of which this many bytes `went`.
    pub(crate) fn send<'a>(
        &self,
        fd: c_int,
        went: usize,
        load: impl FnOnce() -> Result<Vec<IoSlice<'a>>, c_int>,
        dont_wait: bool,
    ) -> io::Result<usize> {
        let socket = self.socket().ok_or(io::ErrorKind::NotConnected)?;
        end::stop_others();
        let (parts, mut sent) = {
            let _inside = Inside::enter();
            let parts = load().map_err(io::Error::from_raw_os_error)?;
            let sent = socket.send_after(went, &parts, true);
            (parts, sent)
        };
        let total: usize = parts.iter().map(|part| part.len()).sum();
        let mut taken = 0;
        loop {
            match sent {
                Ok(count) => taken += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) if taken > 0 => return Ok(taken),
                Err(error) => return Err(error),
            }
            if taken >= total {
                return Ok(taken);
            }
            match self.wait_for_room(fd, dont_wait) {
                Err(_) if taken > 0 => return Ok(taken),
                waited => waited?,
            }
            end::stop_others();
            let _inside = Inside::enter();
            sent = socket.send_after(went + taken, &after(&parts, taken), true);
        }
    }

    /// Waits as a blocking write does: until there is room, `SO_SNDTIMEO` has passed or a signal came whose handler does
    /// not restart calls. A non-blocking one does not wait.
    pub(crate) fn wait_for_room(&self, fd: c_int, dont_wait: bool) -> io::Result<()> {
        let socket = self.socket().ok_or(io::ErrorKind::NotConnected)?;
        if dont_wait || ask::is_nonblocking(fd) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let [seconds, micros]: [i64; 2] = ask::option(fd, libc::SOL_SOCKET, libc::SO_SNDTIMEO).unwrap_or_default();
        let limit = libc::timespec { tv_sec: seconds, tv_nsec: micros * 1000 };
        let limit = if seconds == 0 && micros == 0 { ptr::null() } else { &raw const limit };
        loop {
            let full = socket.full().map_or(fd, |full| full.as_raw_fd());
            let mut set = libc::pollfd { fd: full, events: libc::POLLOUT, revents: 0 };
            match next::ppoll(&mut set, 1, limit, ptr::null()) {
                0 => return Err(io::ErrorKind::WouldBlock.into()),
                -1 if next::errno() == libc::EINTR && handlers_restart() => {}
                -1 => return Err(io::Error::last_os_error()),
                _ => return Ok(()),
            }
        }
    }
}

/// What is left of `parts` behind their first `count` bytes.
fn after<'a>(parts: &[IoSlice<'a>], mut count: usize) -> Vec<IoSlice<'a>> {
    let mut left = Vec::with_capacity(parts.len());
    for part in parts {
        let skip = count.min(part.len());
        count -= skip;
        // SAFETY: `part` lives for 'a; an IoSlice gives it out for its own borrow only.
        let bytes: &'a [u8] = unsafe { std::slice::from_raw_parts(part.as_ptr().add(skip), part.len() - skip) };
        if !bytes.is_empty() {
            left.push(IoSlice::new(bytes));
        }
    }
    left
}

/// Whether every handler that the program has installed asks that calls be restarted. `ppoll` never is, and nothing says
/// which handler ran, so one that does not ask makes us answer `EINTR`, which any write may.
fn handlers_restart() -> bool {
    (1..=libc::SIGRTMAX()).all(|signal| {
        // SAFETY: all zeros are a value; the call only writes to it.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: asks, changes nothing.
        let known = unsafe { libc::sigaction(signal, ptr::null(), &mut action) } == 0;
        let handled = known && action.sa_sigaction != libc::SIG_DFL && action.sa_sigaction != libc::SIG_IGN;
        !handled || action.sa_flags & libc::SA_RESTART != 0
    })
}
