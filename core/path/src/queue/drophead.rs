//! First in, first out; where an arriving packet does not fit in, the oldest are dropped for it (Lakshman, Neidhardt
//! and Ott, "The Drop from Front Strategy in TCP and in TCP over ATM", INFOCOM 1996: the sender learns of it sooner).

use paceline_cc::Time;

use super::{Fifo, Queue, QueueBound};
use crate::fate::Ledger;
use crate::packet::Packet;

/// Drop-head queue.
pub struct DropHead<P>(Fifo<P>);

impl<P> DropHead<P> {
    /// An empty queue. Only a packet that is larger than the whole queue is itself dropped.
    pub fn new(limit: QueueBound) -> Self {
        Self(Fifo::new(limit))
    }
}

impl<P: Send> Queue<P> for DropHead<P> {
    fn push(&mut self, _now: Time, packet: Packet<P>, ledger: &mut Ledger<P>) {
        while !self.0.limit.holds(ledger.stats.queued, packet.size) {
            let Some(oldest) = self.0.pop(ledger) else { break };
            ledger.drop_full(oldest);
        }
        self.0.push(packet, ledger);
    }

    fn pop(&mut self, _now: Time, ledger: &mut Ledger<P>) -> Option<Packet<P>> {
        self.0.pop(ledger)
    }

    fn limit(&self) -> QueueBound {
        self.0.limit
    }
}
