//! An object larger than memory, over a rough path.

use std::cell::Cell;
use std::rc::Rc;

use paceline_cc::{Nanos, Rate, Time};
use paceline_icn::wire::AddressToken;
use paceline_icn::{Fetch, FetchConfig, UNIT};

use crate::common::controller;
use crate::common::origin::{Large, Network, Route};
use crate::fetch::rough;

/// 10 GB from two sources, each of which loses 1 % and holds back 1 %; a third of the way one dies, and at two thirds the other's address
/// changes. Half a minute in a release build: `cargo test --release -p paceline-icn --test tests large -- --ignored`.
#[test]
#[ignore = "10 GB; run by hand, in a release build"]
fn ten_gigabytes_cost_at_most_two_percent_more() {
    let length = 10_000_000_000;
    let object = Rc::new(Large::new(length));
    let mut routes = vec![Route::large(&object), Route::large(&object)];
    for (number, route) in routes.iter_mut().enumerate() {
        (route.fate, route.rate) = (rough(number as u64, 100), Rate::from_mbps(1000.0));
        route.origin.wants_token = true;
    }
    let fetch = Fetch::new(FetchConfig::default(), object.name, 0..u64::MAX, 7);
    let mut network = Network::new(fetch, routes);
    let got = Rc::new(Cell::new(0));
    let (layout, seen) = (object.layout, got.clone());
    network.sink = Some(Box::new(move |offset, bytes| {
        assert_eq!(offset, seen.get(), "in order and without holes");
        for (number, unit) in bytes.chunks(UNIT).enumerate() {
            assert!(*unit == Large::data(&layout, offset / UNIT as u64 + number as u64)[..]);
        }
        seen.set(offset + bytes.len() as u64);
    }));
    let end = Time::from_millis(3_600_000);
    while got.get() < length / 3 && network.step(end) {}
    network.routes[0].fate = Box::new(|_, _| None);
    while got.get() < 2 * length / 3 && network.step(end) {}
    network.routes[1].origin.token = AddressToken([8; 24]);
    network.routes[1].delay = Nanos::from_millis(25);
    let second = network.source(1);
    network.fetch.moved(network.now(), second, controller("bbr"));
    network.run(end);
    assert!(network.fetch.is_done() && got.get() == length, "{:?}", network.fetch.stats());
    let stats = network.fetch.stats();
    let more = stats.bytes_received as f64 / length as f64;
    eprintln!("{more:.5} times the object's bytes, {:.1} s, {stats:?}", network.now().as_secs_f64());
    assert!(more <= 1.02, "{more}");
}
