//! When packets leave.

use crate::common::spy::{Notes, Spy};
use crate::common::{Loop, MSS, Path, controller};
use paceline_cc::{Nanos, Pacing, Rate, Recovery, Time};
use paceline_transport::{AckPolicy, PaceStyle, Sender, SenderConfig, datagram, stream};

const PER_MS: Rate = Rate::from_bytes_per_sec(1000 * MSS);

fn world(config: &SenderConfig, notes: Notes) -> (Spy, Loop) {
    let spy = Spy::new(notes);
    let sender = stream::sender(config, spy.controller());
    (spy, Loop::new(Path::default(), sender, stream::receiver(&AckPolicy::default(), None)))
}

fn departures(world: &Loop) -> Vec<Time> {
    world.sent.iter().map(|(at, _)| *at).collect()
}

#[test]
fn a_rate_is_kept_exactly_when_nothing_holds_the_sender_up() {
    let (_, mut world) =
        world(&SenderConfig::default(), Notes { pacing: |_| Pacing::Rate(PER_MS), window: 100.0, ..Notes::default() });
    world.sender.write(u64::MAX);
    world.run(Time::from_millis(500), false);
    let sent = departures(&world);
    assert_eq!(sent.len(), 501);
    assert!(sent.windows(2).all(|pair| pair[1] - pair[0] == Nanos::from_millis(1)));
}

/// Polls `sender` late: only at multiples of `step`.
fn coarse(sender: &mut dyn Sender, step: Nanos, end: Time) -> Vec<Time> {
    let mut sent = Vec::new();
    let mut now = Time::ZERO;
    while now < end {
        sender.on_timeout(now);
        while sender.poll_transmit(now).is_some() {
            sent.push(now);
        }
        now += step;
    }
    sent
}

#[test]
fn a_coarse_timer_keeps_the_average_within_the_burst() {
    let notes = || Notes { pacing: |_| Pacing::Rate(PER_MS), window: 1e6, ..Notes::default() };
    // The timer's step is 2.5 packets: with credit for it nothing is lost.
    let mut config = SenderConfig::default();
    config.burst = Nanos::from_millis(3);
    let mut sender = stream::sender(&config, Spy::new(notes()).controller());
    sender.write(u64::MAX);
    let sent = coarse(sender.as_mut(), Nanos::from_micros(2500), Time::from_millis(100));
    assert!((98..=102).contains(&sent.len()), "{}", sent.len());
    // Without credit each visit lets one packet go.
    let mut config = SenderConfig::default();
    config.burst = Nanos::ZERO;
    let mut sender = stream::sender(&config, Spy::new(notes()).controller());
    sender.write(u64::MAX);
    assert_eq!(coarse(sender.as_mut(), Nanos::from_micros(2500), Time::from_millis(100)).len(), 40);
    // However long the pause, the burst is bounded: credit of 3 ms is 3 packets more.
    let mut config = SenderConfig::default();
    config.burst = Nanos::from_millis(3);
    let mut sender = stream::sender(&config, Spy::new(notes()).controller());
    sender.write(u64::MAX);
    let sent = coarse(sender.as_mut(), Nanos::from_millis(50), Time::from_millis(100));
    assert_eq!(sent.iter().filter(|at| **at == Time::from_millis(50)).count(), 4);
}

#[test]
fn a_chirp_leaves_with_its_exact_gaps_however_late_the_caller() {
    // A chirp of eight packets with gaps that shrink from 8 ms, then a guard of 20 ms.
    fn chirp(sent: u64) -> Pacing {
        Pacing::Gap(Nanos::from_millis(if sent.is_multiple_of(8) { 20 } else { 9 - sent % 8 }))
    }
    let (_, mut world) = world(&SenderConfig::default(), Notes { pacing: chirp, window: 1000.0, ..Notes::default() });
    world.sender.write(u64::MAX);
    world.run(Time::from_millis(1000), false);
    let sent = departures(&world);
    assert!(sent.len() > 100);
    for (index, pair) in sent.windows(2).enumerate() {
        assert_eq!(Pacing::Gap(pair[1] - pair[0]), chirp(index as u64 + 1), "gap {index}");
    }
    // A late caller does not catch up: every gap is at least as asked.
    let spy = Spy::new(Notes { pacing: chirp, window: 1000.0, ..Notes::default() });
    let mut sender = stream::sender(&SenderConfig::default(), spy.controller());
    sender.write(u64::MAX);
    let sent = coarse(sender.as_mut(), Nanos::from_micros(1300), Time::from_millis(400));
    for (index, pair) in sent.windows(2).enumerate() {
        let Pacing::Gap(gap) = chirp(index as u64 + 1) else { continue };
        assert!((gap..gap + Nanos::from_micros(1300)).contains(&(pair[1] - pair[0])), "gap {index}");
    }
}

