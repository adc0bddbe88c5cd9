//! Fair queueing without an AQM: a queue for each flow, served by deficit round robin, flows that were silent first. Source: Linux
//! `sch_fq.c`, without what belongs to the host that sends (pacing, horizon, low rates).

use std::collections::VecDeque;

use paceline_cc::{Nanos, Time};

use super::rounds::Rounds;
use super::{Queue, QueueBound};
use crate::fate::Ledger;
use crate::packet::Packet;

/// Parameters of fair queueing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FqParams {
    /// Bytes of a flow in a round.
    pub quantum: u64,
    /// Bytes of a flow in its first round.
    pub initial_quantum: u64,
    /// Most packets of a flow that wait.
    pub flow_limit: u64,
    /// Packets that waited longer are marked as they leave.
    pub ce_threshold: Option<Nanos>,
}

impl Default for FqParams {
    /// Linux: two Ethernet frames in a round, ten in the first, 100 packets of a flow.
    fn default() -> Self {
        Self { quantum: 2 * 1514, initial_quantum: 10 * 1514, flow_limit: 100, ce_threshold: None }
    }
}

/// Fair queue.
pub struct Fq<P> {
    params: FqParams,
    limit: QueueBound,
    rounds: Rounds,
    /// By flow, as many as were seen.
    flows: Vec<VecDeque<Packet<P>>>,
}

impl<P> Fq<P> {
    /// Empty queues with a limit for all of them.
    pub fn new(params: FqParams, limit: QueueBound) -> Self {
        Self { params, limit, rounds: Rounds::new(params.quantum, params.initial_quantum), flows: Vec::new() }
    }
}

impl<P: Send> Queue<P> for Fq<P> {
    fn push(&mut self, _now: Time, packet: Packet<P>, ledger: &mut Ledger<P>) {
        let index = packet.flow as usize;
        if self.flows.len() <= index {
            self.flows.resize_with(index + 1, VecDeque::new);
        }
        let flow = &mut self.flows[index];
        let is_full = flow.len() as u64 >= self.params.flow_limit;
        if is_full || !self.limit.holds(ledger.stats.queued, packet.size) {
            return ledger.drop_full(packet);
        }
        ledger.stats.enter(packet.size);
        flow.push_back(packet);
        self.rounds.arrived(index);
    }

    fn pop(&mut self, now: Time, ledger: &mut Ledger<P>) -> Option<Packet<P>> {
        let mut packet = self.rounds.pop(|flow| self.flows[flow].pop_front())?;
        ledger.stats.leave(packet.size);
        if self.params.ce_threshold.is_some_and(|most| now.since(packet.entered) > most) {
            ledger.stats.mark(&mut packet);
        }
        Some(packet)
    }

    fn limit(&self) -> QueueBound {
        self.limit
    }
}
