use super::*;
use crate::controller::{Cause, Controller, Hop, Loss, Restart, Timeout};
use crate::path_report::HOP_PACKET_BYTES;
use crate::registry::Spec;
use crate::testing::{ack, fill, open};
use crate::units::{Rate, Time};

const RTT: Nanos = Nanos::from_millis(20);
/// The same with a full queue.
const FULL: Nanos = Nanos::from_millis(55);

fn packets_per_second(packets: u64) -> Rate {
    Rate::from_bytes_per_sec(packets * HOP_PACKET_BYTES)
}

/// 1650 packets/s and a queue of 60 packets: the paper's path.
fn hop(room: u32, arrival: u64, flows: u32) -> Hop {
    Hop {
        id: 1,
        room_packets: Some(room),
        limit_packets: Some(60),
        capacity: Some(packets_per_second(1650)),
        arrival: Some(packets_per_second(arrival)),
        flows: Some(flows),
        ..Hop::default()
    }
}

fn reported(inc: f64, hops: &[Hop]) -> Eq1 {
    let settings = Settings { inc, reserve: 0.2, hold: true, threshold: f64::INFINITY };
    let mut start = Eq1::new(&Env::default(), settings);
    let fresh_for = Nanos::from_millis(100);
    let (now, verdict) = (Time::ZERO, Cause::Unknown);
    start.on_telemetry(&Telemetry { now, packet: None, verdict, fresh_for, hops });
    start
}

/// What one round of acknowledgements, packet by packet, adds to a window of `cwnd`.
fn growth(start: &mut Eq1, cwnd: u64) -> f64 {
    let mut window = Window { cwnd: cwnd as f64, ssthresh: f64::INFINITY };
    let mss = u64::from(Env::default().mss);
    for packet in 0..cwnd {
        let una = (packet + 1) * mss;
        start.on_ack(&Ack { una, next: (cwnd + packet + 1) * mss, ..ack(Time::from_millis(1), RTT, 1) }, &mut window);
    }
    window.cwnd - cwnd as f64
}

#[test]
fn one_flow_alone_uses_the_room_in_one_round() {
    // 30 packets of a window of 30 arrive in a round trip: 60 - 12 = 48 packets of room, a packet for each at most.
    assert!((growth(&mut reported(1.0, &[hop(60, 1500, 1)]), 30) - 30.0).abs() < 1e-9);
    // 33 a round trip, and room for 20 - 12 = 8: 8 packets in all.
    assert!((growth(&mut reported(1.0, &[hop(20, 1650, 1)]), 33) - 8.0).abs() < 1e-9);
    let unknown = Hop { capacity: None, ..hop(12, 1650, 1) };
    assert_eq!(growth(&mut reported(1.0, &[unknown]), 33), 0.0, "the reserve does not count as room");
}

#[test]
fn an_idle_hop_gives_the_increment_and_no_more() {
    for inc in [1.0, 2.0, 3.0] {
        assert!((growth(&mut reported(inc, &[hop(60, 0, 1)]), 10) - 10.0 * inc).abs() < 1e-9);
    }
    // The round's share of the room, three times: 3 x 8.
    assert!((growth(&mut reported(3.0, &[hop(20, 100, 1)]), 33) - 24.0).abs() < 1e-9);
}

#[test]
fn a_busy_link_gives_the_room_once_whatever_the_increment() {
    // Busy from 16.5 packets a round trip on: half of 33. 20 a round trip arrive, and 8 fit.
    assert!((growth(&mut reported(3.0, &[hop(20, 1000, 1)]), 30) - 8.0).abs() < 1e-9);
    // Without a capacity, a queue is what shows it.
    let unknown = Hop { capacity: None, ..hop(20, 1000, 1) };
    assert!((growth(&mut reported(3.0, &[unknown]), 30) - 8.0).abs() < 1e-9);
    let empty = Hop { queue_bytes: Some(0), ..unknown };
    assert!(growth(&mut reported(3.0, &[empty]), 30) > 20.0);
}

