//! Runs of all contestants, on threads of their own: the interpreter goes on meanwhile, and can stop them.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use paceline_cc::observe::{Observer, both};
use paceline_cc::{Nanos, Time};
use paceline_experiment::{Distribution, Excess, Flow, Hooks, Outcome, SharedTap, Subject, Tap, Via, endpoints};
use paceline_lab::contestant::Contestant;
use paceline_lab::flow_logs::FlowLogError;
use paceline_lab::measure;
use paceline_lab::race::{self, Settings, World as Where};
use paceline_lab::real::{self, RealError};
use paceline_lab::record::{Record, rounded};
use paceline_lab::run_logs::RunLogs;
use paceline_lab::runner::{Attempt, Cause, Failure, Runner, Task};
use paceline_lab::scenario::{KeyError, Options, Plan};
use paceline_sim::World;
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyType};

use crate::conduct::Course;
use crate::controller::{
    define,
    failure::{self, Fault, Racing},
};
use crate::error;
use crate::events::{Events, Row};
use crate::real::interrupt as interrupt_calls;
use crate::records::{Finished, Records};
use crate::scenario::{self, Given};

/// Pieces of a run, between which it can be stopped: 2000, so that a long one has them often (our choice).
const PIECES: u64 = 2000;
/// A piece is not shorter than this, so that what comes between two costs nothing (our choice).
const SHORTEST_PIECE: Nanos = Nanos::from_millis(10);

/// Points of a series where no one says how many (our choice, as in a report: about what a plot can show).
const POINTS: f64 = 600.0;

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
    /// Over sockets and kernel flows, in real time.
    real: bool,
    /// Where event logs are written, and all that a race of the command is given besides.
    settings: Settings,
    course: Course,
}

/// One run of one contestant.
struct Job<'a> {
    contestant: &'a Contestant,
    plan: &'a Plan,
    order: &'a Order,
}

