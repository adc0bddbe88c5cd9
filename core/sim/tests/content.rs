//! Flows that fetch objects from content routers: the product's router, cache and fetch over simulated paths.

use paceline_cc::{Bytes, Nanos, Time};
use paceline_experiment::icn::Asking;
use paceline_experiment::{
    Config, Content, ContentRouter, Flow, Graph, Outcome, Poisson, Seed, Tap, Topology, Via, Way, Workload,
};
use paceline_icn::Layout;
use paceline_path::{DelaySplit, DropReason};
use paceline_path::{Direction, Path, build_link};
use paceline_sim::Body;
use paceline_transport::Segment;

/// Bytes of the object.
const OBJECT: u64 = 2_000_000;

/// mirror and origin - edge - user: 20 Mbit/s and 20 ms before the edge, 100 Mbit/s and 2 ms behind it.
struct Lab {
    graph: Graph,
    far: &'static str,
    cache: u64,
}

impl Lab {
    fn new(cache: u64) -> Self {
        let mut graph = Graph::default();
        graph.link("far", ["origin", "edge"]).unwrap();
        graph.link("near", ["edge", "user"]).unwrap();
        graph.link("other", ["mirror", "edge"]).unwrap();
        Self { graph, far: "rate = '20 Mbit/s'\ndelay = '20ms'\nqueue = 'droptail:packets=200'", cache }
    }

    fn node(&self, name: &str) -> u32 {
        self.graph.node(name).unwrap()
    }

    /// A fetch of the object from a node, at this second.
    fn flow(&self, from: &str, start_s: u64) -> Flow {
        Flow {
            way: Way { from: self.node(from), to: self.node("user") },
            start: Time::from_millis(1000 * start_s),
            workload: Workload::Bytes(Bytes(OBJECT)),
            content: Content { object: Some("film".to_owned()), sources: Vec::new() },
            ..Flow::bulk("bbr".parse().unwrap(), Via::icn(Asking::default()))
        }
    }

    fn run(&self, flows: Vec<Flow>, tap: Option<&mut dyn Tap>) -> Outcome {
        let near = "rate = '100 Mbit/s'\ndelay = '2ms'\nqueue = 'droptail:packets=200'";
        let link = |text: &str, seed| -> [Path<Body>; 2] {
            let direction: Direction = toml::from_str(text).unwrap();
            build_link([&direction, &direction], [seed, seed + 1], Nanos::ZERO, &|name: &str| Err(name.to_owned()))
                .unwrap()
        };
        let paths = [link(self.far, 1), link(near, 3), link(self.far, 5)].into_iter().flatten().collect();
        let router = |name: &str, upstream: Vec<u32>, cache: u64| ContentRouter {
            node: self.node(name),
            upstream,
            cache: Bytes(cache),
        };
        let routers = vec![
            router("origin", Vec::new(), 0),
            router("mirror", Vec::new(), 0),
            router("edge", vec![self.node("origin")], self.cache),
        ];
        let config = Config {
            seed: Seed(1),
            duration: Nanos::from_secs(20),
            topology: Topology::new(self.graph.clone(), paths).routing(routers),
            flows,
            cross: Vec::new(),
            sample_every: Some(Nanos::from_millis(100)),
        };
        paceline_sim::run(config, tap)
    }
}

/// Seconds that a flow took.
fn took(outcome: &Outcome, flow: usize) -> f64 {
    outcome.flows[flow].completions[0].1.as_secs_f64()
}

fn mbps(outcome: &Outcome, flow: usize) -> f64 {
    OBJECT as f64 * 8e-6 / took(outcome, flow)
}

#[test]
fn an_object_comes_whole_and_each_of_its_units_once() {
    let lab = Lab::new(0);
    let outcome = lab.run(vec![lab.flow("origin", 0)], None);
    let flow = &outcome.flows[0];
    let stored = Layout::new(OBJECT).stored_units();
    assert_eq!((flow.completions.len(), flow.bytes_ready), (1, OBJECT));
    assert_eq!((flow.packets_entered, flow.packets_arrived, flow.packets_dropped), (stored, stored, 0));
    // Payload, heads of the messages, UDP and IPv4.
    assert_eq!(flow.wire_bytes_arrived, Layout::new(OBJECT).stored_bytes() + 58 * stored);
    assert!(flow.rtt.min_ms().unwrap() >= 44.0 && flow.delay.min_ms().unwrap() >= 22.0);
    assert!(mbps(&outcome, 0) > 15.0, "{} Mbit/s", mbps(&outcome, 0));
    let origin = outcome.routers.iter().find(|router| router.node == lab.node("origin")).unwrap().stats;
    assert_eq!((origin.sent_units, origin.misses), (stored, 0));
    assert!(origin.granted >= 1, "the address proves itself: {origin:?}");
    let series = &outcome.series.as_ref().unwrap().flows[0];
    assert!(series.window_packets.iter().any(|window| *window > 4.0) && series.srtt_ms.iter().any(Option::is_some));
}

