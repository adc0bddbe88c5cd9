use super::*;
use crate::controller::{Hop, Loss, Lost, RateSample, Timeout};
use crate::path_report::HOP_PACKET_BYTES;
use crate::registry::Spec;
use crate::testing::{ack, fill, open};

const RTT: Nanos = Nanos::from_millis(20);
const MSS: u64 = 1448;
const MODES: [&str; 3] = ["cubic-l1", "cubic-l2", "cubic-l1g"];

/// A flow at a window that is set by the threshold of its slow start, and a path that reports as it is told to.
struct Bench {
    controller: Box<dyn Controller>,
    now: Time,
}

impl Bench {
    /// A flow that has left slow start at `window` packets, with an RTT of 20 ms and a delivery rate of `window` a round trip.
    fn at(name: &str, window: u64) -> Self {
        let mut bench = Self::starting(&format!("{name}:start=slow,ssthresh={window}"));
        open(bench.controller.as_mut(), bench.now, RTT, window);
        bench.acknowledge(0, RTT);
        assert_eq!(bench.packets(), window as f64);
        bench
    }

    fn starting(spec: &str) -> Self {
        let controller = spec.parse::<Spec>().unwrap().build(&Env::default());
        Self { controller, now: Time::from_millis(1_000) }
    }

    /// `packets` of a full window arrive at once, after `rtt`; the smallest RTT is 20 ms.
    fn acknowledge(&mut self, packets: u64, rtt: Nanos) {
        fill(self.controller.as_mut(), self.now);
        let rate = RateSample {
            delivered: self.controller.window().max(packets * MSS),
            interval: RTT,
            prior_delivered: 0,
            app_limited: false,
            retransmission: false,
        };
        let acked = ack(self.now, rtt, packets as u32);
        self.controller.on_ack(&Ack { min_rtt: RTT, rate: Some(rate), ..acked });
    }

    /// A round trip of `rtt`, in which packets came at the rate of `packets` in 20 ms; everything below `una` has arrived.
    fn brought(&mut self, packets: u64, rtt: Nanos, una: u64) {
        let rate = RateSample {
            delivered: packets * MSS,
            interval: RTT,
            prior_delivered: 0,
            app_limited: false,
            retransmission: false,
        };
        fill(self.controller.as_mut(), self.now);
        let acked = ack(self.now, rtt, 1);
        let next = una + 100 * MSS;
        self.controller.on_ack(&Ack { min_rtt: RTT, rate: Some(rate), una, next, ..acked });
    }

    fn report(&mut self, verdict: Cause, hops: &[Hop]) {
        let telemetry = Telemetry { now: self.now, packet: None, verdict, fresh_for: Nanos::from_millis(100), hops };
        self.controller.on_telemetry(&telemetry);
    }

    /// The report that spares: room for `room` packets, one flow.
    fn medium(&mut self, room: u32) {
        self.report(Cause::Medium, &[hop(room)]);
    }

    fn lose(&mut self, causes: &[Cause]) {
        let lost = |cause: &Cause| Lost { seq: 0, bytes: 1448, sent_at: self.now, tag: 0, cause: *cause };
        let packets: Vec<Lost> = causes.iter().map(lost).collect();
        let flight = self.controller.window();
        self.controller.on_loss(&Loss {
            now: self.now,
            packets: &packets,
            bytes: MSS * packets.len() as u64,
            prior_in_flight: flight,
            in_flight: flight - MSS,
            new_episode: true,
        });
    }

    fn time_out(&mut self, count: u32) {
        let prior_in_flight = self.controller.window();
        self.controller.on_timeout(&Timeout { now: self.now, packets: &[], prior_in_flight, in_flight: 0, count });
    }

    fn packets(&self) -> f64 {
        self.value("cwnd_packets")
    }

    fn value(&self, wanted: &str) -> f64 {
        let mut found = f64::NAN;
        self.controller.describe(&mut |name, value| {
            if name == wanted {
                found = value;
            }
        });
        found
    }
}

