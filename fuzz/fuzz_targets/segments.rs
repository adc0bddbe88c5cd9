//! A frame as a port reads it, a virtual-network header before it: its packets have the lengths that they say, and what is
//! joined from them and split again is the same packets. The first two bytes of the input lose and mark some of them, and hops of
//! telemetry write into those that are marked.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_cc::{Codepoint, Time};
use paceline_emulator::frame::{Frame, Joiner, Virtio, flow_key};
use paceline_telemetry::{NodeRecord, push_record};

/// Packets looked at; each may have one byte.
const MOST: usize = 200;

fuzz_target!(|input: &[u8]| {
    let [lose, mark, rest @ ..] = input else { return };
    let Some((header, bytes)) = rest.split_first_chunk() else { return };
    let Ok(packets) = Frame::split(Virtio::read(*header), bytes.to_vec(), Time::ZERO) else { return };
    let chosen = |number: usize, by: u8| by != 0 && number % usize::from(by) == 0;
    let mut frames = Vec::new();
    for (number, mut packet) in packets.take(MOST).enumerate() {
        assert_eq!(packet.bytes().len(), packet.len());
        if chosen(number + 1, *mark) {
            packet.set_ecn(Codepoint::Ce);
            let (length, key) = (packet.len(), flow_key(&packet.bytes()));
            if let Some(header) = packet.hop_by_hop() {
                let written = push_record(header, &NodeRecord { node: 0xff_ffff, ..NodeRecord::default() });
                assert!(written.is_err() || flow_key(&packet.bytes()) == key);
            }
            assert_eq!((packet.len(), packet.bytes().len()), (length, length));
        }
        if !chosen(number + 1, *lose) {
            frames.push(packet);
        }
    }
    let mut joiner = Joiner::default();
    let mut received = Vec::new();
    for joined in joiner.join(&frames, true) {
        let bytes: Vec<u8> = joined.pieces().flatten().copied().collect();
        let packets = Frame::split(joined.virtio(), bytes, Time::ZERO).expect("what was joined can be split");
        let before = received.len();
        received.extend(packets.map(|packet| packet.bytes().into_owned()));
        assert_eq!((received.len() - before) as u64, joined.packets());
    }
    let sent: Vec<_> = frames.iter().map(|frame| frame.bytes().into_owned()).collect();
    assert_eq!(received, sent);
});
