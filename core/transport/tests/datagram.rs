//! Datagrams over the loop-back path.

use crate::common::spy::{Notes, Spy};
use crate::common::{Fate, Loop, MSS, Path, controller};
use paceline_cc::{Nanos, Pacing, Rate, Time};
use paceline_transport::{SenderConfig, datagram};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn datagrams_on(path: Path, spec: &str) -> Loop {
    Loop::new(path, datagram::sender(&SenderConfig::default(), controller(spec)), datagram::receiver(None))
}

#[test]
fn a_clean_path_delivers_each_once() {
    let mut world = datagrams_on(Path::default(), "reno");
    world.sender.write(500 * MSS);
    world.finish(Time::from_millis(5000));
    let stats = world.sender.stats();
    assert_eq!((stats.packets_sent, stats.packets_lost, stats.timeouts, stats.probes), (500, 0, 0, 0));
    assert_eq!((world.receiver.bytes_ready(), stats.bytes_delivered), (500 * MSS, 500 * MSS));
    assert_eq!(world.acks.len(), 500);
    assert_eq!(world.rtt, Some(Nanos::from_millis(20)));
}

#[test]
fn losses_are_told_and_not_repaired() {
    let mut world = datagrams_on(Path::default(), "reno");
    world.fate = Box::new(|n, _| Fate { lost: n == 25 || n == 99, ..Fate::default() });
    world.sender.write(100 * MSS);
    world.finish(Time::from_millis(5000));
    let stats = world.sender.stats();
    // The last one is found by an empty probe, not by the timeout.
    assert_eq!((stats.packets_sent, stats.packets_lost, stats.retransmits), (101, 2, 0));
    assert_eq!((stats.probes, stats.timeouts, stats.recoveries), (1, 0, 2));
    assert_eq!(world.receiver.bytes_ready(), 98 * MSS);
}

#[test]
fn a_late_datagram_is_a_spurious_loss() {
    let mut world = datagrams_on(Path::default(), "reno");
    world.fate = Box::new(|n, _| Fate { later: Nanos::from_millis(if n == 25 { 15 } else { 0 }), ..Fate::default() });
    world.sender.write(100 * MSS);
    world.finish(Time::from_millis(5000));
    let stats = world.sender.stats();
    assert_eq!((stats.packets_lost, stats.spurious, stats.bytes_delivered), (1, 1, 100 * MSS));
}

/// RFC 9002 section 6.1.1: who learns that a packet was late and not lost waits longer for the next.
#[test]
fn late_datagrams_teach_to_wait() {
    for late in [7, 9, 12] {
        let spy = Spy::new(Notes {
            beta: 0.5,
            pacing: |_| Pacing::Rate(Rate::from_bytes_per_sec(1000 * MSS)),
            ..Notes::default()
        });
        let sender = datagram::sender(&SenderConfig::default(), spy.controller());
        let mut world = Loop::new(Path::default(), sender, datagram::receiver(None));
        // A packet each millisecond; every tenth is late by more than a quarter of the 20 ms of a round trip.
        world.fate = Box::new(move |n, _| Fate {
            later: Nanos::from_millis(if n % 10 == 5 { late } else { 0 }),
            ..Fate::default()
        });
        world.sender.write(3000 * MSS);
        world.finish(Time::from_millis(10_000));
        let stats = world.sender.stats();
        assert!(stats.packets_lost <= 4 && stats.packets_lost == stats.spurious, "{late} ms: {stats:?}");
        let notes = spy.notes();
        assert_eq!(notes.window, 20.0, "{late} ms: each reduction is undone: {:?}", notes.losses);
    }
}

/// The first timeout comes before the first acknowledgement, and so may others.
#[test]
fn a_round_trip_longer_than_the_first_time_out_is_no_loss() {
    for delay in [1050, 1500, 2500] {
        let mut world = datagrams_on(Path { delay: Nanos::from_millis(delay), ..Path::default() }, "reno");
        world.sender.write(u64::MAX);
        world.run(Time::from_millis(2 * delay * 5), false);
        let stats = world.sender.stats();
        assert!(stats.timeouts > 0 && stats.spurious == stats.packets_lost, "{delay} ms each way: {stats:?}");
        // Slow start goes on: 10, 20, 40, 80 packets.
        assert!(world.sender.window() >= 100 * MSS, "{delay} ms each way: {}", world.sender.window() / MSS);
    }
}

