//! What is known as objects of JSON, one for each flow, hop or end; and in a line.

use paceline_telemetry::FlowReport;
use serde_json::{Value, json};

use super::{Board, BoardFlow, BoardQueue};

/// Which part of a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoardView {
    /// Flows.
    Flows,
    /// Queues of hops.
    Hops,
    /// Those who give signs of life.
    Ends,
}

impl BoardView {
    /// Hops or ends, if they are asked for; else flows.
    pub const fn of(hops: bool, ends: bool) -> Self {
        match (hops, ends) {
            (true, _) => Self::Hops,
            (_, true) => Self::Ends,
            _ => Self::Flows,
        }
    }
}

impl Board {
    /// An object for each.
    pub fn objects(&self, view: BoardView) -> Vec<Value> {
        match view {
            BoardView::Flows => self.flows.values().map(flow).collect(),
            BoardView::Hops => self.queues.iter().map(hop).collect(),
            BoardView::Ends => self
                .ends
                .iter()
                .map(|((role, name), end)| json!({ "role": role.to_string(), "name": name, "health": end.health }))
                .collect(),
        }
    }
}

fn flow(flow: &BoardFlow) -> Value {
    json!({
        "sink": flow.publisher, "path": flow.path, "report": flow.report,
        "expected_packets": flow.packets.expected, "received_packets": flow.packets.received,
        "lost_medium": flow.packets.lost_medium, "lost_congestion": flow.packets.lost_congestion,
        "lost_unknown": flow.packets.lost_unknown, "reports": flow.packets.reports,
    })
}

fn hop(((node, egress), queue): (&(u32, u16), &BoardQueue)) -> Value {
    json!({
        "node": node, "egress": (*egress != u16::MAX).then_some(egress), "newest": queue.newest,
        "drops": queue.drops, "link_losses": queue.link_losses,
    })
}

/// What a second of a sink's reports says.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReportSums {
    /// Reports.
    pub reports: u64,
    expected: u64,
    queue: u64,
    medium: u64,
    unknown: u64,
    latency_us: Option<u64>,
}

impl ReportSums {
    /// Adds a report.
    pub fn add(&mut self, report: &FlowReport) {
        self.reports += 1;
        self.expected += u64::from(report.exp);
        self.queue += u64::from(report.lost_q);
        self.medium += u64::from(report.lost_m);
        self.unknown += u64::from(report.lost_u);
        self.latency_us = report.lat_us.map(|latency| latency.p95).or(self.latency_us);
    }

    /// A line for people, of so many flows.
    pub fn line(&self, flows: usize) -> String {
        let Self { reports, expected, queue, medium, unknown, latency_us } = self;
        let latency = latency_us.map_or(String::new(), |us| format!(", delay {:.1} ms", us as f64 / 1000.0));
        format!(
            "{flows} flows, {reports} reports: {expected} packets; lost by full queues {queue}, by the medium {medium}, \
             unknown {unknown}{latency}\n"
        )
    }
}
