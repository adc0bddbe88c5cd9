//! Controllers written in Python: a class whose objects are informed and asked as [`paceline_cc::Controller`] is.
//!
//! After each event the object's answers (`window`, `pacing_mbps`, `gap`, `next_tick`, `ssthresh`) are read and kept, so that
//! the datapath's questions, which come more often, do not go through the interpreter.

pub(crate) mod define;
pub(crate) mod failure;
mod started;
pub(crate) mod values;

use std::cell::OnceCell;
use std::sync::Arc;

use paceline_cc::{
    Ack, Controller, Env, Loss, Lost, Nanos, Nature, Pacing, Permit, Rate, Restart, Sent, Stamp, Telemetry, Time,
    Timeout,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use pyo3::{IntoPyObject, IntoPyObjectExt, intern};

use define::Class;
use failure::{Call, Fault};

use crate::scenario::shown;

/// An object of a class in Python.
pub(crate) struct Foreign {
    class: Arc<Class>,
    /// Nothing where it could not be made.
    object: Option<Py<PyAny>>,
    mss: u32,
    window: u64,
    /// The method after which it was that for the first time.
    set_by: &'static str,
    pacing: Pacing,
    next_tick: Time,
    threshold: u64,
    /// In real time: the call that it is in.
    call: Option<Arc<Call>>,
}

thread_local! {
    /// This thread, as Python numbers it.
    static THREAD: OnceCell<u64> = const { OnceCell::new() };
}

/// An answer that cannot be.
struct Wrong {
    what: String,
    exception: Option<PyErr>,
}

impl Foreign {
    /// An object of `class`, made of these parameters.
    pub(crate) fn new(class: Arc<Class>, env: &Env, params: &[(&'static str, define::Given)]) -> Self {
        let mss = env.mss;
        let (window, pacing, next_tick, threshold) = (u64::from(mss), Pacing::Free, Time::NEVER, u64::MAX);
        let call = Call::new(|| format!("controller '{}': {}", class.controller, class.name));
        let set_by = "__init__";
        let mut made = Self { class, object: None, mss, window, set_by, pacing, next_tick, threshold, call };
        Python::attach(|py| {
            let object = || -> PyResult<Bound<'_, PyAny>> {
                let keywords = PyDict::new(py);
                for (name, value) in params {
                    keywords.set_item(name, value)?;
                }
                let class = made.class.object.bind(py);
                class.call((values::Env::from(env),), Some(&keywords))
            };
            made.begin(py, "__init__");
            let object = object();
            made.end(py, "__init__");
            match object {
                Ok(object) => {
                    made.object = Some(object.clone().unbind());
                    made.answer(&object, "__init__");
                    made.settled(&object);
                }
                Err(error) => made.raised(py, "__init__", error),
            }
        });
        made
    }

    /// Calls a method that the class has, and reads the answers.
    fn call<'a, A>(&mut self, method: &'static str, argument: impl FnOnce() -> A) -> Option<u64>
    where
        A: for<'py> IntoPyObject<'py>,
    {
        let class = Arc::clone(&self.class);
        let name = class.method(method)?;
        Python::attach(|py| {
            // Without an object it has failed, and its run is about to be given up.
            let object = self.object.as_ref()?.bind(py).clone();
            let argument = argument().into_bound_py_any(py);
            self.begin(py, method);
            let answer = argument.and_then(|argument| object.call_method1(name, (argument,)));
            self.end(py, method);
            match answer {
                Ok(answer) => {
                    self.answer(&object, method);
                    if answer.is_none() {
                        return None;
                    }
                    if method != "on_sent" {
                        self.suspended(method, &answer);
                        return None;
                    }
                    answer.extract().map_err(|_| self.mistagged(&answer)).ok()
                }
                Err(error) => {
                    self.raised(py, method, error);
                    None
                }
            }
        })
    }

    /// A start-up is over at this window, bytes: the object has it, and decides from now on.
    fn take_over(&mut self, now: Time, window: u64) {
        Python::attach(|py| {
            let Some(object) = self.object.as_ref().map(|object| object.bind(py).clone()) else { return };
            let put = || {
                object.setattr(intern!(py, "window"), window as f64)?;
                object.setattr(intern!(py, "ssthresh"), window as f64)
            };
            match put() {
                Ok(()) => self.answer(&object, "__init__"),
                Err(error) => self.raised(py, "__init__", error),
            }
        });
        self.call("on_start_end", || now.as_nanos());
    }

    /// A call into Python begins; in real time others see how long it takes.
    fn begin(&self, py: Python<'_>, method: &'static str) {
        let Some(call) = &self.call else { return };
        let ask = || py.import("threading")?.call_method0("get_ident")?.extract();
        let thread = THREAD.with(|known| *known.get_or_init(|| ask().unwrap_or_default()));
        call.begin(method, thread);
    }

    /// It has returned.
    fn end(&mut self, py: Python<'_>, method: &str) {
        let late = |call: &Arc<Call>| call.end(|| self.class.place(py, method));
        if let Some(what) = self.call.as_ref().and_then(late) {
            self.object = None;
            self.next_tick = Time::NEVER;
            failure::put(Fault { what, exception: None });
        }
    }

    /// Reads what the object answers now.
    fn answer(&mut self, object: &Bound<'_, PyAny>, after: &'static str) {
        let window = self.window;
        if let Err(Wrong { what, exception }) = self.read(object) {
            let place = self.class.place(object.py(), after);
            self.fail(format!("after {}.{after} ({place}) {what}", self.class.name), exception);
        }
        if self.window != window {
            self.set_by = after;
        }
    }

    /// What is read from the class, once, is not set in the object.
    fn settled(&mut self, object: &Bound<'_, PyAny>) {
        let of_class = self.class.object.bind(object.py());
        for name in ["recovery", "ecn"] {
            let (Ok(own), Ok(declared)) = (object.getattr(name), of_class.getattr(name)) else { continue };
            if own.eq(declared).unwrap_or(true) {
                continue;
            }
            let (class, place, own) = (&self.class.name, self.class.place(object.py(), "__init__"), shown(&own));
            let what = format!(
                "{class}.__init__ ({place}) sets {name} to {own}, which is read from the class; write {name} = {own} below class {class}"
            );
            return self.fail(what, None);
        }
    }

    /// A call that answered a coroutine or a generator has done nothing.
    fn suspended(&mut self, method: &str, answer: &Bound<'_, PyAny>) {
        if !answer.hasattr("send").unwrap_or(false) {
            return;
        }
        let class = &self.class.name;
        let (place, kind) = (self.class.place(answer.py(), method), answer.get_type());
        let kind = kind.name().map_or_else(|_| "suspended call".to_owned(), |name| name.to_string());
        let what =
            format!("{class}.{method} ({place}) answered a {kind}, so that nothing was done; make it a plain def");
        self.fail(what, None);
    }

    fn read(&mut self, object: &Bound<'_, PyAny>) -> Result<(), Wrong> {
        let py = object.py();
        let window = number(object, intern!(py, "window"), Least::Zero, "bytes from 0 on")?;
        let Some(window) = window else {
            return Err(Wrong::new("window is None; make it a number of bytes"));
        };
        // One packet is the least of any controller.
        self.window = (window as u64).max(u64::from(self.mss));
        let wanted = "Mbit/s above 0, or None, which leaves packets to the window";
        let rate = number(object, intern!(py, "pacing_mbps"), Least::AboveZero, wanted)?;
        let gap = number(object, intern!(py, "gap"), Least::Zero, "ns from 0 on, or None")?;
        self.pacing = match (gap, rate) {
            (Some(gap), _) if gap > 0.0 && gap < 1.0 => {
                return Err(Wrong::new(&format!("gap is {gap:e}, a part of 1 ns; make it whole ns, or None")));
            }
            (Some(gap), _) => Pacing::Gap(Nanos::from_nanos(gap as u64)),
            // It would hold the flow for ever.
            (None, Some(rate)) if Rate::from_mbps(rate) < Rate::from_bytes_per_sec(1) => {
                return Err(Wrong::new(&format!(
                    "pacing_mbps is {rate:e}, less than a byte per second; make it {wanted}"
                )));
            }
            (None, Some(rate)) => Pacing::Rate(Rate::from_mbps(rate)),
            (None, None) => Pacing::Free,
        };
        let whole = |value: Option<f64>| value.map(|value| value as u64);
        let tick = number(object, intern!(py, "next_tick"), Least::Zero, "ns from 0 on, or None")?;
        if tick.is_some() && self.class.method("on_tick").is_none() {
            return Err(Wrong::new("next_tick is set, and the class has no on_tick; define on_tick(self, now)"));
        }
        self.next_tick = whole(tick).map_or(Time::NEVER, Time::from_nanos);
        let threshold = number(object, intern!(py, "ssthresh"), Least::Zero, "bytes from 0 on, or None")?;
        self.threshold = whole(threshold).unwrap_or(u64::MAX);
        Ok(())
    }

    /// `on_sent` answered what cannot come back with a packet.
    fn mistagged(&mut self, answer: &Bound<'_, PyAny>) {
        let (place, class, text) = (self.class.place(answer.py(), "on_sent"), &self.class.name, shown(answer));
        self.fail(
            format!(
                "{class}.on_sent ({place}) answered {text}; answer a tag, a whole number from 0 to 2^64 - 1, or None"
            ),
            None,
        );
    }

    fn raised(&mut self, py: Python<'_>, method: &str, error: PyErr) {
        let place = self.class.line_of(py, &error).unwrap_or_else(|| self.class.place(py, method));
        let kind = error.get_type(py).name().map_or_else(|_| "an exception".to_owned(), |name| name.to_string());
        let text = error.value(py).to_string().replace('\n', " ");
        self.fail(format!("{}.{method} raised {kind}: {text} ({place})", self.class.name), Some(error));
    }

    fn fail(&mut self, what: String, exception: Option<PyErr>) {
        self.object = None;
        self.next_tick = Time::NEVER;
        failure::put(Fault { what: format!("controller '{}': {what}", self.class.controller), exception });
    }
}

impl Wrong {
    fn new(what: &str) -> Self {
        Self { what: what.to_owned(), exception: None }
    }
}

/// The least value of an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Least {
    Zero,
    AboveZero,
}

