//! How descriptors come, go and are distinguished.

use std::ffi::{c_int, c_uint};

use libc::{sockaddr, socklen_t};

use super::{fail, process, spawn};
use crate::ask;
use crate::conn::{Conn, Via};
use crate::inside::{self, Inside};
use crate::next;
use crate::state;
use crate::table::Kind;

#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    let fd = next::socket(domain, kind, protocol);
    if fd >= 0
        && let Some(state) = state::own()
    {
        let _inside = Inside::enter();
        let tcp =
            matches!(domain, libc::AF_INET | libc::AF_INET6) && kind & KINDS == libc::SOCK_STREAM && is_tcp(protocol);
        state.opened(fd, if tcp { Kind::Tcp(Conn::new(fd)) } else { Kind::Unknown });
    }
    fd
}

/// The bits of a socket's kind that are not flags (Linux `SOCK_TYPE_MASK`).
const KINDS: c_int = 0xf;

fn is_tcp(protocol: c_int) -> bool {
    matches!(protocol, 0 | libc::IPPROTO_TCP)
}

#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn accept(fd: c_int, from: *mut sockaddr, from_len: *mut socklen_t) -> c_int {
    accepted(fd, next::accept(fd, from, from_len))
}

#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn accept4(
    fd: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
    flags: c_int,
) -> c_int {
    accepted(fd, next::accept4(fd, from, from_len, flags))
}

fn accepted(listener: c_int, fd: c_int) -> c_int {
    if fd >= 0
        && let Some(state) = state::own()
    {
        let tcp = state.tcp(listener).is_some();
        {
            let _inside = Inside::enter();
            state.opened(fd, if tcp { Kind::Tcp(Conn::new(fd)) } else { Kind::Other });
        }
        lend_if_standard(fd);
    }
    fd
}

/// What becomes standard input, output or errors may be written by the C library's streams and by other programs.
fn lend_if_standard(fd: c_int) {
    if (libc::STDIN_FILENO..=libc::STDERR_FILENO).contains(&fd) {
        spawn::lend(fd);
    }
}

#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn connect(fd: c_int, to: *const sockaddr, to_len: socklen_t) -> c_int {
    if let Some(state) = state::own()
        && matches!(state.table.get(fd), Kind::Other)
    {
        // What was known may be of a descriptor closed behind our back.
        state.table.take(fd);
    }
    next::connect(fd, to, to_len)
}

#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn shutdown(fd: c_int, how: c_int) -> c_int {
    let queued =
        state::get().and_then(|state| state.cared_for(fd)).filter(|conn| conn.via() == Via::Queue && conn.is(fd));
    let queued = queued.filter(|_| !ask::is_over(fd));
    let Some(socket) = queued.as_ref().and_then(|conn| conn.socket()) else { return next::shutdown(fd, how) };
    if how == libc::SHUT_RDWR && next::shutdown(fd, libc::SHUT_RD) != 0 {
        return -1;
    }
    if how == libc::SHUT_WR || how == libc::SHUT_RDWR {
        let _inside = Inside::enter();
        socket.shutdown_write();
        return 0;
    }
    next::shutdown(fd, how)
}

#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn close(fd: c_int) -> c_int {
    if inside::inside() {
        if let Some(state) = state::any()
            && !inside::is_apart()
            && matches!(state.table.get(fd), Kind::Own)
        {
            state.table.take(fd);
        }
        return next::close(fd);
    }
    let Some(state) = state::own() else { return next::close(fd) };
    match state.table.get(fd) {
        Kind::Unknown => {}
        Kind::Own => return fail(libc::EBADF),
        Kind::Other | Kind::Tcp(_) | Kind::Set(_) => {
            let _inside = Inside::enter();
            state.closing(fd);
        }
    }
    next::close(fd)
}

#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    let only_marks = flags & libc::CLOSE_RANGE_CLOEXEC as c_int != 0;
    // The calling thread gets a table of its own: what the others have stays open.
    let unshares = flags & libc::CLOSE_RANGE_UNSHARE as c_int != 0 && first <= last;
    let leaves = unshares && others_stay();
    if unshares && !leaves {
        // Our threads would keep open what no thread of the program can close any more.
        process::rights();
    }
    let Some(state) = state::own().filter(|_| !only_marks && first <= last) else {
        return next::close_range(first, last, flags);
    };
    let number = |bound: c_uint| c_int::try_from(bound).unwrap_or(c_int::MAX);
    let mut from = first;
    let inside = Inside::enter();
    for (fd, kind) in state.table.known(number(first), number(last)) {
        if matches!(kind, Kind::Own) {
            let fd = fd as c_uint;
            if from < fd && next::close_range(from, fd - 1, flags) != 0 {
                let error = next::errno();
                drop(inside);
                return fail(error);
            }
            from = fd + 1;
        } else if !leaves {
            state.closing(fd);
        }
    }
    drop(inside);
    if from > last { 0 } else { next::close_range(from, last, flags) }
}

/// Other threads of the program have this thread's descriptors.
fn others_stay() -> bool {
    let _inside = Inside::enter();
    inside::is_table_shared()
}

#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn closefrom(first: c_int) {
    close_range(first.max(0) as c_uint, c_uint::MAX, 0);
}

/// Notes a duplicate.
fn duplicated(from: c_int, to: c_int) -> c_int {
    if to >= 0
        && let Some(state) = state::own()
    {
        state.duplicated(from, to);
        lend_if_standard(to);
    }
    to
}

#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn dup(fd: c_int) -> c_int {
    duplicated(fd, next::dup(fd))
}

#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn dup2(from: c_int, to: c_int) -> c_int {
    if from == to || !make_way(from, to) {
        return next::dup2(from, to);
    }
    duplicated(from, next::dup2(from, to))
}

#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
    if from == to || !make_way(from, to) {
        return next::dup3(from, to, flags);
    }
    duplicated(from, next::dup3(from, to, flags))
}

/// A duplicate closes what had its number; says whether it will be made.
fn make_way(from: c_int, to: c_int) -> bool {
    let Some(state) = state::own() else {
        spawn::lend(from);
        return false;
    };
    let _inside = Inside::enter();
    if next::fcntl(from, libc::F_GETFD, 0) < 0 {
        return false;
    }
    state.closing(to);
    true
}

#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    let answer = next::fcntl(fd, command, argument);
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => duplicated(fd, answer),
        _ => answer,
    }
}
