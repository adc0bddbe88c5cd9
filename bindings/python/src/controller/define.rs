//! Classes as controllers of the registry.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use paceline_cc::entry::{Kind, Param, Params, Start};
use paceline_cc::names::{NameError, intern};
use paceline_cc::registry::{Definition, register};
use paceline_cc::start_ups::{self, START_UPS};
use paceline_cc::{Controller, Ecn, Env, Recovery};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::Foreign;
use super::started::Started;
use crate::scenario;

/// A call that informs a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Sent,
    Ack,
    Loss,
    Timeout,
    Spurious,
    Cause,
    Restart,
    AppLimited,
    Telemetry,
    Mss,
    Tick,
    StartEnd,
}

impl Method {
    const ALL: [Self; 12] = [
        Self::Sent,
        Self::Ack,
        Self::Loss,
        Self::Timeout,
        Self::Spurious,
        Self::Cause,
        Self::Restart,
        Self::AppLimited,
        Self::Telemetry,
        Self::Mss,
        Self::Tick,
        Self::StartEnd,
    ];

    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Sent => "on_sent",
            Self::Ack => "on_ack",
            Self::Loss => "on_loss",
            Self::Timeout => "on_timeout",
            Self::Spurious => "on_spurious",
            Self::Cause => "on_cause",
            Self::Restart => "on_restart",
            Self::AppLimited => "on_app_limited",
            Self::Telemetry => "on_telemetry",
            Self::Mss => "on_mss",
            Self::Tick => "on_tick",
            Self::StartEnd => "on_start_end",
        }
    }

    pub(crate) fn name(self, py: Python<'_>) -> Bound<'_, PyString> {
        match self {
            Self::Sent => pyo3::intern!(py, "on_sent").clone(),
            Self::Ack => pyo3::intern!(py, "on_ack").clone(),
            _ => PyString::intern(py, self.text()),
        }
    }
}

/// The methods that are called, by their names in Python.
pub(crate) fn methods() -> Vec<&'static str> {
    Method::ALL.into_iter().map(Method::text).collect()
}

/// A class that is a controller.
pub(crate) struct Class {
    pub(crate) object: Py<PyAny>,
    pub(crate) controller: String,
    /// Its name in Python.
    pub(crate) name: String,
    methods: Vec<Method>,
    pub(crate) recovery: Recovery,
    pub(crate) ecn: Ecn,
    /// Attributes that records show.
    pub(crate) shown: Vec<(&'static str, Py<PyString>)>,
}

/// A checked parameter.
pub(crate) enum Given {
    Number(f64),
    Word(&'static str),
}

impl Given {
    pub(crate) fn put(&self, keywords: &Bound<'_, PyDict>, name: &str) -> PyResult<()> {
        match self {
            Self::Number(number) => keywords.set_item(name, number),
            Self::Word(word) => keywords.set_item(name, word),
        }
    }
}

/// A parameter as Python declares it.
#[derive(Clone, Debug, FromPyObject, PartialEq)]
pub(crate) enum Declared {
    /// Default, smallest, largest.
    Number(f64, f64, f64),
    /// Default, and all words.
    Word(String, Vec<String>),
}

/// What was registered, by name. A notebook's cell is run again and again: the newest class counts, as long as its parameters
/// are those that the registry knows.
static CLASSES: Mutex<BTreeMap<String, Registered>> = Mutex::new(BTreeMap::new());

/// Parameters, which stay, and the newest class.
struct Registered {
    params: Vec<(String, Declared)>,
    class: Arc<Class>,
}

impl Class {
    pub(crate) fn has(&self, method: Method) -> bool {
        self.methods.contains(&method)
    }

    /// File and line of a method.
    pub(crate) fn place(&self, py: Python<'_>, method: &str) -> String {
        let code = || self.object.bind(py).getattr(method)?.getattr("__code__");
        let place = code().and_then(|code| {
            let file: String = code.getattr("co_filename")?.extract()?;
            Ok((file, code.getattr("co_firstlineno")?.extract::<u32>()?))
        });
        place.map_or_else(|_| "no source".to_owned(), |(file, line)| at(&file, line))
    }

