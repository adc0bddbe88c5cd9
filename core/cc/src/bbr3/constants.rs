//! The constants that the draft's test cases tell apart.

use crate::units::Nanos;

/// Constants of the draft, so that a study can change one of them. The default is the draft's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constants {
    /// Pacing gain of Drain (section 2.5).
    pub drain_gain: f64,
    /// Share of the bounds that a lossy round leaves (`Beta`, section 2.8).
    pub beta: f64,
    /// Rounds without growth after which the pipe is full (section 5.3.1.2).
    pub full_rounds: u32,
    /// Share of what was in flight that may be lost before it was too much (`LossThresh`, section 2.8).
    pub loss_threshold: f64,
    /// Share of the long-term bound that is left to other flows (section 2.8).
    pub headroom: f64,
    /// The probe after one that was too high ends as soon as it reaches the bound (section 5.3.3.9).
    pub precaution: bool,
    /// Time without a smaller RTT after which ProbeRTT begins (section 2.16.2).
    pub probe_rtt_interval: Nanos,
    /// What losses changed is given back when they were spurious (section 5.5.11).
    pub undo: bool,
}

impl Default for Constants {
    fn default() -> Self {
        Self {
            drain_gain: 0.5,
            beta: 0.7,
            full_rounds: 3,
            loss_threshold: 0.02,
            headroom: 0.15,
            precaution: true,
            probe_rtt_interval: Nanos::from_secs(5),
            undo: true,
        }
    }
}
