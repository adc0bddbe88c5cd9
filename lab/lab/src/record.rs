//! The record of one run: one JSON object, with only what scenario and seed determine unless its cost was measured.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

mod digest;
pub mod fields;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;
mod run;
mod text;

pub use digest::write_digests;
#[cfg(feature = "parquet")]
pub use parquet::write_parquet;
pub use run::Run;
pub use text::{ReadError, read_json, read_json_to_cut, write_csv, write_json};

/// One run of one contestant; `docs/guide/records.md` describes every field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Name of the scenario.
    pub scenario: String,
    /// File name of the downward trace; `null` when the path has none.
    pub trace: Option<String>,
    /// `sim` (virtual time), `real` (sockets and kernel flows in real time).
    pub world: String,
    /// Controller with the parameters that differ from their defaults.
    pub controller: String,
    /// Datapath: `udp`, `tcp`, `alcc`, `alcc/LOWER`, `quic`.
    pub via: String,
    /// Real world, `tcp`: who ran the controller of the contestant's own flows: `kernel`, `module` or `agent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driven_by: Option<String>,
    /// Seed of the race.
    pub seed: u64,
    /// Number of the run, from 1; seed and number determine everything random in it.
    pub run: u32,
    /// Length in seconds.
    pub seconds: f64,
    /// Bytes delivered downwards and upwards by flows with a controller, headers included, Mbit/s.
    pub throughput_mbps: f64,
    /// The part of it that the contestant's own flows got, where others run beside them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_throughput_mbps: Option<f64>,
    /// Payload bytes that reached applications, Mbit/s.
    pub goodput_mbps: f64,
    /// Share (0..1) of what the path could have carried in that time; `null` when nothing limits it.
    pub utilization: Option<f64>,
    /// One-way delay of data packets, path and queue, ms.
    pub delay_ms: Option<Span>,
    /// What queues added to it, ms.
    pub queue_ms: Option<Span>,
    /// RTT samples of the senders, ms.
    pub rtt_ms: Option<Span>,
    /// Share of data packets that the path dropped.
    pub loss: f64,
    /// Packets sent again.
    pub retransmits: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Data packets that arrived with a CE mark.
    pub ecn_marks: u64,
    /// Flow completion times, ms, where flows end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fct_ms: Option<Span>,
    /// Flows that ended by delivering all their bytes, where flows end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completions: Option<u64>,
    /// Jain's index of the flows' throughputs, where several run without an end of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jain: Option<f64>,
    /// What in-band telemetry said of losses, where flows carry it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<TelemetryRecord>,
    /// Mean one-way delay by where it came from.
    pub split: Split,
    /// Values drawn for keys that hold a range.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub drawn: BTreeMap<String, String>,
    /// One for each flow, in the scenario's order.
    pub flows: Vec<FlowRecord>,
    /// Both directions of each link, where the scenario has links.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkRecord>,
    /// Version of paceline.
    pub version: String,
    /// Commit that it was built from, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// CPU time in seconds. Simulator: of the thread that ran it, when measured. Real world: of the endpoints of the
    /// contestant's own flows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_s: Option<f64>,
    /// Time that passed meanwhile, seconds, when measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_s: Option<f64>,
    /// Largest resident memory of the whole process so far, MB, when measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_mb: Option<f64>,
    /// Real world: how late the emulator released packets, us.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release_error_us: Option<ReleaseError>,
    /// Real world: packets released later than the bound of 1 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<u64>,
    /// Real world: no more than one packet in a hundred was late, and the host lost none of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trusted: Option<bool>,
}

/// How late an emulator released packets, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReleaseError {
    /// Median.
    pub p50: f64,
    /// 99 % lie below.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

