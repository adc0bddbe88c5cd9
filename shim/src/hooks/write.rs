//! `write` and its like.

use std::ffi::{c_int, c_uint, c_void};

use libc::{cmsghdr, iovec, mmsghdr, msghdr, off_t, size_t, sockaddr, socklen_t, ssize_t};

use super::{bytes, pieces, queue, settle};
use crate::conn::Via;
use crate::inside::Inside;
use crate::next;
use crate::state;

/// What cannot go through a queue: urgent data, and data in the handshake.
const UNQUEUED: c_int = libc::MSG_OOB | libc::MSG_FASTOPEN;

#[unsafe(no_mangle)]
pub(super) extern "C" fn write(fd: c_int, data: *const c_void, len: size_t) -> ssize_t {
    let part = bytes(data, len);
    queue(fd, &[part], 0, || next::write(fd, data, len))
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    let kernel = || next::writev(fd, parts, count);
    // SAFETY: the application vouches for them.
    match unsafe { pieces(parts, count as usize) } {
        Some(parts) => queue(fd, parts, 0, kernel),
        None => kernel(),
    }
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn pwritev2(
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    // Only without a place does it write to sockets; `RWF_NOWAIT` is the one flag that means something there.
    let at_once = if flags & libc::RWF_NOWAIT != 0 { libc::MSG_DONTWAIT } else { 0 };
    let kernel = || next::pwritev2(fd, parts, count, offset, flags);
    // SAFETY: the application vouches for them.
    match unsafe { pieces(parts, count as usize) }.filter(|_| offset == -1) {
        Some(parts) => queue(fd, parts, at_once, kernel),
        None => kernel(),
    }
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn pwritev64v2(
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    pwritev2(fd, parts, count, offset, flags)
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn send(fd: c_int, data: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    let part = bytes(data, len);
    let kernel = || next::send(fd, data, len, flags);
    if goes_past(fd, flags) { kernel() } else { queue(fd, &[part], flags, kernel) }
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn sendto(
    fd: c_int,
    data: *const c_void,
    len: size_t,
    flags: c_int,
    to: *const sockaddr,
    to_len: socklen_t,
) -> ssize_t {
    let part = bytes(data, len);
    let kernel = || next::sendto(fd, data, len, flags, to, to_len);
    if goes_past(fd, flags) { kernel() } else { queue(fd, &[part], flags, kernel) }
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    let kernel = || next::sendmsg(fd, message, flags);
    // SAFETY: the application vouches for it.
    let Some(header) = (unsafe { message.as_ref() }) else { return kernel() };
    if is_controlled(fd, header) || goes_past(fd, flags) {
        return kernel();
    }
    // SAFETY: the application vouches for them.
    match unsafe { pieces(header.msg_iov, header.msg_iovlen) } {
        Some(parts) => queue(fd, parts, flags, kernel),
        None => kernel(),
    }
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
    if messages.is_null() || state::get().is_none_or(|state| state.tcp(fd).is_none()) {
        return next::sendmmsg(fd, messages, count, flags);
    }
    let mut sent = 0;
    for at in 0..count as usize {
        // SAFETY: the application vouches for `count` of them.
        let message = unsafe { &mut *messages.add(at) };
        // SAFETY: as above.
        let wanted: usize = unsafe { pieces(message.msg_hdr.msg_iov, message.msg_hdr.msg_iovlen) }
            .map_or(0, |parts| parts.iter().map(|part| part.iov_len).sum());
        let taken = sendmsg(fd, &message.msg_hdr, flags);
        if taken < 0 {
            return if sent > 0 { sent } else { -1 };
        }
        message.msg_len = taken as c_uint;
        sent += 1;
        if (taken as usize) < wanted {
            break;
        }
    }
    sent
}

/// The names by which the C library's own parts and a few programs call the same functions.
#[unsafe(no_mangle)]
pub(super) extern "C" fn __write(fd: c_int, data: *const c_void, len: size_t) -> ssize_t {
    write(fd, data, len)
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn __send(fd: c_int, data: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    send(fd, data, len, flags)
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn __sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
    sendmmsg(fd, messages, count, flags)
}

/// Urgent data follows what is queued; data in the handshake precedes everything.
fn goes_past(fd: c_int, flags: c_int) -> bool {
    let past = flags & UNQUEUED != 0;
    if past {
        settle_queued(fd);
    }
    past
}

/// What control data asks of the kernel concerns these bytes alone, so they follow what is queued.
fn is_controlled(fd: c_int, header: &msghdr) -> bool {
    let controlled = header.msg_controllen > 0 && !header.msg_control.is_null();
    if controlled {
        settle_passed(header);
        settle_queued(fd);
    }
    controlled
}

fn settle_queued(fd: c_int) {
    if let Some(state) = state::get()
        && let Some(conn) = state.cared_for(fd).filter(|conn| conn.via() == Via::Queue)
    {
        settle(state, &conn);
    }
}

/// Another process may write to a socket that is passed to it: what is queued goes first.
fn settle_passed(header: &msghdr) {
    let Some(state) = state::get() else { return };
    // SAFETY: the application vouches for its control data.
    let mut part: *const cmsghdr = unsafe { libc::CMSG_FIRSTHDR(header) };
    // SAFETY: null, or within the control data.
    while let Some(head) = unsafe { part.as_ref() } {
        if head.cmsg_level == libc::SOL_SOCKET && head.cmsg_type == libc::SCM_RIGHTS {
            // SAFETY: computes a length.
            let bytes = head.cmsg_len.saturating_sub(unsafe { libc::CMSG_LEN(0) } as usize);
            for at in 0..bytes / size_of::<c_int>() {
                // SAFETY: within this part.
                let fd = unsafe { libc::CMSG_DATA(part).cast::<c_int>().add(at).read_unaligned() };
                if let Some(conn) = state.cared_for(fd) {
                    let _inside = Inside::enter();
                    conn.hand_over(fd, state.config.options.linger);
                }
            }
        }
        // SAFETY: as above.
        part = unsafe { libc::CMSG_NXTHDR(header, part) };
    }
}
