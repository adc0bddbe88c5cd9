//! In-band telemetry, without I/O: the header that hops write into, what the receiving host makes of it, and what the sending
//! host believes of that.
//!
//! [`wire`] is the header on packets, [`node`] what a hop measures, [`sink`] and [`classify`] one flow at its receiver, [`trail`] what all flows
//! of a receiver see of hops, [`report`] what goes over the bus, [`reader`] one flow at its sender, [`inbox`] the
//! way to it from another thread. `docs/design/telemetry-wire.md` has the formats.

pub mod classify;
pub mod inbox;
pub mod node;
pub mod reader;
pub mod report;
pub mod sink;
pub mod trail;
pub mod wire;

pub use classify::LossSplit;
pub use inbox::{ReportInbox, ReportInboxes};
pub use node::{QueueMeter, QueueMoment};
pub use reader::{PathRecord, ReportReader};
pub use report::{FlowReport, HopReport, Latency, MalformedReport, NodeReport, Tuple};
pub use sink::{FlowSink, JudgedGap, SinkConfig};
pub use trail::Trail;
pub use wire::{
    Edge, Long, NodeRecord, PathWord, RecordProfile, StandardEdge, TelemetryHeader, WireError, WordSignal, push_record,
};
