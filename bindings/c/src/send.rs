//! send(2) into a connection's queue.

use std::ffi::{c_int, c_void};
use std::io::IoSlice;

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
    // SAFETY: it takes no pointers.
    let flags_of_fd = of(unsafe { libc::fcntl(fd, libc::F_GETFL) })?;
    let nonblocking = flags & libc::MSG_DONTWAIT != 0 || flags_of_fd & libc::O_NONBLOCK != 0;
    let taken = socket.send(bufs, nonblocking);
    taken.map(usize::cast_signed).map_err(|error| {
        let failure = Failure::from(error);
        if failure.errno == libc::EPIPE && flags & libc::MSG_NOSIGNAL == 0 {
            // SAFETY: it takes no pointers. The signal goes to this thread, as the kernel's would.
            unsafe { libc::raise(libc::SIGPIPE) };
        }
        failure
    })
}

/// Asks for an option of level SOL_SOCKET.
pub(crate) fn option<T>(fd: c_int, name: c_int, value: &mut T) -> Outcome<()> {
    let mut length = libc::socklen_t::try_from(size_of::<T>()).map_err(|_| Failure::plain(libc::EINVAL))?;
    // SAFETY: the value is as long as its stated length.
    of(unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, name, (&raw mut *value).cast(), &raw mut length) }).map(drop)
}
