//! Named objects in virtual time: requesters ([`Fetch`]) and content routers ([`Router`]) at the ends of paths, every message on the
//! wire as it is, every unit verified. For what a scenario of flows cannot say: several sources of one object, an address that changes
//! in the middle of a fetch, and a router with a cache that asks another one.

mod edge;
mod object;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;

use bytes::Bytes;
use paceline_cc::{Codepoint, Controller, Env, Nanos, Rate, Spec, Time};
use paceline_icn::wire::{DATA_HEAD, Data};
use paceline_icn::{Burst, Fetch, Name, Output, Router, RouterConfig, Secrets, SourceId, UNIT};
use paceline_path::{Direction, Media, Packet, Path, Role, Seat};

use edge::View;
pub(super) use edge::{Edge, Uplink};
pub(super) use object::Object;

/// Bytes of the headers of IPv4 and UDP.
const HEADERS: u32 = 28;
/// Seconds since 1970 at the start.
const UNIX: u64 = 1_800_000_000;
/// Width of a bin of what came over time.
pub(super) const BIN: Nanos = Nanos::from_millis(50);

/// A message on its way.
#[derive(Clone)]
struct Mail {
    route: usize,
    /// How many paths of the route are behind it.
    hop: usize,
    up: bool,
    bytes: Bytes,
}

/// Which paths lead from a requester to a router and back, by their numbers.
#[derive(Clone, Debug)]
pub(super) struct Route {
    pub(super) router: usize,
    pub(super) up: Vec<usize>,
    pub(super) down: Vec<usize>,
}

struct Way {
    route: Route,
    asker: usize,
    source: SourceId,
    /// The requester still has the address; what comes to another is lost.
    open: bool,
}

/// A requester, and what it found.
pub(super) struct Asker {
    pub(super) fetch: Fetch,
    object: Option<Rc<Object>>,
    /// The router that asks, and not a receiver.
    edge: Option<usize>,
    /// By source, its way.
    ways: Vec<usize>,
    pub(super) began: Time,
    pub(super) ended: Option<Time>,
    /// Bytes of the object that came out in order and were right.
    pub(super) right: u64,
    /// Bytes of units by source, in each [`BIN`].
    pub(super) bins: Vec<Vec<f64>>,
    /// When data came last, and the longest time without any since it was last asked.
    pub(super) came: Time,
}

struct Node {
    router: Router,
    objects: BTreeMap<Name, Rc<Object>>,
    edge: Option<Edge>,
}