/// Why a run did not reach its end.
#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error(transparent)]
    Plan(#[from] KeyError),
    #[error(transparent)]
    Log(#[from] FlowLogError),
    #[error("{0}")]
    Controller(Fault),
    #[error(transparent)]
    Excess(#[from] Excess),
    #[error(transparent)]
    Real(#[from] RealError),
    #[error("a race in real time is under way in this process already; wait for its end")]
    Racing,
    #[error("it was stopped")]
    Stopped,
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
        real::check(contestants, &plans).map_err(|problem| {
            let key = if let RealError::Plan(problem) = &problem { &problem.key } else { "real" };
            error::scenario_error(py, Some(key), in_python(&problem))
        })?;
    }
    for flow in contestants.iter().filter(|_| !real).flat_map(|contestant| first.flows(contestant)) {
        endpoints::check(&flow).map_err(|problem| {
            error::scenario_error(py, Some("contestants"), problem.to_string().replace("add --real, or ", ""))
        })?;
    }
    let points = || Nanos::from_millis((first.scenario.seconds * 1e3 / POINTS).ceil().max(1.0) as u64);
    let order = Order {
        step: step.map(|given| given.unwrap_or_else(points)),
        events,
        real,
        settings: Settings { events: logs, ..Settings::default() },
        course: Course::default(),
    };
    let job = |contestant, plan| Job { contestant, plan, order: &order };
    let jobs: Vec<Job<'_>> =
        contestants.iter().flat_map(|contestant| plans.iter().map(move |plan| job(contestant, plan))).collect();
    let look = |ends: bool| {
        let Some(scope) = Racing::current().filter(|_| real) else { return Ok(()) };
        if ends {
            scope.stop.store(true, Ordering::Relaxed);
        }
        interrupt_calls(py, scope.overdue())
    };
    let ended = order.course.conduct(py, watch, look, || {
        let threads = if real { Where::Real } else { Where::Sim }.threads(threads);
        Runner::new(threads, &order.course).each(&jobs)
    })?;
    let mut records = Records::default();
    for result in ended.map_err(|problem| PyRuntimeError::new_err(problem.to_string()))? {
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
    written_here && matches!(flow.via, Via::Tcp(_) | Via::Quic)
}

/// The same text as the command gives, but for its option, and without how to build a command.
fn in_python(problem: &RealError) -> String {
    let text = problem.to_string().replace("or leave out --real", "leave out real=True").replace("--real: ", "real: ");
    let build = text.find("build it with '").and_then(|from| Some((from, from + text[from..].find("', ")? + 3)));
    build.map_or(text.clone(), |(from, to)| {
        format!("{}take the command paceline of such a build, {}", &text[..from], &text[to..])
    })
}

impl Task for Job<'_> {
    type Output = Finished;
    type Error = RunError;

    fn name(&self) -> String {
        self.contestant.to_string()
    }

    fn number(&self) -> u32 {
        self.plan.number
    }

    fn seed(&self) -> u64 {
        self.plan.scenario.seed
    }

    fn run(&self) -> Result<Attempt<Finished>, RunError> {
        if self.order.real {
            return self.race();
        }
        // The thread's state in the interpreter is made once, not at each call of a controller.
        Python::attach(|py| py.detach(|| self.simulate())).map(Attempt::certain)
    }
}

impl Job<'_> {
    /// In real time.
    fn race(&self) -> Result<Attempt<Finished>, RunError> {
        let Self { contestant, plan, order } = self;
        if order.course.stop.load(Ordering::Relaxed) {
            return Err(RunError::Stopped);
        }
        let racing = Racing::begin().ok_or(RunError::Racing)?;
        let mut taps = self.taps()?;
        let wanted = taps.wanted();
        let taps = Arc::new(Mutex::new(taps));
        let tap = wanted.then(|| Arc::clone(&taps) as SharedTap);
        let hooks = Hooks { abort: racing.0.stop.clone(), tap, ..Hooks::default() };
        let ended = real::run_with(contestant, plan, order.step, hooks);
        if let Some(fault) = racing.0.take() {
            return Err(RunError::Controller(fault));
        }
        let (flows, outcome, host) = ended?;
        let mut record = measure::record(plan, contestant, &flows, &outcome);
        host.add_to(&mut record);
        let trusted = host.trusted();
        let taps = std::mem::take(&mut *taps.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(Attempt { output: self.finished(record, outcome, taps.finish()?), trusted })
    }

    /// What sees the run.
    fn taps(&self) -> Result<Taps, FlowLogError> {
        let Self { contestant, plan, order } = self;
        let logs = race::logs(contestant, plan, &order.settings)?;
        Ok(Taps { events: order.events.then(Events::default), logs })
    }

    fn finished(&self, record: Record, outcome: Outcome, events: Vec<Row>) -> Finished {
        Finished {
            record,
            own: self.plan.own(),
            delay_quantiles_ms: quantiles(&outcome.delay),
            queue_quantiles_ms: quantiles(&outcome.queue),
            series: outcome.series,
            events,
        }
    }

    fn simulate(&self) -> Result<Finished, RunError> {
        let Self { contestant, plan, order } = self;
        failure::clear();
        let config = plan.world(contestant, order.step)?;
        let flows = config.flows.clone();
        let mut taps = self.taps()?;
        let wanted = taps.wanted();
        let mut world = World::new(config, wanted.then_some(&mut taps as &mut dyn Tap));
        let end = scenario::end(plan);
        let piece = Nanos::from_nanos(end.as_nanos() / PIECES).max(SHORTEST_PIECE);
        let mut until = Time::ZERO;
        loop {
            until += piece;
            let over = world.run_until(until);
            if let Some(fault) = failure::take() {
                return Err(RunError::Controller(fault));
            }
            if order.course.stop.load(Ordering::Relaxed) {
                return Err(RunError::Stopped);
            }
            if over {
                break;
            }
        }
        let mut outcome = world.finish();
        if let Some(excess) = outcome.excess.take() {
            return Err(excess.into());
        }
        let record = measure::record(plan, contestant, &flows, &outcome);
        Ok(self.finished(record, outcome, taps.finish()?))
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

/// At the shares 0, 0.01, ... 1 of packets.
fn quantiles(distribution: &Distribution) -> Vec<f64> {
    (0..=100).filter_map(|percent| distribution.quantile_ms(f64::from(percent) / 100.0).map(rounded)).collect()
}

fn failed(py: Python<'_>, failure: Failure<RunError>) -> Failed {
    let message = failure.to_string();
    let Failure { name, number, seed, cause } = failure;
    let exception = match cause {
        Cause::Error(RunError::Controller(fault)) => fault.exception.map(|error| error.into_value(py).into_any()),
        Cause::Error(_) | Cause::Controller(_) | Cause::Panic { .. } => None,
    };
    Failed { contestant: name, run: number, seed, message, exception }
}
