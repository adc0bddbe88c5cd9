//! `write` and its like.

use std::ffi::{c_int, c_uint, c_void};

use libc::{cmsghdr, iovec, mmsghdr, msghdr, off_t, size_t, sockaddr, socklen_t, ssize_t};

use super::{Parts, fail, queue, settle};
use crate::conn::Via;
use crate::inside::Inside;
use crate::memory;
use crate::next;
use crate::state::{self, Route, State};

/// What cannot go through a queue: urgent data, and data in the handshake.
const UNQUEUED: c_int = libc::MSG_OOB | libc::MSG_FASTOPEN;

#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn write(fd: c_int, data: *const c_void, len: size_t) -> ssize_t {
    queue(fd, &Parts::one(data, len), 0, || next::write(fd, data, len))
}

#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    let kernel = || next::writev(fd, parts, count);
    match Parts::several(parts, count as usize) {
        Some(parts) => queue(fd, &parts, 0, kernel),
        None => kernel(),
    }
}

#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn pwritev2(
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    // Only without a place does it write to sockets; `RWF_NOWAIT` is the one flag that means something there.
    let at_once = if flags & libc::RWF_NOWAIT != 0 { libc::MSG_DONTWAIT } else { 0 };
    let kernel = || next::pwritev2(fd, parts, count, offset, flags);
    match Parts::several(parts, count as usize).filter(|_| offset == -1) {
        Some(parts) => queue(fd, &parts, at_once, kernel),
        None => kernel(),
    }
}

#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn send(fd: c_int, data: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    let kernel = || next::send(fd, data, len, flags);
    if goes_past(fd, flags) { kernel() } else { queue(fd, &Parts::one(data, len), flags, kernel) }
}

#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn sendto(
    fd: c_int,
    data: *const c_void,
    len: size_t,
    flags: c_int,
    to: *const sockaddr,
    to_len: socklen_t,
) -> ssize_t {
    let kernel = || next::sendto(fd, data, len, flags, to, to_len);
    if !is_name(to, to_len) || goes_past(fd, flags) {
        kernel()
    } else {
        queue(fd, &Parts::one(data, len), flags, kernel)
    }
}

#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    let kernel = || next::sendmsg(fd, message, flags);
    let Some(state) = state::get() else { return kernel() };
    if !state.config.queues() {
        hand_over_passed(state, fd, message);
        let count = || load(state, message).and_then(|header| length(state, &header)).unwrap_or(usize::MAX);
        return passed(state, fd, count, kernel);
    }
    let Some(header) = load(state, message) else { return kernel() };
    if !is_name(header.msg_name.cast(), header.msg_namelen) || is_controlled(state, fd, &header) || goes_past(fd, flags)
    {
        return kernel();
    }
    match Parts::several(header.msg_iov, header.msg_iovlen) {
        Some(parts) => queue(fd, &parts, flags, kernel),
        None => kernel(),
    }
}

#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
    let kernel = || next::sendmmsg(fd, messages, count, flags);
    let Some(state) = state::get() else { return kernel() };
    if state.tcp(fd).is_none() {
        for at in 0..count.min(libc::UIO_MAXIOV as c_uint) as usize {
            // It is the first field.
            hand_over_passed(state, fd, messages.wrapping_add(at).cast());
        }
        return kernel();
    }
    if !state.config.queues() {
        return passed(state, fd, || usize::MAX, kernel);
    }
    let mut sent = 0;
    // More are not taken in one call (Linux `__sys_sendmmsg`).
    for at in 0..count.min(libc::UIO_MAXIOV as c_uint) as usize {
        let message = messages.wrapping_add(at);
        let Some(wanted) = load(state, message).and_then(|message| length(state, &message.msg_hdr)) else {
            return if sent > 0 { sent } else { fail(libc::EFAULT) };
        };
        // SAFETY: it has just been read.
        let taken = sendmsg(fd, unsafe { &raw const (*message).msg_hdr }, flags);
        if taken < 0 {
            return if sent > 0 { sent } else { -1 };
        }
        // SAFETY: computes an address.
        let length = unsafe { &raw mut (*message).msg_len };
        let _inside = Inside::enter();
        if !memory::store(state.process, length, &[taken as c_uint]) {
            break;
        }
        sent += 1;
        if (taken as usize) < wanted {
            break;
        }
    }
    sent
}

