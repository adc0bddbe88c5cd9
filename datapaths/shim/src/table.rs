//! What is known of each descriptor of the application.
//!
//! A descriptor costs nothing until it is first asked about; most are then found to be something else than TCP and that is
//! remembered until they are closed. Descriptors that are closed behind our back (a system call without the C library) may
//! leave a wrong entry, so bytes go to a queue only after the socket's cookie was compared.

use std::ffi::c_int;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use crate::conn::Conn;
use crate::set::Set;

const PAGE: usize = 1024;
const PAGES: usize = 1024;

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

type Slot = RwLock<Kind>;

/// The kinds of all descriptors below 2^20; higher ones are passed untouched.
pub(crate) struct Table {
    pages: [OnceLock<Box<[Slot]>>; PAGES],
}

impl Table {
    pub(crate) fn new() -> Self {
        Self { pages: [const { OnceLock::new() }; PAGES] }
    }

    /// The entry of a descriptor.
    pub(crate) fn get(&self, fd: c_int) -> Kind {
        let Some((page, at)) = place(fd) else { return Kind::Other };
        self.pages[page]
            .get()
            .map_or(Kind::Unknown, |slots| slots[at].read().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Replaces an entry; answers the one before.
    pub(crate) fn set(&self, fd: c_int, kind: Kind) -> Kind {
        let Some((page, at)) = place(fd) else { return Kind::Other };
        let slots = self.pages[page].get_or_init(|| (0..PAGE).map(|_| Slot::default()).collect());
        std::mem::replace(&mut *slots[at].write().unwrap_or_else(PoisonError::into_inner), kind)
    }

    /// Forgets a descriptor; answers what was known.
    pub(crate) fn take(&self, fd: c_int) -> Kind {
        let known = place(fd).is_some_and(|(page, _)| self.pages[page].get().is_some());
        if known { self.set(fd, Kind::Unknown) } else { Kind::Unknown }
    }

    /// Everything known between two descriptors, both included. Entries that another thread is changing are left out.
    pub(crate) fn known(&self, first: c_int, last: c_int) -> Vec<(c_int, Kind)> {
        let mut known = Vec::new();
        let (first, last) = (first.max(0) as usize, last.max(0) as usize);
        for (page, slots) in self.pages.iter().enumerate().skip(first / PAGE) {
            if page * PAGE > last {
                break;
            }
            for (at, slot) in slots.get().into_iter().flatten().enumerate() {
                let fd = page * PAGE + at;
                let Ok(kind) = slot.try_read() else { continue };
                if (first..=last).contains(&fd) && !matches!(*kind, Kind::Unknown) {
                    known.push((fd as c_int, kind.clone()));
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
