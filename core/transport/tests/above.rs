//! Controllers above TCP over the loop-back path.

use std::sync::{Arc, Mutex};

use crate::common::spy::{Notes, Spy};
use crate::common::{Fate, Loop, MSS, Path, controller};
use paceline_cc::{Arrival, Nanos, Pacing, Rate, ReceiverHalf, Time};
use paceline_transport::{AckPolicy, NOT_SENT, SenderConfig, above, stream};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn above_on(path: Path, upper: &str, lower: &str) -> Loop {
    let sender = above::sender(&SenderConfig::default(), controller(upper), controller(lower));
    Loop::new(path, sender, stream::receiver(&AckPolicy::immediate(), None))
}

#[test]
fn the_upper_window_rules_when_it_is_the_smaller() {
    let mut world = above_on(Path::default(), "fixed:window=5", "fixed:window=100");
    world.sender.write(u64::MAX);
    world.run(Time::from_millis(2005), false);
    let stats = world.sender.stats();
    assert_eq!(stats.packets_sent, 5 * 101);
    assert_eq!((stats.limited_below, stats.limited_share()), (0, 0.0));
    assert_eq!(world.sender.in_flight(), 5 * MSS);
}

#[test]
fn tcp_rules_when_it_is_the_smaller_and_the_record_says_so() {
    let mut world = above_on(Path::default(), "fixed:window=50", "fixed:window=5");
    world.sender.write(u64::MAX);
    world.run(Time::from_millis(2005), false);
    let stats = world.sender.stats();
    assert_eq!(stats.packets_sent, 5 * 101);
    assert!(stats.limited_below > 400, "{stats:?}");
    assert!((0.9..=1.0).contains(&stats.limited_share()), "{stats:?}");
    // The time in TCP's own buffer is not a delay of the path, and TCP takes a bounded amount that it cannot send.
    assert_eq!(world.rtt, Some(Nanos::from_millis(20)));
    let waiting = world.sender.in_flight() - 5 * MSS;
    assert!((u64::from(NOT_SENT)..u64::from(NOT_SENT) + MSS).contains(&waiting), "{waiting}");
}

#[test]
fn the_upper_controller_hears_of_a_loss_once_and_answers_it() {
    let spy = Spy::new(Notes { window: 20.0, ..Notes::default() });
    let sender = above::sender(&SenderConfig::default(), spy.controller(), controller("fixed:window=1000"));
    let mut world = Loop::new(Path::default(), sender, stream::receiver(&AckPolicy::immediate(), None));
    world.fate = Box::new(|n, _| Fate { lost: n == 40, ..Fate::default() });
    world.sender.write(300 * MSS);
    world.finish(Time::from_millis(5000));
    let stats = world.sender.stats();
    assert_eq!((stats.retransmits, stats.packets_lost, stats.timeouts), (1, 1, 0));
    let notes = spy.notes();
    assert!(matches!(notes.losses[..], [(_, 1, true)]), "{:?}", notes.losses);
    // What arrived behind it was reported when it arrived, as by any sender; the repair alone is not a sample.
    assert_eq!(notes.acks.iter().map(|ack| ack.packets.len()).sum::<usize>(), 300);
    let rtts: Vec<_> = notes.acks.iter().filter_map(|ack| ack.rtt).collect();
    assert!(rtts.iter().all(|rtt| *rtt == Nanos::from_millis(20)), "{rtts:?}");
    assert!(rtts.len() >= 298, "{}", rtts.len());
}

#[test]
fn the_upper_controller_hears_of_a_time_out_that_was_a_mistake() {
    // Before the first answer TCP waits for a second.
    let path = Path { delay: Nanos::from_millis(1000), ..Path::default() };
    let mut world = above_on(path, "reno", "reno");
    world.sender.write(u64::MAX);
    world.run(Time::from_millis(10_000), false);
    let stats = world.sender.stats();
    assert!(stats.timeouts > 0 && stats.spurious > 0, "{stats:?}");
    assert!(world.sender.window() >= 100 * MSS, "slow start goes on: {}", world.sender.window() / MSS);
}

#[test]
fn what_arrives_behind_a_loss_makes_room() {
    let sent = |lost: usize| {
        let mut world = above_on(Path::default(), "fixed:window=20", "fixed:window=1000");
        world.fate = Box::new(move |n, _| Fate { lost: lost > 0 && n % lost == 0, ..Fate::default() });
        world.sender.write(u64::MAX);
        world.run(Time::from_millis(4005), false);
        world.sender.stats().packets_sent
    };
    // Every tenth packet is lost, two of each window; each costs its own place for a round trip, not the window's.
    let (whole, lossy) = (sent(0), sent(10));
    assert!(lossy * 100 > whole * 70, "{lossy} of {whole}");
}

