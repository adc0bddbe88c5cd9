//! Runs of all contestants, on threads of their own: the interpreter goes on meanwhile, and can stop them.

use std::cell::RefCell;
use std::ffi::CString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use paceline_cc::Nanos;
use paceline_cc::datapath::{QUIC, TCP};
use paceline_cc::observe::{Observer, both};
use paceline_experiment::{Flow, SharedTap, Subject, Tap};
use paceline_lab::contestant::Contestant;
use paceline_lab::flow_logs::FlowLogError;
use paceline_lab::programs::{ProgramSettings, Programs, ProgramsError, permitted};
use paceline_lab::race::{self, Settings};
use paceline_lab::real::{self, RealError};
use paceline_lab::record::Run;
use paceline_lab::run::{Observers, RunError, World};
use paceline_lab::run_logs::RunLogs;
use paceline_lab::runner::{Attempt, Cause, Failure, Runner, RunnerError, Task, TaskLabel};
use paceline_lab::scenario::{KeyError, Options, Plan};
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyUserWarning};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyType};

use crate::conduct::Course;
use crate::controller::{
    define,
    failure::{self, Fault, Racing},
};
use crate::error;
use crate::events::{Events, Row};
use crate::programs;
use crate::real::interrupt as interrupt_calls;
use crate::records::{Finished, Records};
use crate::scenario::{self, Given};

/// What [`Failed`] is made of.
type FailedFields = (String, u32, u64, String, Option<Py<PyAny>>);

/// A run that did not reach its end.
#[pyclass(frozen, get_all, module = "paceline._paceline", name = "Failed")]
#[derive(Debug)]
pub(crate) struct Failed {
    /// `CONTROLLER@VIA`.
    contestant: String,
    /// Number of the run.
    run: u32,
    /// Seed of the race; with the number it shows the failure again.
    seed: u64,
    /// What happened, in one line.
    message: String,
    /// What a controller in Python raised.
    exception: Option<Py<PyAny>>,
}

#[pymethods]
impl Failed {
    #[new]
    fn new(contestant: String, run: u32, seed: u64, message: String, exception: Option<Py<PyAny>>) -> Self {
        Self { contestant, run, seed, message, exception }
    }

    /// To be pickled; without an exception that cannot be.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyType>, FailedFields)> {
        let (py, Self { contestant, run, seed, message, exception }) = (slf.py(), slf.get());
        let dumps = py.import("pickle")?.getattr("dumps")?;
        let exception = exception.as_ref().filter(|error| dumps.call1((error,)).is_ok());
        let exception = exception.map(|error| error.clone_ref(py));
        Ok((slf.get_type(), (contestant.clone(), *run, *seed, message.clone(), exception)))
    }

    fn __repr__(&self) -> String {
        format!("Failed({})", self.message)
    }
}

/// What is asked of every run.
struct Order {
    step: Option<Nanos>,
    events: bool,
    /// In which world, where event logs are written, whether programs run, and all that a race of the command is given besides.
    settings: Settings,
    course: Course,
}

/// One run of one contestant.
struct Job<'a> {
    contestant: &'a Contestant,
    plan: &'a Plan,
    order: &'a Order,
    programs: Option<&'a Programs>,
}

