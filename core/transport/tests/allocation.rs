//! A flow known by its counters allocates nothing in its steady state. One test alone in its program, because the count is
//! global.

use std::alloc::System;

use paceline_cc::{Env, Nanos, Phase, Spec};
use paceline_transport::{Counted, Counters, FlowLimit, Samples, SenderConfig};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const MSS: u64 = 1448;
/// Packets in flight, and those of a report.
const WINDOW: u64 = 100;
const BATCH: u64 = 4;

/// A flow whose every 50th report shows a loss, which is repaired in the next and delivered a round trip later.
struct Feed {
    flow: Counted,
    now: Counters,
    count: u64,
}

impl Feed {
    fn new(spec: &str) -> Self {
        let mut now = Counters::start(MSS as u32);
        now.unsent = u64::MAX / 2;
        now.limit = FlowLimit::Window;
        let controller = spec.parse::<Spec>().expect("a registered controller").build(&Env::default());
        Self { flow: Counted::new(&SenderConfig::default(), controller, &now), now, count: 0 }
    }

    fn step(&mut self) {
        let now = &mut self.now;
        self.count += 1;
        let before = now.at;
        now.at = before + Nanos::from_millis(1);
        now.next += BATCH * MSS;
        now.highest = now.next.saturating_sub(WINDOW * MSS);
        let round = WINDOW / BATCH;
        let hole = self.count >= 50 && self.count % 50 < round;
        if self.count >= 50 && self.count.is_multiple_of(50) {
            now.lost += 1;
            now.recoveries += 1;
        }
        now.resent += u64::from(self.count >= 50 && self.count % 50 == 1);
        if !hole {
            now.una = now.highest;
        }
        now.phase = if hole { Phase::Recovery } else { Phase::Open };
        let packets = (now.highest - now.una) / MSS;
        now.ahead = packets.saturating_sub(1) as u32;
        now.in_flight = ((now.next - now.una) / MSS) as u32 - now.ahead;
        let rtt = Nanos::from_micros(25_000 + self.count % 7 * 100);
        now.rtt = Some(Samples { newest: rtt, least: rtt });
        now.srtt = Some(rtt);
        now.departures = Some((before, now.at));
        self.flow.report(now);
    }
}

#[test]
fn a_report_allocates_nothing_in_the_steady_state() {
    for spec in ["cubic", "copa", "bbr", "verus"] {
        let mut feed = Feed::new(spec);
        (0..60_000).for_each(|_| feed.step());
        assert!(feed.flow.bytes_delivered() > 59_000 * BATCH * MSS);
        // The test program's other thread may allocate meanwhile, but not three times.
        let fewest = (0..3).map(|_| {
            let region = Region::new(ALLOCATOR);
            (0..10_000).for_each(|_| feed.step());
            let change = region.change();
            change.allocations + change.reallocations
        });
        assert_eq!(fewest.min(), Some(0), "{spec}");
    }
}
