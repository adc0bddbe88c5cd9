//! PIE, proportional integral controller enhanced. Source: RFC 8033: section 4 and its appendix A, with the delay by
//! time stamps (section 5.3 leaves the choice) and ECN by section 5.1.
//!
//! Different: the update that a timer makes every 15 ms is made up for at the next packet. Nothing changes in between,
//! so the result is the same but for the time of an empty queue, which counts as delay 0. Left out: the optional
//! section 5.4 (even spacing of drops) and 5.5 (cap of the step).

use paceline_cc::{Nanos, Time};

use super::{Fifo, Queue, QueueBound};
use crate::fate::Ledger;
use crate::packet::Packet;
use crate::random::{Purpose, Stream};

/// QDELAY_REF, RFC 8033 section 4.2.
pub(super) const TARGET: Nanos = Nanos::from_millis(15);
/// T_UPDATE, RFC 8033 section 4.2.
pub(super) const UPDATE: Nanos = Nanos::from_millis(15);
/// MAX_BURST, RFC 8033 section 4.4.
pub(super) const BURST: Nanos = Nanos::from_millis(150);
/// Weight of the distance from the target, a second; RFC 8033 section 4.2.
const ALPHA: f64 = 0.125;
/// Weight of the change of delay, a second; RFC 8033 section 4.2.
const BETA: f64 = 1.25;
/// MEAN_PKTSIZE, RFC 8033 appendix A: the probability is not applied to a queue of two packets or less.
const PACKET: u64 = 1500;
/// `mark_ecnth`, RFC 8033 section 5.1: above this probability ECN-capable packets are dropped too.
const MARK_UP_TO: f64 = 0.1;

/// PIE queue.
pub struct Pie<P> {
    target: Nanos,
    update: Nanos,
    max_burst: Nanos,
    fifo: Fifo<P>,
    stream: Stream,
    probability: f64,
    delay: Nanos,
    delay_old: Nanos,
    burst: Nanos,
    next_update: Time,
}

impl<P> Pie<P> {
    /// An empty queue with its target delay, time between updates, burst allowance, a drop-tail limit behind them, and
    /// its seed. `update` must be above zero.
    pub fn new(target: Nanos, update: Nanos, max_burst: Nanos, limit: QueueBound, seed: u64) -> Self {
        Self {
            target,
            update,
            max_burst,
            fifo: Fifo::new(limit),
            stream: Stream::new(seed, Purpose::Queue),
            probability: 0.0,
            delay: Nanos::ZERO,
            delay_old: Nanos::ZERO,
            burst: max_burst,
            next_update: Time::ZERO + update,
        }
    }

    /// The drop probability.
    pub fn probability(&self) -> f64 {
        self.probability
    }

    /// Makes the updates that were due by `now`.
    fn catch_up(&mut self, now: Time) {
        while self.next_update <= now {
            let idle = self.probability == 0.0 && self.delay == Nanos::ZERO && self.delay_old == Nanos::ZERO;
            if idle && self.burst == self.max_burst {
                // More updates would change nothing.
                let missed = self.update.times_in(now - self.next_update) + 1;
                self.next_update += self.update.mul_div(missed, 1);
                return;
            }
            self.calculate();
            self.next_update += self.update;
        }
    }

    /// `calculate_drop_prob` of the RFC.
    fn calculate(&mut self) {
        let (delay, old, target) = (self.delay.as_secs_f64(), self.delay_old.as_secs_f64(), self.target.as_secs_f64());
        let step = ALPHA * (delay - target) + BETA * (delay - old);
        let scale = match self.probability {
            p if p < 0.000_001 => 2048.0,
            p if p < 0.000_01 => 512.0,
            p if p < 0.000_1 => 128.0,
            p if p < 0.001 => 32.0,
            p if p < 0.01 => 8.0,
            p if p < 0.1 => 2.0,
            _ => 1.0,
        };
        self.probability += step / scale;
        if self.delay == Nanos::ZERO && self.delay_old == Nanos::ZERO {
            self.probability *= 0.98;
        }
        self.probability = self.probability.clamp(0.0, 1.0);
        self.burst -= self.update;
        let half = self.target.mul_div(1, 2);
        if self.probability == 0.0 && self.delay < half && self.delay_old < half {
            self.burst = self.max_burst;
        }
        self.delay_old = self.delay;
    }

    /// `drop_early` of the RFC: whether to drop or mark a packet that arrives.
    fn hits(&mut self, queued_bytes: u64) -> bool {
        let low = self.delay_old < self.target.mul_div(1, 2) && self.probability < 0.2;
        if self.burst > Nanos::ZERO || low || queued_bytes <= 2 * PACKET {
            return false;
        }
        self.stream.chance(self.probability)
    }
}

impl<P: Send> Queue<P> for Pie<P> {
    fn push(&mut self, now: Time, mut packet: Packet<P>, ledger: &mut Ledger<P>) {
        self.catch_up(now);
        if self.hits(ledger.stats.queued.bytes) && (self.probability > MARK_UP_TO || !ledger.stats.mark(&mut packet)) {
            ledger.drop_early(packet);
        } else {
            self.fifo.push(packet, ledger);
        }
    }

    fn pop(&mut self, now: Time, ledger: &mut Ledger<P>) -> Option<Packet<P>> {
        self.catch_up(now);
        let packet = self.fifo.pop(ledger)?;
        self.delay = if ledger.stats.queued.packets == 0 { Nanos::ZERO } else { now - packet.entered };
        Some(packet)
    }

    fn limit(&self) -> QueueBound {
        self.fifo.limit
    }
}
