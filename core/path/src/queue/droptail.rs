//! First in, first out; what finds the queue full is dropped. Without a limit, the infinite queue.

use paceline_cc::Time;

use super::{Fifo, Queue, QueueBound};
use crate::changing::Changing;
use crate::fate::Ledger;
use crate::packet::Packet;

/// Drop-tail queue.
pub struct DropTail<P> {
    fifo: Fifo<P>,
    limit: Changing<QueueBound>,
}

impl<P> DropTail<P> {
    /// An empty queue. A packet that would take it over the limit is dropped; what waits when the limit falls stays.
    pub fn new(limit: impl Into<Changing<QueueBound>>) -> Self {
        let limit = limit.into();
        Self { fifo: Fifo::new(limit.value()), limit }
    }
}

impl<P: Send> Queue<P> for DropTail<P> {
    fn push(&mut self, now: Time, packet: Packet<P>, ledger: &mut Ledger<P>) {
        if self.limit.advance(now) {
            self.fifo.limit = self.limit.value();
        }
        self.fifo.push(packet, ledger);
    }

    fn pop(&mut self, _now: Time, ledger: &mut Ledger<P>) -> Option<Packet<P>> {
        self.fifo.pop(ledger)
    }

    fn limit(&self) -> QueueBound {
        self.fifo.limit
    }

    fn most(&self) -> QueueBound {
        self.limit.values().reduce(QueueBound::or_more).unwrap_or(QueueBound::NONE)
    }
}
