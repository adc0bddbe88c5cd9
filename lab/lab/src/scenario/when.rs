//! `[[when]]`: changes of a path, or of what an application does, that a controller's variables trigger.

use std::collections::BTreeMap;

use paceline_cc::foreign::printable;
use paceline_cc::names::{either, nearest};
use paceline_cc::{Env, Nanos, Rate, Spec, Time, labels};
use paceline_experiment::{Change, Condition, Does, Graph, When as Trigger, Workload, config};
use paceline_path::{Changeable, LossModel, PathChange, Rates, Reorder};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Flow, KeyError, Plan, Scenario, Who};
use crate::contestant::Contestant;

/// A `[[when]]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct When {
    /// The entry of `[[flows]]` whose controller is watched; of several flows its first.
    #[serde(default)]
    pub flow: u32,
    /// Described variables, each with a value, the name of a state, or `{ above = x }` or `{ below = x }`.
    pub is: BTreeMap<String, toml::Value>,
    /// Until then the condition counts as not met.
    #[serde(default)]
    pub after: Nanos,
    /// How many times it is met that pass.
    #[serde(default)]
    pub skip: u32,
    /// How many act then; 0 is all.
    #[serde(default = "once")]
    pub times: u32,
    /// From there to the change.
    #[serde(default)]
    pub delay: Nanos,
    /// Then what was before returns.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub lasts: Option<Nanos>,
    /// What changes: a key of the scenario with its new value.
    pub set: BTreeMap<String, toml::Value>,
}

fn once() -> u32 {
    1
}

/// What is wrong with a value, and how to fix it.
type Wrong = String;

impl Scenario {
    /// Whether every `[[when]]` can run, for every contestant.
    pub(super) fn check_when(&self) -> Result<(), KeyError> {
        if self.when.is_empty() {
            return Ok(());
        }
        let graph = self.graph()?;
        for (index, when) in self.when.iter().enumerate() {
            self.changes(index, when, &graph)?;
            let flow = self.watched(index, when)?;
            for each in &self.contestants {
                let spec = match &flow.contestant {
                    Who::Each => &each.controller,
                    Who::Fixed(contestant) => &contestant.controller,
                };
                conditions(index, when, spec)?;
            }
        }
        Ok(())
    }

    /// What will change of the direction with this number.
    pub(super) fn changing(&self, graph: &Graph, hop: u32) -> Changeable {
        let all = self.when.iter().enumerate().filter_map(|(index, when)| self.changes(index, when, graph).ok());
        all.flatten().fold(Changeable::default(), |changing, change| match change {
            Change::Path { hop: of, change } if of == hop => changing.and(&change),
            _ => changing,
        })
    }

    /// What the controller of the flow with this place among the `[[flows]]`, and this one, triggers.
    pub(super) fn triggers(&self, graph: &Graph, flow: usize, spec: &Spec) -> Result<Vec<Trigger>, KeyError> {
        let own = self.when.iter().enumerate().filter(|(_, when)| when.flow as usize == flow);
        let trigger = |(index, when): (usize, &When)| {
            Ok(Trigger {
                number: index as u32,
                is: conditions(index, when, spec)?,
                after: Time::ZERO + when.after,
                skip: when.skip,
                times: when.times,
                delay: when.delay,
                lasts: when.lasts,
                set: self.changes(index, when, graph)?,
            })
        };
        own.map(trigger).collect()
    }

    /// The flow that a `[[when]]` watches.
    fn watched(&self, index: usize, when: &When) -> Result<Flow, KeyError> {
        let wrong = |problem: String| KeyError::new(format!("when[{index}].flow"), problem);
        let flows = self.flows();
        let there = flows.len();
        let Some(flow) = flows.into_iter().nth(when.flow as usize) else {
            return Err(wrong(format!("there is no flow {}; the scenario has {there}, counted from 0", when.flow)));
        };
        if matches!(flow.workload, Workload::Poisson(_)) {
            return Err(wrong("its flows come and go, so that none can be watched; watch one that stays".to_owned()));
        }
        Ok(flow)
    }

    /// What a `[[when]]` changes.
    fn changes(&self, index: usize, when: &When, graph: &Graph) -> Result<Vec<Change>, KeyError> {
        let wrong = |key: &str, problem: &str| Err(KeyError::new(format!("when[{index}].{key}"), problem));
        if when.lasts == Some(Nanos::ZERO) {
            return wrong("for", "0 changes nothing; give a time, such as \"2s\", or leave it out for good");
        }
        if when.set.is_empty() {
            return wrong("set", "it changes nothing; write what changes, such as { \"down.rate\" = \"0.9x\" }");
        }
        let one = |(key, value): (&String, &toml::Value)| {
            let at = |problem| KeyError::new(format!("when[{index}].set.{}", printable(key, 60)), problem);
            self.change(key, value, graph).map_err(at)
        };
        when.set.iter().map(one).collect()
    }

