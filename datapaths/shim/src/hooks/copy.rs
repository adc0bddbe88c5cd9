//! Calls that move bytes without showing them: `sendfile` and `splice`.
//!
//! Inline the call is the kernel's. In mode queue the bytes are copied through the queue.

use std::ffi::{c_int, c_uint};
use std::io::{self, IoSlice};

use libc::{off_t, size_t, ssize_t};

use super::answer;
use crate::conn::Conn;
use crate::inside::Inside;
use crate::memory;
use crate::next;
use crate::state::{self, Route};

/// Bytes copied at a time (our choice: small beside a queue, large beside a system call).
const PIECE: usize = 128 * 1024;
/// What a file that is read past the kernel's cache (`O_DIRECT`) wants a buffer to be aligned to, at most (open(2)).
const PAGE: usize = 4096;

#[derive(Clone, Copy)]
#[repr(C, align(4096))]
struct Page([u8; PAGE]);

#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn sendfile(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
    let kernel = || next::sendfile(to, from, offset, count);
    let conn = match route(to, count) {
        Route::Kernel => return kernel(),
        Route::Inline(conn) => return conn.written_by(kernel),
        Route::Queue(conn) => conn,
    };
    let Some(state) = state::get() else { return kernel() };
    let start = match offset.is_null() {
        true => next::lseek(from, 0, libc::SEEK_CUR),
        false => guarded(|| memory::load_one(state.process, offset)).unwrap_or(-1),
    };
    // What the kernel refuses it says best.
    if start < 0 || !is_readable(from) {
        return kernel();
    }
    let sent = copy(&conn, to, count, |buffer, done| {
        result(next::pread(from, buffer.as_mut_ptr().cast(), buffer.len(), start + done as off_t))
    });
    if let Ok(sent) = sent {
        let end = start + sent as off_t;
        if offset.is_null() {
            next::lseek(from, end, libc::SEEK_SET);
        } else if !guarded(|| memory::store(state.process, offset, &[end])) {
            return answer(Err(io::Error::from_raw_os_error(libc::EFAULT)), false);
        }
    }
    answer(sent, false)
}

fn guarded<T>(work: impl FnOnce() -> T) -> T {
    let _inside = Inside::enter();
    work()
}

fn is_readable(fd: c_int) -> bool {
    let flags = next::fcntl(fd, libc::F_GETFL, 0);
    flags >= 0 && flags & libc::O_ACCMODE != libc::O_WRONLY
}

#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn splice(
    from: c_int,
    from_at: *mut i64,
    to: c_int,
    to_at: *mut i64,
    len: size_t,
    flags: c_uint,
) -> ssize_t {
    let kernel = || next::splice(from, from_at, to, to_at, len, flags);
    if !from_at.is_null() || !to_at.is_null() {
        // A pipe and a socket have no places: the kernel says so.
        return kernel();
    }
    let conn = match route(to, len) {
        Route::Kernel => return kernel(),
        Route::Inline(conn) => return conn.written_by(kernel),
        Route::Queue(conn) => conn,
    };
    let dont_wait = flags & libc::SPLICE_F_NONBLOCK != 0;
    let sent = splice_through(&conn, from, to, len, dont_wait);
    answer(sent, false)
}

/// How the bytes go.
fn route(fd: c_int, count: usize) -> Route {
    state::get().map_or(Route::Kernel, |state| state.route(fd, || count))
}

/// Copies up to `count` bytes, read by `read` (buffer, offset from the beginning), into the queue; answers how many were taken.
fn copy(
    conn: &Conn,
    fd: c_int,
    count: usize,
    mut read: impl FnMut(&mut [u8], usize) -> io::Result<usize>,
) -> io::Result<usize> {
    let mut pages = vec![Page([0; PAGE]); PIECE.min(count).div_ceil(PAGE)];
    // SAFETY: the same memory, for as long.
    let buffer = unsafe { std::slice::from_raw_parts_mut(pages.as_mut_ptr().cast::<u8>(), pages.len() * PAGE) };
    let mut taken = 0;
    while taken < count {
        let want = buffer.len().min(count - taken);
        let got = match read(&mut buffer[..want], taken) {
            Ok(0) => break,
            Ok(got) => got,
            Err(_) if taken > 0 => break,
            Err(error) => return Err(error),
        };
        match conn.send(fd, taken, || Ok(vec![IoSlice::new(&buffer[..got])]), false) {
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
    let room = || guarded(|| socket.room());
    while room() == 0 {
        conn.wait_for_room(to, dont_wait)?;
    }
    let mut pipe = libc::pollfd { fd: from, events: libc::POLLIN, revents: 0 };
    if dont_wait && next::poll(&mut pipe, 1, 0) == 0 {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    let mut buffer = vec![0; PIECE.min(len).min(room())];
    let got = result(next::read(from, buffer.as_mut_ptr().cast(), buffer.len()))?;
    let mut taken = 0;
    while taken < got {
        match guarded(|| socket.send_after(taken, &[IoSlice::new(&buffer[taken..got])], true)) {
            Ok(sent) => taken += sent,
            // Another thread took the room: there is no way back for these bytes.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let mut set = libc::pollfd { fd: shows_room(socket), events: libc::POLLOUT, revents: 0 };
                next::poll(&mut set, 1, -1);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(taken)
}

/// What says that the queue has room.
fn shows_room(socket: &paceline_alcc::Socket) -> c_int {
    use std::os::fd::AsRawFd;
    socket.full().map_or(-1, |full| full.as_raw_fd())
}

fn result(answer: ssize_t) -> io::Result<usize> {
    usize::try_from(answer).map_err(|_| io::Error::last_os_error())
}
