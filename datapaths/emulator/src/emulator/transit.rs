//! An emulated link as a hop of in-band telemetry: what the node before it would write into packets as they come to its queue.

use std::collections::HashMap;
use std::sync::mpsc::Sender;

use paceline_cc::{Nanos, Time};
use paceline_experiment::MeteredHop;
use paceline_path::Path;
use paceline_telemetry::{NodeReport, push_record};

use crate::frame::{FlowKey, Frame, flow_key};

/// Nodes report their queues so often (our choice: their limits hardly change).
const REPORTS_EVERY: Nanos = Nanos::from_millis(100);
/// Most flows with a number of their own; further ones share one, that of what is not a flow (our choice: more than a record can
/// count).
const FLOWS: usize = 1024;

/// The node at the entry of one direction of a link. It writes a record into each packet that has a header for it, before the
/// packet is queued; everything else passes as it is.
#[derive(Debug)]
pub struct HopWriter {
    node: MeteredHop,
    /// Numbers from 1 on.
    flows: HashMap<FlowKey, u32>,
    reports: Option<Sender<NodeReport>>,
    /// When the next report is due.
    due: Time,
}

impl HopWriter {
    /// Of a node, which says to `reports` ten times a second how its queue is, while packets come.
    pub fn new(node: MeteredHop, reports: Option<Sender<NodeReport>>) -> Self {
        Self { node, flows: HashMap::new(), reports, due: Time::ZERO }
    }

    /// A packet comes to the queue. Answers the number that its flow has on the path.
    pub(super) fn pass(&mut self, now: Time, frame: &mut Frame, path: &mut Path<Frame>) -> u32 {
        let flow = flow_key(frame.stored()).map_or(0, |key| self.number(key));
        self.node.arrived(now, flow, frame.len() as u32);
        let hop_limit = frame.stored().get(7).copied().unwrap_or(0);
        if let Some(header) = frame.hop_by_hop()
            && let Some(record) = self.node.record(path, now, flow, hop_limit)
        {
            // A header of others, or without room, goes on as it is.
            let _ = push_record(header, &record);
        }
        if let Some(reports) = self.reports.as_ref().filter(|_| self.due <= now) {
            self.due = now + REPORTS_EVERY;
            if self.node.report(path, now).is_some_and(|report| reports.send(report).is_err()) {
                self.reports = None;
            }
        }
        flow
    }

    fn number(&mut self, key: FlowKey) -> u32 {
        let next = self.flows.len() as u32 + 1;
        if self.flows.len() < FLOWS {
            *self.flows.entry(key).or_insert(next)
        } else {
            self.flows.get(&key).copied().unwrap_or(0)
        }
    }
}
