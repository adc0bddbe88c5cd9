//! Worlds of routers and receivers: what a scenario of flows cannot say (sources that come and go, an address that changes in the middle of
//! a fetch, a thousand fetches of a hundred objects).

use crate::reproduce::prelude::*;
use std::sync::Arc;

use paceline_cc::{Rate, Spec, Time};
use paceline_experiment::icn::{BIN, FetchNode, SyntheticObject};
use paceline_experiment::{Config, Graph, Seed, Topology};
use paceline_icn::{FetchConfig, FetchStats, RouterConfig};
use paceline_path::{Direction, Path, build_link};
use paceline_sim::icn::{RouterNode, UpstreamOptions};
use paceline_sim::{Body, NodeId, World};

/// Links as scenario files say them, until a world is made of them.
pub(super) struct Links {
    seed: Seed,
    graph: Graph,
    paths: Vec<Path<Body>>,
}

impl Links {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed: Seed(seed), graph: Graph::default(), paths: Vec::new() }
    }

    /// A link, by the keys of its directions.
    pub(super) fn link(&mut self, between: [&str; 2], there: &str, back: &str) {
        let name = between.join("-");
        self.graph.link(&name, between).expect("a forest of ours");
        let [there, back]: [Direction; 2] = [there, back].map(|text| toml::from_str(text).expect("a link of ours"));
        let seeds = ["there", "back"].map(|direction| self.seed.derive(&format!("link {name} {direction}")));
        let load = |name: &str| Err(format!("{name}: no traces here"));
        self.paths.extend(build_link([&there, &back], seeds, Nanos::ZERO, &load).expect("a link of ours"));
    }

    /// The world over them, which lasts this many seconds at most.
    pub(super) fn world(self, seconds: u64) -> Network {
        let topology = Topology::new(self.graph.clone(), self.paths);
        let config = Config {
            seed: self.seed,
            duration: Nanos::from_secs(seconds),
            topology,
            flows: Vec::new(),
            cross: Vec::new(),
            sample_every: None,
        };
        Network { seed: self.seed, graph: self.graph, world: World::new(config, None), drawn: 0 }
    }
}

/// A world whose nodes have names.
pub(super) struct Network {
    seed: Seed,
    graph: Graph,
    pub(super) world: World<'static>,
    drawn: u32,
}

/// Every source's.
fn bbr() -> Spec {
    "bbr".parse().expect("a registered controller")
}

impl Network {
    /// The number of the graph's node with this name.
    pub(super) fn at(&self, name: &str) -> u32 {
        self.graph.node(name).expect("a node of ours")
    }

    fn draw(&mut self) -> Seed {
        self.drawn += 1;
        Seed(self.seed.derive(&format!("node {}", self.drawn)))
    }

    /// A router with these objects.
    pub(super) fn router(&mut self, at: &str, objects: &[Arc<SyntheticObject>]) -> NodeId<RouterNode> {
        self.join(at, objects, None)
    }

    /// A router with a cache of this many bytes before another one.
    pub(super) fn cache(&mut self, at: &str, bytes: u64, origin: NodeId<RouterNode>) -> NodeId<RouterNode> {
        let addresses = vec![self.world.node(origin).address()];
        self.join(at, &[], Some(UpstreamOptions { addresses, controller: bbr(), cache_bytes: bytes }))
    }

    fn join(
        &mut self,
        at: &str,
        objects: &[Arc<SyntheticObject>],
        upstream: Option<UpstreamOptions>,
    ) -> NodeId<RouterNode> {
        let (at, seed) = (self.at(at), self.draw());
        RouterNode::new(at, RouterConfig::new(Rate::INFINITY), objects, upstream, seed).join(&mut self.world)
    }

    /// A receiver that fetches all of an object from now on.
    pub(super) fn receiver(
        &mut self,
        at: &str,
        object: &Arc<SyntheticObject>,
        routers: &[NodeId<RouterNode>],
    ) -> NodeId<FetchNode> {
        let (seed, now) = (self.draw(), self.world.now());
        let fetch = self.world.add_node(FetchNode::new(FetchConfig::default(), object, bbr(), now, seed));
        for router in routers {
            self.source(fetch, at, *router);
        }
        fetch
    }

    /// One source more, asked from a node.
    pub(super) fn source(&mut self, fetch: NodeId<FetchNode>, at: &str, router: NodeId<RouterNode>) {
        let (at, router) = (self.at(at), self.world.node(router).address());
        self.world.add_source(fetch, at, router);
    }

    /// What a fetch has so far.
    pub(super) fn received(&self, fetch: NodeId<FetchNode>) -> Received {
        let node = self.world.node(fetch);
        let (began, ended) = node.times();
        let (stats, stored) = (node.fetch().stats(), node.object().layout().stored_bytes());
        Received {
            began,
            ended,
            whole: node.is_whole(),
            more: (stats.bytes_received as f64 / stored as f64 - 1.0) * 100.0,
            stats,
            bins: node.bins().to_vec(),
        }
    }
}

/// What came of a fetch.
pub(super) struct Received {
    began: Time,
    pub(super) ended: Option<Time>,
    /// All of its object came out, in order and right.
    pub(super) whole: bool,
    /// Bytes of units that came for one byte of the object's stored form, less one, in per cent.
    pub(super) more: f64,
    pub(super) stats: FetchStats,
    /// Bytes of units by source, in each [`BIN`].
    pub(super) bins: Vec<Vec<u64>>,
}

impl Received {
    /// How many per cent more bytes came than the object's, the most of several fetches, and whether that is little: 2 % or less.
    pub(super) fn little_more<'a>(all: impl IntoIterator<Item = &'a Self>) -> (String, bool) {
        let most = all.into_iter().map(|received| received.more).fold(0.0, f64::max);
        (format!("{} %", short((most * 100.0).round() / 100.0)), most <= 2.0)
    }

    /// How many of several fetches came out whole, and whether all did.
    pub(super) fn all_whole<'a>(all: impl IntoIterator<Item = &'a Self>) -> (String, bool) {
        let (whole, part): (Vec<_>, Vec<_>) = all.into_iter().partition(|received| received.whole);
        (format!("{} of {} fetches", whole.len(), whole.len() + part.len()), part.is_empty())
    }

    /// Seconds that it took.
    pub(super) fn seconds(&self) -> f64 {
        self.ended.map_or(f64::INFINITY, |ended| ended.since(self.began).as_secs_f64())
    }

    /// Mbit/s of units from all sources in a span of seconds.
    pub(super) fn rate(&self, from: f64, to: f64) -> f64 {
        let bin = BIN.as_secs_f64();
        let (first, last) = ((from / bin).round() as usize, (to / bin).round() as usize);
        let bytes = |bins: &Vec<u64>| bins.iter().skip(first).take(last - first).sum::<u64>();
        self.bins.iter().map(bytes).sum::<u64>() as f64 * 8e-6 / (to - from)
    }
}
