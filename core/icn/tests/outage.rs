//! One source over a path that is dark for a while: the flow goes on soon after.

use paceline_cc::{Nanos, Rate, Time};
use paceline_icn::{FlowConfig, RequestFlow, UNIT};

use crate::common::{Row, World, controller};

const SPECS: [&str; 9] =
    ["bbr", "cubic", "reno", "copa", "bic", "dctcp", "cubic:start=chirp", "fixed:window=60", "fixed:window=1"];

fn ms(millis: u64) -> Time {
    Time::from_millis(millis)
}

/// 20 Mbit/s and 40 ms with a queue of two of their products, and an object without end.
fn world(spec: &str) -> World {
    let mut world = World::new(&FlowConfig::default(), spec, u64::MAX / UNIT as u64);
    world.rate = Rate::from_mbps(20.0);
    world.delay = Nanos::from_millis(20);
    world.queue = 140;
    world
}

/// Everything is lost for `dark`.
fn darkness(world: &mut World, dark: Nanos) {
    world.fate = Box::new(|_, _| None);
    world.run(world.now() + dark);
    world.fate = Box::new(|_, _| Some(Nanos::ZERO));
}

/// Mean Mbit/s over the next `seconds`.
fn mbps(world: &mut World, seconds: u64) -> f64 {
    let before = world.flow.stats().bytes_delivered;
    world.run(world.now() + Nanos::from_secs(seconds));
    (world.flow.stats().bytes_delivered - before) as f64 * 8e-6 / seconds as f64
}

#[test]
fn an_outage_is_over_a_second_after_it_is() {
    for spec in SPECS {
        for dark_ms in [300, 1000, 3000, 9500, 10_000, 20_000, 30_000] {
            let mut world = world(spec);
            world.run(ms(4000));
            let before = mbps(&mut world, 6);
            darkness(&mut world, Nanos::from_millis(dark_ms));
            assert!(!world.flow.has_given_up(), "{spec}, {dark_ms} ms");
            let first = mbps(&mut world, 2);
            assert!(first > 0.0, "{spec}, {dark_ms} ms: nothing in 2 s");
            let after = mbps(&mut world, 8);
            assert!(after > 0.7 * before, "{spec}, {dark_ms} ms: {after} Mbit/s, {before} before");
        }
    }
}

#[test]
fn outages_in_a_row_are_as_many_single_ones() {
    for spec in SPECS {
        let mut world = world(spec);
        world.run(ms(4000));
        let before = mbps(&mut world, 6);
        for dark_ms in [2000, 300, 10_000, 1000, 5000, 30_000, 700] {
            darkness(&mut world, Nanos::from_millis(dark_ms));
            mbps(&mut world, 1);
        }
        mbps(&mut world, 1);
        let after = mbps(&mut world, 8);
        assert!(after > 0.7 * before, "{spec}: {after} Mbit/s, {before} before");
    }
}

/// The path keeps what was on its way and delivers it in the end, as a radio does.
#[test]
fn what_waited_for_the_end_of_an_outage_is_no_measure_of_the_path() {
    for spec in SPECS {
        let mut world = world(spec);
        world.run(ms(10_000));
        let (begin, srtt) = (world.now(), world.flow.srtt().expect("measured"));
        let (end, rate) = (begin + Nanos::from_secs(10), world.rate);
        let mut count = 0;
        world.fate = Box::new(move |_, _| {
            count += 1;
            let free = begin + rate.time_for(UNIT as u64).mul_div(count, 1);
            Some(end - free.min(end))
        });
        world.run(end);
        world.fate = Box::new(|_, _| Some(Nanos::ZERO));
        world.run(end + Nanos::from_millis(500));
        assert!(
            world.flow.srtt().expect("measured") < srtt + Nanos::from_millis(200),
            "{spec}: {:?}",
            world.flow.srtt()
        );
        assert!(world.flow.rto() < Nanos::from_secs(1), "{spec}: {}", world.flow.rto());
        let after = mbps(&mut world, 8);
        assert!(after > if spec == "fixed:window=1" { 0.2 } else { 10.0 }, "{spec}: {after} Mbit/s");
    }
}

