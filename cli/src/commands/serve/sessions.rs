//! The sessions that run: whose line comes first, and what is said of them when a signal ends the server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::commands::udp::megabytes;
use crate::complaint;

/// How long the line of a session waits for those that began before and end at the same time (our choice: their last packets may be lost
/// and sent again).
const ORDER: Duration = Duration::from_millis(500);

/// Those that run, in the order in which they began.
#[derive(Default)]
pub(super) struct Sessions {
    running: Mutex<(u64, BTreeMap<u64, Running>)>,
    changed: Condvar,
}

struct Running {
    verb: &'static str,
    peer: SocketAddr,
    bytes: u64,
}

/// One of them, until it is dropped.
pub(super) struct Session {
    sessions: Arc<Sessions>,
    number: u64,
}

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, (u64, BTreeMap<u64, Running>)> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One begins.
    pub(super) fn begin(self: &Arc<Self>, verb: &'static str, peer: SocketAddr) -> Session {
        let mut running = self.lock();
        running.0 += 1;
        let number = running.0;
        running.1.insert(number, Running { verb, peer, bytes: 0 });
        Session { sessions: Arc::clone(self), number }
    }

    /// A line for each that has not ended.
    pub(super) fn stopped(&self) {
        for session in self.lock().1.values() {
            let Running { verb, peer, bytes } = session;
            let way = if *verb == "sent" { "to" } else { "from" };
            complaint::print(&format!("stopped; {verb} {} {way} {peer} by the last second", megabytes(*bytes)));
        }
    }
}

impl Session {
    /// So much more has moved.
    pub(super) fn moved(&self, bytes: u64) {
        if let Some(running) = self.sessions.lock().1.get_mut(&self.number) {
            running.bytes += bytes;
        }
    }

    /// Waits a moment for those that began before.
    pub(super) fn turn(&self) {
        let earlier = |running: &mut (u64, BTreeMap<u64, Running>)| {
            running.1.first_key_value().is_some_and(|(first, _)| *first < self.number)
        };
        let waited = self.sessions.changed.wait_timeout_while(self.sessions.lock(), ORDER, earlier);
        drop(waited);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.sessions.lock().1.remove(&self.number);
        self.sessions.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_waits_for_one_that_began_before() {
        let sessions = Arc::new(Sessions::default());
        let peer = "192.0.2.1:1".parse().unwrap();
        let (first, second) = (sessions.begin("sent", peer), sessions.begin("received", peer));
        let order = Arc::new(Mutex::new(Vec::new()));
        let other = Arc::clone(&order);
        let thread = std::thread::spawn(move || {
            second.turn();
            other.lock().unwrap().push(2);
        });
        first.turn();
        order.lock().unwrap().push(1);
        drop(first);
        thread.join().unwrap();
        assert_eq!(*order.lock().unwrap(), [1, 2]);
        assert!(sessions.lock().1.is_empty());
    }
}
