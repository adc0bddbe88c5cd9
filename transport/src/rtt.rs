//! Round-trip time and retransmission time-out.
//!
//! Source: RFC 6298. What differs: the least time-out bounds the variance term, not the sum (Linux `tcp_set_rto`).

use paceline_cc::Nanos;

use crate::config::Config;

/// RTT estimator. For datapaths that keep their own packets: give each sample to [`Rtt::observe`] and [`Rtt::sample`].
#[derive(Clone, Copy, Debug)]
pub struct Rtt {
    /// Smoothed RTT; `None` before the first sample.
    pub(crate) smoothed: Option<Nanos>,
    /// Mean deviation.
    pub(crate) variance: Nanos,
    /// Smallest sample.
    pub(crate) min: Nanos,
    /// Last sample told to the controller, until a record takes it.
    pub(crate) latest: Option<Nanos>,
}

impl Default for Rtt {
    fn default() -> Self {
        Self::new()
    }
}

impl Rtt {
    /// No sample yet.
    pub fn new() -> Self {
        Self { smoothed: None, variance: Nanos::ZERO, min: Nanos::MAX, latest: None }
    }

    /// Smoothed RTT; `None` before the first sample.
    pub fn smoothed(&self) -> Option<Nanos> {
        self.smoothed
    }

    /// Smallest sample observed; [`Nanos::MAX`] before the first.
    pub fn min(&self) -> Nanos {
        self.min
    }

    /// Smooths: RFC 6298 section 2, the variance updated first, with the old mean.
    pub fn sample(&mut self, sample: Nanos) {
        let r = sample.as_nanos();
        let Some(srtt) = self.smoothed else {
            self.smoothed = Some(sample);
            self.variance = Nanos::from_nanos(r / 2);
            return;
        };
        let s = srtt.as_nanos();
        let v = self.variance.as_nanos();
        self.variance = Nanos::from_nanos(v - v / 4 + s.abs_diff(r) / 4);
        self.smoothed = Some(Nanos::from_nanos(s - s / 8 + r / 8));
    }

    /// Notes the RTT of the newest packet that was never retransmitted.
    pub fn observe(&mut self, sample: Nanos) {
        self.min = self.min.min(sample);
        self.latest = Some(sample);
    }

    /// Time-out before back-off.
    pub(crate) fn rto(&self, config: &Config) -> Nanos {
        match self.smoothed {
            None => config.initial_rto,
            Some(srtt) => (srtt + (self.variance.mul_div(4, 1)).max(config.min_rto)).min(config.max_rto),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_6298_worked_numbers() {
        let config = Config { min_rto: Nanos::ZERO, ..Config::default() };
        let mut rtt = Rtt::new();
        assert_eq!(rtt.rto(&config), Nanos::from_secs(1));
        let expected = [(100.0, 50.0, 300.0), (100.0, 37.5, 250.0), (112.5, 53.125, 325.0)];
        for (sample, (srtt, variance, rto)) in [100, 100, 200].into_iter().zip(expected) {
            rtt.sample(Nanos::from_millis(sample));
            assert_eq!(rtt.smoothed, Some(Nanos::from_millis_f64(srtt)));
            assert_eq!(rtt.variance, Nanos::from_millis_f64(variance));
            assert_eq!(rtt.rto(&config), Nanos::from_millis_f64(rto));
        }
        assert_eq!(rtt.rto(&Config { max_rto: Nanos::from_millis(300), ..config }), Nanos::from_millis(300));
    }

    #[test]
    fn the_least_time_out_bounds_the_variance_term() {
        let mut rtt = Rtt::new();
        rtt.sample(Nanos::from_millis(40));
        assert_eq!(rtt.rto(&Config::default()), Nanos::from_millis(240));
    }
}
