//! The hops' side of telemetry: what each measures of its queue, and writes into the packets that come to it.

use paceline_cc::Time;
use paceline_experiment::lie::liars;
use paceline_experiment::{Flow, Graph, MeteredHop};
use paceline_path::{Packet, Path};
use paceline_telemetry::{NodeReport, push_record};

use crate::body::{Body, Load};

/// The hops of a world in which flows carry telemetry.
pub(crate) struct Meters(Vec<MeteredHop>);

impl Meters {
    /// The hops of `graph`; nothing where none of `flows` carries telemetry.
    pub(crate) fn new(graph: &Graph, flows: &[Flow]) -> Option<Self> {
        if flows.iter().all(|flow| flow.telemetry.is_none()) {
            return None;
        }
        let mut hops: Vec<_> = (0..).zip(graph.hops()).map(|(number, hop)| MeteredHop::new(hop.from, number)).collect();
        for (hop, lie) in liars(graph, flows) {
            hops[hop as usize] = hops[hop as usize].clone().lying(lie);
        }
        Some(Self(hops))
    }

    /// A packet comes to the queue of a hop, which writes its record before the packet is queued.
    #[inline(never)]
    pub(crate) fn pass(&mut self, hop: u32, path: &mut Path<Body>, now: Time, packet: &mut Packet<Body>) {
        let node = &mut self.0[hop as usize];
        node.arrived(now, packet.flow, packet.size);
        let flow = packet.flow;
        let Load::Traced(traced) = &mut packet.body.load else { return };
        if let Some(record) = node.record(path, now, flow, traced.hop_limit) {
            // Where there is no room the packet goes on without it.
            let _ = push_record(&mut traced.header, &record);
        }
        traced.hop_limit -= 1;
    }

    /// What the node reports of this queue besides; `None` where nothing limits.
    pub(crate) fn report(&self, hop: u32, path: &mut Path<Body>, now: Time) -> Option<NodeReport> {
        self.0[hop as usize].report(path, now)
    }
}