/// Karn's rule, for datagrams: those that the timer took for lost, and that come after an outage, measured the outage.
#[test]
fn what_waited_for_the_end_of_an_outage_gives_no_rtt() {
    let mut world = datagrams_on(Path::default(), "fixed:window=20");
    world.sender.write(u64::MAX);
    world.run(Time::from_millis(500), false);
    // Dark for 10 s: what was sent at first waits, and what the timer sends is lost.
    let end = Time::from_millis(10_500);
    let left = world.sent.len();
    world.fate = Box::new(move |n, segment| Fate {
        lost: n >= left + 20,
        later: if n >= left { end - segment.sent_at } else { Nanos::ZERO },
        ..Fate::default()
    });
    world.run(end, false);
    world.fate = Box::new(|_, _| Fate::default());
    let before = world.sender.stats();
    world.run(Time::from_millis(13_000), false);
    let stats = world.sender.stats();
    assert!(before.timeouts > 3 && stats.spurious > 0, "{stats:?}");
    assert_eq!(world.sender.srtt(), Some(Nanos::from_millis(20)));
    // More than 2 s of 20 packets each round trip.
    assert!(stats.packets_sent - before.packets_sent > 2000, "{stats:?}");
}

#[test]
fn lost_acknowledgements_cost_nothing() {
    let mut world = datagrams_on(Path { ack_loss: 0.5, seed: 3, ..Path::default() }, "fixed:window=50");
    world.sender.write(u64::MAX);
    world.run(Time::from_millis(5000), false);
    let stats = world.sender.stats();
    assert_eq!((stats.packets_lost, stats.timeouts), (0, 0));
    assert_eq!(stats.bytes_delivered + world.sender.in_flight(), stats.bytes_sent);
    assert!(stats.packets_sent > 10_000, "{stats:?}");
}

#[test]
fn an_acknowledgement_without_news_gives_no_rtt() {
    let mut sender = datagram::sender(&SenderConfig::default(), controller("fixed:window=2"));
    let mut receiver = datagram::receiver(None);
    sender.write(2 * MSS);
    let segment = sender.poll_transmit(Time::ZERO).expect("data");
    receiver.on_segment(Time::from_millis(10), &segment, false);
    let ack = receiver.poll_ack(Time::from_millis(10)).expect("at once");
    sender.on_ack(Time::from_millis(20), &ack);
    // The same again, as a receiver half's clock would send it.
    sender.on_ack(Time::from_millis(90), &ack);
    assert_eq!(sender.srtt(), Some(Nanos::from_millis(20)));
}

#[test]
fn heartbeats_closer_than_a_round_trip_still_measure_it() {
    let spy = Spy::new(Notes { heartbeat: Some(Nanos::from_millis(50)), ..Notes::default() });
    let path = Path { delay: Nanos::from_millis(100), ..Path::default() };
    let mut world =
        Loop::new(path, datagram::sender(&SenderConfig::default(), spy.controller()), datagram::receiver(None));
    world.sender.write(MSS);
    world.run(Time::from_millis(300), false);
    world.path.delay = Nanos::from_millis(150);
    world.run(Time::from_millis(20_000), false);
    let srtt = world.sender.srtt().expect("samples").as_millis_f64();
    assert!((srtt - 300.0).abs() < 5.0, "{srtt} ms");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn every_datagram_is_settled(
        seed in any::<u64>(),
        data_loss in 0.0..0.3f64,
        ack_loss in 0.0..0.3f64,
        duplicate in 0.0..0.2f64,
        reorder in 0.0..0.5f64,
        late_ms in 0u64..100,
        bytes in 1u64..300_000,
        reno in any::<bool>(),
    ) {
        let path = Path { seed, data_loss, ack_loss, duplicate, reorder, late: Nanos::from_millis(late_ms), ..Path::default() };
        let mut world = datagrams_on(path, if reno { "reno" } else { "fixed:window=30" });
        world.sender.write(bytes);
        world.finish(Time::from_millis(2_000_000));
        // What is still on its way arrives.
        world.run(world.now + Nanos::from_secs(1), false);
        let stats = world.sender.stats();
        prop_assert_eq!(world.sender.in_flight(), 0);
        prop_assert_eq!(stats.bytes_sent, bytes);
        prop_assert_eq!(stats.retransmits, 0);
        prop_assert!(stats.bytes_delivered <= world.receiver.bytes_ready());
        prop_assert!(world.receiver.bytes_ready() <= bytes);
        prop_assert!(stats.spurious <= stats.packets_lost);
        if data_loss == 0.0 && ack_loss == 0.0 {
            prop_assert_eq!(stats.bytes_delivered, bytes);
        }
    }
}