#[test]
fn a_time_out_of_tcp_reaches_the_upper_controller() {
    let mut world = above_on(Path::default(), "reno", "fixed:window=1000");
    world.fate = Box::new(|n, _| Fate { lost: (40..200).contains(&n), ..Fate::default() });
    world.sender.write(300 * MSS);
    world.finish(Time::from_millis(600_000));
    assert!(world.sender.stats().timeouts > 0);
    let mut ssthresh = false;
    world.sender.controller().describe(&mut |name, _| ssthresh |= name == "ssthresh_packets");
    assert!(ssthresh, "a timeout reduces");
}

/// Writes down the note on each chunk and answers with the last one.
#[derive(Clone, Default)]
struct Notary(Arc<Mutex<Vec<(u64, u64)>>>);

impl ReceiverHalf for Notary {
    fn on_arrival(&mut self, arrival: &Arrival) {
        if arrival.bytes > 0 {
            self.0.lock().expect("no panic").push((arrival.seq, arrival.note));
        }
    }

    fn feedback(&mut self, _now: Time, blob: &mut Vec<u8>) -> bool {
        blob.push(1);
        true
    }

    fn describe(&self, _report: &mut dyn FnMut(&'static str, f64)) {}
}

#[test]
fn a_receiver_half_is_served_through_tcp() {
    let spy = Spy::new(Notes { window: 8.0, heartbeat: Some(Nanos::from_millis(50)), ..Notes::default() });
    let sender = above::sender(&SenderConfig::default(), spy.controller(), controller("reno"));
    let notary = Notary::default();
    let path = Path { data_loss: 0.05, seed: 5, ..Path::default() };
    let mut world = Loop::new(path, sender, stream::receiver(&AckPolicy::immediate(), Some(Box::new(notary.clone()))));
    world.sender.write(300 * MSS);
    world.finish(Time::from_millis(60_000));
    world.run(world.now + Nanos::from_millis(500), false);
    assert!(world.sender.stats().retransmits > 0);
    let notes = spy.notes();
    // Each arrival, repairs included, carries the note of its chunk.
    let chunks: Vec<_> = (1..).zip(&notes.sent).filter(|(_, sent)| sent.bytes > 0).map(|(n, s)| (s.seq, n)).collect();
    assert_eq!(chunks.len(), 300);
    let arrivals = notary.0.lock().expect("no panic");
    assert!(arrivals.len() >= 300 && arrivals.iter().all(|arrival| chunks.binary_search(arrival).is_ok()));
    assert!(notes.sent.len() >= 308, "heartbeats");
    assert!(notes.blobs.len() > 250);
    assert_eq!(notes.acks.iter().map(|ack| ack.packets.len()).sum::<usize>(), 300);
    assert!(!notes.losses.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_path_does_the_stream_arrives(
        seed in any::<u64>(),
        data_loss in 0.0..0.2f64,
        ack_loss in 0.0..0.2f64,
        late_ms in 0u64..50,
        writes in prop::collection::vec(1u64..5000, 1..60),
    ) {
        let path = Path { seed, data_loss, ack_loss, reorder: 0.1, late: Nanos::from_millis(late_ms), ..Path::default() };
        let mut world = above_on(path, "fixed:window=20", "reno");
        let mut total = 0;
        for bytes in writes {
            world.sender.write(bytes);
            total += bytes;
            world.run(world.now + Nanos::from_millis(3), false);
        }
        world.finish(Time::from_millis(2_000_000));
        prop_assert_eq!(world.receiver.bytes_ready(), total);
        prop_assert_eq!(world.sender.in_flight(), 0);
    }
}

/// A link of a packet a millisecond and a buffer of 10 packets, 20 ms; the window of 60 loses half of what it sends.
#[test]
fn no_rate_is_measured_of_holes() {
    for upper in [15.0, 30.0, 60.0, 200.0] {
        let spy = Spy::new(Notes {
            window: upper,
            pacing: |_| Pacing::Rate(Rate::from_bytes_per_sec(2000 * MSS)),
            ..Notes::default()
        });
        let sender = above::sender(&SenderConfig::default(), spy.controller(), controller("fixed:window=5000"));
        let mut world = Loop::new(Path::default(), sender, stream::receiver(&AckPolicy::immediate(), None));
        let mut free = Time::ZERO;
        world.fate = Box::new(move |_, segment| {
            let now = segment.sent_at;
            let start = free.max(now);
            if start - now >= Nanos::from_millis(10) {
                return Fate { lost: true, ..Fate::default() };
            }
            free = start + Nanos::from_millis(1);
            Fate { later: free - now, ..Fate::default() }
        });
        world.sender.write(u64::MAX);
        world.run(Time::from_millis(4000), false);
        let notes = spy.notes();
        let rates: Vec<f64> =
            notes.acks.iter().filter_map(|ack| Some(ack.rate?.rate().as_bytes_per_sec() as f64)).collect();
        let (most, link) = (rates.iter().copied().fold(0.0, f64::max), 1000.0 * MSS as f64);
        assert!(rates.len() > 500, "{upper}: {}", rates.len());
        assert!(most <= 1.02 * link, "{upper}: {:.3} of the link", most / link);
    }
}
