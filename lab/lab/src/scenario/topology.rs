//! The nodes and links of a scenario, and the ways of its flows over them.

use paceline_cc::Nanos;
use paceline_cc::foreign::printable;
use paceline_cc::names::nearest;
use paceline_experiment::{Graph, config, topology};
use paceline_path::{Direction, check_link};

use super::{Cross, Flow, KeyError, Link, Scenario, Workload};

/// Where one kind of traffic goes, as written.
struct Ends<'a> {
    /// Its place, such as `flows[0]`.
    key: String,
    direction: config::DumbbellWay,
    from: Option<&'a str>,
    to: Option<&'a str>,
}

impl Scenario {
    /// What the file says of each direction, with its key: down and up, or there and back of each link.
    pub(super) fn directions<'a>(&'a self) -> Vec<(String, &'a Direction)> {
        if self.links.is_empty() {
            return vec![("down".to_owned(), &self.down), ("up".to_owned(), &self.up)];
        }
        let of = |(name, link): (&String, &'a Link)| {
            let there = format!("links.{name}");
            let back = if link.back.is_some() { format!("{there}.back") } else { there.clone() };
            [(there, &link.there), (back, link.back())]
        };
        self.links.iter().flat_map(of).collect()
    }

    /// The directions that the file gives, to change them.
    pub(super) fn directions_mut(&mut self) -> Vec<(String, &mut Direction)> {
        if self.links.is_empty() {
            return vec![("down".to_owned(), &mut self.down), ("up".to_owned(), &mut self.up)];
        }
        let mut directions = Vec::new();
        for (name, link) in &mut self.links {
            directions.push((format!("links.{name}"), &mut link.there));
            directions.extend(link.back.as_mut().map(|back| (format!("links.{name}.back"), back)));
        }
        directions
    }

    /// Nodes and links.
    ///
    /// # Errors
    /// The first link that cannot be.
    pub(super) fn graph(&self) -> Result<Graph, KeyError> {
        if self.links.is_empty() {
            return Ok(Graph::dumbbell());
        }
        let mut graph = Graph::default();
        for (name, Link { between: [from, to], .. }) in &self.links {
            let key = format!("links.{name}");
            let plain = |text: &str| {
                !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
            };
            if let Some(text) = [name, from, to].into_iter().find(|text| !plain(text)) {
                let problem = format!(
                    "'{}' is not a name; names of nodes and links have letters, digits, - and _",
                    printable(text, 40)
                );
                return Err(KeyError::new(key, problem));
            }
            let wrong = |error: topology::GraphError| KeyError::new(format!("{key}.between"), error.to_string());
            graph.link(name, [from, to]).map_err(wrong)?;
        }
        Ok(graph)
    }

    /// The way of each kind of flow.
    pub(super) fn flow_ways(&self, graph: &Graph) -> Result<Vec<config::Way>, KeyError> {
        self.flows().iter().enumerate().map(|(index, flow)| self.way(graph, &flow.ends(index))).collect()
    }

    /// The way of each source of cross traffic.
    pub(super) fn cross_ways(&self, graph: &Graph) -> Result<Vec<config::Way>, KeyError> {
        self.cross.iter().enumerate().map(|(index, cross)| self.way(graph, &cross.ends(index))).collect()
    }

    fn way(&self, graph: &Graph, ends: &Ends<'_>) -> Result<config::Way, KeyError> {
        let Ends { key, direction, from, to } = ends;
        let wrong = |field: &str, problem: String| KeyError::new(format!("{key}.{field}"), problem);
        if self.links.is_empty() {
            let given = from.map(|_| "from").or(to.map(|_| "to"));
            return match given {
                Some(field) => {
                    let problem = "there are no [links], so that no node has a name; write direction";
                    Err(wrong(field, problem.to_owned()))
                }
                None => Ok((*direction).into()),
            };
        }
        let node = |field: &str, name: &Option<&str>| {
            let Some(name) = name else {
                let problem = "this key is missing; name the node, since the scenario has [links]".to_owned();
                return Err(wrong(field, problem));
            };
            graph.node(name).ok_or_else(|| {
                let known = nearest(name, graph.nodes().iter().map(String::as_str));
                wrong(field, format!("no link has the node '{}'; {known}", printable(name, 40)))
            })
        };
        let way = config::Way { from: node("from", from)?, to: node("to", to)? };
        if way.from == way.to {
            return Err(wrong("to", "it is the node that the data comes from; name another".to_owned()));
        }
        if graph.route(way).is_none() {
            let (from, to) = (from.unwrap_or_default(), to.unwrap_or_default());
            return Err(wrong("to", format!("no way leads from {from} to {to}; join them by [links]")));
        }
        Ok(way)
    }

    /// Whether the links make a topology in which every flow has its way, and none that sends without end is unlimited.
    pub(super) fn check_topology(&self) -> Result<(), KeyError> {
        for (key, direction) in self.directions() {
            direction.check().map_err(|error| KeyError::of_path(&key, &error))?;
        }
        let graph = self.graph()?;
        let ways = self.flow_ways(&graph)?;
        self.cross_ways(&graph)?;
        self.check_nodes(&graph)?;
        let directions = self.directions();
        for link in directions.chunks_exact(2) {
            let [(_, there), (key, back)] = link else { continue };
            check_link([there, back]).map_err(|error| KeyError::of_path(key, &error))?;
        }
        for (index, (flow, way)) in self.flows().iter().zip(ways).enumerate() {
            let endless = matches!(flow.workload, Workload::Bulk | Workload::OnOff(_));
            let route = graph.route(way).unwrap_or_default();
            if endless && !route.iter().any(|hop| directions[*hop as usize].1.has_link()) {
                let key = match self.links.is_empty() {
                    true => graph.hops()[route[0] as usize].name.clone(),
                    false => format!("flows[{index}]"),
                };
                let problem = "there is no link, and a flow that sends without end runs over it: nothing would ever hold it \
                               back; give rate, schedule or trace, or a flow with an end, such as workload = { bytes = \"10MB\" }";
                return Err(KeyError::new(key, problem));
            }
        }
        Ok(())
    }

    /// The round trip without queues of each hop, for queues sized in bandwidth-delay products: the longest of the flows that
    /// pass it, or of its link alone where none does.
    pub(super) fn base_rtts(&self, graph: &Graph, ways: &[config::Way]) -> Vec<Nanos> {
        let delays: Vec<Nanos> = self.directions().iter().map(|(_, direction)| direction.base_delay()).collect();
        let delay = |hop: u32| delays[hop as usize];
        let mut longest: Vec<Option<Nanos>> = vec![None; delays.len()];
        for route in ways.iter().filter_map(|way| graph.route(*way)) {
            let both: Vec<u32> = route.iter().copied().chain(topology::back(&route)).collect();
            let rtt = both.iter().fold(Nanos::ZERO, |sum, hop| sum + delay(*hop));
            for hop in both {
                longest[hop as usize] = longest[hop as usize].max(Some(rtt));
            }
        }
        let alone = |hop: u32| delay(hop) + delay(hop ^ 1);
        (0..).zip(longest).map(|(hop, rtt)| rtt.unwrap_or_else(|| alone(hop))).collect()
    }
}

impl Flow {
    fn ends(&self, index: usize) -> Ends<'_> {
        let (from, to) = (self.from.as_deref(), self.to.as_deref());
        Ends { key: format!("flows[{index}]"), direction: self.direction, from, to }
    }
}

impl Cross {
    fn ends(&self, index: usize) -> Ends<'_> {
        let (from, to) = (self.from.as_deref(), self.to.as_deref());
        Ends { key: format!("cross[{index}]"), direction: self.direction, from, to }
    }
}

#[cfg(test)]
mod tests;
