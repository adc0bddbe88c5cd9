//! The ways of a bus, one against the other end of it: in a process, by sockets of a machine, by a real NATS server.
#![cfg(target_os = "linux")]

mod server;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use paceline_bus::{
    Address, Bus, BusError, BusMessage, BusOptions, Control, GateCounts, Health, Hub, Keys, MessageBody, MessageKind,
    PublisherKey, PublisherRole, RefusalReason, SubjectFilter, Subscription, VariantArray, flow_number, seal,
};
use paceline_telemetry::{FlowReport, NodeReport, Tuple};
use server::Server;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
const ROLES: &[PublisherRole] = PublisherRole::VARIANTS;

fn keys() -> Keys {
    Keys::default()
        .with("sta2", PublisherKey::new(&[PublisherRole::Sink], &[1; 32]))
        .with("all", PublisherKey::new(ROLES, &[2; 32]))
}

fn options(name: &str, role: Option<PublisherRole>) -> BusOptions {
    BusOptions { name: name.to_owned(), role, keys: Some(keys()), ..BusOptions::default() }
}

fn tuple(sport: u16) -> Tuple {
    Tuple { sport, dport: 443, ..Tuple::default() }
}

fn flow(sport: u16) -> MessageKind {
    MessageKind::Flow(flow_number(&tuple(sport)))
}

fn report(sport: u16, rseq: u64) -> MessageBody {
    MessageBody::Flow(FlowReport { tuple: tuple(sport), rseq, ..FlowReport::default() })
}

fn rseq(message: &BusMessage) -> u64 {
    let MessageBody::Flow(report) = &message.body else { panic!("{message:?}") };
    report.rseq
}

/// Publishes until a message comes through: subscribers are found after a while.
fn warm(from: &Bus, to: &Subscription, sport: u16) {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        from.publish(flow(sport), &report(sport, 0));
        if to.next(Duration::from_millis(50)).is_some() {
            // What is still on its way.
            while to.next(Duration::from_millis(300)).is_some() {}
            return;
        }
    }
    panic!("nothing comes through: {:?}, {:?}", from.figures(), to.counts());
}

/// Runs a test over each way that this machine has.
fn each(test: impl Fn(&dyn Fn(BusOptions) -> Result<Bus, BusError>)) {
    let hub = Hub::default();
    test(&|options| Bus::join(&hub, options));
    let folder = tempfile::tempdir().unwrap();
    let local = Address::Local(folder.path().join("bus"));
    test(&|options| Bus::open(&local, options));
    if let Some(server) = Server::start("each") {
        test(&|options| Bus::open(&server.address(), options));
    }
}

#[test]
fn everyone_gets_what_they_asked_for() {
    each(|open| {
        let publisher = open(options("all", Some(PublisherRole::Sink))).unwrap();
        let reader = open(options("reader", None)).unwrap();
        let one = reader.subscribe(&[SubjectFilter::Flow(flow_number(&tuple(1)))]).unwrap();
        let all = reader
            .subscribe(&[SubjectFilter::Flows, SubjectFilter::Nodes, SubjectFilter::Control("sta1".to_owned())])
            .unwrap();
        warm(&publisher, &one, 1);
        warm(&publisher, &all, 2);
        let host = "all".to_owned();
        publisher.publish(flow(1), &report(1, 10));
        publisher.publish(flow(2), &report(2, 20));
        publisher.publish(MessageKind::Node(7), &MessageBody::Node(NodeReport { node: 7, ..NodeReport::default() }));
        publisher
            .publish(MessageKind::Health { role: PublisherRole::Sink, host }, &MessageBody::Health(Health::default()));
        publisher.publish(MessageKind::Control("sta9".to_owned()), &MessageBody::Control(Control::new(false, 1)));
        publisher.publish(MessageKind::Control("sta1".to_owned()), &MessageBody::Control(Control::new(false, 1)));
        let first = one.next(PATIENCE).unwrap();
        assert_eq!((rseq(&first), first.publisher.as_str()), (10, "all"));
        // From different subjects in any order.
        let mut got: Vec<BusMessage> = (0..4).map(|_| all.next(PATIENCE).unwrap()).collect();
        got.sort_by_key(|message| message.number);
        let kinds: Vec<MessageKind> = got.into_iter().map(|message| message.subject.kind).collect();
        assert_eq!(kinds, [flow(1), flow(2), MessageKind::Node(7), MessageKind::Control("sta1".to_owned())]);
        // No longer, and of another flow instead.
        one.remove(&SubjectFilter::Flow(flow_number(&tuple(1))));
        one.add(&SubjectFilter::Flow(flow_number(&tuple(3))));
        warm(&publisher, &one, 3);
        publisher.publish(flow(1), &report(1, 11));
        publisher.publish(flow(3), &report(3, 30));
        assert_eq!(rseq(&one.next(PATIENCE).unwrap()), 30);
        assert_eq!((one.counts().all_refused(), one.dropped(), all.counts().all_refused()), (0, 0, 0));
    });
}