#[test]
fn what_is_asked_for_a_second_time_is_kept_nearby() {
    let lab = Lab::new(64_000_000);
    let outcome = lab.run((0..3).map(|number| lab.flow("edge", 5 * number)).collect(), None);
    assert!(outcome.flows.iter().all(|flow| flow.bytes_ready == OBJECT && flow.completions.len() == 1));
    assert!(took(&outcome, 2) < 0.4 * took(&outcome, 0), "{} and {} s", took(&outcome, 2), took(&outcome, 0));
    let stored = Layout::new(OBJECT).stored_bytes() as f64;
    let far = outcome.hops[0].stats.delivered.bytes as f64 / stored;
    assert!((1.9..2.3).contains(&far), "the third costs the far link nothing: {far} objects");
    let edge = outcome.routers.iter().find(|router| router.node == lab.node("edge")).unwrap().stats;
    assert!(edge.hits >= Layout::new(OBJECT).stored_units() && edge.misses > 0, "{edge:?}");

    let without = Lab::new(0);
    let outcome = without.run((0..3).map(|number| without.flow("edge", 5 * number)).collect(), None);
    let far = outcome.hops[0].stats.delivered.bytes as f64 / stored;
    assert!(far > 2.9, "without a cache all three do: {far} objects");
}

#[test]
fn two_sources_give_what_both_links_can() {
    let lab = Lab::new(0);
    let one = lab.run(vec![lab.flow("origin", 0)], None);
    let mut flow = lab.flow("origin", 0);
    flow.content.sources.push(lab.node("mirror"));
    let both = lab.run(vec![flow], None);
    assert!(mbps(&both, 0) > 1.6 * mbps(&one, 0), "{} and {} Mbit/s", mbps(&both, 0), mbps(&one, 0));
    let flow = &both.flows[0];
    let stored = Layout::new(OBJECT).stored_units();
    assert!((stored..stored + stored / 20).contains(&flow.packets_arrived), "{} of {stored}", flow.packets_arrived);
    for name in ["origin", "mirror"] {
        let sent = both.routers.iter().find(|router| router.node == lab.node(name)).unwrap().stats.sent_units;
        assert!(sent > stored / 3, "{name}: {sent} of {stored}");
    }
}

#[derive(Default)]
struct Counts {
    sent: u64,
    arrived: u64,
    dropped: u64,
}

impl Tap for Counts {
    fn on_sent(&mut self, _now: Time, flow: u32, _segment: &Segment) {
        assert_eq!(flow, 0);
        self.sent += 1;
    }

    fn on_arrival(&mut self, _now: Time, flow: u32, _segment: &Segment, _ce: bool, _delay: &DelaySplit) {
        assert_eq!(flow, 0);
        self.arrived += 1;
    }

    fn on_dropped(&mut self, flow: u32, fate: &paceline_experiment::Fate<'_>) {
        assert_eq!((flow, fate.reason), (0, DropReason::Lost));
        self.dropped += 1;
    }
}

#[test]
fn a_tap_sees_every_unit_and_the_same_seed_gives_the_same_run() {
    let lab = Lab { far: "rate = '20 Mbit/s'\ndelay = '20ms'\nloss = 0.01", ..Lab::new(0) };
    let run = || {
        let mut counts = Counts::default();
        let mut flow = lab.flow("origin", 0);
        flow.content.sources.push(lab.node("mirror"));
        let outcome = lab.run(vec![flow], Some(&mut counts));
        (outcome, counts)
    };
    let (outcome, counts) = run();
    let flow = &outcome.flows[0];
    assert_eq!((flow.completions.len(), flow.bytes_ready), (1, OBJECT));
    assert_eq!([counts.sent, counts.arrived], [flow.packets_entered, flow.packets_arrived]);
    assert!(counts.dropped > 0 && counts.dropped >= flow.packets_dropped);
    let (again, _) = run();
    assert_eq!(again.events, outcome.events);
    assert_eq!(format!("{:?}", again.flows), format!("{:?}", outcome.flows));
}

#[test]
fn each_flow_of_a_family_fetches_an_object_of_its_own() {
    let lab = Lab::new(64_000_000);
    let family = Poisson {
        mean_gap: Nanos::from_millis(200),
        alpha: 1.2,
        min: Bytes(5_000),
        max: Bytes(200_000),
        scale: None,
        cut: paceline_experiment::Cut::Truncate,
        count: Some(40),
    };
    let flow = Flow { workload: Workload::Poisson(family), content: Content::default(), ..lab.flow("edge", 0) };
    let outcome = lab.run(vec![flow], None);
    assert_eq!(outcome.flows[0].fct.count(), 40);
    let edge = outcome.routers.iter().find(|router| router.node == lab.node("edge")).unwrap().stats;
    assert!(edge.misses > 40, "no object is asked for twice: {edge:?}");
}
