use paceline_experiment::icn::Asking;
use paceline_experiment::{Tap, Via};
use paceline_icn::wire::{AddressToken, Grant, TOKEN_BYTES, UnitHead};
use paceline_path::DropReason;

use super::*;

fn flow(direction: DumbbellWay, stop: Option<Time>) -> Flow {
    Flow { way: direction.into(), stop, ..Flow::bulk("reno".parse().unwrap(), Via::tcp(None)) }
}

/// Drops that a tap was told of: of which flow, when, where.
#[derive(Default)]
struct Drops(Vec<(u32, Time, String)>);

impl Tap for Drops {
    fn on_dropped(&mut self, flow: u32, fate: &Fate<'_>) {
        self.0.push((flow, fate.at, fate.hop.to_owned()));
    }
}

/// A TCP packet over IPv4 of `length` bytes.
fn packet(from: u16, to: u16, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length.max(40)];
    (bytes[0], bytes[9], bytes[32]) = (0x45, 6, 5 << 4);
    bytes[20..22].copy_from_slice(&from.to_be_bytes());
    bytes[22..24].copy_from_slice(&to.to_be_bytes());
    bytes
}

fn passage(direction: DumbbellWay, bytes: &[u8], entered: u64, at: u64) -> Passage<'_> {
    let (entered, at) = (Time::from_millis(entered), Time::from_millis(at));
    let delay = DelaySplit { queue: at - entered, ..DelaySplit::default() };
    Passage { link: 0, direction, id: 0, bytes, entered, at, released: at, delay, marked: false, reason: None }
}

