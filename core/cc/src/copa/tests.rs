use super::*;
use crate::controller::{Acked, Lost};
use crate::registry::Spec;
use crate::testing::Feed;

const MSS: u32 = 1448;

fn copa(delta: f64, modes: Modes) -> Copa {
    let config = Config { rules: Rules::Paper, modes, delta, tolerance: 0.0, rtt_min_window: Nanos::from_secs(10) };
    Copa::new(&Env::default(), config)
}

/// One acknowledgement of `count` packets, sent under the present window.
fn acknowledge(copa: &mut Copa, now: Time, rtt: Nanos, count: usize) {
    acknowledge_with(copa, now, Some(rtt), count);
}

fn acknowledge_with(copa: &mut Copa, now: Time, rtt: Option<Nanos>, count: usize) {
    let packet = Acked {
        seq: 0,
        bytes: MSS,
        sent_at: now,
        tag: copa.cwnd.to_bits(),
        retransmitted: false,
        app_limited: false,
        ce: false,
        received_at: None,
    };
    crate::testing::fill(copa, now);
    copa.on_ack(&Ack { rtt, ..ack(now, Nanos::ZERO, &vec![packet; count]) });
}

fn ack(now: Time, rtt: Nanos, packets: &[Acked]) -> Ack<'_> {
    Ack { packets, ..crate::testing::ack(now, rtt, packets.len() as u32) }
}

fn lose(copa: &mut Copa, now: Time, count: usize) {
    lose_sent(copa, now, now, count);
}

fn lose_sent(copa: &mut Copa, sent_at: Time, now: Time, count: usize) {
    let packets = vec![Lost { seq: 0, bytes: MSS, sent_at, tag: 0, cause: crate::Cause::Unknown }; count];
    copa.on_loss(&Loss {
        now,
        packets: &packets,
        bytes: u64::from(MSS) * count as u64,
        prior_in_flight: 0,
        in_flight: 0,
        new_episode: true,
    });
}

/// A controller that has seen an RTT of 20 ms, left slow start and moves by `v = 1`.
fn steady(name: &str) -> Feed {
    let mut feed = Feed::new(name.parse::<Spec>().unwrap().build(&Env::default()));
    feed.rtt = Nanos::from_millis(20);
    for _ in 0..4 {
        feed.round();
    }
    assert_eq!(value(&feed, "slow_start"), 1.0);
    feed.rtt = Nanos::from_millis(40);
    feed.round();
    assert_eq!(value(&feed, "slow_start"), 0.0);
    feed
}

fn value(feed: &Feed, name: &str) -> f64 {
    let mut found = None;
    feed.controller.describe(&mut |key, value| {
        if key == name {
            found = Some(value);
        }
    });
    found.unwrap()
}

#[test]
fn slow_start_doubles_while_there_is_no_queue() {
    let mut feed = Feed::new("copa".parse::<Spec>().unwrap().build(&Env::default()));
    for window in [20.0, 40.0, 80.0] {
        feed.round();
        assert_eq!(value(&feed, "cwnd_packets"), window);
    }
}

#[test]
fn the_window_moves_by_one_over_delta_an_rtt() {
    for (name, step) in [("copa:delta=0.5,mode=default", 2.0), ("copa:delta=0.1,mode=default", 10.0)] {
        let mut feed = steady(name);
        for _ in 0..2 {
            let before = value(&feed, "cwnd_packets");
            feed.round();
            let moved = before - value(&feed, "cwnd_packets");
            assert!((moved - step).abs() <= 1.0, "{name}: {moved}");
            assert_eq!(value(&feed, "velocity"), 1.0);
        }
    }
}

#[test]
fn v_doubles_after_three_rtts_and_stays_under_its_cap() {
    let mut feed = steady("copa:mode=default");
    let mut highest = 1.0f64;
    for round in 0..40 {
        feed.round();
        let (v, cwnd) = (value(&feed, "velocity"), value(&feed, "cwnd_packets"));
        if round < 3 {
            assert_eq!(v, 1.0, "round {round}");
        }
        // The window falls within a round, so compare with what it was a packet earlier.
        assert!(v <= (0.5 * (cwnd + v)).max(1.0) + 1e-9, "v {v} of window {cwnd}");
        highest = highest.max(v);
        assert!(cwnd >= MIN_CWND);
    }
    assert!(highest >= 4.0, "{highest}");
}

