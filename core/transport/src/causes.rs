//! Why packets are lost, as the hops of the path report it.

use paceline_cc::{Cause, Lost, Telemetry, Time};

/// What the newest report says of losses, and what it has explained so far.
#[derive(Debug)]
pub(crate) struct Causes {
    verdict: Cause,
    fresh_until: Time,
    /// Packets declared lost whose cause was the medium.
    pub(crate) medium: u64,
    /// The same for a full queue.
    pub(crate) congestion: u64,
    /// The same for a policer.
    pub(crate) policer: u64,
}

impl Causes {
    pub(crate) fn new() -> Self {
        Self { verdict: Cause::Unknown, fresh_until: Time::ZERO, medium: 0, congestion: 0, policer: 0 }
    }

    pub(crate) fn report(&mut self, telemetry: &Telemetry<'_>) {
        self.verdict = telemetry.verdict;
        self.fresh_until = telemetry.now + telemetry.fresh_for;
    }

    /// Packets are declared lost: fills in the cause of those of which it is unknown.
    #[inline]
    pub(crate) fn fill(&mut self, now: Time, packets: &mut [Lost]) {
        if self.verdict == Cause::Unknown || now >= self.fresh_until {
            return;
        }
        for lost in packets {
            if lost.cause == Cause::Unknown {
                lost.cause = self.verdict;
            }
            self.medium += u64::from(lost.cause == Cause::Medium);
            self.congestion += u64::from(lost.cause == Cause::Congestion);
            self.policer += u64::from(lost.cause == Cause::Policer);
        }
    }
}
