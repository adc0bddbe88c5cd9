//! FQ-CoDel: a CoDel queue for each flow, served by deficit round robin, flows that were silent first. Source: RFC 8290.
//!
//! Different: flows have numbers here, so that no hash is needed; their number is taken modulo that of the queues. When the queues
//! together exceed the limit, the longest in bytes loses its oldest packet, one for each that comes too many (RFC 8290 section 4.1;
//! Linux `sch_fq_codel.c` drops up to 64 at once).

use std::collections::VecDeque;

use paceline_cc::{Nanos, Time};

use super::{CoDel, Queue, QueueBound};
use crate::fate::Ledger;
use crate::packet::Packet;

/// Number of queues (RFC 8290 section 5.2.4; Linux `sch_fq_codel.c`).
const QUEUES: u32 = 1024;

/// FQ-CoDel queue.
pub struct FqCoDel<P> {
    target: Nanos,
    interval: Nanos,
    /// Bytes that a queue may send in a round.
    quantum: i64,
    limit: QueueBound,
    /// By flow, as many as were seen.
    flows: Vec<Flow<P>>,
    /// Numbers of the queues with packets: those that were silent, and the others.
    new: VecDeque<usize>,
    old: VecDeque<usize>,
}

struct Flow<P> {
    queue: CoDel<P>,
    deficit: i64,
    listed: bool,
}

impl<P: Send> FqCoDel<P> {
    /// Empty queues with CoDel's target and interval, the bytes that each may send in a round, and a limit for all of them.
    pub fn new(target: Nanos, interval: Nanos, quantum: u64, limit: QueueBound) -> Self {
        let quantum = i64::try_from(quantum).unwrap_or(i64::MAX / 2);
        let (flows, new, old) = Default::default();
        Self { target, interval, quantum, limit, flows, new, old }
    }
}

impl<P: Send> Queue<P> for FqCoDel<P> {
    fn push(&mut self, now: Time, packet: Packet<P>, ledger: &mut Ledger<P>) {
        let index = (packet.flow % QUEUES) as usize;
        while self.flows.len() <= index {
            let queue = CoDel::new(self.target, self.interval, QueueBound::NONE);
            self.flows.push(Flow { queue, deficit: 0, listed: false });
        }
        let fits = self.limit.holds(ledger.stats.queued, packet.size);
        let flow = &mut self.flows[index];
        flow.queue.push(now, packet, ledger);
        if !flow.listed {
            (flow.listed, flow.deficit) = (true, self.quantum);
            self.new.push_back(index);
        }
        let mut over = !fits;
        while over {
            let longest = self.flows.iter_mut().max_by_key(|flow| flow.queue.bytes());
            over =
                longest.is_some_and(|flow| flow.queue.drop_oldest(ledger)) && self.limit.exceeded(ledger.stats.queued);
        }
    }

    fn pop(&mut self, now: Time, ledger: &mut Ledger<P>) -> Option<Packet<P>> {
        loop {
            let fresh = !self.new.is_empty();
            let list = if fresh { &mut self.new } else { &mut self.old };
            let index = *list.front()?;
            let flow = &mut self.flows[index];
            if flow.deficit <= 0 {
                flow.deficit += self.quantum;
                list.pop_front();
                self.old.push_back(index);
                continue;
            }
            if let Some(packet) = flow.queue.pop(now, ledger) {
                flow.deficit -= i64::from(packet.size);
                return Some(packet);
            }
            list.pop_front();
            if fresh {
                // Behind the others once, so that it cannot stay ahead of them by being silent for a moment.
                self.old.push_back(index);
            } else {
                flow.listed = false;
            }
        }
    }

    fn limit(&self) -> QueueBound {
        self.limit
    }
}
