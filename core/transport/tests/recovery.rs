//! Loss recovery: RACK-TLP (RFC 8985), PRR (RFC 6937), timeouts (RFC 6298) and their undo (RFC 3522, 5682).

use crate::common::spy::{Notes, Spy};
use crate::common::{Decide, Fate, Loop, MSS, Path};
use paceline_cc::{Nanos, Pacing, Phase, Rate, Time};
use paceline_transport::{AckPolicy, SenderConfig, stream};

fn world(notes: Notes) -> (Spy, Loop) {
    let spy = Spy::new(notes);
    let sender = stream::sender(&SenderConfig::default(), spy.controller());
    (spy, Loop::new(Path::default(), sender, stream::receiver(&AckPolicy::immediate(), None)))
}

fn lose(range: std::ops::Range<usize>) -> Decide {
    Box::new(move |n, _| Fate { lost: range.contains(&n), ..Fate::default() })
}

fn delay(range: std::ops::Range<usize>, millis: u64) -> Decide {
    let later = Nanos::from_millis(millis);
    Box::new(move |n, _| Fate { later: if range.contains(&n) { later } else { Nanos::ZERO }, ..Fate::default() })
}

#[test]
fn prr_sends_seventy_for_a_hundred_delivered() {
    // The bottleneck spaces packets by 0.2 ms: 100 packets a round trip of 20 ms.
    let (spy, mut world) = world(Notes { window: 100.0, beta: 0.7, ..Notes::default() });
    let mut sent_before = 0;
    world.fate = Box::new(move |n, _| {
        sent_before += 1;
        // The first window leaves at once; spaced, as a bottleneck would.
        let later = if n < 100 { Nanos::from_micros(200 * sent_before) } else { Nanos::ZERO };
        Fate { lost: n == 100, later, ..Fate::default() }
    });
    world.sender.write(u64::MAX);
    world.run(Time::from_millis(200), false);
    let notes = spy.notes();
    let begin = notes.losses[0].0;
    let end = notes.acks.iter().find(|ack| ack.now > begin && ack.phase == Phase::Open).expect("recovery ends").now;
    let out: Vec<Time> = world.sent.iter().map(|(at, _)| *at).filter(|at| (begin..end).contains(at)).collect();
    let delivered: usize =
        notes.acks.iter().filter(|ack| (begin..end).contains(&ack.now)).map(|ack| ack.packets.len()).sum();
    assert!((95..=101).contains(&delivered), "{delivered} delivered");
    assert!((66..=72).contains(&out.len()), "{} sent for {delivered} delivered", out.len());
    assert!(out.chunk_by(|a, b| a == b).all(|burst| burst.len() <= 2), "a burst in recovery");
    drop(notes);
    assert_eq!(world.sender.window(), 70 * MSS);
    assert_eq!(world.sender.in_flight(), 70 * MSS);
}

/// A packet each millisecond, so that packets do not arrive in bunches.
fn spaced() -> Notes {
    Notes { beta: 0.5, pacing: |_| Pacing::Rate(Rate::from_bytes_per_sec(1000 * MSS)), ..Notes::default() }
}

#[test]
fn neighbours_that_swap_cost_nothing() {
    let (spy, mut world) = world(spaced());
    world.fate = Box::new(|n, _| Fate { later: Nanos::from_micros(if n == 25 { 1500 } else { 0 }), ..Fate::default() });
    world.sender.write(200 * MSS);
    world.finish(Time::from_millis(5000));
    assert_eq!(world.sender.stats().retransmits, 0);
    assert!(spy.notes().losses.is_empty());
}

#[test]
fn a_packet_later_than_a_quarter_rtt_is_resent_once_and_undone() {
    let (spy, mut world) = world(spaced());
    world.fate = delay(25..26, 12);
    world.sender.write(200 * MSS);
    world.finish(Time::from_millis(5000));
    let stats = world.sender.stats();
    assert_eq!((stats.retransmits, stats.packets_lost, stats.recoveries, stats.spurious), (1, 1, 1, 1));
    let notes = spy.notes();
    assert_eq!(notes.spurious.len(), 1);
    assert_eq!(notes.window, 20.0);
}

