//! A content router as a node: objects of its own, and others that it fetches from other routers and keeps.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

use bytes::Bytes;
use paceline_cc::datapath::ICN;
use paceline_cc::{Codepoint, Env, Nanos, Spec, Time};
use paceline_experiment::icn::{ROUTER_PORT, SyntheticObject};
use paceline_experiment::{Node, Seed, UdpPacket};
use paceline_icn::wire::{MissingReason, Nack, UnitHead};
use paceline_icn::{
    Beginning, Burst, Fetch, FetchFailed, Found, JobId, Layout, Name, Router, RouterConfig, RouterStats, Secrets,
    Shelf, SourceId, UNIT, Units, Uplink, Upstream,
};
use rand::Rng;

use super::{EPOCH_S, MemoryCache};
use crate::node::{NodeId, address};
use crate::world::World;

/// Ports from which other routers are asked (those that RFC 6335 leaves to short use).
const EPHEMERAL: RangeInclusive<u16> = 49_152..=u16::MAX;

/// Ask again after this long for what was here a moment ago (as the router over sockets has it).
const AGAIN: Nanos = Nanos::from_millis(20);

/// The other routers that one asks.
#[derive(Clone, Debug)]
pub struct UpstreamOptions {
    /// Their addresses, at least one; all are asked, each for a part.
    pub addresses: Vec<SocketAddr>,
    /// The controller of each.
    pub controller: Spec,
    /// Bytes that the cache may have.
    pub cache_bytes: u64,
}

/// A content router.
pub struct RouterNode {
    /// The node of the graph.
    place: u32,
    at: SocketAddr,
    router: Router,
    storage: Storage,
    /// Tokens and refusals that leave before any unit.
    replies: VecDeque<UdpPacket>,
    /// Units that leave now: those of the burst from the second number on.
    burst: Option<(Burst, u64)>,
    /// Something has come from the other routers.
    stirred: bool,
}

impl RouterNode {
    /// A router at a node of the world's graph, with these objects, and with others to ask where there are some.
    pub fn new(
        place: u32,
        config: RouterConfig,
        objects: &[Arc<SyntheticObject>],
        upstream: Option<UpstreamOptions>,
        seed: Seed,
    ) -> Self {
        let mut secret = [0; 32];
        seed.stream("secret").fill_bytes(&mut secret);
        let at = address(place, ROUTER_PORT);
        let config = RouterConfig { upstream: upstream.is_some(), ..config };
        let objects = objects.iter().map(|object| (*object.name(), Arc::clone(object))).collect();
        let far = upstream.map(|options| Far {
            fetches: Upstream::new(seed.derive("admission")),
            around: Around::new(at, options, seed),
        });
        Self {
            place,
            at,
            router: Router::new(config, Secrets::new(&secret, EPOCH_S), seed.derive("tables")),
            storage: Storage { objects, far },
            replies: VecDeque::new(),
            burst: None,
            stirred: false,
        }
    }

    /// Puts it at its place in the world.
    pub fn join(self, world: &mut World<'_>) -> NodeId<Self> {
        let (place, asks) = (self.place, self.storage.far.is_some());
        let node = world.add_node(self);
        world.bind(node, place, ROUTER_PORT..=ROUTER_PORT);
        if asks {
            world.bind(node, place, EPHEMERAL);
        }
        node
    }

    /// It has this object from now on.
    pub fn add_object(&mut self, object: &Arc<SyntheticObject>) {
        self.storage.objects.insert(*object.name(), Arc::clone(object));
    }

    /// It does not have it any more.
    pub fn remove_object(&mut self, name: &Name) {
        self.storage.objects.remove(name);
    }

    /// Where it is asked.
    pub fn address(&self) -> SocketAddr {
        self.at
    }

    /// What it has done.
    pub fn stats(&self) -> &RouterStats {
        self.router.stats()
    }

    /// Bytes of its tables.
    pub fn memory(&self) -> usize {
        self.router.memory()
    }