    fn change(&self, key: &str, value: &toml::Value, graph: &Graph) -> Result<Change, Wrong> {
        if let Some(flow) = key.strip_prefix("flows.").and_then(|rest| rest.strip_suffix(".workload")) {
            return self.application(flow, value);
        }
        const KEYS: [&str; 6] = ["rate", "delay", "loss", "reorder", "outage", "policer.rate"];
        let found = KEYS.iter().rev().find_map(|what| Some((key.strip_suffix(what)?.strip_suffix('.')?, *what)));
        let Some((direction, what)) = found else {
            let can = KEYS.map(|key| format!("DIR.{key}")).join(", ");
            return Err(format!("that cannot change while a run goes on; what can is {can} and flows.N.workload"));
        };
        let hop = self.hop(direction, graph)?;
        let of = &self.directions()[hop as usize].1;
        let steady = of.rate.is_some() || matches!(of.schedule, Some(Rates::Steps(_)));
        if matches!(what, "rate" | "outage") && (!steady || of.schedule_lap.is_some()) {
            let problem = "this direction has no link with a rate, or steps that do not start over; give it one";
            return Err(problem.to_owned());
        }
        if what == "policer.rate" && of.policer.is_none() {
            return Err("this direction has no policer; give it one".to_owned());
        }
        let change = match what {
            "rate" => rate(value)?,
            "policer.rate" => match read(value, "a rate, such as \"10 Mbit/s\"")? {
                Rate::ZERO => return Err("a policer of rate 0 passes nothing; give a rate above 0".to_owned()),
                rate => PathChange::PolicerRate(rate),
            },
            "delay" => PathChange::Delay(read(value, "a time, such as \"40ms\"")?),
            "outage" => PathChange::Outage(some_time(value)?),
            "reorder" => {
                let reorder: Reorder = read(value, "a table, such as { share = 0.1, delay = \"15ms\" }")?;
                if !(0.0..=1.0).contains(&reorder.share) || reorder.delay == Nanos::ZERO {
                    return Err("it needs a share from 0 to 1, and a delay above 0".to_owned());
                }
                PathChange::Reorder(reorder)
            }
            _ => match read(value, "a probability, such as 0.02")? {
                LossModel::Rate(share) if (0.0..=1.0).contains(&share) => PathChange::Loss(LossModel::Rate(share)),
                _ => return Err("it is not a probability; give a number from 0 to 1".to_owned()),
            },
        };
        Ok(Change::Path { hop, change })
    }

    /// The number of a direction by its key.
    fn hop(&self, direction: &str, graph: &Graph) -> Result<u32, Wrong> {
        let name = if self.links.is_empty() { Some(direction) } else { direction.strip_prefix("links.") };
        let found = name.and_then(|name| graph.hops().iter().position(|hop| hop.name == name));
        let prefix = if self.links.is_empty() { "" } else { "links." };
        let known: Vec<String> = graph.hops().iter().map(|hop| format!("{prefix}{}", hop.name)).collect();
        found.map(|hop| hop as u32).ok_or_else(|| {
            let known = nearest(direction, known.iter().map(String::as_str));
            format!("there is no direction '{}'; {known}", printable(direction, 40))
        })
    }

    /// What the application of a flow does then; of several like flows, the first.
    fn application(&self, flow: &str, value: &toml::Value) -> Result<Change, Wrong> {
        let flows = self.flows();
        let place = flow.parse::<usize>().ok().filter(|place| *place < flows.len());
        let Some(place) = place else {
            return Err(format!("there is no flow '{}'; the scenario has {}", printable(flow, 20), flows.len()));
        };
        if matches!(flows[place].workload, Workload::Poisson(_)) || flows[place].object.is_some() {
            return Err("flows that come and go, or fetch an object, keep what they do; name another".to_owned());
        }
        let of_frames = |workload: &Workload| matches!(workload, Workload::Media(_) | Workload::MediaRate(_));
        let does = match value.as_str() {
            Some("pause") => Does::Pause,
            Some("resume") => Does::Resume,
            _ => {
                let what = "\"pause\", \"resume\" or a workload, such as \"bulk\" or { rate = \"2 Mbit/s\" }";
                let flow = Flow { workload: read(value, what)?, ..Flow::default() };
                flow.check().map_err(|(_, problem)| problem.to_owned())?;
                if matches!(flow.workload, Workload::Poisson(_)) {
                    return Err("a flow that runs cannot become a family of flows; give another workload".to_owned());
                }
                if of_frames(&flow.workload) || of_frames(&flows[place].workload) {
                    return Err(
                        "frames are made from the start of a flow to its end; write \"pause\" or \"resume\"".to_owned()
                    );
                }
                Does::Write(flow.workload)
            }
        };
        let before: u32 = flows[..place].iter().map(|flow| flow.count).sum();
        Ok(Change::Application { flow: before, does })
    }
}

