//! A sweep on the cores of this machine.

use std::sync::{Mutex, PoisonError};

use super::point::Point;
use super::{Folder, Sweep, SweepError};
use crate::runner::{Attempt, Cause, Progress, Runner, RunnerError, Task, TaskLabel};

/// Runs what is missing, this many runs at once (0 for one per core), and keeps each as it ends. A run that fails is kept with
/// its seed ([`Folder::failures`]), and the others go on.
///
/// # Errors
/// When results cannot be kept, or there are no threads.
pub fn run(sweep: &Sweep, folder: &mut Folder, threads: usize, progress: &dyn Progress) -> Result<(), SweepError> {
    let points = sweep.shared();
    let folder = Mutex::new(folder);
    let missing = || folder.lock().unwrap_or_else(PoisonError::into_inner).missing();
    loop {
        let due = missing();
        if due.is_empty() {
            return Ok(());
        }
        let tasks: Vec<Kept<'_, '_>> =
            due.into_iter().map(|index| Kept { point: points.point(index), folder: &folder }).collect();
        Runner::new(threads, progress).all(&tasks).map_err(|error| match error {
            RunnerError::Failed(failure) => match failure.cause {
                Cause::Error(error) => error,
                cause @ (Cause::Controller(_) | Cause::Panic { .. }) => {
                    SweepError::Runner(Box::new(RunnerError::Failed(Box::new(crate::runner::Failure {
                        cause,
                        ..*failure
                    }))))
                }
            },
            other => SweepError::Runner(Box::new(other)),
        })?;
    }
}

/// A point whose result is put into the folder as soon as it is there.
struct Kept<'a, 'b> {
    point: Point,
    folder: &'a Mutex<&'b mut Folder>,
}

impl Task for Kept<'_, '_> {
    type Output = ();
    type Error = SweepError;

    fn label(&self) -> TaskLabel {
        self.point.label()
    }

    fn run(&self) -> Result<Attempt<()>, SweepError> {
        let result = self.point.run();
        let mut folder = self.folder.lock().unwrap_or_else(PoisonError::into_inner);
        folder.put([(self.point.index, result)])?;
        Ok(Attempt::certain(()))
    }
}