/// A number that the object has, nothing for `None`; `wanted` says what it should be.
fn number(
    object: &Bound<'_, PyAny>,
    name: &Bound<'_, PyString>,
    least: Least,
    wanted: &str,
) -> Result<Option<f64>, Wrong> {
    let wrong = |error: PyErr| {
        let what = format!("{name} could not be read: {}", error.value(object.py()));
        Wrong { what: what.replace('\n', " "), exception: Some(error) }
    };
    let value = object.getattr(name).map_err(wrong)?;
    if value.is_none() {
        return Ok(None);
    }
    let value: f64 = value.extract().map_err(wrong)?;
    if !value.is_finite() {
        return Err(Wrong::new(&format!("{name} is {value}; keep it finite")));
    }
    if value < 0.0 || (value == 0.0 && least == Least::AboveZero) {
        return Err(Wrong::new(&format!("{name} is {value}; make it {wanted}")));
    }
    Ok(Some(value))
}

impl Controller for Foreign {
    fn on_sent(&mut self, sent: &Sent) -> Stamp {
        let tag = self.call("on_sent", || values::Sent::from(sent)).unwrap_or_default();
        Stamp::new(tag, 0)
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.call("on_ack", || values::Ack::from(ack));
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        self.call("on_loss", || values::Loss::from(loss));
    }

