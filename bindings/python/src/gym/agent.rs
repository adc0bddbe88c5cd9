//! The controller whose window or rate is set once in a step: from outside, or by a policy in Python.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use paceline_cc::entry::{Kind, Param};
use paceline_cc::registry::{Definition, register};
use paceline_cc::{
    Ack, Controller, Env, Loss, Nanos, Nature, Pacing, Permit, Rate, Recovery, Sent, Stamp, Time, Timeout,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::monitor::Monitor;
use crate::controller::failure::{self, Fault};

/// The name of the controller that an environment steers.
pub(super) const STEERED: &str = "steered";
/// Window at the start, packets (RFC 6928).
const INITIAL: f64 = 10.0;
/// Most of a window, packets (our choice: 12 Gbit/s over 60 ms).
const MOST: f64 = 65_536.0;
/// Bounds of a step of one RTT (our choice: a step outside shows too little, or comes too late), and the first one, when no RTT
/// is known.
const SHORTEST: Nanos = Nanos::from_millis(1);
const LONGEST: Nanos = Nanos::from_millis(1000);
const FIRST: Nanos = Nanos::from_millis(10);

/// How an agent acts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acting {
    /// Length of a step; one RTT without it.
    pub(crate) step: Option<Nanos>,
    /// An action is a factor on the pacing rate, not on the window.
    pub(crate) rate: bool,
}

impl Acting {
    /// Of `"rtt"` or a span, and `"window"` or `"rate"`.
    pub(crate) fn of(step: &Bound<'_, PyAny>, action: &str) -> PyResult<Self> {
        let step = match step.extract::<String>() {
            Ok(text) if text == "rtt" => None,
            _ => Some(crate::scenario::span("step", step)?),
        };
        match action {
            "window" => Ok(Self { step, rate: false }),
            "rate" => Ok(Self { step, rate: true }),
            other => Err(PyValueError::new_err(format!("action: '{other}' is neither 'window' nor 'rate'"))),
        }
    }
}

/// An agent's state.
#[derive(Debug)]
pub(super) struct State {
    pub(super) monitor: Monitor,
    /// Bytes.
    pub(super) window: f64,
    /// Bytes per second, once an action has set it.
    rate: Option<f64>,
    pub(super) mss: f64,
    /// The end of the step.
    pub(super) boundary: Time,
}

impl State {
    fn new(mss: u32) -> Self {
        let mss = f64::from(mss);
        Self { monitor: Monitor::default(), window: INITIAL * mss, rate: None, mss, boundary: Time::ZERO + FIRST }
    }

    /// As before the first step of an episode.
    pub(super) fn reset(&mut self) {
        *self = Self::new(Env::default().mss);
    }

    /// The flow begins, with packets of this size.
    fn start(&mut self, mss: u32) {
        self.mss = f64::from(mss);
        self.window = INITIAL * self.mss;
    }

    /// Twice as much for an action of 1, half for -1.
    pub(super) fn act(&mut self, action: f64, acting: Acting) {
        let factor = if action.is_finite() { action.clamp(-1.0, 1.0).exp2() } else { 1.0 };
        let srtt = self.monitor.srtt.max(SHORTEST).as_secs_f64();
        let bounds = |bytes: f64| bytes.clamp(self.mss, MOST * self.mss);
        if acting.rate {
            let rate = bounds(self.rate.unwrap_or(self.window / srtt) * factor * srtt) / srtt;
            self.rate = Some(rate);
            // The rate decides; what is in flight ends at two rounds of it.
            self.window = bounds(2.0 * rate * srtt);
        } else {
            self.window = bounds(self.window * factor);
        }
    }

    /// The end of the step that begins now.
    pub(super) fn next(&mut self, now: Time, acting: Acting) {
        let srtt = self.monitor.srtt;
        let length = || if srtt == Nanos::ZERO { FIRST } else { srtt.clamp(SHORTEST, LONGEST) };
        self.boundary = now + acting.step.unwrap_or_else(length);
    }
}

/// A state that an environment shares with the controller in its world.
pub(super) type Shared = Arc<Mutex<State>>;

/// The states that environments are about to start worlds with, by number.
static SEATS: Mutex<BTreeMap<u64, Shared>> = Mutex::new(BTreeMap::new());