#[test]
fn what_was_signed_before_is_let_in_once_and_in_time() {
    each(|open| {
        let late = BusOptions { max_age: Duration::from_secs(3600), ..options("sta2", Some(PublisherRole::Sink)) };
        let publisher = open(late).unwrap();
        let patient = BusOptions { max_age: PATIENCE, ..options("reader", None) };
        let reader = open(patient).unwrap().subscribe(&[SubjectFilter::Flows]).unwrap();
        let strict = BusOptions { max_age: Duration::from_millis(1), ..options("reader", None) };
        let strict = open(strict).unwrap().subscribe(&[SubjectFilter::Flows]).unwrap();
        warm(&publisher, &reader, 1);
        let stale = || strict.counts().refused(RefusalReason::Stale);
        let before = stale();
        let sealed = publisher.seal(flow(1), &report(1, 10)).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        publisher.send(sealed.clone());
        assert_eq!(rseq(&reader.next(PATIENCE).unwrap()), 10);
        publisher.send(sealed);
        publisher.publish(flow(1), &report(1, 11));
        assert_eq!(rseq(&reader.next(PATIENCE).unwrap()), 11);
        assert_eq!((reader.counts().refused(RefusalReason::Replay), reader.counts().all_refused()), (1, 1));
        let began = Instant::now();
        while stale() < before + 2 {
            assert!(began.elapsed() < PATIENCE, "{:?}", strict.counts());
            assert!(strict.next(Duration::from_millis(10)).is_none_or(|message| rseq(&message) != 10));
        }
    });
}

#[test]
fn other_domains_hear_nothing() {
    each(|open| {
        let publisher = open(options("sta2", Some(PublisherRole::Sink))).unwrap();
        let reader = open(options("reader", None)).unwrap().subscribe(&[SubjectFilter::Flows]).unwrap();
        let other = BusOptions { domain: "other".to_owned(), ..options("reader", None) };
        let other = open(other).unwrap().subscribe(&[SubjectFilter::Flows]).unwrap();
        warm(&publisher, &reader, 1);
        assert!(other.next(Duration::ZERO).is_none());
        assert_eq!(other.counts().taken, 0);
    });
}

#[test]
fn a_bus_without_its_key_or_name_is_refused() {
    let refused = |options| Bus::join(&Hub::default(), options).unwrap_err().to_string();
    let text = refused(options("sta3", Some(PublisherRole::Sink)));
    assert_eq!(text, "there is no key of 'sta3' for the role sink; make one with: paceline int key sta3 --role sink");
    assert!(refused(options("sta2", Some(PublisherRole::Hop))).contains("for the role hop"));
    assert!(refused(options("a.b", None)).contains("cannot be a name"));
    let nats: Address = "nats://user:secret@127.0.0.1:1".parse().unwrap();
    let text = Bus::open(&nats, BusOptions { keys: None, ..options("a", None) }).unwrap_err().to_string();
    assert!(text.starts_with("nats://127.0.0.1:1: messages between machines need keys"), "{text}");
    for wrong in ["", "nats", "nats://", "local:relative", "http://a", "kafka://a"] {
        assert!(wrong.parse::<Address>().is_err(), "{wrong}");
    }
}

