//! Framed sockets: bytes whole in both directions, acknowledged by their receivers, and strangers refused.

use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use paceline_alcc::frame::{Connection, Decoder, Item, Reader, Violation};
use paceline_alcc::{Engine, Mode, Options, Socket};
use paceline_cc::{Env, Spec};

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (listener.accept().unwrap().0, client)
}

fn options(controller: &str) -> Options {
    Options { controller: controller.parse().unwrap(), mode: Mode::Framed, ..Options::default() }
}

/// Bytes that tell their position.
fn content(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}

fn down(controller: &str, length: usize) {
    let (server, client) = pair();
    let spec: Spec = controller.parse().unwrap();
    let mut reader = Reader::new(client.into(), spec.build_receiver(&Env::default())).unwrap();
    let client = std::thread::spawn(move || {
        let (mut all, mut buffer) = (Vec::new(), vec![0; 10_000]);
        loop {
            match reader.read(&mut buffer).unwrap() {
                0 => return all,
                count => all.extend_from_slice(&buffer[..count]),
            }
        }
    });
    let engine = Engine::start(options(controller)).unwrap();
    let socket = engine.adopt(server.into()).unwrap();
    assert_eq!(socket.mode(), Mode::Framed);
    let all = content(length);
    for piece in all.chunks(7_001) {
        assert_eq!(socket.send(&[IoSlice::new(piece)], false).unwrap(), piece.len());
    }
    socket.shutdown_write();
    assert!(client.join().unwrap() == all, "{controller}: altered on the way");
    assert!(socket.stats().chunks > 0 && socket.stats().rtt.is_some(), "{controller}: nothing was acknowledged");
    socket.close(Duration::from_secs(5));
}

#[test]
fn every_byte_arrives_under_any_controller() {
    for controller in ["copa", "verus", "cubic", "sprout"] {
        down(controller, 1_500_000);
    }
}

#[test]
fn frames_stay_frames() {
    let (server, _client) = pair();
    let engine = Engine::start(options("copa")).unwrap();
    let socket = engine.adopt(server.into()).unwrap();
    assert_eq!(socket.write_through().unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(socket.mode(), Mode::Framed);
}

#[test]
fn two_engines_speak_both_ways() {
    // The end that closes first acknowledges no more: the other's bytes arrive all the same.
    for (up, down) in [(300_000, 200_000), (20, 3_000_000), (3_000_000, 0)] {
        both_ways(&content(up), &content(down));
    }
}

fn both_ways(up: &Vec<u8>, down: &Vec<u8>) {
    let (a, b) = pair();
    let engine = Engine::start(options("copa")).unwrap();
    let (a, b) = (engine.adopt(a.into()).unwrap(), engine.adopt(b.into()).unwrap());
    std::thread::scope(|scope| {
        for (socket, own, other) in [(&a, down, up), (&b, up, down)] {
            scope.spawn(|| {
                assert_eq!(socket.send(&[IoSlice::new(own)], false).unwrap(), own.len());
                socket.shutdown_write();
            });
            scope.spawn(|| {
                let (mut all, mut buffer) = (Vec::new(), vec![0; 4096]);
                loop {
                    match socket.recv(&mut buffer, false).unwrap() {
                        0 => break,
                        count => all.extend_from_slice(&buffer[..count]),
                    }
                }
                assert!(all == *other);
            });
        }
    });
}

#[test]
fn who_writes_without_reading_hears_acknowledgements() {
    // They come behind more of the peer's data than waits for an application.
    let (ours, theirs) = (content(6_000_000), content(5_000_000));
    let (a, b) = pair();
    for stream in [&a, &b] {
        // Who waits for ever says where.
        stream.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
    }
    let engine = Engine::start(options("copa")).unwrap();
    let (a, b) = (engine.adopt(a.into()).unwrap(), engine.adopt(b.into()).unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(b.send(&[IoSlice::new(&theirs)], false).unwrap(), theirs.len()));
        scope.spawn(|| assert!(received(&b, ours.len()) == ours));
        assert_eq!(a.send(&[IoSlice::new(&ours)], false).unwrap(), ours.len());
        assert!(received(&a, theirs.len()) == theirs);
    });
}

