//! A receiver as a node: one fetch, from one source or several.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use paceline_cc::datapath::ICN;
use paceline_cc::{Codepoint, Controller, Env, Nanos, Spec, Time};
use paceline_icn::wire::DATA_HEAD;
use paceline_icn::{Fetch, FetchConfig, Output, RequestFlow, SourceId, UNIT};
use paceline_transport::{SenderStats, Steering};

use super::SyntheticObject;
use super::object::hash_of;
use crate::config::Flow;
use crate::node::{Node, UdpPacket};
use crate::seed::Seed;

/// Width of a bin of what came over time (our choice: some round trips).
pub const BIN: Nanos = Nanos::from_millis(50);

/// A fetch of an object, and what became of it.
pub struct FetchNode {
    fetch: Fetch,
    object: Arc<SyntheticObject>,
    controller: Spec,
    seed: Seed,
    /// Controllers made so far.
    made: u32,
    links: Vec<Link>,
    message: Vec<u8>,
    began: Time,
    ended: Option<Time>,
    right: u64,
    bins: Vec<Vec<u64>>,
    came: Time,
}

/// Between the receiver and one source.
struct Link {
    source: SourceId,
    peer: SocketAddr,
    /// The receiver's address; `None` where it has lost that.
    own: Option<SocketAddr>,
}

impl FetchNode {
    /// That of a flow, which has no source yet.
    pub fn of_flow(flow: &Flow, object: &Arc<SyntheticObject>, now: Time, seed: Seed) -> Self {
        let config = FetchConfig { flow: flow.via.how.asking.flow_config(), ..FetchConfig::default() };
        Self::new(config, object, flow.controller.clone(), now, seed)
    }

    /// A fetch of all of an object, which has no source yet. Each source gets a controller of its own.
    pub fn new(config: FetchConfig, object: &Arc<SyntheticObject>, controller: Spec, now: Time, seed: Seed) -> Self {
        let mut fetch = Fetch::new(config, *object.name(), 0..u64::MAX, seed.derive("fetch"));
        fetch.hash_with(hash_of);
        Self {
            fetch,
            object: Arc::clone(object),
            controller,
            seed,
            made: 0,
            links: Vec::new(),
            message: Vec::new(),
            began: now,
            ended: None,
            right: 0,
            bins: Vec::new(),
            came: now,
        }
    }

    /// The fetch.
    pub fn fetch(&self) -> &Fetch {
        &self.fetch
    }

    /// The object.
    pub fn object(&self) -> &SyntheticObject {
        &self.object
    }

    /// When it began, and when it was over, for better or for worse.
    pub fn times(&self) -> (Time, Option<Time>) {
        (self.began, self.ended)
    }

    /// When data came last; before there is any, when the fetch began.
    pub fn last_data(&self) -> Time {
        self.came
    }

    /// Bytes of units by source, in each [`BIN`] of the world's time.
    pub fn bins(&self) -> &[Vec<u64>] {
        &self.bins
    }

    /// Whether all of the object came out, in order and right.
    pub fn is_whole(&self) -> bool {
        self.fetch.is_done() && self.right == self.object.layout().length()
    }

    /// Another source: the router at `peer`, which is asked from `own`.
    pub fn add_source(&mut self, now: Time, own: SocketAddr, peer: SocketAddr) {
        let controller = self.next_controller();
        self.add_source_with(now, own, peer, controller);
    }

    /// The same with a controller that was made for packets of [`UNIT`] bytes.
    pub fn add_source_with(&mut self, now: Time, own: SocketAddr, peer: SocketAddr, controller: Box<dyn Controller>) {
        let source = self.fetch.add_source(now, controller);
        self.links.push(Link { source, peer, own: Some(own) });
        self.bins.push(Vec::new());
    }

    /// The receiver loses the address from which it asks a source, by the order in which these were added; the answer is that address.
    pub fn cut_source(&mut self, index: usize) -> Option<SocketAddr> {
        self.links.get_mut(index)?.own.take()
    }

    /// It asks a source from another address.
    pub fn move_source(&mut self, now: Time, index: usize, own: SocketAddr) {
        let controller = self.next_controller();
        if let Some(link) = self.links.get_mut(index) {
            link.own = Some(own);
            self.fetch.moved(now, link.source, controller);
        }
    }

    /// A source is asked no more.
    pub fn drop_source(&mut self, now: Time, index: usize) {
        if let Some(link) = self.links.get(index) {
            self.fetch.remove_source(now, link.source);
        }
    }

