//! What a run leaves behind: counters of bounded size, and a series of points for plots.

use std::collections::BTreeMap;

use paceline_cc::names::intern;
use paceline_cc::{Distribution, Nanos, Time};
use paceline_icn::RouterStats;
use paceline_path::{Air, Count, DelaySplit, LinkStats};
use paceline_transport::SenderStats;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use crate::config::{Flow, Way};
use crate::endpoints::NotSimulated;
use crate::media::StreamOutcome;
use crate::program::ProgramOutcome;
use crate::record::mbps;
use crate::telemetry::TelemetryOutcome;
use crate::topology::Graph;
use crate::when::Fired;

/// Sums of delay components, for means.
#[derive(Clone, Copy, Debug, Default)]
pub struct SplitSum {
    /// Packets.
    pub count: u64,
    /// Sum of propagation in nanoseconds.
    pub propagation: u128,
    /// Sum of queueing in nanoseconds.
    pub queue: u128,
    /// Sum of transmission in nanoseconds.
    pub transmission: u128,
}

impl SplitSum {
    /// Adds one packet's delay.
    pub fn record(&mut self, split: &DelaySplit) {
        self.count += 1;
        self.propagation += u128::from(split.propagation.as_nanos());
        self.queue += u128::from(split.queue.as_nanos());
        self.transmission += u128::from(split.transmission.as_nanos());
    }

    /// Means of propagation, queue and transmission in milliseconds; zero when there were no packets.
    pub fn mean_ms(&self) -> [f64; 3] {
        let count = self.count.max(1) as f64 * 1e6;
        [self.propagation as f64 / count, self.queue as f64 / count, self.transmission as f64 / count]
    }
}

/// What became of one flow, or of a family of flows.
#[derive(Clone, Debug)]
pub struct FlowOutcome {
    /// Index in [`crate::Config::flows`].
    pub index: usize,
    /// When its first packet could leave.
    pub start: Time,
    /// When it ended: its last byte was delivered, it was stopped, or the world ended.
    pub end: Time,
    /// Data packets that entered the path.
    pub packets_entered: u64,
    /// Data packets that left the path; copies made on it are in no figure.
    pub packets_arrived: u64,
    /// Data packets dropped on the path.
    pub packets_dropped: u64,
    /// Bytes of data packets that arrived, headers included.
    pub wire_bytes_arrived: u64,
    /// Payload bytes ready for the application.
    pub bytes_ready: u64,
    /// Data packets that arrived with a CE mark; of a program those that the path marked.
    pub ce_packets: u64,
    /// One-way delay of data packets: path and queue.
    pub delay: Distribution,
    /// What queues added to it.
    pub queue: Distribution,
    /// RTT samples of the sender.
    pub rtt: Distribution,
    /// Delay components of data packets.
    pub data_split: SplitSum,
    /// Delay components of acknowledgements.
    pub ack_split: SplitSum,
    /// The sender's counters (summed over a family).
    pub sender: SenderStats,
    /// Completion times of flows that ended, with their sizes in bytes: the first [`MAX_COMPLETIONS`].
    pub completions: Vec<(u64, Nanos)>,
    /// Distribution of all completion times.
    pub fct: Distribution,
    /// What telemetry did, where its packets carried it.
    pub telemetry: Option<TelemetryOutcome>,
    /// What a program left, where one ran the flow.
    pub program: Option<ProgramOutcome>,
    /// What became of its frames, where it has such.
    pub frames: Vec<StreamOutcome>,
    /// Bytes that the link on its way that could carry the least could carry from its start to its end; `None` where nothing limits
    /// it.
    pub capacity_bytes: Option<u64>,
}

impl FlowOutcome {
    /// Payload bytes that reached the application; none where a program's protocol does not show them.
    pub fn goodput_bytes(&self) -> Option<u64> {
        self.program.as_ref().map_or(Some(self.bytes_ready), |program| program.seen.acknowledged)
    }

    /// Packets that were sent again; none where that is not seen.
    pub fn retransmits(&self) -> Option<u64> {
        self.program.as_ref().map_or(Some(self.sender.retransmits), |program| program.seen.retransmits)
    }

    /// Retransmission timeouts; none of a program, whose timer is not seen.
    pub fn timeouts(&self) -> Option<u64> {
        self.program.is_none().then_some(self.sender.timeouts)
    }
}

/// Most completion times kept one by one; all of them enter the histogram (our choice, because memory must not grow
/// with simulated time).
pub const MAX_COMPLETIONS: usize = 20_000;

/// Points over time, for plots. All vectors of one series have the same length, but those that are empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Time between two points; point `i` covers `(i * step, (i + 1) * step]`.
    pub step: Nanos,
    /// What the link that is shown could carry, Mbit/s: of a dumbbell the downward one, else [`crate::Topology::showing`].
    pub capacity_mbps: Vec<f64>,
    /// Bytes waiting at that link at the end of the step.
    pub queue_bytes: Vec<u64>,
    /// One for each of the first flows.
    pub flows: Vec<FlowSeries>,
}

