//! `poll` and `select`.
//!
//! As in a set of `epoll`, a socket with a queue is asked for reading itself, and its eventfd for writing; `POLLERR` for
//! stamps alone is not reported. A socket that is asked for writing alone is left out while waiting, since each stamp would end
//! the wait: when its connection fails, the eventfd says so.

use std::ffi::{c_int, c_ulong};
use std::os::fd::AsRawFd;
use std::ptr;
use std::time::{Duration, Instant};

use libc::{c_short, fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};

use super::fail;
use super::set::{millis, span};
use crate::conn::Via;
use crate::inside::Inside;
use crate::memory;
use crate::next;
use crate::state::{self, State};

const NONE: timespec = timespec { tv_sec: 0, tv_nsec: 0 };
const OUT: c_short = libc::POLLOUT | libc::POLLWRNORM | libc::POLLWRBAND;

#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn poll(set: *mut pollfd, count: nfds_t, limit: c_int) -> c_int {
    let begun = Instant::now();
    let Some((state, entries)) = served(set, count) else { return next::poll(set, count, limit) };
    poll_served(state, set, entries, millis(limit), begun, ptr::null())
}

#[unsafe(no_mangle)]
extern "C-unwind" fn __poll_chk(set: *mut pollfd, count: nfds_t, limit: c_int, room: usize) -> c_int {
    check(count, room);
    poll(set, count, limit)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn ppoll(set: *mut pollfd, count: nfds_t, limit: *const timespec, mask: *const sigset_t) -> c_int {
    let begun = Instant::now();
    let kernel = || next::ppoll(set, count, limit, mask);
    let Some((state, entries)) = served(set, count) else { return kernel() };
    let Some(span) = valid(state, limit) else { return kernel() };
    poll_served(state, set, entries, span, begun, mask)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn __ppoll_chk(
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

/// How long is to be waited, [`None`] within for ever; [`None`] for a limit which the kernel would refuse.
fn valid(state: &State, limit: *const timespec) -> Option<Option<Duration>> {
    if limit.is_null() {
        return Some(None);
    }
    let _inside = Inside::enter();
    let limit = memory::load_one(state.process, limit)?;
    (limit.tv_sec >= 0 && (0..1_000_000_000).contains(&limit.tv_nsec)).then(|| Some(span(limit)))
}

/// More the kernel takes of no program (Linux `fs/file.c`, `sysctl_nr_open` as it is set usually).
const MOST: usize = 1 << 20;

/// The application's entries, if a socket in our care is among them.
fn served(set: *mut pollfd, count: nfds_t) -> Option<(&'static State, Vec<pollfd>)> {
    let state = state::get().filter(|state| state.config.queues())?;
    let count = usize::try_from(count).ok().filter(|count| (1..=MOST).contains(count))?;
    let _inside = Inside::enter();
    let entries = memory::load(state.process, set, count)?;
    entries.iter().any(|entry| state.watched(entry.fd).is_some()).then_some((state, entries))
}

/// As [`wait`], with the answer where the application wants it.
fn poll_served(
    state: &State,
    set: *mut pollfd,
    mut entries: Vec<pollfd>,
    limit: Option<Duration>,
    begun: Instant,
    mask: *const sigset_t,
) -> c_int {
    let count = wait(state, &mut entries, limit, begun, mask);
    let told = {
        let _inside = Inside::enter();
        count < 0 || memory::store(state.process, set, &entries)
    };
    if told { count } else { fail(libc::EFAULT) }
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
                    && let Some(full) = conn.socket().and_then(|socket| socket.full())
                {
                    asked[at].events &= !OUT;
                    if asked[at].events == 0 {
                        // A negative descriptor is passed over.
                        asked[at].fd = -1;
                    }
                    asked.push(pollfd { fd: full.as_raw_fd(), events: libc::POLLOUT, revents: 0 });
                    stands_for.push(at);
                }
            }
        }
        let left = limit.map(|limit| limit.saturating_sub(begun.elapsed()));
        let time = left.map(|left| timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) });
        let time = time.as_ref().map_or(ptr::null(), |time| time);
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
            next::ppoll(own, 1, &NONE, ptr::null());
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
pub(super) extern "C-unwind" fn select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    limit: *mut timeval,
) -> c_int {
    let begun = Instant::now();
    let kernel = || next::select(count, read, write, except, limit);
    let Some((state, sets)) = Sets::served(count, [read, write, except]) else { return kernel() };
    let span = if limit.is_null() {
        None
    } else {
        let _inside = Inside::enter();
        let given = memory::load_one(state.process, limit).filter(|given| given.tv_sec >= 0 && given.tv_usec >= 0);
        let Some(given) = given else {
            drop(_inside);
            return kernel();
        };
        Some(Duration::from_secs(given.tv_sec as u64) + Duration::from_micros(given.tv_usec as u64))
    };
    let answer = sets.wait(state, span, begun, ptr::null());
    if let Some(span) = span {
        // Linux reports how much time is left.
        let left = span.saturating_sub(begun.elapsed());
        let left = timeval { tv_sec: left.as_secs() as i64, tv_usec: i64::from(left.subsec_micros()) };
        let _inside = Inside::enter();
        // Where it cannot be written, Linux says nothing of it either (fs/select.c, `poll_select_finish`).
        memory::store(state.process, limit, &[left]);
    }
    answer
}