/// All of them.
pub(super) struct World {
    pub(super) now: Time,
    seed: u64,
    paths: Vec<Path<Mail>>,
    media: Media<Mail>,
    ways: Vec<Way>,
    nodes: Vec<Node>,
    pub(super) askers: Vec<Asker>,
    /// Those that are not done.
    active: Vec<usize>,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            now: Time::ZERO,
            seed,
            paths: Vec::new(),
            media: Media::default(),
            ways: Vec::new(),
            nodes: Vec::new(),
            askers: Vec::new(),
            active: Vec::new(),
        }
    }

    /// A number that was not drawn before.
    fn draw(&mut self) -> u64 {
        self.seed = self.seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        self.seed >> 1
    }

    fn controller(&mut self) -> Box<dyn Controller> {
        let env = Env { mss: UNIT as u32, seed: self.draw(), ..Env::default() };
        "bbr".parse::<Spec>().expect("a registered controller").build(&env)
    }

    /// A path, as a scenario file says it; its number.
    pub(super) fn path(&mut self, text: &str) -> usize {
        self.one(text, "", Role::AccessPoint)
    }

    /// Both directions of a Wi-Fi link that has a channel of its own: from the access point, and to it.
    pub(super) fn wifi(&mut self, name: &str, text: &str) -> [usize; 2] {
        [Role::AccessPoint, Role::Station].map(|role| self.one(text, name, role))
    }

    fn one(&mut self, text: &str, link: &str, role: Role) -> usize {
        let direction: Direction = toml::from_str(text).expect("a path of ours");
        let seed = self.draw();
        let load = |name: &str| Err(format!("{name}: no traces here"));
        let node = u32::from(role == Role::Station);
        let seat = Seat { media: &mut self.media, link, node, role };
        self.paths.push(direction.build_in(seed, Nanos::ZERO, &load, seat).expect("a path of ours"));
        self.paths.len() - 1
    }

    /// A router with these objects, and one to ask if it has an `edge`; its number.
    pub(super) fn router(&mut self, objects: &[Rc<Object>], edge: Option<Edge>) -> usize {
        let config = RouterConfig { upstream: edge.is_some(), ..RouterConfig::new(Rate::INFINITY) };
        let secret: [u8; 32] = std::array::from_fn(|_| self.draw() as u8);
        let router = Router::new(config, Secrets::new(&secret, UNIX), self.draw());
        let objects = objects.iter().map(|object| (object.name, object.clone())).collect();
        self.nodes.push(Node { router, objects, edge });
        self.nodes.len() - 1
    }

    /// A receiver that fetches all of an object over these routes; its number.
    pub(super) fn receiver(&mut self, object: &Rc<Object>, routes: &[Route]) -> usize {
        let seed = self.draw();
        let fetch = Fetch::new(paceline_icn::FetchConfig::default(), object.name, 0..u64::MAX, seed);
        self.ask(fetch, Some(object.clone()), None, routes)
    }

    fn ask(&mut self, fetch: Fetch, object: Option<Rc<Object>>, edge: Option<usize>, routes: &[Route]) -> usize {
        let asker = self.askers.len();
        let (began, right, came) = (self.now, 0, self.now);
        let (ways, bins) = (Vec::new(), Vec::new());
        self.askers.push(Asker { fetch, object, edge, ways, began, ended: None, right, bins, came });
        self.active.push(asker);
        for route in routes {
            self.add_source(asker, route);
        }
        self.serve(asker);
        asker
    }

    fn way(&mut self, asker: usize, source: SourceId, route: &Route) -> usize {
        self.ways.push(Way { route: route.clone(), asker, source, open: true });
        self.ways.len() - 1
    }

    /// One source more.
    pub(super) fn add_source(&mut self, asker: usize, route: &Route) {
        let (now, controller) = (self.now, self.controller());
        let source = self.askers[asker].fetch.add_source(now, controller);
        let way = self.way(asker, source, route);
        self.askers[asker].ways.push(way);
        self.askers[asker].bins.push(Vec::new());
    }

    /// The address at which a source is asked is lost; whatever is on its way to it is too.
    pub(super) fn cut(&mut self, asker: usize, source: usize) {
        let way = self.askers[asker].ways[source];
        self.ways[way].open = false;
    }

    /// The receiver has another address, with this way to the source.
    pub(super) fn moved(&mut self, asker: usize, source: usize, route: &Route) {
        self.cut(asker, source);
        let id = self.ways[self.askers[asker].ways[source]].source;
        let way = self.way(asker, id, route);
        self.askers[asker].ways[source] = way;
        let (now, controller) = (self.now, self.controller());
        self.askers[asker].fetch.moved(now, id, controller);
        self.serve(asker);
    }

    /// A source is asked no more.
    pub(super) fn leave(&mut self, asker: usize, source: usize) {
        self.cut(asker, source);
        let id = self.ways[self.askers[asker].ways[source]].source;
        self.askers[asker].fetch.remove_source(self.now, id);
        self.serve(asker);
    }

    /// What a router's tables have, bytes.
    pub(super) fn memory(&self, router: usize) -> usize {
        self.nodes[router].router.memory()
    }

    /// Bytes that a path carried.
    pub(super) fn carried(&mut self, path: usize) -> u64 {
        let now = self.now;
        self.paths[path].stats(now).map_or(0, |stats| stats.delivered.bytes)
    }

    /// Runs until `end`, or until every receiver is done; false then.
    pub(super) fn run(&mut self, end: Time) -> bool {
        while !self.active.is_empty() {
            let paths = self.paths.iter().map(Path::next);
            let askers = self.active.iter().map(|asker| self.askers[*asker].fetch.next_timeout());
            let routers = self.nodes.iter().map(|node| node.router.next_timeout());
            let next = paths.chain(askers).chain(routers).min().unwrap_or(Time::NEVER).max(self.now);
            if next > end {
                self.now = end;
                return true;
            }
            self.now = next;
            for path in 0..self.paths.len() {
                while let Some(packet) = self.paths[path].pop(self.now) {
                    self.arrive(packet.into_body());
                }
            }
            for asker in self.active.clone() {
                let fetch = &mut self.askers[asker].fetch;
                if fetch.next_timeout() <= self.now {
                    fetch.on_timeout(self.now);
                    self.serve(asker);
                }
            }
            for node in 0..self.nodes.len() {
                self.answer(node, Vec::new());
            }
        }
        false
    }

    fn send(&mut self, mut mail: Mail) {
        let route = &self.ways[mail.route].route;
        let hops = if mail.up { &route.up } else { &route.down };
        let Some(path) = hops.get(mail.hop).copied() else { return };
        mail.hop += 1;
        let packet = Packet::new(0, mail.bytes.len() as u32 + HEADERS, Codepoint::NotEct, mail);
        self.paths[path].push(self.now, packet);
    }

    fn arrive(&mut self, mail: Mail) {
        let way = &self.ways[mail.route];
        let hops = if mail.up { &way.route.up } else { &way.route.down };
        if mail.hop < hops.len() {
            return self.send(mail);
        }
        if mail.up {
            let (node, from) = (way.route.router, address(mail.route));
            let Node { router, objects, edge } = &mut self.nodes[node];
            let (mut replies, unix_s) = (Vec::new(), UNIX + self.now.as_nanos() / 1_000_000_000);
            router.on_datagram(self.now, unix_s, from, &mail.bytes, &mut View { objects, edge }, &mut |to, bytes| {
                replies.push((to, Bytes::copy_from_slice(bytes)));
            });
            while let Some(missing) = self.nodes[node].router.missing() {
                self.fetch_upstream(node, &missing);
            }
            self.answer(node, replies);
        } else if way.open {
            let (asker, source) = (way.asker, way.source);
            let one = &mut self.askers[asker];
            if one.fetch.on_datagram(self.now, source, &mail.bytes, false).is_ok() && mail.bytes.len() > DATA_HEAD {
                let bins = &mut one.bins[source.index()];
                let bin = (self.now.as_nanos() / BIN.as_nanos()) as usize;
                bins.resize(bins.len().max(bin + 1), 0.0);
                bins[bin] += (mail.bytes.len() - DATA_HEAD) as f64;
                one.came = self.now;
            }
            self.serve(asker);
        }
    }

    /// What a router has to send now.
    fn answer(&mut self, node: usize, replies: Vec<(SocketAddr, Bytes)>) {
        for (to, bytes) in replies {
            self.send(Mail { route: way_of(to), hop: 0, up: false, bytes });
        }
        while let Some(burst) = self.nodes[node].router.poll(self.now) {
            self.burst(node, &burst);
        }
    }

    fn burst(&mut self, node: usize, burst: &Burst) {
        let Burst { nonce, stored_units, waited, app_limited, .. } = *burst;
        for unit in burst.units.iter() {
            let Node { objects, edge, .. } = &mut self.nodes[node];
            let Some(bytes) = (View { objects, edge }).unit(&burst.name, unit) else { continue };
            let head = Data { nonce, unit, stored_units, waited, app_limited }.encode_head();
            let bytes = Bytes::from([&head[..], &bytes].concat());
            self.send(Mail { route: way_of(burst.to), hop: 0, up: false, bytes });
        }
    }

    /// Takes what a fetch has, and sends what it asks for.
    fn serve(&mut self, asker: usize) {
        self.take(asker);
        let mut message = Vec::new();
        while let Some(source) = self.askers[asker].fetch.poll_transmit(self.now, &mut message) {
            let route = self.askers[asker].ways[source.index()];
            let bytes = Bytes::copy_from_slice(&message);
            // Without an address nothing leaves.
            if self.ways[route].open {
                self.send(Mail { route, hop: 0, up: true, bytes });
            }
        }
        self.take(asker);
    }

    fn take(&mut self, asker: usize) {
        while let Some(output) = self.askers[asker].fetch.poll_output() {
            match output {
                Output::Bytes { offset, bytes } => {
                    let one = &mut self.askers[asker];
                    one.fetch.consumed(bytes.len() as u64);
                    let right = one.object.as_ref().is_some_and(|object| object.is(offset, &bytes));
                    one.right += if right && offset == one.right { bytes.len() as u64 } else { 0 };
                }
                Output::Unit { unit, bytes } => {
                    if let Some(node) = self.askers[asker].edge {
                        self.came_upstream(node, asker, unit, bytes);
                    }
                }
                Output::Done => self.end(asker),
                Output::Manifest(_) | Output::Record(_) => {}
            }
        }
        if self.askers[asker].fetch.failure().is_some() {
            self.end(asker);
        }
    }

    fn end(&mut self, asker: usize) {
        self.active.retain(|one| *one != asker);
        let one = &mut self.askers[asker];
        one.ended.get_or_insert(self.now);
        if let Some(node) = one.edge {
            let name = *one.fetch.name();
            if let Some(edge) = &mut self.nodes[node].edge {
                edge.ended(&name);
            }
        }
    }
}

