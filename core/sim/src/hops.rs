//! The hops of a running world, and the routes of its flows over them.

use paceline_cc::{Nanos, Rate, Time};
use paceline_experiment::topology::back;
use paceline_experiment::{Graph, HopOutcome, Topology, Way};
use paceline_path::{DroppedPacket, Packet, Path, PathChange, Snapshot};
use paceline_telemetry::NodeReport;

use crate::body::Body;
use crate::meters::Meters;

/// The paths of a running world, with the times at which they want to be looked at.
pub(crate) struct Hops {
    graph: Graph,
    paths: Vec<Path<Body>>,
    /// What hops write into packets, where flows carry telemetry.
    meters: Option<Box<Meters>>,
    /// The hop that the series shows.
    shown: u32,
    due: Vec<Time>,
    /// The first of `due`, and whose: of equals the first.
    first: (Time, u32),
    /// `first` must be found again.
    moved: bool,
    /// A path may have dropped something.
    dropped: bool,
}

impl Hops {
    /// Every path keeps what it drops; with `metered` it meters what arrives as well. With `meters` they write into packets.
    pub(crate) fn new(topology: Topology<Body>, metered: Option<Nanos>, meters: Option<Meters>) -> Self {
        let keep = |path: Path<Body>| match metered {
            Some(interval) => path.keeping_dropped().metered(interval),
            None => path.keeping_dropped(),
        };
        let shown = topology.shown();
        let (graph, paths) = topology.into_parts();
        let paths: Vec<_> = paths.into_iter().map(keep).collect();
        let due = paths.iter().map(Path::next).collect();
        let meters = meters.map(Box::new);
        Self { graph, paths, meters, shown, due, first: (Time::NEVER, 0), moved: true, dropped: false }
    }

    pub(crate) fn graph(&self) -> &Graph {
        &self.graph
    }

    /// When the first of them is due, and which: of equals the first.
    #[inline]
    pub(crate) fn next(&mut self) -> (Time, u32) {
        if self.moved {
            self.find_first();
        }
        self.first
    }

    fn find_first(&mut self) {
        self.moved = false;
        let first = self.due.iter().enumerate().min_by_key(|(_, due)| **due);
        self.first = first.map_or((Time::NEVER, 0), |(hop, due)| (*due, hop as u32));
    }

    /// Looks again at a hop with which something was done.
    #[inline]
    fn touched(&mut self, hop: u32) {
        let path = &self.paths[hop as usize];
        self.dropped |= path.has_dropped();
        let next = path.next();
        let due = &mut self.due[hop as usize];
        if *due == next {
            return;
        }
        *due = next;
        if (next, hop) < self.first {
            self.first = (next, hop);
        } else if hop == self.first.1 {
            self.moved = true;
        }
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, hop: u32, now: Time, mut packet: Packet<Body>) {
        let path = &mut self.paths[hop as usize];
        if let Some(meters) = &mut self.meters {
            meters.pass(hop, path, now, &mut packet);
        }
        path.push(now, packet);
        self.touched(hop);
    }

    /// Takes out a packet that is due by `now`. To be called until there is none.
    #[inline]
    pub(crate) fn pop(&mut self, hop: u32, now: Time) -> Option<Packet<Body>> {
        let packet = self.paths[hop as usize].pop(now);
        if packet.is_none() {
            self.touched(hop);
        }
        packet
    }

    /// Something of a hop changes; answers what was in force, if the hop has that.
    pub(crate) fn change(&mut self, hop: u32, now: Time, change: PathChange) -> Option<PathChange> {
        let before = self.paths[hop as usize].change(now, change);
        self.touched(hop);
        before
    }

    /// Whether [`Hops::pop_dropped`] may have something.
    pub(crate) fn has_dropped(&self) -> bool {
        self.dropped
    }

    /// Takes out a packet that a hop has dropped.
    pub(crate) fn pop_dropped(&mut self) -> Option<(u32, DroppedPacket<Body>)> {
        let found = (0..).zip(&mut self.paths).find_map(|(hop, path)| Some((hop, path.pop_dropped()?)));
        self.dropped = found.is_some();
        found
    }

    /// A flow has ended: what the hops know of it is of no use any more.
    pub(crate) fn forget(&mut self, flow: u32) {
        self.paths.iter_mut().for_each(|path| path.forget(flow));
    }

    /// Of how many flows the hop that knows most has counted drops.
    #[cfg(test)]
    pub(crate) fn known_flows(&mut self) -> usize {
        let counted = |path: &mut Path<Body>| path.stats(Time::ZERO).map_or(0, |stats| stats.flows.len());
        self.paths.iter_mut().map(counted).max().unwrap_or(0)
    }