    fn on_request(&mut self, now: Time, packet: &UdpPacket) {
        let Self { at, router, storage, replies, stirred, .. } = self;
        let unix_s = EPOCH_S + now.as_nanos() / 1_000_000_000;
        let mut reply = |to, message: &[u8]| replies.push_back(sent(*at, to, Bytes::copy_from_slice(message)));
        router.on_datagram(now, unix_s, packet.from, &packet.bytes, storage, &mut reply);
        while let (Some(missing), Some(Far { fetches, around })) = (router.missing(), &mut storage.far) {
            if let Err(reason) = fetches.want(now, &missing, around, router, &mut reply) {
                for units in missing.ranges.as_slice() {
                    router.failed(&missing.name, units.iter(), reason, &mut reply);
                }
            }
            *stirred = true;
        }
    }

    /// Takes what came from the other routers, and asks them for more.
    fn drive(&mut self, now: Time) {
        let Self { at, router, storage, replies, stirred, .. } = self;
        let Some(Far { fetches, around }) = &mut storage.far else { return };
        if std::mem::take(stirred) || fetches.next_timeout() <= now {
            fetches.drive(now, around, router, &mut |to, message: &[u8]| {
                replies.push_back(sent(*at, to, Bytes::copy_from_slice(message)));
            });
        }
    }

    /// A unit of a burst, or the refusal of one that is here no more.
    fn unit(&mut self, burst: &Burst, unit: u64) -> UdpPacket {
        let Burst { to, nonce, stored_units, waited, app_limited, .. } = *burst;
        let message = match self.storage.unit(&burst.name, unit) {
            Some(bytes) => {
                let head = UnitHead { nonce, unit, stored_units, waited, app_limited }.encode_head();
                [&head[..], &bytes].concat()
            }
            None => {
                let mut message = Vec::new();
                let (reason, retry_after) = match &self.storage.far {
                    Some(_) => (MissingReason::Busy, AGAIN),
                    None => (MissingReason::NotFound, Nanos::ZERO),
                };
                Nack { nonce, units: Units { first: unit, count: 1 }, reason, retry_after }.encode(&mut message);
                message
            }
        };
        sent(self.at, to, message.into())
    }
}

impl Node for RouterNode {
    fn on_packet(&mut self, now: Time, packet: UdpPacket) {
        if packet.to == self.at {
            self.on_request(now, &packet);
        } else if let Some(Far { around, .. }) = &mut self.storage.far {
            around.came(now, packet);
            self.stirred = true;
        }
    }

    fn poll(&mut self, now: Time) -> Option<UdpPacket> {
        self.drive(now);
        let request = self.storage.far.as_mut().and_then(|far| far.around.requests.pop_front());
        if let Some(packet) = request.or_else(|| self.replies.pop_front()) {
            return Some(packet);
        }
        loop {
            if let Some((burst, unit)) = self.burst.filter(|(burst, unit)| *unit < burst.units.end()) {
                self.burst = Some((burst, unit + 1));
                return Some(self.unit(&burst, unit));
            }
            self.burst = self.router.poll(now).map(|burst| (burst, burst.units.first));
            self.burst?;
        }
    }

    fn next_timeout(&self) -> Time {
        let far = self.storage.far.as_ref().map_or(Time::NEVER, |far| far.fetches.next_timeout());
        self.router.next_timeout().min(far)
    }
}

fn sent(from: SocketAddr, to: SocketAddr, bytes: Bytes) -> UdpPacket {
    UdpPacket { from, to, ecn: Codepoint::NotEct, bytes }
}

/// What it has, and what it gets from others.
struct Storage {
    objects: BTreeMap<Name, Arc<SyntheticObject>>,
    far: Option<Far>,
}

/// The fetches from other routers, and what they use.
struct Far {
    fetches: Upstream,
    around: Around,
}

impl Storage {
    fn unit(&mut self, name: &Name, unit: u64) -> Option<Bytes> {
        if let Some(object) = self.objects.get(name) {
            return object.unit(unit);
        }
        let Far { fetches, around } = self.far.as_mut()?;
        fetches.recent(name, unit).cloned().or_else(|| around.cache.unit(name, unit))
    }
}

impl Shelf for Storage {
    fn find(&mut self, name: &Name) -> Found {
        match (self.objects.get(name), &mut self.far) {
            (Some(object), _) => Found::Here { stored_units: Some(object.layout().stored_units()), whole: true },
            (None, Some(Far { fetches, around })) => fetches.find(around, name),
            (None, None) => Found::Elsewhere,
        }
    }

