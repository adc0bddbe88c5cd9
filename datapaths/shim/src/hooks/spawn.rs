//! Programs started beside this one, which may get a connection as their standard input or output, as under inetd and CGI.
//!
//! The C library starts them without `fork` handlers and without calls that come by here. So what this program has queued
//! for such a connection goes first, and from then on it writes inline: the kernel keeps the order of both. A connection that
//! such a program finds under another number is not looked at; it was not given on purpose.

use std::ffi::{c_char, c_int, c_void};

use libc::{FILE, pid_t};

use super::exec::text;
use crate::child::{Program, with_variables};
use crate::conn::Via;
use crate::inside::Inside;
use crate::next;
use crate::state;
use crate::table::Kind;

type Words = *const *mut c_char;

#[unsafe(no_mangle)]
extern "C-unwind" fn posix_spawn(
    process: *mut pid_t,
    path: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    words: Words,
    variables: Words,
) -> c_int {
    lend_standard();
    with_variables(Program::At(libc::AT_FDCWD, text(path)), variables.cast(), |variables| {
        next::posix_spawn(process, path, actions, attributes, words, variables.cast())
    })
}

#[unsafe(no_mangle)]
extern "C-unwind" fn posix_spawnp(
    process: *mut pid_t,
    file: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    words: Words,
    variables: Words,
) -> c_int {
    lend_standard();
    with_variables(Program::Named(text(file)), variables.cast(), |variables| {
        next::posix_spawnp(process, file, actions, attributes, words, variables.cast())
    })
}

#[unsafe(no_mangle)]
extern "C-unwind" fn posix_spawn_file_actions_adddup2(actions: *mut c_void, from: c_int, to: c_int) -> c_int {
    lend(from);
    next::posix_spawn_file_actions_adddup2(actions, from, to)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn system(command: *const c_char) -> c_int {
    lend_standard();
    next::system(command)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn popen(command: *const c_char, mode: *const c_char) -> *mut FILE {
    lend_standard();
    next::popen(command, mode)
}

/// Lends what another program has as its standard input, output and errors unless it is given something else.
pub(super) fn lend_standard() {
    (libc::STDIN_FILENO..=libc::STDERR_FILENO).for_each(lend);
}

/// Another program may write to the socket while this one holds it. Works as well in a child that `vfork` made: it shares
/// our memory, and its descriptors are copies.
pub(super) fn lend(fd: c_int) {
    let Some(state) = state::get() else { return };
    let conn = match (state::own(), state.table.get(fd)) {
        (Some(state), Kind::Unknown) => state.tcp(fd),
        (_, Kind::Tcp(conn)) => Some(conn),
        _ => None,
    };
    let Some(conn) = conn.filter(|conn| conn.is(fd)) else { return };
    let _inside = Inside::enter();
    if matches!(conn.via(), Via::Undecided | Via::Queue) {
        conn.go_direct();
        conn.hand_over(fd, state.config.options.linger);
    }
    conn.let_go(fd);
}
