//! A set of `epoll`.
//!
//! A socket whose bytes go through our queue is writable when the queue has room, and its error queue is not the
//! application's business. So such a socket stands twice in the set, with the application's own data: itself for reading
//! and for what goes wrong, and the queue's eventfd for writing. What the kernel then tells is put together again: one event
//! a socket, and none for stamps alone.
//!
//! The engine waits for a stamp already, so that the application's thread need not wake up for it as well: where the
//! registration allows it, it is made `EPOLLEXCLUSIVE`, as the engine's is, and stands behind it. Linux then wakes the
//! first of them that somebody waits for and that is interested: the engine for a stamp, the application for bytes to read.
//! The ends of a connection wake both (Linux `ep_poll_callback`, `sock_def_error_report`, `tcp_fin`, `tcp_done`).
//!
//! A real error shows as `EPOLLHUP` too, since TCP closes the socket with it (Linux `tcp_done`); stamps never do. That
//! tells them apart without asking `SO_ERROR`, which would consume it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_int;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libc::epoll_event;

use crate::ask;
use crate::conn::{Conn, Place, Via};
use crate::inside::Inside;
use crate::next;
use crate::own;

const ERR: u32 = libc::EPOLLERR as u32;
const HUP: u32 = libc::EPOLLHUP as u32;
const IN: u32 = libc::EPOLLIN as u32;
const RDHUP: u32 = libc::EPOLLRDHUP as u32;
const OUT: u32 = (libc::EPOLLOUT | libc::EPOLLWRNORM | libc::EPOLLWRBAND) as u32;
const EDGE: u32 = libc::EPOLLET as u32;
const ONESHOT: u32 = libc::EPOLLONESHOT as u32;
const EXCLUSIVE: u32 = libc::EPOLLEXCLUSIVE as u32;
/// What an exclusive entry may ask, once [`RDHUP`] is left out (Linux `EPOLLEXCLUSIVE_OK_BITS`).
const SHARED: u32 = IN | ERR | HUP | EDGE | libc::EPOLLWAKEUP as u32;
/// What is asked for the eventfd as it is for the socket.
const STYLE: u32 = (libc::EPOLLET | libc::EPOLLONESHOT | libc::EPOLLWAKEUP) as u32;

/// A set of `epoll` in which sockets of ours stand.
pub(crate) struct Set {
    fd: c_int,
    entries: Mutex<Entries>,
    /// Entries whose events must be looked at.
    watched: AtomicUsize,
}

#[derive(Default)]
struct Entries {
    by_fd: BTreeMap<c_int, Entry>,
    /// Data and descriptor of the watched ones.
    by_data: BTreeSet<(u64, c_int)>,
}

/// A registration, as the application made it, and how it stands in the kernel.
struct Entry {
    conn: Arc<Conn>,
    events: u32,
    data: u64,
    /// The socket itself stands in the set, and what it is asked for there.
    plain: bool,
    asked: u32,
    /// No other set held the socket before this one. Only one of several may be exclusive: all are to hear.
    first: bool,
    /// The queue's eventfd stands in the set, under this descriptor.
    room: Option<c_int>,
    /// A second eventfd, when the set already holds the first for another descriptor of the socket.
    spare: Option<OwnedFd>,
}