#[test]
fn flows_share_the_room() {
    // Two flows of 10 packets each: 20 arrive a round trip; 48 packets of room, divided by 20 and by 2.
    assert!((growth(&mut reported(1.0, &[hop(60, 1000, 2)]), 10) - 10.0).abs() < 1e-9);
    // Room 8: 8 / (20 x 2) of a packet for each of ten.
    assert!((growth(&mut reported(1.0, &[hop(20, 1000, 2)]), 10) - 2.0).abs() < 1e-9);
}

#[test]
fn the_tightest_hop_counts() {
    let wide = Hop { id: 2, ..hop(60, 1650, 1) };
    for hops in [[wide, hop(20, 1650, 1)], [hop(20, 1650, 1), wide]] {
        assert!((growth(&mut reported(1.0, &hops), 33) - 8.0).abs() < 1e-9);
    }
}

#[test]
fn a_limit_that_no_hop_reports_is_the_largest_room_seen() {
    let lean = |room| Hop { limit_packets: None, capacity: None, ..hop(room, 1650, 1) };
    let mut start = reported(1.0, &[lean(60)]);
    let fresh_for = Nanos::from_millis(100);
    let (now, verdict) = (Time::ZERO, Cause::Unknown);
    start.on_telemetry(&Telemetry { now, packet: None, verdict, fresh_for, hops: &[lean(20)] });
    assert!((growth(&mut start, 33) - 8.0).abs() < 1e-9);
}

#[test]
fn without_a_fresh_report_it_is_slow_start() {
    let mut window = Window { cwnd: 10.0, ssthresh: f64::INFINITY };
    let mut start = reported(3.0, &[hop(60, 0, 1)]);
    start.on_ack(&ack(Time::from_millis(100), RTT, 10), &mut window);
    assert_eq!(window.cwnd, 20.0);
    let mut start = reported(3.0, &[]);
    start.on_ack(&ack(Time::ZERO, RTT, 10), &mut window);
    assert_eq!(window.cwnd, 30.0, "a report without hops says nothing of room");
}

#[test]
fn what_had_filled_the_room_ends_with_the_last_fresh_report() {
    let mut window = Window { cwnd: 80.0, ssthresh: f64::INFINITY };
    let holds = |ms| reported(1.0, &[hop(5, 1650, 1)]).holds(&ack(Time::from_millis(ms), FULL, 1));
    assert_eq!((holds(0), holds(100)), (Some(1.0), None));
    let mut start = reported(1.0, &[hop(5, 1650, 1)]);
    start.on_ack(&ack(Time::from_millis(50), FULL, 1), &mut window);
    assert_eq!(window, Window { cwnd: 80.0, ssthresh: f64::INFINITY });
    start.on_ack(&ack(Time::from_millis(100), FULL, 1), &mut window);
    assert_eq!(window, Window { cwnd: 80.0, ssthresh: 80.0 });
}

/// `cubic:eq1=2` in congestion avoidance at 70 packets since 1 s, below a plateau of 100 packets.
struct Reduced {
    controller: Box<dyn Controller>,
    now: Time,
    rtt: Nanos,
}

impl Reduced {
    fn new() -> Self {
        let mut controller = "cubic:eq1=2,ssthresh=100".parse::<Spec>().unwrap().build(&Env::default());
        open(controller.as_mut(), Time::from_millis(960), RTT, 100);
        let mss = u64::from(Env::default().mss);
        let (now, prior_in_flight) = (Time::from_millis(980), 100 * mss);
        controller.on_loss(&Loss {
            now,
            packets: &[],
            bytes: mss,
            prior_in_flight,
            in_flight: prior_in_flight - mss,
            new_episode: true,
        });
        Self { controller, now: Time::from_millis(1_000), rtt: FULL }
    }

    fn report(&mut self, hops: &[Hop]) {
        let (now, verdict, fresh_for) = (self.now, Cause::Unknown, Nanos::from_millis(100));
        self.controller.on_telemetry(&Telemetry { now, packet: None, verdict, fresh_for, hops });
    }

