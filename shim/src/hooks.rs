//! The C library's functions as the program finds them.
//!
//! Each does what the C library's own does, for arguments the program vouches for. Those of a descriptor that is no TCP socket
//! in our care go on to the next definition unchanged.

mod aio;
mod copy;
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
use std::io;
use std::sync::atomic::Ordering;

use libc::{iovec, size_t, ssize_t};

use crate::conn::Conn;
use crate::end;
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

/// Writes `parts` into the queue of the socket behind `fd`, or by `kernel`, which calls the next definition.
fn queue(fd: c_int, parts: &[iovec], flags: c_int, kernel: impl FnOnce() -> ssize_t) -> ssize_t {
    let Some(state) = state::get() else { return kernel() };
    let conn = match state.route(fd) {
        Route::Kernel => return kernel(),
        Route::Inline(conn) => return conn.written_by(kernel),
        Route::Queue(conn) => conn,
    };
    end::stop_if_terminated();
    let inside = Inside::enter();
    // SAFETY: the application vouches for its buffers for the time of the call, as far as they are there at all.
    let parts = unsafe { memory::readable(state.process, parts) };
    drop(inside);
    let sent = match parts {
        Ok(parts) => conn.send(fd, &parts, flags & libc::MSG_DONTWAIT != 0),
        Err(number) => return fail(number) as ssize_t,
    };
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

/// The application's bytes.
fn bytes(data: *const c_void, len: size_t) -> iovec {
    iovec { iov_base: data.cast_mut(), iov_len: len }
}

/// The application's pieces; `None` when the kernel would refuse them.
///
/// # Safety
/// As for `writev(2)`: `parts` holds `count` pieces.
unsafe fn pieces<'a>(parts: *const iovec, count: usize) -> Option<&'a [iovec]> {
    if count > libc::UIO_MAXIOV as usize || (parts.is_null() && count > 0) {
        return None;
    }
    if count == 0 {
        return Some(&[]);
    }
    // SAFETY: the caller's promise.
    Some(unsafe { std::slice::from_raw_parts(parts, count) })
}
