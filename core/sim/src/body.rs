//! What packets carry.

use paceline_transport::{AckSegment, Segment};

/// What a packet of the simulator carries.
#[derive(Clone, Debug)]
pub enum Body {
    /// Data.
    Data(Segment),
    /// An acknowledgement. In a box: it is several times as large, and most packets carry data.
    Ack(Box<AckSegment>),
    /// Cross traffic.
    Cross,
}
