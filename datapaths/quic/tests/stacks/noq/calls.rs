//! noq's calls in, a controller's calls out.

use paceline_cc::{Ecn, Nanos, Pacing, Rate, Time};
use paceline_quic::noq::{Bridge, Report};

use crate::at;
use crate::spy::Spy;

const MTU: u64 = 1000;

/// A window of 10 packets, no pacing, no ticks.
fn bridge(ecn: Ecn) -> (Bridge, Spy) {
    let spy = Spy::new(10 * MTU, ecn);
    (Bridge::new(Box::new(spy.clone()), MTU as u16), spy)
}

fn report(millis: u64) -> Report {
    Report { at: at(millis), heard: at(millis) }
}

/// Full packets of these numbers leave, each at the millisecond of its number.
fn send(bridge: &mut Bridge, numbers: impl IntoIterator<Item = u64>) {
    for pn in numbers {
        bridge.on_packet_sent(at(pn), MTU as u16, pn);
    }
}

/// These are acknowledged, and `in_flight` bytes are left.
fn ack(bridge: &mut Bridge, now: u64, numbers: &[u64], in_flight: u64) {
    for pn in numbers {
        bridge.on_ack(report(now), at(*pn), *pn, false);
    }
    bridge.on_end_acks(report(now), in_flight, false);
}

fn lose(bridge: &mut Bridge, now: u64, numbers: &[u64], persistent: bool) {
    for pn in numbers {
        bridge.on_packet_lost(report(now), MTU as u16, *pn);
    }
    bridge.on_congestion_event(report(now), persistent, false);
}

#[test]
fn losses_and_marks_reach_the_controller_before_or_with_what_noq_reported_first() {
    let (mut bridge, spy) = bridge(Ecn::Classic);
    send(&mut bridge, 0..5);
    assert_eq!(spy.calls().len(), 5);
    ack(&mut bridge, 40, &[2, 3], 3000);
    lose(&mut bridge, 40, &[0, 1], false);
    assert_eq!(spy.calls(), [""; 0], "not complete");
    assert_eq!(bridge.window(), 10 * MTU);
    assert_eq!(
        spy.calls(),
        [
            "loss 40 [1, 2] 2000 5000>1000 new",
            "ack 40 [3, 4] rtt 37 5000>1000 una 4000 next 5000 rate 2000/40 Recovery lost 2000"
        ]
    );
    // A mark in the episode; the next acknowledgement, of a packet that left later, ends it, and its mark begins another.
    send(&mut bridge, 41..42);
    ack(&mut bridge, 50, &[4], 1000);
    bridge.on_congestion_event(report(50), false, true);
    ack(&mut bridge, 82, &[41], 0);
    bridge.on_congestion_event(report(82), false, true);
    bridge.window();
    assert_eq!(
        spy.calls(),
        [
            "sent 41 5000+1000 flight 2000",
            "ack 50 [5] rtt 46 2000>1000 una 5000 next 6000 rate 3000/50 Recovery",
            "ack 82 [6] rtt 41 1000>0 una 6000 next 6000 rate 2000/42 Cwr echo 1000"
        ]
    );
}

#[test]
fn a_mark_is_a_loss_to_a_controller_without_ecn() {
    let (mut bridge, spy) = bridge(Ecn::Off);
    send(&mut bridge, 0..2);
    spy.calls();
    ack(&mut bridge, 40, &[0], 1000);
    bridge.on_congestion_event(report(40), false, true);
    bridge.window();
    assert_eq!(spy.calls()[0], "loss 40 [1] 1000 1000>1000 new");
}

#[test]
fn number_spaces_share_numbers() {
    let (mut bridge, spy) = bridge(Ecn::Off);
    for (millis, bytes) in [(0, 700), (1, 800), (2, 900)] {
        bridge.on_packet_sent(at(millis), bytes, 0);
    }
    spy.calls();
    bridge.on_ack(report(40), at(1), 0, false);
    bridge.on_end_acks(report(40), 1600, false);
    bridge.on_packet_lost(report(40), 900, 0);
    bridge.on_congestion_event(report(40), false, false);
    bridge.window();
    assert_eq!(
        spy.calls(),
        ["loss 40 [3] 900 2400>700 new", "ack 40 [2] rtt 39 2400>700 una 1500 next 2400 rate 800/40 Recovery lost 900"]
    );
}

