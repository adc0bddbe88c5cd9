mod belief;

use super::*;
use crate::controller::{Hop, Loss, RateSample};
use crate::registry::Spec;
use crate::testing::{ack, fill};

const RTT: Nanos = Nanos::from_millis(20);
const MSS: u64 = 1448;
/// Packets a second of the paper's link.
const LINK: u64 = 1650;

/// A flow over a path of 20 ms whose hops report what a test says.
struct Bench {
    controller: Box<dyn Controller>,
    now: Time,
    una: u64,
}

impl Bench {
    /// A flow that has filled the link before the first report.
    fn new() -> Self {
        Self::of("hops")
    }

    fn of(spec: &str) -> Self {
        let controller = spec.parse::<Spec>().unwrap().build(&Env::default());
        let mut bench = Self { controller, now: Time::from_millis(1_000), una: 0 };
        for packets in [10, 20, 40] {
            bench.round(RTT, packets);
        }
        bench
    }

    /// A round trip in which `packets` arrive.
    fn round(&mut self, rtt: Nanos, packets: u64) {
        self.now += rtt;
        self.acknowledge(rtt, packets, packets);
    }

    /// `packets` of a full window arrive, `delivered` in a round trip.
    fn acknowledge(&mut self, rtt: Nanos, packets: u64, delivered: u64) {
        fill(self.controller.as_mut(), self.now);
        self.una += packets * MSS;
        let rate = RateSample {
            delivered: delivered * MSS,
            interval: rtt,
            prior_delivered: 0,
            app_limited: false,
            retransmission: false,
        };
        let acked = ack(self.now, rtt, packets as u32);
        self.controller.on_ack(&Ack { min_rtt: RTT, rate: Some(rate), una: self.una, next: self.una + MSS, ..acked });
    }

    fn report(&mut self, verdict: Cause, hops: &[Hop]) {
        let telemetry = Telemetry { now: self.now, packet: None, verdict, fresh_for: Nanos::from_millis(100), hops };
        self.controller.on_telemetry(&telemetry);
    }

    /// The same report every 10 ms for `ms`, with an acknowledgement at each.
    fn hold(&mut self, ms: u64, hop: Hop) {
        for _ in 0..ms / 10 {
            self.now += Nanos::from_millis(10);
            self.report(Cause::Unknown, &[hop]);
            self.acknowledge(RTT + waits(&hop), 20, 40);
        }
    }

    fn lose(&mut self, cause: Cause) {
        let packets = [Lost { seq: 0, bytes: 1448, sent_at: self.now, tag: 0, cause }];
        let flight = self.controller.window();
        self.controller.on_loss(&Loss {
            now: self.now,
            packets: &packets,
            bytes: MSS,
            prior_in_flight: flight,
            in_flight: flight - MSS,
            new_episode: true,
        });
    }

    /// The pace in packets of the hop a second; zero without one.
    fn pace(&self) -> f64 {
        match self.controller.pacing() {
            Pacing::Rate(rate) => rate.as_bytes_per_sec() as f64 / MSS as f64 * (1448.0 + OVERHEAD) / 1514.0,
            Pacing::Free | Pacing::Gap(_) => 0.0,
        }
    }

    fn paces_at(&self, want: f64) {
        assert!((self.pace() / want - 1.0).abs() < 0.005, "{} and not {want}", self.pace());
    }

    fn packets(&self) -> f64 {
        self.controller.window() as f64 / MSS as f64
    }
}

/// How long packets wait at the paper's link.
fn waits(hop: &Hop) -> Nanos {
    rate(LINK).unwrap().time_for(hop.queue_bytes.unwrap_or(0))
}

fn rate(packets: u64) -> Option<Rate> {
    Some(Rate::from_bytes_per_sec(packets * HOP_PACKET_BYTES))
}

/// A hop of the paper's link, busy, with this many packets waiting of at most 60.
fn hop(flows: u32, waiting: u64) -> Hop {
    Hop {
        id: 1,
        queue_bytes: Some(waiting * HOP_PACKET_BYTES),
        room_packets: Some(60 - waiting as u32),
        limit_packets: Some(60),
        capacity: rate(LINK),
        arrival: rate(LINK),
        flows: Some(flows),
        ..Hop::default()
    }
}

