//! Bytes over loopback sockets, with each kind of controller.

use std::io::Read;
use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

use paceline_quic::{Error, Identity, MTU, Received, Sending, Sent};

use crate::{STACKS, Tested};

/// Nothing here takes this long; it keeps a failure from hanging.
const LIMIT: Duration = Duration::from_secs(60);
const WHILE: Duration = Duration::from_secs(2);
const SOON: Duration = Duration::from_millis(100);

fn loopback() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").unwrap()
}

/// `length` bytes in which every place differs from its neighbourhood.
fn pattern(length: usize) -> Vec<u8> {
    (0..length as u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

impl Tested {
    /// Moves what `source` gives and answers what arrived.
    fn transfer(&self, cc: &str, source: &mut (dyn Read + Send), lasting: Duration) -> (Sent, Received, Vec<u8>) {
        let identity = Identity::generate().unwrap();
        let server = loopback();
        let to = server.local_addr().unwrap();
        let mut sink = Vec::new();
        let (sent, received) = thread::scope(|scope| {
            let receiver = scope.spawn(|| self.stack.serve(server, &identity, &mut sink, LIMIT).unwrap());
            let controller = &self.factory(cc);
            let sending =
                Sending { to, certificate: identity.certificate(), controller, mtu: MTU, one_by_one: false, lasting };
            (self.stack.send(loopback(), &sending, source).unwrap(), receiver.join().unwrap())
        });
        (sent, received, sink)
    }
}

/// Over each stack that carries it.
fn arrives_whole(cc: &str) {
    let (data, spec) = (pattern(10_000_000), cc.parse().unwrap());
    for tested in STACKS.iter().filter(|tested| tested.stack.datapath.carries(&spec).is_ok()) {
        let (sent, received, sink) = tested.transfer(cc, &mut data.as_slice(), LIMIT);
        let what = format!("{cc}@{}", tested.stack.datapath.name);
        assert!(sink == data, "{what}: {} bytes differ or are missing", sink.len());
        assert!(sent.complete && received.complete, "{what}");
        assert_eq!((sent.bytes, received.bytes), (10_000_000, 10_000_000), "{what}");
        assert!(sent.packets_sent >= 10_000_000 / 1452, "{what}: {}", sent.packets_sent);
        assert!(!sent.rtt.is_empty() && sent.rtt.is_sorted_by_key(|sample| sample.at), "{what}");
        assert!(sent.cpu > Some(Duration::ZERO) && received.cpu > Some(Duration::ZERO), "{what}");
    }
}

#[test]
fn ten_megabytes_arrive_whole_with_copa() {
    arrives_whole("copa");
}

#[test]
fn ten_megabytes_arrive_whole_with_cubic() {
    arrives_whole("cubic");
}

#[test]
fn ten_megabytes_arrive_whole_with_bbr() {
    arrives_whole("bbr");
}

#[test]
fn ten_megabytes_arrive_whole_with_reno() {
    arrives_whole("reno");
}

#[test]
fn ten_megabytes_arrive_whole_with_verus() {
    arrives_whole("verus");
}

#[cfg(all(feature = "s2n", target_os = "linux"))]
#[test]
fn ten_megabytes_arrive_whole_with_chirps_and_with_ect1() {
    arrives_whole("dctcp:start=chirp");
    arrives_whole("prague");
}

#[test]
fn the_deadline_ends_a_transfer_without_end() {
    for tested in STACKS {
        let (sent, received, sink) = tested.transfer("fixed:window=10,rate=8", &mut std::io::repeat(7), WHILE);
        assert!(!sent.complete && !received.complete);
        assert!(sent.elapsed >= WHILE);
        assert!(!sink.is_empty() && sink.iter().all(|byte| *byte == 7));
        assert_eq!(received.bytes, sink.len() as u64);
    }
}

#[test]
fn a_peer_that_is_missing_is_named() {
    for tested in STACKS {
        let identity = Identity::generate().unwrap();
        let error = tested.stack.serve(loopback(), &identity, &mut std::io::sink(), SOON).unwrap_err();
        assert!(matches!(error, Error::NoPeer { peer: "sender", .. }), "{error}");
        let silent = loopback();
        let to = silent.local_addr().unwrap();
        let controller = &tested.factory("copa");
        let sending =
            Sending { to, certificate: identity.certificate(), controller, mtu: MTU, one_by_one: false, lasting: SOON };
        let error = tested.stack.send(loopback(), &sending, &mut std::io::empty()).unwrap_err();
        assert_eq!(error.to_string(), "no QUIC receiver within 100ms; check its address and that UDP passes");
    }
}

#[test]
fn another_certificate_is_not_trusted() {
    for tested in STACKS {
        let (identity, other) = (Identity::generate().unwrap(), Identity::generate().unwrap());
        let server = loopback();
        let to = server.local_addr().unwrap();
        let controller = &tested.factory("copa");
        let send = |certificate: &[u8]| {
            let sending = Sending { to, certificate, controller, mtu: MTU, one_by_one: false, lasting: LIMIT };
            tested.stack.send(loopback(), &sending, &mut std::io::empty()).unwrap_err()
        };
        thread::scope(|scope| {
            let receiver = scope.spawn(|| tested.stack.serve(server, &identity, &mut std::io::sink(), WHILE));
            let error = send(other.certificate());
            assert!(matches!(error, Error::Connection(_)), "{error}");
            assert!(matches!(receiver.join().unwrap(), Err(Error::NoPeer { .. })));
        });
        let error = send(b"no certificate");
        assert!(matches!(error, Error::Certificate(_)), "{error}");
    }
}
