//! Guests: controllers written in another language, Python or JavaScript, whose objects are informed and asked as
//! [`paceline_cc::Controller`] is. What they are informed of, what they may answer, and how they are registered are the same everywhere.

mod controller;
mod started;
mod values;

use std::sync::LazyLock;

use paceline_cc::entry::{Kind, Param, Params, Start};
use paceline_cc::foreign::clipped;
use paceline_cc::names::{NameError, intern};
use paceline_cc::registry::Definition;
use paceline_cc::start_ups::{START_UPS, start_up};
use paceline_cc::{Ability, Controller, Ecn, Env, Nanos, Pacing, Permit, Rate, Recovery, Time};

pub use controller::{Argument, Guest, Object};
pub use started::Handed;
use started::Started;

/// The methods of an object that are called, by their names there.
pub const METHODS: [&str; 12] = [
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

/// The start-up that an object has itself.
const OWN_START: &str = "own";

/// What an object answers, checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GuestAnswers {
    /// Bytes that may be in flight.
    pub window: u64,
    /// When packets may leave.
    pub pacing: Pacing,
    /// When its clock is to ring.
    pub next_tick: Time,
    /// Its slow-start threshold in bytes.
    pub threshold: u64,
}

/// An answer that cannot be: which, and what to make of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unanswerable(String);

impl Unanswerable {
    /// An answer that is not a number at all, but this.
    pub fn not_a_number(name: &str, value: &str) -> Self {
        Self(format!("{name} is {}; make it a number", clipped(value)))
    }
}

/// How a language writes what errors speak of.
#[derive(Clone, Copy, Debug)]
pub struct Language {
    /// Its name.
    pub name: &'static str,
    /// What stands for nothing.
    pub nothing: &'static str,
    /// How a method is defined that answers a tick.
    pub on_tick: &'static str,
}

/// The least value of an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Least {
    Zero,
    AboveZero,
}

impl GuestAnswers {
    /// Before the first answer: one packet.
    pub fn first(mss: u32) -> Self {
        Self { window: u64::from(mss), pacing: Pacing::Free, next_tick: Time::NEVER, threshold: u64::MAX }
    }

    /// What an object answers now; `number` reads one of its fields, nothing where the language's nothing stands there, and `ticks` says
    /// whether it has a method for ticks.
    ///
    /// # Errors
    /// The first answer that cannot be, or that could not be read.
    pub fn read<E: From<Unanswerable>>(
        language: Language,
        mss: u32,
        ticks: bool,
        mut number: impl FnMut(&'static str) -> Result<Option<f64>, E>,
    ) -> Result<Self, E> {
        let nothing = language.nothing;
        let wrong = |what: String| E::from(Unanswerable(what));
        let mut read = |name: &'static str, least: Least, wanted: &str| match number(name)? {
            Some(value) => checked(name, value, least, wanted).map(Some).map_err(E::from),
            None => Ok(None),
        };
        let Some(window) = read("window", Least::Zero, "bytes from 0 on")? else {
            return Err(wrong(format!("window is {nothing}; make it a number of bytes")));
        };
        let wanted = format!("Mbit/s above 0, or {nothing}, which leaves packets to the window");
        let rate = read("pacing_mbps", Least::AboveZero, &wanted)?;
        let gap = read("gap", Least::Zero, &format!("ns from 0 on, or {nothing}"))?;
        let pacing = match (gap, rate) {
            (Some(gap), _) if gap > 0.0 && gap < 1.0 => {
                return Err(wrong(format!("gap is {gap:e}, a part of 1 ns; make it whole ns, or {nothing}")));
            }
            (Some(gap), _) => Pacing::Gap(Nanos::from_nanos(gap as u64)),
            // It would hold the flow for ever.
            (None, Some(rate)) if Rate::from_mbps(rate) < Rate::from_bytes_per_sec(1) => {
                return Err(wrong(format!("pacing_mbps is {rate:e}, less than a byte per second; make it {wanted}")));
            }
            (None, Some(rate)) => Pacing::Rate(Rate::from_mbps(rate)),
            (None, None) => Pacing::Free,
        };
        let whole = |value: Option<f64>| value.map(|value| value as u64);
        let tick = read("next_tick", Least::Zero, &format!("ns from 0 on, or {nothing}"))?;
        if tick.is_some() && !ticks {
            let define = language.on_tick;
            return Err(wrong(format!("next_tick is set, and the class has no on_tick; define {define}")));
        }
        let threshold = read("ssthresh", Least::Zero, &format!("bytes from 0 on, or {nothing}"))?;
        Ok(Self {
            // One packet is the least of any controller.
            window: (window as u64).max(u64::from(mss)),
            pacing,
            next_tick: whole(tick).map_or(Time::NEVER, Time::from_nanos),
            threshold: whole(threshold).unwrap_or(u64::MAX),
        })
    }

