//! When the next packet may leave.
//!
//! A rate is kept on average: the time between packets counts from when the last one was due, and a sender that was
//! held up may catch up by a bounded burst. A gap is exact: it counts from when the last packet left. Rates and gaps
//! count payload bytes, as delivery rates do.

use paceline_cc::{Nanos, Pacing, Time};

/// Pacing state of a flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pacer {
    burst: Nanos,
    answer: Pacing,
    /// What the answer means for a packet of `bytes`.
    gap: Nanos,
    bytes: u32,
    /// When the last packet was due by the average.
    base: Time,
    /// When the last packet left; `None` before the first.
    departed: Option<Time>,
    due: Time,
}

impl Pacer {
    pub(crate) fn new(burst: Nanos) -> Self {
        Self {
            burst,
            answer: Pacing::Free,
            gap: Nanos::ZERO,
            bytes: 0,
            base: Time::ZERO,
            departed: None,
            due: Time::ZERO,
        }
    }

    /// How far a sender that was held up may catch up.
    pub(crate) fn set_burst(&mut self, burst: Nanos) {
        self.burst = burst;
    }

    /// The earliest time at which the next packet may leave.
    pub(crate) fn due(&self) -> Time {
        self.due
    }

    /// A packet left, and the controller answered for the next one.
    #[inline]
    pub(crate) fn sent(&mut self, now: Time, bytes: u32, answer: Pacing) {
        self.departed = Some(now);
        if let (Pacing::Free, Pacing::Free) = (answer, self.answer) {
            // Due at once, as before.
            (self.base, self.bytes) = (now - self.burst, bytes);
            return;
        }
        self.base = self.due.max(now - self.burst).min(now);
        if bytes != self.bytes || answer != self.answer {
            self.bytes = bytes;
            self.answer = answer;
            self.measure();
        }
        self.plan();
    }

    /// The controller was asked again after an event.
    pub(crate) fn refresh(&mut self, answer: Pacing) {
        if answer != self.answer {
            self.answer = answer;
            self.measure();
            self.plan();
        }
    }

    fn measure(&mut self) {
        self.gap = match self.answer {
            Pacing::Free => Nanos::ZERO,
            Pacing::Rate(rate) => rate.time_for(u64::from(self.bytes)),
            Pacing::Gap(gap) => gap,
        };
    }

    fn plan(&mut self) {
        self.due = match (self.answer, self.departed) {
            (Pacing::Free, _) => Time::ZERO,
            (Pacing::Gap(Nanos::MAX), _) => Time::NEVER,
            (_, None) => Time::ZERO,
            (Pacing::Rate(_), Some(_)) => self.base + self.gap,
            (Pacing::Gap(_), Some(departed)) => departed + self.gap,
        };
    }
}
