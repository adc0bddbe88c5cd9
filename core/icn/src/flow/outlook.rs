//! When what was asked for is expected to come.

use paceline_cc::{Nanos, Time};

use super::board::State;
use super::{BYTES, RequestFlow};

impl RequestFlow {
    /// When a unit comes that is asked for at `asked`, as the `place`th of those that are waited for: a smoothed RTT later, and behind the
    /// others at the rate at which units came last.
    fn expected(&self, asked: Time, place: u64) -> Time {
        let rtt = self.srtt().unwrap_or(self.config.transport.initial_rto);
        let each = self.arriving.map_or(Nanos::ZERO, |rate| rate.time_for(BYTES));
        (asked + rtt).max(self.silent_since + each.mul_div(place, 1))
    }

    /// In which time a unit comes that is asked for now.
    pub(crate) fn answers_in(&self, now: Time) -> Nanos {
        self.expected(now, self.board.outstanding() + 1) - now
    }

    /// Calls `take` for each unit that is expected later than `patience` from `now`, the newest first, until it answers false. Answers when
    /// one more will be late if nothing comes until then; [`Time::NEVER`] where all are, or `take` ended it.
    ///
    /// Where the next one should have come already, all are expected to be late by as much again as that one is.
    pub(crate) fn late(&self, now: Time, patience: Nanos, mut take: impl FnMut(u64) -> bool) -> Time {
        let Some(oldest) = self.board.front().map(|record| self.expected(record.packet.sent_at, 1)) else {
            return Time::NEVER;
        };
        let stall = now - oldest;
        for (record, ahead) in self.board.unsettled().rev().zip(0..) {
            let asked = match record.state {
                State::Lost => now.max(self.held_until),
                State::Out | State::Settled => record.packet.sent_at,
            };
            let at = self.expected(asked, self.board.outstanding() - ahead);
            if at + stall + stall <= now + patience {
                return oldest.max(oldest + patience - (at - oldest));
            }
            if !take(record.unit) {
                break;
            }
        }
        Time::NEVER
    }
}
