//! Controllers written in JavaScript, which the page has: guests ([`paceline_lab::guest`]) that are called by messages.
//!
//! A message has the `id` of an object and a `call`: `new` with the `controller`, what it is made with (`env`) and its `params`; a method
//! with `now` and the `event`; `take_over` after a start-up with the `window` that its `window` and `ssthresh` become; `drop` at the end.
//! The answer has what the object says of itself afterwards: `window`, `pacing_mbps`, `gap`, `next_tick`, `ssthresh`, in `answered` what
//! the method returned, which of `on_sent` is a tag; of `new` also the `calls` that its class has. Numbers that JSON lacks are texts:
//! `"NaN"`.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use paceline_cc::entry::Params;
use paceline_cc::registry::{find, register};
use paceline_cc::{Ecn, Env, Recovery};
use paceline_lab::guest::{
    self, Argument, Declared, Given, Guest, GuestAnswers, Language, METHODS, Object, Unanswerable,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::browser;
use crate::request::AskError;
use crate::values;

/// JavaScript, as errors speak of it.
const JAVASCRIPT: Language = Language { name: "JavaScript", nothing: "null", on_tick: "on_tick(now)" };

/// A class of the page.
#[derive(Clone, Deserialize)]
pub(crate) struct Described {
    name: String,
    #[serde(default)]
    summary: Option<String>,
    #[serde(default)]
    params: BTreeMap<String, Value>,
    #[serde(default)]
    recovery: Option<String>,
    #[serde(default)]
    ecn: Option<String>,
}

/// What a controller did wrong first in the run of this thread.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fault {
    pub(crate) controller: String,
    /// The method.
    pub(crate) call: String,
    pub(crate) message: String,
    /// In the text of the class, where the page knows it.
    pub(crate) line: Option<u64>,
}

thread_local! {
    static FAULT: RefCell<Option<Fault>> = const { RefCell::new(None) };
    static NEXT: Cell<u32> = const { Cell::new(1) };
}

/// Whether a controller did something wrong in this run.
pub(crate) fn is_faulty() -> bool {
    FAULT.with_borrow(Option::is_some)
}

/// What that was; from now on nothing.
pub(crate) fn take_fault() -> Option<Fault> {
    FAULT.take()
}

/// Registers classes of the page. One that is known already has to have the same parameters.
pub(crate) fn register_all(classes: &[Described]) -> Result<(), AskError> {
    classes.iter().try_for_each(Described::register)
}

impl Described {
    fn register(&self) -> Result<(), AskError> {
        let wrong = |problem: String| AskError::Controller { name: self.name.clone(), problem };
        let declared = self.declared()?;
        let recovery = self.recovery.as_deref().unwrap_or("prr");
        let recovery = Recovery::named(recovery)
            .ok_or_else(|| wrong(format!("recovery is '{recovery}'; write 'prr' or 'controller'")))?;
        let ecn = self.ecn.as_deref().unwrap_or("off");
        let ecn = Ecn::named(ecn)
            .ok_or_else(|| wrong(format!("ecn is '{ecn}'; write 'off', 'classic', 'exact' or 'l4s'")))?;
        let class = Known { declared, recovery, ecn };
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(&self.name) {
            let other = "it was registered with other parameters, recovery or ecn, which stay; take another name";
            return if *known == class { Ok(()) } else { Err(wrong(other.to_owned())) };
        }
        if find(&self.name).is_some() {
            return Err(wrong("there is such a controller already; take another name".to_owned()));
        }
        let (name, kinds) = (self.name.clone(), class.declared.clone());
        let make = move |params: &Params, env: &Env| made(&name, env, (recovery, ecn), guest::given(&kinds, params));
        let definition = guest::definition(&self.name, "written in JavaScript", ecn, &class.declared, make);
        let mut definition = definition.map_err(|error| wrong(error.to_string()))?;
        definition.summary = self.summary.clone().unwrap_or_else(|| "of this page".to_owned());
        register(definition).map_err(|error| wrong(error.to_string()))?;
        known.insert(self.name.clone(), class);
        Ok(())
    }