/// 1650 packets/s, a queue of 60 packets, one flow: it drains in 36 ms.
fn hop(room: u32) -> Hop {
    let rate = Rate::from_bytes_per_sec(1650 * HOP_PACKET_BYTES);
    let (limit_packets, flows) = (Some(60), Some(1));
    let (capacity, arrival) = (Some(rate), Some(rate));
    Hop { id: 1, room_packets: Some(room), limit_packets, capacity, arrival, flows, ..Hop::default() }
}

/// The window after one loss of a flow at 40 packets.
fn after(name: &str, verdict: Cause, room: u32) -> f64 {
    let mut bench = Bench::at(name, 40);
    bench.report(verdict, &[hop(room)]);
    bench.lose(&[Cause::Unknown]);
    assert_eq!(bench.controller.permit().threshold, bench.controller.window(), "{name}");
    bench.packets()
}

#[test]
fn losses_of_the_medium_are_answered_as_the_table_says() {
    for (name, roomy, full) in [("cubic-l1", 40.0, 40.0), ("cubic-l2", 38.0, 38.0), ("cubic-l1g", 50.0, 40.0)] {
        // w / 4 = 10, and 4 more: room for 14.
        assert_eq!((after(name, Cause::Medium, 14), after(name, Cause::Medium, 13)), (roomy, full), "{name}");
        for verdict in [Cause::Unknown, Cause::Congestion] {
            assert!((after(name, verdict, 60) - 28.0).abs() < 1e-9, "{name}");
        }
    }
}

#[test]
fn the_curve_is_kept_or_drawn_anew() {
    for (name, w_max) in [("cubic-l1", 57.0), ("cubic-l2", 40.0), ("cubic-l1g", 57.0)] {
        let mut bench = Bench::at(name, 57);
        bench.lose(&[Cause::Congestion]);
        assert!((bench.packets() - 39.9).abs() < 1e-9);
        bench.now += Nanos::from_secs(1);
        while bench.packets() < 40.0 {
            bench.acknowledge(1, RTT);
        }
        bench.medium(7);
        let before = bench.packets();
        bench.lose(&[Cause::Medium]);
        assert!((bench.value("w_max_packets") - w_max).abs() < 0.5, "{name}");
        assert_eq!(bench.value("k_s").is_nan(), name == "cubic-l2", "{name}: the epoch");
        // A loss that never was leaves everything as it stood.
        bench.controller.on_spurious(bench.now);
        assert_eq!((bench.packets(), bench.value("w_max_packets")), (before, 57.0), "{name}");
    }
}

#[test]
fn only_growth_stays_in_slow_start() {
    for (name, window, threshold) in [("cubic-l1", 40, Some(40)), ("cubic-l2", 38, Some(38)), ("cubic-l1g", 50, None)] {
        let mut bench = Bench::starting(&format!("{name}:start=slow"));
        open(bench.controller.as_mut(), bench.now, RTT, 40);
        bench.medium(60);
        bench.lose(&[Cause::Medium]);
        assert_eq!(bench.controller.window(), window * MSS, "{name}");
        assert_eq!(
            bench.controller.permit().threshold,
            threshold.map_or(u64::MAX, |packets: u64| packets * MSS),
            "{name}"
        );
    }
}

#[test]
fn a_timeout_keeps_the_threshold_and_a_second_one_does_not() {
    for (name, threshold, window) in [("cubic-l1", 40, 1), ("cubic-l2", 38, 1), ("cubic-l1g", 40, 10)] {
        let mut bench = Bench::at(name, 40);
        bench.medium(60);
        bench.time_out(1);
        assert_eq!(
            (bench.controller.permit().threshold, bench.controller.window()),
            (threshold * MSS, window * MSS),
            "{name}"
        );
        bench.time_out(2);
        assert_eq!((bench.controller.permit().threshold, bench.controller.window()), (28 * MSS, MSS), "{name}: G2");
        bench.time_out(3);
        assert_eq!(bench.controller.permit().threshold, 28 * MSS, "{name}: once");
        // A timeout that nothing excuses is CUBIC's.
        let mut bench = Bench::at(name, 40);
        bench.time_out(1);
        assert_eq!((bench.controller.permit().threshold, bench.controller.window()), (28 * MSS, MSS), "{name}");
    }
}

