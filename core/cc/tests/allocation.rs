//! A controller in its steady state allocates nothing. One test alone in its program, because the count is global.

use std::alloc::System;

use paceline_cc::Spec;
use paceline_cc::registry::CONTROLLERS;
use paceline_cc::testing::steady::Steady;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Packets until every buffer has the size that the path asks for (our choice: 100 s of the feed; Verus learns that long).
const WARM_UP: u64 = 100_000;

#[test]
fn the_steady_state_allocates_nothing() {
    let counting = Region::new(ALLOCATOR);
    drop(std::hint::black_box(vec![0u8; 100]));
    assert!(counting.change().allocations > 0, "the count counts");
    for entry in CONTROLLERS {
        let spec: Spec = entry.name.parse().expect("the bare name parses");
        let mut feed = Steady::new(&spec);
        (0..WARM_UP).for_each(|_| assert!(feed.step() > 0));
        // The test program's other thread may allocate meanwhile, but not three times.
        let fewest = (0..3).map(|_| {
            let region = Region::new(ALLOCATOR);
            (0..20_000).for_each(|_| assert!(feed.step() > 0));
            let change = region.change();
            change.allocations + change.reallocations
        });
        assert_eq!(fewest.min(), Some(0), "{}", entry.name);
    }
}
