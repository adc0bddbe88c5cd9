//! Round-trip time and retransmission timeout.
//!
//! Sources: RFC 6298; Linux `tcp_rtt_estimator`, `tcp_set_rto`. What differs from the RFC, as in Linux:
//! - The least timeout bounds what is added to the smoothed RTT, not the sum.
//! - What is added follows the deviation upwards at once, and downwards by a quarter of the way once a round trip: with
//!   one sample for every other packet the RFC's would have forgotten a rise of the RTT within a fraction of a round
//!   trip.
//! - A sample far below the mean moves the deviation by an eighth of what one above does (as in the Eifel algorithm):
//!   an RTT that falls asks for no longer timeout.

use paceline_cc::Nanos;

use crate::config::SenderConfig;

/// RTT estimator. [`crate::Driver`] gives it its samples.
#[derive(Clone, Copy, Debug)]
pub struct Rtt {
    /// Smoothed RTT; `None` before the first sample.
    pub(crate) smoothed: Option<Nanos>,
    /// Mean deviation (Linux `mdev_us`, which counts quarters).
    deviation: Nanos,
    /// Largest of four deviations since the round trip began (Linux `mdev_max_us`).
    peak: Nanos,
    /// What the timeout adds to the smoothed RTT (Linux `rttvar_us`).
    margin: Nanos,
    /// A round trip of the margin is over when something beyond has been acknowledged (Linux `rtt_seq`).
    round: u64,
    /// Smallest sample.
    pub(crate) min: Nanos,
}

impl Rtt {
    /// No sample yet.
    pub(crate) fn new() -> Self {
        let zero = Nanos::ZERO;
        Self { smoothed: None, deviation: zero, peak: zero, margin: zero, round: 0, min: Nanos::MAX }
    }

    /// Smoothed RTT; `None` before the first sample.
    pub fn smoothed(&self) -> Option<Nanos> {
        self.smoothed
    }

    /// Smallest sample observed; [`Nanos::MAX`] before the first.
    pub fn min(&self) -> Nanos {
        self.min
    }

    /// Smooths: RFC 6298 section 2, the deviation updated first, with the old mean.
    pub(crate) fn sample(&mut self, sample: Nanos) {
        let r = sample.as_nanos();
        let Some(srtt) = self.smoothed else {
            self.smoothed = Some(sample);
            self.deviation = Nanos::from_nanos(r / 2);
            self.note_deviation();
            return;
        };
        let (s, d) = (srtt.as_nanos(), self.deviation.as_nanos());
        let error = s.abs_diff(r);
        // By how many bits: a 32nd, or a quarter.
        let share = if r < s && error > d { 5 } else { 2 };
        self.deviation = Nanos::from_nanos(d - (d >> share) + (error >> share));
        self.smoothed = Some(Nanos::from_nanos(s - s / 8 + r / 8));
        self.note_deviation();
    }

    fn note_deviation(&mut self) {
        self.peak = self.peak.max(self.deviation.mul_div(4, 1));
        self.margin = self.margin.max(self.peak);
    }

    /// Everything below `acknowledged` has been, with the last sample, and `next` is the position of the next new byte: once
    /// a round trip the timeout may come down. `least` is the smallest margin.
    pub(crate) fn advance(&mut self, acknowledged: u64, next: u64, least: Nanos) {
        if acknowledged > self.round {
            self.end_round(least);
            self.round = next;
        }
    }

    fn end_round(&mut self, least: Nanos) {
        let peak = std::mem::take(&mut self.peak).max(least);
        self.margin = self.margin - (self.margin - peak).mul_div(1, 4);
    }

    /// Notes the RTT of the newest packet that was never retransmitted.
    pub(crate) fn observe(&mut self, sample: Nanos) {
        self.min = self.min.min(sample);
    }

    /// Retransmission timeout before back-off, within the bounds of `config`.
    pub fn rto(&self, config: &SenderConfig) -> Nanos {
        match self.smoothed {
            None => config.initial_rto,
            Some(srtt) => (srtt + self.margin.max(config.min_rto)).min(config.max_rto),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_6298_worked_numbers() {
        let mut rtt = Rtt::new();
        assert_eq!(rtt.rto(&SenderConfig::default()), Nanos::from_secs(1));
        let expected = [(100.0, 50.0), (100.0, 37.5), (112.5, 53.125)];
        for (sample, (srtt, deviation)) in [100, 100, 200].into_iter().zip(expected) {
            rtt.sample(Nanos::from_millis(sample));
            assert_eq!(rtt.smoothed, Some(Nanos::from_millis_f64(srtt)));
            assert_eq!(rtt.deviation, Nanos::from_millis_f64(deviation));
        }
        let config = SenderConfig { max_rto: Nanos::from_millis(300), ..SenderConfig::default() };
        assert_eq!(rtt.rto(&config), Nanos::from_millis(300));
    }

    #[test]
    fn the_margin_rises_at_once_and_falls_by_round_trips() {
        let config = SenderConfig { min_rto: Nanos::ZERO, ..SenderConfig::default() };
        let mut rtt = Rtt::new();
        let sample = |rtt: &mut Rtt, millis| {
            rtt.sample(Nanos::from_millis(millis));
            rtt.rto(&config) - rtt.smoothed.unwrap()
        };
        let margins = [100, 100, 200].map(|millis| sample(&mut rtt, millis));
        // 4 * 50 ms; still that; 4 * 53.125 ms.
        assert_eq!(margins, [200.0, 200.0, 212.5].map(Nanos::from_millis_f64));
        rtt.end_round(Nanos::ZERO);
        for _ in 0..200 {
            assert_eq!(sample(&mut rtt, 100), Nanos::from_millis_f64(212.5), "no fall within a round trip");
        }
        rtt.end_round(Nanos::ZERO);
        rtt.end_round(Nanos::ZERO);
        let left = sample(&mut rtt, 100);
        assert!(left < Nanos::from_millis(180) && left > Nanos::from_millis(110), "{left}");
    }

    #[test]
    fn an_rtt_that_falls_counts_for_an_eighth() {
        let deviation = |last| {
            let mut rtt = Rtt::new();
            for sample in [vec![100; 100], vec![last]].concat() {
                rtt.sample(Nanos::from_millis(sample));
            }
            rtt.deviation
        };
        let [up, down] = [deviation(180), deviation(20)];
        assert!(
            up > Nanos::from_millis(19) && down > Nanos::from_millis(2) && down < Nanos::from_millis(3),
            "{up} {down}"
        );
    }

    #[test]
    fn the_least_time_out_bounds_the_variance_term() {
        let mut rtt = Rtt::new();
        rtt.sample(Nanos::from_millis(40));
        assert_eq!(rtt.rto(&SenderConfig::default()), Nanos::from_millis(240));
    }
}
