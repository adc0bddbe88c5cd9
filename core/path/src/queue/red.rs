//! RED, random early detection. Source: Floyd and Jacobson, "Random Early Detection Gateways for Congestion
//! Avoidance", ToN 1(4), 1993 (section IV, the algorithm in its figure 2); gentle: Floyd, "Recommendation on using the
//! gentle variant of RED", 2000; defaults: Floyd, "RED: Discussions of Setting Parameters", 1997.
//!
//! The queue is measured in packets. Different: ECN-capable packets are marked where others are dropped, but for the
//! region above twice the upper threshold, where all are dropped (RFC 3168 section 7).

use paceline_cc::{Nanos, Time};

use super::{Fifo, Queue, QueueBound};
use crate::fate::Ledger;
use crate::packet::Packet;
use crate::random::{Purpose, Stream};

/// Parameters of RED.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedParams {
    /// Mean queue in packets above which packets are dropped at random.
    pub min: f64,
    /// Mean queue in packets at which `probability` is reached; it rises to 1 at twice this (gentle).
    pub max: f64,
    /// Probability of a drop at `max`.
    pub probability: f64,
    /// Weight of a new sample in the mean queue.
    pub weight: f64,
}

impl Default for RedParams {
    /// `min` 5, `max` three times that, `probability` 0.1, `weight` 0.002 (Floyd 1997).
    fn default() -> Self {
        Self { min: 5.0, max: 15.0, probability: 0.1, weight: 0.002 }
    }
}

/// RED queue, gentle.
pub struct Red<P> {
    params: RedParams,
    fifo: Fifo<P>,
    stream: Stream,
    /// Time of a typical packet on the link, by which the mean decays while the queue is empty.
    packet_time: Nanos,
    mean: f64,
    /// Packets since the last drop; `None` while the mean is below `min`.
    since: Option<u32>,
    /// Since when the queue is empty.
    empty: Option<Time>,
}

impl<P> Red<P> {
    /// An empty queue with a drop-tail limit behind it, and its seed.
    pub fn new(params: RedParams, packet_time: Nanos, limit: QueueBound, seed: u64) -> Self {
        let stream = Stream::new(seed, Purpose::Queue);
        let empty = Some(Time::ZERO);
        Self { params, fifo: Fifo::new(limit), stream, packet_time, mean: 0.0, since: None, empty }
    }

    /// The mean queue in packets.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    fn measure(&mut self, now: Time, queued: u64) {
        let weight = self.params.weight;
        if let Some(empty) = self.empty {
            let missed = (now - empty).as_nanos() as f64 / self.packet_time.as_nanos().max(1) as f64;
            self.mean *= libm::pow(1.0 - weight, missed);
            self.empty = Some(now);
        } else {
            self.mean += weight * (queued as f64 - self.mean);
        }
    }

    /// Probability of a drop at the present mean, before spacing.
    fn chance(&self) -> f64 {
        let RedParams { min, max, probability, .. } = self.params;
        if self.mean < max {
            probability * (self.mean - min) / (max - min)
        } else {
            probability + (1.0 - probability) * (self.mean - max) / max
        }
    }
}

impl<P: Send> Queue<P> for Red<P> {
    fn push(&mut self, now: Time, mut packet: Packet<P>, ledger: &mut Ledger<P>) {
        self.measure(now, ledger.stats.queued.packets);
        if self.mean >= 2.0 * self.params.max {
            self.since = Some(0);
            return ledger.drop_early(packet);
        }
        if self.mean >= self.params.min {
            let since = self.since.map_or(0, |since| since.saturating_add(1));
            let spread = 1.0 - f64::from(since) * self.chance();
            // So that drops are uniformly 1 to 1/p - 1 packets apart (section VII; counted as in figure 2).
            let hit = spread <= 0.0 || self.stream.chance(self.chance() / spread);
            self.since = Some(if hit { 0 } else { since });
            if hit && !ledger.stats.mark(&mut packet) {
                return ledger.drop_early(packet);
            }
        } else {
            self.since = None;
        }
        self.fifo.push(packet, ledger);
        if ledger.stats.queued.packets > 0 {
            self.empty = None;
        }
    }

    fn pop(&mut self, now: Time, ledger: &mut Ledger<P>) -> Option<Packet<P>> {
        let packet = self.fifo.pop(ledger)?;
        if ledger.stats.queued.packets == 0 {
            self.empty = Some(now);
        }
        Some(packet)
    }

    fn limit(&self) -> QueueBound {
        self.fifo.limit
    }
}
