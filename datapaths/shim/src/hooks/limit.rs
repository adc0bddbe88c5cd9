//! Limits that a program sets for itself. One on processes counts threads: where it may be below what there are, the
//! engine's is started before, for the sockets which the program has by then (vsftpd's sessions do so).

use std::ffi::{c_int, c_uint};

use libc::{pid_t, rlimit};

use crate::inside::Inside;
use crate::next;
use crate::own;
use crate::state;

#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn setrlimit(resource: c_uint, limit: *const rlimit) -> c_int {
    before(resource);
    alone(|| next::setrlimit(resource, limit))
}

#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn prlimit(
    process: pid_t,
    resource: c_uint,
    new: *const rlimit,
    old: *mut rlimit,
) -> c_int {
    // SAFETY: always succeeds.
    if !new.is_null() && (process == 0 || process == unsafe { libc::getpid() }) {
        before(resource);
    }
    alone(|| next::prlimit(process, resource, new, old))
}

/// Calls while the limit is the program's own, and says how the call failed.
fn alone(call: impl FnOnce() -> c_int) -> c_int {
    let (answer, error) = {
        let _inside = Inside::enter();
        let _limit = own::limit_is_the_programs();
        (call(), next::errno())
    };
    if answer == 0 { 0 } else { super::fail(error) }
}

fn before(resource: c_uint) {
    if resource == libc::RLIMIT_NPROC
        && let Some(state) = state::own()
    {
        let _inside = Inside::enter();
        state.start_early();
    }
}
