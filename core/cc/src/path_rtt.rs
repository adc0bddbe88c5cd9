//! The RTT of a path without its queues: the smallest so far, and taken anew where the path has become longer.
//!
//! The smallest RTT of a flow never rises by itself, so that a longer route looks like a queue of which no hop reports, for ever. BBR takes
//! its minimum anew every 10 s and empties the queue for it. Here hops say when their queues are empty. A queue at a hop that does not
//! report is told from a longer route by what is in flight: it grows with it, and the route does not.
//!
//! So the smallest RTT is taken anew when round trips have been longer for 10 s, and have been equal, while the hops' queues were empty,
//! for flights of which one is a third larger than another. Source: ours, after BBR's filter.

use crate::controller::{Ack, Hop, Telemetry};
use crate::path_report::HOP_PACKET_BYTES;
use crate::units::{Nanos, Time};

/// For this long round trips must have been longer (BBR's window of the smallest RTT; draft-cardwell-iccrg-bbr-congestion-control-00 section 4.3.5).
const LONGER_FOR: Nanos = Nanos::from_secs(10);
/// One that has not been seen for this time was of a moment: a packet whose answer took the other route (our choice: some round trips).
const SEEN_FOR: Nanos = Nanos::from_secs(1);
/// A queue with no more packets than this counts as empty (our choice: a burst of two acknowledgements' worth).
const EMPTY: u32 = 4;
/// Round trips that differ by no more than this share and this time are equal (our choices: a tenth of what a third of the flight
/// makes where it is a queue; a timer's step).
const EQUAL_SHARE: u64 = 32;
const EQUAL: Nanos = Nanos::from_millis(1);
/// Flights of which the larger is this many thirds of the smaller ... (our choice: CUBIC's reduction is by more).
const FLIGHTS: (u64, u64) = (4, 3);
/// ... and larger by this many packets differ (our choice: acknowledgements that come together hide fewer).
const APART: u64 = 4;

/// The smallest RTT of a path.
#[derive(Clone, Copy, Debug, Default)]
pub struct PathRtt {
    /// The smallest since it was taken anew; before that the flow's own counts.
    anew: Option<Nanos>,
    /// The flow's own.
    of_flow: Option<Nanos>,
    /// Until when the newest report counts in which all queues were empty.
    empty_until: Time,
    longer: Option<Longer>,
}

/// Round trips that are longer than the smallest, and equal.
#[derive(Clone, Copy, Debug)]
struct Longer {
    since: Time,
    /// When the newest came.
    seen: Time,
    rtt: Nanos,
    /// Smallest and largest flight, in bytes.
    flights: (u64, u64),
}

impl PathRtt {
    /// The smallest RTT; [`Nanos::MAX`] before the first sample.
    pub fn smallest(&self) -> Nanos {
        self.anew.or(self.of_flow).unwrap_or(Nanos::MAX)
    }

    /// Takes a report in.
    pub fn report(&mut self, telemetry: &Telemetry<'_>) {
        let empty = !telemetry.hops.is_empty() && telemetry.hops.iter().all(is_empty);
        self.empty_until = if empty { telemetry.now + telemetry.fresh_for } else { telemetry.now };
    }

    /// Takes an acknowledgement in, of packets of `mss` bytes: true where the smallest RTT was taken anew, and is larger.
    pub fn ack(&mut self, ack: &Ack<'_>, mss: u32) -> bool {
        self.of_flow = Some(ack.min_rtt).filter(|rtt| *rtt < Nanos::MAX);
        let Some(rtt) = ack.rtt else { return false };
        self.anew = self.anew.map(|smallest| smallest.min(rtt));
        let smallest = self.smallest();
        if rtt <= smallest + near(smallest) {
            self.longer = None;
            return false;
        }
        let Some(sample) = ack.rate.filter(|_| ack.now < self.empty_until) else { return false };
        // What arrived while the packet was on its way was in flight as it left.
        let flight = ack.delivered.saturating_sub(sample.prior_delivered);
        let first = Longer { since: ack.now, seen: ack.now, rtt, flights: (flight, flight) };
        let longer = self.longer.get_or_insert(first);
        if rtt + near(longer.rtt) < longer.rtt || ack.now - longer.seen > SEEN_FOR {
            *longer = first;
        } else if rtt <= longer.rtt + near(longer.rtt) {
            let (least, most) = longer.flights;
            (longer.seen, longer.flights) = (ack.now, (least.min(flight), most.max(flight)));
        }
        let (least, most) = longer.flights;
        let apart = most * FLIGHTS.1 >= least * FLIGHTS.0 && most - least >= APART * u64::from(mss);
        let is_path = apart && ack.now - longer.since >= LONGER_FOR;
        if is_path {
            (self.anew, self.longer) = (Some(longer.rtt), None);
        }
        is_path
    }
}

fn near(rtt: Nanos) -> Nanos {
    rtt.mul_div(1, EQUAL_SHARE) + EQUAL
}

