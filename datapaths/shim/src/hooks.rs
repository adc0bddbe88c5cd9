//! The C library's functions as the program finds them.
//!
//! Each does what the C library's own does, for arguments the program vouches for. Those of a descriptor that is not a TCP socket
//! in our care go on to the next definition unchanged.

mod aio;
mod alias;
mod copy;
mod exec;
mod life;
mod limit;
mod option;
mod process;
mod set;
mod signal;
mod spawn;
mod stream;
mod wait;
mod write;

use std::ffi::{c_int, c_void};
use std::io::{self, IoSlice};
use std::sync::atomic::Ordering;

use libc::{iovec, size_t, ssize_t};

use crate::conn::Conn;
use crate::inside::Inside;
use crate::memory;
use crate::next;
use crate::state::{self, Route, State};

/// Answers -1 with an error number.
fn fail(number: c_int) -> c_int {
    next::set_errno(number);
    -1
}

/// What a call that writes answers; a broken connection raises `SIGPIPE` unless `quiet`.
fn answer(sent: io::Result<usize>, quiet: bool) -> ssize_t {
    match sent {
        Ok(count) => ssize_t::try_from(count).unwrap_or(ssize_t::MAX),
        Err(error) => {
            let number = paceline_alcc::errno(&error);
            if number == libc::EPIPE && !quiet {
                // SAFETY: sends a signal to this thread, as the kernel's write does.
                unsafe { libc::raise(libc::SIGPIPE) };
            }
            next::set_errno(number);
            -1
        }
    }
}

/// What the application writes, as it names it.
enum Parts {
    One([iovec; 1]),
    Several(*const iovec, usize),
}

impl Parts {
    /// As for `write(2)`.
    fn one(data: *const c_void, len: size_t) -> Self {
        Self::One([iovec { iov_base: data.cast_mut(), iov_len: len }])
    }

    /// As for `writev(2)`; `None` when there are more than the kernel takes.
    fn several(parts: *const iovec, count: usize) -> Option<Self> {
        (count <= libc::UIO_MAXIOV as usize).then_some(Self::Several(parts, count))
    }

    /// Bytes of it; [`usize::MAX`] where what the application names cannot be read.
    fn len(&self, process: libc::pid_t) -> usize {
        match self {
            Self::One([part]) => part.iov_len,
            Self::Several(parts, count) => {
                let _inside = Inside::enter();
                let parts = memory::load(process, *parts, *count);
                parts.map_or(usize::MAX, |parts| parts.iter().fold(0, |all, part| all.saturating_add(part.iov_len)))
            }
        }
    }

    /// What of it can be read.
    ///
    /// # Errors
    /// The error number with which the kernel would answer.
    fn readable<'a>(&self, process: libc::pid_t) -> Result<Vec<IoSlice<'a>>, c_int> {
        // SAFETY: the application vouches for its buffers for the time of the call, as far as they are there at all.
        let slices = |parts: &[iovec]| unsafe { memory::readable(process, parts) };
        match self {
            // Beyond the last address of a process (Linux `access_ok`); of several pieces the lengths are looked at first.
            Self::One([part]) if part.iov_len > isize::MAX as usize => Err(libc::EFAULT),
            Self::One(part) => slices(part),
            Self::Several(parts, count) => slices(&memory::load(process, *parts, *count).ok_or(libc::EFAULT)?),
        }
    }
}

/// Writes `parts` into the queue of the socket behind `fd`, or by `kernel`, which calls the next definition.
fn queue(fd: c_int, parts: &Parts, flags: c_int, kernel: impl FnOnce() -> ssize_t) -> ssize_t {
    let Some(state) = state::get() else { return kernel() };
    let conn = match state.route(fd, || parts.len(state.process)) {
        Route::Kernel => return kernel(),
        Route::Inline(conn) => return conn.written_by(kernel),
        Route::Queue(conn) => conn,
    };
    let sent = conn.send(fd, 0, || parts.readable(state.process), flags & libc::MSG_DONTWAIT != 0);
    if state.ending.load(Ordering::Relaxed) {
        settle(state, &conn);
    }
    answer(sent, flags & libc::MSG_NOSIGNAL != 0)
}

/// Lets what is queued for a socket go to the kernel first, so that what the application does next to the socket comes after
/// it: waits, as long as lingering may take.
fn settle(state: &State, conn: &Conn) {
    let _inside = Inside::enter();
    if let Some(socket) = conn.socket() {
        socket.drain(state.config.options.linger);
    }
}