/// A call without a queue to go to, for `count` bytes: the kernel's.
fn passed<T>(state: &State, fd: c_int, count: impl Fn() -> usize, kernel: impl FnOnce() -> T) -> T {
    match state.route(fd, count) {
        Route::Inline(conn) => conn.written_by(kernel),
        Route::Kernel | Route::Queue(_) => kernel(),
    }
}

/// A name of a peer, or none: TCP ignores it once it is connected, but the kernel reads it.
fn is_name(name: *const sockaddr, len: socklen_t) -> bool {
    let Some(state) = state::get().filter(|state| state.config.queues() && !name.is_null()) else { return true };
    let _inside = Inside::enter();
    len as usize <= size_of::<libc::sockaddr_storage>()
        && memory::load(state.process, name.cast::<u8>(), len as usize).is_some()
}

/// A value that the application names.
fn load<T: Copy>(state: &State, from: *const T) -> Option<T> {
    let _inside = Inside::enter();
    memory::load_one(state.process, from)
}

/// Bytes of a message.
fn length(state: &State, header: &msghdr) -> Option<usize> {
    let _inside = Inside::enter();
    let parts = memory::load(state.process, header.msg_iov, header.msg_iovlen.min(libc::UIO_MAXIOV as usize))?;
    Some(parts.iter().fold(0, |all, part| all.saturating_add(part.iov_len)))
}

/// Urgent data follows what is queued; data in the handshake precedes everything.
fn goes_past(fd: c_int, flags: c_int) -> bool {
    let past = flags & UNQUEUED != 0;
    if past {
        settle_queued(fd);
    }
    past
}

/// Over a socket that is not TCP's, others may be passed.
fn hand_over_passed(state: &State, fd: c_int, message: *const msghdr) {
    let _inside = Inside::enter();
    if state.has_threads()
        && state.tcp(fd).is_none()
        && let Some(header) = load(state, message)
        && header.msg_controllen > 0
    {
        settle_passed(state, &header);
    }
}

/// What control data asks of the kernel concerns these bytes alone, so they follow what is queued.
fn is_controlled(state: &State, fd: c_int, header: &msghdr) -> bool {
    let controlled = header.msg_controllen > 0 && !header.msg_control.is_null();
    if controlled {
        settle_passed(state, header);
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
fn settle_passed(state: &State, header: &msghdr) {
    let _inside = Inside::enter();
    let words = header.msg_controllen / size_of::<u64>();
    let Some(mut control) = memory::load(state.process, header.msg_control.cast::<u64>(), words) else { return };
    let header =
        msghdr { msg_control: control.as_mut_ptr().cast(), msg_controllen: words * size_of::<u64>(), ..*header };
    // SAFETY: the control data is a copy of ours.
    let mut part: *const cmsghdr = unsafe { libc::CMSG_FIRSTHDR(&header) };
    // SAFETY: null, or within the control data.
    while let Some(head) = unsafe { part.as_ref() } {
        if head.cmsg_level == libc::SOL_SOCKET && head.cmsg_type == libc::SCM_RIGHTS {
            // SAFETY: computes a length.
            let bytes = head.cmsg_len.saturating_sub(unsafe { libc::CMSG_LEN(0) } as usize);
            let room = control.as_ptr() as usize + words * size_of::<u64>();
            // SAFETY: computes an address within this part.
            let data = unsafe { libc::CMSG_DATA(part) };
            let held = room.saturating_sub(data as usize);
            for at in 0..bytes.min(held) / size_of::<c_int>() {
                // SAFETY: within this part, and within the control data.
                let fd = unsafe { data.cast::<c_int>().add(at).read_unaligned() };
                if let Some(conn) = state.cared_for(fd).filter(|conn| conn.is(fd)) {
                    conn.hand_over(fd, state.config.options.linger);
                    conn.let_go(fd);
                }
            }
        }
        // SAFETY: as above.
        part = unsafe { libc::CMSG_NXTHDR(&header, part) };
    }
}