impl Set {
    pub(crate) fn new(fd: c_int) -> Arc<Self> {
        Arc::new(Self { fd, entries: Mutex::default(), watched: AtomicUsize::new(0) })
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `epoll_ctl` for a TCP socket.
    pub(crate) fn control(
        self: &Arc<Self>,
        operation: c_int,
        fd: c_int,
        event: Option<epoll_event>,
        conn: &Arc<Conn>,
    ) -> c_int {
        let mut places = conn.places();
        let mut entries = self.lock();
        let answer = match (operation, event) {
            (libc::EPOLL_CTL_ADD, Some(event)) => {
                let others = places.iter().any(|place| !place.is(self, fd));
                let mut entry = Entry::new(conn, event, !others);
                let answer = entry.stand_twice(self.fd, fd);
                if answer == 0 {
                    entries.by_fd.insert(fd, entry);
                    places.retain(|place| !place.is(self, fd));
                    places.push(Place { set: Arc::downgrade(self), fd });
                }
                answer
            }
            (libc::EPOLL_CTL_MOD, Some(event)) => match entries.by_fd.get_mut(&fd) {
                Some(entry) => {
                    let before = (entry.events, entry.data);
                    entries.by_data.remove(&(before.1, fd));
                    let entry = entries.by_fd.get_mut(&fd).expect("just found");
                    (entry.events, entry.data) = (event.events, event.u64);
                    let answer = match (before.0 | event.events) & EXCLUSIVE {
                        0 => entry.stand_twice(self.fd, fd),
                        // The kernel says no.
                        _ => raw(self.fd, operation, fd, event.events | EXCLUSIVE, event.u64),
                    };
                    if answer != 0 {
                        (entry.events, entry.data) = before;
                    }
                    answer
                }
                None => raw(self.fd, operation, fd, event.events, event.u64),
            },
            (libc::EPOLL_CTL_DEL, _) => match entries.by_fd.remove(&fd) {
                Some(mut entry) => {
                    entries.by_data.remove(&(entry.data, fd));
                    places.retain(|place| !place.is(self, fd));
                    entry.remove(self.fd, fd)
                }
                None => raw(self.fd, operation, fd, 0, 0),
            },
            (operation, _) => {
                // Bad arguments: the kernel says how bad.
                next::epoll_ctl(self.fd, operation, fd, std::ptr::null_mut())
            }
        };
        self.watch(&mut entries, fd);
        answer
    }

    /// Takes over a registration made in a parent process.
    pub(crate) fn inherit(self: &Arc<Self>, other: &Self, conn_of: impl Fn(c_int) -> Option<Arc<Conn>>) {
        let Ok(theirs) = other.entries.try_lock() else { return };
        let mut entries = self.lock();
        for (&fd, entry) in &theirs.by_fd {
            if let Some(conn) = conn_of(fd).filter(|_| entry.room.is_none()) {
                conn.places().push(Place { set: Arc::downgrade(self), fd });
                let Entry { events, data, plain, asked, first, .. } = *entry;
                let entry = Entry { conn, events, data, plain, asked, first, room: None, spare: None };
                entries.by_fd.insert(fd, entry);
                self.watch(&mut entries, fd);
            }
        }
    }

    /// The way in which a socket's bytes go has changed: its registration follows.
    pub(crate) fn renew(&self, fd: c_int) {
        let mut entries = self.lock();
        if let Some(entry) = entries.by_fd.get_mut(&fd) {
            entry.renew(self.fd, fd);
        }
        self.watch(&mut entries, fd);
    }

    /// The descriptor is about to be closed. The engine keeps the socket open, so the kernel would keep it in the set.
    pub(crate) fn forget(&self, fd: c_int) {
        let mut entries = self.lock();
        if let Some(mut entry) = entries.by_fd.remove(&fd) {
            entries.by_data.remove(&(entry.data, fd));
            if entry.conn.socket().is_some() {
                entry.remove(self.fd, fd);
            }
        }
        self.watch(&mut entries, fd);
    }

    /// Keeps the list of entries whose events must be looked at.
    fn watch(&self, entries: &mut Entries, fd: c_int) {
        if let Some(entry) = entries.by_fd.get(&fd) {
            if entry.conn.via() == Via::Queue || entry.conn.is_stamped() {
                entries.by_data.insert((entry.data, fd));
            } else {
                entries.by_data.remove(&(entry.data, fd));
            }
        }
        self.watched.store(entries.by_data.len(), Ordering::Release);
    }

    /// Turns what the kernel told into what it would have told of the sockets alone; answers how many events are left.
    pub(crate) fn sift(&self, events: &mut [epoll_event]) -> usize {
        if self.watched.load(Ordering::Acquire) == 0 {
            return events.len();
        }
        let mut entries = self.lock();
        let Entries { by_fd, by_data } = &mut *entries;
        let mut kept = 0;
        for at in 0..events.len() {
            let mut event = events[at];
            let data = event.u64;
            let fds = by_data.range((data, c_int::MIN)..=(data, c_int::MAX)).map(|&(_, fd)| fd);
            let (mut only, mut alike) = (None, 0);
            for fd in fds {
                alike += 1;
                only = Some(fd);
                if event.events & IN != 0 && by_fd.get(&fd).is_some_and(Entry::hides_the_end) && ask::has_ended(fd) {
                    event.events |= RDHUP;
                }
                if event.events & (ERR | HUP) == ERR
                    && let Some(entry) = by_fd.get(&fd).filter(|entry| entry.events & EDGE == 0)
                {
                    // An edge is told once; a level until the queue is read.
                    entry.conn.catch_up(fd);
                }
            }
            if alike > 0 && event.events & (ERR | HUP) == ERR {
                event.events &= !ERR;
            }
            if let Some(entry) = only.filter(|_| alike == 1).and_then(|fd| by_fd.get_mut(&fd)) {
                entry.happened(self.fd, only.unwrap_or(-1), &mut event);
            }
            if event.events == 0 {
                continue;
            }
            if alike > 0
                && let Some(earlier) = events[..kept].iter_mut().find(|earlier| { earlier.u64 } == data)
            {
                earlier.events |= event.events;
                continue;
            }
            events[kept] = event;
            kept += 1;
        }
        kept
    }
}

impl Drop for Set {
    fn drop(&mut self) {
        // As for Conn: spare descriptors are ours.
        let _inside = Inside::enter();
        *self.lock() = Entries::default();
    }
}

impl Entry {
    fn new(conn: &Arc<Conn>, event: epoll_event, first: bool) -> Self {
        let (conn, events, data) = (conn.clone(), event.events, event.u64);
        Self { conn, events, data, plain: false, asked: 0, first, room: None, spare: None }
    }

