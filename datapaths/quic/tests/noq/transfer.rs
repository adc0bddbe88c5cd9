//! Bytes over loopback sockets.

use std::io::Read;
use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

use paceline_quic::noq::{send, serve};
use paceline_quic::{Error, Factory, Identity, Received, Sending, Sent};

/// Nothing here takes this long; it keeps a failure from hanging.
const LIMIT: Duration = Duration::from_secs(60);

fn factory(cc: &str) -> Factory {
    Factory::noq(cc.parse().unwrap(), 1).unwrap()
}

fn loopback() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").unwrap()
}

/// Moves what `source` gives and answers what arrived.
fn transfer(cc: &str, source: &mut (dyn Read + Send), lasting: Duration) -> (Sent, Received, Vec<u8>) {
    let identity = Identity::generate().unwrap();
    let server = loopback();
    let to = server.local_addr().unwrap();
    let mut sink = Vec::new();
    let (sent, received) = thread::scope(|scope| {
        let receiver = scope.spawn(|| serve(server, &identity, &mut sink, LIMIT).unwrap());
        let controller = &factory(cc);
        let sending = Sending { to, certificate: identity.certificate(), controller, lasting };
        (send(loopback(), &sending, source).unwrap(), receiver.join().unwrap())
    });
    (sent, received, sink)
}

#[test]
fn five_megabytes_arrive_whole_with_each_kind_of_controller() {
    let data: Vec<u8> = (0..5_000_000_u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
    for cc in ["copa", "cubic", "bbr", "verus"] {
        let (sent, received, sink) = transfer(cc, &mut data.as_slice(), LIMIT);
        assert!(sink == data, "{cc}: {} bytes differ or are missing", sink.len());
        assert!(sent.complete && received.complete, "{cc}");
        assert_eq!((sent.bytes, received.bytes), (5_000_000, 5_000_000), "{cc}");
        assert!(sent.packets_sent >= 5_000_000 / 1452, "{cc}: {}", sent.packets_sent);
        assert!(!sent.rtt.is_empty() && sent.rtt.is_sorted_by_key(|sample| sample.at), "{cc}");
        assert!(sent.cpu > Some(Duration::ZERO) && received.cpu > Some(Duration::ZERO), "{cc}");
    }
}

#[test]
fn the_deadline_ends_a_transfer_without_end() {
    let (sent, received, sink) =
        transfer("fixed:window=10,rate=8", &mut std::io::repeat(7), Duration::from_millis(500));
    assert!(!sent.complete && !received.complete);
    assert!(sent.elapsed >= Duration::from_millis(500));
    assert!(!sink.is_empty() && sink.iter().all(|byte| *byte == 7));
    assert_eq!(received.bytes, sink.len() as u64);
}

#[test]
fn a_peer_that_is_missing_is_named() {
    let identity = Identity::generate().unwrap();
    let soon = Duration::from_millis(100);
    let error = serve(loopback(), &identity, &mut std::io::sink(), soon).unwrap_err();
    assert!(matches!(error, Error::NoPeer { peer: "sender", .. }), "{error}");
    let silent = loopback();
    let to = silent.local_addr().unwrap();
    let controller = &factory("copa");
    let sending = Sending { to, certificate: identity.certificate(), controller, lasting: soon };
    let error = send(loopback(), &sending, &mut std::io::empty()).unwrap_err();
    assert_eq!(error.to_string(), "no QUIC receiver within 100ms; check its address and that UDP passes");
}

#[test]
fn another_certificate_is_not_trusted() {
    let (identity, other) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let server = loopback();
    let to = server.local_addr().unwrap();
    thread::scope(|scope| {
        let receiver = scope.spawn(|| serve(server, &identity, &mut std::io::sink(), Duration::from_secs(2)));
        let controller = &factory("copa");
        let sending = Sending { to, certificate: other.certificate(), controller, lasting: LIMIT };
        let error = send(loopback(), &sending, &mut std::io::empty()).unwrap_err();
        assert!(matches!(error, Error::Connection(_)), "{error}");
        assert!(matches!(receiver.join().unwrap(), Err(Error::NoPeer { .. })));
    });
}
