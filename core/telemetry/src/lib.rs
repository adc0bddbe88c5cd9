//! In-band telemetry, without I/O: the header that hops write into, what the receiving host makes of it, and what the sending
//! host believes of that.
//!
//! [`wire`] is the header on packets, [`node`] what a hop measures, [`sink`] and [`classify`] one flow at its receiver,
//! [`report`] what goes over the bus, [`reader`] one flow at its sender. `docs/design/telemetry-wire.md` has the formats.

pub mod classify;
pub mod node;
pub mod reader;
pub mod report;
pub mod sink;
pub mod wire;

pub use classify::Split;
pub use node::{Meter, Queue};
pub use reader::{Reader, Record};
pub use report::{FlowReport, HopReport, Latency, NodeReport, ReportError, Tuple};
pub use sink::{Judged, Sink, SinkConfig};
pub use wire::{Edge, Header, Long, NodeRecord, Profile, Standard, WireError, push_record};
