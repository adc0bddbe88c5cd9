//! Start-ups by name: `cubic:start=hystart`, `dctcp:start=chirp`.
//!
//! A start-up's file ends in an entry, as a controller's does; its one line in [`START_UPS`] makes it known to every window
//! controller.

use crate::chirp;
use crate::controller::Env;
use crate::entry::{Kind, Param, Params, Start, StartUpEntry};
use crate::eq1;
use crate::hystart;
use crate::rapid;
use crate::resume;
use crate::search;
use crate::vegas;
use crate::window::{SlowStart, StartUp};

/// Every start-up, in the order in which they are listed.
pub const START_UPS: &[StartUpEntry] = &[
    SLOW,
    hystart::ENTRY,
    hystart::PLUS_PLUS_ENTRY,
    chirp::ENTRY,
    chirp::PAPER_ENTRY,
    chirp::REWRITE_ENTRY,
    chirp::BRANCH_ENTRY,
    search::ENTRY,
    rapid::ENTRY,
    resume::ENTRY,
    vegas::START_ENTRY,
    eq1::ENTRY,
];

/// The parameter `ssthresh` of a start-up that may have a slow-start threshold from the start.
pub const THRESHOLD: Param = Param {
    name: "ssthresh",
    unit: "packets at the start of the flow; 0: none",
    kind: Kind::Number { min: 0.0, max: 1e9 },
    default: "0",
    source: "RFC 5681 section 3.1: arbitrarily high",
};

/// The threshold in packets that the parameter means.
pub fn threshold(params: &Params) -> f64 {
    let packets = params.number(THRESHOLD.name);
    if packets > 0.0 { packets } else { f64::INFINITY }
}

/// `start=slow`. It stands here because [`crate::window`] is what entries are about.
const SLOW: StartUpEntry = StartUpEntry {
    name: "slow",
    summary: "slow start: twice the window each round trip, until a loss or a mark",
    source: "RFC 5681 section 3.1, RFC 3465",
    params: &[THRESHOLD],
    needs: &[],
    holds_against_marks: false,
    make: |params, env| Box::new(SlowStart::until(env, threshold(params))),
};

/// Their names, in the same order.
const NAMES: &[&str] = &{
    let mut names = [""; START_UPS.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = START_UPS[index].name;
        index += 1;
    }
    names
};

/// A window controller composes with every start-up: `default` unless its parameter `start` names another.
pub const fn any_start_up(default: &'static str, source: &'static str) -> Start {
    let param = Param { name: "start", unit: "start-up", kind: Kind::Choice(NAMES), default, source };
    Start::new(param, START_UPS)
}

/// The start-up that the parameter `start` names.
///
/// # Panics
/// When the controller's `ENTRY` has no start-ups: a mistake in that file, found by any test that makes it.
pub fn start_up(params: &Params, env: &Env) -> Box<dyn StartUp> {
    let name = params.word("start");
    let entry = START_UPS.iter().find(|entry| entry.name == name).expect("`start` takes these names alone");
    (entry.make)(params, env)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{CONTROLLERS, Spec};

    #[test]
    fn every_start_up_is_what_its_entry_says() {
        for entry in START_UPS {
            assert!(crate::names::is_plain(entry.name), "{}", entry.name);
            assert!(!entry.summary.is_empty() && !entry.source.is_empty(), "{}", entry.name);
            let spec: Spec = format!("reno:start={}", entry.name).parse().unwrap();
            let made = start_up(spec.params(), &Env::default());
            assert_eq!(made.holds_against_marks(), entry.holds_against_marks, "{}", entry.name);
        }
    }

    #[test]
    fn every_window_controller_takes_every_start_up() {
        for controller in CONTROLLERS.iter().filter(|entry| entry.start.is_some()) {
            for entry in START_UPS {
                let spec: Spec = format!("{}:start={}", controller.name, entry.name).parse().unwrap();
                assert_eq!(spec.start_up().map(|start_up| start_up.name), Some(entry.name), "{spec}");
            }
        }
    }
}
