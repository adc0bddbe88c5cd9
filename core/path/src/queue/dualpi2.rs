//! DualPI2, the coupled dual-queue AQM of L4S. Source: RFC 9332, section 2 and appendix A (the pseudocode, with
//! the overload handling of A.2); scheduler and default gains: Linux `sch_dualpi2.c`.
//!
//! ECT(1) and CE go to the low-latency queue L, the rest to the classic queue C. One PI controller of their delay makes
//! p', from which C is dropped or marked with p'^2 and L marked with k p' or by its own threshold, whichever is more.
//!
//! Overload (RFC 9332 section 4.2) begins where k p' reaches 1 and marks can say no more. From there on both queues are
//! dropped from with p'^2, whatever their codepoints, and what passes of L is marked. What finds the limit reached is
//! dropped from either queue before any of this.
//!
//! Different: the update that a timer makes is made up for at the next packet; nothing changes in between, so the
//! result is the same. C is protected from L by Linux's credits, one of the weighted round robins that the RFC
//! allows; they are set back when a packet finds both queues empty, where Linux does so when there is none to send. L's
//! own threshold is by default Linux's step, and the ramp of the RFC when it has a range; it and k p' make one probability, as
//! in the RFC, where Linux tries one after the other. The step passes by a packet that leaves L empty (the RFC's `Th_len`),
//! where Linux marks it too (`th_len=0`): on a link on which a packet takes longer to send than the step, each packet that finds
//! another on the wire would be marked, and a flow of L starves beside one of C. Flows that pace then share such a link by
//! chance: each time two meet, one waits, so that a fast and a slow flow get the same number of marks.
//! From Linux (the RFC has nothing like it): while less than two packets wait, nothing is dropped or marked with p' or what
//! follows from it. Left out: Linux's choice to let the buffer overflow in overload.

use std::fmt;

use paceline_cc::units::span_text;
use paceline_cc::{Codepoint, Nanos, Time};

use super::{Fifo, Queue, QueueBound};
use crate::fate::Ledger;
use crate::packet::Packet;
use crate::random::{Purpose, Stream};

/// How the packets to drop or mark are chosen at a given probability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// By adding up probabilities, evenly spaced (`recur` of RFC 9332 appendix A).
    Even,
    /// By a draw for each packet (Linux). Flows whose packets alternate regularly then share the marks.
    Random,
}

/// Parameters of DualPI2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DualPi2Params {
    /// Delay of C to settle at.
    pub target: Nanos,
    /// Time between updates of the probability; above zero.
    pub tupdate: Nanos,
    /// Integral gain at an update, a second of distance from the target.
    pub alpha: f64,
    /// Proportional gain at an update, a second of change.
    pub beta: f64,
    /// Coupling factor; above zero.
    pub k: f64,
    /// Delay of L above which it is marked.
    pub step: Nanos,
    /// By how much more delay every packet of L is marked; zero: by none.
    pub range: Nanos,
    /// No mark by its own threshold on an L of this many packets, the one that leaves included (`Th_len`, RFC 9332 appendix A).
    pub th_len: usize,
    /// Share of the bytes that C has at least while both queues are filled, 0 to 1.
    pub protection: f64,
    /// Which packets are dropped or marked.
    pub spacing: Spacing,
}

impl Default for DualPi2Params {
    /// Target 15 ms, update every 16 ms, gains 0.16 and 3.2, coupling 2 (RFC 9332 appendix A.1, with 16 ms as in
    /// Linux), step at 1 ms and a tenth for C (Linux), no step on a packet that leaves L empty and evenly spaced (RFC 9332
    /// appendix A).
    fn default() -> Self {
        Self {
            target: Nanos::from_millis(15),
            tupdate: Nanos::from_millis(16),
            alpha: 0.16,
            beta: 3.2,
            k: 2.0,
            step: Nanos::from_millis(1),
            range: Nanos::ZERO,
            th_len: 1,
            protection: 0.1,
            spacing: Spacing::Even,
        }
    }
}

