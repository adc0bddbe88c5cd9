//! s2n-quic's calls in, a controller's calls out.

use paceline_cc::{Ecn, Nanos, Pacing, Rate};
use paceline_quic::s2n::{Bridge, PacketCounts};

use crate::at;
use crate::spy::Spy;

const MTU: u64 = 1000;

/// A window of 10 packets, no pacing, no ticks.
fn bridge(ecn: Ecn) -> (Bridge, Spy) {
    let spy = Spy::new(10 * MTU, ecn);
    (Bridge::new(Box::new(spy.clone()), MTU as u16, false), spy)
}

/// Full packets leave, one at each of these milliseconds; answers their numbers.
fn send(bridge: &mut Bridge, millis: impl IntoIterator<Item = u64>) -> Vec<u64> {
    millis.into_iter().map(|millis| bridge.on_packet_sent(at(millis), MTU as u32, Some(false))).collect()
}

fn ack(bridge: &mut Bridge, now: u64, packets: u64, newest: u64) -> Option<Nanos> {
    bridge.on_ack(at(now), packets * MTU, newest)
}

fn lose(bridge: &mut Bridge, now: u64, numbers: &[u64], persistent: bool) {
    for number in numbers {
        bridge.on_packet_lost(at(now), MTU as u32, *number, persistent);
    }
}

#[test]
fn losses_and_marks_reach_the_controller_in_one_order_with_what_was_delivered() {
    let (mut bridge, spy) = bridge(Ecn::Exact);
    assert_eq!(send(&mut bridge, 0..5), [1, 2, 3, 4, 5]);
    spy.calls();
    lose(&mut bridge, 40, &[1, 2], false);
    assert_eq!(spy.calls(), [""; 0], "not complete");
    assert_eq!(ack(&mut bridge, 40, 2, 4), Some(Nanos::from_millis(37)));
    assert_eq!(
        spy.calls(),
        [
            "loss 40 [1, 2] 2000 5000>1000 new",
            "ack 40 [3, 4] rtt 37 5000>1000 una 4000 next 5000 rate 2000/40 Recovery lost 2000"
        ]
    );
    // The next acknowledgement, of a packet that left later, ends the episode; its two marks begin another, of their bytes.
    send(&mut bridge, 41..44);
    spy.calls();
    bridge.on_explicit_congestion(2);
    ack(&mut bridge, 85, 4, 8);
    assert_eq!(spy.calls(), ["ack 85 [5, 6, 7, 8] rtt 42 4000>0 una 8000 next 8000 rate 4000/45 Cwr echo 2000"]);
    assert_eq!(bridge.counts(), PacketCounts { sent: 8, lost: 2, bytes_lost: 2000, congestion_events: 2 });
}

#[test]
fn more_marks_than_packets_are_as_many_as_packets_and_none_without_a_delivery() {
    let (mut bridge, spy) = bridge(Ecn::Exact);
    send(&mut bridge, 0..2);
    spy.calls();
    bridge.on_explicit_congestion(u64::MAX);
    assert_eq!((bridge.window(), spy.calls().len()), (10 * MTU, 0));
    ack(&mut bridge, 40, 1, 1);
    ack(&mut bridge, 41, 1, 2);
    let calls = spy.calls();
    assert!(calls[0].ends_with("echo 1000") && !calls[1].contains("echo"), "{calls:?}");
}

#[test]
fn a_mark_is_a_loss_to_a_controller_without_ecn() {
    let (mut bridge, spy) = bridge(Ecn::Off);
    send(&mut bridge, 0..2);
    spy.calls();
    bridge.on_explicit_congestion(1);
    ack(&mut bridge, 40, 1, 1);
    assert_eq!(spy.calls()[0], "loss 40 [1] 1000 1000>1000 new");
}

#[test]
fn losses_of_a_timer_are_complete_when_s2n_asks_or_sends() {
    let (mut bridge, spy) = bridge(Ecn::Off);
    send(&mut bridge, 0..4);
    ack(&mut bridge, 40, 1, 3);
    spy.calls();
    lose(&mut bridge, 45, &[1, 2], false);
    assert_eq!((bridge.in_flight(), bridge.is_full()), (1000, false));
    assert_eq!(spy.calls(), ["loss 45 [1, 2] 2000 3000>1000 new"]);
    lose(&mut bridge, 900, &[4], true);
    send(&mut bridge, 901..902);
    assert_eq!(spy.calls(), ["timeout 900 #1 1000>0", "sent 901 4000+1000 flight 1000"]);
}

#[test]
fn the_packets_before_the_newest_are_taken_for_the_rest() {
    let (mut bridge, spy) = bridge(Ecn::Off);
    send(&mut bridge, 0..4);
    spy.calls();
    // 1 and 3 have arrived, 2 has not, which shows when it is declared lost: 1 stands for it then.
    ack(&mut bridge, 40, 2, 3);
    lose(&mut bridge, 42, &[2], false);
    ack(&mut bridge, 42, 1, 4);
    let calls = spy.calls();
    assert!(calls[0].starts_with("ack 40 [2, 3] rtt 38 4000>2000"), "{calls:?}");
    assert_eq!(calls[1], "loss 42 [1] 1000 2000>0 new");
    assert!(calls[2].starts_with("ack 42 [4] rtt 39 2000>0"), "{calls:?}");
    assert_eq!(bridge.in_flight(), 0);
}

