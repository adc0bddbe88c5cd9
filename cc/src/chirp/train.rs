//! One train of packets in flight, and what its return tells of the path.
//!
//! Source: Misund and Briscoe, "Paced Chirping" (2019), and the modules released with it; what is done about shared,
//! late and missing acknowledgements is ours.

use crate::controller::Acked;
use crate::units::{Nanos, Time};

use super::analysis::available_gap;
use super::geometry::LONGEST;

/// Fewer exact samples than this give no estimate: a rise that lasts needs a few packets before it and in it.
pub(super) const FEWEST: usize = 4;
/// The module of 2018: a chirp tells nothing when so many gaps are above the smallest before them.
const WIDENINGS: usize = 5;

/// When a packet arrived, and by whose clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// By the receiver's clock.
    Receiver(Time),
    /// Its acknowledgement, which waited for nothing, by the sender's clock.
    Sender(Time),
    /// Some time before an acknowledgement that waited.
    Unknown,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    index: usize,
    sent: i64,
    arrived: i64,
}

/// A train in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Train {
    pub(super) number: u64,
    packets: usize,
    acked: usize,
    /// The packets whose arrival is known, in order.
    samples: [Sample; LONGEST],
    count: usize,
    receiver_clock: bool,
    spoilt: bool,
}

impl Train {
    pub(super) fn new(number: u64, packets: usize) -> Self {
        let samples = [Sample { index: 0, sent: 0, arrived: 0 }; LONGEST];
        Self { number, packets, acked: 0, samples, count: 0, receiver_clock: false, spoilt: false }
    }

    /// It holds a packet that is no full one, or that was sent again: it tells nothing.
    pub(super) fn spoil(&mut self) {
        self.spoilt = true;
    }

    /// One of its packets has been delivered. A packet that comes after a later one, or by another clock than those
    /// before, is left out.
    pub(super) fn on_acked(&mut self, index: usize, packet: &Acked, arrival: Arrival) {
        self.acked += 1;
        self.spoilt |= packet.retransmitted;
        let (at, receiver_clock) = match arrival {
            Arrival::Receiver(at) => (at, true),
            Arrival::Sender(at) => (at, false),
            Arrival::Unknown => return,
        };
        if self.count == 0 {
            self.receiver_clock = receiver_clock;
        }
        let late = self.samples[..self.count].last().is_some_and(|last| last.index >= index);
        if late || self.count == LONGEST || receiver_clock != self.receiver_clock {
            return;
        }
        let (sent, arrived) = (packet.sent_at.as_nanos() as i64, at.as_nanos() as i64);
        self.samples[self.count] = Sample { index, sent, arrived };
        self.count += 1;
    }

    pub(super) fn is_back(&self) -> bool {
        self.acked >= self.packets
    }

    fn samples(&self) -> &[Sample] {
        &self.samples[..self.count]
    }

    /// Mean gap at which the packets arrived; nothing when they came together.
    fn dispersion(&self) -> Option<Nanos> {
        let (first, last) = (self.samples().first()?, self.samples().last()?);
        let span = u64::try_from(last.arrived.saturating_sub(first.arrived)).ok()?;
        let gaps = (last.index - first.index) as u64;
        (span > 0 && gaps > 0).then(|| Nanos::from_nanos(span).mul_div(1, gaps))
    }

    /// What a burst without gaps tells: the bottleneck's own gap.
    pub(super) fn read_burst(&self) -> Option<Nanos> {
        if self.spoilt { None } else { self.dispersion() }
    }

    /// What a chirp tells: the gap that the path can carry.
    pub(super) fn read_chirp(&self) -> Option<Nanos> {
        if self.spoilt || self.count < FEWEST {
            return None;
        }
        let mut gaps = [Nanos::ZERO; LONGEST];
        let mut delays = [0; LONGEST];
        let (mut smallest, mut widenings) = (Nanos::MAX, 0);
        for (index, pair) in self.samples().windows(2).enumerate() {
            let span = u64::try_from(pair[1].sent.saturating_sub(pair[0].sent)).ok()?;
            let gap = Nanos::from_nanos(span).mul_div(1, (pair[1].index - pair[0].index) as u64);
            widenings += usize::from(gap > smallest);
            if gap > smallest + smallest.mul_div(1, 4) || widenings >= WIDENINGS {
                return None;
            }
            smallest = smallest.min(gap);
            gaps[index] = gap;
        }
        for (delay, sample) in delays.iter_mut().zip(self.samples()) {
            *delay = sample.arrived.saturating_sub(sample.sent);
        }
        let gaps = &gaps[..self.count - 1];
        let onset = available_gap(gaps, &delays[..self.count])?;
        let (first, last) = (gaps[0], gaps[gaps.len() - 1]);
        Some(if onset >= first {
            // The path is slower than any gap of the chirp: what arrived tells how slow.
            first.max(self.dispersion().unwrap_or(first))
        } else {
            // Between the last gap that did not queue and the first that did.
            let step = (first - last).mul_div(1, gaps.len() as u64 - 1);
            onset - step.mul_div(1, 2)
        })
    }
}
