//! A run in real time, as it goes on: counters for observers.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use paceline_cc::Nanos;

use crate::program::ProgramPlaces;
use crate::tap::SharedTap;

/// Counters that a run in real time adds to.
#[derive(Debug, Default)]
pub struct Live {
    name: Mutex<String>,
    bytes: AtomicU64,
    packets: AtomicU64,
    dropped: AtomicU64,
    queue: AtomicU64,
    most: AtomicU64,
}

/// What someone outside has of a run in real time; the default is nothing.
#[derive(Clone, Default)]
pub struct Hooks {
    /// Ends the run when it is set.
    pub abort: Arc<AtomicBool>,
    /// Shows how it goes on.
    pub live: Option<Arc<Live>>,
    /// Sees its controllers.
    pub tap: Option<SharedTap>,
    /// The file, as pcapng, into which the headers of all packets on all links go.
    pub pcap: Option<PathBuf>,
    /// Where programs work, where they may run.
    pub programs: Option<ProgramPlaces>,
}

/// What happened since the glance before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Glance {
    /// Bytes of packets that arrived, headers included.
    pub bytes: u64,
    /// Packets that arrived.
    pub packets: u64,
    /// Packets that were dropped.
    pub dropped: u64,
    /// Their mean queueing delay; zero where none arrived.
    pub queue: Nanos,
    /// The largest.
    pub queue_most: Nanos,
}

impl Glance {
    /// Share of the packets that were dropped.
    pub fn loss(&self) -> f64 {
        self.dropped as f64 / (self.packets + self.dropped).max(1) as f64
    }
}

impl Live {
    /// A run of this name begins.
    pub fn begin(&self, name: &str) {
        name.clone_into(&mut self.name.lock().unwrap_or_else(PoisonError::into_inner));
        self.glance();
    }

    /// The run that began last.
    pub fn name(&self) -> String {
        self.name.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A packet arrived that had waited for this long.
    pub fn arrived(&self, bytes: u64, queue: Nanos) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.packets.fetch_add(1, Ordering::Relaxed);
        self.queue.fetch_add(queue.as_nanos(), Ordering::Relaxed);
        self.most.fetch_max(queue.as_nanos(), Ordering::Relaxed);
    }

    /// A packet was dropped.
    pub fn dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// What happened since the last time. A packet may be half in one glance and half in the next.
    pub fn glance(&self) -> Glance {
        let take = |counter: &AtomicU64| counter.swap(0, Ordering::Relaxed);
        let packets = take(&self.packets);
        Glance {
            bytes: take(&self.bytes),
            packets,
            dropped: take(&self.dropped),
            queue: Nanos::from_nanos(take(&self.queue) / packets.max(1)),
            queue_most: Nanos::from_nanos(take(&self.most)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glance_has_what_came_since_the_one_before() {
        let live = Live::default();
        live.begin("copa@udp");
        live.arrived(1500, Nanos::from_millis(2));
        live.arrived(1500, Nanos::from_millis(4));
        live.dropped();
        let glance = live.glance();
        assert_eq!((glance.bytes, glance.packets, glance.dropped), (3000, 2, 1));
        assert_eq!((glance.queue, glance.queue_most), (Nanos::from_millis(3), Nanos::from_millis(4)));
        assert!((glance.loss() - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!((live.glance(), live.name()), (Glance::default(), "copa@udp".to_owned()));
    }
}
