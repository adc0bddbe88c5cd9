//! What is known of a controller and of a start-up by name, and their checked parameters.

use std::fmt;
use std::io;

use crate::ability::Ability;
use crate::controller::{Controller, Ecn, Env, ReceiverHalf};
use crate::datapath;
use crate::foreign::clipped;
use crate::mdi::models::{self, Named, TooMany};
use crate::mdi::{Model, ReadError};
use crate::names::nearest;
use crate::statements::Statements;
use crate::window::StartUp;

/// Makes one half of a controller from parameters that have been checked. A reference, so that a function and a closure
/// made at run time are the same thing.
pub type Make<T> = &'static (dyn Fn(&Params, &Env) -> Box<T> + Send + Sync);

/// What the registry knows of a controller.
#[non_exhaustive]
pub struct Entry {
    /// The name in `name:key=value`.
    pub name: &'static str,
    /// One line for a list.
    pub summary: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// What RFC 9743 wants to be said of it in words.
    pub statements: Statements,
    /// Where its source has it.
    pub home: Home,
    /// Its start-ups, for a window controller: [`crate::start_ups::any_start_up`].
    pub start: Option<Start>,
    /// Parameters of its own.
    pub params: &'static [Param],
    /// What it cannot work without, beside its receiver half.
    pub needs: &'static [Ability],
    /// Makes the sending half.
    pub make: Make<dyn Controller>,
    /// Makes the receiving half, for controllers that need one.
    pub receiver: Option<Make<dyn ReceiverHalf>>,
    /// The TCP that it runs above where none is named, of those that an ordinary user may choose; `None` where it makes no
    /// difference (`docs/results/alcc.md` has the measurements).
    pub lower: Option<&'static str>,
}

/// What carries a controller as its source describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// TCP's acknowledgements and recovery.
    Tcp,
    /// Datagrams: it paces and measures by packets.
    Udp,
}

impl Entry {
    /// A controller of TCP without a word on RFC 9743, start-ups, parameters, needs or a receiving half.
    pub const fn new(
        name: &'static str,
        summary: &'static str,
        source: &'static str,
        make: Make<dyn Controller>,
    ) -> Self {
        Self {
            name,
            summary,
            source,
            statements: Statements::NONE,
            home: Home::Tcp,
            start: None,
            params: &[],
            needs: &[],
            make,
            receiver: None,
            lower: None,
        }
    }

    /// Every parameter that it takes: `start`, of its start-ups, and its own.
    pub fn params(&'static self) -> impl Iterator<Item = &'static Param> + Clone {
        let start = self.start.iter().map(|start| &start.param);
        start.chain(self.start.iter().flat_map(Start::params)).chain(self.params)
    }

    /// Everything that it cannot work without.
    pub fn needs(&'static self) -> impl Iterator<Item = Ability> {
        self.receiver.map(|_| Ability::ReceiverHalf).into_iter().chain(self.needs.iter().copied())
    }
}

/// The start-ups that a window controller composes with.
#[non_exhaustive]
pub struct Start {
    /// The parameter `start`, with the names of all of them.
    pub param: Param,
    /// Every one of them.
    pub among: &'static [StartUpEntry],
    /// Parameters of the controller with another default beside a start-up that holds against marks, which are measured
    /// while it is in charge: name and default.
    pub measured: &'static [(&'static str, &'static str)],
}

impl Start {
    /// `param` chooses one of these.
    pub const fn new(param: Param, among: &'static [StartUpEntry]) -> Self {
        Self { param, among, measured: &[] }
    }

    /// The same, with other defaults beside a start-up that holds against marks.
    #[must_use]
    pub const fn measuring(self, measured: &'static [(&'static str, &'static str)]) -> Self {
        Self { param: self.param, among: self.among, measured }
    }

    /// The parameters of the start-ups, each once.
    fn params(&'static self) -> impl Iterator<Item = &'static Param> + Clone {
        self.among.iter().enumerate().flat_map(|(index, start_up)| {
            let before = &self.among[..index];
            start_up.params.iter().filter(|param| !before.iter().any(|other| other.takes(param.name)))
        })
    }

    /// The start-up of this name.
    pub fn named(&self, name: &str) -> Option<&'static StartUpEntry> {
        self.among.iter().find(|start_up| start_up.name == name)
    }
}

/// What the registry knows of a start-up.
#[non_exhaustive]
pub struct StartUpEntry {
    /// The name in `start=name`. A start-up that has a parameter of its own name is chosen by it alone: `name=value`.
    pub name: &'static str,
    /// One line for a list.
    pub summary: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// Its parameters, which stand beside those of the controller.
    pub params: &'static [Param],
    /// What it cannot work without.
    pub needs: &'static [Ability],
    /// [`StartUp::holds_against_marks`] while it is in charge.
    pub holds_against_marks: bool,
    /// Makes it.
    pub make: fn(&Params, &Env) -> Box<dyn StartUp>,
}

impl StartUpEntry {
    /// Whether the parameter is one of its own.
    pub fn takes(&self, param: &str) -> bool {
        self.params.iter().any(|own| own.name == param)
    }
}

/// One parameter of a controller.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Param {
    /// The key.
    pub name: &'static str,
    /// Its unit, as people read it.
    pub unit: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// Its default, in the form a person would write.
    pub default: &'static str,
    /// Where the default comes from.
    pub source: &'static str,
}