    /// What the hop that the series shows could have carried in this time, and the bytes that wait there at its end.
    pub(crate) fn shown(&mut self, from: Time, to: Time) -> (Option<u64>, u64) {
        let hop = self.shown;
        let path = &mut self.paths[hop as usize];
        let shown = (capacity(path, from, to), path.queued(to).bytes);
        self.touched(hop);
        shown
    }

    /// Each hop at `now`; `None` where nothing limits.
    pub(crate) fn snapshots(&mut self, now: Time) -> Vec<Option<Snapshot>> {
        let snapshots = self.paths.iter_mut().map(|path| path.snapshot(now)).collect();
        (0..self.due.len() as u32).for_each(|hop| self.touched(hop));
        snapshots
    }

    /// What the node of this hop reports of its queue; `None` where nothing limits, or no one carries telemetry.
    pub(crate) fn node_report(&mut self, hop: u32, now: Time) -> Option<NodeReport> {
        let report = self.meters.as_ref()?.report(hop, &mut self.paths[hop as usize], now);
        self.touched(hop);
        report
    }

    /// The least time that a packet takes over these hops.
    pub(crate) fn least(&self, route: &[u32]) -> Nanos {
        route.iter().fold(Nanos::ZERO, |sum, hop| sum + self.paths[*hop as usize].least())
    }

    /// What a hop could have carried in this time; `None` where nothing limits it.
    pub(crate) fn capacity(&self, hop: u32, from: Time, to: Time) -> Option<u64> {
        capacity(&self.paths[hop as usize], from, to)
    }

    /// The graph, and what became of each hop.
    pub(crate) fn finish(&mut self, end: Time) -> (Graph, Vec<HopOutcome>) {
        let outcome = |path: &mut Path<Body>| HopOutcome {
            stats: path.stats(end).cloned().unwrap_or_default(),
            capacity_bytes: capacity(path, Time::ZERO, end),
            lost: path.lost(),
            policed: path.policed(),
            air: path.air(),
        };
        (self.graph.clone(), self.paths.iter_mut().map(outcome).collect())
    }
}

fn capacity(path: &Path<Body>, from: Time, to: Time) -> Option<u64> {
    path.schedule().map(|schedule| schedule.capacity(from, to))
}

/// The routes of a world's ways, as next hops.
pub(crate) struct Routes {
    /// By hop: its mean rate, where something limits it.
    hop_rates: Vec<Option<Rate>>,
    /// The distinct ways.
    ways: Vec<Way>,
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
        let hop_rates: Vec<_> = (0..topology.paths().len() as u32).map(|hop| topology.rate(hop)).collect();
        let mut routes = Self { hop_rates, ways: Vec::new(), first: Vec::new(), rates: Vec::new(), next: Vec::new() };
        let number = |way| routes.find(topology.graph(), way).expect("there is a way between the ends of every flow");
        let numbers = ways.map(number).collect();
        (routes, numbers)
    }

    /// The number of a way among the distinct ones, of which it may be a new one; `None` where there is no such way.
    pub(crate) fn find(&mut self, graph: &Graph, way: Way) -> Option<u32> {
        let known = self.ways.iter().position(|other| *other == way);
        let number = match known {
            Some(number) => number,
            None => {
                self.add(&graph.route(way)?);
                self.ways.push(way);
                self.ways.len() - 1
            }
        };
        Some(number as u32)
    }

    fn add(&mut self, there: &[u32]) {
        let rates = there.iter().filter_map(|hop| self.hop_rates[*hop as usize]);
        self.rates.push(rates.min().unwrap_or(Rate::ZERO));
        let back = back(there);
        let start = self.next.len();
        self.next.resize(start + self.hop_rates.len(), ARRIVED);
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

    /// The node where a way begins.
    pub(crate) fn start(&self, way: u32) -> u32 {
        self.ways[way as usize].from
    }

    /// The rate of a way's slowest hop; 0 where nothing limits its data.
    pub(crate) fn rate(&self, way: u32) -> Rate {
        self.rates[way as usize]
    }

    /// The hop that follows this one; `None` at the end of the way.
    pub(crate) fn next(&self, way: u32, hop: u32) -> Option<u32> {
        let next = self.next[way as usize * self.hop_rates.len() + hop as usize];
        (next != ARRIVED).then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_hops_follow_the_route_both_ways() {
        let mut graph = Graph::default();
        for (name, between) in [("1", ["a", "r"]), ("2", ["b", "r"]), ("3", ["r", "c"]), ("4", ["c", "d"])] {
            graph.link(name, between).unwrap();
        }
        let paths = graph.hops().iter().map(|_| Path::<()>::new()).collect();
        let topology = Topology::new(graph, paths);
        let way = Way { from: topology.graph().node("a").unwrap(), to: topology.graph().node("d").unwrap() };
        let other = Way { from: way.from, to: topology.graph().node("b").unwrap() };
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
