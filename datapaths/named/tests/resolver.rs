//! Announce, ask, measure.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use paceline_icn::Name;
use paceline_icn::name::NameKind;
use paceline_icn::resolve::{Limits, ResolveKey};
use paceline_named::resolver::{
    Announcer, Announcing, ResolveError, Service, ServiceConfig, Whereabouts, announce, measure, nearest, resolve,
};

use crate::place::Shop;

const PATIENCE: Duration = Duration::from_secs(20);
const SECOND: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(60);

fn key(byte: u8) -> ResolveKey {
    ResolveKey::new(&[byte; 32])
}

/// A service on a thread of its own.
struct Running {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn new(state: Option<&Path>) -> Self {
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let config = ServiceConfig { listen, key: key(1), limits: Limits::default(), state: state.map(Into::into) };
        let service = Service::bind(&config).unwrap();
        let address = service.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let watched = stop.clone();
        let thread = std::thread::spawn(move || {
            service.run(&watched, &mut |trouble| panic!("{trouble}")).unwrap();
        });
        Self { address, stop, thread: Some(thread) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

#[test]
fn what_routers_announce_is_found_nearest_first_and_without_those_that_lack_it() {
    let (shop, empty) = (Shop::new(), Shop::new());
    let name = shop.publish(b"a film");
    let (has, lacks) = (shop.serve(), empty.serve());
    // Bound, and never answers.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let service = Running::new(None);
    for address in [silent.local_addr().unwrap(), lacks.address(), has.address()] {
        announce(&[name], address, TTL, &key(1), service.address, PATIENCE).unwrap();
    }
    assert_eq!(resolve(&name, service.address, PATIENCE).unwrap().len(), 3);
    let found = nearest(&name, service.address, PATIENCE).unwrap();
    assert_eq!(found.iter().map(|place| place.address).collect::<Vec<_>>(), [has.address()]);
    assert!(found[0].rtt.unwrap() < PATIENCE);
    let all = measure(&name, &[silent.local_addr().unwrap(), lacks.address()], SECOND).unwrap();
    assert_eq!((all[0].address, all[0].lacks), (lacks.address(), true));
    assert_eq!(all[1].rtt, None);
    let places = Whereabouts::Service(service.address).places(&name, PATIENCE).unwrap();
    assert_eq!(places, [has.address()]);
    announce(&[name], has.address(), Duration::ZERO, &key(1), service.address, PATIENCE).unwrap();
    assert!(matches!(nearest(&name, service.address, SECOND), Err(ResolveError::Nowhere { places: 2, .. })));
}

#[test]
fn who_has_another_key_announces_nothing_and_no_resolver_is_said_in_one_line() {
    let service = Running::new(None);
    let name = Name::new(NameKind::Object, [9; 32]);
    let at = SocketAddr::from(([127, 0, 0, 1], 9));
    let error = announce(&[name], at, TTL, &key(2), service.address, PATIENCE).unwrap_err().to_string();
    assert!(error.contains("key") && !error.contains('\n'), "{error}");
    assert!(resolve(&name, service.address, PATIENCE).unwrap().is_empty());
    assert!(matches!(nearest(&name, service.address, PATIENCE), Err(ResolveError::Unknown { .. })));
    // A port that was just given back.
    let closed = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = resolve(&name, closed, Duration::from_millis(300)).unwrap_err();
    assert!(matches!(error, ResolveError::Silent { .. }), "{error}");
}

#[test]
fn garbage_does_not_disturb_and_the_table_outlives_the_service() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state.json");
    let name = Name::new(NameKind::Signed, [8; 32]);
    let at = SocketAddr::from(([127, 0, 0, 1], 9));
    {
        let service = Running::new(Some(&state));
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        for length in [0_u8, 1, 12, 60, 200] {
            socket.send_to(&vec![length; length.into()], service.address).unwrap();
        }
        announce(&[name], at, TTL, &key(1), service.address, PATIENCE).unwrap();
    }
    let service = Running::new(Some(&state));
    let found = resolve(&name, service.address, PATIENCE).unwrap();
    assert_eq!(found.iter().map(|place| place.address).collect::<Vec<_>>(), [at]);
    drop(service);
    std::fs::write(&state, "{").unwrap();
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let config = ServiceConfig { listen, key: key(1), limits: Limits::default(), state: Some(state) };
    let error = Service::bind(&config).unwrap_err().to_string();
    assert!(error.contains("remove it") && !error.contains('\n'), "{error}");
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let config = ServiceConfig { listen: taken.local_addr().unwrap(), state: None, ..config };
    let error = Service::bind(&config).unwrap_err().to_string();
    assert!(error.contains("--listen") && error.contains("in use"), "{error}");
}

#[test]
fn a_store_is_announced_while_its_router_runs() {
    let shop = Shop::new();
    let name = shop.publish(b"a film");
    let service = Running::new(None);
    let address = SocketAddr::from(([127, 0, 0, 1], 4));
    let store = shop.store.folder().to_owned();
    let what = Announcing { store, address, service: service.address, key: key(1) };
    let announcer = Announcer::start(what, |error| panic!("{error}")).unwrap();
    let known = || !resolve(&name, service.address, PATIENCE).unwrap().is_empty();
    while !known() {
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(announcer);
    assert!(!known(), "taken back");
}

#[cfg(feature = "dns")]
mod dns {
    use std::io::Write;
    use std::process::{Child, Command, Stdio};

    use paceline_named::resolver::Zone;

    use super::*;

    struct Dnsmasq(Child);

    impl Drop for Dnsmasq {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// A name server with these TXT records, if the machine has one.
    fn server(records: &[String]) -> Option<(Dnsmasq, SocketAddr)> {
        let at = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut command = Command::new("dnsmasq");
        command.args([
            "--keep-in-foreground",
            "--conf-file=/dev/null",
            "--no-resolv",
            "--no-hosts",
            "--bind-interfaces",
        ]);
        command.args([
            "--listen-address=127.0.0.1",
            "--user=",
            "--pid-file=",
            "--local=/content.test/",
            "--local-ttl=60",
        ]);
        command
            .arg(format!("--port={}", at.port()))
            .args(records.iter().map(|record| format!("--txt-record={record}")));
        let spawned = command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").stderr(Stdio::null()).spawn();
        let Ok(child) = spawned else {
            // Not by a macro, whose output is not shown for tests that pass.
            let _ = writeln!(std::io::stderr(), "skipped: names_are_found_in_dns: it needs dnsmasq");
            return None;
        };
        let server = Dnsmasq(child);
        // It takes a moment until it answers.
        let zone = Zone { zone: "content.test".into(), server: Some(at) };
        while zone.resolve(&Name::new(NameKind::Object, [0; 32]), SECOND).is_err() {
            std::thread::sleep(Duration::from_millis(20));
        }
        Some((server, at))
    }

    #[test]
    fn names_are_found_in_dns() {
        let shop = Shop::new();
        let name = shop.publish(b"a film");
        let router = shop.serve();
        let other = Name::new(NameKind::Object, [7; 32]);
        let wrong = Name::new(NameKind::Object, [6; 32]);
        let records = [
            format!("{name}.content.test,paceline-icn={}", router.address()),
            format!("{name}.content.test,something else"),
            format!("{wrong}.content.test,paceline-icn=nowhere"),
        ];
        let Some((_server, at)) = server(&records) else { return };
        let zone = Zone { zone: "content.test".into(), server: Some(at) };
        let found = zone.resolve(&name, PATIENCE).unwrap();
        assert_eq!(found.iter().map(|place| place.address).collect::<Vec<_>>(), [router.address()]);
        assert!(zone.resolve(&other, PATIENCE).unwrap().is_empty());
        let error = zone.resolve(&wrong, PATIENCE).unwrap_err().to_string();
        assert!(error.contains("ADDR:PORT") && !error.contains('\n'), "{error}");
        assert_eq!(Whereabouts::Zone(zone).places(&name, PATIENCE).unwrap(), [router.address()]);
    }
}
