//! Streams over the loop-back path.

use crate::common::{Fate, Loop, MSS, Path, controller};
use paceline_cc::{Nanos, Time};
use paceline_transport::{AckPolicy, SenderConfig, stream};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn stream_on(path: Path, spec: &str) -> Loop {
    Loop::new(
        path,
        stream::sender(&SenderConfig::default(), controller(spec)),
        stream::receiver(&AckPolicy::default(), None),
    )
}

#[test]
fn a_clean_path_needs_no_repair() {
    for spec in ["fixed:window=20", "reno"] {
        let mut world = stream_on(Path::default(), spec);
        world.sender.write(1000 * MSS + 17);
        world.finish(Time::from_millis(5000));
        let stats = world.sender.stats();
        assert_eq!(world.receiver.bytes_ready(), 1000 * MSS + 17);
        assert_eq!(stats.bytes_sent, 1000 * MSS + 17);
        assert_eq!((stats.retransmits, stats.packets_lost, stats.timeouts, stats.probes), (0, 0, 0, 0));
        assert_eq!(world.sender.in_flight(), 0);
        // Nothing follows the last packet, so its acknowledgement is delayed.
        assert_eq!(world.rtt, Some(Nanos::from_millis(60)));
    }
}

#[test]
fn one_loss_is_repaired_once() {
    let mut world = stream_on(Path::default(), "reno");
    world.fate = Box::new(|n, _| Fate { lost: n == 25, ..Fate::default() });
    world.sender.write(200 * MSS);
    world.finish(Time::from_millis(5000));
    let stats = world.sender.stats();
    assert_eq!((stats.retransmits, stats.packets_lost, stats.recoveries, stats.timeouts), (1, 1, 1, 0));
    assert_eq!(stats.spurious, 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_path_does_the_stream_arrives(
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
        let mut world = stream_on(path, if reno { "reno" } else { "fixed:window=30" });
        world.sender.write(bytes);
        world.finish(Time::from_millis(2_000_000));
        let stats = world.sender.stats();
        prop_assert_eq!(world.receiver.bytes_ready(), bytes);
        prop_assert_eq!(world.sender.in_flight(), 0);
        prop_assert_eq!(stats.bytes_delivered, bytes);
        let resent: u64 = world.sent.iter().filter(|(_, s)| s.retransmission).map(|(_, s)| u64::from(s.bytes)).sum();
        prop_assert_eq!(stats.bytes_sent, bytes + resent);
        prop_assert!(stats.spurious <= stats.packets_lost);
    }
}
