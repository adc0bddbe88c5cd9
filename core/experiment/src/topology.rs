//! Nodes and the links between them. A link is two hops, one for each direction, and a hop is a [`Path`].
//!
//! Topologies are forests: between two nodes there is one way or none, so that nothing has to choose a route.

use std::collections::VecDeque;

use paceline_cc::{Bytes, Rate};
use paceline_path::{Path, Schedule};

use crate::config::{DumbbellWay, Way};

/// Nodes and links by name, without what the links do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    nodes: Vec<String>,
    hops: Vec<GraphHop>,
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphHop {
    /// The link's name; `NAME.back` in the other direction. A dumbbell has `down` and `up`.
    pub name: String,
    /// Where packets come from.
    pub from: u32,
    /// Where they go.
    pub to: u32,
}

/// Why a link cannot be in a topology.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// Both ends are the same node.
    #[error("it joins {node} with itself; name two nodes")]
    Itself {
        /// The node.
        node: String,
    },
    /// There is a link of this name.
    #[error("two links have the name {name}; give one of them another")]
    Twice {
        /// The name.
        name: String,
    },
    /// There is a way between its ends already.
    #[error("it closes a loop ({around}); ways must be unique, take one of these links out")]
    Loop {
        /// The links around.
        around: String,
    },
}

impl Graph {
    /// A dumbbell: the network, the user, `down` from the one to the other and `up` back.
    pub fn dumbbell() -> Self {
        let hop = |name: &str, Way { from, to }| GraphHop { name: name.to_owned(), from, to };
        Self {
            nodes: vec!["network".to_owned(), "user".to_owned()],
            hops: vec![hop("down", Way::DOWN), hop("up", Way::UP)],
        }
    }

    /// Which way that is over a dumbbell; `None` over anything else.
    pub fn direction(&self, way: Way) -> Option<DumbbellWay> {
        let direction = if way == Way::UP { DumbbellWay::Up } else { DumbbellWay::Down };
        (*self == Self::dumbbell()).then_some(direction)
    }

    /// Adds a link, and the nodes that it is the first to name.
    ///
    /// # Errors
    /// When it closes a loop, or another has its name.
    pub fn link(&mut self, name: &str, between: [&str; 2]) -> Result<(), GraphError> {
        if between[0] == between[1] {
            return Err(GraphError::Itself { node: between[0].to_owned() });
        }
        if self.hops.iter().any(|hop| hop.name == name) {
            return Err(GraphError::Twice { name: name.to_owned() });
        }
        let [from, to] = between.map(|node| self.add_node(node));
        if let Some(way) = self.route(Way { from, to }) {
            let mut around: Vec<&str> = way.iter().map(|hop| self.link_of(*hop)).collect();
            around.push(name);
            return Err(GraphError::Loop { around: around.join(", ") });
        }
        self.hops.push(GraphHop { name: name.to_owned(), from, to });
        self.hops.push(GraphHop { name: format!("{name}.back"), from: to, to: from });
        Ok(())
    }

    fn add_node(&mut self, name: &str) -> u32 {
        self.node(name).unwrap_or_else(|| {
            self.nodes.push(name.to_owned());
            self.nodes.len() as u32 - 1
        })
    }

    /// The name of the link with this hop.
    fn link_of(&self, hop: u32) -> &str {
        &self.hops[hop as usize & !1].name
    }

    /// The node of this name.
    pub fn node(&self, name: &str) -> Option<u32> {
        self.nodes.iter().position(|node| node == name).map(|index| index as u32)
    }

    /// The names of the nodes, by number.
    pub fn nodes(&self) -> &[String] {
        &self.nodes
    }

    /// The hops: those of link `n` are `2 n` and, back, `2 n + 1`.
    pub fn hops(&self) -> &[GraphHop] {
        &self.hops
    }

    /// The hops of a way, in order; `None` where there is no way, or nothing to go.
    pub fn route(&self, way: Way) -> Option<Vec<u32>> {
        // Each node's hop towards the start: found from there outwards.
        let mut reached: Vec<Option<u32>> = vec![None; self.nodes.len()];
        let mut nodes = VecDeque::from([way.from]);
        while let Some(node) = nodes.pop_front() {
            for (index, hop) in (0..).zip(&self.hops) {
                if hop.from == node && hop.to != way.from && reached[hop.to as usize].is_none() {
                    reached[hop.to as usize] = Some(index);
                    nodes.push_back(hop.to);
                }
            }
        }
        let mut route = Vec::new();
        let mut at = way.to;
        while at != way.from {
            let hop = (*reached.get(at as usize)?)?;
            route.push(hop);
            at = self.hops[hop as usize].from;
        }
        route.reverse();
        (!route.is_empty()).then_some(route)
    }
}

/// The way in the other direction, of which each hop is the other one of its link.
pub fn back(route: &[u32]) -> Vec<u32> {
    route.iter().rev().map(|hop| hop ^ 1).collect()
}

/// A content router at a node: one without an upstream has every object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentRouter {
    /// The node.
    pub node: u32,
    /// The nodes of the routers that it asks for what it does not have.
    pub upstream: Vec<u32>,
    /// What its cache may have of that.
    pub cache: Bytes,
}