/// Why no run was begun.
#[derive(Debug, thiserror::Error)]
enum Unbegun {
    #[error(transparent)]
    Programs(#[from] ProgramsError),
    #[error(transparent)]
    Runner(#[from] RunnerError<Unfinished>),
}

/// Why a run did not reach its end.
#[derive(Debug, thiserror::Error)]
enum Unfinished {
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("{0}")]
    Controller(Fault),
    #[error("a race in real time is under way in this process already; wait for its end")]
    Racing,
}

impl From<FlowLogError> for Unfinished {
    fn from(problem: FlowLogError) -> Self {
        Self::Run(problem.into())
    }
}

impl From<KeyError> for Unfinished {
    fn from(problem: KeyError) -> Self {
        Self::Run(problem.into())
    }
}

/// Runs every contestant; see `paceline.run`.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "those of `paceline.run`")]
pub(crate) fn run(
    scenario: &Bound<'_, PyAny>,
    folder: Option<PathBuf>,
    given: Given<'_>,
    threads: &Bound<'_, PyAny>,
    step: Option<&Bound<'_, PyAny>>,
    events: bool,
    logs: Option<PathBuf>,
    real: bool,
    run_programs: bool,
    keep: Option<PathBuf>,
    watch: Option<&Bound<'_, PyAny>>,
) -> PyResult<Records> {
    let py = scenario.py();
    let threads = scenario::whole("threads", threads, usize::MAX)?;
    let step = match step {
        Some(given) if given.is_instance_of::<PyBool>() => given.extract::<bool>()?.then_some(None),
        Some(given) => Some(Some(scenario::span("series", given)?)),
        None => None,
    };
    let source = scenario::source(scenario, folder, Options { real, ..given.options()? })?;
    let plans = scenario::plans(py, &source)?;
    let Some(first) = plans.first() else { return Ok(Records::default()) };
    let world = if real { World::Real } else { World::Sim };
    let programs = ProgramSettings { run: run_programs, keep, skip_missing: false };
    permitted(first, world, &programs).map_err(|problem| {
        let text = problem.to_string().replace("race --effective shows", "Scenario.effective() shows");
        let text = text.replace("add --run-programs", "add run_programs=True");
        error::scenario_error(py, Some("contestants"), text)
    })?;
    let contestants = &first.scenario.contestants;
    if real {
        let flows = contestants.iter().flat_map(|contestant| first.flows(contestant));
        if let Some(flow) = flows.into_iter().find(in_the_kernel) {
            let (name, via) = (&flow.controller, flow.via.datapath().name);
            let what = format!(
                "contestants: {name}@{via}: a controller written in Python does not run inside {via} in real time; write {name}@udp, \
                 {name}@alcc or {name}@icn"
            );
            return Err(error::scenario_error(py, Some("contestants"), what));
        }
        real::acquire().map_err(|problem| PyOSError::new_err(in_python(&problem)))?;
        if run_programs {
            programs::acquire(py)?;
        }
    }
    world.check(contestants, &plans).map_err(|problem| {
        let key = match &problem {
            RunError::Sim(_) => "contestants",
            RunError::Real(RealError::Plan(problem)) => &problem.key,
            _ => "real",
        };
        error::scenario_error(py, Some(key), in_python(&problem))
    })?;
    let order = Order {
        step: step.map(|given| given.unwrap_or_else(|| paceline_lab::run::step(first))),
        events,
        settings: Settings { world, events: logs, programs, ..Settings::default() },
        course: Course::default(),
    };
    let look = |ends: bool| {
        let Some(scope) = Racing::current().filter(|_| real) else { return Ok(()) };
        if ends {
            scope.stop.store(true, Ordering::Relaxed);
        }
        interrupt_calls(py, scope.overdue())
    };
    let work = || -> Result<_, Unbegun> {
        let settings = &order.settings.programs;
        let (programs, _) = Programs::ready(&mut contestants.clone(), first, world, settings, &order.course)?;
        let job = |contestant, plan| Job { contestant, plan, order: &order, programs: programs.as_ref() };
        let jobs = contestants.iter().flat_map(|contestant| plans.iter().map(move |plan| (contestant, plan)));
        let jobs: Vec<Job<'_>> = jobs.map(|(contestant, plan)| job(contestant, plan)).collect();
        let results = Runner::new(world.threads(threads), &order.course).each(&jobs)?;
        drop(jobs);
        let failed = results.iter().any(Result::is_err);
        Ok((results, programs.and_then(|programs| programs.end(failed))))
    };
    let (results, kept) = order.course.conduct(py, watch, look, work)?.map_err(|problem| match problem {
        Unbegun::Programs(problem @ ProgramsError::Folder { .. }) => {
            PyOSError::new_err(problem.to_string().replace("--keep DIR", "keep=DIR"))
        }
        Unbegun::Programs(problem) => error::scenario_error(py, Some("programs"), problem.to_string()),
        Unbegun::Runner(problem) => PyRuntimeError::new_err(problem.to_string()),
    })?;
    if let Some(kept) = kept.and_then(|kept| CString::new(kept).ok()) {
        PyErr::warn(py, &py.get_type::<PyUserWarning>(), &kept, 2)?;
    }
    let mut records = Records::default();
    for result in results {
        match result {
            Ok(finished) => records.finished.push(finished),
            Err(failure) => records.failures.push(Py::new(py, failed(py, failure))?),
        }
    }
    Ok(records)
}

/// Whether a controller written in Python would have to run where this process does not.
fn in_the_kernel(flow: &Flow) -> bool {
    let written_here = define::is_known(flow.controller.entry().name);
    written_here && [TCP.name, QUIC.name].contains(&flow.via.row().datapath.name)
}

/// The same text as the command gives, but for its option, and without how to build a command.
fn in_python(problem: &dyn std::error::Error) -> String {
    let text = problem.to_string().replace("add --real, or ", "");
    let text = text.replace("add --real", "add real=True");
    let text = text.replace("or leave out --real", "leave out real=True").replace("--real: ", "real: ");
    let build = text.find("build it with '").and_then(|from| Some((from, from + text[from..].find("', ")? + 3)));
    build.map_or(text.clone(), |(from, to)| {
        format!("{}take the command paceline of such a build, {}", &text[..from], &text[to..])
    })
}

impl Task for Job<'_> {
    type Output = Finished;
    type Error = Unfinished;

