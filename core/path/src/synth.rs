//! Synthetic cellular traces.
//!
//! Source: the link model of Winstein, Sivaraman and Balakrishnan, "Stochastic Forecasts Achieve High Throughput and
//! Low Delay over Cellular Networks" (Sprout), NSDI 2013, section 3: deliveries are a Poisson process; its rate is a
//! Brownian motion; a rate that falls to zero sticks there (an outage) and leaves at random at a given rate.
//!
//! Different, because a Brownian motion has no mean to come back to: the rate is pulled towards the mean with a time
//! constant (an Ornstein-Uhlenbeck process: without outages it spreads around the mean by `sigma * sqrt(relax / 2)`),
//! and the whole rate path is scaled at the end so that its mean over the lap is as asked in spite of outages.

use paceline_cc::{Nanos, Rate};

use crate::random::{Purpose, Stream};
use crate::trace::{OPPORTUNITY, Trace};

/// Time step of the rate: the tick of Sprout.
const TICK: f64 = 0.02;

/// Most opportunities of a lap (our choice: 256 MB of numbers; a mistyped unit must not eat the machine).
const MOST: f64 = 64e6;

/// What to synthesise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Synth {
    /// Mean rate over the lap.
    pub mean: Rate,
    /// Volatility of the rate: its standard deviation after a second without the pull (a second's square root in the
    /// unit). Sprout assumes 200 packets/s, which is 2.4 Mbit/s.
    pub sigma: Rate,
    /// Mean length of an outage; zero: the rate bounces off zero. Sprout assumes 1 s.
    pub outage: Nanos,
    /// Time constant of the pull towards the mean.
    pub relax: Nanos,
    /// Length of the lap; an opportunity at its very end marks it.
    pub length: Nanos,
    /// Same seed, same trace, on every platform.
    pub seed: u64,
}

impl Default for Synth {
    /// 12 Mbit/s; `sigma` and `outage` of Sprout; `relax` 5 s and 60 s are our choice.
    fn default() -> Self {
        Self {
            mean: Rate::from_mbps(12.0),
            sigma: Rate::from_mbps(2.4),
            outage: Nanos::from_secs(1),
            relax: Nanos::from_secs(5),
            length: Nanos::from_secs(60),
            seed: 1,
        }
    }
}

/// A parameter out of its range: which, and how to fix it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{param}: {fix}")]
pub struct SynthError {
    param: &'static str,
    fix: &'static str,
}

impl Synth {
    /// Makes the trace.
    pub fn trace(&self, name: &str) -> Result<Trace, SynthError> {
        let refuse = |param, fix| Err(SynthError { param, fix });
        let packets = |rate: Rate| rate.as_bytes_per_sec() as f64 / f64::from(OPPORTUNITY);
        let seconds = self.length.as_secs_f64();
        if self.mean == Rate::ZERO {
            return refuse("mean", "give a rate above 0, such as 12 Mbit/s");
        }
        if self.length < Nanos::from_secs(1) || self.length.as_nanos() / 1_000_000 > u64::from(u32::MAX) {
            return refuse("seconds", "give from 1 second to 49 days");
        }
        if packets(self.mean) * seconds > MOST {
            return refuse("mean", "mean and length make more than 64 million lines; lower one of them");
        }
        if self.relax < Nanos::from_millis(100) {
            return refuse("relax", "give at least 100ms");
        }
        if packets(self.sigma) > MOST {
            return refuse("sigma", "give a rate such as 2.4 Mbit/s");
        }
        let rates = self.rates(packets(self.mean), packets(self.sigma), seconds);
        Ok(self.deliveries(name, &rates))
    }

    /// Packets a second in each tick.
    fn rates(&self, mean: f64, sigma: f64, seconds: f64) -> Vec<f64> {
        let mut stream = Stream::new(self.seed, Purpose::SynthRate);
        let escape = match self.outage {
            Nanos::ZERO => 1.0,
            outage => 1.0 - libm::exp(-TICK / outage.as_secs_f64()),
        };
        let ticks = (seconds / TICK).ceil() as usize;
        let step = sigma * libm::sqrt(TICK);
        let pull = TICK / self.relax.as_secs_f64();
        let mut rate = mean;
        let mut rates = Vec::with_capacity(ticks);
        for _ in 0..ticks {
            rates.push(rate);
            if rate > 0.0 {
                rate += pull * (mean - rate) + step * stream.normal();
                if rate <= 0.0 {
                    rate = if self.outage == Nanos::ZERO { -rate } else { 0.0 };
                }
            } else if stream.chance(escape) {
                rate = (step * stream.normal()).abs();
            }
        }
        let sum: f64 = rates.iter().sum();
        let scale = mean * ticks as f64 / sum;
        rates.iter_mut().for_each(|rate| *rate *= scale);
        rates
    }

