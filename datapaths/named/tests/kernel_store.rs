//! The router with a store in the kernel, at one end of a veth pair. What is to be answered there is sent as a frame of full length, since veth
//! leaves no room for an answer behind a shorter one; a socket's requests reach the router.

mod attacks;

use std::fs::{self, File};
use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use paceline_emulator::port::packet::without_offloads;
use paceline_fixture::frame::UdpEnds;
use paceline_fixture::until;
use paceline_icn::wire::{MissingReason, PADDED, UnitRequest};
use paceline_icn::{Name, Ranges, UNIT, Units};
use paceline_linux::interface::Interfaces;
use paceline_linux::link::{link, packets};
use paceline_linux::namespace::{Namespace, needs_root};
use paceline_named::router::{KernelStoreConfig, KernelStoreFigures, Server, ServerConfig};
use paceline_store::{KernelStore, KernelStoreError};

use crate::router::{Client, config, published, published_in};
use crate::store::Place;

/// A router, and a host that asks it.
struct Bed {
    server: Server,
    client: Client,
    /// Requests so far.
    asked: u64,
    frames: OwnedFd,
    ends: UdpEnds,
    s: Namespace,
    /// Answers reach a veth's other end only where that has a program too.
    _passes: KernelStore,
}

/// `kernel`: with the store in the kernel.
fn bed(test: &str, place: &Place, listen: &str, kernel: bool) -> Option<Bed> {
    if needs_root(test) {
        return None;
    }
    let mut passes = match KernelStore::load(1 << 20) {
        Err(reason @ (KernelStoreError::NotRoot | KernelStoreError::NoBtf | KernelStoreError::NoBarrier(_))) => {
            // Not by a macro, whose output is not shown for tests that pass.
            let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
            return None;
        }
        loaded => loaded.unwrap(),
    };
    let (s, r) = (Namespace::create().unwrap(), Namespace::create().unwrap());
    s.enter(|| Interfaces::open().unwrap().veth("s0", None, "r0", &r)).unwrap().unwrap();
    let up = |host: &Namespace, interface: &str, number: u8| {
        let up = || {
            let all = Interfaces::open()?;
            all.add_address(interface, [10, 77, 0, number].into(), 24)?;
            all.add_address(interface, [0xfd77, 0, 0, 0, 0, 0, 0, u16::from(number)].into(), 64)?;
            all.up(interface)
        };
        host.enter(up).unwrap().unwrap();
        host.enter(|| link(interface).unwrap().unwrap().addr().unwrap()).unwrap()
    };
    let link = (up(&r, "r0", 2), up(&s, "s0", 1));
    for (host, interface) in [(&s, "s0"), (&r, "r0")] {
        host.enter(|| Interfaces::wait_until_running(interface)).unwrap().unwrap();
    }
    let kernel = kernel.then(|| KernelStoreConfig { bytes: 1 << 20, interface: "s0".to_owned() });
    let config = ServerConfig { listen: listen.parse().unwrap(), ..config(place.store.folder()) };
    let server = s.enter(|| Server::start_with(&config, kernel.as_ref())).unwrap().unwrap();
    r.enter(|| passes.attach("r0")).unwrap().unwrap();
    // What has no sum yet is not looked at.
    r.enter(|| without_offloads("r0")).unwrap().unwrap();
    let socket = r.enter(|| UdpSocket::bind("10.77.0.2:40001")).unwrap().unwrap();
    let to = SocketAddr::new("10.77.0.1".parse().unwrap(), server.address().port());
    let ends = UdpEnds { link, from: socket.local_addr().unwrap(), to };
    let frames = r.enter(|| packets("r0")).unwrap().unwrap();
    Some(Bed { server, client: Client::over(socket, to), asked: 0, frames, ends, s, _passes: passes })
}

impl Bed {
    fn kernel(&self) -> KernelStoreFigures {
        self.server.counts().kernel.unwrap_or_default()
    }

    /// Asks through the socket, and takes this many messages.
    fn ask(&mut self, name: Name, unit: u64, padded: usize, messages: usize) {
        self.asked += 1;
        self.client.ask(name, unit, 1, padded, messages);
    }

    /// Asks for a unit through the interface, as a card would bring it in; whether the kernel answered, and not the router.
    fn answered(&mut self, name: Name, unit: u64) -> bool {
        until("all have been counted", || self.server.counts().router.requests == self.asked);
        let before = self.kernel().answered;
        let ranges = Ranges::new(Units { first: unit, count: 1 }).unwrap();
        let (nonce, token) = (self.client.nonce, self.client.token);
        let mut message = Vec::new();
        UnitRequest { nonce, name, ranges, token, hops: 0, padded: 0 }.encode(&mut message);
        let mut frame = self.ends.frame(&message);
        frame.resize(1514, 0);
        self.client.units.clear();
        rustix::io::write(self.frames.as_fd(), &frame).unwrap();
        self.asked += 1;
        assert!(self.client.take(Duration::from_secs(20)), "an answer to unit {unit}");
        until("it has been counted", || self.server.counts().router.requests == self.asked);
        self.kernel().answered > before
    }

    /// Two fetches ask for a unit, until it is in the kernel.
    fn fill(&mut self, name: Name, unit: u64) {
        let before = self.kernel().used_bytes;
        until("the kernel has it", || {
            self.twice(name, unit);
            self.kernel().used_bytes > before
        });
    }

