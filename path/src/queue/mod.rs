//! Queues in front of a link, one file each, and their names.

mod droptail;
mod spec;

pub use droptail::DropTail;
pub use spec::{Limit, QueueError, QueueSpec};

use paceline_cc::Time;

use crate::packet::Packet;
use crate::stats::LinkStats;

/// A queue with its drop or mark policy. The packet in service is not in it.
///
/// Every packet that goes in, leaves, is dropped or marked is told to `stats`, which also knows the present length
/// ([`LinkStats::queued`]). [`Packet::entered`] is the time at which a packet arrived.
pub trait Queue<P>: Send {
    /// A packet arrives; it may be dropped, or others for it.
    fn push(&mut self, now: Time, packet: Packet<P>, stats: &mut LinkStats);

    /// The next packet to serve; packets may be dropped on the way to it. `None` when the queue is empty.
    fn pop(&mut self, now: Time, stats: &mut LinkStats) -> Option<Packet<P>>;
}
