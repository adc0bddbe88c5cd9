//! libalcc: [`paceline_alcc`] for C. `include/alcc.h` says what each call does; here they are only taken apart.
//!
//! Source: Zaki et al., "ALCC", section 4.1 (`alcc_accept`, `alcc_send`, `alcc_close`). What differs: signatures and errors
//! are those of the system calls, a close does not wait for the queue, and there are calls for all else that a program does
//! with a socket it writes to.
//!
//! On other systems this crate is empty.
#![cfg(target_os = "linux")]
#![expect(unsafe_code, reason = "C gives pointers; each block says why it is sound")]

mod options;
mod outcome;
mod poll;
mod send;
mod state;
mod stats;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::fd::AsRawFd;
use std::time::Duration;

use libc::{msghdr, nfds_t, pollfd, sockaddr, socklen_t, ssize_t};

use outcome::{Failure, answer, error_text};
use state::state;
pub use stats::Stats;

/// Sets the options; see `alcc.h`.
///
/// # Safety
/// `options` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_options(options: *const c_char) -> c_int {
    let text = if options.is_null() {
        Some("")
    } else {
        // SAFETY: the caller passes a C string.
        unsafe { CStr::from_ptr(options) }.to_str().ok()
    };
    answer(|| {
        let text = text.ok_or_else(|| Failure::told(libc::EINVAL, "options: they are not UTF-8 text"))?;
        state().configure(text).map(|()| 0)
    })
}

/// What the last failure of this thread was about; see `alcc.h`.
#[unsafe(no_mangle)]
pub extern "C" fn alcc_error() -> *const c_char {
    error_text()
}

/// accept(2); see `alcc.h`.
///
/// # Safety
/// As of accept(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_accept(fd: c_int, addr: *mut sockaddr, addrlen: *mut socklen_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { alcc_accept4(fd, addr, addrlen, 0) }
}

/// accept4(2); see `alcc.h`.
///
/// # Safety
/// As of accept4(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_accept4(fd: c_int, addr: *mut sockaddr, addrlen: *mut socklen_t, flags: c_int) -> c_int {
    answer(|| {
        let state = state();
        state.engine()?;
        // SAFETY: the caller's promise.
        let accepted = outcome::of(unsafe { libc::accept4(fd, addr, addrlen, flags) })?;
        state.note(accepted);
        Ok(accepted)
    })
}

/// connect(2); see `alcc.h`.
///
/// # Safety
/// As of connect(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_connect(fd: c_int, addr: *const sockaddr, addrlen: socklen_t) -> c_int {
    answer(|| {
        let state = state();
        state.engine()?;
        // SAFETY: the caller's promise.
        let connected = outcome::of(unsafe { libc::connect(fd, addr, addrlen) });
        // After the last two the kernel goes on connecting.
        if matches!(&connected, Ok(_) | Err(Failure { errno: libc::EINPROGRESS | libc::EINTR, .. })) {
            state.note(fd);
        }
        connected
    })
}

/// send(2); see `alcc.h`.
///
/// # Safety
/// As of send(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_send(fd: c_int, buf: *const c_void, len: usize, flags: c_int) -> ssize_t {
    answer(|| match state().serve(fd)? {
        // SAFETY: the caller's promise.
        Some(socket) => send::send(&socket, fd, &[unsafe { send::slice(buf, len) }?], flags),
        // SAFETY: the caller's promise.
        None => outcome::of(unsafe { libc::send(fd, buf, len, flags) }),
    })
}

/// sendmsg(2); see `alcc.h`.
///
/// # Safety
/// As of sendmsg(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_sendmsg(fd: c_int, msg: *const msghdr, flags: c_int) -> ssize_t {
    answer(|| match state().serve(fd)? {
        Some(socket) => {
            // SAFETY: the caller's promise: it is null or points to a message.
            let message = unsafe { msg.as_ref() }.ok_or_else(|| Failure::plain(libc::EFAULT))?;
            // SAFETY: the caller's promise: the message's parts are there.
            send::send(&socket, fd, &unsafe { send::slices(message) }?, flags)
        }
        // SAFETY: the caller's promise.
        None => outcome::of(unsafe { libc::sendmsg(fd, msg, flags) }),
    })
}

