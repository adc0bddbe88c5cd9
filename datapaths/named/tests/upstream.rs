//! Routers in a row: what one does not have it fetches from the next.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use paceline_icn::Name;
use paceline_icn::name::NameKind;
use paceline_icn::wire::{MissingReason, PADDED, UnitRequest};
use paceline_named::Store;
use paceline_named::router::{Server, ServerConfig, ServerError, UpstreamConfig};

use crate::router::{Client, config, other, published, published_in};
use crate::store::Place;

pub(crate) fn between(cache: &std::path::Path, upstream: SocketAddr) -> ServerConfig {
    let upstream = UpstreamConfig {
        addresses: vec![upstream],
        controller: "bbr".parse().expect("a controller"),
        cache_bytes: 1 << 24,
    };
    ServerConfig { upstream: Some(upstream), ..config(cache) }
}

/// Asks for all units of an object until they are there; some may be refused or lost on the way.
fn fetch(client: &mut Client, name: Name, units: u64) -> Vec<u8> {
    for _ in 0..200 {
        let Some(first) = (0..units).find(|unit| !client.units.contains_key(unit)) else { break };
        let padded = if client.token.is_none() { PADDED } else { 0 };
        client.ask(name, first, (units - first).min(64) as u32, padded, 0);
        while client.units.len() < units as usize && client.take(Duration::from_millis(200)) {}
    }
    client.units.values().flatten().copied().collect()
}

#[test]
fn an_object_goes_through_a_router_and_is_kept_when_it_is_asked_for_again() {
    let (place, name, bytes) = published(300);
    let origin = Server::start(&config(place.store.folder())).expect("a server");
    let cache = tempfile::tempdir().expect("a folder");
    let router = Server::start(&between(cache.path(), origin.address())).expect("a router");
    let round = |nonce| {
        let mut client = Client::of(router.address());
        client.nonce = nonce;
        assert!(fetch(&mut client, name, 300) == bytes, "fetch {nonce}: every byte in its place");
        origin.counts().router.requests
    };
    let first = round(1);
    assert!(first > 0);
    // Until what came is no longer in memory.
    std::thread::sleep(Duration::from_secs(4));
    let second = round(2);
    assert!(second > first, "it was not kept when it was missed once");
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(round(3), second, "the origin is not asked for what was missed twice");
    let sent = origin.counts().router.sent_units;
    assert!(sent < 3 * 307, "{sent} units for two fetches of 307");
    router.stop().expect("it ran");
}

#[test]
fn what_is_in_the_cache_is_on_the_disk_while_the_router_runs() {
    let (place, name, bytes) = published(300);
    let origin = Server::start(&config(place.store.folder())).expect("a server");
    let cache = tempfile::tempdir().expect("a folder");
    let router = Server::start(&between(cache.path(), origin.address())).expect("a router");
    for nonce in 1..3 {
        let mut client = Client::of(router.address());
        client.nonce = nonce;
        assert!(fetch(&mut client, name, 300) == bytes);
        // Until what came is no longer in memory.
        std::thread::sleep(Duration::from_secs(4));
    }
    // The files as a crash would leave them, without a word from the router.
    let store = Store::open(cache.path()).expect("the router made it");
    while !store.stat(&name).is_ok_and(|stat| stat.is_whole()) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(store.check(&name, &mut |_, _| ()).expect("readable").genuine, 300);
    drop(router);
}

#[test]
fn what_no_router_has_is_refused() {
    let (place, ..) = published(4);
    let origin = Server::start(&config(place.store.folder())).expect("a server");
    let cache = tempfile::tempdir().expect("a folder");
    let router = Server::start(&between(cache.path(), origin.address())).expect("a router");
    let mut client = Client::of(router.address());
    client.ask(other(), 0, 1, PADDED, 2);
    client.ask(other(), 0, 1, 0, 1);
    assert_eq!(client.nacks.last().expect("a refusal").reason, MissingReason::NotFound);
}

#[test]
fn routers_that_name_each_other_are_found_out() {
    let (one, two) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    // A port for the second one, so that the first can name it.
    let port = std::net::UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port");
    let first = Server::start(&between(one.path(), port)).expect("a router");
    let second = ServerConfig { listen: port, ..between(two.path(), first.address()) };
    let second = Server::start(&second).expect("a router");
    let mut client = Client::of(first.address());
    client.ask(other(), 0, 1, PADDED, 2);
    let refused = |client: &Client| client.nacks.iter().any(|nack| nack.reason == MissingReason::Loop);
    for _ in 0..50 {
        if refused(&client) {
            break;
        }
        client.ask(other(), 0, 1, 0, 0);
        while client.take(Duration::from_millis(200)) {}
    }
    assert!(refused(&client), "{:?}", client.nacks);
    drop((first, second));
}