    fn twice(&mut self, name: Name, unit: u64) {
        for nonce in [1, 2] {
            self.client.nonce = nonce;
            self.ask(name, unit, 0, 1);
        }
    }
}

#[test]
fn what_is_asked_for_often_is_answered_by_the_kernel() {
    let test = "what_is_asked_for_often_is_answered_by_the_kernel";
    let (place, name, bytes) = published(300);
    let Some(mut bed) = bed(test, &place, "0.0.0.0:4871", true) else { return };
    bed.ask(name, 0, PADDED, 2);
    assert!(bed.client.token.is_some());
    bed.fill(name, 5);
    for unit in [0, 5, 63] {
        assert!(bed.answered(name, unit), "{unit}");
        assert_eq!(bed.client.units[&unit], bytes[unit as usize * UNIT..][..UNIT], "{unit}");
    }
    // Another part, and what is shorter than a unit.
    assert!(!bed.answered(name, 64));
    bed.fill(name, 299);
    assert!(!bed.answered(name, 299));
    assert!(bed.answered(name, 298));
    assert_eq!(bed.client.units[&298], bytes[298 * UNIT..][..UNIT]);
    // A socket's frames have no room.
    let before = bed.kernel();
    bed.ask(name, 5, 0, 1);
    until("figures", || bed.kernel().no_room > before.no_room);
    let counts = bed.server.counts();
    assert_eq!(counts.router.bad_tokens, 0);
    assert!(counts.router.sent_units >= counts.kernel.unwrap().answered);
    let Bed { server, s, .. } = bed;
    assert_eq!(server.trouble(), None);
    server.stop().unwrap();
    let mut free = KernelStore::load(1 << 20).unwrap();
    s.enter(|| free.attach("s0")).unwrap().unwrap();
}

#[test]
fn what_is_not_there_as_it_was_is_not_answered_by_the_kernel_a_second_later() {
    // By looks, not by a clock: of two that ended since, one began later.
    const LOOKS: u32 = 2;
    let test = "what_is_not_there_as_it_was_is_not_answered_by_the_kernel_a_second_later";
    assert!(KernelStoreConfig::LOOK * LOOKS <= Duration::from_secs(1));
    let shrink = |path: &Path| File::options().write(true).open(path).unwrap().set_len(3 * UNIT as u64).unwrap();
    let remove = |path: &Path| fs::remove_file(path).unwrap();
    let overwrite = |path: &Path| {
        let file = File::options().write(true).open(path).unwrap();
        file.write_all_at(b"other", 5 * UNIT as u64).unwrap();
    };
    let replace = |path: &Path| {
        let other = path.with_extension("other");
        fs::copy(path, &other).unwrap();
        fs::rename(other, path).unwrap();
    };
    let harms = [(100, shrink as fn(&Path)), (200, remove), (300, overwrite), (400, replace)];
    let place = Place::new();
    let names = harms.map(|(units, _)| published_in(&place, units).0);
    let Some(mut bed) = bed(test, &place, "0.0.0.0:4871", true) else { return };
    bed.ask(names[0], 0, PADDED, 2);
    for name in names {
        bed.fill(name, 5);
    }
    for (name, (units, harm)) in names.into_iter().zip(harms) {
        assert!(bed.answered(name, 5), "{units}");
        let before = bed.kernel();
        harm(&place.store.path_of(&name));
        until("it is looked at", || bed.kernel().looks >= before.looks + u64::from(LOOKS));
        assert!(bed.kernel().used_bytes < before.used_bytes, "{units}");
        bed.client.nacks.clear();
        assert!(!bed.answered(name, 5), "{units}");
        let reason = bed.client.nacks.pop().map(|nack| nack.reason);
        match units {
            100 | 200 => {
                assert!(matches!(reason, Some(MissingReason::Changed | MissingReason::NotFound)), "{reason:?}");
            }
            // The router serves a file as it is, and receivers see what is wrong with it.
            _ => assert!(matches!(reason, None | Some(MissingReason::Changed)), "{reason:?}"),
        }
    }
}

#[test]
fn an_object_that_was_overwritten_is_not_filled_in() {
    let test = "an_object_that_was_overwritten_is_not_filled_in";
    let (place, name, bytes) = published(300);
    let path = place.store.path_of(&name);
    // Unit 100 is another one, which the router does not see: receivers do.
    let mut damaged = bytes.clone();
    damaged[100 * UNIT] ^= 1;
    fs::write(&path, damaged).unwrap();
    let Some(mut bed) = bed(test, &place, "10.77.0.1:4871", true) else { return };
    bed.ask(name, 0, PADDED, 2);
    bed.fill(name, 5);
    until("it is found", || {
        bed.twice(name, 70);
        bed.server.trouble().is_some_and(|trouble| trouble.contains("unit 100"))
    });
    assert!(!bed.answered(name, 70) && bed.answered(name, 5));
}

#[test]
fn a_server_without_the_interface_does_not_begin() {
    let test = "a_server_without_the_interface_does_not_begin";
    if needs_root(test) {
        return;
    }
    let place = Place::new();
    let kernel = KernelStoreConfig { bytes: 1 << 20, interface: "none0".to_owned() };
    let error =
        Server::start_with(&config(place.store.folder()), Some(&kernel)).err().expect("an interface that is not there");
    let error = error.to_string();
    assert!(error.contains("--") && !error.contains('\n'), "{error}");
}
