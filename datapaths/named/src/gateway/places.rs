//! Places for connections and fetches: what does nothing for its client makes room for who comes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use paceline_cc::Nanos;
use paceline_icn::{CountedAddress, Standing, makes_room};
use tokio::sync::Notify;

/// Who asks, and how its connection is ended.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) source: CountedAddress,
    pub(super) end: Arc<Notify>,
}

/// A bounded number of places.
#[derive(Debug)]
pub(super) struct Places {
    most: usize,
    /// What has waited for its client for this long makes room.
    settled: Duration,
    table: Mutex<Table>,
    left: Notify,
}

#[derive(Debug)]
struct Table {
    next: u64,
    taken: BTreeMap<u64, Taken>,
}

#[derive(Debug)]
struct Taken {
    client: Client,
    /// Since when it waits for its client; `None` while the client waits for it.
    waits: Option<Instant>,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    number: u64,
    places: Arc<Places>,
}

impl Places {
    pub(super) fn new(most: usize, settled: Duration) -> Arc<Self> {
        let table = Mutex::new(Table { next: 0, taken: BTreeMap::new() });
        Arc::new(Self { most, settled, table, left: Notify::new() })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place, for which another's connection may be ended; `None` where there is none.
    fn enter(self: &Arc<Self>, client: &Client) -> Option<Place> {
        let now = Instant::now();
        let mut table = self.table();
        if table.taken.len() >= self.most {
            let idle = |taken: &Taken| taken.waits.map_or(Duration::ZERO, |since| now.duration_since(since));
            let standing = |taken: &Taken| Standing { askers: vec![taken.client.source], idle: nanos(idle(taken)) };
            let all: Vec<Standing> = table.taken.values().map(standing).collect();
            let leaves = makes_room(&all, client.source, nanos(self.settled))?;
            let number = table.taken.keys().nth(leaves).copied()?;
            table.taken.remove(&number)?.client.end.notify_one();
        }
        let number = table.next;
        table.next += 1;
        table.taken.insert(number, Taken { client: client.clone(), waits: Some(now) });
        Some(Place { number, places: Arc::clone(self) })
    }

    /// A place as soon as there is one, within `patience`.
    pub(super) async fn entered(self: &Arc<Self>, client: &Client, patience: Duration) -> Option<Place> {
        let until = Instant::now() + patience;
        loop {
            if let Some(place) = self.enter(client) {
                return Some(place);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            // One may be settled by then, too.
            let _ = tokio::time::timeout(left.min(self.settled), self.left.notified()).await;
        }
    }

    /// Ends the connections of what has waited for its client for this long.
    pub(super) fn end_idle(&self, longest: Duration) {
        let now = Instant::now();
        let table = self.table();
        let idle = |taken: &&Taken| taken.waits.is_some_and(|since| now.duration_since(since) > longest);
        table.taken.values().filter(idle).for_each(|taken| taken.client.end.notify_one());
    }
}

impl Place {
    fn note(&self, waits: Option<Instant>) {
        if let Some(taken) = self.places.table().taken.get_mut(&self.number) {
            taken.waits = waits;
        }
    }

    /// The client waits for what has this place.
    pub(super) fn is_awaited(&self) {
        self.note(None);
    }

    /// It waits for its client from now on.
    pub(super) fn waits(&self) {
        self.note(Some(Instant::now()));
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.table().taken.remove(&self.number);
        self.places.left.notify_one();
    }
}

fn nanos(time: Duration) -> Nanos {
    Nanos::from_nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn client(host: u8) -> Client {
        Client { source: CountedAddress::of(SocketAddr::from(([192, 0, 2, host], 1))), end: Arc::default() }
    }

    /// Whether its connection is ended.
    fn is_ended(client: &Client) -> bool {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        std::pin::pin!(client.end.notified()).as_mut().poll(&mut context).is_ready()
    }

    #[test]
    fn what_waits_for_its_client_makes_room_and_what_is_awaited_does_not() {
        let places = Places::new(2, Duration::ZERO);
        let (slow, busy) = (client(1), client(1));
        let _first = places.enter(&slow).expect("free");
        let second = places.enter(&busy).expect("free");
        second.is_awaited();
        let third = places.enter(&client(1)).expect("one waits");
        assert!(is_ended(&slow) && !is_ended(&busy));
        drop(third);
        assert!(places.enter(&client(1)).is_some());
        let patient = Places::new(1, Duration::from_secs(3600));
        let _only = patient.enter(&client(1)).expect("free");
        assert!(patient.enter(&client(1)).is_none() && patient.enter(&client(2)).is_none());
    }

    #[test]
    fn who_has_most_makes_room_for_another() {
        let places = Places::new(3, Duration::from_secs(3600));
        let many = client(1);
        let _taken: Vec<_> = (0..3).map(|_| places.enter(&many).expect("free")).collect();
        assert!(places.enter(&many).is_none());
        assert!(places.enter(&client(2)).is_some() && is_ended(&many));
    }

    #[test]
    fn what_waits_too_long_is_ended() {
        let places = Places::new(3, Duration::ZERO);
        let (slow, busy) = (client(1), client(1));
        let _first = places.enter(&slow).expect("free");
        places.enter(&busy).expect("free").is_awaited();
        places.end_idle(Duration::from_secs(3600));
        assert!(!is_ended(&slow));
        std::thread::sleep(Duration::from_millis(2));
        places.end_idle(Duration::from_millis(1));
        assert!(is_ended(&slow) && !is_ended(&busy));
    }
}
