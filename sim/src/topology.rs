//! Nodes and the links between them. A link is two hops, one for each direction, and a hop is a [`Path`].
//!
//! Topologies are forests: between two nodes there is one way or none, so that nothing has to choose a route.

use std::collections::VecDeque;

use paceline_cc::{Nanos, Rate, Time};
use paceline_path::{Dropped, Packet, Path, Snapshot};

use crate::config::{Direction, Way};
use crate::outcome::HopOutcome;

/// Nodes and links by name, without what the links do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    nodes: Vec<String>,
    hops: Vec<Hop>,
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
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
        let hop = |name: &str, Way { from, to }| Hop { name: name.to_owned(), from, to };
        Self {
            nodes: vec!["network".to_owned(), "user".to_owned()],
            hops: vec![hop("down", Way::DOWN), hop("up", Way::UP)],
        }
    }

    /// Which way that is over a dumbbell; `None` over anything else.
    pub fn direction(&self, way: Way) -> Option<Direction> {
        let direction = if way == Way::UP { Direction::Up } else { Direction::Down };
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
        self.hops.push(Hop { name: name.to_owned(), from, to });
        self.hops.push(Hop { name: format!("{name}.back"), from: to, to: from });
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
    pub fn hops(&self) -> &[Hop] {
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

/// A graph with a path for each hop.
pub struct Topology<P> {
    graph: Graph,
    paths: Vec<Path<P>>,
    shown: u32,
}

impl<P: Clone + Send> Topology<P> {
    /// Two ends and a path in each direction.
    pub fn dumbbell(down: Path<P>, up: Path<P>) -> Self {
        Self { graph: Graph::dumbbell(), paths: vec![down, up], shown: 0 }
    }

    /// A graph with the paths of its hops, in the order of [`Graph::hops`].
    ///
    /// # Panics
    /// When there is not one path for each hop, or none.
    pub fn new(graph: Graph, paths: Vec<Path<P>>) -> Self {
        assert!(!paths.is_empty() && graph.hops.len() == paths.len(), "one path for each hop");
        Self { graph, paths, shown: 0 }
    }

    /// The series shows the slowest hop of this way; of a dumbbell it is the path down.
    #[must_use]
    pub fn showing(mut self, way: Way) -> Self {
        self.shown = self.graph.route(way).and_then(|route| self.slowest(&route)).unwrap_or(self.shown);
        self
    }

    /// The nodes and links.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The paths of a dumbbell, down and up; `None` where there is more than one link.
    pub fn into_dumbbell(self) -> Option<(Path<P>, Path<P>)> {
        let [down, up] = <[Path<P>; 2]>::try_from(self.paths).ok()?;
        (self.graph == Graph::dumbbell()).then_some((down, up))
    }

    /// The hop with the lowest mean rate on this route, the first of equals; `None` where nothing limits.
    pub fn slowest(&self, route: &[u32]) -> Option<u32> {
        let rate = |hop: &u32| Some((self.rate(*hop)?, *hop));
        route.iter().filter_map(rate).min_by_key(|(rate, _)| *rate).map(|(_, hop)| hop)
    }

    fn rate(&self, hop: u32) -> Option<Rate> {
        self.paths[hop as usize].first_link().map(|link| link.schedule().mean_rate())
    }
}

/// The paths of a running world, with the times at which they want to be looked at.
pub(crate) struct Hops<P> {
    topology: Topology<P>,
    due: Vec<Time>,
}

impl<P: Clone + Send> Hops<P> {
    /// Every path keeps what it drops; with `metered` it meters what arrives as well.
    pub(crate) fn new(mut topology: Topology<P>, metered: Option<Nanos>) -> Self {
        let keep = |path: Path<P>| match metered {
            Some(interval) => path.keeping_dropped().metered(interval),
            None => path.keeping_dropped(),
        };
        topology.paths = topology.paths.into_iter().map(keep).collect();
        Self { due: topology.paths.iter().map(Path::next).collect(), topology }
    }

    pub(crate) fn topology(&self) -> &Topology<P> {
        &self.topology
    }

    /// When the first of them is due, and which: of equals the first.
    pub(crate) fn next(&self) -> (Time, u32) {
        let mut first = (Time::NEVER, 0);
        for (hop, due) in (0..).zip(&self.due) {
            if *due < first.0 {
                first = (*due, hop);
            }
        }
        first
    }

    pub(crate) fn push(&mut self, hop: u32, now: Time, packet: Packet<P>) {
        let path = &mut self.topology.paths[hop as usize];
        path.push(now, packet);
        self.due[hop as usize] = path.next();
    }

    pub(crate) fn pop(&mut self, hop: u32, now: Time) -> Option<Packet<P>> {
        let path = &mut self.topology.paths[hop as usize];
        let packet = path.pop(now);
        if packet.is_none() {
            self.due[hop as usize] = path.next();
        }
        packet
    }

    /// Whether [`Hops::pop_dropped`] has something.
    pub(crate) fn has_dropped(&self) -> bool {
        self.topology.paths.iter().any(Path::has_dropped)
    }

    /// Takes out a packet that a hop has dropped.
    pub(crate) fn pop_dropped(&mut self) -> Option<(u32, Dropped<P>)> {
        (0..).zip(&mut self.topology.paths).find_map(|(hop, path)| Some((hop, path.pop_dropped()?)))
    }

    /// What the hop that the series shows could have carried in this time, and the bytes that wait there at its end.
    pub(crate) fn shown(&mut self, from: Time, to: Time) -> (Option<u64>, u64) {
        let hop = self.topology.shown as usize;
        let path = &mut self.topology.paths[hop];
        let queued = path.queued(to).bytes;
        self.due[hop] = path.next();
        (capacity(path, from, to), queued)
    }

    /// Each hop at `now`; `None` where nothing limits.
    pub(crate) fn snapshots(&mut self, now: Time) -> Vec<Option<Snapshot>> {
        let each = |(path, due): (&mut Path<P>, &mut Time)| {
            let snapshot = path.snapshot(now);
            *due = path.next();
            snapshot
        };
        self.topology.paths.iter_mut().zip(&mut self.due).map(each).collect()
    }

    /// The graph, and what became of each hop.
    pub(crate) fn finish(&mut self, end: Time) -> (Graph, Vec<HopOutcome>) {
        let outcome = |path: &mut Path<P>| HopOutcome {
            stats: path.stats(end).cloned().unwrap_or_default(),
            capacity_bytes: capacity(path, Time::ZERO, end),
            lost: path.lost(),
        };
        (self.topology.graph.clone(), self.topology.paths.iter_mut().map(outcome).collect())
    }
}

fn capacity<P: Clone + Send>(path: &Path<P>, from: Time, to: Time) -> Option<u64> {
    path.first_link().map(|link| link.schedule().capacity(from, to))
}

/// The routes of a world's ways, as next hops.
pub(crate) struct Routes {
    hops: usize,
    /// By way: the first hop of data, and of acknowledgements.
    first: Vec<[u32; 2]>,
    /// By way: the rate of its slowest hop; 0 where nothing limits.
    rates: Vec<Rate>,
    /// By way and hop: the hop that follows. A way's data and its acknowledgements share no hop.
    next: Vec<u32>,
}

/// No hop follows.
const ARRIVED: u32 = u32::MAX;

impl Routes {
    /// The routes of these ways, and the number of each way among the distinct ones.
    ///
    /// # Panics
    /// When there is no such way.
    pub(crate) fn new<P: Clone + Send>(topology: &Topology<P>, ways: impl Iterator<Item = Way>) -> (Self, Vec<u32>) {
        let hops = topology.paths.len();
        let mut routes = Self { hops, first: Vec::new(), rates: Vec::new(), next: Vec::new() };
        let mut distinct: Vec<Way> = Vec::new();
        let number = |way: Way| {
            let known = distinct.iter().position(|other| *other == way);
            known.unwrap_or_else(|| {
                let there = topology.graph.route(way).expect("there is a way between the ends of every flow");
                routes.add(&there);
                let slowest = topology.slowest(&there).and_then(|hop| topology.rate(hop));
                routes.rates.push(slowest.unwrap_or(Rate::ZERO));
                distinct.push(way);
                distinct.len() - 1
            }) as u32
        };
        let numbers = ways.map(number).collect();
        (routes, numbers)
    }

    fn add(&mut self, there: &[u32]) {
        let back = back(there);
        let start = self.next.len();
        self.next.resize(start + self.hops, ARRIVED);
        for route in [there, &back] {
            for pair in route.windows(2) {
                self.next[start + pair[0] as usize] = pair[1];
            }
        }
        self.first.push([there[0], back[0]]);
    }

    /// The first hop of a way's data, and of its acknowledgements.
    pub(crate) fn first(&self, way: u32) -> [u32; 2] {
        self.first[way as usize]
    }

    /// The rate of a way's slowest hop; 0 where nothing limits its data.
    pub(crate) fn rate(&self, way: u32) -> Rate {
        self.rates[way as usize]
    }

    /// The hop that follows this one; `None` at the end of the way.
    pub(crate) fn next(&self, way: u32, hop: u32) -> Option<u32> {
        let next = self.next[way as usize * self.hops + hop as usize];
        (next != ARRIVED).then_some(next)
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

    #[test]
    fn next_hops_follow_the_route_both_ways() {
        let graph = forest();
        let paths = graph.hops().iter().map(|_| Path::<()>::new()).collect();
        let topology = Topology::new(graph, paths);
        let way = Way { from: topology.graph.node("a").unwrap(), to: topology.graph.node("d").unwrap() };
        let other = Way { from: way.from, to: topology.graph.node("b").unwrap() };
        let (routes, numbers) = Routes::new(&topology, [way, other, way].into_iter());
        assert_eq!(numbers, [0, 1, 0]);
        let walk = |way: u32, first: u32| -> Vec<u32> {
            std::iter::successors(Some(first), |hop| routes.next(way, *hop)).collect()
        };
        assert_eq!(routes.first(0).map(|hop| walk(0, hop)), [vec![0, 4, 6], vec![7, 5, 1]]);
        assert_eq!(routes.first(1).map(|hop| walk(1, hop)), [vec![0, 3], vec![2, 1]]);
        assert_eq!(routes.rate(0), Rate::ZERO);
    }
}
