//! Runs of all contestants, on threads of their own: the interpreter goes on meanwhile, and can stop them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use paceline_cc::{Nanos, Time};
use paceline_experiment::{Distribution, Hooks, Outcome, SharedTap, Tap, endpoints};
use paceline_lab::contestant::Contestant;
use paceline_lab::measure;
use paceline_lab::race::World as Where;
use paceline_lab::real::{self, RealError};
use paceline_lab::record::{Record, rounded};
use paceline_lab::runner::{Attempt, Cause, Failure, Progress, Runner, RunnerError, Task};
use paceline_lab::scenario::{KeyError, Options, Plan};
use paceline_sim::World;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBool;

use crate::controller::failure::{self, Fault, Racing};
use crate::error;
use crate::events::{Events, Row};
use crate::real::interrupt as interrupt_calls;
use crate::records::{Finished, Records};
use crate::scenario::{self, Given};

/// How often Ctrl-C is looked for. 50 ms: shorter than a person notices (our choice).
pub(crate) const SIGNALS: Duration = Duration::from_millis(50);
/// How often someone who watches is told that it goes on. 1 s: in real time a run takes its time (our choice).
const AGAIN: Duration = Duration::from_secs(1);
/// Pieces of a run, between which it can be stopped: 2000, so that a long one has them often (our choice).
const PIECES: u64 = 2000;
/// A piece is not shorter than this, so that what comes between two costs nothing (our choice).
const SHORTEST_PIECE: Nanos = Nanos::from_millis(10);

/// Points of a series where no one says how many (our choice, as in a report: about what a plot can show).
const POINTS: f64 = 600.0;

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
    stop: AtomicBool,
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
    #[error("{0}")]
    Controller(Fault),
    #[error(transparent)]
    Real(#[from] RealError),
    #[error("a race in real time is under way in this process already; wait for its end")]
    Racing,
    #[error("it was stopped")]
    Stopped,
}