#[test]
fn a_turn_resets_v_at_once() {
    let mut feed = steady("copa:mode=default");
    for _ in 0..5 {
        feed.round();
    }
    assert!(value(&feed, "velocity") > 1.0);
    feed.rtt = Nanos::from_millis(20);
    let before = value(&feed, "cwnd_packets");
    feed.round();
    assert_eq!(value(&feed, "velocity"), 1.0);
    assert!(value(&feed, "cwnd_packets") > before);
}

#[test]
fn one_stretched_acknowledgement_equals_as_many_single_ones() {
    let (mut single, mut stretched) = (copa(0.5, Modes::Default), copa(0.5, Modes::Default));
    let mut now = Time::ZERO;
    for round in 0..200u64 {
        now += Nanos::from_millis(3);
        let rtt = Nanos::from_micros(20_000 + 130 * (round % 40));
        // Only the newest packet has the RTT sample, else the smoothed RTT would take four instead of one.
        for packet in 0..4 {
            acknowledge_with(&mut single, now, (packet == 0).then_some(rtt), 1);
        }
        acknowledge(&mut stretched, now, rtt, 4);
        assert_eq!(single.cwnd, stretched.cwnd, "round {round}");
    }
    assert_eq!(single.stage, Stage::Steady);
}

#[test]
fn no_queue_is_no_division_by_zero() {
    let mut copa = copa(0.5, Modes::Auto);
    for i in 1..2_000u64 {
        acknowledge(&mut copa, Time::from_millis(i), Nanos::from_millis(10), 1);
        assert!(copa.cwnd.is_finite() && copa.cwnd >= MIN_CWND && copa.aggressiveness.delta == 0.5);
    }
    acknowledge(&mut copa, Time::from_millis(2_000), Nanos::ZERO, 1);
    acknowledge(&mut copa, Time::from_millis(2_000), Nanos::MAX, 1);
    assert!(copa.cwnd.is_finite());
}

#[test]
fn a_queue_that_never_empties_makes_competitive_and_back() {
    let mut copa = copa(0.5, Modes::Auto);
    let ms = Nanos::from_millis;
    acknowledge(&mut copa, Time::from_millis(1), ms(20), 1);
    assert!(!copa.aggressiveness.competitive, "equal extremes are an empty queue");
    copa.aggressiveness.settle();
    // Standing queue of 20 to 30 ms for longer than five RTTs.
    for i in 2..700 {
        acknowledge(&mut copa, Time::from_millis(i), ms(40 + i % 10), 1);
    }
    assert!(copa.aggressiveness.competitive);
    let rtts = 1.0 / copa.aggressiveness.delta - 2.0;
    assert!((5.0..=13.0).contains(&rtts), "1/delta grew by {rtts} in at most 12 RTT");
    acknowledge(&mut copa, Time::from_millis(700), ms(20), 1);
    assert!(!copa.aggressiveness.competitive);
    assert_eq!(copa.aggressiveness.delta, 0.5);
}

#[test]
fn competitive_halves_one_over_delta_once_an_rtt() {
    let mut copa = copa(0.5, Modes::Competitive);
    for i in 1..=1_000u64 {
        acknowledge(&mut copa, Time::from_millis(i), Nanos::from_millis(50), 1);
    }
    let before = 1.0 / copa.aggressiveness.delta;
    assert!((19.0..=22.0).contains(&before), "2 + 1 an RTT of 50 ms: {before}");
    lose(&mut copa, Time::from_millis(1_001), 1);
    lose(&mut copa, Time::from_millis(1_020), 1);
    assert!((1.0 / copa.aggressiveness.delta - before / 2.0).abs() < 1e-9);
    lose(&mut copa, Time::from_millis(1_060), 1);
    assert!((1.0 / copa.aggressiveness.delta - before / 4.0).abs() < 1e-9);
    for i in 0..10 {
        lose(&mut copa, Time::from_millis(1_200 + 100 * i), 1);
    }
    assert_eq!(copa.aggressiveness.delta, 0.5, "never gentler than the default");
}