#[test]
fn a_slow_reader_gets_the_newest() {
    each(|open| {
        let publisher = open(options("sta2", Some(PublisherRole::Sink))).unwrap();
        let slow = BusOptions { queue: 16, ..options("reader", None) };
        let slow = open(slow).unwrap().subscribe(&[SubjectFilter::Flows]).unwrap();
        warm(&publisher, &slow, 1);
        let (taken, sent) = (slow.counts().taken, 3000);
        // The reader does not read; the way there has room for all of them in time.
        for number in 1..=sent {
            publisher.publish(flow(1), &report(1, number));
            if number % 50 == 0 {
                wait(|| slow.counts().taken - taken == number || publisher.figures().slow > 0);
            }
        }
        wait(|| slow.counts().taken - taken + publisher.figures().slow >= sent);
        let mut last = 0;
        let mut count = 0;
        while let Some(message) = slow.next(Duration::ZERO) {
            assert!(rseq(&message) > last);
            (last, count) = (rseq(&message), count + 1);
        }
        assert_eq!((last, count), (sent, 16));
        assert!(slow.dropped() >= sent - 16 - publisher.figures().slow, "{}", slow.dropped());
    });
}

/// Until it is so.
fn wait(mut so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < PATIENCE, "it does not come to be");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn micros() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64
}

/// What an attacker with access to the server does: speaks NATS's protocol as it likes.
struct Attacker(TcpStream);

impl Attacker {
    fn connect(server: &Server) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        let mut greeting = [0; 4096];
        assert!(stream.read(&mut greeting).unwrap() > 0);
        stream.write_all(b"CONNECT {\"verbose\":false}\r\nPING\r\n").unwrap();
        assert!(stream.read(&mut greeting).unwrap() > 0);
        Self(stream)
    }

    fn publish(&mut self, kind: &MessageKind, bytes: &[u8]) {
        let MessageKind::Flow(flow) = kind else { unreachable!() };
        write!(self.0, "PUB int.v1.default.flow.{flow:08x} {}\r\n", bytes.len()).unwrap();
        self.0.write_all(bytes).unwrap();
        self.0.write_all(b"\r\n").unwrap();
    }
}

