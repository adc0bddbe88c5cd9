//! A set of `epoll`.
//!
//! A socket whose bytes go through our queue is writable when the queue has room, and its error queue is not the
//! application's business. So such a socket stands twice in the set, with the application's own data: itself for reading
//! and for what goes wrong, and the queue's eventfd for writing. What the kernel then reports is put together again: one event
//! a socket, and none for stamps alone.
//!
//! `EPOLLONESHOT` must hold for both halves at once: two of them armed would let two threads have one socket. So there the two
//! stand in a small set of their own, and that stands in the application's, under its one shot. A registration that is not
//! armed again by the application is left as it was made: only the kernel knows whether its shot is used up.
//!
//! The engine waits for a stamp already, so that the application's thread need not wake up for it as well: where the
//! registration allows it, it is made `EPOLLEXCLUSIVE`, as the engine's is, and stands behind it. Linux then wakes the
//! first of them that is waited for and interested: the engine for a stamp, the application for bytes to read.
//! The ends of a connection wake both (Linux `ep_poll_callback`, `sock_def_error_report`, `tcp_fin`, `tcp_done`).
//!
//! A real error shows as `EPOLLHUP` too, since TCP closes the socket with it (Linux `tcp_done`); stamps never do. That
//! distinguishes them without asking `SO_ERROR`, which would consume it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::{c_int, c_short};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libc::{epoll_event, pollfd};

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
/// Data of the eventfd in a set of both halves; the socket's is zero.
const ROOM: u64 = 1;
/// What is asked for the eventfd, or for both in a set of their own, as it is for the socket.
const STYLE: u32 = (libc::EPOLLET | libc::EPOLLONESHOT | libc::EPOLLWAKEUP) as u32;

/// A set of `epoll` in which sockets of ours stand.
pub(crate) struct Set {
    /// A descriptor of it, the one that was used last: there may be duplicates, and the first may be closed.
    fd: AtomicI32,
    /// Sockets in it may come to have a queue.
    queues: bool,
    entries: Mutex<Entries>,
    /// Entries whose events must be looked at.
    watched: AtomicUsize,
}

#[derive(Default)]
struct Entries {
    by_fd: BTreeMap<c_int, Entry>,
    /// Data and descriptor of the watched ones.
    by_data: BTreeSet<(u64, c_int)>,
    /// Data of watched ones that have left: another thread may be about to report an event of theirs.
    past: VecDeque<u64>,
}

/// This many are remembered (our choice: each thread of the program has one call under way).
const PAST: usize = 256;

/// A registration, as the application made it, and how it stands in the kernel.
struct Entry {
    conn: Arc<Conn>,
    events: u32,
    data: u64,
    /// The socket itself stands in the set, and what it is asked for there.
    plain: bool,
    asked: u32,
    /// No other set held the socket before this one. Only one of several may be exclusive: all have to be woken.
    first: bool,
    /// The queue's eventfd stands in the set, under this descriptor.
    room: Option<c_int>,
    /// A second eventfd, when the set already holds the first for another descriptor of the socket.
    spare: Option<OwnedFd>,
    /// With `EPOLLONESHOT`: a set of the socket and its eventfd, which stands in the set for both.
    joint: Option<OwnedFd>,
}

impl Set {
    pub(crate) fn new(fd: c_int, queues: bool) -> Arc<Self> {
        Arc::new(Self { fd: AtomicI32::new(fd), queues, entries: Mutex::default(), watched: AtomicUsize::new(0) })
    }

    /// A descriptor by which it can be reached.
    pub(crate) fn fd(&self) -> c_int {
        self.fd.load(Ordering::Relaxed)
    }

