//! What controllers are informed of: rates, application limits, marks, restarts; and positions beyond 32 bits.

use crate::common::spy::{Notes, Spy};
use crate::common::{Fate, Loop, MSS, Path, controller};
use paceline_cc::{Ecn, Nanos, Pacing, Phase, Rate, Recovery, Time};
use paceline_transport::{AckPolicy, SenderConfig, above, datagram, stream};

const PER_MS: Rate = Rate::from_bytes_per_sec(1000 * MSS);

fn world(notes: Notes) -> (Spy, Loop) {
    let spy = Spy::new(notes);
    let sender = stream::sender(&SenderConfig::default(), spy.controller());
    (spy, Loop::new(Path::default(), sender, stream::receiver(&AckPolicy::immediate(), None)))
}

#[test]
fn acknowledgements_in_bunches_do_not_raise_the_rate() {
    // One packet a millisecond; acknowledgements come in pairs one microsecond apart.
    let (spy, mut world) = world(Notes { pacing: |_| Pacing::Rate(PER_MS), window: 100.0, ..Notes::default() });
    world.fate =
        Box::new(|n, _| Fate { later: Nanos::from_micros(if n % 2 == 0 { 1000 } else { 1 }), ..Fate::default() });
    world.sender.write(u64::MAX);
    world.run(Time::from_millis(500), false);
    let notes = spy.notes();
    let rates: Vec<f64> = notes.acks.iter().filter_map(|ack| ack.rate).map(|rate| rate.rate().as_mbps()).collect();
    assert!(rates.len() > 400);
    assert!(rates.iter().all(|rate| *rate <= PER_MS.as_mbps() * 1.0001), "{rates:?}");
    assert!(rates[100..].iter().all(|rate| *rate >= PER_MS.as_mbps() * 0.9), "{rates:?}");
}

#[test]
fn samples_of_a_flow_that_idles_are_marked() {
    let (spy, mut world) = world(Notes::default());
    for _ in 0..50 {
        world.sender.write(MSS);
        world.run(world.now + Nanos::from_millis(7), false);
    }
    {
        let notes = spy.notes();
        assert!(notes.sent.iter().skip(1).all(|sent| sent.app_limited));
        assert!(notes.acks.iter().skip(1).all(|ack| ack.rate.is_none_or(|rate| rate.app_limited)));
        assert!(notes.acks.iter().all(|ack| !ack.window_limited));
        assert_eq!(notes.dry, 50);
    }
    // With enough to send the mark is gone after a round trip.
    let from = world.now + Nanos::from_millis(45);
    world.sender.write(u64::MAX);
    world.run(world.now + Nanos::from_millis(500), false);
    let notes = spy.notes();
    let late: Vec<_> = notes.acks.iter().filter(|ack| ack.now > from).collect();
    assert!(late.len() > 100);
    assert!(late.iter().all(|ack| ack.rate.is_some_and(|rate| !rate.app_limited) && ack.window_limited));
    assert!(late.iter().all(|ack| ack.in_flight < 20 * MSS && ack.rtt == Some(Nanos::from_millis(20))));
}

#[test]
fn controllers_know_what_the_application_has_left() {
    for via in ["tcp", "udp", "alcc"] {
        let spy = Spy::new(Notes { window: 4.0, ..Notes::default() });
        let config = SenderConfig::default();
        let (sender, receiver) = match via {
            "tcp" => (stream::sender(&config, spy.controller()), stream::receiver(&AckPolicy::default(), None)),
            "udp" => (datagram::sender(&config, spy.controller()), datagram::receiver(None)),
            _ => {
                let sender = above::sender(&config, spy.controller(), controller("reno"));
                (sender, stream::receiver(&AckPolicy::default(), None))
            }
        };
        let mut world = Loop::new(Path::default(), sender, receiver);
        world.sender.write(9 * MSS + 100);
        world.finish(Time::from_millis(1000));
        world.sender.write(MSS);
        world.finish(Time::from_millis(2000));
        let left: Vec<u64> = spy.notes().sent.iter().map(|sent| sent.unsent).collect();
        let mut want: Vec<u64> = (0..9).rev().map(|packets| packets * MSS + 100).collect();
        want.extend([0, 0]);
        assert_eq!(left, want, "{via}");
        // Without end.
        world.sender.write(u64::MAX);
        world.run(Time::from_millis(2100), false);
        assert!(spy.notes().sent[11..].iter().all(|sent| sent.unsent > u64::MAX / 2), "{via}");
    }
}

#[test]
fn repairs_and_heartbeats_tell_what_is_left_too() {
    let heartbeat = Some(Nanos::from_millis(5));
    let (spy, mut world) = world(Notes { window: 4.0, heartbeat, ..Notes::default() });
    world.fate = Box::new(|n, _| Fate { lost: n == 0, ..Fate::default() });
    world.sender.write(10 * MSS);
    world.finish(Time::from_millis(1000));
    let notes = spy.notes();
    // Before the first acknowledgement only heartbeats follow the window.
    assert!(notes.sent[4..7].iter().all(|sent| sent.bytes == 0 && sent.unsent == 6 * MSS));
    let repair = notes.sent.iter().find(|sent| sent.retransmission).expect("one was lost");
    assert!(repair.unsent <= 6 * MSS && repair.unsent > 0);
    let highest = notes.sent.iter().filter(|sent| sent.now <= repair.now).map(|sent| sent.seq + u64::from(sent.bytes));
    assert_eq!(repair.unsent, 10 * MSS - highest.max().unwrap());
}

