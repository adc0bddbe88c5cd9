//! Strangers, tokens, and datagrams that a hostile source may send.

use paceline_cc::{Nanos, Time};
use paceline_icn::wire::{AddressToken, Grant, MissingReason, Nack, UnitAnswer, UnitHead, UnitRequest};
use paceline_icn::{Dropped, Fetch, FetchFailed, Output, UNIT, Units};
use proptest::prelude::*;

use crate::common::controller;
use crate::common::origin::{Network, Route, object};
use crate::fetch::fetch;

/// A fetch that has asked for its first units, and its request.
fn asked() -> (Fetch, UnitRequest) {
    let mut fetch = fetch(&object(50_000));
    let source = fetch.add_source(Time::ZERO, controller("fixed:window=100"));
    let mut message = Vec::new();
    assert_eq!(fetch.poll_transmit(Time::ZERO, &mut message), Some(source));
    let request = UnitRequest::decode(&message).expect("a request");
    assert_eq!((message.len(), request.ranges.units()), (1200, 2));
    assert_eq!(fetch.poll_transmit(Time::ZERO, &mut message), None, "one at a time");
    (fetch, request)
}

#[test]
fn strangers_are_not_listened_to() {
    let (mut fetch, request) = asked();
    let source = fetch.source_ids().next().expect("one");
    let now = Time::from_millis(20);
    let data =
        UnitHead { nonce: request.nonce ^ 1, unit: 0, stored_units: None, waited: Nanos::ZERO, app_limited: false };
    let message = |data: UnitHead| [&data.encode_head()[..], &[7; UNIT]].concat();
    assert_eq!(fetch.on_datagram(now, source, &message(data), false), Err(Dropped::Nonce));
    let mut nack = Vec::new();
    Nack {
        nonce: 0,
        units: Units { first: 0, count: u32::MAX },
        reason: MissingReason::NotFound,
        retry_after: Nanos::MAX,
    }
    .encode(&mut nack);
    assert_eq!(fetch.on_datagram(now, source, &nack, false), Err(Dropped::Nonce));
    let data = UnitHead { nonce: request.nonce, unit: 1 << 60, ..data };
    assert_eq!(fetch.on_datagram(now, source, &message(data), false), Err(Dropped::Unsolicited(1 << 60)));
    assert!(matches!(fetch.on_datagram(now, source, &[0x12; 9], false), Err(Dropped::Message(_))));
    let data = UnitHead { unit: 0, ..data };
    assert_eq!(fetch.on_datagram(now, source, &message(data), false), Err(Dropped::Corrupt(0)));
    let stats = fetch.stats();
    assert_eq!((stats.foreign_nonce, stats.malformed, stats.unsolicited, stats.corrupt), (2, 1, 1, 1));
    assert_eq!((stats.bytes, fetch.failure()), (0, None));
}

#[test]
fn tokens_are_repeated_and_lift_the_limit() {
    let (mut fetch, request) = asked();
    let source = fetch.source_ids().next().expect("one");
    let now = Time::from_millis(20);
    let mut grant = Vec::new();
    let token = AddressToken([3; 24]);
    Grant { nonce: request.nonce, token }.encode(&mut grant);
    assert!(matches!(UnitAnswer::decode(&grant), Ok(UnitAnswer::Grant(_))));
    assert_eq!(fetch.on_datagram(now, source, &grant, false), Ok(()));
    let stored = object(50_000).stored;
    for unit in 0..2 {
        let data = UnitHead { nonce: request.nonce, unit, stored_units: None, waited: Nanos::ZERO, app_limited: false };
        let message = [&data.encode_head()[..], &stored[unit as usize * UNIT..][..UNIT]].concat();
        assert_eq!(fetch.on_datagram(now, source, &message, false), Ok(()));
    }
    let mut message = Vec::new();
    let later = Time::from_millis(40);
    assert_eq!(fetch.poll_transmit(later, &mut message), Some(source));
    let next = UnitRequest::decode(&message).expect("a request");
    assert_eq!((next.token, next.padded), (Some(token), 0));
    // Equation 8 for 100 units in 20 ms.
    assert_eq!(next.ranges.units(), 5);
}

proptest! {
    #[test]
    fn no_datagram_is_too_strange(
        datagrams in prop::collection::vec((1..5_u8, prop::collection::vec(any::<u8>(), 0..60), 0..6_u64), 0..60),
    ) {
        let (mut fetch, request) = asked();
        let source = fetch.source_ids().next().expect("one");
        let mut message = Vec::new();
        for (step, (kind, mut bytes, unit)) in datagrams.into_iter().enumerate() {
            // The source itself is hostile: it knows the nonce.
            let now = Time::from_millis(step as u64);
            if bytes.len() > 18 {
                bytes[0] = 0x10 | kind;
                bytes[1] %= 7;
                bytes[2..10].copy_from_slice(&request.nonce.to_be_bytes());
                bytes[10..18].copy_from_slice(&unit.to_be_bytes());
            }
            let _ = fetch.on_datagram(now, source, &bytes, false);
            while fetch.poll_transmit(now, &mut message).is_some() {}
            if fetch.next_timeout() <= now {
                fetch.on_timeout(now);
            }
            let delivered = matches!(fetch.poll_output(), Some(Output::Bytes { .. }));
            prop_assert!(!delivered);
        }
    }
}

#[test]
fn a_token_that_is_no_longer_good_costs_a_round_trip_and_no_endless_loop() {
    let object = object(3_000_000);
    let mut route = Route::new(&object);
    route.origin.wants_token = true;
    let mut network = Network::new(fetch(&object), vec![route]);
    network.run(Time::from_millis(150));
    assert!(!network.fetch.is_done());
    // The router's secrets changed.
    network.routes[0].origin.token = AddressToken([1; 24]);
    let mut steps = 0;
    while !network.fetch.is_done() && network.step(Time::from_millis(60_000)) {
        steps += 1;
        assert!(steps < 200_000, "{:?}", network.now());
    }
    network.run(Time::from_millis(60_000));
    assert!(network.fetch.is_done() && network.bytes(0) == object.bytes);
    assert!(network.now() < Time::from_millis(2000), "{:?}", network.now());
}

#[test]
fn a_router_that_grants_tokens_and_takes_none_is_given_up() {
    let object = object(30_000);
    let mut route = Route::new(&object);
    route.origin.refuses = Some((0, MissingReason::NoToken));
    route.origin.wants_token = true;
    let mut network = Network::new(fetch(&object), vec![route]);
    let mut steps = 0;
    while network.fetch.failure().is_none() && network.step(Time::from_millis(60_000)) {
        steps += 1;
        assert!(steps < 100_000, "{:?}", network.now());
    }
    assert_eq!(network.fetch.failure(), Some(&FetchFailed::Silent));
}
