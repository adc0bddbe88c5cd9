//! First in, first out; what finds the queue full is dropped. Without a limit, the infinite queue.

use paceline_cc::Time;

use super::{Fifo, Queue, QueueBound};
use crate::fate::Ledger;
use crate::packet::Packet;

/// Drop-tail queue.
pub struct DropTail<P>(Fifo<P>);

impl<P> DropTail<P> {
    /// An empty queue. A packet that would take it over the limit is dropped.
    pub fn new(limit: QueueBound) -> Self {
        Self(Fifo::new(limit))
    }
}

impl<P: Send> Queue<P> for DropTail<P> {
    fn push(&mut self, _now: Time, packet: Packet<P>, ledger: &mut Ledger<P>) {
        self.0.push(packet, ledger);
    }

    fn pop(&mut self, _now: Time, ledger: &mut Ledger<P>) -> Option<Packet<P>> {
        self.0.pop(ledger)
    }

    fn limit(&self) -> QueueBound {
        self.0.limit
    }
}
