//! Nodes with content routers, and what flows fetch from them.

use std::collections::BTreeMap;

use paceline_cc::Bytes;
use paceline_cc::datapath::ICN;
use paceline_cc::names::nearest;
use paceline_experiment::{ContentRouter, Graph, config};
use serde::{Deserialize, Serialize};

use super::{Flow, KeyError, Scenario, Who, Workload};
use crate::contestant::Contestant;
use paceline_cc::foreign::printable;

/// A node with a content router: one without a `route` has every object, one with it fetches what is asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ContentNode {
    /// The nodes whose routers it asks, each for a part.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub route: Vec<String>,
    /// What its cache may have of what came from them; without the key it keeps nothing.
    #[serde(skip_serializing_if = "is_nothing")]
    pub cache: Bytes,
}

fn over_icn(contestant: &Contestant) -> bool {
    contestant.via.row().datapath.name == ICN.name
}

fn is_nothing(bytes: &Bytes) -> bool {
    *bytes == Bytes(0)
}

impl Scenario {
    /// The routers of its nodes.
    pub(super) fn routers(&self, graph: &Graph) -> Vec<ContentRouter> {
        let number = |name: &String| graph.node(name);
        let router = |(name, node): (&String, &ContentNode)| {
            let upstream = node.route.iter().filter_map(number).collect();
            Some(ContentRouter { node: number(name)?, upstream, cache: node.cache })
        };
        self.nodes.iter().filter_map(router).collect()
    }

    /// What a flow fetches.
    pub(super) fn content(&self, graph: &Graph, flow: &Flow) -> config::Content {
        let sources = flow.sources.iter().filter_map(|name| graph.node(name)).collect();
        config::Content { object: flow.object.clone(), sources }
    }

    /// Whether nodes with routers are there, reach those that they ask, and serve what has an end.
    pub(super) fn check_nodes(&self, graph: &Graph) -> Result<(), KeyError> {
        for (name, node) in &self.nodes {
            let key = format!("nodes.{name}");
            if self.links.is_empty() {
                let problem = "there are no [links], so that no node has a name; join nodes by [links]";
                return Err(KeyError::new(key, problem));
            }
            if graph.node(name).is_none() {
                let known = nearest(name, graph.nodes().iter().map(String::as_str));
                let problem = format!("no link has the node '{}'; {known}", printable(name, 40));
                return Err(KeyError::new(key, problem));
            }
            if node.route.is_empty() && !is_nothing(&node.cache) {
                let problem = "a router that asks no other has every object; add route, or leave the cache out";
                return Err(KeyError::new(format!("{key}.cache"), problem));
            }
            for upstream in &node.route {
                self.check_route(graph, name, upstream)?;
            }
            if self.asks_itself(name, name, self.nodes.len()) {
                let problem = "requests would go round in a circle; one of the routers must ask no other";
                return Err(KeyError::new(format!("{key}.route"), problem));
            }
        }
        let mut sizes = BTreeMap::new();
        for (index, flow) in self.flows.iter().enumerate() {
            let wrong = |(field, problem): (&str, String)| KeyError::new(format!("flows[{index}].{field}"), problem);
            self.check_fetch(graph, flow).map_err(wrong)?;
            if let (Some(object), Workload::Bytes(bytes)) = (&flow.object, &flow.workload)
                && sizes.insert(object, bytes).is_some_and(|other| other != bytes)
            {
                let problem =
                    format!("'{}' has another size in a flow before; give both the same", printable(object, 40));
                return Err(wrong(("object", problem)));
            }
        }
        Ok(())
    }

    fn check_route(&self, graph: &Graph, from: &str, to: &str) -> Result<(), KeyError> {
        let wrong = |problem: String| KeyError::new(format!("nodes.{from}.route"), problem);
        self.router(to).map_err(wrong)?;
        let [Some(way_from), Some(way_to)] = [to, from].map(|name| graph.node(name)) else { return Ok(()) };
        match graph.route(config::Way { from: way_from, to: way_to }) {
            None if from != to => Err(wrong(format!("no way leads from {from} to {to}; join them by [links]"))),
            _ => Ok(()),
        }
    }

    /// That a node has a router, or what is wrong.
    fn router(&self, name: &str) -> Result<(), String> {
        if self.nodes.contains_key(name) {
            return Ok(());
        }
        let known = nearest(name, self.nodes.keys().map(String::as_str));
        Err(format!("'{}' is not one of [nodes]; {known}", printable(name, 40)))
    }

    /// Whether a request at `at` can come to `name` over at most this many routers.
    fn asks_itself(&self, name: &str, at: &str, most: usize) -> bool {
        let route = self.nodes.get(at).map_or(&[][..], |node| &node.route);
        most > 0 && route.iter().any(|next| next == name || self.asks_itself(name, next, most - 1))
    }

    /// Whether some contestant fetches this flow from a router.
    fn is_fetched(&self, flow: &Flow) -> bool {
        let from_router = flow.from.as_ref().is_some_and(|from| self.nodes.contains_key(from));
        let icn = match &flow.contestant {
            Who::Each => self.contestants.iter().any(over_icn),
            Who::Fixed(contestant) => over_icn(contestant),
        };
        from_router && icn
    }

