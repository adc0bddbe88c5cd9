//! Worlds of more than two ends: chains, parking lots, receivers behind one router.

use std::collections::BTreeMap;

use crate::common::bulk;
use paceline_cc::{Nanos, Rate, Time};
use paceline_experiment::{Config, Fate, Flow, Graph, Outcome, Seed, Tap, Topology, Via, Way, Workload};
use paceline_path::{DelaySplit, Direction, DropReason, LossModel, Path, Snapshot};
use paceline_sim::Body;
use paceline_transport::Segment;

/// A link of this rate with its queue, in both directions.
pub(crate) fn link(mbps: f64, queue: &str, delay_ms: u64) -> Direction {
    let (rate, delay) = (Some(Rate::from_mbps(mbps)), Nanos::from_millis(delay_ms));
    Direction { rate, queue: Some(queue.parse().unwrap()), delay, ..Direction::default() }
}

fn build(direction: &Direction, seed: u64) -> Path<Body> {
    direction.build(seed, Nanos::from_millis(100), &|_: &str| Err("no trace")).unwrap()
}

/// Links by name and ends, each the same in both directions.
pub(crate) fn topology(links: &[(&str, [&str; 2], Direction)], seed: u64) -> Topology<Body> {
    let mut graph = Graph::default();
    let mut paths = Vec::new();
    for (name, between, direction) in links {
        graph.link(name, *between).unwrap();
        for _ in 0..2 {
            paths.push(build(direction, Seed(seed).derive(&format!("hop {}", paths.len()))));
        }
    }
    Topology::new(graph, paths)
}

pub(crate) fn way(topology: &Topology<Body>, from: &str, to: &str) -> Way {
    let node = |name| topology.graph().node(name).unwrap();
    Way { from: node(from), to: node(to) }
}

pub(crate) fn run(
    topology: Topology<Body>,
    flows: Vec<Flow>,
    seed: u64,
    seconds: u64,
    tap: Option<&mut dyn Tap>,
) -> Outcome {
    let (duration, cross) = (Nanos::from_secs(seconds), Vec::new());
    paceline_sim::run(Config { seed: Seed(seed), duration, topology, flows, cross, sample_every: None }, tap)
}

/// Three bottlenecks in a row of 50 Mbit/s, `each` Reno flows over all of them and as many over one each. `hop_ms` is the
/// delay of a hop, `extra_ms` what the short flows have besides, each way. The share of a link that the long flows get.
fn long_share(each: usize, hop_ms: u64, extra_ms: u64, seed: u64) -> f64 {
    // RED drops packets of each link at random, independently, and a long time before the queue is full; its thresholds are
    // low, so that queues add little to the round trips.
    let bottleneck = || link(50.0, "red:min=5,max=50,probability=0.1", hop_ms);
    let links = [
        ("first", ["r1", "r2"], bottleneck()),
        ("second", ["r2", "r3"], bottleneck()),
        ("third", ["r3", "r4"], bottleneck()),
    ];
    let topology = topology(&links, seed);
    let reno = |from: &str, to: &str, extra: u64| Flow {
        way: way(&topology, from, to),
        extra_delay: Nanos::from_millis(extra),
        ..bulk("reno", Via::tcp(None))
    };
    let kinds =
        [reno("r1", "r4", 0), reno("r1", "r2", extra_ms), reno("r2", "r3", extra_ms), reno("r3", "r4", extra_ms)];
    let flows: Vec<Flow> = kinds.iter().flat_map(|flow| vec![flow.clone(); each]).collect();
    let outcome = run(topology, flows, seed, 60, None);
    let bytes = |kind: usize| -> u64 {
        outcome.flows[kind * each..(kind + 1) * each].iter().map(|flow| flow.wire_bytes_arrived).sum()
    };
    let (long, short) = (bytes(0) as f64, (bytes(1) + bytes(2) + bytes(3)) as f64 / 3.0);
    long / (long + short)
}

