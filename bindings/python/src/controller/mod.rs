//! Controllers written in Python: a class whose objects are informed and asked as [`paceline_cc::Controller`] is, as
//! [`paceline_lab::guest`] has it.

pub(crate) mod define;
pub(crate) mod failure;
pub(crate) mod values;

use std::cell::OnceCell;
use std::sync::Arc;

use paceline_cc::Env;
use paceline_lab::guest::{Argument, Guest, GuestAnswers, Language, Object, Unanswerable};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use pyo3::{IntoPyObjectExt, intern};

use define::{Class, Given};
use failure::{Call, Fault};

use crate::scenario::shown;

/// An object of a class in Python.
pub(crate) struct Foreign {
    class: Arc<Class>,
    /// Nothing where it could not be made.
    object: Option<Py<PyAny>>,
    /// In real time: the call that it is in.
    call: Option<Arc<Call>>,
}

/// Python, as errors speak of it.
const PYTHON: Language = Language { name: "Python", nothing: "None", on_tick: "on_tick(self, now)" };

thread_local! {
    /// This thread, as Python numbers it.
    static THREAD: OnceCell<u64> = const { OnceCell::new() };
}

/// An answer that cannot be.
struct Wrong {
    what: String,
    exception: Option<PyErr>,
}

impl From<Unanswerable> for Wrong {
    fn from(what: Unanswerable) -> Self {
        Self { what: what.to_string(), exception: None }
    }
}

impl Foreign {
    /// An object of `class`, made of these parameters.
    pub(crate) fn guest(class: Arc<Class>, env: &Env, params: &[(&'static str, Given)]) -> Guest<Self> {
        let call = Call::new(|| format!("controller '{}': {}", class.controller, class.name));
        let kinds = (class.recovery, class.ecn);
        let mut made = Self { class, object: None, call };
        let answered = Python::attach(|py| {
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
                    let answered = made.answer(&object, "__init__", env.mss);
                    made.settled(&object);
                    answered
                }
                Err(error) => {
                    made.raised(py, "__init__", error);
                    None
                }
            }
        });
        Guest::new(made, env, kinds, "__init__", answered)
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
            failure::put(Fault { what, exception: None });
        }
    }

    /// What the object answers now.
    fn answer(&mut self, object: &Bound<'_, PyAny>, after: &'static str, mss: u32) -> Option<GuestAnswers> {
        let ticks = self.class.method("on_tick").is_some();
        match GuestAnswers::read(PYTHON, mss, ticks, |name| number(object, name)) {
            Ok(answered) => Some(answered),
            Err(Wrong { what, exception }) => {
                let place = self.class.place(object.py(), after);
                self.fail_with(format!("after {}.{after} ({place}) {what}", self.class.name), exception);
                None
            }
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
            return self.fail_with(what, None);
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
        self.fail_with(what, None);
    }

    /// `on_sent` answered what cannot come back with a packet.
    fn mistagged(&mut self, answer: &Bound<'_, PyAny>) {
        let (place, class, text) = (self.class.place(answer.py(), "on_sent"), &self.class.name, shown(answer));
        self.fail_with(
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
        self.fail_with(format!("{}.{method} raised {kind}: {text} ({place})", self.class.name), Some(error));
    }

    fn fail_with(&mut self, what: String, exception: Option<PyErr>) {
        self.object = None;
        failure::put(Fault { what: format!("controller '{}': {what}", self.class.controller), exception });
    }
}

/// A number that the object has, nothing for `None`.
fn number(object: &Bound<'_, PyAny>, name: &str) -> Result<Option<f64>, Wrong> {
    let wrong = |error: PyErr| {
        let what = format!("{name} could not be read: {}", error.value(object.py()));
        Wrong { what: what.replace('\n', " "), exception: Some(error) }
    };
    let value = object.getattr(PyString::intern(object.py(), name)).map_err(wrong)?;
    if value.is_none() { Ok(None) } else { value.extract().map(Some).map_err(wrong) }
}

/// As the methods of Python take it.
fn argument<'py>(py: Python<'py>, argument: Argument<'_>) -> PyResult<Bound<'py, PyAny>> {
    match argument {
        Argument::Sent(sent) => values::Sent::from(sent).into_bound_py_any(py),
        Argument::Ack(ack) => values::Ack::from(ack).into_bound_py_any(py),
        Argument::Loss(loss) => values::Loss::from(loss).into_bound_py_any(py),
        Argument::Timeout(timeout) => values::Timeout::from(timeout).into_bound_py_any(py),
        Argument::Lost(packets) => packets.iter().map(values::Lost::from).collect::<Vec<_>>().into_bound_py_any(py),
        Argument::Restart(restart) => values::Restart::from(restart).into_bound_py_any(py),
        Argument::Telemetry(telemetry) => values::Telemetry::from(telemetry).into_bound_py_any(py),
        Argument::Mss(mss) => mss.into_bound_py_any(py),
        Argument::Now(now) => now.as_nanos().into_bound_py_any(py),
    }
}

impl Object for Foreign {
    const LANGUAGE: Language = PYTHON;

    fn has(&self, method: &str) -> bool {
        self.class.method(method).is_some()
    }

    fn call(&mut self, method: &'static str, with: Argument<'_>, mss: u32) -> Option<(GuestAnswers, u64)> {
        let class = Arc::clone(&self.class);
        let name = class.method(method)?;
        Python::attach(|py| {
            // Without an object it has failed, and its run is about to be given up.
            let object = self.object.as_ref()?.bind(py).clone();
            let argument = argument(py, with);
            self.begin(py, method);
            let answer = argument.and_then(|argument| object.call_method1(name, (argument,)));
            self.end(py, method);
            let answer = answer.map_err(|error| self.raised(py, method, error)).ok()?;
            let answered = self.answer(&object, method, mss)?;
            if answer.is_none() {
                return Some((answered, 0));
            }
            if method != "on_sent" {
                self.suspended(method, &answer);
                return Some((answered, 0));
            }
            answer.extract().map_err(|_| self.mistagged(&answer)).ok().map(|tag| (answered, tag))
        })
    }

    fn take_over(&mut self, window: u64, mss: u32) -> Option<GuestAnswers> {
        Python::attach(|py| {
            let object = self.object.as_ref()?.bind(py).clone();
            let put = || {
                object.setattr(intern!(py, "window"), window as f64)?;
                object.setattr(intern!(py, "ssthresh"), window as f64)
            };
            put().map_err(|error| self.raised(py, "__init__", error)).ok()?;
            self.answer(&object, "__init__", mss)
        })
    }

    fn fail(&mut self, method: &'static str, what: &Unanswerable) {
        self.fail_with(format!("{}.{method} {what}", self.class.name), None);
    }

    fn place(&self, method: &str) -> String {
        let place = Python::attach(|py| self.class.place(py, method));
        format!("{}.{method} ({place})", self.class.name)
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
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