#[test]
fn who_has_no_key_is_not_believed() {
    let Some(server) = Server::start("who_has_no_key_is_not_believed") else { return };
    let said = Arc::new(Mutex::new(Vec::new()));
    let log = said.clone();
    let log = Arc::new(move |line: &str| log.lock().unwrap().push(line.to_owned()));
    let reader = Bus::open(&server.address(), BusOptions { log, ..options("reader", None) }).unwrap();
    let reader = reader.subscribe(&[SubjectFilter::Flows]).unwrap();
    let publisher = Bus::open(&server.address(), options("sta2", Some(PublisherRole::Sink))).unwrap();
    warm(&publisher, &reader, 1);
    let subject = format!("int.v1.default.flow.{:08x}", flow_number(&tuple(2)));
    let own = |secret: u8, number: u64, text: &[u8]| {
        seal("sta2", Some(&PublisherKey::new(&[], &[secret; 32])), number, &subject, text)
    };
    let text = report(2, 1).text();
    let now = micros();
    let genuine = own(1, now, &text);
    let namespace = String::from_utf8(text.clone()).unwrap().replace("32769", "7").into_bytes();
    let mut attacker = Attacker::connect(&server);
    let mut attempts = vec![
        (RefusalReason::Malformed, b"free room for everyone".to_vec()),
        (RefusalReason::Stranger, seal("eve", Some(&PublisherKey::new(&[], &[1; 32])), now, &subject, &text)),
        (RefusalReason::Unsigned, seal("sta2", None, now, &subject, &text)),
        (RefusalReason::WrongKey, own(3, now, &text)),
        // Held back for an hour, and from a clock that is an hour ahead.
        (RefusalReason::Stale, own(1, now - 3_600_000_000, &text)),
        (RefusalReason::Ahead, own(1, now + 3_600_000_000, &text)),
        // By the right key, of another flow, and nonsense.
        (RefusalReason::Content, own(1, now - 2, &report(3, 1).text())),
        (RefusalReason::Namespace, own(1, now - 1, &namespace)),
    ];
    let all = seal("all", Some(&PublisherKey::new(&[], &[2; 32])), now, &subject, &text);
    attempts.push((RefusalReason::WrongKey, [b"pl1 sta2".as_slice(), &all[7..]].concat()));
    for (_, bytes) in &attempts {
        attacker.publish(&flow(2), bytes);
    }
    attacker.publish(&flow(2), &genuine);
    for _ in 0..3 {
        attacker.publish(&flow(2), &genuine);
    }
    attacker.publish(&flow(1), &genuine);
    wait(|| reader.counts().all_refused() >= attempts.len() as u64 + 4);
    let count = |counts: &GateCounts, reason| counts.refused(reason);
    let counts = reader.counts();
    for &reason in RefusalReason::VARIANTS {
        let expected = attempts.iter().filter(|(expected, _)| *expected == reason).count() as u64;
        let more = match reason {
            RefusalReason::Replay => 3,
            RefusalReason::WrongKey => 1,
            _ => 0,
        };
        assert_eq!(count(&counts, reason), expected + more, "{reason:?}");
    }
    let mut got = Vec::new();
    while let Some(message) = reader.next(Duration::from_millis(200)) {
        got.push(rseq(&message));
    }
    assert_eq!(got, [1], "the genuine one, once");
    // One line for each reason, whatever the number.
    let said = said.lock().unwrap();
    assert_eq!(said.iter().filter(|line| line.contains("refused")).count(), 9, "{said:?}");
    assert!(said.iter().all(|line| !line.contains('\n')));
}

#[test]
fn a_server_that_dies_under_load_delays_no_publisher() {
    let Some(mut server) = Server::start("a_server_that_dies_under_load_delays_no_publisher") else { return };
    let said = Arc::new(Mutex::new(Vec::new()));
    let log = said.clone();
    let log = Arc::new(move |line: &str| log.lock().unwrap().push(line.to_owned()));
    let publishing = BusOptions { log, queue: 64, ..options("sta2", Some(PublisherRole::Sink)) };
    let publisher = Bus::open(&server.address(), publishing).unwrap();
    let reader = Bus::open(&server.address(), options("reader", None)).unwrap();
    let reader = reader
        .subscribe(&[SubjectFilter::Flow(flow_number(&tuple(1))), SubjectFilter::Flow(flow_number(&tuple(2)))])
        .unwrap();
    warm(&publisher, &reader, 1);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            let mut number = 0;
            while !ended.load(Ordering::Relaxed) {
                number += 1;
                publisher.publish(flow(1), &report(1, number));
                publisher.publish(flow(2), &report(2, number));
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        for _ in 0..3 {
            let fresh = reader.next(PATIENCE).expect("a report comes");
            server.kill();
            wait(|| !publisher.is_connected());
            // The load goes on, and what there is no room for goes.
            let dropped = publisher.figures().dropped;
            wait(|| publisher.figures().dropped > dropped + 200);
            server.restart();
            wait(|| publisher.is_connected());
            let back = micros();
            let later = std::iter::from_fn(|| reader.next(PATIENCE)).find(|message| message.number > back);
            assert!(later.is_some_and(|later| later.number > fresh.number), "reports that were made after it was back");
        }
        ended.store(true, Ordering::Relaxed);
        load.join().unwrap();
    });
    let (figures, counts) = (publisher.figures(), reader.counts());
    assert_eq!(
        (figures.lost, figures.oversize, counts.refused(RefusalReason::Replay)),
        (3, 0, 0),
        "{figures:?}, {counts:?}"
    );
    assert!(
        figures.published > 600 && figures.sent + figures.dropped + figures.expired <= figures.published,
        "{figures:?}"
    );
    // It is said when it goes and when it is back, not at each attempt.
    let said = said.lock().unwrap();
    assert!(said.len() <= 7, "{said:?}");
}

