//! What a hop looks like at one moment, for its readers: in-band telemetry, a log, a test.

use paceline_cc::{Nanos, Rate, Time};

use crate::packet::Packet;
use crate::queue::QueueBound;
use crate::stats::Count;

/// A link at one moment, with what is behind it on its path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Snapshot {
    /// When.
    pub at: Time,
    /// What waits, without the packet in service.
    pub queued: Count,
    /// How much may wait, in bytes and packets.
    pub limit: QueueBound,
    /// What the link could have carried lately: in the meter's interval before, or [`LATELY`] where it is not metered. At the
    /// start, in the first such span.
    pub capacity: Rate,
    /// Arrived at the queue since the start.
    pub arrived: Count,
    /// Dropped since the start because the queue was full, or by its AQM.
    pub dropped: Count,
    /// Lost at random behind the link since the start.
    pub lost: Count,
    /// Dropped by a policer in front of the queue since the start; `None` where there is no policer.
    pub policed: Option<Count>,
    /// Marked "congestion experienced" since the start.
    pub marked: Count,
    /// What arrived in the last whole interval; `None`: not metered ([`crate::Path::metered`]).
    pub recent: Option<Recent>,
}

impl Snapshot {
    /// Full packets ([`crate::queue::TYPICAL_PACKET`]) that the queue holds when it is full; `None` without a limit.
    pub fn limit_packets(&self) -> Option<u64> {
        self.limit.room(Count::default())
    }

    /// Full packets for which the queue has room; `None` without a limit.
    pub fn room_packets(&self) -> Option<u64> {
        self.limit.room(self.queued)
    }
}

/// Span over which a link that is not metered reports its capacity (our choice: about a round trip, and long enough for the
/// opportunities of a trace).
pub const LATELY: Nanos = Nanos::from_millis(100);

/// What arrived at a link in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recent {
    /// Length of the interval.
    pub interval: Nanos,
    /// Rate at which traffic arrived at the queue.
    pub arrival: Rate,
    /// Flows of which a packet arrived.
    pub flows: u32,
}

/// Counts arrivals, interval by interval.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    interval: Nanos,
    /// End of the present interval.
    end: Time,
    present: Gathered,
    last: Gathered,
    /// By flow: the end of the interval in which it was last seen.
    seen: Vec<Time>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Gathered {
    bytes: u64,
    flows: u32,
}

impl Meter {
    pub(crate) fn new(interval: Nanos) -> Self {
        let interval = interval.max(Nanos::from_nanos(1));
        let (present, last) = Default::default();
        Self { interval, end: Time::ZERO + interval, present, last, seen: Vec::new() }
    }

    pub(crate) fn interval(&self) -> Nanos {
        self.interval
    }

    pub(crate) fn arrived<P>(&mut self, now: Time, packet: &Packet<P>) {
        self.advance(now);
        self.present.bytes += u64::from(packet.size);
        let index = packet.flow as usize;
        if index >= self.seen.len() {
            self.seen.resize(index + 1, Time::ZERO);
        }
        if self.seen[index] < self.end {
            self.seen[index] = self.end;
            self.present.flows += 1;
        }
    }

    pub(crate) fn recent(&mut self, now: Time) -> Recent {
        self.advance(now);
        let Gathered { bytes, flows } = self.last;
        Recent { interval: self.interval, arrival: Rate::from_bytes_in(bytes, self.interval), flows }
    }

    fn advance(&mut self, now: Time) {
        if now < self.end {
            return;
        }
        let passed = (now - self.end).as_nanos() / self.interval.as_nanos();
        self.last = if passed == 0 { self.present } else { Gathered::default() };
        self.present = Gathered::default();
        self.end += Nanos::from_nanos(self.interval.as_nanos().saturating_mul(passed + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Link;
    use crate::queue::DropTail;
    use crate::row::Path;
    use crate::schedule::Schedule;
    use paceline_cc::Codepoint;

    fn packet(flow: u32) -> Packet<()> {
        Packet::new(flow, 1500, Codepoint::NotEct, ())
    }

    /// 12 Mbit/s: 1500 bytes take 1 ms; two may wait.
    fn path() -> Path<()> {
        let link =
            Link::new(Schedule::constant(Rate::from_mbps(12.0)), Box::new(DropTail::new(QueueBound::packets(2))));
        Path::new().link(link)
    }

    #[test]
    fn a_snapshot_is_of_its_moment_and_rates_are_of_the_last_whole_interval() {
        let mut path = path().metered(Nanos::from_millis(10));
        // Five at once from two flows: one in service, two wait, two are dropped.
        for flow in [0, 3, 0, 3, 0] {
            path.push(Time::from_millis(1), packet(flow));
        }
        let early = path.snapshot(Time::from_millis(1)).expect("a link");
        assert_eq!((early.queued, early.dropped.packets), (Count { packets: 2, bytes: 3000 }, 2));
        assert_eq!((early.arrived.packets, early.capacity), (5, Rate::from_mbps(12.0)));
        let none = Recent { interval: Nanos::from_millis(10), arrival: Rate::ZERO, flows: 0 };
        assert_eq!(early.recent, Some(none), "no interval is over yet");
        // 1 ms later the first has left.
        assert_eq!(path.snapshot(Time::from_millis(2)).unwrap().queued.packets, 1);
        // 5 * 1500 bytes in 10 ms are 6 Mbit/s; in the interval after that nothing arrived.
        let over = Recent { arrival: Rate::from_mbps(6.0), flows: 2, ..none };
        assert_eq!(path.snapshot(Time::from_millis(12)).unwrap().recent, Some(over));
        path.push(Time::from_millis(35), packet(7));
        assert_eq!(path.snapshot(Time::from_millis(36)).unwrap().recent, Some(none));
        let one = Recent { arrival: Rate::from_mbps(1.2), flows: 1, ..none };
        assert_eq!(path.snapshot(Time::from_millis(40)).unwrap().recent, Some(one));
    }

    #[test]
    fn room_is_in_full_packets_and_what_is_scarcer_counts() {
        let queued = Count { packets: 3, bytes: 4000 };
        let room = |bytes, packets| QueueBound { bytes, packets, ..QueueBound::NONE }.room(queued);
        assert_eq!(room(Some(10_000), None), Some(4));
        assert_eq!(room(None, Some(10)), Some(7));
        assert_eq!(room(Some(10_000), Some(5)), Some(2));
        assert_eq!(room(Some(3000), Some(2)), Some(0), "a limit that was exceeded leaves no room");
        assert_eq!(QueueBound::NONE.room(queued), None);
        let snapshot = path().snapshot(Time::ZERO).unwrap();
        assert_eq!((snapshot.limit_packets(), snapshot.room_packets()), (Some(2), Some(2)));
    }

    #[test]
    fn what_is_not_metered_is_not_reported_and_a_path_without_a_link_has_no_queue() {
        let mut plain = path();
        plain.push(Time::ZERO, packet(0));
        assert_eq!(plain.snapshot(Time::ZERO).unwrap().recent, None);
        assert_eq!(Path::<()>::new().snapshot(Time::ZERO), None);
    }
}
