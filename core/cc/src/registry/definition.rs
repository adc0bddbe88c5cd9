//! Controllers that are registered at run time.

use std::sync::{Arc, PoisonError, RwLock};

use super::CONTROLLERS;
use crate::ability::Ability;
use crate::controller::{Controller, Env, ReceiverHalf};
use crate::datapath::TCP;
use crate::entry::{Entry, Home, Kind, Make, Param, Params, Start};
use crate::foreign::clipped;
use crate::names::is_plain;
use crate::statements::Statements;

/// Controllers that one process may register. 1024: a sweep that makes one for each of its points (our choice).
pub const MOST_REGISTERED: usize = 1024;

/// Those registered so far, which stay: records, specs and logs hold their names.
static REGISTERED: RwLock<Vec<&'static Entry>> = RwLock::new(Vec::new());

/// Makes one half of a controller, for [`Definition`].
pub type Shared<T> = Arc<dyn Fn(&Params, &Env) -> Box<T> + Send + Sync>;

/// A controller made at run time: what [`Entry`] says of one that comes with paceline.
///
/// Names of parameters, units and choices that are made at run time come from [`crate::names::intern`].
#[non_exhaustive]
pub struct Definition {
    /// The name in `name:key=value`: letters, digits, `-`, `_`, `.` and `+`.
    pub name: String,
    /// One line for a list.
    pub summary: String,
    /// Where it comes from.
    pub source: String,
    /// Its start-ups, where it is a window controller ([`crate::start_ups::any_start_up`]).
    pub start: Option<Start>,
    /// Parameters of its own.
    pub params: Vec<Param>,
    /// What it cannot work without, beside its receiver half.
    pub needs: Vec<Ability>,
    /// Makes the sending half. The same parameters and environment must give the same controller: races are
    /// deterministic, and run on several threads.
    pub make: Shared<dyn Controller>,
    /// Makes the receiving half, for controllers that need one.
    pub receiver: Option<Shared<dyn ReceiverHalf>>,
    /// The TCP that it runs above where none is named.
    pub lower: Option<String>,
}

impl Definition {
    /// A controller without parameters, start-ups or needs.
    pub fn new(
        name: impl Into<String>,
        make: impl Fn(&Params, &Env) -> Box<dyn Controller> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            summary: "registered at run time".to_owned(),
            source: "registered at run time".to_owned(),
            start: None,
            params: Vec::new(),
            needs: Vec::new(),
            make: Arc::new(make),
            receiver: None,
            lower: None,
        }
    }
}

/// Why a controller could not be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The name cannot stand in a contestant's text.
    #[error("'{0}' is not a name for a controller; take letters, digits, '-', '_', '.' and '+', at most 64 bytes")]
    Name(String),
    /// There is a controller of this name.
    #[error("there is a controller '{0}' already; take another name")]
    Taken(String),
    /// A parameter that cannot be written, or whose default it does not take.
    #[error("controller '{controller}': parameter '{param}': {what}")]
    Param {
        /// The controller.
        controller: String,
        /// The parameter.
        param: String,
        /// What is wrong, and the fix.
        what: String,
    },
    /// The TCP below is unknown.
    #[error("controller '{controller}': there is no TCP '{lower}' to run above; name a controller such as cubic")]
    Lower {
        /// The controller.
        controller: String,
        /// The lower TCP.
        lower: String,
    },
    /// The process has [`MOST_REGISTERED`].
    #[error("{MOST_REGISTERED} controllers are registered, and none can be taken out; give one a parameter instead")]
    TooMany,
}

