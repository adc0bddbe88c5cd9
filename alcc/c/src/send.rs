//! send(2) into a connection's queue.

use std::ffi::{c_int, c_void};
use std::io::{self, IoSlice};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use libc::msghdr;
use paceline_alcc::Socket;

use crate::outcome::{Failure, Outcome, of};

/// The most that one call takes: MAX_RW_COUNT of Linux.
const LONGEST: usize = 0x7fff_f000;
/// UIO_MAXIOV of Linux.
const MOST_PARTS: usize = 1024;
/// Flags that the queue cannot keep.
const REFUSED: c_int = libc::MSG_OOB | libc::MSG_ZEROCOPY | libc::MSG_FASTOPEN;

/// A part of what is to be sent.
///
/// # Safety
/// `len` bytes can be read at `buf`, unless it is null.
pub(crate) unsafe fn slice<'a>(buf: *const c_void, len: usize) -> Outcome<IoSlice<'a>> {
    if len == 0 {
        return Ok(IoSlice::new(&[]));
    }
    if buf.is_null() {
        return Err(Failure::plain(libc::EFAULT));
    }
    // SAFETY: the caller's promise; the length is far below isize::MAX.
    Ok(IoSlice::new(unsafe { std::slice::from_raw_parts(buf.cast(), len.min(LONGEST)) }))
}

/// The parts of a message.
///
/// # Safety
/// The message's parts are there and can be read.
pub(crate) unsafe fn slices(message: &msghdr) -> Outcome<Vec<IoSlice<'_>>> {
    let count = message.msg_iovlen;
    if count > MOST_PARTS {
        return Err(Failure::plain(libc::EMSGSIZE));
    }
    if message.msg_controllen != 0 {
        return Err(Failure::plain(libc::EOPNOTSUPP));
    }
    if count == 0 {
        return Ok(Vec::new());
    }
    if message.msg_iov.is_null() {
        return Err(Failure::plain(libc::EFAULT));
    }
    // SAFETY: the caller's promise.
    let parts = unsafe { std::slice::from_raw_parts(message.msg_iov, count) };
    // SAFETY: the caller's promise.
    parts.iter().map(|part| unsafe { slice(part.iov_base, part.iov_len) }).collect()
}

/// Puts bytes into the queue of `fd`, which is `socket`.
pub(crate) fn send(socket: &Socket, fd: c_int, bufs: &[IoSlice<'_>], flags: c_int) -> Outcome<isize> {
    if flags & REFUSED != 0 {
        return Err(Failure::plain(libc::EOPNOTSUPP));
    }
    let taken = match patience(socket, fd, bufs, flags)? {
        Patience::None => socket.send(bufs, true),
        Patience::Endless => socket.send(bufs, false),
        Patience::Until(deadline) => send_until(socket, bufs, deadline),
    };
    taken.map(usize::cast_signed).map_err(|error| {
        let failure = Failure::from(error);
        if failure.errno == libc::EPIPE && flags & libc::MSG_NOSIGNAL == 0 {
            // SAFETY: it takes no pointers. The signal goes to this thread, as the kernel's would.
            unsafe { libc::raise(libc::SIGPIPE) };
        }
        failure
    })
}

/// How long a call waits for room.
enum Patience {
    None,
    Endless,
    Until(Instant),
}

fn patience(socket: &Socket, fd: c_int, bufs: &[IoSlice<'_>], flags: c_int) -> Outcome<Patience> {
    if flags & libc::MSG_DONTWAIT != 0 {
        return Ok(Patience::None);
    }
    // SAFETY: it takes no pointers.
    if of(unsafe { libc::fcntl(fd, libc::F_GETFL) })? & libc::O_NONBLOCK != 0 {
        return Ok(Patience::None);
    }
    // Nothing to wait for: the usual case.
    if bufs.iter().map(|buf| buf.len()).sum::<usize>() <= socket.room() {
        return Ok(Patience::Endless);
    }
    let mut limit = libc::timeval { tv_sec: 0, tv_usec: 0 };
    option(fd, libc::SO_SNDTIMEO, &mut limit)?;
    let seconds = u64::try_from(limit.tv_sec).unwrap_or_default();
    let micros = u32::try_from(limit.tv_usec).unwrap_or_default();
    let limit = Duration::new(seconds, micros.saturating_mul(1000));
    Ok(if limit.is_zero() { Patience::Endless } else { Patience::Until(Instant::now() + limit) })
}

/// Takes what there is room for until the deadline.
fn send_until(socket: &Socket, bufs: &[IoSlice<'_>], deadline: Instant) -> io::Result<usize> {
    let mut rest: Vec<IoSlice<'_>> = bufs.to_vec();
    let mut rest = rest.as_mut_slice();
    let mut taken = 0;
    while !rest.is_empty() {
        match socket.send(rest, true) {
            Ok(bytes) => {
                taken += bytes;
                IoSlice::advance_slices(&mut rest, bytes);
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return if taken > 0 { Ok(taken) } else { Err(error) },
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let mut room = libc::pollfd { fd: socket.full().as_raw_fd(), events: libc::POLLOUT, revents: 0 };
        let millis = i32::try_from(left.as_millis() + 1).unwrap_or(i32::MAX);
        // SAFETY: there is one.
        let ready = if left.is_zero() { 0 } else { unsafe { libc::poll(&raw mut room, 1, millis) } };
        match ready {
            0 if taken > 0 => return Ok(taken),
            0 => return Err(io::ErrorKind::WouldBlock.into()),
            -1 if taken > 0 => return Ok(taken),
            -1 => return Err(io::Error::last_os_error()),
            _ => {}
        }
    }
    Ok(taken)
}

/// Asks for an option of level SOL_SOCKET.
pub(crate) fn option<T>(fd: c_int, name: c_int, value: &mut T) -> Outcome<()> {
    let mut length = libc::socklen_t::try_from(size_of::<T>()).map_err(|_| Failure::plain(libc::EINVAL))?;
    // SAFETY: the value is as long as the kernel is told.
    of(unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, name, (&raw mut *value).cast(), &raw mut length) }).map(drop)
}