/// A graph with a path for each hop.
pub struct Topology<P> {
    graph: Graph,
    paths: Vec<Path<P>>,
    shown: u32,
    routers: Vec<ContentRouter>,
}

impl<P: Clone + Send> Topology<P> {
    /// Two ends and a path in each direction.
    pub fn dumbbell(down: Path<P>, up: Path<P>) -> Self {
        Self { graph: Graph::dumbbell(), paths: vec![down, up], shown: 0, routers: Vec::new() }
    }

    /// A graph with the paths of its hops, in the order of [`Graph::hops`].
    ///
    /// # Panics
    /// When there is not one path for each hop, or none.
    pub fn new(graph: Graph, paths: Vec<Path<P>>) -> Self {
        assert!(!paths.is_empty() && graph.hops.len() == paths.len(), "one path for each hop");
        Self { graph, paths, shown: 0, routers: Vec::new() }
    }

    /// The series shows the slowest hop of this way; of a dumbbell it is the path down.
    #[must_use]
    pub fn showing(mut self, way: Way) -> Self {
        self.shown = self.graph.route(way).and_then(|route| self.slowest(&route)).unwrap_or(self.shown);
        self
    }

    /// With these content routers, each before those that ask it.
    #[must_use]
    pub fn routing(self, routers: Vec<ContentRouter>) -> Self {
        Self { routers, ..self }
    }

    /// The content routers.
    pub fn routers(&self) -> &[ContentRouter] {
        &self.routers
    }

    /// The nodes and links.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The path of each hop, in the order of [`Graph::hops`].
    pub fn paths(&self) -> &[Path<P>] {
        &self.paths
    }

    /// The hop that the series shows.
    pub fn shown(&self) -> u32 {
        self.shown
    }

    /// The nodes and links, and the paths of the hops.
    pub fn into_parts(self) -> (Graph, Vec<Path<P>>) {
        (self.graph, self.paths)
    }

    /// The hop with the lowest mean rate on this route, the first of equals; `None` where nothing limits.
    pub fn slowest(&self, route: &[u32]) -> Option<u32> {
        let rate = |hop: &u32| Some((self.rate(*hop)?, *hop));
        route.iter().filter_map(rate).min_by_key(|(rate, _)| *rate).map(|(_, hop)| hop)
    }

    /// The mean rate of a hop; `None` where nothing limits it.
    pub fn rate(&self, hop: u32) -> Option<Rate> {
        self.paths[hop as usize].schedule().map(Schedule::mean_rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A star with a tail: a - r - b, r - c - d; and e - f apart.
    fn forest() -> Graph {
        let mut graph = Graph::default();
        for (name, between) in
            [("1", ["a", "r"]), ("2", ["b", "r"]), ("3", ["r", "c"]), ("4", ["c", "d"]), ("5", ["e", "f"])]
        {
            graph.link(name, between).unwrap();
        }
        graph
    }

    fn names(graph: &Graph, from: &str, to: &str) -> Option<Vec<String>> {
        let way = Way { from: graph.node(from).unwrap(), to: graph.node(to).unwrap() };
        let route = graph.route(way)?;
        assert_eq!(graph.route(Way { from: way.to, to: way.from }), Some(back(&route)));
        Some(route.iter().map(|hop| graph.hops()[*hop as usize].name.clone()).collect())
    }

    #[test]
    fn the_way_is_the_only_one_or_there_is_none() {
        let graph = forest();
        assert_eq!(names(&graph, "a", "d").unwrap(), ["1", "3", "4"]);
        assert_eq!(names(&graph, "d", "b").unwrap(), ["4.back", "3.back", "2.back"]);
        assert_eq!(names(&graph, "a", "b").unwrap(), ["1", "2.back"]);
        assert_eq!(names(&graph, "a", "f"), None);
        assert_eq!(names(&graph, "a", "a"), None);
        assert_eq!(graph.node("z"), None);
        assert_eq!((names(&Graph::dumbbell(), "user", "network").unwrap()), ["up"]);
    }

    #[test]
    fn a_link_that_closes_a_loop_or_has_another_s_name_is_refused() {
        let mut graph = forest();
        let before = graph.clone();
        let refused = |graph: &mut Graph, name, between| graph.link(name, between).unwrap_err().to_string();
        assert_eq!(refused(&mut graph, "6", ["a", "a"]), "it joins a with itself; name two nodes");
        assert_eq!(refused(&mut graph, "4", ["d", "e"]), "two links have the name 4; give one of them another");
        let expected = "it closes a loop (4, 3, 1, 6); ways must be unique, take one of these links out";
        assert_eq!(refused(&mut graph, "6", ["d", "a"]), expected);
        assert_eq!(graph, before);
        // A second link between the same nodes is a loop of two.
        assert!(refused(&mut graph, "6", ["f", "e"]).contains("(5, 6)"));
        graph.link("6", ["d", "e"]).unwrap();
        assert_eq!(names(&graph, "a", "f").unwrap(), ["1", "3", "4", "6", "5"]);
    }
}
