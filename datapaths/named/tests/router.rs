//! The content router as its receivers see it.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use paceline_cc::{Nanos, Rate};
use paceline_icn::name::NameKind;
use paceline_icn::wire::{AddressToken, MissingReason, Nack, PADDED, UnitAnswer, UnitHead, UnitRequest};
use paceline_icn::{Layout, Name, Ranges, UNIT, Units};
use paceline_linux::namespace::{Namespace, needs_root};
use paceline_named::router::{Server, ServerConfig, ServerError};
use paceline_named::store::StoreError;

use crate::store::Place;

pub(crate) fn config(store: &Path) -> ServerConfig {
    ServerConfig::new(store.to_owned(), "127.0.0.1:0".parse().expect("an address"))
}

/// A store with an object of this many stored units, and those.
pub(crate) fn published(units: u64) -> (Place, Name, Vec<u8>) {
    let place = Place::new();
    let (name, bytes) = published_in(&place, units);
    (place, name, bytes)
}

/// The same, in this store.
pub(crate) fn published_in(place: &Place, units: u64) -> (Name, Vec<u8>) {
    let length =
        (1..).map(|data| data * UNIT as u64 - 1079).find(|length| Layout::new(*length).stored_units() == units);
    let (name, _) = place.object(length.expect("some length") as usize, units);
    let bytes = std::fs::read(place.store.path_of(&name)).expect("the stored form");
    (name, bytes)
}

/// An object that is nowhere.
pub(crate) fn other() -> Name {
    Name::new(NameKind::Object, [9; 32])
}

/// A receiver without a controller.
pub(crate) struct Client {
    socket: UdpSocket,
    pub(crate) nonce: u64,
    pub(crate) token: Option<AddressToken>,
    pub(crate) units: BTreeMap<u64, Vec<u8>>,
    heads: Vec<UnitHead>,
    pub(crate) nacks: Vec<Nack>,
    got_bytes: usize,
    sent_bytes: usize,
}

impl Client {
    pub(crate) fn of(server: SocketAddr) -> Self {
        Self::from_host(1, server)
    }

    /// From 127.0.0.`host`.
    pub(crate) fn from_host(host: u8, server: SocketAddr) -> Self {
        Self::over(UdpSocket::bind(SocketAddr::from(([127, 0, 0, host], 0))).expect("a port"), server)
    }

    pub(crate) fn over(socket: UdpSocket, server: SocketAddr) -> Self {
        socket.connect(server).expect("a way");
        let (units, heads, nacks) = Default::default();
        Self { socket, nonce: 77, token: None, units, heads, nacks, got_bytes: 0, sent_bytes: 0 }
    }

    /// Asks, and takes what comes until it has this many messages, or 5 s have passed without any.
    pub(crate) fn ask(&mut self, of: Name, first: u64, count: u32, padded: usize, messages: usize) {
        let ranges = Ranges::new(Units { first, count }).expect("1 to 64");
        let mut bytes = Vec::new();
        UnitRequest { nonce: self.nonce, name: of, ranges, token: self.token, hops: 0, padded }.encode(&mut bytes);
        self.sent_bytes += bytes.len();
        self.socket.send(&bytes).expect("a way");
        for _ in 0..messages {
            assert!(self.take(Duration::from_secs(5)), "{messages} answers to units {first} + {count}");
        }
    }

    pub(crate) fn take(&mut self, patience: Duration) -> bool {
        let mut buffer = [0; 2048];
        self.socket.set_read_timeout(Some(patience)).expect("not zero");
        let Ok(length) = self.socket.recv(&mut buffer) else { return false };
        self.got_bytes += length;
        match UnitAnswer::decode(&buffer[..length]).expect("an answer") {
            UnitAnswer::Data(head, bytes) => {
                assert_eq!(head.nonce, self.nonce);
                self.units.insert(head.unit, bytes.to_vec());
                self.heads.push(head);
            }
            UnitAnswer::Nack(nack) => self.nacks.push(nack),
            UnitAnswer::Grant(grant) => self.token = Some(grant.token),
        }
        true
    }
}

