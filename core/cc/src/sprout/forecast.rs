//! The two ways in which a Sprout receiver foresees deliveries: Bayesian inference of the rate, and an average.
//!
//! Source: Winstein, Sivaraman, Balakrishnan, NSDI 2013, sections 3.1 to 3.3 and 5.3, and the authors' release
//! (`process.cc`, `receiver.cc`; branch `ewma-noforecast`). What differs: likelihoods are scaled by the largest, so that a
//! surprising count never becomes 0/0, and the distribution sums to 1 after every step.

use std::sync::Arc;

use super::tables::{HORIZON, Outage, TICK_SECS, Tables, rate_of};

/// The sender may be wrong one time in twenty (section 3.3).
const PERCENTILE: f64 = 0.05;
/// Gain of the average for each tick (`ewma-noforecast`).
const GAIN: f64 = 1.0 / 8.0;

/// Cumulative packets foreseen after 1, 2, ... 8 ticks.
pub type Forecast = [u32; HORIZON];

/// What a tick says of the link, in packets of a full payload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Evidence {
    /// Nothing: the sender had announced silence.
    Nothing,
    /// The link delivered this many packets.
    Exactly(f64),
    /// The link delivered this many packets and then had no more to deliver.
    AtLeast(f64),
}

/// Learns a rate from counts of packets, a tick at a time.
pub trait Forecaster: Send {
    /// A tick has passed.
    fn tick(&mut self, evidence: Evidence);

    /// Forgets everything: too long without news.
    fn reset(&mut self);

    /// The cautious forecast from now on.
    fn forecast(&self) -> Forecast;

    /// As [`Controller::describe`](crate::Controller::describe).
    fn describe(&self, report: &mut dyn FnMut(&'static str, f64));
}

/// A distribution over the link's rate: it wanders as a Brownian motion, sticks at 0, and packets arrive as a Poisson
/// process.
#[derive(Clone, Debug)]
pub struct Bayesian {
    tables: Arc<Tables>,
    weights: Vec<f64>,
    next: Vec<f64>,
    /// Times when the counts contradicted the whole distribution.
    contradictions: u64,
}

impl Bayesian {
    /// Every rate up to `max_rate` packets/s is equally likely.
    pub fn new(max_rate: f64, outage: Outage) -> Self {
        let tables = Tables::shared(max_rate, outage);
        let weights = vec![1.0 / tables.bins() as f64; tables.bins()];
        Self { next: weights.clone(), weights, tables, contradictions: 0 }
    }

    /// Mean of the rate in packets/s.
    pub fn mean_rate(&self) -> f64 {
        self.weights.iter().enumerate().map(|(bin, weight)| weight * rate_of(bin)).sum()
    }

    /// Probability that the link delivers nothing at all.
    pub fn outage(&self) -> f64 {
        self.weights[0]
    }

    fn evolve(&mut self) {
        self.tables.evolve(&self.weights, &mut self.next);
        std::mem::swap(&mut self.weights, &mut self.next);
        self.normalise();
    }

    /// Rates that rarely deliver as many as `count` lose weight; faster ones do not.
    fn observe_at_least(&mut self, count: f64) {
        let count = count.min(self.tables.mean(self.tables.bins() - 1).ceil()) as u32;
        for (bin, weight) in self.weights.iter_mut().enumerate() {
            let mean = self.tables.mean(bin);
            let mut term = libm::exp(-mean);
            let mut fewer = 0.0;
            for fewer_by_one in 1..=count {
                fewer += term;
                term *= mean / f64::from(fewer_by_one);
            }
            *weight *= (1.0 - fewer).max(0.0);
        }
        self.normalise();
    }

    fn observe(&mut self, count: f64) {
        let mut likeliest = f64::NEG_INFINITY;
        // The array of the next step holds the likelihoods meanwhile.
        for ((bin, weight), likelihood) in self.weights.iter().enumerate().zip(&mut self.next) {
            if *weight > 0.0 {
                *likelihood = self.tables.log_likelihood(bin, count);
                likeliest = likeliest.max(*likelihood);
            }
        }
        for (weight, likelihood) in self.weights.iter_mut().zip(&self.next) {
            if *weight > 0.0 {
                *weight *= libm::exp(*likelihood - likeliest);
            }
        }
        self.normalise();
    }

    fn normalise(&mut self) {
        let sum: f64 = self.weights.iter().sum();
        if sum > 0.0 && sum.is_finite() {
            for weight in &mut self.weights {
                *weight /= sum;
            }
        } else {
            self.contradictions += 1;
            self.reset();
        }
    }
}

impl Forecaster for Bayesian {
    fn tick(&mut self, evidence: Evidence) {
        self.evolve();
        // Anything at all is at least one packet (`receiver.cc`).
        let count = |packets: f64| if packets > 0.0 { packets.round().max(1.0) } else { 0.0 };
        match evidence {
            Evidence::Nothing => {}
            Evidence::Exactly(packets) => self.observe(count(packets)),
            Evidence::AtLeast(packets) => self.observe_at_least(count(packets)),
        }
    }

    fn reset(&mut self) {
        let bins = self.weights.len();
        self.weights.fill(1.0 / bins as f64);
    }

    fn forecast(&self) -> Forecast {
        std::array::from_fn(|index| self.tables.quantile(&self.weights, index + 1, PERCENTILE))
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        report("rate_packets_per_s", self.mean_rate());
        report("outage_probability", self.outage());
        report("contradictions", self.contradictions as f64);
    }
}

/// Sprout-EWMA: the link goes on at its average rate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Average {
    /// Packets a tick.
    rate: f64,
}

impl Forecaster for Average {
    fn tick(&mut self, evidence: Evidence) {
        match evidence {
            Evidence::Nothing => {}
            Evidence::Exactly(packets) => self.rate += GAIN * (packets - self.rate),
            Evidence::AtLeast(packets) => self.rate += GAIN * (packets - self.rate).max(0.0),
        }
    }