/// Registers a controller for as long as the process lasts: from now on its name stands for it in contestants, scenarios
/// and lists.
///
/// ```
/// use paceline_cc::fixed::Fixed;
/// use paceline_cc::registry::{Definition, register};
/// use paceline_cc::{Env, Spec};
///
/// let packets = 30.0;
/// register(Definition::new(format!("window-{packets}"), move |_, env: &Env| Box::new(Fixed::new(env, packets, None))))?;
/// let spec: Spec = "window-30".parse()?;
/// assert_eq!(spec.build(&Env::default()).window(), 30 * 1448);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// A name that a contestant's text could not hold or that is taken, a parameter that could not be written or does not take
/// its default, a lower TCP that does not exist, or [`MOST_REGISTERED`] of them already. Nothing is registered then.
pub fn register(definition: Definition) -> Result<&'static Entry, RegisterError> {
    check(&definition)?;
    if let Some(lower) = &definition.lower
        && !lower.parse().is_ok_and(|spec| TCP.carries(&spec).is_ok())
    {
        return Err(RegisterError::Lower { controller: definition.name, lower: clipped(lower) });
    }
    let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    if CONTROLLERS.iter().chain(registered.iter().copied()).any(|entry| entry.name == definition.name) {
        return Err(RegisterError::Taken(definition.name));
    }
    if registered.len() >= MOST_REGISTERED {
        return Err(RegisterError::TooMany);
    }
    let entry: &'static Entry = Box::leak(Box::new(entry(definition)));
    registered.push(entry);
    Ok(entry)
}

/// Those registered so far, oldest first.
pub(super) fn registered() -> Vec<&'static Entry> {
    REGISTERED.read().unwrap_or_else(PoisonError::into_inner).clone()
}

fn check(definition: &Definition) -> Result<(), RegisterError> {
    if !is_plain(&definition.name) {
        return Err(RegisterError::Name(clipped(&definition.name)));
    }
    let mut known: Vec<&str> = Vec::new();
    if let Some(start) = &definition.start {
        known.push(start.param.name);
        known.extend(start.among.iter().flat_map(|start_up| start_up.params).map(|param| param.name));
    }
    for param in &definition.params {
        let wrong = |what: String| {
            let (controller, param) = (definition.name.clone(), clipped(param.name));
            Err(RegisterError::Param { controller, param, what })
        };
        if !is_plain(param.name) {
            return wrong(
                "this is not a name; take letters, digits, '-', '_', '.' and '+', at most 64 bytes".to_owned(),
            );
        }
        if known.contains(&param.name) {
            return wrong("there are two of this name; rename one".to_owned());
        }
        known.push(param.name);
        match param.kind {
            Kind::Number { min, max } if !(min.is_finite() && max.is_finite() && min <= max) => {
                return wrong(format!("no number is from {min} to {max}; give finite bounds, the smaller one first"));
            }
            Kind::Choice(words) if !words.iter().all(|word| is_plain(word)) => {
                return wrong("a word holds more than letters, digits, '-', '_', '.' and '+'; rename it".to_owned());
            }
            Kind::Number { .. } | Kind::Choice(_) | Kind::Model => {}
        }
        if !param.kind.takes(param.default) {
            return wrong(format!("its default '{}' is not {}; give another", clipped(param.default), param.kind));
        }
    }
    for (name, default) in definition.start.iter().flat_map(|start| start.measured) {
        let own = definition.params.iter().find(|param| param.name == *name);
        if !own.is_some_and(|param| param.kind.takes(default)) {
            let (controller, param) = (definition.name.clone(), clipped(name));
            let what = format!("its default '{}' beside chirps is not a value of it; give another", clipped(default));
            return Err(RegisterError::Param { controller, param, what });
        }
    }
    Ok(())
}

fn entry(definition: Definition) -> Entry {
    Entry {
        name: definition.name.leak(),
        summary: definition.summary.leak(),
        source: definition.source.leak(),
        statements: Statements::NONE,
        home: Home::Tcp,
        start: definition.start,
        params: definition.params.leak(),
        needs: definition.needs.leak(),
        make: lasting(definition.make),
        receiver: definition.receiver.map(lasting),
        lower: definition.lower.map(|lower| &*lower.leak()),
    }
}