/// Each packet arrives twice, and the receiver says so of each (RFC 2883): that proves no repair needless.
#[test]
fn copies_that_the_network_makes_undo_no_reduction() {
    for duplicate in [0.1, 0.5, 1.0] {
        let (spy, mut world) = world(Notes { beta: 0.5, ..spaced() });
        world.path.duplicate = duplicate;
        world.fate = lose(40..41);
        world.sender.write(200 * MSS);
        world.finish(Time::from_millis(5000));
        let stats = world.sender.stats();
        assert_eq!((stats.packets_lost, stats.spurious, stats.retransmits), (1, 0, 1), "{duplicate}");
        let notes = spy.notes();
        assert!(notes.spurious.is_empty(), "{duplicate}");
        assert_eq!(notes.window, 10.0, "{duplicate}: the loss was real");
    }
}

#[test]
fn a_late_packet_undoes_nothing_while_the_repair_of_a_real_loss_is_out() {
    let (spy, mut world) = world(Notes { beta: 0.5, ..spaced() });
    let mut late = delay(25..26, 12);
    world.fate = Box::new(move |n, segment| Fate { lost: n == 27, ..late(n, segment) });
    world.sender.write(200 * MSS);
    world.finish(Time::from_millis(5000));
    let stats = world.sender.stats();
    assert_eq!((stats.retransmits, stats.packets_lost, stats.recoveries), (2, 2, 1));
    let notes = spy.notes();
    assert!(notes.spurious.is_empty());
    assert_eq!(notes.window, 10.0, "the loss of one packet was real");
}

#[test]
fn reordering_once_seen_is_tolerated_up_to_a_quarter_rtt() {
    let (_, mut world) = world(spaced());
    // 25 is early enough for no loss and teaches the sender; the later ones come 4.5 ms late, below 20/4 ms, and after
    // more than three others.
    world.fate = Box::new(|n, _| {
        let micros = if n == 25 { 1500 } else { 4500 * u64::from(n > 40 && n % 10 == 0) };
        Fate { later: Nanos::from_micros(micros), ..Fate::default() }
    });
    world.sender.write(400 * MSS);
    world.finish(Time::from_millis(5000));
    assert_eq!(world.sender.stats().retransmits, 0);
}

#[test]
fn a_lost_tail_is_probed_and_costs_one_reduction() {
    let (spy, mut world) = world(Notes { beta: 0.5, ..Notes::default() });
    world.fate = lose(29..30);
    world.sender.write(30 * MSS);
    world.finish(Time::from_millis(300));
    let stats = world.sender.stats();
    assert_eq!((stats.probes, stats.retransmits, stats.timeouts), (1, 1, 0));
    // What follows shows that the probe repaired a loss.
    world.sender.write(MSS);
    world.finish(Time::from_millis(600));
    assert_eq!(world.sender.stats().packets_lost, 1);
    assert_eq!(spy.notes().losses.len(), 1);
    assert_eq!(spy.notes().window, 10.0);
}

#[test]
fn a_late_tail_is_probed_for_nothing_and_costs_no_reduction() {
    let (spy, mut world) = world(Notes { beta: 0.5, ..Notes::default() });
    world.fate = delay(29..30, 280);
    world.sender.write(30 * MSS);
    world.finish(Time::from_millis(700));
    world.run(world.now + Nanos::from_millis(300), false);
    world.sender.write(MSS);
    world.finish(Time::from_millis(2000));
    let stats = world.sender.stats();
    assert_eq!((stats.probes, stats.timeouts, stats.packets_lost), (1, 0, 0));
    assert!(spy.notes().losses.is_empty());
}

#[test]
fn lost_tails_of_several_packets_need_no_time_out() {
    let (_, mut world) = world(Notes { beta: 0.5, ..Notes::default() });
    world.fate = lose(25..30);
    world.sender.write(30 * MSS);
    world.finish(Time::from_millis(300));
    let stats = world.sender.stats();
    assert_eq!((stats.probes, stats.retransmits, stats.timeouts, stats.recoveries), (1, 5, 0, 1));
}

#[test]
fn a_lost_retransmission_is_found_without_a_time_out() {
    let (spy, mut world) = world(Notes::default());
    let mut seen = 0;
    world.fate = Box::new(move |_, segment| {
        let hit = segment.seq == 25 * MSS && seen < 3;
        seen += u32::from(hit);
        Fate { lost: hit, ..Fate::default() }
    });
    world.sender.write(200 * MSS);
    world.finish(Time::from_millis(5000));
    let stats = world.sender.stats();
    assert_eq!((stats.retransmits, stats.packets_lost, stats.timeouts, stats.recoveries), (3, 3, 0, 1));
    assert_eq!(spy.notes().losses.iter().filter(|loss| loss.2).count(), 1);
}

