//! Detection of a token-bucket policer (Linux `tcp_bbr.c`, `bbr_lt_bw_sampling`): two consecutive intervals, both with
//! heavy loss, that delivered at about the same rate.

use crate::units::Time;

/// Shortest interval in rounds (`bbr_lt_intvl_min_rtts`).
const MIN_ROUNDS: u32 = 4;
/// Longest interval in rounds: four times the shortest.
const MAX_ROUNDS: u32 = 4 * MIN_ROUNDS;
/// Loss over delivery from which an interval counts (`bbr_lt_loss_thresh`: 50/256).
const LOSS_THRESHOLD: f64 = 50.0 / 256.0;
/// Relative difference below which two intervals agree (`bbr_lt_bw_ratio`: 32/256).
const RATIO: f64 = 1.0 / 8.0;
/// Difference below which two intervals agree in bytes per second (`bbr_lt_bw_diff`: 4 kbit/s).
const DIFFERENCE: f64 = 4000.0 / 8.0;
/// Rounds for which a detected rate is used (`bbr_lt_bw_max_rtts`).
const KEPT_ROUNDS: u32 = 48;
/// Shortest interval in seconds: one tick of Linux's millisecond stamp.
const MIN_SECONDS: f64 = 0.001;

/// The long-term sampler.
#[derive(Clone, Debug, Default)]
pub(super) struct LongTerm {
    sampling: bool,
    in_use: bool,
    /// Rate of the last interval, or the mean of the two that agreed, in bytes per second; zero for none.
    bandwidth: f64,
    rounds: u32,
    start: Time,
    start_delivered: u64,
    start_lost: u64,
}

/// What one sample gives the sampler. Counts are bytes since the flow began.
pub(super) struct Progress {
    pub(super) now: Time,
    pub(super) delivered: u64,
    pub(super) lost: u64,
    /// Something was found lost with this sample.
    pub(super) losses: bool,
    pub(super) app_limited: bool,
    pub(super) round_start: bool,
    /// The controller is in ProbeBW.
    pub(super) probing_bandwidth: bool,
}

impl LongTerm {
    /// The policed rate in bytes per second, while one is believed in.
    pub(super) fn bandwidth(&self) -> Option<f64> {
        self.in_use.then_some(self.bandwidth)
    }

    /// Takes a sample. True when the policed rate has just served its time: the gain cycle starts afresh.
    pub(super) fn update(&mut self, progress: &Progress) -> bool {
        if self.in_use {
            if progress.probing_bandwidth && progress.round_start {
                self.rounds += 1;
                if self.rounds >= KEPT_ROUNDS {
                    self.reset(progress);
                    return true;
                }
            }
            return false;
        }
        if !self.sampling {
            // Only from the first loss on: by then the policer's bucket is empty.
            if !progress.losses {
                return false;
            }
            self.start_interval(progress);
            self.sampling = true;
        }
        if progress.app_limited {
            self.reset(progress);
            return false;
        }
        if progress.round_start {
            self.rounds += 1;
        }
        if self.rounds < MIN_ROUNDS {
            return false;
        }
        if self.rounds > MAX_ROUNDS {
            self.reset(progress);
            return false;
        }
        if progress.losses {
            self.end_interval(progress);
        }
        false
    }

    /// Forgets everything.
    pub(super) fn reset(&mut self, progress: &Progress) {
        self.bandwidth = 0.0;
        self.in_use = false;
        self.sampling = false;
        self.start_interval(progress);
    }

    fn start_interval(&mut self, progress: &Progress) {
        self.start = progress.now;
        self.start_delivered = progress.delivered;
        self.start_lost = progress.lost;
        self.rounds = 0;
    }

    fn end_interval(&mut self, progress: &Progress) {
        let lost = progress.lost.saturating_sub(self.start_lost) as f64;
        let delivered = progress.delivered.saturating_sub(self.start_delivered) as f64;
        let elapsed = (progress.now - self.start).as_secs_f64();
        if delivered == 0.0 || lost < LOSS_THRESHOLD * delivered || elapsed < MIN_SECONDS {
            return;
        }
        let bandwidth = delivered / elapsed;
        let difference = (bandwidth - self.bandwidth).abs();
        if self.bandwidth > 0.0 && (difference <= RATIO * self.bandwidth || difference <= DIFFERENCE) {
            self.bandwidth = (bandwidth + self.bandwidth) / 2.0;
            self.in_use = true;
            self.rounds = 0;
            return;
        }
        self.bandwidth = bandwidth;
        self.start_interval(progress);
    }
}
