//! What is known of each descriptor of the application.
//!
//! A descriptor costs nothing until it is first asked about; most are then found to be something else than TCP and that is
//! remembered until they are closed. Descriptors that are closed behind our back (a system call without the C library) may
//! leave a wrong entry, so bytes go to a queue only after the socket's cookie was compared.
//!
//! Looking takes no lock: a signal handler may interrupt it, and leave it for good by a jump. An entry is held while it is looked at, and
//! entries are used again, never freed, so that one that was replaced in the middle of a look is still an entry, which is then
//! seen. A look that was left for good costs one entry.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::conn::Conn;
use crate::inside::Inside;
use crate::set::Set;

const PAGE: usize = 1024;
const PAGES: usize = 1024;
/// Descriptors that the table has room for.
pub(crate) const NUMBERS: u64 = (PAGE * PAGES) as u64;

/// What a descriptor is.
#[derive(Clone, Default)]
pub(crate) enum Kind {
    /// Not asked about yet.
    #[default]
    Unknown,
    /// Nothing that we serve.
    Other,
    /// Ours; the application does not know of it.
    Own,
    /// A TCP socket.
    Tcp(Arc<Conn>),
    /// A set of `epoll`.
    Set(Arc<Set>),
}

/// What stands in a slot.
struct Entry {
    /// The slot, and those that look. With none it is free.
    holders: AtomicUsize,
    kind: UnsafeCell<Kind>,
}

// SAFETY: the kind is changed only by the sole holder of the entry.
unsafe impl Sync for Entry {}

/// These need no entry of their own.
static OTHER: Entry = Entry { holders: AtomicUsize::new(1), kind: UnsafeCell::new(Kind::Other) };
static OWN: Entry = Entry { holders: AtomicUsize::new(1), kind: UnsafeCell::new(Kind::Own) };

/// Null: nothing is known.
type Slot = AtomicPtr<Entry>;

/// The kinds of all descriptors below 2^20; higher ones are passed untouched.
pub(crate) struct Table {
    pages: Box<[OnceLock<Box<[Slot]>>]>,
    free: Mutex<Vec<&'static Entry>>,
}

impl Table {
    pub(crate) fn new() -> Self {
        Self { pages: (0..PAGES).map(|_| OnceLock::new()).collect(), free: Mutex::default() }
    }

    /// The entry of a descriptor.
    pub(crate) fn get(&self, fd: c_int) -> Kind {
        let Some((page, at)) = place(fd) else { return Kind::Other };
        self.pages[page].get().map_or(Kind::Unknown, |slots| self.look(&slots[at]))
    }

    fn look(&self, slot: &Slot) -> Kind {
        loop {
            let seen = slot.load(Ordering::Acquire);
            // SAFETY: entries are never freed.
            let Some(entry) = (unsafe { seen.as_ref() }) else { return Kind::Unknown };
            let one_more = |holders| (holders > 0).then_some(holders + 1);
            if entry.holders.fetch_update(Ordering::Acquire, Ordering::Relaxed, one_more).is_err() {
                continue;
            }
            // It may have been replaced, and used for another descriptor, before it was held.
            // SAFETY: what is held is not changed.
            let kind = (slot.load(Ordering::Acquire) == seen).then(|| unsafe { (*entry.kind.get()).clone() });
            self.release(entry);
            if let Some(kind) = kind {
                return kind;
            }
        }
    }

    /// One holder less; the last frees the entry.
    fn release(&self, entry: &'static Entry) {
        if entry.holders.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        let _inside = Inside::enter();
        // SAFETY: it has no holder, and can get none.
        drop(unsafe { mem::take(&mut *entry.kind.get()) });
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
    }

    /// An entry, held by the slot that it is made for.
    fn make(&self, kind: Kind) -> *mut Entry {
        let entry: &Entry = match kind {
            Kind::Unknown => return ptr::null_mut(),
            Kind::Other => &OTHER,
            Kind::Own => &OWN,
            Kind::Tcp(_) | Kind::Set(_) => {
                let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
                let entry = free.unwrap_or_else(|| {
                    Box::leak(Box::new(Entry { holders: AtomicUsize::new(0), kind: UnsafeCell::default() }))
                });
                // SAFETY: it has no holder, and can get none.
                unsafe { *entry.kind.get() = kind };
                entry
            }
        };
        entry.holders.fetch_add(1, Ordering::Release);
        ptr::from_ref(entry).cast_mut()
    }

    /// Replaces an entry; answers the one before.
    pub(crate) fn set(&self, fd: c_int, kind: Kind) -> Kind {
        let _inside = Inside::enter();
        let Some((page, at)) = place(fd) else { return Kind::Other };
        let slots = self.pages[page].get_or_init(|| (0..PAGE).map(|_| Slot::default()).collect());
        let before = slots[at].swap(self.make(kind), Ordering::AcqRel);
        // SAFETY: entries are never freed, and the slot has held it, as we do now.
        let Some(before) = (unsafe { before.as_ref() }) else { return Kind::Unknown };
        // SAFETY: what is held is not changed.
        let kind = unsafe { (*before.kind.get()).clone() };
        self.release(before);
        kind
    }

    /// Forgets a descriptor; answers what was known.
    pub(crate) fn take(&self, fd: c_int) -> Kind {
        let known = place(fd).is_some_and(|(page, _)| self.pages[page].get().is_some());
        if known { self.set(fd, Kind::Unknown) } else { Kind::Unknown }
    }

    /// Everything known between two descriptors, both included.
    pub(crate) fn known(&self, first: c_int, last: c_int) -> Vec<(c_int, Kind)> {
        let mut known = Vec::new();
        let (first, last) = (first.max(0) as usize, last.max(0) as usize);
        for (page, slots) in self.pages.iter().enumerate().skip(first / PAGE) {
            if page * PAGE > last {
                break;
            }
            for (at, slot) in slots.get().into_iter().flatten().enumerate() {
                let fd = page * PAGE + at;
                if !(first..=last).contains(&fd) {
                    continue;
                }
                match self.look(slot) {
                    Kind::Unknown => {}
                    kind => known.push((fd as c_int, kind)),
                }
            }
        }
        known
    }
}

/// Page and place of a descriptor.
fn place(fd: c_int) -> Option<(usize, usize)> {
    let fd = usize::try_from(fd).ok()?;
    (fd < PAGE * PAGES).then_some((fd / PAGE, fd % PAGE))
}