#[test]
fn a_link_is_divided_by_its_flows() {
    for flows in [1, 2, 4] {
        let mut bench = Bench::new();
        bench.report(Cause::Unknown, &[hop(flows, 0)]);
        let share = 0.98 * 1650.0 / f64::from(flows);
        bench.paces_at(share);
        // A quarter more than a round trip of it, and three packets; 1598 bytes each, of 1514.
        let window = 1.25 * share * 0.02 * 1514.0 / (1448.0 + OVERHEAD) + 3.0;
        assert!((bench.packets() - window).abs() < 0.01, "{} and not {window}", bench.packets());
        assert_eq!(bench.controller.permit().recovery, Recovery::Controller);
    }
}

#[test]
fn the_smallest_share_of_the_path_counts() {
    let mut bench = Bench::new();
    let wide = Hop { id: 2, capacity: rate(8_000), flows: Some(2), ..hop(1, 0) };
    for hops in [[hop(4, 0), wide], [wide, hop(4, 0)]] {
        bench.report(Cause::Unknown, &hops);
        bench.paces_at(0.98 * 1650.0 / 4.0);
    }
}

#[test]
fn no_more_than_twice_what_arrives_is_sent() {
    let mut bench = Bench::new();
    for _ in 0..10 {
        bench.round(RTT, 8);
    }
    bench.report(Cause::Unknown, &[hop(1, 0)]);
    // Ten packets in a round trip count at least.
    bench.paces_at(2.0 * 10.0 * (1448.0 + OVERHEAD) / 1514.0 / 0.02);
}

#[test]
fn two_packets_leave_in_a_round_trip_whatever_is_reported() {
    let mut bench = Bench::new();
    let poor = Hop { capacity: rate(1), ..hop(253, 60) };
    for _ in 0..100 {
        bench.report(Cause::Congestion, &[poor]);
        bench.lose(Cause::Congestion);
        bench.now += Nanos::from_millis(1);
    }
    bench.paces_at(2.0 * (1448.0 + OVERHEAD) / 1514.0 / 0.02);
    assert!(bench.packets() >= 2.0, "{}", bench.packets());
}

#[test]
fn what_a_report_took_is_back_two_seconds_later() {
    // Ten reports of someone else among those of the path, at once; its own hop, and the path's.
    for id in [7, 1] {
        let mut bench = Bench::new();
        bench.hold(1_000, hop(1, 0));
        for _ in 0..10 {
            bench.report(Cause::Congestion, &[Hop { id, capacity: rate(8), ..hop(253, 60) }]);
        }
        assert!(bench.pace() < 200.0, "{}", bench.pace());
        // What arrives is what it sends, by the hop's lean reports, which do not say a capacity.
        for _ in 0..200 {
            let sent = bench.pace();
            bench.now += Nanos::from_millis(10);
            bench.report(Cause::Unknown, &[Hop { capacity: None, arrival: rate(sent as u64), ..hop(1, 0) }]);
            let packets = (sent * 0.02).min(LINK as f64 * 0.02);
            bench.acknowledge(RTT, (packets / 2.0).ceil() as u64, packets.ceil() as u64);
        }
        assert!(bench.pace() > 0.8 * 0.98 * LINK as f64, "{id}: {}", bench.pace());
    }
}

#[test]
fn no_more_than_twice_of_what_a_round_trip_brought_is_in_flight() {
    let mut bench = Bench::new();
    let endless = Hop { capacity: rate(500_000), room_packets: Some(u32::MAX - 1), limit_packets: None, ..hop(1, 0) };
    for _ in 0..5 {
        bench.now += RTT;
        // Acknowledgements that come together: a hundred times the rate.
        bench.acknowledge(RTT, 40, 4_000);
        bench.report(Cause::Unknown, &[endless]);
    }
    assert_eq!(bench.packets(), 1.25 * 2.0 * 40.0 + 3.0);
}