    fn reset(&mut self) {
        self.rate = 0.0;
    }

    fn forecast(&self) -> Forecast {
        std::array::from_fn(|index| ((index + 1) as f64 * self.rate) as u32)
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        report("rate_packets_per_s", self.rate / TICK_SECS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};

    fn after(count: f64, ticks: usize) -> Bayesian {
        let mut process = Bayesian::new(1000.0, Outage::Release);
        for _ in 0..ticks {
            process.tick(Evidence::Exactly(count));
        }
        process
    }

    fn assert_near(got: &[u32], want: &[u32]) {
        let near = got.iter().zip(want).all(|(got, want)| got.abs_diff(*want) <= 1);
        assert!(near && got.len() == want.len(), "{got:?} is not {want:?}");
    }

    fn assert_mean(process: &Bayesian, want: f64) {
        assert!((process.mean_rate() - want).abs() <= 0.01 * want, "{} is not {want}", process.mean_rate());
    }

    #[test]
    fn golden_uniform() {
        assert_eq!(after(0.0, 0).forecast(), [1, 1, 3, 4, 5, 6, 8, 9]);
    }

    #[test]
    fn golden_steady_counts() {
        for (count, mean, forecast) in [
            (10.0, 505.9, [5, 12, 20, 27, 35, 43, 51, 59]),
            (5.0, 258.4, [2, 4, 8, 11, 14, 18, 21, 24]),
            (1.0, 68.0, [0, 0, 0, 1, 1, 2, 3, 4]),
            (20.0, 953.5, [12, 28, 44, 61, 77, 94, 111, 128]),
        ] {
            let process = after(count, 500);
            assert_mean(&process, mean);
            assert_near(&process.forecast(), &forecast);
        }
    }

    #[test]
    fn golden_silence_and_recovery() {
        let mut process = after(10.0, 500);
        let mut fifth = Vec::new();
        for mean in [413.0, 315.0, 210.0, 106.0, 43.0, 20.0] {
            process.tick(Evidence::Exactly(0.0));
            assert!((process.mean_rate() - mean).abs() <= 0.01 * mean + 0.5, "{} is not {mean}", process.mean_rate());
            fifth.push(process.forecast()[4]);
        }
        assert_near(&fifth[..4], &[27, 17, 8, 0]);
        assert!((process.outage() - 0.53).abs() < 0.01, "{}", process.outage());
        for _ in 0..500 {
            process.tick(Evidence::Exactly(0.0));
        }
        assert!((process.outage() - 0.970).abs() < 0.001, "{}", process.outage());
        let recovery: Vec<u32> = (0..7)
            .map(|_| {
                process.tick(Evidence::Exactly(10.0));
                process.forecast()[4]
            })
            .collect();
        assert_near(&recovery, &[4, 10, 14, 17, 20, 23, 24]);
    }

    #[test]
    fn an_outage_sticks_when_its_row_is_whole() {
        let mut process = Bayesian::new(1000.0, Outage::Normalised);
        for _ in 0..500 {
            process.tick(Evidence::Exactly(0.0));
        }
        assert!(process.outage() > 0.97);
        process.tick(Evidence::Nothing);
        assert!((process.outage() - 0.98).abs() < 0.02, "a silent tick that says nothing changes little");
    }

    #[test]
    fn any_counts_leave_a_distribution_and_a_rising_forecast() {
        let mut random = rand_pcg::Pcg64::seed_from_u64(7);
        for outage in [Outage::Normalised, Outage::Release] {
            let mut process = Bayesian::new(1000.0, outage);
            for _ in 0..3000 {
                process.tick(match random.random_range(0..8u32) {
                    0 => Evidence::Nothing,
                    1 => Evidence::Exactly(0.0),
                    2 => Evidence::Exactly(f64::from(random.random_range(0..1_000_000u32))),
                    3 => Evidence::AtLeast(f64::from(random.random_range(0..100u32))),
                    _ => Evidence::Exactly(f64::from(random.random_range(0..40u32))),
                });
                let sum: f64 = process.weights.iter().sum();
                assert!((sum - 1.0).abs() < 1e-9);
                assert!(process.weights.iter().all(|weight| weight.is_finite() && *weight >= 0.0));
                assert!(process.forecast().is_sorted());
            }
        }
    }

    #[test]
    fn a_faster_link_is_foreseen_to_deliver_more() {
        let mut before = [0; HORIZON];
        for count in 0..25 {
            let forecast = after(f64::from(count), 100).forecast();
            assert!(forecast.iter().zip(before).all(|(now, before)| *now >= before), "{count}");
            before = forecast;
        }
    }

    #[test]
    fn the_average_goes_on() {
        let mut average = Average::default();
        assert_eq!(average.forecast(), [0; HORIZON]);
        average.tick(Evidence::Exactly(8.0));
        average.tick(Evidence::Nothing);
        assert_eq!(average.forecast(), [1, 2, 3, 4, 5, 6, 7, 8]);
        for _ in 0..200 {
            average.tick(Evidence::Exactly(2.5));
        }
        assert_eq!(average.forecast()[..4], [2, 4, 7, 9]);
    }
}
