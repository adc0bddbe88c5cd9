//! The record of a signed name, from one source and from several that have different ones.

use ed25519_dalek::SigningKey;
use paceline_cc::{Nanos, Time};
use paceline_icn::name::{Name, NameKind};
use paceline_icn::wire::MissingReason;
use paceline_icn::{BadRecord, Fetch, FetchConfig, FetchFailed, Output, SignedRecord};

use crate::common::origin::{Network, Object, Route};
use crate::fetch::secs;

/// Valid below 1000 s.
fn record(version: u64) -> SignedRecord {
    let key = SigningKey::from_bytes(&[1; 32]);
    let target = Name::new(NameKind::Object, [version as u8; 32]);
    SignedRecord::sign(&key, "news", version, 1000, target).expect("a good label")
}

fn route(version: u64) -> Route {
    let record = record(version);
    Route::new(&Object { bytes: Vec::new(), name: record.name(), stored: record.encode().to_vec() })
}

fn network(known_version: u64, routes: Vec<Route>) -> Network {
    let config = FetchConfig { unix_s: 999, known_version, ..FetchConfig::default() };
    Network::new(Fetch::new(config, record(1).name(), 0..u64::MAX, 7), routes)
}

fn run(mut network: Network) -> Network {
    network.run(secs(60));
    network
}

fn version(network: &Network) -> u64 {
    match network.outputs.as_slice() {
        [Output::Record(record), Output::Done] => record.version,
        other => panic!("{other:?} {:?}", network.fetch.failure()),
    }
}

#[test]
fn one_that_holds_is_taken() {
    let good = run(network(0, vec![route(4)]));
    assert_eq!(good.outputs, [Output::Record(record(4)), Output::Done]);
    let config = FetchConfig { unix_s: 2000, ..FetchConfig::default() };
    let late = run(Network::new(Fetch::new(config, record(4).name(), 0..u64::MAX, 7), vec![route(4)]));
    assert!(matches!(late.fetch.failure(), Some(FetchFailed::Record(BadRecord::Expired { .. }))));
}

#[test]
fn of_several_the_largest_version_wins_in_any_order() {
    for delays in [[1, 200, 30], [200, 1, 30], [30, 200, 1], [10, 10, 10]] {
        for wants_token in [false, true] {
            let mut routes = vec![route(1), route(3), route(2)];
            for (route, delay) in routes.iter_mut().zip(delays) {
                route.delay = Nanos::from_millis(delay);
                route.origin.wants_token = wants_token;
            }
            assert_eq!(version(&run(network(0, routes))), 3, "{delays:?}");
        }
    }
    // The first request to the one that has it is lost.
    let mut routes = vec![route(1), route(2)];
    routes[1].fate = Box::new(|number, _| (number > 0).then_some(Nanos::ZERO));
    assert_eq!(version(&run(network(0, routes))), 2);
}

#[test]
fn a_source_that_says_nothing_or_nothing_good_costs_a_bounded_time() {
    let mut silent = route(9);
    silent.fate = Box::new(|_, _| None);
    let one = run(network(0, vec![route(1), silent]));
    assert_eq!(version(&one), 1);
    assert!(one.now() < Time::from_millis(1600), "{}", one.now());
    for reason in [MissingReason::NotFound, MissingReason::Changed, MissingReason::Busy, MissingReason::NoToken] {
        let mut refuses = route(9);
        refuses.origin.refuses = Some((0, reason));
        let one = run(network(0, vec![refuses, route(1)]));
        assert_eq!(version(&one), 1);
        assert!(one.now() < Time::from_millis(1600), "{reason:?} {}", one.now());
    }
    // A forged one counts for nothing.
    let mut forged = route(9);
    forged.origin.damage = Box::new(|_, bytes| bytes[47] ^= 1);
    assert_eq!(version(&run(network(0, vec![forged, route(1)]))), 1);
}

#[test]
fn none_is_older_than_the_one_that_was_seen() {
    assert_eq!(version(&run(network(2, vec![route(2)]))), 2);
    assert_eq!(version(&run(network(2, vec![route(1), route(3)]))), 3);
    assert_eq!(version(&run(network(2, vec![route(2), route(1)]))), 2);
    let old = run(network(2, vec![route(1)]));
    let older = FetchFailed::Record(BadRecord::Older { version: 1, known: 2 });
    assert_eq!(old.fetch.failure(), Some(&older));
    // That is said, whatever else other sources do.
    for delay in [1, 100] {
        let mut missing = route(1);
        missing.origin.refuses = Some((0, MissingReason::NotFound));
        missing.delay = Nanos::from_millis(delay);
        let old = run(network(2, vec![route(1), missing]));
        assert_eq!(old.fetch.failure(), Some(&older));
    }
}
