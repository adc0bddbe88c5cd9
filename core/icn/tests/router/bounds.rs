//! Memory and queues do not grow with receivers or time.

use paceline_cc::Nanos;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;

#[test]
fn a_day_of_a_thousand_receivers_that_come_and_go_leaves_nothing_behind() {
    let config = RouterConfig { upstream: true, ..RouterConfig::new(Rate::from_mbps(100.0)) };
    let mut bench = Bench::new(config);
    let mut random = Pcg64::seed_from_u64(4);
    let mut place = vec![(0_u32, 0_u64); 1000];
    let (mut served, mut largest) = (0_u64, 0);
    // One request a second and a half of a simulated day.
    for step in 0..2 * 24 * 3600_u64 {
        let now = Time::ZERO + Nanos::from_millis(500 * step);
        let receiver = random.random_range(0..place.len());
        if random.random_bool(0.1) {
            place[receiver] = (random.random(), random.random_range(0..900_000));
        }
        let (host, next) = &mut place[receiver];
        let from = address(*host % 10_000_000, 4000);
        *next += 64;
        let (first, of) = (*next, name(if random.random_bool(0.1) { 77 } else { 3 }));
        bench.ask_proved(now, from, of, first, 64);
        largest = largest.max(bench.router.awaited());
        // Upstream answers one time of two.
        while let Some(missing) = bench.router.missing() {
            if random.random_bool(0.5) {
                bench.router.stored(&missing.name, missing.ranges.as_slice()[0], None, &mut |_, _| {});
            }
        }
        let mut at = now;
        while at < now + Nanos::from_millis(500) {
            served += bench.bursts(at).iter().map(|burst| u64::from(burst.units.count)).sum::<u64>();
            at = bench.router.next_timeout();
        }
        assert!(bench.router.queued() <= config.units);
        bench.replies.clear();
    }
    assert!(served > 5_000_000, "{served}");
    assert!(largest <= 64 * 16, "those that upstream never answers leave: {largest}");
}

#[test]
fn memory_is_the_same_for_any_requests() {
    let mut bench = Bench::new(unlimited());
    let memory = bench.router.memory();
    assert!(memory < 16 << 20, "{memory}");
    for host in 0..100_000 {
        bench.ask_proved(Time::from_millis(1), address(host, 1), name(1), 0, 1);
        if host % 100 == 0 {
            bench.bursts(Time::from_millis(1));
        }
        bench.replies.clear();
    }
    assert_eq!(bench.router.memory(), memory);
}