#[test]
fn a_held_controller_is_asked_again_when_the_application_writes() {
    for via_tcp in [true, false] {
        let spy = Spy::new(Notes { pacing: |_| Pacing::Gap(Nanos::MAX), ..Notes::default() });
        let config = SenderConfig::default();
        let sender = match via_tcp {
            true => stream::sender(&config, spy.controller()),
            false => above::sender(&config, spy.controller(), controller("reno")),
        };
        let mut world = Loop::new(Path::default(), sender, stream::receiver(&AckPolicy::default(), None));
        world.sender.write(2 * MSS);
        world.run(Time::from_millis(100), false);
        assert_eq!(spy.notes().sent.len(), 0, "held from the start");
        spy.notes().pacing = |_| Pacing::Free;
        world.sender.write(MSS);
        world.finish(Time::from_millis(200));
        assert_eq!(spy.notes().sent.len(), 3);
    }
}

#[test]
fn restarts_tell_how_long_the_flow_was_silent() {
    let (spy, mut world) = world(Notes::default());
    world.sender.write(5 * MSS);
    world.run(Time::from_millis(1000), false);
    world.sender.write(5 * MSS);
    world.run(Time::from_millis(1100), false);
    // An RTT of 20 ms and the least margin.
    assert_eq!(spy.notes().restarts, [(Nanos::from_millis(1000), Nanos::from_millis(220))]);
}

/// RFC 5681 section 4.1, whether the controller is asked again after each packet or not.
#[test]
fn a_restart_counts_for_the_packets_that_follow_it() {
    for spec in ["cubic", "reno", "dctcp"] {
        let sender = stream::sender(&SenderConfig::default(), controller(spec));
        let mut world = Loop::new(Path::default(), sender, stream::receiver(&AckPolicy::immediate(), None));
        world.fate = Box::new(|n, _| Fate { lost: n == 100, ..Fate::default() });
        world.sender.write(600 * MSS);
        world.finish(Time::from_millis(5000));
        let before = world.sent.len();
        assert!(world.sender.window() > 30 * MSS, "{spec}");
        world.run(world.now + Nanos::from_secs(5), false);
        world.sender.write(300 * MSS);
        world.run(world.now + Nanos::from_millis(5), false);
        assert_eq!(world.sent.len() - before, 10, "{spec}");
    }
}

/// Linux `tcp_cwnd_validate`: data that comes piece by piece, and fills the window in the end, is limited by it.
#[test]
fn a_window_that_fills_piece_by_piece_limits_the_flow() {
    let spy = Spy::new(Notes { window: 20.0, ..Notes::default() });
    let sender = stream::sender(&SenderConfig::default(), spy.controller());
    let mut world = Loop::new(Path::default(), sender, stream::receiver(&AckPolicy::immediate(), None));
    for _ in 0..10 {
        world.sender.write(2 * MSS);
        world.run(world.now + Nanos::from_millis(1), false);
    }
    world.sender.write(MSS);
    world.run(world.now + Nanos::from_millis(30), false);
    let limited = spy.notes().acks.iter().filter(|ack| ack.window_limited).count();
    assert_eq!(limited, 20, "of {}", spy.notes().acks.len());
}

#[test]
fn classic_marks_reduce_once_a_round_and_are_answered() {
    let (spy, mut world) = world(Notes {
        window: 40.0,
        beta: 0.5,
        ecn: Ecn::Classic,
        pacing: |_| Pacing::Rate(PER_MS),
        ..Notes::default()
    });
    // All of what is sent from 100 to 200 ms is marked.
    world.fate = Box::new(|_, segment| {
        let ce = (Time::from_millis(100)..Time::from_millis(200)).contains(&segment.sent_at);
        Fate { ce, ..Fate::default() }
    });
    world.sender.write(u64::MAX);
    world.run(Time::from_millis(400), false);
    let notes = spy.notes();
    let echoes: Vec<Time> = notes.acks.iter().filter(|ack| ack.echo).map(|ack| ack.now).collect();
    assert!((3..=6).contains(&echoes.len()), "{echoes:?}");
    assert!(echoes.windows(2).all(|pair| pair[1] - pair[0] >= Nanos::from_millis(20)), "{echoes:?}");
    let answers = world.sent.iter().filter(|(_, segment)| segment.cwr).count();
    assert_eq!(answers, echoes.len());
    assert_eq!(notes.acks.last().map(|ack| ack.phase), Some(Phase::Open));
    assert!(notes.losses.is_empty());
    assert!(notes.acks.iter().all(|ack| !ack.echo || ack.ce_bytes > 0));
}

