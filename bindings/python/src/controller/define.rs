//! Classes as controllers of the registry.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use paceline_cc::entry::{Kind, Param, Params, Start};
use paceline_cc::names::{NameError, intern};
use paceline_cc::registry::{Definition, register};
use paceline_cc::start_ups::{self, START_UPS};
use paceline_cc::{Ability, Controller, Ecn, Env, Recovery};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::Foreign;
use super::started::Started;
use crate::scenario;

/// The methods that are called, by their names in Python.
pub(crate) const METHODS: [&str; 12] = [
    "on_sent",
    "on_ack",
    "on_loss",
    "on_timeout",
    "on_spurious",
    "on_cause",
    "on_restart",
    "on_app_limited",
    "on_telemetry",
    "on_mss",
    "on_tick",
    "on_start_end",
];

/// A class that is a controller.
pub(crate) struct Class {
    pub(crate) object: Py<PyAny>,
    pub(crate) controller: String,
    /// Its name in Python.
    pub(crate) name: String,
    /// Those of [`METHODS`] that it has.
    methods: Vec<(&'static str, Py<PyString>)>,
    pub(crate) recovery: Recovery,
    pub(crate) ecn: Ecn,
    /// Attributes that records show.
    pub(crate) shown: Vec<(&'static str, Py<PyString>)>,
}

/// A checked parameter.
#[derive(IntoPyObjectRef)]
pub(crate) enum Given {
    Number(f64),
    Word(&'static str),
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
    /// Its name of a method, where it has that.
    pub(crate) fn method(&self, name: &str) -> Option<&Py<PyString>> {
        self.methods.iter().find(|(known, _)| *known == name).map(|(_, name)| name)
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
        let own: Option<String> = self.methods.iter().find_map(|(_, name)| {
            let code = self.object.bind(py).getattr(name).ok()?.getattr("__code__").ok()?;
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
    if !class.hasattr("on_ack")? {
        return Err(PyTypeError::new_err(format!(
            "controller '{name}': the class has no on_ack; define on_ack(self, ack)"
        )));
    }
    let word = |attribute: &str| -> PyResult<String> {
        let given = class.getattr(attribute)?;
        Ok(given.extract().unwrap_or_else(|_| scenario::shown(&given)))
    };
    let recovery = word("recovery")?;
    let recovery = Recovery::named(&recovery)
        .ok_or_else(|| wrong(format!("recovery is '{recovery}'; write 'prr' or 'controller'")))?;
    let ecn = word("ecn")?;
    let ecn =
        Ecn::named(&ecn).ok_or_else(|| wrong(format!("ecn is '{ecn}'; write 'off', 'classic', 'exact' or 'l4s'")))?;
    let named = |text: &String| {
        let attribute = PyString::new(class.py(), text).unbind();
        intern(text).map(|name| (name, attribute)).map_err(|error| wrong(error.to_string()))
    };
    let own = METHODS.into_iter().filter(|method| class.hasattr(method).unwrap_or(false));
    let made = Arc::new(Class {
        object: class.clone().unbind(),
        controller: name.clone(),
        name: class.getattr("__name__")?.extract()?,
        methods: own.map(|method| (method, PyString::intern(class.py(), method).unbind())).collect(),
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
    let mut definition = Definition::new(name.clone(), make);
    definition.summary = summary;
    definition.source = "written in Python".to_owned();
    definition.start = start;
    definition.params = declared;
    definition.needs = match ecn {
        Ecn::Exact => vec![Ability::ExactMarks],
        Ecn::L4s => vec![Ability::ExactMarks, Ability::Ect1],
        Ecn::Off | Ecn::Classic => Vec::new(),
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
    let param = Param::new("start", kind, OWN).with_unit("start-up").with_source("written in Python");
    Some(Start::new(param, START_UPS))
}

/// Whether the controller of this name is written in Python.
pub(crate) fn is_known(name: &str) -> bool {
    CLASSES.lock().unwrap_or_else(PoisonError::into_inner).contains_key(name)
}

/// As the registry has it.
fn param(name: &str, declared: &Declared) -> Result<Param, NameError> {
    let (kind, default) = match declared {
        Declared::Number(default, min, max) => (Kind::Number { min: *min, max: *max }, default.to_string()),
        Declared::Word(default, words) => {
            let words: Vec<&'static str> = words.iter().map(|word| intern(word)).collect::<Result<_, _>>()?;
            (Kind::Choice(words.leak()), default.clone())
        }
    };
    Ok(Param::new(intern(name)?, kind, intern(&default)?).with_source("written in Python"))
}