#[test]
fn units_come_as_they_are_stored() {
    let (place, name, bytes) = published(100);
    let server = Server::start(&config(place.store.folder())).expect("a server");
    let mut client = Client::of(server.address());
    // Token, refusal of the rest, two units.
    client.ask(name, 0, 10, PADDED, 4);
    assert_eq!((client.units.len(), client.nacks[0].reason), (2, MissingReason::NoToken));
    client.ask(name, 2, 64, 0, 64);
    // To the end and past it: 34 units and a refusal.
    client.ask(name, 66, 40, 0, 35);
    let got: Vec<u8> = client.units.values().flatten().copied().collect();
    assert!(got == bytes, "every byte in its place");
    assert!(client.heads.iter().all(|head| head.stored_units == Some(100)));
    assert_eq!((client.nacks[1].units, client.nacks[1].reason), (Units { first: 100, count: 6 }, MissingReason::End));
    client.ask(other(), 0, 3, 0, 1);
    assert_eq!(client.nacks[2].reason, MissingReason::NotFound);
    let counts = server.stop().expect("it ran");
    assert_eq!((counts.router.sent_units, counts.router.granted, counts.unread), (100, 1, 0));
    assert_eq!(counts.sent_bytes, (bytes.len() + 100 * 30) as u64);
}

#[test]
fn an_address_that_proves_nothing_gets_three_times_its_bytes_at_most() {
    let (place, name, _) = published(500);
    let server = Server::start(&config(place.store.folder())).expect("a server");
    let mut client = Client::of(server.address());
    for (round, padded) in [0, 100, 470, 480, 960, 1000, 1200, 1440].into_iter().cycle().take(64).enumerate() {
        // As from an address that is false: it never learns its token, or has one of its own making.
        client.token = (round % 3 == 0).then_some(AddressToken([round as u8; 24]));
        client.ask(name, 7, 64, padded, 0);
    }
    while client.take(Duration::from_millis(500)) {}
    assert!(client.got_bytes > 0 && client.got_bytes <= 3 * client.sent_bytes);
    assert!(client.units.keys().all(|unit| *unit < 9));
}

#[test]
fn an_object_that_changes_is_not_served_on() {
    let (place, name, _) = published(500);
    let path = place.store.path_of(&name);
    let server = Server::start(&config(place.store.folder())).expect("a server");
    let mut client = Client::of(server.address());
    client.ask(name, 0, 1, PADDED, 2);
    let file = std::fs::File::options().write(true).open(&path).expect("the file");
    file.set_len(10 * UNIT as u64).expect("shorter");
    client.ask(name, 400, 20, 0, 1);
    assert_eq!(client.nacks[0].reason, MissingReason::Changed);
}

#[test]
fn what_was_read_ahead_of_an_object_that_changes_is_not_served() {
    let (place, name, bytes) = published(100);
    let path = place.store.path_of(&name);
    let server = Server::start(&config(place.store.folder())).expect("a server");
    let mut client = Client::of(server.address());
    client.ask(name, 0, 1, PADDED, 2);
    // One by one: the second reads the third and the others with it.
    for unit in 1..14 {
        client.ask(name, unit, 1, 0, 1);
        assert!(client.units[&unit] == bytes[unit as usize * UNIT..][..UNIT], "unit {unit}");
    }
    // The same length, and other bytes; a file's time may stand still for 10 ms.
    std::thread::sleep(Duration::from_millis(20));
    std::fs::write(&path, vec![7; bytes.len()]).expect("ours");
    client.ask(name, 14, 1, 0, 1);
    assert_eq!(client.nacks[0].reason, MissingReason::Changed);
}

