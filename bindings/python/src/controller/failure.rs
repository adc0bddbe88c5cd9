//! What went wrong in a controller in Python: a controller's calls have no errors to answer, so it is kept for the one that runs the
//! world. In the simulator controllers are called on the thread that runs the world; in real time on threads of their own, and then
//! what is kept belongs to a [`Scope`]. A task of the runner ends at once ([`runner::Fault`]).

use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use paceline_lab::runner;
use pyo3::exceptions::PyRuntimeError;
use pyo3::{PyErr, Python};

/// In real time a call that takes longer ends its run. 3 s: three times the first retransmission timeout (RFC 6298 section 2.1), so that
/// the flow has stood still, and longer than a busy host keeps a thread waiting (our choice).
pub(crate) const LONGEST: Duration = Duration::from_secs(3);

thread_local! {
    static HERE: RefCell<Here> = const { RefCell::new(Here::Elsewhere) };
}

/// The race in real time of this process, of which there is one at a time.
static RACE: Mutex<Option<Arc<Scope>>> = Mutex::new(None);

/// Where what a controller of this thread does wrong is kept.
enum Here {
    /// With the race in real time.
    Elsewhere,
    /// Here: this thread runs worlds of the simulator.
    Simulated(Option<Fault>),
    /// With this run in real time.
    Live(Arc<Scope>),
}

/// What went wrong.
#[derive(Debug)]
pub(crate) struct Fault {
    /// One line: controller, class, method, place.
    pub(crate) what: String,
    /// What was raised, if anything was.
    pub(crate) exception: Option<PyErr>,
}

impl Fault {
    /// As an error in Python.
    pub(crate) fn raised(self, py: Python<'_>) -> PyErr {
        let error = PyRuntimeError::new_err(self.what);
        error.set_cause(py, self.exception);
        error
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// A run in real time.
#[derive(Default)]
pub(crate) struct Scope {
    first: Mutex<Option<Fault>>,
    calls: Mutex<Vec<Arc<Call>>>,
    /// The run ends when this is set.
    pub(crate) stop: Arc<AtomicBool>,
}

/// The calls into Python of one controller.
pub(crate) struct Call {
    /// The controller and its class.
    who: String,
    busy: Mutex<Option<Busy>>,
}

/// A call that has not returned.
#[derive(Clone, Copy)]
pub(crate) struct Busy {
    method: &'static str,
    since: Instant,
    /// The thread, as Python numbers it.
    pub(crate) thread: u64,
    /// An exception was raised in it.
    interrupted: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Scope {
    /// The first fault.
    pub(crate) fn take(&self) -> Option<Fault> {
        lock(&self.first).take()
    }

    fn put(&self, fault: Fault) {
        lock(&self.first).get_or_insert(fault);
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Calls that take too long; each once. One that goes on for as long again, in spite of the exception that was raised in it, is
    /// given up: its thread is left to itself, and the run ends without it.
    pub(crate) fn overdue(&self) -> Vec<Busy> {
        let mut overdue = Vec::new();
        for call in lock(&self.calls).iter() {
            let Some(busy) = &mut *lock(&call.busy) else { continue };
            let spent = busy.since.elapsed();
            if spent >= 2 * LONGEST {
                let what = slow(&call.who, busy.method, spent, "and has not returned");
                self.put(Fault { what, exception: None });
            } else if spent >= LONGEST && !busy.interrupted {
                busy.interrupted = true;
                overdue.push(*busy);
            }
        }
        overdue
    }

    /// Whether a call was given up.
    pub(crate) fn is_stuck(&self) -> bool {
        let stuck = |busy: &Busy| busy.since.elapsed() >= 2 * LONGEST;
        lock(&self.calls).iter().any(|call| lock(&call.busy).as_ref().is_some_and(stuck))
    }
}

/// One line.
fn slow(who: &str, method: &str, spent: Duration, more: &str) -> String {
    let (spent, most) = (spent.as_secs_f64(), LONGEST.as_secs());
    format!(
        "{who}.{method} took {spent:.1} s {more}: in real time a call may take {most} s, and the flow stands still meanwhile"
    )
}

impl Call {
    /// Of a controller that this thread makes; nothing in the simulator, where time waits.
    pub(crate) fn new(who: impl FnOnce() -> String) -> Option<Arc<Self>> {
        let scope = HERE.with_borrow(|here| match here {
            Here::Simulated(_) => None,
            Here::Live(scope) => Some(scope.clone()),
            Here::Elsewhere => lock(&RACE).clone(),
        })?;
        let call = Arc::new(Self { who: who(), busy: Mutex::default() });
        lock(&scope.calls).push(call.clone());
        Some(call)
    }

    /// The controller is in Python from now on.
    pub(crate) fn begin(&self, method: &'static str, thread: u64) {
        *lock(&self.busy) = Some(Busy { method, since: Instant::now(), thread, interrupted: false });
    }

    /// It has returned; what is wrong if that took too long, with the place of the method.
    pub(crate) fn end(&self, place: impl FnOnce() -> String) -> Option<String> {
        let busy = lock(&self.busy).take()?;
        let spent = busy.since.elapsed();
        (spent >= LONGEST).then(|| slow(&self.who, busy.method, spent, &format!("({})", place())))
    }
}

/// A race in real time, until it is dropped.
pub(crate) struct Racing(pub(crate) Arc<Scope>);

impl Racing {
    /// Begins one; nothing when one is under way.
    pub(crate) fn begin() -> Option<Self> {
        let mut race = lock(&RACE);
        if race.is_some() {
            return None;
        }
        let scope = Arc::<Scope>::default();
        *race = Some(scope.clone());
        Some(Self(scope))
    }

    /// The one that is under way.
    pub(crate) fn current() -> Option<Arc<Scope>> {
        lock(&RACE).clone()
    }
}

impl Drop for Racing {
    fn drop(&mut self) {
        *lock(&RACE) = None;
    }
}

/// This thread runs one flow in real time.
pub(crate) fn live(scope: Arc<Scope>) {
    HERE.set(Here::Live(scope));
}

/// This thread runs a world of the simulator from its beginning.
pub(crate) fn clear() {
    HERE.set(Here::Simulated(None));
}

/// Does something with a controller on this thread; the first fault instead.
pub(crate) fn alone<T>(work: impl FnOnce() -> T) -> Result<T, Fault> {
    let before = HERE.replace(Here::Simulated(None));
    let done = work();
    let fault = take();
    HERE.set(before);
    fault.map_or(Ok(done), Err)
}

/// The first fault since.
pub(crate) fn take() -> Option<Fault> {
    HERE.with_borrow_mut(|here| if let Here::Simulated(fault) = here { fault.take() } else { None })
}

/// A controller of this thread is wrong.
pub(crate) fn put(fault: Fault) {
    HERE.with_borrow_mut(|here| match here {
        Here::Simulated(first) => drop(first.get_or_insert(fault)),
        Here::Live(scope) => scope.put(fault),
        Here::Elsewhere => match lock(&RACE).clone() {
            Some(scope) => scope.put(fault),
            // A thread of the runner, which runs the tasks of an evaluation or of a sweep: no one else asks.
            None => runner::Fault(fault.what).end_the_task(),
        },
    });
}
