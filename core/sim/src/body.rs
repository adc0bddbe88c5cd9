//! What packets carry.

use paceline_cc::Codepoint;
use paceline_experiment::UdpPacket;
use paceline_experiment::icn::Asked;
use paceline_transport::{AckSegment, Segment};

use crate::telemetry::Traced;

/// A packet of the simulator: whose it is, and what it carries.
#[derive(Clone, Debug)]
pub struct Body {
    pub(crate) label: Label,
    pub(crate) load: Load,
}

/// Whose a packet is; its flow may have ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label {
    /// The number of the flow.
    pub(crate) number: u32,
    /// Its way, among the distinct ones.
    pub(crate) way: u32,
    /// Index of the configured flow in whose figures it is.
    pub(crate) family: Option<u32>,
}

/// What a packet carries.
#[derive(Clone, Debug)]
pub(crate) enum Load {
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
pub(crate) struct SentBytes {
    /// It.
    pub(crate) packet: UdpPacket,
    /// The data in it, where it is a flow's.
    pub(crate) segment: Option<Segment>,
}

impl SentBytes {
    /// The packet as it has arrived.
    pub(crate) fn arrived(&self, ecn: Codepoint) -> UdpPacket {
        UdpPacket { ecn, ..self.packet.clone() }
    }
}

impl Load {
    /// The data, where it is some.
    #[inline]
    pub(crate) fn segment(&self) -> Option<&Segment> {
        match self {
            Self::Data(segment) => Some(segment),
            Self::Traced(traced) => Some(&traced.segment),
            Self::Bytes(bytes) => bytes.segment.as_ref(),
            Self::Ack(_) | Self::Request(_) | Self::Cross => None,
        }
    }
}
