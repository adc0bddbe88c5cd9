//! `poll` and `select`.
//!
//! As in a set of `epoll`, a socket with a queue is asked for reading itself, and its eventfd for writing; `POLLERR` for
//! stamps alone is not reported. A socket that is asked for writing alone is left out while waiting, since each stamp would end
//! the wait: when its connection fails, the eventfd says so.

use std::ffi::{c_int, c_ulong};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use libc::{c_short, fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};

use super::fail;
use super::set::millis;
use crate::conn::Via;
use crate::inside::Inside;
use crate::next;
use crate::state::{self, State};

const NONE: timespec = timespec { tv_sec: 0, tv_nsec: 0 };
const OUT: c_short = libc::POLLOUT | libc::POLLWRNORM | libc::POLLWRBAND;

#[unsafe(no_mangle)]
extern "C" fn poll(set: *mut pollfd, count: nfds_t, limit: c_int) -> c_int {
    let begun = Instant::now();
    let Some((state, entries)) = served(set, count) else { return next::poll(set, count, limit) };
    wait(state, entries, millis(limit), begun, std::ptr::null())
}

#[unsafe(no_mangle)]
extern "C" fn __poll(set: *mut pollfd, count: nfds_t, limit: c_int) -> c_int {
    poll(set, count, limit)
}

#[unsafe(no_mangle)]
extern "C" fn __poll_chk(set: *mut pollfd, count: nfds_t, limit: c_int, room: usize) -> c_int {
    check(count, room);
    poll(set, count, limit)
}

#[unsafe(no_mangle)]
extern "C" fn ppoll(set: *mut pollfd, count: nfds_t, limit: *const timespec, mask: *const sigset_t) -> c_int {
    let begun = Instant::now();
    let Some((state, entries)) = served(set, count) else { return next::ppoll(set, count, limit, mask) };
    wait(state, entries, span(limit), begun, mask)
}

#[unsafe(no_mangle)]
extern "C" fn __ppoll_chk(
    set: *mut pollfd,
    count: nfds_t,
    limit: *const timespec,
    mask: *const sigset_t,
    room: usize,
) -> c_int {
    check(count, room);
    ppoll(set, count, limit, mask)
}

/// What the C library's fortified functions check.
fn check(count: nfds_t, room: usize) {
    if room / size_of::<pollfd>() < count as usize {
        // SAFETY: ends the program.
        unsafe { libc::abort() };
    }
}

fn span(limit: *const timespec) -> Option<Duration> {
    // SAFETY: null, or the application's.
    unsafe { limit.as_ref() }.map(|limit| Duration::new(limit.tv_sec.max(0) as u64, limit.tv_nsec.max(0) as u32))
}

/// The application's entries, if a socket in our care is among them.
fn served<'a>(set: *mut pollfd, count: nfds_t) -> Option<(&'static State, &'a mut [pollfd])> {
    let state = state::get().filter(|state| state.config.queues())?;
    if set.is_null() || count == 0 {
        return None;
    }
    // SAFETY: the application vouches for `count` of them.
    let entries = unsafe { std::slice::from_raw_parts_mut(set, count as usize) };
    entries.iter().any(|entry| state.watched(entry.fd).is_some()).then_some((state, entries))
}

