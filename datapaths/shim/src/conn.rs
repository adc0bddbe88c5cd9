//! A TCP socket of the application: how its bytes go, and what was promised of it.

mod kept;
mod write;

use std::ffi::c_int;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use paceline_alcc::{Acks, Lent, Mode, Socket};

use crate::ask;
use crate::end;
use crate::inside::Inside;
use crate::next;
use crate::notice::Notice;
use crate::pending::Pending;
use crate::set::Set;
use crate::stack;
use crate::state::{self, State};
use kept::restore;
pub(crate) use kept::{Kept, Linger};

/// How what the application writes goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Via {
    /// Not decided: nothing was written yet.
    Undecided,
    /// Into our queue.
    Queue,
    /// To the kernel, steered by a controller.
    Inline,
    /// To the kernel, untouched.
    Kernel,
}

/// What an engine holds of a socket.
struct Care {
    socket: Arc<Socket>,
    /// To know that a descriptor still means this socket.
    cookie: u64,
    /// Its acknowledgements come through the error queue, which makes the application's sets say `EPOLLERR`; some may wait
    /// there still when it has gone inline.
    stamped: bool,
}

/// Where a socket is registered: a set of `epoll`, under a descriptor.
pub(crate) struct Place {
    pub(crate) set: Weak<Set>,
    pub(crate) fd: c_int,
}

impl Place {
    /// Whether it is this one.
    pub(crate) fn is(&self, set: &Arc<Set>, fd: c_int) -> bool {
        self.fd == fd && ptr::eq(self.set.as_ptr(), Arc::as_ptr(set))
    }
}

/// A TCP socket of the application, under one or several descriptors.
pub(crate) struct Conn {
    via: AtomicU8,
    /// Bytes may be written without our seeing them.
    direct: AtomicBool,
    care: OnceLock<Care>,
    /// Descriptors of this process that name it.
    names: Mutex<Vec<c_int>>,
    places: Mutex<Vec<Place>>,
    kept: Mutex<Kept>,
    /// The engine of a process that forked this one steers it.
    steered: bool,
    /// That engine reads its stamps. Some may come that were not asked for here.
    inherited: bool,
    /// That process may still be sending what it had queued.
    pending: Option<Arc<Pending>>,
    /// Bytes that the application has asked to write before an engine cared for it, and when it first did, in nanoseconds of the
    /// monotonic clock.
    first: AtomicUsize,
    begun: AtomicU64,
}

/// Bytes that need no controller: TCP sends this many before it knows the path, whatever is above it (RFC 6928, of packets for
/// Ethernet).
const FIRST_WINDOW: usize = 14_600;
/// A connection that is written to after this much time is one to watch (our choice: an answer that is all of a connection is written
/// sooner).
const BRIEF: Duration = Duration::from_millis(50);

/// How long another process's bytes may take to be acknowledged before this one goes on. What comes later is taken for a
/// stamp all the same (our choice: many round trips).
const ACKED: Duration = Duration::from_secs(2);

impl Conn {
    pub(crate) fn new(fd: c_int) -> Arc<Self> {
        Arc::new(Self::with(Via::Undecided, vec![fd]))
    }

    /// A socket that this process was given by another: that may write to it too.
    pub(crate) fn given(fd: c_int) -> Arc<Self> {
        let conn = Self::new(fd);
        conn.go_direct();
        conn
    }

    fn with(via: Via, names: Vec<c_int>) -> Self {
        Self {
            via: AtomicU8::new(via as u8),
            direct: AtomicBool::new(false),
            care: OnceLock::new(),
            names: Mutex::new(names),
            places: Mutex::default(),
            kept: Mutex::default(),
            steered: false,
            inherited: false,
            pending: None,
            first: AtomicUsize::new(0),
            begun: AtomicU64::new(0),
        }
    }

