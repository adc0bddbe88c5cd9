//! `epoll`. See [`crate::set`].

use std::ffi::c_int;
use std::time::{Duration, Instant};

use libc::{epoll_event, sigset_t, timespec};

use crate::inside::Inside;
use crate::memory;
use crate::next;
use crate::state::{self, State};

#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn epoll_ctl(set: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
    let kernel = || next::epoll_ctl(set, operation, fd, event);
    let Some(state) = state::get() else { return kernel() };
    let conn = state.tcp(fd);
    let Some(known) = state.set(set, operation == libc::EPOLL_CTL_ADD && conn.is_some()) else { return kernel() };
    if conn.is_none() || !state.config.queues() {
        let answer = kernel();
        if answer == 0 {
            let _inside = Inside::enter();
            // The kernel does not look at the event of one that leaves.
            let adds = operation != libc::EPOLL_CTL_DEL;
            known.note(fd, adds.then(|| memory::load_one(state.process, event)).flatten(), conn.as_ref());
        }
        return answer;
    }
    let known_operation = matches!(operation, libc::EPOLL_CTL_ADD | libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL);
    let Some(conn) = conn.filter(|_| known_operation) else { return kernel() };
    let (answer, error) = {
        let _inside = Inside::enter();
        let wanted = memory::load_one(state.process, event);
        (known.control(operation, fd, wanted, &conn), next::errno())
    };
    if answer != 0 {
        next::set_errno(error);
    }
    answer
}

#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn epoll_wait(set: c_int, events: *mut epoll_event, room: c_int, limit: c_int) -> c_int {
    wait(set, events, |_| millis(limit), |left| next::epoll_wait(set, events, room, left.map_or(limit, to_millis)))
}

#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn epoll_pwait(
    set: c_int,
    events: *mut epoll_event,
    room: c_int,
    limit: c_int,
    mask: *const sigset_t,
) -> c_int {
    let call = |left: Option<Duration>| next::epoll_pwait(set, events, room, left.map_or(limit, to_millis), mask);
    wait(set, events, |_| millis(limit), call)
}

#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn epoll_pwait2(
    set: c_int,
    events: *mut epoll_event,
    room: c_int,
    limit: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // The kernel reads the limit, and says if it is not one, before there are events.
    let span = |state: &State| memory::load_one(state.process, limit).map(span);
    wait(set, events, span, |left| {
        let left = left.map(|left| timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) });
        next::epoll_pwait2(set, events, room, left.as_ref().map_or(limit, |left| left), mask)
    })
}

/// Waits by `call` until there is an event that the application may see: at first for as long as the application says, then for what is
/// left of the `limit`.
fn wait(
    set: c_int,
    events: *mut epoll_event,
    limit: impl Fn(&State) -> Option<Duration>,
    call: impl Fn(Option<Duration>) -> c_int,
) -> c_int {
    let begun = Instant::now();
    let mut left = None;
    loop {
        let count = call(left);
        if count <= 0 {
            return count;
        }
        let Some(state) = state::get() else { return count };
        let Some(known) = state.set(set, false).filter(|known| known.is_watched()) else { return count };
        let kept = {
            let _inside = Inside::enter();
            // SAFETY: the kernel has just filled in that many.
            known.sift(unsafe { std::slice::from_raw_parts_mut(events, count as usize) })
        };
        left = limit(state).map(|limit| limit.saturating_sub(begun.elapsed()));
        if kept > 0 || left.is_some_and(|left| left.is_zero()) {
            return kept as c_int;
        }
    }
}

/// A valid span.
pub(super) fn span(limit: timespec) -> Duration {
    Duration::new(limit.tv_sec.max(0) as u64, limit.tv_nsec.clamp(0, 999_999_999) as u32)
}

/// A limit in milliseconds; none when negative.
pub(super) fn millis(limit: c_int) -> Option<Duration> {
    u64::try_from(limit).ok().map(Duration::from_millis)
}

/// The same, rounded up.
fn to_millis(left: Duration) -> c_int {
    c_int::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(c_int::MAX)
}
