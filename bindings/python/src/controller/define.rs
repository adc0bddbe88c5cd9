//! Classes as controllers of the registry.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use paceline_cc::entry::Params;
use paceline_cc::names::intern;
use paceline_cc::registry::register;
use paceline_cc::{Ecn, Env, Recovery};
use paceline_lab::guest::{self, METHODS};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::Foreign;
use crate::scenario;

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

/// A checked parameter, as Python has it.
#[derive(IntoPyObjectRef)]
pub(crate) enum Given {
    Number(f64),
    Word(&'static str),
}

impl From<guest::Given> for Given {
    fn from(given: guest::Given) -> Self {
        match given {
            guest::Given::Number(number) => Self::Number(number),
            guest::Given::Word(word) => Self::Word(word),
        }
    }
}

/// A parameter as Python declares it.
#[derive(FromPyObject)]
pub(crate) enum Declared {
    /// Default, smallest, largest.
    Number(f64, f64, f64),
    /// Default, and all words.
    Word(String, Vec<String>),
}

impl From<Declared> for guest::Declared {
    fn from(declared: Declared) -> Self {
        match declared {
            Declared::Number(default, min, max) => Self::Number(default, min, max),
            Declared::Word(default, words) => Self::Word(default, words),
        }
    }
}

/// What was registered, by name. A notebook's cell is run again and again: the newest class counts, as long as its parameters
/// are those that the registry knows.
static CLASSES: Mutex<BTreeMap<String, Registered>> = Mutex::new(BTreeMap::new());

/// Parameters, which stay, and the newest class.
struct Registered {
    params: Vec<(String, guest::Declared)>,
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
    let params: Vec<(String, guest::Declared)> = params.into_iter().map(|(key, one)| (key, one.into())).collect();
    let mut classes = CLASSES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = classes.get_mut(&name) {
        if known.params != params {
            return Err(wrong("it was registered with other parameters, which stay; take another name".to_owned()));
        }
        known.class = made;
        return Ok(());
    }
    let (key, kinds) = (name.clone(), params.clone());
    let make = move |given: &Params, env: &Env| {
        let class = CLASSES.lock().unwrap_or_else(PoisonError::into_inner).get(&key).map(|known| known.class.clone());
        let Some(class) = class else { unreachable!("a class is kept before its name can be known") };
        let params: Vec<_> =
            guest::given(&kinds, given).into_iter().map(|(name, given)| (name, given.into())).collect();
        Foreign::guest(class, env, &params)
    };
    let definition = guest::definition(&name, "written in Python", ecn, &params, make);
    let mut definition = definition.map_err(|error| wrong(error.to_string()))?;
    definition.summary = summary;
    register(definition).map_err(|error| PyValueError::new_err(error.to_string()))?;
    classes.insert(name, Registered { params, class: made });
    Ok(())
}

/// Whether the controller of this name is written in Python.
pub(crate) fn is_known(name: &str) -> bool {
    CLASSES.lock().unwrap_or_else(PoisonError::into_inner).contains_key(name)
}
