//! A run that was just made, which has more to show than its record.

use paceline_experiment::Series;

use super::Record;

/// One run of one contestant: its record, and what a report draws beside it.
#[derive(Clone, Debug)]
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
