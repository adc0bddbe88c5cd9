//! Content routers in a race, the product's in the namespaces of their nodes, and the flows that fetch from them: the simulator's
//! receiver over a socket.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use paceline_cc::observe::Observed;
use paceline_cc::{Codepoint, Env, Nanos, Time};
use paceline_emulator::world::Site;
use paceline_experiment::icn::{FetchNode, ROUTER_CONTROLLER, ROUTER_PORT, SyntheticObject};
use paceline_experiment::{ContentRouter, Flow, Layer, Node, RouterOutcome, Seed, UdpPacket};
use paceline_linux::memory::MemoryFolder;
use paceline_named::Store;
use paceline_named::router::{Server, ServerConfig, UpstreamConfig};
use paceline_transport::Steering;
use paceline_udp::socket::Datagram;

use super::TestbedError;
use super::datagrams::{Datagrams, Ended, Span};
use super::requests::{self, Asker};
use crate::workload::beginnings;

/// What the flows of a configured one fetch, and where.
pub(super) struct Fetches {
    /// In the order in which they begin.
    pub(super) objects: Vec<Arc<SyntheticObject>>,
    /// The routers that are asked, the flow's own first.
    pub(super) routers: Vec<SocketAddr>,
}

/// The routers of a race.
#[derive(Default)]
pub(super) struct Routers {
    /// What each configured flow fetches, where it does.
    pub(super) fetches: Vec<Option<Arc<Fetches>>>,
    /// By node.
    servers: BTreeMap<u32, Server>,
    /// Their stores and caches.
    _folder: Option<MemoryFolder>,
}

impl Routers {
    /// Publishes what flows fetch, and starts the routers at their sites.
    ///
    /// # Errors
    /// [`TestbedError::World`], [`TestbedError::Objects`] and [`TestbedError::Router`].
    pub(super) fn start(
        routers: &[ContentRouter],
        sites: &[Site],
        flows: &[Flow],
        seed: Seed,
        until: Time,
    ) -> Result<Self, TestbedError> {
        if routers.is_empty() {
            return Ok(Self { fetches: vec![None; flows.len()], ..Self::default() });
        }
        let folder = MemoryFolder::new()?;
        let origin = folder.path().join("origin");
        let store = Store::create(&origin).map_err(io::Error::other).map_err(TestbedError::Objects)?;
        let mut named = BTreeMap::new();
        let publish = |(index, flow): (usize, &Flow)| {
            if !flow.is_fetch(|node| routers.iter().any(|router| router.node == node)) {
                return Ok(None);
            }
            let sizes = beginnings(flow, seed, index, until).filter_map(|(_, bytes)| bytes);
            let object = |(nth, bytes): (usize, u64)| {
                let name = match &flow.content.object {
                    Some(name) => format!("object {name}"),
                    None => format!("object {nth} of flow {index}"),
                };
                let made = || SyntheticObject::new(bytes, Seed(seed.derive(&name)));
                let object = Arc::clone(named.entry(name.clone()).or_insert_with(made));
                publish(&store, &object).map(|()| object)
            };
            let objects = sizes.enumerate().map(object).collect::<Result<_, _>>()?;
            let asked = std::iter::once(&flow.way.from).chain(&flow.content.sources);
            let routers = asked.map(|node| address(sites, *node)).collect();
            Ok(Some(Arc::new(Fetches { objects, routers })))
        };
        let fetches = flows.iter().enumerate().map(publish).collect::<Result<_, _>>();
        let fetches = fetches.map_err(TestbedError::Objects)?;
        let serve = |router: &ContentRouter| {
            let store =
                if router.upstream.is_empty() { origin.clone() } else { folder.path().join(router.node.to_string()) };
            Ok((router.node, serve(router, store, sites)?))
        };
        let servers = routers.iter().map(serve).collect::<Result<_, TestbedError>>()?;
        Ok(Self { fetches, servers, _folder: Some(folder) })
    }