#[test]
fn a_held_flow_waits_for_another_event() {
    fn hold(sent: u64) -> Pacing {
        if sent == 5 { Pacing::Gap(Nanos::MAX) } else { Pacing::Gap(Nanos::ZERO) }
    }
    let spy = Spy::new(Notes { pacing: hold, ..Notes::default() });
    let mut config = SenderConfig::default();
    config.tail_probe = false;
    let mut sender = datagram::sender(&config, spy.controller());
    sender.write(u64::MAX);
    let sent = std::iter::from_fn(|| sender.poll_transmit(Time::ZERO)).count();
    assert_eq!(sent, 5);
    // Only the retransmission timer remains.
    assert_eq!(sender.next_timeout(), Time::from_millis(1000));
    spy.notes().pacing = |_| Pacing::Free;
    sender.on_timeout(Time::from_millis(1000));
    assert!(sender.poll_transmit(Time::from_millis(1000)).is_some());
}

#[test]
fn linux_pacing_spreads_the_window() {
    let mut config = SenderConfig::default();
    config.pace = PaceStyle::Linux;
    let path = Path::default();
    let sender = stream::sender(&config, controller("fixed:window=40"));
    let mut world = Loop::new(path, sender, stream::receiver(&AckPolicy::immediate(), None));
    world.sender.write(u64::MAX);
    world.run(Time::from_millis(1000), false);
    let sent = departures(&world);
    // The first flight is unpaced, for want of an RTT; nothing is lost to pacing afterwards.
    assert!(sent[10] == Time::ZERO && sent.len() > 40 * 48, "{}", sent.len());
    let late: Vec<Time> = sent.into_iter().filter(|at| *at > Time::from_millis(500)).collect();
    // Never reduced, so 200 %: 40 packets in 10 ms, 250 us apart, and a credit of 1 ms.
    let longest = late.chunk_by(|a, b| a == b).map(<[Time]>::len).max();
    assert!(longest <= Some(5), "{longest:?}");
}

#[test]
fn linux_pacing_slows_down_at_half_the_controllers_threshold() {
    // 40 packets in 10 ms below half the threshold, in 16.7 ms above; a credit of 1 ms besides.
    for (threshold, gap) in [(82, 250), (80, 416)] {
        let mut config = SenderConfig::default();
        config.pace = PaceStyle::Linux;
        config.burst = Nanos::ZERO;
        let spy = Spy::new(Notes { window: 40.0, threshold, ..Notes::default() });
        let sender = stream::sender(&config, spy.controller());
        let mut world = Loop::new(Path::default(), sender, stream::receiver(&AckPolicy::immediate(), None));
        world.sender.write(u64::MAX);
        world.run(Time::from_millis(100), false);
        let least = departures(&world).windows(2).map(|pair| pair[1] - pair[0]).filter(|gap| *gap > Nanos::ZERO).min();
        assert_eq!(least.map(|least| least.as_nanos() / 1_000), Some(gap), "{threshold} packets");
    }
}

#[test]
fn heartbeats_leave_when_nothing_else_does() {
    let silence = Nanos::from_millis(50);
    let notes = Notes { heartbeat: Some(silence), recovery: Recovery::Controller, ..Notes::default() };
    let spy = Spy::new(notes);
    let sender = datagram::sender(&SenderConfig::default(), spy.controller());
    let mut world = Loop::new(Path::default(), sender, datagram::receiver(None));
    world.sender.write(3 * MSS);
    world.run(Time::from_millis(1005), false);
    let empty: Vec<Time> = world.sent.iter().filter(|(_, s)| s.bytes == 0).map(|(at, _)| *at).collect();
    let expected: Vec<Time> = (1..=20).map(|n| Time::from_millis(50 * n)).collect();
    assert_eq!(empty, expected);
    assert_eq!((world.acks.len(), world.sender.in_flight(), world.sender.stats().packets_lost), (22, 0, 0));
    assert!(world.sent.iter().map(|(_, s)| s.note).eq(1..=23), "each carries the controller's note");
}
