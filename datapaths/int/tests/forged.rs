//! What a host that is not on the path says in the name of one that is: nothing of it is believed.
#![cfg(target_os = "linux")]

mod nodes;

use std::io::Write;
use std::net::{TcpListener, TcpStream};

use nodes::{A, B, Chain, ETHERNET, Frames, checksum, frame, opened, reports_of, run};
use paceline_fixture::until;
use paceline_int::{NodeError, SinkNode, SinkOptions, SourceNode, SourceOptions, TransitNode, TransitOptions};
use paceline_telemetry::{Edge, RecordProfile, TelemetryHeader};

const PORT: u16 = 5205;

/// A connection from a to b, with the first octet on its way, and the TCP header of that packet.
fn connect(chain: &Chain, port: u16) -> (TcpStream, TcpStream, Vec<u8>) {
    let wire = Frames::open(&chain.b, "b0");
    let listener = chain.b.enter(|| TcpListener::bind((B, port))).unwrap().unwrap();
    let mut client = chain.a.enter(|| TcpStream::connect((B, port))).unwrap().unwrap();
    client.write_all(b"x").unwrap();
    let (server, _) = listener.accept().unwrap();
    let there = port.to_be_bytes();
    let data = |frame: &Vec<u8>| {
        let (at, end) = (ETHERNET + 40, frame.len() - 1);
        // A segment without data may end in any octet of its time stamp.
        let header = |at: usize| at + 4 * usize::from(frame[at + 12] >> 4);
        (frame.get(ETHERNET + 6) == Some(&6) && frame[at + 2..at + 4] == there && header(at) == end)
            .then(|| frame[at..end].to_vec())
    };
    let mut segment = None;
    until("the first octet arrives", || {
        segment = wire.drain().iter().find_map(data);
        segment.is_some()
    });
    let segment = segment.unwrap();
    (client, server, segment)
}

/// The same segment from elsewhere in the sequence.
fn moved(segment: &[u8], at: usize, by: u32) -> Vec<u8> {
    let mut out = segment.to_vec();
    let number = u32::from_be_bytes(out[at..at + 4].try_into().unwrap()).wrapping_add(by);
    out[at..at + 4].copy_from_slice(&number.to_be_bytes());
    out
}

const SEQUENCE: usize = 4;
const ACKNOWLEDGED: usize = 8;

#[test]
fn a_header_is_read_only_in_a_packet_that_tcp_would_take() {
    let test = "a_header_is_read_only_in_a_packet_that_tcp_would_take";
    let Some(chain) = Chain::new(test) else { return };
    let Some(mut sink) = opened(test, chain.b.enter(|| SinkNode::open("b0", &SinkOptions::default())).unwrap()) else {
        return;
    };
    let (_client, _server, segment) = connect(&chain, PORT);
    let out = Frames::open(&chain.a, "a0");
    let header = TelemetryHeader::new(RecordProfile::Lean, 2, Edge { segs: 1, ..Edge::default() }).encode();
    let mut other = segment.clone();
    other[0] ^= 1;
    let mut listener = segment.clone();
    listener[2..4].copy_from_slice(&(PORT + 1).to_be_bytes());
    let _listening = chain.b.enter(|| TcpListener::bind((B, PORT + 1))).unwrap().unwrap();
    for (what, segment, believed) in [
        ("as it was sent", segment.clone(), true),
        ("further on, within the window", moved(&segment, SEQUENCE, 20_000), true),
        ("beyond the window", moved(&segment, SEQUENCE, 1 << 28), false),
        ("long received", moved(&segment, SEQUENCE, 0_u32.wrapping_sub(1 << 20)), false),
        ("acknowledges what was not sent", moved(&segment, ACKNOWLEDGED, 1 << 20), false),
        ("acknowledges what is long gone", moved(&segment, ACKNOWLEDGED, 1 << 31), false),
        ("of no connection", other, false),
        ("to one who listens", listener, false),
    ] {
        let before = sink.counters();
        let payload = [&header[..], &segment, b"x"].concat();
        out.send(&frame(&chain, 0, &payload));
        until("the sink has taken it", || sink.counters().taken > before.taken);
        let mut reports = Vec::new();
        until("its report comes", || {
            reports = reports_of(&mut sink, || ());
            !believed || !reports.is_empty()
        });
        let after = sink.counters();
        assert_eq!(after.taken, before.taken + 1, "{what}");
        assert_eq!(after.foreign_flow, before.foreign_flow + u64::from(!believed), "{what}");
        assert_eq!(!reports.is_empty(), believed, "{what}");
    }
    assert_eq!(sink.flows(), 1);
}