#[test]
fn a_server_that_comes_later_is_found() {
    let Some(mut server) = Server::start("a_server_that_comes_later_is_found") else { return };
    server.kill();
    let said = Arc::new(Mutex::new(Vec::new()));
    let log = said.clone();
    let log = Arc::new(move |line: &str| log.lock().unwrap().push(line.to_owned()));
    let publisher =
        Bus::open(&server.address(), BusOptions { log, ..options("sta2", Some(PublisherRole::Sink)) }).unwrap();
    let reader = Bus::open(&server.address(), options("reader", None)).unwrap();
    let reader = reader.subscribe(&[SubjectFilter::Flows]).unwrap();
    wait(|| !said.lock().unwrap().is_empty());
    assert!(!publisher.is_connected());
    server.restart();
    warm(&publisher, &reader, 1);
    let said = said.lock().unwrap();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].contains("trying again") && said[1].ends_with("connected"), "{said:?}");
}

#[test]
fn wrong_credentials_are_one_line() {
    let Some(server) = Server::start_with("wrong_credentials_are_one_line", &["--user", "int", "--pass", "right"])
    else {
        return;
    };
    let said = Arc::new(Mutex::new(Vec::new()));
    let log = said.clone();
    let log = Arc::new(move |line: &str| log.lock().unwrap().push(line.to_owned()));
    let wrong = format!("nats://int:wrong@127.0.0.1:{}", server.port).parse().unwrap();
    let refused = Bus::open(&wrong, BusOptions { log, ..options("sta2", Some(PublisherRole::Sink)) }).unwrap();
    wait(|| !said.lock().unwrap().is_empty());
    std::thread::sleep(Duration::from_secs(1));
    let said = said.lock().unwrap().clone();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("authorization") && !said[0].contains("wrong"), "{said:?}");
    assert!(!refused.is_connected());
    let right: Address = format!("nats://int:right@127.0.0.1:{}", server.port).parse().unwrap();
    let publisher = Bus::open(&right, options("sta2", Some(PublisherRole::Sink))).unwrap();
    let reader = Bus::open(&right, options("reader", None)).unwrap().subscribe(&[SubjectFilter::Flows]).unwrap();
    warm(&publisher, &reader, 1);
}

#[test]
fn the_local_bus_is_its_owners() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bus");
    let address = Address::Local(path.clone());
    let unsigned = |role| BusOptions { keys: None, ..options("sta2", role) };
    let publisher = Bus::open(&address, unsigned(Some(PublisherRole::Sink))).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    // One that a killed process has left behind.
    let left = path.join("1-0.socket");
    drop(UnixListener::bind(&left).unwrap());
    let reader = Bus::open(&address, unsigned(None)).unwrap();
    let subscription = reader.subscribe(&[SubjectFilter::Flows]).unwrap();
    warm(&publisher, &subscription, 1);
    // A stream's socket is not one of ours, and does no harm; a dead one of ours goes.
    drop(subscription);
    let count = || fs::read_dir(&path).unwrap().filter(|entry| entry.as_ref().unwrap().path() != left).count();
    assert_eq!(count(), 0);
    // Both ends may come and go.
    let again = reader.subscribe(&[SubjectFilter::Flows]).unwrap();
    warm(&publisher, &again, 1);
    drop(publisher);
    let publisher = Bus::open(&address, unsigned(Some(PublisherRole::Sink))).unwrap();
    warm(&publisher, &again, 1);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(Bus::open(&address, unsigned(None)), Err(BusError::Open(_))));
}
