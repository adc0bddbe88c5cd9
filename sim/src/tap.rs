//! Watching a run packet by packet, for logs. Figures come from [`crate::Outcome`].

use paceline_cc::Time;
use paceline_path::Split;
use paceline_transport::{AckSegment, Segment, Sender};

/// Sees every packet of every flow. All methods do nothing unless overridden. `flow` counts the flows of the world in
/// the order in which they started.
pub trait Tap {
    /// A data packet left its sender.
    fn on_sent(&mut self, _now: Time, _flow: u32, _segment: &Segment) {}

    /// A data packet reached its receiver.
    fn on_arrival(&mut self, _now: Time, _flow: u32, _segment: &Segment, _ce: bool, _delay: &Split) {}

    /// An acknowledgement reached its sender, which has digested it.
    fn on_ack(&mut self, _now: Time, _flow: u32, _ack: &AckSegment, _sender: &dyn Sender) {}

    /// A sender's timer fired.
    fn on_timer(&mut self, _now: Time, _flow: u32, _sender: &dyn Sender) {}
}
