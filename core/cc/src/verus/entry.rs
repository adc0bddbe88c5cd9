//! `verus` by name, and what its parameters mean.

use super::{Config, Verus};
use crate::controller::{Controller, Env};
use crate::entry::{Entry, Home, Kind, Param, Params};

fn make(params: &Params, env: &Env) -> Box<dyn Controller> {
    let ratio = params.number("ss_ratio");
    Box::new(Verus::new(
        env,
        Config {
            r: params.number("r"),
            ss_exit_ms: params.number("ss_exit"),
            ss_ratio: if ratio > 0.0 { ratio } else { f64::INFINITY },
        },
    ))
}

/// `verus` in the registry.
pub const ENTRY: Entry = Entry {
    name: "verus",
    summary: "Verus: a target delay moved every 5 ms, and a learnt profile that turns it into a window",
    source: "Zaki et al., SIGCOMM 2015, and the authors' release",
    statements: crate::statements::VERUS,
    home: Home::Udp,
    start: None,
    params: &[
        Param {
            name: "r",
            unit: "times the smallest delay",
            kind: Kind::Number { min: 1.1, max: 100.0 },
            default: "6",
            source: "the authors' release; the paper uses 2, 4 and 6",
        },
        Param {
            name: "ss_exit",
            unit: "ms of RTT that end slow start",
            kind: Kind::Number { min: 1.0, max: 1e6 },
            default: "500",
            source: "the authors' release (SS_EXIT_THRESHOLD)",
        },
        Param {
            name: "ss_ratio",
            unit: "times the smallest delay that end slow start (0: none; the paper uses 15)",
            kind: Kind::Number { min: 0.0, max: 1e3 },
            default: "0",
            source: "the authors' release has no such exit",
        },
    ],
    needs: &[],
    make: &make,
    receiver: None,
    lower: Some("reno"),
};
