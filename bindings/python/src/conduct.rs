//! Work on threads of its own, while the interpreter goes on, is informed how far it is, and can stop it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use paceline_lab::runner::{Batch, Progress};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// How often Ctrl-C is looked for. 50 ms: shorter than a person notices (our choice).
pub(crate) const SIGNALS: Duration = Duration::from_millis(50);

/// How often someone who watches is told that it goes on. 1 s: in real time a run takes its time (our choice).
const AGAIN: Duration = Duration::from_secs(1);

/// How far a list of runs is, and whether it is to end.
#[derive(Default)]
pub(crate) struct Course {
    due: AtomicUsize,
    ended: AtomicUsize,
    /// No further run is begun when this is set.
    pub(crate) stop: AtomicBool,
}

impl Progress for Course {
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
            let ended = Mutex::new(ended);
            let mut interrupt = None;
            let mut told: Option<((usize, usize), Instant)> = None;
            loop {
                let wait = || ended.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(SIGNALS);
                let outcome = py.detach(wait);
                let mut turn = || -> PyResult<()> {
                    let now = (self.ended.load(Ordering::Relaxed), self.due.load(Ordering::Relaxed));
                    let known = told.is_some_and(|(told, when)| told == now && when.elapsed() < AGAIN);
                    if let Some(watch) = watch.filter(|_| now.1 > 0 && !known) {
                        told = Some((now, Instant::now()));
                        watch.call1(now)?;
                    }
                    py.check_signals()
                };
                if let Err(signal) = if interrupt.is_none() { turn() } else { Ok(()) } {
                    self.stop.store(true, Ordering::Relaxed);
                    interrupt = Some(signal);
                }
                match outcome {
                    Ok(all) => return interrupt.map_or(Ok(all), Err),
                    Err(RecvTimeoutError::Disconnected) => {
                        return Err(PyRuntimeError::new_err(
                            "a mistake in paceline: the runner ended without a result; please report it",
                        ));
                    }
                    Err(RecvTimeoutError::Timeout) => look(interrupt.is_some())?,
                }
            }
        })
    }
}
