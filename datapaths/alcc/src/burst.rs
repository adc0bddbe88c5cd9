//! What leaves together at a high rate, and which of it is stamped.
//!
//! A wake-up costs as much as several packets. So at a high rate what leaves in a batch interval leaves as two
//! chunks: one packet, whose stamp gives the network's RTT without the time that the rest takes to pass, and the rest,
//! without a stamp, which the stamp of the next batch covers. The stamp also wakes the engine: what it permits leaves then as the
//! next batch, so stamps and batches follow each other, and a timer is needed only where no stamp comes. At a low rate
//! chunks are small and each is stamped. Our choice; the paper has a chunk for each packet.

use paceline_cc::{Nanos, Rate, Time};

use crate::link::Link;

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
    /// What leaves in a batch interval leaves together.
    pub(crate) fn is_on(&self) -> bool {
        self.interval.is_some()
    }

    /// Before then no timer is needed for what may leave.
    pub(crate) fn patient_until(&self) -> Time {
        if self.is_on() { self.patient_until } else { Time::ZERO }
    }

    /// Stamps are switched on again in the kernel.
    pub(crate) fn speaks(&mut self) {
        self.silent = false;
    }

    fn is_due(&self, now: Time, position: u64) -> bool {
        self.next.0 <= now || self.next.1 <= position
    }

    /// Something was delivered: chunks go by the present rate.
    pub(crate) fn plan(&mut self, link: &mut Link) {
        let rate = link.above.rate();
        let fast = rate >= if self.is_on() { FAST.mul_f64(0.5) } else { FAST };
        // An eighth of the RTT: the window moves on in steps of that size.
        let interval = link.above.rtt().smoothed().map(|rtt| rtt.mul_div(1, 8).max(INTERVAL.0).min(INTERVAL.1));
        self.interval = interval.filter(|_| fast);
        self.bytes = rate.bytes_in(self.interval.unwrap_or(Nanos::ZERO));
        link.above.set_batch_interval(patience(self.interval.unwrap_or(Nanos::ZERO)));
    }

    /// Before the controller is asked for a chunk: how many packets it may have.
    pub(crate) fn packets(&self, link: &Link, now: Time) -> u32 {
        let position = link.above.next();
        match self.interval {
            None => link.chunk(),
            Some(_) if self.is_due(now, position) => 1,
            Some(_) => {
                let rest = (self.next.1 - position).min(self.bytes).min(LARGEST);
                rest.div_ceil(u64::from(link.mss)) as u32
            }
        }
    }

    /// A chunk of `bytes` is to be sent: says whether the stamp of another covers it, where that is not as for the chunk before.
    /// The last one of the queue always has a stamp: no other may come to cover it.
    pub(crate) fn leaves(&mut self, link: &Link, now: Time, bytes: u32) -> Option<bool> {
        let position = link.above.next();
        self.patient_until = now + patience(self.interval.unwrap_or(Nanos::ZERO));
        let covered = match self.interval {
            None => false,
            Some(interval) if self.is_due(now, position) => {
                // Twice as much as it should be, where the rate is known badly.
                self.next = (now + interval.mul_div(3, 4), position + 2 * self.bytes.max(LARGEST / 16));
                false
            }
            Some(_) => (bytes as usize) < link.queue.len(),
        };
        if covered {
            self.unstamped = position + u64::from(bytes);
        }
        (std::mem::replace(&mut self.silent, covered) != covered).then_some(covered)
    }

    /// Everything that is outstanding bears a stamp.
    pub(crate) fn all_is_stamped(&self, link: &Link) -> bool {
        self.unstamped <= link.acked
    }
}

/// How long after a batch the stamp of the next one is waited for.
fn patience(interval: Nanos) -> Nanos {
    interval.mul_div(4, 3)
}
