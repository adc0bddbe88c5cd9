//! quinn's calls in, a controller's calls out.

use paceline_cc::{Ecn, Pacing, Rate};
use paceline_quic::Bridge;

use crate::at;
use crate::spy::Spy;

const MTU: u64 = 1000;

/// A window of 10 packets, no pacing, no ticks, no ECN.
fn bridge() -> (Bridge, Spy) {
    bridge_with(Ecn::Off)
}

fn bridge_with(ecn: Ecn) -> (Bridge, Spy) {
    let spy = Spy::new(10 * MTU, ecn);
    (Bridge::new(Box::new(spy.clone()), MTU as u16), spy)
}

/// Acknowledges packets of a full size that left at `sent`, `in_flight` being left.
fn ack(bridge: &mut Bridge, now: u64, sent: &[u64], in_flight: u64) {
    for &sent in sent {
        bridge.on_ack(at(now), at(sent), MTU, false);
    }
    bridge.on_end_acks(at(now), in_flight, false);
}

#[test]
fn a_batch_is_told_packet_by_packet_and_its_stamps_come_back() {
    let (mut bridge, spy) = bridge();
    bridge.on_sent(at(0), 2500);
    bridge.on_sent(at(10), 1000);
    assert_eq!(
        spy.calls(),
        [
            "sent 0 0+1000 flight 1000",
            "sent 0 1000+1000 flight 2000",
            "sent 0 2000+500 flight 2500",
            "sent 10 2500+1000 flight 3500"
        ]
    );
    ack(&mut bridge, 40, &[0, 0], 1500);
    assert_eq!(spy.calls(), ["ack 40 [1, 2] rtt 40 3500>1500 una 2000 next 3500 rate 2000/40"]);
    // The rest of the batch, then the later packet: 3500 bytes since the first left, 50 ms before.
    bridge.on_ack(at(50), at(0), 500, false);
    ack(&mut bridge, 50, &[10], 0);
    assert_eq!(spy.calls(), ["ack 50 [3, 4] rtt 40 1500>0 una 3500 next 3500 rate 3500/50"]);
}

#[test]
fn what_never_left_as_data_is_no_delivery() {
    let (mut bridge, spy) = bridge();
    bridge.on_sent(at(0), 1000);
    spy.calls();
    // An MTU probe: quinn tells its acknowledgement only. Then a packet that acknowledges nothing but acknowledgements.
    bridge.on_ack(at(30), at(5), 1400, false);
    assert_eq!(bridge.on_end_acks(at(30), 1000, false), None);
    assert_eq!(bridge.on_end_acks(at(31), 1000, false), None);
    assert_eq!(spy.calls(), [""; 0]);
    ack(&mut bridge, 40, &[0], 0);
    assert_eq!(spy.calls(), ["ack 40 [1] rtt 40 1000>0 una 1000 next 1000 rate 1000/40"]);
}

#[test]
fn an_episode_lasts_until_something_sent_after_its_start_is_acknowledged() {
    let (mut bridge, spy) = bridge();
    for sent in 0..6 {
        bridge.on_sent(at(sent), 1000);
    }
    spy.calls();
    // Packets 1 and 2 are lost, 3 a little later; then one sent after the start gets through.
    ack(&mut bridge, 40, &[3], 5000);
    bridge.on_congestion_event(at(40), at(1), false, 2000);
    bridge.on_congestion_event(at(41), at(2), false, 1000);
    bridge.on_sent(at(42), 1000);
    ack(&mut bridge, 45, &[4, 5], 1000);
    ack(&mut bridge, 82, &[42], 0);
    assert_eq!(
        spy.calls(),
        [
            "ack 40 [4] rtt 37 6000>5000 una 4000 next 6000 rate 1000/40",
            "loss 40 [1, 2] 2000 5000>3000 new",
            "loss 41 [3] 1000 3000>2000",
            "sent 42 6000+1000 flight 3000",
            "ack 45 [5, 6] rtt 40 3000>1000 una 6000 next 7000 rate 3000/45 Recovery lost 3000 limited",
            "ack 82 [7] rtt 40 1000>0 una 7000 next 7000 rate 3000/42",
        ]
    );
    // The next loss of something sent later is a new one.
    bridge.on_sent(at(83), 2000);
    bridge.on_congestion_event(at(120), at(83), false, 1000);
    assert_eq!(spy.calls().last().unwrap(), "loss 120 [8] 1000 2000>1000 new");
}

