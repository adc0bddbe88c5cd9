//! A flow allocates nothing in its steady state, and a fetch only what holds the bytes of each unit. One test alone in its program,
//! because the count is global.

use std::alloc::System;
use std::collections::VecDeque;

use paceline_cc::{Controller, Env, Nanos, Spec, Time};
use paceline_icn::wire::{DATA_HEAD, UnitHead};
use paceline_icn::{Builder, Fetch, FetchConfig, FlowConfig, Layout, Output, Ranges, RequestFlow, Supply, UNIT, Units};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn controller(spec: &str) -> Box<dyn Controller> {
    spec.parse::<Spec>().expect("a registered controller").build(&Env::new(UNIT as u32))
}

struct Endless(u64);

impl Supply for Endless {
    fn take(&mut self, most: u32) -> Option<Ranges> {
        let units = Ranges::new(Units { first: self.0, count: most });
        self.0 += u64::from(most);
        units
    }
}

/// The fewest of three counts: the test program's other thread may allocate meanwhile, but not three times.
fn allocations(mut run: impl FnMut()) -> usize {
    (0..3)
        .map(|_| {
            let region = Region::new(ALLOCATOR);
            run();
            let change = region.change();
            change.allocations + change.reallocations
        })
        .min()
        .unwrap_or(0)
}

/// Every millisecond up to ten of the units come that were asked for 20 ms ago or earlier, but for one in a hundred, which is lost.
struct Rounds {
    flow: RequestFlow,
    supply: Endless,
    now: Time,
    asked: VecDeque<(Time, u64)>,
    count: u64,
}

impl Rounds {
    fn round(&mut self) {
        self.now += Nanos::from_millis(1);
        for _ in 0..10 {
            let Some((_, unit)) = self.asked.pop_front_if(|(due, _)| *due <= self.now) else { break };
            self.count += 1;
            if !self.count.is_multiple_of(100) {
                self.flow.on_unit(self.now, unit, UNIT as u32, false, false);
            }
        }
        if self.flow.next_timeout() <= self.now {
            self.flow.on_timeout(self.now);
        }
        while let Some(ranges) = self.flow.poll_request(self.now, &mut self.supply) {
            let due = self.now + Nanos::from_millis(20);
            self.asked.extend(ranges.iter().map(|unit| (due, unit)));
        }
    }
}

fn a_flow_allocates_nothing() {
    for spec in ["cubic", "copa", "bbr", "fixed:window=100"] {
        let flow = RequestFlow::new(&FlowConfig::default(), controller(spec));
        let asked = VecDeque::with_capacity(100_000);
        let mut rounds = Rounds { flow, supply: Endless(0), now: Time::ZERO, asked, count: 0 };
        (0..60_000).for_each(|_| rounds.round());
        let stats = rounds.flow.stats();
        assert!(stats.bytes_delivered > 20_000 * UNIT as u64, "{spec}: {stats:?} {}", rounds.flow.has_given_up());
        assert_eq!(allocations(|| (0..10_000).for_each(|_| rounds.round())), 0, "{spec}");
    }
}

fn a_fetch_allocates_the_bytes_of_each_unit() {
    let length = 60_000 * UNIT as u64;
    let layout = Layout::new(length);
    let mut stored = vec![0; layout.stored_bytes() as usize];
    let mut builder = Builder::new(length, "");
    let mut put = |unit: u64, index: &[u8; UNIT]| {
        stored[unit as usize * UNIT..][..UNIT].copy_from_slice(index);
    };
    for _ in 0..60_000 {
        builder.push(&[0; UNIT], &mut put);
    }
    let manifest = builder.finish(&mut put).expect("as long as it was said to be");
    let mut fetch = Fetch::new(FetchConfig::default(), manifest.name(), 0..u64::MAX, 1);
    let source = fetch.add_source(Time::ZERO, controller("fixed:window=1000"));
    let mut wire = Vec::with_capacity(10_000);
    let (mut message, mut packet) = (Vec::with_capacity(2000), vec![0; DATA_HEAD + UNIT]);
    let mut now = Time::ZERO;
    let mut round = |fetch: &mut Fetch| -> u64 {
        while let Some(asked) = fetch.poll_transmit(now, &mut message) {
            assert_eq!(asked, source);
            let request = paceline_icn::wire::UnitRequest::decode(&message).expect("a request");
            wire.extend(request.ranges.iter().map(|unit| (request.nonce, unit)));
        }
        now += Nanos::from_millis(10);
        let mut units = 0;
        for (nonce, unit) in wire.drain(..) {
            let head = UnitHead { nonce, unit, stored_units: None, waited: Nanos::ZERO, app_limited: false };
            packet[..DATA_HEAD].copy_from_slice(&head.encode_head());
            packet[DATA_HEAD..].copy_from_slice(&stored[unit as usize * UNIT..][..UNIT]);
            fetch.on_datagram(now, source, &packet, false).expect("what was asked for");
            units += 1;
            while let Some(output) = fetch.poll_output() {
                if let Output::Bytes { bytes, .. } = output {
                    fetch.consumed(bytes.len() as u64);
                }
            }
        }
        units
    };
    (0..10).for_each(|_| {
        round(&mut fetch);
    });
    let mut most = 0.0_f64;
    let count = allocations(|| {
        let units: u64 = (0..10).map(|_| round(&mut fetch)).sum();
        most = units as f64;
    });
    // One for the bytes of each unit; one for each index unit's hashes, and the nodes of their map.
    assert!(most > 5000.0 && (count as f64) < 1.06 * most, "{count} for {most}");
    assert_eq!(fetch.flow(source).map(|flow| flow.stats().retransmits), Some(0));
}

#[test]
fn the_steady_state() {
    a_flow_allocates_nothing();
    a_fetch_allocates_the_bytes_of_each_unit();
}
