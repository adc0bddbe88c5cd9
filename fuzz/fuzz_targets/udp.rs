//! A datagram from a stranger: it is refused, or it is a packet that is written again byte by byte as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_udp::wire::control::{Challenge, Close, Hello, PROOF, Refuse, Welcome};
use paceline_udp::wire::{
    HEADER, PacketHeader, PacketKind, ack_flags, data_flags, read_ack, read_data, write_ack, write_data,
};

/// What signs the handshake here; the tag itself is left out, or nothing would ever get past it.
const KEY: [u8; 32] = [0; 32];

fuzz_target!(|bytes: &[u8]| {
    let Ok(header) = PacketHeader::read(bytes) else { return };
    let body = &bytes[HEADER..];
    let mut again = Vec::new();
    header.write(&mut again).expect("what was read fits");
    let handshake = |packet: Vec<u8>| assert_eq!(packet[HEADER..packet.len() - PROOF], *body);
    match header.kind {
        PacketKind::Data => {
            let Ok((segment, payload)) = read_data(header.flags, body) else { return };
            assert_eq!(data_flags(&segment), header.flags);
            write_data(&mut again, &segment).expect("what was read fits");
            again.extend_from_slice(payload);
            assert_eq!(again, bytes);
        }
        PacketKind::Ack => {
            let Ok(ack) = read_ack(header.flags, body) else { return };
            assert_eq!(ack_flags(&ack), header.flags);
            write_ack(&mut again, &ack).expect("what was read fits");
            assert_eq!(again, bytes);
        }
        PacketKind::Close => {
            let Ok(close) = Close::read(header.flags, body) else { return };
            close.write(&mut again).expect("what was read fits");
            assert_eq!(again, bytes);
        }
        PacketKind::Hello => {
            let Ok(hello) = Hello::read(header.flags, body) else { return };
            handshake(hello.packet(&KEY).expect("what was read fits"));
        }
        PacketKind::Challenge => {
            let Ok(challenge) = Challenge::read(body) else { return };
            handshake(challenge.packet(&KEY));
        }
        PacketKind::Welcome => {
            let Ok(welcome) = Welcome::read(body) else { return };
            handshake(welcome.packet(&KEY, header.session).expect("what was read fits"));
        }
        PacketKind::Refuse => {
            let Ok(refuse) = Refuse::read(body) else { return };
            handshake(refuse.packet(&KEY));
        }
    }
});
