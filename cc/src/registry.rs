//! Controllers by name: `copa`, `copa:delta=0.1,mode=default`.
//!
//! A controller's file ends in an `ENTRY`; its one line in [`CONTROLLERS`] makes it known to the simulator, the
//! command line, scenario files and tests alike.

use std::fmt;
use std::str::FromStr;

use crate::chirp::{self, Adaptive, Load, Release, Rounds};
use crate::controller::{Controller, Ecn, Env, ReceiverHalf};
use crate::hystart::{HyStart, HyStartPlusPlus};
use crate::text::clipped;
use crate::window::{SlowStart, StartUp};

/// Every controller, in the order in which they are listed.
pub const CONTROLLERS: &[Entry] = &[
    crate::reno::ENTRY,
    crate::cubic::ENTRY,
    crate::bic::ENTRY,
    crate::dctcp::ENTRY,
    crate::prague::ENTRY,
    crate::bbr::ENTRY,
    crate::copa::ENTRY,
    crate::verus::ENTRY,
    crate::sprout::ENTRY,
    crate::sprout::EWMA_ENTRY,
    crate::fixed::ENTRY,
];

/// Makes one half of a controller from parameters that have been checked.
pub type Make<T> = fn(&Params, &Env) -> Box<T>;

/// What the registry knows of a controller.
pub struct Entry {
    /// The name in `name:key=value`.
    pub name: &'static str,
    /// One line for a list.
    pub summary: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// Its parameter `start`, for a window controller: [`start_param`]. Those of the start-ups come with it.
    pub start: Option<Param>,
    /// Parameters of its own.
    pub params: &'static [Param],
    /// Makes the sending half.
    pub make: Make<dyn Controller>,
    /// Makes the receiving half, for controllers that need one.
    pub receiver: Option<Make<dyn ReceiverHalf>>,
    /// The TCP that it runs above where nobody names one, of those that an ordinary user may choose; `None` where it makes no
    /// difference (`docs/alcc.md` has the measurements).
    pub lower: Option<&'static str>,
}

impl Entry {
    /// Every parameter that it takes: of its start-up, and its own.
    pub fn params(&'static self) -> impl Iterator<Item = &'static Param> + Clone {
        let of_start_ups = if self.start.is_some() { chirp::PARAMS } else { &[] };
        self.start.iter().chain(of_start_ups).chain(self.params)
    }
}

/// One parameter of a controller.
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
}

/// The parameter `start` of a window controller: its start-up, `default` unless another is named.
pub const fn start_param(default: &'static str, source: &'static str) -> Param {
    Param {
        name: "start",
        unit: "start-up",
        kind: Kind::Choice(&["slow", "hystart", "hystart++", "chirp", "chirp-p", "chirp-q", "chirp-r"]),
        default,
        source,
    }
}

/// The start-up that the parameter `start` names.
pub fn start_up(params: &Params, env: &Env) -> Box<dyn StartUp> {
    let chirps = || chirp::Settings::from_params(params);
    match params.word("start") {
        "hystart" => Box::new(HyStart::new(env)),
        "chirp" => Box::new(Adaptive::new(env, &chirps())),
        "hystart++" => Box::new(HyStartPlusPlus::new(env)),
        "chirp-p" => Box::new(Rounds::new(env, Release::Paper, &chirps())),
        "chirp-q" => Box::new(Rounds::new(env, Release::Rewrite, &chirps())),
        "chirp-r" => Box::new(Load::new(env, &chirps())),
        _ => Box::new(SlowStart::new(env)),
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

/// A controller and its parameters, as parsed from `name:key=value,key=value`.
///
/// ```
/// use paceline_cc::{Env, Spec};
/// let spec: Spec = "fixed:window=20".parse()?;
/// assert_eq!(spec.build(&Env::default()).window(), 20 * 1448);
/// # Ok::<(), paceline_cc::SpecError>(())
/// ```
#[derive(Clone)]
pub struct Spec {
    entry: &'static Entry,
    params: Params,
}

/// Checked values for every parameter of one controller.
#[derive(Clone, Debug)]
pub struct Params {
    values: Vec<(&'static str, Value)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    Number(f64),
    Word(&'static str),
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
    /// A parameter of one start-up beside another.
    #[error("controller '{controller}': {param} has no part in start={start}; it goes with {wanted}")]
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

impl Spec {
    /// What the registry knows of this controller.
    pub fn entry(&self) -> &'static Entry {
        self.entry
    }

    /// The checked parameters.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Makes the sending half.
    pub fn build(&self, env: &Env) -> Box<dyn Controller> {
        (self.entry.make)(&self.params, env)
    }

    /// Makes the receiving half, for controllers that need one.
    pub fn build_receiver(&self, env: &Env) -> Option<Box<dyn ReceiverHalf>> {
        self.entry.receiver.map(|make| make(&self.params, env))
    }
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let entry = CONTROLLERS.iter().find(|entry| entry.name == name).ok_or_else(|| {
            let names = CONTROLLERS.iter().map(|entry| entry.name);
            SpecError::UnknownController { name: clipped(name), hint: nearest(name, names) }
        })?;
        Ok(Self { entry, params: Params::parse(entry, rest)? })
    }
}

/// The text that gives the same controller again: the name and the parameters that differ from their defaults.
impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.entry.name)?;
        let start = start_of(self.entry, &self.params.values);
        let mut separator = ':';
        for (param, (_, value)) in self.entry.params().zip(&self.params.values) {
            if param.default_beside(start) == *value {
                continue;
            }
            write!(f, "{separator}{}={value}", param.name)?;
            separator = ',';
        }
        Ok(())
    }
}

impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Spec({self})")
    }
}

impl PartialEq for Spec {
    fn eq(&self, other: &Self) -> bool {
        self.entry.name == other.entry.name && self.params.values == other.params.values
    }
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

    /// Whether a switch of kind [`ON_OFF`] is on.
    ///
    /// # Panics
    /// As [`Params::word`].
    pub fn on(&self, name: &str) -> bool {
        self.word(name) == "on"
    }

    fn value(&self, name: &str) -> Option<Value> {
        self.values.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    fn parse(entry: &'static Entry, text: &str) -> Result<Self, SpecError> {
        let mut given: Vec<(&'static str, Value)> = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| SpecError::NotKeyValue { controller: entry.name, text: clipped(part) })?;
            let param = entry.params().find(|param| param.name == key).ok_or_else(|| {
                let names = entry.params().map(|param| param.name);
                SpecError::UnknownParam { controller: entry.name, param: clipped(key), hint: nearest(key, names) }
            })?;
            if given.iter().any(|(name, _)| *name == param.name) {
                return Err(SpecError::Twice { controller: entry.name, param: param.name });
            }
            let value = Value::parse(param, value).ok_or_else(|| SpecError::BadValue {
                controller: entry.name,
                param: param.name,
                value: clipped(value),
                wanted: param.kind.to_string(),
            })?;
            given.push((param.name, value));
        }
        let start = start_of(entry, &given);
        for (param, _) in &given {
            if let Some(wanted) = chirp::start_ups_of(param)
                && !wanted.contains(&start)
            {
                let wanted = wanted.join(", ");
                return Err(SpecError::OtherStartUp { controller: entry.name, param, start, wanted });
            }
        }
        let value = |param: &Param| {
            let set = given.iter().find(|(name, _)| *name == param.name).map(|(_, value)| *value);
            set.unwrap_or_else(|| param.default_beside(start))
        };
        let values = entry.params().map(|param| (param.name, value(param))).collect();
        Ok(Self { values })
    }
}

/// The start-up that `values` name, or the controller's own; empty for a controller without start-ups.
fn start_of(entry: &'static Entry, values: &[(&'static str, Value)]) -> &'static str {
    let given = values.iter().find(|(name, _)| *name == "start").map(|(_, value)| *value);
    let own = || entry.start.as_ref().map(|param| param.default_beside(""));
    match given.or_else(own) {
        Some(Value::Word(word)) => word,
        _ => "",
    }
}

impl Param {
    /// The default where `start` is the start-up: a few parameters have one of their own beside chirps.
    fn default_beside(&self, start: &str) -> Value {
        let text = chirp::default_of(self.name, start).unwrap_or(self.default);
        Value::parse(self, text).expect("every default parses: tested")
    }
}

impl Value {
    fn parse(param: &Param, text: &str) -> Option<Self> {
        match param.kind {
            Kind::Number { min, max } => {
                let number: f64 = text.parse().ok()?;
                (number >= min && number <= max).then_some(Self::Number(number))
            }
            Kind::Choice(words) => words.iter().find(|word| **word == text).map(|word| Self::Word(word)),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Word(word) => f.write_str(word),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number { min, max } => write!(f, "a number from {min} to {max}"),
            Self::Choice(words) => write!(f, "one of {}", words.join(", ")),
        }
    }
}

