//! The hops' side of telemetry: what each measures of its queue, and writes into the packets that come to it.

use paceline_cc::Time;
use paceline_experiment::Graph;
use paceline_path::{Packet, Path, Snapshot};
use paceline_telemetry::{HopReport, Meter, NodeReport, Queue, push_record};

use crate::body::Body;

/// The hops of a world in which flows carry telemetry. A hop is a node's egress queue; one that nothing limits has no queue,
/// and writes nothing.
pub(crate) struct Nodes {
    meters: Vec<Meter>,
    /// By hop: the node.
    numbers: Vec<u32>,
}

impl Nodes {
    pub(crate) fn new(graph: &Graph) -> Self {
        let numbers: Vec<u32> = graph.hops().iter().map(|hop| hop.from).collect();
        let meter = |(hop, node): (u16, &u32)| Meter::new(*node, None, Some(hop));
        Self { meters: (0..).zip(&numbers).map(meter).collect(), numbers }
    }

    /// A packet comes to the queue of a hop, which writes its record before the packet is queued.
    pub(crate) fn pass(&mut self, hop: u32, path: &mut Path<Body>, now: Time, packet: &mut Packet<Body>) {
        let meter = &mut self.meters[hop as usize];
        meter.arrived(now, u64::from(packet.flow));
        let flow = packet.flow as usize;
        let Body::Traced(traced) = &mut packet.body else { return };
        if let Some(snapshot) = path.snapshot(now) {
            let of_flow = path.stats(now).and_then(|stats| stats.flows.get(flow));
            let flow_dropped = Some(of_flow.map_or(0, |flow| flow.dropped.packets));
            let record = meter.record(now, traced.hop_limit, &Queue { flow_dropped, ..queue(&snapshot) });
            // Where there is no room the packet goes on without it.
            let _ = push_record(&mut traced.header, &record);
        }
        traced.hop_limit -= 1;
    }

    /// What the node reports of this queue besides; `None` where nothing limits.
    pub(crate) fn report(&self, hop: u32, path: &mut Path<Body>, now: Time) -> Option<NodeReport> {
        let snapshot = path.snapshot(now)?;
        let record = self.meters[hop as usize].record(now, 0, &queue(&snapshot));
        let of_queue = HopReport {
            limit_pkts: snapshot.limit_packets().map(saturated),
            rate_100k: Some(rate_100k(&snapshot)),
            ..HopReport::of(&record)
        };
        let (node, t_node_ns) = (self.numbers[hop as usize], now.as_nanos());
        Some(NodeReport { node, rseq: t_node_ns, t_node_ns, hops: vec![of_queue], ..NodeReport::default() })
    }
}

/// The state of a queue in the words of telemetry.
fn queue(snapshot: &Snapshot) -> Queue {
    let (room, limit) = (snapshot.room_packets(), snapshot.limit_packets());
    let used = |(room, limit): (u64, u64)| 1.0 - room as f64 / limit.max(1) as f64;
    Queue {
        room_packets: room.map(saturated),
        queue_bytes: Some(saturated(snapshot.queued.bytes)),
        occupancy: room.zip(limit).map(used),
        dropped: Some(snapshot.dropped.packets),
        flow_dropped: None,
        link_lost: Some(snapshot.lost.packets),
        rate_100k: Some(u16::try_from(rate_100k(snapshot)).unwrap_or(u16::MAX)),
    }
}

/// The link's data rate in 0.1 Mbit/s.
fn rate_100k(snapshot: &Snapshot) -> u32 {
    saturated((snapshot.capacity.as_bytes_per_sec() + 6_250) / 12_500)
}

fn saturated(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