    /// The same socket in a forked child. What the parent's engine cares for the child's may care for later: inline, since
    /// there is one error queue, and after what the parent had queued.
    pub(crate) fn in_child(&self, pending: Option<&Arc<Pending>>) -> Arc<Self> {
        // Another thread of the parent's may have been in there: such a name is found by its next use.
        let copy = |names: &Mutex<Vec<c_int>>| names.try_lock().map(|names| names.clone()).unwrap_or_default();
        let mut conn = Self::with(self.via(), copy(&self.names));
        conn.steered = self.steered || self.care.get().is_some();
        if conn.steered
            && let Ok(kept) = self.kept.try_lock()
        {
            conn.kept = Mutex::new(*kept);
        }
        if self.care.get().is_some() {
            conn.pending = pending.filter(|_| self.via() == Via::Queue).cloned();
            conn.inherited = self.is_stamped();
            conn.go_direct();
            conn.go(Via::Undecided);
        }
        Arc::new(conn)
    }

    pub(crate) fn via(&self) -> Via {
        match self.via.load(Ordering::Acquire) {
            0 => Via::Undecided,
            1 => Via::Queue,
            2 => Via::Inline,
            _ => Via::Kernel,
        }
    }

    fn go(&self, via: Via) {
        self.via.store(via as u8, Ordering::Release);
    }

    pub(crate) fn socket(&self) -> Option<&Arc<Socket>> {
        self.care.get().map(|care| &care.socket)
    }

    /// Whether `EPOLLERR` on it may mean no more than that acknowledgements have come.
    pub(crate) fn is_stamped(&self) -> bool {
        self.inherited || self.care.get().is_some_and(|care| care.stamped)
    }

    /// Whether the descriptor still means this socket.
    pub(crate) fn is(&self, fd: c_int) -> bool {
        self.care.get().is_none_or(|care| ask::cookie(fd) == Some(care.cookie))
    }

    /// Lets the engine read what the error queue holds, so that a set stops saying `EPOLLERR`.
    pub(crate) fn catch_up(&self, fd: c_int) {
        match self.socket() {
            Some(socket) => socket.catch_up(),
            // Another process's engine makes good for stamps that it misses.
            None if self.inherited => ask::empty_error_queue(fd),
            None => {}
        }
    }

    /// The engine has found that it was closed by a call that we did not see.
    pub(crate) fn is_lost(&self) -> bool {
        self.socket().is_some_and(|socket| socket.is_lost())
    }

    fn names(&self) -> MutexGuard<'_, Vec<c_int>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more descriptor names it.
    pub(crate) fn named_again(&self, fd: c_int) {
        self.names().push(fd);
        self.note_streams();
    }

    /// The C library's own streams write to the standard descriptors, past this library.
    fn note_streams(&self) {
        if self.names().iter().any(|&fd| fd <= libc::STDERR_FILENO) {
            self.writes_unseen();
        }
    }

    /// Not all that the application writes comes by here.
    pub(crate) fn writes_unseen(&self) {
        if let Some(socket) = self.socket() {
            socket.writes_unseen();
        }
    }

    /// Places where it is registered. Held while the way it goes changes.
    pub(crate) fn places(&self) -> MutexGuard<'_, Vec<Place>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When it is adopted, then inline: bytes will be written without our seeing them.
    pub(crate) fn go_direct(&self) {
        self.direct.store(true, Ordering::Relaxed);
    }

    /// Takes the socket over from the process that forked this one: waits for the bytes which that had queued. If it died with
    /// them, so must the connection.
    fn take_over(&self, fd: c_int) {
        if self.pending.as_ref().is_some_and(|pending| !pending.wait()) {
            ask::reset(fd);
        }
        if self.inherited {
            wait_until_acked(fd, Instant::now() + ACKED);
            ask::silence(fd);
        }
    }

    /// Another process will write to the socket, or another program in this one: what is queued goes first, and no stamps
    /// are left for it to find.
    pub(crate) fn hand_over(&self, fd: c_int, limit: Duration) {
        self.take_over(fd);
        self.go_direct();
        let Some(care) = self.care.get() else { return };
        care.socket.drain(limit);
        if care.stamped {
            wait_until_acked(fd, Instant::now() + ACKED);
        }
        self.write_through(Duration::ZERO);
        if care.stamped {
            ask::silence(fd);
        }
    }

    /// Whether TCP's first window has room for `count` bytes more, and they may go there as if we were not there: most connections of a
    /// program that has a process for each never need an engine.
    pub(crate) fn is_early(&self, count: usize) -> bool {
        if self.pending.is_some() || self.inherited {
            return false;
        }
        let now = monotonic();
        let begun = match self.begun.load(Ordering::Relaxed) {
            0 => {
                self.begun.store(now, Ordering::Relaxed);
                now
            }
            begun => begun,
        };
        let before = self.first.fetch_add(count.min(FIRST_WINDOW + 1), Ordering::Relaxed);
        before + count.min(FIRST_WINDOW + 1) <= FIRST_WINDOW && now - begun < BRIEF.as_nanos() as u64
    }

