//! What happens at a `fork`: the parent's queues go on in the parent, and the child starts with a state of its own.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::{State, any, get, install};
use crate::conn::Conn;
use crate::end;
use crate::inside::{self, Inside};
use crate::next;
use crate::own;
use crate::pending::{Fork, Pending};
use crate::set::Set;
use crate::stack;
use crate::table::{Kind, Table};

/// A page that the kernel empties in every child that gets a copy of this process, `fork` handlers or not.
static MARK: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
static FORK: Mutex<Option<Fork>> = Mutex::new(None);

/// From now on forks are seen, by whatever call they are made.
pub(super) fn watch() {
    mark();
    // SAFETY: the handlers are functions of this library, which is never unloaded.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(after_fork_in_child)) };
}

/// Makes the page that distinguishes a copy of the process from the process.
fn mark() {
    // SAFETY: asks for a page anywhere.
    let page = unsafe {
        libc::mmap(
            ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    // SAFETY: the page has just been mapped.
    if page != libc::MAP_FAILED && unsafe { libc::madvise(page, 4096, libc::MADV_WIPEONFORK) } == 0 {
        // SAFETY: as above.
        unsafe { page.cast::<u8>().write_volatile(1) };
        MARK.store(page.cast(), Ordering::Relaxed);
    }
}

/// This process is a copy that does not know it yet.
pub(super) fn is_copy() -> bool {
    let mark = MARK.load(Ordering::Relaxed);
    // SAFETY: the page is never unmapped.
    !mark.is_null() && unsafe { mark.read_volatile() } == 0
}

pub(crate) extern "C" fn before_fork() {
    let Some(state) = get() else { return };
    let _inside = Inside::enter();
    if state.running().is_none() {
        return;
    }
    if let Ok(fork) = Fork::prepare(state.busy()) {
        *FORK.lock().unwrap_or_else(PoisonError::into_inner) = fork;
    }
    own::before_fork();
}

pub(crate) extern "C" fn after_fork() {
    let Some(state) = get() else { return };
    let _inside = Inside::enter();
    own::after_fork();
    if let Some(fork) = FORK.lock().unwrap_or_else(PoisonError::into_inner).take() {
        fork.parent(state.config.options.linger);
    }
}

extern "C" fn after_fork_in_child() {
    {
        let _inside = Inside::enter();
        own::after_fork();
    }
    stack::apart(begin_child);
}

/// Starts again in a copy of the process: the parent's engine is the parent's.
pub(super) fn begin_child() {
    let mark = MARK.load(Ordering::Relaxed);
    let Some(old) = any() else { return };
    if !is_copy() {
        return;
    }
    // SAFETY: the page is never unmapped.
    unsafe { mark.write_volatile(1) };
    inside::forget_threads();
    end::goes_on();
    let pending = FORK.try_lock().ok().and_then(|mut fork| fork.take()).map(Fork::child);
    let known = old.table.known(0, c_int::MAX);
    let table = Table::new();
    adopt_table(&known, &table, pending.as_ref(), old.config.queues());
    // Made by `CLONE_FILES` of clone(2): what is closed here is closed there.
    let shared = known.iter().any(|(_, kind)| matches!(kind, Kind::Own)) && inside::shares_descriptors(old.process);
    for (fd, kind) in known {
        if matches!(kind, Kind::Own) && !shared && pending.as_ref().is_none_or(|pending| pending.number() != fd) {
            next::close(fd);
        }
        // Nothing of the parent's is to be dropped here.
        std::mem::forget(kind);
    }
    install(State::new(old.config.clone(), table));
}

/// What of a parent's table holds in its child.
fn adopt_table(known: &[(c_int, Kind)], table: &Table, pending: Option<&Arc<Pending>>, queues: bool) {
    let mut twins: BTreeMap<*const Conn, Arc<Conn>> = BTreeMap::new();
    for (fd, kind) in known {
        match kind {
            Kind::Tcp(conn) => {
                let twin = twins.entry(Arc::as_ptr(conn)).or_insert_with(|| conn.in_child(pending));
                table.set(*fd, Kind::Tcp(twin.clone()));
            }
            Kind::Other => {
                table.set(*fd, Kind::Other);
            }
            Kind::Own | Kind::Set(_) | Kind::Unknown => {}
        }
    }
    for (fd, kind) in known {
        if let Kind::Set(theirs) = kind {
            let set = Set::new(*fd, queues);
            set.inherit(theirs, |fd| match table.get(fd) {
                Kind::Tcp(conn) => Some(conn),
                _ => None,
            });
            table.set(*fd, Kind::Set(set));
        }
    }
    if let Some(pending) = pending {
        table.set(pending.number(), Kind::Own);
    }
}
