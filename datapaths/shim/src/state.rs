//! What this library knows in a process: its configuration, the descriptors, the engine. A forked child starts with its own
//! ([`fork`]); what a descriptor means to a call, and where the bytes go that are written to it, is in [`routing`].

pub(crate) mod fork;
mod routing;

use std::ffi::c_int;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use paceline_alcc::export::Export;
use paceline_alcc::{Engine, Hooks, Mode, Options, Socket};

use crate::ask;
use crate::config::Config;
use crate::conn::{Conn, Via};
use crate::end;
use crate::inside;
use crate::next;
use crate::notice::{self, Notice};
use crate::own;
use crate::stack;
use crate::table::{Kind, Table};

pub(crate) use routing::Route;

/// What this library knows in a process.
pub(crate) struct State {
    pub(crate) config: Config,
    pub(crate) table: Table,
    pub(crate) process: libc::pid_t,
    engine: Mutex<Option<Running>>,
    /// The program can write to any socket past this library: new ones are served inline.
    bypassed: AtomicBool,
    /// The program is ending: no thread will be there to send later.
    pub(crate) ending: AtomicBool,
    said: AtomicU32,
    passed: AtomicU64,
}

/// A started engine, and what lets others see it.
struct Running {
    engine: Arc<Engine>,
    export: Option<Export>,
}

static STATE: AtomicPtr<State> = AtomicPtr::new(ptr::null_mut());
/// The state, for a call of the application; `None` in our own code and before we are set up.
pub(crate) fn get() -> Option<&'static State> {
    if inside::inside() {
        return None;
    }
    let state = any()?;
    if fork::is_copy() {
        stack::apart(fork::begin_child);
        return any();
    }
    Some(state)
}

/// As [`get`], for calls that change what a descriptor means. `None` also in a child that shares our memory but not our
/// descriptors, as `vfork` and `posix_spawn` make it.
pub(crate) fn own() -> Option<&'static State> {
    get().filter(|state| state.is_of_this_process())
}

/// The state, wherever we are.
pub(crate) fn any() -> Option<&'static State> {
    // SAFETY: null, or a value that is never freed.
    unsafe { STATE.load(Ordering::Acquire).as_ref() }
}

/// Sets this library up.
pub(crate) fn begin(config: Config) {
    // SAFETY: nothing is allocated by another thread yet. First, so that its handlers run innermost.
    unsafe { dlmalloc::enable_alloc_after_fork() };
    install(State::new(config, Table::new()));
    fork::watch();
}

fn install(state: State) {
    // What was there stays where it is: other threads may look at it, and a child must not touch what it copied.
    STATE.store(Box::into_raw(Box::new(state)), Ordering::Release);
}

impl State {
    fn new(config: Config, table: Table) -> Self {
        Self {
            config,
            table,
            // SAFETY: always succeeds.
            process: unsafe { libc::getpid() },
            engine: Mutex::default(),
            bypassed: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            said: AtomicU32::new(0),
            passed: AtomicU64::new(0),
        }
    }

    /// Not one that shares our memory alone.
    pub(crate) fn is_of_this_process(&self) -> bool {
        // SAFETY: always succeeds.
        self.process == unsafe { libc::getpid() }
    }

    /// The engine, started at the first socket.
    pub(crate) fn engine(&self) -> io::Result<Arc<Engine>> {
        let mut running = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = &*running {
            return Ok(running.engine.clone());
        }
        paceline_alcc::descriptors::made_by(own::duplicate);
        let hooks = Hooks { enter: inside::stay, bypassed };
        let mode = if self.config.queues() { Mode::Queue } else { Mode::Inline };
        let engine = Engine::start_with(Options { mode, ..self.config.options.clone() }, hooks)?;
        let export = Export::of(&engine, &self.config.settings, inside::stay_apart);
        let mut export = export.map_err(|error| self.note(&Notice::Export(error))).ok();
        if let Some(why) = export.as_mut().and_then(Export::hidden) {
            self.note(&Notice::Export(why));
        }
        inside::started(1 + usize::from(export.is_some()));
        *running = Some(Running { engine: engine.clone(), export });
        end::threads_began();
        Ok(engine)
    }

    /// Starts the engine if a socket is there that it will be wanted for. Where it fails, so it will at the first write.
    pub(crate) fn start_early(&self) {
        let wanted = |fd: c_int, conn: &Conn| {
            conn.via() == Via::Undecided
                && ask::can_send(fd)
                && ask::ends(fd).is_some_and(|(local, peer)| self.config.filter.takes(local, peer))
        };
        let known = self.table.known(0, c_int::MAX).into_iter();
        if known.into_iter().any(|(fd, kind)| matches!(kind, Kind::Tcp(conn) if wanted(fd, &conn))) {
            let _ = self.engine();
        }
    }

    /// Whether threads of ours run.
    pub(crate) fn has_threads(&self) -> bool {
        self.running().is_some()
    }