    /// A Poisson process of the given rates, in milliseconds, rounded up: by exponential steps in the integral of the
    /// rate.
    fn deliveries(&self, name: &str, rates: &[f64]) -> Trace {
        let mut stream = Stream::new(self.seed, Purpose::SynthArrivals);
        let end = (self.length.as_nanos() / 1_000_000) as u32;
        let mut times = Vec::new();
        let mut wait = stream.exponential();
        for (tick, rate) in rates.iter().enumerate() {
            let mut used = 0.0;
            let held = rate * TICK;
            while used + wait < held {
                used += wait;
                wait = stream.exponential();
                let millis = (tick as f64 + used / held) * TICK * 1e3;
                times.push((millis.ceil() as u32).min(end));
            }
            wait -= held - used;
        }
        if times.last() != Some(&end) {
            times.push(end);
        }
        Trace::from_sorted(name, times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::info::TraceInfo;

    #[test]
    fn the_mean_is_as_asked_and_the_seed_decides() {
        for seed in 1..5 {
            let synth = Synth { seed, ..Synth::default() };
            let trace = synth.trace("t").expect("valid");
            assert_eq!(trace.lap(), synth.length);
            // 60 000 deliveries: 5 standard deviations of the Poisson count are 2 %.
            let ratio = trace.mean_rate().as_mbps() / 12.0;
            assert!((ratio - 1.0).abs() < 0.02, "{ratio}");
            assert_eq!(trace, synth.trace("t").expect("valid"));
            assert_ne!(trace, Synth { seed: seed + 100, ..synth }.trace("t").expect("valid"));
        }
    }

    #[test]
    fn without_volatility_it_is_a_poisson_process() {
        let synth = Synth { sigma: Rate::ZERO, length: Nanos::from_secs(200), ..Synth::default() };
        let trace = synth.trace("t").expect("valid");
        // Counts of 10 ms bins: mean 10, and as much variance (index of dispersion 1, standard error 0.01).
        let mut counts = vec![0.0_f64; 20_000];
        for time in trace.millis() {
            counts[((*time - 1) / 10) as usize] += 1.0;
        }
        let mean = counts.iter().sum::<f64>() / 20_000.0;
        let variance = counts.iter().map(|count| (count - mean) * (count - mean)).sum::<f64>() / 20_000.0;
        assert!((mean - 10.0).abs() < 0.12, "{mean}");
        assert!((variance / mean - 1.0).abs() < 0.05, "{variance}");
    }

    #[test]
    fn outages_stick() {
        let mean = Rate::from_mbps(4.0);
        let sticky = Synth { mean, sigma: mean, length: Nanos::from_secs(300), ..Synth::default() };
        let bouncing = Synth { outage: Nanos::ZERO, ..sticky };
        let silence = |synth: Synth| TraceInfo::of(&synth.trace("t").expect("valid")).longest_silence;
        assert!(silence(sticky) > Nanos::from_secs(1), "{}", silence(sticky));
        assert!(silence(bouncing) < Nanos::from_millis(500), "{}", silence(bouncing));
    }

    #[test]
    fn nonsense_is_refused() {
        let error = |synth: Synth| synth.trace("t").unwrap_err().to_string();
        let good = Synth::default();
        assert!(error(Synth { mean: Rate::ZERO, ..good }).starts_with("mean: "));
        assert!(error(Synth { length: Nanos::ZERO, ..good }).starts_with("seconds: "));
        assert!(error(Synth { mean: Rate::from_mbps(1e9), ..good }).starts_with("mean: "));
        assert!(error(Synth { relax: Nanos::ZERO, ..good }).starts_with("relax: "));
        assert!(error(Synth { sigma: Rate::INFINITY, ..good }).starts_with("sigma: "));
    }
}
