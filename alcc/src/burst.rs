//! What leaves together at a high rate, and which of it is stamped.
//!
//! A wake-up costs as much as several packets, and a stamp wakes the application's thread as well as ours: Linux tells
//! `EPOLLERR` to every set, whether asked for or not. So at a high rate the thread comes once in a grain, and what the
//! controller permits then leaves as two chunks: one packet, whose stamp tells the network's RTT without the time that the
//! burst takes to pass, and the rest, without a stamp, which the stamp of the next burst covers. At a low rate chunks are
//! small and each is stamped. Our choice; the paper has a chunk for each packet.

use std::os::fd::OwnedFd;

use paceline_cc::{Nanos, Rate, Time};

use crate::flow::{Flow, Source};
use crate::stamps;

/// Above this rate bursts are worth it: a packet takes less than 0.3 ms, and those of a grain are five and more. 40 Mbit/s
/// (our choice: cellular links, where a controller needs each packet's news, are slower).
const FAST: Rate = Rate::from_bytes_per_sec(5_000_000);
/// When news comes faster, the thread takes it together: stamps keep their times, and what is permitted meanwhile leaves
/// as one burst. 1 ms: Linux `tcp_tso_autosize` lets as much leave at once.
pub(crate) const BREATH: Nanos = Nanos::from_millis(1);
/// The longest grain: at 100 Mbit/s a burst has 17 packets, which queue for 2 ms (our choice).
pub(crate) const LONGEST: Nanos = Nanos::from_millis(2);
/// Bytes of a chunk: the largest packet buffer of the kernel (`GSO_LEGACY_MAX_SIZE`).
const LARGEST: u32 = 65_536;

/// How a flow's chunks leave.
#[derive(Default)]
pub(crate) struct Burst {
    /// Time between two bursts; none at a low rate.
    grain: Option<Nanos>,
    /// From then on the next chunk is a burst's first.
    next: Time,
    /// The kernel was told to stamp nothing.
    silent: bool,
    /// Where the last chunk without a stamp ends.
    unstamped: u64,
}

impl Burst {
    /// The kernel was told to stamp again.
    pub(crate) fn speaks(&mut self) {
        self.silent = false;
    }
}

impl Flow {
    /// How long its news may wait.
    pub(crate) fn grain(&self) -> Nanos {
        self.burst.grain.unwrap_or(BREATH)
    }

    /// Something was delivered: chunks go by the present rate.
    pub(crate) fn plan_burst(&mut self) {
        let Source::Stamps { .. } = self.source else { return self.above.set_chunk(self.chunk()) };
        let least = if self.burst.grain.is_some() { FAST.mul_f64(0.5) } else { FAST };
        let fast = self.above.rate() >= least;
        // An eighth of the RTT: the window moves on in steps of that size.
        let grain = self.above.rtt().smoothed().map(|rtt| rtt.mul_div(1, 8).max(BREATH).min(LONGEST));
        self.burst.grain = grain.filter(|_| fast);
        self.above.set_grain(self.burst.grain.unwrap_or(Nanos::ZERO));
    }

    /// Before the controller is asked for a chunk: how many packets it may have.
    pub(crate) fn shape_chunk(&mut self, now: Time) {
        let packets = match self.burst.grain {
            None => self.chunk(),
            Some(_) if self.burst.next <= now => 1,
            Some(_) => LARGEST / self.mss,
        };
        self.above.set_chunk(packets);
    }

    /// A chunk of `bytes` is to be handed over: lets it be stamped, or not. The last one of the queue always is: no other
    /// may come to cover it.
    pub(crate) fn stamp_chunk(&mut self, fd: &OwnedFd, now: Time, bytes: u32) {
        let Source::Stamps { sure } = self.source else { return };
        let covered = match self.burst.grain {
            None => false,
            Some(grain) if self.burst.next <= now => {
                self.burst.next = now + grain.mul_div(3, 4);
                false
            }
            Some(_) => (bytes as usize) < self.queue.len(),
        };
        if covered {
            self.burst.unstamped = self.above.next() + u64::from(bytes);
        }
        if covered != self.burst.silent {
            self.burst.silent = covered;
            stamps::set(fd, sure, !covered, self.departures_are_stamped());
        }
    }

    /// Everything that is outstanding bears a stamp.
    pub(crate) fn all_is_stamped(&self) -> bool {
        self.burst.unstamped <= self.acked
    }
}
