//! Calls that move bytes without showing them: `sendfile` and `splice`.
//!
//! Inline the call is the kernel's. In mode queue the bytes are copied through the queue.

use std::ffi::{c_int, c_uint};
use std::io::{self, IoSlice};

use libc::{off_t, size_t, ssize_t};

use super::answer;
use crate::conn::Conn;
use crate::next;
use crate::state::{self, Route};

/// Bytes copied at a time (our choice: small beside a queue, large beside a system call).
const PIECE: usize = 128 * 1024;

#[unsafe(no_mangle)]
pub(super) extern "C" fn sendfile(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
    let kernel = || next::sendfile(to, from, offset, count);
    let conn = match route(to) {
        Route::Kernel => return kernel(),
        Route::Inline(conn) => return conn.written_by(kernel),
        Route::Queue(conn) => conn,
    };
    // SAFETY: null, or the application's.
    let mut place = unsafe { offset.as_mut() };
    let start = place.as_deref().copied().unwrap_or_else(|| next::lseek(from, 0, libc::SEEK_CUR));
    if start < 0 {
        return kernel();
    }
    let sent = copy(&conn, to, count, |buffer, done| {
        result(next::pread(from, buffer.as_mut_ptr().cast(), buffer.len(), start + done as off_t))
    });
    if let Ok(sent) = sent {
        let end = start + sent as off_t;
        match &mut place {
            Some(place) => **place = end,
            None => {
                next::lseek(from, end, libc::SEEK_SET);
            }
        }
    }
    answer(sent, false)
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn sendfile64(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
    sendfile(to, from, offset, count)
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn splice(
    from: c_int,
    from_at: *mut i64,
    to: c_int,
    to_at: *mut i64,
    len: size_t,
    flags: c_uint,
) -> ssize_t {
    let kernel = || next::splice(from, from_at, to, to_at, len, flags);
    let conn = match route(to) {
        Route::Kernel => return kernel(),
        Route::Inline(conn) => return conn.written_by(kernel),
        Route::Queue(conn) => conn,
    };
    let dont_wait = flags & libc::SPLICE_F_NONBLOCK != 0;
    let sent = splice_through(&conn, from, to, len, dont_wait);
    answer(sent, false)
}

/// How the bytes go.
fn route(fd: c_int) -> Route {
    state::get().map_or(Route::Kernel, |state| state.route(fd))
}

/// Copies up to `count` bytes, read by `read` (buffer, offset from the beginning), into the queue; answers how many were taken.
fn copy(
    conn: &Conn,
    fd: c_int,
    count: usize,
    mut read: impl FnMut(&mut [u8], usize) -> io::Result<usize>,
) -> io::Result<usize> {
    let mut buffer = vec![0; PIECE.min(count)];
    let mut taken = 0;
    while taken < count {
        let want = buffer.len().min(count - taken);
        let got = match read(&mut buffer[..want], taken) {
            Ok(0) => break,
            Ok(got) => got,
            Err(_) if taken > 0 => break,
            Err(error) => return Err(error),
        };
        match conn.send(fd, || Ok(vec![IoSlice::new(&buffer[..got])]), false) {
            Ok(sent) => {
                taken += sent;
                if sent < got {
                    break;
                }
            }
            Err(_) if taken > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(taken)
}

/// Bytes read from a pipe are gone from it, so no more are read than there is room for, and all are queued.
fn splice_through(conn: &Conn, from: c_int, to: c_int, len: usize, dont_wait: bool) -> io::Result<usize> {
    let socket = conn.socket().ok_or(io::ErrorKind::NotConnected)?;
    while socket.room() == 0 {
        conn.wait_for_room(to, dont_wait)?;
    }
    let mut pipe = libc::pollfd { fd: from, events: libc::POLLIN, revents: 0 };
    if dont_wait && next::poll(&mut pipe, 1, 0) == 0 {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    let mut buffer = vec![0; PIECE.min(len).min(socket.room())];
    let got = result(next::read(from, buffer.as_mut_ptr().cast(), buffer.len()))?;
    let mut taken = 0;
    while taken < got {
        match socket.send(&[IoSlice::new(&buffer[taken..got])], true) {
            Ok(sent) => taken += sent,
            // Another thread took the room: there is no way back for these bytes.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let mut set = libc::pollfd { fd: raw(socket), events: libc::POLLOUT, revents: 0 };
                next::poll(&mut set, 1, -1);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(taken)
}

fn raw(socket: &paceline_alcc::Socket) -> c_int {
    use std::os::fd::AsRawFd;
    socket.full().as_raw_fd()
}

fn result(answer: ssize_t) -> io::Result<usize> {
    usize::try_from(answer).map_err(|_| io::Error::last_os_error())
}
