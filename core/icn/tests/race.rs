//! An object from sources that are not alike: one that is slower never makes the fetch slower.

use paceline_cc::{Nanos, Rate, Time};

use crate::common::origin::{Network, Object, Route, object};
use crate::fetch::{fetch, secs};

/// Rate in Mbit/s and RTT in ms.
type Path = (f64, u64);

fn network(object: &Object, paths: &[Path]) -> Network {
    let mut network = Network::new(fetch(object), paths.iter().map(|_| Route::new(object)).collect());
    for ((mbps, rtt_ms), route) in paths.iter().zip(&mut network.routes) {
        route.rate = Rate::from_mbps(*mbps);
        route.delay = Nanos::from_micros(rtt_ms * 500);
        route.origin.wants_token = true;
    }
    network
}

/// How long the fetch takes, and which part of the units came twice.
fn took(object: &Object, paths: &[Path]) -> (f64, f64) {
    let mut network = network(object, paths);
    network.run(secs(600));
    let stats = network.fetch.stats();
    assert!(network.fetch.is_done() && network.bytes(0) == object.bytes, "{paths:?}: {stats:?}");
    (network.now().as_secs_f64(), stats.duplicates as f64 / stats.units as f64)
}

/// With others a fetch takes as long as from the fastest alone at most, and an eighth of its RTT, in which it is seen who is late.
fn never_slower(length: usize, fast: Path, others: &[&[Path]]) {
    let object = object(length);
    let (alone, _) = took(&object, &[fast]);
    let most = alone * 1.01 + fast.1 as f64 * 1e-3 / 8.0 + 2e-3;
    for others in others {
        let first: &[Path] = &[fast];
        for order in [[first, others].concat(), [others, first].concat()] {
            let (both, _) = took(&object, &order);
            assert!(both <= most, "{length} bytes, {order:?}: {both} s, alone {alone} s");
        }
    }
}

#[test]
fn a_slower_source_never_makes_a_fetch_slower() {
    let slow: [&[Path]; 8] = [
        &[(10.0, 60)],
        &[(1.0, 60)],
        &[(0.1, 60)],
        &[(0.1, 600)],
        &[(0.01, 600)],
        &[(1.0, 2000)],
        &[(20.0, 200), (0.5, 100)],
        &[(39.0, 30), (0.2, 2)],
    ];
    for length in [100_000, 1_000_000, 10_000_000] {
        never_slower(length, (40.0, 20), &slow);
    }
    for length in [100_000, 1_000_000, 10_000_000] {
        never_slower(length, (400.0, 2), &[&[(1.0, 200)], &[(100.0, 50)], &[(10.0, 2), (1.0, 20)]]);
    }
    never_slower(300_000, (4.0, 200), &[&[(0.1, 200)], &[(4.0, 800)], &[(0.5, 2)]]);
}

#[test]
fn few_units_come_twice() {
    let object = object(10_000_000);
    for paths in [&[(40.0, 20), (40.0, 20)][..], &[(40.0, 20), (30.0, 25), (20.0, 40)], &[(40.0, 20), (10.0, 60)]] {
        let (_, twice) = took(&object, paths);
        // Two units each at the start, and what the slower one has on its way at the end: two round trips of it.
        let slow = paths.last().map_or(0.0, |(mbps, rtt)| 2.0 * mbps * *rtt as f64 * 125.0);
        assert!(twice <= (2.0 * paths.len() as f64 * 1400.0 + slow) / 10e6, "{paths:?}: {twice}");
    }
}

#[test]
fn sources_that_are_alike_add_up() {
    for rtt in [2, 20, 200] {
        let object = object(10_000_000);
        let ((one, _), (two, twice)) = (took(&object, &[(40.0, rtt)]), took(&object, &[(40.0, rtt), (40.0, rtt)]));
        // Half of the time, but for the start.
        assert!(two < 0.55 * one + 4.0 * rtt as f64 * 1e-3 && twice < 0.002, "{rtt} ms: {one} s, {two} s, {twice}");
    }
}

/// 40 and 20 Mbit/s; one of them gets a rate of 50 kbit/s, or dies, at any time: the fetch takes no longer than the other needs for what is
/// left then, and half a second, in which it is found out.
#[test]
fn a_source_that_turns_slow_or_dies_is_left() {
    for length in [1_000_000, 10_000_000] {
        let object = object(length);
        for (bad, rest) in [(0, 20.0), (1, 40.0)] {
            for at_ms in [30, 70, 150, 700, 1200] {
                for dies in [false, true] {
                    let mut network = network(&object, &[(40.0, 20), (20.0, 20)]);
                    network.run(Time::from_millis(at_ms));
                    if network.fetch.is_done() {
                        continue;
                    }
                    let left = object.stored.len() as u64 - network.fetch.stats().bytes;
                    if dies {
                        network.routes[bad].fate = Box::new(|_, _| None);
                    } else {
                        network.routes[bad].rate = Rate::from_mbps(0.05);
                    }
                    network.run(secs(600));
                    assert!(network.bytes(0) == object.bytes);
                    let took = network.now().as_secs_f64() - at_ms as f64 * 1e-3;
                    let most = left as f64 * 8e-6 / rest + 0.5;
                    assert!(took < most, "{length} bytes, {bad} at {at_ms} ms, dies: {dies}: {took} s of {most} s");
                }
            }
        }
    }
}