#[test]
fn each_acknowledgement_is_one_whether_noq_asks_in_between_or_not() {
    let (mut bridge, spy) = bridge(Ecn::Off);
    send(&mut bridge, 0..3);
    spy.calls();
    ack(&mut bridge, 40, &[0], 2000);
    ack(&mut bridge, 40, &[1], 1000);
    ack(&mut bridge, 41, &[2], 0);
    bridge.window();
    let calls = spy.calls();
    assert_eq!(calls.len(), 3, "{calls:?}");
    let samples: Vec<(Time, Nanos)> = bridge.samples().collect();
    assert_eq!(samples, [(40, 40), (40, 39), (41, 39)].map(|(now, rtt)| (at(now), Nanos::from_millis(rtt))));
    assert_eq!(bridge.samples().count(), 0);
}

#[test]
fn what_was_lost_by_mistake_is_undone_before_the_acknowledgement_that_proves_it() {
    let (mut bridge, spy) = bridge(Ecn::Off);
    send(&mut bridge, 0..4);
    ack(&mut bridge, 40, &[3], 3000);
    lose(&mut bridge, 40, &[0], false);
    bridge.window();
    spy.calls();
    bridge.on_spurious_congestion_event();
    ack(&mut bridge, 42, &[1], 1000);
    bridge.window();
    assert_eq!(spy.calls(), ["spurious 42", "ack 42 [2] rtt -1 2000>1000 una 4000 next 4000 rate 2000/42"]);
}

#[test]
fn packets_lost_by_a_timer_need_no_acknowledgement() {
    let (mut bridge, spy) = bridge(Ecn::Off);
    send(&mut bridge, 0..4);
    ack(&mut bridge, 40, &[2], 3000);
    spy.calls();
    lose(&mut bridge, 45, &[0, 1], false);
    bridge.window();
    lose(&mut bridge, 900, &[3], true);
    bridge.window();
    assert_eq!(
        spy.calls(),
        [
            "ack 40 [3] rtt 38 4000>3000 una 3000 next 4000 rate 1000/40",
            "loss 45 [1, 2] 2000 3000>1000 new",
            "timeout 900 #1 1000>0"
        ]
    );
    // Its packets are known no more.
    send(&mut bridge, 901..903);
    ack(&mut bridge, 940, &[902], 1000);
    spy.calls();
    bridge.on_congestion_event(report(941), false, false);
    bridge.window();
    assert_eq!(
        spy.calls(),
        ["ack 940 [6] rtt 38 2000>1000 una 6000 next 6000 rate 1000/39 lost 3000", "loss 941 [6] 1000 1000>1000 new"]
    );
}

#[test]
fn what_noq_does_not_report_is_forgotten_and_bare_acknowledgements_are_nothing() {
    let (mut bridge, spy) = bridge(Ecn::Off);
    // An MTU probe that will be lost.
    bridge.on_packet_sent(at(0), 1400, 0);
    send(&mut bridge, 1..2);
    bridge.on_packet_lost(report(30), 0, 77);
    ack(&mut bridge, 40, &[1], 0);
    bridge.window();
    assert_eq!(spy.calls().last().unwrap(), "ack 40 [2] rtt 39 2400>0 una 2400 next 2400 rate 1000/40");
    send(&mut bridge, 50..51);
    assert_eq!(spy.calls(), ["sent 50 2400+1000 flight 1000"]);
}

