//! poll(2), where room means room in a connection's queue.

use std::ffi::c_int;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use libc::{POLLERR, POLLHUP, POLLNVAL, POLLOUT, POLLWRNORM, pollfd};
use paceline_alcc::Socket;

use crate::outcome::{Outcome, of};
use crate::state::state;

/// What asks for room.
const ROOM: i16 = POLLOUT | POLLWRNORM;
/// How long to leave the error queue to the engine before looking again, in ms.
const LEAVE_MS: c_int = 1;

pub(crate) fn poll(fds: &mut [pollfd], timeout: c_int) -> Outcome<c_int> {
    let deadline = u64::try_from(timeout).ok().map(|millis| Instant::now() + Duration::from_millis(millis));
    let served: Vec<Option<Arc<Socket>>> = fds.iter().map(|entry| state().served(entry.fd)).collect();
    // First the caller's, with what only the kernel knows; then the queues of those that ask for room.
    let mut asked: Vec<pollfd> = Vec::with_capacity(2 * fds.len());
    for (entry, socket) in fds.iter().zip(&served) {
        let events = if socket.is_some() { entry.events & !ROOM } else { entry.events };
        asked.push(pollfd { fd: entry.fd, events, revents: 0 });
    }
    let rooms: Vec<usize> = (0..fds.len()).filter(|&at| served[at].is_some() && fds[at].events & ROOM != 0).collect();
    for &at in &rooms {
        let full = served[at].as_ref().and_then(|socket| socket.full());
        let fd = full.map_or(-1, |full| full.as_raw_fd());
        asked.push(pollfd { fd, events: POLLOUT, revents: 0 });
    }
    loop {
        let count = libc::nfds_t::try_from(asked.len()).unwrap_or(libc::nfds_t::MAX);
        // SAFETY: there are this many.
        of(unsafe { libc::poll(asked.as_mut_ptr(), count, left(deadline)) })?;
        let (own, queues) = asked.split_at(fds.len());
        for ((entry, found), socket) in fds.iter_mut().zip(own).zip(&served) {
            // TCP's stamps are on the error queue; a connection that failed has hung up as well.
            let stamps = socket.is_some() && found.revents & POLLHUP == 0;
            entry.revents = if stamps { found.revents & !POLLERR } else { found.revents };
        }
        for (&at, queue) in rooms.iter().zip(queues) {
            // A connection that failed takes anything: the next send reports it.
            if queue.revents & POLLOUT != 0 && fds[at].revents & (POLLHUP | POLLNVAL) == 0 {
                fds[at].revents |= fds[at].events & ROOM;
            }
        }
        let ready = fds.iter().filter(|entry| entry.revents != 0).count();
        if ready > 0 || deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Ok(c_int::try_from(ready).unwrap_or(c_int::MAX));
        }
        if asked.iter().any(|found| found.revents & POLLERR != 0) {
            // SAFETY: there are none.
            unsafe { libc::poll(std::ptr::null_mut(), 0, LEAVE_MS) };
        }
    }
}

/// Time until the deadline as poll(2) takes it.
fn left(deadline: Option<Instant>) -> c_int {
    let Some(deadline) = deadline else { return -1 };
    let left = deadline.saturating_duration_since(Instant::now());
    c_int::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(c_int::MAX)
}