    /// The receiver's addresses, by source.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.links.iter().filter_map(|link| link.own)
    }

    /// The RTT that the packet that came last showed, if it did.
    pub fn take_rtt(&mut self) -> Option<Nanos> {
        self.fetch.take_rtt()
    }

    /// Bytes of the object that came out, in order and right.
    pub fn bytes_ready(&self) -> u64 {
        self.right
    }

    fn next_controller(&mut self) -> Box<dyn Controller> {
        self.made += 1;
        let seed = self.seed.derive(&format!("controller {}", self.made));
        self.controller.clone().over(&ICN).build(&Env::new(UNIT as u32).with_seed(seed))
    }

    fn flows(&self) -> impl Iterator<Item = &RequestFlow> {
        self.links.iter().filter_map(|link| self.fetch.flow(link.source))
    }

    /// Takes what the fetch hands out.
    fn take(&mut self, now: Time) {
        while let Some(output) = self.fetch.poll_output() {
            match output {
                Output::Bytes { offset, bytes } => {
                    self.fetch.consumed(bytes.len() as u64);
                    if offset == self.right && self.object.is(offset, &bytes) {
                        self.right += bytes.len() as u64;
                    }
                }
                Output::Done => _ = self.ended.get_or_insert(now),
                Output::Manifest(_) | Output::Unit { .. } | Output::Record(_) => {}
            }
        }
        if self.fetch.failure().is_some() {
            self.ended.get_or_insert(now);
        }
    }
}

impl Node for FetchNode {
    fn on_packet(&mut self, now: Time, packet: UdpPacket) {
        let link = self.links.iter().find(|link| link.own == Some(packet.to) && link.peer == packet.from);
        let Some(Link { source, .. }) = link else { return };
        let taken = self.fetch.on_datagram(now, *source, &packet.bytes, packet.ecn == Codepoint::Ce);
        if taken.is_ok() && packet.bytes.len() > DATA_HEAD {
            let bins = &mut self.bins[source.index()];
            let bin = (now.as_nanos() / BIN.as_nanos()) as usize;
            bins.resize(bins.len().max(bin + 1), 0);
            bins[bin] += (packet.bytes.len() - DATA_HEAD) as u64;
            self.came = now;
        }
        self.take(now);
    }

    fn poll(&mut self, now: Time) -> Option<UdpPacket> {
        if self.fetch.next_timeout() <= now {
            self.fetch.on_timeout(now);
        }
        self.take(now);
        while let Some(source) = self.fetch.poll_transmit(now, &mut self.message) {
            let link = self.links.iter().find(|link| link.source == source);
            // Without an address nothing leaves.
            if let Some(Link { own: Some(from), peer: to, .. }) = link {
                let bytes = Bytes::copy_from_slice(&self.message);
                return Some(UdpPacket { from: *from, to: *to, ecn: Codepoint::NotEct, bytes });
            }
        }
        self.take(now);
        None
    }

    fn next_timeout(&self) -> Time {
        if self.ended.is_some() { Time::NEVER } else { self.fetch.next_timeout() }
    }
}

/// As a flow's end: of several sources the sums, and the controller of the first.
impl Steering for FetchNode {
    /// What it wants is the object's length, whatever is written.
    fn write(&mut self, _bytes: u64) {}

    fn cut(&mut self) -> u64 {
        0
    }

    fn next_timeout(&self) -> Time {
        Node::next_timeout(self)
    }

    /// Its timers are served when it is asked for what it sends.
    fn on_timeout(&mut self, _now: Time) {}

    fn paced_until(&self) -> Time {
        let due = Node::next_timeout(self);
        let held = self.flows().map(RequestFlow::paced_until);
        held.reduce(|one, other| if one == due { one } else { other }).unwrap_or(Time::ZERO)
    }

    fn is_idle(&self) -> bool {
        self.ended.is_some()
    }

    fn in_flight(&self) -> u64 {
        self.flows().map(RequestFlow::in_flight).sum()
    }

    fn window(&self) -> u64 {
        self.flows().map(RequestFlow::window).sum()
    }

    fn srtt(&self) -> Option<Nanos> {
        self.flows().find_map(RequestFlow::srtt)
    }

    fn stats(&self) -> SenderStats {
        self.flows().fold(SenderStats::default(), |mut sum, flow| {
            sum += &flow.stats();
            sum
        })
    }

    fn controller(&self) -> &dyn Controller {
        self.flows().next().expect("a flow's fetch has a source").controller()
    }
}