#[test]
fn persistent_congestion_is_a_time_out_counted_until_something_gets_through() {
    let (mut bridge, spy) = bridge();
    bridge.on_sent(at(0), 3000);
    bridge.on_sent(at(900), 1000);
    ack(&mut bridge, 950, &[900], 3000);
    spy.calls();
    bridge.on_congestion_event(at(950), at(0), true, 3000);
    bridge.on_sent(at(960), 2000);
    bridge.on_congestion_event(at(2000), at(960), true, 1000);
    ack(&mut bridge, 2010, &[960], 0);
    bridge.on_sent(at(2020), 2000);
    ack(&mut bridge, 2060, &[2020], 1000);
    let calls = spy.calls();
    assert_eq!(calls[0], "timeout 950 #1 3000>0");
    assert_eq!(calls[3], "timeout 2000 #2 2000>1000");
    assert!(calls[4].contains(" Loss lost 4000"), "{}", calls[4]);
    assert!(!calls[7].contains("Loss"), "{}", calls[7]);
    bridge.on_congestion_event(at(3000), at(2020), true, 1000);
    assert_eq!(spy.calls(), ["timeout 3000 #1 1000>0"]);
}

#[test]
fn a_mark_is_an_echo_once_a_round_trip_or_the_loss_of_a_packet() {
    let (mut marked, spy) = bridge_with(Ecn::Classic);
    marked.on_sent(at(0), 3000);
    ack(&mut marked, 40, &[0], 2000);
    spy.calls();
    marked.on_congestion_event(at(40), at(0), false, 0);
    ack(&mut marked, 41, &[0], 1000);
    marked.on_congestion_event(at(41), at(0), false, 0);
    assert_eq!(
        spy.calls(),
        [
            "ack 40 [] rtt -1 2000>2000 una 1000 next 3000 Cwr echo 1000",
            "ack 41 [2] rtt 41 2000>1000 una 2000 next 3000 rate 2000/41 Cwr",
        ]
    );

    let (mut unaware, spy) = bridge();
    unaware.on_sent(at(0), 2000);
    ack(&mut unaware, 40, &[0], 1000);
    spy.calls();
    unaware.on_congestion_event(at(40), at(0), false, 0);
    unaware.on_congestion_event(at(41), at(0), false, 0);
    assert_eq!(spy.calls(), ["loss 40 [1] 1000 1000>1000 new"]);
}

#[test]
fn a_dry_flow_is_told_once_and_starts_again_after_a_silence() {
    let (mut bridge, spy) = bridge();
    bridge.on_sent(at(0), 1000);
    bridge.on_sent(at(1), 1000);
    spy.calls();
    bridge.on_ack(at(40), at(0), MTU, true);
    bridge.on_end_acks(at(40), 1000, true);
    bridge.on_ack(at(41), at(1), MTU, true);
    bridge.on_end_acks(at(41), 0, true);
    bridge.on_sent(at(1000), 1000);
    let calls = spy.calls();
    assert_eq!(calls[0], "dry 40 2000");
    assert_eq!(calls.iter().filter(|call| call.starts_with("dry")).count(), 1);
    assert_eq!(calls[3..], ["restart 1000 after 999", "sent 1000 2000+1000 flight 1000"]);
}