/// One flow of a run. Fields mean what they mean in [`Record`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowRecord {
    /// Controller with the parameters that differ from their defaults.
    pub controller: String,
    /// Datapath.
    pub via: String,
    /// Real world, `tcp`: who ran the controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driven_by: Option<String>,
    /// `down` or `up`, where there are no links.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// The node that sent its data, where there are links.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The node that received it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// When it began, seconds.
    pub start_s: f64,
    /// When it ended, seconds.
    pub end_s: f64,
    /// Mbit/s while it lived, headers included.
    pub throughput_mbps: f64,
    /// Payload Mbit/s while it lived.
    pub goodput_mbps: f64,
    /// One-way delay of its data packets.
    pub delay_ms: Option<Span>,
    /// What queues added.
    pub queue_ms: Option<Span>,
    /// RTT samples.
    pub rtt_ms: Option<Span>,
    /// Share of its data packets that the path dropped.
    pub loss: f64,
    /// Data packets that entered the path.
    pub packets: u64,
    /// Packets sent again.
    pub retransmits: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Data packets that arrived with a CE mark.
    pub ecn_marks: u64,
    /// Completion times, ms, where it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fct_ms: Option<Span>,
    /// Flows of its family that ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completions: Option<u64>,
    /// Share of the chunks passed to the lower TCP for which that TCP was the limit: it held back earlier ones, or had refused this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_below: Option<f64>,
    /// What in-band telemetry said of its losses, where its packets carry it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<TelemetryRecord>,
    /// Mean one-way delay by where it came from: its data's direction and its acknowledgements'.
    pub split: Split,
}

/// One direction of a link of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkRecord {
    /// Name of the link, with `.back` for the direction from its second node to its first.
    pub name: String,
    /// Where packets come from.
    pub from: String,
    /// Where they go.
    pub to: String,
    /// What it carried, cross traffic and acknowledgements included, over what it could have carried; `null` where nothing
    /// limits it.
    pub utilization: Option<f64>,
    /// Packets that waited, on average over time.
    pub queue_packets: f64,
    /// Packets that arrived at its queue.
    pub packets: u64,
    /// Of these, dropped because the queue was full, or by its AQM.
    pub dropped: u64,
    /// Lost at random behind the queue, or on the air although sent again.
    pub lost: u64,
    /// Marked "congestion experienced".
    pub ecn_marks: u64,
    /// Of a Wi-Fi link: what it did on the air.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames_per_aggregate: Option<f64>,
    /// Share of the run in which its frames and their answers were on the air.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub airtime: Option<f64>,
    /// Frames that had to be sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames_again: Option<u64>,
    /// Aggregates that collided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collisions: Option<u64>,
}

/// What in-band telemetry said of losses, and what they were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TelemetryRecord {
    /// Reports that reached senders.
    pub reports: u64,
    /// Of these, not believed.
    pub refused: u64,
    /// Packets that the medium lost, by what their receivers called it.
    pub medium: NamedRecord,
    /// Packets that queues dropped, by what their receivers called it.
    pub overflow: NamedRecord,
    /// Packets that senders declared lost, by what they knew then.
    pub sender: NamedRecord,
}

/// Losses by the reason given for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedRecord {
    /// The medium.
    pub medium: u64,
    /// A full queue.
    pub overflow: u64,
    /// None.
    pub unknown: u64,
}

/// A distribution in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// Smallest.
    pub min: f64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95 % lie below.
    pub p95: f64,
    /// 99 % lie below.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

/// Mean one-way delay by where it came from, for each direction; `null` where nothing travelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Split {
    /// From the network to the user.
    pub down: Option<Parts>,
    /// From the user to the network.
    pub up: Option<Parts>,
}

/// Parts of a mean one-way delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Parts {
    /// Distance and jitter, ms.
    pub propagation_ms: f64,
    /// Waiting, ms.
    pub queue_ms: f64,
    /// Being put on the wire, ms.
    pub transmission_ms: f64,
}

impl Record {
    /// The contestant: `CONTROLLER@VIA`.
    pub fn contestant(&self) -> String {
        format!("{}@{}", self.controller, self.via)
    }
}

/// `value` to six significant digits, so that its text is short and the same everywhere (our choice, because
/// quantiles of delay carry three). Not-a-number and infinity become zero: JSON has neither.
pub fn rounded(value: f64) -> f64 {
    if !value.is_finite() {
        return 0.0;
    }
    // Through decimal text: correctly rounded on every platform, without a logarithm.
    format!("{value:.5e}").parse().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_digits() {
        assert_eq!(rounded(1.0 / 3.0), 0.333_333);
        assert_eq!(rounded(123_456_789.0), 123_457_000.0);
        assert_eq!(rounded(f64::NAN), 0.0);
        assert_eq!(rounded(-0.000_012_345_678), -0.000_012_345_7);
    }
}
