//! Packets that are used again, so that they cost no allocation.

use paceline_cc::{Codepoint, Time};
use paceline_experiment::icn::{Asked, UNIT_HEADERS};
use paceline_path::Packet;
use paceline_transport::{Receiver, Segment};

use crate::body::{Body, Label, Load, SentBytes};
use crate::node::UDP_HEADERS;
use crate::telemetry::Traced;

/// Packets out of use. One that is never given back is freed where it is dropped.
#[derive(Default)]
pub(crate) struct Pool {
    /// By what they carried, which needs no care where it is replaced by its like.
    data: Vec<Packet<Body>>,
    acks: Vec<Packet<Body>>,
    others: Vec<Packet<Body>>,
}

impl Pool {
    /// A packet of data.
    #[inline(always)]
    pub(crate) fn data(&mut self, label: Label, ecn: Codepoint, segment: &Segment) -> Packet<Body> {
        let size = segment.wire_bytes();
        match self.data.pop() {
            Some(mut packet) => {
                packet.renew(label.number, size, ecn);
                packet.body.label = label;
                match &mut packet.body.load {
                    Load::Data(used) => *used = *segment,
                    used => *used = Load::Data(*segment),
                }
                packet
            }
            None => new(label, size, ecn, Load::Data(*segment)),
        }
    }

    /// A packet with a unit that was asked for.
    pub(crate) fn unit(&mut self, label: Label, unit: Segment) -> Packet<Body> {
        self.other(label, unit.bytes + UNIT_HEADERS, Codepoint::from(unit.ecn), Load::Data(unit))
    }

    /// A request.
    pub(crate) fn request(&mut self, label: Label, asked: Asked) -> Packet<Body> {
        self.other(label, asked.wire_bytes, Codepoint::NotEct, Load::Request(Box::new(asked)))
    }

    /// A packet of data with telemetry, whose header comes on top.
    pub(crate) fn traced(&mut self, label: Label, ecn: Codepoint, traced: Box<Traced>) -> Packet<Body> {
        let size = traced.segment.wire_bytes() + traced.header.len() as u32;
        self.other(label, size, ecn, Load::Traced(traced))
    }

    /// A packet of cross traffic.
    pub(crate) fn cross(&mut self, label: Label, size: u32) -> Packet<Body> {
        self.other(label, size, Codepoint::NotEct, Load::Cross)
    }

    /// A packet of a node.
    pub(crate) fn bytes(&mut self, label: Label, sent: SentBytes) -> Packet<Body> {
        let size = sent.packet.bytes.len() as u32 + UDP_HEADERS;
        self.other(label, size, sent.packet.ecn, Load::Bytes(Box::new(sent)))
    }

    fn other(&mut self, label: Label, size: u32, ecn: Codepoint, load: Load) -> Packet<Body> {
        match self.others.pop() {
            Some(mut packet) => {
                packet.renew(label.number, size, ecn);
                packet.body = Body { label, load };
                packet
            }
            None => new(label, size, ecn, load),
        }
    }

    /// The next acknowledgement of `receiver` that is due, if any.
    #[inline(always)]
    pub(crate) fn ack(&mut self, label: Label, now: Time, receiver: &mut dyn Receiver) -> Option<Packet<Body>> {
        let fresh = || new(label, 0, Codepoint::NotEct, Load::Ack(Box::default()));
        let mut packet = self.acks.pop().unwrap_or_else(fresh);
        let Load::Ack(ack) = &mut packet.body.load else { return None };
        if !receiver.poll_ack_into(now, ack) {
            self.acks.push(packet);
            return None;
        }
        let size = ack.wire_bytes();
        packet.renew(label.number, size, Codepoint::NotEct);
        packet.body.label = label;
        Some(packet)
    }

    /// A packet has come to its end.
    #[inline(always)]
    pub(crate) fn empty(&mut self, used: Packet<Body>) {
        if let Load::Data(_) = used.body.load {
            self.data.push(used);
        } else if let Load::Ack(_) = used.body.load {
            self.acks.push(used);
        } else {
            self.others.push(used);
        }
    }
}

#[cold]
fn new(label: Label, size: u32, ecn: Codepoint, load: Load) -> Packet<Body> {
    Packet::new(label.number, size, ecn, Body { label, load })
}