impl Plan {
    /// The flows of its world, with what their controllers trigger.
    pub(super) fn watched_flows(&self, contestant: &Contestant) -> Result<Vec<config::Flow>, KeyError> {
        let mut flows = self.flows(contestant);
        let mut first = 0;
        for (place, of) in self.scenario.flows().iter().enumerate() {
            if let Some(flow) = flows.get_mut(first) {
                flow.when = self.scenario.triggers(&self.graph, place, &flow.controller)?;
            }
            first += of.count as usize;
        }
        Ok(flows)
    }
}

/// What is asked of the variables of this controller.
fn conditions(index: usize, when: &When, spec: &Spec) -> Result<Vec<(String, Condition)>, KeyError> {
    let key = format!("when[{index}].is");
    if when.is.is_empty() {
        return Err(KeyError::new(
            key,
            "it asks for nothing; name a variable and its value, such as { state = \"UP\" }",
        ));
    }
    let mut described = Vec::new();
    spec.build(&Env::default()).describe(&mut |name, _| described.push(name));
    let one = |(name, value): (&String, &toml::Value)| {
        let wrong = |problem: String| KeyError::new(format!("{key}.{}", printable(name, 40)), problem);
        if !described.contains(&name.as_str()) {
            let known = if described.is_empty() { "no variable".to_owned() } else { described.join(", ") };
            let name = printable(name, 40);
            return Err(wrong(format!("{spec} does not describe '{name}'; it describes {known}")));
        }
        condition(name, value).map(|condition| (name.clone(), condition)).map_err(wrong)
    };
    when.is.iter().map(one).collect()
}

fn condition(name: &str, value: &toml::Value) -> Result<Condition, Wrong> {
    if let Some(text) = value.as_str() {
        let Some(labels) = labels::of(name) else {
            return Err("its values have no names; write a number, or { above = x } or { below = x }".to_owned());
        };
        let found = labels.iter().position(|label| *label == text);
        let unknown = || format!("it has no value '{}'; it has {}", printable(text, 40), either(labels));
        return found.map(|value| Condition::Is(value as f64)).ok_or_else(unknown);
    }
    let bound = |table: &toml::Table| match table.iter().next() {
        Some((key, value)) if key == "above" && table.len() == 1 => Some(Condition::Above(number(value)?)),
        Some((key, value)) if key == "below" && table.len() == 1 => Some(Condition::Below(number(value)?)),
        _ => None,
    };
    let condition = number(value).map(Condition::Is).or_else(|| bound(value.as_table()?));
    condition.ok_or_else(|| "write a number, the name of a state, { above = x } or { below = x }".to_owned())
}

fn number(value: &toml::Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64)).filter(|number| number.is_finite())
}

fn rate(value: &toml::Value) -> Result<PathChange, Wrong> {
    if let Some(factor) = value.as_str().and_then(|text| text.strip_suffix('x')) {
        let factor = factor.trim_end().parse::<f64>().ok().filter(|factor| factor.is_finite() && *factor > 0.0);
        return factor.map(PathChange::RateBy).ok_or_else(|| "a factor is above 0, such as \"0.9x\"".to_owned());
    }
    let rate: Rate = read(value, "a rate, such as \"10 Mbit/s\", or a factor, such as \"0.9x\"")?;
    if rate == Rate::ZERO {
        return Err("a link of rate 0 carries nothing; write DIR.outage for a time".to_owned());
    }
    Ok(PathChange::Rate(rate))
}

fn some_time(value: &toml::Value) -> Result<Nanos, Wrong> {
    let what = "a time above 0, such as \"400ms\"";
    let time: Nanos = read(value, what)?;
    if time == Nanos::ZERO { Err(format!("0 changes nothing; write {what}")) } else { Ok(time) }
}

fn read<T: DeserializeOwned>(value: &toml::Value, what: &str) -> Result<T, Wrong> {
    let wrong = |_| format!("'{}' is not {what}", printable(&value.to_string(), 60));
    value.clone().try_into().map_err(wrong)
}

#[cfg(test)]
mod tests;
