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
    // SAFETY: the application vouches for them.
    let part = unsafe { bytes(data, len) };
    queue(fd, &[part], 0).unwrap_or_else(|| next::write(fd, data, len))
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the application vouches for them.
    let queued = unsafe { pieces(parts, count as usize) }.and_then(|parts| queue(fd, parts, 0));
    queued.unwrap_or_else(|| next::writev(fd, parts, count))
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
    // SAFETY: the application vouches for them.
    let queued =
        unsafe { pieces(parts, count as usize) }.filter(|_| offset == -1).and_then(|parts| queue(fd, parts, at_once));
    queued.unwrap_or_else(|| next::pwritev2(fd, parts, count, offset, flags))
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
    // SAFETY: the application vouches for them.
    let part = unsafe { bytes(data, len) };
    unless_unqueued(fd, flags)
        .and_then(|()| queue(fd, &[part], flags))
        .unwrap_or_else(|| next::send(fd, data, len, flags))
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
    // SAFETY: the application vouches for them.
    let part = unsafe { bytes(data, len) };
    let queued = unless_unqueued(fd, flags).and_then(|()| queue(fd, &[part], flags));
    queued.unwrap_or_else(|| next::sendto(fd, data, len, flags, to, to_len))
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    queue_message(fd, message, flags).unwrap_or_else(|| next::sendmsg(fd, message, flags))
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
            .map_or(0, |parts| parts.iter().map(|part| part.len()).sum());
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
fn unless_unqueued(fd: c_int, flags: c_int) -> Option<()> {
    if flags & UNQUEUED == 0 {
        return Some(());
    }
    let state = state::get()?;
    if let Some(conn) = state.cared_for(fd).filter(|conn| conn.via() == Via::Queue) {
        settle(state, &conn);
    }
    None
}

fn queue_message(fd: c_int, message: *const msghdr, flags: c_int) -> Option<ssize_t> {
    let state = state::get()?;
    // SAFETY: the application vouches for it.
    let header = unsafe { message.as_ref() }?;
    if header.msg_controllen > 0 && !header.msg_control.is_null() {
        settle_passed(header);
        // What control data asks of the kernel concerns these bytes alone, so they follow what is queued.
        if let Some(conn) = state.cared_for(fd).filter(|conn| conn.via() == Via::Queue) {
            settle(state, &conn);
        }
        return None;
    }
    unless_unqueued(fd, flags)?;
    // SAFETY: the application vouches for them.
    queue(fd, unsafe { pieces(header.msg_iov, header.msg_iovlen) }?, flags)
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