impl DualPi2Params {
    /// Probability of a mark by L's own threshold at this delay (RFC 9332 appendix A, `laqm`).
    fn native(&self, delay: Nanos) -> f64 {
        if delay <= self.step {
            0.0
        } else if delay >= self.step + self.range {
            1.0
        } else {
            (delay - self.step).as_secs_f64() / self.range.as_secs_f64()
        }
    }
}

/// As keys: `target=15ms,tupdate=16ms,...`.
impl fmt::Display for DualPi2Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target, tupdate, alpha, beta, k, step, range, th_len, protection, spacing } = self;
        write!(f, "target={},tupdate={}", span_text(*target), span_text(*tupdate))?;
        write!(f, ",alpha={alpha},beta={beta},k={k}")?;
        write!(f, ",step={},range={},th_len={th_len}", span_text(*step), span_text(*range))?;
        let spacing = if *spacing == Spacing::Even { "even" } else { "random" };
        write!(f, ",protection={protection},spacing={spacing}")
    }
}

/// Bytes of a full packet (Linux: the MTU of the device).
const PACKET: u64 = 1500;
/// Bytes behind a packet that leaves, below which p' counts as zero (Linux `must_drop`).
const LEAST_BACKLOG: u64 = 2 * PACKET;

/// Chooses packets at given probabilities, for one of the queues.
struct Chooser {
    /// Sum of probabilities, for even spacing.
    count: f64,
    /// For random spacing.
    stream: Option<Stream>,
}

impl Chooser {
    fn hits(&mut self, probability: f64) -> bool {
        if let Some(stream) = &mut self.stream {
            return stream.chance(probability);
        }
        self.count += probability;
        let hit = self.count > 1.0;
        if hit {
            self.count -= 1.0;
        }
        hit
    }
}

/// One of the two queues.
struct Lane<P> {
    fifo: Fifo<P>,
    chooser: Chooser,
}

impl<P> Lane<P> {
    fn new(limit: QueueBound, stream: Option<Stream>) -> Self {
        Self { fifo: Fifo::new(limit), chooser: Chooser { count: 0.0, stream } }
    }

    fn is_empty(&self) -> bool {
        self.fifo.packets.is_empty()
    }

    /// How long its oldest packet has waited by `now`; zero when it is empty.
    fn delay(&self, now: Time) -> Nanos {
        self.fifo.packets.front().map_or(Nanos::ZERO, |packet| now - packet.entered)
    }
}

/// DualPI2 queue.
pub struct DualPi2<P> {
    params: DualPi2Params,
    low: Lane<P>,
    classic: Lane<P>,
    /// p'.
    probability: f64,
    delay_old: Nanos,
    next_update: Time,
    /// Weighted bytes that L is ahead of C: L goes first up to zero.
    credit: f64,
}

impl<P> DualPi2<P> {
    /// Two empty queues with a drop-tail limit behind both together, and the seed of random spacing.
    pub fn new(params: DualPi2Params, limit: QueueBound, seed: u64) -> Self {
        let stream = |purpose| (params.spacing == Spacing::Random).then(|| Stream::new(seed, purpose));
        Self {
            params,
            low: Lane::new(limit, stream(Purpose::QueueLow)),
            classic: Lane::new(limit, stream(Purpose::Queue)),
            probability: 0.0,
            delay_old: Nanos::ZERO,
            next_update: Time::ZERO + params.tupdate,
            credit: 0.0,
        }
    }

    /// The output of the PI controller, p' in the RFC.
    pub fn probability(&self) -> f64 {
        self.probability
    }

    /// Probability of a drop or mark in C: p_C = p'^2.
    pub fn classic_probability(&self) -> f64 {
        self.probability * self.probability
    }

    /// Probability of a mark in L by what C needs: p_CL = k p', at most 1, where overload begins.
    pub fn coupled_probability(&self) -> f64 {
        (self.params.k * self.probability).min(1.0)
    }

    /// p_Cmax = min(1 / k^2, 1): from here on ECN-capable packets of C are dropped too (RFC 9332 appendix A).
    fn classic_most(&self) -> f64 {
        (1.0 / (self.params.k * self.params.k)).min(1.0)
    }