    /// With a queue: the application sets `SO_LINGER`. One of zero is the kernel's at once, so that whatever closes the socket resets it; one
    /// that waits is not, since the engine's thread must not wait in close.
    pub(crate) fn set_linger(&self, linger: Linger) {
        let mut kept = self.kept();
        // Linux `sk_setsockopt`: switched off, it keeps the time.
        kept.linger = if linger.on == 0 { Linger { on: 0, ..kept.linger } } else { Linger { on: 1, ..linger } };
        let at_once = (linger.on != 0 && linger.seconds == 0).then_some(Duration::ZERO);
        if let Some(socket) = self.socket() {
            // It is a TCP socket, which takes it.
            let _ = socket.set_linger(at_once);
        }
    }

    /// Leaves it to the kernel for good; `why` is said once.
    pub(crate) fn leave(&self, state: &State, why: &Notice) {
        let _places = self.places();
        if self.via() == Via::Undecided {
            self.go(Via::Kernel);
            state.passed(why);
        }
    }

    /// Gives it to the engine at its first write, or a later one: a thread cannot be started in a signal handler, which may have
    /// interrupted `malloc`.
    pub(crate) fn adopt(&self, state: &State, fd: c_int) {
        let places = self.places();
        if self.via() != Via::Undecided || !ask::can_send(fd) {
            return;
        }
        let Some((local, peer)) = ask::ends(fd) else { return };
        if !state.config.filter.takes(local, peer) {
            self.go(Via::Kernel);
            return;
        }
        self.take_over(fd);
        if !state.has_threads() && stack::in_handler() {
            return;
        }
        match self.give(state, fd) {
            Ok(()) => {
                for place in places.iter() {
                    if let Some(set) = place.set.upgrade() {
                        set.renew(place.fd);
                    }
                }
            }
            Err(error) => {
                self.go(Via::Kernel);
                state.passed(&Notice::Refused(error));
            }
        }
    }