/// "did you mean ..." for a name that is none of `names`: those within an edit distance of 3, or the whole list.
pub fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> String {
    let all: Vec<&str> = names.collect();
    let mut near: Vec<(usize, &str)> = all
        .iter()
        .map(|known| (strsim::damerau_levenshtein(&clipped(name), known), *known))
        .filter(|(distance, known)| *distance <= 3 && *distance < known.len())
        .collect();
    near.sort_unstable();
    if near.is_empty() {
        if all.is_empty() {
            return "it takes none".to_owned();
        }
        return format!("known are {}", all.join(", "));
    }
    let near: Vec<&str> = near.into_iter().take(3).map(|(_, known)| known).collect();
    format!("did you mean {}?", near.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_builds_from_its_defaults_and_names_its_sources() {
        for entry in CONTROLLERS {
            let spec: Spec = entry.name.parse().expect("the bare name parses");
            assert_eq!(spec.to_string(), entry.name);
            let controller = spec.build(&Env::default());
            assert!(controller.window() >= 1448, "{}", entry.name);
            assert!(!entry.summary.is_empty() && !entry.source.is_empty(), "{}", entry.name);
            for param in entry.params() {
                assert!(!param.source.is_empty(), "{}:{}", entry.name, param.name);
                assert!(Value::parse(param, param.default).is_some(), "{}:{}", entry.name, param.name);
            }
        }
    }

    #[test]
    fn errors_name_the_nearest() {
        let error = "rno".parse::<Spec>().unwrap_err();
        assert_eq!(error.to_string(), "unknown controller 'rno'; did you mean reno?");
        let error = "fixed:windw=3".parse::<Spec>().unwrap_err();
        assert_eq!(error.to_string(), "controller 'fixed' has no parameter 'windw'; did you mean window?");
        let error = "fixed:window=nan".parse::<Spec>().unwrap_err();
        assert!(error.to_string().starts_with("controller 'fixed': window=nan is not a number from 1"));
        assert!("fixed:window=1,window=2".parse::<Spec>().is_err());
    }

    #[test]
    fn the_parameters_of_chirps_are_checked() {
        let error = |text: &str| text.parse::<Spec>().unwrap_err().to_string();
        assert_eq!(
            error("dctcp:chirp_gain=3"),
            "controller 'dctcp': chirp_gain has no part in start=slow; it goes with chirp, chirp-p, chirp-q"
        );
        assert_eq!(
            error("cubic:chirp_packets=8,start=hystart"),
            "controller 'cubic': chirp_packets has no part in start=hystart; it goes with chirp, chirp-p, chirp-q, chirp-r"
        );
        assert!(error("prague:start=chirp-r,chirp_gain=2").contains("has no part in start=chirp-r"));
        assert!(error("dctcp:start=chirp-q,chirp_again=off").ends_with("it goes with chirp"));
        assert_eq!(
            error("reno:start=chirp-q,chirp_packets=1"),
            "controller 'reno': chirp_packets=1 is not a number from 2 to 64"
        );
        assert!(error("reno:start=chirp-q,chirp_gain=0.5").ends_with("chirp_gain=0.5 is not a number from 1 to 4"));
        assert!(error("reno:start=chirp-q,chirp_geometry=5").ends_with("chirp_geometry=5 is not a number from 1 to 3"));
    }

    #[test]
    fn alpha_starts_at_zero_with_chirps_unless_given() {
        for name in ["dctcp", "prague"] {
            for (params, alpha) in [("", 1.0), (":start=chirp-p", 0.0), (":start=chirp-r,alpha=0.5", 0.5)] {
                let spec: Spec = format!("{name}{params}").parse().unwrap();
                assert_eq!(spec.params().number("alpha"), alpha, "{spec}");
                assert_eq!(spec.to_string(), format!("{name}{params}"));
            }
            let given: Spec = format!("{name}:alpha=1,start=chirp-q").parse().unwrap();
            assert_eq!(given.to_string(), format!("{name}:start=chirp-q,alpha=1"));
        }
    }

    #[test]
    fn text_round_trips() {
        let spec: Spec = "fixed:rate=12.5,window=7".parse().unwrap();
        assert_eq!(spec.to_string(), "fixed:window=7,rate=12.5");
        assert_eq!(spec.to_string().parse::<Spec>().unwrap(), spec);
    }
}