/// Waits for what the application may see of `entries`.
fn wait(
    state: &State,
    entries: &mut [pollfd],
    limit: Option<Duration>,
    begun: Instant,
    mask: *const sigset_t,
) -> c_int {
    let mut asked: Vec<pollfd> = Vec::with_capacity(entries.len() + 8);
    // For each of the eventfds behind the application's own entries: the entry it stands for.
    let mut stands_for: Vec<usize> = Vec::new();
    loop {
        {
            let _inside = Inside::enter();
            asked.clear();
            stands_for.clear();
            asked.extend(entries.iter().map(|entry| pollfd { revents: 0, ..*entry }));
            for (at, entry) in entries.iter().enumerate().filter(|(_, entry)| entry.events & OUT != 0) {
                if let Some(conn) = state.cared_for(entry.fd).filter(|conn| conn.via() == Via::Queue)
                    && let Some(socket) = conn.socket()
                {
                    asked[at].events &= !OUT;
                    if asked[at].events == 0 {
                        // A negative descriptor is passed over.
                        asked[at].fd = -1;
                    }
                    asked.push(pollfd { fd: socket.full().as_raw_fd(), events: libc::POLLOUT, revents: 0 });
                    stands_for.push(at);
                }
            }
        }
        let left = limit.map(|limit| limit.saturating_sub(begun.elapsed()));
        let time = left.map(|left| timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) });
        let time = time.as_ref().map_or(std::ptr::null(), |time| time);
        if next::ppoll(asked.as_mut_ptr(), asked.len() as nfds_t, time, mask) < 0 {
            return -1;
        }
        let _inside = Inside::enter();
        let (own, rooms) = asked.split_at_mut(entries.len());
        for entry in own.iter_mut().filter(|entry| entry.revents & (libc::POLLERR | libc::POLLHUP) == libc::POLLERR) {
            if let Some(conn) = state.watched(entry.fd).filter(|conn| conn.is_stamped()) {
                conn.catch_up(entry.fd);
                entry.revents &= !libc::POLLERR;
            }
        }
        for (own, entry) in own.iter_mut().zip(entries.iter()).filter(|(own, entry)| own.fd != entry.fd) {
            *own = pollfd { fd: entry.fd, events: 0, revents: 0 };
            next::ppoll(own, 1, &NONE, std::ptr::null());
            if own.revents & libc::POLLHUP == 0 {
                // Stamps.
                own.revents &= !libc::POLLERR;
            }
        }
        for (room, &at) in rooms.iter().zip(&stands_for) {
            if room.revents & libc::POLLOUT != 0 {
                own[at].revents |= entries[at].events & OUT;
            }
        }
        let count = own.iter().filter(|entry| entry.revents != 0).count();
        if count > 0 || left.is_some_and(|left| left.is_zero()) {
            for (entry, own) in entries.iter_mut().zip(own) {
                entry.revents = own.revents;
            }
            return count as c_int;
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    limit: *mut timeval,
) -> c_int {
    let begun = Instant::now();
    let Some((state, sets)) = Sets::served(count, [read, write, except]) else {
        return next::select(count, read, write, except, limit);
    };
    // SAFETY: null, or the application's.
    let limit = unsafe { limit.as_mut() };
    let span = limit.as_ref().map(|limit| {
        Duration::from_secs(limit.tv_sec.max(0) as u64) + Duration::from_micros(limit.tv_usec.max(0) as u64)
    });
    let answer = sets.wait(state, span, begun, std::ptr::null());
    if let (Some(limit), Some(span)) = (limit, span) {
        // Linux reports how much time is left.
        let left = span.saturating_sub(begun.elapsed());
        *limit = timeval { tv_sec: left.as_secs() as i64, tv_usec: i64::from(left.subsec_micros()) };
    }
    answer
}

#[unsafe(no_mangle)]
extern "C" fn __select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    limit: *mut timeval,
) -> c_int {
    select(count, read, write, except, limit)
}

#[unsafe(no_mangle)]
extern "C" fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    limit: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let begun = Instant::now();
    match Sets::served(count, [read, write, except]) {
        Some((state, sets)) => sets.wait(state, span(limit), begun, mask),
        None => next::pselect(count, read, write, except, limit, mask),
    }
}

/// The three sets of `select`, as words of bits.
struct Sets {
    count: usize,
    sets: [*mut c_ulong; 3],
}

const BITS: usize = c_ulong::BITS as usize;
/// What each set asks and what of the answer puts a descriptor into it (Linux `fs/select.c`).
const ASKS: [(c_short, c_short); 3] = [
    (libc::POLLIN, libc::POLLIN | libc::POLLHUP | libc::POLLERR),
    (libc::POLLOUT, libc::POLLOUT | libc::POLLERR),
    (libc::POLLPRI, libc::POLLPRI),
];

impl Sets {
    /// The sets, if a socket in our care is in one of them.
    fn served(count: c_int, sets: [*mut fd_set; 3]) -> Option<(&'static State, Self)> {
        let state = state::get().filter(|state| state.config.queues())?;
        let sets = Self { count: usize::try_from(count).ok()?, sets: sets.map(<*mut fd_set>::cast) };
        let served = (0..sets.count).any(|fd| sets.asks(fd) != 0 && state.watched(fd as c_int).is_some());
        served.then_some((state, sets))
    }

    fn asks(&self, fd: usize) -> c_short {
        let in_set = |set: *mut c_ulong| {
            // SAFETY: the application's sets hold `count` bits.
            !set.is_null() && unsafe { *set.add(fd / BITS) } >> (fd % BITS) & 1 == 1
        };
        self.sets.iter().zip(ASKS).filter(|&(&set, _)| in_set(set)).fold(0, |all, (_, (asks, _))| all | asks)
    }

    fn wait(&self, state: &State, limit: Option<Duration>, begun: Instant, mask: *const sigset_t) -> c_int {
        let asked = (0..self.count).filter_map(|fd| match self.asks(fd) {
            0 => None,
            events => Some(pollfd { fd: fd as c_int, events, revents: 0 }),
        });
        let mut entries: Vec<pollfd> = asked.collect();
        if wait(state, &mut entries, limit, begun, mask) < 0 {
            return -1;
        }
        if entries.iter().any(|entry| entry.revents & libc::POLLNVAL != 0) {
            return fail(libc::EBADF);
        }
        let mut told = 0;
        for (&set, (asks, answers)) in self.sets.iter().zip(ASKS).filter(|(set, _)| !set.is_null()) {
            for word in 0..self.count.div_ceil(BITS) {
                // SAFETY: as above.
                unsafe { *set.add(word) = 0 };
            }
            for entry in entries.iter().filter(|entry| entry.events & asks != 0 && entry.revents & answers != 0) {
                let fd = entry.fd as usize;
                // SAFETY: as above.
                unsafe { *set.add(fd / BITS) |= 1 << (fd % BITS) };
                told += 1;
            }
        }
        told
    }
}
