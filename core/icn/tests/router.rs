//! Properties 10 and 11 of our specification, and what a router does about floods, false addresses and bad requests.

mod bounds;
mod fairness;
mod refusals;
mod upstream;

use std::net::{Ipv4Addr, SocketAddr};

use paceline_cc::{Rate, Time};
use paceline_icn::name::NameKind;
use paceline_icn::wire::{AddressToken, Nack, UnitAnswer, UnitRequest};
use paceline_icn::{Burst, Found, Name, Ranges, Router, RouterConfig, Secrets, Shelf, Units};

const UNIX: u64 = 1_800_000_000;
const STORED: u64 = 1_000_000;

fn name(byte: u8) -> Name {
    Name::new(NameKind::Object, [byte; 32])
}

fn address(host: u32, port: u16) -> SocketAddr {
    (Ipv4Addr::from_bits(0x0a00_0000 + host), port).into()
}

/// Storage with objects 1 to 9, whole or of even units only, that counts how often it is asked.
struct Counted {
    asked: u64,
    whole: bool,
}

impl Shelf for Counted {
    fn find(&mut self, wanted: &Name) -> Found {
        self.asked += 1;
        match wanted.hash()[0] {
            1..10 => Found::Here { stored_units: Some(STORED), whole: self.whole },
            10 => Found::Changed,
            _ => Found::Elsewhere,
        }
    }

    fn has(&mut self, _: &Name, units: Units) -> u32 {
        self.asked += 1;
        u32::from(units.first.is_multiple_of(2))
    }
}

/// A router, its storage and what it answered at once.
struct Bench {
    router: Router,
    shelf: Counted,
    replies: Vec<(SocketAddr, Vec<u8>)>,
    /// Of another router with the same secret: makes tokens.
    secrets: Secrets,
}

impl Bench {
    fn new(config: RouterConfig) -> Self {
        let router = Router::new(config, Secrets::new(&[7; 32], UNIX), 99);
        let shelf = Counted { asked: 0, whole: true };
        Self { router, shelf, replies: Vec::new(), secrets: Secrets::new(&[7; 32], UNIX) }
    }

    fn token(&mut self, from: SocketAddr, unix_s: u64) -> AddressToken {
        self.secrets.mint(from, unix_s)
    }

    fn datagram(&mut self, now: Time, from: SocketAddr, bytes: &[u8]) {
        let replies = &mut self.replies;
        let unix_s = UNIX + now.as_nanos() / 1_000_000_000;
        self.router.on_datagram(now, unix_s, from, bytes, &mut self.shelf, &mut |to, bytes| {
            replies.push((to, bytes.to_vec()));
        });
    }

    fn ask(&mut self, now: Time, from: SocketAddr, request: &UnitRequest) -> usize {
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        self.datagram(now, from, &bytes);
        bytes.len()
    }

    /// A request with a good token.
    fn ask_proved(&mut self, now: Time, from: SocketAddr, of: Name, first: u64, count: u32) -> usize {
        let token = self.token(from, UNIX + now.as_nanos() / 1_000_000_000);
        self.ask(now, from, &UnitRequest { token: Some(token), ..request(of, first, count) })
    }

    fn nacks(&mut self) -> Vec<Nack> {
        let replies = std::mem::take(&mut self.replies);
        let nack = |(_, bytes): &(SocketAddr, Vec<u8>)| match UnitAnswer::decode(bytes) {
            Ok(UnitAnswer::Nack(nack)) => Some(nack),
            _ => None,
        };
        replies.iter().filter_map(nack).collect()
    }

    fn bursts(&mut self, now: Time) -> Vec<Burst> {
        std::iter::from_fn(|| self.router.poll(now)).collect()
    }
}

fn request(of: Name, first: u64, count: u32) -> UnitRequest {
    let ranges = Ranges::new(Units { first, count }).unwrap();
    UnitRequest { nonce: 5, name: of, ranges, token: None, hops: 0, padded: 0 }
}

fn unlimited() -> RouterConfig {
    RouterConfig::new(Rate::INFINITY)
}