    /// File and line of the innermost place of an error that is in a file of the class; else of its innermost place.
    pub(crate) fn line_of(&self, py: Python<'_>, error: &PyErr) -> Option<String> {
        let own: Option<String> = Method::ALL.into_iter().filter(|method| self.has(*method)).find_map(|method| {
            let code = self.object.bind(py).getattr(method.text()).ok()?.getattr("__code__").ok()?;
            code.getattr("co_filename").ok()?.extract().ok()
        });
        let mut next = error.traceback(py).map(Bound::into_any);
        let mut found: Option<(String, u32)> = None;
        while let Some(place) = next.filter(|place| !place.is_none()) {
            let frame = || -> PyResult<(String, u32)> {
                let code = place.getattr("tb_frame")?.getattr("f_code")?;
                Ok((code.getattr("co_filename")?.extract()?, place.getattr("tb_lineno")?.extract()?))
            };
            if let Ok((file, line)) = frame()
                && (found.is_none() || own.as_ref().is_none_or(|own| *own == file))
            {
                found = Some((file, line));
            }
            next = place.getattr("tb_next").ok();
        }
        found.map(|(file, line)| at(&file, line))
    }
}

fn at(file: &str, line: u32) -> String {
    let name = std::path::Path::new(file).file_name().map_or(file.into(), |name| name.to_string_lossy());
    format!("{name}, line {line}")
}

/// Registers a class; see `paceline.controller`.
#[pyfunction]
pub(crate) fn register_controller(
    class: &Bound<'_, PyAny>,
    name: String,
    summary: String,
    params: Vec<(String, Declared)>,
    shown: Vec<String>,
) -> PyResult<()> {
    let wrong = |what: String| PyValueError::new_err(format!("controller '{name}': {what}"));
    let has = |method: &Method| class.hasattr(method.text()).unwrap_or(false);
    let methods: Vec<Method> = Method::ALL.into_iter().filter(has).collect();
    if !methods.contains(&Method::Ack) {
        return Err(PyTypeError::new_err(format!(
            "controller '{name}': the class has no on_ack; define on_ack(self, ack)"
        )));
    }
    let word = |attribute: &str| -> PyResult<String> {
        let given = class.getattr(attribute)?;
        Ok(given.extract().unwrap_or_else(|_| scenario::shown(&given)))
    };
    let recovery = match word("recovery")?.as_str() {
        "prr" => Recovery::Prr,
        "controller" => Recovery::Controller,
        other => return Err(wrong(format!("recovery is '{other}'; write 'prr' or 'controller'"))),
    };
    let ecn = match word("ecn")?.as_str() {
        "off" => Ecn::Off,
        "classic" => Ecn::Classic,
        "exact" => Ecn::Exact,
        "l4s" => Ecn::L4s,
        other => return Err(wrong(format!("ecn is '{other}'; write 'off', 'classic', 'exact' or 'l4s'"))),
    };
    let named = |text: &String| {
        let attribute = PyString::new(class.py(), text).unbind();
        intern(text).map(|name| (name, attribute)).map_err(|error| wrong(error.to_string()))
    };
    let made = Arc::new(Class {
        object: class.clone().unbind(),
        controller: name.clone(),
        name: class.getattr("__name__")?.extract()?,
        methods,
        recovery,
        ecn,
        shown: shown.iter().map(named).collect::<PyResult<_>>()?,
    });
    let mut classes = CLASSES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = classes.get_mut(&name) {
        if known.params != params {
            return Err(wrong("it was registered with other parameters, which stay; take another name".to_owned()));
        }
        known.class = made;
        return Ok(());
    }
    let declared = params.iter().map(|(key, declared)| param(key, declared)).collect::<Result<_, NameError>>();
    let declared = declared.map_err(|error| wrong(error.to_string()))?;
    let start = start(&params);
    let (key, kinds, starts) = (name.clone(), params.clone(), start.is_some());
    let make = move |given: &Params, env: &Env| -> Box<dyn Controller> {
        let class = CLASSES.lock().unwrap_or_else(PoisonError::into_inner).get(&key).map(|known| known.class.clone());
        let Some(class) = class else { unreachable!("a class is kept before its name can be known") };
        let value = |(name, declared): &(String, Declared)| {
            let value = match declared {
                Declared::Number(..) => Given::Number(given.number(name)),
                Declared::Word(..) => Given::Word(given.word(name)),
            };
            intern(name).ok().map(|name| (name, value))
        };
        let params: Vec<_> = kinds.iter().filter_map(value).collect();
        let own = Foreign::new(class, env, &params);
        if starts && given.word("start") != OWN {
            return Box::new(Started::new(own, env, start_ups::start_up(given, env)));
        }
        Box::new(own)
    };
    let definition = Definition {
        summary,
        source: "written in Python".to_owned(),
        start,
        params: declared,
        needs: if matches!(ecn, Ecn::Exact | Ecn::L4s) { vec![paceline_cc::Ability::ExactMarks] } else { Vec::new() },
        ..Definition::new(name.clone(), make)
    };
    register(definition).map_err(|error| PyValueError::new_err(error.to_string()))?;
    classes.insert(name, Registered { params, class: made });
    Ok(())
}

/// The start-up that a class has itself.
const OWN: &str = "own";

/// The start-ups that can stand before a class: all, unless it declares a parameter of a name that one of them has.
fn start(params: &[(String, Declared)]) -> Option<Start> {
    static NAMES: LazyLock<Vec<&'static str>> =
        LazyLock::new(|| [OWN].into_iter().chain(START_UPS.iter().map(|start_up| start_up.name)).collect());
    let of_start_ups = START_UPS.iter().flat_map(|start_up| start_up.params).map(|param| param.name);
    let mut taken = of_start_ups.chain(["start"]);
    if taken.any(|name| params.iter().any(|(own, _)| own == name)) {
        return None;
    }
    let kind = Kind::Choice(NAMES.as_slice());
    let param = Param { name: "start", unit: "start-up", kind, default: OWN, source: "written in Python" };
    Some(Start { param, among: START_UPS, measured: &[] })
}

/// Whether the controller of this name is written in Python.
pub(crate) fn is_known(name: &str) -> bool {
    CLASSES.lock().unwrap_or_else(PoisonError::into_inner).contains_key(name)
}

/// As the registry has it.
fn param(name: &str, declared: &Declared) -> Result<Param, NameError> {
    let text = |text: &str| intern(text);
    let (kind, default) = match declared {
        Declared::Number(default, min, max) => (Kind::Number { min: *min, max: *max }, default.to_string()),
        Declared::Word(default, words) => {
            let words: Vec<&'static str> = words.iter().map(|word| text(word)).collect::<Result<_, _>>()?;
            (Kind::Choice(words.leak()), default.clone())
        }
    };
    Ok(Param { name: text(name)?, unit: "", kind, default: text(&default)?, source: "written in Python" })
}
