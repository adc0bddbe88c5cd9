//! Floods.

use std::collections::BTreeMap;

use paceline_cc::Nanos;
use paceline_icn::wire::PADDED;

use super::*;

/// Units that a receiver gets in a second that asks for 10 every 10 ms at most when it has them, besides whatever `flood` asks.
fn honest(config: RouterConfig, mut flood: impl FnMut(&mut Bench, Time, u64)) -> (u64, u64) {
    let mut bench = Bench::new(config);
    let (from, mut next, mut out, mut got, mut others) = (address(5000, 1), 0, 0_u32, 0, 0);
    let mut asked_at = Time::ZERO;
    for step in 0..10_000 {
        let now = Time::from_millis(10) + Nanos::from_micros(step * 100);
        flood(&mut bench, now, step);
        // It asks again for what did not come within 50 ms.
        if out == 0 || now.since(asked_at) > Nanos::from_millis(50) {
            bench.ask_proved(now, from, name(2), next, 20);
            (asked_at, out, next) = (now, 20, next + 20);
        }
        for burst in bench.bursts(now) {
            if burst.to == from {
                got += u64::from(burst.units.count);
                out = out.saturating_sub(burst.units.count);
            } else {
                others += u64::from(burst.units.count);
            }
        }
        bench.replies.clear();
    }
    (got, others)
}

/// 8333 units a second.
fn link() -> RouterConfig {
    RouterConfig::new(Rate::from_mbps(100.0))
}

#[test]
fn a_flood_of_requests_from_a_hundred_sources_leaves_a_receiver_its_share() {
    let (got, others) = honest(link(), |bench, now, step| {
        for source in 0..100 {
            bench.ask_proved(now, address(source as u32, (step % 50_000) as u16), name(1), step * 64 % 900_000, 64);
        }
    });
    let share = (got + others) / 101;
    assert!(got + others > 8000, "the link is busy: {got} + {others}");
    assert!(got * 2 >= share, "{got} of {share}");
}

#[test]
fn a_flood_from_false_addresses_costs_a_receiver_half_of_the_link_at_most() {
    let alone = honest(link(), |_, _, _| {}).0;
    // Every one from another address, and those of the receiver's own among them.
    let (got, _) = honest(link(), |bench, now, step| {
        for one in 0..20 {
            let from = if one == 0 { address(5000, 1) } else { address((step * 20 + one) as u32, 7) };
            bench.ask(now, from, &UnitRequest { padded: PADDED, ..request(name(1), 0, 64) });
        }
    });
    assert!(got * 2 >= alone.min(8333 / 2), "{got} of {alone}");
}

#[test]
fn receivers_of_one_kind_get_the_same() {
    let mut bench = Bench::new(link());
    let mut got = BTreeMap::new();
    for step in 0..5000_u64 {
        let now = Time::from_millis(10) + Nanos::from_micros(step * 200);
        for source in 0..20 {
            // The first one asks in small pieces, the others in large ones.
            let count = if source == 0 { 3 } else { 64 };
            bench.ask_proved(now, address(source, 1), name(1), step * 64, count);
        }
        for burst in bench.bursts(now) {
            *got.entry(burst.to).or_insert(0) += burst.units.count;
        }
        bench.replies.clear();
    }
    let (least, most) = (got.values().min().unwrap(), got.values().max().unwrap());
    assert!(f64::from(*least) > 0.8 * f64::from(*most), "{got:?}");
}
