//! One flow at its receiving host: what came, what is missing and why, and reports of it.

use paceline_cc::{Nanos, Time};

use crate::report::{FlowReport, NodeReport, Tuple};
use crate::wire::{Edge, NodeRecord};

/// A report at least this often while packets come (our choice, after the paper's network at 10 to 20 ms a round trip).
pub const INTERVAL: Nanos = Nanos::from_millis(10);
/// Packets after which a report is due before [`INTERVAL`] is over.
pub const PACKETS: u32 = 32;

/// Which flow, and what is known of the clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SinkConfig {
    /// The flow's number: a keyed hash of the tuple.
    pub flow: u32,
    /// The flow.
    pub tuple: Tuple,
    /// Sender and receiver have one clock: delays are delays, not differences.
    pub synced: bool,
}

/// One flow at its receiver.
#[derive(Clone, Debug)]
pub struct Sink {
    config: SinkConfig,
    rseq: u64,
    due: Time,
}

impl Sink {
    /// Of a flow whose first packet comes about `now`, by the sink's clock. Reports are numbered from the microseconds of that
    /// clock on, so that those of a sink that was started again are newer than those before.
    pub fn new(config: SinkConfig, now: Time) -> Self {
        Self { config, rseq: now.as_nanos() / 1000, due: Time::NEVER }
    }

    /// A packet with telemetry came, or `wire_packets` of a buffer that share a header.
    pub fn arrive(&mut self, now: Time, edge: &Edge, wire_packets: u8, records: &[NodeRecord]) {
        let _ = (edge, wire_packets, records);
        self.due = now + INTERVAL;
    }

    /// A node reported: the limits of its queues.
    pub fn node(&mut self, report: &NodeReport) {
        let _ = report;
    }

    /// The report that is due at `now`, if one is. Ask after each [`Sink::arrive`] and at [`Sink::next_timeout`], until there is none.
    pub fn poll(&mut self, now: Time) -> Option<FlowReport> {
        if now < self.due {
            return None;
        }
        (self.due, self.rseq) = (Time::NEVER, self.rseq + 1);
        let SinkConfig { flow, tuple, .. } = self.config;
        Some(FlowReport { flow, tuple, rseq: self.rseq, t_sink_ns: now.as_nanos(), ..FlowReport::default() })
    }

    /// When a report is due without another packet; [`Time::NEVER`]: not before one comes.
    pub fn next_timeout(&self) -> Time {
        self.due
    }
}
