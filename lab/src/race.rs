//! A race: every contestant of a scenario, alone on the same path, run after run with the same seeds.

use paceline_sim::Series;

use crate::record::Record;
use crate::stats::Summary;

/// A race that was run.
#[derive(Clone, Debug)]
pub struct Race {
    /// Name of the scenario.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// The scenario as written.
    pub scenario: String,
    /// The scenario as run: options applied, every default filled in, ranges drawn as for the first run.
    pub effective: String,
    /// Seed of the race.
    pub seed: u64,
    /// Version of paceline.
    pub version: String,
    /// Every run: by contestant in the scenario's order, then by number.
    pub runs: Vec<Run>,
    /// One for each contestant, in the scenario's order.
    pub summaries: Vec<Summary>,
}

/// One run of one contestant.
#[derive(Clone, Debug)]
pub struct Run {
    /// Index in [`Race::summaries`].
    pub contestant: usize,
    /// Its record.
    pub record: Record,
    /// Points over time: of the first run of each contestant, when asked for.
    pub series: Option<Series>,
    /// One-way delay in ms at the shares 0, 0.01, ... 1 of packets; empty when nothing arrived.
    pub delay_quantiles_ms: Vec<f64>,
    /// Queueing delay likewise.
    pub queue_quantiles_ms: Vec<f64>,
}
