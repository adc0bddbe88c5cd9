//! `paceline_state`: where a flow stands, whichever side finds its losses.

use paceline_cc::{Nanos, Permit, Time};
use paceline_transport::{Rtt, SenderConfig};

use crate::structs::{paceline_permit, paceline_state};

/// The window grew by at least what the last report delivered.
pub(crate) const FOLLOWS: u32 = 16;

impl paceline_state {
    /// Of what is permitted and measured.
    pub(crate) fn of(permit: Permit, rtt: &Rtt, config: &SenderConfig) -> Self {
        let paceline_permit { flags, window, next_tick, threshold, pacing, recovery, pace, .. } = permit.into();
        Self {
            flags,
            window,
            next_tick,
            threshold,
            pacing,
            recovery,
            pace,
            srtt: rtt.smoothed().map_or(0, Nanos::as_nanos),
            min_rtt: if rtt.min() == Nanos::MAX { 0 } else { rtt.min().as_nanos() },
            rto: rtt.rto(config).as_nanos(),
            ..Self::zero()
        }
    }

    /// Of a flow whose bug was found: as little as may be, and nothing known.
    pub(crate) fn least(mss: u32) -> Self {
        let permit = Permit::up_to(2 * u64::from(mss));
        let paceline_permit { window, threshold, .. } = permit.into();
        Self { window, threshold, next_tick: Time::NEVER.as_nanos(), ..Self::zero() }
    }
}
