//! The one runner: a race, a paper's experiments and the claims of theory are lists of tasks for it.
//!
//! Tasks are begun in the order in which they are given, this many at once, and results come back in that order. A task that
//! panics fails alone. One that failed, or that shows the host rather than what it measures, may be begun again; one that a
//! journal holds is not run at all.

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::journal::{Journal, JournalError};

/// Something to run: given the same seed it does the same, on any thread.
pub trait Task: Sync {
    /// What it gives.
    type Output: Send;
    /// Why it may fail.
    type Error: fmt::Display + Send;

    /// Which run it is.
    fn label(&self) -> TaskLabel;

    /// How often it is begun again when it failed or is not trusted.
    fn repeats(&self) -> u32 {
        0
    }

    /// What identifies it in a journal, besides its number: everything that changes its result.
    fn key(&self) -> String {
        self.label().name
    }

    /// How long it takes on the wall's clock; zero in virtual time, where no one knows.
    fn lasts(&self) -> Duration {
        Duration::ZERO
    }

    /// Whether it can run here at all; asked of every task before the first is begun.
    ///
    /// # Errors
    /// Why not, and how to fix it.
    fn check(&self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Runs it.
    ///
    /// # Errors
    /// What went wrong.
    fn run(&self) -> Result<Attempt<Self::Output>, Self::Error>;
}

/// Which run a task is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskLabel {
    /// What failures call it.
    pub name: String,
    /// Number of the run among those of this name, from 1.
    pub number: u32,
    /// Where its randomness comes from.
    pub seed: u64,
}

/// What a task gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt<T> {
    /// The result.
    pub output: T,
    /// Whether it shows what was to be measured; not so when a busy machine came between.
    pub trusted: bool,
}

impl<T> Attempt<T> {
    /// A result that nothing outside of the task can change.
    pub fn certain(output: T) -> Self {
        Self { output, trusted: true }
    }
}

/// A task that did not reach its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}, run {number}: {cause}")]
pub struct Failure<E> {
    /// Its name.
    pub name: String,
    /// Its number.
    pub number: u32,
    /// Its seed.
    pub seed: u64,
    /// What happened.
    pub cause: Cause<E>,
}

/// What a controller from outside of paceline did wrong, in one line: its calls have no errors to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(pub String);

impl Fault {
    /// Ends the task that this thread runs, which fails with the line; no other does.
    pub fn end_the_task(self) -> ! {
        resume_unwind(Box::new(self))
    }
}

/// Why a task did not reach its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cause<E> {
    /// It says why.
    #[error("{0}")]
    Error(E),
    /// A controller from outside of paceline went wrong ([`Fault`]).
    #[error("{0}")]
    Controller(String),
    /// A mistake in paceline.
    #[error("it panicked with seed {seed}: {message}; please report it")]
    Panic {
        /// The seed that shows it again.
        seed: u64,
        /// What the panic says.
        message: String,
    },
}

/// Why tasks gave no results.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunnerError<E> {
    /// A task cannot run here; none was begun.
    #[error("{0}")]
    Refused(E),
    /// A task failed, and none was begun after it.
    #[error("{0}")]
    Failed(Box<Failure<E>>),
    /// No threads.
    #[error("--threads: {0}; give a smaller number")]
    Threads(#[source] io::Error),
    /// The journal cannot be written.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Tasks that are about to be begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// How many; those that a journal holds are not among them.
    pub tasks: usize,
    /// How many of them at once.
    pub threads: usize,
    /// How long they take together on the wall's clock; zero where no one knows ([`Task::lasts`]).
    pub lasts: Duration,
}

/// Someone who watches how far it is. Called from the threads that run tasks.
pub trait Progress: Sync {
    /// A part of the whole begins, such as one figure of a paper.
    fn part(&self, _name: &str) {}

    /// A command of a scenario is going to run.
    fn command(&self, _line: &str) {}

    /// This many more tasks are to come.
    fn begin(&self, _batch: &Batch) {}

    /// One is over.
    fn ended(&self) {}

    /// Asked before each task: true begins none any more, and what is given then lacks those that were not begun.
    fn stopped(&self) -> bool {
        false
    }
}

/// No one watches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Progress for Unwatched {}

/// What results may be taken from instead of a run, and are written into.
pub trait Memory<T>: Sync {
    /// What is kept of a run.
    fn recall(&self, key: &str, number: u32) -> Option<T>;

    /// Keeps a run.
    ///
    /// # Errors
    /// When it cannot be written down.
    fn keep(&self, key: &str, number: u32, output: &T) -> Result<(), JournalError>;
}

/// Nothing is kept.
impl<T> Memory<T> for () {
    fn recall(&self, _: &str, _: u32) -> Option<T> {
        None
    }

    fn keep(&self, _: &str, _: u32, _: &T) -> Result<(), JournalError> {
        Ok(())
    }
}

impl<T: Serialize + DeserializeOwned> Memory<T> for Option<&Journal> {
    fn recall(&self, key: &str, number: u32) -> Option<T> {
        self.and_then(|journal| journal.recall(key, number))
    }

    fn keep(&self, key: &str, number: u32, output: &T) -> Result<(), JournalError> {
        self.map_or(Ok(()), |journal| journal.keep(key, number, output))
    }
}

/// Runs tasks.
#[derive(Clone, Copy)]
pub struct Runner<'a, M = ()> {
    threads: usize,
    progress: &'a dyn Progress,
    memory: M,
}

impl<'a> Runner<'a> {
    /// This many tasks at once; 0 for one per core.
    pub fn new(threads: usize, progress: &'a dyn Progress) -> Self {
        Self { threads, progress, memory: () }
    }

