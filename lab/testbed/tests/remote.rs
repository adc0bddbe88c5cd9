//! Races between two hosts, both of them this one: what runs, who is kept out, and what becomes of it when an end vanishes.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use paceline_cc::Nanos;
use paceline_experiment::{Flow, Handover, Via};
use paceline_fixture::until;
use paceline_testbed::remote::wire::{OPENING, RaceChallenge, RaceOpening, RacePurpose, VERSION};
use paceline_testbed::remote::{RaceAccount, RaceClient, RaceOffer, RaceServer, RemoteRun};
use paceline_udp::SessionKey;

const LOOPBACK: &str = "127.0.0.1:0";
const SHORT: Nanos = Nanos::from_millis(300);

/// `CONTROLLER@VIA` of these tests.
fn read(text: &str) -> Option<Flow> {
    let (controller, via) = text.split_once('@')?;
    let via = match via {
        "udp" => Via::udp(),
        "tcp" => Via::tcp(None),
        "alcc" => Via::alcc("reno".parse().ok()?, Handover::default()),
        "quic" => Via::quic(),
        _ => return None,
    };
    Some(Flow::bulk(controller.parse().ok()?, via))
}

/// A server in this process, until it is stopped.
struct Serving {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    over: Arc<Mutex<Vec<RaceAccount>>>,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    fn at(address: &str, key: Option<SessionKey>) -> Self {
        let offer = RaceOffer { key, most_time: Nanos::from_secs(20), most_mbps: 200, read };
        let server = RaceServer::bind(address.parse().unwrap(), offer).unwrap();
        let (stop, over) = (Arc::<AtomicBool>::default(), Arc::<Mutex<Vec<RaceAccount>>>::default());
        let (address, flag, all) = (server.address(), stop.clone(), over.clone());
        let serve = move || server.serve(&flag, false, &|one| all.lock().unwrap().push(one.clone())).unwrap();
        Self { address, stop, over, thread: Some(thread::spawn(serve)) }
    }

    fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().into_iter().for_each(|thread| thread.join().unwrap());
    }

    fn races(&self) -> usize {
        self.over.lock().unwrap().len()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop();
    }
}

fn client(address: SocketAddr, key: Option<SessionKey>) -> RaceClient {
    RaceClient::new(address, key, 1500)
}

fn run(client: &mut RaceClient, contestant: &str, up: bool, time: Nanos) -> Result<RemoteRun, String> {
    client.run(&read(contestant).unwrap(), contestant, up, 1, time).map_err(|error| error.to_string())
}

#[test]
fn every_datapath_runs_in_both_directions_one_run_after_the_other() {
    for key in [None, Some(SessionKey::new([3; 32]))] {
        let mut server = Serving::at(LOOPBACK, key.clone());
        let mut client = client(server.address, key);
        for contestant in ["copa@udp", "reno@tcp", "copa@alcc", "sprout@alcc", "sprout@udp"] {
            for up in [false, true] {
                let RemoteRun { sender, receiver, .. } = run(&mut client, contestant, up, SHORT).unwrap();
                let what = format!("{contestant}, up: {up}: {sender:?} {receiver:?}");
                assert!(receiver.bytes > 0 && receiver.wire_bytes > receiver.bytes, "{what}");
                assert!(receiver.packets > 0 && sender.packets >= receiver.packets / 2, "{what}");
                assert!(!sender.rtt_us.is_empty() && receiver.rtt_us.is_empty(), "{what}");
                assert_eq!(sender.limited_below != u32::MAX, contestant.ends_with("alcc"), "{what}");
                // 200 Mbit/s, a quarter of a second ahead.
                assert!(receiver.bytes <= 25_000_000 * 6 / 10, "{what}");
            }
        }
        drop(client);
        until("the race is over", || server.races() == 1);
        server.stop();
        let account = server.over.lock().unwrap()[0].clone();
        assert_eq!((account.runs, account.broke.clone(), account.contestants.len()), ([10, 0], None, 5));
        assert!(account.to_string().contains(": 10 runs, 0 failed, in "), "{account}");
    }
}

#[test]
fn a_second_race_hears_that_the_server_is_busy_until_the_first_has_gone() {
    let server = Serving::at(LOOPBACK, None);
    let (mut first, mut second) = (client(server.address, None), client(server.address, None));
    first.begin(SHORT).unwrap();
    let busy = second.begin(SHORT).unwrap_err().to_string();
    assert_eq!(busy, format!("{} refuses: busy: another race runs; try again later", server.address));
    run(&mut first, "reno@tcp", true, SHORT).unwrap();
    drop(first);
    until("the server is free", || second.begin(SHORT).is_ok());
    run(&mut second, "reno@udp", false, SHORT).unwrap();
}