#[test]
fn a_queue_is_drained_and_not_at_any_price() {
    // 13.2 packets wait for 8 ms, 3.3 for 2 ms.
    for (flows, waiting, part) in [(2, 14, 0.85), (2, 3, 1.0), (1, 14, 0.75)] {
        let mut bench = Bench::new();
        bench.report(Cause::Unknown, &[hop(flows, waiting)]);
        bench.paces_at(0.98 * 1650.0 / f64::from(flows));
        // It stays for a round trip.
        bench.hold(60, hop(flows, waiting));
        bench.paces_at(part * 0.98 * 1650.0 / f64::from(flows));
    }
    // What has left when the next packet comes is a burst.
    let mut bench = Bench::new();
    for _ in 0..50 {
        bench.hold(10, hop(2, 30));
        bench.hold(10, hop(2, 0));
        assert!(bench.pace() >= 0.975 * 825.0, "{}", bench.pace());
    }
    // Another flow fills the queue all the same: after a second nothing is given up any more.
    let mut bench = Bench::new();
    bench.hold(500, hop(2, 30));
    bench.paces_at(0.85 * 0.98 * 825.0);
    bench.hold(600, hop(2, 30));
    bench.paces_at(0.98 * 825.0);
    // Until the queue is short, or one of them is gone.
    bench.hold(10, hop(2, 0));
    bench.hold(60, hop(2, 30));
    bench.paces_at(0.85 * 0.98 * 825.0);
}

#[test]
fn beside_one_who_fills_the_queue_it_has_cubics_window() {
    // Of fifty flows, and a full queue.
    let mut bench = Bench::new();
    let small = |bench: &mut Bench, ms: u64, waiting| {
        for _ in 0..ms / 10 {
            bench.now += Nanos::from_millis(10);
            bench.report(Cause::Unknown, &[hop(50, waiting)]);
            bench.acknowledge(RTT + waits(&hop(50, waiting)), 1, 2);
        }
        bench.pace()
    };
    let share = 0.98 * 1650.0 / 50.0;
    assert!(small(&mut bench, 400, 57) <= 110.0, "two packets in a round trip");
    let begun = small(&mut bench, 300, 57);
    let grown = small(&mut bench, 2_000, 57);
    assert!(grown > 2.5 * begun && grown > 10.0 * share, "{grown} after {begun}");
    bench.lose(Cause::Congestion);
    let lost = bench.pace();
    assert!((lost / grown - 0.7).abs() < 0.05, "{lost} of {grown}");
    // When the queue is short, it keeps what it has, and goes on where it is long again.
    let kept = small(&mut bench, 100, 0);
    assert!(kept >= 0.95 * lost, "{kept} of {lost}");
    assert!(small(&mut bench, 3_000, 57) >= kept);
}

#[test]
fn more_flows_than_are_counted_leave_cubic_alone() {
    for flows in [254, 255, u32::MAX] {
        let mut bench = Bench::new();
        let before = bench.controller.window();
        bench.report(Cause::Medium, &[hop(flows, 0)]);
        assert_eq!((bench.controller.pacing(), bench.controller.window()), (Pacing::Free, before), "{flows}");
    }
}

#[test]
fn what_others_leave_is_taken_and_given_back() {
    let mut bench = Bench::new();
    let idle = Hop { arrival: rate(LINK / 2), ..hop(4, 0) };
    bench.hold(200, idle);
    let (share, spare) = (0.98 * 1650.0 / 4.0, 0.98 * 1650.0 - 825.0);
    // An equal part, as long as it is not known for long what it brings. The first of 20 reports passes no time.
    assert!((bench.pace() - share - 0.25 * 0.95 * spare).abs() < 10.0, "{}", bench.pace());
    bench.hold(500, idle);
    assert!(bench.pace() > share + 0.25 * 3.5 * spare, "and more when it brings more: {}", bench.pace());
    bench.hold(5_000, idle);
    assert!(bench.pace() <= 0.98 * 1650.0, "never more than the link: {}", bench.pace());
    bench.hold(5_000, hop(4, 14));
    bench.hold(10, hop(4, 0));
    assert!(bench.pace() < 1.1 * share, "{}", bench.pace());
}

