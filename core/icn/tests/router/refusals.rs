//! What is answered to requests that get no units, or not all.

use paceline_cc::Nanos;
use paceline_icn::wire::{DATA_HEAD, MAX_HOPS, MissingReason, PADDED};
use paceline_icn::{Missing, UNIT};
use proptest::prelude::*;

use super::*;

const NOW: Time = Time::from_millis(1000);

#[test]
fn a_padded_first_request_gets_two_units_and_a_token() {
    let mut bench = Bench::new(unlimited());
    let from = address(1, 1);
    bench.ask(NOW, from, &UnitRequest { padded: PADDED, ..request(name(1), 0, 10) });
    let bursts = bench.bursts(NOW);
    assert_eq!(bursts.iter().map(|burst| burst.units).collect::<Vec<_>>(), [Units { first: 0, count: 2 }]);
    let token = bench.replies.iter().find_map(|(_, bytes)| match UnitAnswer::decode(bytes) {
        Ok(UnitAnswer::Grant(grant)) => Some(grant.token),
        _ => None,
    });
    let nack = bench.nacks()[0];
    assert_eq!((nack.units, nack.reason), (Units { first: 2, count: 8 }, MissingReason::NoToken));
    assert!(nack.retry_after > Nanos::ZERO);
    bench.ask(NOW, from, &UnitRequest { token, ..request(name(1), 2, 64) });
    assert_eq!(bench.bursts(NOW).iter().map(|burst| burst.units.count).sum::<u32>(), 64);
    assert!(bench.replies.is_empty());
}

#[test]
fn a_token_that_proves_nothing_never_reaches_storage() {
    let mut bench = Bench::new(unlimited());
    let (from, other) = (address(1, 1), address(2, 1));
    let good = bench.token(from, UNIX + 1);
    let mut forged = good;
    forged.0[20] ^= 1;
    let stranger = Secrets::new(&[8; 32], UNIX).mint(from, UNIX + 1);
    let (foreign, expired) = (bench.token(other, UNIX + 1), bench.token(from, UNIX - 3601));
    for token in [forged, stranger, foreign, expired, AddressToken([0; 24])] {
        let padded = PADDED;
        bench.ask(NOW, from, &UnitRequest { token: Some(token), padded, ..request(name(1), 0, 10) });
        assert!(bench.bursts(NOW).is_empty());
        assert_eq!(bench.nacks()[0].reason, MissingReason::NoToken);
    }
    assert_eq!((bench.shelf.asked, bench.router.stats().bad_tokens), (0, 5));
    bench.ask(NOW, from, &UnitRequest { token: Some(good), ..request(name(1), 0, 10) });
    assert_eq!(bench.shelf.asked, 1);
}

#[test]
fn each_refusal_has_its_reason() {
    let mut bench = Bench::new(unlimited());
    let from = address(1, 1);
    bench.ask_proved(NOW, from, name(1), STORED - 3, 10);
    let nack = bench.nacks()[0];
    assert_eq!((nack.units, nack.reason), (Units { first: STORED, count: 7 }, MissingReason::End));
    assert_eq!(bench.bursts(NOW)[0].units, Units { first: STORED - 3, count: 3 });
    for (of, first, reason) in [
        (name(1), STORED, MissingReason::End),
        (name(1), u64::MAX - 10, MissingReason::End),
        (name(10), 0, MissingReason::Changed),
        (name(20), 0, MissingReason::NotFound),
    ] {
        bench.ask_proved(NOW, from, of, first, 10);
        let nack = bench.nacks()[0];
        assert_eq!((nack.units, nack.reason, nack.retry_after), (Units { first, count: 10 }, reason, Nanos::ZERO));
    }
    let token = Some(bench.token(from, UNIX));
    bench.ask(NOW, from, &UnitRequest { hops: MAX_HOPS + 1, token, ..request(name(1), 0, 10) });
    assert_eq!(bench.nacks()[0].reason, MissingReason::Loop);
    assert!(bench.bursts(NOW).is_empty());
}

#[test]
fn what_is_over_the_limits_is_refused_before_storage_is_asked() {
    let rate = Rate::from_mbps(10.0);
    let mut bench = Bench::new(RouterConfig { units: 100, ..RouterConfig::new(rate) });
    bench.ask_proved(NOW, address(1, 1), name(1), 0, 50);
    assert_eq!(bench.shelf.asked, 1);
    bench.ask_proved(NOW, address(1, 1), name(1), 50, 10);
    assert_eq!(bench.nacks()[0].reason, MissingReason::Busy);
    let mut bench = Bench::new(RouterConfig { source_depth: 100_000, ..RouterConfig::new(rate) });
    bench.ask_proved(NOW, address(1, 1), name(1), 0, 64);
    bench.ask_proved(NOW, address(1, 1), name(1), 64, 64);
    let nack = bench.nacks()[0];
    assert_eq!((nack.reason, bench.shelf.asked), (MissingReason::Busy, 1));
    // It says when there will be enough.
    bench.ask_proved(NOW + nack.retry_after + Nanos::from_micros(1), address(1, 1), name(1), 64, 64);
    assert_eq!((bench.nacks().len(), bench.shelf.asked), (0, 2));
}

