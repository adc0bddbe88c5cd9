use std::sync::Mutex;

use super::*;

/// What the attempts of a task give, one after the other.
struct Scripted {
    name: &'static str,
    repeats: u32,
    attempts: Vec<Outcome>,
    begun: AtomicUsize,
}

#[derive(Clone, Copy)]
enum Outcome {
    Gives(u32),
    Doubtful(u32),
    Fails(&'static str),
    Faults,
    Panics,
}
use Outcome::*;

impl Task for Scripted {
    type Output = u32;
    type Error = &'static str;

    fn label(&self) -> TaskLabel {
        TaskLabel { name: self.name.to_owned(), number: 1, seed: 7 }
    }

    fn repeats(&self) -> u32 {
        self.repeats
    }

    fn lasts(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn check(&self) -> Result<(), &'static str> {
        if self.name == "impossible" { Err("not here") } else { Ok(()) }
    }

    fn run(&self) -> Result<Attempt<u32>, &'static str> {
        match self.attempts[self.begun.fetch_add(1, Ordering::Relaxed)] {
            Gives(value) => Ok(Attempt::certain(value)),
            Doubtful(output) => Ok(Attempt { output, trusted: false }),
            Fails(why) => Err(why),
            Faults => Fault("Mine.on_ack raised".to_owned()).end_the_task(),
            Panics => panic!("by hand"),
        }
    }
}

fn task(name: &'static str, attempts: &[Outcome]) -> Scripted {
    Scripted { name, repeats: 1, attempts: attempts.to_vec(), begun: AtomicUsize::new(0) }
}

fn runner(threads: usize) -> Runner<'static> {
    Runner::new(threads, &Unwatched)
}

#[test]
fn results_come_in_the_order_of_the_tasks() {
    for threads in [0, 1, 3, 64] {
        let tasks: Vec<Scripted> = (0..40).map(|value| task("one", &[Gives(value)])).collect();
        assert_eq!(runner(threads).all(&tasks).unwrap(), (0..40).collect::<Vec<_>>());
    }
}

#[test]
fn a_panic_fails_its_own_run_and_is_named() {
    let tasks = [task("a", &[Gives(1)]), task("b", &[Panics, Panics]), task("c", &[Gives(3)])];
    let results = runner(2).each(&tasks).unwrap();
    assert_eq!((results[0].as_ref().ok(), results[2].as_ref().ok()), (Some(&1), Some(&3)));
    let failure = results[1].as_ref().unwrap_err();
    assert_eq!(failure.to_string(), "b, run 1: it panicked with seed 7: by hand; please report it");
    assert_eq!((&*failure.name, failure.number, failure.seed), ("b", 1, 7));
}

#[test]
fn a_controller_from_outside_fails_its_own_run_and_is_not_called_a_mistake_of_ours() {
    let tasks = [task("a", &[Gives(1)]), task("b", &[Faults, Faults]), task("c", &[Gives(3)])];
    let results = runner(2).each(&tasks).unwrap();
    assert_eq!((results[0].as_ref().ok(), results[2].as_ref().ok()), (Some(&1), Some(&3)));
    assert_eq!(results[1].as_ref().unwrap_err().to_string(), "b, run 1: Mine.on_ack raised");
}

/// Stops after the second task.
#[derive(Default)]
struct Two(AtomicUsize);

impl Progress for Two {
    fn ended(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 2
    }
}

#[test]
fn none_is_begun_after_it_is_stopped() {
    let tasks: Vec<Scripted> = (0..40).map(|value| task("one", &[Gives(value)])).collect();
    assert_eq!(Runner::new(1, &Two::default()).each(&tasks).unwrap().len(), 2);
    assert_eq!(tasks[2].begun.load(Ordering::Relaxed), 0);
}

#[test]
fn what_is_not_trusted_is_repeated() {
    let kept = |attempts: &[Outcome]| {
        let one = task("one", attempts);
        let result = single(&one).map_err(|failure| failure.cause);
        (result, one.begun.into_inner())
    };
    assert_eq!(kept(&[Gives(1)]), (Ok(1), 1));
    assert_eq!(kept(&[Doubtful(1), Gives(2)]), (Ok(2), 2));
    assert_eq!(kept(&[Doubtful(1), Doubtful(2)]), (Ok(1), 2));
    assert_eq!(kept(&[Doubtful(1), Fails("no")]), (Ok(1), 2));
    assert_eq!(kept(&[Fails("no"), Doubtful(2)]), (Ok(2), 2));
    assert_eq!(kept(&[Panics, Gives(2)]), (Ok(2), 2));
    assert_eq!(kept(&[Fails("no"), Fails("again")]), (Err(Cause::Error("again")), 2));
}

#[test]
fn after_a_failure_none_is_begun_and_the_first_is_reported() {
    for threads in [1, 4] {
        let mut tasks: Vec<Scripted> = (0..100).map(|value| task("fine", &[Gives(value)])).collect();
        tasks[3] = Scripted { repeats: 0, ..task("first", &[Fails("no")]) };
        tasks[5] = Scripted { repeats: 0, ..task("second", &[Fails("no")]) };
        let Err(RunnerError::Failed(failure)) = runner(threads).all(&tasks) else { panic!("it fails") };
        assert_eq!(failure.to_string(), "first, run 1: no");
        if threads == 1 {
            let begun = tasks.iter().filter(|task| task.begun.load(Ordering::Relaxed) > 0).count();
            assert_eq!(begun, 4, "nothing after it");
        }
    }
}

#[test]
fn what_cannot_run_here_is_refused_before_anything_is_begun() {
    let tasks = [task("fine", &[Gives(1)]), task("impossible", &[Gives(2)])];
    assert_eq!(runner(1).each(&tasks).unwrap_err().to_string(), "not here");
    assert_eq!(tasks[0].begun.load(Ordering::Relaxed), 0);
}

#[test]
fn what_the_journal_holds_is_not_run_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.jsonl");
    let tasks = || [task("a", &[Gives(1)]), task("b", &[Fails("no"), Fails("no")]), task("c", &[Gives(3)])];
    let run = |tasks: &[Scripted]| {
        let journal = Journal::open(&path).unwrap();
        let results = runner(1).remembering(Some(&journal)).each(tasks).unwrap();
        results.into_iter().map(Result::ok).collect::<Vec<_>>()
    };
    assert_eq!(run(&tasks()), [Some(1), None, Some(3)]);
    let again = [task("a", &[]), task("b", &[Gives(2)]), task("c", &[])];
    assert_eq!(run(&again), [Some(1), Some(2), Some(3)]);
    assert_eq!(runner(1).remembering(None).all(&[task("a", &[Gives(4)])]).unwrap(), [4], "without a journal");
}

#[test]
fn who_watches_sees_every_task() {
    #[derive(Default)]
    struct Seen(Mutex<Vec<Batch>>, AtomicUsize);
    impl Progress for Seen {
        fn begin(&self, batch: &Batch) {
            self.0.lock().unwrap().push(*batch);
        }
        fn ended(&self) {
            self.1.fetch_add(1, Ordering::Relaxed);
        }
    }
    let seen = Seen::default();
    let tasks: Vec<Scripted> = (0..6).map(|value| task("one", &[Gives(value)])).collect();
    Runner::new(2, &seen).all(&tasks).unwrap();
    let batch = Batch { tasks: 6, threads: 2, lasts: Duration::from_secs(30) };
    assert_eq!((seen.0.into_inner().unwrap(), seen.1.into_inner()), (vec![batch], 6));
}