/// Points over time for one flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowSeries {
    /// Index in [`crate::Config::flows`].
    pub index: usize,
    /// Delivered, headers included, Mbit/s.
    pub throughput_mbps: Vec<f64>,
    /// Mean queueing delay of packets that arrived in the step, ms; `None` where none did.
    pub queue_ms: Vec<Option<f64>>,
    /// Largest one.
    pub queue_max_ms: Vec<Option<f64>>,
    /// Window in packets at the end of the step; of a program's flow nothing, as no one outside sees it.
    pub window_packets: Vec<f64>,
    /// Packets in flight at the end of the step; nothing, as the window.
    pub in_flight_packets: Vec<f64>,
    /// Smoothed RTT, ms.
    pub srtt_ms: Vec<Option<f64>>,
    /// The controller's own variables by name.
    #[serde(deserialize_with = "named")]
    pub variables: BTreeMap<&'static str, Vec<Option<f64>>>,
}

/// Variables of a series that was written down.
fn named<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<&'static str, Vec<Option<f64>>>, D::Error> {
    let variables = BTreeMap::<String, _>::deserialize(from)?;
    variables.into_iter().map(|(name, points)| Ok((intern(&name).map_err(D::Error::custom)?, points))).collect()
}

/// What one direction of a link did.
#[derive(Clone, Debug, Default)]
pub struct HopOutcome {
    /// Counters of its queue.
    pub stats: LinkStats,
    /// Bytes it could have carried during the run; `None` when nothing limits it.
    pub capacity_bytes: Option<u64>,
    /// Lost at random behind the queue, or on the air.
    pub lost: Count,
    /// Dropped by its policer; `None` where it has none.
    pub policed: Option<Count>,
    /// What it did on the air; `None` where it is not a Wi-Fi link.
    pub air: Option<Air>,
}

/// What a content router did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterOutcome {
    /// Its node.
    pub node: u32,
    /// Its counters.
    pub stats: RouterStats,
    /// Bytes of its tables at the end.
    pub memory: usize,
}

/// What a run leaves behind.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// In the order of [`crate::Config::flows`].
    pub flows: Vec<FlowOutcome>,
    /// One-way delay over all flows' data packets.
    pub delay: Distribution,
    /// Queueing delay over all flows' data packets.
    pub queue: Distribution,
    /// RTT samples over all flows.
    pub rtt: Distribution,
    /// Nodes and links.
    pub graph: Graph,
    /// What each hop did, in the order of [`Graph::hops`]: of a dumbbell the path down, then the path up.
    pub hops: Vec<HopOutcome>,
    /// What each content router did, by its node.
    pub routers: Vec<RouterOutcome>,
    /// Points over time, when asked for.
    pub series: Option<Series>,
    /// Which of [`crate::Flow::when`] acted, in the order of time.
    pub fired: Vec<Fired>,
    /// Wake-ups that the event loop handled, as a measure of work.
    pub events: u64,
    /// What ended the run before its time.
    pub failure: Option<RunFailure>,
}

/// What ends a run before its time.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RunFailure {
    /// A window is in the wrong unit.
    #[error(transparent)]
    Excess(#[from] Excess),
    /// The simulator does not have a flow's datapath.
    #[error(transparent)]
    NotSimulated(#[from] NotSimulated),
}

/// A flow had more in flight than its path can ever hold: its window is in another unit, or without bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{controller}: a window of {window} bytes{place} has put {in_flight} bytes in flight, and the path holds {holds}; \
     give the window in bytes: a rate in bytes per second times a time in seconds",
    place = set_at.as_ref().map_or_else(String::new, |place| format!(", set by {place},"))
)]
pub struct Excess {
    /// The flow's controller, as it was written.
    pub controller: String,
    /// Its window in bytes.
    pub window: u64,
    /// What set it ([`paceline_cc::Controller::window_set_at`]).
    pub set_at: Option<String>,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Bytes that the path can hold: its queues and a bandwidth-delay product.
    pub holds: u64,
}

impl Outcome {
    /// Notes what links could carry while each flow ran; `flows` are those configured, and `capacity` answers for a hop between two
    /// moments.
    pub fn note_capacities(&mut self, flows: &[Flow], capacity: impl Fn(u32, Time, Time) -> Option<u64>) {
        for outcome in &mut self.flows {
            let route = flows.get(outcome.index).and_then(|flow| self.graph.route(flow.way)).unwrap_or_default();
            let least = route.iter().filter_map(|hop| capacity(*hop, outcome.start, outcome.end)).min();
            outcome.capacity_bytes = least;
        }
    }

    /// Notes in the series what the link that is shown could carry, of a run that knows it at the end.
    pub fn show_capacity(&mut self, capacity: impl Fn(Time, Time) -> Option<u64>) {
        let Some(Series { step, capacity_mbps, .. }) = &mut self.series else { return };
        let mut from = Time::ZERO;
        for point in capacity_mbps {
            let to = from + *step;
            *point = capacity(from, to).map_or(0.0, |bytes| mbps(bytes, *step));
            from = to;
        }
    }

    /// The hop on this flow's way that could carry the least during the run, the first of equals: its bottleneck. `None` where
    /// nothing limits the flow.
    pub fn bottleneck(&self, way: Way) -> Option<usize> {
        let capacity = |hop: u32| Some((self.hops.get(hop as usize)?.capacity_bytes?, hop as usize));
        let route = self.graph.route(way)?;
        route.into_iter().filter_map(capacity).min_by_key(|(bytes, _)| *bytes).map(|(_, hop)| hop)
    }
}
