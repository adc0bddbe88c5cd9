//! `copa` in the registry.

use super::mode::Modes;
use super::{Config, Copa, Rules};
use crate::controller::{Controller, Env};
use crate::entry::{Entry, Home, Kind, Param, Params};
use crate::units::Nanos;

fn make(params: &Params, env: &Env) -> Box<dyn Controller> {
    let config = Config {
        rules: if params.word("rules") == "release" { Rules::Release } else { Rules::Paper },
        modes: match params.word("mode") {
            "default" => Modes::Default,
            "competitive" => Modes::Competitive,
            _ => Modes::Auto,
        },
        delta: params.number("delta"),
        tolerance: params.number("tol"),
        rtt_min_window: Nanos::from_secs_f64(params.number("rttmin_window")),
    };
    Box::new(Copa::new(env, config))
}

/// `copa` in the registry.
pub const ENTRY: Entry = Entry {
    name: "copa",
    summary: "Copa: aims at the rate 1/(delta x queueing delay), competes when others fill the buffer",
    source: "Arun and Balakrishnan, NSDI 2018",
    statements: crate::statements::COPA,
    home: Home::Udp,
    start: None,
    params: &[
        Param {
            name: "delta",
            unit: "per packet",
            kind: Kind::Number { min: 0.001, max: 10.0 },
            default: "0.5",
            source: "NSDI 2018 section 2: default mode",
        },
        Param {
            name: "mode",
            unit: "mode",
            kind: Kind::Choice(&["auto", "default", "competitive"]),
            default: "auto",
            source: "NSDI 2018 section 3.3: switches by the queue it sees",
        },
        Param {
            name: "tol",
            unit: "packets of queue that count as empty",
            kind: Kind::Number { min: 0.0, max: 1000.0 },
            default: "1",
            source: "our choice: one flow cannot see less of a queue; NSDI 2018 section 3.3 has none",
        },
        Param {
            name: "rttmin_window",
            unit: "s",
            kind: Kind::Number { min: 0.1, max: 1e6 },
            default: "10",
            source: "NSDI 2018 section 2.1",
        },
        Param {
            name: "rules",
            unit: "where they differ",
            kind: Kind::Choice(&["paper", "release"]),
            default: "paper",
            source: "NSDI 2018; release: the authors' genericCC",
        },
    ],
    needs: &[],
    make: &make,
    receiver: None,
    lower: None,
};
