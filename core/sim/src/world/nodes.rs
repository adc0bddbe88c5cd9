//! Nodes in the event loop: their ports, their timers, and the ways of their packets.

use std::any::Any;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::RangeInclusive;

use paceline_cc::{Ecn, Nanos, Time};
use paceline_experiment::{Node, UdpPacket, Way};
use paceline_icn::UNIT;
use paceline_icn::wire::{UnitAnswer, UnitHead};
use paceline_path::Packet;
use paceline_transport::Segment;

use super::World;
use crate::body::{Body, Label, Load, SentBytes};
use crate::node::{NodeId, address, host};
use crate::timers::{Armed, Target};

/// Ports that are given as they are free (RFC 6335: those of users, less what services of ours have).
const USER_PORTS: RangeInclusive<u16> = 10_000..=49_151;

/// A node that has just been asked and wants to be asked again at once waits for this long, so that time goes on (our choice).
const LEAST: Nanos = Nanos::from_micros(1);

/// The nodes of a world.
#[derive(Default)]
pub(super) struct Nodes {
    nodes: Vec<(Box<dyn Node>, Armed)>,
    /// By the graph's node and the first port of a range: its last port, and whose it is.
    ports: BTreeMap<(u32, u16), (u16, Owner)>,
    /// By the graph's node: the port that was bound last of those that are given as they are free.
    last_ports: BTreeMap<u32, u16>,
    /// By two addresses that have exchanged packets, the lesser first: whose these are, as those of a flow.
    labels: BTreeMap<[SocketAddr; 2], Label>,
}

/// Whose a port is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// That of a node.
    Node(u32),
    /// That of a flow, by its number.
    Flow(u32),
}

impl Nodes {
    /// Whose this address is.
    fn at(&self, address: SocketAddr) -> Option<Owner> {
        let (host, port) = (host(address)?, address.port());
        let ((of, _), (last, owner)) = self.ports.range(..=(host, port)).next_back()?;
        (*of == host && port <= *last).then_some(*owner)
    }

    /// The number of the flow that has this address, where one has.
    pub(super) fn flow_at(&self, address: SocketAddr) -> Option<u32> {
        match self.at(address)? {
            Owner::Flow(number) => Some(number),
            Owner::Node(_) => None,
        }
    }

    fn bind(&mut self, owner: Owner, at: u32, ports: RangeInclusive<u16>) -> SocketAddr {
        let (first, last) = ports.into_inner();
        let below = self.ports.range(..=(at, last)).next_back();
        let taken = below.is_some_and(|((host, _), (end, _))| *host == at && *end >= first);
        assert!(first <= last && !taken, "ports {first} to {last} of node {at} are not free");
        self.ports.insert((at, first), (last, owner));
        address(at, first)
    }

    /// See [`World::bind_any`].
    pub(super) fn bind_any(&mut self, owner: Owner, at: u32) -> SocketAddr {
        let last = self.last_ports.get(&at).copied().unwrap_or(*USER_PORTS.end());
        let later = last.saturating_add(1)..=*USER_PORTS.end();
        let free = |port: &u16| self.at(address(at, *port)).is_none();
        let port = later.chain(USER_PORTS).find(free).expect("fewer nodes than ports");
        self.last_ports.insert(at, port);
        self.bind(owner, at, port..=port)
    }

    /// The packets between two addresses have this label.
    pub(super) fn connect(&mut self, ends: [SocketAddr; 2], label: Label) {
        self.labels.insert(pair(ends), label);
    }

    /// A node.
    pub(super) fn get<T: Node>(&self, node: NodeId<T>) -> &T {
        let any: &dyn Any = self.nodes[node.index as usize].0.as_ref();
        any.downcast_ref().expect("the number is of this world")
    }

    /// The same, to be changed.
    pub(super) fn get_mut<T: Node>(&mut self, node: NodeId<T>) -> &mut T {
        let any: &mut dyn Any = self.nodes[node.index as usize].0.as_mut();
        any.downcast_mut().expect("the number is of this world")
    }
}

/// Two addresses in their order.
fn pair([one, other]: [SocketAddr; 2]) -> [SocketAddr; 2] {
    if one < other { [one, other] } else { [other, one] }
}