    fn check_fetch(&self, graph: &Graph, flow: &Flow) -> Result<(), (&'static str, String)> {
        if !self.is_fetched(flow) {
            let given = flow.object.as_ref().map(|_| "object").or((!flow.sources.is_empty()).then_some("sources"));
            let problem = "only a flow @icn from one of [nodes] fetches an object; leave it out";
            return given.map_or(Ok(()), |field| Err((field, problem.to_owned())));
        }
        match &flow.workload {
            Workload::Bytes(_) => {}
            Workload::Poisson(_) if flow.object.is_none() => {}
            Workload::Poisson(_) => {
                let problem = "flows of a family have sizes of their own, and no object in common; leave it out";
                return Err(("object", problem.to_owned()));
            }
            _ => {
                let problem = "an object has an end; give workload = { bytes = \"10MB\" }, or a poisson";
                return Err(("workload", problem.to_owned()));
            }
        }
        let mut all: Vec<&str> = flow.from.as_deref().into_iter().collect();
        for source in &flow.sources {
            self.router(source).map_err(|problem| ("sources", problem))?;
            if all.contains(&source.as_str()) {
                return Err(("sources", format!("{source} is asked already; name another")));
            }
            all.push(source);
            let ends = [Some(source), flow.to.as_ref()].map(|name| name.and_then(|name| graph.node(name)));
            if let [Some(from), Some(to)] = ends
                && graph.route(config::Way { from, to }).is_none()
            {
                return Err(("sources", format!("no way leads from {source} to the flow's end; join them by [links]")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Options, Source};

    /// A receiver, a router with a cache, and one that has everything; and a mirror.
    const FILE: &str = r#"
name = "routers"
contestants = ["bbr@icn"]
[links.near]
between = ["edge", "user"]
rate = "100 Mbit/s"
delay = "2ms"
[links.far]
between = ["origin", "edge"]
rate = "20 Mbit/s"
delay = "20ms"
[links.other]
between = ["mirror", "edge"]
rate = "20 Mbit/s"
delay = "20ms"
[links.apart]
between = ["island", "boat"]
delay = "1ms"
[nodes.origin]
[nodes.mirror]
[nodes.edge]
route = ["origin"]
cache = "64MB"
[nodes.island]
[[flows]]
from = "edge"
to = "user"
object = "film"
sources = ["mirror"]
workload = { bytes = "5MB" }
"#;

    fn plans(text: &str) -> Result<Vec<super::super::Plan>, String> {
        let options = Options { runs: Some(1), ..Options::default() };
        Source::from_text("s.toml", text, options).plans().map_err(|error| error.to_string())
    }

    #[test]
    fn routers_stand_at_their_nodes_and_flows_ask_them() {
        let plan = plans(FILE).unwrap().remove(0);
        let world = plan.world::<()>(&plan.scenario.contestants[0], None).unwrap();
        let graph = world.topology.graph();
        let number = |name: &str| graph.node(name).unwrap();
        let edge = world.topology.routers().iter().find(|router| router.node == number("edge")).unwrap();
        assert_eq!((edge.upstream.as_slice(), edge.cache.0), (&[number("origin")][..], 64_000_000));
        assert_eq!(world.topology.routers().len(), 4);
        let content = &world.flows[0].content;
        assert_eq!((content.object.as_deref(), content.sources.as_slice()), (Some("film"), &[number("mirror")][..]));
        let again = plans(&plan.to_toml()).unwrap().remove(0).scenario;
        assert_eq!((again.nodes, again.flows), (plan.scenario.nodes, plan.scenario.flows));
    }

    #[test]
    fn what_cannot_be_is_one_line_with_its_place() {
        let with = |from: &str, to: &str| FILE.replacen(from, to, 1);
        let cases = [
            (
                with("[nodes.edge]", "[nodes.edg]"),
                "s.toml:21: nodes.edg: no link has the node 'edg'; did you mean edge?",
            ),
            (
                with("[\"origin\"]\ncache", "[\"orign\"]\ncache"),
                "s.toml:22: nodes.edge.route: 'orign' is not one of [nodes]; did you mean origin?",
            ),
            (
                with("[\"origin\"]\ncache", "[\"edge\"]\ncache"),
                "s.toml:22: nodes.edge.route: requests would go round in a circle; one of the routers must ask no other",
            ),
            (
                with("[\"origin\"]\ncache", "[\"island\"]\ncache"),
                "s.toml:22: nodes.edge.route: no way leads from edge to island; join them by [links]",
            ),
            (
                with("route = [\"origin\"]\n", ""),
                "s.toml:22: nodes.edge.cache: a router that asks no other has every object; add route, or leave the cache out",
            ),
            (
                with("route = [\"origin\"]", "rout = [\"origin\"]"),
                "s.toml:22: nodes.edge.rout: unknown key 'rout'; did you mean route?",
            ),
            (
                with("workload = { bytes = \"5MB\" }\n", ""),
                "s.toml:25: flows[0].workload: an object has an end; give workload = { bytes = \"10MB\" }, or a poisson",
            ),
            (
                with("sources = [\"mirror\"]", "sources = [\"edge\"]"),
                "s.toml:29: flows[0].sources: edge is asked already; name another",
            ),
            (
                with("sources = [\"mirror\"]", "sources = [\"island\"]"),
                "s.toml:29: flows[0].sources: no way leads from island to the flow's end; join them by [links]",
            ),
            (
                with("bbr@icn", "cubic@tcp"),
                "s.toml:28: flows[0].object: only a flow @icn from one of [nodes] fetches an object; leave it out",
            ),
            (
                format!(
                    "{FILE}[[flows]]\nfrom = \"edge\"\nto = \"user\"\nobject = \"film\"\nworkload = {{ bytes = \"6MB\" }}\n"
                ),
                "s.toml:34: flows[1].object: 'film' has another size in a flow before; give both the same",
            ),
        ];
        let mut wrong = Vec::new();
        for (text, expected) in &cases {
            let found = plans(text).expect_err(expected);
            if found != *expected {
                wrong.push(format!("found    {found}\nexpected {expected}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    }
}
