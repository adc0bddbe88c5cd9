//! The parts of loss recovery: reordering window, undo.

use paceline_cc::{Nanos, Time};

use crate::config::SenderConfig;
use crate::rtt::Rtt;
use crate::segment::Range;

/// The reordering window of RACK (RFC 8985 section 6.2, steps 3 and 4).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reordering {
    /// One past the highest byte delivered (`RACK.fack`).
    highest: u64,
    /// A packet that was never retransmitted arrived after a later one.
    seen: bool,
    /// `RACK.reo_wnd_mult`, grown by losses that were declared too early.
    steps: u64,
    /// Recoveries until `steps` goes back to one.
    persist: u32,
    /// Growth is over for this round until everything below has been delivered.
    round_end: u64,
}

impl Reordering {
    pub(crate) fn new() -> Self {
        Self { highest: 0, seen: false, steps: 1, persist: 0, round_end: 0 }
    }

    /// A packet that ends at `end` was delivered; says whether its original arrived after a later one.
    pub(crate) fn on_delivered(&mut self, end: u64, retransmitted: bool) -> bool {
        let late = end <= self.highest && !retransmitted;
        self.highest = self.highest.max(end);
        self.seen |= late;
        late
    }

    /// A loss was declared too early: of a stream a duplicate says so (RFC 8985 section 6.2 step 4), of datagrams the
    /// packet itself, which arrives after all (RFC 9002 section 6.1.1).
    pub(crate) fn on_early_loss(&mut self, una: u64, next: u64) {
        if una >= self.round_end {
            self.round_end = next;
            self.steps += 1;
            self.persist = 16;
        }
    }

    pub(crate) fn on_recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.steps = 1;
        }
    }

    /// How late a packet may be. `eager` while losses are being repaired or enough later packets have arrived.
    pub(crate) fn window(&self, rtt: &Rtt, eager: bool) -> Nanos {
        if eager && !self.seen {
            return Nanos::ZERO;
        }
        let Some(srtt) = rtt.smoothed else { return Nanos::ZERO };
        rtt.min.mul_div(self.steps, 4).min(srtt)
    }
}

/// What is needed to find out that an episode was a mistake.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Undo {
    /// Everything below had been delivered at the start of the episode (Linux `undo_marker`).
    pub(crate) from: u64,
    /// One past the last byte sent at the start.
    pub(crate) to: u64,
    /// Repairs (for datagrams: losses) not yet shown to be needless (Linux `undo_retrans`).
    pub(crate) open: u64,
    /// When the first repair left: an acknowledgement that echoes an earlier time is of an original (RFC 3522).
    pub(crate) first_repair_at: Time,
    /// The episode began with a timeout.
    pub(crate) by_timeout: bool,
    /// It has been undone; needless repairs are still counted.
    pub(crate) done: bool,
}

impl Undo {
    pub(crate) fn new(from: u64, to: u64) -> Self {
        Self { from, to, open: 0, first_repair_at: Time::NEVER, by_timeout: false, done: false }
    }

    pub(crate) fn on_repair(&mut self, now: Time) {
        self.open += 1;
        self.first_repair_at = self.first_repair_at.min(now);
    }

    pub(crate) fn covers(&self, range: Range) -> bool {
        range.start >= self.from && range.end <= self.to
    }

    /// One repair was needless; says whether all were.
    pub(crate) fn on_needless(&mut self) -> bool {
        if self.open == 0 {
            return false;
        }
        self.open -= 1;
        self.open == 0
    }
}

/// When a tail is probed (RFC 8985 section 7.2, as Linux `tcp_schedule_loss_probe`): a lone packet, whose acknowledgement
/// may be delayed, is given the least timeout more.
pub(crate) fn probe_timeout(rtt: &Rtt, config: &SenderConfig, delayed: bool) -> Nanos {
    match rtt.smoothed {
        None => config.initial_rto,
        Some(srtt) if delayed => srtt + srtt + config.min_rto,
        Some(srtt) => srtt + srtt,
    }
}