    fn give(&self, state: &State, fd: c_int) -> io::Result<()> {
        let engine = state.engine()?;
        let cookie = ask::cookie(fd).ok_or_else(io::Error::last_os_error)?;
        let mut kept = self.kept();
        if self.steered {
            // What is set is another engine's: it finds that this one has taken over.
            restore(fd, &kept);
        }
        kept.pacing = ask::option(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE).unwrap_or(u64::MAX);
        kept.not_sent = ask::option(fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT).unwrap_or_default();
        let seen = !self.direct.load(Ordering::Relaxed) && !state.is_bypassed();
        let mode = if state.config.queues() && seen { Mode::Queue } else { Mode::Inline };
        let mut socket = None;
        if mode == Mode::Queue {
            kept.linger = ask::option(fd, libc::SOL_SOCKET, libc::SO_LINGER).unwrap_or_default();
            kept.nodelay = ask::option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY).unwrap_or_default();
            // Without descriptors for a queue it is served without one.
            socket = or_none_left(engine.adopt_lent(lend(fd), mode))?;
        }
        if socket.is_some() {
            if kept.linger.waits() {
                // The engine's thread must not wait in close.
                ask::set_option(fd, libc::SOL_SOCKET, libc::SO_LINGER, Linger { on: 0, ..kept.linger });
            }
            // A full packet that waits for more in the kernel would never leave.
            kept.cork = ask::option(fd, libc::IPPROTO_TCP, libc::TCP_CORK).unwrap_or_default();
            if kept.cork != 0 {
                ask::set_option(fd, libc::IPPROTO_TCP, libc::TCP_CORK, 0);
            }
            end::drain_on_term();
        }
        let socket = match socket {
            Some(socket) => socket,
            None => engine.adopt_lent(lend(fd), Mode::Inline)?,
        };
        let stats = socket.stats();
        let stamped = stats.acks == Acks::Stamps;
        let via = if socket.mode() == Mode::Inline { Via::Inline } else { Via::Queue };
        let _ = self.care.set(Care { socket, cookie, stamped });
        drop(kept);
        self.note_streams();
        self.go(via);
        Ok(())
    }

    /// Inline the kernel packs what the application writes, and ends it, as the application has it.
    fn give_back(&self, fd: c_int) {
        let kept = *self.kept();
        ask::set_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, kept.nodelay);
        if kept.cork != 0 {
            ask::set_option(fd, libc::IPPROTO_TCP, libc::TCP_CORK, kept.cork);
        }
        if kept.linger.waits() {
            ask::set_option(fd, libc::SOL_SOCKET, libc::SO_LINGER, kept.linger);
        }
    }

    /// Another program may take this one's place: passes on what it inherits, with the options that the application set.
    pub(crate) fn before_exec(&self, fd: c_int, limit: Duration) {
        if next::fcntl(fd, libc::F_GETFD, 0) & libc::FD_CLOEXEC != 0 {
            return;
        }
        self.hand_over(fd, limit);
        self.let_go(fd);
    }

    /// Others have it from now on, and no engine steers it before this process writes to it again: the kernel gets it with the options
    /// that the application set. An engine of the process that forked this one finds by them that it is not its own any more.
    pub(crate) fn let_go(&self, fd: c_int) {
        let served = self.socket();
        if served.is_some() || self.steered {
            restore(fd, &self.kept());
        }
        if let Some(socket) = served.filter(|_| state::any().is_some_and(State::is_of_this_process)) {
            socket.let_go();
        }
    }

    /// The same socket after all of ours has ended: the kernel's, if it was served.
    pub(crate) fn left_to_kernel(&self) -> Arc<Self> {
        let via = if self.socket().is_some() { Via::Kernel } else { self.via() };
        let conn = Self::with(via, self.names().clone());
        conn.direct.store(self.direct.load(Ordering::Relaxed), Ordering::Relaxed);
        Arc::new(conn)
    }

    /// A descriptor is about to be closed, or was closed by a call that we did not see. With the last one of this process everything
    /// queued is sent by the engine.
    pub(crate) fn unname(&self, state: &State, fd: c_int) {
        {
            let mut names = self.names();
            names.retain(|&name| name != fd);
            if let Some(&other) = names.iter().find(|&&fd| self.is(fd)) {
                if let Some(socket) = self.socket() {
                    socket.is_at(lend(other));
                }
                return;
            }
            names.clear();
        }
        for place in self.places().drain(..) {
            if let Some(set) = place.set.upgrade() {
                set.forget(place.fd);
            }
        }
        let Some(socket) = self.socket() else { return };
        let linger = self.kept().linger;
        if linger.on == 0 || self.via() == Via::Inline {
            socket.close(state.config.options.linger);
        } else if linger.seconds == 0 {
            // It is a TCP socket, which takes it.
            let _ = socket.set_linger(Some(Duration::ZERO));
            socket.close(Duration::ZERO);
        } else {
            let limit = Duration::from_secs(linger.seconds.max(0) as u64);
            let end = Instant::now() + limit;
            let _ = socket.set_linger(Some(limit));
            socket.close(state.config.options.linger);
            if self.is(fd) {
                wait_until_acked(fd, end);
            }
        }
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        // The descriptors of the engine are closed here, which the application could not.
        let _inside = Inside::enter();
        self.care.take();
    }
}

/// The application's descriptor, by which the engine reaches the socket.
fn lend(fd: c_int) -> Lent {
    // SAFETY: it is never closed by this, and the engine asks before each use that it means the socket still.
    Lent::new(ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// `None` when there are too many descriptors.
fn or_none_left<T>(adopted: io::Result<T>) -> io::Result<Option<T>> {
    match adopted {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::EINVAL)) => Ok(None),
        adopted => adopted.map(Some),
    }
}

/// Nanoseconds of the monotonic clock; never 0.
fn monotonic() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: room for one value.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    (time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64).max(1)
}

/// Waits until the peer has acknowledged everything, as close with `SO_LINGER` does.
fn wait_until_acked(fd: c_int, end: Instant) {
    let mut unacked: c_int = 0;
    while next::ioctl(fd, libc::TIOCOUTQ, (&raw mut unacked) as usize) == 0 && unacked > 0 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
}