#[test]
fn ticks_come_at_the_next_call_each_for_its_own_time() {
    let (mut bridge, spy) = bridge();
    spy.set(|answers| answers.tick = at(5));
    bridge.on_sent(at(4), 1000);
    ack(&mut bridge, 18, &[4], 0);
    assert_eq!(
        spy.calls(),
        [
            "sent 4 0+1000 flight 1000",
            "tick 5",
            "tick 10",
            "tick 15",
            "ack 18 [1] rtt 14 1000>0 una 1000 next 1000 rate 1000/14"
        ]
    );
    // An hour of silence: a thousand, and one for the rest.
    bridge.on_sent(at(3_600_000), 1000);
    let calls = spy.calls();
    assert_eq!(calls.len(), 1002);
    assert_eq!(calls[999..1002], ["tick 5015", "tick 3600000", "sent 3600000 1000+1000 flight 1000"]);
}

/// Nothing could leave between that tick and the acknowledgement.
#[test]
fn the_last_tick_due_at_an_acknowledgement_comes_after_it() {
    let (mut bridge, spy) = bridge();
    spy.set(|answers| answers.tick = at(5));
    bridge.on_sent(at(4), 1000);
    bridge.on_sent(at(6), 1000);
    spy.calls();
    ack(&mut bridge, 21, &[4, 6], 0);
    assert_eq!(
        spy.calls(),
        ["tick 10", "tick 15", "ack 21 [1, 2] rtt 15 2000>0 una 2000 next 2000 rate 2000/17", "tick 21"]
    );
}

#[test]
fn quinns_window_is_one_more_than_the_controllers_and_never_below_a_packet() {
    let (mut bridge, spy) = bridge();
    assert_eq!(bridge.window(), 10 * MTU + 1);
    spy.set(|answers| answers.window = MTU / 2);
    bridge.on_sent(at(0), 1000);
    assert_eq!(bridge.window(), MTU + 1);
    bridge.on_mtu_update(1400);
    assert_eq!(bridge.window(), 1401);
}

#[test]
fn a_rate_is_kept_on_average_by_credit() {
    let (mut bridge, spy) = bridge();
    // 1 packet each ms, far below the window.
    spy.set(|answers| {
        answers.window = 1000 * MTU;
        answers.pacing = Pacing::Rate(Rate::from_mbps(8.0));
    });
    bridge.on_sent(at(0), 1000);
    assert_eq!(bridge.window(), 1000 * MTU + 1, "no RTT yet");
    ack(&mut bridge, 40, &[0], 0);
    assert_eq!(bridge.window(), 10 * MTU + 1, "a lump's worth");
    bridge.on_sent(at(40), 10 * MTU);
    assert_eq!(bridge.window(), 10 * MTU + 1, "none left");
    // Whatever else happens, each ms allows one packet more.
    ack(&mut bridge, 50, &[40; 4], 6 * MTU);
    assert_eq!(bridge.window(), 16 * MTU + 1);
    bridge.on_sent(at(50), 10 * MTU);
    ack(&mut bridge, 52, &[40; 6], 10 * MTU);
    assert_eq!(bridge.window(), 12 * MTU + 1);
    // What the window forbids is not saved up.
    spy.set(|answers| answers.window = 10 * MTU);
    ack(&mut bridge, 53, &[50], 9 * MTU);
    assert_eq!(bridge.window(), 10 * MTU + 1);
    bridge.on_sent(at(53), MTU);
    spy.set(|answers| answers.window = 1000 * MTU);
    ack(&mut bridge, 55, &[50], 9 * MTU);
    assert_eq!(bridge.window(), 11 * MTU + 1, "the 2 ms since");
    // A flow without a rate is limited by the window alone.
    spy.set(|answers| answers.pacing = Pacing::Free);
    ack(&mut bridge, 56, &[50], 8 * MTU);
    assert_eq!(bridge.window(), 1000 * MTU + 1);
}

#[test]
fn time_does_not_run_back_behind_what_was_heard() {
    let (mut bridge, spy) = bridge();
    bridge.on_sent(at(0), 1000);
    ack(&mut bridge, 43, &[0], 0);
    // By the clock that quinn read before.
    bridge.on_sent(at(40), 1000);
    ack(&mut bridge, 90, &[40], 0);
    let calls = spy.calls();
    assert_eq!(calls[2], "sent 43 1000+1000 flight 1000");
    assert!(calls[3].starts_with("ack 90 [2]"), "{calls:?}");
}
