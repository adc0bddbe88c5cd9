//! An object from one source and from several: what comes out, and what never does.

use paceline_cc::{Nanos, Rate, Time};
use paceline_icn::wire::MissingReason;
use paceline_icn::{Dropped, Fetch, FetchConfig, FetchFailed, Output, UNIT};
use proptest::prelude::*;

use crate::common::origin::{Network, Object, Route, object};

pub(crate) fn secs(seconds: u64) -> Time {
    Time::from_millis(1000 * seconds)
}

pub(crate) fn fetch(object: &Object) -> Fetch {
    Fetch::new(FetchConfig::default(), object.name, 0..u64::MAX, 7)
}

/// Loses one in `one_in` packets, and holds as many back for 2 ms.
pub(crate) fn rough(seed: u64, one_in: u64) -> crate::common::Fate {
    let mut state = seed;
    Box::new(move |_, _| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        match (state >> 33) % one_in {
            0 => None,
            1 => Some(Nanos::from_millis(2)),
            _ => Some(Nanos::ZERO),
        }
    })
}

#[test]
fn objects_of_all_shapes_come_out_as_they_are() {
    for length in [0, 1, 1399, 1400, 1401, 58 * 1400, 58 * 1400 + 1, 300_000, 58 * 58 * 1400 + 5] {
        let object = object(length);
        for wants_token in [false, true] {
            let mut route = Route::new(&object);
            route.origin.wants_token = wants_token;
            let mut network = Network::new(fetch(&object), vec![route]);
            network.run(secs(60));
            assert!(network.fetch.is_done(), "{length}: {:?}", network.fetch.stats());
            assert!(network.bytes(0) == object.bytes, "{length}");
            assert!(matches!(network.outputs.first(), Some(Output::Manifest(found)) if found.length == length as u64));
            assert_eq!(network.outputs.last(), Some(&Output::Done));
            assert_eq!(network.fetch.stats().duplicates, 0);
            assert_eq!(network.routes[0].origin.unproved.1, 0, "two units are all that an unproved address asks for");
        }
    }
}

#[test]
fn parts_of_an_object_need_only_what_is_above_them() {
    let object = object(2_000_000);
    for (start, end) in
        [(0, 10), (1399, 1401), (700_000, 700_001), (1_000_000, 1_300_000), (1_999_999, u64::MAX), (5, 5)]
    {
        let fetch = Fetch::new(FetchConfig::default(), object.name, start..end, 7);
        let mut network = Network::new(fetch, vec![Route::new(&object)]);
        network.run(secs(60));
        assert!(network.fetch.is_done());
        let end = end.min(object.bytes.len() as u64);
        assert!(network.bytes(start) == object.bytes[start as usize..end as usize], "{start}..{end}");
        let data = (end - start).div_ceil(UNIT as u64) + 1;
        // The manifest, an index unit of each level, and one for each 58 units.
        assert!(network.fetch.stats().units <= data + 5 + data.div_ceil(58), "{:?}", network.fetch.stats());
    }
}

#[test]
fn a_range_past_the_end_is_an_error_with_the_length() {
    let object = object(1000);
    let fetch = Fetch::new(FetchConfig::default(), object.name, 1000..2000, 7);
    let mut network = Network::new(fetch, vec![Route::new(&object)]);
    network.run(secs(60));
    assert_eq!(network.fetch.failure(), Some(&FetchFailed::Range { start: 1000, length: 1000 }));
    assert_eq!(network.fetch.next_timeout(), Time::NEVER);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_order_of_arrivals_delivers_the_same_bytes_once(
        lates in prop::collection::vec(0..40_000_u64, 1..64), length in 1..600_000_usize,
    ) {
        let object = object(length);
        let mut route = Route::new(&object);
        let mut twice = 0;
        route.fate = Box::new(move |number, _| {
            twice += 1;
            Some(Nanos::from_micros(lates[(number * 31 + twice) as usize % lates.len()]))
        });
        let mut network = Network::new(fetch(&object), vec![route]);
        network.run(secs(300));
        prop_assert!(network.fetch.is_done(), "{:?}", network.fetch.stats());
        prop_assert!(network.bytes(0) == object.bytes);
        prop_assert_eq!(network.fetch.stats().corrupt, 0);
    }
}

