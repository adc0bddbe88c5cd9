//! What packets carry.

use paceline_cc::Codepoint;
use paceline_experiment::UdpPacket;
use paceline_experiment::icn::Asked;
use paceline_transport::{AckSegment, Segment};

use crate::telemetry::Traced;

/// What a packet of the simulator carries.
#[derive(Clone, Debug)]
pub enum Body {
    /// Data.
    Data(Segment),
    /// Data with telemetry. In a box, as few flows have it.
    Traced(Box<Traced>),
    /// An acknowledgement. In a box: it is several times as large, and most packets carry data.
    Ack(Box<AckSegment>),
    /// A request for data. In a box, as an acknowledgement.
    Request(Box<Asked>),
    /// Cross traffic.
    Cross,
    /// What nodes send.
    Bytes(Box<SentBytes>),
}

/// A packet of a node.
#[derive(Clone, Debug)]
pub struct SentBytes {
    /// It.
    pub packet: UdpPacket,
    /// The data in it, where it is a flow's.
    pub segment: Option<Segment>,
}

impl SentBytes {
    /// The packet as it has arrived.
    pub(crate) fn arrived(&self, ecn: Codepoint) -> UdpPacket {
        UdpPacket { ecn, ..self.packet.clone() }
    }
}

impl Body {
    /// The data, where it is some.
    pub(crate) fn segment(&self) -> Option<&Segment> {
        match self {
            Self::Data(segment) => Some(segment),
            Self::Traced(traced) => Some(&traced.segment),
            Self::Bytes(bytes) => bytes.segment.as_ref(),
            Self::Ack(_) | Self::Request(_) | Self::Cross => None,
        }
    }
}
