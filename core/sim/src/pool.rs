//! Packets that are used again, so that they cost no allocation.

use paceline_cc::{Codepoint, Time};
use paceline_experiment::icn::{Asked, UNIT_HEADERS};
use paceline_path::Packet;
use paceline_transport::{Receiver, Segment};

use crate::body::{Body, SentBytes};
use crate::node::UDP_HEADERS;
use crate::telemetry::Traced;

/// Packets out of use. One that is never given back is freed where it is dropped.
#[derive(Default)]
pub(crate) struct Pool {
    acks: Vec<Packet<Body>>,
    others: Vec<Packet<Body>>,
}

impl Pool {
    /// A packet of data.
    #[inline]
    pub(crate) fn data(&mut self, flow: u32, ecn: Codepoint, segment: Segment) -> Packet<Body> {
        self.other(flow, segment.wire_bytes(), ecn, Body::Data(segment))
    }

    /// A packet with a unit that was asked for.
    pub(crate) fn unit(&mut self, flow: u32, unit: Segment) -> Packet<Body> {
        self.other(flow, unit.bytes + UNIT_HEADERS, Codepoint::from(unit.ecn), Body::Data(unit))
    }

    /// A request.
    pub(crate) fn request(&mut self, flow: u32, asked: Asked) -> Packet<Body> {
        self.other(flow, asked.wire_bytes, Codepoint::NotEct, Body::Request(Box::new(asked)))
    }

    /// A packet of data with telemetry, whose header comes on top.
    pub(crate) fn traced(&mut self, flow: u32, ecn: Codepoint, traced: Box<Traced>) -> Packet<Body> {
        let size = traced.segment.wire_bytes() + traced.header.len() as u32;
        self.other(flow, size, ecn, Body::Traced(traced))
    }

    /// A packet of cross traffic.
    pub(crate) fn cross(&mut self, source: u32, size: u32) -> Packet<Body> {
        self.other(source, size, Codepoint::NotEct, Body::Cross)
    }

    /// A packet of a node.
    pub(crate) fn bytes(&mut self, number: u32, sent: SentBytes) -> Packet<Body> {
        let size = sent.packet.bytes.len() as u32 + UDP_HEADERS;
        self.other(number, size, sent.packet.ecn, Body::Bytes(Box::new(sent)))
    }

    #[inline(always)]
    fn other(&mut self, flow: u32, size: u32, ecn: Codepoint, body: Body) -> Packet<Body> {
        match self.others.pop() {
            Some(mut packet) => {
                packet.renew(flow, size, ecn);
                packet.body = body;
                packet
            }
            None => Packet::new(flow, size, ecn, body),
        }
    }

    /// The next acknowledgement of `receiver` that is due, if any.
    pub(crate) fn ack(&mut self, flow: u32, now: Time, receiver: &mut dyn Receiver) -> Option<Packet<Body>> {
        let new = || Packet::new(flow, 0, Codepoint::NotEct, Body::Ack(Box::default()));
        let mut packet = self.acks.pop().unwrap_or_else(new);
        let Body::Ack(ack) = &mut packet.body else { return None };
        if !receiver.poll_ack_into(now, ack) {
            self.acks.push(packet);
            return None;
        }
        let size = ack.wire_bytes();
        packet.renew(flow, size, Codepoint::NotEct);
        Some(packet)
    }

    /// A packet has come to its end.
    #[inline]
    pub(crate) fn empty(&mut self, used: Packet<Body>) {
        match used.body {
            Body::Ack(_) => self.acks.push(used),
            Body::Data(_) | Body::Traced(_) | Body::Request(_) | Body::Cross | Body::Bytes(_) => self.others.push(used),
        }
    }
}