    /// A packet is acknowledged each ms for this long, and the queue is as long as `hop` says.
    fn run(&mut self, millis: u64, hop: Hop) {
        for _ in 0..millis {
            self.now += Nanos::from_millis(1);
            self.report(&[hop]);
            let una = self.now.as_nanos() / 1_000_000 * u64::from(Env::default().mss);
            let next = una + 20 * u64::from(Env::default().mss);
            fill(self.controller.as_mut(), self.now);
            self.controller.on_ack(&Ack { una, next, min_rtt: RTT, ..ack(self.now, self.rtt, 1) });
        }
    }

    fn packets(&self) -> f64 {
        self.controller.window() as f64 / f64::from(Env::default().mss)
    }
}

#[test]
fn the_curve_stands_still_with_the_window() {
    let (full, empty) = (hop(5, 1650, 1), hop(60, 1650, 1));
    let (mut held, mut free) = (Reduced::new(), Reduced::new());
    held.run(1_000, empty);
    free.run(1_000, empty);
    let before = held.packets();
    assert!((80.0..95.0).contains(&before) && before == free.packets(), "{before}");
    held.run(20, full);
    assert_eq!(held.packets(), before);
    // It goes on from where it was, but for the millisecond before it was held.
    held.run(500, empty);
    free.run(500, empty);
    assert!((held.packets() - free.packets()).abs() < 0.05, "{} and {}", held.packets(), free.packets());
    assert!(held.packets() < 100.0);
    // Held twice, and while the application limits the flow: CUBIC itself leaves that time out.
    held.run(10, full);
    held.now += Nanos::from_secs(2);
    held.report(&[full]);
    held.controller.on_ack(&Ack { window_limited: false, ..ack(held.now, FULL, 1) });
    held.run(500, empty);
    free.run(500, empty);
    assert!((held.packets() - free.packets()).abs() < 0.1, "{} and {}", held.packets(), free.packets());
}

#[test]
fn round_trips_without_room_cost_five_percent_up_to_fifteen() {
    let (full, empty) = (hop(5, 1650, 1), hop(60, 1650, 1));
    let mut flow = Reduced::new();
    flow.run(1_000, empty);
    let before = flow.packets();
    for kept in [0.95, 0.95 * 0.95, 0.95 * 0.95 * 0.95, 0.95 * 0.95 * 0.95] {
        flow.run(20, full);
        flow.run(1, full);
        assert!((flow.packets() / before - kept).abs() < 1e-3, "{} of {before}", flow.packets());
    }
    flow.run(3_000, full);
    assert!((flow.packets() / before - 0.857).abs() < 1e-3);
    // Room begins the row anew, and the window grows again.
    flow.run(1_000, empty);
    let before = flow.packets();
    flow.run(21, full);
    assert!((flow.packets() / before - 0.95).abs() < 1e-3);
    let before = flow.packets();
    flow.run(5_000, empty);
    assert!(flow.packets() > 1.1 * before);
    // Not where the application limits the flow, and not with `hold=off`.
    for spec in ["cubic:eq1=2,ssthresh=100", "cubic:eq1=2,ssthresh=100,hold=off"] {
        let mut flow = Reduced { controller: spec.parse::<Spec>().unwrap().build(&Env::default()), ..Reduced::new() };
        open(flow.controller.as_mut(), flow.now, RTT, 100);
        let before = flow.packets();
        for _ in 0..100 {
            flow.now += RTT;
            flow.report(&[full]);
            let una = flow.now.as_nanos();
            let limited = spec.ends_with("off");
            flow.controller.on_ack(&Ack { una, next: una + 1, window_limited: limited, ..ack(flow.now, FULL, 1) });
        }
        assert!(flow.packets() >= before, "{spec}");
    }
}

