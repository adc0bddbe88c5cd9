//! What the process has: its options, its engine, its connections by descriptor.
//!
//! A child process begins anew: threads do not survive fork(2), and locks may be held by one that is gone. It keeps the options
//! and the connections that its parent had accepted or opened and not taken on.

use std::collections::HashMap;
use std::ffi::c_int;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, Once, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use paceline_alcc::{Engine, Options, Socket};

use crate::options;
use crate::outcome::{Failure, Outcome, of};
use crate::send::option;

/// A descriptor of this library's.
#[derive(Clone)]
enum Entry {
    /// Accepted, or connecting; not taken on yet.
    Noted,
    Served(Arc<Socket>),
}

pub(crate) struct State {
    process: u32,
    configured: Mutex<Option<Options>>,
    engine: OnceLock<Arc<Engine>>,
    table: RwLock<HashMap<c_int, Entry>>,
}

static STATE: AtomicPtr<State> = AtomicPtr::new(std::ptr::null_mut());

/// This process's.
pub(crate) fn state() -> &'static State {
    let process = std::process::id();
    loop {
        let present = STATE.load(Ordering::Acquire);
        // SAFETY: it is null or came from a box that is never freed.
        let known = unsafe { present.as_ref() };
        if let Some(state) = known.filter(|state| state.process == process) {
            return state;
        }
        let new = Box::into_raw(Box::new(State::after(known, process)));
        if STATE.compare_exchange(present, new, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: no other thread has seen it.
            drop(unsafe { Box::from_raw(new) });
        }
    }
}

impl State {
    /// The state of a process, whose parent's was `parent`. What a lock is held on is lost: its holder is gone.
    fn after(parent: Option<&Self>, process: u32) -> Self {
        let configured = parent.and_then(|parent| parent.configured.try_lock().ok()?.clone());
        let noted = parent.and_then(|parent| {
            let table = parent.table.try_read().ok()?;
            let noted = table.iter().filter(|(_, entry)| matches!(entry, Entry::Noted));
            Some(noted.map(|(fd, _)| (*fd, Entry::Noted)).collect())
        });
        Self {
            process,
            configured: Mutex::new(configured),
            engine: OnceLock::new(),
            table: RwLock::new(noted.unwrap_or_default()),
        }
    }

    /// Sets the options.
    pub(crate) fn configure(&self, text: &str) -> Outcome<()> {
        let mut configured = self.configured.lock().unwrap_or_else(PoisonError::into_inner);
        if self.engine.get().is_some() {
            return Err(Failure::told(libc::EBUSY, "options: there are connections already; set them before"));
        }
        *configured = Some(read(text)?);
        Ok(())
    }

    /// The engine, started when it is wanted first.
    pub(crate) fn engine(&self) -> Outcome<&Arc<Engine>> {
        if let Some(engine) = self.engine.get() {
            return Ok(engine);
        }
        let mut configured = self.configured.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(engine) = self.engine.get() {
            return Ok(engine);
        }
        let options = match configured.clone() {
            Some(options) => options,
            None => configured.insert(read("")?).clone(),
        };
        let engine = Engine::start(options)?;
        at_exit();
        Ok(self.engine.get_or_init(|| engine))
    }

    /// How long a connection may linger.
    pub(crate) fn linger(&self) -> Duration {
        self.engine.get().map_or(Duration::ZERO, |engine| engine.options().linger)
    }

    /// Notes a connection to be taken on, if it is one of TCP.
    pub(crate) fn note(&self, fd: c_int) {
        let mut protocol: c_int = 0;
        let is_tcp = option(fd, libc::SO_PROTOCOL, &mut protocol).is_ok() && protocol == libc::IPPROTO_TCP;
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        // One that was closed without this library had the number before.
        let stale = if is_tcp { table.insert(fd, Entry::Noted) } else { table.remove(&fd) };
        drop(table);
        self.let_go(stale);
    }

    /// Whether a connection waits to be taken on.
    pub(crate) fn is_noted(&self, fd: c_int) -> bool {
        matches!(self.entry(fd), Some(Entry::Noted))
    }

    /// A connection that has been taken on.
    pub(crate) fn served(&self, fd: c_int) -> Option<Arc<Socket>> {
        match self.entry(fd)? {
            Entry::Noted => None,
            Entry::Served(socket) => Some(socket),
        }
    }

    /// A connection, taken on now if it was not before; `None` when it is left to the system call, or is not established
    /// yet.
    pub(crate) fn serve(&self, fd: c_int) -> Outcome<Option<Arc<Socket>>> {
        match self.entry(fd) {
            None => return Ok(None),
            Some(Entry::Served(socket)) => return Ok(Some(socket)),
            Some(Entry::Noted) => {}
        }
        let engine = self.engine()?;
        // Two threads may come at once: one of them takes it on.
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        match table.get(&fd) {
            None => return Ok(None),
            Some(Entry::Served(socket)) => return Ok(Some(Arc::clone(socket))),
            Some(Entry::Noted) => {}
        }
        // SAFETY: it takes no pointers.
        let copy = of(unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) })?;
        // SAFETY: the descriptor is new and has no other owner.
        let copy = unsafe { OwnedFd::from_raw_fd(copy) };
        match engine.adopt(copy).map_err(Failure::from) {
            Ok(socket) => {
                table.insert(fd, Entry::Served(Arc::clone(&socket)));
                Ok(Some(socket))
            }
            Err(Failure { errno: libc::ENOTCONN, .. }) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Takes a descriptor out; what was taken on is the caller's to let go.
    pub(crate) fn forget(&self, fd: c_int) -> Option<Arc<Socket>> {
        match self.table.write().unwrap_or_else(PoisonError::into_inner).remove(&fd)? {
            Entry::Noted => None,
            Entry::Served(socket) => Some(socket),
        }
    }

    fn entry(&self, fd: c_int) -> Option<Entry> {
        self.table.read().unwrap_or_else(PoisonError::into_inner).get(&fd).cloned()
    }

    fn let_go(&self, entry: Option<Entry>) {
        if let Some(Entry::Served(socket)) = entry {
            socket.close(self.linger());
        }
    }
}

fn read(text: &str) -> Outcome<Options> {
    options::read(text, |name| std::env::var(name).ok()).map_err(|error| Failure::told(libc::EINVAL, error.to_string()))
}

/// What is in the queues when the program ends still leaves.
fn at_exit() {
    static ONCE: Once = Once::new();
    extern "C" fn drain() {
        if let Some(engine) = state().engine.get() {
            engine.drain(state().linger());
        }
    }
    // SAFETY: the function stays where it is: a library with threads is never unloaded.
    ONCE.call_once(|| unsafe {
        libc::atexit(drain);
    });
}