#[test]
fn a_silent_socket_sends_the_heartbeats_of_its_controller() {
    for aggregate in [false, true] {
        let (server, mut client) = pair();
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let engine = Engine::start(Options { aggregate, ..options("sprout") }).unwrap();
        let socket = engine.adopt(server.into()).unwrap();
        assert_eq!(socket.send(&[IoSlice::new(&content(100))], false).unwrap(), 100);
        let (mut decoder, mut buffer) = (Decoder::new(), [0; 4096]);
        let mut empty = 0;
        while empty < 3 {
            let count = client.read(&mut buffer).unwrap_or_else(|error| panic!("aggregate {aggregate}: {error}"));
            assert!(count > 0, "the connection stays");
            let mut input = &buffer[..count];
            while let Some(item) = decoder.next(&mut input).unwrap() {
                empty += u32::from(matches!(item, Item::Data(data) if data.bytes == 0));
            }
        }
    }
}

#[test]
fn a_peer_that_acknowledges_nothing_cannot_fill_the_memory() {
    let (server, mut client) = pair();
    let engine = Engine::start(options("copa")).unwrap();
    let socket = engine.adopt(server.into()).unwrap();
    assert!(socket.send(&[IoSlice::new(&content(4 << 20))], true).unwrap() > 0);
    let mut stranger = Connection::new(None);
    client.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    let (mut sent, mut frame) = (0, Vec::new());
    let stopped = loop {
        frame.clear();
        stranger.data(1000, 0, &mut frame).unwrap();
        frame.resize(frame.len() + 1000, 0);
        match client.write_all(&frame) {
            Ok(()) => sent += 1000,
            Err(error) => break error,
        }
        assert!(sent < 100 << 20, "{sent} bytes were taken for an application that reads nothing");
    };
    assert!(matches!(stopped.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{stopped}");
}

fn received(socket: &Socket, length: usize) -> Vec<u8> {
    let mut all = vec![0; length];
    let mut done = 0;
    while done < length {
        match socket.recv_within(&mut all[done..], Duration::from_secs(60)).unwrap() {
            0 => break,
            count => done += count,
        }
    }
    all.truncate(done);
    all
}

#[test]
fn a_peer_that_breaks_the_format_is_told_of_in_one_line() {
    let (server, mut client) = pair();
    let engine = Engine::start(options("copa")).unwrap();
    let socket = engine.adopt(server.into()).unwrap();
    client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let error = socket.recv(&mut [0; 16], false).unwrap_err();
    assert_eq!(error.to_string(), Violation::Version(b'G').to_string());
    let error = socket.send(&[IoSlice::new(b"no")], false).unwrap_err();
    assert_eq!((error.kind(), error.to_string()), (ErrorKind::InvalidData, Violation::Version(b'G').to_string()));
    // The connection is over.
    assert!(matches!(client.read(&mut [0; 16]), Ok(0) | Err(_)));
}

#[test]
fn acknowledgements_of_what_was_never_sent_end_the_connection() {
    let (server, mut client) = pair();
    let engine = Engine::start(options("copa")).unwrap();
    let socket = engine.adopt(server.into()).unwrap();
    let mut stranger = Connection::new(None);
    let mut wire = Vec::new();
    stranger.data(0, 0, &mut wire).unwrap();
    paceline_alcc::frame::Ack { position: 1 << 40, delay: paceline_cc::Nanos::ZERO, feedback: None }.write(&mut wire);
    client.write_all(&wire).unwrap();
    let error = socket.recv(&mut [0; 16], false).unwrap_err();
    assert_eq!(error.to_string(), Violation::Unsent { found: 1 << 40, sent: 0 }.to_string());
}
