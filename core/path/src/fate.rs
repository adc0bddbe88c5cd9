//! What becomes of a packet that does not arrive.

use paceline_cc::{Nanos, Time};

use crate::packet::Packet;
use crate::stats::LinkStats;

/// Why a path dropped a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// The queue was full.
    Full,
    /// An active queue management dropped it.
    Early,
    /// It was lost on the way, as on a radio.
    Lost,
    /// A policer had no credit for it.
    Policed,
}

/// A packet that did not come out of its path.
#[derive(Clone, Debug)]
pub struct DroppedPacket<P> {
    /// When it was dropped.
    pub at: Time,
    /// Which of the path's elements dropped it, counted from 0.
    pub element: usize,
    /// Why.
    pub reason: DropReason,
    /// The packet. [`Contents::entered`](crate::Contents::entered) and its delay are those at the element.
    pub packet: Packet<P>,
}

/// What a queue reports to: the counters of its link, and the packets that it dropped, where they are asked for.
#[derive(Debug)]
pub struct Ledger<P> {
    /// Counters, and the present length of the queue.
    pub stats: LinkStats,
    /// How long what waits takes at the present rate, the rest of the packet in service included; kept by links whose queue is limited
    /// in time.
    pub wait: Nanos,
    dropped: Option<Vec<(DropReason, Packet<P>)>>,
}

impl<P> Default for Ledger<P> {
    fn default() -> Self {
        Self { stats: LinkStats::default(), wait: Nanos::ZERO, dropped: None }
    }
}

impl<P> Ledger<P> {
    /// A packet, arriving or taken out, is dropped because the queue is full.
    #[cold]
    pub fn drop_full(&mut self, packet: Packet<P>) {
        self.stats.count_full(&packet);
        self.keep(DropReason::Full, packet);
    }

    /// A packet, arriving or taken out, is dropped by an AQM.
    pub fn drop_early(&mut self, packet: Packet<P>) {
        self.stats.count_early(&packet);
        self.keep(DropReason::Early, packet);
    }

    fn keep(&mut self, reason: DropReason, packet: Packet<P>) {
        if let Some(dropped) = &mut self.dropped {
            dropped.push((reason, packet));
        }
    }

    /// From now on dropped packets are kept until they are taken.
    pub(crate) fn keep_dropped(&mut self) {
        self.dropped.get_or_insert_default();
    }

    /// Packets were dropped since they were taken the last time.
    pub(crate) fn has_dropped(&self) -> bool {
        self.dropped.as_ref().is_some_and(|dropped| !dropped.is_empty())
    }

    /// Takes the packets that were dropped since the last time.
    pub(crate) fn take_dropped(&mut self) -> impl Iterator<Item = (DropReason, Packet<P>)> {
        self.dropped.iter_mut().flat_map(|dropped| dropped.drain(..))
    }
}
