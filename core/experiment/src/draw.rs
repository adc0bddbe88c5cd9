//! Draws that workloads are made of. Inverse transforms by `libm`, so that every platform draws the same numbers.

use paceline_cc::Nanos;
use rand::RngExt;
use rand_pcg::Pcg64;

use crate::config::{Cut, Pareto};

/// Uniform in (0, 1].
fn unit(rng: &mut Pcg64) -> f64 {
    1.0 - rng.random::<f64>()
}

/// Exponentially distributed with this mean.
pub(crate) fn exponential(rng: &mut Pcg64, mean: Nanos) -> Nanos {
    mean.mul_f64(-libm::log(unit(rng)))
}

/// A size in bytes.
pub(crate) fn pareto(rng: &mut Pcg64, size: &Pareto) -> u64 {
    let (low, high) = (size.min as f64, size.max as f64);
    let (scale, u) = match size.cut {
        Cut::Clamp => (size.scale.unwrap_or(size.min) as f64, unit(rng)),
        // The survival function is uniform between its values at the two ends.
        Cut::Truncate => {
            let tail = libm::pow(low / high, size.alpha);
            (low, tail + (1.0 - tail) * unit(rng))
        }
    };
    (scale * libm::pow(u, -1.0 / size.alpha)).clamp(low, high) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;

    #[test]
    fn exponential_has_its_mean() {
        let mut rng = Seed(1).stream("test");
        let mean = Nanos::from_millis(10);
        let sum: u64 = (0..100_000).map(|_| exponential(&mut rng, mean).as_nanos()).sum();
        assert!((sum as f64 / 100_000.0 / 1e7 - 1.0).abs() < 0.02);
    }

    #[test]
    fn truncated_pareto_has_its_mean() {
        // alpha 0.5 cut to [1 kB, 5 MB]: the mean is sqrt(min * max) = 70.7 kB.
        let size = Pareto { alpha: 0.5, min: 1_000, max: 5_000_000, scale: None, cut: Cut::Truncate };
        let mut rng = Seed(1).stream("test");
        let draws: Vec<u64> = (0..200_000).map(|_| pareto(&mut rng, &size)).collect();
        assert!(draws.iter().all(|draw| (1_000..=5_000_000).contains(draw)));
        let mean = draws.iter().sum::<u64>() as f64 / draws.len() as f64;
        assert!((mean / 70_711.0 - 1.0).abs() < 0.03, "{mean}");
    }

    #[test]
    fn a_scale_below_the_range_puts_some_at_both_ends() {
        // P(X <= 1 kB) = 1 - sqrt(0.9) = 5.1 %, P(X >= 5 MB) = sqrt(900 / 5e6) = 1.34 %; the mean is 133 kB.
        let size = Pareto { alpha: 0.5, min: 1_000, max: 5_000_000, scale: Some(900), cut: Cut::Clamp };
        let mut rng = Seed(1).stream("test");
        let draws: Vec<u64> = (0..200_000).map(|_| pareto(&mut rng, &size)).collect();
        let share = |end: u64| draws.iter().filter(|draw| **draw == end).count() as f64 / draws.len() as f64;
        assert!((share(1_000) - 0.051).abs() < 0.002 && (share(5_000_000) - 0.0134).abs() < 0.001);
        let mean = draws.iter().sum::<u64>() as f64 / draws.len() as f64;
        assert!((mean / 133_300.0 - 1.0).abs() < 0.03, "{mean}");
    }
}