#[test]
fn one_corrupt_unit_is_never_delivered_and_is_asked_for_again() {
    let object = object(3_000_000);
    // A data unit, an index unit, the manifest: once each.
    for bad in [0, 1, 2, 3, 700] {
        let mut route = Route::new(&object);
        let mut left = 1;
        route.origin.damage = Box::new(move |unit, bytes| {
            if unit == bad && left > 0 {
                left -= 1;
                bytes[100] ^= 1;
            }
        });
        let mut network = Network::new(fetch(&object), vec![route]);
        network.run(secs(60));
        assert!(network.fetch.is_done(), "{bad}");
        assert!(network.bytes(0) == object.bytes);
        assert_eq!(network.fetch.stats().corrupt, 1);
        assert!(network.dropped.contains(&Dropped::Corrupt(bad)) || bad > 0);
    }
}

#[test]
fn loss_and_reordering_cost_at_most_two_percent_more_bytes() {
    let object = object(8_000_000);
    let mut route = Route::new(&object);
    route.fate = rough(9, 100);
    let mut network = Network::new(fetch(&object), vec![route]);
    network.run(secs(60));
    assert!(network.bytes(0) == object.bytes);
    let stats = network.fetch.stats();
    let more = stats.bytes_received as f64 / object.stored.len() as f64;
    assert!(more <= 1.02, "{more} {stats:?}");
}

#[test]
fn an_application_that_reads_slowly_slows_the_requests_down() {
    let object = object(3_000_000);
    let mut config = FetchConfig::default();
    config.flow.receive_buffer = 200_000;
    let fetch = Fetch::new(config, object.name, 0..u64::MAX, 7);
    let mut network = Network::new(fetch, vec![Route::new(&object)]);
    network.reads = Some(Rate::from_mbps(8.0));
    let mut ahead = 0;
    let mut steps = 0;
    while !network.fetch.is_done() && network.step(secs(60)) {
        steps += 1;
        let received = network.fetch.stats().bytes;
        ahead = ahead.max(received.saturating_sub((network.now().as_secs_f64() * 1e6) as u64));
        assert!(steps < 1_000_000);
    }
    network.run(secs(60));
    assert!(network.bytes(0) == object.bytes, "{:?}", network.fetch.stats());
    assert!(ahead < 300_000, "{ahead} bytes ahead of the application");
    assert!(network.now() > Time::from_millis(2700), "{:?}", network.now());
    assert_eq!(network.fetch.stats().sources[0].flow.timeouts, 0);
}

#[test]
fn refusals_end_a_fetch_with_their_reason() {
    let object = object(10_000);
    let reasons = [
        (MissingReason::NotFound, FetchFailed::NotFound),
        (MissingReason::Changed, FetchFailed::Changed),
        (MissingReason::Loop, FetchFailed::Loop),
    ];
    for (reason, failed) in reasons {
        let mut route = Route::new(&object);
        route.origin.refuses = Some((0, reason));
        let mut network = Network::new(fetch(&object), vec![route]);
        network.run(secs(60));
        assert_eq!(network.fetch.failure(), Some(&failed));
        assert!(network.now() < secs(1));
        // Another source may have it.
        let mut route = Route::new(&object);
        route.origin.refuses = Some((0, reason));
        let mut network = Network::new(fetch(&object), vec![route, Route::new(&object)]);
        network.run(secs(60));
        assert!(network.fetch.is_done() && network.bytes(0) == object.bytes, "{reason:?}");
    }
    let mut route = Route::new(&object);
    route.fate = Box::new(|_, _| None);
    let mut network = Network::new(fetch(&object), vec![route]);
    network.run(secs(60));
    assert_eq!(network.fetch.failure(), Some(&FetchFailed::Silent));
    assert!(network.now() <= secs(30));
}

#[test]
fn an_object_that_shrank_at_its_source_is_not_waited_for() {
    let object = object(1_000_000);
    let mut route = Route::new(&object);
    route.origin.stored.truncate(500_000);
    let mut network = Network::new(fetch(&object), vec![route]);
    network.run(secs(60));
    assert!(matches!(network.fetch.failure(), Some(FetchFailed::Changed | FetchFailed::Corrupt(_))));
    assert!(network.now() < secs(5));
}

#[test]
fn a_busy_router_is_asked_later() {
    let object = object(200_000);
    let mut network = Network::new(fetch(&object), vec![Route::new(&object)]);
    network.routes[0].origin.refuses = Some((0, MissingReason::Busy));
    network.run(Time::from_millis(100));
    network.routes[0].origin.refuses = None;
    network.run(secs(60));
    assert!(network.fetch.is_done() && network.bytes(0) == object.bytes, "{:?}", network.fetch.stats());
}
