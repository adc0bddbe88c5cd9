//! Fair queueing without an AQM: a queue for each flow, served by deficit round robin, flows that were silent first. Source: Linux
//! `sch_fq.c`, without what belongs to the host that sends (its sockets' pacing, horizon, low rates). Different: with `maxrate` packets of
//! a flow are apart by their own time at that rate, where Linux lets a quantum of them leave together.

use std::collections::{BTreeSet, VecDeque};

use paceline_cc::{Nanos, Rate, Time};

use super::rounds::{Rounds, Taken};
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
    /// No flow leaves faster.
    pub maxrate: Option<Rate>,
}

impl Default for FqParams {
    /// Linux: two Ethernet frames in a round, ten in the first, 100 packets of a flow.
    fn default() -> Self {
        Self { quantum: 2 * 1514, initial_quantum: 10 * 1514, flow_limit: 100, ce_threshold: None, maxrate: None }
    }
}

/// Fair queue.
pub struct Fq<P> {
    params: FqParams,
    limit: QueueBound,
    rounds: Rounds,
    /// By flow, as many as were seen.
    flows: Vec<Flow<P>>,
    /// Flows that may not send before this moment, though they could.
    held: BTreeSet<(Time, usize)>,
}

struct Flow<P> {
    packets: VecDeque<Packet<P>>,
    /// When its next packet may leave.
    next_at: Time,
}

impl<P> Fq<P> {
    /// Empty queues with a limit for all of them.
    pub fn new(params: FqParams, limit: QueueBound) -> Self {
        let rounds = Rounds::new(params.quantum, params.initial_quantum);
        Self { params, limit, rounds, flows: Vec::new(), held: BTreeSet::new() }
    }
}

impl<P: Send> Queue<P> for Fq<P> {
    fn push(&mut self, _now: Time, packet: Packet<P>, ledger: &mut Ledger<P>) {
        let index = packet.flow as usize;
        if self.flows.len() <= index {
            self.flows.resize_with(index + 1, || Flow { packets: VecDeque::new(), next_at: Time::ZERO });
        }
        let flow = &mut self.flows[index].packets;
        let is_full = flow.len() as u64 >= self.params.flow_limit;
        if is_full || !self.limit.holds(ledger.stats.queued, packet.size) {
            return ledger.drop_full(packet);
        }
        ledger.stats.enter(packet.size);
        flow.push_back(packet);
        self.rounds.arrived(index);
    }

    fn pop(&mut self, now: Time, ledger: &mut Ledger<P>) -> Option<Packet<P>> {
        while let Some((due, flow)) = self.held.first().copied()
            && due <= now
        {
            self.held.pop_first();
            self.rounds.resume(flow);
        }
        let Self { flows, held, rounds, .. } = self;
        let mut packet = rounds.pop(|index| {
            let flow = &mut flows[index];
            if flow.next_at > now && !flow.packets.is_empty() {
                held.insert((flow.next_at, index));
                return Taken::Held;
            }
            flow.packets.pop_front().into()
        })?;
        if let Some(rate) = self.params.maxrate {
            let flow = &mut self.flows[packet.flow as usize];
            let apart = rate.time_for(u64::from(packet.size));
            // What the link was late is made up for, up to half of the time (Linux: "schedule/timers drifts").
            let late = if flow.next_at == Time::ZERO { Nanos::ZERO } else { now.since(flow.next_at) };
            flow.next_at = now + (apart - late.min(apart.mul_div(1, 2)));
        }
        ledger.stats.leave(packet.size);
        if self.params.ce_threshold.is_some_and(|most| now.since(packet.entered) > most) {
            ledger.stats.mark(&mut packet);
        }
        Some(packet)
    }

    fn ready_at(&self) -> Time {
        self.held.first().map_or(Time::NEVER, |(due, _)| *due)
    }

    fn limit(&self) -> QueueBound {
        self.limit
    }
}