#[test]
fn what_s2n_reports_by_its_bytes_is_forgotten_and_bare_acknowledgements_are_nothing() {
    let (mut bridge, spy) = bridge(Ecn::Off);
    // An MTU probe that will be lost.
    assert_eq!(bridge.on_packet_sent(at(0), 1400, Some(false)), 1);
    assert_eq!(bridge.on_packet_sent(at(1), 0, Some(false)), 1);
    assert_eq!(send(&mut bridge, 1..2), [2]);
    bridge.on_packet_discarded(1400);
    assert_eq!(bridge.in_flight(), 1000);
    ack(&mut bridge, 40, 1, 2);
    assert_eq!(spy.calls().last().unwrap(), "ack 40 [2] rtt 39 2400>0 una 2400 next 2400 rate 1000/40");
    send(&mut bridge, 50..51);
    assert_eq!(spy.calls(), ["sent 50 2400+1000 flight 1000"]);
}

#[test]
fn of_the_handshake_the_controller_learns_the_rtt_alone() {
    let (mut bridge, spy) = bridge(Ecn::Off);
    assert_eq!([bridge.on_packet_sent(at(0), 1200, None), bridge.on_packet_sent(at(0), 300, None)], [0, 0]);
    assert_eq!(bridge.in_flight(), 1500);
    bridge.on_rtt_update(at(40), Nanos::from_millis(40));
    assert_eq!(bridge.on_ack(at(40), 1200, 0), None);
    assert_eq!(spy.calls(), ["ack 40 [] rtt -1 0>0 una 0 next 0"]);
    assert_eq!(send(&mut bridge, 40..42), [1, 2]);
    bridge.on_packet_lost(at(80), 300, 0, false);
    assert_eq!(bridge.in_flight(), 2000);
    bridge.on_rtt_update(at(81), Nanos::from_millis(40));
    assert_eq!(ack(&mut bridge, 81, 2, 2), Some(Nanos::from_millis(40)));
    let calls = spy.calls();
    assert!(calls.len() == 3 && calls[2].starts_with("ack 81 [1, 2] rtt 40 2000>0"), "{calls:?}");
}

#[test]
fn a_flow_that_has_nothing_more_to_send_is_dry() {
    let (mut bridge, spy) = bridge(Ecn::Off);
    bridge.on_packet_sent(at(0), MTU as u32, Some(true));
    ack(&mut bridge, 40, 1, 1);
    bridge.on_packet_sent(at(1000), MTU as u32, Some(false));
    let calls = spy.calls();
    assert_eq!((calls[1].as_str(), calls[3].as_str()), ("dry 0 1000", "restart 1000 after 1000"), "{calls:?}");
}

#[test]
fn a_pace_is_a_moment_and_a_wait_without_end_is_a_full_window() {
    let (mut bridge, spy) = bridge(Ecn::Off);
    assert_eq!((bridge.due(), bridge.quantum(), bridge.is_full()), (None, None, false));
    spy.set(|answers| answers.pacing = Pacing::Gap(Nanos::from_micros(120)));
    send(&mut bridge, 1..2);
    assert_eq!((bridge.due(), bridge.quantum()), (Some(at(1) + Nanos::from_micros(120)), Some(1)));
    spy.set(|answers| answers.pacing = Pacing::Gap(Nanos::MAX));
    send(&mut bridge, 2..3);
    assert_eq!((bridge.due(), bridge.is_full()), (None, true));
    spy.set(|answers| answers.pacing = Pacing::Rate(Rate::from_mbps(80.0)));
    ack(&mut bridge, 40, 1, 1);
    assert_eq!((bridge.quantum(), bridge.is_full()), (Some(20_000), false));
    spy.set(|answers| answers.window = MTU / 2);
    assert_eq!((bridge.window(), bridge.is_full()), (MTU, true));
    ack(&mut bridge, 41, 1, 2);
    assert!(!bridge.is_full(), "there is room for one");
    bridge.on_mtu_update(1200);
    assert_eq!(bridge.window(), 1200);
}

#[test]
fn what_is_not_paced_by_the_controller_is_paced_where_that_is_wanted() {
    let spy = Spy::new(40 * MTU, Ecn::Off);
    let mut bridge = Bridge::new(Box::new(spy), MTU as u16, true);
    send(&mut bridge, 0..10);
    ack(&mut bridge, 100, 10, 10);
    send(&mut bridge, 100..101);
    // 2 x 40 packets in the smoothed RTT of 91 ms, less what may leave at once.
    let due = bridge.due().unwrap();
    assert!(due > at(100) && due < at(102), "{due}");
}
