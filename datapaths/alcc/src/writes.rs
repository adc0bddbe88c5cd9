//! What an engine knows of the program's writes to the kernel (inline mode).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The writes of a connection that go to the kernel through the library.
#[derive(Debug)]
pub(crate) struct Writes {
    /// Not all of them are reported.
    unseen: AtomicBool,
    /// Calls in progress.
    calls: AtomicUsize,
    /// There was one since [`Writes::forget`].
    any: AtomicBool,
}

impl Writes {
    /// None so far; `reported` says whether all will be.
    pub(crate) fn new(reported: bool) -> Self {
        Self { unseen: AtomicBool::new(!reported), calls: AtomicUsize::new(0), any: AtomicBool::new(true) }
    }

    /// From now on some come unreported.
    pub(crate) fn unseen(&self) {
        self.unseen.store(true, Ordering::Release);
    }

    /// One of them. A jump out of it leaves it in progress for ever: then the others are not told from those of strangers.
    pub(crate) fn by<T>(&self, call: impl FnOnce() -> T) -> T {
        struct Call<'a>(&'a Writes);
        impl Drop for Call<'_> {
            fn drop(&mut self) {
                // In this order: a look finds the call in progress, or that there was one.
                self.0.any.store(true, Ordering::SeqCst);
                self.0.calls.fetch_sub(1, Ordering::SeqCst);
            }
        }
        self.calls.fetch_add(1, Ordering::SeqCst);
        let _call = Call(self);
        call()
    }

    /// Before a look at the kernel's counts: says whether there was a write since this was asked before, as far as its bytes may not
    /// have been in the counts of the look then.
    pub(crate) fn forget(&self) -> bool {
        self.any.swap(false, Ordering::SeqCst) || self.now()
    }

    /// After the look: bytes of a write may be in its counts.
    pub(crate) fn now(&self) -> bool {
        self.calls.load(Ordering::SeqCst) > 0 || self.any.load(Ordering::SeqCst) || self.unseen.load(Ordering::Acquire)
    }
}