#[test]
fn default_mode_ignores_losses_but_for_heavy_ones() {
    let mut copa = copa(0.5, Modes::Default);
    for i in 1..=10u64 {
        acknowledge(&mut copa, Time::from_millis(i), Nanos::from_millis(10), 1);
    }
    let before = copa.cwnd;
    lose(&mut copa, Time::from_millis(11), 2);
    assert_eq!((copa.cwnd, copa.aggressiveness.delta), (before, 0.5));
    lose(&mut copa, Time::from_millis(40), 18);
    assert!((copa.cwnd - before * 10.0 / 30.0).abs() < 1e-9, "no more than arrived");
    assert_eq!((copa.stage, copa.ceiling.packets()), (Stage::Steady, copa.cwnd));
    // Clean cycles raise it, whatever the delay would allow.
    let low = copa.cwnd;
    for i in 50..130u64 {
        acknowledge(&mut copa, Time::from_millis(i), Nanos::from_millis(10), 1);
    }
    assert!(copa.cwnd > low && copa.cwnd < 1.2 * low, "{low} {}", copa.cwnd);
    copa.on_spurious(Time::from_millis(130));
    assert!(copa.cwnd < 1.2 * low, "long over");
}

#[test]
fn a_window_below_a_packet_is_kept_by_pacing() {
    let mut copa = copa(0.5, Modes::Default);
    for i in 1..=400u64 {
        let now = Time::from_millis(20 * i);
        acknowledge(&mut copa, now, Nanos::from_millis(10), 1);
        lose(&mut copa, now, 1);
    }
    assert!(copa.cwnd < 1.0 && copa.cwnd >= LEAST_CWND, "{}", copa.cwnd);
    assert_eq!(copa.window(), u64::from(MSS));
    let rate = copa.cwnd * f64::from(MSS) / 0.01;
    let Pacing::Rate(paced) = copa.pacing() else { panic!("unpaced") };
    assert!((paced.as_bytes_per_sec() as f64 / rate - 1.0).abs() < 0.01, "a window a round trip");
}

#[test]
fn heavy_loss_of_packets_that_were_only_late_is_undone() {
    let mut copa = copa(0.5, Modes::Default);
    for i in 1..=60u64 {
        acknowledge(&mut copa, Time::from_millis(i), Nanos::from_millis(10), 1);
    }
    let before = copa.cwnd;
    lose(&mut copa, Time::from_millis(90), 50);
    assert!(copa.cwnd < before);
    copa.on_spurious(Time::from_millis(95));
    assert_eq!((copa.cwnd, copa.ceiling.packets()), (before, f64::INFINITY));
}

/// Queues of a 100 ms round trip that swing between `low` and 10 ms, a millisecond each; time in ms.
fn swing(copa: &mut Copa, low: u64, from: u64, to: u64) {
    for i in from..to {
        let queued = low + (10 - low) * (i % 50) / 49;
        acknowledge(copa, Time::from_millis(i), Nanos::from_millis(100 + queued), 1);
    }
}

#[test]
fn a_queue_that_swings_without_emptying_is_no_competitor() {
    let mut copa = copa(0.5, Modes::Auto);
    swing(&mut copa, 0, 1, 60);
    copa.aggressiveness.settle();
    swing(&mut copa, 4, 60, 3_000);
    assert!(!copa.aggressiveness.competitive && copa.aggressiveness.delta == 0.5);
    swing(&mut copa, 6, 3_000, 4_000);
    assert!(copa.aggressiveness.competitive, "this one stands");
    swing(&mut copa, 4, 4_000, 4_700);
    let (competitive, delta) = (copa.aggressiveness.competitive, copa.aggressiveness.delta);
    swing(&mut copa, 4, 4_700, 6_000);
    assert_eq!((copa.aggressiveness.competitive, copa.aggressiveness.delta), (competitive, delta), "it waits");
}

#[test]
fn after_a_loss_a_smaller_rest_shows_the_competitor() {
    let mut copa = copa(0.5, Modes::Auto);
    swing(&mut copa, 0, 1, 60);
    copa.aggressiveness.settle();
    swing(&mut copa, 7, 60, 2_800);
    assert!(1.0 / copa.aggressiveness.delta >= 16.0);
    lose(&mut copa, Time::from_millis(2_800), 1);
    let delta = copa.aggressiveness.delta;
    swing(&mut copa, 4, 2_800, 4_000);
    assert!(copa.aggressiveness.competitive && copa.aggressiveness.delta < delta, "it goes on growing");
}