impl Param {
    /// By name: the values that it takes, and its default.
    pub const fn new(name: &'static str, kind: Kind, default: &'static str) -> Self {
        Self { name, unit: "", kind, default, source: "" }
    }

    /// The same with its [unit](Param::unit).
    #[must_use]
    pub const fn with_unit(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }

    /// The same, with where its default [comes from](Param::source).
    #[must_use]
    pub const fn with_source(self, source: &'static str) -> Self {
        Self { source, ..self }
    }
}

/// What values a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A finite number between two bounds, both included.
    Number {
        /// Smallest value.
        min: f64,
        /// Largest value.
        max: f64,
    },
    /// One of a list of words.
    Choice(&'static [&'static str]),
    /// The name of a model of transitions, or a file with one ([`crate::mdi::models`]).
    Model,
}

impl Kind {
    /// Whether `text` is such a value.
    pub(crate) fn takes(self, text: &str) -> bool {
        Value::parse(self, text).is_some()
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number { min, max } => write!(f, "a number from {min} to {max}"),
            Self::Choice(words) => write!(f, "one of {}", words.join(", ")),
            Self::Model => {
                let shipped: Vec<&str> = models::SHIPPED.iter().map(|(name, _)| *name).collect();
                if !shipped.is_empty() {
                    write!(f, "one of {}, or ", shipped.join(", "))?;
                }
                f.write_str("a file of this machine that its user names")
            }
        }
    }
}

/// The parameter `ecn` of a controller that takes a congestion echo for a loss.
pub const CLASSIC_ECN: Param = Param {
    name: "ecn",
    unit: "switch",
    kind: ON_OFF,
    default: "off",
    source: "Linux tcp_ecn=2: answers to ECN, does not ask for it",
};

/// The use of ECN that the parameter `ecn` names.
pub fn classic_ecn(params: &Params) -> Ecn {
    if params.on("ecn") { Ecn::Classic } else { Ecn::Off }
}

/// The values of a switch.
pub const ON_OFF: Kind = Kind::Choice(&["on", "off"]);

