//! When reports are not believed.

use super::*;

#[test]
fn losses_of_what_is_sent_above_what_arrives_end_the_belief() {
    let mut bench = Bench::new();
    let endless = Hop { capacity: rate(500_000), room_packets: Some(u32::MAX - 1), limit_packets: None, ..hop(1, 0) };
    for (lost, believed) in [(9, true), (19, true), (21, false)] {
        bench.report(Cause::Medium, &[endless]);
        assert_eq!(bench.controller.permit().recovery, Recovery::Controller);
        (0..lost).for_each(|_| bench.lose(Cause::Medium));
        bench.round(RTT, 40);
        assert_eq!(bench.controller.permit().recovery == Recovery::Controller, believed, "{lost}");
    }
    // CUBIC goes on from what arrives, in the slow start that it had not ended: the last round trip has doubled that.
    assert!((bench.packets() - 80.0).abs() < 2.0, "{}", bench.packets());
}

#[test]
fn round_trips_that_no_reported_queue_explains_end_the_belief_for_a_while() {
    let mut bench = Bench::new();
    let believed = |bench: &mut Bench, rtt: u64| {
        bench.report(Cause::Unknown, &[hop(1, 0)]);
        bench.round(Nanos::from_millis(rtt), 40);
        bench.controller.permit().recovery == Recovery::Controller
    };
    assert!((0..50).all(|_| believed(&mut bench, 25)), "5 ms are not a reason");
    assert!((0..7).all(|_| believed(&mut bench, 26)));
    assert!((0..100).all(|_| !believed(&mut bench, 26)), "as long as they are");
    let from = bench.now;
    while bench.now - from + RTT < Nanos::from_secs(1) {
        assert!(!believed(&mut bench, 20), "at {}", bench.now);
    }
    bench.round(RTT, 40);
    assert!((0..7).all(|_| believed(&mut bench, 26)), "and again");
    assert!(!believed(&mut bench, 26));
    let from = bench.now;
    while bench.now - from + RTT < Nanos::from_secs(2) {
        assert!(!believed(&mut bench, 20), "twice as long, at {}", bench.now);
    }
    // A queue of 30 packets explains 18 ms, twice: 20 + 2 x 18 + 5.
    let mut bench = Bench::new();
    for _ in 0..50 {
        bench.report(Cause::Unknown, &[hop(1, 30)]);
        bench.round(Nanos::from_millis(61), 100);
        assert_eq!(bench.controller.permit().recovery, Recovery::Controller);
    }
}

#[test]
fn a_queue_that_round_trips_do_not_show_holds_nothing_back() {
    // CUBIC had 50 packets; the reports say that 45 of another hundred flows wait for 27 ms, which the round trips are not longer for.
    let mut bench = Bench::new();
    bench.lose(Cause::Congestion);
    let before = bench.packets();
    let crowd = hop(100, 45);
    let believed = |bench: &mut Bench, rtt: Nanos| {
        bench.report(Cause::Unknown, &[crowd]);
        bench.round(rtt, 2);
        bench.controller.permit().recovery == Recovery::Controller
    };
    assert!((0..7).all(|_| believed(&mut bench, RTT)) && bench.packets() < 6.0, "{}", bench.packets());
    assert!(!believed(&mut bench, RTT));
    // As after a timeout it goes back to what it had.
    assert_eq!(bench.controller.permit().threshold as f64, (before * MSS as f64).floor(), "{before}");
    let small = bench.packets();
    bench.round(RTT, 4);
    assert!(bench.packets() > small + 2.0, "{} after {small}", bench.packets());
    // Half of it suffices.
    let mut bench = Bench::new();
    assert!((0..50).all(|_| believed(&mut bench, RTT + Nanos::from_millis(14))));
}

#[test]
fn a_count_of_flows_that_goes_up_and_down_at_once_is_not_believed() {
    let mut bench = Bench::new();
    for step in 0..20 {
        bench.hold(10, hop(if step % 2 == 0 { 1 } else { 200 }, 0));
    }
    assert_eq!(bench.controller.permit().recovery, Recovery::Prr);
    // A second after the last of it what it says counts again.
    bench.hold(4_000, hop(2, 0));
    assert_eq!(bench.controller.permit().recovery, Recovery::Controller);
    // Once up and down is a crowd that came and went.
    let mut bench = Bench::new();
    for flows in [1, 40, 1, 40] {
        bench.hold(1_000, hop(flows, 0));
        assert_eq!(bench.controller.permit().recovery, Recovery::Controller, "{flows}");
    }
}