#[test]
fn a_new_flow_does_not_compete() {
    let mut copa = copa(0.5, Modes::Auto);
    swing(&mut copa, 0, 1, 60);
    swing(&mut copa, 7, 60, 5_000);
    lose(&mut copa, Time::from_millis(5_000), 1);
    swing(&mut copa, 7, 5_000, 9_900);
    assert!(!copa.aggressiveness.competitive, "it may have begun among many");
    swing(&mut copa, 7, 9_900, 10_100);
    assert!(copa.aggressiveness.competitive, "10 s are over");
}

#[test]
fn a_competitor_that_makes_no_losses_is_doubted() {
    let mut copa = copa(0.5, Modes::Auto);
    acknowledge(&mut copa, Time::from_millis(1), Nanos::from_millis(100), 1);
    copa.aggressiveness.settle();
    copa.stage = Stage::Steady;
    let stand = |copa: &mut Copa, from: u64, to: u64| {
        for i in from..to {
            acknowledge(copa, Time::from_millis(i), Nanos::from_millis(140 + i % 10), 1);
        }
    };
    stand(&mut copa, 2, 10_000);
    assert!(copa.aggressiveness.competitive && copa.cwnd > MIN_CWND && copa.drains == 0);
    stand(&mut copa, 10_000, 10_100);
    assert_eq!((copa.cwnd, copa.drains, copa.delays.min()), (MIN_CWND, 1, Nanos::from_millis(100)), "it drains");
    for i in 10_100..10_400 {
        acknowledge(&mut copa, Time::from_millis(i), Nanos::from_millis(80), 1);
    }
    assert!(copa.drain.is_none() && copa.cwnd > MIN_CWND && copa.delays.min() == Nanos::from_millis(80));
    stand(&mut copa, 10_400, 13_000);
    assert!(!copa.aggressiveness.competitive && copa.aggressiveness.delta == 0.5, "3 s in Default mode");
    stand(&mut copa, 13_000, 14_000);
    assert!(copa.aggressiveness.competitive);
}

#[test]
fn an_application_limited_flow_falls_but_does_not_rise() {
    let mut copa = copa(0.5, Modes::Default);
    let packets = [Acked {
        seq: 0,
        bytes: MSS,
        sent_at: Time::ZERO,
        tag: 0,
        retransmitted: false,
        app_limited: true,
        ce: false,
        received_at: None,
    }];
    let mut feed = |millis: u64, rtt: u64| {
        let mut ack = ack(Time::from_millis(millis), Nanos::from_millis(rtt), &packets);
        ack.window_limited = false;
        copa.on_ack(&ack);
        copa.cwnd
    };
    assert_eq!(feed(1, 20), INITIAL_CWND);
    for i in 2..40 {
        feed(i, 60);
    }
    let low = feed(40, 60);
    assert!(low < INITIAL_CWND);
    assert!(feed(120, 20) <= low);
}

#[test]
fn time_outs_shrink_and_a_spurious_one_restores() {
    let mut feed = steady("copa:mode=default");
    let before = value(&feed, "cwnd_packets");
    let timeout =
        |count| Timeout { now: Time::from_millis(500), packets: &[], prior_in_flight: 0, in_flight: 0, count };
    feed.controller.on_timeout(&timeout(1));
    assert_eq!((value(&feed, "cwnd_packets"), value(&feed, "slow_start")), (MIN_CWND, 0.0));
    feed.controller.on_spurious(Time::from_millis(510));
    assert_eq!(value(&feed, "cwnd_packets"), before);
    feed.controller.on_timeout(&timeout(1));
    feed.controller.on_timeout(&timeout(2));
    assert_eq!(value(&feed, "slow_start"), 1.0);
}