#[unsafe(no_mangle)]
extern "C-unwind" fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    limit: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let begun = Instant::now();
    let kernel = || next::pselect(count, read, write, except, limit, mask);
    let Some((state, sets)) = Sets::served(count, [read, write, except]) else { return kernel() };
    let Some(span) = valid(state, limit) else { return kernel() };
    sets.wait(state, span, begun, mask)
}

/// The three sets of `select`, as words of bits: where the application has them, and what it asks.
struct Sets {
    count: usize,
    places: [*mut c_ulong; 3],
    words: [Vec<c_ulong>; 3],
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
    fn served(count: c_int, places: [*mut fd_set; 3]) -> Option<(&'static State, Self)> {
        let state = state::get().filter(|state| state.config.queues())?;
        let count = usize::try_from(count).ok().filter(|count| *count <= MOST)?;
        let places = places.map(<*mut fd_set>::cast);
        let _inside = Inside::enter();
        let load = |place: *mut c_ulong| match place.is_null() {
            true => Some(Vec::new()),
            false => memory::load(state.process, place, count.div_ceil(BITS)),
        };
        let words = [load(places[0])?, load(places[1])?, load(places[2])?];
        let sets = Self { count, places, words };
        let served = (0..sets.count).any(|fd| sets.asks(fd) != 0 && state.watched(fd as c_int).is_some());
        served.then_some((state, sets))
    }

    fn asks(&self, fd: usize) -> c_short {
        let in_set = |words: &[c_ulong]| words.get(fd / BITS).is_some_and(|word| word >> (fd % BITS) & 1 == 1);
        self.words.iter().zip(ASKS).filter(|(words, _)| in_set(words)).fold(0, |all, (_, (asks, _))| all | asks)
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
        let _inside = Inside::enter();
        let mut told = 0;
        for ((place, words), (asks, answers)) in self.places.iter().zip(&self.words).zip(ASKS) {
            let mut words = vec![0; words.len()];
            for entry in entries.iter().filter(|entry| entry.events & asks != 0 && entry.revents & answers != 0) {
                let fd = entry.fd as usize;
                if let Some(word) = words.get_mut(fd / BITS) {
                    *word |= 1 << (fd % BITS);
                    told += 1;
                }
            }
            if !memory::store(state.process, *place, &words) {
                drop(_inside);
                return fail(libc::EFAULT);
            }
        }
        told
    }
}