#[test]
fn a_client_that_vanishes_in_a_run_frees_the_server() {
    let server = Serving::at(LOOPBACK, None);
    let (address, mut races) = (server.address, 0);
    for contestant in ["copa@udp", "reno@tcp"] {
        // What a killed process leaves: its sockets are closed.
        let mut gone = client(address, None);
        gone.begin(SHORT).unwrap();
        let proxy = Proxy::between(address);
        drop(gone);
        until("the server is free", || server.races() == races + 1);
        let mut far = client(proxy.address, None);
        far.begin(Nanos::from_secs(15)).unwrap();
        let cut = proxy.clone();
        let cutter = thread::spawn(move || {
            thread::sleep(Duration::from_millis(300));
            cut.cut();
        });
        // Over UDP the flow never comes to be: the proxy carries TCP alone.
        let error = run(&mut far, contestant, false, Nanos::from_secs(15)).unwrap_err();
        cutter.join().unwrap();
        assert!(!error.contains('\n'), "{error}");
        until("the server is free", || server.races() == races + 2);
        run(&mut client(address, None), contestant, false, SHORT).unwrap();
        races += 3;
        until("the server is free", || server.races() == races);
    }
}

/// Carries TCP connections until it is cut.
#[derive(Clone)]
struct Proxy {
    address: SocketAddr,
    carried: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    fn between(to: SocketAddr) -> Self {
        let listener = TcpListener::bind(LOOPBACK).unwrap();
        let address = listener.local_addr().unwrap();
        let carried = Arc::<Mutex<Vec<TcpStream>>>::default();
        let kept = carried.clone();
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let far = TcpStream::connect(to).unwrap();
                kept.lock().unwrap().extend([near.try_clone().unwrap(), far.try_clone().unwrap()]);
                for (mut from, mut to) in [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)] {
                    thread::spawn(move || std::io::copy(&mut from, &mut to));
                }
            }
        });
        Self { address, carried }
    }

    fn cut(&self) {
        for stream in self.carried.lock().unwrap().drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

#[test]
fn a_server_that_vanishes_fails_the_run_and_the_next_one_goes_on_with_another() {
    let mut server = Serving::at(LOOPBACK, None);
    let (address, stop) = (server.address, server.stop.clone());
    let mut client = client(address, None);
    client.begin(Nanos::from_secs(15)).unwrap();
    let stopper = thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        stop.store(true, Ordering::Relaxed);
    });
    let error = run(&mut client, "copa@udp", true, Nanos::from_secs(15)).unwrap_err();
    assert!(error.contains("it closed the connection") && !error.contains('\n'), "{error}");
    stopper.join().unwrap();
    server.stop();
    let broke = server.over.lock().unwrap()[0].broke.clone();
    assert_eq!(broke.as_deref(), Some("this end was stopped"));
    let gone = run(&mut client, "copa@udp", true, SHORT).unwrap_err();
    assert!(gone.contains("no connection to") && gone.contains("paceline serve --race"), "{gone}");
    let _again = Serving::at(&address.to_string(), None);
    run(&mut client, "copa@udp", true, SHORT).unwrap();
}

#[test]
fn what_cannot_run_is_told_by_the_end_that_knows_and_the_race_goes_on() {
    let server = Serving::at(LOOPBACK, None);
    let mut client = client(server.address, None);
    let mut refused = |contestant: &str, up, time, what: &str| {
        let error = run(&mut client, contestant, up, time).unwrap_err();
        assert!(error.contains(what) && !error.contains('\n'), "{error}");
    };
    // The server would send, and looks; here the client would, and looks.
    let there = format!("at {}: copa@tcp: this kernel's TCP has no copa", server.address);
    refused("copa@tcp", false, SHORT, &there);
    refused("copa@tcp", true, SHORT, "copa@tcp: this kernel's TCP has no copa");
    refused("reno@quic", false, SHORT, "races between hosts go over udp, tcp and alcc; write reno@udp");
    refused("reno@udp", false, Nanos::from_secs(21), "permits runs of 20 s at most; give --seconds 20");
    let unknown = client.run(&read("reno@udp").unwrap(), "rno@udp", false, 1, SHORT).unwrap_err().to_string();
    assert!(unknown.contains("this contestant is not known there"), "{unknown}");
    run(&mut client, "reno@udp", true, SHORT).unwrap();
}