/// The first RTT is longer than the first timeout: the doubled timeout stays until a unit gives one.
#[test]
fn a_path_slower_than_the_first_timeout_is_used() {
    // The longer the round trip, the more of the time goes by before the window is large.
    for (kbps, delay_ms, least) in [(10.0, 20, 0.8), (20.0, 20, 0.8), (1000.0, 700, 0.8), (1000.0, 2500, 0.5)] {
        for spec in ["bbr", "cubic", "reno", "copa"] {
            let mut world = World::new(&FlowConfig::default(), spec, u64::MAX / UNIT as u64);
            world.rate = Rate::from_mbps(kbps / 1000.0);
            world.delay = Nanos::from_millis(delay_ms);
            world.run(ms(120_000));
            let stats = world.flow.stats();
            assert!(stats.timeouts <= 6, "{spec}, {kbps} kbit/s, {delay_ms} ms: {stats:?}");
            let used = stats.bytes_delivered as f64 * 8e-3 / 120.0 / kbps;
            assert!(used > least, "{spec}, {kbps} kbit/s, {delay_ms} ms: {used} {stats:?}");
        }
    }
}

/// The RTT grows from 40 ms to 1.5 s, above the longest of timeouts that are repeated: units that come twice lengthen them.
#[test]
fn a_path_that_becomes_slower_than_the_longest_timeout_is_waited_for() {
    for spec in ["bbr", "cubic", "fixed:window=1", "fixed:window=3"] {
        let mut world = world(spec);
        world.run(ms(5000));
        world.delay = Nanos::from_millis(750);
        world.run(ms(25_000));
        let before = world.flow.stats().timeouts;
        world.run(ms(60_000));
        let more = world.flow.stats().timeouts - before;
        assert!(more <= 1, "{spec}: {more} {:?}", world.flow.stats());
    }
}

#[test]
fn a_source_that_answered_is_waited_for_twice_as_long() {
    let mut flow = RequestFlow::new(&FlowConfig::default(), controller("fixed:window=1000"));
    let mut row = Row { next: 0, end: 10 };
    while flow.poll_request(Time::ZERO, &mut row).is_some() {}
    flow.on_unit(ms(20), 0, UNIT as u32, false, false).expect("asked for");
    let mut repeats = Vec::new();
    while !flow.has_given_up() {
        let now = flow.next_timeout();
        flow.on_timeout(now);
        while flow.poll_request(now, &mut row).is_some() {}
        repeats.push(now);
    }
    assert_eq!(repeats.last(), Some(&ms(60_020)));
    let longest = repeats.windows(2).map(|pair| pair[1] - pair[0]).max().expect("several");
    assert!(longest <= Nanos::from_secs(1), "{longest}");
}

/// Silence counts when three repeats were not answered, each of which had its time.
#[test]
fn a_slow_source_is_not_given_up_before_it_can_answer() {
    let mut flow = RequestFlow::new(&FlowConfig::default(), controller("fixed:window=1"));
    let mut row = Row { next: 0, end: 10 };
    while flow.poll_request(Time::ZERO, &mut row).is_some() {}
    flow.on_unit(ms(25_000), 0, UNIT as u32, false, false).expect("asked for");
    while flow.poll_request(ms(25_000), &mut row).is_some() {}
    assert!(flow.rto() > Nanos::from_secs(60));
    while !flow.has_given_up() {
        let now = flow.next_timeout();
        flow.on_timeout(now);
        while flow.poll_request(now, &mut row).is_some() {}
    }
    assert_eq!(flow.stats().timeouts, 3);
}

/// A timer that was too early says nothing of the order of arrivals: a hole is lost at the sixth later arrival as before.
#[test]
fn an_early_timer_makes_the_flow_no_more_patient() {
    let mut flow = RequestFlow::new(&FlowConfig::default(), controller("fixed:window=1000"));
    let mut row = Row { next: 0, end: 20 };
    while flow.poll_request(Time::ZERO, &mut row).is_some() {}
    flow.on_timeout(ms(1000));
    for unit in 0..20 {
        flow.on_unit(ms(1500), unit, UNIT as u32, false, false).expect("asked for");
    }
    assert!(flow.stats().spurious > 0 && flow.is_idle());
    row.end = 40;
    while flow.poll_request(ms(1500), &mut row).is_some() {}
    for unit in 21..27 {
        flow.on_unit(ms(3000), unit, UNIT as u32, false, false).expect("asked for");
    }
    assert_eq!(flow.poll_request(ms(3000), &mut row).map(|ranges| ranges.iter().collect::<Vec<_>>()), Some(vec![20]));
}
