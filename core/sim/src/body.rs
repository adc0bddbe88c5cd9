//! What packets carry.

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
