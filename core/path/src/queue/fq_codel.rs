//! FQ-CoDel: a CoDel queue for each flow, served by deficit round robin, flows that were silent first. Source: RFC 8290.
//!
//! Different: flows have numbers here, so that no hash is needed; their number is taken modulo that of the queues. When the queues
//! together exceed the limit, the longest in bytes loses its oldest packet, one for each that comes too many (RFC 8290 section 4.1;
//! Linux `sch_fq_codel.c` drops up to 64 at once).

use paceline_cc::{Nanos, Time};

use super::rounds::Rounds;
use super::{CoDel, Queue, QueueBound};
use crate::fate::Ledger;
use crate::packet::Packet;

/// Number of queues (RFC 8290 section 5.2.4; Linux `sch_fq_codel.c`).
const QUEUES: u32 = 1024;

/// FQ-CoDel queue.
pub struct FqCoDel<P> {
    target: Nanos,
    interval: Nanos,
    limit: QueueBound,
    rounds: Rounds,
    /// By flow, as many as were seen.
    flows: Vec<CoDel<P>>,
}

impl<P: Send> FqCoDel<P> {
    /// Empty queues with CoDel's target and interval, the bytes that each may send in a round, and a limit for all of them.
    pub fn new(target: Nanos, interval: Nanos, quantum: u64, limit: QueueBound) -> Self {
        Self { target, interval, limit, rounds: Rounds::new(quantum, quantum), flows: Vec::new() }
    }
}

impl<P: Send> Queue<P> for FqCoDel<P> {
    fn push(&mut self, now: Time, packet: Packet<P>, ledger: &mut Ledger<P>) {
        let index = (packet.flow % QUEUES) as usize;
        while self.flows.len() <= index {
            self.flows.push(CoDel::new(self.target, self.interval, QueueBound::NONE));
        }
        let fits = self.limit.holds(ledger.stats.queued, packet.size);
        self.flows[index].push(now, packet, ledger);
        self.rounds.arrived(index);
        let mut over = !fits;
        while over {
            let longest = self.flows.iter_mut().max_by_key(|flow| flow.bytes());
            over = longest.is_some_and(|flow| flow.drop_oldest(ledger)) && self.limit.exceeded(ledger.stats.queued);
        }
    }

    fn pop(&mut self, now: Time, ledger: &mut Ledger<P>) -> Option<Packet<P>> {
        self.rounds.pop(|flow| self.flows[flow].pop(now, ledger).into())
    }

    fn limit(&self) -> QueueBound {
        self.limit
    }
}
