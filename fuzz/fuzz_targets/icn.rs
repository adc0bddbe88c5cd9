//! Messages of named content from a stranger, on either side: they are refused, or they are read again as they were after being
//! written. And a router among strangers: each piece is a byte of who sends it and how, a byte of length, and a datagram. Who has not proved its
//! address gets three times what it sent at most, and no more than it sent where there are no units among it; what others ask for takes
//! no other's place; tables keep their size.
#![no_main]

use std::net::SocketAddr;

use libfuzzer_sys::fuzz_target;
use paceline_cc::{Nanos, Rate, Time};
use paceline_icn::name::NameKind;
use paceline_icn::wire::{DATA_HEAD, MAX_MESSAGE, MissingReason, UnitAnswer, UnitRequest};
use paceline_icn::{Found, Name, Ranges, Router, RouterConfig, Secrets, Shelf, UNIT, Units};

/// Objects by the first byte of their hash: the first 16 are here, 100 units each, of which every fourth is missing.
struct Shelves;

impl Shelf for Shelves {
    fn find(&mut self, name: &Name) -> Found {
        match name.hash()[0] {
            0..8 => Found::Here { stored_units: Some(100), whole: true },
            8..16 => Found::Here { stored_units: Some(100), whole: false },
            16..32 => Found::Changed,
            _ => Found::Elsewhere,
        }
    }

    fn has(&mut self, _: &Name, units: Units) -> u32 {
        (3 - (units.first % 4) as u32).min(units.count)
    }
}

fn address(host: u8) -> SocketAddr {
    ([10, 0, 0, host], 4000).into()
}

fn router(bytes: &[u8]) {
    let secret = [7; 32];
    let config = RouterConfig { upstream: true, waiting: 64, requests: 64, ..RouterConfig::new(Rate::INFINITY) };
    let mut router = Router::new(config, Secrets::new(&secret, 0), 1);
    let mut mint = Secrets::new(&secret, 0);
    let memory = router.memory();
    let (mut now, mut rest) = (Time::ZERO, bytes);
    while let [what, length, tail @ ..] = rest {
        let (datagram, tail) = tail.split_at(tail.len().min(usize::from(*length)));
        rest = tail;
        now += Nanos::from_millis(u64::from(what >> 4));
        let from = address(what & 3);
        let mut datagram = datagram.to_vec();
        let mut proved = false;
        // Some have a token, and ask for objects of few names.
        if what & 4 != 0
            && let Ok(mut request) = UnitRequest::decode(&datagram)
        {
            proved = true;
            request.token = Some(mint.mint(from, 0));
            request.name = Name::new(NameKind::Object, [request.name.hash()[0] % 64; 32]);
            datagram.clear();
            request.encode(&mut datagram);
        }
        if what & 8 != 0 {
            datagram.resize(datagram.len().max(1200), 0);
            proved = proved && UnitRequest::decode(&datagram).is_ok();
        }
        let mut at_once = 0;
        router.on_datagram(now, 0, from, &datagram, &mut Shelves, &mut |to, reply| {
            assert_eq!(to, from);
            assert!(UnitAnswer::decode(reply).is_ok());
            at_once += reply.len();
        });
        let mut units = 0;
        while let Some(burst) = router.poll(now) {
            assert_eq!(burst.to, from, "the rate is endless: nothing of earlier ones is left");
            units += burst.units.count as usize;
        }
        if !proved && UnitRequest::decode(&datagram).is_ok_and(|request| request.token.is_none()) {
            assert!(at_once <= datagram.len(), "{at_once} bytes for {}", datagram.len());
            assert!(at_once + units * (DATA_HEAD + UNIT) <= 3 * datagram.len());
        }
        while router.missing().is_some() {}
        assert_eq!(router.memory(), memory);
        assert!(router.awaited() <= 64);
    }
    // An honest receiver that comes last.
    let (from, nonce) = (address(9), 1);
    let ranges = Ranges::one(5);
    let name = Name::new(NameKind::Object, [200; 32]);
    let request = UnitRequest { nonce, name, ranges, token: Some(mint.mint(from, 0)), hops: 0, padded: 0 };
    let mut datagram = Vec::new();
    request.encode(&mut datagram);
    router.on_datagram(now, 0, from, &datagram, &mut Shelves, &mut |_, reply| {
        let busy =
            matches!(UnitAnswer::decode(reply), Ok(UnitAnswer::Nack(nack)) if nack.reason == MissingReason::Busy);
        assert!(!busy, "four others have all places");
    });
    assert!(router.missing().is_some_and(|missing| missing.from == from));
}

fuzz_target!(|bytes: &[u8]| {
    router(bytes);
    let mut again = Vec::new();
    if let Ok(request) = UnitRequest::decode(bytes) {
        request.encode(&mut again);
        assert!(again.len() <= MAX_MESSAGE);
        // Options that may be skipped are not written again; the padding takes their room.
        assert_eq!(UnitRequest::decode(&again), Ok(request));
        again.clear();
    }
    match UnitAnswer::decode(bytes) {
        Ok(UnitAnswer::Data(data, payload)) => {
            again.extend_from_slice(&data.encode_head());
            again.extend_from_slice(payload);
        }
        Ok(UnitAnswer::Nack(nack)) => nack.encode(&mut again),
        Ok(UnitAnswer::Grant(grant)) => grant.encode(&mut again),
        Err(_) => return,
    }
    assert_eq!(again, bytes);
});