#[test]
fn a_controller_that_holds_against_marks_keeps_its_window() {
    // Marks all along; the controller answers none up to 300 ms, then all.
    for ecn in [Ecn::Classic, Ecn::Exact] {
        let pacing = |_| Pacing::Rate(PER_MS);
        let (spy, mut world) = world(Notes { window: 40.0, beta: 0.5, ecn, pacing, holds: true, ..Notes::default() });
        world.fate = Box::new(|_, _| Fate { ce: true, ..Fate::default() });
        world.sender.write(u64::MAX);
        for ms in 1..=300 {
            world.run(Time::from_millis(ms), false);
            assert_eq!(world.sender.window(), 40 * MSS, "{ecn:?} at {ms} ms");
        }
        {
            let mut notes = spy.notes();
            assert!(notes.acks.iter().all(|ack| ack.phase == Phase::Open && ack.ce_bytes > 0));
            assert!(notes.acks.iter().any(|ack| ack.echo));
            notes.holds = false;
        }
        assert!(world.sent.iter().all(|(_, segment)| !segment.cwr));
        world.run(Time::from_millis(315), false);
        assert_eq!(spy.notes().acks.last().map(|ack| ack.phase), Some(Phase::Cwr));
        assert_eq!(spy.notes().window, 20.0);
        // A start-up that takes charge again takes the window with it.
        spy.notes().holds = true;
        assert_eq!(world.sender.window(), 20 * MSS);
        world.run(Time::from_millis(340), false);
        assert_eq!(spy.notes().acks.last().map(|ack| ack.phase), Some(Phase::Open));
    }
}

#[test]
fn exact_marks_are_counted_to_the_byte() {
    for via_datagrams in [false, true] {
        let spy = Spy::new(Notes { ecn: Ecn::L4s, recovery: Recovery::Controller, ..Notes::default() });
        let config = SenderConfig::default();
        let mut world = if via_datagrams {
            Loop::new(Path::default(), datagram::sender(&config, spy.controller()), datagram::receiver(None))
        } else {
            let receiver = stream::receiver(&AckPolicy::default(), None);
            Loop::new(Path::default(), stream::sender(&config, spy.controller()), receiver)
        };
        let marks = |n: u64| n % 7 == 3 || n.is_multiple_of(11);
        world.fate = Box::new(move |n, _| Fate { ce: marks(n as u64), ..Fate::default() });
        world.sender.write(500 * MSS);
        world.finish(Time::from_millis(5000));
        let marked = (0..500u64).filter(|n| marks(*n)).count() as u64;
        let notes = spy.notes();
        assert_eq!(notes.acks.iter().map(|ack| ack.ce_bytes).sum::<u64>(), marked * MSS);
        let packets = notes.acks.iter().flat_map(|ack| &ack.packets);
        assert!(packets.clone().all(|packet| packet.ce == marks(packet.seq / MSS)));
        assert_eq!(packets.count(), 500);
    }
}

#[test]
fn positions_pass_two_to_the_thirty_two_packets() {
    let starts = [u64::from(u32::MAX) - 50 * MSS, (u64::from(u32::MAX) - 50) * MSS, u64::MAX / 2];
    for start in starts {
        let path = Path { data_loss: 0.02, ack_loss: 0.02, seed: start, ..Path::default() };
        let sender = stream::sender_from(&SenderConfig::default(), controller("reno"), start);
        let receiver = stream::receiver_from(&AckPolicy::default(), None, start);
        let mut world = Loop::new(path, sender, receiver);
        world.sender.write(500 * MSS);
        world.finish(Time::from_millis(100_000));
        let stats = world.sender.stats();
        assert_eq!((world.receiver.bytes_ready(), stats.bytes_delivered), (500 * MSS, 500 * MSS));
        let spy = Spy::default();
        let sender = datagram::sender_from(&SenderConfig::default(), spy.controller(), start);
        let mut world = Loop::new(Path::default(), sender, datagram::receiver(None));
        world.sender.write(500 * MSS);
        world.finish(Time::from_millis(100_000));
        assert_eq!(world.receiver.bytes_ready(), 500 * MSS);
        assert_eq!(spy.notes().sent.first().map(|sent| sent.seq), Some(start));
    }
}

#[test]
fn feedback_reaches_the_controller_and_bad_feedback_is_counted() {
    let (spy, mut world) = world(Notes::default());
    world.sender.write(MSS);
    let segment = world.sender.poll_transmit(Time::ZERO).expect("data");
    world.receiver.on_segment(Time::from_millis(1), &segment, false);
    let mut ack = world.receiver.poll_ack(Time::from_millis(1)).expect("quick");
    ack.feedback = Some([1, 2, 3].into());
    world.sender.on_ack(Time::from_millis(2), &ack);
    ack.feedback = Some([].into());
    world.sender.on_ack(Time::from_millis(3), &ack);
    assert_eq!(spy.notes().blobs, [[1, 2, 3]]);
    assert_eq!(world.sender.stats().bad_feedback, 1);
}
