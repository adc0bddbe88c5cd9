//! In-band telemetry, without I/O: the header that hops write into, what the receiving host makes of it, and what the sending
//! host believes of that.
//!
//! [`wire`] is the header on packets, [`node`] what a hop measures, [`sink`] and [`classify`] one flow at its receiver, [`trail`] what all flows
//! of a receiver see of hops, [`report`] what goes over the bus, [`reader`] one flow at its sender. `docs/design/telemetry-wire.md` has the formats.

pub mod classify;
pub mod node;
pub mod reader;
pub mod report;
pub mod sink;
pub mod trail;
pub mod wire;

pub use classify::LossSplit;
pub use node::{QueueMeter, QueueMoment};
pub use reader::{PathRecord, ReportReader};
pub use report::{FlowReport, HopReport, Latency, MalformedReport, NodeReport, Tuple};
pub use sink::{FlowSink, JudgedGap, SinkConfig};
pub use trail::Trail;
pub use wire::{
    Edge, Long, NodeRecord, PathWord, RecordProfile, StandardEdge, TelemetryHeader, WireError, WordSignal, push_record,
};