#[test]
fn losses_of_the_medium_change_nothing_and_others_take_some() {
    let share = 0.98 * 1650.0;
    let mut bench = Bench::new();
    bench.report(Cause::Medium, &[hop(1, 0)]);
    bench.lose(Cause::Medium);
    bench.paces_at(share);
    bench.lose(Cause::Congestion);
    bench.paces_at(0.8 * share);
    bench.round(RTT, 40);
    bench.paces_at(0.9 * share);
    // Without a reason, and with room: the medium. A verdict that the report's own room contradicts counts for nothing.
    for (cause, waiting, part) in [(Cause::Unknown, 0, 1.0), (Cause::Unknown, 58, 0.8), (Cause::Medium, 58, 0.8)] {
        let mut bench = Bench::new();
        bench.report(Cause::Unknown, &[hop(1, waiting)]);
        let before = bench.pace();
        bench.lose(cause);
        bench.paces_at(part * before);
    }
}

#[test]
fn of_losses_in_a_row_one_in_33_takes_some() {
    let mut bench = Bench::new();
    let mut taken = Vec::new();
    for loss in 1..=70 {
        bench.report(Cause::Medium, &[hop(1, 0)]);
        let before = bench.pace();
        bench.lose(Cause::Medium);
        if bench.pace() < 0.9 * before {
            taken.push(loss);
        }
        bench.round(RTT, 40);
    }
    assert_eq!(taken, [33, 66]);
}

#[test]
fn without_a_fresh_report_it_is_cubic_from_the_window_it_has() {
    let mut bench = Bench::new();
    bench.report(Cause::Unknown, &[hop(1, 0)]);
    let due = bench.now + Nanos::from_millis(100);
    assert_eq!(bench.controller.next_tick(), due);
    bench.now = due;
    bench.controller.on_tick(due);
    let window = 0.98 * 1650.0 * 0.02 * 1514.0 / (1448.0 + OVERHEAD);
    assert!((bench.packets() - window).abs() < 0.01, "{}", bench.packets());
    assert_eq!((bench.controller.pacing(), bench.controller.permit().recovery), (Pacing::Free, Recovery::Prr));
    bench.lose(Cause::Unknown);
    assert!((bench.packets() - 0.7 * window).abs() < 0.01);
    // And back.
    bench.report(Cause::Unknown, &[hop(1, 0)]);
    bench.paces_at(0.98 * 1650.0);
}

#[test]
fn what_pacing_permits_and_brings_is_used() {
    // Two packets in a round trip are far from half of the window, whose spare packets alone are three.
    let mut bench = Bench::new();
    let busy = Hop { arrival: rate(200), ..hop(50, 0) };
    for step in 0..2_000 {
        bench.now += Nanos::from_millis(10);
        bench.report(Cause::Unknown, &[busy]);
        let packets = (bench.pace().min(LINK as f64) * 0.01 + f64::from(step % 2)) as u64;
        bench.una += packets * MSS;
        let acked = ack(bench.now, RTT, packets as u32);
        let sample = RateSample {
            delivered: packets.max(2) * MSS,
            interval: Nanos::from_millis(10),
            prior_delivered: 0,
            app_limited: false,
            retransmission: false,
        };
        let (una, next, rate) = (bench.una, bench.una + MSS, Some(sample));
        bench.controller.on_ack(&Ack { min_rtt: RTT, window_limited: false, rate, una, next, ..acked });
    }
    assert!(bench.pace() > 0.9 * 1650.0, "{}", bench.pace());
}

#[test]
fn a_radio_of_its_own_has_the_path_in_flight_and_five_packets() {
    // What is granted changes by a fifth in each tenth of a second.
    let mut bench = Bench::new();
    for step in 0..40 {
        let granted = if step % 2 == 0 { 1_800 } else { 1_500 };
        bench.hold(100, Hop { capacity: rate(granted), arrival: rate(300), ..hop(1, 1) });
    }
    let path = 1_500.0 * 0.02 * 1514.0 / (1448.0 + OVERHEAD);
    assert!((bench.packets() - path - 5.0).abs() < 0.1, "{} and not {path} + 5", bench.packets());
    // It leaves its own pace to the link, of round trips in which one packet waits.
    bench.paces_at(3.0 * 1_500.0 * RTT.as_secs_f64() / (RTT + waits(&hop(1, 1))).as_secs_f64());
    // As long as nothing stands and all of it arrives there may be more, and what stands is taken off.
    for _ in 0..10 {
        bench.hold(50, Hop { capacity: rate(1_800), arrival: rate(2_400), ..hop(1, 0) });
        bench.hold(50, Hop { capacity: rate(1_500), arrival: rate(2_400), ..hop(1, 0) });
    }
    let found = bench.packets();
    assert!(found > 1.3 * path, "{found} of {path}");
    // Round trips are of 53 ms then.
    for _ in 0..12 {
        bench.hold(50, Hop { capacity: rate(1_800), arrival: rate(2_400), ..hop(1, 55) });
        bench.hold(50, Hop { capacity: rate(1_500), arrival: rate(2_400), ..hop(1, 55) });
    }
    assert!((bench.packets() - path - 5.0).abs() < 0.1, "{}", bench.packets());
}

