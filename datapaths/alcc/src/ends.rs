//! How a connection ends: whole, or by a reset.
//!
//! What was written leaves for as long as the peer takes it. The kernel has the same rule for a socket that no process holds any
//! more: it goes by what the peer answers (`tcp_orphan_retries` of tcp(7)), not by age. A rest that is dropped ends in a reset,
//! so that no peer takes a part for the whole.

use std::sync::PoisonError;
use std::time::Duration;

use paceline_cc::{Nanos, Time};
use rustix::io::Errno;
use rustix::net::connect_unspec;
use rustix::net::sockopt::set_socket_linger;

use crate::clock;
use crate::flow::Flow;
use crate::inner::{Inner, State};

/// The longest wait in one call, which takes no longer spans.
pub(crate) const DAY: Duration = Duration::from_hours(24);

/// The application has let go of a socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Closing {
    since: Time,
    linger: Nanos,
}

impl Closing {
    /// When it is given up, unless the peer takes something before.
    pub(crate) fn ends(self, flow: &Flow) -> Time {
        flow.link.silent_at(self.since, self.linger)
    }
}

/// When a wait for the queue is over.
#[derive(Clone, Copy, Debug)]
enum Until {
    /// The peer has taken nothing for this long, since then at the earliest.
    Silent(Time, Nanos),
    /// That time.
    At(Time),
}

impl Until {
    fn time(self, flow: &Flow) -> Time {
        match self {
            Self::Silent(since, limit) => flow.link.silent_at(since, limit),
            Self::At(time) => time,
        }
    }
}

pub(crate) fn nanos(span: Duration) -> Nanos {
    Nanos::from_nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}

impl Inner {
    /// Where what was written so far ends.
    pub(crate) fn end(&self) -> u64 {
        let state = self.lock();
        state.flow.link.above.next() + state.flow.link.queue.len() as u64
    }

    /// Waits until everything below `upto` has been sent, at most until the peer has taken nothing for `limit`, from
    /// `since` on at the earliest.
    pub(crate) fn drain(&self, since: Time, limit: Duration, upto: u64) -> bool {
        self.wait_for_queue(upto, Until::Silent(since, nanos(limit)))
    }

    fn wait_for_queue(&self, upto: u64, until: Until) -> bool {
        let mut state = self.lock();
        loop {
            if state.is_drained() || state.flow.link.above.next() >= upto {
                return true;
            }
            if until.time(&state.flow) <= clock::now() {
                // It may have taken something since the last look.
                state.flow.look_now(&self.fd());
                self.advance(&mut state);
                if state.is_drained() {
                    return true;
                }
                if until.time(&state.flow) <= clock::now() {
                    return false;
                }
            }
            let left = until.time(&state.flow) - clock::now();
            state.awaited = Some(state.awaited.map_or(upto, |awaited| awaited.min(upto)));
            let waited = self.drained.wait_timeout(state, Duration::from_nanos(left.as_nanos()).min(DAY));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Those who wait for the queue look again.
    pub(crate) fn wake_waiting(&self, state: &mut State) {
        if state.awaited.is_some_and(|upto| state.is_drained() || state.flow.link.above.next() >= upto) {
            state.awaited = None;
            self.drained.notify_all();
        }
    }

    /// The socket is closed for good once the queue is empty.
    pub(crate) fn close(&self, linger: Duration) {
        if !self.is_held() {
            // The program's close would reset the connection.
            self.wait_for_queue(u64::MAX, Until::Silent(clock::now(), nanos(linger)));
        }
        let wait = {
            let mut state = self.lock();
            if state.gone || state.closing.is_some() || self.is_lost(&mut state) {
                return;
            }
            // The program's own close comes, and is the kernel's in everything.
            let is_kernels = self.held.is_lent() && state.flow.is_inline();
            // Of no time, what TCP does not have is dropped: as with an `SO_LINGER` of zero.
            let at_once = linger.is_zero() && state.flow.link.is_protected();
            let wait = match at_once {
                true => Some(Duration::ZERO),
                false if is_kernels => None,
                false => state.flow.link.linger(&self.fd()),
            };
            match wait {
                Some(Duration::ZERO) => {
                    state.flow.link.die();
                    // The kernel resets when the last descriptor is closed.
                    let _ = set_socket_linger(self.fd(), wait);
                }
                // The engine's thread must not wait when it lets go.
                Some(_) => drop(state.flow.link.set_linger(&self.fd(), None)),
                None => {}
            }
            state.closing = Some(Closing { since: clock::now(), linger: nanos(linger) });
            if self.held.is_lent() {
                self.unname();
            }
            self.advance(&mut state);
            wait
        };
        if let Some(wait) = wait {
            self.wait_for_queue(u64::MAX, Until::At(clock::now() + nanos(wait)));
        }
    }

    /// What waits in the queue can leave after the program's close: without room for a duplicate it cannot.
    fn is_held(&self) -> bool {
        let state = self.lock();
        if state.is_drained() || !self.held.is_lent() {
            return true;
        }
        self.held.hold();
        self.held.own_number().is_some()
    }

    /// The program may have closed the socket, by a call that was not seen, while bytes of it wait in the queue: they leave as after any
    /// other close.
    pub(crate) fn close_if_orphan(&self, state: &mut State) {
        if state.closing.is_none() && self.held.is_orphan() {
            let linger = nanos(self.shared.options.linger);
            state.closing = Some(Closing { since: clock::now(), linger });
        }
    }

    /// The time may have come at which a socket that was closed is given up.
    pub(crate) fn give_up_if_silent(&self, state: &mut State) {
        let is_over = |state: &State| state.closing.is_some_and(|closing| closing.ends(&state.flow) <= clock::now());
        if is_over(state) {
            // The peer may have taken something since the last look.
            state.flow.look_now(&self.fd());
            if is_over(state) {
                self.reset(state);
            }
        }
    }

    /// Drops what is queued and resets the connection.
    pub(crate) fn abort(&self) {
        let mut state = self.lock();
        if !state.gone {
            self.reset(&mut state);
            self.advance(&mut state);
        }
    }

    /// Drops what is queued and resets the connection, though others hold the socket.
    pub(crate) fn reset(&self, state: &mut State) {
        state.flow.link.die();
        state.error = Some(Errno::CONNRESET);
        // Where the next call is refused (Linux 6.4 to 6.6 while a thread waits in the socket), closing it resets.
        let _ = set_socket_linger(self.fd(), Some(Duration::ZERO));
        let _ = connect_unspec(self.fd());
    }
}
