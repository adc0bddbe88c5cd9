//! What the program does with `SIGTERM`. While it has it at its default and there are queues, ours drains them first; the program
//! sees the default.

use std::ffi::c_int;

use libc::{SIG_DFL, SIGTERM, sighandler_t};

use crate::end;
use crate::inside;
use crate::next;
use crate::state;

/// Whether the program's wish for `signal` concerns us.
fn concerns(signal: c_int) -> bool {
    signal == SIGTERM && !inside::inside() && state::any().is_some_and(|state| state.config.queues())
}

#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    if !concerns(signal) {
        return next::sigaction(signal, new, old);
    }
    // SAFETY: null, or the application's.
    let wanted = unsafe { new.as_ref() }.map(|new| if new.sa_sigaction == SIG_DFL { end::ours() } else { *new });
    let answer = next::sigaction(signal, wanted.as_ref().map_or(std::ptr::null(), |new| new), old);
    // SAFETY: as above.
    if let Some(old) = unsafe { old.as_mut() }
        && end::is_ours(old.sa_sigaction)
    {
        (old.sa_sigaction, old.sa_flags) = (SIG_DFL, 0);
    }
    answer
}

/// Sets a handler by one of the functions that take and answer no more than that.
fn set(number: c_int, handler: sighandler_t, call: fn(c_int, sighandler_t) -> sighandler_t) -> sighandler_t {
    if !concerns(number) {
        return call(number, handler);
    }
    let wanted = if handler == SIG_DFL { end::ours().sa_sigaction } else { handler };
    let before = call(number, wanted);
    if end::is_ours(before) { SIG_DFL } else { before }
}

#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn signal(number: c_int, handler: sighandler_t) -> sighandler_t {
    set(number, handler, next::signal)
}

#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn __sysv_signal(number: c_int, handler: sighandler_t) -> sighandler_t {
    set(number, handler, next::__sysv_signal)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn sigset(number: c_int, handler: sighandler_t) -> sighandler_t {
    set(number, handler, next::sigset)
}