/// A queue of which the hop says nothing is not.
fn is_empty(hop: &Hop) -> bool {
    match (hop.queue_bytes, hop.room_packets.zip(hop.limit_packets)) {
        (Some(bytes), _) => bytes <= u64::from(EMPTY) * HOP_PACKET_BYTES,
        (None, Some((room, limit))) => room.saturating_add(EMPTY) >= limit,
        (None, None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::{Cause, Env, RateSample};
    use crate::testing::ack;

    const MSS: u64 = 1448;

    /// A flow whose reports come every 10 ms, with as many acknowledgements.
    struct Flow {
        path: PathRtt,
        now: Time,
        least: Nanos,
        anew: u32,
    }

    impl Flow {
        fn new() -> Self {
            Self { path: PathRtt::default(), now: Time::from_millis(1_000), least: Nanos::MAX, anew: 0 }
        }

        /// For this long the RTT is `rtt(flight)` in ms of flights in packets that go up and down between two.
        fn run(&mut self, ms: u64, flights: (u64, u64), waiting: u64, rtt: impl Fn(u64) -> u64) {
            for step in 0..ms / 10 {
                self.now += Nanos::from_millis(10);
                let span = flights.1 - flights.0 + 1;
                let flight = flights.0 + step % span;
                let rtt = Nanos::from_millis(rtt(flight));
                self.least = self.least.min(rtt);
                let hop = Hop { queue_bytes: Some(waiting * HOP_PACKET_BYTES), ..Hop::default() };
                let fresh_for = Nanos::from_millis(100);
                let (packet, verdict) = (None, Cause::Unknown);
                self.path.report(&Telemetry { now: self.now, packet, verdict, fresh_for, hops: &[hop] });
                let rate = RateSample {
                    delivered: flight * MSS,
                    interval: rtt,
                    prior_delivered: 0,
                    app_limited: false,
                    retransmission: false,
                };
                let acked = Ack { min_rtt: self.least, rate: Some(rate), ..ack(self.now, rtt, flight as u32) };
                self.anew += u32::from(self.path.ack(&acked, Env::default().mss));
            }
        }

        fn smallest_ms(&self) -> f64 {
            self.path.smallest().as_millis_f64()
        }
    }

    #[test]
    fn a_longer_route_is_the_path_after_ten_seconds() {
        let mut flow = Flow::new();
        assert_eq!(flow.path.smallest(), Nanos::MAX);
        flow.run(2_000, (10, 20), 0, |_| 20);
        assert_eq!(flow.smallest_ms(), 20.0);
        flow.run(10_000, (10, 20), 0, |_| 100);
        assert_eq!((flow.smallest_ms(), flow.anew), (20.0, 0));
        flow.run(20, (10, 20), 0, |_| 100);
        assert_eq!((flow.smallest_ms(), flow.anew), (100.0, 1));
        // A shorter one counts at once, and the next longer one again.
        flow.run(10, (10, 20), 0, |_| 50);
        assert_eq!(flow.smallest_ms(), 50.0);
        flow.run(11_000, (10, 20), 0, |_| 150);
        assert_eq!((flow.smallest_ms(), flow.anew), (150.0, 2));
    }

    #[test]
    fn a_moment_on_the_short_route_begins_the_ten_seconds_anew() {
        let mut flow = Flow::new();
        for _ in 0..5 {
            flow.run(20, (10, 20), 0, |_| 20);
            flow.run(9_900, (10, 20), 0, |_| 100);
        }
        assert_eq!((flow.smallest_ms(), flow.anew), (20.0, 0));
    }

    #[test]
    fn a_packet_between_two_routes_is_of_neither() {
        let mut flow = Flow::new();
        flow.run(100, (10, 20), 0, |_| 20);
        flow.run(10, (10, 20), 0, |_| 60);
        flow.run(11_500, (10, 20), 0, |_| 100);
        assert_eq!((flow.smallest_ms(), flow.anew), (100.0, 1));
    }

    #[test]
    fn a_queue_is_not_the_path() {
        // Of a hop that does not report: it holds what is in flight beyond 20 ms of a packet a ms, or is full.
        for rtt in [|flight: u64| flight.max(20), |flight: u64| flight.clamp(20, 60)] {
            let mut flow = Flow::new();
            flow.run(100, (10, 20), 0, rtt);
            flow.run(60_000, (40, 60), 0, rtt);
            assert_eq!(flow.smallest_ms(), 20.0);
        }
        // Of a hop that does.
        let mut flow = Flow::new();
        flow.run(100, (10, 20), 0, |_| 20);
        flow.run(60_000, (40, 60), 5, |_| 100);
        assert_eq!(flow.smallest_ms(), 20.0);
        // What does not change shows nothing: a full queue, or a path.
        flow.run(60_000, (60, 62), 0, |_| 100);
        assert_eq!(flow.smallest_ms(), 20.0);
    }

    #[test]
    fn without_reports_the_flow_s_own_counts() {
        let mut path = PathRtt::default();
        for (second, rtt) in [(1, 20), (2, 100), (30, 100)] {
            let acked = ack(Time::from_millis(1_000 * second), Nanos::from_millis(rtt), 1);
            path.ack(&Ack { min_rtt: Nanos::from_millis(20), ..acked }, 1448);
            assert_eq!(path.smallest(), Nanos::from_millis(20));
        }
    }
}