    /// Whether p' counts for a packet that has been taken out.
    fn controls(ledger: &Ledger<P>) -> bool {
        ledger.stats.queued.bytes >= LEAST_BACKLOG
    }

    /// Makes the updates that were due by `now`.
    fn catch_up(&mut self, now: Time) {
        while self.next_update <= now {
            let empty = self.low.is_empty() && self.classic.is_empty();
            if empty && self.probability == 0.0 && self.delay_old == Nanos::ZERO {
                // More updates would change nothing.
                let missed = self.params.tupdate.times_in(now - self.next_update) + 1;
                self.next_update += self.params.tupdate.mul_div(missed, 1);
                return;
            }
            self.update(self.next_update);
            self.next_update += self.params.tupdate;
        }
    }

    /// `dualpi2_update` of the RFC, with the longer of the two delays so that L alone is controlled too (its A.2).
    fn update(&mut self, now: Time) {
        let DualPi2Params { target, alpha, beta, .. } = self.params;
        let delay = self.low.delay(now).max(self.classic.delay(now));
        let (current, old) = (delay.as_secs_f64(), self.delay_old.as_secs_f64());
        let step = alpha * (current - target.as_secs_f64()) + beta * (current - old);
        self.probability = (self.probability + step).clamp(0.0, 1.0);
        self.delay_old = delay;
    }

    /// The next packet of L, marked or dropped (`None`).
    fn take_low(&mut self, now: Time, ledger: &mut Ledger<P>) -> Option<Packet<P>> {
        let short = self.low.fifo.packets.len() <= self.params.th_len;
        let native = if short { 0.0 } else { self.params.native(self.low.delay(now)) };
        let mut packet = self.low.fifo.pop(ledger)?;
        let (classic, coupled) =
            if Self::controls(ledger) { (self.classic_probability(), self.coupled_probability()) } else { (0.0, 0.0) };
        if coupled >= 1.0 && self.low.chooser.hits(classic) {
            ledger.drop_early(packet);
            return None;
        }
        if self.low.chooser.hits(native.max(coupled)) {
            ledger.stats.mark(&mut packet);
        }
        Some(packet)
    }

    /// The next packet of C, marked or dropped (`None`).
    fn take_classic(&mut self, ledger: &mut Ledger<P>) -> Option<Packet<P>> {
        let mut packet = self.classic.fifo.pop(ledger)?;
        let probability = if Self::controls(ledger) { self.classic_probability() } else { 0.0 };
        let hit = self.classic.chooser.hits(probability);
        if hit && (probability >= self.classic_most() || !ledger.stats.mark(&mut packet)) {
            ledger.drop_early(packet);
            return None;
        }
        Some(packet)
    }
}

impl<P: Send> Queue<P> for DualPi2<P> {
    fn push(&mut self, now: Time, packet: Packet<P>, ledger: &mut Ledger<P>) {
        self.catch_up(now);
        if ledger.stats.queued.packets == 0 {
            // Weight of C less that of L: L begins.
            self.credit = (2.0 * self.params.protection - 1.0) * PACKET as f64;
        }
        let lane = match packet.ecn {
            Codepoint::Ect1 | Codepoint::Ce => &mut self.low,
            Codepoint::NotEct | Codepoint::Ect0 => &mut self.classic,
        };
        lane.fifo.push(packet, ledger);
    }

    fn pop(&mut self, now: Time, ledger: &mut Ledger<P>) -> Option<Packet<P>> {
        self.catch_up(now);
        while ledger.stats.queued.packets > 0 {
            let both = !self.low.is_empty() && !self.classic.is_empty();
            let low_first = !self.low.is_empty() && (!both || self.credit <= 0.0);
            let packet = if low_first { self.take_low(now, ledger) } else { self.take_classic(ledger) };
            let Some(packet) = packet else { continue };
            if both {
                let share = self.params.protection;
                let weight = if low_first { share } else { share - 1.0 };
                self.credit += weight * f64::from(packet.size);
            }
            return Some(packet);
        }
        None
    }

    fn limit(&self) -> QueueBound {
        self.low.fifo.limit
    }
}

#[cfg(test)]
mod tests;
