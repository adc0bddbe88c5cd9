//! What packets carry.

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
}

impl Body {
    /// The data, where it is some.
    pub(crate) fn segment(&self) -> Option<&Segment> {
        match self {
            Self::Data(segment) => Some(segment),
            Self::Traced(traced) => Some(&traced.segment),
            Self::Ack(_) | Self::Request(_) | Self::Cross => None,
        }
    }
}