#[test]
fn an_outage_starts_anew_and_what_was_sent_before_its_end_says_nothing() {
    let mut copa = copa(0.5, Modes::Default);
    let acked = |sent_at| {
        [Acked {
            seq: 0,
            bytes: MSS,
            sent_at: Time::from_millis(sent_at),
            tag: INITIAL_CWND.to_bits(),
            retransmitted: false,
            app_limited: false,
            ce: false,
            received_at: None,
        }]
    };
    for i in 0..200 {
        copa.on_ack(&ack(Time::from_millis(20 + i), Nanos::from_millis(20 + i.min(20)), &acked(i)));
    }
    assert_eq!((copa.stage, copa.delays.min()), (Stage::Steady, Nanos::from_millis(20)));
    let window = copa.cwnd;
    copa.on_ack(&ack(Time::from_millis(3_000), Nanos::from_millis(2_800), &acked(200)));
    assert_eq!((copa.stage, copa.cwnd), (Stage::SlowStart, window.min(INITIAL_CWND)));
    assert!(!copa.delays.known(), "that RTT is not the path's");
    lose_sent(&mut copa, Time::from_millis(2_999), Time::from_millis(3_010), 50);
    assert_eq!(copa.ceiling.packets(), f64::INFINITY, "nor do losses of what was sent before tell how much it carries");
    crate::testing::fill(&mut copa, Time::from_millis(3_000));
    copa.on_ack(&ack(Time::from_millis(3_030), Nanos::from_millis(30), &acked(3_000)));
    assert_eq!((copa.delays.min(), copa.cwnd), (Nanos::from_millis(30), window.min(INITIAL_CWND) + 1.0));
}

#[test]
fn a_long_round_trip_and_a_pause_are_not_an_outage() {
    let mut outage = Outage::default();
    let send = |outage: &mut Outage, millis| {
        outage.on_sent(&Sent {
            now: Time::from_millis(millis),
            seq: 0,
            bytes: MSS,
            in_flight: u64::from(MSS),
            retransmission: false,
            app_limited: false,
            unsent: 0,
        });
    };
    let rtt = Some(Nanos::from_secs(2));
    assert!(!outage.ends(Time::from_millis(5_000), None), "a handshake");
    send(&mut outage, 6_000);
    assert!(!outage.ends(Time::from_millis(8_500), rtt));
    send(&mut outage, 60_000);
    assert!(!outage.ends(Time::from_millis(62_500), rtt), "nothing was in flight");
    assert!(outage.ends(Time::from_millis(65_501), rtt));
}

#[test]
fn a_first_answer_after_more_than_a_second_is_waited_for_once_more() {
    for rtt in [1_500, 4_000] {
        let mut feed = Feed::new("copa".parse::<Spec>().unwrap().build(&Env::default()));
        feed.rtt = Nanos::from_millis(rtt);
        feed.round();
        assert_eq!(value(&feed, "cwnd_packets"), INITIAL_CWND);
        feed.round();
        assert_eq!(value(&feed, "rtt_min_ms"), rtt as f64);
        assert_eq!(value(&feed, "cwnd_packets"), 2.0 * INITIAL_CWND);
    }
}

#[test]
fn the_release_waits_for_19_acknowledgements_and_doubles_v_at_once() {
    let config = Config { rules: Rules::Release, ..copa(0.5, Modes::Default).config };
    let mut copa = Copa::new(&Env::default(), config);
    for i in 1..=19u64 {
        acknowledge(&mut copa, Time::from_millis(i), Nanos::from_millis(20), 1);
        assert_eq!((copa.cwnd, copa.pacing()), (INITIAL_CWND, Pacing::Free));
    }
    acknowledge(&mut copa, Time::from_millis(20), Nanos::from_millis(20), 1);
    assert_eq!(copa.cwnd, INITIAL_CWND + 1.0);
    assert!(matches!(copa.pacing(), Pacing::Rate(_)));
    for i in 0..200u64 {
        acknowledge(&mut copa, Time::from_millis(21 + i), Nanos::from_millis(20), 1);
    }
    // v doubles at the first epochs already: 2 after 1, where the paper's waits for the fourth.
    acknowledge(&mut copa, Time::from_millis(300), Nanos::from_millis(40), 1);
    acknowledge(&mut copa, Time::from_millis(301), Nanos::from_millis(40), 1);
    assert_eq!((copa.stage, copa.velocity.value), (Stage::Steady, 2.0));
    acknowledge(&mut copa, Time::from_millis(3_000), Nanos::from_millis(40), 1);
    assert_eq!((copa.cwnd, copa.stage), (INITIAL_CWND, Stage::SlowStart), "2 s of silence start it anew");
}