    fn label(&self) -> TaskLabel {
        self.plan.label(self.contestant.to_string())
    }

    fn run(&self) -> Result<Attempt<Finished>, Unfinished> {
        if self.order.settings.world.is_real() {
            let Racing(scope) = &Racing::begin().ok_or(Unfinished::Racing)?;
            return self.watched(Arc::clone(&scope.stop), &|| false, || scope.take());
        }
        // The thread's state in the interpreter is made once, not at each call of a controller.
        Python::attach(|py| py.detach(|| self.simulate()))
    }
}

impl Job<'_> {
    /// In virtual time, on this thread.
    fn simulate(&self) -> Result<Attempt<Finished>, Unfinished> {
        failure::clear();
        let fault = RefCell::new(None);
        let ends = || {
            *fault.borrow_mut() = failure::take();
            fault.borrow().is_some() || self.order.course.stop.load(Ordering::Relaxed)
        };
        self.watched(Arc::default(), &ends, || fault.take())
    }

    /// The run; what a controller in Python did wrong comes before what became of it.
    fn watched(
        &self,
        abort: Arc<AtomicBool>,
        ends: &dyn Fn() -> bool,
        fault: impl Fn() -> Option<Fault>,
    ) -> Result<Attempt<Finished>, Unfinished> {
        let Self { contestant, plan, order, programs } = self;
        if order.course.stop.load(Ordering::Relaxed) {
            return Err(RunError::Stopped.into());
        }
        let mut taps = self.taps()?;
        let wanted = taps.wanted();
        let taps = Arc::new(Mutex::new(taps));
        let tap = wanted.then(|| Arc::clone(&taps) as SharedTap);
        let places = programs.map(|programs| programs.places(contestant, plan.number));
        let programs_at = places.clone();
        let observers = Observers {
            sample_every: order.step,
            tap,
            abort,
            programs: programs_at,
            ends: Some(ends),
            ..Observers::default()
        };
        let ended = paceline_lab::run::run(plan, contestant, order.settings.world, &observers);
        if let Some(fault) = fault() {
            return Err(Unfinished::Controller(fault));
        }
        let ended = ended?;
        let trusted = ended.trusted();
        let taps = std::mem::take(&mut *taps.lock().unwrap_or_else(PoisonError::into_inner));
        let events = taps.finish()?;
        let mut run = Run::of(plan, contestant, ended)?;
        if let (Some(programs), Some(places)) = (programs, places) {
            programs.over(&places, &mut run.record);
        }
        Ok(Attempt { output: Finished { run, events }, trusted })
    }

    /// What sees the run.
    fn taps(&self) -> Result<Taps, FlowLogError> {
        let Self { contestant, plan, order, .. } = self;
        let logs = race::logs(contestant, plan, &order.settings)?;
        Ok(Taps { events: order.events.then(Events::default), logs })
    }
}

/// What sees a run: rows in memory, and logs in files.
#[derive(Default)]
struct Taps {
    events: Option<Events>,
    logs: RunLogs,
}

impl Taps {
    /// Whether anything is to be seen.
    fn wanted(&mut self) -> bool {
        self.events.is_some() || self.logs.tap().is_some()
    }

    /// The rows; the files are complete.
    fn finish(self) -> Result<Vec<Row>, FlowLogError> {
        self.logs.finish()?;
        Ok(self.events.map(Events::into_rows).unwrap_or_default())
    }
}

impl Tap for Taps {
    fn observer(&mut self, of: &Subject<'_>) -> Option<Box<dyn Observer>> {
        let rows = self.events.as_mut().and_then(|events| events.observer(of));
        let logs = self.logs.tap().and_then(|logs| logs.observer(of));
        both(rows, logs)
    }
}

fn failed(py: Python<'_>, failure: Failure<Unfinished>) -> Failed {
    let message = failure.to_string();
    let Failure { name, number, seed, cause } = failure;
    let exception = match cause {
        Cause::Error(Unfinished::Controller(fault)) => fault.exception.map(|error| error.into_value(py).into_any()),
        Cause::Error(_) | Cause::Controller(_) | Cause::Panic { .. } => None,
    };
    Failed { contestant: name, run: number, seed, message, exception }
}
