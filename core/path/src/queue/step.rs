//! Step marking: every ECN-capable packet is marked while the queue is over a threshold. Source: Alizadeh et al., "Data
//! Center TCP (DCTCP)", SIGCOMM 2010, section 3.1 (by length at arrival); by delay at departure: Linux
//! `codel` `ce_threshold`, and the step of L4S (the ramp of RFC 9332 appendix A without its width).
//!
//! A packet that is not ECN-capable passes unmarked and is dropped only when the queue is full, as at the switches of
//! the paper: mixed with it, flows without ECN see a plain drop-tail queue.

use paceline_cc::{Nanos, Time};

use super::{Fifo, Queue, QueueBound};
use crate::fate::Ledger;
use crate::packet::Packet;

/// What a step queue compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    /// Waiting bytes when a packet arrives, without it.
    Bytes(u64),
    /// Waiting packets when a packet arrives, without it.
    Packets(u64),
    /// Time that a packet waited, when it goes into service.
    Wait(Nanos),
}

/// Step-marking queue.
pub struct Step<P> {
    threshold: Threshold,
    fifo: Fifo<P>,
}

impl<P> Step<P> {
    /// An empty queue that marks above the threshold, with a drop-tail limit behind it.
    pub fn new(threshold: Threshold, limit: QueueBound) -> Self {
        Self { threshold, fifo: Fifo::new(limit) }
    }
}

impl<P: Send> Queue<P> for Step<P> {
    fn push(&mut self, _now: Time, mut packet: Packet<P>, ledger: &mut Ledger<P>) {
        let over = match self.threshold {
            Threshold::Bytes(most) => ledger.stats.queued.bytes > most,
            Threshold::Packets(most) => ledger.stats.queued.packets > most,
            Threshold::Wait(_) => false,
        };
        if over && self.fifo.limit.holds(ledger.stats.queued, packet.size) {
            ledger.stats.mark(&mut packet);
        }
        self.fifo.push(packet, ledger);
    }

    fn pop(&mut self, now: Time, ledger: &mut Ledger<P>) -> Option<Packet<P>> {
        let mut packet = self.fifo.pop(ledger)?;
        if matches!(self.threshold, Threshold::Wait(most) if now - packet.entered > most) {
            ledger.stats.mark(&mut packet);
        }
        Some(packet)
    }

    fn limit(&self) -> QueueBound {
        self.fifo.limit
    }
}
