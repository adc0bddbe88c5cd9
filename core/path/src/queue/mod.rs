//! Queues in front of a link, one file each, and their names.

mod codel;
mod drophead;
mod droptail;
mod dualpi2;
mod fq;
mod fq_codel;
mod keys;
mod pie;
mod red;
mod rounds;
mod spec;
mod step;

pub use codel::CoDel;
pub use drophead::DropHead;
pub use droptail::DropTail;
pub use dualpi2::{DualPi2, DualPi2Params, Spacing};
pub use fq::{Fq, FqParams};
pub use fq_codel::FqCoDel;
pub use pie::Pie;
pub use red::{Red, RedParams};
pub use spec::{QUEUES, QueueBound, QueueError, QueueSpec, TYPICAL_PACKET};
pub use step::{Step, Threshold};

use std::collections::VecDeque;

use paceline_cc::Time;

use crate::fate::Ledger;
use crate::packet::Packet;

/// A queue with its drop or mark policy. The packet in service is not in it.
///
/// Every packet that goes in, leaves, is dropped or marked is reported to `ledger`, which also knows the present length
/// ([`crate::LinkStats::queued`]). [`Contents::entered`](crate::Contents::entered) is the time at which a packet arrived.
pub trait Queue<P>: Send {
    /// A packet arrives; it may be dropped, or others for it.
    fn push(&mut self, now: Time, packet: Packet<P>, ledger: &mut Ledger<P>);

    /// The next packet to serve; packets may be dropped on the way to it. `None` when the queue is empty.
    fn pop(&mut self, now: Time, ledger: &mut Ledger<P>) -> Option<Packet<P>>;

    /// When it may serve again what it holds back; [`Time::NEVER`] where it holds nothing back.
    fn ready_at(&self) -> Time {
        Time::NEVER
    }

    /// How much it holds, in bytes and packets.
    fn limit(&self) -> QueueBound;

    /// The most that it will ever hold, where the limit changes.
    fn most(&self) -> QueueBound {
        self.limit()
    }
}

/// What all queues here are made of: first in, first out, up to a limit.
struct Fifo<P> {
    limit: QueueBound,
    packets: VecDeque<Packet<P>>,
}

impl<P> Fifo<P> {
    fn new(limit: QueueBound) -> Self {
        Self { limit, packets: VecDeque::new() }
    }

    /// Puts a packet in, or drops it when it would take the queue over its limit.
    #[inline]
    fn push(&mut self, packet: Packet<P>, ledger: &mut Ledger<P>) {
        let in_time = self.limit.time.is_none_or(|most| ledger.wait < most);
        if in_time && self.limit.holds(ledger.stats.queued, packet.size) {
            ledger.stats.enter(packet.size);
            self.packets.push_back(packet);
        } else {
            ledger.drop_full(packet);
        }
    }

    #[inline]
    fn pop(&mut self, ledger: &mut Ledger<P>) -> Option<Packet<P>> {
        let packet = self.packets.pop_front()?;
        ledger.stats.leave(packet.size);
        Some(packet)
    }
}

#[cfg(test)]
mod tests;
