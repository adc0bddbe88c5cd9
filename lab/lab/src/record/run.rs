//! A run that was just made, which has more to show than its record.

use paceline_cc::{Distribution, Time};
use paceline_experiment::{Config, Cross, Series};
use serde::{Deserialize, Serialize};

use super::{Record, rounded};
use crate::contestant::Contestant;
use crate::measure;
use crate::run::Ended;
use crate::scenario::{KeyError, Plan};

/// One run of one contestant: its record, and what a report draws beside it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Run {
    /// Index of its contestant among those with a run, in the scenario's order.
    pub contestant: usize,
    /// Its record.
    pub record: Record,
    /// Which of its flows are the contestant's own; the others run beside them.
    pub own: Vec<bool>,
    /// Points over time: when asked for: of the first run of each contestant, or of all.
    pub series: Option<Series>,
    /// One-way delay in ms at the shares 0, 0.01, ... 1 of packets; empty when nothing arrived.
    pub delay_quantiles_ms: Vec<f64>,
    /// Queueing delay likewise.
    pub queue_quantiles_ms: Vec<f64>,
    /// Completion times likewise; empty where flows have no end.
    pub completion_quantiles_ms: Vec<f64>,
    /// What traffic without a controller offers to the link that the series shows, Mbit/s, on average in each of its steps; empty
    /// where there is none, or no series.
    pub cross_mbps: Vec<f64>,
}

impl Run {
    /// Of a run that came to its end.
    ///
    /// # Errors
    /// When the plan's world cannot be built, which has the traffic without a controller.
    pub fn of(plan: &Plan, contestant: &Contestant, ended: Ended) -> Result<Self, KeyError> {
        let record = ended.record(plan, contestant);
        let Ended { flows, outcome, .. } = ended;
        let cross_mbps = outcome.series.as_ref().map(|series| cross_mbps(plan, contestant, series)).transpose()?;
        Ok(Self {
            contestant: 0,
            record,
            own: plan.own(),
            delay_quantiles_ms: quantiles(&outcome.delay),
            queue_quantiles_ms: quantiles(&outcome.queue),
            completion_quantiles_ms: measure::completions(&flows, &outcome).as_ref().map(quantiles).unwrap_or_default(),
            cross_mbps: cross_mbps.unwrap_or_default(),
            series: outcome.series,
        })
    }

    /// Of which the record alone is left.
    pub fn recorded(record: Record) -> Self {
        Self { record, ..Self::default() }
    }
}

/// What traffic without a controller offers to the link that the series shows, on average in each step; empty where there is none.
fn cross_mbps(plan: &Plan, contestant: &Contestant, series: &Series) -> Result<Vec<f64>, KeyError> {
    let world: Config<()> = plan.world(contestant, None)?;
    let (graph, shown) = (world.topology.graph(), world.topology.shown());
    let over = |cross: &&Cross| graph.route(cross.way).is_some_and(|route| route.contains(&shown));
    let sources: Vec<&Cross> = world.cross.iter().filter(over).collect();
    if sources.is_empty() {
        return Ok(Vec::new());
    }
    let step = series.step.as_secs_f64();
    let offered = |index: usize| {
        let (from, to) = (step * index as f64, step * (index + 1) as f64);
        let of = |cross: &&Cross| {
            let since = from.max((cross.start - Time::ZERO).as_secs_f64());
            let until = cross.stop.map_or(to, |stop| to.min((stop - Time::ZERO).as_secs_f64()));
            cross.rate.as_mbps() * ((until - since) / step).clamp(0.0, 1.0)
        };
        sources.iter().map(of).sum()
    };
    Ok((0..series.capacity_mbps.len()).map(offered).collect())
}

fn quantiles(distribution: &Distribution) -> Vec<f64> {
    (0..=100).filter_map(|percent| distribution.quantile_ms(f64::from(percent) / 100.0).map(rounded)).collect()
}