    fn on_timeout(&mut self, timeout: &Timeout<'_>) {
        self.call("on_timeout", || values::Timeout::from(timeout));
    }

    fn on_spurious(&mut self, now: Time) {
        self.call("on_spurious", || now.as_nanos());
    }

    fn on_cause(&mut self, _now: Time, packets: &[Lost]) {
        self.call("on_cause", || packets.iter().map(values::Lost::from).collect::<Vec<_>>());
    }

    fn on_restart(&mut self, restart: &Restart) {
        self.call("on_restart", || values::Restart::from(restart));
    }

    fn on_app_limited(&mut self, now: Time, _in_flight: u64) {
        self.call("on_app_limited", || now.as_nanos());
    }

    fn on_telemetry(&mut self, telemetry: &Telemetry<'_>) {
        self.call("on_telemetry", || values::Telemetry::from(telemetry));
    }

    fn on_mss(&mut self, _now: Time, mss: u32) {
        self.mss = mss.max(1);
        self.window = self.window.max(u64::from(self.mss));
        self.call("on_mss", || mss);
    }

    fn on_tick(&mut self, now: Time) {
        let asked = self.next_tick;
        self.call("on_tick", || now.as_nanos());
        // A tick that is asked for again in the past would never end.
        if self.next_tick <= now {
            let what =
                format!("asks for its next tick at {} ns, which is not after {}", asked.as_nanos(), now.as_nanos());
            self.fail(format!("{}.on_tick {what}; set next_tick to a later time, or None", self.class.name), None);
        }
    }

    fn nature(&self) -> Nature {
        let mut nature = Nature::PLAIN;
        nature.ecn = self.class.ecn;
        nature
    }

    fn permit(&self) -> Permit {
        let mut permit = Permit::up_to(self.window);
        permit.pacing = self.pacing;
        permit.next_tick = self.next_tick;
        permit.threshold = self.threshold;
        permit.recovery = self.class.recovery;
        permit.outlasts_departures = self.class.method("on_sent").is_none();
        permit
    }

    fn window_set_at(&self) -> Option<String> {
        let place = Python::attach(|py| self.class.place(py, self.set_by));
        Some(format!("{}.{} ({place})", self.class.name, self.set_by))
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        report("cwnd_packets", self.window as f64 / f64::from(self.mss));
        if let Pacing::Rate(rate) = self.pacing {
            report("pacing_mbps", rate.as_mbps());
        }
        Python::attach(|py| {
            let Some(object) = &self.object else { return };
            for (name, attribute) in &self.class.shown {
                let value = object.bind(py).getattr(attribute.bind(py)).and_then(|value| value.extract::<f64>());
                if let Some(value) = value.ok().filter(|value| value.is_finite()) {
                    report(name, value);
                }
            }
        });
    }
}