#[test]
fn requests_that_gather_are_all_answered() {
    let (place, name, _) = published(400);
    for gather in [Nanos::ZERO, Nanos::from_millis(20)] {
        let server = Server::start(&ServerConfig { gather, ..config(place.store.folder()) }).expect("a server");
        let mut clients = [Client::of(server.address()), Client::of(server.address())];
        clients.iter_mut().for_each(|client| client.ask(name, 0, 2, PADDED, 3));
        for round in 0..6 {
            for unit in 2 + round * 60..2 + (round + 1) * 60 {
                clients.iter_mut().for_each(|client| client.ask(name, unit, 1, 0, 0));
            }
            for client in &mut clients {
                while client.units.len() < 2 + (round as usize + 1) * 60 {
                    assert!(client.take(Duration::from_secs(5)), "round {round}");
                }
            }
        }
        assert_eq!(server.stop().expect("it ran").router.sent_units, 2 * 362);
    }
}

#[test]
fn threads_share_a_port_and_tokens() {
    let (place, name, _) = published(100);
    let server = Server::start(&ServerConfig { threads: 3, ..config(place.store.folder()) }).expect("a server");
    for _ in 0..12 {
        let mut client = Client::of(server.address());
        client.ask(name, 0, 2, PADDED, 3);
        client.ask(name, 2, 60, 0, 60);
        assert_eq!(client.units.len(), 62);
    }
    assert_eq!(server.stop().expect("it ran").router.sent_units, 12 * 62);
}

#[test]
fn the_rate_is_that_of_all_threads_together() {
    let (place, name, _) = published(2000);
    // 1000 units a second.
    let rate = Rate::from_bytes_per_sec(1_478_000);
    let config = ServerConfig { threads: 4, rate, ..config(place.store.folder()) };
    let server = Server::start(&config).expect("a server");
    let begun = std::time::Instant::now();
    let address = server.address();
    let asking = (0..12).map(|_| {
        std::thread::spawn(move || {
            let mut client = Client::of(address);
            client.ask(name, 0, 2, PADDED, 3);
            for round in 0..20 {
                client.ask(name, round * 60, 60, 0, 0);
                while client.take(Duration::from_millis(30)) {}
            }
        })
    });
    let asking: Vec<_> = asking.collect();
    asking.into_iter().for_each(|client| client.join().expect("it asked"));
    let sent = server.stop().expect("it ran").router.sent_units;
    // A bucket of 64 units, and a turn that begins before it is empty.
    let most = begun.elapsed().as_secs_f64() * 1000.0 + 64.0 + 45.0;
    assert!(sent > 0 && sent as f64 <= most, "{sent} units, {most} at most");
}