/// Runs every contestant; see `paceline.run`.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "each is one of paceline.run")]
pub(crate) fn run(
    scenario: &Bound<'_, PyAny>,
    folder: Option<PathBuf>,
    given: Given<'_>,
    threads: usize,
    step: Option<&Bound<'_, PyAny>>,
    events: bool,
    real: bool,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Records> {
    let py = scenario.py();
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
        let refused = |problem: RealError| PyRuntimeError::new_err(problem.to_string().replace("--real: ", "real: "));
        real::acquire().map_err(refused)?;
        real::check(contestants, &plans).map_err(refused)?;
    }
    for flow in contestants.iter().filter(|_| !real).flat_map(|contestant| first.flows(contestant)) {
        endpoints::check(&flow).map_err(|problem| {
            error::scenario_error(py, Some("contestants"), problem.to_string().replace("add --real, or ", ""))
        })?;
    }
    let points = || Nanos::from_millis((first.scenario.seconds * 1e3 / POINTS).ceil().max(1.0) as u64);
    let order =
        Order { step: step.map(|given| given.unwrap_or_else(points)), events, real, stop: AtomicBool::new(false) };
    let job = |contestant, plan| Job { contestant, plan, order: &order };
    let jobs: Vec<Job<'_>> =
        contestants.iter().flat_map(|contestant| plans.iter().map(move |plan| job(contestant, plan))).collect();
    let over = Over::default();
    let watch = progress.map(|call| Watch { call, over: &over, due: jobs.len(), told: None });
    let ended = conduct(py, &order, watch, || {
        let threads = if real { Where::Real } else { Where::Sim }.threads(threads);
        Runner::new(threads, &over).each(&jobs)
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

/// What became of all runs.
type Ended = Result<Vec<Result<Finished, Failure<RunError>>>, RunnerError<RunError>>;

/// How many runs are over.
#[derive(Debug, Default)]
struct Over(AtomicUsize);

impl Progress for Over {
    fn ended(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Someone who is told how many runs are over.
struct Watch<'a, 'py> {
    call: Bound<'py, PyAny>,
    over: &'a Over,
    due: usize,
    /// What was told, and when.
    told: Option<(usize, Instant)>,
}

impl Watch<'_, '_> {
    /// When there is something new, and every second.
    fn tell(&mut self) -> PyResult<()> {
        let over = self.over.0.load(Ordering::Relaxed);
        if self.told.is_some_and(|(told, when)| told == over && when.elapsed() < AGAIN) {
            return Ok(());
        }
        self.told = Some((over, Instant::now()));
        self.call.call1((over, self.due)).map(|_| ())
    }
}

/// Runs on another thread, while this one waits for it and for signals.
fn conduct(
    py: Python<'_>,
    order: &Order,
    mut watch: Option<Watch<'_, '_>>,
    runs: impl FnOnce() -> Ended + Send,
) -> PyResult<Ended> {
    thread::scope(|scope| {
        let (done, ended) = channel();
        scope.spawn(move || done.send(runs()));
        let ended = Mutex::new(ended);
        let mut interrupt = None;
        loop {
            let wait = || ended.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(SIGNALS);
            match py.detach(wait) {
                Ok(all) => {
                    let told = watch.as_mut().map_or(Ok(()), Watch::tell);
                    return interrupt.map_or(told.map(|()| all), Err);
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(PyRuntimeError::new_err(
                        "a mistake in paceline: the runner ended without a result; please report it",
                    ));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            let racing = Racing::current().filter(|_| order.real);
            if let Some(scope) = &racing {
                interrupt_calls(py, scope.overdue())?;
            }
            let told = watch.as_mut().filter(|_| interrupt.is_none()).map_or(Ok(()), Watch::tell);
            if let Err(signal) = py.check_signals().and(told) {
                order.stop.store(true, Ordering::Relaxed);
                if let Some(scope) = &racing {
                    scope.stop.store(true, Ordering::Relaxed);
                }
                interrupt = Some(signal);
            }
        }
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
        if order.stop.load(Ordering::Relaxed) {
            return Err(RunError::Stopped);
        }
        let racing = Racing::begin().ok_or(RunError::Racing)?;
        let events = order.events.then(|| Arc::new(Mutex::new(Events::default())));
        let tap = events.clone().map(|events| events as SharedTap);
        let hooks = Hooks { abort: racing.0.stop.clone(), tap, ..Hooks::default() };
        let ended = real::run_with(contestant, plan, order.step, hooks);
        if let Some(fault) = racing.0.take() {
            return Err(RunError::Controller(fault));
        }
        let (flows, outcome, host) = ended?;
        let mut record = measure::record(plan, contestant, &flows, &outcome);
        host.add_to(&mut record);
        let trusted = host.trusted();
        let taken =
            |events: Arc<Mutex<Events>>| std::mem::take(&mut *events.lock().unwrap_or_else(PoisonError::into_inner));
        let rows = events.map(|events| taken(events).into_rows()).unwrap_or_default();
        Ok(Attempt { output: self.finished(record, outcome, rows), trusted })
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
        let mut events = order.events.then(Events::default);
        let mut world = World::new(config, events.as_mut().map(|events| events as &mut dyn Tap));
        let end = scenario::end(plan);
        let piece = Nanos::from_nanos(end.as_nanos() / PIECES).max(SHORTEST_PIECE);
        let mut until = Time::ZERO;
        loop {
            until += piece;
            let over = world.run_until(until);
            if let Some(fault) = failure::take() {
                return Err(RunError::Controller(fault));
            }
            if order.stop.load(Ordering::Relaxed) {
                return Err(RunError::Stopped);
            }
            if over {
                break;
            }
        }
        let outcome = world.finish();
        let record = measure::record(plan, contestant, &flows, &outcome);
        Ok(self.finished(record, outcome, events.map(Events::into_rows).unwrap_or_default()))
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
        Cause::Error(_) | Cause::Panic { .. } => None,
    };
    Failed { contestant: name, run: number, seed, message, exception }
}
