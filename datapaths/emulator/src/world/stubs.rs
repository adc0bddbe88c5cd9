//! Hosts of their own for the two ends of a flow: each in a namespace behind the node of that end, joined to it by a veth pair. No
//! emulated link is there, so that nothing of it is in a delay; what is there has an address of its own, and every port.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

use paceline_experiment::{Graph, Way};
use paceline_linux::interface::Interfaces;
use paceline_linux::namespace::{Namespace, NamespaceError};

use super::network::{address, interface};
use super::{Nodes, Site, WorldError, fit};
use crate::port::packet::MAC;

/// The interface of a host.
const HOST: &str = "host";

impl Nodes {
    /// Two hosts that reach each other alone: where data of this way comes from, and where it goes. TCP between them has this
    /// congestion control, where a name is given.
    ///
    /// # Errors
    /// When the kernel refuses, or has no such congestion control.
    pub fn stubs(&mut self, graph: &Graph, way: Way, congestion: Option<&str>) -> Result<[Site; 2], WorldError> {
        let sites = [self.stub(graph, way.from)?, self.stub(graph, way.to)?];
        for (here, there) in [(0, 1), (1, 0)] {
            let [here, there]: [&Site; 2] = [&sites[here], &sites[there]];
            here.namespace.enter(|| reach(&Interfaces::open()?, HOST, there, congestion))??;
        }
        Ok(sites)
    }

    /// A host behind a node, with ways to it from all nodes.
    fn stub(&mut self, graph: &Graph, node: u32) -> Result<Site, NamespaceError> {
        let name = format!("stub{}", self.stubs);
        let ipv4 = address(self.sites().len() as u32 + self.stubs);
        self.stubs += 1;
        let namespace = Namespace::create()?;
        let at = &self.sites()[node as usize].namespace;
        at.enter(|| Interfaces::open()?.veth(&name, None, HOST, &namespace))??;
        let wire = |name: &str| {
            let interfaces = Interfaces::open()?;
            interfaces.quiet(name)?;
            // Each is the other's only neighbour, and no packet asks for it.
            interfaces.to_one_host(name, MAC)?;
            interfaces.up(name)
        };
        namespace.enter(|| wire(HOST))??;
        at.enter(|| wire(&name))??;
        let ipv6 = fit(&namespace, HOST, ipv4, 32)?;
        let site = Site { namespace, interface: HOST.to_owned(), ipv4, ipv6 };
        for (other, through) in (0..).zip(self.sites()) {
            let route = if other == node { None } else { graph.route(Way { from: other, to: node }) };
            let name = match route {
                Some(route) => interface(route[0] as usize / 2),
                None if other == node => name.clone(),
                None => continue,
            };
            through.namespace.enter(|| reach(&Interfaces::open()?, &name, &site, None))??;
        }
        site.namespace.enter(|| Interfaces::wait_until_running(HOST))??;
        at.enter(|| Interfaces::wait_until_running(&name))??;
        Ok(site)
    }
}

/// Routes to both addresses of a host.
fn reach(interfaces: &Interfaces, name: &str, host: &Site, congestion: Option<&str>) -> Result<(), NamespaceError> {
    interfaces.host_route(name, IpAddr::V4(host.ipv4), congestion)?;
    host.ipv6.map_or(Ok(()), |ipv6| interfaces.host_route(name, IpAddr::V6(ipv6), congestion))
}

impl Site {
    /// Sets the kernel up in its namespace: a setting has a name below `net`, such as `net.ipv4.tcp_ecn`.
    ///
    /// # Errors
    /// When there is no such setting that each namespace has for itself, or it does not take the value.
    pub fn set(&self, setting: &str, value: &str) -> Result<(), NamespaceError> {
        let failed =
            |error: io::Error| NamespaceError::system(format!("set {setting} = {value} in a namespace"), error);
        let parts: Vec<&str> = setting.split('.').collect();
        let is_name = |part: &&str| !part.is_empty() && !part.contains('/');
        if parts[0] != "net" || parts.len() < 2 || !parts.iter().all(is_name) {
            return Err(failed(io::ErrorKind::InvalidInput.into()));
        }
        let file: PathBuf = ["/proc/sys"].iter().chain(&parts).collect();
        self.namespace.enter(|| fs::write(file, value).map_err(failed))?
    }
}