#[test]
fn a_miss_costs_its_source_more_than_a_hit() {
    let config = RouterConfig { upstream: true, source_depth: 500_000, ..RouterConfig::new(Rate::from_mbps(1.0)) };
    let asked = |of: Name| {
        let mut bench = Bench::new(RouterConfig { units: 10_000, ..config });
        (0..100)
            .take_while(|first| {
                bench.ask_proved(NOW, address(1, 1), of, first * 64, 64);
                bench.nacks().is_empty()
            })
            .count()
    };
    let (hits, misses) = (asked(name(1)), asked(name(20)));
    assert!(hits >= 5 && misses * 4 <= hits, "{hits} {misses}");
}

/// Any request, whole or with bytes changed, cut or added.
fn datagrams() -> impl Strategy<Value = Vec<u8>> {
    let fields = (any::<u64>(), 0..25_u8, 0..30_u64, 1..=64_u32, 0..12_u8, 0..=1440_usize, any::<Option<[u8; 24]>>());
    let requests = fields.prop_map(|(nonce, of, first, count, hops, padded, token)| {
        let first = if first > 20 { u64::MAX - 70 - first } else { first * 50_000 };
        let mut bytes = Vec::new();
        let token = token.map(AddressToken);
        UnitRequest { nonce, hops, padded, token, ..request(name(of), first, count) }.encode(&mut bytes);
        bytes
    });
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3);
    let changed = (requests, changes, 0..=1500_usize).prop_map(|(mut bytes, changes, length)| {
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if length % 4 == 0 {
            bytes.resize(length, 0);
        }
        bytes
    });
    prop_oneof![4 => changed, 1 => prop::collection::vec(any::<u8>(), 0..1500)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn an_address_without_proof_gets_three_times_its_bytes_at_most(
        datagrams in prop::collection::vec(datagrams(), 1..20),
        whole in any::<bool>(),
        upstream in any::<bool>(),
    ) {
        let mut bench = Bench::new(RouterConfig { upstream, ..unlimited() });
        bench.shelf.whole = whole;
        let from = address(1, 1);
        for bytes in datagrams {
            bench.replies.clear();
            bench.datagram(NOW, from, &bytes);
            while let Some(Missing { name, ranges, .. }) = bench.router.missing() {
                let replies = &mut bench.replies;
                for units in ranges.as_slice() {
                    bench.router.stored(&name, *units, None, &mut |to, bytes| replies.push((to, bytes.to_vec())));
                }
            }
            let mut sent = 0;
            for (_, reply) in &bench.replies {
                prop_assert!(reply.len() <= bytes.len(), "a refusal or token is never longer than its request");
                sent += reply.len();
            }
            sent += bench.bursts(NOW).iter().map(|burst| burst.units.count as usize * (DATA_HEAD + UNIT)).sum::<usize>();
            prop_assert!(sent <= 3 * bytes.len(), "{} bytes for {}", sent, bytes.len());
        }
    }
}

#[test]
fn a_short_request_without_a_token_gets_no_more_than_it_sent() {
    let mut bench = Bench::new(unlimited());
    for (padded, units) in [(0, 1), (0, 64), (58, 1), (60, 1), (90, 64), (1199, 64)] {
        for of in [name(1), name(10), name(30)] {
            let sent = bench.ask(NOW, address(1, 1), &UnitRequest { padded, ..request(of, 0, units) });
            let got: usize = bench.replies.drain(..).map(|(_, bytes)| bytes.len()).sum();
            assert!(got <= sent, "{got} for {sent}");
            assert!(got >= 34, "a token");
        }
    }
    let mut bytes = Vec::new();
    UnitRequest { token: Some(AddressToken([1; 24])), ..request(name(1), 0, 1) }.encode(&mut bytes);
    bench.datagram(NOW, address(1, 1), &bytes);
    let got: usize = bench.replies.drain(..).map(|(_, bytes)| bytes.len()).sum();
    assert!(got <= bytes.len(), "{got} for {}", bytes.len());
}

#[test]
fn nothing_is_answered_to_where_no_host_is() {
    let mut bench = Bench::new(unlimited());
    let asked = |bench: &mut Bench, from: SocketAddr| {
        bench.ask_proved(NOW, from, name(1), 0, 1);
        bench.ask(NOW, from, &UnitRequest { padded: PADDED, ..request(name(1), 0, 1) });
        bench.bursts(NOW).len() + bench.replies.drain(..).len()
    };
    let nowhere = [
        "10.0.0.1:0",
        "0.0.0.0:5",
        "255.255.255.255:5",
        "224.0.0.5:5",
        "[::]:5",
        "[ff02::1]:5",
        "[2001:db8::1]:0",
        "[::ffff:224.0.0.5]:5",
        "[::ffff:0.0.0.0]:5",
    ];
    for from in nowhere {
        assert_eq!(asked(&mut bench, from.parse().unwrap()), 0, "{from}");
    }
    assert_eq!((bench.shelf.asked, bench.router.stats().garbage), (0, 2 * nowhere.len() as u64));
    assert_eq!(asked(&mut bench, "10.0.0.1:5".parse().unwrap()), 3);
}
