//! Nodes: programs at the ends of paths that send packets of bytes to each other.
//!
//! The shape is that of smoltcp's interfaces and s2n-quic's endpoints: a node takes what comes, says what it sends now, and when it
//! wants to be asked again. A world carries the packets; what a packet says is the nodes' affair alone.

use std::any::Any;
use std::net::SocketAddr;

use bytes::Bytes;
use paceline_cc::{Codepoint, Time};

/// A packet over UDP and IPv4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpPacket {
    /// Who sends it.
    pub from: SocketAddr,
    /// Where it goes.
    pub to: SocketAddr,
    /// The ECN field: what the sender wrote, or the path made of it.
    pub ecn: Codepoint,
    /// What it says.
    pub bytes: Bytes,
}

/// What takes packets and sends others. It has no clock: each call says the time.
pub trait Node: Any + Send {
    /// A packet has reached one of its ports.
    fn on_packet(&mut self, now: Time, packet: UdpPacket);

    /// The next packet that it sends now, if any. Asked until it answers `None`, after each packet that has reached it and whenever
    /// [`Node::next_timeout`] has come: timers that are due are served first.
    fn poll(&mut self, now: Time) -> Option<UdpPacket>;

    /// When [`Node::poll`] wants to be asked without a packet; [`Time::NEVER`] if not before the next one.
    fn next_timeout(&self) -> Time;
}