#[test]
fn a_round_trip_without_room_ends_the_start_up() {
    let mut flow =
        Reduced { controller: "cubic:eq1=2".parse::<Spec>().unwrap().build(&Env::default()), ..Reduced::new() };
    let (full, roomy) = (hop(5, 1650, 1), hop(30, 1650, 1));
    // A burst fills it for less.
    for _ in 0..10 {
        flow.run(15, full);
        flow.run(5, roomy);
    }
    assert_eq!(flow.controller.permit().threshold, u64::MAX);
    flow.run(25, full);
    assert_eq!(flow.controller.permit().threshold, flow.controller.window());
}

#[test]
fn a_timeout_forgets_that_the_room_was_filled() {
    for stale_before in [false, true] {
        let mut flow =
            Reduced { controller: "cubic:eq1=2".parse::<Spec>().unwrap().build(&Env::default()), ..Reduced::new() };
        flow.run(1, hop(5, 1650, 1));
        assert_eq!(flow.packets(), 10.0, "there was no room");
        // Stale before the timeout, or only after it.
        flow.now += Nanos::from_millis(if stale_before { 100 } else { 10 });
        let (now, mss) = (flow.now, u64::from(Env::default().mss));
        flow.controller.on_timeout(&Timeout { now, packets: &[], prior_in_flight: 10 * mss, in_flight: 0, count: 1 });
        flow.now += Nanos::from_millis(200);
        fill(flow.controller.as_mut(), flow.now);
        flow.controller.on_ack(&ack(flow.now, RTT, 1));
        assert_eq!(flow.packets(), 2.0, "slow start");
        fill(flow.controller.as_mut(), flow.now);
        flow.controller.on_ack(&ack(flow.now, RTT, 2));
        assert_eq!(flow.packets(), 4.0);
    }
}

#[test]
fn what_an_earlier_report_filled_does_not_end_a_slow_start_after_a_silence() {
    let mut flow = Reduced::new();
    flow.run(10, hop(5, 1650, 1));
    let (idle, rto) = (Nanos::from_secs(10), Nanos::from_secs(1));
    flow.now += idle;
    flow.controller.on_restart(&Restart { now: flow.now, idle, rto });
    assert_eq!(flow.packets(), 10.0);
    fill(flow.controller.as_mut(), flow.now);
    flow.controller.on_ack(&ack(flow.now, RTT, 10));
    assert_eq!(flow.packets(), 20.0);
}

#[test]
fn its_own_parameter_chooses_it() {
    let text = |text: &str| text.parse::<Spec>().map(|spec| spec.to_string());
    assert_eq!(text("cubic:eq1=2").as_deref(), Ok("cubic:eq1=2"));
    assert_eq!(text("cubic:start=eq1,eq1=3").as_deref(), Ok("cubic:eq1=3"));
    assert_eq!(text("reno:start=eq1").as_deref(), Ok("reno:eq1=2"));
    assert_eq!(text("cubic:hold=off,eq1=1").as_deref(), Ok("cubic:eq1=1,hold=off"));
    assert!(text("cubic:start=hystart,eq1=2").is_err());
    assert!(text("cubic:hold=off").is_err());
    assert_eq!("cubic:eq1=2".parse::<Spec>().unwrap().start_up().map(|start| start.name), Some("eq1"));
}

#[test]
fn a_threshold_at_the_start_ends_it() {
    let controller = "cubic:eq1=1,ssthresh=64".parse::<Spec>().unwrap().build(&Env::default());
    assert_eq!(controller.permit().threshold, 64 * u64::from(Env::default().mss));
}

#[test]
fn a_queue_that_takes_longer_than_round_trips_holds_nothing_back() {
    // 55 of 60 packets wait for 33.3 ms, 4 ms more than this.
    for (rtt, held) in [(30, true), (29, false)] {
        let mut flow =
            Reduced { controller: "cubic:eq1=2".parse::<Spec>().unwrap().build(&Env::default()), ..Reduced::new() };
        flow.rtt = Nanos::from_millis(rtt);
        flow.run(20, hop(5, 1650, 1));
        assert_eq!(flow.packets() == 10.0, held, "{rtt} ms: {}", flow.packets());
    }
}