fn lasting<T: ?Sized + 'static>(make: Shared<T>) -> Make<T> {
    Box::leak(Box::new(move |params: &Params, env: &Env| make(params, env)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixed::Fixed;
    use crate::names::intern;
    use crate::registry::{Spec, find};
    use crate::start_ups::any_start_up;

    fn definition(name: &str) -> Definition {
        Definition::new(name, |_, env: &Env| Box::new(Fixed::new(env, 10.0, None)))
    }

    fn refused(definition: Definition) -> String {
        let error = register(definition).err().expect("it is refused").to_string();
        assert!(!error.contains('\n'), "{error}");
        error
    }

    #[test]
    fn what_a_text_cannot_hold_is_no_name() {
        for name in ["", "a:b", "a,b", "a=b", "a@b", "a/b", "a b", "a\nb", &"a".repeat(65)] {
            assert!(refused(definition(name)).contains("is not a name for a controller; take letters"), "{name}");
        }
    }

    #[test]
    fn a_name_is_given_once() {
        assert_eq!(refused(definition("cubic")), "there is a controller 'cubic' already; take another name");
        register(definition("given-once")).unwrap();
        assert_eq!(refused(definition("given-once")), "there is a controller 'given-once' already; take another name");
        assert_eq!(find("given-once").map(|entry| entry.name), Some("given-once"));
    }

    #[test]
    fn parameters_are_checked_when_they_are_declared_and_when_they_are_given() {
        let packets = |default: &'static str| {
            let name = intern(&format!("packets_{}", 1)).unwrap();
            Param { name, unit: "packets", kind: Kind::Number { min: 1.0, max: 9.0 }, default, source: "ours" }
        };
        let with = |name: &str, params: Vec<Param>| Definition { params, ..definition(name) };
        assert!(refused(with("p", vec![packets("0")])).contains("default '0' is not a number from 1 to 9"));
        assert!(refused(with("p", vec![packets("1"), packets("2")])).contains("two of this name"));
        assert!(refused(with("p", vec![Param { name: "a=b", ..packets("1") }])).contains("this is not a name"));
        let backwards = Kind::Number { min: 2.0, max: 1.0 };
        assert!(
            refused(with("p", vec![Param { kind: backwards, ..packets("1") }])).contains("no number is from 2 to 1")
        );
        let words = Kind::Choice(&["a", "b,c"]);
        assert!(refused(with("p", vec![Param { kind: words, ..packets("a") }])).contains("a word holds more"));
        let start = Some(any_start_up("slow", "ours"));
        let shadow = vec![Param { name: "chirp_gain", ..packets("1") }];
        assert!(refused(Definition { start, ..with("p", shadow) }).contains("two of this name"));
        let start = Some(any_start_up("slow", "ours").measuring(&[("packets_1", "0")]));
        assert!(refused(Definition { start, ..with("p", vec![packets("1")]) }).contains("beside chirps"));

        let make = |params: &Params, env: &Env| -> Box<dyn Controller> {
            Box::new(Fixed::new(env, params.number("packets_1"), None))
        };
        register(Definition { params: vec![packets("3")], ..Definition::new("packets", make) }).unwrap();
        let window = |text: &str| text.parse::<Spec>().map(|spec| spec.build(&Env::default()).window() / 1448);
        assert_eq!((window("packets"), window("packets:packets_1=7")), (Ok(3), Ok(7)));
        assert!(window("packets:packets_1=10").is_err());
    }

    #[test]
    fn the_tcp_below_must_be_one() {
        for lower in ["none", "sprout", "cubic:c=no"] {
            let refused = refused(Definition { lower: Some(lower.to_owned()), ..definition("above") });
            assert!(refused.contains("there is no TCP"), "{refused}");
        }
        register(Definition { lower: Some("reno".to_owned()), ..definition("above-reno") }).unwrap();
    }
}
