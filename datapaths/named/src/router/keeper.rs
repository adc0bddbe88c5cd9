//! Sees to it that what came into the cache is there after a crash: a thread that waits for the disk, so that the router does not.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use paceline_cc::{Nanos, Time};

use super::Shared;
use crate::Cache;
use crate::partial::Sync;

/// Between two times that the disk is asked to keep what came (our choice: a crash loses a second of what was fetched, and a disk
/// is not kept busy by this).
const EVERY: Nanos = Nanos::from_secs(1);

pub(super) struct Keeper {
    work: Option<Sender<Vec<Sync>>>,
    /// It waits for the disk.
    busy: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    due: Time,
}

impl Keeper {
    pub(super) fn start(shared: &Arc<Shared>) -> io::Result<Self> {
        let (work, takes) = channel();
        let (shared, busy) = (Arc::clone(shared), Arc::new(AtomicBool::new(false)));
        let ours = Arc::clone(&busy);
        let thread = std::thread::Builder::new().name("paceline-keep".into());
        let thread = thread.spawn(move || run(&takes, &ours, &shared))?;
        Ok(Self { work: Some(work), busy, thread: Some(thread), due: Time::ZERO })
    }

    /// Hands on what is due. A disk that is slower than the network gets it later.
    pub(super) fn keep(&mut self, now: Time, cache: &mut Cache) {
        if now < self.due || self.busy.load(Ordering::Acquire) {
            return;
        }
        self.due = now + EVERY;
        let pending = cache.pending();
        if let Some(work) = self.work.as_ref().filter(|_| !pending.is_empty()) {
            self.busy.store(true, Ordering::Release);
            // It takes work as long as there is some.
            let _ = work.send(pending);
        }
    }
}

fn run(work: &Receiver<Vec<Sync>>, busy: &AtomicBool, shared: &Shared) {
    for pending in work {
        for sync in pending {
            if let Err(trouble) = sync.run() {
                shared.set_trouble(trouble.to_string());
            }
        }
        busy.store(false, Ordering::Release);
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.work = None;
        if let Some(thread) = self.thread.take() {
            // It has nothing to say.
            let _ = thread.join();
        }
    }
}
