use proptest::prelude::*;

use super::*;
use crate::wire::control::SessionJob;

const KEY: [u8; 32] = [4; 32];

fn listener(key: Option<SessionKey>) -> Listener {
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    Listener::bind(loopback, key, Offload::NONE, Clock::new()).unwrap()
}

fn hello(controller: &str, name: &str) -> Hello {
    Hello {
        random: [9; 16],
        cookie: None,
        job: SessionJob::Generate,
        mss: 1400,
        arrivals: true,
        ack_every: 1,
        bytes: Some(1),
        controller: controller.to_owned(),
        name: name.to_owned(),
    }
}

fn yes(_: SocketAddr, _: &Hello) -> Result<Agreed<()>, String> {
    Ok(Agreed { bytes: None, ready: () })
}

/// Bytes of the answer to a peer whose address is not proved.
fn answered(listener: &mut Listener, packet: &[u8]) -> usize {
    match listener.reply(SocketAddr::from(([192, 0, 2, 1], 9)), packet, &mut yes) {
        Reply::Nothing => 0,
        Reply::Packet(reply) => reply.len(),
        Reply::Session(..) => panic!("a session for a stranger: {packet:?}"),
    }
}

/// Packets of strangers: noise, noise that begins as a hello, and hellos that are signed with some key, cut off or changed.
fn packets() -> impl Strategy<Value = Vec<u8>> {
    let noise = prop::collection::vec(any::<u8>(), 0..600);
    let alike = (any::<u8>(), prop::collection::vec(any::<u8>(), 0..400)).prop_map(|(flags, rest)| {
        let mut packet = vec![0x11, flags];
        packet.extend([0; HEADER - 2]);
        packet.extend(rest);
        packet
    });
    let key = prop_oneof![Just(NO_KEY), Just(KEY), any::<[u8; 32]>()];
    let cookie = prop::option::of(any::<[u8; 38]>());
    let real = (key, cookie, "[a-z]{0,40}", "[a-z]{0,255}", any::<u16>(), 0..600_usize, 0..3_u8);
    let real = real.prop_map(|(key, cookie, controller, name, at, length, change)| {
        let mut packet = Hello { cookie, ..hello(&controller, &name) }.packet(&key).unwrap();
        let at = usize::from(at) % packet.len();
        match change {
            0 => {}
            1 => packet[at] ^= 1,
            _ => packet.resize(length, 0),
        }
        packet
    });
    prop_oneof![noise, alike, real]
}

proptest! {
    #[test]
    fn no_stranger_gets_more_than_it_sent(packet in packets()) {
        for key in [None, Some(SessionKey::new(KEY))] {
            let length = answered(&mut listener(key), &packet);
            prop_assert!(length <= packet.len(), "{length} bytes for {}", packet.len());
        }
    }
}

#[test]
fn the_shortest_hello_is_answered() {
    let shortest = hello("", "");
    for (key, signed_with, answer) in
        [(None, NO_KEY, 98), (Some(SessionKey::new(KEY)), KEY, 98), (Some(SessionKey::new(KEY)), NO_KEY, 90)]
    {
        let packet = shortest.packet(&signed_with).unwrap();
        assert_eq!((packet.len(), answered(&mut listener(key), &packet)), (110, answer));
    }
}

#[test]
fn an_answer_that_cannot_leave_is_told_of_and_others_are_answered() {
    let mut listener = listener(None);
    // Needs SO_BROADCAST: the system refuses it whatever the network is.
    let broadcast = SocketAddr::from(([255, 255, 255, 255], 9));
    let first = hello("copa", "").packet(&NO_KEY).unwrap();
    let refused = |result: io::Result<Option<Accepted<()>>>| result.map(drop).unwrap_err().kind();
    assert_eq!(refused(listener.answer(broadcast, None, &first, &mut yes)), io::ErrorKind::PermissionDenied);
    let proved = |listener: &Listener, from| {
        let cookie = listener.cookie(listener.clock.now(), from, &[9; 16]);
        Hello { cookie: Some(cookie), ..hello("copa", "") }.packet(&NO_KEY).unwrap()
    };
    let packet = proved(&listener, broadcast);
    assert_eq!(refused(listener.answer(broadcast, None, &packet, &mut yes)), io::ErrorKind::PermissionDenied);
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    let from = client.local_addr().unwrap();
    let packet = proved(&listener, from);
    let loopback = Some([127, 0, 0, 1].into());
    assert!(listener.answer(from, loopback, &packet, &mut yes).unwrap().is_some(), "the same hello, from elsewhere");
}

#[test]
fn a_session_answers_a_hello_with_no_more_than_came() {
    let mut listener = listener(None);
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    let from = client.local_addr().unwrap();
    client.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
    let cookie = listener.cookie(listener.clock.now(), from, &[9; 16]);
    let packet = Hello { cookie: Some(cookie), ..hello("", "") }.packet(&NO_KEY).unwrap();
    let session = listener.answer(from, Some([127, 0, 0, 1].into()), &packet, &mut yes).unwrap();
    let mut channel = session.expect("a session").channel;
    let mut buffer = [0; 2048];
    let welcome = client.recv(&mut buffer).unwrap();
    let mut asked = |length: usize| {
        client.send_to(&packet[..length], listener.address).unwrap();
        assert!(channel.wait(listener.clock, listener.clock.now() + COOKIE_LIFE).unwrap());
        assert_eq!(
            channel.receive(listener.clock, |_, _| panic!("a hello is not a packet of the session")).unwrap(),
            1
        );
    };
    asked(HEADER);
    asked(welcome - 1);
    client.set_nonblocking(true).unwrap();
    assert_eq!(client.recv(&mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    asked(packet.len());
    client.set_nonblocking(false).unwrap();
    assert_eq!(client.recv(&mut buffer).unwrap(), welcome);
    assert!(welcome <= packet.len());
}
