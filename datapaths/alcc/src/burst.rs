//! What leaves together at a high rate, and which of it is stamped.
//!
//! A wake-up costs as much as several packets. So at a high rate what leaves in a batch interval leaves as two
//! chunks: one packet, whose stamp gives the network's RTT without the time that the rest takes to pass, and the rest,
//! without a stamp, which the stamp of the next batch covers. The stamp also wakes the engine: what it permits leaves then as the
//! next batch, so stamps and batches follow each other, and a timer is needed only where no stamp comes. At a low rate
//! chunks are small and each is stamped. Our choice; the paper has a chunk for each packet.

use std::os::fd::OwnedFd;

use paceline_cc::{Nanos, Rate, Time};

use crate::flow::{Flow, Source};
use crate::stamps;

/// Above this rate batches are worth it: a packet takes less than 0.3 ms. 40 Mbit/s (our choice: cellular links, where a
/// controller needs each packet's news, are slower).
const FAST: Rate = Rate::from_bytes_per_sec(5_000_000);
/// The bounds of a batch interval. 1 ms: Linux `tcp_tso_autosize` lets as much leave at once. 2 ms: 17 packets at 100 Mbit/s (our choice:
/// with 3 ms, Copa filled 55 to 98 % of such a link, with 2 ms 90 to 99 %).
const INTERVAL: (Nanos, Nanos) = (Nanos::from_millis(1), Nanos::from_millis(2));
/// Bytes of a chunk at most: the largest packet buffer of the kernel (`GSO_LEGACY_MAX_SIZE`).
const LARGEST: u64 = 65_536;

/// How a flow's chunks leave.
#[derive(Default)]
pub(crate) struct Burst {
    /// Time from one stamp to the next; none at a low rate.
    interval: Option<Nanos>,
    /// Bytes that are delivered in it.
    bytes: u64,
    /// From this time or position on, a chunk is the first of a batch.
    next: (Time, u64),
    /// Before then no timer is needed: a stamp should come.
    patient_until: Time,
    /// Stamps are switched off in the kernel.
    silent: bool,
    /// Where the last chunk without a stamp ends.
    unstamped: u64,
}

impl Burst {
    /// Stamps are switched on again in the kernel.
    pub(crate) fn speaks(&mut self) {
        self.silent = false;
    }

    fn is_due(&self, now: Time, position: u64) -> bool {
        self.next.0 <= now || self.next.1 <= position
    }
}

/// How long after a batch the stamp of the next one is waited for.
fn patience(interval: Nanos) -> Nanos {
    interval.mul_div(4, 3)
}

impl Flow {
    /// Something was delivered: chunks go by the present rate.
    pub(crate) fn plan_burst(&mut self) {
        let Source::Stamps { .. } = self.source else { return self.above.set_chunk(self.chunk()) };
        let rate = self.above.rate();
        let fast = rate >= if self.burst.interval.is_some() { FAST.mul_f64(0.5) } else { FAST };
        // An eighth of the RTT: the window moves on in steps of that size.
        let interval = self.above.rtt().smoothed().map(|rtt| rtt.mul_div(1, 8).max(INTERVAL.0).min(INTERVAL.1));
        self.burst.interval = interval.filter(|_| fast);
        self.burst.bytes = rate.bytes_in(self.burst.interval.unwrap_or(Nanos::ZERO));
        self.above.set_batch_interval(patience(self.burst.interval.unwrap_or(Nanos::ZERO)));
    }

    /// Before the controller is asked for a chunk: how many packets it may have.
    pub(crate) fn shape_chunk(&mut self, now: Time) {
        let position = self.above.next();
        let packets = match self.burst.interval {
            None => self.chunk(),
            Some(_) if self.burst.is_due(now, position) => 1,
            Some(_) => {
                let rest = (self.burst.next.1 - position).min(self.burst.bytes).min(LARGEST);
                rest.div_ceil(u64::from(self.mss)) as u32
            }
        };
        self.above.set_chunk(packets);
    }

    /// A chunk of `bytes` is to be sent: lets it be stamped, or not. The last one of the queue always is: no other
    /// may come to cover it.
    pub(crate) fn stamp_chunk(&mut self, fd: &OwnedFd, now: Time, bytes: u32) {
        let Source::Stamps { sure } = self.source else { return };
        let position = self.above.next();
        self.burst.patient_until = now + patience(self.burst.interval.unwrap_or(Nanos::ZERO));
        let covered = match self.burst.interval {
            None => false,
            Some(interval) if self.burst.is_due(now, position) => {
                // Twice as much as it should be, where the rate is known badly.
                self.burst.next = (now + interval.mul_div(3, 4), position + 2 * self.burst.bytes.max(LARGEST / 16));
                false
            }
            Some(_) => (bytes as usize) < self.queue.len(),
        };
        if covered {
            self.burst.unstamped = position + u64::from(bytes);
        }
        if covered != self.burst.silent {
            self.burst.silent = covered;
            stamps::set(fd, sure, !covered, self.departures_are_stamped());
        }
    }

    /// Before then no timer is needed for what may leave.
    pub(crate) fn next_burst(&self) -> Time {
        if self.comes_in_bursts() { self.burst.patient_until } else { Time::ZERO }
    }

    /// A batch waits, and leaves without anything more being written.
    pub(crate) fn is_expected(&self) -> bool {
        self.comes_in_bursts() && self.queue.len() >= self.mss as usize && self.above.in_flight() > 0
    }

    /// What leaves in a batch interval leaves together.
    pub(crate) fn comes_in_bursts(&self) -> bool {
        self.burst.interval.is_some()
    }

    /// Everything that is outstanding bears a stamp.
    pub(crate) fn all_is_stamped(&self) -> bool {
        self.burst.unstamped <= self.acked
    }
}