#[test]
fn packets_count_for_their_flow_and_nothing_is_lost_on_the_way() {
    let flows = [flow(DumbbellWay::Down, None), flow(DumbbellWay::Up, Some(Time::from_millis(50)))];
    let glimpses: Vec<Glimpse> = vec![Arc::default(), Arc::default()];
    *glimpses[0].lock().unwrap() = Some(Sample { window: 14_480, ..Sample::default() });
    let end = Time::from_millis(100);
    let drops = Arc::new(Mutex::new(Drops::default()));
    let mut tap = RaceTap::new(&Graph::dumbbell(), &flows, &glimpses, 0, Some(Nanos::from_millis(10)), end).telling(
        Some(drops.clone()),
        &Graph::dumbbell(),
        &flows,
    );
    let data = packet(40_000, FLOW_PORT, 1500);
    let ack = packet(FLOW_PORT, 40_000, 40);
    let upward = packet(40_001, FLOW_PORT + 1, 1000);
    let stranger = packet(40_000, FLOW_PORT + 2, 1000);
    // One arrives after 15 ms, one is dropped, one is still under way; what is not data does not count.
    for at in [0, 1, 2] {
        tap.entered(&passage(DumbbellWay::Down, &data, at, at));
    }
    tap.entered(&passage(DumbbellWay::Down, &packet(40_000, FLOW_PORT, 40), 3, 3));
    tap.entered(&passage(DumbbellWay::Up, &upward, 4, 4));
    tap.entered(&passage(DumbbellWay::Up, &stranger, 4, 4));
    let full = Some(DropReason::Full);
    tap.dropped(&Passage { reason: full, ..passage(DumbbellWay::Down, &data, 1, 5) });
    tap.left(&passage(DumbbellWay::Down, &data, 0, 15));
    tap.left(&passage(DumbbellWay::Up, &ack, 15, 16));
    // Comes when its flow has stopped.
    tap.left(&passage(DumbbellWay::Up, &upward, 4, 60));
    let outcome = tap.finish(Graph::dumbbell(), Vec::new());
    assert_eq!(drops.lock().unwrap().0, [(0, Time::from_millis(5), "down".to_owned())]);

    let counts = |index: usize| {
        let flow = &outcome.flows[index];
        (flow.packets_entered, flow.packets_arrived, flow.packets_dropped, flow.wire_bytes_arrived)
    };
    assert_eq!((counts(0), counts(1)), ((3, 1, 1, 1500), (1, 0, 0, 0)));
    assert_eq!(outcome.flows[0].delay.max_ms(), Some(15.0));
    assert_eq!(outcome.flows[0].ack_split.count, 1);
    let series = outcome.series.unwrap();
    // It waited from 0 to 15 ms: at the end of the first step it was there.
    assert_eq!(series.queue_bytes, [1500, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(series.flows[0].window_packets, [10.0; 10]);
    assert_eq!(series.flows[0].throughput_mbps[1], 1.2);
}

#[test]
fn delays_of_a_packet_over_several_links_are_added_and_each_drop_counts_once() {
    let mut graph = Graph::default();
    for (name, between) in [("1", ["a", "b"]), ("2", ["c", "b"]), ("3", ["c", "d"])] {
        graph.link(name, between).unwrap();
    }
    let way = Way { from: graph.node("a").unwrap(), to: graph.node("d").unwrap() };
    let flows = [Flow { way, ..Flow::bulk("reno".parse().unwrap(), Via::tcp(None)) }];
    let (glimpses, end) = (vec![Arc::default()], Time::from_millis(100));
    let mut tap = RaceTap::new(&graph, &flows, &glimpses, 0, None, end);
    // What routers change is not what a packet is known by.
    let number = |number: u8, ttl: u8, from: u16, to: u16, length: usize| {
        let mut bytes = packet(from, to, length);
        (bytes[5], bytes[8], bytes[10]) = (number, ttl, 255 - ttl);
        bytes
    };
    let data = |id, ttl| number(id, ttl, 40_000, FLOW_PORT, 1500);
    let ack = |ttl| number(9, ttl, FLOW_PORT, 40_000, 40);
    let (down, up) = (DumbbellWay::Down, DumbbellWay::Up);
    // The second link leads the other way round. Of data the third overtakes the first there, of it a copy is made, and the
    // second is dropped.
    let steps = [
        ("left", 1, up, data(2, 63), 7, 10),
        ("left", 1, up, data(2, 63), 7, 10),
        ("left", 1, up, data(0, 63), 7, 11),
        ("dropped", 1, up, data(1, 63), 7, 8),
        ("left", 2, down, data(2, 62), 20, 30),
        ("left", 2, down, data(2, 62), 20, 31),
        ("left", 2, down, data(0, 62), 20, 40),
        ("left", 2, up, ack(64), 41, 42),
        ("left", 1, down, ack(63), 43, 45),
        ("left", 0, up, ack(62), 46, 50),
    ];
    let first = (0..3).flat_map(|id| {
        [
            ("entered", 0, down, data(id, 64), 1, 1),
            ("left", 0, down, data(id, 64), 1, 6),
            ("entered", 1, up, data(id, 63), 7, 7),
        ]
    });
    for (what, link, direction, bytes, entered, at) in first.chain(steps) {
        let passage = Passage { link, ..passage(direction, &bytes, entered, at) };
        match what {
            "entered" => tap.entered(&passage),
            "left" => tap.left(&passage),
            _ => tap.dropped(&passage),
        }
    }
    assert!(tap.flows[0].under_way.is_empty());
    let outcome = tap.finish(graph, Vec::new());
    let flow = &outcome.flows[0];
    assert_eq!((flow.packets_entered, flow.packets_arrived, flow.packets_dropped), (3, 2, 1));
    // 5 + 3 + 10 and 5 + 4 + 20 ms; 1 + 2 + 4 of the acknowledgement.
    assert_eq!((flow.delay.min_ms(), flow.delay.max_ms()), (Some(18.0), Some(29.0)));
    assert_eq!((flow.ack_split.count, flow.ack_split.mean_ms()[1]), (1, 7.0));
}

#[test]
fn units_of_a_fetch_count_by_their_source_whatever_port_its_flow_has() {
    let mut graph = Graph::default();
    for (name, between) in [("near", ["edge", "user"]), ("far", ["mirror", "edge"])] {
        graph.link(name, between).unwrap();
    }
    let [edge, user, mirror] = ["edge", "user", "mirror"].map(|name| graph.node(name).unwrap());
    let mut flow = Flow::bulk("bbr".parse().unwrap(), Via::icn(Asking::default()));
    (flow.way, flow.content.sources) = (Way { from: edge, to: user }, vec![mirror]);
    let flows = [flow.clone(), flow];
    let routers = [1, 2].map(|host| SocketAddr::new(IpAddr::V4([10, 0, 0, host].into()), ROUTER_PORT)).to_vec();
    let fetches = [Some(Arc::new(Fetches { objects: Vec::new(), routers })), None];
    let (glimpses, end) = (vec![Arc::default(), Arc::default()], Time::from_millis(100));
    let tap = RaceTap::new(&graph, &flows, &glimpses, 0, None, end).fetching(&graph, &flows, &fetches);
    let unit = UnitHead { nonce: 1, unit: 7, stored_units: None, waited: Nanos::ZERO, app_limited: false };
    let mut grant = Vec::new();
    Grant { nonce: 1, token: AddressToken([0; TOKEN_BYTES]) }.encode(&mut grant);
    let whose = |link: usize, host: u8, port: u16, message: &[u8]| {
        let mut bytes = packet(ROUTER_PORT, port, 28);
        bytes[9] = 17;
        bytes[12..16].copy_from_slice(&[10, 0, 0, host]);
        bytes.truncate(28);
        bytes.extend_from_slice(message);
        let stretch = tap.whose(&Passage { link, ..passage(DumbbellWay::Down, &bytes, 0, 0) })?;
        Some((stretch.flow, stretch.before, stretch.last))
    };
    let data = [&unit.encode_head()[..], &[7]].concat();
    assert_eq!(whose(0, 1, FLOW_PORT, &data), Some((0, 0, true)), "from the edge");
    assert_eq!(whose(1, 2, FLOW_PORT, &data), Some((0, 0, false)), "from the mirror to the edge");
    assert_eq!(whose(0, 2, FLOW_PORT + 2, &data), Some((0, 1, true)), "and on, to another of the family");
    assert_eq!(whose(0, 1, FLOW_PORT + 3, &data), None, "the other flow does not fetch from routers");
    assert_eq!(whose(0, 1, FLOW_PORT, &grant), None, "it has no unit");
}