    fn split(&self) -> bool {
        self.conn.via() == Via::Queue
    }

    /// What the socket itself is asked for.
    fn own_events(&self) -> u32 {
        if !self.split() {
            return self.events;
        }
        let own = self.events & !OUT;
        // The end of what the peer sends comes with IN, and is asked for then.
        let shared = if own & IN != 0 { own & !RDHUP } else { own };
        if self.first && shared & !SHARED == 0 { shared | EXCLUSIVE } else { own }
    }

    /// `EPOLLRDHUP` is wanted, and the kernel was not asked for it.
    fn hides_the_end(&self) -> bool {
        self.plain && self.events & !self.asked & RDHUP != 0
    }

    fn stand_twice(&mut self, set: c_int, fd: c_int) -> c_int {
        // Once for each half.
        let answer = self.stand(set, fd);
        if answer == 0 {
            self.follow_room(set);
        }
        answer
    }

    /// Makes the socket itself stand in the set.
    fn stand(&mut self, set: c_int, fd: c_int) -> c_int {
        let asked = self.own_events();
        if self.plain && (asked | self.asked) & EXCLUSIVE != 0 {
            // Such an entry cannot be changed.
            raw(set, libc::EPOLL_CTL_DEL, fd, 0, 0);
            self.plain = false;
        }
        let operation = if self.plain { libc::EPOLL_CTL_MOD } else { libc::EPOLL_CTL_ADD };
        let answer = raw(set, operation, fd, asked, self.data);
        if answer == 0 {
            (self.plain, self.asked) = (true, asked);
        }
        answer
    }

    fn remove(&mut self, set: c_int, fd: c_int) -> c_int {
        if let Some(room) = self.room.take() {
            raw(set, libc::EPOLL_CTL_DEL, room, 0, 0);
        }
        if self.plain { raw(set, libc::EPOLL_CTL_DEL, fd, 0, 0) } else { 0 }
    }

    /// Registers anew, after the socket's way has changed.
    fn renew(&mut self, set: c_int, fd: c_int) {
        if self.plain {
            self.stand(set, fd);
        }
        self.follow_room(set);
    }

    /// Makes the eventfd stand in the set exactly if the application wants to know of room.
    fn follow_room(&mut self, set: c_int) {
        let wanted = self.split() && self.events & OUT != 0;
        let events = libc::EPOLLOUT as u32 | (self.events & STYLE);
        match (self.room, wanted) {
            (Some(room), true) => {
                raw(set, libc::EPOLL_CTL_MOD, room, events, self.data);
            }
            (Some(room), false) => {
                raw(set, libc::EPOLL_CTL_DEL, room, 0, 0);
                self.room = None;
            }
            (None, true) => {
                let Some(socket) = self.conn.socket() else { return };
                let mut room = socket.full().as_raw_fd();
                let mut answer = raw(set, libc::EPOLL_CTL_ADD, room, events, self.data);
                if answer != 0 && next::errno() == libc::EEXIST {
                    let Ok(copy) = own::duplicate(room) else { return };
                    room = copy.as_raw_fd();
                    self.spare = Some(copy);
                    answer = raw(set, libc::EPOLL_CTL_ADD, room, events, self.data);
                }
                self.room = (answer == 0).then_some(room);
            }
            (None, false) => {}
        }
    }

    /// An event of this entry is being told: puts the name on what came from the eventfd, and lets `EPOLLONESHOT` hold
    /// for both halves.
    fn happened(&mut self, set: c_int, fd: c_int, event: &mut epoll_event) {
        if event.events & OUT != 0 && self.split() {
            event.events = (event.events & !OUT) | (self.events & OUT);
        }
        if self.events & ONESHOT == 0 {
            return;
        }
        if event.events == 0 {
            // Stamps alone have used the shot up.
            raw(set, libc::EPOLL_CTL_MOD, fd, self.own_events(), self.data);
        } else if event.events & OUT != 0 && self.room.is_some() {
            raw(set, libc::EPOLL_CTL_DEL, fd, 0, 0);
            self.plain = false;
        } else if let Some(room) = self.room.take() {
            raw(set, libc::EPOLL_CTL_DEL, room, 0, 0);
        }
    }
}

/// The kernel's `epoll_ctl`.
fn raw(set: c_int, operation: c_int, fd: c_int, events: u32, data: u64) -> c_int {
    next::epoll_ctl(set, operation, fd, &mut epoll_event { events, u64: data })
}