    /// The engine if it was started.
    fn running(&self) -> Option<Arc<Engine>> {
        let running = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        running.as_ref().map(|running| running.engine.clone())
    }

    /// From now on any socket may be written past this library.
    pub(crate) fn bypassed(&self) {
        self.bypassed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_bypassed(&self) -> bool {
        self.bypassed.load(Ordering::Relaxed)
    }

    /// A socket is left to the kernel: counted, and said once for each reason.
    pub(crate) fn passed(&self, why: &Notice) {
        self.passed.fetch_add(1, Ordering::Relaxed);
        self.note(why);
    }

    /// Says something once.
    pub(crate) fn note(&self, what: &Notice) {
        let bit = what.bit();
        if self.said.fetch_or(bit, Ordering::Relaxed) & bit == 0 && !self.config.quiet {
            notice::say(&what.to_string(), self.config.log.as_deref());
        }
    }

    /// How many sockets were left to the kernel, said at the end if it was more than the one already reported.
    pub(crate) fn sum_up(&self) {
        let passed = self.passed.load(Ordering::Relaxed);
        if passed > 1 && !self.config.quiet {
            notice::say(&format!("{passed} sockets were left to the kernel"), self.config.log.as_deref());
        }
    }

    /// Sends what all sockets have queued, at most as long as lingering may take; what the kernel then has leaves at its own pace. For the
    /// end of the program and for exec.
    pub(crate) fn finish(&self) {
        if let Some(engine) = self.running() {
            engine.drain(self.config.options.linger);
            engine.let_go();
        }
    }

    /// No process may look at this process any more.
    pub(crate) fn hide(&self) {
        let mut running = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        drop(running.as_mut().and_then(|running| running.export.take()));
    }

    /// The program is going to forbid itself system calls, and ours may be among them: all goes to the kernel from now on, as if we
    /// were not there.
    pub(crate) fn seal(&self) {
        let known = self.table.known(0, c_int::MAX);
        if known.iter().any(|(_, kind)| matches!(kind, Kind::Tcp(conn) if conn.via() != Via::Kernel)) {
            self.note(&Notice::Filter);
        }
        self.let_go(&known);
        STATE.store(ptr::null_mut(), Ordering::Release);
    }

    /// The program is going to do what a process with threads may not, or what would make ours unlike its own: they end. The
    /// connections that they served are the kernel's, and later ones get new threads.
    pub(crate) fn begin_anew(&self) {
        if !self.has_threads() {
            return;
        }
        let known = self.table.known(0, c_int::MAX);
        if known.iter().any(|(_, kind)| matches!(kind, Kind::Tcp(conn) if conn.socket().is_some())) {
            self.note(&Notice::Rights);
        }
        self.let_go(&known);
        inside::forget_threads();
        let table = Table::new();
        for (fd, kind) in known {
            match kind {
                Kind::Tcp(conn) => drop(table.set(fd, Kind::Tcp(conn.left_to_kernel()))),
                Kind::Other => drop(table.set(fd, Kind::Other)),
                Kind::Own | Kind::Set(_) | Kind::Unknown => {}
            }
        }
        let state = Self::new(self.config.clone(), table);
        state.said.store(self.said.load(Ordering::Relaxed), Ordering::Relaxed);
        install(state);
    }

    /// Gives all connections to the kernel, with what is queued, ends our threads, and closes each descriptor of ours once. Nothing
    /// of ours is freed: other threads may be in a hook.
    fn let_go(&self, known: &[(c_int, Kind)]) {
        self.hide();
        let conns = known.iter().filter_map(|(fd, kind)| match kind {
            Kind::Tcp(conn) => Some((*fd, conn)),
            _ => None,
        });
        for (fd, conn) in conns.clone() {
            conn.hand_over(fd, self.config.options.linger);
            conn.let_go(fd);
        }
        for socket in conns.filter_map(|(_, conn)| conn.socket()) {
            socket.close(Duration::ZERO);
        }
        self.engine.lock().unwrap_or_else(PoisonError::into_inner).take();
        inside::await_threads();
        for (fd, _) in known.iter().filter(|(_, kind)| matches!(kind, Kind::Own)) {
            next::close(*fd);
        }
    }

    /// Another program is to take this one's place.
    pub(crate) fn before_exec(&self) {
        self.finish();
        for (fd, kind) in self.table.known(0, c_int::MAX) {
            if let Kind::Tcp(conn) = kind {
                conn.before_exec(fd, self.config.options.linger);
            }
        }
    }

    /// Sockets whose queues hold something.
    fn busy(&self) -> Vec<Arc<Socket>> {
        let known = self.table.known(0, c_int::MAX).into_iter();
        known
            .filter_map(|(_, kind)| match kind {
                Kind::Tcp(conn) => conn.socket().filter(|socket| socket.queued() > 0).cloned(),
                _ => None,
            })
            .collect()
    }
}

/// Bytes of a connection got to the kernel past its queue.
fn bypassed() {
    if let Some(state) = any() {
        state.note(&Notice::Bypassed);
    }
}