#[test]
fn a_timeout_within_a_repair_is_of_the_same_losses() {
    for (name, window) in [("cubic-l1", 1), ("cubic-l2", 1), ("cubic-l1g", 10)] {
        let mut bench = Bench::at(name, 40);
        bench.medium(7);
        bench.lose(&[Cause::Medium]);
        let threshold = bench.controller.permit().threshold;
        bench.time_out(1);
        assert_eq!(
            (bench.controller.permit().threshold, bench.controller.window()),
            (threshold, window * MSS),
            "{name}"
        );
        bench.time_out(2);
        assert_eq!(bench.controller.permit().threshold, 28 * MSS, "{name}: G2, from the window before the losses");
    }
}

#[test]
fn a_floor_holds_after_losses_of_the_medium_and_not_after_others() {
    let mut bench = Bench::starting("cubic-l2:start=slow,floor=10");
    bench.medium(60);
    bench.lose(&[Cause::Medium]);
    assert_eq!(bench.packets(), 10.0);
    bench.time_out(1);
    assert_eq!(bench.packets(), 10.0);
    bench.report(Cause::Congestion, &[hop(0)]);
    bench.acknowledge(1, RTT);
    bench.lose(&[Cause::Congestion]);
    assert!(bench.packets() < 10.0);
}

#[test]
fn a_queue_longer_than_the_hops_is_congestion_whatever_it_says() {
    // G1: a full queue drains in 60 / 1650 s, 36.4 ms.
    for name in MODES {
        for (rtt, spared) in [(56, true), (57, false)] {
            let mut bench = Bench::at(name, 40);
            bench.medium(30);
            bench.acknowledge(0, Nanos::from_millis(rtt));
            bench.lose(&[Cause::Medium]);
            assert_eq!(bench.packets() > 30.0, spared, "{name} at {rtt} ms");
        }
        // G5: 10 ms are not explained by an empty queue; one of 6 packets explains 7.3 ms more.
        for (room, rtt, spared) in [(60, 30, true), (60, 31, false), (54, 37, true), (54, 38, false)] {
            let mut bench = Bench::at(name, 40);
            bench.medium(room);
            bench.acknowledge(0, Nanos::from_millis(rtt));
            bench.lose(&[Cause::Medium]);
            assert_eq!(bench.packets() > 30.0, spared, "{name} at {rtt} ms with room for {room}");
        }
        // Without a capacity 50 ms are taken.
        let mut bench = Bench::at(name, 40);
        bench.report(Cause::Medium, &[Hop { capacity: None, ..hop(60) }]);
        bench.acknowledge(0, Nanos::from_millis(69));
        bench.lose(&[Cause::Medium]);
        assert!(bench.packets() > 30.0, "{name}");
    }
}

#[test]
fn a_verdict_that_the_reported_room_contradicts_does_not_count() {
    // G4: a tenth of 60 packets; of a short queue 2.
    let short = |room| Hop { limit_packets: Some(16), ..hop(room) };
    for name in MODES {
        for (hop, spared) in [(hop(6), true), (hop(5), false), (short(2), true), (short(1), false)] {
            let mut bench = Bench::at(name, 40);
            bench.report(Cause::Medium, &[hop]);
            bench.lose(&[Cause::Medium]);
            assert_eq!(bench.packets() > 30.0, spared, "{name}: {:?}", hop.room_packets);
            // Only the newest report counts.
            let mut bench = Bench::at(name, 40);
            bench.report(Cause::Medium, &[hop]);
            bench.medium(60);
            bench.lose(&[Cause::Medium]);
            assert!(bench.packets() > 30.0, "{name}");
        }
    }
}

