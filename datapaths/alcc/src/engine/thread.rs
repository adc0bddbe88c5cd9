//! The engine's thread: it waits for news of the sockets and for the next sending time.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use paceline_cc::{Nanos, Time};
use rustix::event::{Timespec, epoll};
use rustix::thread::nanosleep;
use rustix::time::{Itimerspec, TimerfdTimerFlags, timerfd_settime};

use crate::clock;
use crate::inner::Inner;
use crate::shared::{ALARM, Shared, WAKE};
use crate::stamps::Reader;

/// When news comes faster, the thread takes it together: stamps keep their times, and what is permitted meanwhile leaves
/// as one burst. 1 ms: Linux `tcp_tso_autosize` lets as much leave at once.
const BREATH: Nanos = Nanos::from_millis(1);
const NO_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// Events taken in one call.
const EVENTS: usize = 64;

impl Shared<Inner> {
    /// The thread.
    pub(super) fn run(&self) {
        let mut reader = Reader::new();
        let mut events = Vec::with_capacity(EVENTS);
        let mut due = Vec::new();
        let (mut last, mut hurried, mut rings_at) = (Time::ZERO, false, Time::NEVER);
        while !(self.ending.load(Ordering::Acquire) && self.sockets().is_empty()) {
            events.clear();
            if hurried {
                // An early end does no harm.
                let _ = nanosleep(&clock::timespec(BREATH - (clock::now() - last)));
                self.look(&mut events, Some(&NO_TIME));
            } else {
                self.sleep(&mut events, &mut rings_at);
            }
            let before = last;
            last = clock::now();
            self.wake_ups.fetch_add(1, Ordering::Relaxed);
            self.close_left();
            for event in &events {
                let (id, flags) = (event.data.u64(), event.flags);
                if id == WAKE || id == ALARM {
                    // Only the edge counts: the number of calls is never read. The alarm was set again, or will be.
                } else if let Some(socket) = self.find(id) {
                    socket.on_events(flags, &mut reader);
                }
            }
            self.take_due(&mut due);
            let news = due.len() + reader.take_count();
            hurried = news > 0 && (last - before < BREATH || (hurried && news > 1));
            for id in due.drain(..) {
                if let Some(socket) = self.find(id) {
                    socket.on_timer(&mut reader);
                }
            }
        }
        self.close_left();
    }

    fn close_left(&self) {
        let left = mem::take(&mut *self.left());
        // Not under the lock: a socket holds the engine.
        drop(left);
    }

    fn find(&self, id: u64) -> Option<Arc<Inner>> {
        self.sockets().get(&id).cloned()
    }

    /// Waits for an event or the first timer, in `epoll_wait` itself where there may be events: see [`crate::Engine::adopt`]. The
    /// alarm `rings_at` that time.
    fn sleep(&self, events: &mut Vec<epoll::Event>, rings_at: &mut Time) {
        let Some(poller) = self.polls() else { return self.rest() };
        let until = {
            let mut timers = self.timers();
            timers.asleep_until = timers.first();
            timers.asleep_until
        };
        let due = until <= clock::now();
        if !due && until != *rings_at && until != Time::NEVER {
            *rings_at = until;
            let once = Itimerspec { it_interval: NO_TIME, it_value: clock::timespec(until - Time::ZERO) };
            // It takes any time.
            let _ = timerfd_settime(&poller.alarm, TimerfdTimerFlags::ABSTIME, &once);
        }
        self.look(events, due.then_some(&NO_TIME));
        self.timers().asleep_until = Time::ZERO;
    }

    /// Takes what has happened; waits for it unless there is a `limit`.
    fn look(&self, events: &mut Vec<epoll::Event>, limit: Option<&Timespec>) {
        let Some(poller) = self.polls() else { return };
        if epoll::wait(&poller.epoll, rustix::buffer::spare_capacity(events), limit).is_err() {
            events.clear();
        }
    }

    /// Takes the sockets whose time has come.
    fn take_due(&self, due: &mut Vec<u64>) {
        let now = clock::now();
        let mut timers = self.timers();
        while let Some(&(at, id)) = timers.due.first().filter(|&&(at, _)| at <= now) {
            timers.due.remove(&(at, id));
            due.push(id);
        }
    }
}