    /// What is wrong after a tick at `now` that was asked for as `asked`: one that is asked for again in the past would never end.
    pub fn not_after(&self, asked: Time, now: Time, language: Language) -> Option<Unanswerable> {
        (self.next_tick <= now).then(|| {
            let (asked, now, nothing) = (asked.as_nanos(), now.as_nanos(), language.nothing);
            Unanswerable(format!(
                "asks for its next tick at {asked} ns, which is not after {now}; set next_tick to a later time, or {nothing}"
            ))
        })
    }

    /// What the datapath may do; `informed` says whether the object has to hear of every departure.
    pub fn permit(&self, recovery: Recovery, informed: bool) -> Permit {
        let mut permit = Permit::up_to(self.window);
        permit.pacing = self.pacing;
        permit.next_tick = self.next_tick;
        permit.threshold = self.threshold;
        permit.recovery = recovery;
        permit.outlasts_departures = !informed;
        permit
    }
}

fn checked(name: &str, value: f64, least: Least, wanted: &str) -> Result<f64, Unanswerable> {
    if !value.is_finite() {
        return Err(Unanswerable(format!("{name} is {value}; keep it finite")));
    }
    if value < 0.0 || (value == 0.0 && least == Least::AboveZero) {
        return Err(Unanswerable(format!("{name} is {value}; make it {wanted}")));
    }
    Ok(value)
}

/// A parameter as a class declares it.
#[derive(Clone, Debug, PartialEq)]
pub enum Declared {
    /// Default, smallest, largest.
    Number(f64, f64, f64),
    /// Default, and all words.
    Word(String, Vec<String>),
}

impl Declared {
    /// As the registry has it.
    ///
    /// # Errors
    /// A name or a word that cannot be one.
    fn param(&self, name: &str, source: &'static str) -> Result<Param, NameError> {
        let (kind, default) = match self {
            Self::Number(default, min, max) => (Kind::Number { min: *min, max: *max }, default.to_string()),
            Self::Word(default, words) => {
                let words: Vec<&'static str> = words.iter().map(|word| intern(word)).collect::<Result<_, _>>()?;
                (Kind::Choice(words.leak()), default.clone())
            }
        };
        Ok(Param::new(intern(name)?, kind, intern(&default)?).with_source(source))
    }
}

/// A value of a parameter, checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Given {
    /// A number.
    Number(f64),
    /// One of its words.
    Word(&'static str),
}

/// The values of a class's parameters.
pub fn given(declared: &[(String, Declared)], params: &Params) -> Vec<(&'static str, Given)> {
    let value = |(name, declared): &(String, Declared)| {
        let value = match declared {
            Declared::Number(..) => Given::Number(params.number(name)),
            Declared::Word(..) => Given::Word(params.word(name)),
        };
        intern(name).ok().map(|name| (name, value))
    };
    declared.iter().filter_map(value).collect()
}

/// What the registry is told of a class: `source` says in which language it is written, `make` makes an object.
///
/// # Errors
/// A parameter's name or word that cannot be one.
pub fn definition<C: Controller + Handed + 'static>(
    name: &str,
    source: &'static str,
    ecn: Ecn,
    declared: &[(String, Declared)],
    make: impl Fn(&Params, &Env) -> C + Send + Sync + 'static,
) -> Result<Definition, NameError> {
    let start = start(declared, source);
    let starts = start.is_some();
    let make = move |given: &Params, env: &Env| -> Box<dyn Controller> {
        let own = make(given, env);
        if starts && given.word("start") != OWN_START {
            return Box::new(Started::new(own, env, ecn, start_up(given, env)));
        }
        Box::new(own)
    };
    let mut definition = Definition::new(name, make);
    source.clone_into(&mut definition.source);
    definition.start = start;
    definition.params = declared.iter().map(|(key, one)| one.param(key, source)).collect::<Result<_, _>>()?;
    definition.needs = match ecn {
        Ecn::Exact => vec![Ability::ExactMarks],
        Ecn::L4s => vec![Ability::ExactMarks, Ability::Ect1],
        Ecn::Off | Ecn::Classic => Vec::new(),
    };
    Ok(definition)
}

/// The start-ups that can stand before a class: all, unless it declares a parameter of a name that one of them has.
fn start(declared: &[(String, Declared)], source: &'static str) -> Option<Start> {
    static NAMES: LazyLock<Vec<&'static str>> =
        LazyLock::new(|| [OWN_START].into_iter().chain(START_UPS.iter().map(|start_up| start_up.name)).collect());
    let of_start_ups = START_UPS.iter().flat_map(|start_up| start_up.params).map(|param| param.name);
    let mut taken = of_start_ups.chain(["start"]);
    if taken.any(|name| declared.iter().any(|(own, _)| own == name)) {
        return None;
    }
    let kind = Kind::Choice(NAMES.as_slice());
    let param = Param::new("start", kind, OWN_START).with_unit("start-up").with_source(source);
    Some(Start::new(param, START_UPS))
}

/// A span above 0; endless stands for unknown.
pub fn known(span: Nanos) -> Option<Nanos> {
    (span != Nanos::MAX && span != Nanos::ZERO).then_some(span)
}