#[test]
fn of_losses_in_a_row_one_in_129_is_answered() {
    for name in MODES {
        let mut bench = Bench::at(name, 40);
        let mut answered = Vec::new();
        for loss in 1..=260 {
            bench.medium(7);
            let before = bench.value("spared_in_a_row");
            bench.lose(&[Cause::Medium]);
            if bench.value("spared_in_a_row") < before {
                answered.push(loss);
            }
            bench.now += RTT;
        }
        assert_eq!(answered, [129, 258], "{name}");
        // Four round trips without a loss end the row.
        for _ in 0..260 {
            bench.medium(7);
            bench.lose(&[Cause::Medium]);
            assert!(bench.value("spared_in_a_row") >= 1.0);
            bench.now += Nanos::from_millis(81);
        }
        assert_eq!(bench.value("spared_in_a_row"), 1.0, "{name}");
    }
}

#[test]
fn without_guards_every_loss_of_the_medium_is_spared() {
    let mut bench = Bench::at("cubic-l1", 40);
    bench.controller = "cubic-l1:start=slow,guards=off".parse::<Spec>().unwrap().build(&Env::default());
    for packets in [10, 20] {
        bench.acknowledge(packets, Nanos::from_secs(1));
    }
    for _ in 0..100 {
        bench.medium(7);
        bench.lose(&[Cause::Medium]);
        bench.now += RTT;
    }
    assert_eq!(bench.packets(), 40.0);
}

#[test]
fn a_stale_report_excuses_nothing() {
    for name in MODES {
        for (age, spared) in [(99, true), (100, false)] {
            let mut bench = Bench::at(name, 40);
            bench.medium(7);
            bench.now += Nanos::from_millis(age);
            bench.lose(&[Cause::Unknown]);
            assert_eq!(bench.packets() > 30.0, spared, "{name} after {age} ms");
        }
    }
}

#[test]
fn what_the_datapath_says_of_the_packets_counts_before_the_verdict() {
    let spared = |verdict, causes: &[Cause]| {
        let mut bench = Bench::at("cubic-l1", 40);
        bench.report(verdict, &[hop(7)]);
        bench.lose(causes);
        bench.packets() == 40.0
    };
    assert!(spared(Cause::Unknown, &[Cause::Medium]));
    assert!(spared(Cause::Congestion, &[Cause::Medium, Cause::Unknown]));
    for causes in [[Cause::Congestion, Cause::Medium], [Cause::Medium, Cause::Aqm], [Cause::Handover; 2]] {
        assert!(!spared(Cause::Medium, &causes), "{causes:?}");
    }
}

#[test]
fn spared_losses_hold_no_window_above_its_cap() {
    // 80 packets are delivered in the time of the smallest RTT, at first: the cap is 120 and the room.
    let mut bench = Bench::at("cubic-l1g", 80);
    bench.medium(60);
    bench.lose(&[Cause::Medium]);
    assert_eq!(bench.packets(), 100.0);
    // Now 33 are, as on a link of 1650 packets/s, and there is room for 6: 55.5, when the 80 are from before the losses before the last.
    let slow = |bench: &mut Bench, una: u64| bench.brought(33, RTT, una);
    bench.medium(6);
    slow(&mut bench, MSS);
    assert!((100.0..100.5).contains(&bench.packets()), "{}", bench.packets());
    bench.lose(&[Cause::Medium]);
    let kept = bench.packets();
    assert!((100.0..100.5).contains(&kept), "{kept}");
    slow(&mut bench, 2 * MSS);
    assert_eq!(bench.packets(), GLIDE * kept, "5 % in a round trip");
    slow(&mut bench, 3 * MSS);
    assert_eq!(bench.packets(), GLIDE * kept, "once in it");
    assert_eq!(bench.value("starting"), 0.0);
    bench.lose(&[Cause::Medium]);
    assert_eq!(bench.packets(), GLIDE * (GLIDE * kept), "and at a loss");
    for round in 1..20 {
        bench.medium(6);
        slow(&mut bench, round * 102 * MSS);
    }
    assert!((bench.packets() - 55.5).abs() < 1e-9, "{}", bench.packets());
    // Where no loss has been spared for a while, CUBIC grows on.
    bench.now += Nanos::from_millis(100);
    bench.medium(6);
    for round in 20..60 {
        slow(&mut bench, round * 102 * MSS);
    }
    assert!(bench.packets() > 55.6);
}