/// Checked values for every parameter of one controller; by default of one without parameters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Params {
    values: Box<[(&'static str, Value)]>,
    /// A bit for each of them that was given with its default, where some datapath has another value for it: it leaves these as they are.
    kept: u64,
}

#[derive(Clone, Copy, Debug)]
enum Value {
    Number(f64),
    Word(&'static str),
    Model(&'static Named),
}

impl Params {
    /// The value of a numeric parameter.
    ///
    /// # Panics
    /// When the controller's `ENTRY` declares no such number: a mistake in that file, found by any test that makes it.
    pub fn number(&self, name: &str) -> f64 {
        match self.value(name) {
            Some(Value::Number(number)) => number,
            _ => panic!("the controller's ENTRY declares no number '{name}'"),
        }
    }

    /// The value of a parameter that takes a word.
    ///
    /// # Panics
    /// When the controller's `ENTRY` declares no such word: a mistake in that file, found by any test that makes it.
    pub fn word(&self, name: &str) -> &'static str {
        match self.value(name) {
            Some(Value::Word(word)) => word,
            _ => panic!("the controller's ENTRY declares no word '{name}'"),
        }
    }

    /// The value of a parameter that takes a model.
    ///
    /// # Panics
    /// When the controller's `ENTRY` declares no such model: a mistake in that file, found by any test that makes it.
    pub fn model(&self, name: &str) -> &'static Named {
        match self.value(name) {
            Some(Value::Model(model)) => model,
            _ => panic!("the controller's ENTRY declares no model '{name}'"),
        }
    }

    /// Whether a value is a model that does not come with paceline.
    pub(crate) fn local(&self) -> bool {
        let shipped = |name: &str| models::SHIPPED.iter().any(|(known, _)| *known == name);
        self.values.iter().any(|(_, value)| matches!(value, Value::Model(model) if !shipped(model.name())))
    }

    /// Whether a switch of kind [`ON_OFF`] is on.
    ///
    /// # Panics
    /// As [`Params::word`].
    pub fn on(&self, name: &str) -> bool {
        self.word(name) == "on"
    }

    /// Gives the parameter this value, unless it was given.
    pub(crate) fn settle(&mut self, entry: &'static Entry, name: &str, value: &str) {
        let start_up = self.start_up(entry);
        let there = entry.params().enumerate().find(|(place, param)| param.name == name && !self.is_kept(*place));
        let Some((_, param)) = there else { return };
        let (default, settled) = (default_of(entry, param, start_up), Value::parse(param.kind, value));
        if let (Some(settled), Some((_, value))) = (settled, self.values.iter_mut().find(|(key, _)| *key == name))
            && *value == default
        {
            *value = settled;
        }
    }

    fn value(&self, name: &str) -> Option<Value> {
        value_of(&self.values, name)
    }

    /// The start-up that they name, or the controller's own; nothing for a controller without start-ups.
    pub(crate) fn start_up(&self, entry: &'static Entry) -> Option<&'static StartUpEntry> {
        start_up_of(entry, &self.values)
    }

    /// Those that differ from their defaults, or that datapaths leave as given, as `key=value`; a start-up with a parameter of its own
    /// name by that alone.
    pub(crate) fn given(&self, entry: &'static Entry) -> impl Iterator<Item = String> {
        let start_up = self.start_up(entry);
        let namesake = start_up.filter(|start_up| start_up.takes(start_up.name)).map(|start_up| start_up.name);
        let differing = move |(place, (param, (_, value))): &(usize, (&'static Param, &(&str, Value)))| match namesake {
            Some(name) if param.name == name => true,
            Some(_) if entry.start.as_ref().is_some_and(|start| start.param.name == param.name) => false,
            Some(_) | None => self.is_kept(*place) || default_of(entry, param, start_up) != *value,
        };
        let all = entry.params().zip(&self.values).enumerate().filter(differing);
        all.map(|(_, (param, (_, value)))| format!("{}={value}", param.name))
    }

    fn is_kept(&self, place: usize) -> bool {
        self.kept >> place & 1 == 1
    }

    /// Checks the parameters in `text`. `read` reads a file that is named as a model; see [`Spec::read`](crate::Spec::read).
    pub(crate) fn parse(
        entry: &'static Entry,
        text: &str,
        read: &mut dyn FnMut(&str) -> Option<io::Result<String>>,
    ) -> Result<Self, SpecError> {
        let mut given: Vec<(&'static str, Value)> = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| SpecError::NotKeyValue { controller: entry.name, text: clipped(part) })?;
            let param = entry.params().find(|param| param.name == key).ok_or_else(|| {
                let names = entry.params().map(|param| param.name);
                SpecError::UnknownParam { controller: entry.name, param: clipped(key), hint: nearest(key, names) }
            })?;
            if value_of(&given, param.name).is_some() {
                return Err(SpecError::Twice { controller: entry.name, param: param.name });
            }
            if param.kind == Kind::Model {
                provide(entry.name, value, read)?;
            }
            let value = Value::parse(param.kind, value).ok_or_else(|| SpecError::BadValue {
                controller: entry.name,
                param: param.name,
                value: clipped(value),
                wanted: param.kind.to_string(),
            })?;
            given.push((param.name, value));
        }
        if let Some(start) = &entry.start
            && value_of(&given, start.param.name).is_none()
            && let Some(namesake) = given.iter().find_map(|(param, _)| start.named(param))
        {
            given.push((start.param.name, Value::Word(namesake.name)));
        }
        let start_up = start_up_of(entry, &given);
        if let Some(start) = &entry.start {
            for (param, _) in &given {
                let takers: Vec<&str> =
                    start.among.iter().filter(|other| other.takes(param)).map(|other| other.name).collect();
                if !takers.is_empty() && !start_up.is_some_and(|chosen| chosen.takes(param)) {
                    // A controller from outside may have a start-up of its own, which no entry is of.
                    let (start, wanted) =
                        (start_up.map_or(start.param.default, |chosen| chosen.name), takers.join(", "));
                    return Err(SpecError::OtherStartUp { controller: entry.name, param, start, wanted });
                }
            }
        }
        let value =
            |param: &'static Param| value_of(&given, param.name).unwrap_or_else(|| default_of(entry, param, start_up));
        let is_kept = |param: &'static Param| {
            let default = |value| value == default_of(entry, param, start_up);
            datapath::decides(entry.name, param.name) && value_of(&given, param.name).is_some_and(default)
        };
        Ok(Self {
            values: entry.params().map(|param| (param.name, value(param))).collect(),
            kept: entry.params().enumerate().fold(0, |kept, (place, param)| kept | u64::from(is_kept(param)) << place),
        })
    }
}

fn value_of(values: &[(&'static str, Value)], name: &str) -> Option<Value> {
    values.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
}

/// The start-up that `values` name, or the controller's own.
fn start_up_of(entry: &'static Entry, values: &[(&'static str, Value)]) -> Option<&'static StartUpEntry> {
    let start = entry.start.as_ref()?;
    match value_of(values, start.param.name) {
        Some(Value::Word(word)) => start.named(word),
        _ => start.named(start.param.default),
    }
}

/// The default of a parameter beside a start-up.
fn default_of(entry: &'static Entry, param: &'static Param, start_up: Option<&'static StartUpEntry>) -> Value {
    let measured = || {
        let start = entry.start.as_ref().filter(|_| start_up.is_some_and(|start_up| start_up.holds_against_marks))?;
        start.measured.iter().find(|(name, _)| *name == param.name).map(|(_, default)| *default)
    };
    Value::parse(param.kind, measured().unwrap_or(param.default)).expect("every default parses: tested, or checked")
}

/// Makes the model in a file known, unless it comes with paceline, or no one reads files here.
fn provide(
    controller: &'static str,
    name: &str,
    read: &mut dyn FnMut(&str) -> Option<io::Result<String>>,
) -> Result<(), SpecError> {
    let refused = |problem| SpecError::Model { controller, name: clipped(name), problem: Box::new(problem) };
    if models::SHIPPED.iter().any(|(known, _)| *known == name) {
        return Ok(());
    }
    match read(name) {
        None => Ok(()),
        Some(text) => {
            let text = text.map_err(|error| refused(ModelProblem::Unreadable(error.to_string())))?;
            let model = Model::read(&text).map_err(|error| refused(error.into()))?;
            models::give(name, model).map(drop).map_err(|error| refused(error.into()))
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Number(one), Self::Number(other)) => one == other,
            (Self::Word(one), Self::Word(other)) => one == other,
            // Each model is kept once.
            (Self::Model(one), Self::Model(other)) => std::ptr::eq(*one, *other),
            _ => false,
        }
    }
}

