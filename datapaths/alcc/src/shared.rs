//! What an engine's thread and its sockets share: who is to be called when, and what a socket reports when it ends.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use paceline_cc::Time;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::write;
use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};

use crate::clock::{self, Offset};
use crate::descriptors::lift;
use crate::group::Groups;
use crate::options::Options;
use crate::queue::Budget;
use crate::rtts::Tally;
use crate::stats::Totals;

/// The wake-up call and the alarm among the events; sockets count from zero.
pub(crate) const WAKE: u64 = u64::MAX;
pub(crate) const ALARM: u64 = u64::MAX - 1;

/// What an engine calls in the program that it runs in.
#[derive(Clone, Copy, Debug)]
pub struct Hooks {
    /// The engine's thread, before anything else. A preloaded library notes by it that the calls of this thread are
    /// its own.
    pub enter: fn(),
    /// Whichever thread found out that others had written past a socket's queue, so that its connection was reset;
    /// at most once a socket. It must not call the engine.
    pub bypassed: fn(),
}

impl Default for Hooks {
    /// They do nothing.
    fn default() -> Self {
        Self { enter: || {}, bypassed: || {} }
    }
}

/// What the thread and the sockets share; a socket is an `S`.
pub(crate) struct Shared<S> {
    pub(crate) options: Options,
    pub(crate) epoll: OwnedFd,
    pub(crate) wake: OwnedFd,
    /// Rings at the first sending time.
    pub(crate) alarm: OwnedFd,
    timers: Mutex<Timers>,
    sockets: Mutex<HashMap<u64, Arc<S>>>,
    /// Sockets without a holder, for the engine's thread to close.
    left: Mutex<Vec<S>>,
    groups: Mutex<Groups>,
    past: Mutex<Totals>,
    /// Round-trip times of all sockets.
    pub(crate) rtts: Arc<Tally>,
    pub(crate) budget: Arc<Budget>,
    /// The clocks when a thread of the application last read stamps.
    clocks: Mutex<Offset>,
    hooks: Hooks,
    pub(crate) started: Time,
    pub(crate) next_id: AtomicU64,
    pub(crate) wake_ups: AtomicU64,
    /// The thread's number; 0 before it runs.
    pub(crate) thread: AtomicI32,
    /// The engine was dropped.
    pub(crate) ending: AtomicBool,
}

/// When which socket wants to be called.
pub(crate) struct Timers {
    pub(crate) due: BTreeSet<(Time, u64)>,
    /// Until then the thread sleeps; [`Time::ZERO`] while it is awake.
    pub(crate) asleep_until: Time,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that panicked held plain values, each of them whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S> Shared<S> {
    /// An engine without sockets.
    ///
    /// # Errors
    /// The operating system's.
    pub(crate) fn new(options: Options, hooks: Hooks) -> io::Result<Self> {
        let budget = Budget::new(options.memory);
        let shared = Self {
            options,
            epoll: lift(epoll::create(epoll::CreateFlags::CLOEXEC)?)?,
            wake: lift(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)?,
            alarm: lift(timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?)?,
            timers: Mutex::new(Timers { due: BTreeSet::new(), asleep_until: Time::ZERO }),
            sockets: Mutex::new(HashMap::new()),
            left: Mutex::default(),
            groups: Mutex::new(Groups::default()),
            past: Mutex::default(),
            rtts: Arc::default(),
            budget,
            clocks: Mutex::new(Offset::measure()),
            hooks,
            started: clock::now(),
            next_id: AtomicU64::new(0),
            wake_ups: AtomicU64::new(0),
            thread: AtomicI32::new(0),
            ending: AtomicBool::new(false),
        };
        shared.hear(WAKE, &shared.wake, epoll::EventFlags::IN)?;
        shared.hear(ALARM, &shared.alarm, epoll::EventFlags::IN)?;
        Ok(shared)
    }

    pub(crate) fn timers(&self) -> MutexGuard<'_, Timers> {
        lock(&self.timers)
    }

    pub(crate) fn sockets(&self) -> MutexGuard<'_, HashMap<u64, Arc<S>>> {
        lock(&self.sockets)
    }

    pub(crate) fn left(&self) -> MutexGuard<'_, Vec<S>> {
        lock(&self.left)
    }

    pub(crate) fn groups(&self) -> MutexGuard<'_, Groups> {
        lock(&self.groups)
    }

    pub(crate) fn past(&self) -> MutexGuard<'_, Totals> {
        lock(&self.past)
    }

    /// The clocks when a thread of the application last read stamps.
    pub(crate) fn clocks(&self) -> MutexGuard<'_, Offset> {
        lock(&self.clocks)
    }

    /// Its own descriptors.
    pub(crate) fn descriptors(&self) -> [RawFd; 3] {
        [&self.epoll, &self.wake, &self.alarm].map(AsRawFd::as_raw_fd)
    }

    /// Others have written past a socket's queue.
    pub(crate) fn bypassed(&self) {
        (self.hooks.bypassed)();
    }

    /// Wakes the thread.
    pub(crate) fn call(&self) {
        // It fails when the counter is full of calls that were not heard yet.
        let _ = write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Socket `id` wants to be called at `wake`, and no more at `before`.
    pub(crate) fn schedule(&self, id: u64, before: Time, wake: Time) {
        let mut timers = self.timers();
        timers.due.remove(&(before, id));
        if wake != Time::NEVER {
            timers.due.insert((wake, id));
        }
        if wake < timers.asleep_until {
            timers.asleep_until = Time::ZERO;
            drop(timers);
            self.call();
        }
    }

    /// The thread is woken up by these events of a descriptor, once for each.
    pub(crate) fn hear(&self, id: u64, fd: &OwnedFd, events: epoll::EventFlags) -> rustix::io::Result<()> {
        epoll::add(&self.epoll, fd, epoll::EventData::new_u64(id), events | epoll::EventFlags::ET)
    }

    /// Room in the kernel is the application's business now.
    pub(crate) fn hear_only_the_end(&self, id: u64, fd: &OwnedFd) {
        // An exclusive entry cannot be changed.
        let _ = epoll::delete(&self.epoll, fd);
        // The set has held it: there is room. If not, the next look finds the end of the connection.
        let _ = self.hear(id, fd, epoll::EventFlags::empty());
    }

    /// Socket `id` is closed and drained; it wanted to be called at `scheduled`.
    pub(crate) fn forget(&self, id: u64, fd: &OwnedFd, scheduled: Time, did: &Totals) {
        let mut past = self.past();
        past.sockets += did.sockets;
        past.delivered += did.delivered;
        past.retransmits += did.retransmits;
        past.bypassed += did.bypassed;
        drop(past);
        self.timers().due.remove(&(scheduled, id));
        // Other processes may hold the socket; this one hears of it no more.
        let _ = epoll::delete(&self.epoll, fd);
        let last = {
            let mut sockets = self.sockets();
            sockets.remove(&id);
            sockets.is_empty()
        };
        if last && self.ending.load(Ordering::Acquire) {
            self.call();
        }
    }
}