    /// Stops them; says what each has done.
    ///
    /// # Errors
    /// [`TestbedError::Router`]: what ended one early.
    pub(super) fn stop(self) -> Result<Vec<RouterOutcome>, TestbedError> {
        let stop = |(node, server): (u32, Server)| {
            let counts = server.stop()?;
            Ok(RouterOutcome { node, stats: counts.router, memory: counts.tables })
        };
        self.servers.into_iter().map(stop).collect()
    }
}

/// Where the router of a node listens.
fn address(sites: &[Site], node: u32) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(sites[node as usize].ipv4), ROUTER_PORT)
}

/// Starts a router with this store at its site.
fn serve(router: &ContentRouter, store: PathBuf, sites: &[Site]) -> Result<Server, TestbedError> {
    let ContentRouter { node, upstream, cache } = router;
    let upstream = (!upstream.is_empty()).then(|| UpstreamConfig {
        addresses: upstream.iter().map(|node| address(sites, *node)).collect(),
        controller: ROUTER_CONTROLLER.parse().expect("a registered controller"),
        cache_bytes: cache.0,
    });
    let listen = address(sites, *node);
    let config = ServerConfig { upstream, ..ServerConfig::new(store, listen) };
    // Its threads inherit the namespace and the precedence.
    let start = || {
        crate::prefer();
        Server::start(&config)
    };
    Ok(sites[*node as usize].namespace.enter(start)??)
}

/// Writes an object in its stored form, unless the store has it.
fn publish(store: &Store, object: &SyntheticObject) -> io::Result<()> {
    let path = store.path_of(object.name());
    if path.exists() {
        return Ok(());
    }
    let mut file = BufWriter::new(File::create(path)?);
    for unit in (0..object.layout().stored_units()).filter_map(|unit| object.unit(unit)) {
        file.write_all(&unit)?;
    }
    file.flush()
}

/// Runs the flow with this number, which makes the `nth` of these fetches over this socket.
pub(super) fn fetch(
    flow: &Datagrams,
    number: u32,
    Fetches { objects, routers }: &Fetches,
    nth: usize,
    socket: UdpSocket,
    span: &Span,
) -> Ended {
    let own = socket.local_addr().map_err(|error| flow.refused(error))?;
    let spec = &flow.flow.controller.clone().over(flow.flow.via.datapath());
    let env = Env::new(flow.flow.mss)
        .with_seed(flow.controller_seed(number))
        .with_paced(flow.flow.paced)
        .with_remembered(flow.lend());
    let observer = flow.observers.of_world(number, Layer::Packets, spec, &env);
    let mut first = Some(Observed::wrap(spec.build(&env), observer));
    let seed = Seed(flow.seed.derive(&format!("fetch {}", flow.crossing + number)));
    let mut node = FetchNode::of_flow(&flow.flow, &objects[nth], span.at, seed);
    for router in routers {
        match first.take() {
            Some(controller) => node.add_source_with(span.at, own, *router, controller),
            None => node.add_source(span.at, own, *router),
        }
    }
    requests::ask(flow, node, socket, span)
}

impl Asker for FetchNode {
    fn steering(&mut self) -> &mut dyn Steering {
        self
    }

    fn poll_message(&mut self, now: Time) -> Option<(SocketAddr, Bytes)> {
        self.poll(now).map(|packet| (packet.to, packet.bytes))
    }

    fn on_datagram(&mut self, now: Time, datagram: &Datagram<'_>) -> Option<Nanos> {
        let to = self.addresses().next()?;
        let ecn = if datagram.ce { Codepoint::Ce } else { Codepoint::NotEct };
        self.on_packet(now, UdpPacket { from: datagram.from, to, ecn, bytes: Bytes::copy_from_slice(datagram.bytes) });
        self.take_rtt()
    }

    fn bytes_ready(&self) -> u64 {
        Self::bytes_ready(self)
    }
}
