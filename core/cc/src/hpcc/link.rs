//! How full the links of the path are, by two reports of each.

use crate::controller::{Hop, Telemetry};
use crate::path_report::HOP_PACKET_BYTES;
use crate::units::{Nanos, Rate, Time};

/// Hops that are followed (our choice: paths of a limited domain are shorter).
const MOST_HOPS: usize = 8;
/// With more than this waiting at both ends of a span a link was busy throughout (our choice: one may be the report's own).
const BUSY: u64 = HOP_PACKET_BYTES;

/// What a hop said last.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    id: u32,
    queue: u64,
    /// By the hop's clock, where it has one.
    left: Option<Time>,
    capacity: Option<Rate>,
    flows: u32,
}

impl Link {
    fn of(hop: &Hop) -> Option<Self> {
        let left = hop.arrived_at.map(|at| at + hop.delay.unwrap_or(Nanos::ZERO));
        let capacity = hop.capacity.filter(|rate| *rate > Rate::ZERO);
        Some(Self { id: hop.id, queue: hop.queue_bytes?, left, capacity, flows: hop.flows.unwrap_or(1).max(1) })
    }

    /// Since the report `before`, which came `apart` earlier. Clocks that stood still or were set back say nothing.
    fn span(&self, before: &Self, apart: Nanos) -> Option<Nanos> {
        let span = match self.left.zip(before.left) {
            Some((now, then)) => now - then,
            None => apart,
        };
        (span > Nanos::ZERO).then_some(span)
    }

    /// How full the link was in the `span` since `before`: its part of the bytes in flight, and what it sent. The report of `hop` brought it.
    fn utilisation(&self, before: &Self, span: Nanos, hop: &Hop, own: Rate, base: Nanos) -> Option<f64> {
        let capacity = self.capacity?.as_bytes_per_sec() as f64;
        let sent = if self.queue > BUSY && before.queue > BUSY {
            capacity
        } else if let Some(arrival) = hop.arrival.filter(|_| self.left.is_some()) {
            let grown = (self.queue as f64 - before.queue as f64) / span.as_secs_f64();
            (arrival.as_bytes_per_sec() as f64 - grown).clamp(0.0, capacity)
        } else if hop.flows.is_some() {
            (own.as_bytes_per_sec() as f64 * f64::from(self.flows)).min(capacity)
        } else {
            return None;
        };
        let waiting = self.queue.min(before.queue) as f64;
        Some(waiting / (capacity * base.as_secs_f64()) + sent / capacity)
    }
}

/// The links of the path.
#[derive(Clone, Debug, Default)]
pub(super) struct Links {
    known: [Link; MOST_HOPS],
    count: usize,
    at: Time,
    /// What the flow's receiver gets.
    delivered: Rate,
}

impl Links {
    /// The newest sample of the delivery rate.
    pub(super) fn deliver(&mut self, rate: Rate) {
        self.delivered = rate;
    }

    /// Takes a report in: utilisation of the fullest link, and the time over which it was. Nothing where the path is another, or no hop
    /// says enough.
    pub(super) fn take(&mut self, telemetry: &Telemetry<'_>, base: Nanos) -> Option<(f64, Nanos)> {
        let apart = telemetry.now - self.at;
        let (before, count_before) = (self.known, self.count);
        (self.count, self.at) = (0, telemetry.now);
        let mut hops = [None; MOST_HOPS];
        for hop in telemetry.hops {
            if self.count < MOST_HOPS
                && let Some(link) = Link::of(hop)
            {
                self.known[self.count] = link;
                hops[self.count] = Some(*hop);
                self.count += 1;
            }
        }
        let same = self.count == count_before
            && self.known[..self.count].iter().zip(&before).all(|(link, other)| link.id == other.id);
        if !same {
            return None;
        }
        let mut fullest: Option<(f64, Nanos)> = None;
        for ((link, other), hop) in self.known.iter().zip(&before).zip(hops.iter().flatten()) {
            let Some(span) = link.span(other, apart) else { continue };
            if let Some(full) = link.utilisation(other, span, hop, self.delivered, base)
                && fullest.is_none_or(|(most, _)| full > most)
            {
                fullest = Some((full, span));
            }
        }
        fullest
    }

    fn current(&self) -> &[Link] {
        &self.known[..self.count]
    }

    /// Capacity of the slowest link that reports one.
    pub(super) fn slowest(&self) -> Rate {
        self.current().iter().filter_map(|link| link.capacity).min().unwrap_or(Rate::ZERO)
    }

    /// Most flows that a hop has, at least one.
    pub(super) fn flows(&self) -> f64 {
        self.current().iter().map(|link| f64::from(link.flows)).fold(1.0, f64::max)
    }

    /// Time for which packets wait in all the queues.
    pub(super) fn delay(&self) -> Nanos {
        let delays = self.current().iter().filter_map(|link| Some(link.capacity?.time_for(link.queue)));
        delays.fold(Nanos::ZERO, |sum, delay| sum + delay)
    }
}
