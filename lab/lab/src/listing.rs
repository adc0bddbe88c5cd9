//! What can race, as JSON: each controller, start-up and datapath with its parameters, units, defaults and sources.

use paceline_cc::datapath::{DATAPATHS, Datapath};
use paceline_cc::entry::{Entry, Kind, Param, StartUpEntry};
use paceline_cc::mdi::models::SHIPPED;
use paceline_cc::registry::controllers;
use paceline_cc::{Ability, Spec};
use serde_json::{Value, json};

/// A controller.
pub fn controller(entry: &'static Entry) -> Value {
    json!({
        "name": entry.name,
        "summary": entry.summary,
        "source": entry.source,
        "needs": names(&mut entry.needs()),
        "vias": vias(entry),
        "params": entry.params().map(param_json).collect::<Vec<_>>(),
    })
}

/// A start-up.
pub fn start_up(entry: &'static StartUpEntry) -> Value {
    json!({
        "name": entry.name,
        "summary": entry.summary,
        "source": entry.source,
        "controllers": composes_with(entry),
        "needs": names(&mut entry.needs.iter().copied()),
        "vias": vias_of_start_up(entry),
        "params": entry.params.iter().map(param_json).collect::<Vec<_>>(),
    })
}

/// A datapath.
pub fn datapath(datapath: &'static Datapath) -> Value {
    json!({
        "name": datapath.name,
        "summary": datapath.summary,
        "simulated": datapath.simulated,
        "offers": names(&mut datapath.offers.iter().copied()),
        "controllers": carried(datapath),
    })
}

fn names(abilities: &mut dyn Iterator<Item = Ability>) -> Vec<&'static str> {
    abilities.map(Ability::name).collect()
}

fn param_json(param: &Param) -> Value {
    let mut object = json!({
        "name": param.name,
        "unit": param.unit,
        "default": param.default,
        "source": param.source,
    });
    match param.kind {
        Kind::Number { min, max } => {
            object["min"] = json!(min);
            object["max"] = json!(max);
        }
        Kind::Choice(words) => object["choices"] = json!(words),
        Kind::Model => object["models"] = json!(SHIPPED.iter().map(|(name, _)| name).collect::<Vec<_>>()),
    }
    object
}

/// Whether the datapath carries the controller with its default parameters.
fn fits(entry: &'static Entry, datapath: &'static Datapath) -> bool {
    entry.name.parse::<Spec>().is_ok_and(|spec| datapath.carries(&spec).is_ok())
}

/// The datapaths that carry a controller.
pub fn vias(entry: &'static Entry) -> Vec<&'static str> {
    DATAPATHS.iter().filter(|datapath| fits(entry, datapath)).map(|datapath| datapath.name).collect()
}

/// The datapaths that offer what a start-up needs.
pub fn vias_of_start_up(entry: &'static StartUpEntry) -> Vec<&'static str> {
    let fits = |datapath: &&Datapath| entry.needs.iter().all(|need| datapath.offers(*need));
    DATAPATHS.iter().filter(fits).map(|datapath| datapath.name).collect()
}

/// The controllers that a datapath carries.
pub fn carried(datapath: &'static Datapath) -> Vec<&'static str> {
    controllers().into_iter().filter(|entry| fits(entry, datapath)).map(|entry| entry.name).collect()
}

/// The controllers that take a start-up.
pub fn composes_with(start_up: &'static StartUpEntry) -> Vec<&'static str> {
    let takes = |entry: &&Entry| entry.start.as_ref().is_some_and(|start| start.named(start_up.name).is_some());
    controllers().into_iter().filter(takes).map(|entry| entry.name).collect()
}
