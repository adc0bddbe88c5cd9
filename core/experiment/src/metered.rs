//! A hop of in-band telemetry, simulated or emulated: what it says of its queue in packets and in reports of its own.

use paceline_cc::Time;
use paceline_path::{Path, Snapshot};
use paceline_telemetry::{HopReport, NodeRecord, NodeReport, QueueMeter, QueueMoment};

use crate::lie::Lie;

/// The egress queue of a node, which is the first link of a path; a path without a link has none, and its node says nothing.
#[derive(Clone, Debug)]
pub struct MeteredHop {
    number: u32,
    meter: QueueMeter,
    /// Packets that have come.
    packets: u64,
    lie: Option<Lie>,
}

impl MeteredHop {
    /// The queue of interface `egress` of node `number`.
    pub fn new(number: u32, egress: u16) -> Self {
        Self { number, meter: QueueMeter::new(number, None, Some(egress)), packets: 0, lie: None }
    }

    /// The same, which says what is not so.
    #[must_use]
    pub fn lying(self, lie: Lie) -> Self {
        Self { lie: Some(lie), ..self }
    }

    /// A packet comes to the queue, of the flow with the number that packets on this path have, and of this many octets.
    pub fn arrived(&mut self, now: Time, flow: u32, octets: u32) {
        self.packets += 1;
        self.meter.arrived(now, u64::from(flow), octets);
    }

    /// What it writes into a packet of this flow that leaves with `hop_limit`, before the packet is queued.
    pub fn record<P: Clone + Send>(
        &self,
        path: &mut Path<P>,
        now: Time,
        flow: u32,
        hop_limit: u8,
    ) -> Option<NodeRecord> {
        let snapshot = path.snapshot(now)?;
        let of_flow = path.stats(now).and_then(|stats| stats.flows.get(&flow));
        let flow_dropped = Some(of_flow.map_or(0, |flow| flow.dropped.packets));
        self.told(now, &snapshot, hop_limit, flow_dropped)
    }

    /// What it says of a queue, which may not be so.
    fn told(&self, now: Time, snapshot: &Snapshot, hop_limit: u8, flow_dropped: Option<u64>) -> Option<NodeRecord> {
        let truth = self.meter.record(now, hop_limit, &QueueMoment { flow_dropped, ..queue(snapshot) });
        let limit = snapshot.limit_packets().map(saturated);
        self.lie.map_or(Some(truth), |lie| lie.record(now, self.packets, limit, truth))
    }

    /// What it reports of the queue besides: packets do not say what fits into it.
    pub fn report<P: Clone + Send>(&self, path: &mut Path<P>, now: Time) -> Option<NodeReport> {
        let snapshot = path.snapshot(now)?;
        let rate = Some(rate_100k(&snapshot));
        let hop = HopReport {
            limit_pkts: snapshot.limit_packets().map(saturated),
            rate_100k: self.lie.map_or(rate, |lie| lie.rate_100k(now, rate)),
            policed: snapshot.policed.map(|policed| policed.packets as u16),
            ..HopReport::of(&self.told(now, &snapshot, 0, None)?)
        };
        let (node, t_node_ns) = (self.number, now.as_nanos());
        Some(NodeReport { node, rseq: t_node_ns, t_node_ns, hops: vec![hop], ..NodeReport::default() })
    }
}

/// The state of a queue in the words of telemetry.
fn queue(snapshot: &Snapshot) -> QueueMoment {
    let (room, limit) = (snapshot.room_packets(), snapshot.limit_packets());
    let used = |(room, limit): (u64, u64)| 1.0 - room as f64 / limit.max(1) as f64;
    QueueMoment {
        room_packets: room.map(saturated),
        queue_bytes: Some(saturated(snapshot.queued.bytes)),
        occupancy: room.zip(limit).map(used),
        dropped: Some(snapshot.dropped.packets),
        flow_dropped: None,
        link_lost: Some(snapshot.lost.packets),
        rate_100k: Some(rate_100k(snapshot)),
    }
}

/// The link's data rate in 0.1 Mbit/s.
fn rate_100k(snapshot: &Snapshot) -> u32 {
    saturated(snapshot.capacity.as_bytes_per_sec().saturating_add(6_250) / 12_500)
}

fn saturated(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use paceline_cc::{Codepoint, Rate};
    use paceline_path::queue::{DropTail, QueueBound};
    use paceline_path::{Link, Packet, Schedule};

    use super::*;

    #[test]
    fn what_a_node_says_is_the_state_of_its_queue() {
        // 20 Mbit/s; of four packets one is in service, two wait, and the last, of the second flow, finds no room.
        let queue = DropTail::new(QueueBound::packets(2));
        let mut path = Path::new().link(Link::new(Schedule::constant(Rate::from_mbps(20.0)), Box::new(queue)));
        let (now, mut node) = (Time::from_millis(200), MeteredHop::new(7, 3));
        for flow in [1, 1, 1, 2] {
            node.arrived(now, flow, 1500);
            path.push(now, Packet::new(flow, 1500, Codepoint::NotEct, ()));
        }
        let record = node.record(&mut path, now, 2, 63).unwrap();
        assert_eq!((record.node, record.egress, record.hop_limit, record.at), (7, Some(3), 63, Some(now)));
        assert_eq!((record.room_packets, record.queue_bytes, record.occupancy), (Some(0), Some(3000), Some(1.0)));
        assert_eq!((record.dropped, record.link_lost, record.flows), (Some(1), Some(0), Some(2)));
        // Four arrivals, each with the weight of a time constant of 100 ms.
        assert_eq!((record.arrival_pps, record.rate_100k), (Some(40.0), Some(200)));
        let drops = [1, 2, 3].map(|flow| node.record(&mut path, now, flow, 63).unwrap().flow_dropped);
        assert_eq!(drops, [Some(0), Some(1), Some(0)]);
        let report = node.report(&mut path, now).unwrap();
        assert_eq!((report.node, report.hops.len()), (7, 1));
        let hop = &report.hops[0];
        assert_eq!((hop.limit_pkts, hop.rate_100k, hop.qdrop), (Some(2), Some(200), Some(1)));
        assert!(node.record(&mut Path::<()>::new(), now, 2, 63).is_none());
    }
}
