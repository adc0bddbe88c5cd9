//! An object from several sources: what one costs the others that is slow, dead or lies.

use paceline_cc::{Nanos, Time};
use paceline_icn::FetchFailed;
use paceline_icn::wire::AddressToken;

use crate::common::controller;
use crate::common::origin::{Network, Route, object};
use crate::fetch::{fetch, rough, secs};

#[test]
fn a_source_that_lies_is_dropped_and_the_other_one_serves() {
    let object = object(1_000_000);
    let mut liar = Route::new(&object);
    liar.origin.damage = Box::new(|unit, bytes| bytes[0] ^= u8::from(unit % 3 == 2));
    let mut network = Network::new(fetch(&object), vec![liar, Route::new(&object)]);
    network.run(secs(60));
    assert!(network.fetch.is_done() && network.bytes(0) == object.bytes);
    let stats = network.fetch.stats();
    assert!(!stats.sources[0].alive && stats.sources[1].alive && stats.sources[1].corrupt == 0, "{stats:?}");
    let mut liar = Route::new(&object);
    liar.origin.damage = Box::new(|unit, bytes| bytes[0] ^= u8::from(unit % 3 == 2));
    let mut alone = Network::new(fetch(&object), vec![liar]);
    alone.run(secs(60));
    assert!(matches!(alone.fetch.failure(), Some(FetchFailed::Corrupt(_))), "{:?}", alone.fetch.stats());
    assert!(object.bytes.starts_with(&alone.bytes(0)));
}

#[test]
fn one_source_dies_and_one_moves_under_loss_and_reordering() {
    let object = object(8_000_000);
    let mut routes = vec![Route::new(&object), Route::new(&object)];
    routes[0].fate = rough(3, 100);
    routes[1].fate = rough(4, 100);
    routes[1].delay = Nanos::from_millis(15);
    routes[1].origin.wants_token = true;
    let mut network = Network::new(fetch(&object), routes);
    network.run(Time::from_millis(400));
    assert!(!network.fetch.is_done() && network.got.len() > 300);
    network.routes[0].fate = Box::new(|_, _| None);
    network.run(Time::from_millis(700));
    // Another address: the token of the old one is worth nothing.
    network.routes[1].origin.token = AddressToken([8; 24]);
    let second = network.source(1);
    network.fetch.moved(network.now(), second, controller("bbr"));
    network.run(secs(60));
    assert!(network.fetch.is_done(), "{:?}", network.fetch.stats());
    assert!(network.bytes(0) == object.bytes);
    let stats = network.fetch.stats();
    let more = stats.bytes_received as f64 / object.stored.len() as f64;
    assert!(more <= 1.02, "{more} {stats:?}");
    assert!(stats.reassigned > 0 && network.now() < secs(10), "{:?} {stats:?}", network.now());
}

#[test]
fn a_source_that_never_answers_costs_a_few_round_trips() {
    for length in [1000, 4_000_000] {
        let object = object(length);
        let mut alone = Network::new(fetch(&object), vec![Route::new(&object)]);
        alone.run(secs(60));
        // Dead ones before, behind and around the one that answers.
        for (routes, alive) in [(2, 0), (2, 1), (3, 1), (5, 4)] {
            let mut network = Network::new(fetch(&object), (0..routes).map(|_| Route::new(&object)).collect());
            for (at, route) in network.routes.iter_mut().enumerate() {
                if at != alive {
                    route.fate = Box::new(|_, _| None);
                }
                route.origin.wants_token = true;
            }
            network.run(secs(60));
            assert!(network.bytes(0) == object.bytes);
            let (took, late) = (network.now(), alone.now() + Nanos::from_millis(60));
            assert!(took < late, "{length}, {alive} of {routes}: {took} {:?}", network.fetch.stats());
            assert_eq!(network.fetch.stats().duplicates, 0);
        }
    }
}

#[test]
fn sources_that_all_answer_cost_two_units_each_at_the_start() {
    let object = object(4_000_000);
    let mut network = Network::new(fetch(&object), (0..4).map(|_| Route::new(&object)).collect());
    for (delay, route) in [10, 40, 100, 300].into_iter().zip(&mut network.routes) {
        route.delay = Nanos::from_millis(delay);
        route.origin.wants_token = true;
    }
    network.run(secs(60));
    assert!(network.bytes(0) == object.bytes);
    let stats = network.fetch.stats();
    // And at the end what the slower ones had on their way: a round trip of 80 ms is a quarter of the time that the fetch takes.
    assert!(stats.duplicates <= 60, "{stats:?}");
    assert!(stats.sources.iter().take(3).all(|source| source.requests > 3), "{stats:?}");
}

#[test]
fn two_sources_are_faster_than_one_and_nothing_comes_twice() {
    let object = object(8_000_000);
    let time = |routes: usize| {
        let mut network = Network::new(fetch(&object), (0..routes).map(|_| Route::new(&object)).collect());
        network.run(secs(60));
        assert!(network.bytes(0) == object.bytes);
        let stats = network.fetch.stats();
        assert!(stats.duplicates as f64 <= 0.002 * stats.units as f64, "{stats:?}");
        network.now().as_secs_f64()
    };
    let (one, two) = (time(1), time(2));
    assert!(two < 0.65 * one, "{one} s, {two} s");
}