/// Keeps a state for the controller of this number, and makes its kind known.
pub(super) fn seat(number: u64) -> PyResult<Shared> {
    let state = Arc::new(Mutex::new(State::new(Env::default().mss)));
    let mut seats = SEATS.lock().unwrap_or_else(PoisonError::into_inner);
    if paceline_cc::registry::find(STEERED).is_none() {
        let id = Kind::Number { min: 0.0, max: 9e15 };
        let param = Param::new("id", id, "0").with_source("counted");
        let mut definition = Definition::new(STEERED, |params, env| {
            let number = params.number("id") as u64;
            let state = SEATS.lock().unwrap_or_else(PoisonError::into_inner).get(&number).cloned();
            let state = state.unwrap_or_else(|| Arc::new(Mutex::new(State::new(env.mss))));
            lock(&state).start(env.mss);
            Box::new(Agent { state, policy: None })
        });
        definition.summary = "steered from outside by an environment".to_owned();
        definition.source = "docs/guide/python.md".to_owned();
        definition.params = vec![param];
        register(definition).map_err(|error| PyValueError::new_err(error.to_string()))?;
    }
    seats.insert(number, state.clone());
    Ok(state)
}

/// Forgets a state.
pub(super) fn leave(number: u64) {
    SEATS.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
}

/// An agent's state, to read and change.
pub(super) fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What decides, in a race.
struct Policy {
    name: String,
    call: Py<PyAny>,
    acting: Acting,
}

/// What was registered, by name: the newest policy counts, as the newest class does.
static POLICIES: Mutex<BTreeMap<String, Arc<Policy>>> = Mutex::new(BTreeMap::new());

/// The controller.
struct Agent {
    state: Shared,
    policy: Option<Arc<Policy>>,
}

impl Controller for Agent {
    fn on_sent(&mut self, sent: &Sent) -> Stamp {
        lock(&self.state).monitor.sent(sent.bytes);
        Stamp::default()
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        lock(&self.state).monitor.acked(ack);
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        lock(&self.state).monitor.lost(loss.bytes, loss.in_flight);
    }

    fn on_timeout(&mut self, timeout: &Timeout<'_>) {
        let bytes = timeout.packets.iter().map(|lost| u64::from(lost.bytes)).sum();
        lock(&self.state).monitor.lost(bytes, timeout.in_flight);
    }

    fn on_tick(&mut self, now: Time) {
        let mut state = lock(&self.state);
        if let Some(policy) = &self.policy {
            let (at, window) = (state.boundary, state.window);
            let (seen, _) = state.monitor.end(at, window);
            let answer = Python::attach(|py| policy.call.call1(py, (seen.to_vec(),))?.extract::<f64>(py));
            let fault = match answer {
                Ok(action) if action.is_finite() => {
                    state.act(action, policy.acting);
                    None
                }
                Ok(action) => Some((format!("answered {action}; make it a number from -1 to 1"), None)),
                Err(error) => Some((format!("raised {error}").replace('\n', " "), Some(error))),
            };
            if let Some((what, exception)) = fault {
                failure::put(Fault { what: format!("controller '{}': its policy {what}", policy.name), exception });
            }
            state.next(at, policy.acting);
        }
        // An environment that is not stepped any further has no next step.
        if state.boundary < now {
            state.boundary = Time::NEVER;
        }
    }

    fn nature(&self) -> Nature {
        Nature::PLAIN
    }

    fn permit(&self) -> Permit {
        let state = lock(&self.state);
        let pace = |rate: f64| Pacing::Rate(Rate::from_bytes_per_sec((rate as u64).max(1)));
        let mut permit = Permit::up_to(state.window as u64);
        permit.pacing = state.rate.map_or(Pacing::Free, pace);
        // Right behind the step: what was decided between two steps counts from here on.
        permit.next_tick = state.boundary + Nanos::from_nanos(1);
        permit.recovery = Recovery::Controller;
        permit.outlasts_departures = true;
        permit
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        let state = lock(&self.state);
        report("cwnd_packets", state.window / state.mss);
        if let Some(rate) = state.rate {
            report("pacing_mbps", rate * 8e-6);
        }
    }
}

/// Registers a policy as a controller; see `paceline.gym.register_policy`.
#[pyfunction]
pub(crate) fn register_policy(name: String, policy: Py<PyAny>, step: &Bound<'_, PyAny>, action: &str) -> PyResult<()> {
    let acting = Acting::of(step, action)?;
    let policy = Arc::new(Policy { name: name.clone(), call: policy, acting });
    let mut policies = POLICIES.lock().unwrap_or_else(PoisonError::into_inner);
    if !policies.contains_key(&name) {
        let key = name.clone();
        let make = move |_: &paceline_cc::entry::Params, env: &Env| -> Box<dyn Controller> {
            let policy = POLICIES.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
            let mut state = State::new(env.mss);
            if let Some(policy) = &policy {
                state.next(Time::ZERO, policy.acting);
            }
            Box::new(Agent { state: Arc::new(Mutex::new(state)), policy })
        };
        let summary = "a policy in Python".to_owned();
        let mut definition = Definition::new(name.clone(), make);
        definition.summary = summary;
        definition.source = "docs/guide/python.md".to_owned();
        register(definition).map_err(|error| PyValueError::new_err(error.to_string()))?;
    }
    policies.insert(name, policy);
    Ok(())
}
