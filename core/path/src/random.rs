//! Random streams: one named generator (PCG64), seeded explicitly, one stream for each purpose.
//!
//! Distributions are drawn with `libm` alone, so that the same seed gives the same numbers on every platform.

use rand::Rng;
use rand_pcg::Pcg64;

/// What a stream is for. Streams of one seed do not depend on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Jitter = 1,
    Loss = 2,
    Duplicate = 3,
    Queue = 4,
    SynthRate = 5,
    SynthArrivals = 6,
    QueueLow = 7,
    Reorder = 8,
    Markov = 9,
    Backoff = 10,
    Competitor = 11,
    Interference = 12,
    RadioLoss = 13,
    RateWalk = 14,
    JitterSlot = 15,
}

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Stream(Pcg64);

impl Stream {
    pub(crate) fn new(seed: u64, purpose: Purpose) -> Self {
        // Seeds such as 1, 2, 3 differ in few bits; mixing makes their streams unlike (our choice: a bijection).
        Self(Pcg64::new(u128::from(mix(seed)) << 64 | u128::from(mix(!seed)), purpose as u128))
    }

    /// Uniform in [0, 1), 53 bits.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with this probability.
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Exponential with mean 1, by inversion.
    pub(crate) fn exponential(&mut self) -> f64 {
        -libm::log(1.0 - self.unit())
    }

    /// Poisson with this mean, of some tens at most: multiplied uniform numbers (Knuth, TAOCP 3.4.1).
    pub(crate) fn poisson(&mut self, mean: f64) -> u32 {
        let (least, mut product, mut count) = (libm::exp(-mean), self.unit(), 0);
        while product > least {
            product *= self.unit();
            count += 1;
        }
        count
    }

    /// Standard normal, by Box and Muller (1958).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(2.0 * self.exponential());
        radius * libm::cos(2.0 * std::f64::consts::PI * self.unit())
    }
}

/// A step of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), a bijection: seeds that differ in few bits become unlike.
pub fn mix(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_have_their_moments() {
        let mut stream = Stream::new(1, Purpose::Loss);
        let count = 200_000;
        let moments = |draw: &mut dyn FnMut() -> f64| {
            let (mut sum, mut squares) = (0.0, 0.0);
            for _ in 0..count {
                let value = draw();
                sum += value;
                squares += value * value;
            }
            let mean = sum / f64::from(count);
            (mean, squares / f64::from(count) - mean * mean)
        };
        // Tolerances of five standard errors.
        let (mean, variance) = moments(&mut || stream.unit());
        assert!((mean - 0.5).abs() < 0.0035 && (variance - 1.0 / 12.0).abs() < 0.001, "{mean} {variance}");
        let (mean, variance) = moments(&mut || stream.exponential());
        assert!((mean - 1.0).abs() < 0.012 && (variance - 1.0).abs() < 0.04, "{mean} {variance}");
        let (mean, variance) = moments(&mut || f64::from(stream.poisson(12.0)));
        assert!((mean - 12.0).abs() < 0.04 && (variance - 12.0).abs() < 0.2, "{mean} {variance}");
        let (mean, variance) = moments(&mut || stream.normal());
        assert!(mean.abs() < 0.012 && (variance - 1.0).abs() < 0.016, "{mean} {variance}");
    }

    #[test]
    fn streams_are_fixed_and_unlike() {
        let first = |seed, purpose| Stream::new(seed, purpose).0.next_u64();
        // Must never change: shipped traces and published results depend on it.
        assert_eq!(first(1, Purpose::Loss), first(1, Purpose::Loss));
        assert_ne!(first(1, Purpose::Loss), first(2, Purpose::Loss));
        assert_ne!(first(1, Purpose::Loss), first(1, Purpose::Jitter));
    }
}