/// Reno sends 1 / (T sqrt(p)) packets a second, up to a factor, where T is its round trip and p its loss (Mathis et al. 1997).
/// Losses add along a way: a flow over n links that all lose p, beside flows over one each, gets T1 / (T0 sqrt(n)) times
/// what these get. With equal round trips that is minimum potential delay, a share of 1 / (1 + sqrt(n)) of each link; with round
/// trips as sqrt(n) to 1 it is proportional fairness, 1 / (1 + n) (Massoulie and Roberts 1999; Kelly 1998).
///
/// The mean of three seeds is within 8 %, each is within 12 %: queues add to the longer way, and RED's drops are not quite
/// independent.
#[test]
fn a_parking_lot_is_shared_as_theory_says() {
    let root = 3.0_f64.sqrt();
    // 120 ms for all of them; then 120 and 70 ms, which is sqrt(3) to 1 within 1 %.
    for (extra_ms, theory) in [(40, 1.0 / (1.0 + root)), (15, 1.0 / (1.0 + 3.0))] {
        let shares: Vec<f64> = (1..=3).map(|seed| long_share(8, 20, extra_ms, seed)).collect();
        let mean = shares.iter().sum::<f64>() / 3.0;
        assert!((mean / theory - 1.0).abs() < 0.08, "{shares:?}, in theory {theory}");
        assert!(shares.iter().all(|share| (share / theory - 1.0).abs() < 0.12), "{shares:?}, in theory {theory}");
    }
}

/// Sees what is dropped, and each hop now and then.
#[derive(Default)]
struct Watch {
    dropped: BTreeMap<(String, bool), u64>,
    snapshots: Vec<(Time, Vec<Option<Snapshot>>)>,
    delays: Vec<DelaySplit>,
}

impl Tap for Watch {
    fn on_arrival(&mut self, _: Time, _: u32, _: &Segment, _: bool, delay: &DelaySplit) {
        self.delays.push(*delay);
    }

    fn on_dropped(&mut self, _: u32, fate: &Fate<'_>) {
        *self.dropped.entry((fate.hop.to_owned(), fate.reason == DropReason::Lost)).or_default() += 1;
    }

    fn snapshot_every(&self) -> Option<Nanos> {
        Some(Nanos::from_millis(100))
    }

    fn on_snapshot(&mut self, now: Time, graph: &Graph, hops: &[Option<Snapshot>]) {
        assert_eq!(graph.hops().len(), hops.len());
        self.snapshots.push((now, hops.to_vec()));
    }
}

/// Station, access point, access point, station; the second radio is the bottleneck, the first loses packets.
fn chain() -> Topology<Body> {
    let lossy = Direction { loss: Some(LossModel::Rate(0.01)), ..link(20.0, "droptail:packets=60", 2) };
    let links = [
        ("radio1", ["sta1", "ap1"], lossy),
        ("wire", ["ap1", "ap2"], link(100.0, "droptail:packets=300", 10)),
        ("radio2", ["ap2", "sta2"], link(10.0, "droptail:packets=30", 2)),
    ];
    topology(&links, 1)
}

#[test]
fn a_chain_delays_by_the_sum_of_its_hops_and_every_drop_names_its_hop() {
    let topology = chain();
    let way = way(&topology, "sta1", "sta2");
    let mut watch = Watch::default();
    let flow = Flow { way, ..bulk("cubic", Via::tcp(None)) };
    let outcome = run(topology, vec![flow], 1, 20, Some(&mut watch));
    let flow = &outcome.flows[0];
    // 2 + 10 + 2 ms, and 1500 bytes at 20, 100 and 10 Mbit/s.
    assert!(watch.delays.iter().all(|split| split.propagation == Nanos::from_millis(14)));
    let transmission = Nanos::from_micros(600 + 120 + 1_200);
    assert!(watch.delays.iter().all(|split| split.transmission == transmission), "{:?}", watch.delays[0]);
    // Every loss is where it happened, and all of them are in the flow's figure.
    let at = |hop: &str, lost: bool| watch.dropped.get(&(hop.to_owned(), lost)).copied().unwrap_or(0);
    assert_eq!(at("radio1", true), outcome.hops[0].lost.packets);
    assert_eq!(at("radio1", false), outcome.hops[0].stats.full.packets);
    assert_eq!(at("radio2", false), outcome.hops[4].stats.full.packets);
    assert!(at("radio1", true) > 50 && at("radio2", true) == 0, "{:?}", watch.dropped);
    assert_eq!(watch.dropped.values().sum::<u64>(), flow.packets_dropped);
    assert_eq!(outcome.bottleneck(way), Some(4));
    // Acknowledgements took the way back: each hop of it saw them.
    for hop in [1, 3, 5] {
        assert!(outcome.hops[hop].stats.delivered.packets > flow.packets_arrived / 2, "{hop}");
    }
}