/// 40 is lost twice, so that its recovery takes two round trips; 62 leaves within it, is lost, and its repair is out at the end.
#[test]
fn what_left_within_a_recovery_and_was_lost_asks_for_another() {
    for also in [false, true] {
        let (spy, mut world) = world(Notes { beta: 0.5, ..spaced() });
        let (mut first, mut second) = (0, 0);
        world.fate = Box::new(move |_, segment| {
            let (of_first, of_second) = (segment.seq == 40 * MSS, also && segment.seq == 62 * MSS);
            first += u32::from(of_first);
            second += u32::from(of_second);
            Fate { lost: (of_first && first <= 2) || (of_second && second == 1), ..Fate::default() }
        });
        world.sender.write(400 * MSS);
        world.finish(Time::from_millis(5000));
        let stats = world.sender.stats();
        let (recoveries, lost, window) = if also { (2, 3, 5.0) } else { (1, 2, 10.0) };
        assert_eq!(
            (stats.recoveries, stats.packets_lost, stats.retransmits, stats.timeouts),
            (recoveries, lost, lost, 0)
        );
        let notes = spy.notes();
        assert_eq!(notes.losses.iter().filter(|loss| loss.2).count() as u64, recoveries);
        assert_eq!(notes.window, window);
    }
}

#[test]
fn time_outs_double_and_count() {
    let (spy, mut world) = world(Notes::default());
    world.fate = lose(20..usize::MAX);
    world.sender.write(u64::MAX);
    world.run(Time::from_millis(20_000), false);
    let notes = spy.notes();
    let gaps: Vec<f64> = notes.timeouts.windows(2).map(|pair| (pair[1].0 - pair[0].0).as_millis_f64()).collect();
    assert!(gaps.len() >= 4, "{gaps:?}");
    assert!(gaps.windows(2).all(|pair| (pair[1] / pair[0] - 2.0).abs() < 1e-6), "{gaps:?}");
    assert!(notes.timeouts.iter().map(|timeout| timeout.1).eq(1..=notes.timeouts.len() as u32));
    // SRTT 20 ms and no deviation: 220 ms, doubled once.
    assert!((gaps[0] - 440.0).abs() < 20.0, "{gaps:?}");
}

#[test]
fn a_delay_spike_makes_a_spurious_time_out_that_is_undone() {
    let (spy, mut world) = world(Notes { beta: 0.1, ..Notes::default() });
    // Nothing gets through from 100 ms to 900 ms; then all of it does, in order.
    world.fate = Box::new(|_, segment| {
        let blocked = (Time::from_millis(100)..Time::from_millis(900)).contains(&segment.sent_at);
        let later = if blocked { Time::from_millis(900) - segment.sent_at } else { Nanos::ZERO };
        Fate { later, ..Fate::default() }
    });
    world.sender.write(1000 * MSS);
    world.finish(Time::from_millis(10_000));
    let stats = world.sender.stats();
    let notes = spy.notes();
    assert!(stats.timeouts >= 1, "{stats:?}");
    assert_eq!(notes.spurious.len(), 1);
    assert_eq!(notes.window, 20.0);
    // Of twenty packets taken for lost, only those resent before the first answer were sent twice.
    assert!(stats.retransmits <= 4, "{stats:?}");
}

#[test]
fn heavy_loss_is_one_episode_a_round() {
    let (spy, mut world) = world(Notes { window: 200.0, beta: 0.5, ..Notes::default() });
    world.fate = Box::new(|n, _| Fate { lost: (100..180).contains(&n) && n % 2 == 0, ..Fate::default() });
    world.sender.write(400 * MSS);
    world.finish(Time::from_millis(5000));
    let stats = world.sender.stats();
    assert_eq!((stats.packets_lost, stats.retransmits, stats.timeouts, stats.recoveries), (40, 40, 0, 1));
    assert_eq!(spy.notes().losses.iter().filter(|loss| loss.2).count(), 1);
    assert_eq!(spy.notes().acks.iter().map(|ack| ack.lost_bytes).sum::<u64>(), 40 * MSS);
}