#[test]
fn a_full_window_limits_what_leaves_until_something_later_is_delivered() {
    let (mut bridge, spy) = bridge(Ecn::Off);
    send(&mut bridge, 0..1);
    bridge.on_cwnd_limited();
    send(&mut bridge, 1..2);
    ack(&mut bridge, 40, &[0], 1000);
    ack(&mut bridge, 41, &[1], 0);
    bridge.window();
    send(&mut bridge, 50..51);
    ack(&mut bridge, 90, &[50], 0);
    bridge.window();
    let limited: Vec<bool> =
        spy.calls().iter().filter(|call| call.starts_with("ack")).map(|call| call.ends_with("limited")).collect();
    assert_eq!(limited, [false, true, false]);
}

#[test]
fn a_dry_flow_is_told_before_the_acknowledgement() {
    let (mut bridge, spy) = bridge(Ecn::Off);
    send(&mut bridge, 0..1);
    bridge.on_ack(report(40), at(0), 0, true);
    bridge.on_end_acks(report(40), 0, true);
    bridge.window();
    send(&mut bridge, 1000..1001);
    let calls = spy.calls();
    assert_eq!(calls[1], "dry 40 1000");
    assert!(calls[2].starts_with("ack 40"));
    assert_eq!(calls[3], "restart 1000 after 1000");
}

#[test]
fn the_window_has_room_for_a_packet_and_rates_are_rates() {
    let (mut bridge, spy) = bridge(Ecn::Off);
    assert_eq!((bridge.window(), bridge.rate()), (10 * MTU, None));
    let rate = Rate::from_mbps(8.0);
    spy.set(|answers| {
        answers.window = MTU / 2;
        answers.pacing = Pacing::Rate(rate);
    });
    assert_eq!((bridge.window(), bridge.rate()), (MTU, Some(rate)));
    spy.set(|answers| answers.pacing = Pacing::Gap(Nanos::from_millis(1)));
    assert_eq!(bridge.rate(), Some(rate));
    bridge.on_mtu_update(1400);
    assert_eq!((bridge.window(), bridge.rate()), (1400, Some(Rate::from_bytes_per_sec(1_400_000))));
}

#[test]
fn a_packet_leaves_when_it_is_due_where_a_loop_runs_the_clock() {
    let (bridge, spy) = bridge(Ecn::Off);
    let mut bridge = bridge.ticked();
    // A packet each 2 ms; after a silence one of them may be caught up with by a millisecond.
    spy.set(|answers| answers.pacing = Pacing::Rate(Rate::from_mbps(4.0)));
    send(&mut bridge, 50..51);
    assert_eq!((bridge.window(), bridge.own_window(), bridge.next_tick()), (0, 10 * MTU, at(51)));
    // Not for the window's sake.
    bridge.on_cwnd_limited();
    bridge.tick(at(51));
    assert_eq!((bridge.window(), bridge.next_tick()), (10 * MTU, Time::NEVER));
    send(&mut bridge, 51..52);
    bridge.tick(at(52));
    assert_eq!((bridge.window(), bridge.next_tick()), (0, at(53)));
    ack(&mut bridge, 92, &[50, 51], 0);
    assert_eq!(bridge.window(), 10 * MTU);
    let calls = spy.calls();
    assert!(calls.last().unwrap().starts_with("ack 92 [1, 2]") && !calls[2].ends_with("limited"), "{calls:?}");
}

#[test]
fn time_does_not_run_back_behind_what_was_heard() {
    let (mut bridge, spy) = bridge(Ecn::Off);
    send(&mut bridge, 0..2);
    bridge.on_ack(Report { at: at(40), heard: at(43) }, at(0), 0, false);
    bridge.on_end_acks(Report { at: at(40), heard: at(43) }, 1000, false);
    // By the clock that noq read before.
    bridge.on_packet_sent(at(40), MTU as u16, 2);
    bridge.on_ack(report(90), at(40), 2, false);
    bridge.on_end_acks(report(90), 1000, false);
    bridge.window();
    let calls = spy.calls();
    assert_eq!(calls[3], "sent 43 2000+1000 flight 2000");
    assert!(calls[4].starts_with("ack 90 [3] rtt 47 2000>1000 una 3000"), "{calls:?}");
}
