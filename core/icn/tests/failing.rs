//! An object from two sources or more, of which one is honest and the others fail in all ways: it comes whole, and soon.

use paceline_cc::{Nanos, Time};
use paceline_icn::wire::{AddressToken, MissingReason};
use proptest::prelude::*;

use crate::common::controller;
use crate::common::origin::{Damage, Network, Object, Route, object};
use crate::fetch::{fetch, rough, secs};

/// Datagrams wait so long at the requester that several requests leave before each is looked at.
const LAG: Nanos = Nanos::from_millis(3);

/// A way to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failing {
    /// It does not.
    Not,
    /// A byte of some units is another.
    Byte,
    /// Some units are a byte too short.
    Short,
    /// All units are empty.
    Empty,
    /// Units are exchanged for their neighbours.
    Exchanged,
    /// Every unit is refused for this reason.
    Refuses(MissingReason),
    /// It is busy, for as long as can be said.
    BusyForLong,
    /// Nothing comes any more.
    Silent,
    /// It begins anew, and knows its tokens no more.
    Reset,
    /// The requester reaches it from another address.
    Moved,
}

const ALL: [Failing; 14] = [
    Failing::Not,
    Failing::Byte,
    Failing::Short,
    Failing::Empty,
    Failing::Exchanged,
    Failing::Refuses(MissingReason::NotFound),
    Failing::Refuses(MissingReason::End),
    Failing::Refuses(MissingReason::Busy),
    Failing::Refuses(MissingReason::NoToken),
    Failing::Refuses(MissingReason::Changed),
    Failing::Refuses(MissingReason::Loop),
    Failing::BusyForLong,
    Failing::Silent,
    Failing::Reset,
];

fn damage(object: &Object, failing: Failing) -> Damage {
    let stored = object.stored.clone();
    match failing {
        Failing::Byte => Box::new(|unit, bytes| bytes[0] ^= u8::from(unit % 3 == 2)),
        Failing::Short => Box::new(|unit, bytes| bytes.truncate(bytes.len() - usize::from(unit % 3 == 2))),
        Failing::Empty => Box::new(|_, bytes| bytes.clear()),
        Failing::Exchanged => Box::new(move |unit, bytes| {
            let start = (unit as usize ^ 1) * paceline_icn::UNIT;
            if let Some(other) = stored.get(start..stored.len().min(start + paceline_icn::UNIT)) {
                *bytes = other.to_vec();
            }
        }),
        _ => Box::new(|_, _| {}),
    }
}

/// From now on the source fails so, if it does, for units from `from` on.
fn begin(network: &mut Network, index: usize, object: &Object, failing: Failing, from: u64) {
    let (now, source) = (network.now(), network.source(index));
    let route = &mut network.routes[index];
    route.origin.damage = damage(object, failing);
    route.origin.refuses = None;
    route.origin.busy_for = Nanos::ZERO;
    route.fate = Box::new(|_, _| Some(Nanos::ZERO));
    match failing {
        Failing::Refuses(reason) => route.origin.refuses = Some((from, reason)),
        Failing::BusyForLong => {
            route.origin.refuses = Some((from, MissingReason::Busy));
            route.origin.busy_for = Nanos::from_secs(4000);
        }
        Failing::Silent => route.fate = Box::new(|_, _| None),
        Failing::Reset => route.origin.token = AddressToken([from as u8; 24]),
        Failing::Moved => {
            route.origin.token = AddressToken([from as u8; 24]);
            network.fetch.moved(now, source, controller("bbr"));
        }
        Failing::Not | Failing::Byte | Failing::Short | Failing::Empty | Failing::Exchanged => {}
    }
}

fn network(object: &Object, sources: usize) -> Network {
    let mut routes: Vec<Route> = (0..sources).map(|_| Route::new(object)).collect();
    routes.iter_mut().for_each(|route| route.origin.wants_token = true);
    let mut network = Network::new(fetch(object), routes);
    network.lag = LAG;
    network
}

#[test]
fn a_source_that_fails_in_the_middle_costs_no_more_than_the_other_needs() {
    let object = object(6_000_000);
    let mut alone = network(&object, 1);
    alone.run(secs(60));
    for (number, failing) in ALL.into_iter().chain([Failing::Moved]).enumerate() {
        for (bad, at) in [(0, 60), (1, 60), (0, 200), (1, 300)] {
            let mut network = network(&object, 2);
            network.run(Time::from_millis(at));
            assert!(!network.fetch.is_done(), "{failing:?} at {at} ms");
            begin(&mut network, bad, &object, failing, number as u64);
            network.run(secs(120));
            assert!(network.fetch.is_done(), "{failing:?} at {at} ms: {:?}", network.fetch.stats());
            assert!(network.bytes(0) == object.bytes, "{failing:?}");
            let (took, most) = (network.now(), alone.now() + Nanos::from_secs(1));
            assert!(took < most, "{failing:?} at {at} ms: {took}, alone {} {:?}", alone.now(), network.fetch.stats());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn whole_while_one_is_honest(
        sources in 2..5_usize,
        honest in 0..5_usize,
        length in 1..2_000_000_usize,
        schedule in prop::collection::vec((0..120_u64, 0..4_usize, 0..=ALL.len(), 0..1500_u64), 0..12),
        seed in any::<u64>(),
    ) {
        let object = object(length);
        let mut network = network(&object, sources);
        let honest = honest % sources;
        network.routes[honest].fate = rough(seed, 50);
        let mut at = Time::ZERO;
        for (later, index, failing, from) in schedule {
            at += Nanos::from_millis(later);
            network.run(at);
            if index % sources != honest {
                let failing = ALL.get(failing).copied().unwrap_or(Failing::Moved);
                begin(&mut network, index % sources, &object, failing, from);
            }
        }
        network.run(at + Nanos::from_secs(30));
        prop_assert!(network.fetch.is_done(), "{:?}", network.fetch.stats());
        prop_assert!(network.bytes(0) == object.bytes);
    }
}