impl Value {
    fn parse(kind: Kind, text: &str) -> Option<Self> {
        match kind {
            Kind::Number { min, max } => {
                let number: f64 = text.parse().ok()?;
                (number >= min && number <= max).then_some(Self::Number(number))
            }
            Kind::Choice(words) => words.iter().find(|word| **word == text).map(|word| Self::Word(word)),
            Kind::Model => models::find(text).map(Self::Model),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Word(word) => f.write_str(word),
            Self::Model(model) => f.write_str(model.name()),
        }
    }
}

/// Why a file cannot be a controller's model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelProblem {
    /// The system does not give its text, for this reason.
    #[error("cannot be read ({0}); name a shipped model or a file that you may read")]
    Unreadable(String),
    /// The text is not a model.
    #[error(transparent)]
    Text(#[from] ReadError),
    /// The process knows too many.
    #[error(transparent)]
    TooMany(#[from] TooMany),
}

/// Why a controller could not be made from its text.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// No controller has this name.
    #[error("unknown controller '{name}'; {hint}")]
    UnknownController {
        /// The name as given.
        name: String,
        /// The nearest names, or where to look.
        hint: String,
    },
    /// The controller has no such parameter.
    #[error("controller '{controller}' has no parameter '{param}'; {hint}")]
    UnknownParam {
        /// The controller.
        controller: &'static str,
        /// The parameter as given.
        param: String,
        /// The nearest names.
        hint: String,
    },
    /// A parameter is not of the form `key=value`.
    #[error("controller '{controller}': '{text}' is not of the form key=value")]
    NotKeyValue {
        /// The controller.
        controller: &'static str,
        /// The text as given.
        text: String,
    },
    /// The same parameter twice.
    #[error("controller '{controller}': parameter '{param}' is given twice; keep one")]
    Twice {
        /// The controller.
        controller: &'static str,
        /// The parameter.
        param: &'static str,
    },
    /// A value outside what the parameter takes.
    #[error("controller '{controller}': {param}={value} is not {wanted}")]
    BadValue {
        /// The controller.
        controller: &'static str,
        /// The parameter.
        param: &'static str,
        /// The value as given.
        value: String,
        /// What it takes.
        wanted: String,
    },
    /// A file that is not a model.
    #[error("controller '{controller}': model={name}: {problem}")]
    Model {
        /// The controller.
        controller: &'static str,
        /// The model as given.
        name: String,
        /// Why it cannot be read, or where it is wrong.
        problem: Box<ModelProblem>,
    },
    /// A parameter of one start-up beside another.
    #[error("controller '{controller}': {param} does not apply to start={start}; it goes with {wanted}")]
    OtherStartUp {
        /// The controller.
        controller: &'static str,
        /// The parameter.
        param: &'static str,
        /// The start-up, given or by default.
        start: &'static str,
        /// The start-ups that it is for.
        wanted: String,
    },
}