#[test]
fn a_router_reads_what_it_forwards_if_it_is_told_to_and_a_hop_limit_keeps_out_the_rest() {
    let test = "a_router_reads_what_it_forwards_if_it_is_told_to_and_a_hop_limit_keeps_out_the_rest";
    let Some(chain) = Chain::new(test) else { return };
    let options = SourceOptions { patience: None, ..SourceOptions::default() };
    let Some(source) = opened(test, chain.a.enter(|| SourceNode::open("a0", &options)).unwrap()) else { return };
    for (place, forwarded, hop_limit, read) in [
        ((&chain.r, "r0"), false, 0, false),
        ((&chain.r, "r0"), true, 0, true),
        ((&chain.b, "b0"), false, 63, true),
        ((&chain.b, "b0"), false, 64, false),
    ] {
        let options = SinkOptions { forwarded, hop_limit, ..SinkOptions::default() };
        let mut sink = place.0.enter(|| SinkNode::open(place.1, &options)).unwrap().unwrap();
        let before = source.counters().packets;
        let reports = reports_of(&mut sink, || chain.transfer(PORT + 2, 100_000));
        let (sent, taken) = (source.counters().packets - before, sink.counters());
        assert_eq!((taken.packets, taken.foreign_flow), (sent, if read { 0 } else { sent }), "{forwarded} {hop_limit}");
        assert_eq!(!reports.is_empty(), read, "{forwarded} {hop_limit}");
    }
}

/// A router's word that the packet of this segment and this many octets of data was too big (RFC 4443 section 3.2).
fn too_big(mtu: u32, segment: &[u8], data: u16) -> Vec<u8> {
    let mut quoted = vec![0x60, 0, 0, 0];
    quoted.extend_from_slice(&(segment.len() as u16 + data).to_be_bytes());
    quoted.extend_from_slice(&[6, 63]);
    quoted.extend_from_slice(&A.octets());
    quoted.extend_from_slice(&B.octets());
    quoted.extend_from_slice(segment);
    quoted.resize(quoted.len() + usize::from(data).min(1000), 0);
    let mut out = [&[2, 0, 0, 0][..], &mtu.to_be_bytes(), &quoted].concat();
    // The sum of nodes.rs is TCP's: its protocol is 6, and not 58.
    let sum = u32::from(checksum(B, A, &out)) + 58 - 6;
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    out[2..4].copy_from_slice(&sum.to_be_bytes());
    out
}

#[test]
fn a_packet_that_was_too_big_must_be_on_its_way() {
    let test = "a_packet_that_was_too_big_must_be_on_its_way";
    let Some(chain) = Chain::new(test) else { return };
    let options = SourceOptions { patience: None, ..SourceOptions::default() };
    let (mut client, _server, segment) = connect(&chain, PORT + 3);
    let Some(source) = opened(test, chain.a.enter(|| SourceNode::open("a0", &options)).unwrap()) else { return };
    // From here on nothing is acknowledged.
    run(&chain.b, "ip link set b0 down");
    client.write_all(&[1; 5000]).unwrap();
    let next = moved(&segment, SEQUENCE, 1);
    let (from, to) = (Frames::open(&chain.r, "r0"), Frames::open(&chain.a, "a0").mac);
    let say = |message: &[u8]| {
        let mut frame = [&to[..], &from.mac, &[0x86, 0xdd, 0x60, 0, 0, 0]].concat();
        frame.extend_from_slice(&(message.len() as u16).to_be_bytes());
        frame.extend_from_slice(&[58, 64]);
        frame.extend_from_slice(&B.octets());
        frame.extend_from_slice(&A.octets());
        frame.extend_from_slice(message);
        let count = || (source.counters().path_mtus, source.counters().forged_mtus);
        let before = count();
        from.send(&frame);
        until("the source has read it", || count() != before);
        let after = count();
        (after.0 - before.0, after.1 - before.1)
    };
    let mut damaged = too_big(1400, &next, 1400);
    damaged[100] ^= 1;
    assert_eq!(say(&too_big(1400, &segment, 1400)), (0, 1), "acknowledged");
    assert_eq!(say(&too_big(1400, &moved(&next, SEQUENCE, 1 << 20), 1400)), (0, 1), "not sent yet");
    assert_eq!(say(&too_big(1400, &next, 1000)), (0, 1), "it would have fitted");
    assert_eq!(say(&damaged), (0, 1), "damaged");
    assert_eq!(say(&too_big(1400, &next, 1400)), (1, 0));
}

#[test]
fn a_role_whose_interface_is_gone_says_so() {
    let test = "a_role_whose_interface_is_gone_says_so";
    let Some(chain) = Chain::new(test) else { return };
    let Some(source) = opened(test, chain.a.enter(|| SourceNode::open("a0", &SourceOptions::default())).unwrap())
    else {
        return;
    };
    let transit = chain.r.enter(|| TransitNode::open("r1", &TransitOptions::default())).unwrap().unwrap();
    let sink = chain.b.enter(|| SinkNode::open("b0", &SinkOptions::default())).unwrap().unwrap();
    let line = |answer: Result<(), NodeError>| answer.err().map_or(String::new(), |error| error.to_string());
    let said = |sink: SinkNode| {
        let (answer, sink) = chain.b.enter(move || (sink.ensure(), sink)).unwrap();
        let others = [chain.a.enter(|| source.ensure()).unwrap(), chain.r.enter(|| transit.ensure()).unwrap()];
        ([others.map(line).to_vec(), vec![line(answer)]].concat(), sink)
    };
    let (before, sink) = said(sink);
    assert_eq!(before, ["", "", ""]);
    run(&chain.a, "ip link del a0");
    run(&chain.b, "ip link del b0");
    assert_eq!(
        said(sink).0,
        [
            "a0: the interface is gone, and the source with it; begin again when there is one",
            "r1: the interface is gone, and the transit hop with it; begin again when there is one",
            "b0: the interface is gone, and the sink with it; begin again when there is one",
        ]
    );
}
