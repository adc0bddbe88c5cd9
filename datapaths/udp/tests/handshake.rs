//! Who gets a session, and what a stranger gets.

use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use paceline_cc::{Nanos, Time};
use paceline_linux::clock::Clock;
use paceline_udp::wire::control::{Challenge, Hello, SessionJob, proved};
use paceline_udp::{HandshakeError, Listener, Offload, SessionKey, connect};

use super::relay::{Mischief, Relay};
use super::{LIMIT, accept, hello, listener, yes};

const SHORT: Nanos = Nanos::from_millis(600);

fn ask(peer: SocketAddr, key: Option<&SessionKey>, clock: Clock, patience: Nanos) -> Result<(), HandshakeError> {
    connect(peer, key, hello(SessionJob::Discard, None, "copa"), Offload::NONE, clock, patience).map(drop)
}

#[test]
fn a_client_that_proves_its_address_gets_a_session() {
    let clock = Clock::new();
    for key in [None, Some(SessionKey::new([4; 32]))] {
        let listener = listener(key.as_ref(), clock);
        let address = listener.address();
        let server = accept(listener, clock, Some(77), Nanos::ZERO);
        let asked = hello(SessionJob::Generate, Some(77), "copa:delta=0.1");
        let (channel, welcome) = connect(address, key.as_ref(), asked, Offload::NONE, clock, LIMIT).unwrap();
        let sessions = server.join().unwrap();
        assert_eq!((sessions.len(), welcome.bytes, channel.peer()), (1, Some(77), address));
        assert_eq!(sessions[0].hello.controller, "copa:delta=0.1");
    }
}

#[test]
fn a_stranger_gets_no_more_than_it_sent_and_no_session() {
    let clock = Clock::new();
    let key = SessionKey::new([4; 32]);
    let listener = listener(Some(&key), clock);
    let address = listener.address();
    let until = clock.now() + Nanos::from_secs(3);
    let mut listener = listener;
    let server = thread::spawn(move || {
        let mut sessions = 0;
        while clock.now() < until {
            sessions += listener.accept(until, |_, _| yes(None)).unwrap().len();
        }
        sessions
    });
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.connect(address).unwrap();
    stranger.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let answered = |packet: &[u8]| {
        stranger.send(packet).unwrap();
        let (mut buffer, mut bytes) = ([0; 4096], 0);
        while let Ok(length) = stranger.recv(&mut buffer) {
            bytes += length;
        }
        bytes
    };
    for garbage in [&b"GET / HTTP/1.1"[..], &[0; 1400], &[0x14; 300], &[0x11; 12], &[0x11; 20], &[0x11; 40]] {
        assert_eq!(answered(garbage), 0);
    }
    let asked = Hello { random: [9; 16], ..hello(SessionJob::Fetch, None, "copa") };
    // Without the key, and with it: an answer, but a short one.
    for packet in [asked.packet(&[0; 32]).unwrap(), asked.packet(&[4; 32]).unwrap()] {
        let bytes = answered(&packet);
        assert!(bytes > 0 && bytes <= packet.len(), "{bytes} for {}", packet.len());
    }
    // A cookie of its own making is worth nothing.
    let forged = Hello { cookie: Some([1; 38]), ..asked };
    assert!(answered(&forged.packet(&[4; 32]).unwrap()) > 0);
    assert_eq!(server.join().unwrap(), 0);
}

#[test]
fn a_cookie_is_of_use_to_one_address_only() {
    let clock = Clock::new();
    let listener = listener(None, clock);
    let address = listener.address();
    let until = clock.now() + Nanos::from_millis(300);
    let mut listener = listener;
    let server = thread::spawn(move || {
        let mut sessions = 0;
        while clock.now() < until {
            sessions += listener.accept(until, |_, _| yes(None)).unwrap().len();
        }
        sessions
    });
    let [one, other] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    one.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let asked = Hello { random: [9; 16], ..hello(SessionJob::Discard, None, "copa") };
    one.send_to(&asked.packet(&[0; 32]).unwrap(), address).unwrap();
    let mut buffer = [0; 2048];
    let length = one.recv(&mut buffer).unwrap();
    let challenge = Challenge::read(proved(&[0; 32], &buffer[..length]).unwrap()).unwrap();
    let proof = Hello { cookie: Some(challenge.cookie), ..asked }.packet(&[0; 32]).unwrap();
    other.send_to(&proof, address).unwrap();
    assert_eq!(server.join().unwrap(), 0);
}

#[test]
fn a_replay_begins_no_session_and_enters_none() {
    let clock = Clock::new();
    let key = SessionKey::new([4; 32]);
    let listener = listener(Some(&key), clock);
    let relay = Relay::new(listener.address(), Mischief::default());
    let server = accept(listener, clock, None, Nanos::from_millis(500));
    let asked = hello(SessionJob::Discard, None, "copa");
    let (channel, _) = connect(relay.address(), Some(&key), asked, Offload::NONE, clock, LIMIT).unwrap();
    assert!(relay.replay() >= 2);
    assert!(relay.replay() >= 2);
    assert_eq!(server.join().unwrap().len(), 1);
    drop(channel);
}

#[test]
fn bad_calls_are_answered_with_one_clear_line() {
    let clock = Clock::new();
    let key = SessionKey::new([4; 32]);
    let line = |result: Result<(), HandshakeError>| {
        let text = result.unwrap_err().to_string();
        assert!(!text.contains('\n'), "{text}");
        text
    };
    // Others than this machine, without a key.
    assert!(line(ask("192.0.2.1:9".parse().unwrap(), None, clock, SHORT)).contains("--key"));
    let open = Listener::bind("0.0.0.0:0".parse().unwrap(), None, Offload::NONE, clock);
    assert!(line(open.map(drop)).contains("--key"));
    // A taken port.
    let taken = listener(None, clock);
    let again = Listener::bind(taken.address(), None, Offload::NONE, clock);
    assert!(line(again.map(drop)).contains("in use"));
    // No one there, and a peer that says nothing.
    let gone = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert!(line(ask(gone, None, clock, SHORT)).contains("no program listens"));
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    assert!(line(ask(silent.local_addr().unwrap(), None, clock, SHORT)).contains("no answer"));
    // Keys that do not fit.
    for (theirs, ours, says) in [
        (Some(key.clone()), Some(SessionKey::new([5; 32])), "another key"),
        (Some(key.clone()), None, "--key"),
        (None, Some(key), "no answer"),
    ] {
        let mut listener = listener(theirs.as_ref(), clock);
        let address = listener.address();
        let until = clock.now() + Nanos::from_secs(1);
        let server = thread::spawn(move || {
            while clock.now() < until {
                assert!(listener.accept(until, |_, _| yes(None)).unwrap().is_empty());
            }
        });
        let text = line(ask(address, ours.as_ref(), clock, SHORT));
        assert!(text.contains(says) || text.contains("another key"), "{text}");
        server.join().unwrap();
    }
    // A server that does not want to.
    let mut unwilling = listener(None, clock);
    let address = unwilling.address();
    let until = Time::ZERO + LIMIT;
    let done = thread::spawn(move || {
        let mut refused = false;
        while !refused {
            let accepted = unwilling.accept::<()>(until, |_, _| {
                refused = true;
                Err("not today".to_owned())
            });
            assert!(accepted.unwrap().is_empty());
        }
    });
    assert!(line(ask(address, None, clock, LIMIT)).ends_with("refuses: not today"));
    done.join().unwrap();
}