#[test]
fn without_the_key_there_is_no_race_and_no_traffic() {
    let key = |byte| Some(SessionKey::new([byte; 32]));
    let server = Serving::at(LOOPBACK, key(1));
    for other in [key(2), None] {
        let error = client(server.address, other).begin(SHORT).unwrap_err().to_string();
        let expected = "has another key or none; both ends must be given the same one with --key FILE";
        assert_eq!(error, format!("{} {expected}", server.address));
    }
    let far = client("192.0.2.1:4870".parse().unwrap(), None).begin(SHORT).unwrap_err().to_string();
    assert!(far.contains("192.0.2.1:4870 is not loopback: give both ends the same key"), "{far}");
    let offer = RaceOffer { key: None, most_time: SHORT, most_mbps: 1, read };
    let open = RaceServer::bind("0.0.0.0:0".parse().unwrap(), offer).err().unwrap().to_string();
    assert!(open.contains("is not loopback"), "{open}");
    assert_eq!(server.races(), 0);
}

/// The server's first word to a new connection.
fn challenged(address: SocketAddr) -> (TcpStream, RaceChallenge) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(paceline_fixture::PATIENCE)).unwrap();
    let mut bytes = [0; 24];
    stream.read_exact(&mut bytes).unwrap();
    (stream, RaceChallenge::read(&bytes).unwrap())
}

/// What is left until the server closes.
fn rest(mut stream: TcpStream) -> usize {
    let mut bytes = Vec::new();
    // A reset is an end as well.
    let _ = stream.read_to_end(&mut bytes);
    bytes.len()
}

#[test]
fn strangers_get_a_few_bytes_and_their_flows_are_let_go() {
    let key = SessionKey::new([1; 32]);
    let server = Serving::at(LOOPBACK, Some(key.clone()));
    let (mut garbage, _) = challenged(server.address);
    garbage.write_all(&[0xff; OPENING]).unwrap();
    assert_eq!(rest(garbage), 0);
    let (mut short, _) = challenged(server.address);
    short.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    short.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(rest(short), 0);
    // A flow of no race, by someone who holds the key; and of the race that runs, by someone who does not.
    let mut racing = client(server.address, Some(key.clone()));
    racing.begin(SHORT).unwrap();
    for (secret, race) in [(key.bytes(), [5; 16]), (&[9; 32], [0; 16])] {
        let (mut flow, challenge) = challenged(server.address);
        let opening = RaceOpening::new(RacePurpose::Flow(race), [4; 16], secret, &challenge);
        flow.write_all(&opening.bytes()).unwrap();
        assert!(rest(flow) < 100);
    }
    // Whose proof was for another connection.
    let ((_held, challenge), (mut again, _)) = (challenged(server.address), challenged(server.address));
    let opening = RaceOpening::new(RacePurpose::Control, [4; 16], key.bytes(), &challenge);
    again.write_all(&opening.bytes()).unwrap();
    assert!(rest(again) < 100);
    // Datagrams that are no session, before one that is.
    let socket = UdpSocket::bind(LOOPBACK).unwrap();
    (0..100_u8).for_each(|byte| drop(socket.send_to(&[byte; 200], server.address)));
    run(&mut racing, "copa@udp", false, SHORT).unwrap();
}

#[test]
fn who_breaks_the_protocol_ends_a_race_and_not_the_server() {
    let server = Serving::at(LOOPBACK, None);
    for (number, bytes) in [&[0xff_u8; 64][..], &[0, 0], &[0, 1, 0]].into_iter().enumerate() {
        let (mut stream, challenge) = challenged(server.address);
        let opening = RaceOpening::new(RacePurpose::Control, [4; 16], &[0; 32], &challenge);
        stream.write_all(&opening.bytes()).unwrap();
        stream.write_all(bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        until("the race is over", || server.races() > number);
        rest(stream);
    }
    assert!(server.over.lock().unwrap().iter().all(|account| account.broke.is_some()));
    run(&mut client(server.address, None), "reno@udp", true, SHORT).unwrap();
}

#[test]
fn another_version_and_another_service_are_told_in_a_line() {
    let mut newer = RaceChallenge { server: [0; 16] }.bytes();
    newer[7] = VERSION as u8 + 1;
    let cases: [(&[u8], &str); 3] = [
        (&newer, "it speaks version 2 of races, and this paceline version 1; use the same paceline at both ends"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "it does not speak of races; start `paceline serve --race` there"),
        (b"", "it closed the connection"),
    ];
    for (says, what) in cases {
        let listener = TcpListener::bind(LOOPBACK).unwrap();
        let (address, says) = (listener.local_addr().unwrap(), says.to_owned());
        let service = thread::spawn(move || listener.accept().unwrap().0.write_all(&says).unwrap());
        let error = client(address, None).begin(SHORT).unwrap_err().to_string();
        service.join().unwrap();
        assert!(error.starts_with(&address.to_string()) && error.contains(what) && !error.contains('\n'), "{error}");
    }
}