    fn has(&mut self, name: &Name, units: Units) -> u32 {
        self.far.as_mut().map_or(units.count, |Far { fetches, around }| fetches.has(around, name, units))
    }
}

/// Sockets and cache of the fetches from other routers.
struct Around {
    at: SocketAddr,
    addresses: Vec<SocketAddr>,
    controller: Spec,
    seed: Seed,
    cache: MemoryCache,
    /// By port: the fetch and the source that it is asked from.
    ports: BTreeMap<u16, (JobId, SourceId, SocketAddr)>,
    last_port: u16,
    /// What came and was not taken in yet.
    came: BTreeMap<JobId, VecDeque<(Time, SourceId, UdpPacket)>>,
    requests: VecDeque<UdpPacket>,
}

impl Around {
    fn new(at: SocketAddr, options: UpstreamOptions, seed: Seed) -> Self {
        let UpstreamOptions { addresses, controller, cache_bytes } = options;
        Self {
            at,
            addresses,
            controller,
            seed,
            cache: MemoryCache::new(cache_bytes),
            ports: BTreeMap::new(),
            last_port: *EPHEMERAL.end(),
            came: BTreeMap::new(),
            requests: VecDeque::new(),
        }
    }

    fn came(&mut self, now: Time, packet: UdpPacket) {
        if let Some((job, source, peer)) = self.ports.get(&packet.to.port())
            && *peer == packet.from
        {
            self.came.entry(*job).or_default().push_back((now, *source, packet));
        }
    }

    fn free_port(&mut self) -> Option<u16> {
        let later = self.last_port.saturating_add(1)..=*EPHEMERAL.end();
        let port = later.chain(EPHEMERAL).find(|port| !self.ports.contains_key(port))?;
        self.last_port = port;
        Some(port)
    }
}

impl Uplink for Around {
    fn cached(&mut self, name: &Name) -> Option<(Layout, bool)> {
        self.cache.find(name)
    }

    fn run(&mut self, name: &Name, units: Units) -> u32 {
        self.cache.run(name, units)
    }

    fn units(&mut self, name: &Name) -> Vec<u64> {
        self.cache.units(name)
    }

    fn keep(&mut self, name: &Name, manifest: &[u8], unit: u64, bytes: &Bytes) -> bool {
        self.cache.keep(name, manifest, unit, bytes)
    }

    fn begins(&mut self, job: JobId, _name: &Name) -> Option<Beginning> {
        Some(Beginning { unix_s: EPOCH_S, seed: self.seed.derive(&format!("fetch {job}")), known_version: 0 })
    }

    fn open(&mut self, now: Time, job: JobId, fetch: &mut Fetch) -> bool {
        for (index, peer) in self.addresses.clone().into_iter().enumerate() {
            let Some(port) = self.free_port() else { return false };
            let seed = self.seed.derive(&format!("controller {job} {index}"));
            let env = Env::new(UNIT as u32).with_seed(seed);
            let source = fetch.add_source(now, self.controller.clone().over(&ICN).build(&env));
            self.ports.insert(port, (job, source, peer));
        }
        true
    }

    fn receive(&mut self, job: JobId, fetch: &mut Fetch) {
        for (at, source, packet) in self.came.remove(&job).into_iter().flatten() {
            // What is dropped is counted by the fetch.
            let _ = fetch.on_datagram(at, source, &packet.bytes, packet.ecn == Codepoint::Ce);
        }
    }

    fn send(&mut self, job: JobId, source: SourceId, message: &[u8]) {
        let port = self.ports.iter().find(|(_, (of, to, _))| *of == job && *to == source);
        if let Some((port, (.., peer))) = port {
            let from = SocketAddr::new(self.at.ip(), *port);
            self.requests.push_back(sent(from, *peer, Bytes::copy_from_slice(message)));
        }
    }

    fn close(&mut self, job: JobId) {
        self.ports.retain(|_, (of, ..)| *of != job);
        self.came.remove(&job);
    }

    fn version(&mut self, _name: &Name, _version: u64) {}

    fn refused(&mut self, _name: &Name, _failed: &FetchFailed) {}
}
