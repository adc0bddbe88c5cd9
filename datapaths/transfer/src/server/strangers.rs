//! Clients that have not said yet who they are: a bounded number, of which those that have waited longest make room for who comes.

use std::collections::BTreeMap;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use paceline_cc::Nanos;
use paceline_icn::{CountedAddress, Standing, makes_room};

/// Most of them (our choice: each is a thread with a small stack in use, for some round trips where it means it).
const MOST: usize = 256;

/// Those that there are.
#[derive(Default)]
pub(super) struct Strangers {
    table: Mutex<(u64, BTreeMap<u64, Waiting>)>,
}

struct Waiting {
    source: CountedAddress,
    since: Instant,
    leaves: Arc<AtomicBool>,
    /// Where nothing can be said yet: to be shut down.
    stream: Option<TcpStream>,
}

/// One of them, until it is dropped.
pub(super) struct Stranger {
    number: u64,
    leaves: Arc<AtomicBool>,
    all: Arc<Strangers>,
}

impl Strangers {
    fn lock(&self) -> MutexGuard<'_, (u64, BTreeMap<u64, Waiting>)> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another one from `peer`. Where there are too many, the one that has waited longest of the address with most leaves.
    pub(super) fn enter(self: &Arc<Self>, peer: SocketAddr, stream: Option<TcpStream>) -> Stranger {
        let (source, now, leaves) = (CountedAddress::of(peer), Instant::now(), Arc::<AtomicBool>::default());
        let mut table = self.lock();
        if table.1.len() >= MOST {
            let idle = |since: Instant| u64::try_from(now.duration_since(since).as_nanos()).unwrap_or(u64::MAX);
            let standing = |waiting: &Waiting| Standing {
                askers: vec![waiting.source],
                idle: Nanos::from_nanos(idle(waiting.since)),
            };
            let all: Vec<Standing> = table.1.values().map(standing).collect();
            let gone = makes_room(&all, source, Nanos::ZERO).and_then(|index| table.1.keys().nth(index).copied());
            if let Some(gone) = gone.and_then(|number| table.1.remove(&number)) {
                gone.leaves.store(true, Ordering::Relaxed);
                // It may have gone by itself.
                let _ = gone.stream.map(|stream| stream.shutdown(Shutdown::Both));
            }
        }
        table.0 += 1;
        let number = table.0;
        table.1.insert(number, Waiting { source, since: now, leaves: Arc::clone(&leaves), stream });
        Stranger { number, leaves, all: Arc::clone(self) }
    }
}

impl Stranger {
    /// It made room for another.
    pub(super) fn leaves(&self) -> bool {
        self.leaves.load(Ordering::Relaxed)
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.all.lock().1.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(host: u8) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, host], 1))
    }

    #[test]
    fn the_longest_waiting_one_of_the_address_with_most_leaves() {
        let strangers = Arc::new(Strangers::default());
        let early = strangers.enter(from(9), None);
        let many: Vec<Stranger> = (1..MOST).map(|_| strangers.enter(from(1), None)).collect();
        let left = |all: &[Stranger]| all.iter().filter(|one| one.leaves()).count();
        assert_eq!(left(&many), 0);
        let other = strangers.enter(from(2), None);
        assert!(many[0].leaves() && left(&many) == 1);
        // One who has most comes at the cost of its own.
        let again = strangers.enter(from(1), None);
        assert!(many[1].leaves() && left(&many) == 2);
        assert!(!early.leaves() && !other.leaves() && !again.leaves());
        drop(many);
        let _more: Vec<Stranger> = (0..MOST - 3).map(|_| strangers.enter(from(3), None)).collect();
        assert!(!early.leaves() && !other.leaves() && !again.leaves());
    }
}
