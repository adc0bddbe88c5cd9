//! What a hop measures of a queue: how much comes, and of how many flows.

use std::collections::BTreeMap;

use paceline_cc::{Nanos, Time};

use crate::wire::NodeRecord;

/// Time constant of the arrival rate (the paper names the rate and not its window; our choice: two to ten round trips).
pub const RATE_SPAN: Nanos = Nanos::from_millis(100);
/// Span in which flows are counted (our choice, with [`RATE_SPAN`]).
pub const FLOW_SPAN: Nanos = Nanos::from_secs(1);
/// Packets of fewer octets make no flow: they acknowledge, or ask (our choice: IPv6, TCP with all its options, a trace of three records and
/// the edge's option are 240 octets).
pub const SMALLEST: u32 = 256;
/// A flow counts from this many packets in a second on: an initial window (RFC 6928), ...
const ENOUGH: u64 = 10;
/// ... or what the flow of a packet brought in the second before, in the mean of its packets, divided by this (our choice: flows that share a
/// slow link are far from equal in a second).
const PART: u64 = 4;
/// Most flows kept apart: more than the wire can say.
const MAX_FLOWS: usize = 1024;

/// Packets in a second from which on a flow counts, after a second with this many packets, whose flows brought these squares of packets
/// together. Squares, since what is equal among many flows of a packet each is nothing beside one that fills the link. What sends less leaves
/// its part of the link to others, and none that fills a window in each 200 ms sends less.
pub fn enough(packets: u64, squares: u64) -> u32 {
    (squares / (PART * packets.max(1))).clamp(1, ENOUGH) as u32
}

/// A queue at one moment, in whatever it is limited by. What is not known is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QueueMoment {
    /// Packets for which there is room: the limit less what waits, in packets; of a queue that is limited in octets, those of
    /// [`crate::report::REFERENCE`] octets.
    pub room_packets: Option<u32>,
    /// Octets that wait.
    pub queue_bytes: Option<u32>,
    /// Share of the limit in use.
    pub occupancy: Option<f64>,
    /// Packets dropped since the start.
    pub dropped: Option<u64>,
    /// Packets of the packet's flow dropped since the start: by a queue that drops at its tail only, those that found it full.
    pub flow_dropped: Option<u64>,
    /// Frames lost by the link since the start.
    pub link_lost: Option<u64>,
    /// The link's data rate in 0.1 Mbit/s.
    pub rate_100k: Option<u32>,
}

/// Meters the arrivals of one egress queue.
#[derive(Clone, Debug)]
pub struct QueueMeter {
    node: u32,
    ingress: Option<u16>,
    egress: Option<u16>,
    /// Packets a second at `last`.
    pps: f64,
    last: Time,
    flows: BTreeMap<u64, Seen>,
    second: Second,
}

/// What has come of a flow.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    last: Time,
    /// Packets in that second.
    second: u64,
    packets: u32,
    /// When it was last a flow that counts.
    counted: Option<Time>,
}

impl Seen {
    fn counts(&self, now: Time) -> bool {
        self.counted.is_some_and(|at| now.since(at) <= FLOW_SPAN)
    }
}

/// What has come of all flows in this second.
#[derive(Clone, Copy, Debug)]
struct Second {
    number: u64,
    packets: u64,
    /// The sum of the squares of what each flow has brought.
    squares: u64,
    /// [`enough`], by the second before.
    enough: u32,
}

impl Second {
    /// The one of `number`, after this one.
    fn next(&self, number: u64) -> Self {
        let follows = number == self.number + 1;
        Self { number, packets: 0, squares: 0, enough: if follows { enough(self.packets, self.squares) } else { 1 } }
    }
}

impl QueueMeter {
    /// Of the queue of interface `egress` of `node`.
    pub fn new(node: u32, ingress: Option<u16>, egress: Option<u16>) -> Self {
        let second = Second { number: 0, packets: 0, squares: 0, enough: 1 };
        Self { node, ingress, egress, pps: 0.0, last: Time::ZERO, flows: BTreeMap::new(), second }
    }

    /// A packet of `flow` (a hash of what names it) comes to the queue, of this many octets from its IP header on.
    pub fn arrived(&mut self, now: Time, flow: u64, octets: u32) {
        self.pps = self.arrival_pps(now) + 1.0 / RATE_SPAN.as_secs_f64();
        self.last = self.last.max(now);
        let number = self.last.as_nanos() / FLOW_SPAN.as_nanos();
        if number != self.second.number {
            self.second = self.second.next(number);
        }
        if octets < SMALLEST {
            return;
        }
        self.second.packets += 1;
        if self.flows.len() >= MAX_FLOWS && !self.flows.contains_key(&flow) {
            self.flows.retain(|_, seen| now.since(seen.last) <= FLOW_SPAN);
            if self.flows.len() >= MAX_FLOWS {
                return;
            }
        }
        let seen = self.flows.entry(flow).or_default();
        if seen.second != number {
            (seen.second, seen.packets) = (number, 0);
        }
        (seen.last, seen.packets) = (now, seen.packets.saturating_add(1));
        if seen.packets >= self.second.enough {
            seen.counted = Some(now);
        }
        self.second.squares += 2 * u64::from(seen.packets) - 1;
    }