/// setsockopt(2); see `alcc.h`.
///
/// # Safety
/// As of setsockopt(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    answer(|| {
        let served = if (level, name) == (libc::SOL_SOCKET, libc::SO_LINGER) { state().served(fd) } else { None };
        let Some(socket) = served else {
            // SAFETY: the caller's promise.
            return outcome::of(unsafe { libc::setsockopt(fd, level, name, value, len) });
        };
        if value.is_null() {
            return Err(Failure::plain(libc::EFAULT));
        }
        if (len as usize) < size_of::<libc::linger>() {
            return Err(Failure::plain(libc::EINVAL));
        }
        // SAFETY: the caller's promise: this many bytes are there.
        let linger = unsafe { value.cast::<libc::linger>().read_unaligned() };
        // A negative time is for ever, as with the kernel.
        let seconds = u64::try_from(linger.l_linger).unwrap_or(i32::MAX as u64);
        socket.set_linger((linger.l_onoff != 0).then(|| Duration::from_secs(seconds)))?;
        Ok(0)
    })
}

/// shutdown(2); see `alcc.h`.
#[unsafe(no_mangle)]
pub extern "C" fn alcc_shutdown(fd: c_int, how: c_int) -> c_int {
    answer(|| {
        let served = state().served(fd);
        if let Some(socket) = served.filter(|_| matches!(how, libc::SHUT_WR | libc::SHUT_RDWR)) {
            socket.shutdown_write();
            if how == libc::SHUT_WR {
                return Ok(0);
            }
        }
        let rest = if how == libc::SHUT_RDWR && state().served(fd).is_some() { libc::SHUT_RD } else { how };
        // SAFETY: it takes no pointers.
        outcome::of(unsafe { libc::shutdown(fd, rest) })
    })
}

/// close(2); see `alcc.h`.
#[unsafe(no_mangle)]
pub extern "C" fn alcc_close(fd: c_int) -> c_int {
    answer(|| {
        if let Some(socket) = state().forget(fd) {
            socket.close(state().linger());
        }
        // SAFETY: it takes no pointers; the descriptor is the caller's to close.
        outcome::of(unsafe { libc::close(fd) })
    })
}

/// A descriptor that shows whether the queue has space; see `alcc.h`.
#[unsafe(no_mangle)]
pub extern "C" fn alcc_writable(fd: c_int) -> c_int {
    answer(|| match state().serve(fd)? {
        Some(socket) => Ok(socket.full().map_or(fd, |full| full.as_raw_fd())),
        None if state().is_noted(fd) => Err(Failure::plain(libc::ENOTCONN)),
        None => Ok(fd),
    })
}

/// poll(2); see `alcc.h`.
///
/// # Safety
/// As of poll(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_poll(fds: *mut pollfd, nfds: nfds_t, timeout: c_int) -> c_int {
    answer(|| {
        if nfds == 0 || fds.is_null() {
            // SAFETY: the caller's promise.
            return outcome::of(unsafe { libc::poll(fds, nfds, timeout) });
        }
        let count = usize::try_from(nfds).map_err(|_| Failure::plain(libc::EINVAL))?;
        // SAFETY: the caller's promise: there are this many.
        poll::poll(unsafe { std::slice::from_raw_parts_mut(fds, count) }, timeout)
    })
}

/// State and counters; see `alcc.h`.
///
/// # Safety
/// `stats` is null or points to a `struct alcc_stats`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_stats(fd: c_int, stats: *mut Stats) -> c_int {
    answer(|| {
        if stats.is_null() {
            return Err(Failure::plain(libc::EFAULT));
        }
        let Some(socket) = state().serve(fd)? else {
            // SAFETY: it takes no pointers.
            outcome::of(unsafe { libc::fcntl(fd, libc::F_GETFD) })?;
            return Err(Failure::plain(if state().is_noted(fd) { libc::ENOTCONN } else { libc::EINVAL }));
        };
        // SAFETY: the caller's promise; any bytes may be there before.
        unsafe { stats.write(Stats::of(&socket.stats())) };
        Ok(0)
    })
}
