//! What is not here, and comes from another router.

use paceline_cc::Nanos;
use paceline_icn::wire::{MAX_HOPS, MissingReason, PADDED};

use super::*;

const NOW: Time = Time::from_millis(1000);

fn bench() -> Bench {
    Bench::new(RouterConfig { upstream: true, ..unlimited() })
}

fn units(bursts: &[Burst]) -> Vec<u64> {
    bursts.iter().flat_map(|burst| burst.units.iter()).collect()
}

#[test]
fn a_part_that_is_here_leaves_at_once_and_the_rest_when_it_comes() {
    let mut bench = bench();
    bench.shelf.whole = false;
    bench.ask_proved(NOW, address(1, 1), name(1), 10, 64);
    assert_eq!(units(&bench.bursts(NOW)), (10..74).step_by(2).collect::<Vec<_>>());
    let missing: Vec<u64> =
        std::iter::from_fn(|| bench.router.missing()).flat_map(|m| m.ranges.iter().collect::<Vec<_>>()).collect();
    assert_eq!(missing, (11..74).step_by(2).collect::<Vec<_>>());
    assert!(bench.bursts(NOW).is_empty());
    let later = NOW + Nanos::from_millis(30);
    bench.router.stored(&name(1), Units { first: 0, count: 20 }, Some(STORED), &mut |_, _| {});
    let bursts = bench.bursts(later);
    assert_eq!(units(&bursts), [11, 13, 15, 17, 19]);
    assert!(bursts.iter().all(|burst| burst.app_limited && burst.waited == Nanos::from_millis(30)));
    let mut refused = Vec::new();
    bench.router.failed(&name(1), 0..u64::MAX, MissingReason::NotFound, &mut |_, bytes| refused.push(bytes.to_vec()));
    assert_eq!(refused.len(), 2, "ranges of 16 each");
    assert_eq!(bench.router.awaited(), 0);
}

#[test]
fn two_receivers_wait_for_one_unit_and_a_repeated_request_is_answered_once() {
    let mut bench = bench();
    for from in [address(1, 1), address(2, 1), address(1, 1)] {
        bench.ask_proved(NOW, from, name(30), 0, 4);
    }
    assert_eq!(bench.router.awaited(), 8);
    bench.router.stored(&name(30), Units { first: 0, count: 4 }, None, &mut |_, _| {});
    assert_eq!(units(&bench.bursts(NOW)), [0, 1, 2, 3, 0, 1, 2, 3]);
}

#[test]
fn what_went_through_too_many_routers_goes_no_further_and_a_false_address_nowhere() {
    let mut bench = bench();
    let token = Some(bench.token(address(1, 1), UNIX));
    bench.ask(NOW, address(1, 1), &UnitRequest { hops: MAX_HOPS, token, ..request(name(30), 0, 4) });
    assert_eq!(bench.nacks()[0].reason, MissingReason::Loop);
    bench.ask(NOW, address(1, 1), &UnitRequest { hops: MAX_HOPS, token, ..request(name(1), 0, 4) });
    assert_eq!(bench.bursts(NOW).len(), 1, "what is here is given");
    bench.ask(NOW, address(1, 1), &UnitRequest { padded: PADDED, ..request(name(30), 0, 4) });
    assert!(bench.nacks().iter().all(|nack| nack.reason == MissingReason::NoToken));
    assert_eq!(bench.router.missing(), None);
}