#[test]
fn what_does_not_suffice_to_share_a_link_leaves_cubic_alone() {
    let part = [
        Hop { flows: None, ..hop(1, 0) },
        Hop { arrival: None, ..hop(1, 0) },
        Hop { queue_bytes: None, room_packets: None, ..hop(1, 0) },
    ];
    for hop in part {
        let mut bench = Bench::new();
        let before = bench.controller.window();
        bench.report(Cause::Medium, &[hop]);
        assert_eq!((bench.controller.pacing(), bench.controller.window()), (Pacing::Free, before), "{hop:?}");
    }
}

#[test]
fn a_capacity_that_is_not_reported_is_measured_while_packets_wait() {
    let lean = |waiting| Hop { capacity: None, limit_packets: None, ..hop(1, waiting) };
    let mut bench = Bench::new();
    // Nothing is known: what arrives, twice, as long as the queue has room for it.
    bench.report(Cause::Unknown, &[lean(0)]);
    let arriving = 40.0 * (1448.0 + OVERHEAD) / 1514.0 / 0.02;
    bench.paces_at(2.0 * arriving);
    bench.report(Cause::Unknown, &[lean(50)]);
    bench.paces_at(arriving + 10.0 / 0.02);
    // 1650 a second arrive and 3 packets wait, always: 1650 leave.
    bench.hold(400, lean(3));
    bench.paces_at(0.98 * 1650.0);
    // The queue grows by a packet in 10 ms: 1550 leave.
    for waiting in 3..45 {
        bench.hold(10, lean(waiting));
    }
    bench.hold(10, lean(45));
    bench.hold(10, lean(1));
    let grown = bench.pace() / 0.98;
    assert!((1540.0..=1660.0).contains(&grown), "{grown}");
    // Nothing waits, and what may be sent arrives: 2 % more in a round trip, then 4 % ...
    let mut before = bench.pace();
    for _ in 0..3 {
        bench.hold(20, Hop { arrival: rate(before as u64), ..lean(0) });
        assert!(bench.pace() > 1.015 * before, "{} after {before}", bench.pace());
        before = bench.pace();
    }
}

#[test]
fn a_link_that_proves_slower_than_it_reports_is_measured() {
    let mut bench = Bench::new();
    let boastful = Hop { capacity: rate(3_000), ..hop(1, 3) };
    bench.hold(400, boastful);
    bench.paces_at(0.98 * 1650.0);
    // Within a tenth it is believed.
    let mut bench = Bench::new();
    bench.hold(400, Hop { capacity: rate(1_800), ..hop(1, 3) });
    bench.paces_at(0.98 * 1800.0);
}

#[test]
fn a_timeout_keeps_ten_packets_and_a_second_one_is_cubics() {
    let mut bench = Bench::new();
    bench.report(Cause::Medium, &[hop(1, 0)]);
    let out = |bench: &mut Bench, count| {
        let prior_in_flight = bench.controller.window();
        let (now, packets) = (bench.now, &[]);
        bench.controller.on_timeout(&Timeout { now, packets, prior_in_flight, in_flight: 0, count });
        bench.packets()
    };
    assert_eq!(out(&mut bench, 1), 10.0);
    assert_eq!(out(&mut bench, 2), 1.0);
    assert_eq!(bench.controller.permit().recovery, Recovery::Prr);
    bench.report(Cause::Medium, &[hop(1, 0)]);
    bench.paces_at(0.98 * 1650.0);
}
