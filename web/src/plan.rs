//! What a race is going to do.

use std::sync::Arc;

use paceline_experiment::{Config, Graph};
use paceline_lab::contestant::Contestant;
use paceline_lab::programs::{ProgramSettings, permitted};
use paceline_lab::race::titled;
use paceline_lab::run::World;
use paceline_lab::scenario::{KeyError, Options, Plan, Scenario, Source};
use paceline_path::Trace;
use paceline_report::palette;
use serde_json::{Value, json};

use crate::controller;
use crate::request::{AskError, Race};
use crate::shipped;

pub(crate) fn plan(race: &Race) -> Result<Value, AskError> {
    let source = source(race)?;
    let plans = source.plans()?;
    let Some(first) = plans.first() else { unreachable!("a scenario has at least one run: checked") };
    let scenario = &first.scenario;
    let mut notes = first.notes.clone();
    notes.extend(check(&plans)?);
    let graph = scenario.contestants.first().map(|one| graph(first, one)).transpose()?.unwrap_or_default();
    let contestants: Vec<String> = scenario.contestants.iter().map(Contestant::to_string).collect();
    Ok(json!({
        "told": "plan",
        "name": scenario.name,
        "title": titled(scenario, source.set()),
        "runs": plans.len(),
        "seconds": scenario.seconds,
        "seed": scenario.seed,
        "classes": palette::classes(contestants.iter().map(String::as_str)),
        "contestants": contestants,
        "links": graph.hops().iter().map(|hop| &hop.name).collect::<Vec<_>>(),
        "flows": flows(scenario),
        "notes": notes,
        "scenario": scenario,
        "effective": first.to_toml(),
    }))
}

/// A scenario with what the request says of it; controllers of the page that may race are known from now on.
pub(crate) fn source(race: &Race) -> Result<Source, AskError> {
    controller::register_all(&race.controllers)?;
    let options = Options {
        contestants: race.contestants.as_ref().map(|list| list.join(",")),
        seed: race.seed,
        seconds: race.seconds,
        runs: race.runs,
        set: race.sets.clone(),
        ..Options::default()
    };
    let mut source = Source::from_text(&race.file, &race.scenario, options);
    for (name, trace) in shipped::traces(|file| race.names(file)) {
        source = source.with_trace(&name, trace);
    }
    for (name, text) in &race.traces {
        source = source.with_trace(name, Arc::new(Trace::read(name, text.as_bytes())?));
    }
    Ok(source)
}

/// Whether the simulator has what they need; what it does otherwise than they say, one line each.
pub(crate) fn check(plans: &[Plan]) -> Result<Vec<String>, AskError> {
    let Some(first) = plans.first() else { return Ok(Vec::new()) };
    permitted(first, World::Sim, &ProgramSettings::default())?;
    Ok(World::Sim.check(&first.scenario.contestants, plans)?)
}

/// Nodes and links of its world.
fn graph(plan: &Plan, contestant: &Contestant) -> Result<Graph, KeyError> {
    let world: Config<()> = plan.world(contestant, None)?;
    Ok(world.topology.graph().clone())
}

fn flows(scenario: &Scenario) -> Vec<Value> {
    let flow = |flow: &paceline_lab::scenario::Flow| {
        json!({
            "contestant": flow.contestant,
            "count": flow.count,
            "direction": flow.direction,
            "from": flow.from,
            "to": flow.to,
            "start": flow.start,
            "stop": flow.stop,
        })
    };
    scenario.flows().iter().map(flow).collect()
}
