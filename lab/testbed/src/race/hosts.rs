//! Where the flows of a race live: at the nodes of its graph. A flow with a delay of its own lives at a host behind the node that
//! its data goes to, joined to it by a link of that delay; flows with the same delay to the same node share the host.

use paceline_cc::Nanos;
use paceline_experiment::{Flow, Graph};
use paceline_path::{Delay, Path};

use paceline_emulator::frame::Frame;

/// Most links of a world, those of hosts included: with Linux's TTL of 64, packets cross this many (our choice: a round number
/// below it).
pub(super) const MOST_LINKS: usize = 60;

/// The graph with the hosts that its flows ask for.
pub(super) struct Hosts {
    /// The graph's nodes and hops keep their numbers, hosts come behind them.
    pub(super) graph: Graph,
    /// With their ways to the hosts.
    pub(super) flows: Vec<Flow>,
    /// The delays of the links that were added.
    delays: Vec<Nanos>,
}

impl Hosts {
    pub(super) fn new(graph: &Graph, flows: &[Flow]) -> Self {
        let mut hosts = Self { graph: graph.clone(), flows: flows.to_vec(), delays: Vec::new() };
        for flow in hosts.flows.iter_mut().filter(|flow| flow.extra_delay > Nanos::ZERO) {
            let node = hosts.graph.nodes()[flow.way.to as usize].clone();
            // No node of a scenario has a name with this sign.
            let host = format!("{node}+{}", flow.extra_delay.as_nanos());
            flow.way.to = hosts.graph.node(&host).unwrap_or_else(|| {
                hosts.graph.link(&host, [&node, &host]).expect("a new node at the end of a new link closes no loop");
                hosts.delays.push(flow.extra_delay);
                hosts.graph.nodes().len() as u32 - 1
            });
        }
        hosts
    }

    /// The paths of the hops that were added, in their order.
    pub(super) fn paths(&self) -> impl Iterator<Item = Path<Frame>> {
        self.delays.iter().flat_map(|delay| [*delay; 2]).map(|delay| Path::new().delay(Delay::new(delay)))
    }
}

#[cfg(test)]
mod tests {
    use paceline_experiment::{Via, Way};

    use super::*;

    #[test]
    fn flows_with_a_delay_of_their_own_live_behind_their_node() {
        let flow = |way: Way, delay: u64| Flow {
            way,
            extra_delay: Nanos::from_millis(delay),
            ..Flow::bulk("reno".parse().unwrap(), Via::tcp(None))
        };
        let flows = [flow(Way::DOWN, 0), flow(Way::DOWN, 5), flow(Way::UP, 5), flow(Way::DOWN, 5), flow(Way::DOWN, 7)];
        let hosts = Hosts::new(&Graph::dumbbell(), &flows);
        assert_eq!(hosts.flows.iter().map(|flow| flow.way.to).collect::<Vec<_>>(), [1, 2, 3, 2, 4]);
        let route = |index: usize| hosts.graph.route(hosts.flows[index].way).unwrap();
        assert_eq!([route(0), route(1), route(2), route(4)], [vec![0], vec![0, 2], vec![1, 4], vec![0, 6]]);
        let least: Vec<Nanos> = hosts.paths().map(|path| path.least()).collect();
        assert_eq!(least, [5, 5, 5, 5, 7, 7].map(Nanos::from_millis));
        assert_eq!(Hosts::new(&Graph::dumbbell(), &flows[..1]).graph, Graph::dumbbell());
    }
}
