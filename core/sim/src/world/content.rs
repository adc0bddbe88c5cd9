//! Content routers of a world, and the flows that fetch from them.

use std::collections::BTreeMap;
use std::sync::Arc;

use paceline_cc::{Controller, Rate};
use paceline_experiment::icn::{FetchNode, ROUTER_CONTROLLER, ROUTER_PORT, SyntheticObject};
use paceline_experiment::{ContentRouter, Flow, Node, RouterOutcome, Seed, Way};
use paceline_icn::RouterConfig;

use super::World;
use super::nodes::{Nodes, Owner};
use crate::body::Label;
use crate::ends::Ends;
use crate::icn::{RouterNode, UpstreamOptions};
use crate::node::{NodeId, address};
use crate::timers::Target;

/// The routers, and the objects that flows share.
#[derive(Default)]
pub(super) struct Content {
    /// By the graph's node.
    routers: BTreeMap<u32, NodeId<RouterNode>>,
    /// Those that have every object.
    origins: Vec<NodeId<RouterNode>>,
    named: BTreeMap<String, Arc<SyntheticObject>>,
}

impl Content {
    /// Whether a flow fetches from a router.
    pub(super) fn is_fetched(&self, flow: &Flow) -> bool {
        flow.is_fetch(|node| self.routers.contains_key(&node))
    }

    /// What the routers have done.
    pub(super) fn outcomes(&self, nodes: &Nodes) -> Vec<RouterOutcome> {
        let outcome = |(node, router): (&u32, &NodeId<RouterNode>)| {
            let router = nodes.get(*router);
            RouterOutcome { node: *node, stats: *router.stats(), memory: router.memory() }
        };
        self.routers.iter().map(outcome).collect()
    }
}

impl World<'_> {
    /// Puts the routers of the topology in their places.
    pub(super) fn add_routers(&mut self, routers: &[ContentRouter]) {
        for ContentRouter { node, upstream, cache } in routers {
            let seed = Seed(self.seed.derive(&format!("router {}", self.hops.graph().nodes()[*node as usize])));
            let asks = (!upstream.is_empty()).then(|| UpstreamOptions {
                addresses: upstream.iter().map(|node| address(*node, ROUTER_PORT)).collect(),
                controller: ROUTER_CONTROLLER.parse().expect("a registered controller"),
                cache_bytes: cache.0,
            });
            let router = RouterNode::new(*node, RouterConfig::new(Rate::INFINITY), &[], asks, seed).join(self);
            self.content.routers.insert(*node, router);
            if upstream.is_empty() {
                self.content.origins.push(router);
            }
        }
    }

    /// The end of a flow that fetches an object of this many bytes, which routers without an upstream have from now on. It has no source yet.
    pub(super) fn fetch(&mut self, index: u32, number: u32, bytes: u64) -> Ends {
        let flow = &self.families[index as usize].flow;
        let seed = |purpose: &str| Seed(self.seed.derive(purpose));
        let object = match &flow.content.object {
            Some(name) => {
                let object = self.content.named.entry(name.clone());
                Arc::clone(object.or_insert_with(|| SyntheticObject::new(bytes, seed(&format!("object {name}")))))
            }
            None => SyntheticObject::new(bytes, seed(&format!("object of flow {number}"))),
        };
        for origin in &self.content.origins {
            self.nodes.get_mut(*origin).add_object(&object);
        }
        Ends::Fetch(Box::new(FetchNode::of_flow(flow, &object, self.now, seed(&format!("fetch {number}")))))
    }

    /// Gives a flow's fetch its sources; the first has this controller.
    pub(super) fn open_sources(&mut self, index: u32, number: u32, first: Box<dyn Controller>) {
        let Flow { way: Way { from, to }, content, .. } = &self.families[index as usize].flow;
        let (to, nodes) = (*to, [&[*from], content.sources.as_slice()].concat());
        let mut first = Some(first);
        for from in nodes {
            let (own, peer) = (self.nodes.bind_any(Owner::Flow(number), to), address(from, ROUTER_PORT));
            let way = self.routes.find(self.hops.graph(), Way { from, to }).expect("there is a way to each source");
            let of = if first.is_some() { number } else { self.live.skip() };
            self.nodes.connect([own, peer], Label { number: of, way, family: Some(index) });
            let Some(live) = self.live.get_mut(number) else { return };
            let Ends::Fetch(fetch) = &mut live.ends else { return };
            match first.take() {
                Some(controller) => fetch.add_source_with(self.now, own, peer, controller),
                None => fetch.add_source(self.now, own, peer),
            }
        }
    }

    /// Lets a flow's fetch ask for what it may, and sets its timer.
    pub(super) fn pump_fetch(&mut self, number: u32) {
        while let Some(flow) = self.live.get_mut(number)
            && flow.ready_at() <= self.now
            && let Ends::Fetch(fetch) = &mut flow.ends
            && let Some(packet) = fetch.poll(self.now)
        {
            if let Some(hosts) = &mut flow.hosts {
                hosts.sent(self.now);
            }
            self.send(packet);
        }
        let Some(flow) = self.live.get_mut(number) else { return };
        let wakes_at = flow.wakes_at(self.now);
        flow.steering_timer.arm(&mut self.timers, wakes_at, Target::Sender(number));
    }

    /// A flow's fetch is over: its ports are free, and an object that no other flow fetches is gone.
    pub(super) fn fetched(&mut self, index: u32, fetch: &FetchNode) {
        fetch.addresses().for_each(|own| self.unbind(own));
        if self.families[index as usize].flow.content.object.is_none() {
            for origin in &self.content.origins {
                self.nodes.get_mut(*origin).remove_object(fetch.object().name());
            }
        }
    }
}
