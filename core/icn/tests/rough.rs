//! One source over paths that lose, reorder, overflow and stall.

use paceline_cc::{Nanos, Time};
use paceline_icn::{FlowConfig, PacedCeiling, UNIT};

use crate::common::World;

fn ms(millis: u64) -> Time {
    Time::from_millis(millis)
}

fn config() -> FlowConfig {
    FlowConfig::default()
}

/// Loses one in `one_in` packets and holds one in `late_in` back for 2 ms, by a generator of 64 bits.
fn rough(one_in: u64, late_in: u64) -> crate::common::Fate {
    let mut state = 7_u64;
    Box::new(move |_, _| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let draw = state >> 33;
        if draw.is_multiple_of(one_in) {
            return None;
        }
        Some(Nanos::from_micros(if (draw / one_in).is_multiple_of(late_in) { 2000 } else { 0 }))
    })
}

#[test]
fn every_controller_gets_all_over_a_rough_path_with_few_duplicates() {
    for spec in ["bbr", "cubic", "reno", "copa", "bic", "dctcp", "fixed:window=60"] {
        let mut world = World::new(&config(), spec, 20_000);
        world.queue = 200;
        world.fate = rough(100, 100);
        world.run(ms(300_000));
        assert!(world.is_done(), "{spec}: {:?}", world.flow.stats());
        assert_eq!(world.distinct(), 20_000, "{spec}");
        let more = world.arrivals.len() as f64 / 20_000.0;
        assert!(more <= 1.02, "{spec}: {more} {:?}", world.flow.stats());
    }
}

#[test]
fn a_shallow_queue_hurts_no_flow_for_long() {
    for spec in ["bbr", "cubic"] {
        let mut world = World::new(&config(), spec, 60_000);
        world.queue = 80;
        world.run(ms(60_000));
        assert!(world.is_done(), "{spec}: {:?}", world.flow.stats());
        let rate = 60_000.0 * UNIT as f64 * 8e-6 / world.now().as_secs_f64();
        assert!(rate > 80.0, "{spec}: {rate} Mbit/s, {:?}", world.flow.stats());
    }
}

#[test]
fn a_stalled_path_is_not_asked_blindly() {
    for (ceiling, bounded) in
        [(PacedCeiling::Bounded, true), (PacedCeiling::Window, true), (PacedCeiling::Unlimited, false)]
    {
        let mut world = World::new(&FlowConfig { ceiling, ..config() }, "bbr", u64::MAX / UNIT as u64);
        world.run(ms(3000));
        world.fate = Box::new(|_, _| None);
        let product = (world.rate.bytes_in(Nanos::from_millis(20)) / UNIT as u64) as f64;
        let mut most = 0.0_f64;
        while world.step(ms(3180)) {
            most = most.max((world.flow.in_flight() / UNIT as u64) as f64);
        }
        assert_eq!(most <= 3.0 * product + 192.0, bounded, "{ceiling:?}: {most} of {product}");
    }
}

#[test]
fn a_stall_longer_than_the_timer_is_found_to_be_no_loss() {
    for spec in ["bbr", "cubic"] {
        let mut world = World::new(&config(), spec, 60_000);
        world.run(ms(1000));
        // The path stands still for 600 ms, and then delivers what it held, in order.
        let (begin, rate) = (world.now(), world.rate);
        let end = begin + Nanos::from_millis(600);
        let mut count = 0;
        world.fate = Box::new(move |_, _| {
            count += 1;
            let free = begin + rate.time_for(UNIT as u64).mul_div(count, 1);
            Some(end - free.min(end))
        });
        world.run(ms(60_000));
        assert!(world.is_done());
        let stats = world.flow.stats();
        assert!(stats.timeouts > 0 && stats.spurious > 0, "{spec}: {stats:?}");
        let twice = world.arrivals.len() - 60_000;
        assert!(twice < 600, "{spec}: {twice} units came twice: {stats:?}");
    }
}

#[test]
fn one_request_that_is_reordered_makes_the_flow_patient() {
    let mut world = World::new(&config(), "fixed:window=100000,rate=90", 30_000);
    // Every 200th request's data comes 4 ms late as a whole.
    world.fate = Box::new(|number, _| Some(Nanos::from_millis(if (number / 8).is_multiple_of(200) { 4 } else { 0 })));
    world.run(ms(60_000));
    let stats = world.flow.stats();
    assert!(world.is_done() && stats.retransmits < 100, "{stats:?}");
}
