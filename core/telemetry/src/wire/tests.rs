use super::*;

/// What a sink saw behind a hop in eBPF and one of Linux' own (spec numbers: octets of a capture).
const CAPTURED: &str = "06070100 312a0000 80012000 c6000000 3f222222 00020003 003b0190 00000000 \
                        3f000007 00640065 deadbeef 00000000 1e0e1801 00000007 00012345 0000000a";

fn octets(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let digit = |digit: u8| char::from(digit).to_digit(16).unwrap() as u8;
    digits.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

fn edge() -> Edge {
    Edge { segs: 1, seq: 7, sent_us: 0x12345, cwnd: Some(10), long: None }
}

fn long() -> Edge {
    Edge { long: Some(Long { flow: 0xdead_0001, ssthresh: 64, srtt_64us: 312 }), ..edge() }
}

#[test]
fn a_captured_header_is_read_first_hop_first() {
    let bytes = octets(CAPTURED);
    let (header, used) = Header::decode(&bytes).unwrap();
    assert_eq!((used, bytes.len()), (64, 64));
    assert_eq!((header.next_header, header.namespace, header.profile), (6, NAMESPACE, Profile::Lean));
    assert_eq!((header.capacity_hops, header.overflow, header.edge, header.standard), (2, false, Some(edge()), None));
    let [linux, ours] = header.records[..] else { panic!("{header:?}") };
    assert_eq!((linux.node, linux.hop_limit, linux.ingress, linux.egress), (7, 63, Some(100), Some(101)));
    // Linux writes a constant where our words are: this one is no help to anyone.
    assert_eq!((linux.room_packets, linux.flows, linux.queue_bytes), (Some(0xdead), Some(0xbe), Some(0)));
    assert_eq!((ours.node, ours.room_packets, ours.flows), (0x22_2222, Some(59), Some(1)));
    // 0x90 = 144: 2^18.
    assert_eq!(ours.arrival_pps, Some(262_144.0));
    assert_eq!(header.encode(), bytes);
}

#[test]
fn headers_have_the_sizes_that_are_documented() {
    let size = |profile, hops, edge, standard| {
        let header = Header { standard, ..Header::new(profile, hops, edge) };
        let bytes = header.encode();
        assert_eq!((bytes.len(), 8 * (usize::from(bytes[1]) + 1)), (header.octets(), header.octets()));
        bytes.len()
    };
    assert_eq!(size(Profile::Lean, 0, edge(), None), 32);
    assert_eq!(size(Profile::Lean, 2, edge(), None), 64);
    assert_eq!(size(Profile::Lean, 2, edge(), Some(Standard::default())), 88);
    assert_eq!(size(Profile::Counted, 2, edge(), None), 72);
    assert_eq!(size(Profile::Timed, 2, edge(), None), 80);
    assert_eq!(size(Profile::Full, 2, edge(), None), 112);
    assert_eq!(size(Profile::Full, 2, long(), None), 120);
    assert_eq!(Profile::ALL.map(Profile::max_hops), [15, 10, 12, 6]);
    assert_eq!(MAX_HOPS, 15);
}