    fn declared(&self) -> Result<Vec<(String, Declared)>, AskError> {
        let one = |(name, value): (&String, &Value)| {
            let declared = match value.as_array().map(Vec::as_slice) {
                Some([default, min, max]) => {
                    default.as_f64().zip(min.as_f64()).zip(max.as_f64()).map(|((a, b), c)| Declared::Number(a, b, c))
                }
                Some([default, words]) => default.as_str().zip(words.as_array()).and_then(|(default, words)| {
                    let words =
                        words.iter().map(|word| word.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()?;
                    Some(Declared::Word(default.to_owned(), words))
                }),
                _ => None,
            };
            declared.map(|declared| (name.clone(), declared)).ok_or_else(|| AskError::Controller {
                name: self.name.clone(),
                problem: format!("parameter '{name}' is {value}; write [default, least, most], or [default, [words]]"),
            })
        };
        self.params.iter().map(one).collect()
    }
}

/// What stays of a class that was registered.
#[derive(PartialEq)]
struct Known {
    declared: Vec<(String, Declared)>,
    recovery: Recovery,
    ecn: Ecn,
}

/// What was registered, by name.
static KNOWN: Mutex<BTreeMap<String, Known>> = Mutex::new(BTreeMap::new());

/// An object of a class of the page.
struct Scripted {
    id: u32,
    controller: String,
    /// The methods that its class has.
    calls: Vec<&'static str>,
    /// It did something wrong, and is not asked any more.
    failed: bool,
}

fn made(name: &str, env: &Env, kinds: (Recovery, Ecn), params: Vec<(&'static str, Given)>) -> Guest<Scripted> {
    let id = NEXT.get();
    NEXT.set(id.wrapping_add(1));
    let mut object = Scripted { id, controller: name.to_owned(), calls: Vec::new(), failed: false };
    let params: Map<String, Value> = params
        .into_iter()
        .map(|(name, given)| match given {
            Given::Number(number) => (name.to_owned(), json!(number)),
            Given::Word(word) => (name.to_owned(), json!(word)),
        })
        .collect();
    let call = json!({ "call": "new", "controller": name, "env": values::Env::from(env), "params": params });
    let answered = object.ask("new", call).and_then(|answer| {
        let has = |call: &&str| answer["calls"].as_array().is_some_and(|calls| calls.iter().any(|one| one == call));
        object.calls = METHODS.into_iter().filter(has).collect();
        object.read("new", &answer, env.mss)
    });
    Guest::new(object, env, kinds, "new", answered)
}

impl Scripted {
    /// Asks the page.
    fn ask(&mut self, method: &'static str, mut call: Value) -> Option<Value> {
        if self.failed {
            return None;
        }
        call["id"] = json!(self.id);
        match browser::event(&call.to_string()) {
            Ok(answer) => match serde_json::from_str(&answer) {
                Ok(answer) => Some(answer),
                Err(error) => {
                    self.wrong(method, format!("its answer is not JSON ({error})"), None);
                    None
                }
            },
            Err(threw) => {
                // The page says where, or it is a text.
                let said: Value = serde_json::from_str(&threw.0).unwrap_or_default();
                let message = said["message"].as_str().unwrap_or(&threw.0).to_owned();
                self.wrong(method, message, said["line"].as_u64());
                None
            }
        }
    }

    fn read(&mut self, method: &'static str, answer: &Value, mss: u32) -> Option<GuestAnswers> {
        let ticks = self.calls.contains(&"on_tick");
        let read = GuestAnswers::read(JAVASCRIPT, mss, ticks, |name| number(name, &answer[name]));
        read.map_err(|what: Unanswerable| self.fail(method, &what)).ok()
    }

    fn wrong(&mut self, method: &str, message: String, line: Option<u64>) {
        self.failed = true;
        let (controller, call) = (self.controller.clone(), method.to_owned());
        FAULT.with_borrow_mut(|fault| _ = fault.get_or_insert(Fault { controller, call, message, line }));
    }
}

/// A number in an answer.
fn number(name: &'static str, value: &Value) -> Result<Option<f64>, Unanswerable> {
    match value {
        Value::Null => Ok(None),
        Value::Number(number) => Ok(number.as_f64()),
        Value::String(text) if ["NaN", "Infinity", "-Infinity"].contains(&text.as_str()) => Ok(text.parse().ok()),
        other => Err(Unanswerable::not_a_number(name, &other.to_string())),
    }
}

impl Object for Scripted {
    const LANGUAGE: Language = JAVASCRIPT;

    fn has(&self, method: &str) -> bool {
        self.calls.contains(&method)
    }

    fn call(&mut self, method: &'static str, argument: Argument<'_>, mss: u32) -> Option<(GuestAnswers, u64)> {
        let mut call = values::call(argument);
        call["call"] = json!(method);
        let answer = self.ask(method, call)?;
        let answered = self.read(method, &answer, mss)?;
        match &answer["answered"] {
            Value::Null => Some((answered, 0)),
            tag if method == "on_sent" => {
                let Some(tag) = tag.as_u64() else {
                    let what = format!("answered {tag}; answer a tag, a whole number from 0 to 2^53 - 1, or null");
                    self.wrong(method, what, None);
                    return None;
                };
                Some((answered, tag))
            }
            Value::String(promise) if promise == "a Promise" => {
                let what = "answered a Promise, so that nothing was done; make it a plain method".to_owned();
                self.wrong(method, what, None);
                None
            }
            _ => Some((answered, 0)),
        }
    }

    fn take_over(&mut self, window: u64, mss: u32) -> Option<GuestAnswers> {
        let answer = self.ask("take_over", json!({ "call": "take_over", "window": window }))?;
        self.read("take_over", &answer, mss)
    }

    fn fail(&mut self, method: &'static str, what: &Unanswerable) {
        self.wrong(method, what.to_string(), None);
    }

    fn place(&self, method: &str) -> String {
        format!("{}.{method}", self.controller)
    }

    fn describe(&self, _report: &mut dyn FnMut(&'static str, f64)) {}
}

impl Drop for Scripted {
    fn drop(&mut self) {
        // What it answers means nothing.
        let _ = browser::event(&json!({ "id": self.id, "call": "drop" }).to_string());
    }
}
