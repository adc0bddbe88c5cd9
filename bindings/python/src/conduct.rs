//! Work on threads of its own, while the interpreter goes on, is informed how far it is, and can stop it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use paceline_cc::foreign::printable;
use paceline_lab::runner::{Batch, Progress};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// How often Ctrl-C is looked for. 50 ms: shorter than a person notices (our choice).
const SIGNALS: Duration = Duration::from_millis(50);

/// How often a watcher is called while nothing is new. 1 s: in real time a run takes its time (our choice).
const AGAIN: Duration = Duration::from_secs(1);

/// Characters of a line of a command that are shown (our choice).
const LONGEST: usize = 500;

/// How far a list of runs is, and whether it is to end.
#[derive(Default)]
pub(crate) struct Course {
    due: AtomicUsize,
    ended: AtomicUsize,
    /// No further run is begun when this is set.
    pub(crate) stop: AtomicBool,
}

impl Progress for Course {
    fn command(&self, line: &str) {
        // A line of a script is not to pass for a command of its own.
        let lines: Vec<String> = line.lines().map(|line| printable(line, LONGEST)).collect();
        let text = lines.join("\n  | ") + "\n";
        // Who has closed it does not read it.
        let _ = Python::attach(|py| py.import("sys")?.getattr("stderr")?.call_method1("write", (text,)).map(drop));
    }

    fn begin(&self, batch: &Batch) {
        self.due.fetch_add(batch.tasks, Ordering::Relaxed);
    }

    fn ended(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl Course {
    /// Works on another thread, while this one waits for it and for signals. `watch` is called in Python with the runs that are over and
    /// how many there are, when there is something new and every second; `look` at each turn, with whether it is to end.
    pub(crate) fn conduct<T: Send>(
        &self,
        py: Python<'_>,
        watch: Option<&Bound<'_, PyAny>>,
        look: impl Fn(bool) -> PyResult<()>,
        work: impl FnOnce() -> T + Send,
    ) -> PyResult<T> {
        thread::scope(|scope| {
            let (done, ended) = channel();
            scope.spawn(move || done.send(work()));
            let mut interrupt = None;
            let mut told: Option<((usize, usize), Instant)> = None;
            let mut tell = || -> PyResult<()> {
                let now = (self.ended.load(Ordering::Relaxed), self.due.load(Ordering::Relaxed));
                let known = told.is_some_and(|(told, when)| told == now && when.elapsed() < AGAIN);
                if let Some(watch) = watch.filter(|_| now.1 > 0 && !known) {
                    told = Some((now, Instant::now()));
                    watch.call1(now)?;
                }
                py.check_signals()
            };
            let mut turn = || {
                if interrupt.is_none()
                    && let Err(signal) = tell()
                {
                    self.stop.store(true, Ordering::Relaxed);
                    interrupt = Some(signal);
                }
                look(interrupt.is_some()).map(|()| true)
            };
            let outcome = wait(py, ended, &mut turn)?;
            turn()?;
            let all = outcome.ok_or_else(|| mistake("the runner ended without a result"))?;
            interrupt.map_or(Ok(all), Err)
        })
    }
}

/// Waits, without the interpreter's lock, for what another thread sends. While nothing comes `turn` is called, until it does not want to
/// wait any more; `None` then, and where the thread has ended without a word.
pub(crate) fn wait<T: Send>(
    py: Python<'_>,
    ended: Receiver<T>,
    turn: &mut dyn FnMut() -> PyResult<bool>,
) -> PyResult<Option<T>> {
    let ended = Mutex::new(ended);
    let wait = || ended.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(SIGNALS);
    loop {
        match py.detach(wait) {
            Ok(sent) => return Ok(Some(sent)),
            Err(RecvTimeoutError::Timeout) if turn()? => {}
            Err(_) => return Ok(None),
        }
    }
}

/// The error of what cannot happen.
pub(crate) fn mistake(what: &str) -> PyErr {
    PyRuntimeError::new_err(format!("a mistake in paceline: {what}; please report it"))
}
