//! Senders and receivers with every kind of pacing.

use std::net::UdpSocket;
use std::sync::{Arc, Mutex};
use std::thread;

use super::LIMIT;
use paceline_cc::{Env, Nanos, Spec, Time};
use paceline_linux::clock::Clock;
use paceline_transport::{AckPolicy, SenderConfig, datagram, stream};
use paceline_udp::{
    Channel, ContentSink, ContentSource, Discard, EndReason, Offload, ReceiverOutcome, ReceivingEnd, SenderOutcome,
    SenderTiming, SendingEnd, Session, SessionKey, Zeros, seal::SessionSide,
};

fn sockets() -> (UdpSocket, UdpSocket) {
    let sockets = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    sockets.0.connect(sockets.1.local_addr().unwrap()).unwrap();
    sockets.1.connect(sockets.0.local_addr().unwrap()).unwrap();
    sockets
}

fn channels(offload: Offload, key: Option<&SessionKey>) -> (Channel, Channel) {
    let (near, far) = sockets();
    let (here, there) = (near.local_addr().unwrap(), far.local_addr().unwrap());
    let session = |side| match key {
        None => Session::plain(7),
        Some(key) => Session::keyed(7, key, &[1; 16], &[2; 16], side),
    };
    (
        Channel::new(near, there, session(SessionSide::Client), offload).unwrap(),
        Channel::new(far, here, session(SessionSide::Server), offload).unwrap(),
    )
}

struct Numbers;

fn number_at(position: u64) -> u8 {
    (position ^ position >> 8 ^ position >> 16) as u8
}

impl ContentSource for Numbers {
    fn fill(&mut self, seq: u64, payload: &mut [u8]) -> std::io::Result<()> {
        for (position, byte) in (seq..).zip(payload) {
            *byte = number_at(position);
        }
        Ok(())
    }
}

#[derive(Clone)]
struct Store(Arc<Mutex<Vec<u8>>>);

impl ContentSink for Store {
    fn take(&mut self, seq: u64, payload: &[u8]) -> std::io::Result<()> {
        let mut content = self.0.lock().unwrap();
        let (from, to) = (seq as usize, seq as usize + payload.len());
        if content.len() < to {
            content.resize(to, 0);
        }
        content[from..to].copy_from_slice(payload);
        Ok(())
    }
}

/// Sends `bytes` as a stream; answers what arrived.
fn transfer(controller: &str, bytes: u64, offload: Offload, key: Option<&SessionKey>, timing: SenderTiming) -> Vec<u8> {
    let (near, far) = channels(offload, key);
    let clock = Clock::new();
    let spec: Spec = controller.parse().unwrap();
    let env = Env::default();
    let arrivals = controller.contains("chirp");
    let (mut sender, half) = (stream::sender(&SenderConfig::default(), spec.build(&env)), spec.build_receiver(&env));
    sender.write(bytes);
    let content = Store(Arc::default());
    let policy = AckPolicy { arrivals, ..AckPolicy::immediate() };
    let mut receiving =
        ReceivingEnd::new(far, clock, stream::receiver(&policy, half), Box::new(content.clone()), Nanos::from_secs(1));
    let mut sending = SendingEnd::new(near, clock, sender, Box::new(Numbers), timing);
    let other = thread::spawn(move || {
        // Ends by the sender's silence.
        let end = receiving.run(Time::ZERO + LIMIT, None);
        (end.is_err(), receiving.finish().0)
    });
    let end = sending.run(Time::ZERO + LIMIT, None).unwrap();
    assert_eq!(end, EndReason::Idle, "{controller}");
    let (silent, received) = other.join().unwrap();
    assert!(silent && received.bytes_ready == bytes, "{controller}: {received:?}");
    content.0.lock().unwrap().clone()
}

fn check(content: &[u8], bytes: u64) {
    assert_eq!(content.len() as u64, bytes);
    assert!((0..).zip(content).all(|(position, byte)| *byte == number_at(position)));
}

#[test]
fn a_stream_arrives_whole_with_each_kind_of_pacing() {
    let timing = SenderTiming { batch: Nanos::from_millis(1), patience: Nanos::from_secs(20) };
    for controller in ["cubic", "bbr", "copa", "sprout", "cubic:start=chirp"] {
        let bytes = 300_000;
        check(&transfer(controller, bytes, Offload::NONE, None, timing), bytes);
    }
}

#[test]
fn a_stream_arrives_whole_in_bundles_and_sealed() {
    let timing = SenderTiming { batch: Nanos::from_millis(1), patience: Nanos::from_secs(20) };
    let bytes = 3_000_001;
    let bundles = Offload { send: true, receive: true };
    check(&transfer("cubic", bytes, bundles, None, timing), bytes);
    check(&transfer("cubic", bytes, bundles, Some(&SessionKey::new([3; 32])), timing), bytes);
    check(&transfer("reno", bytes, Offload::NONE, Some(&SessionKey::new([3; 32])), timing), bytes);
}

/// Datagrams for `millis`, as races run them.
fn race(controller: &str, millis: u64) -> (SenderOutcome, ReceiverOutcome) {
    let (near, far) = channels(Offload::NONE, None);
    let clock = Clock::new();
    let spec: Spec = controller.parse().unwrap();
    let env = Env::default();
    let mut sender = datagram::sender(&SenderConfig::default(), spec.build(&env));
    let receiver = datagram::receiver_with_arrivals(spec.build_receiver(&env));
    sender.write(u64::MAX);
    let until = clock.now() + Nanos::from_millis(millis);
    let mut receiving = ReceivingEnd::new(far, clock, receiver, Box::new(Discard), Nanos::MAX);
    let other = thread::spawn(move || {
        assert_eq!(receiving.run(until + Nanos::from_millis(50), None).unwrap(), EndReason::Deadline);
        receiving.finish().0
    });
    let mut sending = SendingEnd::new(near, clock, sender, Box::new(Zeros), SenderTiming::EXACT);
    assert_eq!(sending.run(until, None).unwrap(), EndReason::Deadline);
    (sending.finish().0, other.join().unwrap())
}

#[test]
fn datagrams_flow_until_the_deadline() {
    for controller in ["fixed:window=20,rate=8", "copa", "sprout"] {
        let (sent, received) = race(controller, 300);
        assert!(received.packets > 10, "{controller}: {received:?}");
        assert!(received.packets <= sent.stats.packets_sent);
        assert!(sent.rtt.count() > 0 && sent.stats.bad_feedback == 0);
    }
}

#[test]
fn a_chirps_packets_leave_one_by_one() {
    // A full buffer of the receiving socket ends chirping; then another race shows it.
    let chirped = (0..5).map(|_| race("cubic:start=chirp", 300)).find(|(sent, _)| sent.late.count() > 0);
    let (_, received) = chirped.expect("one of five races sends a packet paced by gaps");
    assert!(received.packets > 10, "{} packets", received.packets);
}
