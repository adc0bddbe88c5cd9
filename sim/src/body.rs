//! What packets carry.

use paceline_cc::Ecn;
use paceline_path::Codepoint;
use paceline_transport::{AckSegment, Segment};

/// What a packet of the simulator carries. In boxes, so that the stages of a path move little.
#[derive(Clone, Debug)]
pub enum Body {
    /// Data.
    Data(Box<Segment>),
    /// An acknowledgement.
    Ack(Box<AckSegment>),
    /// Cross traffic.
    Cross,
}

pub(crate) fn codepoint(ecn: Ecn) -> Codepoint {
    match ecn {
        Ecn::Off => Codepoint::NotEct,
        Ecn::Classic | Ecn::Exact => Codepoint::Ect0,
        Ecn::L4s => Codepoint::Ect1,
    }
}