#[test]
fn who_asks_for_many_objects_leaves_others_theirs() {
    let origin = Place::new();
    let objects: Vec<_> = (1..=16).map(|kind| origin.object(3_000_000 + kind, kind as u64).0).collect();
    let (wanted, bytes) = published_in(&origin, 50);
    let server = Server::start(&config(origin.store.folder())).expect("a server");
    let cache = tempfile::tempdir().expect("a folder");
    let router = Server::start(&between(cache.path(), server.address())).expect("a router");
    let mut greedy = Client::from_host(2, router.address());
    greedy.ask(objects[0], 0, 1, PADDED, 1);
    while greedy.token.is_none() && greedy.take(Duration::from_secs(5)) {}
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for step in 0.. {
                // One unit each, so far from the last that the fetch goes on.
                objects.iter().for_each(|name| greedy.ask(*name, 900 * step % 2000, 1, 0, 0));
                while greedy.take(Duration::from_millis(100)) {}
                if done.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        std::thread::sleep(Duration::from_millis(500));
        let mut client = Client::of(router.address());
        let got = fetch(&mut client, wanted, 50);
        let refused = client.nacks.iter().filter(|nack| nack.reason == MissingReason::Busy).count();
        done.store(true, Ordering::Relaxed);
        assert!(got == bytes && refused == 0, "{} bytes, refused {refused} times", got.len());
    });
}

#[test]
fn who_asks_for_a_unit_alone_makes_a_router_fetch_few_more() {
    let (place, name, _) = published(6000);
    let origin = Server::start(&config(place.store.folder())).expect("a server");
    let cache = tempfile::tempdir().expect("a folder");
    let router = Server::start(&between(cache.path(), origin.address())).expect("a router");
    let mut client = Client::of(router.address());
    client.ask(name, 0, 1, PADDED, 2);
    client.ask(name, 0, 1, 0, 1);
    // Until nothing more comes from the origin.
    let fetched = || {
        let mut before = 0;
        loop {
            std::thread::sleep(Duration::from_millis(300));
            match origin.counts().router.sent_units {
                same if same == before => break same,
                more => before = more,
            }
        }
    };
    let first = fetched();
    assert!((64..=68).contains(&first), "{first} units for one");
    let mut all = first;
    for (unit, most) in [(150, 200), (3000, 200), (1_000_000, 200)] {
        client.ask(name, unit, 1, 0, 1);
        let now = fetched();
        assert!(now - all <= most, "{} units for unit {unit}", now - all);
        all = now;
    }
}

#[test]
fn a_router_without_upstream_says_so() {
    let cache = tempfile::tempdir().expect("a folder");
    let mut config = between(cache.path(), "127.0.0.1:9".parse().expect("an address"));
    config.upstream.as_mut().expect("it was given").addresses.clear();
    assert!(matches!(Server::start(&config), Err(ServerError::NoUpstream)));
}

/// The inverse of SplitMix64 (Steele, Lea and Flood 2014), a bijection that numbers must not come from.
fn unmixed(number: u64) -> u64 {
    let unshift = |mut bits: u64, by: u32| {
        let shifted = bits;
        for _ in 0..64 / by {
            bits = shifted ^ bits >> by;
        }
        bits
    };
    let bits = unshift(number, 31).wrapping_mul(0x3196_42b2_d24d_8ec3);
    let bits = unshift(bits, 27).wrapping_mul(0x96de_1b17_3f11_9089);
    unshift(bits, 30)
}

#[test]
fn the_number_that_one_upstream_sees_tells_nothing_of_another() {
    let origins = [(); 2].map(|()| std::net::UdpSocket::bind("127.0.0.1:0").expect("a port"));
    let cache = tempfile::tempdir().expect("a folder");
    let mut config = between(cache.path(), origins[0].local_addr().expect("bound"));
    let both = origins.iter().map(|origin| origin.local_addr().expect("bound"));
    config.upstream.as_mut().expect("as above").addresses = both.collect();
    let router = Server::start(&config).expect("a router");
    let mut client = Client::of(router.address());
    client.ask(other(), 0, 1, PADDED, 2);
    let mut numbers = Vec::new();
    for byte in 1..=3 {
        let name = Name::new(NameKind::Object, [byte; 32]);
        client.ask(name, 0, 1, 0, 0);
        for origin in &origins {
            origin.set_read_timeout(Some(Duration::from_secs(5))).expect("not zero");
            let mut buffer = [0; 2048];
            let number = loop {
                let length = origin.recv(&mut buffer).expect("a request");
                let request = UnitRequest::decode(&buffer[..length]).expect("a router's");
                if request.name == name {
                    break request.nonce;
                }
            };
            numbers.push(unmixed(number));
        }
    }
    // SplitMix64 adds its constant for each number of a stream; the other one was a step from fetch to fetch.
    let stepped = |seed: u64| seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
    let gamma = 0x9e37_79b9_7f4a_7c15_u64;
    let seed = |unmixed: u64| unmixed.wrapping_sub(gamma).wrapping_mul(0xf1de_83e1_9937_733d);
    assert_eq!(seed(gamma.wrapping_mul(8)), 7, "the inverse of the constant");
    for (index, one) in numbers.iter().enumerate() {
        for next in &numbers[index + 1..] {
            let apart = seed(*next).wrapping_sub(seed(*one));
            let apart_stepped = seed(*next).wrapping_sub(stepped(seed(*one)));
            for apart in [apart, apart_stepped] {
                assert!((4..u64::MAX - 4).contains(&apart), "{apart}: one number follows from the other");
            }
        }
    }
    drop(router);
}