    /// It can be reached by this descriptor.
    pub(crate) fn is_at(&self, fd: c_int) {
        self.fd.store(fd, Ordering::Relaxed);
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
        if let Some(event) = event {
            let data = event.u64;
            entries.past.retain(|past| *past != data);
        }
        let answer = match (operation, event) {
            (libc::EPOLL_CTL_ADD, Some(_)) if entries.by_fd.get(&fd).is_some_and(|entry| entry.joint.is_some()) => {
                next::set_errno(libc::EEXIST);
                -1
            }
            (libc::EPOLL_CTL_ADD, Some(event)) => {
                let others = places.iter().any(|place| !place.is(self, fd));
                let mut entry = Entry::new(conn, event, !others);
                let answer = entry.stand_twice(self.fd(), fd);
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
                        0 => entry.stand_twice(self.fd(), fd),
                        // The kernel says no.
                        _ => raw(self.fd(), operation, fd, event.events | EXCLUSIVE, event.u64),
                    };
                    if answer != 0 {
                        (entry.events, entry.data) = before;
                    }
                    answer
                }
                None => raw(self.fd(), operation, fd, event.events, event.u64),
            },
            (libc::EPOLL_CTL_DEL, _) => match entries.leave(fd) {
                Some(mut entry) => {
                    places.retain(|place| !place.is(self, fd));
                    entry.remove(self.fd(), fd)
                }
                None => raw(self.fd(), operation, fd, 0, 0),
            },
            (operation, _) => {
                // Bad arguments: the kernel says how bad.
                next::epoll_ctl(self.fd(), operation, fd, std::ptr::null_mut())
            }
        };
        self.watch(&mut entries, fd);
        answer
    }

    /// The kernel has done `epoll_ctl` for a socket that has no queue and will have none, or for something else (no `conn`). No
    /// event: it has left the set.
    pub(crate) fn note(self: &Arc<Self>, fd: c_int, event: Option<epoll_event>, conn: Option<&Arc<Conn>>) {
        let mut places = conn.map(|conn| conn.places());
        let mut entries = self.lock();
        if let Some(event) = event {
            let data = event.u64;
            entries.past.retain(|past| *past != data);
        }
        let (Some(conn), Some(places)) = (conn, &mut places) else { return };
        places.retain(|place| !place.is(self, fd));
        entries.leave(fd);
        if let Some(event) = event {
            places.push(Place { set: Arc::downgrade(self), fd });
            let entry = Entry { plain: true, asked: event.events, ..Entry::new(conn, event, false) };
            entries.by_fd.insert(fd, entry);
        }
        self.watch(&mut entries, fd);
    }

    /// Takes over a registration made in a parent process.
    pub(crate) fn inherit(self: &Arc<Self>, other: &Self, conn_of: impl Fn(c_int) -> Option<Arc<Conn>>) {
        let Ok(theirs) = other.entries.try_lock() else { return };
        let mut entries = self.lock();
        for (&fd, entry) in &theirs.by_fd {
            if let Some(conn) = conn_of(fd).filter(|_| entry.room.is_none() && entry.joint.is_none()) {
                conn.places().push(Place { set: Arc::downgrade(self), fd });
                let Entry { events, data, plain, asked, first, .. } = *entry;
                let entry = Entry { conn, events, data, plain, asked, first, room: None, spare: None, joint: None };
                entries.by_fd.insert(fd, entry);
                self.watch(&mut entries, fd);
            }
        }
    }

    /// The way in which a socket's bytes go has changed: its registration follows.
    pub(crate) fn renew(&self, fd: c_int) {
        let mut entries = self.lock();
        if let Some(entry) = entries.by_fd.get_mut(&fd) {
            entry.renew(self.fd(), fd);
        }
        self.watch(&mut entries, fd);
    }

    /// The descriptor is about to be closed. The engine keeps the socket open, so the kernel would keep it in the set.
    pub(crate) fn forget(&self, fd: c_int) {
        let mut entries = self.lock();
        if let Some(mut entry) = entries.leave(fd)
            && entry.conn.socket().is_some()
        {
            entry.remove(self.fd(), fd);
        }
        self.watch(&mut entries, fd);
    }

    /// Keeps the list of entries whose events must be looked at.
    fn watch(&self, entries: &mut Entries, fd: c_int) {
        if let Some(entry) = entries.by_fd.get(&fd) {
            let undecided = self.queues && entry.conn.via() == Via::Undecided;
            if undecided || entry.conn.via() == Via::Queue || entry.conn.is_stamped() {
                entries.by_data.insert((entry.data, fd));
            } else {
                entries.by_data.remove(&(entry.data, fd));
            }
        }
        self.watched.store(entries.by_data.len() + entries.past.len(), Ordering::Release);
    }

    /// Whether some of its events must be looked at. Takes no lock.
    pub(crate) fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Acquire) > 0
    }

    /// Turns what the kernel reported into what it would have reported of the sockets alone; answers how many events are left.
    pub(crate) fn sift(&self, events: &mut [epoll_event]) -> usize {
        let mut entries = self.lock();
        let Entries { by_fd, by_data, past } = &mut *entries;
        let mut kept = 0;
        for at in 0..events.len() {
            let mut event = events[at];
            let data = event.u64;
            let joint = by_data.range((data, c_int::MIN)..=(data, c_int::MAX));
            if let Some(seen) = joint.filter_map(|(_, fd)| by_fd.get(fd)?.look_inside()).reduce(|one, two| one | two) {
                event.events = seen;
            }
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
                    // An edge is reported once; a level until the queue is read.
                    entry.conn.catch_up(fd);
                }
            }
            if event.events & (ERR | HUP) == ERR && (alike > 0 || past.contains(&data)) {
                event.events &= !ERR;
            }
            if let Some(entry) = only.filter(|_| alike == 1).and_then(|fd| by_fd.get_mut(&fd)) {
                let fd = only.unwrap_or(-1);
                event.events = entry.whole(fd, event.events);
                entry.happened(self.fd(), fd, &mut event);
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

impl Entries {
    /// A descriptor leaves the set.
    fn leave(&mut self, fd: c_int) -> Option<Entry> {
        let entry = self.by_fd.remove(&fd)?;
        if self.by_data.remove(&(entry.data, fd)) {
            self.past.truncate(PAST - 1);
            self.past.push_front(entry.data);
        }
        Some(entry)
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
        Self { conn, events, data, plain: false, asked: 0, first, room: None, spare: None, joint: None }
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

    /// Where the level counts the kernel reports all that holds, for however few events the program has room: one half brings the other.
    fn whole(&self, fd: c_int, seen: u32) -> u32 {
        let level = self.split() && self.events & (EDGE | ONESHOT) == 0 && seen != 0;
        let Some(full) = self.conn.socket().filter(|_| level).and_then(|socket| socket.full()) else { return seen };
        let half = |fd: c_int, events: u32| pollfd { fd, events: events as c_short, revents: 0 };
        let mut halves = [half(fd, self.events & !OUT), half(full.as_raw_fd(), self.events & OUT)];
        next::poll(halves.as_mut_ptr(), 2, 0);
        let [own, room] = halves.map(|half| half.revents as u32);
        seen | own & (self.events | HUP) & !OUT | room & self.events & OUT
    }

    /// `EPOLLRDHUP` is wanted, and the kernel was not asked for it.
    fn hides_the_end(&self) -> bool {
        self.plain && self.events & !self.asked & RDHUP != 0
    }

    fn stand_twice(&mut self, set: c_int, fd: c_int) -> c_int {
        if self.split() && self.events & ONESHOT != 0 {
            return self.stand_joined(set, fd);
        }
        if let Some(joint) = self.joint.take() {
            raw(set, libc::EPOLL_CTL_DEL, joint.as_raw_fd(), 0, 0);
        }
        // Once for each half.
        let answer = self.stand(set, fd);
        if answer == 0 {
            self.follow_room(set);
        }
        answer
    }

    /// Makes a set of both halves stand in the set, armed.
    fn stand_joined(&mut self, set: c_int, fd: c_int) -> c_int {
        let Some(full) = self.conn.socket().and_then(|socket| socket.full()) else { return -1 };
        let (known, inner) = match &self.joint {
            Some(joint) => (true, joint.as_raw_fd()),
            None => {
                let Ok(joint) = own::set() else { return -1 };
                let inner = joint.as_raw_fd();
                self.joint = Some(joint);
                (false, inner)
            }
        };
        let half = |fd: c_int, events: u32, data: u64| {
            let answer = raw(inner, libc::EPOLL_CTL_MOD, fd, events, data);
            if answer == 0 { answer } else { raw(inner, libc::EPOLL_CTL_ADD, fd, events, data) }
        };
        let answer = half(fd, self.events & !OUT & !STYLE, 0);
        half(full.as_raw_fd(), if self.events & OUT == 0 { 0 } else { libc::EPOLLOUT as u32 }, ROOM);
        if answer != 0 {
            return answer;
        }
        if self.plain {
            raw(set, libc::EPOLL_CTL_DEL, fd, 0, 0);
            self.plain = false;
        }
        let operation = if known { libc::EPOLL_CTL_MOD } else { libc::EPOLL_CTL_ADD };
        raw(set, operation, inner, IN | (self.events & STYLE), self.data)
    }

    /// What the application is to see of both halves where they stand in a set of their own.
    fn look_inside(&self) -> Option<u32> {
        let joint = self.joint.as_ref()?;
        let mut halves = [epoll_event { events: 0, u64: 0 }; 2];
        let count = next::epoll_wait(joint.as_raw_fd(), halves.as_mut_ptr(), 2, 0);
        let halves = &halves[..usize::try_from(count).unwrap_or(0)];
        Some(
            halves
                .iter()
                .fold(0, |seen, half| seen | if { half.u64 } == ROOM { self.events & OUT } else { half.events }),
        )
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
        if let Some(joint) = self.joint.take() {
            return raw(set, libc::EPOLL_CTL_DEL, joint.as_raw_fd(), 0, 0);
        }
        if self.plain { raw(set, libc::EPOLL_CTL_DEL, fd, 0, 0) } else { 0 }
    }

    /// Registers again, after the socket's way has changed.
    fn renew(&mut self, set: c_int, fd: c_int) {
        if self.events & ONESHOT != 0 {
            return;
        }
        if self.plain && self.asked != self.own_events() {
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
                let Some(full) = self.conn.socket().and_then(|socket| socket.full()) else { return };
                let mut room = full.as_raw_fd();
                let mut answer = raw(set, libc::EPOLL_CTL_ADD, room, events, self.data);
                if answer != 0 && next::errno() == libc::EEXIST {
                    let Ok(copy) = own::duplicate(full) else { return };
                    room = copy.as_raw_fd();
                    self.spare = Some(copy);
                    answer = raw(set, libc::EPOLL_CTL_ADD, room, events, self.data);
                }
                self.room = (answer == 0).then_some(room);
            }
            (None, false) => {}
        }
    }

    /// An event of this entry is being reported: puts the name on what came from the eventfd. A shot that stamps alone have used
    /// up is given back.
    fn happened(&mut self, set: c_int, fd: c_int, event: &mut epoll_event) {
        if event.events & OUT != 0 && self.split() {
            event.events = (event.events & !OUT) | (self.events & OUT);
        }
        if event.events == 0 && self.events & ONESHOT != 0 {
            self.stand_twice(set, fd);
        }
    }
}

/// The kernel's `epoll_ctl`.
fn raw(set: c_int, operation: c_int, fd: c_int, events: u32, data: u64) -> c_int {
    next::epoll_ctl(set, operation, fd, &mut epoll_event { events, u64: data })
}