#[test]
fn snapshots_show_each_hop_at_its_moment() {
    let topology = chain();
    let steady = Flow {
        way: way(&topology, "sta1", "sta2"),
        workload: Workload::Rate(Rate::from_mbps(4.0)),
        ..bulk("fixed:window=1000", Via::udp())
    };
    let crowd = Flow { way: way(&topology, "ap1", "sta2"), ..bulk("fixed:window=40", Via::udp()) };
    let mut watch = Watch::default();
    run(topology, vec![steady, crowd], 1, 5, Some(&mut watch));
    assert_eq!(watch.snapshots.len(), 50);
    let (now, hops) = &watch.snapshots[40];
    assert_eq!(*now, Time::from_millis(4_100));
    let [radio1, _, wire, _, radio2, _] = hops.as_slice() else { panic!("{hops:?}") };
    let [radio1, wire, radio2] = [radio1, wire, radio2].map(|hop| hop.as_ref().unwrap());
    let recent = |hop: &Snapshot| (hop.recent.unwrap().arrival.as_mbps(), hop.recent.unwrap().flows);
    // 4 Mbit/s of payload are 4.1 on the wire; nothing waits where it is alone.
    assert_eq!((radio1.at, radio1.queued.packets), (*now, 0));
    assert!((recent(radio1).0 - 4.14).abs() < 0.3 && recent(radio1).1 == 1, "{radio1:?}");
    assert_eq!(radio1.capacity, Rate::from_mbps(20.0));
    // Behind the first access point there are two flows, and the last hop is full: more arrives than it can carry.
    assert_eq!((recent(wire).1, recent(radio2).1), (2, 2));
    assert!(recent(radio2).0 > 10.0 && radio2.queued.packets >= 20, "{radio2:?}");
    assert!(radio2.dropped.packets > 0 && radio1.dropped.packets == 0 && radio1.lost.packets > 0);
    // Counters never fall.
    let arrived: Vec<u64> = watch.snapshots.iter().map(|(_, hops)| hops[4].unwrap().arrived.packets).collect();
    assert!(arrived.is_sorted() && arrived[0] < arrived[49]);
}

/// One server, one router, three receivers: the two behind narrow links are held by these, the third gets what they leave.
#[test]
fn receivers_behind_one_router_share_what_is_before_it() {
    let links = [
        ("core", ["server", "router"], link(20.0, "droptail:packets=100", 10)),
        ("a", ["router", "alice"], link(2.0, "droptail:packets=50", 5)),
        ("b", ["router", "bob"], link(4.0, "droptail:packets=50", 5)),
        ("c", ["router", "carol"], link(100.0, "droptail:packets=50", 5)),
    ];
    let topology = topology(&links, 1);
    let flows: Vec<Flow> = ["alice", "bob", "carol"]
        .iter()
        .map(|name| Flow { way: way(&topology, "server", name), ..bulk("cubic", Via::tcp(None)) })
        .collect();
    let ways: Vec<Way> = flows.iter().map(|flow| flow.way).collect();
    let outcome = run(topology, flows, 1, 30, None);
    let mbps = |flow: usize| outcome.flows[flow].wire_bytes_arrived as f64 * 8e-6 / 30.0;
    assert_eq!(ways.iter().map(|way| outcome.bottleneck(*way)).collect::<Vec<_>>(), [Some(2), Some(4), Some(0)]);
    assert!((1.8..=2.0).contains(&mbps(0)) && (3.6..=4.0).contains(&mbps(1)), "{} {}", mbps(0), mbps(1));
    assert!((12.0..=14.2).contains(&mbps(2)), "{}", mbps(2));
    let total = mbps(0) + mbps(1) + mbps(2);
    assert!(total <= 20.0, "{total} through the core");
}

#[test]
fn cross_traffic_travels_hop_by_hop() {
    let links = [
        ("a", ["x", "y"], link(10.0, "droptail:packets=50", 1)),
        ("b", ["y", "z"], link(5.0, "droptail:packets=50", 1)),
    ];
    let topology = topology(&links, 1);
    let cross = paceline_experiment::Cross {
        way: way(&topology, "x", "z"),
        rate: Rate::from_mbps(8.0),
        packet: 1000,
        burst: 1,
        poisson: false,
        start: Time::ZERO,
        stop: None,
    };
    let (seed, duration, flows) = (Seed(1), Nanos::from_secs(10), Vec::new());
    let config = Config { seed, duration, topology, flows, cross: vec![cross], sample_every: None };
    let hops = paceline_sim::run(config, None).hops;
    // 8 Mbit/s are 1000 packets a second, of which the second link carries five in eight.
    let carried = |hop: usize| hops[hop].stats.delivered.packets;
    assert!((9_990..=10_001).contains(&carried(0)), "{}", carried(0));
    assert!((6_240..=6_251).contains(&carried(2)), "{}", carried(2));
    assert!(hops[2].stats.full.packets > 3_600 && carried(1) == 0 && carried(3) == 0);
}
