//! Nodes in a world: when their packets come, whose they are, and what becomes of those that no one waits for.

use std::collections::VecDeque;
use std::net::SocketAddr;

use bytes::Bytes;
use paceline_cc::{Codepoint, Nanos, Rate, Time};
use paceline_experiment::{Config, Flow, Graph, Node, Seed, Topology, UdpPacket, Via};
use paceline_path::queue::QueueBound;
use paceline_path::{Delay, Link, Path, QueueSpec, Schedule};
use paceline_sim::{Body, NodeId, World, address};

/// Sends back whatever comes.
#[derive(Default)]
struct Echo {
    back: VecDeque<UdpPacket>,
}

impl Node for Echo {
    fn on_packet(&mut self, _now: Time, packet: UdpPacket) {
        self.back.push_back(UdpPacket { from: packet.to, to: packet.from, ..packet });
    }

    fn poll(&mut self, _now: Time) -> Option<UdpPacket> {
        self.back.pop_front()
    }

    fn next_timeout(&self) -> Time {
        Time::NEVER
    }
}

/// Sends a byte every 10 ms, from 10 ms on, and notes what comes back when.
struct Asker {
    own: Option<SocketAddr>,
    to: SocketAddr,
    next: u8,
    back: Vec<(Time, u8)>,
}

impl Asker {
    fn of(to: SocketAddr) -> Self {
        Self { own: None, to, next: 1, back: Vec::new() }
    }

    /// When each answer came, in ms.
    fn answers(&self) -> Vec<(u8, f64)> {
        self.back.iter().map(|(at, byte)| (*byte, at.since(Time::ZERO).as_millis_f64())).collect()
    }
}

impl Node for Asker {
    fn on_packet(&mut self, now: Time, packet: UdpPacket) {
        assert_eq!((packet.from, Some(packet.to)), (self.to, self.own));
        self.back.push((now, packet.bytes[0]));
    }

    fn poll(&mut self, now: Time) -> Option<UdpPacket> {
        let from = self.own.filter(|_| self.next_timeout() <= now)?;
        let bytes = Bytes::copy_from_slice(&[self.next]);
        self.next += 1;
        Some(UdpPacket { from, to: self.to, ecn: Codepoint::NotEct, bytes })
    }

    fn next_timeout(&self) -> Time {
        Time::from_millis(10 * u64::from(self.next))
    }
}

/// a - r - b: 1 and 2 ms each way, and the bottleneck from r to b if a rate is given.
fn chain(flows: Vec<Flow>, rate: Option<Rate>) -> (Config<Body>, [u32; 3]) {
    let mut graph = Graph::default();
    graph.link("near", ["a", "r"]).unwrap();
    graph.link("far", ["r", "b"]).unwrap();
    let delay = |ms| Path::new().delay(Delay::new(Nanos::from_millis(ms)));
    let slow = |rate| {
        let queue = QueueSpec::DropTail { limit: QueueBound::NONE }.build(rate, Nanos::ZERO, 1);
        Path::new().link(Link::new(Schedule::constant(rate), queue)).delay(Delay::new(Nanos::from_millis(2)))
    };
    let paths = vec![delay(1), delay(1), rate.map_or_else(|| delay(2), slow), delay(2)];
    let nodes = ["a", "r", "b"].map(|name| graph.node(name).unwrap());
    let topology = Topology::new(graph, paths);
    let config = Config {
        seed: Seed(1),
        duration: Nanos::from_millis(100),
        topology,
        flows,
        cross: Vec::new(),
        sample_every: None,
    };
    (config, nodes)
}

/// An asker at `at`, with its address.
fn ask(world: &mut World<'_>, at: u32, to: SocketAddr) -> NodeId<Asker> {
    let node = world.add_node(Asker::of(to));
    let own = world.bind_any(node, at);
    world.visit(node, |asker, _| asker.own = Some(own));
    node
}

#[test]
fn packets_take_the_way_between_their_addresses_and_come_when_they_must() {
    let (config, [a, r, b]) = chain(Vec::new(), None);
    let mut world = World::new(config, None);
    let echo = world.add_node(Echo::default());
    let at = world.bind(echo, b, 7..=7);
    let (near, far) = (ask(&mut world, r, at), ask(&mut world, a, at));
    assert!(world.run_until(Time::NEVER));
    let times =
        |way_ms: f64| -> Vec<(u8, f64)> { (1..=9).map(|byte| (byte, 10.0 * f64::from(byte) + 2.0 * way_ms)).collect() };
    assert_eq!(world.node(near).answers(), times(2.0));
    assert_eq!(world.node(far).answers(), times(3.0));
}

#[test]
fn a_port_that_is_released_gets_nothing_any_more_and_another_may_have_it() {
    let (config, [a, _, b]) = chain(Vec::new(), None);
    let mut world = World::new(config, None);
    let echo = world.add_node(Echo::default());
    let at = world.bind(echo, b, 7..=9);
    let asker = ask(&mut world, a, address(b, 9));
    world.run_until(Time::from_millis(42));
    world.unbind(at);
    world.run_until(Time::from_millis(55));
    assert_eq!(world.node(asker).answers().len(), 3, "the fourth was on its way");
    let other = world.add_node(Echo::default());
    world.bind(other, b, 9..=9);
    world.run_until(Time::NEVER);
    let bytes: Vec<u8> = world.node(asker).answers().iter().map(|(byte, _)| *byte).collect();
    assert_eq!(bytes, [1, 2, 3, 6, 7, 8, 9]);
}

#[test]
fn a_node_s_packets_wait_in_the_queues_of_flows() {
    let flow = Flow::bulk("fixed:window=20".parse().unwrap(), Via::udp());
    let (config, [a, r, b]) = chain(Vec::new(), Some(Rate::from_mbps(10.0)));
    let flow = Flow { way: paceline_experiment::Way { from: r, to: b }, ..flow };
    let mut world = World::new(Config { flows: vec![flow], ..config }, None);
    let echo = world.add_node(Echo::default());
    let at = world.bind(echo, b, 7..=7);
    let asker = ask(&mut world, a, at);
    world.run_until(Time::NEVER);
    let late: Vec<f64> =
        world.node(asker).answers().iter().map(|(byte, at)| at - 10.0 * f64::from(*byte) - 6.0).collect();
    assert!(late.len() >= 6 && late.iter().all(|late| (10.0..25.0).contains(late)), "{late:?}");
    let outcome = world.finish();
    assert_eq!(outcome.flows[0].packets_dropped, 0);
    assert!(outcome.flows[0].packets_arrived > 50);
}

#[test]
fn what_has_no_way_and_no_one_at_its_end_is_lost() {
    let (config, [a, _, b]) = chain(Vec::new(), None);
    let mut world = World::new(config, None);
    let (nowhere, no_one) = (address(77, 1), address(b, 1));
    let askers = [nowhere, no_one, address(a, 1)].map(|to| ask(&mut world, a, to));
    world.run_until(Time::NEVER);
    assert!(askers.iter().all(|asker| world.node(*asker).back.is_empty() && world.node(*asker).next == 11));
}
