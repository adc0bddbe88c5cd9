//! `mdi` by name, and what its parameters mean.

use super::grid::Bins;
use super::{Config, Mdi};
use crate::controller::{Controller, Env};
use crate::entry::{Entry, Home, Kind, Param, Params};

fn make(params: &Params, env: &Env) -> Box<dyn Controller> {
    let table = params.model("model").table();
    let settings = Config::of(&table);
    let given = |name, default| Some(params.number(name)).filter(|value| *value > 0.0).unwrap_or(default);
    let config = Config {
        up: given("up", settings.up),
        down: given("down", settings.down),
        bins: if params.word("bins") == "release" { Bins::Release } else { Bins::Nearest },
    };
    Box::new(Mdi::new(env, table, config))
}

/// `mdi` in the registry.
pub const ENTRY: Entry = Entry {
    name: "mdi",
    summary: "MDI: draws the window's next move, each epoch, from a matrix of transitions, trained on another controller (goes slower on round trips longer than its model's)",
    source: "Khan et al., CCR 51(1), 2021, and the authors' release",
    statements: crate::statements::MDI,
    home: Home::Udp,
    start: None,
    params: &[
        Param {
            name: "model",
            unit: "which matrix",
            kind: Kind::Model,
            default: "verus",
            source: "our choice: the ALCC paper, section 4.3, takes one of Verus",
        },
        Param {
            name: "up",
            unit: "packets added when the delay falls by more than the matrix has (0: as the model says)",
            kind: Kind::Number { min: 0.0, max: 10_000.0 },
            default: "0",
            source: "our choice: training measures it; a published matrix has the release's 21",
        },
        Param {
            name: "down",
            unit: "factor on the window when the delay rises by more than the matrix has (0: as the model says)",
            kind: Kind::Number { min: 0.0, max: 1.0 },
            default: "0",
            source: "our choice: training measures it; a published matrix has the release's 0.975",
        },
        Param {
            name: "bins",
            unit: "which value of the grid a move is",
            kind: Kind::Choice(&["nearest", "release"]),
            default: "nearest",
            source: "as training counts; the release rounds down, half a step below",
        },
    ],
    needs: &[],
    make: &make,
    receiver: None,
    lower: Some("reno"),
};
