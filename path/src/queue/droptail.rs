//! First in, first out; what finds the queue full is dropped. Without a limit, the infinite queue.

use std::collections::VecDeque;

use paceline_cc::Time;

use super::{Limit, Queue};
use crate::packet::Packet;
use crate::stats::LinkStats;

/// Drop-tail queue.
pub struct DropTail<P> {
    limit: Limit,
    fifo: VecDeque<Packet<P>>,
}

impl<P> DropTail<P> {
    /// An empty queue. A packet that would take it over the limit is dropped.
    pub fn new(limit: Limit) -> Self {
        Self { limit, fifo: VecDeque::new() }
    }
}

impl<P: Send> Queue<P> for DropTail<P> {
    fn push(&mut self, _now: Time, packet: Packet<P>, stats: &mut LinkStats) {
        if self.limit.holds(stats.queued, packet.size) {
            stats.enter(packet.size);
            self.fifo.push_back(packet);
        } else {
            stats.refuse(packet.flow, packet.size);
        }
    }

    fn pop(&mut self, _now: Time, stats: &mut LinkStats) -> Option<Packet<P>> {
        let packet = self.fifo.pop_front()?;
        stats.remove(packet.size);
        Some(packet)
    }
}
