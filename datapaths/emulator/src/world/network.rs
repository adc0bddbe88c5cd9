//! Nodes joined by emulated links: a namespace for each node, whose kernel forwards what is for others.
//!
//! A node has one address, on all of its interfaces, and a route to each other node: links have two ends and need no addresses
//! of their own. Source: unnumbered point-to-point links (RFC 1812, section 2.2.7).

use std::net::{IpAddr, Ipv4Addr};
use std::sync::mpsc::Sender;

use paceline_cc::Nanos;
use paceline_experiment::{Graph, GraphHop, Lie, MeteredHop, Way};
use paceline_path::Path;
use paceline_telemetry::NodeReport;

use super::attached::{Attached, Hub};
use super::{Block, Site, Wire, WorldError, fit};
use crate::emulator::{
    DuplexLink, Emulator, EmulatorError, EmulatorReport, EmulatorTap, HopWriter, PathChanger, Setup,
};
use crate::frame::Frame;
use paceline_linux::clock::Clock;
use paceline_linux::interface::Interfaces;
use paceline_linux::namespace::{Namespace, NamespaceError};

/// The nodes of a graph with nothing on their links yet. Making them takes the kernel some seconds on a busy machine; joining them
/// takes none, so that a clock may start in between.
pub struct Nodes {
    sites: Vec<Site>,
    /// By link: where its first hop begins, and where it ends.
    ports: Vec<[Attached; 2]>,
    /// By link, where its hops take part in telemetry.
    transit: Vec<[Option<HopWriter>; 2]>,
    /// How many hosts of their own are behind them.
    pub(super) stubs: u32,
    changer: Option<Box<dyn PathChanger>>,
}

impl Nodes {
    /// Makes them. [`paceline_linux::namespace::acquire`] comes first.
    ///
    /// # Errors
    /// When the kernel refuses; nothing is left behind.
    pub fn make(wire: Wire, graph: &Graph) -> Result<Self, WorldError> {
        let mut sites = Vec::new();
        for number in 0..graph.nodes().len() as u32 {
            let namespace = Namespace::create()?;
            sites.push(Site { namespace, interface: String::new(), ipv4: address(number), ipv6: None });
        }
        let (mut ports, mut hub) = (Vec::new(), Hub::new());
        for (link, hop) in links(graph) {
            let name = interface(link);
            let mut attach = |node: u32| {
                let site = &mut sites[node as usize];
                let port = Attached::new(wire, &site.namespace, &name, &mut hub)?;
                let ipv6 = fit(&site.namespace, &name, site.ipv4, 32)?;
                if site.interface.is_empty() {
                    (site.interface, site.ipv6) = (name.clone(), ipv6);
                }
                Ok::<_, WorldError>(port)
            };
            ports.push([attach(hop.from)?, attach(hop.to)?]);
        }
        (0..graph.nodes().len() as u32).try_for_each(|node| route(graph, &sites, node))?;
        let transit = ports.iter().map(|_| [None, None]).collect();
        Ok(Self { sites, ports, transit, stubs: 0, changer: None })
    }

    /// The nodes, in the order of the graph's.
    pub fn sites(&self) -> &[Site] {
        &self.sites
    }

    /// The hops of this graph take part in in-band telemetry, each as an interface of the node from which it leads, with its own
    /// number. Ten times a second they say to `reports` how their queues are; those of `liars`, by number, what is not so.
    #[must_use]
    pub fn with_telemetry(mut self, graph: &Graph, reports: &Sender<NodeReport>, liars: &[(u32, Lie)]) -> Self {
        for ((link, down), transit) in links(graph).zip(&mut self.transit) {
            let number = 2 * link as u16;
            let hop = |node: u32, egress: u16| {
                let lie = liars.iter().find(|(hop, _)| *hop == u32::from(egress)).map(|(_, lie)| *lie);
                let hop = MeteredHop::new(node, egress);
                Some(HopWriter::new(lie.map_or(hop.clone(), |lie| hop.lying(lie)), Some(reports.clone())))
            };
            *transit = [hop(down.from, number), hop(down.to, number + 1)];
        }
        self
    }

    /// The paths of the graph's hops, by their numbers, are changed while they are carried.
    #[must_use]
    pub fn changed_by(self, changer: Option<Box<dyn PathChanger>>) -> Self {
        Self { changer, ..self }
    }

    /// Starts the emulator on their links: `paths` are those of the graph's hops. Packets later than `bound` count as late.
    ///
    /// # Errors
    /// When the kernel refuses; nothing is left behind.
    ///
    /// # Panics
    /// When there is not one path for each hop.
    pub fn join(
        self,
        paths: Vec<Path<Frame>>,
        taps: Vec<Box<dyn EmulatorTap>>,
        clock: Clock,
        bound: Nanos,
    ) -> Result<Network, WorldError> {
        assert_eq!(paths.len(), self.ports.len() * 2, "one path for each hop");
        let mut paths = paths.into_iter();
        let mut links = Vec::new();
        for ([mut far, mut near], transit) in self.ports.into_iter().zip(self.transit) {
            far.discard(clock)?;
            near.discard(clock)?;
            let (Some(down), Some(up)) = (paths.next(), paths.next()) else { break };
            links.push(DuplexLink { near: near.0, far: far.0, down, up, transit });
        }
        let emulator = Emulator::start(Setup { links, taps, clock, bound, changer: self.changer })?;
        Ok(Network { sites: self.sites, emulator })
    }
}

/// Nodes and the running emulator on their links. Dropping it ends both.
pub struct Network {
    sites: Vec<Site>,
    emulator: Emulator,
}

impl Network {
    /// The nodes, in the order of the graph's.
    pub fn sites(&self) -> &[Site] {
        &self.sites
    }

    /// Whether the emulator still carries packets; if not, [`Network::stop`] says why.
    pub fn is_running(&self) -> bool {
        self.emulator.is_running()
    }

    /// Stops the emulator; the nodes are gone with their last program. Of link `n`, the report's direction down is the graph's hop
    /// `2 n`, up is `2 n + 1`.
    ///
    /// # Errors
    /// When the emulator ended before, and why.
    pub fn stop(self) -> Result<EmulatorReport, EmulatorError> {
        self.emulator.stop()
    }
}

/// Gives a node its routes, once its interfaces carry packets.
fn route(graph: &Graph, sites: &[Site], node: u32) -> Result<(), NamespaceError> {
    let site = &sites[node as usize];
    site.namespace.enter(|| {
        for (link, hop) in links(graph) {
            if [hop.from, hop.to].contains(&node) {
                Interfaces::wait_until_running(&interface(link))?;
            }
        }
        let interfaces = Interfaces::open()?;
        for (to, other) in (0..).zip(sites) {
            let Some(route) = graph.route(Way { from: node, to }) else { continue };
            let name = interface(route[0] as usize / 2);
            interfaces.host_route(&name, IpAddr::V4(other.ipv4), None)?;
            if let (Some(_), Some(ipv6)) = (site.ipv6, other.ipv6) {
                interfaces.host_route(&name, IpAddr::V6(ipv6), None)?;
            }
        }
        Ok(())
    })?
}

/// The links of a graph by number, each as its first hop.
fn links(graph: &Graph) -> impl Iterator<Item = (usize, &GraphHop)> {
    graph.hops().iter().step_by(2).enumerate()
}

/// The name of a link's interface at either end. Of the graph's hop `n` the link is `n / 2`.
pub fn interface(link: usize) -> String {
    format!("link{link}")
}

/// Of a node by its number, and of hosts after the nodes.
pub(super) fn address(node: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(Block::ISOLATED.base + 1 + node)
}
