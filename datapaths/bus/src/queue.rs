//! A queue of fixed length between two threads: what comes when it is full replaces the oldest.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(crate) struct Queue<T> {
    items: Mutex<VecDeque<T>>,
    ready: Condvar,
    length: usize,
    dropped: AtomicU64,
}

impl<T> Queue<T> {
    pub(crate) fn new(length: usize) -> Self {
        Self { items: Mutex::default(), ready: Condvar::new(), length: length.max(1), dropped: AtomicU64::new(0) }
    }

    fn items(&self) -> MutexGuard<'_, VecDeque<T>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Never waits for room.
    pub(crate) fn push(&self, item: T) {
        let mut items = self.items();
        if items.len() >= self.length {
            items.pop_front();
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        items.push_back(item);
        drop(items);
        self.ready.notify_one();
    }

    pub(crate) fn pop(&self) -> Option<T> {
        self.items().pop_front()
    }

    /// Waits for one, up to `patience`.
    pub(crate) fn wait(&self, patience: Duration) -> Option<T> {
        let waited = self.ready.wait_timeout_while(self.items(), patience, |items| items.is_empty());
        waited.unwrap_or_else(PoisonError::into_inner).0.pop_front()
    }

    /// Items that were replaced.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_and_is_counted() {
        let queue = Queue::new(3);
        (0..10).for_each(|item| queue.push(item));
        assert_eq!(queue.dropped(), 7);
        assert_eq!(std::iter::from_fn(|| queue.pop()).collect::<Vec<_>>(), [7, 8, 9]);
        assert_eq!(queue.wait(Duration::from_millis(1)), None);
    }
}