    /// With what was run before: those tasks are not run again, and each that ends well is kept at once.
    pub fn remembering<M>(self, memory: M) -> Runner<'a, M> {
        Runner { threads: self.threads, progress: self.progress, memory }
    }
}

/// What became of a task.
type Ended<T> = Result<<T as Task>::Output, Failure<<T as Task>::Error>>;

impl<M> Runner<'_, M> {
    /// Runs every task, and gives what became of each, in the order of the tasks.
    ///
    /// # Errors
    /// When a task cannot run here, or there are no threads or no journal. A task that fails is one of the results.
    pub fn each<T: Task>(&self, tasks: &[T]) -> Result<Vec<Ended<T>>, RunnerError<T::Error>>
    where
        M: Memory<T::Output>,
    {
        Ok(self.conduct(tasks, AfterFailure::GoOn)?.into_iter().flatten().collect())
    }

    /// Runs every task, in the order of which results come. After a failure none is begun.
    ///
    /// # Errors
    /// As [`Runner::each`], and the first failure in the order of the tasks: the same on any number of threads.
    pub fn all<T: Task>(&self, tasks: &[T]) -> Result<Vec<T::Output>, RunnerError<T::Error>>
    where
        M: Memory<T::Output>,
    {
        let ended = self.conduct(tasks, AfterFailure::Stop)?;
        // Tasks are begun in order: whatever comes before the first failure was begun, and has ended.
        ended.into_iter().flatten().collect::<Result<_, _>>().map_err(|failure| RunnerError::Failed(Box::new(failure)))
    }

    /// `None` for tasks that were not begun.
    fn conduct<T: Task>(&self, tasks: &[T], after: AfterFailure) -> Result<Vec<Option<Ended<T>>>, RunnerError<T::Error>>
    where
        M: Memory<T::Output>,
    {
        let recalled = tasks.iter().map(|task| self.memory.recall(&task.key(), task.label().number).map(Ok));
        let mut ended: Vec<Option<Ended<T>>> = recalled.collect();
        let due: Vec<usize> = (0..tasks.len()).filter(|index| ended[*index].is_none()).collect();
        due.iter().try_for_each(|index| tasks[*index].check()).map_err(RunnerError::Refused)?;
        let threads = self.threads_for(due.len());
        let lasts: Duration = due.iter().map(|index| tasks[*index].lasts()).sum();
        self.progress.begin(&Batch { tasks: due.len(), threads, lasts: lasts / threads.max(1) as u32 });
        let next = AtomicUsize::new(0);
        let stop = || next.store(due.len(), Ordering::Relaxed);
        let worker = || {
            let mut done: Vec<(usize, Ended<T>)> = Vec::new();
            // Tasks differ in length: a free thread takes the next one.
            while !self.progress.stopped()
                && let Some(index) = due.get(next.fetch_add(1, Ordering::Relaxed))
            {
                let task = &tasks[*index];
                let result = single(task);
                match &result {
                    Ok(output) => self.memory.keep(&task.key(), task.label().number, output).inspect_err(|_| stop())?,
                    Err(_) if after == AfterFailure::Stop => stop(),
                    Err(_) => {}
                }
                self.progress.ended();
                done.push((*index, result));
            }
            Ok(done)
        };
        let (workers, refused) = thread::scope(|scope| {
            let mut workers = Vec::new();
            let mut refused = None;
            for _ in 0..threads {
                match thread::Builder::new().name("run".to_owned()).spawn_scoped(scope, worker) {
                    Ok(handle) => workers.push(handle),
                    Err(error) => {
                        stop();
                        refused = Some(error);
                        break;
                    }
                }
            }
            let joined = workers.into_iter().map(thread::ScopedJoinHandle::join);
            let results: Vec<Result<_, JournalError>> =
                joined.map(|ended| ended.unwrap_or_else(|panic| resume_unwind(panic))).collect();
            (results, refused)
        });
        if let Some(error) = refused {
            return Err(RunnerError::Threads(error));
        }
        for done in workers {
            for (index, result) in done? {
                ended[index] = Some(result);
            }
        }
        Ok(ended)
    }

    fn threads_for(&self, tasks: usize) -> usize {
        let cores = || thread::available_parallelism().map_or(1, std::num::NonZero::get);
        if self.threads == 0 { cores() } else { self.threads }.min(tasks)
    }
}

/// What a failure does to the tasks after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AfterFailure {
    GoOn,
    Stop,
}

/// Runs one task here and now; one that panics fails. What counts is the first trusted attempt; without any, the first that did not
/// fail, else the last failure.
///
/// # Errors
/// What became of it.
pub fn single<T: Task>(task: &T) -> Result<T::Output, Failure<T::Error>> {
    let mut kept = once(task);
    for _ in 0..task.repeats() {
        if kept.as_ref().is_ok_and(|attempt| attempt.trusted) {
            break;
        }
        let again = once(task);
        if kept.is_err() || again.as_ref().is_ok_and(|attempt| attempt.trusted) {
            kept = again;
        }
    }
    kept.map(|attempt| attempt.output)
}

fn once<T: Task>(task: &T) -> Result<Attempt<T::Output>, Failure<T::Error>> {
    let TaskLabel { name, number, seed } = task.label();
    let failure = |cause| Failure { name, number, seed, cause };
    match catch_unwind(AssertUnwindSafe(|| task.run())) {
        Ok(result) => result.map_err(|error| failure(Cause::Error(error))),
        Err(panic) => {
            if let Some(Fault(what)) = panic.downcast_ref::<Fault>() {
                return Err(failure(Cause::Controller(what.clone())));
            }
            let text = panic.downcast_ref::<&str>().copied().map(str::to_owned);
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            let message = text.unwrap_or_else(|| "without a message".to_owned());
            Err(failure(Cause::Panic { seed, message }))
        }
    }
}

#[cfg(test)]
mod tests;