impl World<'_> {
    /// Another node, which has no port yet.
    pub fn add_node<T: Node>(&mut self, node: T) -> NodeId<T> {
        self.nodes.nodes.push((Box::new(node), Armed::default()));
        NodeId::new(self.nodes.nodes.len() as u32 - 1)
    }

    /// What comes to these ports of a node of the graph is this node's from now on; the answer is the address of the first of them.
    ///
    /// # Panics
    /// Where the range is empty, or another node has one of them.
    pub fn bind<T: Node>(&mut self, node: NodeId<T>, at: u32, ports: RangeInclusive<u16>) -> SocketAddr {
        self.nodes.bind(Owner::Node(node.index), at, ports)
    }

    /// The same with a port that is free, of those that RFC 6335 leaves to programs.
    ///
    /// # Panics
    /// Where none is free.
    pub fn bind_any<T: Node>(&mut self, node: NodeId<T>, at: u32) -> SocketAddr {
        self.nodes.bind_any(Owner::Node(node.index), at)
    }

    /// The ports that were bound by this first one are free again: what is on its way to them is lost.
    pub fn unbind(&mut self, first: SocketAddr) {
        if let Some(host) = host(first) {
            self.nodes.ports.remove(&(host, first.port()));
            self.nodes.labels.retain(|pair, _| !pair.contains(&first));
        }
    }

    /// A node as it is now.
    ///
    /// # Panics
    /// Where the number is of another world.
    pub fn node<T: Node>(&self, node: NodeId<T>) -> &T {
        self.nodes.get(node)
    }

    /// Does something with a node at the present moment; then it sends what it has.
    ///
    /// # Panics
    /// As [`World::node`].
    pub fn visit<T: Node, R>(&mut self, node: NodeId<T>, visit: impl FnOnce(&mut T, Time) -> R) -> R {
        let result = visit(self.nodes.get_mut(node), self.now);
        self.pump_node(node.index);
        result
    }

    /// The present moment.
    pub fn now(&self) -> Time {
        self.now
    }

    /// A node's timer has come.
    pub(super) fn node_wakes(&mut self, index: u32, at: Time) {
        let (_, timer) = &mut self.nodes.nodes[index as usize];
        if timer.fire(&mut self.timers, at, Target::Node(index)) {
            self.pump_node(index);
        }
    }

    /// Lets a node send what it has, and sets its timer.
    fn pump_node(&mut self, index: u32) {
        while let Some(packet) = self.nodes.nodes[index as usize].0.poll(self.now) {
            self.send(packet);
        }
        let (node, timer) = &mut self.nodes.nodes[index as usize];
        let due = node.next_timeout();
        let due = if due > self.now { due } else { self.now + LEAST };
        timer.arm(&mut self.timers, due, Target::Node(index));
    }

    /// A packet leaves. What has no way is lost, as where no route leads to a host.
    pub(super) fn send(&mut self, packet: UdpPacket) {
        let Some(label) = self.label_of([packet.from, packet.to]) else { return };
        let [there, back] = self.routes.first(label.way);
        let hop = if host(packet.from) == Some(self.routes.start(label.way)) { there } else { back };
        let to = self.nodes.flow_at(packet.to);
        let segment = to.and_then(|_| data_in(&packet, self.now));
        if let (Some(to), Some(segment), Some(family)) = (to, &segment, label.family) {
            if let Some(tap) = &mut self.tap {
                tap.on_sent(self.now, to - self.first, segment);
            }
            self.recorder.entered(family as usize);
        }
        self.hops.push(hop, self.now, self.pool.bytes(label, SentBytes { packet, segment }));
    }

    /// The label of the packets between two addresses.
    fn label_of(&mut self, ends: [SocketAddr; 2]) -> Option<Label> {
        let pair = pair(ends);
        if let Some(label) = self.nodes.labels.get(&pair) {
            return Some(*label);
        }
        let way = Way { from: host(pair[0])?, to: host(pair[1])? };
        let way = self.routes.find(self.hops.graph(), way)?;
        let label = Label { number: self.live.skip(), way, family: None };
        self.nodes.labels.insert(pair, label);
        Some(label)
    }

    /// A packet whose number is no living flow's has come to the end of its way. It may be a flow's all the same, from another source than the
    /// first or to it.
    pub(super) fn reach_node(&mut self, mut packet: Packet<Body>) {
        if let Load::Bytes(bytes) = &packet.body.load {
            let UdpPacket { from, to, .. } = bytes.packet;
            let flow = self.nodes.flow_at(to).or_else(|| self.nodes.flow_at(from)).filter(|flow| *flow != packet.flow);
            if let Some(flow) = flow {
                packet.flow = flow;
                return self.reach(packet);
            }
            if let Some(Owner::Node(index)) = self.nodes.at(to) {
                let packet = bytes.arrived(packet.ecn);
                self.nodes.nodes[index as usize].0.on_packet(self.now, packet);
                self.pump_node(index);
            }
        }
        self.pool.empty(packet);
    }
}

/// The data in a router's answer, as metadata of the segment that it is to a flow.
fn data_in(packet: &UdpPacket, now: Time) -> Option<Segment> {
    let Ok(UnitAnswer::Data(UnitHead { unit, .. }, payload)) = UnitAnswer::decode(&packet.bytes) else { return None };
    Some(Segment {
        seq: unit * UNIT as u64,
        bytes: payload.len() as u32,
        sent_at: now,
        retransmission: false,
        syn: false,
        cwr: false,
        ecn: Ecn::Off,
        note: 0,
    })
}
