//! CoDel, controlled delay. Source: RFC 8289, section 5 (the pseudocode), defaults of its section 4.
//!
//! Different: ECN-capable packets are marked where others are dropped, and a mark ends the search for a packet to
//! drop, as in Linux `codel_impl.h`; RFC 8289 leaves marking to the implementation.

use paceline_cc::{Nanos, Time};

use super::{Fifo, Queue, QueueBound};
use crate::fate::Ledger;
use crate::packet::Packet;

/// RFC 8289 section 4.3.
pub(super) const TARGET: Nanos = Nanos::from_millis(5);
/// RFC 8289 section 4.2.
pub(super) const INTERVAL: Nanos = Nanos::from_millis(100);

/// CoDel queue.
pub struct CoDel<P> {
    target: Nanos,
    interval: Nanos,
    fifo: Fifo<P>,
    /// When the delay will have been above target for an interval; `None` while it is below.
    first_above: Option<Time>,
    drop_next: Time,
    count: u32,
    last_count: u32,
    dropping: bool,
    largest: u32,
    /// What waits here; the ledger may be one of several queues.
    bytes: u64,
}

impl<P> CoDel<P> {
    /// An empty queue with its target delay, its interval, and a drop-tail limit behind them.
    pub fn new(target: Nanos, interval: Nanos, limit: QueueBound) -> Self {
        Self {
            target,
            interval,
            fifo: Fifo::new(limit),
            first_above: None,
            drop_next: Time::ZERO,
            count: 0,
            last_count: 0,
            dropping: false,
            largest: 0,
            bytes: 0,
        }
    }

    /// Drops the oldest packet, to make room. Answers whether there was one.
    pub(super) fn drop_oldest(&mut self, ledger: &mut Ledger<P>) -> bool {
        let Some(packet) = self.fifo.pop(ledger) else { return false };
        self.bytes -= u64::from(packet.size);
        ledger.drop_full(packet);
        true
    }

    /// Bytes that wait here.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next packet, and whether its delay has been above target for an interval (`dodequeue` of the RFC).
    fn take(&mut self, now: Time, ledger: &mut Ledger<P>) -> Option<(Packet<P>, bool)> {
        let Some(packet) = self.fifo.pop(ledger) else {
            self.first_above = None;
            return None;
        };
        self.bytes -= u64::from(packet.size);
        let mut drop = false;
        if now - packet.entered < self.target || self.bytes <= u64::from(self.largest) {
            self.first_above = None;
        } else if let Some(at) = self.first_above {
            drop = now >= at;
        } else {
            self.first_above = Some(now + self.interval);
        }
        Some((packet, drop))
    }

    fn control_law(&self, from: Time) -> Time {
        from + self.interval.mul_f64(1.0 / libm::sqrt(f64::from(self.count)))
    }
}

impl<P: Send> Queue<P> for CoDel<P> {
    fn push(&mut self, _now: Time, packet: Packet<P>, ledger: &mut Ledger<P>) {
        self.largest = self.largest.max(packet.size);
        let before = ledger.stats.queued.bytes;
        self.fifo.push(packet, ledger);
        self.bytes += ledger.stats.queued.bytes - before;
    }

    fn pop(&mut self, now: Time, ledger: &mut Ledger<P>) -> Option<Packet<P>> {
        let Some((mut packet, mut drop)) = self.take(now, ledger) else {
            self.dropping = false;
            return None;
        };
        if self.dropping {
            self.dropping = drop;
            while self.dropping && now >= self.drop_next {
                self.count = self.count.saturating_add(1);
                if ledger.stats.mark(&mut packet) {
                    self.drop_next = self.control_law(self.drop_next);
                    break;
                }
                ledger.drop_early(packet);
                let Some(next) = self.take(now, ledger) else {
                    self.dropping = false;
                    return None;
                };
                (packet, drop) = next;
                self.dropping = drop;
                if drop {
                    self.drop_next = self.control_law(self.drop_next);
                }
            }
        } else if drop {
            self.dropping = true;
            // Close to the last time of dropping, start from where it ended (RFC 8289 section 5.6: 16 intervals).
            let recent = now - self.drop_next < self.interval.mul_div(16, 1);
            let grown = self.count - self.last_count;
            self.count = if recent && grown > 1 { grown } else { 1 };
            self.last_count = self.count;
            self.drop_next = self.control_law(now);
            if !ledger.stats.mark(&mut packet) {
                ledger.drop_early(packet);
                return self.take(now, ledger).map(|(packet, _)| packet);
            }
        }
        Some(packet)
    }

    fn limit(&self) -> QueueBound {
        self.fifo.limit
    }
}