impl Asker {
    /// Whether all of its object came out.
    pub(super) fn whole(&self) -> bool {
        self.fetch.is_done() && self.object.as_ref().is_some_and(|object| object.length() == self.right)
    }

    /// Seconds that it took.
    pub(super) fn seconds(&self) -> f64 {
        self.ended.map_or(f64::INFINITY, |ended| ended.since(self.began).as_secs_f64())
    }

    /// Bytes of units that came for one byte of the object's stored form, less one, in per cent.
    pub(super) fn more(&self) -> f64 {
        let stored = self.object.as_ref().map_or(f64::NAN, |object| object.stored_bytes() as f64);
        (self.fetch.stats().bytes_received as f64 / stored - 1.0) * 100.0
    }

    /// Mbit/s of units from all sources in a span of seconds.
    pub(super) fn rate(&self, from: f64, to: f64) -> f64 {
        let bin = BIN.as_secs_f64();
        let (first, last) = ((from / bin).round() as usize, (to / bin).round() as usize);
        let bytes = |bins: &Vec<f64>| bins.iter().skip(first).take(last - first).sum::<f64>();
        self.bins.iter().map(bytes).sum::<f64>() * 8e-6 / (to - from)
    }
}

/// The address of a requester on a way.
fn address(way: usize) -> SocketAddr {
    (Ipv4Addr::from_bits(0x0a00_0000 + way as u32), 4870).into()
}

fn way_of(address: SocketAddr) -> usize {
    match address {
        SocketAddr::V4(v4) => (v4.ip().to_bits() - 0x0a00_0000) as usize,
        SocketAddr::V6(_) => usize::MAX,
    }
}
