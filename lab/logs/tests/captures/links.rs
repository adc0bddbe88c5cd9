//! Captures of several emulated links.

use paceline_conform::capture;

use super::file::{Blocks, Link, MS, Seen, flow};
use super::{FLOW, figure, plot, round_trips};

/// As `race --pcap` writes it: the flow passes two links, of which the second leads the other way round. It enters the first when it was
/// sent, the second 5 ms later, and is there after 10 ms; the second window is dropped on the second link.
#[test]
fn a_flow_over_two_links_is_seen_once() {
    let blocks = Blocks { big: false };
    let cooked =
        |sent: bool| Link::new(113, &[0, if sent { 4 } else { 0 }, 0xff, 0xfe, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0]);
    let mut file = blocks.section(&[]);
    for name in ["a near", "a far", "a dropped", "b near", "b far", "b dropped"] {
        file.extend(blocks.interface(&cooked(false), &blocks.option(2, name.as_bytes())));
    }
    let mut packets = Vec::new();
    for (number, seen) in flow().into_iter().enumerate() {
        let data = seen.wire == 1500;
        let lost = data && (11..21).contains(&number);
        // Interface, whether it leaves there, and when. Data enters `a` at its far end and `b` at its near one.
        let [near, far] = [[0, 3], [1, 4]];
        let steps = if data {
            [(far[0], false, 0), (near[0], true, 4), (near[1], false, 5), (if lost { 5 } else { far[1] }, !lost, 10)]
        } else {
            [(far[1], false, 0), (near[1], true, 4), (near[0], false, 5), (far[0], true, 10)]
        };
        for (step, (interface, leaves, after)) in steps.into_iter().enumerate() {
            let mut then = Seen { at: seen.at + after * MS, ..seen.clone() };
            // A router between the links.
            then.ip[8] -= u8::from(step > 1);
            packets.push((then, interface, leaves));
        }
    }
    packets.sort_by_key(|(seen, ..)| seen.at);
    for (seen, interface, leaves) in &packets {
        file.extend(blocks.packet(6, *interface, &cooked(*leaves), 1000, seen));
    }
    let log = plot(&file).unwrap();
    assert_eq!(log.kind, "packets on an emulated path");
    let figures = ["packets", "dropped, packets", "one-way delay p50, ms"];
    let of = |hop: &str| figures.map(|what| figure(&log, hop, what));
    assert_eq!((of("link 1 down"), of("link 2 up")), ([120.0, 0.0, 4.0].map(Some), [120.0, 10.0, 5.0].map(Some)));
    assert_eq!((of("link 2 down"), of("link 1 up")), ([12.0, 0.0, 4.0].map(Some), [12.0, 0.0, 5.0].map(Some)));
    // 110 packets of 1500 bytes arrive in 501 ms.
    assert!((figure(&log, FLOW, "throughput").unwrap() - 110.0 * 1500.0 * 8e-6 / log.seconds).abs() < 1e-9);
    // An acknowledgement is at the sender 10 ms after it was sent.
    assert!((round_trips(&log)[0] - 50.0).abs() < 1e-9, "{:?}", round_trips(&log));
    let flow = capture::read("c", &file[..], None).unwrap();
    assert!((flow.points[0].rtt_ms.unwrap() - 50.0).abs() < 1e-9 && flow.losses.is_empty());
    // A segment of which one is lost is sent once.
    let delivered = flow.points.last().unwrap().delivered;
    assert!((delivered - 120.0).abs() < 1e-9, "{delivered}");
}
