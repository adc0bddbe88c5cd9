//! A hop that says of itself what is not so, in what it writes into packets and in reports of its own.

use paceline_cc::Time;
use paceline_telemetry::{NodeRecord, report::REFERENCE};
use serde::{Deserialize, Serialize};

use crate::{Flow, Graph};

/// By how much arrivals and capacity are wrong, and how many flows there are not (our choices: ten times, and fewer than the end of the count).
const TIMES: u32 = 10;
const FLOWS: u32 = 200;
/// The largest and the smallest capacity that a record of 16 bits has, in 0.1 Mbit/s, and the most flows that it counts to the end.
const ENDLESS: u32 = 65_000;
const NEXT_TO_NOTHING: u32 = 1;
const CROWD: u32 = 253;

/// What a hop says that is not so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HopLie {
    /// Less load than there is: nothing waits, nothing was dropped, a tenth of what arrives, one flow.
    Idle,
    /// More load than there is: a full queue, ten times what arrives, 200 flows.
    Busy,
    /// [`HopLie::Idle`] and [`HopLie::Busy`] in turn, from packet to packet.
    EachPacket,
    /// The same from second to second.
    EachSecond,
    /// Flows alone: 200, which bring ten times what arrives; its queue is as it is.
    Crowd,
    /// The capacity alone: ten times ...
    Fast,
    /// ... and a tenth.
    Slow,
    /// [`HopLie::Idle`] with a capacity of 6.5 Gbit/s and room for 65 000 packets.
    Open,
    /// [`HopLie::Busy`] with a capacity of 0.1 Mbit/s and 253 flows.
    Shut,
    /// It takes no part.
    Silent,
}

/// A lie of a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lie {
    /// What the hop says from `from` on; before that it says the truth.
    pub says: HopLie,
    /// When the lie begins.
    pub from: Time,
}

impl HopLie {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Idle,
        Self::Busy,
        Self::EachPacket,
        Self::EachSecond,
        Self::Crowd,
        Self::Fast,
        Self::Slow,
        Self::Open,
        Self::Shut,
        Self::Silent,
    ];

    /// What it is at `now`, after this many packets.
    fn turn(self, now: Time, packets: u64) -> Self {
        let number = match self {
            Self::EachPacket => packets,
            Self::EachSecond => now.as_nanos() / 1_000_000_000,
            lie => return lie,
        };
        if number.is_multiple_of(2) { Self::Idle } else { Self::Busy }
    }
}

impl Lie {
    /// What becomes of a record of a queue of this many packets, after this many packets have come; `None`: nothing is written.
    pub fn record(self, now: Time, packets: u64, limit: Option<u32>, truth: NodeRecord) -> Option<NodeRecord> {
        if now < self.from {
            return Some(truth);
        }
        let arrival = |factor: f64| truth.arrival_pps.map(|pps| pps * factor);
        let (more, less) = (f64::from(TIMES), f64::from(TIMES).recip());
        let rate_100k = self.rate_100k(now, truth.rate_100k);
        let lie = match self.says.turn(now, packets) {
            says @ (HopLie::Idle | HopLie::Open) => NodeRecord {
                room_packets: if says == HopLie::Open { Some(ENDLESS) } else { limit.or(truth.room_packets) },
                queue_bytes: Some(0),
                occupancy: Some(0.0),
                flows: Some(1),
                arrival_pps: arrival(less),
                flow_dropped: truth.flow_dropped.map(|_| 0),
                dropped: truth.dropped.map(|_| 0),
                ..truth
            },
            says @ (HopLie::Busy | HopLie::Shut) => NodeRecord {
                room_packets: Some(0),
                queue_bytes: limit.map(|limit| limit.saturating_mul(REFERENCE as u32)).or(truth.queue_bytes),
                occupancy: Some(1.0),
                flows: Some(if says == HopLie::Shut { CROWD } else { FLOWS }),
                arrival_pps: arrival(more),
                ..truth
            },
            HopLie::Crowd => NodeRecord { flows: Some(FLOWS), arrival_pps: arrival(more), ..truth },
            HopLie::Silent => return None,
            HopLie::Fast | HopLie::Slow | HopLie::EachPacket | HopLie::EachSecond => truth,
        };
        Some(NodeRecord { rate_100k, ..lie })
    }

    /// What becomes of the rate of its link, in 0.1 Mbit/s.
    pub fn rate_100k(self, now: Time, truth: Option<u32>) -> Option<u32> {
        match self.says {
            _ if now < self.from => truth,
            HopLie::Fast => truth.map(|rate| rate.saturating_mul(TIMES)),
            HopLie::Slow => truth.map(|rate| (rate / TIMES).max(1)),
            HopLie::Open => truth.map(|_| ENDLESS),
            HopLie::Shut => truth.map(|_| NEXT_TO_NOTHING),
            _ => truth,
        }
    }
}

/// The hops of `graph` that lie, by number: the last one on the way of each flow that says so.
pub fn liars(graph: &Graph, flows: &[Flow]) -> Vec<(u32, Lie)> {
    let lie = |flow: &Flow| flow.telemetry.as_ref().and_then(|telemetry| telemetry.faults.lie);
    flows.iter().filter_map(|flow| Some((*graph.route(flow.way)?.last()?, lie(flow)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lie_is_about_what_it_says() {
        let truth = NodeRecord {
            room_packets: Some(50),
            queue_bytes: Some(15_140),
            flows: Some(2),
            arrival_pps: Some(1_000.0),
            rate_100k: Some(200),
            flow_dropped: Some(7),
            ..NodeRecord::default()
        };
        let told = |says: HopLie, ms: u64, packets: u64| {
            let lie = Lie { says, from: Time::from_millis(500) };
            let record = lie.record(Time::from_millis(ms), packets, Some(60), truth)?;
            let load = (record.room_packets?, record.queue_bytes?, record.flows?, record.arrival_pps?);
            Some((load, record.rate_100k?, record.flow_dropped?))
        };
        let idle = Some(((60, 0, 1, 100.0), 200, 0));
        let busy = Some(((0, 90_840, 200, 10_000.0), 200, 7));
        assert_eq!([told(HopLie::Idle, 500, 0), told(HopLie::Busy, 500, 0)], [idle, busy]);
        assert_eq!([0, 1, 2].map(|packets| told(HopLie::EachPacket, 500, packets)), [idle, busy, idle]);
        assert_eq!([999, 1_000, 2_000].map(|ms| told(HopLie::EachSecond, ms, 1)), [idle, busy, idle]);
        assert_eq!(told(HopLie::Crowd, 500, 0), Some(((50, 15_140, 200, 10_000.0), 200, 7)));
        assert_eq!(told(HopLie::Fast, 500, 0), Some(((50, 15_140, 2, 1_000.0), 2_000, 7)));
        assert_eq!(told(HopLie::Slow, 500, 0), Some(((50, 15_140, 2, 1_000.0), 20, 7)));
        assert_eq!(told(HopLie::Open, 500, 0), Some(((65_000, 0, 1, 100.0), 65_000, 0)));
        assert_eq!(told(HopLie::Shut, 500, 0), Some(((0, 90_840, 253, 10_000.0), 1, 7)));
        assert_eq!(told(HopLie::Silent, 500, 0), None);
        for says in HopLie::ALL {
            assert_eq!(told(says, 499, 1), Some(((50, 15_140, 2, 1_000.0), 200, 7)));
        }
    }
}