#[test]
fn a_flow_that_its_application_limits_does_not_grow_at_a_loss() {
    let mut bench = Bench::at("cubic-l1g", 40);
    let idle = ack(bench.now, RTT, 1);
    bench.controller.on_ack(&Ack { window_limited: false, ..idle });
    bench.medium(60);
    bench.lose(&[Cause::Medium]);
    assert_eq!(bench.packets(), 40.0);
}

#[test]
fn round_trips_that_show_a_queue_permit_no_growth_whatever_room_is_reported() {
    // A quarter of 36.4 ms.
    for (rtt, window) in [(29, 50.0), (30, 40.0)] {
        let mut bench = Bench::at("cubic-l1g", 40);
        bench.acknowledge(0, Nanos::from_millis(rtt));
        bench.medium(60);
        bench.lose(&[Cause::Medium]);
        assert_eq!(bench.packets(), window, "{rtt} ms");
    }
}

#[test]
fn after_a_change_to_a_longer_route_losses_of_the_medium_are_spared_again() {
    for name in MODES {
        let mut bench = Bench::at(name, 40);
        let mut spared = Vec::new();
        for round in 0..30_u64 {
            // Half a second each: flights of 10 and of 20 packets, with nothing in the queues.
            for flight in [10, 20] {
                bench.now += Nanos::from_millis(250);
                let idle = Hop { queue_bytes: Some(0), ..hop(60) };
                bench.report(Cause::Medium, &[idle]);
                let rate = RateSample {
                    delivered: flight * MSS,
                    interval: Nanos::from_millis(100),
                    prior_delivered: 0,
                    app_limited: false,
                    retransmission: false,
                };
                let acked = ack(bench.now, Nanos::from_millis(100), flight as u32);
                bench.controller.on_ack(&Ack { min_rtt: RTT, rate: Some(rate), ..acked });
            }
            bench.lose(&[Cause::Medium]);
            if bench.value("spared_in_a_row") > 0.0 {
                spared.push(round);
            }
        }
        assert_eq!((spared.first(), spared.len()), (Some(&20), 10), "{name}: {spared:?}");
    }
}

#[test]
fn the_slope_beside_a_small_cut_is_kept_or_derived() {
    let grown = |slope: &str| {
        let text = format!("cubic-l2:start=slow,ssthresh=12,slope={slope}");
        let mut bench = Bench::starting(&text);
        bench.acknowledge(2, RTT);
        bench.medium(7);
        bench.lose(&[Cause::Medium]);
        let before = bench.packets();
        for _ in 0..20 {
            for _ in 0..11 {
                bench.acknowledge(1, RTT);
            }
        }
        bench.packets() - before
    };
    // 220 acknowledgements at 0.529 / w, and at 3 x 0.05 / 1.95 = 0.077: from 11.4 to sqrt(11.4^2 + 440 x 0.529) = 19.06.
    let (kept, derived) = (grown("kept"), grown("derived"));
    assert!((7.6..=7.7).contains(&kept) && (1.38..=1.41).contains(&derived), "{kept} and {derived}");
}

#[test]
fn room_counts_up_to_what_a_round_trip_brought() {
    for (name, cap) in [("cubic-l1", 70.0), ("cubic-l1g", 42.0)] {
        let mut bench = Bench::at(name, 80);
        for round in 1..20 {
            bench.medium(u32::MAX - 1);
            bench.lose(&[Cause::Medium]);
            bench.brought(14, Nanos::from_millis(30), round * 102 * MSS);
        }
        // 14 in the smallest RTT, and 21 in a round trip.
        assert!((bench.packets() - cap).abs() < 0.01, "{name}: {}", bench.packets());
    }
}
