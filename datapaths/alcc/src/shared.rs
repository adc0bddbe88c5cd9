//! What an engine's thread and its sockets share: which socket is to be called when, and what a socket reports when it ends.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

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
    /// Once there is a socket whose events the thread waits for.
    poller: OnceLock<Poller>,
    timers: Mutex<Timers>,
    /// Wakes the thread while there is none.
    turn: Condvar,
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
    /// The thread was called, and has not answered yet.
    called: bool,
}

impl Timers {
    /// The first time at which a socket wants to be called.
    pub(crate) fn first(&self) -> Time {
        self.due.first().map_or(Time::NEVER, |&(at, _)| at)
    }
}

/// What the thread waits with for events of sockets. Above inline sockets it waits for times alone, and has no descriptor.
pub(crate) struct Poller {
    pub(crate) epoll: OwnedFd,
    pub(crate) wake: OwnedFd,
    /// Rings at the first sending time.
    pub(crate) alarm: OwnedFd,
}

impl Poller {
    fn new() -> io::Result<Self> {
        let poller = Self {
            epoll: lift(epoll::create(epoll::CreateFlags::CLOEXEC)?)?,
            wake: lift(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)?,
            alarm: lift(timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?)?,
        };
        poller.hear(WAKE, &poller.wake, epoll::EventFlags::IN)?;
        poller.hear(ALARM, &poller.alarm, epoll::EventFlags::IN)?;
        Ok(poller)
    }

    fn hear(&self, id: u64, fd: &OwnedFd, events: epoll::EventFlags) -> rustix::io::Result<()> {
        epoll::add(&self.epoll, fd, epoll::EventData::new_u64(id), events | epoll::EventFlags::ET)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that panicked held plain values, each of them whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S> Shared<S> {
    /// An engine without sockets.
    pub(crate) fn new(options: Options, hooks: Hooks) -> Self {
        let budget = Budget::new(options.memory);
        Self {
            options,
            poller: OnceLock::new(),
            timers: Mutex::new(Timers { due: BTreeSet::new(), asleep_until: Time::ZERO, called: false }),
            turn: Condvar::new(),
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
        }
    }

    /// What the thread waits with, made when it is first wanted.
    ///
    /// # Errors
    /// The operating system's.
    pub(crate) fn poller(&self) -> io::Result<&Poller> {
        if let Some(poller) = self.poller.get() {
            return Ok(poller);
        }
        let poller = Poller::new()?;
        // Two threads may make one each: the first counts.
        let _ = self.poller.set(poller);
        // The thread goes over to it.
        self.call();
        self.poller()
    }

    /// What the thread waits with, if a socket has events.
    pub(crate) fn polls(&self) -> Option<&Poller> {
        self.poller.get()
    }

    /// Waits without a [`Poller`]: for a call, or the first time at which a socket wants to be called.
    pub(crate) fn rest(&self) {
        let mut timers = self.timers();
        while !timers.called && self.polls().is_none() {
            let (until, now) = (timers.first(), clock::now());
            if until <= now {
                break;
            }
            timers.asleep_until = until;
            timers = if until == Time::NEVER {
                self.turn.wait(timers).unwrap_or_else(PoisonError::into_inner)
            } else {
                let left = Duration::from_nanos((until - now).as_nanos());
                self.turn.wait_timeout(timers, left).unwrap_or_else(PoisonError::into_inner).0
            };
        }
        timers.called = false;
        timers.asleep_until = Time::ZERO;
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
    pub(crate) fn descriptors(&self) -> Vec<RawFd> {
        let of = |poller: &Poller| [&poller.epoll, &poller.wake, &poller.alarm].map(AsRawFd::as_raw_fd);
        self.polls().map(of).into_iter().flatten().collect()
    }

    /// Others have written past a socket's queue.
    pub(crate) fn bypassed(&self) {
        (self.hooks.bypassed)();
    }

    /// Wakes the thread.
    pub(crate) fn call(&self) {
        self.timers().called = true;
        self.turn.notify_one();
        if let Some(poller) = self.polls() {
            // It fails when the counter is full of calls that were not answered yet.
            let _ = write(&poller.wake, &1_u64.to_ne_bytes());
        }
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
    pub(crate) fn hear(&self, id: u64, fd: &OwnedFd, events: epoll::EventFlags) -> io::Result<()> {
        Ok(self.poller()?.hear(id, fd, events)?)
    }

    /// The thread is not woken up by a descriptor's events any more.
    pub(crate) fn hear_nothing(&self, fd: &OwnedFd) {
        if let Some(poller) = self.polls() {
            let _ = epoll::delete(&poller.epoll, fd);
        }
    }

    /// Socket `id` is closed and drained, or not there any more; it wanted to be called at `scheduled`.
    pub(crate) fn forget(&self, id: u64, scheduled: Time, did: &Totals) {
        let mut past = self.past();
        past.sockets += did.sockets;
        past.delivered += did.delivered;
        past.retransmits += did.retransmits;
        past.bypassed += did.bypassed;
        drop(past);
        self.timers().due.remove(&(scheduled, id));
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