#[test]
fn prometheus_gets_its_numbers() {
    let store = tempfile::tempdir().expect("a folder");
    let metrics = Some("127.0.0.1:0".parse().expect("an address"));
    let server = Server::start(&ServerConfig { metrics, ..config(store.path()) }).expect("a server");
    let mut client = Client::of(server.address());
    client.ask(other(), 0, 1, PADDED, 2);
    let ask = |path: &str| {
        let mut stream = TcpStream::connect(server.metrics().expect("it was asked for")).expect("it listens");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("it answers");
        text
    };
    // The counts are written when all that came has been seen to.
    let line = "paceline_icn_refused_requests_total{reason=\"not_found\"} 1";
    while !ask("/metrics").contains(line) {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(ask("/").starts_with("HTTP/1.1 404"));
}

#[test]
fn what_cannot_be_is_said_in_one_line() {
    let store = tempfile::tempdir().expect("a folder");
    let server = Server::start(&config(store.path())).expect("a server");
    let listen = server.address();
    let error = Server::start(&ServerConfig { listen, ..config(store.path()) }).err().expect("the port is in use");
    assert!(matches!(error, ServerError::InUse(..)), "{error}");
    let error = Server::start(&config(&store.path().join("none"))).err().expect("there is no store");
    assert!(matches!(error, ServerError::Store(StoreError::NoStore { .. })), "{error}");
    let gather = Nanos::from_millis(200);
    let error = Server::start(&ServerConfig { gather, ..config(store.path()) }).err().expect("too long");
    assert!(matches!(error, ServerError::Gather(..)) && error.to_string().contains("--gather"), "{error}");
    let listen = "192.0.2.77:9".parse().expect("an address");
    let error = Server::start(&ServerConfig { listen, ..config(store.path()) }).err().expect("not of this host");
    assert!(!error.to_string().contains('\n') && error.to_string().contains("--listen"), "{error}");
}

/// What a router says of an object's first unit.
fn said_of(client: &mut Client, name: Name) -> Option<MissingReason> {
    client.units.clear();
    client.nacks.clear();
    client.ask(name, 0, 1, 0, 1);
    client.nacks.last().map(|nack| nack.reason)
}

#[test]
fn an_object_that_was_removed_is_let_go_of() {
    let (place, name, bytes) = published(10);
    let path = place.store.path_of(&name);
    // Another name for the same file keeps its bytes, not its place in the store.
    std::fs::hard_link(&path, place.store.folder().join("kept-elsewhere")).expect("one file system");
    let server = Server::start(&config(place.store.folder())).expect("a server");
    let mut client = Client::of(server.address());
    client.ask(name, 0, 1, PADDED, 2);
    assert_eq!(said_of(&mut client, name), None);
    std::fs::remove_file(&path).expect("ours");
    let open = || {
        let all = std::fs::read_dir("/proc/self/fd").expect("procfs").flatten();
        all.filter_map(|fd| std::fs::read_link(fd.path()).ok())
            .any(|to| to.to_string_lossy().starts_with(path.to_str().expect("text")))
    };
    while open() {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(said_of(&mut client, name), Some(MissingReason::NotFound));
    // Published again, it is there again; and again, it is the same.
    for _ in 0..2 {
        std::fs::write(place.store.folder().join("again"), &bytes).expect("room");
        std::fs::rename(place.store.folder().join("again"), &path).expect("ours");
        assert_eq!(said_of(&mut client, name), None);
        std::thread::sleep(Duration::from_millis(600));
        assert_eq!(said_of(&mut client, name), None);
    }
}

#[test]
fn what_is_not_a_file_holds_up_no_one() {
    let (place, name, _) = published(10);
    let odd = place.store.path_of(&other());
    let server = Server::start(&config(place.store.folder())).expect("a server");
    let mut client = Client::of(server.address());
    client.ask(name, 0, 1, PADDED, 2);
    let make: [(&str, &dyn Fn()); 4] = [
        ("pipe", &|| rustix::fs::mkfifoat(rustix::fs::CWD, &odd, rustix::fs::Mode::RWXU).expect("ours")),
        ("socket", &|| drop(std::os::unix::net::UnixListener::bind(&odd).expect("ours"))),
        ("link", &|| std::os::unix::fs::symlink(place.store.path_of(&name), &odd).expect("ours")),
        ("folder", &|| std::fs::create_dir(&odd).expect("ours")),
    ];
    for (what, make) in make {
        make();
        assert_eq!(said_of(&mut client, other()), Some(MissingReason::Changed), "{what}");
        assert_eq!(said_of(&mut client, name), None, "{what}");
        let error = place.store.stat(&other()).expect_err("not an object").to_string();
        assert!(error.contains("is not a regular file"), "{what}: {error}");
        let _ = std::fs::remove_file(&odd);
    }
    server.stop().expect("it ends");
}

#[test]
fn a_way_of_small_packets_carries_units_too() {
    let test = "a_way_of_small_packets_carries_units_too";
    if needs_root(test) {
        return;
    }
    let (place, name, _) = published(100);
    let host = Namespace::create().expect("a namespace");
    let small = || Command::new("ip").args(["link", "set", "lo", "up", "mtu", "1300"]).status();
    let small = host.enter(small).expect("its thread");
    assert!(small.expect("iproute2").success());
    let start = || {
        let server = Server::start(&config(place.store.folder())).expect("a server");
        let client = Client::of(server.address());
        (server, client)
    };
    let (server, mut client) = host.enter(start).expect("its thread");
    client.ask(name, 0, 2, PADDED, 3);
    (2..100).step_by(14).for_each(|first| client.ask(name, first, 14, 0, 14));
    assert_eq!((client.units.len(), server.stop().expect("it ran").refused), (100, 0));
}
