//! When packets arrived: what a receiver keeps for its next acknowledgement, and what a sender reads from it.

#[cfg(feature = "endpoints")]
use std::collections::VecDeque;

use paceline_cc::Time;

#[cfg(feature = "endpoints")]
use crate::segment::MAX_ARRIVALS;

/// When a packet arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrivalTime {
    /// Position of the packet's first payload byte ([`SentPacket::seq`](crate::SentPacket::seq)).
    pub seq: u64,
    /// Receiver's clock then.
    pub at: Time,
}

/// Arrivals since the last acknowledgement, where the receiver reports them.
#[cfg(feature = "endpoints")]
pub(crate) struct Arrivals {
    reported: bool,
    since: VecDeque<ArrivalTime>,
}

#[cfg(feature = "endpoints")]
impl Arrivals {
    pub(crate) fn new(reported: bool) -> Self {
        Self { reported, since: VecDeque::new() }
    }

    /// Data at `seq` arrived.
    #[inline]
    pub(crate) fn note(&mut self, seq: u64, at: Time) {
        if !self.reported {
            return;
        }
        if self.since.len() == MAX_ARRIVALS {
            self.since.pop_front();
        }
        self.since.push_back(ArrivalTime { seq, at });
    }

    /// For the acknowledgement that leaves now.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Option<Box<[ArrivalTime]>> {
        if self.reported { Some(self.take_reported()) } else { None }
    }

    #[inline(never)]
    fn take_reported(&mut self) -> Box<[ArrivalTime]> {
        self.since.drain(..).collect()
    }
}

/// Looks packets up in an acknowledgement's list, which is in nearly the same order.
pub(crate) struct Lookup<'a> {
    list: &'a [ArrivalTime],
    from: usize,
}

impl<'a> Lookup<'a> {
    pub(crate) fn new(list: &'a [ArrivalTime]) -> Self {
        Self { list, from: 0 }
    }

    pub(crate) fn find(&mut self, seq: u64) -> Option<Time> {
        if self.list.is_empty() {
            return None;
        }
        let (before, after) = self.list.split_at(self.from);
        let index = after.iter().chain(before).position(|arrival| arrival.seq == seq)?;
        let index = (self.from + index) % self.list.len();
        self.from = index + 1;
        Some(self.list[index].at)
    }
}