    /// Packets a second that come: each counts with a weight that falls by e in [`RATE_SPAN`].
    pub fn arrival_pps(&self, now: Time) -> f64 {
        self.pps * libm::exp(-now.since(self.last).as_secs_f64() / RATE_SPAN.as_secs_f64())
    }

    /// Flows of the last [`FLOW_SPAN`] that share the link: those of which [`enough`] came.
    pub fn flows(&self, now: Time) -> u32 {
        self.flows.values().filter(|seen| seen.counts(now)).count() as u32
    }

    /// What the hop writes into a packet that leaves with `hop_limit` and finds `queue`.
    pub fn record(&self, now: Time, hop_limit: u8, queue: &QueueMoment) -> NodeRecord {
        NodeRecord {
            hop_limit,
            node: self.node,
            ingress: self.ingress,
            egress: self.egress,
            at: Some(now),
            transit: None,
            room_packets: queue.room_packets,
            flows: Some(self.flows(now).max(1)),
            arrival_pps: Some(self.arrival_pps(now)),
            queue_bytes: queue.queue_bytes,
            occupancy: queue.occupancy,
            flow_dropped: queue.flow_dropped.map(|count| count as u16),
            link_lost: queue.link_lost.map(|count| count as u16),
            dropped: queue.dropped.map(|count| count as u16),
            rssi_dbm: None,
            mcs: None,
            rate_100k: queue.rate_100k,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_follow_the_last_tenth_of_a_second_and_flows_the_last_second() {
        let mut meter = QueueMeter::new(7, Some(1), Some(2));
        assert_eq!((meter.arrival_pps(Time::ZERO), meter.flows(Time::ZERO)), (0.0, 0));
        // A packet a millisecond of three flows in turn.
        for ms in 0..1000 {
            meter.arrived(Time::from_millis(ms), ms % 3, 1500);
        }
        let now = Time::from_millis(999);
        assert!((meter.arrival_pps(now) / 1005.0 - 1.0).abs() < 0.01, "{}", meter.arrival_pps(now));
        assert_eq!(meter.flows(now), 3);
        // After 100 ms, 1/e of it; after 1 s, no flow.
        let later = meter.arrival_pps(Time::from_millis(1099)) / meter.arrival_pps(now);
        assert!((later - 0.3679).abs() < 1e-3, "{later}");
        assert_eq!((meter.flows(Time::from_millis(1997)), meter.flows(Time::from_millis(2000))), (3, 0));
    }

    #[test]
    fn flows_that_share_the_link_count_and_others_do_not() {
        // Of 52 equal flows, of two, of two hundred; and of one with ninety packets beside twenty with one.
        let equal = |flows: u64| enough(1_650, 1_650 * 1_650 / flows);
        assert_eq!([enough(0, 0), equal(52), equal(2), equal(200), enough(110, 8_120)], [1, 7, 10, 2, 10]);
        // Two flows of 800 packets a second, sixty of one or two, and the acknowledgements of three more.
        let mut meter = QueueMeter::new(7, None, None);
        for ms in 0..4_000 {
            let now = Time::from_millis(ms);
            meter.arrived(now, ms % 2, 1500);
            if ms % 12 == 0 {
                meter.arrived(now, 100 + ms / 12 % 60, 700);
            }
            meter.arrived(now, 1_000 + ms % 3, SMALLEST - 1);
        }
        assert_eq!(meter.flows(Time::from_millis(500)), 62);
        assert_eq!(meter.flows(Time::from_millis(3_999)), 2);
        // Two hundred equal ones of eight a second do, and so does one that comes with an initial window.
        let mut meter = QueueMeter::new(7, None, None);
        for packet in 0..6_400 {
            meter.arrived(Time::from_nanos(packet * 625_000), packet % 200, 1500);
        }
        let now = Time::from_millis(4_000);
        assert_eq!(meter.flows(now), 200);
        (0..10).for_each(|_| meter.arrived(now, 999, 1500));
        assert_eq!(meter.flows(now), 201);
    }

    #[test]
    fn a_record_says_what_the_hop_knows() {
        let mut meter = QueueMeter::new(7, None, Some(2));
        meter.arrived(Time::from_millis(5), 1, 1500);
        let queue = QueueMoment { room_packets: Some(3), dropped: Some(65_536 + 9), ..QueueMoment::default() };
        let record = meter.record(Time::from_millis(5), 62, &queue);
        assert_eq!((record.node, record.ingress, record.egress, record.hop_limit), (7, None, Some(2), 62));
        assert_eq!(
            (record.room_packets, record.dropped, record.flow_dropped, record.flows),
            (Some(3), Some(9), None, Some(1))
        );
        assert!((record.arrival_pps.unwrap() - 10.0).abs() < 1e-9);
    }

    #[test]
    fn many_flows_cost_bounded_memory() {
        let mut meter = QueueMeter::new(7, None, None);
        for flow in 0..100_000 {
            meter.arrived(Time::from_nanos(flow), flow, 1500);
        }
        assert_eq!((meter.flows.len(), meter.flows(Time::from_millis(1))), (MAX_FLOWS, MAX_FLOWS as u32));
        for _ in 0..ENOUGH {
            meter.arrived(Time::from_millis(1500), u64::MAX, 1500);
        }
        assert_eq!(meter.flows(Time::from_millis(1500)), 1);
    }
}
